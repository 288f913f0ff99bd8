//! What an apply has to wait for: a state that ends the turn, never a sleep that holds a worker.
//!
//! Most waits end within milliseconds: the name of a deleted object becomes free, a CRD is established. A turn grants all of
//! them together [`Patience`] of a few hundred milliseconds. What takes longer becomes an [`Awaited`] error, the turn ends, and
//! a later turn looks again.

use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use kube::Error;

use super::ApplyError;
use super::crds::GroupKind;
use crate::calls::Calls;
use crate::discovery::Kind;
use crate::health::{self, State};
use crate::object::ObjectId;
use crate::plan::Planned;

/// How long all waits of one turn may take together.
const MOMENT: Duration = Duration::from_millis(300);
/// How often a turn looks during that time.
const LOOK: Duration = Duration::from_millis(50);
/// How long a CRD may take to be established. Helm waits as long.
pub const ESTABLISHED_WITHIN: Duration = Duration::from_secs(60);
/// How long the API server may take to serve a kind as its changed CRD defines it. It takes milliseconds.
const SERVED_WITHIN: Duration = Duration::from_secs(5);

/// What has to happen.
#[derive(Clone, Debug)]
pub struct Condition {
    pub id: ObjectId,
    pub kind: Kind,
    pub event: Event,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The object with this UID is gone, so that its successor can be created.
    Gone { uid: String },
    /// The CRD is established.
    Established,
    /// The API server knows the current schema of this kind.
    Served(GroupKind),
}

impl Condition {
    pub fn gone(planned: &Planned, uid: &str) -> Self {
        Condition::of(planned, Event::Gone { uid: uid.to_owned() })
    }

    pub fn established(planned: &Planned) -> Self {
        Condition::of(planned, Event::Established)
    }

    pub fn served(planned: &Planned) -> Self {
        let kind = (planned.object.gvk().group, planned.object.kind().to_owned());
        Condition::of(planned, Event::Served(kind))
    }

    fn of(planned: &Planned, event: Event) -> Self {
        Condition { id: planned.object.id(), kind: planned.kind.clone(), event }
    }

    pub fn is_same(&self, other: &Condition) -> bool {
        (&self.id, &self.event) == (&other.id, &other.event)
    }

    /// After this time the wait counts as a failure. None: nobody but a person can say how long a finalizer may take.
    pub fn limit(&self) -> Option<Duration> {
        match self.event {
            Event::Gone { .. } => None,
            Event::Established => Some(ESTABLISHED_WITHIN),
            Event::Served(_) => Some(SERVED_WITHIN),
        }
    }

    /// Whether it has happened. Whether a schema is served, only the next apply can tell.
    pub async fn holds(&self, calls: &Calls) -> Result<bool, Error> {
        match &self.event {
            Event::Gone { uid } => {
                let live = calls.metadata(&self.kind, &self.id).await?;
                Ok(live.is_none_or(|live| live.uid.as_ref() != Some(uid)))
            }
            Event::Established => {
                let live = calls.get(&self.kind, &self.id).await?.and_then(|live| serde_json::to_value(live).ok());
                Ok(live.is_some_and(|live| health::of(&live, Timestamp::now()).state == State::Current))
            }
            Event::Served(_) => Ok(true),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = &self.id;
        match &self.event {
            Event::Gone { .. } => write!(
                f,
                "waiting until {id} is deleted; it is created again after that. If it stays, look at its finalizers"
            ),
            Event::Established => write!(f, "waiting until {id} is established"),
            Event::Served(_) => write!(f, "waiting until the API server serves the changed kind of {id}"),
        }
    }
}

/// A wait that took longer than a turn may wait.
#[derive(Debug, thiserror::Error)]
#[error("{condition}")]
pub struct Awaited {
    pub condition: Condition,
    /// What it becomes after its limit.
    otherwise: Option<Error>,
}

impl Awaited {
    pub fn new(condition: Condition) -> Self {
        Awaited { condition, otherwise: None }
    }

    pub fn refused(condition: Condition, error: Error) -> Self {
        Awaited { condition, otherwise: Some(error) }
    }

    /// The error after the limit.
    pub fn into_failure(self) -> ApplyError {
        let id = Box::new(self.condition.id);
        match (self.condition.event, self.otherwise) {
            (_, Some(error)) => ApplyError::Refused { id, error },
            (Event::Established, None) => ApplyError::NotEstablished { id },
            (_, None) => ApplyError::StillThere { id },
        }
    }
}

/// The time that a turn may still wait. It begins with the first wait, and all waits share it.
#[derive(Default)]
pub struct Patience(OnceLock<Instant>);

impl Patience {
    /// Sleeps for a moment. False where no time is left.
    pub async fn pause(&self) -> bool {
        let end = *self.0.get_or_init(|| Instant::now() + MOMENT);
        let is_left = Instant::now() < end;
        if is_left {
            tokio::time::sleep(LOOK).await;
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_waits_of_a_turn_share_a_few_hundred_milliseconds() {
        let (patience, began) = (Patience::default(), Instant::now());
        for _ in 0..100 {
            while patience.pause().await {}
        }
        let took = began.elapsed();
        assert!(took >= MOMENT && took < Duration::from_secs(2), "{took:?}");
    }
}
