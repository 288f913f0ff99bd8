//! What is wrong with one pod, as its status and its Events tell it.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::causes::Cause;
use super::containers::{self, Role, container_list};
use super::events::{self, Warning};
use super::fields::{condition, conditions, flag, is_deleted, items, text, time};
use super::wording::{one_line, with_detail};
use crate::ellipsis::shortened;

/// Start-up that takes longer than this is worth a word. Three rounds of a probe with default settings.
pub(super) const PATIENCE: SignedDuration = SignedDuration::from_secs(30);
/// A Warning about a pod that is younger than this may be ordinary: caches of the kubelet fill, a network is set up.
const START_UP: SignedDuration = SignedDuration::from_secs(10);
/// Bytes of somebody else's text inside a message, so that the rest of the sentence stays readable.
pub(super) const QUOTE_LIMIT: usize = 280;
/// What keeps a pod that is bound to a node from having containers, as reasons of Events.
const NOT_CREATED: [&str; 6] = [
    "FailedCreatePodSandBox",
    "FailedMount",
    "FailedAttachVolume",
    "FailedMapVolume",
    "FailedPrepareDynamicResources",
    "NetworkNotReady",
];

/// Kinds of trouble, worst first: what stays broken until somebody acts goes before what may pass, and live pods go
/// before pods that are on their way out and replaced already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    Image,
    CannotStart,
    Crash,
    Unschedulable,
    NodeLost,
    NotCreated,
    NotReady,
    Failed,
    StuckTerminating,
}

pub(super) struct Finding {
    pub(super) trouble: Trouble,
    pub(super) cause: Cause,
}

impl Finding {
    /// The same, where nothing is known to be wrong.
    pub(super) fn of_wait(self) -> Self {
        Finding { cause: Cause { is_wait: true, ..self.cause }, ..self }
    }
}

pub(super) fn found(trouble: Trouble, pod: &Value, reason: &str, message: &str) -> Option<Finding> {
    let cause = Cause { pod: text(pod, "/metadata/name").to_owned(), ..Cause::of_object(reason, message) };
    Some(Finding { trouble, cause })
}

pub(super) fn is_ready(pod: &Value) -> bool {
    conditions(pod).any(|it| it.kind == "Ready" && it.is_true())
}

