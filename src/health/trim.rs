//! Cutting an object down to what health needs.
//!
//! The tables below are the whole list of fields that this module reads, besides `metadata`'s identity, which is there
//! for the caller. A path goes through lists by itself: `status.conditions.type` is the type of every condition. A rule
//! that reads a new field needs a line here; the test that judges trimmed and whole objects alike notices when it is
//! missing.

use serde_json::Value;

use super::fields::Kind;

const EVERY_KIND: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.resourceVersion",
    "metadata.generation",
    "metadata.deletionTimestamp",
    "status.observedGeneration",
    "status.conditions.type",
    "status.conditions.status",
    "status.conditions.reason",
    "status.conditions.message",
];

const DEPLOYMENT: &[&str] = &[
    "spec.replicas",
    "spec.selector",
    "spec.paused",
    "spec.progressDeadlineSeconds",
    "status.replicas",
    "status.updatedReplicas",
    "status.availableReplicas",
    "status.readyReplicas",
];

const STATEFUL_SET: &[&str] = &[
    "spec.replicas",
    "spec.selector",
    "spec.updateStrategy",
    "status.replicas",
    "status.readyReplicas",
    "status.currentReplicas",
    "status.updatedReplicas",
    "status.currentRevision",
    "status.updateRevision",
];

const DAEMON_SET: &[&str] = &[
    "spec.selector",
    "spec.updateStrategy.type",
    "status.desiredNumberScheduled",
    "status.currentNumberScheduled",
    "status.updatedNumberScheduled",
    "status.numberAvailable",
    "status.numberReady",
];

const REPLICA_SET: &[&str] = &[
    "spec.replicas",
    "spec.selector",
    "status.replicas",
    "status.fullyLabeledReplicas",
    "status.availableReplicas",
    "status.readyReplicas",
];

const JOB: &[&str] = &["spec.selector", "spec.suspend", "status.startTime"];

const SERVICE: &[&str] = &["spec.type", "spec.clusterIP", "status.loadBalancer.ingress"];

const CLAIM: &[&str] = &["status.phase"];

const POD: &[&str] = &[
    "metadata.creationTimestamp",
    "spec.nodeName",
    "spec.initContainers.name",
    "spec.initContainers.restartPolicy",
    "spec.initContainers.terminationMessagePolicy",
    "spec.containers.name",
    "spec.containers.terminationMessagePolicy",
    "spec.volumes.persistentVolumeClaim.claimName",
    "spec.volumes.secret.secretName",
    "spec.volumes.secret.optional",
    "spec.volumes.configMap.name",
    "spec.volumes.configMap.optional",
    "status.phase",
    "status.reason",
    "status.message",
    "status.startTime",
    "status.initContainerStatuses.name",
    "status.initContainerStatuses.image",
    "status.initContainerStatuses.ready",
    "status.initContainerStatuses.started",
    "status.initContainerStatuses.state",
    "status.initContainerStatuses.lastState",
    "status.containerStatuses.name",
    "status.containerStatuses.image",
    "status.containerStatuses.ready",
    "status.containerStatuses.started",
    "status.containerStatuses.state",
    "status.containerStatuses.lastState",
];

fn fields_of(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Deployment => DEPLOYMENT,
        Kind::StatefulSet => STATEFUL_SET,
        Kind::DaemonSet => DAEMON_SET,
        Kind::ReplicaSet => REPLICA_SET,
        Kind::Job => JOB,
        Kind::Service => SERVICE,
        Kind::Claim => CLAIM,
        Kind::Pod => POD,
        Kind::Definition | Kind::Inert | Kind::Other | Kind::Absent => &[],
    }
}

/// Leaves only what this module reads, plus the object's identity: `of`, `why` and `selector_of` answer the same before
/// and after. Labels, annotations, managedFields, templates and data are gone; read those first.
///
/// The kind decides what stays, so set it first on the items of a List, which come without.
pub fn trim(object: &mut Value) {
    keep_fields(object, |_| true);
}

/// Keeps those of the kind's fields that are wanted.
pub(super) fn keep_fields(object: &mut Value, is_wanted: impl Fn(&str) -> bool) {
    let fields = EVERY_KIND.iter().chain(fields_of(Kind::of(object))).filter(|field| is_wanted(field));
    let paths: Vec<Vec<&str>> = fields.map(|field| field.split('.').collect()).collect();
    let paths: Vec<&[&str]> = paths.iter().map(Vec::as_slice).collect();
    keep(object, &paths);
}

#[cfg(test)]
pub(super) fn all_fields() -> impl Iterator<Item = &'static str> {
    let tables = [EVERY_KIND, DEPLOYMENT, STATEFUL_SET, DAEMON_SET, REPLICA_SET, JOB, SERVICE, CLAIM, POD];
    tables.into_iter().flatten().copied()
}

/// Keeps what the paths lead to. What is no map where a path goes on is kept too: it is as small as it is useless.
fn keep(value: &mut Value, paths: &[&[&str]]) {
    match value {
        _ if paths.iter().any(|path| path.is_empty()) => {}
        Value::Array(items) => items.iter_mut().for_each(|item| keep(item, paths)),
        Value::Object(map) => map.retain(|key, value| {
            let below: Vec<&[&str]> = paths
                .iter()
                .filter_map(|path| path.split_first())
                .filter(|(first, _)| *first == key)
                .map(|(_, rest)| rest)
                .collect();
            if !below.is_empty() {
                keep(value, &below);
            }
            !below.is_empty()
        }),
        _ => {}
    }
}
