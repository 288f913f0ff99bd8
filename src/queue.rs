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
use crate::telemetry::metrics::QueueMeter;
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
    meter: Option<QueueMeter>,
}

struct State {
    line: Line,
    running: HashMap<Place, Run>,
    /// Since when those wait that have no turn, or from when on.
    waiting: HashMap<Place, Instant>,
    /// When a turn was last given or ended.
    moved: Instant,
    /// Since when somebody asks for turns. Nobody does while the operator stands by.
    asked: Option<Instant>,
}

struct Run {
    interrupt: CancellationToken,
    since: Instant,
}

/// How a queue is at a moment.
#[derive(Clone, Debug, Default)]
pub struct Pulse {
    /// How many wait for a turn that is due, by urgency. Before anybody asks for turns nobody waits.
    pub due: [usize; 3],
    /// How long each turn has been running.
    pub running: Vec<Duration>,
    pub most_running: usize,
    /// How long somebody has been waiting although there was room, and nothing moved. None if that is not so.
    pub stuck: Option<Duration>,
}

impl Pulse {
    /// Two queues as one.
    pub fn add(&mut self, other: Pulse) {
        self.due.iter_mut().zip(other.due).for_each(|(due, more)| *due += more);
        self.running.extend(other.running);
        self.most_running += other.most_running;
        self.stuck = self.stuck.max(other.stuck);
    }
}

impl Queue {
    /// # Arguments
    /// `max`: how many may run at once in total. `stop`: interrupts every turn.
    pub fn new(max: Option<usize>, stop: CancellationToken) -> Self {
        let line = Line::new(Limits { total: max, ..Limits::default() });
        let (running, waiting) = Default::default();
        let state = State { line, running, waiting, moved: Instant::now(), asked: None };
        Queue { state: Mutex::new(state), bell: Notify::new(), stop, meter: None }
    }

    /// The same, counted in metrics under the name of a kind.
    pub fn counted(self, kind: &str) -> Self {
        Queue { meter: Some(QueueMeter::of(kind)), ..self }
    }

    /// From now on this one can be told.
    pub fn know(&self, place: Place) {
        self.locked().line.know(place);
    }

    /// It is gone: it has no turn any more, and a running one is interrupted.
    pub fn forget(&self, place: &Place) {
        let mut state = self.locked();
        state.line.forget(place);
        state.waiting.remove(place);
        if let Some(run) = state.running.get(place) {
            run.interrupt.cancel();
        }
    }

    /// Has one reconciled soon. One that is not known has no turn: whoever makes it known tells it.
    pub fn tell(&self, place: Place, urgency: Urgency) {
        let mut state = self.locked();
        state.line.tell(&place, urgency);
        self.note_waiting(&mut state, &place, Instant::now());
        drop(state);
        self.bell.notify_one();
    }

    /// Has one reconciled after some time, together with everything that is told until then, and after all others.
    pub fn tell_later(&self, place: Place, after: Duration) {
        let (mut state, from) = (self.locked(), Instant::now() + after);
        state.line.tell_at(&place, Urgency::Recheck, from);
        self.note_waiting(&mut state, &place, from);
        drop(state);
        self.bell.notify_one();
    }

    /// Has all reconciled soon.
    pub fn tell_all(&self, urgency: Urgency) {
        let mut state = self.locked();
        for place in state.line.tell_all(urgency) {
            self.note_waiting(&mut state, &place, Instant::now());
        }
        drop(state);
        self.bell.notify_one();
    }

    fn note_waiting(&self, state: &mut State, place: &Place, from: Instant) {
        if !state.line.knows(place) {
            return;
        }
        if let Some(since) = state.waiting.get_mut(place) {
            *since = from.min(*since);
            return;
        }
        state.waiting.insert(place.clone(), from);
        if let Some(meter) = &self.meter {
            meter.adds.add(1);
        }
    }

