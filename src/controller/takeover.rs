//! What a standby was told may be older than what the one before it saw and did: a watch can be behind, or dead without notice. Who
//! acted on it would deploy an old spec over a new one. So after a takeover everything is listed anew, and nobody has a turn before.
//!
//! An operator that works from the start of a kind's life on has nothing to wait for.

use std::collections::HashSet;

use tokio::sync::watch;

use crate::namespaces::{Scope, covers};

pub struct Takeover(watch::Sender<Lists>);

struct Lists {
    /// Nothing was heard of these since the takeover.
    silent: HashSet<Scope>,
    /// Of these nobody knows how they are now.
    old: HashSet<Scope>,
}

impl Takeover {
    /// # Arguments
    /// `scopes`: what has to be listed anew; nothing for an operator that works already.
    pub fn new(scopes: Vec<Scope>) -> Self {
        let scopes: HashSet<Scope> = scopes.into_iter().collect();
        Takeover(watch::Sender::new(Lists { silent: scopes.clone(), old: scopes }))
    }

    /// A whole list of it came, which was asked for after the takeover.
    pub fn listed(&self, scope: &Scope) {
        self.0.send_modify(|lists| {
            lists.silent.remove(scope);
            lists.old.remove(scope);
        });
    }

    /// It cannot be listed. A namespace that is not there, or without rights, holds up nobody elsewhere.
    pub fn failed(&self, scope: &Scope) {
        self.0.send_modify(|lists| {
            lists.silent.remove(scope);
        });
    }

    /// Waits until there is an answer about everything.
    pub async fn answered(&self) {
        // The sender is here, so the channel stays open.
        let _ = self.0.subscribe().wait_for(|lists| lists.silent.is_empty()).await;
    }

    /// Whether what is known about a namespace is from after the takeover.
    pub fn is_over(&self, namespace: Option<&str>) -> bool {
        !self.0.borrow().old.iter().any(|scope| covers(scope, namespace))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn nobody_has_a_turn_by_what_a_standby_knew() {
        let [a, b]: [Scope; 2] = [Some("a".into()), Some("b".into())];
        let takeover = Takeover::new(vec![a.clone(), b.clone()]);
        takeover.listed(&a);
        assert!(takeover.is_over(Some("a")) && !takeover.is_over(Some("b")));
        assert!(takeover.answered().now_or_never().is_none());
        takeover.failed(&b);
        takeover.answered().await;
        assert!(!takeover.is_over(Some("b")), "nobody knows how it is there");
        takeover.listed(&b);
        assert!(takeover.is_over(Some("b")));
    }

    #[tokio::test]
    async fn who_works_already_waits_for_nothing() {
        let takeover = Takeover::new(vec![]);
        takeover.answered().await;
        assert!(takeover.is_over(None) && takeover.is_over(Some("a")));
    }
}
