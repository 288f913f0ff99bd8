//! Two API servers, object by object and field by field. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::allowed::{Allowed, Place};
use crate::object::{Id, Objects, RECORD, Unequal, at, pointer, unequal};
use crate::random::{Random, as_stored, same_shape};
use crate::report::{Compared, Difference};
use crate::{HelmVersion, Phase};

/// What an API server has after a phase.
#[derive(Debug, Default)]
pub struct Scene {
    pub objects: Objects,
    /// What came, changed or went since the ground was looked at.
    pub touched: BTreeSet<Id>,
}

pub struct Comparison<'a> {
    pub phase: Phase,
    pub version: HelmVersion,
    pub allowed: &'a Allowed,
    pub random: &'a Random,
    /// The objects of the chart as helm rendered them last, by `Kind name`.
    pub manifest: &'a Value,
}

impl Comparison<'_> {
    pub fn of(&self, helm: &Scene, ours: &Scene) -> Compared {
        let mut result = Compared::default();
        let ids: BTreeSet<&Id> = helm.touched.iter().chain(&ours.touched).collect();
        let kept = self.kept_namespaces(helm, ours);
        let scaled = scaled(&ours.objects);
        for id in ids.into_iter().filter(|id| !self.allowed.leaves_out(&id.kind)) {
            let in_kept = id.namespace.as_ref().is_some_and(|namespace| kept.contains(namespace.as_str()));
            let (left, right) = (helm.objects.get(id), ours.objects.get(id));
            let root = match (left, right) {
                (None, None) => continue,
                (None, Some(_)) if in_kept => continue,
                (Some(left), _) => root(id, left, &helm.objects),
                (None, Some(right)) => root(id, right, &ours.objects),
            };
            let pod_labels = left.and_then(|object| object.pointer("/spec/template/metadata/labels"));
            let place = Place { is_scaled: scaled.contains(&root), pod_labels, ..self.place(&id.kind) };
            self.object(id, &root, [left, right], place, &mut result);
            result.objects += 1;
        }
        result
    }

    fn object(&self, id: &Id, root: &str, [left, right]: [Option<&Value>; 2], place: Place<'_>, result: &mut Compared) {
        if left.is_none() || right.is_none() {
            let is_set = self.manifest.get(id.short()).is_some();
            self.judge(id, &Unequal { path: vec![], left, right }, Place { is_set, ..place }, result);
            return;
        }
        for found in unequal(left, right) {
            match (found.left, found.right) {
                (Some(left), Some(right)) if self.is_random(id, root, &found) && same_shape(left, right) => {
                    result.random += 1;
                }
                _ => {
                    let source = self.manifest.get(root);
                    let is_set = source.is_some_and(|object| sets(object, &found.path));
                    let is_null = source.zip(found.path.last()).is_some_and(|(object, key)| has_null(object, key));
                    self.judge(id, &found, Place { is_set, is_null, ..place }, result);
                }
            }
        }
    }

    fn place<'b>(&self, kind: &'b str) -> Place<'b> {
        let (phase, helm) = (self.phase, self.version);
        Place { kind, phase, helm, is_set: false, is_null: false, is_scaled: false, pod_labels: None }
    }

    fn judge(&self, id: &Id, found: &Unequal<'_>, place: Place<'_>, result: &mut Compared) {
        match self.allowed.find(found, place) {
            Some(row) if row.is_left_out() => {}
            Some(row) => *result.allowed.entry(row.why.clone()).or_default() += 1,
            None => result.differences.push(Difference::new(id, found)),
        }
    }

    fn is_random(&self, id: &Id, root: &str, found: &Unequal<'_>) -> bool {
        if id.kind != RECORD {
            return self.random.has(root, &found.path);
        }
        match found.path.as_slice() {
            [info, notes] => info == "info" && notes == "notes" && !self.random.is_empty(),
            [hooks, key, manifest, rest @ ..] if hooks == "hooks" && manifest == "manifest" => {
                self.random.has(key, &as_stored(rest.to_vec()))
            }
            [manifest, key, rest @ ..] if manifest == "manifest" => self.random.has(key, &as_stored(rest.to_vec())),
            _ => false,
        }
    }

    /// Namespaces that an upgrade dropped and only helm removed. What is left in them is not a second difference.
    fn kept_namespaces<'b>(&self, helm: &Scene, ours: &'b Scene) -> BTreeSet<&'b str> {
        let namespaces = ours.objects.iter().filter(|(id, _)| id.kind == "Namespace" && !helm.objects.contains_key(id));
        let kept = namespaces.filter(|(id, object)| {
            let is_set = self.manifest.get(id.short()).is_some();
            let place = Place { is_set, ..self.place("Namespace") };
            self.allowed.find(&Unequal { path: vec![], left: None, right: Some(object) }, place).is_some()
        });
        kept.map(|(id, _)| id.name.as_str()).collect()
    }
}

