//! Whether an object may be deleted to be created again, and what must survive its deletion.
//!
//! A field that cannot be changed in place may come together with one that is wrong. Whoever deletes first learns that too
//! late. So the API server has to accept the new object in a dry run, under another name, before the old one goes.
//!
//! Deleting an object deletes what it owns. Pods and ReplicaSets come again. Volume claims of a StatefulSet do not: those are
//! orphaned. What the controller of a custom resource deletes with it, perhaps in a finalizer, nobody knows: it is not deleted.

use kube::Error;
use kube::api::{DynamicObject, PropagationPolicy};
use serde_json::Value;

use crate::calls::Calls;
use crate::error::{Category, of_kube};
use crate::object::{Object, ObjectId};
use crate::plan::Planned;
use crate::preflight::complaint_about;
use crate::prune::holds_data;

/// Why an object stays as it is.
#[derive(Debug, thiserror::Error)]
pub enum Irreplaceable {
    #[error(
        "{id} cannot be changed in place, and the API server would refuse it as a new object too, so it is not deleted: {}",
        complaint_about(id, error)
    )]
    Invalid { id: Box<ObjectId>, error: Error },
    #[error(
        "{id} cannot be changed in place, and its volume claims would be deleted with it: its pods cannot be handed over because the selector changes, and persistentVolumeClaimRetentionPolicy.whenDeleted is not Retain; set that to Retain first, which is possible in place"
    )]
    LosesClaims { id: Box<ObjectId> },
}

impl Irreplaceable {
    pub fn category(&self) -> Category {
        match self {
            Irreplaceable::Invalid { error, .. } => of_kube(error),
            Irreplaceable::LosesClaims { .. } => Category::ImmutableField,
        }
    }

    /// The API server's refusal, if it was one.
    pub fn refusal(&self) -> Option<&Error> {
        match self {
            Irreplaceable::Invalid { error, .. } => Some(error),
            Irreplaceable::LosesClaims { .. } => None,
        }
    }
}

/// The groups of Kubernetes itself that have a dot in their name. CRDs cannot have one without a dot.
const BUILT_IN: [&str; 16] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];

/// Whether Kubernetes itself defines the kinds of a group.
pub fn is_built_in(group: &str) -> bool {
    !group.contains('.') || BUILT_IN.contains(&group)
}

/// What is never deleted to be created again: data goes with it, or may. Nobody knows what the controller of a custom resource deletes with it.
pub fn is_precious(id: &ObjectId) -> bool {
    holds_data(id) || (id.group.is_empty() && id.kind == "PersistentVolume") || !is_built_in(&id.group)
}

/// Proves that an object can be created again once it is deleted, and says how to delete it.
pub async fn check(planned: &Planned, live: &DynamicObject, calls: &Calls) -> Result<PropagationPolicy, Irreplaceable> {
    let id = || Box::new(planned.object.id());
    let live_value = serde_json::to_value(live).unwrap_or(Value::Null);
    let policy = propagation(&planned.object, &live_value);
    let policy = policy.ok_or_else(|| Irreplaceable::LosesClaims { id: id() })?;
    let stand_in = Planned { object: stand_in(&planned.object, &live_value), ..planned.clone() };
    match calls.dry_run(&stand_in).await {
        Ok(_) => Ok(policy),
        Err(error) => Err(Irreplaceable::Invalid { id: id(), error }),
    }
}

/// What becomes of an object's dependents. None where volume claims would be lost.
fn propagation(new: &Object, live: &Value) -> Option<PropagationPolicy> {
    let group = new.gvk().group;
    if (group.as_str(), new.kind()) == ("apps", "StatefulSet") {
        return of_stateful_set(new.value(), live);
    }
    // The controllers of Kubernetes itself own only what they can make again.
    Some(PropagationPolicy::Background)
}

/// The new StatefulSet adopts the pods of the old one, unless its selector is another: then they have to go first, and the
/// claims must not go with them.
fn of_stateful_set(new: &Value, live: &Value) -> Option<PropagationPolicy> {
    let selector = |object: &Value| object.pointer("/spec/selector").cloned().unwrap_or_default();
    if selector(new) == selector(live) {
        return Some(PropagationPolicy::Orphan);
    }
    let at = |pointer: &str| live.pointer(pointer);
    let is_retained = at("/spec/persistentVolumeClaimRetentionPolicy/whenDeleted").is_none_or(|it| it == "Retain");
    // Until the controller has seen that they are to be retained, the claims still belong to the StatefulSet.
    let is_observed = at("/status/observedGeneration").is_some_and(|seen| Some(seen) == at("/metadata/generation"));
    let has_claims = at("/spec/volumeClaimTemplates").and_then(Value::as_array).is_some_and(|all| !all.is_empty());
    (!has_claims || is_retained && is_observed).then_some(PropagationPolicy::Background)
}

/// The new object under another name, without what only the old one holds: addresses and ports of a Service, for example,
/// become free with its deletion.
fn stand_in(new: &Object, live: &Value) -> Object {
    let mut object = new.clone();
    let name = another_name(new.name(), live.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default());
    let (group, kind) = (new.gvk().group, new.kind().to_owned());
    object.change(|value| {
        value["metadata"]["name"] = name.into();
        match (group.as_str(), kind.as_str()) {
            ("", "Service") => free_service(value, live),
            ("scheduling.k8s.io", "PriorityClass") => remove_if_same(value, live, "", "globalDefault"),
            _ => {}
        }
    });
    object
}

