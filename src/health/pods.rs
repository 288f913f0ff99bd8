//! Why a workload is not ready, as its pods tell it.
//!
//! A workload's own status counts pods; it never says what is wrong with them. [`why`] looks at all pods, names the
//! worst trouble in words a person can act on, and says nothing where there is only ordinary start-up. It judges
//! nothing: the verdict is [`of`](super::of)'s, made from the workload itself.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::fields::{condition, conditions, flag, is_deleted, items, number, text, time};
use super::wording::{clip, clip_front, one_line, with_detail};

/// Start-up that takes longer than this is worth a word. Three rounds of a probe with default settings.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);
/// Bytes of somebody else's text inside a message, so that the rest of the sentence stays readable.
const QUOTE_LIMIT: usize = 200;

/// What keeps a workload from being ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// One CamelCase word, as `kubectl get pods` would show it.
    pub reason: String,
    /// `pod web-abc: container "app" cannot pull image "x:y": ImagePullBackOff`
    pub message: String,
}

/// The worst trouble among a workload's pods; `None` while there is nothing but ordinary start-up, or nothing at all.
///
/// Equally bad pods are told apart by name, so the answer stays the same from one look to the next.
pub fn why(pods: &[Value], now: Timestamp) -> Option<Cause> {
    pods.iter()
        .filter_map(|pod| Some((finding(pod, now)?, text(pod, "/metadata/name"))))
        .min_by(|(a, a_name), (b, b_name)| a.trouble.cmp(&b.trouble).then_with(|| a_name.cmp(b_name)))
        .map(|(finding, name)| Cause { message: format!("pod {name}: {}", finding.message), reason: finding.reason })
}

/// Kinds of trouble, worst first: what stays broken until somebody acts goes before what may pass, and live pods go
/// before pods that are on their way out and replaced already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
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
    trouble: Trouble,
    pub(super) reason: String,
    pub(super) message: String,
}

fn found(trouble: Trouble, reason: &str, message: String) -> Option<Finding> {
    Some(Finding { trouble, reason: reason.to_owned(), message })
}

pub(super) fn is_ready(pod: &Value) -> bool {
    conditions(pod).any(|it| it.kind == "Ready" && it.is_true())
}

pub(super) fn is_crash_looping(pod: &Value) -> bool {
    items(pod, "/status/containerStatuses").iter().any(|it| text(it, "/state/waiting/reason") == "CrashLoopBackOff")
}

/// The worst trouble of one pod.
pub(super) fn finding(pod: &Value, now: Timestamp) -> Option<Finding> {
    if is_deleted(pod) {
        return stuck(pod, now);
    }
    match text(pod, "/status/phase") {
        "Succeeded" => None,
        "Failed" => failed(pod),
        _ if text(pod, "/status/reason") == "NodeLost" => node_lost(pod, "NodeLost"),
        _ if is_ready(pod) => None,
        "Unknown" => node_lost(pod, "NodeLost"),
        _ => unschedulable(pod)
            .or_else(|| containers(pod, now))
            .or_else(|| not_created(pod, now))
            .or_else(|| not_ready(pod)),
    }
}

/// `deletionTimestamp` is when the pod should be gone at the latest.
fn stuck(pod: &Value, now: Timestamp) -> Option<Finding> {
    let due = time(pod, "/metadata/deletionTimestamp")?;
    if now.duration_since(due) < PATIENCE {
        return None;
    }
    let message =
        format!("is terminating beyond its grace period; {} may not answer, or a finalizer holds it", node(pod));
    found(Trouble::StuckTerminating, "Terminating", message)
}

fn node_lost(pod: &Value, reason: &str) -> Option<Finding> {
    found(Trouble::NodeLost, reason, format!("{} does not answer: {reason}", node(pod)))
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
        return found(Trouble::Failed, reason, message);
    }
    container_list(pod)
        .find_map(|container| container.exited())
        .map(|finding| Finding { trouble: Trouble::Failed, ..finding })
        .or_else(|| found(Trouble::Failed, "PodFailed", with_detail("failed", &quote(text(pod, "/status/message")))))
}

