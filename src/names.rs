//! Names that occur many times, kept once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use crate::custom_resource::Place;

/// A pool of names. Those that nobody uses any more are let go from time to time.
#[derive(Default)]
pub struct Names(Mutex<Pool>);

#[derive(Default)]
struct Pool {
    names: HashSet<Arc<str>>,
    /// How many there may be until the next sweep.
    limit: usize,
}

impl Names {
    pub fn share(&self, name: &str) -> Arc<str> {
        // A poisoned lock still holds names.
        let mut pool = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(known) = pool.names.get(name) {
            return known.clone();
        }
        if pool.names.len() >= pool.limit {
            pool.names.retain(|name| Arc::strong_count(name) > 1);
            pool.limit = (pool.names.len() * 2).max(1024);
        }
        let name: Arc<str> = name.into();
        pool.names.insert(name.clone());
        name
    }

    pub fn place(&self, place: &Place) -> Place {
        Place { namespace: place.namespace.as_deref().map(|name| self.share(name)), name: self.share(&place.name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_once_and_let_go_when_unused() {
        let names = Names::default();
        let one = names.share("default");
        assert!(Arc::ptr_eq(&one, &names.share("default")));
        for number in 0..5000 {
            names.share(&number.to_string());
        }
        assert!(names.0.lock().unwrap().names.len() <= 1025);
        assert!(Arc::ptr_eq(&one, &names.share("default")));
    }
}
