//! The objects of an API server in a form that does not depend on which API server it is. Pure.
//!
//! What the cluster draws (UIDs, hashes of pod templates, names of pods and of volumes) is replaced by names that say what
//! it stands for. So what controllers make from a chart's objects can be compared too. Nothing is dropped here that could
//! be a difference; what is not compared is a row of docs/fidelity.md.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Map, Value, json};

use crate::object::{Id, Objects};
use crate::plane::GROUP;
use crate::random::{DRAWN, Random};
use crate::record;

/// Texts to replace, the longest first.
struct Names(Vec<(String, String)>);

/// # Errors
/// A release record cannot be read.
pub fn normal(raw: &[Value], random: &Random) -> Result<Objects> {
    let by_uid: BTreeMap<&str, &Value> = raw.iter().filter_map(|object| Some((uid(object)?, object))).collect();
    let records: Vec<(Id, Value)> = raw.iter().filter_map(record::decode).collect::<Result<_>>()?;
    let mut names = Names::of(raw, &by_uid);
    names.extend(drawn_by_the_chart(raw, &records, random));
    let names = names.sorted();
    let mut objects = Objects::new();
    for (id, mut record) in records {
        names.replace(&mut record);
        objects.insert(id, record);
    }
    for object in raw.iter().filter(|object| !record::is_record(object)) {
        let object = normal_object(object, &names);
        objects.insert(Id::of(&object), object);
    }
    Ok(objects)
}

/// Names that the chart draws anew in each render, of objects that are there and of those in records.
fn drawn_by_the_chart(raw: &[Value], records: &[(Id, Value)], random: &Random) -> Vec<(String, String)> {
    let live = raw.iter().map(|object| (text(object, "/kind").to_owned(), text(object, "/metadata/name").to_owned()));
    let recorded = records.iter().flat_map(|(_, record)| record["manifest"].as_object().into_iter().flatten());
    let recorded = recorded.filter_map(|(key, _)| Id::parse(key)).map(|id| (id.kind, id.name));
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (kind, name) in live.chain(recorded) {
        let Some(begin) = random.name_of(&kind, &name) else { continue };
        let family = seen.entry(begin.to_owned()).or_default();
        if !family.contains(&name) {
            family.push(name);
        }
    }
    let numbered = |(begin, family): (String, Vec<String>)| {
        family.into_iter().enumerate().map(move |(number, name)| (name, format!("{begin}{DRAWN}{number}")))
    };
    seen.into_iter().flat_map(numbered).collect()
}

fn normal_object(object: &Value, names: &Names) -> Value {
    let mut object = object.clone();
    names.replace(&mut object);
    if let Some(owners) = object.pointer_mut("/metadata/ownerReferences") {
        *owners = named_owners(owners);
    }
    if let Some(conditions) = object.pointer_mut("/status/conditions") {
        *conditions = named_conditions(conditions);
    }
    if object["type"] == "kubernetes.io/service-account-token" {
        let data = object["data"].as_object_mut().into_iter().flatten();
        data.for_each(|(_, value)| *value = "made by the cluster".into());
    }
    object
}

/// A map in place of a list, so that each owner has a name of its own in a path.
fn named_owners(owners: &Value) -> Value {
    let named = owners.as_array().into_iter().flatten().map(|owner| {
        let mut kept = owner.clone();
        if let Some(fields) = kept.as_object_mut() {
            fields.remove("uid");
        }
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        (format!("{} {}", text("kind"), text("name")), kept)
    });
    Value::Object(named.collect::<Map<_, _>>())
}

/// A map in place of a list: the order of conditions means nothing.
fn named_conditions(conditions: &Value) -> Value {
    let named = conditions.as_array().into_iter().flatten();
    let named = named.map(|condition| (text(condition, "/type").to_owned(), condition.clone()));
    Value::Object(named.collect::<Map<_, _>>())
}

pub fn uid(object: &Value) -> Option<&str> {
    object.pointer("/metadata/uid")?.as_str()
}

pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The reference to the controller that made an object.
pub fn controller(object: &Value) -> Option<&Value> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    owners.iter().find(|owner| owner["controller"] == json!(true))
}

