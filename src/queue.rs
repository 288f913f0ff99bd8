//! Which custom resource comes next.
//!
//! [`Queue`] is what watches tell and what the controller asks. It holds a lock, a clock and a bell; every decision is made
//! in [`line`], which is pure, by the order of [`order`]. It does not know what a reconcile is.

pub mod line;
pub mod order;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::custom_resource::Place;
use line::{Limits, Line, Take};

/// How long something may wait. The greatest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Urgency {
    /// Nothing is known to have changed.
    Recheck,
    /// A first install.
    Install,
    /// Somebody changed the spec of something deployed, or one of its objects, or wants it gone.
    Edit,
}

impl Urgency {
    pub const ALL: [Urgency; 3] = [Urgency::Recheck, Urgency::Install, Urgency::Edit];
}

/// The custom resources of one kind that wait for their turn.
pub struct Queue {
    state: Mutex<State>,
    /// Rings when there may be something to take.
    bell: Notify,
    stop: CancellationToken,
}

struct State {
    line: Line,
    /// How the running ones are interrupted.
    running: HashMap<Place, CancellationToken>,
}

impl Queue {
    /// # Arguments
    /// `max`: how many may run at once in total. `stop`: interrupts every turn.
    pub fn new(max: Option<usize>, stop: CancellationToken) -> Self {
        let line = Line::new(Limits { total: max, ..Limits::default() });
        Queue { state: Mutex::new(State { line, running: HashMap::new() }), bell: Notify::new(), stop }
    }

    /// From now on this one can be told.
    pub fn know(&self, place: Place) {
        self.locked().line.know(place);
    }

    /// It is gone: it has no turn any more, and a running one is interrupted.
    pub fn forget(&self, place: &Place) {
        let mut state = self.locked();
        state.line.forget(place);
        if let Some(interrupt) = state.running.get(place) {
            interrupt.cancel();
        }
    }

    /// Has one reconciled soon. One that is not known has no turn: whoever makes it known tells it.
    pub fn tell(&self, place: Place, urgency: Urgency) {
        self.locked().line.tell(&place, urgency);
        self.bell.notify_one();
    }

    /// Has all reconciled soon.
    pub fn tell_all(&self, urgency: Urgency) {
        self.locked().line.tell_all(urgency);
        self.bell.notify_one();
    }

    /// Has one reconciled soon by something newer: a turn that still renders is given up.
    pub fn start_over(&self, place: Place, urgency: Urgency) {
        let mut state = self.locked();
        state.line.tell(&place, urgency);
        state.line.is_quick(&place);
        if let Some(interrupt) = state.running.get(&place) {
            interrupt.cancel();
        }
        drop(state);
        self.bell.notify_one();
    }

    /// The next turn, once there is one. For a single caller.
    pub async fn next(self: &Arc<Self>) -> Turn {
        loop {
            let due = match self.take() {
                Ok(turn) => return turn,
                Err(due) => due,
            };
            match due {
                Some(due) => tokio::select! {
                    () = self.bell.notified() => {}
                    () = tokio::time::sleep_until(due.into()) => {}
                },
                None => self.bell.notified().await,
            }
        }
    }

    /// A turn, or when to look again.
    fn take(self: &Arc<Self>) -> Result<Turn, Option<Instant>> {
        let mut state = self.locked();
        match state.line.take(Instant::now()) {
            Take::Now { place, urgency, slow } => {
                let interrupt = self.stop.child_token();
                state.running.insert(place.clone(), interrupt.clone());
                Ok(Turn { place, urgency, slow, interrupt, queue: self.clone() })
            }
            Take::At(due) => Err(Some(due)),
            Take::Nothing => Err(None),
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        // A poisoned lock still holds who waits.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// One custom resource's turn. While it lives, the same one has no other.
pub struct Turn {
    pub place: Place,
    pub urgency: Urgency,
    /// Its last render took long.
    pub slow: bool,
    /// Cancelled when something newer has come, or the operator stops.
    pub interrupt: CancellationToken,
    queue: Arc<Queue>,
}

impl Turn {
    /// Makes room for others: this one takes long, now and the next time.
    pub fn is_slow(&self) {
        self.queue.locked().line.is_slow(&self.place);
        self.queue.bell.notify_one();
    }

    /// It does not take long any more.
    pub fn is_quick(&self) {
        self.queue.locked().line.is_quick(&self.place);
    }

    /// Asks for another turn after a while. A `tell` that came or comes meanwhile is not put off.
    pub fn again(&self, after: Duration, urgency: Urgency) {
        self.queue.locked().line.tell_at(&self.place, urgency, Instant::now() + after);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.queue.locked();
        state.running.remove(&self.place);
        state.line.finish(&self.place);
        drop(state);
        self.queue.bell.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> Place {
        Place::new(Some("a"), name)
    }

    fn queue() -> Arc<Queue> {
        let queue = Arc::new(Queue::new(None, CancellationToken::new()));
        queue.know(place("web"));
        queue
    }

    #[tokio::test]
    async fn something_newer_interrupts_the_turn_and_has_another() {
        let queue = queue();
        queue.tell(place("web"), Urgency::Install);
        let turn = queue.next().await;
        queue.start_over(place("web"), Urgency::Edit);
        assert!(turn.interrupt.is_cancelled());
        assert!(queue.take().is_err(), "the same one does not run twice at once");
        drop(turn);
        let turn = queue.next().await;
        assert_eq!(turn.urgency, Urgency::Edit);
        assert!(!turn.interrupt.is_cancelled());
    }

    #[tokio::test]
    async fn a_tell_wakes_whoever_waits_and_is_not_put_off_by_a_later_time() {
        let queue = queue();
        queue.tell(place("web"), Urgency::Edit);
        let turn = queue.next().await;
        turn.again(Duration::from_secs(3600), Urgency::Recheck);
        drop(turn);
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.next().await.urgency }
        });
        tokio::task::yield_now().await;
        queue.tell(place("web"), Urgency::Edit);
        let urgency = tokio::time::timeout(Duration::from_secs(5), waiting).await.unwrap().unwrap();
        assert_eq!(urgency, Urgency::Edit);
    }

    #[tokio::test]
    async fn who_is_gone_is_interrupted_and_has_no_turn() {
        let queue = queue();
        queue.tell(place("web"), Urgency::Edit);
        let turn = queue.next().await;
        queue.forget(&place("web"));
        assert!(turn.interrupt.is_cancelled());
        turn.again(Duration::ZERO, Urgency::Edit);
        drop(turn);
        assert!(matches!(queue.take(), Err(None)));
    }
}