/// Whether a pod may still become ready by itself.
pub(super) fn is_starting(pod: &Value) -> bool {
    !is_ready(pod) && !is_deleted(pod) && !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

pub(super) fn is_crash_looping(pod: &Value) -> bool {
    items(pod, "/status/containerStatuses").iter().any(|it| text(it, "/state/waiting/reason") == "CrashLoopBackOff")
}

/// Whether any container of a pod has ever run, as far as its node reported. In doubt one has.
pub fn has_started(pod: &Value) -> bool {
    let is_known = matches!(text(pod, "/status/phase"), "" | "Pending" | "Failed");
    !is_known || container_list(pod).any(|container| container.has_run())
}

/// The worst trouble of one pod.
pub(super) fn finding(pod: &Value, events: &[Value], now: Timestamp) -> Option<Finding> {
    if is_deleted(pod) {
        return stuck(pod, now);
    }
    match text(pod, "/status/phase") {
        "Succeeded" => None,
        "Failed" => failed(pod),
        _ if text(pod, "/status/reason") == "NodeLost" => node_lost(pod, "NodeLost"),
        _ if is_ready(pod) => None,
        "Unknown" => node_lost(pod, "NodeLost"),
        _ => {
            let warnings = events::about(events, pod);
            unschedulable(pod, &warnings, now)
                .or_else(|| containers::worst(pod, &warnings, now))
                .or_else(|| not_created(pod, &warnings, now))
                .or_else(|| not_ready(pod))
        }
    }
}

/// Whether the Events of a pod may tell more than its status.
pub(super) fn is_unexplained(pod: &Value, now: Timestamp) -> bool {
    if !is_starting(pod) {
        return false;
    }
    match finding(pod, &[], now).map(|finding| finding.trouble) {
        // A liveness probe may be behind it.
        Some(Trouble::Crash) => true,
        Some(Trouble::NotCreated | Trouble::NotReady) | None => {
            is_old(pod, now) || container_list(pod).any(|it| it.runs())
        }
        Some(_) => false,
    }
}

/// Whether a pod is beyond the time in which Warnings about it may be ordinary.
fn is_old(pod: &Value, now: Timestamp) -> bool {
    let created = time(pod, "/metadata/creationTimestamp");
    created.is_none_or(|created| now.duration_since(created) >= START_UP)
}

/// `deletionTimestamp` is when the pod should be gone at the latest.
fn stuck(pod: &Value, now: Timestamp) -> Option<Finding> {
    let due = time(pod, "/metadata/deletionTimestamp")?;
    if now.duration_since(due) < PATIENCE {
        return None;
    }
    let message =
        format!("is terminating beyond its grace period; {} may not answer, or a finalizer holds it", node(pod));
    found(Trouble::StuckTerminating, pod, "Terminating", &message)
}

fn node_lost(pod: &Value, reason: &str) -> Option<Finding> {
    found(Trouble::NodeLost, pod, reason, &format!("{} does not answer", node(pod)))
}

fn node(pod: &Value) -> String {
    match text(pod, "/spec/nodeName") {
        "" => "its node".to_owned(),
        name => format!("its node \"{name}\""),
    }
}

/// A pod that failed as a whole: evicted, rejected by its node, out of time; or, in a Job, one whose container gave up.
fn failed(pod: &Value) -> Option<Finding> {
    let reason = text(pod, "/status/reason");
    if !reason.is_empty() {
        let message = with_detail(&format!("failed: {reason}"), &quote(text(pod, "/status/message")));
        return found(Trouble::Failed, pod, reason, &message);
    }
    let message = || with_detail("failed", &quote(text(pod, "/status/message")));
    container_list(pod)
        .find_map(|container| container.exited())
        .map(|finding| Finding { trouble: Trouble::Failed, ..finding })
        .or_else(|| found(Trouble::Failed, pod, "PodFailed", &message()))
}

fn unschedulable(pod: &Value, warnings: &[Warning<'_>], now: Timestamp) -> Option<Finding> {
    let refusal = |reason: &str, words: &str| {
        let message = with_detail("cannot be scheduled", &quote(words));
        found(Trouble::Unschedulable, pod, reason, &message)
    };
    if let Some(refused) = condition(pod, "PodScheduled").filter(|it| it.is_false()) {
        return refusal(refused.reason_or("Unschedulable"), refused.message);
    }
    // Not every scheduler writes the condition.
    let is_free = text(pod, "/spec/nodeName").is_empty() && is_old(pod, now);
    let failures = warnings.iter().filter(|warning| is_free && warning.reason == "FailedScheduling");
    events::latest(failures).and_then(|failure| refusal("Unschedulable", &failure.note))
}

/// Bound to a node for a while, and still no container.
fn not_created(pod: &Value, warnings: &[Warning<'_>], now: Timestamp) -> Option<Finding> {
    let mut list = container_list(pod).peekable();
    // One that runs or has run shows that the node got beyond this.
    let waits = list.peek().is_some()
        && list.all(|container| matches!(container.waiting(), "ContainerCreating" | "PodInitializing"));
    let age = now.duration_since(time(pod, "/status/startTime")?);
    if !waits || age < START_UP || !is_old(pod, now) {
        return None;
    }
    let is_sum = |warning: &&Warning<'_>| warning.note.starts_with("Unable to attach or mount volumes");
    let failures = || warnings.iter().filter(|it| it.is_about_all() && NOT_CREATED.contains(&it.reason));
    let failure = events::latest(failures().filter(|it| !is_sum(it))).or_else(|| events::latest(failures()));
    match failure {
        Some(failure) => found(Trouble::NotCreated, pod, failure.reason, &quote(&failure.note)),
        None if age < PATIENCE => None,
        None => found(Trouble::NotCreated, pod, "ContainerCreating", &waited_for(pod)).map(Finding::of_wait),
    }
}

/// Only Events would tell for certain, so name what a pod may wait for.
fn waited_for(pod: &Value) -> String {
    // The node mounts volumes, then sets up the network and reports this condition, then pulls images.
    let guess = if condition(pod, "PodReadyToStartContainers").is_some_and(|it| it.is_true()) {
        "images to be pulled".to_owned()
    } else {
        let mut guesses = volumes(pod);
        guesses.push("its network".to_owned());
        guesses.join(" or ")
    };
    format!("its containers are not created yet, it may wait for {guess}")
}

/// What a mount can wait for: claims, and Secrets and ConfigMaps that do not exist.
fn volumes(pod: &Value) -> Vec<String> {
    const SOURCES: [(&str, &str, &str); 3] = [
        ("persistentVolumeClaim", "/claimName", "volume claim"),
        ("secret", "/secretName", "Secret"),
        ("configMap", "/name", "ConfigMap"),
    ];
    let named = |(source, name, noun)| {
        items(pod, "/spec/volumes")
            .iter()
            .filter_map(move |volume| volume.get(source))
            .filter(|it| flag(it, "/optional") != Some(true))
            .map(move |it| format!("{noun} \"{}\"", text(it, name)))
    };
    SOURCES.into_iter().flat_map(named).take(3).collect()
}

/// All containers say they are fine and the pod is not: a readiness gate, or a node that stopped answering.
fn not_ready(pod: &Value) -> Option<Finding> {
    let ready = condition(pod, "Ready").filter(|it| it.is_false())?;
    if ready.reason == "ReadinessGatesNotReady" {
        let message = with_detail("a readiness gate is closed", &quote(ready.message));
        return found(Trouble::NotReady, pod, ready.reason, &message);
    }
    // The kubelet would have given a reason; the node controller, which speaks for silent nodes, gives none.
    let mut long = container_list(pod).filter(|it| it.role == Role::Long).peekable();
    let is_healthy = long.peek().is_some() && long.all(|it| it.is_ready());
    if is_healthy && ready.reason.is_empty() { node_lost(pod, "NodeNotReady") } else { None }
}

/// Somebody else's words, short: the start says what was tried, and the end what went wrong.
pub(super) fn quote(words: &str) -> String {
    shortened(&one_line(words), QUOTE_LIMIT)
}
