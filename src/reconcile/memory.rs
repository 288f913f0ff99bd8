//! What is remembered about custom resources between reconciles. All of it may be lost: it saves work, and decides nothing
//! that the cluster could not tell again.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

use super::awaiting::Pending;
use super::explaining::{Explained, Reported};
use super::fights::Fights;
use super::journal::SELDOM;
use super::pace::Pace;
use crate::drift::Hash;
use crate::object::ObjectId;
use crate::release::Release;
use crate::status::Failure;
use crate::values::from::SourceKind;

#[derive(Default)]
pub struct Memory(Mutex<HashMap<String, Remembered>>);

#[derive(Default)]
pub struct Remembered {
    /// An input that cannot be deployed, and why.
    pub refused: Option<(Input, Failure)>,
    /// The input of the running attempt, once it is known.
    pub trying: Option<Input>,
    /// Why objects are not ready, and when to ask again.
    pub causes: HashMap<ObjectId, Explained>,
    pub asked: u32,
    pub ask_at: Option<Instant>,
    /// Which causes were reported.
    pub reported: Reported,
    pub fights: Fights,
    pub repairs: Repairs,
    /// A revision that the status does not tell of yet.
    pub untold: Option<Box<Untold>>,
    /// Stands for the annotations that could not be read and were told.
    pub problems: Hash,
    /// Stands for sentences that hold nothing which must not be shown, and for what that was.
    pub harmless: Option<Hash>,
    /// Kinds that values come from and that cannot be watched, which was told.
    pub unwatched: Vec<SourceKind>,
    /// Stands for the last warning, and when it was told.
    pub warned: Option<(Hash, Instant)>,
    /// The request for a full check that was answered last. A status that cannot be written, or drops it, does not say so.
    pub answered: Option<String>,
    /// When a revision that failed may be tried again, whatever is told before: its own objects tell much.
    pub try_at: Option<Instant>,
    /// What its rollout waits for.
    pub awaited: Option<Box<Pending>>,
    /// The revisions that it made of late.
    pub pace: Pace,
    /// It is being deleted and its release is gone, whatever else is still to be done.
    pub is_without_release: bool,
    /// So is our finalizer, whatever an older picture of it says.
    pub is_let_go: bool,
}

pub struct Untold {
    pub record: Release,
    pub since: Instant,
}

impl Remembered {
    /// Whether nothing is lost when this is dropped: so it is with most custom resources at most times.
    fn is_nothing(&self) -> bool {
        let Remembered { refused, trying, causes, asked: _, ask_at, fights, untold, problems, .. } = self;
        let Remembered { harmless, unwatched, try_at, repairs, warned, answered, .. } = self;
        let Remembered { is_without_release, is_let_go, awaited, pace, reported, .. } = self;
        refused.is_none()
            && trying.is_none()
            && causes.is_empty()
            && ask_at.is_none()
            && fights.is_empty()
            && untold.is_none()
            && *problems == Hash::default()
            && harmless.is_none()
            && unwatched.is_empty()
            && try_at.is_none()
            && answered.is_none()
            && awaited.is_none()
            && pace.is_at_rest()
            && reported.is_nothing()
            && !is_without_release
            && !is_let_go
            && warned.is_none_or(|(_, at)| at.elapsed() > SELDOM)
            && *repairs == Repairs::default()
    }
}

/// Objects that were repaired.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// Since the last status.
    untold: u64,
    /// What that said.
    told: u64,
}

impl Repairs {
    pub fn note(&mut self, objects: usize) {
        self.untold = self.untold.saturating_add(objects as u64);
    }

    /// How many there were in all, if there were some since the last status. `told` is what a status says that may be older.
    pub fn all(&self, told: u64) -> Option<u64> {
        (self.untold > 0).then(|| self.told.max(told).saturating_add(self.untold))
    }

    /// A status was written that says so.
    pub fn told(&mut self, all: Option<u64>) {
        if let Some(all) = all {
            *self = Repairs { untold: 0, told: all };
        }
    }
}

/// Everything that a render depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    pub digest: String,
    /// What the cluster offered to the render.
    pub capabilities: u64,
}

impl Memory {
    pub fn with<T>(&self, uid: &str, change: impl FnOnce(&mut Remembered) -> T) -> T {
        // A poisoned lock still holds what was remembered.
        let mut all = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let remembered = all.entry(uid.to_owned()).or_default();
        let result = change(remembered);
        if remembered.is_nothing() {
            all.remove(uid);
        }
        result
    }

    pub fn forget(&self, uid: &str) {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repairs_add_up_also_where_the_status_at_hand_is_old() {
        let mut repairs = Repairs::default();
        assert_eq!(repairs.all(7), None, "nothing is written at rest");
        repairs.note(2);
        assert_eq!(repairs.all(7), Some(9));
        repairs.told(Some(9));
        repairs.note(1);
        assert_eq!(repairs.all(7), Some(10), "the status with 9 has not come back yet");
        repairs.told(None);
        assert_eq!(repairs.all(9), Some(10), "a status that could not be written does not count");
    }
}
