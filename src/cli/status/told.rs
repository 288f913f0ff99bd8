//! What a custom resource tells of itself, as plain data.
//!
//! Its spec is not read: whoever wrote it may have nested it more deeply than anything reads, and nobody asks for it here.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::cli::waiting::condition;
use crate::release::OwnerMark;
use crate::release::mask::MASK;
use crate::status::UNKNOWN_FIELDS;
use crate::wishes::{self, PAUSED, Pause};

/// A custom resource in a list.
#[derive(Clone, Debug, Deserialize)]
pub struct Listed {
    pub metadata: Metadata,
    #[serde(default)]
    status: Option<Box<RawValue>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    pub name: String,
    pub namespace: Option<String>,
    pub uid: String,
    pub generation: Option<i64>,
    pub creation_timestamp: Option<Time>,
    pub deletion_timestamp: Option<Time>,
    pub annotations: BTreeMap<String, String>,
}

/// A custom resource and its status.
#[derive(Clone, Debug, Default)]
pub struct Told {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub metadata: Metadata,
    pub status: Value,
    /// As the operator reads it, and none where it was over when this was told.
    pub pause: Pause,
}

/// Whether it is ready, as far as it tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    Yes,
    No,
    /// Nobody has looked at it yet, or not since its spec changed.
    Unknown,
}

impl Ready {
    pub fn as_str(self) -> &'static str {
        match self {
            Ready::Yes => "True",
            Ready::No => "False",
            Ready::Unknown => "Unknown",
        }
    }
}

impl Listed {
    /// A status that cannot be read counts as none.
    pub fn told(self, group: &str, version: &str, kind: &str, now: Timestamp) -> Told {
        let pause = wishes::pause(&self.metadata.annotations);
        let status = self.status.and_then(|status| serde_json::from_str(status.get()).ok()).unwrap_or_default();
        Told {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            metadata: self.metadata,
            status,
            pause: pause.left(now).map_or(Pause::None, |_| pause),
        }
    }
}

impl Told {
    /// `Nginx default/web`
    pub fn shown(&self) -> String {
        format!("{} {}", self.kind, self.place())
    }

    /// `default/web`
    pub fn place(&self) -> String {
        let namespace = self.metadata.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        format!("{namespace}{}", self.metadata.name)
    }

    pub fn owner_mark(&self) -> OwnerMark {
        OwnerMark {
            group: self.group.clone(),
            kind: self.kind.clone(),
            namespace: self.metadata.namespace.clone(),
            name: self.metadata.name.clone(),
            uid: self.metadata.uid.clone(),
        }
    }

