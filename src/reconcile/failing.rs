//! Why a reconcile did not bring the spec into the cluster. Each error has one category, which decides when it is tried again.

use std::sync::Arc;
use std::time::Duration;

use super::hooking::Waiting;
use super::pace;
use crate::apply::ApplyError;
use crate::discovery::DiscoveryError;
use crate::error::{Category, of_kube, sentence};
use crate::hooks::run::HookError;
use crate::manifest::ManifestError;
use crate::object::ObjectId;
use crate::plan::PlanError;
use crate::preflight::Rejected;
use crate::protected::Protected;
use crate::prune::PruneError;
use crate::reach::ReachError;
use crate::release::{Status, StoreError, Trouble};
use crate::render::RenderError;
use crate::sensitive::NoObject;
use crate::sources::WantedError;
use crate::status::Failure;
use crate::trust::TrustError;
use crate::uninstall::UninstallError;

#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    #[error(transparent)]
    Wanted(#[from] WantedError),
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
    Trust(#[from] Arc<TrustError>),
    #[error(transparent)]
    Uninstall(#[from] UninstallError),
    #[error("cannot write the custom resource: {}", sentence(.0))]
    Write(kube::Error),
    #[error("cannot look at the release's objects: {}", sentence(.0))]
    Look(kube::Error),
    /// The release is not this custom resource's to change.
    #[error("{message}")]
    Refused { category: Category, message: String },
    #[error(
        "helm is at work on the release {release} (revision {revision} is {}); this goes on when it is done",
        status.as_str()
    )]
    HelmAtWork { release: String, revision: u32, status: Status },
    #[error(
        "given up after {}; it is not tried again until the spec, the chart or an annotation of the custom resource changes, and until then its objects are not repaired: {}",
        tries(.0.attempts), .0.message
    )]
    GaveUp(Trouble),
    #[error("{id} of the release before is still being deleted; waiting until it is gone")]
    StillGoing { id: Box<ObjectId> },
    #[error(
        "the record of the release {release} was deleted, and rendering the chart again would replace generated values, since {why}; restore what is missing from a backup, or set the annotation chartwright.dev/render-anew: \"true\" to have new values generated"
    )]
    RecordLost { release: String, why: String },
    #[error("{0}")]
    Annotation(String),
    #[error("the release's records change while they are looked at; this is tried again")]
    Unsettled,
    /// A first install finds objects of its release. It is made with the values that they hold.
    #[error("objects of the release exist already; this is tried again")]
    Existing,
    /// Something newer has come, or others need the room. Nothing was written, and nothing is told.
    #[error("interrupted")]
    Interrupted,
    /// helm has just begun to work on the release. Nothing is told unless it takes long.
    #[error("helm is at work")]
    Moment,
    /// What failed a moment ago is not tried again yet. It was told.
    #[error("it is not time to try again")]
    TooEarly(Duration),
    #[error(transparent)]
    Reach(#[from] ReachError),
    #[error(transparent)]
    NoObject(#[from] NoObject),
    #[error(transparent)]
    Protected(#[from] Protected),
    #[error(transparent)]
    Hook(#[from] HookError),
    /// A hook runs. It is told as what is under way, and not as a failure.
    #[error(transparent)]
    AtHook(Box<Waiting>),
    /// An object has to go, or a CRD to be established. It is told as what is under way, and not as a failure.
    #[error("{message}")]
    AtObject { message: String, look: Duration },
    #[error(
        "this resource made too many revisions in a row {}, so it now makes at most one per {} s; {}",
        if *is_edited { "of an edited spec" } else { "without a change of its spec" },
        pace::interval(*is_edited).as_secs(),
        if *is_edited {
            "find out what edits the spec"
        } else {
            "find out what changes the ConfigMaps and Secrets that its values come from, its records or its chart"
        }
    )]
    TooManyRevisions { wait: Duration, is_edited: bool },
    /// The same input failed before, and trying again would not help.
    #[error("{}", .0.message)]
    Again(Failure),
}

/// `1 try`, `4 tries`
pub(super) fn tries(count: u32) -> String {
    if count == 1 { "1 try".to_owned() } else { format!("{count} tries") }
}

impl ReconcileError {
    pub fn category(&self) -> Category {
        match self {
            ReconcileError::Wanted(error) => error.category(),
            ReconcileError::Render(error) => error.category(),
            ReconcileError::Manifest(error) => error.category(),
            ReconcileError::Discovery(error) => error.category(),
            ReconcileError::Plan(error) => error.category(),
            ReconcileError::Rejected(error) => error.category,
            ReconcileError::Apply(error) => error.category(),
            ReconcileError::Prune(error) => error.category(),
            ReconcileError::Store(error) => error.category(),
            ReconcileError::Trust(error) => error.category(),
            ReconcileError::Uninstall(error) => error.category(),
            ReconcileError::Write(error) | ReconcileError::Look(error) => of_kube(error),
            ReconcileError::Refused { category, .. } => *category,
            ReconcileError::Existing
            | ReconcileError::HelmAtWork { .. }
            | ReconcileError::StillGoing { .. }
            | ReconcileError::Unsettled => Category::Waiting,
            ReconcileError::GaveUp(_) => Category::RetriesExhausted,
            ReconcileError::RecordLost { .. } => Category::RecordLost,
            ReconcileError::Annotation(_) => Category::InvalidAnnotation,
            ReconcileError::Interrupted
            | ReconcileError::Moment
            | ReconcileError::TooEarly(_)
            | ReconcileError::AtHook(_)
            | ReconcileError::AtObject { .. } => Category::Waiting,
            ReconcileError::TooManyRevisions { .. } => Category::TooManyRevisions,
            ReconcileError::Reach(error) => error.category(),
            ReconcileError::NoObject(_) | ReconcileError::Protected(_) => Category::NotAllowed,
            ReconcileError::Hook(error) => error.category(),
            ReconcileError::Again(failure) => failure.category,
        }
    }

    /// Whether the custom resource says it. What was put off is told when it is done, by whoever does it.
    pub(super) fn is_told(&self) -> bool {
        !matches!(self, ReconcileError::Interrupted) && !self.lacks_room() && self.category() != Category::NotLeading
    }

    /// Whether nothing was done, since records of this size have to wait for those of others.
    pub(crate) fn lacks_room(&self) -> bool {
        matches!(self, ReconcileError::Store(StoreError::NoRoom { .. }))
    }

    /// Whether the same input gives the same error again.
    pub(super) fn depends_on_input_only(&self) -> bool {
        matches!(
            self.category(),
            Category::InvalidValues | Category::InvalidChart | Category::RenderFailed | Category::InvalidManifest
        )
    }
}
