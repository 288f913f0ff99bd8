//! What Events tell of pods and workloads that their status does not: failing probes, sandboxes, mounts, refusals.
//!
//! The API server keeps an Event for an hour. So each is held against the state that it may explain.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::fields::{count, number, text, time};
use super::wording::one_line;

/// A Warning about an object, as `events.k8s.io/v1` has it.
pub(super) struct Warning<'a> {
    pub(super) reason: &'a str,
    pub(super) note: String,
    /// The container that it is about; empty where it is the whole object.
    container: &'a str,
    /// How often it happened.
    pub(super) times: i64,
    /// When it happened last.
    at: Option<Timestamp>,
}

/// A probe, as the kubelet calls it in its Events.
#[derive(Clone, Copy)]
pub(super) enum Probe {
    Startup,
    Readiness,
    Liveness,
}

impl Probe {
    fn as_str(self) -> &'static str {
        match self {
            Probe::Startup => "Startup",
            Probe::Readiness => "Readiness",
            Probe::Liveness => "Liveness",
        }
    }

    /// The reason of a condition.
    pub(super) fn failed(self) -> &'static str {
        match self {
            Probe::Startup => "StartupProbeFailed",
            Probe::Readiness => "ReadinessProbeFailed",
            Probe::Liveness => "LivenessProbeFailed",
        }
    }

    /// `readinessProbe`
    pub(super) fn field(self) -> &'static str {
        match self {
            Probe::Startup => "startupProbe",
            Probe::Readiness => "readinessProbe",
            Probe::Liveness => "livenessProbe",
        }
    }
}

/// The Warnings about an object, by its UID: another one of its name may have been there before.
pub(super) fn about<'a>(events: &'a [Value], object: &Value) -> Vec<Warning<'a>> {
    let uid = text(object, "/metadata/uid");
    let is_meant = |event: &&Value| text(event, "/regarding/uid") == uid && text(event, "/type") == "Warning";
    events.iter().filter(|_| !uid.is_empty()).filter(is_meant).map(Warning::of).collect()
}

/// The one of these that happened last.
pub(super) fn latest<'a, 'b>(warnings: impl Iterator<Item = &'b Warning<'a>>) -> Option<&'b Warning<'a>>
where
    'a: 'b,
{
    warnings.max_by_key(|warning| warning.at)
}

impl<'a> Warning<'a> {
    fn of(event: &'a Value) -> Self {
        // `spec.containers{app}`
        let path = text(event, "/regarding/fieldPath");
        let container = path.split_once('{').and_then(|(_, rest)| rest.strip_suffix('}')).unwrap_or_default();
        let at = ["/series/lastObservedTime", "/deprecatedLastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
        let times = number(event, "/series/count").unwrap_or_else(|| count(event, "/deprecatedCount"));
        Warning {
            reason: text(event, "/reason"),
            note: one_line(text(event, "/note")),
            container,
            times: times.max(1),
            at: at.iter().find_map(|pointer| time(event, pointer)),
        }
    }

    pub(super) fn is_about_all(&self) -> bool {
        self.container.is_empty()
    }

    /// Whether a probe of this container failed, at or after a time.
    pub(super) fn is_failure(&self, probe: Probe, container: &str, since: Option<Timestamp>) -> bool {
        self.reason == "Unhealthy"
            && self.container == container
            && self.note.strip_prefix(probe.as_str()).is_some_and(|rest| rest.starts_with(" probe "))
            && since.is_none_or(|since| self.at.is_some_and(|at| at >= since))
    }

    /// `readiness probe failed: HTTP probe failed with statuscode: 404`
    pub(super) fn uncapitalised(&self) -> String {
        let mut letters = self.note.chars();
        letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
    }
}
