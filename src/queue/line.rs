//! The decisions of a queue: who waits, who runs, who is next. Pure: the time is passed in.
//!
//! Everybody who is known waits at most once, with the most urgent wish and the earliest time that was told, and runs at most
//! once. What is told during a run is due after it. Runs are limited per urgency, so that any number of installs leaves room
//! for an edit. Those that are known to take long have a limit of their own, so that they leave room for all others.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use super::Urgency;
use super::order::{Order, Ticket};
use crate::custom_resource::Place;

/// How many may run at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of each urgency. Most of the time of a run is waiting for the API server, so more than there are slots for calls; but
    /// each holds the records of a release.
    pub per_urgency: usize,
    /// Of those that take long.
    pub slow: usize,
    /// Together, where a watch says so.
    pub total: Option<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { per_urgency: 32, slow: 8, total: None }
    }
}

/// The answer to "who is next?".
#[derive(Debug, PartialEq, Eq)]
pub enum Take {
    Now {
        place: Place,
        urgency: Urgency,
        slow: bool,
    },
    /// Nobody before this time, unless somebody is told or ends.
    At(Instant),
    /// Nobody, until somebody is told or ends.
    Nothing,
}

/// Who counts against which limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Of(Urgency),
    Slow,
}

#[derive(Clone, Copy, Debug)]
struct Wish {
    urgency: Urgency,
    /// None: as soon as it may.
    at: Option<Instant>,
    /// While it stands in an order.
    ticket: Option<Ticket>,
}

#[derive(Debug, Default)]
struct Entry {
    wish: Option<Wish>,
    running: Option<Lane>,
    slow: bool,
    /// Gone, but still running.
    forgotten: bool,
}

#[derive(Debug)]
pub struct Line {
    limits: Limits,
    known: HashMap<Place, Entry>,
    ready: Order<Place>,
    ready_slow: Order<Place>,
    later: BTreeSet<(Instant, Place)>,
    running: [usize; 3],
    running_slow: usize,
}

impl Line {
    pub fn new(limits: Limits) -> Self {
        Line {
            limits,
            known: HashMap::new(),
            ready: Order::default(),
            ready_slow: Order::default(),
            later: BTreeSet::new(),
            running: [0; 3],
            running_slow: 0,
        }
    }

    pub fn know(&mut self, place: Place) {
        self.known.entry(place).or_default().forgotten = false;
    }

    pub fn forget(&mut self, place: &Place) {
        self.take_out(place);
        let Some(entry) = self.known.get_mut(place) else { return };
        (entry.wish, entry.slow, entry.forgotten) = (None, false, true);
        if entry.running.is_none() {
            self.known.remove(place);
        }
    }

    pub fn tell(&mut self, place: &Place, urgency: Urgency) {
        self.wish(place, urgency, None);
    }

    pub fn tell_at(&mut self, place: &Place, urgency: Urgency, at: Instant) {
        self.wish(place, urgency, Some(at));
    }

    /// Tells all, and says who they are.
    pub fn tell_all(&mut self, urgency: Urgency) -> Vec<Place> {
        let all: Vec<Place> = self.known.keys().cloned().collect();
        all.iter().for_each(|place| self.tell(place, urgency));
        all
    }

    pub fn knows(&self, place: &Place) -> bool {
        self.known.get(place).is_some_and(|entry| !entry.forgotten)
    }

    fn wish(&mut self, place: &Place, urgency: Urgency, at: Option<Instant>) {
        let Some(old) = self.known.get(place).filter(|entry| !entry.forgotten).map(|entry| entry.wish) else { return };
        let new = match old {
            None => Wish { urgency, at, ticket: None },
            // None is earlier than any time.
            Some(old) => Wish { urgency: urgency.max(old.urgency), at: at.min(old.at), ..old },
        };
        if let (Some(old), Some(ticket)) = (old, new.ticket) {
            let slow = self.known.get(place).is_some_and(|entry| entry.slow);
            self.order(slow).promote(old.urgency, new.urgency, ticket);
            self.set_wish(place, Some(new));
        } else {
            self.take_out(place);
            self.set_wish(place, Some(new));
            self.put_in(place);
        }
    }

    /// Who is next. It runs until [`Line::finish`].
    pub fn take(&mut self, now: Instant) -> Take {
        self.become_ready(now);
        let Some((urgency, place, slow)) = self.pop() else {
            return self.later.first().map_or(Take::Nothing, |(at, _)| Take::At(*at));
        };
        let lane = if slow { Lane::Slow } else { Lane::Of(urgency) };
        *self.count(lane) += 1;
        if let Some(entry) = self.known.get_mut(&place) {
            (entry.wish, entry.running) = (None, Some(lane));
        }
        Take::Now { place, urgency, slow }
    }

