//! What the window's Secret says, and what follows from it. Pure.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::GATHER;

/// Longer than any migration takes, and short enough that nobody forgets it open.
pub const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    pub opened_at: Timestamp,
    pub until: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
    /// How many releases were signed.
    #[serde(default)]
    pub signed: u32,
    #[serde(flatten)]
    pub limits: Limits,
}

/// Which releases the window is open for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Those of this namespace; of every one where it is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Those with these names; all where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub releases: Vec<String>,
    /// Sign what the records hold, whatever the chart renders. It requires names of releases.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub as_recorded: bool,
}

impl Limits {
    /// Whether the records of a release are signed without a comparison with the chart.
    pub fn include_as_recorded(&self, namespace: &str, release: &str) -> bool {
        self.as_recorded && !self.releases.is_empty() && self.include(namespace, release)
    }

    pub fn include(&self, namespace: &str, release: &str) -> bool {
        self.namespace.as_deref().is_none_or(|only| only == namespace)
            && (self.releases.is_empty() || self.releases.iter().any(|only| only == release))
    }
}

impl State {
    pub fn new(now: Timestamp, length: Duration, limits: Limits) -> Self {
        State { opened_at: now, until: now + length.min(LONGEST), closed_at: None, signed: 0, limits }
    }

    pub fn is_open(&self, now: Timestamp) -> bool {
        self.closed_at.is_none() && self.opened_at <= now && now < self.until && self.until <= self.opened_at + LONGEST
    }
}

/// What the operator has to do next about the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Tell that it is open.
    Open,
    /// Write what was counted.
    Write,
    /// Write that it is closed.
    Close,
    Rest,
}

/// What to do next, and how long to wait before.
pub fn next(state: &State, is_told: bool, is_written: bool, now: Timestamp) -> (Duration, Turn) {
    let until = |then: Timestamp| now.duration_until(then).try_into().unwrap_or(Duration::ZERO);
    let turn =
        if state.closed_at.is_some() || state.until > state.opened_at + LONGEST { Turn::Rest } else { Turn::Close };
    match turn {
        // Its clock may be ahead of this one.
        Turn::Close if !is_told && now < state.until => (until(state.opened_at), Turn::Open),
        _ if !is_written => (GATHER.min(until(state.until)), Turn::Write),
        turn => (until(state.until), turn),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn open() -> State {
        State::new(at(0), seconds(60), Limits::default())
    }

    #[test]
    fn a_window_of_a_clock_that_is_ahead_is_told_when_it_opens() {
        assert_eq!(next(&open(), false, true, at(-20)), (seconds(20), Turn::Open));
        assert_eq!(next(&open(), false, true, at(5)), (seconds(0), Turn::Open));
        assert_eq!(next(&open(), true, true, at(5)), (seconds(55), Turn::Close));
    }

    #[test]
    fn what_was_counted_is_written_soon_and_before_the_window_closes() {
        assert_eq!(next(&open(), true, false, at(5)), (GATHER, Turn::Write));
        assert_eq!(next(&open(), true, false, at(60)), (seconds(0), Turn::Write));
        assert_eq!(next(&open(), true, true, at(60)), (seconds(0), Turn::Close));
    }

    #[test]
    fn a_window_that_is_over_is_closed_once_and_never_told() {
        assert_eq!(next(&open(), false, true, at(61)), (seconds(0), Turn::Close));
        let closed = State { closed_at: Some(at(60)), ..open() };
        assert_eq!(next(&closed, false, true, at(61)).1, Turn::Rest);
        let endless = State { until: at(0) + LONGEST + seconds(1), ..open() };
        assert!(!endless.is_open(at(1)));
        assert_eq!(next(&endless, false, true, at(1)).1, Turn::Rest);
    }

    #[test]
    fn a_window_for_some_releases_is_closed_for_all_others() {
        let releases = vec!["web".into(), "db".into()];
        let limits = Limits { namespace: Some("shop".into()), releases, as_recorded: false };
        assert!(limits.include("shop", "web") && limits.include("shop", "db"));
        assert!(!limits.include("shop", "other") && !limits.include("bank", "web"));
        assert!(Limits { releases: vec![], ..limits.clone() }.include("shop", "other"));
        assert!(Limits::default().include("bank", "x"));
        let state = State::new(at(0), seconds(60), limits);
        let read: State = serde_json::from_slice(&serde_json::to_vec(&state).unwrap()).unwrap();
        assert_eq!(read, state);
        let plain = serde_json::to_value(open()).unwrap();
        for field in ["namespace", "releases", "asRecorded"] {
            assert!(plain.get(field).is_none(), "{plain}");
        }
    }

    #[test]
    fn only_named_releases_are_signed_as_recorded() {
        let named = Limits { namespace: Some("shop".into()), releases: vec!["web".into()], as_recorded: true };
        assert!(named.include_as_recorded("shop", "web"));
        assert!(!named.include_as_recorded("shop", "db") && !named.include_as_recorded("bank", "web"));
        assert!(!Limits { as_recorded: false, ..named.clone() }.include_as_recorded("shop", "web"));
        assert!(!Limits { releases: vec![], ..named }.include_as_recorded("shop", "web"));
    }
}
