//! Hooks: what a chart runs at events of a release's life, and how far that has come.
//!
//! Pure. Which hooks an event has, in which order, what comes next by what is recorded, whether an object has ended, and what
//! is removed when. It makes and deletes nothing: that is for [`run`]. Nothing here waits; a hook that runs is a mark in the
//! record, and whoever comes next looks at it again.
//!
//! | module | what is in it |
//! |---|---|
//! | [`run`] | a hook's objects in the cluster: made, looked at, removed |

pub mod run;

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::manifest::{self, Hook};
use crate::object::Object;
use crate::release::{HookPhase, HookRecord};
use crate::watches::duration;

/// On a hook's object, or on the custom resource for all hooks that say nothing.
pub const TIMEOUT: &str = "chartwright.dev/hook-timeout";
/// As in Helm.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

/// When hooks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    PreInstall,
    PostInstall,
    PreUpgrade,
    PostUpgrade,
    PreRollback,
    PostRollback,
    PreDelete,
    PostDelete,
    Test,
}

impl Event {
    /// As charts write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Event::PreInstall => "pre-install",
            Event::PostInstall => "post-install",
            Event::PreUpgrade => "pre-upgrade",
            Event::PostUpgrade => "post-upgrade",
            Event::PreRollback => "pre-rollback",
            Event::PostRollback => "post-rollback",
            Event::PreDelete => "pre-delete",
            Event::PostDelete => "post-delete",
            Event::Test => "test",
        }
    }

    /// Whether a hook runs at this event.
    pub fn is_of(self, hook: &HookRecord) -> bool {
        // Older charts say `test-success`, and old records hold it.
        hook.events.iter().any(|event| event == self.as_str() || self == Event::Test && event == "test-success")
    }
}

/// When a hook's objects are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    BeforeCreation,
    Succeeded,
    Failed,
}

impl Policy {
    fn as_str(self) -> &'static str {
        match self {
            Policy::BeforeCreation => "before-hook-creation",
            Policy::Succeeded => "hook-succeeded",
            Policy::Failed => "hook-failed",
        }
    }

    /// Whether a hook's objects are deleted then. Helm never deletes a CRD, and where a chart says nothing it deletes what is left
    /// of the last run.
    pub fn deletes(self, hook: &HookRecord) -> bool {
        hook.kind != "CustomResourceDefinition" && self.is_asked(&hook.delete_policies, self == Policy::BeforeCreation)
    }

    /// Whether a hook's logs are told then.
    pub fn tells_logs(self, hook: &HookRecord) -> bool {
        self.is_asked(&hook.output_log_policies, false)
    }

    fn is_asked(self, policies: &[String], by_default: bool) -> bool {
        match policies {
            [] => by_default,
            policies => policies.iter().any(|policy| policy == self.as_str()),
        }
    }
}

/// A hook of a revision that was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    pub event: Event,
    /// Its place in the record's list.
    pub hook: usize,
    /// A revision that is tried again runs the hook that failed again, and no other.
    pub attempt: u32,
    pub phase: HookPhase,
    /// In seconds since 1970, on the API server's clock.
    pub since: i64,
}

impl Mark {
    fn is_at(&self, event: Event) -> bool {
        #[cfg(test)]
        crate::steps::count();
        self.event == event
    }

    /// Stands on the objects of this run, and on no others: hooks outlive their release, and names come again.
    pub fn run(&self, revision: u32, owner: &str) -> String {
        format!("{revision}.{}.{}.{}.{owner}", self.event.as_str(), self.hook, self.attempt)
    }

    /// How long it may still take. `now` and `created` are on the API server's clock.
    ///
    /// Once the run has an object, the time counts from the creation of that: the API server wrote it. A record may have been
    /// written by a replica whose clock was wrong. Where nothing else is known, a beginning that lies in the future is as wrong
    /// as one that lies as long in the past: a run must neither end early nor go on for ever because of it.
    pub fn left(&self, limit: Duration, created: Option<Timestamp>, now: Timestamp) -> Option<Duration> {
        let since = created.map_or(self.since, Timestamp::as_second);
        let passed = now.as_second().abs_diff(since);
        limit.checked_sub(Duration::from_secs(passed)).filter(|left| !left.is_zero())
    }
}

/// What comes next at an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A hook has not run, or has failed and is tried again.
    Begin(Mark),
    /// A hook was begun.
    Look(Mark),
    /// All have ended well.
    Done,
}

/// A hook of a render, as Helm records it.
pub fn recorded(hook: &Hook) -> HookRecord {
    let list = |key: &str| -> Vec<String> {
        let text = hook.object.annotation(key).unwrap_or_default();
        text.split(',').map(|item| item.trim().to_ascii_lowercase()).filter(|item| !item.is_empty()).collect()
    };
    HookRecord {
        name: hook.object.name().to_owned(),
        kind: hook.object.kind().to_owned(),
        path: hook.file.clone(),
        // helm prints the file by itself.
        manifest: hook
            .text
            .lines()
            .filter(|line| !line.starts_with("# Source: "))
            .map(|line| format!("{line}\n"))
            .collect::<String>()
            .into(),
        events: hook.events.clone(),
        weight: hook.object.annotation("helm.sh/hook-weight").and_then(|text| text.parse().ok()).unwrap_or(0),
        delete_policies: list("helm.sh/hook-delete-policy"),
        output_log_policies: list("helm.sh/hook-output-log-policy"),
        ..HookRecord::default()
    }
}

