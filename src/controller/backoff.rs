//! When to try again after a failure.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use kube::ResourceExt;

use crate::custom_resource::CustomResource;
use crate::error::Retry;
use crate::reconcile::SELDOM;

const LONGEST: Duration = Duration::from_secs(300);

/// Failures in a row, per custom resource and generation.
#[derive(Default)]
pub struct Attempts(Mutex<HashMap<String, Failures>>);

#[derive(Default)]
struct Failures {
    generation: i64,
    count: u32,
    /// Stands for what was told last, and when.
    told: Option<(u64, Instant)>,
}

impl Attempts {
    pub fn succeeded(&self, cr: &CustomResource) {
        self.forget(&cr.uid().unwrap_or_default());
    }

    pub fn forget(&self, uid: &str) {
        self.locked().remove(uid);
    }

    /// Counts a failure and says how long to wait, unless only a change can help.
    pub fn failed(&self, cr: &CustomResource, retry: Retry) -> Option<Duration> {
        let uid = cr.uid().unwrap_or_default();
        let generation = cr.metadata.generation.unwrap_or_default();
        let mut all = self.locked();
        let entry = all.entry(uid.clone()).or_default();
        if entry.generation != generation {
            *entry = Failures { generation, ..Failures::default() };
        }
        entry.count = entry.count.saturating_add(1);
        backoff(retry, entry.count).map(|delay| jittered(delay, &uid))
    }

    /// How often it failed in a row, and whether that is worth a line: the same failure is told again only after a long time.
    pub fn tell(&self, cr: &CustomResource, message: &str) -> (u32, bool) {
        let mut hasher = DefaultHasher::new();
        message.hash(&mut hasher);
        let (sentence, now) = (hasher.finish(), Instant::now());
        let mut all = self.locked();
        let entry = all.entry(cr.uid().unwrap_or_default()).or_default();
        let last = entry.told.filter(|(_, at)| now.duration_since(*at) < SELDOM);
        let is_news = last.is_none_or(|(told, _)| told != sentence);
        if is_news {
            entry.told = Some((sentence, now));
        }
        (entry.count, is_news)
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, Failures>> {
        // A poisoned lock still holds counts.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Twice as long after each failure in a row. What only a person can repair starts slowly.
fn backoff(retry: Retry, attempt: u32) -> Option<Duration> {
    let first = retry.pause()?;
    let longest = if retry == Retry::Soon { Duration::from_secs(5) } else { LONGEST };
    Some(first.saturating_mul(1 << attempt.saturating_sub(1).min(10)).min(longest))
}

/// Up to a quarter longer, so that many that failed together do not come back together.
fn jittered(delay: Duration, uid: &str) -> Duration {
    let spread = uid.bytes().fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % 256;
    delay + delay.mul_f64(f64::from(spread) / 1024.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cr(generation: i64) -> CustomResource {
        serde_json::from_value(json!({"metadata": {"name": "a", "uid": "", "generation": generation}})).unwrap()
    }

    #[test]
    fn waits_grow_to_a_limit_and_hopeless_cases_rest() {
        assert_eq!(backoff(Retry::Never, 1), None);
        assert_eq!(backoff(Retry::Often, 1), Some(Duration::from_secs(1)));
        assert_eq!(backoff(Retry::Often, 3), Some(Duration::from_secs(4)));
        assert_eq!(backoff(Retry::Often, 40), Some(LONGEST));
        assert_eq!(backoff(Retry::Soon, 40), Some(Duration::from_secs(5)));
    }

    #[test]
    fn a_success_and_a_new_generation_begin_anew() {
        let attempts = Attempts::default();
        let wait = |generation| attempts.failed(&cr(generation), Retry::Often).unwrap().as_secs();
        assert_eq!([wait(1), wait(1), wait(1), wait(2), wait(2)], [1, 2, 4, 1, 2]);
        attempts.succeeded(&cr(2));
        assert_eq!(attempts.failed(&cr(2), Retry::Often).unwrap().as_secs(), 1);
    }

    #[test]
    fn the_same_failure_is_told_once_until_it_is_another_or_over() {
        let attempts = Attempts::default();
        let told = |message| {
            attempts.failed(&cr(1), Retry::Often);
            attempts.tell(&cr(1), message)
        };
        assert_eq!([told("a"), told("a"), told("b"), told("b")], [(1, true), (2, false), (3, true), (4, false)]);
        attempts.succeeded(&cr(1));
        assert_eq!(attempts.tell(&cr(1), "b"), (0, true));
    }

    #[test]
    fn jitter_lengthens_by_a_quarter_at_most() {
        for uid in ["a", "b", "0c8f-11", ""] {
            let delay = jittered(Duration::from_secs(4), uid);
            assert!(delay >= Duration::from_secs(4) && delay <= Duration::from_secs(5), "{delay:?}");
        }
    }
}