/// Whether the chart sets a field. What it writes as stringData is read as data.
fn sets(object: &Value, path: &[String]) -> bool {
    let texts = || path.split_first().filter(|(first, _)| *first == "data").map(|(_, rest)| rest);
    at(object, path).is_some() || texts().is_some_and(|rest| at(&object["stringData"], rest).is_some())
}

/// Whether somewhere in an object an entry of this name is null.
fn has_null(value: &Value, key: &str) -> bool {
    match value {
        Value::Object(map) => map.get(key).is_some_and(Value::is_null) || map.values().any(|it| has_null(it, key)),
        Value::Array(items) => items.iter().any(|it| has_null(it, key)),
        _ => false,
    }
}

/// The workloads that autoscalers decide about, as `Kind name`.
fn scaled(objects: &Objects) -> BTreeSet<String> {
    let scalers = objects.iter().filter(|(id, _)| id.kind == "HorizontalPodAutoscaler");
    let text =
        |object: &Value, field: &str| object["spec"]["scaleTargetRef"][field].as_str().unwrap_or_default().to_owned();
    scalers.map(|(_, scaler)| format!("{} {}", text(scaler, "kind"), text(scaler, "name"))).collect()
}

/// The object that a person or a chart made and that an object comes from, as `Kind name`.
fn root(id: &Id, object: &Value, all: &Objects) -> String {
    let (mut id, mut object) = (id.clone(), object);
    // Owners form no circle in a sane cluster; the limit is for an insane one.
    for _ in 0..5 {
        let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_object).into_iter().flatten();
        let Some((key, _)) = owners.into_iter().find(|(_, owner)| owner["controller"] == true) else { break };
        let found = all.iter().find(|(other, _)| other.short() == *key && other.namespace == id.namespace);
        let Some((owner, value)) = found else { break };
        (id, object) = (owner.clone(), value);
    }
    id.short()
}

/// Random values that one side keeps at an upgrade and the other draws anew.
pub fn kept_otherwise(random: &Random, install: [&Objects; 2], upgrade: [&Objects; 2]) -> Vec<Difference> {
    let mut found = vec![];
    let [helm, ours] = install;
    for (id, left) in helm.iter().filter(|(id, _)| id.kind != RECORD) {
        let (Some(right), Some(helm_after), Some(ours_after)) = (ours.get(id), upgrade[0].get(id), upgrade[1].get(id))
        else {
            continue;
        };
        let root = root(id, left, helm);
        for drawn in unequal(Some(left), Some(right)).into_iter().filter(|it| random.has(&root, &it.path)) {
            let same = |before: &Value, after: &Value| at(before, &drawn.path) == at(after, &drawn.path);
            let (by_helm, by_us) = (same(left, helm_after), same(right, ours_after));
            if by_helm != by_us {
                let said = |kept: bool| Some(if kept { "kept by the upgrade" } else { "drawn anew" }.to_owned());
                found.push(Difference {
                    object: id.to_string(),
                    field: pointer(&drawn.path),
                    helm: said(by_helm),
                    chartwright: said(by_us),
                });
            }
        }
    }
    found
}