    /// Without the words of programs and people: nobody looked for secrets in them.
    pub fn without_quotes(mut self) -> Self {
        for list in ["conditions", "objects"] {
            for item in self.status.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                if let Some(message) = item.get_mut("message") {
                    *message = MASK.into();
                }
            }
        }
        self.metadata.annotations.values_mut().for_each(|said| *said = MASK.to_owned());
        self
    }

    pub fn conditions(&self) -> impl Iterator<Item = &Value> {
        self.status["conditions"].as_array().into_iter().flatten()
    }

    /// The message of a condition that is true.
    fn truth(&self, kind: &str) -> Option<&str> {
        let found = condition(&self.status, kind).filter(|it| it["status"] == "True")?;
        Some(found["message"].as_str().or(found["reason"].as_str()).unwrap_or_default())
    }

    pub fn is_true(&self, kind: &str) -> bool {
        self.truth(kind).is_some()
    }

    /// Whether the operator has seen the spec as it is now.
    pub fn is_observed(&self) -> bool {
        self.metadata.generation.is_none() || self.status["observedGeneration"].as_i64() == self.metadata.generation
    }

    pub fn ready(&self) -> Ready {
        let told = condition(&self.status, "Ready").and_then(|it| it["status"].as_str());
        match told {
            Some("True") if self.is_observed() => Ready::Yes,
            Some("False") if self.is_observed() => Ready::No,
            _ => Ready::Unknown,
        }
    }

    /// Waiting alone will not make it ready.
    pub fn is_stuck(&self) -> bool {
        self.is_observed() && self.is_true("Stalled")
    }

    pub fn release(&self) -> Option<&str> {
        self.status.pointer("/deployedRelease/name")?.as_str()
    }

    pub fn revision(&self) -> Option<u64> {
        self.status.pointer("/deployedRelease/revision")?.as_u64()
    }

    pub fn repairs(&self) -> u64 {
        self.status.pointer("/repairs/count").and_then(Value::as_u64).unwrap_or_default()
    }

    /// Why it is not as it should be; None where all is well. A pause comes first: it is why nothing is done about the rest.
    pub fn error(&self) -> Option<String> {
        let trouble = self.trouble()?;
        Some(match self.pause_words() {
            Some(paused) => format!("{paused}; {trouble}"),
            None => trouble,
        })
    }

    fn trouble(&self) -> Option<String> {
        if let Some(failed) = self.truth("ReleaseFailed") {
            return Some(failed.to_owned());
        }
        if !self.is_observed() && self.status["conditions"].is_array() {
            let generation = self.metadata.generation.unwrap_or_default();
            return Some(match self.pause {
                Pause::None => format!("the operator has not seen generation {generation} yet"),
                Pause::Open | Pause::Until(_) => format!("generation {generation} waits"),
            });
        }
        let ready = condition(&self.status, "Ready");
        match ready.filter(|it| it["status"] != "True") {
            Some(ready) => {
                let (reason, message) = (ready["reason"].as_str(), ready["message"].as_str());
                Some([reason, message].into_iter().flatten().collect::<Vec<_>>().join(": "))
            }
            None if ready.is_none() => Some("the operator has said nothing about it yet".to_owned()),
            None => None,
        }
    }

    pub fn held(&self) -> Option<&str> {
        self.truth("Held")
    }

    pub fn contested(&self) -> Option<&str> {
        self.truth("Contested")
    }

    pub fn unknown_fields(&self) -> Option<&str> {
        self.truth(UNKNOWN_FIELDS)
    }

    /// What the annotation that pauses it says, as far as it holds.
    pub fn paused(&self) -> Option<String> {
        match self.pause {
            Pause::None => None,
            Pause::Open => Some("true".to_owned()),
            Pause::Until(end) => Some(end.to_string()),
        }
    }

    /// `paused until 2030-01-31T08:00:00Z`
    pub fn pause_words(&self) -> Option<String> {
        match self.pause {
            Pause::None => None,
            Pause::Open => Some("paused".to_owned()),
            Pause::Until(end) => Some(format!("paused until {end}")),
        }
    }

    /// Whether nobody will work on it before a time, unless somebody resumes it.
    pub fn is_paused_until(&self, time: Timestamp) -> bool {
        match self.pause {
            Pause::None => false,
            Pause::Open => true,
            Pause::Until(end) => end >= time,
        }
    }

    /// What ends a pause.
    pub fn resume(&self) -> String {
        let place = self.metadata.namespace.as_ref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
        format!("kubectl annotate {} {}{place} {PAUSED}-", self.kind.to_lowercase(), self.metadata.name)
    }

    /// The texts of a list in its status.
    pub fn list(&self, key: &str) -> Vec<&str> {
        self.status[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }

    pub fn created(&self) -> Option<Timestamp> {
        self.metadata.creation_timestamp.as_ref().map(|time| time.0)
    }
}