/// The objects of a hook. One that cannot be read is never made, and has none.
pub fn objects_of(hook: &HookRecord) -> Vec<Object> {
    let hooks = manifest::read_record(&hook.manifest.read()).map(|rendered| rendered.hooks).unwrap_or_default();
    hooks.into_iter().flat_map(Hook::into_objects).collect()
}

/// The hooks of an event in the order in which they run: by weight, then by name, then as Helm lists them.
pub fn at(event: Event, hooks: &[HookRecord]) -> Vec<usize> {
    let mut found: Vec<usize> = (0..hooks.len()).filter(|hook| event.is_of(&hooks[*hook])).collect();
    found.sort_by(|a, b| {
        #[cfg(test)]
        crate::steps::count();
        (hooks[*a].weight, &hooks[*a].name).cmp(&(hooks[*b].weight, &hooks[*b].name))
    });
    found
}

/// Whether an event has hooks.
pub fn has(event: Event, hooks: &[HookRecord]) -> bool {
    hooks.iter().any(|hook| event.is_of(hook))
}

/// What comes next, by what was begun.
pub fn next(event: Event, hooks: &[HookRecord], marks: &[Mark], now: Timestamp) -> Step {
    // A record of somebody else may have several of one hook. The first counts.
    let marks = marks.iter().rev().filter(|mark| mark.is_at(event));
    let marks: HashMap<usize, &Mark> = marks.map(|mark| (mark.hook, mark)).collect();
    for hook in at(event, hooks) {
        let mark = marks.get(&hook);
        let begin = |attempt| Mark { event, hook, attempt, phase: HookPhase::Running, since: now.as_second() };
        match mark {
            None => return Step::Begin(begin(1)),
            Some(mark) => match mark.phase {
                HookPhase::Succeeded => {}
                HookPhase::Failed => return Step::Begin(begin(mark.attempt.saturating_add(1))),
                _ => return Step::Look((*mark).clone()),
            },
        }
    }
    Step::Done
}

/// The hook that was begun and has not ended, as far as the record tells.
pub fn running(marks: &[Mark]) -> Option<&Mark> {
    marks.iter().find(|mark| mark.phase == HookPhase::Running)
}

/// Puts a mark in the place of an earlier one of the same hook at the same event.
pub fn note(marks: &mut Vec<Mark>, mark: Mark) {
    match marks.iter_mut().find(|known| known.is_at(mark.event) && known.hook == mark.hook) {
        Some(known) => *known = mark,
        None => marks.push(mark),
    }
}

/// When the API server created an object.
pub fn created(object: &Value) -> Option<Timestamp> {
    object.pointer("/metadata/creationTimestamp")?.as_str()?.parse().ok()
}

/// What has become of an object of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Life {
    Running,
    Succeeded,
    /// And why.
    Failed(String),
}

/// Whether an object of a hook has ended. Helm waits for Jobs and pods; everything else is there as soon as it was made.
pub fn life(object: &Value) -> Life {
    let core = object["apiVersion"].as_str().unwrap_or_default();
    match (core, object["kind"].as_str().unwrap_or_default()) {
        (version, "Job") if version.starts_with("batch/") => job(object),
        ("v1", "Pod") => match object.pointer("/status/phase").and_then(Value::as_str) {
            Some("Succeeded") => Life::Succeeded,
            Some("Failed") => Life::Failed(sentence(&object["status"], "the pod failed")),
            _ => Life::Running,
        },
        _ => Life::Succeeded,
    }
}

fn job(object: &Value) -> Life {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    for condition in conditions.filter(|condition| condition["status"] == "True") {
        match condition["type"].as_str() {
            Some("Complete") => return Life::Succeeded,
            Some("Failed") => return Life::Failed(sentence(condition, "the Job failed")),
            _ => {}
        }
    }
    Life::Running
}

/// `BackoffLimitExceeded: Job has reached the specified backoff limit`
fn sentence(said: &Value, otherwise: &str) -> String {
    let text = |key: &str| said[key].as_str().filter(|text| !text.is_empty());
    match (text("reason"), text("message")) {
        (Some(reason), Some(message)) => format!("{reason}: {message}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => otherwise.to_owned(),
    }
}

/// Whether two runs are tries of the same hook at the same event of the same revision.
pub fn is_same_but_for_attempt(a: &str, b: &str) -> bool {
    let parts =
        |run: &str| run.split('.').map(str::to_owned).enumerate().filter(|(at, _)| *at != 3).collect::<Vec<_>>();
    a.split('.').count() == 5 && parts(a) == parts(b)
}

/// Whether an object is waited for.
pub fn is_waited_for(kind: &str) -> bool {
    matches!(kind, "Job" | "Pod")
}

/// How long a hook may take, by what stands on its object.
pub fn limit_of(object: &Value, wished: Option<Duration>) -> Duration {
    limit(object.pointer("/metadata/annotations").and_then(|all| all.get(TIMEOUT)?.as_str()), wished)
}

/// Whether a text is a time limit.
pub fn is_limit(text: &str) -> bool {
    duration::parse(text).is_ok_and(|limit| !limit.is_zero())
}

/// How long a hook may take: as its object says, as the custom resource says, or as in Helm.
fn limit(object: Option<&str>, wished: Option<Duration>) -> Duration {
    let own = object.and_then(|text| duration::parse(text).ok()).filter(|limit| !limit.is_zero());
    own.or(wished).unwrap_or(DEFAULT_TIMEOUT)
}

#[cfg(test)]
mod tests;
