//! One revision of a release, as Helm records it.
//!
//! The record is Helm's own Secret, so that `helm list`, `status`, `history`, `get` and `rollback` work on what we deploy.
//! What only we need is [`Own`], in a second data key that Helm does not read.
//!
//! | module | what is in it |
//! |---|---|
//! | [`codec`] | a record becomes a Secret and back |
//! | [`budget`] | how much of a record is read |
//! | [`gzip`] | packing |
//! | [`text`] | long texts, held packed |
//! | `weight` | the memory that a record takes |
//! | `lease` | the memory that all of them may take |
//! | [`history`] | all revisions of one release |
//! | [`revisions`] | the same in short |
//! | [`store`] | the Secrets in the cluster |
//! | `reading` | many of them, within budgets |
//! | [`records`] | all of them in short, from a watch |
//! | [`own`] | what only we need |
//! | [`proof`] | signatures on records |
//! | [`name`] | what a release is called |
//! | [`digest`] | one text for all inputs of a render |
//! | [`mask`] | a manifest without the data of Secrets |
//!
//! A record that another tool wrote is not judged and not tidied up: rewriting it changes the fields that were changed
//! here, and nothing else. A record that cannot be read is an error, never an absent release.

pub mod budget;
pub mod codec;
pub mod digest;
pub mod gzip;
pub mod history;
mod lease;
pub mod mask;
pub mod name;
pub mod own;
pub mod proof;
mod reading;
pub mod records;
pub mod revisions;
mod seal;
pub mod store;
pub mod text;
mod time;
mod weight;

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chart::recorded::Recorded;

pub use codec::{RecordError, Stored};
pub use digest::digest;
pub use history::History;
pub use mask::{with_secrets_masked, without_secret_data};
pub use name::NameTemplate;
pub use own::{Applied, HeldBy, Hold, Own, OwnerMark, Trouble};
pub use proof::{Doubt, Proof, Signer};
pub use records::Records;
pub use revisions::{Revisions, Summary};
pub use store::{Store, StoreError};
pub use text::{Json, Text};

/// No release has so many revisions. A record that says so is forged, and the next number must exist.
pub const LAST_REVISION: u32 = 1_000_000_000;

/// One revision.
#[derive(Clone, Debug, PartialEq)]
pub struct Release {
    pub name: String,
    pub namespace: String,
    pub revision: u32,
    pub status: Status,
    /// The content of Chart.yaml. The chart's templates and files are not recorded: Helm does without.
    pub chart: Value,
    /// The chart's default values: `helm upgrade --reuse-values` and `helm get values --all` need them.
    pub defaults: Json,
    /// The values that the custom resource gave.
    pub config: Json,
    /// As helm prints it: without hooks, and without what comes from crds/.
    pub manifest: Text,
    pub hooks: Vec<HookRecord>,
    pub notes: Text,
    pub description: String,
    pub first_deployed: Timestamp,
    pub last_deployed: Timestamp,
    /// None means that another tool wrote this record, or that nothing vouches for it. Give such a record an `Own` only after its
    /// objects were applied server-side, because the record then says so.
    pub own: Option<Own>,
    /// What the record says in the place of `own`, where nothing vouches for it.
    pub claimed: Option<Box<Own>>,
    pub proof: Proof,
    /// What the Secret held when it was read, so that a rewrite loses nothing. `Stored::default()` for a new record.
    pub stored: Stored,
}

impl Release {
    /// The name of the Secret.
    pub fn secret_name(&self) -> String {
        codec::secret_name(&self.name, self.revision)
    }

    /// The same record, with another status and the sentence that goes with it.
    pub fn with_status(&self, status: Status, description: &str) -> Release {
        Release { status, description: description.to_owned(), ..self.clone() }
    }

    pub fn chart_name(&self) -> &str {
        self.chart["name"].as_str().unwrap_or_default()
    }

    /// `app-1.2.3`, as `helm list` shows it.
    pub fn chart_label(&self) -> String {
        format!("{}-{}", self.chart_name(), self.chart["version"].as_str().unwrap_or_default())
    }

    /// The digest of the input that the manifest was rendered from, if we rendered it. The content signature covers the label.
    pub fn digest(&self) -> Option<&str> {
        match (&self.own, &self.proof) {
            (Some(own), _) => Some(&own.digest),
            (None, Proof::CopyOf { digest, .. }) => Some(digest),
            (None, Proof::Content) => self.stored.digest_label(),
            (None, _) => None,
        }
    }

    /// The digest that the record's label claims. Whoever writes the Secret can write it.
    pub fn digest_label(&self) -> Option<&str> {
        self.stored.digest_label()
    }

    /// Whether the release is this custom resource's, as far as this record proves it.
    pub fn belongs_to(&self, owner: &OwnerMark) -> Option<bool> {
        match (&self.own, &self.proof) {
            (Some(own), _) => Some(own.owner.is_same_resource(owner)),
            // It was signed for the custom resource that asks.
            (None, Proof::Content | Proof::CopyOf { .. }) => Some(true),
            (None, _) => None,
        }
    }

    /// Whether the record says that it is this custom resource's, whether or not anything proves it.
    pub fn claims_to_belong_to(&self, owner: &OwnerMark) -> Option<bool> {
        match self.own.as_ref().or(self.claimed.as_deref()) {
            Some(own) => Some(own.owner.is_same_resource(owner)),
            None => self.stored.owner_label().map(|label| label == owner.id()),
        }
    }