fn unschedulable(pod: &Value) -> Option<Finding> {
    let refused = condition(pod, "PodScheduled").filter(|it| it.is_false())?;
    let reason = refused.reason_or("Unschedulable");
    let message = clip(&one_line(refused.message), 2 * QUOTE_LIMIT);
    found(Trouble::Unschedulable, reason, with_detail(&format!("cannot be scheduled: {reason}"), &message))
}

fn containers(pod: &Value, now: Timestamp) -> Option<Finding> {
    // min_by_key keeps the first of equals: init containers run first, and what they block is no news.
    container_list(pod).filter_map(|container| container.finding(now)).min_by_key(|finding| finding.trouble)
}

/// Scheduled long ago and still no container. Only events would tell for certain, so name what it may wait for.
fn not_created(pod: &Value, now: Timestamp) -> Option<Finding> {
    let mut list = container_list(pod).peekable();
    // One that runs or has run shows that the node got beyond this.
    let waits = list.peek().is_some()
        && list.all(|container| matches!(container.waiting(), "ContainerCreating" | "PodInitializing"));
    let since = time(pod, "/status/startTime")?;
    if !waits || now.duration_since(since) < PATIENCE {
        return None;
    }
    // The node mounts volumes, then sets up the network and reports this condition, then pulls images.
    let guess = if condition(pod, "PodReadyToStartContainers").is_some_and(|it| it.is_true()) {
        "images to be pulled".to_owned()
    } else {
        let mut guesses = volumes(pod);
        guesses.push("its network".to_owned());
        guesses.join(" or ")
    };
    let message = format!("its containers are not created yet, it may wait for {guess}");
    found(Trouble::NotCreated, "ContainerCreating", message)
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
        return found(Trouble::NotReady, ready.reason, message);
    }
    // The kubelet would have given a reason; the node controller, which speaks for silent nodes, gives none.
    let mut long = container_list(pod).filter(|it| it.role == Role::Long).peekable();
    let is_healthy = long.peek().is_some() && long.all(|it| it.is_ready());
    if is_healthy && ready.reason.is_empty() { node_lost(pod, "NodeNotReady") } else { None }
}

/// A container's status, and what kind of container it is.
struct Container<'a> {
    status: &'a Value,
    role: Role,
}

#[derive(PartialEq, Eq)]
enum Role {
    /// Runs to its end before the others start.
    Init,
    /// Runs for as long as the pod: an ordinary container, or an init container that is a sidecar.
    Long,
}

fn container_list(pod: &Value) -> impl Iterator<Item = Container<'_>> {
    let init = items(pod, "/status/initContainerStatuses").iter().map(|status| {
        let role = if is_sidecar(pod, text(status, "/name")) { Role::Long } else { Role::Init };
        Container { status, role }
    });
    let ordinary = items(pod, "/status/containerStatuses").iter().map(|status| Container { status, role: Role::Long });
    init.chain(ordinary)
}

fn is_sidecar(pod: &Value, name: &str) -> bool {
    items(pod, "/spec/initContainers")
        .iter()
        .any(|it| text(it, "/name") == name && text(it, "/restartPolicy") == "Always")
}