impl Names {
    fn of(raw: &[Value], by_uid: &BTreeMap<&str, &Value>) -> Self {
        let mut names = Names(vec![]);
        let made = made_by_controllers(raw, by_uid);
        for object in raw {
            let id = Id::of(object);
            let own = uid(object).map(|uid| (uid, made.get(uid).unwrap_or(&id.name)));
            names.extend(own.map(|(uid, name)| (uid.to_owned(), format!("uid of {} {name}", id.kind))));
            if let Some((_, name)) = own.filter(|(uid, _)| made.contains_key(uid)) {
                let number = name.rsplit('-').next().unwrap_or_default();
                names.extend([(id.name.clone(), name.clone())]);
                names.extend(hash_of(object).map(|hash| (hash.to_owned(), number.to_owned())));
            }
            names.extend(volume(object));
            names.extend(token_volumes(object));
        }
        names.sorted()
    }

    fn extend(&mut self, more: impl IntoIterator<Item = (String, String)>) {
        self.0.extend(more.into_iter().filter(|(drawn, _)| !drawn.is_empty()));
    }

    /// The longest first, since a name may be part of another; the same one once.
    fn sorted(mut self) -> Self {
        self.0.sort_by(|a, b| (b.0.len(), &b.0, &a.1).cmp(&(a.0.len(), &a.0, &b.1)));
        self.0.dedup_by(|a, b| a.0 == b.0);
        self
    }

    fn replace(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.replaced(std::mem::take(text)),
            Value::Array(items) => items.iter_mut().for_each(|item| self.replace(item)),
            Value::Object(map) => {
                for (key, mut value) in std::mem::take(map) {
                    self.replace(&mut value);
                    map.insert(self.replaced(key), value);
                }
            }
            _ => {}
        }
    }

    fn replaced(&self, mut text: String) -> String {
        for (drawn, name) in &self.0 {
            if text.contains(drawn.as_str()) {
                text = text.replace(drawn.as_str(), name);
            }
        }
        text
    }
}

/// The names of what controllers made, by UID: that of the owner, and a number.
fn made_by_controllers<'a>(raw: &'a [Value], by_uid: &BTreeMap<&str, &Value>) -> BTreeMap<&'a str, String> {
    let mut given: BTreeMap<&str, String> = BTreeMap::new();
    // Pods are named after ReplicaSets, so those come first.
    for kind in ["ReplicaSet", "ControllerRevision", "Pod"] {
        let mut families: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for object in raw.iter().filter(|object| object["kind"] == kind && has_drawn_name(object)) {
            let owner = controller(object).map(|owner| text(owner, "/uid")).unwrap_or_default();
            families.entry(owner).or_default().push(object);
        }
        for (owner, mut family) in families {
            family.sort_by_key(|object| (age(object), text(object, "/metadata/name").to_owned()));
            // A DaemonSet and a Job may have one name, and both have pods.
            let plain = by_uid.get(owner).map(|owner| match text(owner, "/kind") {
                "Deployment" => text(owner, "/metadata/name").to_owned(),
                kind => format!("{}.{}", text(owner, "/metadata/name"), kind.to_lowercase()),
            });
            let owner = given.get(owner).cloned().or(plain).unwrap_or_default();
            let named = family.into_iter().enumerate().map(|(n, object)| (uid(object), format!("{owner}-#{n}")));
            given.extend(named.filter_map(|(uid, name)| Some((uid?, name))));
        }
    }
    given
}

/// A volume is named after its claim, which may be gone by now.
fn volume(object: &Value) -> Vec<(String, String)> {
    let [namespace, claim, uid] = ["namespace", "name", "uid"].map(|it| text(object, &format!("/spec/claimRef/{it}")));
    match object["kind"] == "PersistentVolume" && !claim.is_empty() {
        true => vec![
            (text(object, "/metadata/name").to_owned(), format!("volume of {namespace}/{claim}")),
            (uid.to_owned(), format!("uid of PersistentVolumeClaim {claim}")),
        ],
        false => vec![],
    }
}

/// Every pod has a volume with a token, under a drawn name.
fn token_volumes(object: &Value) -> Vec<(String, String)> {
    let volumes = object.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
    let tokens = volumes.map(|volume| text(volume, "/name")).filter(|name| name.starts_with("kube-api-access-"));
    tokens.map(|name| (name.to_owned(), "kube-api-access-#".to_owned())).collect()
}

/// Whether a controller of the cluster made up the name. The pods of a StatefulSet are numbered instead.
fn has_drawn_name(object: &Value) -> bool {
    controller(object).is_some_and(|owner| {
        let by_the_cluster = !text(owner, "/apiVersion").starts_with(GROUP);
        by_the_cluster && (owner["kind"] != "StatefulSet" || object["kind"] != "Pod")
    })
}

/// What orders siblings. Revisions count; pods are alike.
fn age(object: &Value) -> u64 {
    let noted = text(object, "/metadata/annotations/deployment.kubernetes.io~1revision").parse().ok();
    noted.or_else(|| object["revision"].as_u64()).unwrap_or_default()
}

