//! Which of several operators works.
//!
//! They agree by a Lease. Who holds it works; the others stand by, know all custom resources and records, and write nothing.
//!
//! ```text
//! the Lease ──seen──▶ candidate ──next──▶ look, claim, wait, lost
//!                      (pure)                │ claimed
//!                                            ▼
//! every write of the process ──────▶ guard: until when?
//! ```
//! Nobody's wall clock counts. A standby takes a Lease that did not change for its whole duration by the standby's own clock.
//! The holder counts from just before the request that renewed it was sent, which is earlier than anybody can have seen it.
//! So the holder always stops first. It is not trusted to notice in time: each write asks the guard right before it is sent.
//!
//! An operator that lost the Lease never goes back to standing by: too much of what it knows would have to be forgotten. At a terminal the process
//! ends. In a pod, everything but the process ends, and begins again with a guard of its own, see `cli/run/session.rs`.
//!
//! | module | what is in it |
//! |---|---|
//! | [`candidate`] | what to do next, by what was seen |
//! | [`clock`] | time that nobody sets |
//! | [`guard`] | no write without the Lease |
//! | [`election`] | the calls, the watch and the log |
//! | [`identity`] | who this process is, and which dead one it continues |
//! | [`settings`] | which Lease, and how patient everybody is |

pub mod candidate;
pub mod clock;
pub mod election;
pub mod guard;
pub mod identity;
pub mod settings;

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

/// Whether this operator works or stands by, for whoever has to know.
#[derive(Clone, Debug)]
pub struct Leading {
    /// The name of the Lease, if there is one.
    pub lease: Option<Arc<str>>,
    /// Since when it works.
    since: watch::Receiver<Option<Instant>>,
}

impl Leading {
    /// An operator that is the only one.
    pub fn always() -> Self {
        Leading { lease: None, since: watch::channel(Some(Instant::now())).1 }
    }

    fn of(lease: &str) -> (watch::Sender<Option<Instant>>, Self) {
        let (sender, since) = watch::channel(None);
        (sender, Leading { lease: Some(lease.into()), since })
    }

    pub fn now(&self) -> bool {
        self.since().is_some()
    }

    /// Since when it works, if it does.
    pub fn since(&self) -> Option<Instant> {
        *self.since.borrow()
    }

    /// Waits until it works. That is at once where it works already, and never where it will not any more.
    pub async fn begins(&mut self) {
        if self.now() {
            return;
        }
        // What this gives out is a lock, which must not be held while somebody waits.
        let began = self.since.wait_for(Option::is_some).await.is_ok();
        if !began {
            std::future::pending().await
        }
    }
}
