//! The order in which things of different urgency go ahead. Pure.
//!
//! The most urgent class goes first, and within a class who came first. So that the others are not kept out for ever, every
//! fourth turn goes to the one of a lower class that waits longest.

use std::collections::BTreeMap;

use super::Urgency;

const TURN_OF_THE_LOWER: u32 = 4;

/// A number that says who came first.
pub type Ticket = u64;

#[derive(Debug)]
pub struct Order<T> {
    /// By urgency, then by ticket.
    waiting: [BTreeMap<Ticket, T>; 3],
    next_ticket: Ticket,
    /// Turns in a row that others of a lower class waited through.
    passed: u32,
}

impl<T> Default for Order<T> {
    fn default() -> Self {
        Order { waiting: Default::default(), next_ticket: 0, passed: 0 }
    }
}

impl<T> Order<T> {
    pub fn push(&mut self, urgency: Urgency, item: T) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting[urgency as usize].insert(ticket, item);
        ticket
    }

    pub fn remove(&mut self, urgency: Urgency, ticket: Ticket) -> Option<T> {
        self.waiting[urgency as usize].remove(&ticket)
    }

    /// Makes one that waits more urgent. It keeps its ticket.
    pub fn promote(&mut self, from: Urgency, to: Urgency, ticket: Ticket) {
        if let Some(item) = self.remove(from, ticket) {
            self.waiting[to as usize].insert(ticket, item);
        }
    }

    /// How many of a class wait.
    pub fn len(&self, urgency: Urgency) -> usize {
        self.waiting[urgency as usize].len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.iter().all(BTreeMap::is_empty)
    }

    /// Who goes ahead, of those classes that may.
    pub fn pop(&mut self, may: impl Fn(Urgency) -> bool) -> Option<(Urgency, T)> {
        let candidate = |urgency: &Urgency| may(*urgency) && !self.waiting[*urgency as usize].is_empty();
        let first = Urgency::ALL.into_iter().rev().find(candidate)?;
        let head = |urgency: &Urgency| self.waiting[*urgency as usize].keys().next().copied();
        let lower = Urgency::ALL.into_iter().filter(|urgency| *urgency < first && candidate(urgency)).min_by_key(head);
        let chosen = match lower {
            Some(lower) if self.passed + 1 >= TURN_OF_THE_LOWER => lower,
            _ => first,
        };
        self.passed = if lower.is_some() && chosen == first { self.passed + 1 } else { 0 };
        self.waiting[chosen as usize].pop_first().map(|(_, item)| (chosen, item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Urgency::*;

    fn all(order: &mut Order<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| order.pop(|_| true).map(|(_, item)| item)).collect()
    }

    #[test]
    fn the_urgent_go_first_and_every_fourth_turn_is_for_the_others() {
        let mut order = Order::default();
        order.push(Recheck, "r1");
        order.push(Install, "i1");
        order.push(Install, "i2");
        for edit in ["e1", "e2", "e3", "e4", "e5", "e6", "e7"] {
            order.push(Edit, edit);
        }
        assert_eq!(all(&mut order), ["e1", "e2", "e3", "r1", "e4", "e5", "e6", "i1", "e7", "i2"]);
    }

    #[test]
    fn a_class_that_may_not_is_passed_over() {
        let mut order = Order::default();
        order.push(Edit, "e");
        order.push(Install, "i");
        assert_eq!(order.pop(|urgency| urgency != Edit), Some((Install, "i")));
        assert_eq!(order.pop(|urgency| urgency != Edit), None);
        assert_eq!(order.pop(|_| true), Some((Edit, "e")));
        assert!(order.is_empty());
    }

    #[test]
    fn who_becomes_more_urgent_keeps_its_place_in_time() {
        let mut order = Order::default();
        let ticket = order.push(Recheck, "first");
        order.push(Edit, "second");
        order.promote(Recheck, Edit, ticket);
        assert_eq!(all(&mut order), ["first", "second"]);
    }
}
