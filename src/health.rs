//! Is a live Kubernetes object healthy, and if not, why?
//!
//! Pure questions, each a function over JSON as the API server returns it:
//!
//! | question | answer |
//! |---|---|
//! | [`of`] | the [`Health`] of one object, by the rules of kstatus |
//! | [`why`] | the [`Cause`] a person needs when a workload is not ready, from its pods and their Events |
//! | [`unexplained`] | whose Events would tell more, to read only those |
//! | [`has_started`] | whether a container of a pod has ever run |
//! | [`summary`] | one sentence over all objects of a release |
//! | [`selector_of`] | which pods belong to a workload, to list them for [`why`] |
//! | [`scale_of`] | how many pods a workload has, for the scale subresource |
//!
//! [`trim`] cuts an object down to what these functions read, so that watching workloads stays cheap.
//!
//! This module refuses to talk to a cluster, to read a clock (the caller passes `now`), to wait, and to fail: whatever
//! JSON it is given, it answers. A field that is missing counts as the API's default, a field of the wrong type as
//! missing.
//!
//! # Rules
//! kstatus (sigs.k8s.io/cli-utils) is the ecosystem's definition of ready: Flux, Helm 4 and kpt judge by it. Its order
//! is ours:
//! 1. `metadata.deletionTimestamp`: Terminating.
//! 2. `status.observedGeneration` differs from `metadata.generation`: InProgress.
//! 3. Condition `Reconciling=True`: InProgress; `Stalled=True`: Failed.
//! 4. The rules of the kind, where it is a known one (`health/workloads.rs`, `health/kinds.rs`).
//! 5. For other kinds the condition `Ready`; without one, Current.
//!
//! # Where we differ from kstatus, and why
//! `tests/data/health-vectors.json` has these as vectors, next to those on which both agree.
//! * **A Job that runs is InProgress.** kstatus calls it Current once it has started; Helm waits until it is complete,
//!   and so do hooks and `Ready`. A suspended Job is InProgress too and says so: it has not done its work. (Released
//!   kstatus agrees, because a suspended Job has no start time; its main branch calls it Current.)
//! * **A Pod that failed is Failed.** kstatus calls it Current, since it will not change any more. A release whose Pod
//!   died is not healthy, and Helm's hooks treat it as a failure.
//! * **A paused Deployment whose replicas are all updated and available is Current.** kstatus leaves it InProgress for
//!   ever, because a paused Deployment never reports a finished rollout. Whoever paused it expects what runs to count;
//!   Helm 3 and `kubectl rollout status` see it so. While replicas are missing or outdated it is InProgress, and the
//!   message says that it is paused.
//! * **What kstatus answers with an error** (conditions that are no list, a generation that is no number, a Pod in
//!   phase Unknown) is read as far as it goes; only a Pod phase nobody knows is Unknown.
//! * **An object without a kind is Unknown.** Items of a List come without `apiVersion` and `kind`; set those before
//!   asking. kstatus would call every one of them Current.
//!
//! A verdict may have a [`Cause`]: a Deployment that cannot create pods (quota, admission) carries the API server's
//! refusal, a Pod what its containers wait for. Where there is one, a person reads the cause and not the count of
//! replicas: that may be about other pods. No message holds a duration or a restart count, because every change of a
//! message is a write of somebody's status.
//!
//! # Fields that are read
//! All kinds: `apiVersion`, `kind`, `metadata.{name,generation,deletionTimestamp}`, `status.observedGeneration`,
//! `status.conditions[].{type,status,reason,message}`. Known kinds: the tables in `health/trim.rs`,
//! which tests hold to be complete and to be nothing but needed.

mod causes;
mod containers;
mod events;
mod fields;
mod kinds;
mod pods;
pub mod scale;
mod selector;
mod summary;
#[cfg(test)]
mod tests;
mod trim;
mod wording;
mod workloads;

use std::fmt;

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ellipsis::shortened;

pub use causes::{Cause, unexplained, why};
pub use pods::has_started;
pub use scale::{Scale, scale_of};
pub use selector::selector_of;
pub use summary::{Summary, summary};
pub use trim::trim;

/// What kstatus calls a status. The order is severity: the greatest is the worst.
///
/// The names are kstatus' own, here and wherever they are written, because other tools read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum State {
    /// Does what its spec asks for. What we report as ready.
    Current,
    /// On its way, or waiting for something.
    InProgress,
    /// Being deleted.
    Terminating,
    /// Cannot be judged.
    Unknown,
    /// Does not exist.
    NotFound,
    /// Will not get there without help.
    Failed,
}

impl State {
    /// kstatus' name for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Current => "Current",
            Self::InProgress => "InProgress",
            Self::Terminating => "Terminating",
            Self::Unknown => "Unknown",
            Self::NotFound => "NotFound",
            Self::Failed => "Failed",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The health of one object: what, why in one word, why in a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// The verdict.
    pub state: State,
    /// One CamelCase word.
    reason: String,
    /// One line for a person; never empty.
    message: String,
    /// What is wrong, where that is known. Few objects have one, so it takes no room in the others.
    cause: Option<Box<Cause>>,
}

impl Health {
    /// Longest sentence in bytes. Health is listed in a CR's status for every object, so each has to be small.
    pub const SENTENCE_LIMIT: usize = 512;