fn free_service(value: &mut Value, live: &Value) {
    for field in ["clusterIP", "clusterIPs", "healthCheckNodePort"] {
        // `None` is no address: a headless Service is judged as one.
        if value.pointer("/spec/clusterIP").is_none_or(|address| address != "None") {
            remove_if_same(value, live, "/spec", field);
        }
    }
    let ports = |object: &Value| object.pointer("/spec/ports").and_then(Value::as_array).cloned().unwrap_or_default();
    let held: Vec<Value> = ports(live).iter().filter_map(|port| port.get("nodePort").cloned()).collect();
    let ports = value.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        if port.get("nodePort").is_some_and(|number| held.contains(number)) {
            port.remove("nodePort");
        }
    }
}

fn remove_if_same(value: &mut Value, live: &Value, parent: &str, field: &str) {
    let held = live.pointer(parent).and_then(|parent| parent.get(field)).cloned();
    if let Some(map) = value.pointer_mut(parent).and_then(Value::as_object_mut)
        && map.get(field) == held.as_ref()
    {
        map.remove(field);
    }
}

/// A name that is valid wherever the other one is, and that nobody has.
fn another_name(name: &str, uid: &str) -> String {
    /// With the rest it fits into a DNS label, which is the tightest limit of a name.
    const KEPT: usize = 50;
    let kept: String = name.chars().take(KEPT).collect();
    let mark: String = uid.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    format!("{}-{mark}", kept.trim_end_matches(['-', '.']))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        Object::new(value).unwrap()
    }

    fn stateful_set(app: &str, when_deleted: Option<&str>, observed: i64) -> Value {
        let mut set = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "generation": 2},
            "spec": {"selector": {"matchLabels": {"app": app}}, "volumeClaimTemplates": [{}]},
            "status": {"observedGeneration": observed},
        });
        if let Some(policy) = when_deleted {
            set["spec"]["persistentVolumeClaimRetentionPolicy"] = json!({"whenDeleted": policy});
        }
        set
    }

    fn policy(new: Value, live: Value) -> Option<String> {
        propagation(&object(new), &live).map(|policy| format!("{policy:?}"))
    }

    #[test]
    fn a_stateful_set_never_takes_its_claims_with_it() {
        let new = |app| stateful_set(app, None, 0);
        for when_deleted in [None, Some("Retain"), Some("Delete")] {
            let same = policy(new("a"), stateful_set("a", when_deleted, 2));
            assert_eq!(same.as_deref(), Some("Orphan"), "{when_deleted:?}");
        }
        assert_eq!(policy(new("b"), stateful_set("a", Some("Retain"), 2)).as_deref(), Some("Background"));
        assert_eq!(policy(new("b"), stateful_set("a", Some("Delete"), 2)), None);
        assert_eq!(policy(new("b"), stateful_set("a", Some("Retain"), 1)), None, "the controller has not seen it");
        let mut without = stateful_set("a", Some("Delete"), 2);
        without["spec"]["volumeClaimTemplates"] = json!([]);
        assert_eq!(policy(new("b"), without).as_deref(), Some("Background"));
    }

    #[test]
    fn what_kubernetes_makes_again_goes_with_its_owner() {
        let of = |api_version: &str, kind: &str| {
            policy(json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}}), json!({}))
        };
        for (api_version, kind) in [("apps/v1", "Deployment"), ("batch/v1", "Job"), ("v1", "Service")] {
            assert_eq!(of(api_version, kind).as_deref(), Some("Background"), "{kind}");
        }
    }

    #[test]
    fn what_the_old_object_holds_is_not_asked_for_twice() {
        let service = |ip: &str, port: u32| {
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "uid": "0123456789ab"},
                "spec": {"clusterIP": ip, "clusterIPs": [ip], "ports": [{"port": 80, "nodePort": port}]}})
        };
        let same = stand_in(&object(service("10.0.0.1", 30000)), &service("10.0.0.1", 30000));
        assert_eq!(same.value()["spec"], json!({"ports": [{"port": 80}]}));
        assert_eq!(same.name(), "web-01234567");
        let other = stand_in(&object(service("10.0.0.2", 30001)), &service("10.0.0.1", 30000));
        assert_eq!(other.value()["spec"], service("10.0.0.2", 30001)["spec"], "others may hold these");
        let headless = stand_in(&object(service("None", 30000)), &service("None", 30000));
        assert_eq!(headless.value()["spec"]["clusterIP"], "None");
        assert_eq!(another_name(&"a".repeat(70), "u-1").len(), 53);
    }

    #[test]
    fn data_is_precious() {
        let id = |group: &str, kind: &str| ObjectId {
            group: group.into(),
            version: "v1".into(),
            kind: kind.into(),
            namespace: None,
            name: "a".into(),
        };
        for (group, kind) in [("", "PersistentVolume"), ("", "PersistentVolumeClaim"), ("", "Namespace")] {
            assert!(is_precious(&id(group, kind)), "{kind}");
        }
        for (group, kind) in [
            ("snapshot.storage.k8s.io", "VolumeSnapshot"),
            ("kafka.strimzi.io", "KafkaTopic"),
            ("cluster.x-k8s.io", "Cluster"),
            ("gateway.networking.k8s.io", "Gateway"),
        ] {
            assert!(is_precious(&id(group, kind)), "{kind}");
        }
        for (group, kind) in [("apps", "StatefulSet"), ("networking.k8s.io", "Ingress"), ("", "Service")] {
            assert!(!is_precious(&id(group, kind)), "{kind}");
        }
    }
}
