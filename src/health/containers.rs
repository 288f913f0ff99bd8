//! What is wrong with one container, as its status and the Events about it tell it.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::causes::Cause;
use super::events::{self, Probe, Warning};
use super::fields::{count, flag, items, number, text, time};
use super::pods::{Finding, PATIENCE, QUOTE_LIMIT, Trouble, found, quote};
use super::wording::with_detail;
use crate::ellipsis::shortened;

/// The kubelet forgets a crash that was longer ago.
const BACK_OFF: SignedDuration = SignedDuration::from_mins(10);
/// How often a probe has to fail, where the pod does not say it. Kubernetes' default.
const FAILURE_THRESHOLD: i64 = 3;
/// A container ended with an error, as `kubectl get pods` shows it.
pub(super) const EXITED: &str = "Error";

/// The worst trouble among the containers of a pod.
pub(super) fn worst(pod: &Value, warnings: &[Warning<'_>], now: Timestamp) -> Option<Finding> {
    // min_by_key keeps the first of equals: init containers run first, and what they block is no news.
    container_list(pod).filter_map(|container| container.finding(warnings, now)).min_by_key(|finding| finding.trouble)
}

/// A container's status, and what kind of container it is.
pub(super) struct Container<'a> {
    pod: &'a Value,
    status: &'a Value,
    pub(super) role: Role,
    /// Its entry is among the pod's init containers, whatever its role.
    is_init: bool,
}

#[derive(PartialEq, Eq)]
pub(super) enum Role {
    /// Runs to its end before the others start.
    Init,
    /// Runs for as long as the pod: an ordinary container, or an init container that is a sidecar.
    Long,
}

pub(super) fn container_list(pod: &Value) -> impl Iterator<Item = Container<'_>> {
    let init = items(pod, "/status/initContainerStatuses").iter().map(move |status| {
        let role = if is_sidecar(pod, text(status, "/name")) { Role::Long } else { Role::Init };
        Container { pod, status, role, is_init: true }
    });
    let ordinary = items(pod, "/status/containerStatuses").iter();
    init.chain(ordinary.map(move |status| Container { pod, status, role: Role::Long, is_init: false }))
}

fn is_sidecar(pod: &Value, name: &str) -> bool {
    items(pod, "/spec/initContainers")
        .iter()
        .any(|it| text(it, "/name") == name && text(it, "/restartPolicy") == "Always")
}

