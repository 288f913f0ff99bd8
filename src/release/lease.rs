//! The memory that records take while somebody works with them, for all custom resources together.
//!
//! A turn takes a share that is as large as what it read may become, and gives it back when it ends. Turns with small records
//! have a pool of their own, so that they never wait behind large ones.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

/// What is counted together.
const UNIT: usize = 64 * 1024;
/// A turn that takes no more is a small one.
const SMALL: usize = 4 * 1024 * 1024;
const SMALL_POOL: usize = 64 * 1024 * 1024;
const LARGE_POOL: usize = 96 * 1024 * 1024;
/// Large records wait for so long, and then are read at a later turn.
const PATIENCE: Duration = Duration::from_secs(10);

static SMALL_ONES: Semaphore = Semaphore::const_new(SMALL_POOL / UNIT);
static LARGE_ONES: Semaphore = Semaphore::const_new(LARGE_POOL / UNIT);

/// What one turn has taken.
#[derive(Default)]
pub struct Lease(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    units: usize,
    permits: Vec<SemaphorePermit<'static>>,
}

/// There was no room in time.
#[derive(Debug, PartialEq, Eq)]
pub struct NoRoom;

impl Lease {
    /// Takes so many bytes in all, unless it has them. What does not fit the pool takes all of it.
    pub async fn cover(&self, bytes: usize) -> Result<(), NoRoom> {
        self.cover_within(bytes, PATIENCE).await
    }

    async fn cover_within(&self, bytes: usize, patience: Duration) -> Result<(), NoRoom> {
        let Some((pool, more)) = self.missing(bytes) else { return Ok(()) };
        let permit = tokio::time::timeout(patience, pool.acquire_many(more)).await;
        let Ok(Ok(permit)) = permit else { return Err(NoRoom) };
        self.take(permit);
        Ok(())
    }

    /// The same without waiting. Says whether it has them.
    pub fn cover_now(&self, bytes: usize) -> bool {
        let Some((pool, more)) = self.missing(bytes) else { return true };
        match pool.try_acquire_many(more) {
            Ok(permit) => {
                self.take(permit);
                true
            }
            Err(_) => false,
        }
    }

    /// How many units have to be taken for so many bytes in all, and where.
    fn missing(&self, bytes: usize) -> Option<(&'static Semaphore, u32)> {
        let (pool, needs) = match bytes <= SMALL {
            true => (&SMALL_ONES, bytes.div_ceil(UNIT)),
            false => (&LARGE_ONES, bytes.div_ceil(UNIT).min(LARGE_POOL / UNIT)),
        };
        let more = needs.checked_sub(self.taken().units).filter(|more| *more > 0)?;
        Some((pool, u32::try_from(more).unwrap_or(u32::MAX)))
    }

    fn take(&self, permit: SemaphorePermit<'static>) {
        let mut taken = self.taken();
        taken.units += permit.num_permits();
        taken.permits.push(permit);
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn large_ones_wait_for_each_other_and_small_ones_for_none_of_them() {
        let (first, second, small) = (Lease::default(), Lease::default(), Lease::default());
        first.cover(LARGE_POOL / 2).await.unwrap();
        first.cover(LARGE_POOL * 2).await.unwrap();
        assert_eq!(second.cover_within(SMALL + 1, Duration::from_millis(10)).await, Err(NoRoom));
        assert!(!second.cover_now(SMALL + 1) && small.cover_now(SMALL / 4));
        small.cover(SMALL).await.unwrap();
        small.cover(SMALL / 2).await.unwrap();
        assert_eq!(small.taken().units, SMALL / UNIT, "it has that already");
        drop(first);
        second.cover(SMALL + 1).await.unwrap();
    }
}
