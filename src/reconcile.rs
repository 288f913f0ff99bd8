//! The story of one custom resource: from its spec to objects in the cluster, and back out.
//!
//! ```text
//! history ▶ values ▶ digest ── deployed already ──▶ heal what drifted ──┐
//!                      │ unfinished: resume         │                    ▼
//!                      └─ new ▶ render ─────────────┴▶ roll out ▶ observe ▶ status
//! ```
//! Nothing here holds a slot while it waits. What a stage decides is decided in that stage; this module only leads from one
//! to the next.

mod fights;
mod heal;
mod memory;
mod report;
mod rollout;
mod subject;
mod uninstall;

use std::time::Duration;

use crate::apply::ApplyError;
use crate::custom_resource::CustomResource;
use crate::discovery::DiscoveryError;
use crate::error::{Category, of_kube, sentence};
use crate::manifest::{self, ManifestError, Rendered};
use crate::plan::PlanError;
use crate::preflight::Rejected;
use crate::prune::PruneError;
use crate::queue::Turn;
use crate::release::{History, Release, Status, StoreError};
use crate::render::RenderError;
use crate::status::{Failure, Stage};
use crate::uninstall::UninstallError;
use crate::values::{Values, ValuesError};

pub use memory::Memory;
pub use subject::{Context, Subject};

/// What to do after a reconcile that went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait for a change.
    Rest,
    /// Look again after a while.
    Look(Duration),
}

#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    #[error(transparent)]
    Values(#[from] ValuesError),
    #[error("the spec cannot be read: {0}")]
    Spec(serde_json::Error),
    #[error(transparent)]
    Render(#[from] RenderError),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Rejected(#[from] Rejected),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error(transparent)]
    Prune(#[from] PruneError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Uninstall(#[from] UninstallError),
    #[error("cannot write the custom resource: {}", sentence(.0))]
    Write(kube::Error),
    #[error("cannot look at the release's objects: {}", sentence(.0))]
    Look(kube::Error),
    #[error("the release {release} exists and {who}")]
    NotOurs { release: String, who: String },
    /// Something newer has come, or others need the room. Nothing was written, and nothing is told.
    #[error("interrupted")]
    Interrupted,
    /// The same input failed before, and trying again would not help.
    #[error("{}", .0.message)]
    Again(Failure),
}

impl ReconcileError {
    pub fn category(&self) -> Category {
        match self {
            ReconcileError::Values(_) | ReconcileError::Spec(_) => Category::InvalidValues,
            ReconcileError::Render(error) => error.category(),
            ReconcileError::Manifest(error) => error.category(),
            ReconcileError::Discovery(error) => error.category(),
            ReconcileError::Plan(error) => error.category(),
            ReconcileError::Rejected(error) => error.category,
            ReconcileError::Apply(error) => error.category(),
            ReconcileError::Prune(error) => error.category(),
            ReconcileError::Store(error) => error.category(),
            ReconcileError::Uninstall(error) => error.category(),
            ReconcileError::Write(error) | ReconcileError::Look(error) => of_kube(error),
            ReconcileError::NotOurs { .. } => Category::BelongsToAnother,
            ReconcileError::Interrupted => Category::Waiting,
            ReconcileError::Again(failure) => failure.category,
        }
    }

    /// Whether the same input gives the same error again.
    fn depends_on_input_only(&self) -> bool {
        matches!(
            self.category(),
            Category::InvalidValues | Category::InvalidChart | Category::RenderFailed | Category::InvalidManifest
        )
    }
}

/// Brings one custom resource's objects to what its spec says, and reports how it went.
pub async fn reconcile(cr: &CustomResource, context: &Context, turn: &Turn) -> Result<Next, ReconcileError> {
    let Some(cr) = Subject::fresh(cr, context, turn).await? else { return Ok(Next::Rest) };
    let cr = cr.as_ref();
    let subject = Subject::of(cr, context, turn);
    if cr.metadata.deletion_timestamp.is_some() {
        return subject.uninstall().await;
    }
    let mut history = History::default();
    let result = deploy(&subject, &mut history).await;
    if let Some(error) = result.as_ref().err().filter(|error| !matches!(error, ReconcileError::Interrupted)) {
        let stage = if history.deployed().is_some() { Stage::Upgrade } else { Stage::Install };
        let failure = Failure { category: error.category(), message: error.to_string(), stage };
        subject.remember(error, &failure);
        let deployed = match history.latest().filter(|latest| latest.status == Status::Deployed) {
            // The new spec was refused before anything changed: the last good release is still kept in order.
            Some(latest) => subject.heal(latest).await.ok(),
            None => history.deployed().cloned(),
        };
        subject.report(deployed.as_ref().or(history.deployed()), Some(failure)).await?;
    }
    let release = result?;
    subject.report(Some(&release), None).await
}

/// The release that is in the cluster after this.
async fn deploy(subject: &Subject<'_>, history: &mut History) -> Result<Release, ReconcileError> {
    *history = subject.history().await?;
    subject.check_owner(history)?;
    let chart = subject.context.chart.current();
    let spec = subject.cr.spec().map_err(ReconcileError::Spec)?;
    let values = Values::new(spec.as_ref(), &subject.context.watch.overrides)?;
    let digest = subject.digest(&chart, &values);
    let is_this = |release: &&Release| release.own.as_ref().is_some_and(|own| own.digest == digest);
    match from_record(subject, history, is_this).await {
        // A record has no crds/: if one of those went, only a render brings it back.
        Some(Err(ReconcileError::Plan(PlanError::UnknownKind { .. }))) | None => {}
        Some(result) => return result,
    }
    let rendered = subject.render(&chart, &values, &digest, history).await?;
    let draft = subject.draft(&chart, &values, digest, &rendered, history);
    subject.roll_out(draft, rendered, history).await
}

/// What can be done without a render, where a record holds one of the same input.
async fn from_record(
    subject: &Subject<'_>,
    history: &History,
    is_this: impl Fn(&&Release) -> bool,
) -> Option<Result<Release, ReconcileError>> {
    if let Some(latest) = history.latest().filter(&is_this) {
        if latest.status == Status::Deployed {
            return Some(subject.heal(latest).await);
        }
        if latest.status.is_unfinished() {
            return Some(match manifest::read(&latest.manifest) {
                Ok(rendered) => subject.roll_out(latest.clone(), rendered, history).await,
                Err(error) => Err(error.into()),
            });
        }
    }
    // A later revision did not finish, and the spec went back to the one before: its render is still the right one.
    let deployed = history.deployed().filter(&is_this)?;
    Some(match subject.again(deployed.clone(), history) {
        Ok((draft, rendered)) => subject.roll_out(draft, rendered, history).await,
        Err(error) => Err(error),
    })
}

/// Whether a render has something that this version does not do.
fn lifecycle_hooks(rendered: &Rendered) -> Vec<String> {
    let hooks = rendered.hooks.iter().filter(|hook| hook.is_lifecycle());
    hooks.map(|hook| format!("{} ({})", hook.object.id(), hook.events.join(", "))).collect()
}
