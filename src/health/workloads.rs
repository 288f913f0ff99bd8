//! The rules for what runs pods: Deployment, StatefulSet, DaemonSet, ReplicaSet, Job.
//!
//! Each reads the counts its controller reports and names the first that is short. The order of the checks is the order
//! in which a rollout happens, so the message tells how far it got.

use serde_json::Value;

use super::fields::{Condition, conditions, count, flag, number, text};
use super::wording::{counted, with_detail};
use super::{Cause, Health};

/// A count that is not yet what it should be: reason and message.
struct Gap(&'static str, String);

/// `Some` when fewer than `wanted` have come so far.
fn short(reason: &'static str, have: i64, wanted: i64, what: &str) -> Option<Gap> {
    (have < wanted).then(|| Gap(reason, format!("{have} of {} {what}", counted(wanted, "replica"))))
}

/// `Some` when more than `wanted` are still there.
fn extra(have: i64, wanted: i64) -> Option<Gap> {
    (have > wanted).then(|| {
        let message = format!("{} still to be removed", counted(have.saturating_sub(wanted), "replica"));
        Gap("RemovingReplicas", message)
    })
}

/// In progress while there is a gap, current without one.
fn verdict(gap: Option<Gap>, reason: &str, complete: &str) -> Health {
    match gap {
        Some(Gap(reason, message)) => Health::in_progress(reason, &message),
        None => Health::current(reason, complete),
    }
}

/// `spec.replicas`: 1 where nobody said.
fn replicas(object: &Value) -> i64 {
    number(object, "/spec/replicas").unwrap_or(1)
}

pub(super) fn deployment(object: &Value) -> Health {
    let is_late = |it: &Condition<'_>| it.kind == "Progressing" && it.reason == "ProgressDeadlineExceeded";
    if let Some(late) = conditions(object).find(is_late) {
        let message = with_detail("the rollout made no progress within its deadline", late.message);
        return refused(Health::failed("ProgressDeadlineExceeded", &message), refusal(object));
    }
    let paused = flag(object, "/spec/paused").unwrap_or(false);
    let Some(Gap(reason, message)) = deployment_gap(object, paused) else {
        let message = format!("{} available", counted(count(object, "/status/replicas"), "replica"));
        return if paused {
            Health::current("DeploymentPaused", &format!("{message}, paused"))
        } else {
            Health::current("DeploymentAvailable", &message)
        };
    };
    let message = if paused { format!("is paused: {message}") } else { message };
    let reason = if paused { "DeploymentPaused" } else { reason };
    refused(Health::in_progress(reason, &message), refusal(object))
}

/// With the API server's refusal to create pods as the cause, if there is one.
fn refused(health: Health, refusal: Option<Condition<'_>>) -> Health {
    match refusal {
        Some(refusal) => health.because(Cause::of_object(refusal.reason_or("FailedCreate"), refusal.message)),
        None => health,
    }
}

fn deployment_gap(object: &Value, paused: bool) -> Option<Gap> {
    let wanted = replicas(object);
    let total = count(object, "/status/replicas");
    let updated = count(object, "/status/updatedReplicas");
    let available = count(object, "/status/availableReplicas");
    let ready = count(object, "/status/readyReplicas");
    short("CreatingReplicas", total, wanted, "created")
        .or_else(|| short("UpdatingReplicas", updated, wanted, "updated"))
        .or_else(|| extra(total, wanted))
        .or_else(|| short("ReplicasUnavailable", available, updated, "available"))
        .or_else(|| short("ReplicasNotReady", ready, wanted, "ready"))
        .or_else(|| {
            let done = paused || has_no_deadline(object) || is_rolled_out(object);
            (!done).then(|| Gap("RolloutUnfinished", "rollout not reported as finished".to_owned()))
        })
        .or_else(|| {
            let available = conditions(object).any(|it| it.kind == "Available" && it.is_true());
            (!available).then(|| Gap("Unavailable", "not reported as available".to_owned()))
        })
}

fn is_rolled_out(object: &Value) -> bool {
    conditions(object).any(|it| it.kind == "Progressing" && it.is_true() && it.reason == "NewReplicaSetAvailable")
}

/// Without a deadline the controller reports no progress either, so there is no end of a rollout to wait for. The
/// largest int32 is the API's way to say "no deadline".
fn has_no_deadline(object: &Value) -> bool {
    number(object, "/spec/progressDeadlineSeconds").is_none_or(|seconds| seconds == i64::from(i32::MAX))
}

/// The API server's refusal to create pods (quota, admission, limits) or the new ReplicaSet. There are no pods to look
/// at then, so this is the only place that says why.
fn refusal(object: &Value) -> Option<Condition<'_>> {
    conditions(object).find(|it| {
        let no_replica_set = it.kind == "Progressing" && it.is_false() && it.reason == "ReplicaSetCreateError";
        no_replica_set || is_replica_failure(it)
    })
}