    /// How many are due, by urgency.
    pub fn due(&self) -> [usize; 3] {
        Urgency::ALL.map(|urgency| self.ready.len(urgency) + self.ready_slow.len(urgency))
    }

    /// How many may run at once.
    pub fn most(&self) -> usize {
        let all = self.limits.per_urgency * Urgency::ALL.len() + self.limits.slow;
        self.limits.total.map_or(all, |total| total.min(all))
    }

    /// Whether somebody is due, and there is room: whoever asks who is next gets an answer.
    pub fn could_take(&self, now: Instant) -> bool {
        if self.later.first().is_some_and(|(at, _)| *at <= now) {
            // Whoever asks has those moved on first, whether there is room or not.
            return true;
        }
        let has_room = |urgency: Urgency| self.running[urgency as usize] < self.limits.per_urgency;
        let is_quick = Urgency::ALL.into_iter().any(|urgency| has_room(urgency) && self.ready.len(urgency) > 0);
        !self.is_full() && (is_quick || self.running_slow < self.limits.slow && !self.ready_slow.is_empty())
    }

    fn is_full(&self) -> bool {
        let running = self.running.iter().sum::<usize>() + self.running_slow;
        self.limits.total.is_some_and(|total| running >= total)
    }

    fn pop(&mut self) -> Option<(Urgency, Place, bool)> {
        if self.is_full() {
            return None;
        }
        let (counts, limit) = (self.running, self.limits.per_urgency);
        if let Some((urgency, place)) = self.ready.pop(|urgency| counts[urgency as usize] < limit) {
            return Some((urgency, place, false));
        }
        let may = self.running_slow < self.limits.slow;
        self.ready_slow.pop(|_| may).map(|(urgency, place)| (urgency, place, true))
    }

    /// A run has ended.
    pub fn finish(&mut self, place: &Place) {
        let Some(entry) = self.known.get_mut(place) else { return };
        let Some(lane) = entry.running.take() else { return };
        let forgotten = entry.forgotten;
        *self.count(lane) -= 1;
        match forgotten {
            true => drop(self.known.remove(place)),
            false => self.put_in(place),
        }
    }

    /// The running one takes long: it counts against another limit, now and the next time.
    pub fn is_slow(&mut self, place: &Place) {
        let Some(entry) = self.known.get_mut(place).filter(|entry| !entry.forgotten) else { return };
        let Some(lane) = entry.running else { return };
        (entry.slow, entry.running) = (true, Some(Lane::Slow));
        *self.count(lane) -= 1;
        self.running_slow += 1;
    }

    /// The next run of this one counts as any other.
    pub fn is_quick(&mut self, place: &Place) {
        if self.known.get(place).is_some_and(|entry| entry.slow) {
            self.take_out(place);
            if let Some(entry) = self.known.get_mut(place) {
                entry.slow = false;
            }
            self.put_in(place);
        }
    }

    /// Those whose time has come.
    fn become_ready(&mut self, now: Instant) {
        while let Some((_, place)) = self.later.first().filter(|(at, _)| *at <= now).cloned() {
            self.take_out(&place);
            if let Some(wish) = self.known.get_mut(&place).and_then(|entry| entry.wish.as_mut()) {
                wish.at = None;
            }
            self.put_in(&place);
        }
    }

    /// Has one wait where its wish says. Who runs waits for the end of the run.
    fn put_in(&mut self, place: &Place) {
        let Some(entry) = self.known.get(place).filter(|entry| entry.running.is_none()) else { return };
        let Some(wish) = entry.wish else { return };
        match wish.at {
            Some(at) => drop(self.later.insert((at, place.clone()))),
            None => {
                let slow = entry.slow;
                let ticket = Some(self.order(slow).push(wish.urgency, place.clone()));
                self.set_wish(place, Some(Wish { ticket, ..wish }));
            }
        }
    }

    /// Has one wait nowhere. Its wish stays.
    fn take_out(&mut self, place: &Place) {
        let Some(entry) = self.known.get(place) else { return };
        let (slow, Some(wish)) = (entry.slow, entry.wish) else { return };
        if let Some(at) = wish.at {
            self.later.remove(&(at, place.clone()));
        }
        if let Some(ticket) = wish.ticket {
            self.order(slow).remove(wish.urgency, ticket);
            self.set_wish(place, Some(Wish { ticket: None, ..wish }));
        }
    }

    fn set_wish(&mut self, place: &Place, wish: Option<Wish>) {
        if let Some(entry) = self.known.get_mut(place) {
            entry.wish = wish;
        }
    }

    fn order(&mut self, slow: bool) -> &mut Order<Place> {
        if slow { &mut self.ready_slow } else { &mut self.ready }
    }

    fn count(&mut self, lane: Lane) -> &mut usize {
        match lane {
            Lane::Of(urgency) => &mut self.running[urgency as usize],
            Lane::Slow => &mut self.running_slow,
        }
    }
}

#[cfg(test)]
mod tests;
