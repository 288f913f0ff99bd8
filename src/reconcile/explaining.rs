//! Why something is not ready: asked while it is not, less and less often, and reported once per cause.
//!
//! What pods and Events say is other people's text: it is redacted as soon as it is known.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::journal::SELDOM;
use super::{Next, Standing, Subject};
use crate::causes::{self, Answer};
use crate::drift::Hash;
use crate::error::sentence;
use crate::health::{Cause, Health};
use crate::log_tail::{self, Container};
use crate::object::ObjectId;

/// How long something may take to become ready before anybody asks why it is not.
const FIRST: Duration = Duration::from_secs(2);
/// The longest pause between two looks.
const LONGEST: Duration = Duration::from_secs(60);
/// Warnings about one custom resource within the time that a cause is remembered.
const MOST_REPORTED: usize = 16;

/// A cause as it was found, and as it may be shown.
pub struct Explained {
    said: Hash,
    cause: Cause,
    /// The watch told it, and nobody had to ask.
    is_seen: bool,
}

/// Causes that were reported, and when they were seen last.
#[derive(Default)]
pub struct Reported(Vec<(Hash, Instant)>);

impl Reported {
    /// Notes a cause, and says whether it is to be reported: it was not seen for a while, and there were not too many.
    fn note(&mut self, cause: Hash, now: Instant) -> bool {
        self.0.retain(|(_, seen)| now.duration_since(*seen) < SELDOM);
        if let Some((_, seen)) = self.0.iter_mut().find(|(known, _)| *known == cause) {
            *seen = now;
            return false;
        }
        let is_room = self.0.len() < MOST_REPORTED;
        if is_room {
            self.0.push((cause, now));
        }
        is_room
    }

    pub fn is_nothing(&self) -> bool {
        self.0.iter().all(|(_, seen)| seen.elapsed() >= SELDOM)
    }
}

/// What is reported.
pub(super) struct Report<'a> {
    /// What it is about: a custom resource may have several objects with one cause.
    pub object: &'a ObjectId,
    pub revision: u32,
    pub reason: &'a str,
    pub cause: Option<&'a Cause>,
    pub message: &'a str,
}

/// How long to wait after so many looks.
fn pause(looks: u32) -> Duration {
    FIRST.mul_f64(1.5_f64.powi(looks.min(20).try_into().unwrap_or(20))).min(LONGEST)
}

