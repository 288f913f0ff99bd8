//! How fast a custom resource may make revisions.
//!
//! Each revision is a record in etcd, a run of helm and a row of calls. Where a source of values changes without end, so would
//! the release. A person who edits the spec is not slowed down: such revisions have a budget of their own, which only a program
//! in a loop exhausts.
//!
//! [`Pace`] is pure: the time is passed in. It is kept in memory, so a restart grants a new budget.

use std::time::{Duration, Instant};

use super::{ReconcileError, Subject};

/// Revisions without a change of the spec: so many at once, and then one per interval.
const UNCHANGED: Limit = Limit { burst: 10, interval: Duration::from_secs(30) };
/// Revisions of a changed spec.
const EDITED: Limit = Limit { burst: 60, interval: Duration::from_secs(1) };

#[derive(Clone, Copy, Debug)]
struct Limit {
    burst: u32,
    interval: Duration,
}

/// How long a revision takes to be granted once the budget is used up.
pub(super) fn interval(is_edited: bool) -> Duration {
    if is_edited { EDITED.interval } else { UNCHANGED.interval }
}

/// A token bucket, kept as the time at which it is full again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bucket {
    full_at: Option<Instant>,
}

impl Bucket {
    /// How long the next revision has to wait.
    fn wait(&self, limit: Limit, now: Instant) -> Option<Duration> {
        let missing = self.full_at?.saturating_duration_since(now);
        let room = limit.interval * (limit.burst - 1);
        missing.checked_sub(room).filter(|wait| !wait.is_zero())
    }

    fn take(&mut self, limit: Limit, now: Instant) {
        let full = self.full_at.map_or(now, |full| full.max(now)) + limit.interval;
        self.full_at = Some(full.min(now + limit.interval * limit.burst));
    }

    fn is_full(&self, now: Instant) -> bool {
        self.full_at.is_none_or(|full| full <= now)
    }
}

/// The revisions that a custom resource made of late.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Of the spec that the last revision was made of.
    generation: Option<i64>,
    unchanged: Bucket,
    edited: Bucket,
}

impl Pace {
    fn is_edited(&self, generation: Option<i64>) -> bool {
        self.generation.is_some() && self.generation != generation
    }

    /// How long the next revision has to wait.
    fn wait(&self, generation: Option<i64>, now: Instant) -> Option<Duration> {
        match self.is_edited(generation) {
            true => self.edited.wait(EDITED, now),
            false => self.unchanged.wait(UNCHANGED, now),
        }
    }

    /// Counts a revision.
    fn note(&mut self, generation: Option<i64>, now: Instant) {
        match self.is_edited(generation) {
            true => self.edited.take(EDITED, now),
            false => self.unchanged.take(UNCHANGED, now),
        }
        self.generation = generation;
    }

    /// Whether nothing is lost when this is forgotten.
    pub fn is_at_rest(&self) -> bool {
        let now = Instant::now();
        self.unchanged.is_full(now) && self.edited.is_full(now)
    }
}

impl Subject<'_> {
    /// Refuses a new revision where the custom resource made too many.
    pub(super) fn check_pace(&self) -> Result<(), ReconcileError> {
        let (generation, now) = (self.cr.metadata.generation, Instant::now());
        let (wait, is_edited) = self
            .context
            .memory
            .with(&self.owner.uid, |memory| (memory.pace.wait(generation, now), memory.pace.is_edited(generation)));
        match wait {
            None => Ok(()),
            Some(wait) => Err(ReconcileError::TooManyRevisions { wait, is_edited }),
        }
    }

    /// Counts a revision that was just recorded.
    pub(super) fn note_revision_made(&self) {
        let (generation, now) = (self.cr.metadata.generation, Instant::now());
        self.context.memory.with(&self.owner.uid, |memory| memory.pace.note(generation, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn ten_revisions_of_the_same_spec_are_free_and_then_one_per_half_minute() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        for revision in 0..10 {
            assert_eq!(pace.wait(Some(1), start), None, "revision {revision}");
            pace.note(Some(1), start);
        }
        assert_eq!(pace.wait(Some(1), start), Some(seconds(30)));
        assert_eq!(pace.wait(Some(1), start + seconds(10)), Some(seconds(20)));
        assert_eq!(pace.wait(Some(1), start + seconds(30)), None);
        pace.note(Some(1), start + seconds(30));
        assert_eq!(pace.wait(Some(1), start + seconds(30)), Some(seconds(30)));
        assert_eq!(pace.wait(Some(1), start + seconds(3600)), None, "the budget comes back");
    }

    #[test]
    fn an_edit_is_not_slowed_by_what_sources_did() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        (0..20).for_each(|_| pace.note(Some(1), start));
        assert!(pace.wait(Some(1), start).is_some());
        for generation in 2..50 {
            assert_eq!(pace.wait(Some(generation), start), None, "generation {generation}");
            pace.note(Some(generation), start);
        }
    }

    #[test]
    fn edits_in_a_loop_are_limited_too() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        (1..=61).for_each(|generation| pace.note(Some(generation), start));
        assert_eq!(pace.wait(Some(62), start), Some(seconds(1)));
        assert_eq!(pace.wait(Some(62), start + seconds(1)), None);
    }
}
