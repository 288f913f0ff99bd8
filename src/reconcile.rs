//! The story of one custom resource: from its spec to objects in the cluster, and back out.
//!
//! ```text
//! records ▶ values ▶ digest ── deployed already ──▶ heal what drifted ──┐
//!                      │ unfinished: resume         │                    ▼
//!                      └─ new ▶ render ─────────────┴▶ roll out ▶ observe ▶ status
//! ```
//! What the watches know is enough for a resource at rest: the release's history is read only where something is to be done.
//! Nothing here holds a slot while it waits. What a stage decides is decided in that stage; this module only leads from one
//! to the next.

mod fights;
mod heal;
mod memory;
mod others;
mod report;
mod rollout;
mod subject;
mod uninstall;

use std::time::Duration;

use crate::apply::ApplyError;
use crate::chart::Chart;
use crate::custom_resource::CustomResource;
use crate::discovery::DiscoveryError;
use crate::error::{Category, of_kube, sentence};
use crate::manifest::{self, ManifestError, Rendered};
use crate::plan::PlanError;
use crate::preflight::Rejected;
use crate::prune::PruneError;
use crate::queue::{Turn, Urgency};
use crate::release::{History, Own, Release, Revisions, Status, StoreError, Summary};
use crate::render::RenderError;
use crate::status::{Failure, Stage};
use crate::uninstall::UninstallError;
use crate::values::{Values, ValuesError};

pub use memory::Memory;
pub use subject::{Context, FINALIZER, Subject};

/// What to do after a reconcile that went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait for a change.
    Rest,
    /// Look again after a while.
    Look(Duration),
    /// Something is still to be told.
    Soon(Duration),
}

/// The revision that is in the cluster after a reconcile.
pub struct Standing {
    pub revision: u32,
    /// None where another tool made it.
    pub own: Option<Own>,
    /// Its record, where it was at hand or the status does not tell of it yet.
    pub record: Option<Release>,
}

impl From<&Summary> for Standing {
    fn from(summary: &Summary) -> Self {
        Standing { revision: summary.revision, own: summary.own.clone(), record: None }
    }
}

impl From<Release> for Standing {
    fn from(release: Release) -> Self {
        Standing { revision: release.revision, own: release.own.clone(), record: Some(release) }
    }
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
    let subject = Subject::of(cr, context, turn);
    if cr.metadata.deletion_timestamp.is_some() {
        return Box::pin(subject.uninstall()).await;
    }
    let mut known = Revisions::default();
    subject.forget_attempt();
    let result = deploy(&subject, &mut known).await;
    if let Some(error) = result.as_ref().err().filter(|error| !matches!(error, ReconcileError::Interrupted)) {
        let stage = if known.deployed().is_some() { Stage::Upgrade } else { Stage::Install };
        let failure = Failure { category: error.category(), message: error.to_string(), stage };
        subject.remember(error, &failure);
        let standing = match known.latest().filter(|latest| latest.status == Status::Deployed) {
            // The new spec was refused before anything changed: the last good release is still kept in order.
            Some(latest) if !subject.was_looked_after() => keep_in_order(&subject, latest).await.ok(),
            _ => None,
        };
        let standing = standing.or_else(|| known.deployed().map(Standing::from));
        // The error decides when it is tried again. What is put off beside it has a time of its own.
        if let Next::Look(after) | Next::Soon(after) = subject.report(standing.as_ref(), Some(failure)).await? {
            turn.again(after, Urgency::Recheck);
        }
    }
    let standing = result?;
    subject.forget_attempt();
    let next = subject.report(Some(&standing), None).await?;
    tracing::debug!(kind = subject.owner.gvk.kind, namespace = subject.namespace, name = subject.release, "looked at");
    Ok(next)
}

