//! When to try again after a failure.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use kube::ResourceExt;

use crate::custom_resource::CustomResource;
use crate::error::Retry;

const LONGEST: Duration = Duration::from_secs(300);

/// Failures in a row, per custom resource and generation.
#[derive(Default)]
pub struct Attempts(Mutex<HashMap<String, (i64, u32)>>);

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
        if entry.0 != generation {
            *entry = (generation, 0);
        }
        entry.1 = entry.1.saturating_add(1);
        backoff(retry, entry.1).map(|delay| jittered(delay, &uid))
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, (i64, u32)>> {
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
    fn jitter_lengthens_by_a_quarter_at_most() {
        for uid in ["a", "b", "0c8f-11", ""] {
            let delay = jittered(Duration::from_secs(4), uid);
            assert!(delay >= Duration::from_secs(4) && delay <= Duration::from_secs(5), "{delay:?}");
        }
    }
}
