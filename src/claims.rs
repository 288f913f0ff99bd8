//! Which custom resource is working on which object right now, inside this process.
//!
//! Two custom resources that create the same object at the same moment would both find it absent. The first to claim it
//! goes on; the other waits, and then finds the object with the first one's marks.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use crate::object::ObjectKey;

/// A turn waits no longer: whoever holds the objects may be waiting for a slow API server.
const MOMENT: Duration = Duration::from_millis(300);

#[derive(Clone, Default)]
pub struct Claims(Arc<Shared>);

#[derive(Default)]
struct Shared {
    taken: Mutex<HashSet<ObjectKey>>,
    released: Notify,
}

/// Objects that nobody else touches while this value lives.
pub struct Claimed {
    claims: Claims,
    keys: Vec<ObjectKey>,
}

impl Claims {
    /// Claims all or waits for a moment: never some, so that two claims cannot wait for each other. None where somebody else
    /// still holds one after that.
    pub async fn claim(&self, keys: Vec<ObjectKey>) -> Option<Claimed> {
        tokio::time::timeout(MOMENT, self.claim_all(keys)).await.ok()
    }

    async fn claim_all(&self, keys: Vec<ObjectKey>) -> Claimed {
        loop {
            // Registered before the look, so that a release in between is not missed.
            let released = self.0.released.notified();
            if self.take(&keys) {
                return Claimed { claims: self.clone(), keys };
            }
            released.await;
        }
    }

    fn take(&self, keys: &[ObjectKey]) -> bool {
        // A poisoned lock still holds a set of keys.
        let mut taken = self.0.taken.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let free = keys.iter().all(|key| !taken.contains(key));
        if free {
            taken.extend(keys.iter().cloned());
        }
        free
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        let mut taken = self.claims.0.taken.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.keys.iter().for_each(|key| {
            taken.remove(key);
        });
        drop(taken);
        self.claims.0.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey { group: String::new(), kind: "ConfigMap".into(), namespace: None, name: name.into() }
    }

    #[tokio::test]
    async fn the_second_waits_for_the_first_and_others_do_not() {
        let claims = Claims::default();
        let first = claims.claim(vec![key("a"), key("b")]).await.unwrap();
        claims.claim(vec![key("c")]).await.unwrap();
        let second = tokio::spawn({
            let claims = claims.clone();
            async move { drop(claims.claim_all(vec![key("b"), key("d")]).await) }
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!second.is_finished());
        // What waits holds nothing.
        claims.claim(vec![key("d")]).await.unwrap();
        assert!(claims.claim(vec![key("b")]).await.is_none(), "a turn does not wait for long");
        drop(first);
        tokio::time::timeout(Duration::from_secs(5), second).await.unwrap().unwrap();
    }
}