fn hash_of(object: &Value) -> Option<&str> {
    let label = |key: &str| object.pointer(&format!("/metadata/labels/{key}")).and_then(Value::as_str);
    match object["kind"].as_str()? {
        "ReplicaSet" => label("pod-template-hash"),
        "ControllerRevision" => label("controller-revision-hash").or_else(|| label("controller.kubernetes.io~1hash")),
        _ => None,
    }
    .filter(|hash| hash.len() > 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(kind: &str, name: &str, uid: &str) -> Value {
        json!([{"kind": kind, "name": name, "uid": uid, "controller": true}])
    }

    fn side(hash: &str, pod: &str, suffix: &str) -> Vec<Value> {
        let uid = |name: &str| format!("{name}-{suffix}");
        let set = format!("web-{hash}");
        vec![
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "a", "uid": uid("d")},
                "status": {"message": format!("ReplicaSet \"{set}\" has progressed")}}),
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": set, "namespace": "a", "uid": uid("r"),
                "labels": {"pod-template-hash": hash}, "ownerReferences": owner("Deployment", "web", &uid("d"))}}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("{set}-{pod}"), "namespace": "a",
                "uid": uid("p"), "labels": {"pod-template-hash": hash}, "ownerReferences": owner("ReplicaSet", &set, &uid("r"))},
                "spec": {"volumes": [{"name": format!("kube-api-access-{pod}")}]}}),
            json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("pvc-{}", uid("c")), "uid": uid("v")},
                "spec": {"hostPath": {"path": format!("/lab/{}", uid("c"))},
                    "claimRef": {"namespace": "a", "name": "data", "uid": uid("c")}}}),
        ]
    }

    #[test]
    fn what_a_cluster_draws_does_not_show() {
        let one = normal(&side("abcdef", "xyz12", "1111-2222"), &Random::default()).unwrap();
        let other = normal(&side("987654", "qrs34", "3333-4444"), &Random::default()).unwrap();
        let strip = |objects: &Objects| -> Vec<Value> { objects.values().cloned().collect() };
        let (one_values, mut other_values) = (strip(&one), strip(&other));
        assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
        for (mut one, other) in one_values.into_iter().zip(&mut other_values) {
            one["metadata"]["uid"] = Value::Null;
            other["metadata"]["uid"] = Value::Null;
            assert_eq!(&one, other);
        }
        let names: Vec<String> = one.keys().map(ToString::to_string).collect();
        let expected =
            ["Deployment a/web", "PersistentVolume volume of a/data", "Pod a/web-#0-#0", "ReplicaSet a/web-#0"];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_pod_of_the_chart_keeps_its_name_and_conditions_have_no_order() {
        let owner = json!([{"apiVersion": format!("{GROUP}/v1"), "kind": "Proof", "name": "a", "uid": "2c3d", "controller": true}]);
        let raw = json!({"kind": "Pod", "metadata": {"name": "mine", "uid": "0a1b", "ownerReferences": owner},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let objects = normal(&[raw], &Random::default()).unwrap();
        let pod = objects.values().next().unwrap();
        assert_eq!(pod["metadata"]["name"], "mine");
        assert_eq!(pod["status"]["conditions"]["Ready"]["status"], "True");
    }

    #[test]
    fn pods_of_owners_of_one_name_are_told_apart() {
        let of = |kind: &str| {
            [
                json!({"kind": kind, "metadata": {"name": "a", "uid": format!("uid-{kind}")}}),
                json!({"kind": "Pod", "metadata": {"name": format!("a-{kind}"), "uid": format!("pod-{kind}"),
                    "ownerReferences": owner(kind, "a", &format!("uid-{kind}"))}}),
            ]
        };
        let objects = normal(&[of("DaemonSet"), of("Job")].concat(), &Random::default()).unwrap();
        let pods: Vec<&str> = objects.keys().filter(|id| id.kind == "Pod").map(|id| id.name.as_str()).collect();
        assert_eq!(pods, ["a.daemonset-#0", "a.job-#0"]);
    }

    #[test]
    fn owners_are_named() {
        let raw =
            json!({"kind": "Pod", "metadata": {"name": "web-0", "ownerReferences": owner("StatefulSet", "web", "u")}});
        let objects = normal(&[raw], &Random::default()).unwrap();
        let pod = objects.values().next().unwrap();
        assert_eq!(pod["metadata"]["ownerReferences"]["StatefulSet web"]["controller"], true);
        assert_eq!(pod["metadata"]["name"], "web-0");
    }
}
