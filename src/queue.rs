//! Which custom resource comes next.

use futures::channel::mpsc::UnboundedSender;

use crate::custom_resource::Place;

/// How long something may wait. The greatest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Urgency {
    /// Nothing is known to have changed.
    Recheck,
    /// A first install.
    Install,
    /// Somebody changed the spec of something deployed, or one of its objects.
    Edit,
}

/// The custom resources of one kind that wait for their turn.
pub struct Queue {
    tell: UnboundedSender<(Place, Urgency)>,
    tell_all: UnboundedSender<()>,
}

impl Queue {
    pub fn new(tell: UnboundedSender<(Place, Urgency)>, tell_all: UnboundedSender<()>) -> Self {
        Queue { tell, tell_all }
    }

    /// Has one reconciled soon.
    pub fn tell(&self, place: Place, urgency: Urgency) {
        // The receiver is gone only when the operator stops.
        let _ = self.tell.unbounded_send((place, urgency));
    }

    /// Has all reconciled soon.
    pub fn tell_all(&self, _urgency: Urgency) {
        let _ = self.tell_all.unbounded_send(());
    }
}