    /// A verdict with its text made fit for a status: one line, bounded. A reason that cannot stand in a condition becomes
    /// the state's name, an empty message the reason.
    pub fn new(state: State, reason: &str, message: &str) -> Self {
        let reason = wording::word(reason).unwrap_or(state.as_str());
        let message = if message.trim().is_empty() { reason } else { message };
        let message = shortened(&wording::one_line(message), Self::SENTENCE_LIMIT);
        Self { state, reason: reason.to_owned(), message, cause: None }
    }

    /// The health of an object that should exist and does not.
    pub fn not_found() -> Self {
        Self::new(State::NotFound, "NotFound", "does not exist")
    }

    /// Whether it counts as ready.
    pub fn is_ready(&self) -> bool {
        self.state == State::Current
    }

    /// Whether something is wrong, and not just on its way.
    pub fn is_degraded(&self) -> bool {
        self.cause.as_ref().is_some_and(|cause| !cause.is_wait) || self.state == State::Failed
    }

    /// What is wrong, where that is known.
    pub fn cause(&self) -> Option<&Cause> {
        self.cause.as_deref()
    }

    /// The same verdict, with what is behind it.
    #[must_use]
    pub fn because(self, cause: Cause) -> Self {
        Self { cause: Some(Box::new(cause)), ..self }
    }

    /// One CamelCase word: of the cause, unless that is just that a container of a failed object exited.
    pub fn reason(&self) -> &str {
        match self.cause() {
            Some(cause) if self.state != State::Failed || cause.reason != containers::EXITED => &cause.reason,
            _ => &self.reason,
        }
    }

    /// One line for a person who knows the object: `cannot pull image "x:y" (container "app" of pod web-1)`.
    pub fn sentence(&self) -> String {
        let sentence = self.cause().map_or_else(|| self.message.clone(), Cause::sentence);
        shortened(&sentence, Self::SENTENCE_LIMIT)
    }

    /// The same for a person who does not. A cause comes first, before the names:
    /// `cannot pull image "x:y" (container "app" of pod web-1, Deployment shop/web)`.
    pub fn sentence_about(&self, object: impl fmt::Display) -> String {
        match self.cause() {
            Some(cause) => cause.sentence_about(object),
            None => format!("{object}: {}", self.message),
        }
    }

    /// The same with every text for a person changed, to hide what must not be shown.
    #[must_use]
    pub fn with_texts(mut self, change: impl Fn(&str) -> String) -> Self {
        self.message = change(&self.message);
        if let Some(cause) = &mut self.cause {
            cause.message = change(&cause.message);
        }
        self
    }

    /// Only what this program says itself: nobody looked for secrets in the words of others.
    #[must_use]
    pub fn without_quotes(self) -> Self {
        let reason = self.reason().to_owned();
        Self { message: reason, cause: None, ..self }
    }

    fn current(reason: &str, message: &str) -> Self {
        Self::new(State::Current, reason, message)
    }

    fn in_progress(reason: &str, message: &str) -> Self {
        Self::new(State::InProgress, reason, message)
    }

    fn failed(reason: &str, message: &str) -> Self {
        Self::new(State::Failed, reason, message)
    }
}

/// Judges a live object, whole or [trimmed](trim).
///
/// `now` matters to one rule only: a Pod that finds no node counts as Failed once it is 15 seconds old. That is the one
/// verdict that changes without an event from the cluster.
pub fn of(object: &Value, now: Timestamp) -> Health {
    generic(object).unwrap_or_else(|| by_kind(object, now))
}

/// What holds for every kind, and goes before the kind's own rules.
fn generic(object: &Value) -> Option<Health> {
    if fields::is_deleted(object) {
        return Some(Health::new(State::Terminating, "Terminating", "is being deleted"));
    }
    let generation = fields::number(object, "/metadata/generation");
    let observed = fields::number(object, "/status/observedGeneration");
    if let (Some(generation), Some(observed)) = (generation, observed)
        && generation != observed
    {
        let message = format!("generation {generation} is not observed yet, the last one was {observed}");
        return Some(Health::in_progress("GenerationNotObserved", &message));
    }
    // The first that is true decides; a well-behaved controller sets only one.
    fields::conditions(object).filter(|condition| condition.is_true()).find_map(|condition| match condition.kind {
        "Reconciling" => Some(Health::in_progress(condition.reason_or("Reconciling"), condition.message)),
        "Stalled" => Some(Health::failed(condition.reason_or("Stalled"), condition.message)),
        _ => None,
    })
}

fn by_kind(object: &Value, now: Timestamp) -> Health {
    use fields::Kind;
    match Kind::of(object) {
        Kind::Deployment => workloads::deployment(object),
        Kind::StatefulSet => workloads::stateful_set(object),
        Kind::DaemonSet => workloads::daemon_set(object),
        Kind::ReplicaSet => workloads::replica_set(object),
        Kind::Job => workloads::job(object),
        Kind::Pod => kinds::pod(object, now),
        Kind::Service => kinds::service(object),
        Kind::Claim => kinds::claim(object),
        Kind::Definition => kinds::definition(object),
        // Nothing about these can be unready; kstatus does not look at their Ready condition either.
        Kind::Inert => Health::current("Exists", "exists"),
        Kind::Other => kinds::other(object),
        // Calling this Current would make every workload that lost its kind on the way look ready.
        Kind::Absent => Health::new(State::Unknown, "NoKind", "has no kind, so it cannot be judged"),
    }
}
