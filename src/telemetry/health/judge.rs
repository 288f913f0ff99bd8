//! Whether the operator is alive, judged from how its watches and queues are. Pure: the time is passed in.
//!
//! Dead means that a restart would help, and nothing else would. An API server that is away is no reason, nor is
//! anything that it answers, a refusal or an error: the next process would find the same. Nor is a busy machine: everything here is measured in minutes.

use std::time::{Duration, Instant};

use crate::queue::Pulse;
use crate::watching::{State, Trouble, Watched};

/// A turn may take so many times what anything else may be stuck for. A release of thousands of objects on a slow API server takes
/// long, and works.
const LONG_TURN: u32 = 12;

/// Why the watches are not alive, one sentence each.
///
/// One that nobody answers is believed only while another has been working all the time: then the API server answers, and this one
/// does not find its way back.
pub fn watches(all: &[Watched], now: Instant, patience: Duration) -> Vec<String> {
    let lasts = |watched: &Watched| now.saturating_duration_since(watched.since) >= patience;
    let has_witness = all.iter().any(|watched| watched.state == State::Working && lasts(watched));
    let dead = all.iter().filter_map(|watched| match watched.state {
        State::Dead => Some(format!("the watch of {} has ended", watched.resource)),
        State::Failing(Trouble::Unanswered) if has_witness && lasts(watched) => Some(format!(
            "the watch of {} has had no answer for {} s, while others work",
            watched.resource,
            now.saturating_duration_since(watched.since).as_secs()
        )),
        _ => None,
    });
    dead.collect()
}

/// Why the queues are not alive, one sentence each. A standby has queues that nobody works on, and who has begun to work just now has
/// had no time yet: `worked` says for how long it does.
pub fn queues(all: &[(String, Pulse)], worked: Option<Duration>, patience: Duration) -> Vec<String> {
    let Some(worked) = worked else { return vec![] };
    let why = all.iter().filter_map(|(kind, pulse)| {
        let longest = pulse.running.iter().max().copied().unwrap_or_default();
        match pulse.stuck.map(|stuck| stuck.min(worked)) {
            Some(stuck) if stuck >= patience => {
                Some(format!("{kind}: somebody has been due for {} s, and nobody has a turn", stuck.as_secs()))
            }
            _ if longest >= patience * LONG_TURN => {
                Some(format!("{kind}: a turn has been running for {} s", longest.as_secs()))
            }
            _ => None,
        }
    });
    why.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(300);

    fn judged(all: &[(&str, State, u64)]) -> Vec<String> {
        let start = Instant::now();
        let now = start + Duration::from_secs(10_000);
        let watched = |(resource, state, age): &(&str, State, u64)| Watched {
            resource: (*resource).to_owned(),
            state: *state,
            since: now - Duration::from_secs(*age),
        };
        watches(&all.iter().map(watched).collect::<Vec<_>>(), now, PATIENCE)
    }

    #[test]
    fn a_watch_that_nobody_answers_alone_is_dead_and_not_when_all_fail() {
        let broken = State::Failing(Trouble::Unanswered);
        let alone = judged(&[("secrets", broken, 400), ("apps", State::Working, 5000)]);
        assert_eq!(alone, ["the watch of secrets has had no answer for 400 s, while others work"]);
        assert!(judged(&[("secrets", broken, 400), ("apps", broken, 390)]).is_empty(), "the API server is away");
        let just_back = [("secrets", broken, 4000), ("apps", State::Working, 15)];
        assert!(judged(&just_back).is_empty(), "the API server has just come back");
        assert!(judged(&[("secrets", broken, 200), ("apps", State::Working, 5000)]).is_empty(), "not for long");
        assert!(judged(&[("secrets", broken, 400), ("apps", State::Starting, 5000)]).is_empty(), "no witness");
    }

    #[test]
    fn who_is_answered_is_not_dead_and_who_panicked_is() {
        for answered in [Trouble::Refused, Trouble::Answered] {
            let all = [("secrets", State::Failing(answered), 9000), ("apps", State::Working, 9000)];
            assert!(judged(&all).is_empty(), "the next process would be told the same");
        }
        assert_eq!(judged(&[("secrets", State::Dead, 1)]), ["the watch of secrets has ended"]);
    }

    #[test]
    fn a_queue_is_stuck_when_nobody_gets_the_turn_that_is_there() {
        let seconds = Duration::from_secs;
        let judged = |stuck: Option<u64>, running: &[u64]| {
            let running = running.iter().copied().map(seconds).collect();
            let pulse = Pulse { stuck: stuck.map(seconds), running, ..Pulse::default() };
            queues(&[("App".to_owned(), pulse)], Some(seconds(9000)), PATIENCE)
        };
        assert!(judged(None, &[]).is_empty() && judged(Some(299), &[1]).is_empty());
        assert_eq!(judged(Some(301), &[]), ["App: somebody has been due for 301 s, and nobody has a turn"]);
        assert!(judged(None, &[3000, 2]).is_empty(), "a large release");
        assert_eq!(judged(None, &[2, 3600]), ["App: a turn has been running for 3600 s"]);
    }

    #[test]
    fn a_standby_has_no_stuck_queue_and_neither_has_who_has_just_taken_over() {
        let seconds = Duration::from_secs;
        let pulse = Pulse { stuck: Some(seconds(4000)), ..Pulse::default() };
        let judged = |worked| queues(&[("App".to_owned(), pulse.clone())], worked, PATIENCE);
        assert!(judged(None).is_empty() && judged(Some(seconds(299))).is_empty());
        assert_eq!(judged(Some(seconds(301))).len(), 1);
    }
}