impl Subject<'_> {
    /// While workloads are not ready, and only then, their pods are asked why, less and less often. What the watch tells of a
    /// cause is known without that.
    pub(super) async fn explain(&self, healths: &mut [(ObjectId, Health)], standing: Option<&Standing>) -> Next {
        let unready = || healths.iter().filter(|(_, health)| !health.is_ready());
        let mut found: Vec<(ObjectId, Option<Cause>)> =
            unready().filter_map(|(id, health)| Some((id.clone(), Some(health.cause()?.clone())))).collect();
        let open: Vec<ObjectId> = unready()
            .filter(|(id, health)| has_pods(id) && health.cause().is_none())
            .map(|(id, _)| id.clone())
            .collect();
        let memory = &self.context.memory;
        let now = Instant::now();
        let due = memory.with(&self.owner.uid, |memory| {
            memory.causes.retain(|id, explained| match explained.is_seen {
                true => found.iter().any(|(known, _)| known == id),
                false => open.contains(id),
            });
            if open.is_empty() {
                (memory.asked, memory.ask_at) = (0, None);
                return false;
            }
            *memory.ask_at.get_or_insert(now + FIRST) <= now
        });
        let seen = found.len();
        if due {
            for id in &open {
                found.push((id.clone(), self.cause(id).await));
            }
        }
        self.remember_causes(found, seen, standing).await;
        memory.with(&self.owner.uid, |memory| {
            if due {
                memory.asked += 1;
                memory.ask_at = Some(now + pause(memory.asked));
            }
            for (id, health) in healths.iter_mut().filter(|(_, health)| !health.is_ready()) {
                if let Some(explained) = memory.causes.get(id) {
                    *health = health.clone().because(explained.cause.clone());
                }
            }
            memory
                .ask_at
                .map_or(Next::Rest, |at| Next::Look(at.saturating_duration_since(now).max(Duration::from_millis(100))))
        })
    }

    /// Remembers what may be shown of causes, the first `seen` of which the watch told.
    async fn remember_causes(&self, found: Vec<(ObjectId, Option<Cause>)>, seen: usize, standing: Option<&Standing>) {
        let is_known = |(id, cause): &(ObjectId, Option<Cause>)| {
            let said = cause.as_ref().map(said);
            self.context.memory.with(&self.owner.uid, |memory| memory.causes.get(id).map(|it| it.said) == said)
        };
        if found.iter().all(is_known) {
            return;
        }
        // What the chart's own Secrets hold is known from the record only, unless it was rendered just now.
        self.learn_standing(standing).await;
        for (place, (id, cause)) in found.into_iter().enumerate() {
            let explained = cause.map(|cause| Explained {
                said: said(&cause),
                cause: self.shown_cause(cause),
                is_seen: place < seen,
            });
            self.context.memory.with(&self.owner.uid, |memory| match explained {
                Some(explained) => drop(memory.causes.insert(id, explained)),
                None => drop(memory.causes.remove(&id)),
            });
        }
    }

    /// Why a workload's pods are not ready. What cannot be asked is not explained: the workload's own state is told anyway.
    async fn cause(&self, id: &ObjectId) -> Option<Cause> {
        let kind = self.context.kinds.kinds().any_version(&id.group, &id.kind)?;
        let live = self.calls.get(&kind, id).await.ok()??;
        let answer = causes::of(&serde_json::to_value(live).ok()?, &self.calls).await;
        self.answered_cause(answer)
    }

    /// Why the newest run of a Job or of a Pod that runs once failed or does not begin, as it may be shown.
    pub(super) async fn cause_of_run(&self, object: &Value) -> Option<Cause> {
        let answer = causes::of_run(object, &self.calls).await;
        self.answered_cause(answer).map(|cause| self.shown_cause(cause))
    }

    pub(super) fn answered_cause(&self, answer: Answer) -> Option<Cause> {
        answer.refused.iter().for_each(|error| self.context.events_refused.note(error));
        answer.cause
    }

    pub(super) fn shown_cause(&self, cause: Cause) -> Cause {
        Cause { message: self.shown(&cause.message), ..cause }
    }

    async fn learn_standing(&self, standing: Option<&Standing>) {
        let Some(standing) = standing else { return };
        match &standing.record {
            Some(record) => self.learn_record(record),
            // Without it, nobody knows what must not be shown beyond what was learned already.
            None => match self.release(standing.revision).await {
                Ok(record) => self.learn_record(&record),
                Err(error) => tracing::debug!("cannot read the record of revision {}: {error}", standing.revision),
            },
        }
    }

    /// A Warning and a line in the log for each object with something wrong, once per cause.
    pub(super) async fn report_causes(&self, objects: &[(ObjectId, Health)], revision: u32) {
        // A moment later there may be a cause to report.
        let is_unasked = self.context.memory.with(&self.owner.uid, |memory| memory.asked == 0);
        let is_early = |id: &ObjectId, health: &Health| is_unasked && has_pods(id) && health.cause().is_none();
        let degraded = objects.iter().filter(|(id, health)| health.is_degraded() && !is_early(id, health));
        for (id, health) in degraded {
            let message = health.sentence_about(id);
            let report =
                Report { object: id, revision, reason: health.reason(), cause: health.cause(), message: &message };
            let was_written = self.is_in_status(id, health);
            self.report_cause(&report, was_written).await;
        }
    }

    /// The same for one cause. `was_written` is whether the status has it already, after a restart.
    pub(super) async fn report_cause(&self, report: &Report<'_>, was_written: bool) {
        let (place, revision) = (format!("{:?}", report.object.key()), report.revision.to_string());
        // Without the name of the pod: its replacement has the same cause.
        let container = report.cause.map_or("", |cause| &cause.container);
        let key = Hash::of([place.as_str(), &revision, report.reason, container].into_iter());
        let is_new = self.context.memory.with(&self.owner.uid, |memory| memory.reported.note(key, Instant::now()));
        if !is_new || was_written {
            return;
        }
        self.warn(report.reason, report.message).await;
        if let Some(cause) = report.cause {
            self.write_log_tail("ContainerLog", report.object, cause).await;
        }
    }

    /// Whether the last status says this of an object.
    fn is_in_status(&self, id: &ObjectId, health: &Health) -> bool {
        let objects = self.status().and_then(|status| status["objects"].as_array()).into_iter().flatten();
        let mut objects = objects.filter(|entry| entry["kind"] == id.kind && entry["name"] == id.name);
        objects.any(|entry| entry["message"] == health.sentence())
    }

    /// Writes the last lines of the container that a cause is about to the operator's log, if the watch asks for it.
    pub(super) async fn write_log_tail(&self, reason: &'static str, id: &ObjectId, cause: &Cause) {
        let Some(container) = Container::of(cause, id.namespace.as_deref(), &id.name) else { return };
        self.write_log_of(reason, &container).await;
    }

    pub(super) async fn write_log_of(&self, reason: &'static str, container: &Container) {
        let lines = self.context.watch.log_tail;
        if lines == 0 {
            return;
        }
        let Container { pod, name, .. } = container;
        match log_tail::last(container, lines, &self.calls).await {
            Ok(lines) => {
                for line in lines {
                    let line = self.shown(&line);
                    tracing::info!(reason, pod, container = name, "| {line}");
                }
            }
            Err(error) => {
                tracing::info!(reason, pod, container = name, "cannot read the log: {}", sentence(&error))
            }
        }
    }
}

/// Stands for a cause.
fn said(cause: &Cause) -> Hash {
    Hash::of([cause.reason.as_str(), &cause.message, &cause.pod, &cause.container].into_iter())
}

fn has_pods(id: &ObjectId) -> bool {
    matches!(
        (id.group.as_str(), id.kind.as_str()),
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet") | ("batch", "Job") | ("", "Pod")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_reported_once_and_again_after_a_while() {
        let (mut reported, start) = (Reported::default(), Instant::now());
        let cause = |name: &str| Hash::of([name].into_iter());
        assert!(reported.note(cause("a"), start));
        assert!(!reported.note(cause("a"), start + SELDOM / 2));
        assert!(!reported.note(cause("a"), start + SELDOM), "it was seen all the time");
        assert!(reported.note(cause("a"), start + SELDOM * 3));
    }

    #[test]
    fn reports_are_bounded() {
        let (mut reported, now) = (Reported::default(), Instant::now());
        let count = (0..100).filter(|n| reported.note(Hash::of([n.to_string().as_str()].into_iter()), now)).count();
        assert_eq!((count, reported.0.len()), (MOST_REPORTED, MOST_REPORTED));
    }

    #[test]
    fn looks_become_fewer() {
        let pauses: Vec<u64> = (0..10).map(|looks| pause(looks).as_secs()).collect();
        assert_eq!(pauses, [2, 3, 4, 6, 10, 15, 22, 34, 51, 60]);
        assert_eq!(pause(u32::MAX), LONGEST);
    }
}