/// How long ago something was, as kubectl says it: `45s`, `3m20s`, `5h`, `12d`.
pub fn ago(then: Option<Timestamp>, now: Timestamp) -> String {
    let Some(then) = then else { return "-".to_owned() };
    let seconds = now.duration_since(then).as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 && seconds % 60 > 0 => format!("{minutes}m{}s", seconds % 60),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 48 => format!("{hours}h"),
        () => format!("{days}d"),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::json;

    pub fn told(status: Value) -> Told {
        let listed = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u", "generation": 2,
            "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}, "status": status});
        // A text: what is not read is kept as text, and there is none in a value.
        serde_json::from_str::<Listed>(&listed.to_string()).unwrap().told("demo.io", "v1", "Nginx", start())
    }

    fn start() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn annotated(paused: &str) -> Told {
        let listed = json!({"metadata": {"name": "web", "annotations": {PAUSED: paused}}});
        serde_json::from_str::<Listed>(&listed.to_string()).unwrap().told("demo.io", "v1", "Nginx", start())
    }

    #[test]
    fn it_is_paused_only_where_the_operator_says_so_too() {
        for not in ["yes", "", "false", "F", "2020-01-01T00:00:00Z"] {
            assert_eq!(annotated(not).paused(), None, "{not}");
        }
        for (written, shown) in [("true", "true"), ("1", "true"), ("2030-01-31T08:00:00Z", "2030-01-31T08:00:00Z")] {
            assert_eq!(annotated(written).paused().as_deref(), Some(shown), "{written}");
        }
    }

    #[test]
    fn a_pause_says_why_a_new_spec_is_not_seen() {
        let mut paused = told(conditions(&[("Ready", "True", "Ready", "")]));
        paused.pause = Pause::Open;
        assert_eq!(paused.error(), None, "all is well");
        paused.metadata.generation = Some(3);
        assert_eq!(paused.error().unwrap(), "paused; generation 3 waits");
        assert_eq!(paused.resume(), "kubectl annotate nginx web -n shop chartwright.dev/paused-");
    }

    pub fn conditions(list: &[(&str, &str, &str, &str)]) -> Value {
        let condition = |(kind, status, reason, message): &(&str, &str, &str, &str)| json!({"type": kind, "status": status, "reason": reason, "message": message});
        json!({"observedGeneration": 2, "conditions": list.iter().map(condition).collect::<Vec<_>>()})
    }

    #[test]
    fn ready_is_what_the_operator_says_of_the_spec_as_it_is() {
        let good = told(conditions(&[("Ready", "True", "Ready", "")]));
        assert_eq!((good.ready(), good.error()), (Ready::Yes, None));
        let mut old = good.clone();
        old.metadata.generation = Some(3);
        assert_eq!(old.ready(), Ready::Unknown);
        assert_eq!(old.error().unwrap(), "the operator has not seen generation 3 yet");
        let new = told(Value::Null);
        assert_eq!(
            (new.ready(), new.error().unwrap()),
            (Ready::Unknown, "the operator has said nothing about it yet".to_owned())
        );
    }

    #[test]
    fn the_error_is_the_failure_before_what_is_not_ready() {
        let waits = conditions(&[
            ("Ready", "False", "Progressing", "Deployment a/b: 0 of 1"),
            ("ReleaseFailed", "False", "", ""),
        ]);
        assert_eq!(told(waits).error().unwrap(), "Progressing: Deployment a/b: 0 of 1");
        let failed = conditions(&[
            ("Ready", "False", "RenderFailed", "x"),
            ("ReleaseFailed", "True", "InstallError", "RenderFailed: x"),
        ]);
        assert_eq!(told(failed).error().unwrap(), "RenderFailed: x");
    }

    #[test]
    fn a_spec_of_any_depth_is_no_obstacle() {
        let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
        let text =
            format!(r#"{{"metadata": {{"name": "a", "managedFields": {deep}}}, "spec": {deep}, "status": {deep}}}"#);
        let told = serde_json::from_str::<Listed>(&text).unwrap().told("g", "v1", "K", start());
        assert_eq!((told.metadata.name.as_str(), told.status), ("a", Value::Null));
    }

    #[test]
    fn ages_are_short() {
        let start = start();
        for (seconds, expected) in
            [(0, "0s"), (119, "119s"), (120, "2m"), (200, "3m20s"), (700, "11m"), (20_000, "5h"), (1_000_000, "11d")]
        {
            let now = Timestamp::from_second(start.as_second() + seconds).unwrap();
            assert_eq!(ago(Some(start), now), expected);
        }
        assert_eq!(ago(None, start), "-");
    }
}
