//! The rules for kinds that run no pods of their own, for a bare Pod, and for kinds nobody taught us.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::fields::{conditions, items, text, time};
use super::wording::with_detail;
use super::{Cause, Health, State, pods};

/// How long the scheduler may take before a Pod without a node counts as Failed. kstatus' figure.
const SCHEDULING_WINDOW: SignedDuration = SignedDuration::from_secs(15);

pub(super) fn service(object: &Value) -> Health {
    if text(object, "/spec/type") != "LoadBalancer" {
        return Health::current("ServiceReady", "exists");
    }
    if text(object, "/spec/clusterIP").is_empty() {
        return Health::in_progress("NoClusterIP", "has no cluster IP yet");
    }
    // Not waited for: on a cluster without a load balancer the address never comes, and the Service works without it.
    if items(object, "/status/loadBalancer/ingress").is_empty() {
        return Health::current("ServiceReady", "is reachable in the cluster, has no external address yet");
    }
    Health::current("ServiceReady", "has an external address")
}

pub(super) fn claim(object: &Value) -> Health {
    match text(object, "/status/phase") {
        "Bound" => Health::current("ClaimBound", "is bound"),
        "Lost" => Health::in_progress("ClaimLost", "the volume it was bound to is gone"),
        "" => Health::in_progress("ClaimPending", "is not bound"),
        phase => Health::in_progress("ClaimPending", &format!("is not bound, its phase is {phase}")),
    }
}

/// A CustomResourceDefinition can be used once it is established.
pub(super) fn definition(object: &Value) -> Health {
    for it in conditions(object) {
        match it.kind {
            "NamesAccepted" if it.is_false() => {
                let message = with_detail("its names are not accepted", it.message);
                return Health::failed(it.reason_or("NamesNotAccepted"), &message);
            }
            "Established" if it.is_true() => return Health::current("Established", "is established"),
            "Established" if it.is_false() && it.reason != "Installing" => {
                let message = with_detail("is not established", it.message);
                return Health::failed(it.reason_or("NotEstablished"), &message);
            }
            _ => {}
        }
    }
    Health::in_progress("Installing", "is being installed")
}

/// A kind without rules: its Ready condition if it has one. Without one there is nothing to wait for that we could know
/// of.
pub(super) fn other(object: &Value) -> Health {
    conditions(object)
        .filter(|it| it.kind == "Ready")
        .find_map(|it| match it.status {
            "True" => Some(Health::current("Ready", "is ready")),
            // Nobody can tell a wait from a dead end here, so neither is a failure.
            "False" | "Unknown" => Some(Health::in_progress(it.reason_or("NotReady"), it.message)),
            _ => None,
        })
        .unwrap_or_else(|| Health::current("Exists", "exists"))
}

/// A Pod of its own, not one of a workload: those are looked at by [`why`](super::why).
pub(super) fn pod(object: &Value, now: Timestamp) -> Health {
    let (state, reason, message) = match text(object, "/status/phase") {
        "Succeeded" => (State::Current, "PodSucceeded", "has completed"),
        "Failed" => (State::Failed, "PodFailed", "failed"),
        "Running" if pods::is_ready(object) => (State::Current, "PodReady", "is ready"),
        "Running" if pods::is_crash_looping(object) => (State::Failed, "CrashLoopBackOff", "keeps crashing"),
        "Running" => (State::InProgress, "PodNotReady", "is running but not ready"),
        "Pending" if is_without_node(object, now) => (State::Failed, "Unschedulable", "finds no node"),
        "Pending" => (State::InProgress, "PodPending", "is pending"),
        "" => (State::InProgress, "NotObserved", "has no phase yet"),
        phase => {
            let message = format!("its phase is {phase}: its node may not answer");
            return Health::new(State::Unknown, "PodUnknown", &message);
        }
    };
    let health = Health::new(state, reason, message);
    // The state is kstatus'; the cause is the worst thing seen inside.
    match pods::finding(object, &[], now) {
        Some(finding) if !health.is_ready() => health.because(Cause { pod: String::new(), ..finding.cause }),
        _ => health,
    }
}

fn is_without_node(object: &Value, now: Timestamp) -> bool {
    let refused = conditions(object)
        .find(|it| it.kind == "PodScheduled" && it.is_false())
        .is_some_and(|it| it.reason == "Unschedulable");
    // No creation time means no newcomer's grace either.
    let is_new = time(object, "/metadata/creationTimestamp")
        .is_some_and(|created| now.duration_since(created) < SCHEDULING_WINDOW);
    refused && !is_new
}
