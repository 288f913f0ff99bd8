//! Time that nobody sets, and that goes on while the machine sleeps: a Lease does not wait for a laptop to be opened.

use std::ops::Add;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// A moment on this machine, since it started. It means nothing on another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    pub fn now() -> Self {
        let time = clock_gettime(CLOCK);
        Moment(Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default()))
    }

    /// How long it is until then; nothing if that was before.
    pub fn until(self, then: Moment) -> Duration {
        then.0.saturating_sub(self.0)
    }

    pub(super) fn as_nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_add(duration))
    }
}
