//! How many helm processes run at once, and who has to make room.
//!
//! helm is bound by the processor, so few run at once, the most urgent first. One that takes long must not keep the others
//! out: it moves to a slow lane. There is room for a few; who finds none is put off, and comes again as somebody who is known
//! to take long. So charts that hang start no more processes than there are places, and hold up only each other.

use std::pin::pin;
use std::time::Duration;

use super::memory::Room;
use crate::queue::{Turn, Urgency};
use crate::slots::Slots;

/// Most charts render within this, also at a low priority on a busy machine. Who takes longer moves on if there is room: not
/// earlier, since every further process makes all others slower.
const MOVE: Duration = Duration::from_millis(1500);
/// Who takes longer than this takes long, also on a busy machine: without room it is put off, and the next time it starts in
/// the slow lane.
const PATIENCE: Duration = Duration::from_secs(3);
/// A helm process may take 100 MiB, and one in an endless loop a whole processor.
const SLOW: usize = 4;
/// One of each kind.
pub const FEWEST: usize = 3;

/// So many are of use at once. Two that are quick at least, so that one that hangs does not stop all until it has moved.
pub fn most(processors: usize) -> usize {
    quick(processors) + 1 + SLOW
}

fn quick(processors: usize) -> usize {
    processors.max(2)
}

#[derive(Clone)]
pub struct Lanes {
    quick: Slots,
    /// For edits only, so that none waits for an install to end.
    edits: Slots,
    slow: Slots,
}

impl Lanes {
    /// As many as there is memory for.
    pub fn new(processors: usize) -> Self {
        let (quick, slow) = divided(Room::here(processors).at_once, processors);
        Lanes { quick: Slots::new(quick), edits: Slots::new(1), slow: Slots::new(slow) }
    }

    /// The lanes, each with how many are in it and how many wait.
    pub fn load(&self) -> [(&'static str, (usize, usize)); 3] {
        [("quick", self.quick.load()), ("edits", self.edits.load()), ("slow", self.slow.load())]
    }

    /// Renders what no custom resource waits for, beside the others.
    pub async fn aside<T>(&self, render: impl Future<Output = T>) -> T {
        let _slow = self.slow.acquire(Urgency::Recheck).await;
        render.await
    }

    /// Renders when there is room. None: it was put off, and the next turn tries again.
    pub async fn run<T>(&self, turn: &Turn, render: impl Future<Output = T>) -> Option<T> {
        let mut render = pin!(render);
        if turn.slow {
            let _slow = self.slow.acquire(turn.urgency).await;
            let rendered = tokio::time::timeout(PATIENCE, render.as_mut()).await;
            match rendered {
                Ok(_) => turn.is_quick(),
                Err(_) => return Some(render.await),
            }
            return rendered.ok();
        }
        let quick = match (turn.urgency == Urgency::Edit).then(|| self.edits.try_acquire()).flatten() {
            Some(own) => own,
            None => self.quick.acquire(turn.urgency).await,
        };
        if let Ok(rendered) = tokio::time::timeout(MOVE, render.as_mut()).await {
            return Some(rendered);
        }
        let room = tokio::time::timeout(PATIENCE - MOVE, self.slow.acquire(turn.urgency));
        let room = tokio::select! {
            rendered = render.as_mut() => return Some(rendered),
            room = room => room,
        };
        let Ok(_slow) = room else {
            turn.is_slow();
            return None;
        };
        drop(quick);
        if let Ok(rendered) = tokio::time::timeout(PATIENCE, render.as_mut()).await {
            return Some(rendered);
        }
        turn.is_slow();
        Some(render.await)
    }
}

/// Places for those that are quick and for those that are not, beside the one for edits.
fn divided(at_once: usize, processors: usize) -> (usize, usize) {
    let places = at_once.max(FEWEST) - 1;
    let quick = quick(processors).min(places - (places / 2).min(SLOW));
    (quick, (places - quick).min(SLOW))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_has_room_and_together_they_have_no_more_than_there_is() {
        assert_eq!(divided(3, 4), (1, 1));
        assert_eq!(divided(4, 4), (2, 1));
        assert_eq!(divided(5, 4), (2, 2));
        for processors in [1, 2, 4, 64] {
            assert_eq!(divided(most(processors), processors), (processors.max(2), SLOW));
        }
    }
}