impl Container<'_> {
    fn title(&self) -> String {
        let noun = if self.role == Role::Init { "init container" } else { "container" };
        format!("{noun} \"{}\"", text(self.status, "/name"))
    }

    fn is_ready(&self) -> bool {
        flag(self.status, "/ready") == Some(true)
    }

    /// How it ended the last time, if there was one.
    fn last_ending(&self) -> Option<&Value> {
        self.status.pointer("/lastState/terminated").filter(|it| it.is_object())
    }

    /// Why it waits; empty when it does not.
    fn waiting(&self) -> &str {
        text(self.status, "/state/waiting/reason")
    }

    fn finding(&self, now: Timestamp) -> Option<Finding> {
        match self.waiting() {
            "" => self.exited().or_else(|| self.running(now)),
            "ContainerCreating" | "PodInitializing" => None,
            "CrashLoopBackOff" => {
                let message = format!("{} keeps exiting: CrashLoopBackOff", self.title());
                let last = self.last_ending().map(ending).unwrap_or_default();
                found(Trouble::Crash, "CrashLoopBackOff", with_detail(&message, &last))
            }
            reason if is_image_error(reason) => found(Trouble::Image, reason, self.image_error(reason)),
            reason => {
                let message = quote(text(self.status, "/state/waiting/message"));
                let message = with_detail(&format!("{} cannot start: {reason}", self.title()), &message);
                found(Trouble::CannotStart, reason, message)
            }
        }
    }

    fn image_error(&self, reason: &str) -> String {
        let image = clip_front(text(self.status, "/image"), QUOTE_LIMIT);
        let message = format!("{} cannot pull image \"{image}\": {reason}", self.title());
        // The kubelet repeats image and reason in front of the registry's answer; only the answer is news.
        let told = text(self.status, "/state/waiting/message");
        let answer = ["ErrImagePull: ", "desc = "].iter().fold(told, |rest, lead| after(rest, lead));
        if answer.starts_with("Back-off pulling image") { message } else { with_detail(&message, &quote(answer)) }
    }

    /// It has ended, and badly. One that ended well is done.
    fn exited(&self) -> Option<Finding> {
        let terminated = self.status.pointer("/state/terminated").filter(|it| it.is_object())?;
        if number(terminated, "/exitCode") == Some(0) {
            return None;
        }
        let message = format!("{} ended with {}", self.title(), ending(terminated));
        found(Trouble::Crash, reason_of(terminated), message)
    }

    fn running(&self, now: Timestamp) -> Option<Finding> {
        let since = time(self.status, "/state/running/startedAt")?;
        if self.is_ready() {
            return None;
        }
        if let Some(last) = self.last_ending().filter(|it| number(it, "/exitCode") != Some(0)) {
            // Between two crashes it runs for a moment. Without this the message would come and go.
            let message = format!("{} was restarted after {}", self.title(), ending(last));
            return found(Trouble::Crash, reason_of(last), message);
        }
        if now.duration_since(since) < PATIENCE {
            return None;
        }
        let (reason, message) = match (&self.role, flag(self.status, "/started")) {
            (Role::Init, _) => ("InitContainerRunning", "is still running"),
            (Role::Long, Some(false)) => ("StartupProbeFailing", "runs but does not pass its startup probe"),
            (Role::Long, _) => ("ReadinessProbeFailing", "runs but does not pass its readiness probe"),
        };
        found(Trouble::NotReady, reason, format!("{} {message}", self.title()))
    }
}

fn is_image_error(reason: &str) -> bool {
    matches!(
        reason,
        "ImagePullBackOff"
            | "ErrImagePull"
            | "InvalidImageName"
            | "ErrImageNeverPull"
            | "ImageInspectError"
            | "RegistryUnavailable"
            | "SignatureValidationFailed"
    )
}

fn reason_of(terminated: &Value) -> &str {
    match text(terminated, "/reason") {
        "" => "Error",
        reason => reason,
    }
}

/// `exit code 137 (OOMKilled): what it said last`
fn ending(terminated: &Value) -> String {
    let code = number(terminated, "/exitCode").map_or_else(|| "no exit code".to_owned(), |n| format!("exit code {n}"));
    with_detail(&format!("{code} ({})", reason_of(terminated)), &quote(text(terminated, "/message")))
}

/// What follows `lead`, or everything where it does not occur.
fn after<'a>(words: &'a str, lead: &str) -> &'a str {
    words.split_once(lead).map_or(words, |(_, rest)| rest)
}

/// Somebody else's words, short: the end of them, which is where errors and programs tell what went wrong.
fn quote(words: &str) -> String {
    clip_front(&one_line(words), QUOTE_LIMIT)
}
