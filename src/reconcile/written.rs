//! Which version our own last write gave a custom resource, for as long as the cache may not have seen it. It may be lost:
//! then a reconcile works on a custom resource as it was a moment ago, and writes the same once more.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard};

/// By a number for the UID: there is one for each custom resource, and should two share a number, one is read in vain.
#[derive(Default)]
pub struct Written(Mutex<HashMap<u64, u64>>);

impl Written {
    pub fn note(&self, uid: &str, version: u64) {
        let mut all = self.locked();
        let newest = all.entry(number(uid)).or_default();
        *newest = version.max(*newest);
    }

    /// Whether a custom resource of this version is as new as our last write.
    pub fn is_seen(&self, uid: &str, version: u64) -> bool {
        let (mut all, number) = (self.locked(), number(uid));
        let is_seen = all.get(&number).is_none_or(|written| version >= *written);
        if is_seen {
            all.remove(&number);
        }
        is_seen
    }

    pub fn forget(&self, uid: &str) {
        self.locked().remove(&number(uid));
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<u64, u64>> {
        // A poisoned lock still holds versions.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn number(uid: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_remembered_until_it_was_seen() {
        let written = Written::default();
        assert!(written.is_seen("a", 1));
        written.note("a", 7);
        written.note("a", 6);
        assert!(!written.is_seen("a", 6) && written.is_seen("b", 6));
        assert!(written.is_seen("a", 8));
        assert!(written.is_seen("a", 6), "nothing is remembered any more");
    }
}
