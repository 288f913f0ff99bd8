//! A limit on how many do something at once, where the more urgent go ahead.
//!
//! **Contract.** Within an urgency it is first come, first served; the lower ones get on too (see [`crate::queue::order`]).
//! Whoever stops waiting loses nobody's slot: one that was about to be handed over goes to the next.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::oneshot;

use crate::queue::Urgency;
use crate::queue::order::{Order, Ticket};

#[derive(Clone)]
pub struct Slots(Arc<Mutex<State>>);

struct State {
    total: usize,
    free: usize,
    waiting: Order<oneshot::Sender<Slot>>,
}

impl Slots {
    pub fn new(count: usize) -> Self {
        Slots(Arc::new(Mutex::new(State { total: count, free: count, waiting: Order::default() })))
    }

    /// Waits for a slot. It is free again when it is dropped.
    pub async fn acquire(&self, urgency: Urgency) -> Slot {
        let (ticket, slot) = {
            let mut state = self.locked();
            // Whoever is free has nobody waiting: a slot that comes back goes to those first.
            if state.free > 0 {
                state.free -= 1;
                return self.slot();
            }
            let (sender, receiver) = oneshot::channel();
            (state.waiting.push(urgency, sender), receiver)
        };
        let _place = Waiting { slots: self, urgency, ticket };
        slot.await.expect("whoever waits is only taken out to be handed a slot")
    }

    /// A slot, if one is free right now.
    pub fn try_acquire(&self) -> Option<Slot> {
        let mut state = self.locked();
        state.free = state.free.checked_sub(1)?;
        Some(self.slot())
    }

    /// How many are taken, and how many wait for one.
    pub fn load(&self) -> (usize, usize) {
        let state = self.locked();
        (state.total - state.free, Urgency::ALL.iter().map(|urgency| state.waiting.len(*urgency)).sum())
    }

    fn slot(&self) -> Slot {
        Slot(Some(self.clone()))
    }

    /// Gives a slot to the next who still wants it.
    fn hand_on(&self) {
        loop {
            let next = {
                let mut state = self.locked();
                let Some((_, next)) = state.waiting.pop(|_| true) else {
                    state.free += 1;
                    return;
                };
                next
            };
            match next.send(self.slot()) {
                Ok(()) => return,
                // It just stopped waiting. The slot must not come back by itself as well.
                Err(mut slot) => drop(slot.0.take()),
            }
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        // A poisoned lock still counts.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The right to do it.
pub struct Slot(Option<Slots>);

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(slots) = self.0.take() {
            slots.hand_on();
        }
    }
}

/// Leaves the order when nobody waits any more.
struct Waiting<'a> {
    slots: &'a Slots,
    urgency: Urgency,
    ticket: Ticket,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let left = self.slots.locked().waiting.remove(self.urgency, self.ticket);
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::FutureExt;

    use super::*;
    use Urgency::*;

    #[tokio::test]
    async fn the_more_urgent_go_ahead() {
        let slots = Slots::new(1);
        let held = slots.acquire(Recheck).await;
        let mut recheck = pin!(slots.acquire(Recheck));
        let mut install = pin!(slots.acquire(Install));
        let mut edit = pin!(slots.acquire(Edit));
        assert!(recheck.as_mut().now_or_never().is_none());
        assert!(install.as_mut().now_or_never().is_none());
        assert!(edit.as_mut().now_or_never().is_none());
        assert!(slots.try_acquire().is_none());
        assert_eq!(slots.load(), (1, 3));
        drop(held);
        assert!(install.as_mut().now_or_never().is_none());
        drop(edit.as_mut().now_or_never().expect("the edit has it"));
        assert!(recheck.as_mut().now_or_never().is_none());
        drop(install.as_mut().now_or_never().expect("then the install"));
        drop(recheck.as_mut().now_or_never().expect("then the recheck"));
        assert!(slots.try_acquire().is_some());
    }

    #[tokio::test]
    async fn a_slot_on_its_way_to_somebody_who_left_goes_to_the_next() {
        let slots = Slots::new(1);
        let held = slots.acquire(Edit).await;
        let mut left = Box::pin(slots.acquire(Edit));
        let mut next = pin!(slots.acquire(Edit));
        assert!(left.as_mut().now_or_never().is_none());
        assert!(next.as_mut().now_or_never().is_none());
        drop(held);
        // It was handed over, but never looked at.
        drop(left);
        assert!(next.as_mut().now_or_never().is_some());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_slot_is_lost_or_doubled_when_many_come_and_leave() {
        let slots = Slots::new(3);
        let busy = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let tasks: Vec<_> = (0..400)
            .map(|n: usize| {
                let (slots, busy) = (slots.clone(), busy.clone());
                tokio::spawn(async move {
                    let patience = std::time::Duration::from_micros((n as u64 % 7) * 300);
                    let waited = tokio::time::timeout(patience, slots.acquire(Urgency::ALL[n % 3])).await;
                    let Ok(_slot) = waited else { return };
                    assert!(busy.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 3);
                    tokio::task::yield_now().await;
                    busy.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let free: Vec<_> = std::iter::from_fn(|| slots.try_acquire()).collect();
        assert_eq!(free.len(), 3);
    }
}
