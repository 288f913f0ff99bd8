//! Which kinds there are, and what lives of each: for metrics and probes, which look at it when they are asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::core::GroupVersionKind;

use super::resources::Resources;
use crate::namespaces::Scope;
use crate::queue::Queue;

#[derive(Clone, Default)]
pub struct Lives(Arc<Mutex<BTreeMap<String, Kind>>>);

/// A kind of watches.yaml.
#[derive(Clone)]
pub struct Kind {
    pub gvk: GroupVersionKind,
    pub presence: Presence,
}

#[derive(Clone)]
pub enum Presence {
    /// Nobody has asked the API server yet.
    Unknown,
    /// It does not know the kind.
    Absent,
    Here(Here),
}

/// What is held of a kind that is there.
#[derive(Clone)]
pub struct Here {
    pub queue: Arc<Queue>,
    pub resources: Arc<Resources>,
    /// What of it is watched.
    pub scopes: Vec<Scope>,
}

impl Here {
    /// Whether a whole list of everything that is watched has been seen.
    pub fn is_synced(&self) -> bool {
        self.resources.is_synced(&self.scopes)
    }
}

impl Lives {
    pub fn note(&self, gvk: &GroupVersionKind, presence: Presence) {
        let key = format!("{}/{}", gvk.api_version(), gvk.kind);
        self.locked().insert(key, Kind { gvk: gvk.clone(), presence });
    }

    /// By their names.
    pub fn all(&self) -> Vec<Kind> {
        self.locked().values().cloned().collect()
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<String, Kind>> {
        // A poisoned lock still holds what lives.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
