//! Reading an object: which kind it is, a field or nothing, its conditions. Nothing here fails: what is missing or of
//! the wrong type is absent.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

/// The kinds that have rules of their own. The version does not matter, the group does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Deployment,
    StatefulSet,
    DaemonSet,
    ReplicaSet,
    Job,
    Pod,
    Service,
    Claim,
    Definition,
    /// Ready as soon as it exists (and, where it has a status, as soon as that is up to date).
    Inert,
    Other,
    /// No kind given.
    Absent,
}

impl Kind {
    pub(super) fn of(object: &Value) -> Self {
        let api_version = text(object, "/apiVersion");
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        match (group, text(object, "/kind")) {
            ("apps" | "extensions", "Deployment") => Self::Deployment,
            ("apps", "StatefulSet") => Self::StatefulSet,
            ("apps" | "extensions", "DaemonSet") => Self::DaemonSet,
            ("apps" | "extensions", "ReplicaSet") => Self::ReplicaSet,
            ("batch", "Job") => Self::Job,
            ("", "Pod") => Self::Pod,
            ("", "Service") => Self::Service,
            ("", "PersistentVolumeClaim") => Self::Claim,
            ("apiextensions.k8s.io", "CustomResourceDefinition") => Self::Definition,
            ("", "Secret" | "ConfigMap") | ("batch", "CronJob") | ("policy", "PodDisruptionBudget") => Self::Inert,
            (_, "") => Self::Absent,
            _ => Self::Other,
        }
    }
}

/// The text at a JSON pointer; empty when there is none.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

/// A count in a status: the API leaves out zeros.
pub(super) fn count(object: &Value, pointer: &str) -> i64 {
    number(object, pointer).unwrap_or(0)
}

pub(super) fn flag(object: &Value, pointer: &str) -> Option<bool> {
    object.pointer(pointer).and_then(Value::as_bool)
}

pub(super) fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer).parse().ok()
}

pub(super) fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(super) fn is_deleted(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

/// One entry of `status.conditions`.
pub(super) struct Condition<'a> {
    pub(super) kind: &'a str,
    pub(super) status: &'a str,
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
}

impl<'a> Condition<'a> {
    pub(super) fn is_true(&self) -> bool {
        self.status == "True"
    }

    pub(super) fn is_false(&self) -> bool {
        self.status == "False"
    }

    pub(super) fn reason_or(&self, fallback: &'a str) -> &'a str {
        if self.reason.is_empty() { fallback } else { self.reason }
    }
}

pub(super) fn conditions(object: &Value) -> impl Iterator<Item = Condition<'_>> {
    items(object, "/status/conditions").iter().map(|entry| Condition {
        kind: text(entry, "/type"),
        status: text(entry, "/status"),
        reason: text(entry, "/reason"),
        message: text(entry, "/message"),
    })
}

pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<Condition<'a>> {
    conditions(object).find(|condition| condition.kind == kind)
}