/// What is in the cluster after this. `known` becomes what was known about the release when it began.
async fn deploy(subject: &Subject<'_>, known: &mut Revisions) -> Result<Standing, ReconcileError> {
    let mut history = None;
    *known = match subject.revisions() {
        Some(seen) => seen,
        None => Revisions::of(history.insert(subject.history().await?)),
    };
    subject.check_owner(known)?;
    let chart = subject.context.chart.current();
    let spec = subject.cr.spec().map_err(ReconcileError::Spec)?;
    let values = Values::new(spec.as_ref(), &subject.context.watch.overrides)?;
    let digest = subject.digest(&chart, &values);
    if let Some(latest) = known.latest().filter(|_| known.deployed_from(&digest).is_some()) {
        match keep_in_order(subject, latest).await {
            Err(ReconcileError::Plan(PlanError::UnknownKind { .. })) => {}
            result => return result,
        }
    }
    // Boxed, as all that a custom resource at rest does not need: many are looked at together.
    Box::pin(catch_up(subject, known, history, &chart, &values, digest)).await
}

/// Brings into the cluster what is not there yet: from a record that holds a render of the same input, or by a new render.
async fn catch_up(
    subject: &Subject<'_>,
    known: &mut Revisions,
    history: Option<History>,
    chart: &Chart,
    values: &Values,
    digest: String,
) -> Result<Standing, ReconcileError> {
    subject.check_known_refusal(&digest).await?;
    let is_upgrade = known.deployed().is_some();
    let (history, rendered) = match history {
        None if known.is_empty() && subject.is_new() => (History::default(), None),
        // Nothing that is known could be used again, so nobody waits for the records before helm starts.
        None if !known.has(&digest) => {
            let (history, rendered) =
                tokio::join!(subject.history(), subject.render(chart, values, &digest, is_upgrade));
            (history?, Some(rendered))
        }
        None => (subject.history().await?, None),
        Some(history) => (history, None),
    };
    *known = Revisions::of(&history);
    subject.check_owner(known)?;
    match from_record(subject, &history, &digest).await {
        // A record has no crds/: if one of those went, only a render brings it back.
        Some(Err(ReconcileError::Plan(PlanError::UnknownKind { .. }))) | None => {}
        Some(result) => return result,
    }
    let rendered = match rendered {
        Some(rendered) => rendered?,
        None => subject.render(chart, values, &digest, known.deployed().is_some()).await?,
    };
    let draft = subject.draft(chart, values, digest, &rendered, &history);
    Ok(subject.roll_out(draft, rendered, &history).await?.into())
}

/// A deployed revision with all its objects, and its record where the status does not tell of it yet.
async fn keep_in_order(subject: &Subject<'_>, deployed: &Summary) -> Result<Standing, ReconcileError> {
    let own = match &deployed.own {
        Some(own) => Some(Box::pin(subject.heal(deployed.revision, own)).await?),
        None => None,
    };
    let record = match subject.is_told(deployed.revision) {
        true => None,
        false => Some(match subject.untold(deployed.revision) {
            Some(record) => record,
            None => subject.release(deployed.revision).await?,
        }),
    };
    Ok(Standing { revision: deployed.revision, own, record })
}

/// What can be done without a render, where a record holds one of the same input.
async fn from_record(
    subject: &Subject<'_>,
    history: &History,
    digest: &str,
) -> Option<Result<Standing, ReconcileError>> {
    let is_this = |release: &&Release| release.own.as_ref().is_some_and(|own| own.digest == digest);
    if let Some(latest) = history.latest().filter(is_this) {
        if latest.status == Status::Deployed {
            return Some(keep_in_order(subject, &Summary::of(latest)).await);
        }
        if latest.status.is_unfinished() {
            return Some(match manifest::read(&latest.manifest) {
                Ok(rendered) => subject.roll_out(latest.clone(), rendered, history).await.map(Standing::from),
                Err(error) => Err(error.into()),
            });
        }
    }
    // A later revision did not finish, and the spec went back to the one before: its render is still the right one.
    let deployed = history.deployed().filter(is_this)?;
    Some(match subject.again(deployed.clone(), history) {
        Ok((draft, rendered)) => subject.roll_out(draft, rendered, history).await.map(Standing::from),
        Err(error) => Err(error),
    })
}

/// Whether a render has something that this version does not do.
fn lifecycle_hooks(rendered: &Rendered) -> Vec<String> {
    let hooks = rendered.hooks.iter().filter(|hook| hook.is_lifecycle());
    hooks.map(|hook| format!("{} ({})", hook.object.id(), hook.events.join(", "))).collect()
}