impl<'a> Container<'a> {
    fn name(&self) -> &'a str {
        text(self.status, "/name")
    }

    fn found(&self, trouble: Trouble, reason: &str, message: &str) -> Option<Finding> {
        let Finding { trouble, cause } = found(trouble, self.pod, reason, message)?;
        let (container, is_init) = (self.name().to_owned(), self.role == Role::Init);
        Some(Finding { trouble, cause: Cause { container, is_init, ..cause } })
    }

    /// What the pod says of it; null where it does not.
    fn spec(&self) -> &'a Value {
        let list = if self.is_init { "/spec/initContainers" } else { "/spec/containers" };
        items(self.pod, list).iter().find(|it| text(it, "/name") == self.name()).unwrap_or(&Value::Null)
    }

    pub(super) fn is_ready(&self) -> bool {
        flag(self.status, "/ready") == Some(true)
    }

    pub(super) fn runs(&self) -> bool {
        self.status.pointer("/state/running").is_some_and(Value::is_object)
    }

    /// Whether it runs or has ever run, as far as its node reported.
    pub(super) fn has_run(&self) -> bool {
        let ended = |state: &str| {
            let ending = self.status.pointer(state).filter(|it| it.is_object());
            ending.is_some_and(|ending| !is_start_error(ending))
        };
        self.runs()
            || ended("/state/terminated")
            || ended("/lastState/terminated")
            // How it ended before that is forgotten.
            || count(self.status, "/restartCount") > 1
            || flag(self.status, "/started") == Some(true)
    }

    /// How it ended the last time, if there was one.
    fn last_ending(&self) -> Option<&'a Value> {
        self.status.pointer("/lastState/terminated").filter(|it| it.is_object())
    }

    /// Why it waits; empty when it does not.
    pub(super) fn waiting(&self) -> &'a str {
        text(self.status, "/state/waiting/reason")
    }

    fn finding(&self, warnings: &[Warning<'_>], now: Timestamp) -> Option<Finding> {
        match self.waiting() {
            "" => self.exited().or_else(|| self.running(warnings, now)),
            "ContainerCreating" | "PodInitializing" => None,
            reason if is_image_error(reason) => self.not_pulled(reason),
            // The runtime's words are in the last ending, without the ID of the container that changes each time.
            "CrashLoopBackOff" | "RunContainerError" if self.last_ending().is_some() => {
                self.last_ending().and_then(|last| self.crashed(last, warnings))
            }
            "CrashLoopBackOff" => self.found(Trouble::Crash, "CrashLoopBackOff", "keeps exiting"),
            reason => {
                let words = text(self.status, "/state/waiting/message");
                let words = if words.is_empty() { reason } else { words };
                self.found(Trouble::CannotStart, reason, &format!("cannot start: {}", quote(words)))
            }
        }
    }

    /// The kubelet goes back and forth between two reasons for one cause.
    fn not_pulled(&self, reason: &str) -> Option<Finding> {
        let reason = if reason == "ErrImagePull" { "ImagePullBackOff" } else { reason };
        let image = shortened(text(self.status, "/image"), QUOTE_LIMIT);
        let message = format!("cannot pull image \"{image}\"");
        // The kubelet repeats image and reason in front of the registry's answer; only the answer is news.
        let told = text(self.status, "/state/waiting/message");
        let answer = ["ErrImagePull: ", "desc = "].iter().fold(told, |rest, lead| after(rest, lead));
        let answer = if answer.starts_with("Back-off pulling image") { "" } else { answer };
        self.found(Trouble::Image, reason, &with_detail(&message, &quote(answer)))
    }

    /// It has ended, and badly. One that ended well is done.
    pub(super) fn exited(&self) -> Option<Finding> {
        let ending = self.status.pointer("/state/terminated").filter(|it| it.is_object())?;
        if number(ending, "/exitCode") == Some(0) {
            return None;
        }
        let reason = if self.last_ending().is_some() { "CrashLoopBackOff" } else { EXITED };
        self.ended(ending, reason)
    }

    /// It ended, and is started again. The words are the same whether it waits, runs for a moment or has just ended: they would
    /// come and go otherwise.
    fn crashed(&self, last: &Value, warnings: &[Warning<'_>]) -> Option<Finding> {
        let is_own = matches!(text(last, "/reason"), "OOMKilled" | "StartError" | "ContainerCannotRun");
        let began = time(last, "/startedAt");
        let failures = [Probe::Liveness, Probe::Startup].map(|probe| {
            let failures = warnings.iter().filter(|it| it.is_failure(probe, self.name(), began));
            events::latest(failures).map(|failure| (probe, failure))
        });
        match failures.into_iter().flatten().next().filter(|_| !is_own) {
            Some((probe, failure)) => self.found(Trouble::Crash, probe.failed(), &quote(&failure.uncapitalised())),
            None => self.ended(last, "CrashLoopBackOff"),
        }
    }

    /// `exit code 137 (OOMKilled)`, under the reason that says most.
    fn ended(&self, ending: &Value, reason: &str) -> Option<Finding> {
        let words = self.last_words(ending);
        let own = text(ending, "/reason");
        if is_start_error(ending) {
            let words = if words.is_empty() { exit_code(ending) } else { words };
            return self.found(Trouble::Crash, "StartError", &format!("cannot start: {words}"));
        }
        let reason = if own == "OOMKilled" { own } else { reason };
        self.found(Trouble::Crash, reason, &with_detail(&exit_code(ending), &words))
    }

    /// What the runtime, or the container by its own wish, left as a message. The end of a log is none: who may read a custom
    /// resource need not be allowed to read logs.
    fn last_words(&self, ending: &Value) -> String {
        let is_log = text(self.spec(), "/terminationMessagePolicy") == "FallbackToLogsOnError";
        match is_log && !is_start_error(ending) {
            true => String::new(),
            false => quote(text(ending, "/message")),
        }
    }

    fn running(&self, warnings: &[Warning<'_>], now: Timestamp) -> Option<Finding> {
        let since = time(self.status, "/state/running/startedAt")?;
        if self.is_ready() {
            return None;
        }
        let age = now.duration_since(since);
        if let Some(last) = self.last_ending().filter(|it| number(it, "/exitCode") != Some(0) && age < BACK_OFF) {
            return self.crashed(last, warnings);
        }
        if self.role == Role::Init {
            let found = self.found(Trouble::NotReady, "InitContainerRunning", "is still running");
            return found.filter(|_| age >= PATIENCE).map(Finding::of_wait);
        }
        let is_started = flag(self.status, "/started") != Some(false);
        let probe = if is_started { Probe::Readiness } else { Probe::Startup };
        let failure = events::latest(warnings.iter().filter(|it| it.is_failure(probe, self.name(), Some(since))));
        let threshold = number(self.spec(), &format!("/{}/failureThreshold", probe.field()));
        let threshold = threshold.unwrap_or(FAILURE_THRESHOLD);
        let has_failed = failure.as_ref().is_some_and(|failure| failure.times >= threshold);
        if age < PATIENCE && !has_failed {
            return None;
        }
        match failure {
            Some(failure) => self.found(Trouble::NotReady, probe.failed(), &quote(&failure.uncapitalised())),
            // It may not have been tried yet.
            None => {
                let name = if is_started { "readiness" } else { "startup" };
                let message = format!("has not passed its {name} probe yet");
                self.found(Trouble::NotReady, probe.failed(), &message).map(Finding::of_wait)
            }
        }
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

/// The runtime could not run anything in it.
fn is_start_error(ending: &Value) -> bool {
    matches!(text(ending, "/reason"), "StartError" | "ContainerCannotRun")
}

/// `exit code 137 (OOMKilled)`
fn exit_code(ending: &Value) -> String {
    let code = number(ending, "/exitCode").map_or_else(|| "no exit code".to_owned(), |n| format!("exit code {n}"));
    let reason = match text(ending, "/reason") {
        "" => EXITED,
        reason => reason,
    };
    format!("{code} ({reason})")
}

/// What follows `lead`, or everything where it does not occur.
fn after<'a>(words: &'a str, lead: &str) -> &'a str {
    words.split_once(lead).map_or(words, |(_, rest)| rest)
}
