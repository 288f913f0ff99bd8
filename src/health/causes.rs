//! What is wrong with a workload that is not ready, as its pods and their Events tell it.
//!
//! A workload's own status counts pods; it never says what is wrong with them. [`why`] looks at all pods, names the worst
//! trouble in words a person can act on, and says nothing where there is only ordinary start-up. It judges nothing: the
//! verdict is [`of`](super::of)'s, made from the workload itself.

use std::fmt::Display;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::events;
use super::fields::{Kind, is_deleted, number, text};
use super::pods::{self, Finding};
use super::wording::{one_line, word};
use crate::ellipsis::shortened;

/// Bytes of a cause, so that the names behind it fit a status too.
const MESSAGE_LIMIT: usize = 360;
/// The Events of so many objects are worth a call each.
const MOST_ASKED: usize = 3;

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// One CamelCase word, where there is one that of the kubelet, the scheduler or a controller.
    pub reason: String,
    /// `cannot pull image "x:y": not found`; one bounded line.
    pub message: String,
    /// The pod that it is about; empty where it is the object itself.
    pub pod: String,
    /// The container that it is about; empty where it is all of the pod.
    pub container: String,
    pub is_init: bool,
    /// It may just take time: nothing is known to be wrong.
    pub is_wait: bool,
}

impl Cause {
    /// About an object itself.
    pub fn of_object(reason: &str, message: &str) -> Self {
        let message = if message.trim().is_empty() { reason } else { message };
        Cause {
            reason: word(reason).unwrap_or("Failed").to_owned(),
            message: shortened(&one_line(message), MESSAGE_LIMIT),
            pod: String::new(),
            container: String::new(),
            is_init: false,
            is_wait: false,
        }
    }

    /// `container "app" of pod web-1`; empty where it is about the object itself.
    pub fn place(&self) -> String {
        let noun = if self.is_init { "init container" } else { "container" };
        match (self.container.as_str(), self.pod.as_str()) {
            ("", "") => String::new(),
            ("", pod) => format!("pod {pod}"),
            (container, "") => format!("{noun} \"{container}\""),
            (container, pod) => format!("{noun} \"{container}\" of pod {pod}"),
        }
    }

    /// The cause and its place, for a sentence that names the object elsewhere.
    pub fn sentence(&self) -> String {
        match self.place() {
            place if place.is_empty() => self.message.clone(),
            place => format!("{} ({place})", self.message),
        }
    }

    /// The same for whoever does not know the object: the cause first, then the names.
    pub fn sentence_about(&self, object: impl Display) -> String {
        match self.place() {
            place if place.is_empty() => format!("{} ({object})", self.message),
            place => format!("{} ({place}, {object})", self.message),
        }
    }
}

/// What is wrong with a workload: the worst trouble among its pods, or that pods cannot be created. `None` while there is
/// nothing but ordinary start-up, or nothing at all.
///
/// `events` are Warnings about the pods and the workload, as far as somebody read them; see [`unexplained`].
///
/// Pods of an earlier template count only where those of the newest one are all ready: a rollout replaces them. Equally bad
/// pods are told apart by name, so the answer stays the same from one look to the next.
pub fn why(workload: &Value, pods: &[Value], events: &[Value], now: Timestamp) -> Option<Cause> {
    let (current, earlier) = by_template(pods);
    let missing = || not_created(workload, pods, events);
    worst(&current, events, now).or_else(missing).or_else(|| match current.iter().any(|pod| pods::is_starting(pod)) {
        true => None,
        // Their Events are read by nobody.
        false => worst(&earlier, &[], now),
    })
}

/// The UIDs of those whose Events may tell what their status does not: some pods, and the workload where pods are missing.
/// Empty where nothing is left to explain, or where it is too early to tell trouble from start-up.
pub fn unexplained(workload: &Value, pods: &[Value], now: Timestamp) -> Vec<String> {
    let (current, _) = by_template(pods);
    let missing = Some(workload).filter(|_| are_missing(workload, pods));
    let unexplained = current.into_iter().filter(|pod| pods::is_unexplained(pod, now));
    let objects = unexplained.chain(missing).take(MOST_ASKED);
    objects.map(|object| text(object, "/metadata/uid").to_owned()).filter(|uid| !uid.is_empty()).collect()
}

fn worst(pods: &[&Value], events: &[Value], now: Timestamp) -> Option<Cause> {
    pods.iter()
        .filter_map(|pod| pods::finding(pod, events, now))
        .min_by(|a, b| a.trouble.cmp(&b.trouble).then_with(|| a.cause.pod.cmp(&b.cause.pod)))
        .map(|Finding { cause, .. }| cause)
}

/// The pods of the newest template, and those of earlier ones. A rollback uses an earlier template, and its pods are newer.
fn by_template(pods: &[Value]) -> (Vec<&Value>, Vec<&Value>) {
    const LABELS: [&str; 2] = ["pod-template-hash", "controller-revision-hash"];
    fn template(pod: &Value) -> &str {
        let label = |key: &&str| pod.pointer("/metadata/labels").and_then(|labels| labels.get(*key)?.as_str());
        LABELS.iter().find_map(label).unwrap_or_default()
    }
    let newest = pods.iter().max_by_key(|pod| text(pod, "/metadata/creationTimestamp")).map_or("", template);
    pods.iter().partition(|pod| template(pod) == newest)
}

/// Whether a workload has fewer pods than it wants. A Deployment says itself why, in a condition.
fn are_missing(workload: &Value, pods: &[Value]) -> bool {
    let wanted = match Kind::of(workload) {
        Kind::StatefulSet | Kind::ReplicaSet => number(workload, "/spec/replicas").unwrap_or(1),
        Kind::DaemonSet => number(workload, "/status/desiredNumberScheduled").unwrap_or(0),
        Kind::Job => 1,
        _ => return false,
    };
    let live = pods.iter().filter(|pod| !is_deleted(pod)).count();
    usize::try_from(wanted).is_ok_and(|wanted| live < wanted)
}

/// The API server's refusal to create pods (quota, admission), which only Events tell.
fn not_created(workload: &Value, pods: &[Value], events: &[Value]) -> Option<Cause> {
    let warnings = events::about(events, workload);
    let refused = warnings.iter().filter(|warning| warning.reason == "FailedCreate");
    let refusal = events::latest(refused).filter(|_| are_missing(workload, pods))?;
    // The controller says in front of it what it tried.
    let words = ["failed error: ", "Error creating: "].iter().find_map(|lead| refusal.note.split_once(lead));
    Some(Cause::of_object("FailedCreate", words.map_or(&refusal.note, |(_, rest)| rest)))
}
