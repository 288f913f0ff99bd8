//! The memory that records take while somebody works with them, for all custom resources together.
//!
//! A turn takes room for what it reads before it reads more, and gives it back when it ends. Nobody waits for room: a turn without
//! room ends, and the custom resource is tried again later. Turns with small records have a pool of their own, so large ones never
//! stop them. One namespace has half of a pool at most, so that its tenant stops nobody else; a turn that is the only one of its
//! namespace may take more.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// A turn that takes no more is a small one.
const SMALL: usize = 4 * 1024 * 1024;

static POOLS: Pools = Pools::new();

/// Of all turns.
struct Pools {
    small: Pool,
    large: Pool,
}

impl Pools {
    const fn new() -> Self {
        Pools { small: Pool::of(64 * 1024 * 1024), large: Pool::of(96 * 1024 * 1024) }
    }
}

/// There is no room now.
#[derive(Debug, PartialEq, Eq)]
pub struct NoRoom;

struct Pool {
    bytes: usize,
    /// By namespace.
    taken: Mutex<BTreeMap<Box<str>, usize>>,
}

impl Pool {
    const fn of(bytes: usize) -> Self {
        Pool { bytes, taken: Mutex::new(BTreeMap::new()) }
    }

    /// Takes so many bytes in the place of those that the same turn had. What does not fit the pool takes all of it.
    fn replace(&self, namespace: &str, had: usize, wanted: usize) -> Result<usize, NoRoom> {
        let mut taken = locked(&self.taken);
        let wanted = wanted.min(self.bytes);
        let of_others = taken.values().sum::<usize>() - had;
        let of_namespace = taken.get(namespace).copied().unwrap_or_default() - had;
        let is_fair = of_namespace == 0 || of_namespace + wanted <= self.bytes / 2;
        if wanted > had && (of_others + wanted > self.bytes || !is_fair) {
            return Err(NoRoom);
        }
        match of_namespace + wanted {
            0 => taken.remove(namespace),
            bytes => taken.insert(namespace.into(), bytes),
        };
        Ok(wanted)
    }
}

/// What one turn has taken.
pub struct Lease {
    pools: &'static Pools,
    taken: Mutex<Taken>,
}

impl Default for Lease {
    fn default() -> Self {
        Lease { pools: &POOLS, taken: Mutex::default() }
    }
}

#[derive(Default)]
struct Taken {
    /// Of the custom resource's release. A turn has one.
    namespace: Box<str>,
    pool: Option<&'static Pool>,
    bytes: usize,
    /// Of these, what is needed until the turn ends.
    held: usize,
}

impl Lease {
    /// Takes so many bytes in all, unless it has them: `held` until the turn ends, `working` until [`Lease::settle`].
    pub fn cover(&self, namespace: &str, held: usize, working: usize) -> Result<(), NoRoom> {
        let mut taken = locked(&self.taken);
        let wanted = held + working;
        if wanted > taken.bytes {
            taken.move_to(namespace, if wanted <= SMALL { &self.pools.small } else { &self.pools.large }, wanted)?;
        }
        taken.held = taken.held.max(held);
        Ok(())
    }

    /// Gives back what was needed only to work with the records.
    pub fn settle(&self) {
        let mut taken = locked(&self.taken);
        let held = taken.held.min(taken.bytes);
        taken.shrink_to(held);
    }
}

impl Taken {
    fn move_to(&mut self, namespace: &str, pool: &'static Pool, wanted: usize) -> Result<(), NoRoom> {
        let is_same = self.pool.is_some_and(|own| std::ptr::eq(own, pool));
        let had = if is_same { self.bytes } else { 0 };
        let bytes = pool.replace(namespace, had, wanted)?;
        if !is_same {
            self.shrink_to(0);
        }
        (self.namespace, self.pool, self.bytes) = (namespace.into(), Some(pool), bytes);
        Ok(())
    }

    /// Giving back is never refused.
    fn shrink_to(&mut self, bytes: usize) {
        if let Some(Ok(left)) = self.pool.map(|pool| pool.replace(&self.namespace, self.bytes, bytes)) {
            self.bytes = left;
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// A poisoned lock still holds what was taken last.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
impl Lease {
    /// Several in pools of their own.
    pub fn alone<const COUNT: usize>() -> [Lease; COUNT] {
        let pools = Box::leak(Box::new(Pools::new()));
        std::array::from_fn(|_| Lease { pools, taken: Mutex::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    fn taken(pool: &Pool) -> usize {
        locked(&pool.taken).values().sum()
    }

    #[test]
    fn a_namespace_has_half_of_a_pool() {
        let [first, second, third, other] = Lease::alone();
        let pools = first.pools;
        first.cover("attacker", 40 * MIB, 0).unwrap();
        assert_eq!(second.cover("attacker", 9 * MIB, 0), Err(NoRoom), "that is more than half of the pool");
        second.cover("attacker", 8 * MIB, 0).unwrap();
        assert_eq!(third.cover("attacker", SMALL + 1, 0), Err(NoRoom));
        other.cover("bystander", 10 * MIB, 38 * MIB).unwrap();
        assert_eq!(taken(&pools.large), 96 * MIB);
        third.cover("attacker", SMALL, 0).unwrap();
        other.settle();
        assert_eq!(taken(&pools.large), 58 * MIB, "what is held stays");
        other.cover("bystander", 5 * MIB, 0).unwrap();
        assert_eq!(taken(&pools.large), 58 * MIB, "it has that already");
        drop((first, second, other));
        assert!(locked(&pools.large.taken).is_empty());
        third.cover("attacker", 200 * MIB, 0).unwrap();
        assert_eq!(taken(&pools.large), 96 * MIB, "the only turn of a namespace may take all");
        assert_eq!(taken(&pools.small), 0, "what was small is given back");
    }

    #[test]
    fn small_turns_of_one_namespace_leave_room_for_those_of_others() {
        let [large, other, small @ ..]: [Lease; 11] = Lease::alone();
        large.cover("attacker", 96 * MIB, 0).unwrap();
        assert_eq!(small.iter().filter(|lease| lease.cover("attacker", SMALL, 0).is_ok()).count(), 8);
        other.cover("bystander", SMALL, 0).unwrap();
    }
}
