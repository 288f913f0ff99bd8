//! The API server's clock.
//!
//! Deadlines outlive a replica: one writes down when something began, and another may be the one to judge it. Their clocks may
//! differ by minutes. So both use the clock that all share: the API server tells the time in the `Date` of every answer, and
//! between two answers the time is counted by this machine's monotonic clock, which nobody sets.

use std::sync::RwLock;
use std::time::{Duration, Instant};

use http::{HeaderMap, header};
use k8s_openapi::jiff::fmt::rfc2822::DateTimeParser;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// A reading is good for so long. Monotonic clocks do not run apart much faster.
const FRESH: Duration = Duration::from_secs(10);

/// A process talks to one API server.
static SERVER: Clock = Clock(RwLock::new(None));

/// The time on the API server. Before its first answer, that of this machine.
pub fn now() -> Timestamp {
    SERVER.at(Instant::now()).unwrap_or_else(Timestamp::now)
}

/// Learns the time from an answer.
pub(super) fn note(headers: &HeaderMap) {
    SERVER.note(headers, Instant::now());
}

#[derive(Clone, Copy)]
struct Reading {
    time: Timestamp,
    at: Instant,
}

struct Clock(RwLock<Option<Reading>>);

impl Clock {
    fn note(&self, headers: &HeaderMap, at: Instant) {
        let is_fresh = |reading: Reading| at.saturating_duration_since(reading.at) < FRESH;
        if self.reading().is_some_and(is_fresh) {
            return;
        }
        let text = headers.get(header::DATE).and_then(|date| date.to_str().ok());
        let Some(time) = text.and_then(|text| DateTimeParser::new().parse_timestamp(text).ok()) else { return };
        *self.0.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(Reading { time, at });
    }

    fn at(&self, now: Instant) -> Option<Timestamp> {
        let Reading { time, at } = self.reading()?;
        let passed = SignedDuration::try_from(now.saturating_duration_since(at)).ok()?;
        time.checked_add(passed).ok()
    }

    fn reading(&self) -> Option<Reading> {
        *self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(date: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::DATE, date.parse().unwrap())])
    }

    fn time(text: &str) -> Option<Timestamp> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn the_time_is_the_servers_whatever_this_machine_says() {
        let (clock, start) = (Clock(RwLock::new(None)), Instant::now());
        assert_eq!(clock.at(start), None);
        clock.note(&headers("Sun, 06 Nov 1994 08:49:37 GMT"), start);
        assert_eq!(clock.at(start), time("1994-11-06T08:49:37Z"));
        assert_eq!(clock.at(start + Duration::from_secs(90)), time("1994-11-06T08:51:07Z"));
    }

    #[test]
    fn a_later_answer_corrects_it_and_an_unreadable_one_does_not() {
        let (clock, start) = (Clock(RwLock::new(None)), Instant::now());
        clock.note(&headers("Sun, 06 Nov 1994 08:49:37 GMT"), start);
        let later = start + Duration::from_secs(60);
        clock.note(&headers("half past eight"), later);
        assert_eq!(clock.at(later), time("1994-11-06T08:50:37Z"));
        clock.note(&headers("Sun, 06 Nov 1994 09:00:00 GMT"), later);
        assert_eq!(clock.at(later), time("1994-11-06T09:00:00Z"));
    }
}
