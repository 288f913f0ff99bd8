//! One sentence over many objects: is the release ready, and if not, what to look at first.

use std::cmp::Reverse;
use std::fmt::Display;

use super::{Health, State};
use crate::ellipsis::shortened;

/// How many objects are named. More would hide the one that matters.
const NAMED: usize = 3;
/// Bytes for all that are named: with the rest of the sentence they stay below 1 KiB, which is what an Event takes.
const ENTRIES_LIMIT: usize = 960;

/// The health of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Every object is Current.
    pub ready: bool,
    /// At least one object is Failed: waiting alone will not help.
    pub failed: bool,
    /// Why it is not ready, in one CamelCase word; `None` while everything is just on its way.
    pub reason: Option<String>,
    /// Below 1 KiB.
    pub message: String,
}

/// Sums up objects, each with the name it is shown by, such as `Deployment/web`.
///
/// The worst go first, those with a known cause before the others; among equals the caller's order stays, so give them in an
/// order that does not change.
pub fn summary<Name: Display>(objects: &[(Name, Health)]) -> Summary {
    let mut unready: Vec<_> = objects.iter().filter(|(_, health)| !health.is_ready()).collect();
    unready.sort_by_key(|(_, health)| Reverse((health.state == State::Failed, health.is_degraded(), health.state)));
    Summary {
        ready: unready.is_empty(),
        failed: unready.iter().any(|(_, health)| health.state == State::Failed),
        reason: unready
            .first()
            .filter(|(_, health)| health.is_degraded())
            .map(|(_, health)| health.reason().to_owned()),
        message: if unready.is_empty() { all_ready(objects.len()) } else { first_of(&unready) },
    }
}

fn all_ready(count: usize) -> String {
    match count {
        0 => "there are no objects".to_owned(),
        1 => "1 object is ready".to_owned(),
        n => format!("{n} objects are ready"),
    }
}

fn first_of<Name: Display>(unready: &[&(Name, Health)]) -> String {
    let limit = ENTRIES_LIMIT / unready.len().clamp(1, NAMED);
    let named = unready.iter().take(NAMED).map(|(name, health)| shortened(&health.sentence_about(name), limit));
    let message = named.collect::<Vec<_>>().join("; ");
    match unready.len().saturating_sub(NAMED) {
        0 => message,
        more => format!("{message}; and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Cause;
    use super::*;

    fn health(state: State, message: &str) -> Health {
        Health::new(state, "Reason", message)
    }

    #[test]
    fn all_ready() {
        let objects = [("Service/web", health(State::Current, "")), ("Deployment/web", health(State::Current, ""))];
        let expected = Summary { ready: true, failed: false, reason: None, message: "2 objects are ready".to_owned() };
        assert_eq!(summary(&objects), expected);
        assert!(summary::<&str>(&[]).ready, "nothing to wait for");
    }

    #[test]
    fn the_worst_go_first_and_the_order_among_equals_stays() {
        let objects = [
            ("ConfigMap/c", health(State::Current, "exists")),
            ("Deployment/b", health(State::InProgress, "0 of 1 replica ready")),
            ("Deployment/a", health(State::InProgress, "never named")),
            ("Job/migrate", health(State::Failed, "Job failed")),
            ("Secret/s", Health::not_found()),
            ("Service/x", health(State::InProgress, "never named")),
        ];
        let expected =
            "Job/migrate: Job failed; Secret/s: does not exist; Deployment/b: 0 of 1 replica ready; and 2 more";
        let reason = Some("Reason".to_owned());
        assert_eq!(summary(&objects), Summary { ready: false, failed: true, reason, message: expected.to_owned() });
    }

    #[test]
    fn waiting_is_not_failing() {
        let summary = summary(&[("Deployment/b", health(State::Terminating, "is being deleted"))]);
        let expected = "Deployment/b: is being deleted".to_owned();
        assert_eq!(summary, Summary { ready: false, failed: false, reason: None, message: expected });
    }

    #[test]
    fn a_cause_comes_first_and_gives_its_reason() {
        let cause = Cause {
            pod: "web-1".to_owned(),
            container: "app".to_owned(),
            ..Cause::of_object("ImagePullBackOff", "cannot pull image \"x:y\": not found")
        };
        let objects = [
            ("Service shop/x", Health::not_found()),
            ("Deployment shop/a", health(State::InProgress, "0 of 1 replica ready")),
            ("Deployment shop/web", health(State::InProgress, "1 replica still to be removed").because(cause)),
        ];
        let summary = summary(&objects);
        assert_eq!(summary.reason.as_deref(), Some("ImagePullBackOff"));
        let expected = "cannot pull image \"x:y\": not found (container \"app\" of pod web-1, Deployment shop/web); \
                        Service shop/x: does not exist; Deployment shop/a: 0 of 1 replica ready";
        assert_eq!(summary.message, expected);
    }

    #[test]
    fn a_message_stays_below_one_kib() {
        let long = ("ö".repeat(400), health(State::Failed, &"ö".repeat(4000)));
        let summary = summary(&vec![long; 100_000]);
        assert!(summary.message.len() < 1024, "{}", summary.message.len());
        assert!(summary.message.ends_with("; and 99997 more"));
    }
}