    /// How it is right now.
    pub fn pulse(&self) -> Pulse {
        let (state, now) = (self.locked(), Instant::now());
        let not_running = state.waiting.iter().filter(|(place, _)| !state.running.contains_key(*place));
        let longest = not_running.map(|(_, since)| now.saturating_duration_since(*since)).max();
        let unmoved = now.saturating_duration_since(state.moved);
        Pulse {
            due: state.asked.map(|_| state.line.due()).unwrap_or_default(),
            running: state.running.values().map(|run| now.saturating_duration_since(run.since)).collect(),
            most_running: state.line.most(),
            stuck: longest.filter(|_| state.line.could_take(now)).map(|longest| longest.min(unmoved)),
        }
    }

    /// Has one reconciled soon by something newer: a turn that still renders is given up.
    pub fn start_over(&self, place: Place, urgency: Urgency) {
        let mut state = self.locked();
        state.line.tell(&place, urgency);
        state.line.is_quick(&place);
        self.note_waiting(&mut state, &place, Instant::now());
        if let Some(run) = state.running.get(&place) {
            run.interrupt.cancel();
        }
        drop(state);
        self.bell.notify_one();
    }

    /// The next turn, once there is one. For a single caller.
    pub async fn next(self: &Arc<Self>) -> Turn {
        self.locked().asked.get_or_insert_with(Instant::now);
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
        let (mut state, now) = (self.locked(), Instant::now());
        match state.line.take(now) {
            Take::Now { place, urgency, slow } => {
                let interrupt = self.stop.child_token();
                state.running.insert(place.clone(), Run { interrupt: interrupt.clone(), since: now });
                state.moved = now;
                let told = state.waiting.remove(&place).unwrap_or(now);
                let since = state.asked.map_or(told, |asked| told.max(asked));
                if let Some(meter) = &self.meter {
                    meter.waited.measure(now.saturating_duration_since(since));
                }
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
        let (mut state, from) = (self.queue.locked(), Instant::now() + after);
        state.line.tell_at(&self.place, urgency, from);
        self.queue.note_waiting(&mut state, &self.place, from);
        if let Some(meter) = self.queue.meter.as_ref().filter(|_| !after.is_zero()) {
            meter.retries.add(1);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (mut state, now) = (self.queue.locked(), Instant::now());
        let run = state.running.remove(&self.place);
        state.line.finish(&self.place);
        state.moved = now;
        if let (Some(run), Some(meter)) = (run, &self.queue.meter) {
            meter.worked.measure(now.saturating_duration_since(run.since));
        }
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
    async fn only_who_could_have_a_turn_and_gets_none_makes_a_queue_stuck() {
        let queue = Arc::new(Queue::new(Some(1), CancellationToken::new()));
        ["web", "other"].iter().for_each(|name| queue.know(place(name)));
        assert!(queue.pulse().stuck.is_none(), "nobody waits");
        ["web", "other"].iter().for_each(|name| queue.tell(place(name), Urgency::Install));
        let pulse = queue.pulse();
        assert!(pulse.stuck.is_some());
        assert_eq!(pulse.due, [0, 0, 0], "who stands by has no queue");
        let turn = queue.next().await;
        let pulse = queue.pulse();
        assert!(pulse.stuck.is_none(), "there is no room");
        assert_eq!((pulse.due, pulse.running.len(), pulse.most_running), ([0, 1, 0], 1, 1));
        turn.again(Duration::from_secs(3600), Urgency::Recheck);
        drop(turn);
        drop(queue.next().await);
        assert!(queue.pulse().stuck.is_none(), "it is not time yet");
    }

    #[tokio::test]
    async fn the_time_of_standing_by_is_no_waiting() {
        let queue = Queue::new(None, CancellationToken::new()).counted("Standby");
        let queue = Arc::new(queue);
        queue.know(place("web"));
        queue.tell(place("web"), Urgency::Install);
        tokio::time::sleep(Duration::from_millis(150)).await;
        drop(queue.next().await);
        let text = crate::telemetry::metrics::scrape::scrape(&Default::default());
        let labels = r#"controller="standby-controller",name="standby-controller""#;
        let line = format!("workqueue_queue_duration_seconds_bucket{{{labels},le=\"0.1\"}} 1");
        assert!(text.lines().any(|it| it == line), "{text}");
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