    /// Whether the record says that a custom resource of this operator has the release. By itself it proves nothing. helm keeps the label
    /// when it writes over a record, and has none on records of its own releases.
    pub fn is_claimed(&self) -> bool {
        self.own.is_some() || self.claimed.is_some() || self.stored.owner_label().is_some()
    }

    /// Whether the operator may take manifest, hooks and values from this record.
    pub fn is_proven(&self) -> bool {
        !matches!(self.proof, Proof::Missing(_))
    }

    /// Whether it was made over objects of the release without a record to believe.
    pub fn is_rebuilt(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.is_rebuilt)
    }

    /// Whether the record's Secret is owned by this object.
    pub fn is_owned_by(&self, uid: &str) -> bool {
        self.stored.is_owned_by(uid)
    }

    /// When anybody last wrote the record, by the API server's clock where that is known.
    pub fn written_at(&self) -> Timestamp {
        self.stored.written_at().unwrap_or(self.last_deployed)
    }

    /// The part `chart` of the record, as it was read.
    pub fn recorded_chart(&self) -> Option<Recorded> {
        self.stored.chart()
    }

    /// Whether helm made this revision, whoever looks after it now.
    pub fn was_made_by_helm(&self) -> bool {
        let is_held_for_helm = |own: &Own| own.hold.as_ref().is_some_and(|hold| hold.by == HeldBy::Helm);
        match (&self.own, &self.proof) {
            (Some(own), _) => !self.stored.is_thin() || is_held_for_helm(own),
            // helm superseded a revision of ours.
            (None, Proof::Content) => false,
            (None, _) => true,
        }
    }

    /// Whether we wrote this record. A label would prove nothing: `helm rollback` copies labels.
    pub fn is_ours(&self) -> bool {
        self.own.is_some()
    }
}

/// Where a revision is in its life, in Helm's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    Unknown,
    Deployed,
    Uninstalled,
    Superseded,
    Failed,
    Uninstalling,
    PendingInstall,
    PendingUpgrade,
    PendingRollback,
}

impl Status {
    pub const ALL: [Status; 9] = [
        Status::Unknown,
        Status::Deployed,
        Status::Uninstalled,
        Status::Superseded,
        Status::Failed,
        Status::Uninstalling,
        Status::PendingInstall,
        Status::PendingUpgrade,
        Status::PendingRollback,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Status::Unknown => "unknown",
            Status::Deployed => "deployed",
            Status::Uninstalled => "uninstalled",
            Status::Superseded => "superseded",
            Status::Failed => "failed",
            Status::Uninstalling => "uninstalling",
            Status::PendingInstall => "pending-install",
            Status::PendingUpgrade => "pending-upgrade",
            Status::PendingRollback => "pending-rollback",
        }
    }

    /// A word that no Helm of today uses is `Unknown`.
    pub fn parse(text: &str) -> Status {
        Status::ALL.into_iter().find(|status| status.as_str() == text).unwrap_or(Status::Unknown)
    }

    pub fn is_pending(self) -> bool {
        matches!(self, Status::PendingInstall | Status::PendingUpgrade | Status::PendingRollback)
    }

    /// Whether objects of this revision may be in the cluster although a later revision did not take them over.
    pub fn is_unfinished(self) -> bool {
        self.is_pending() || matches!(self, Status::Failed | Status::Uninstalling | Status::Unknown)
    }
}

/// A hook, as Helm records it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HookRecord {
    pub name: String,
    pub kind: String,
    /// The chart's file.
    pub path: String,
    pub manifest: Text,
    /// In Helm's words: `pre-install`, `test`.
    #[serde(deserialize_with = "codec::nullable")]
    pub events: Vec<String>,
    pub weight: i64,
    #[serde(deserialize_with = "codec::nullable", skip_serializing_if = "Vec::is_empty")]
    pub delete_policies: Vec<String>,
    #[serde(deserialize_with = "codec::nullable", skip_serializing_if = "Vec::is_empty")]
    pub output_log_policies: Vec<String>,
    #[serde(deserialize_with = "codec::nullable")]
    pub last_run: HookRun,
}

/// How a hook last ran in this revision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HookRun {
    #[serde(with = "time::optional", skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    #[serde(with = "time::optional", skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    pub phase: HookPhase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "&'static str")]
pub enum HookPhase {
    /// It did not run.
    #[default]
    None,
    Unknown,
    Running,
    Succeeded,
    Failed,
}

impl From<String> for HookPhase {
    fn from(text: String) -> Self {
        match text.as_str() {
            "" => HookPhase::None,
            "Running" => HookPhase::Running,
            "Succeeded" => HookPhase::Succeeded,
            "Failed" => HookPhase::Failed,
            _ => HookPhase::Unknown,
        }
    }
}

impl From<HookPhase> for &'static str {
    fn from(phase: HookPhase) -> Self {
        match phase {
            HookPhase::None => "",
            HookPhase::Unknown => "Unknown",
            HookPhase::Running => "Running",
            HookPhase::Succeeded => "Succeeded",
            HookPhase::Failed => "Failed",
        }
    }
}