fn is_replica_failure(it: &Condition<'_>) -> bool {
    it.kind == "ReplicaFailure" && it.is_true()
}

pub(super) fn replica_set(object: &Value) -> Health {
    let wanted = replicas(object);
    let total = count(object, "/status/replicas");
    let labelled = count(object, "/status/fullyLabeledReplicas");
    let available = count(object, "/status/availableReplicas");
    let ready = count(object, "/status/readyReplicas");
    if let Some(refusal) = conditions(object).find(is_replica_failure) {
        let have = format!("{total} of {} created", counted(wanted, "replica"));
        return refused(Health::in_progress("CreatingReplicas", &have), Some(refusal));
    }
    let gap = short("CreatingReplicas", labelled, wanted, "created with all labels")
        .or_else(|| short("ReplicasUnavailable", available, wanted, "available"))
        .or_else(|| short("ReplicasNotReady", ready, wanted, "ready"))
        .or_else(|| extra(total, wanted));
    verdict(gap, "ReplicaSetAvailable", &format!("{} available", counted(total, "replica")))
}

pub(super) fn stateful_set(object: &Value) -> Health {
    let wanted = replicas(object);
    let total = count(object, "/status/replicas");
    let ready = count(object, "/status/readyReplicas");
    if text(object, "/spec/updateStrategy/type") == "OnDelete" {
        // Its pods are a person's to replace, so no count is the controller's to reach; tell it nevertheless.
        let message = format!("is updated by hand (OnDelete), {ready} of {} ready", counted(wanted, "replica"));
        return Health::current("OnDelete", &message);
    }
    let gap = short("CreatingReplicas", total, wanted, "created")
        .or_else(|| short("ReplicasNotReady", ready, wanted, "ready"))
        .or_else(|| extra(total, wanted))
        .or_else(|| stateful_set_rollout(object, wanted));
    verdict(gap, "StatefulSetReady", &format!("{} ready", counted(total, "replica")))
}

/// Pods below the partition keep the old revision on purpose. The API server fills in partition 0; without one only the
/// revisions tell whether the rollout is through.
fn stateful_set_rollout(object: &Value, wanted: i64) -> Option<Gap> {
    if let Some(partition) = number(object, "/spec/updateStrategy/rollingUpdate/partition") {
        let updated = count(object, "/status/updatedReplicas");
        return short("UpdatingReplicas", updated, wanted.saturating_sub(partition), "updated");
    }
    let current = count(object, "/status/currentReplicas");
    short("UpdatingReplicas", current, wanted, "at the current revision").or_else(|| {
        let same = text(object, "/status/currentRevision") == text(object, "/status/updateRevision");
        (!same).then(|| Gap("UpdatingReplicas", "the new revision is not rolled out yet".to_owned()))
    })
}

pub(super) fn daemon_set(object: &Value) -> Health {
    // Stricter than the generic rule: its controller always sets both, so without them it has not looked yet.
    if number(object, "/metadata/generation").is_none() || number(object, "/status/observedGeneration").is_none() {
        return Health::in_progress("NotObserved", "its controller has not seen it yet");
    }
    let Some(wanted) = number(object, "/status/desiredNumberScheduled") else {
        return Health::in_progress("NotObserved", "its controller has not counted the nodes yet");
    };
    let current = count(object, "/status/currentNumberScheduled");
    let updated = count(object, "/status/updatedNumberScheduled");
    let available = count(object, "/status/numberAvailable");
    let ready = count(object, "/status/numberReady");
    let by_hand = text(object, "/spec/updateStrategy/type") == "OnDelete";
    let updating = if by_hand { "updated, the others wait to be deleted (OnDelete)" } else { "updated" };
    let gap = short("CreatingReplicas", current, wanted, "scheduled")
        .or_else(|| short("UpdatingReplicas", updated, wanted, updating))
        .or_else(|| short("ReplicasUnavailable", available, wanted, "available"))
        .or_else(|| short("ReplicasNotReady", ready, wanted, "ready"));
    verdict(gap, "DaemonSetAvailable", &format!("{} available", counted(wanted, "replica")))
}

/// Ready means done: this is where we wait as Helm does, not as kstatus.
pub(super) fn job(object: &Value) -> Health {
    for it in conditions(object).filter(Condition::is_true) {
        match it.kind {
            "Complete" => return Health::current("JobComplete", "Job is complete"),
            "Failed" => {
                let cause = with_detail(it.reason, it.message);
                return Health::failed("JobFailed", &with_detail("Job failed", &cause));
            }
            _ => {}
        }
    }
    if flag(object, "/spec/suspend").unwrap_or(false) {
        Health::in_progress("JobSuspended", "Job is suspended")
    } else if text(object, "/status/startTime").is_empty() {
        Health::in_progress("JobNotStarted", "Job not started")
    } else {
        Health::in_progress("JobInProgress", "Job in progress")
    }
}