/// The manifest of the newest record.
pub fn last_manifest(objects: &Objects) -> Option<&Value> {
    let records: BTreeMap<u64, &Value> = objects
        .iter()
        .filter(|(id, _)| id.kind == RECORD)
        .filter_map(|(_, record)| Some((record["version"].as_u64()?, record)))
        .collect();
    records.last_key_value().map(|(_, record)| &record["manifest"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const DOCUMENT: &str = "## Left out\n\n| o | f | why |\n|---|---|---|\n| `*` | `/metadata/uid` | drawn |\n\n\
        ## The list\n\n| o | f | rule | phase | helm | why |\n|---|---|---|---|---|---|\n\
        | `PersistentVolumeClaim, Namespace` | `/` | kept | upgrade, uninstall | 3, 4 | data |\n";

    fn scene(objects: &[Value]) -> Scene {
        let objects: Objects = objects.iter().map(|object| (Id::of(object), object.clone())).collect();
        Scene { touched: objects.keys().cloned().collect(), objects }
    }

    fn object(kind: &str, name: &str, data: Value) -> Value {
        json!({"kind": kind, "metadata": {"name": name, "namespace": "a"}, "data": data})
    }

    fn compare(helm: &Scene, ours: &Scene, random: &Random, phase: Phase, manifest: Value) -> Compared {
        let allowed = Allowed::parse(DOCUMENT).unwrap();
        let (version, manifest) = (HelmVersion::Four, &manifest);
        Comparison { phase, version, allowed: &allowed, random, manifest }.of(helm, ours)
    }

    #[test]
    fn equal_objects_have_no_difference_and_others_are_named() {
        let (one, other) = (object("ConfigMap", "a", json!({"x": 1})), object("ConfigMap", "a", json!({"x": 2})));
        let none = Random::default();
        let (one, other, nothing) = (scene(&[one]), scene(&[other]), scene(&[]));
        let same = compare(&one, &one, &none, Phase::Install, json!({}));
        assert!(same.differences.is_empty() && same.objects == 1);
        let found = compare(&one, &other, &none, Phase::Install, json!({}));
        assert_eq!(found.differences.len(), 1);
        assert_eq!(
            (found.differences[0].object.as_str(), found.differences[0].field.as_str()),
            ("ConfigMap a/a", "/data/x")
        );
        let gone = compare(&one, &nothing, &none, Phase::Install, json!({}));
        assert_eq!((gone.differences.len(), gone.differences[0].field.as_str()), (1, ""));
    }

    #[test]
    fn what_is_untouched_on_both_sides_is_not_compared() {
        let mut helm = scene(&[object("ConfigMap", "a", json!({"x": 1}))]);
        let mut ours = scene(&[object("ConfigMap", "a", json!({"x": 2}))]);
        (helm.touched, ours.touched) = Default::default();
        assert_eq!(compare(&helm, &ours, &Random::default(), Phase::Install, json!({})).objects, 0);
    }

    #[test]
    fn a_dropped_claim_may_stay_but_not_one_of_the_chart() {
        let claim = scene(&[object("PersistentVolumeClaim", "data", json!({}))]);
        let random = Random::default();
        let find = |phase, manifest| compare(&scene(&[]), &claim, &random, phase, manifest).differences.len();
        assert_eq!(find(Phase::Upgrade, json!({})), 0);
        assert_eq!(find(Phase::Uninstall, json!({"PersistentVolumeClaim data": {}})), 1);
        assert_eq!(find(Phase::Install, json!({})), 1);
    }

    #[test]
    fn text_that_a_chart_sets_is_data() {
        let object = json!({"data": {"a": 1}, "stringData": {"b": 1}});
        let is_set = |key: &str| sets(&object, &["data".to_owned(), key.to_owned()]);
        assert_eq!([is_set("a"), is_set("b"), is_set("c")], [true, true, false]);
    }

    #[test]
    fn a_null_of_the_chart_is_found_at_any_depth() {
        let object = json!({"spec": {"containers": [{"resources": {"limits": {"cpu": null, "memory": "1Gi"}}}]}});
        assert!(has_null(&object, "cpu"));
        assert!(!has_null(&object, "memory"));
    }

    #[test]
    fn random_values_need_one_shape_and_one_fate() {
        let render = |password: &str| format!("kind: Secret\nmetadata: {{name: s}}\ndata: {{p: {password}}}\n");
        let mut random = Random::default();
        random.learn(&render("a"), &render("b"));
        let secret = |password: &str| scene(&[object("Secret", "s", json!({"p": password}))]);
        let find = |left, right| compare(&secret(left), &secret(right), &random, Phase::Install, json!({}));
        assert_eq!((find("abc!", "xyz?").differences.len(), find("abc!", "xyz?").random), (0, 1));
        assert_eq!(find("abc!", "xyz??").differences.len(), 1);
        let [h, o, new] = ["abc!", "xyz?", "new!"].map(|password| secret(password).objects);
        assert!(kept_otherwise(&random, [&h, &o], [&h, &o]).is_empty());
        assert!(kept_otherwise(&random, [&h, &o], [&new, &new]).is_empty());
        assert_eq!(kept_otherwise(&random, [&h, &o], [&h, &new]).len(), 1);
    }
}
