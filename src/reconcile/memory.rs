//! What is remembered about custom resources between reconciles. All of it may be lost: it saves work, and decides nothing
//! that the cluster could not tell again.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::health::Cause;
use crate::object::ObjectId;
use crate::status::Failure;

#[derive(Default)]
pub struct Memory(Mutex<HashMap<String, Remembered>>);

#[derive(Default)]
pub struct Remembered {
    /// An input that cannot be deployed, and why.
    pub refused: Option<(Input, Failure)>,
    /// The input of the running attempt, once it is known.
    pub trying: Option<Input>,
    /// Why objects are not ready, and when to ask again.
    pub causes: HashMap<ObjectId, Cause>,
    pub asked: u32,
    pub ask_at: Option<Instant>,
    pub heals: Heals,
}

impl Remembered {
    /// Whether nothing is lost when this is dropped: so it is with most custom resources at most times.
    fn is_nothing(&self) -> bool {
        let Remembered { refused, trying, causes, asked: _, ask_at, heals } = self;
        refused.is_none() && trying.is_none() && causes.is_empty() && ask_at.is_none() && heals.last.is_none()
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

/// Repairs in a row. Somebody who keeps undoing them must not keep us busy.
#[derive(Default)]
pub struct Heals {
    count: u32,
    last: Option<Instant>,
}

impl Heals {
    const CALM: Duration = Duration::from_secs(60);
    const FREE: u32 = 5;
    const LONGEST: Duration = Duration::from_secs(300);

    /// How long to wait before the next repair.
    pub fn wait(&self, now: Instant) -> Option<Duration> {
        let over = self.count.checked_sub(Self::FREE)?;
        let pause = Duration::from_secs(1).saturating_mul(1 << over.min(9)).min(Self::LONGEST);
        (self.last? + pause).checked_duration_since(now).filter(|wait| !wait.is_zero())
    }

    pub fn note(&mut self, now: Instant) {
        let calm =
            Self::CALM.max(Duration::from_secs(2).saturating_mul(1 << self.count.saturating_sub(Self::FREE).min(9)));
        let was_calm = self.last.is_none_or(|last| now.duration_since(last) > calm);
        self.count = if was_calm { 1 } else { self.count.saturating_add(1) };
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_repairs_are_free_and_then_pauses_grow_until_it_is_calm() {
        let start = Instant::now();
        let mut heals = Heals::default();
        for _ in 0..Heals::FREE - 1 {
            heals.note(start);
            assert_eq!(heals.wait(start), None);
        }
        heals.note(start);
        assert_eq!(heals.wait(start), Some(Duration::from_secs(1)));
        heals.note(start);
        assert_eq!(heals.wait(start), Some(Duration::from_secs(2)));
        let later = start + Duration::from_secs(600);
        heals.note(later);
        assert_eq!(heals.wait(later), None);
    }
}
