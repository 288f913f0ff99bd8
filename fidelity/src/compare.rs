//! Two API servers, object by object and field by field. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::allowed::{Allowed, Place};
use crate::object::{Id, Objects, RECORD, Unequal, at, pointer, unequal};
use crate::random::{Random, as_stored, same_shape};
use crate::rendered::Rendered;
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
    pub rendered: &'a Rendered,
}

impl Comparison<'_> {
    pub fn of(&self, helm: &Scene, ours: &Scene) -> Compared {
        let mut result = Compared::default();
        let ids: BTreeSet<&Id> = helm.touched.iter().chain(&ours.touched).collect();
        let kept = self.kept_namespaces(helm, ours);
        let scaled = scaled(&ours.objects);
        for id in ids.into_iter().filter(|id| !self.allowed.leaves_out(&id.kind)) {
            let in_kept = id.namespace.as_ref().and_then(|namespace| kept.get(namespace.as_str()));
            let (left, right) = (helm.objects.get(id), ours.objects.get(id));
            let root = match (left, right, in_kept) {
                (None, None, _) => continue,
                (None, Some(_), Some(why)) => {
                    *result.allowed.entry((*why).to_owned()).or_default() += 1;
                    continue;
                }
                (Some(left), ..) => root(id, left, &helm.objects),
                (None, Some(right), None) => root(id, right, &ours.objects),
            };
            let pod_labels = left.and_then(|object| object.pointer("/spec/template/metadata/labels"));
            let failed = |record: Option<&Value>| record.is_some_and(|record| record["info"]["status"] == "failed");
            let has_failed = failed(left) && failed(right);
            let place = Place { is_scaled: scaled.contains(&root), has_failed, pod_labels, ..self.place(&id.kind) };
            self.object(id, &root, [left, right], place, &mut result);
            result.objects += 1;
        }
        result
    }

    fn object(&self, id: &Id, root: &Id, [left, right]: [Option<&Value>; 2], place: Place<'_>, result: &mut Compared) {
        if left.is_none() || right.is_none() {
            let is_dropped = self.rendered.has_dropped(id);
            self.judge(id, &Unequal { path: vec![], left, right }, Place { is_dropped, ..place }, result);
            return;
        }
        for found in unequal(left, right) {
            match (found.left, found.right) {
                (Some(left), Some(right)) if self.is_random(id, root, &found) && same_shape(left, right) => {
                    result.random += 1;
                }
                _ => {
                    let is_set = self.rendered.sets(root, &found.path);
                    let is_null = self.rendered.is_null(root, &found.path);
                    let is_dropped = self.rendered.has_dropped_text(id, &found.path);
                    self.judge(id, &found, Place { is_set, is_null, is_dropped, ..place }, result);
                }
            }
        }
    }

    fn place<'b>(&self, kind: &'b str) -> Place<'b> {
        let (phase, helm) = (self.phase, self.version);
        Place {
            kind,
            phase,
            helm,
            is_set: false,
            is_null: false,
            is_dropped: false,
            has_failed: false,
            is_scaled: false,
            pod_labels: None,
        }
    }

    fn judge(&self, id: &Id, found: &Unequal<'_>, place: Place<'_>, result: &mut Compared) {
        match self.allowed.find(found, place) {
            Some(row) if row.is_left_out() => {}
            Some(row) => *result.allowed.entry(row.why.clone()).or_default() += 1,
            None => result.differences.push(Difference::new(id, found)),
        }
    }

    fn is_random(&self, id: &Id, root: &Id, found: &Unequal<'_>) -> bool {
        if id.kind != RECORD {
            return self.random.has(root, &found.path);
        }
        let drawn = |key: &str, path: &[String]| {
            Id::parse(key).is_some_and(|rendered| self.random.has(&rendered, &as_stored(path.to_vec())))
        };
        match found.path.as_slice() {
            [info, notes] => info == "info" && notes == "notes" && !self.random.is_empty(),
            [hooks, _, manifest, key, path @ ..] if hooks == "hooks" && manifest == "manifest" => drawn(key, path),
            [manifest, key, path @ ..] if manifest == "manifest" => drawn(key, path),
            _ => false,
        }
    }

    /// Namespaces that an upgrade dropped and only helm removed, each with why that is allowed. What is left in them is no
    /// difference of its own; it counts under the same reason.
    fn kept_namespaces<'b>(&self, helm: &Scene, ours: &'b Scene) -> BTreeMap<&'b str, &str> {
        let namespaces = ours.objects.iter().filter(|(id, _)| id.kind == "Namespace" && !helm.objects.contains_key(id));
        let kept = namespaces.filter_map(|(id, object)| {
            let place = Place { is_dropped: self.rendered.has_dropped(id), ..self.place("Namespace") };
            let row = self.allowed.find(&Unequal { path: vec![], left: None, right: Some(object) }, place)?;
            Some((id.name.as_str(), row.why.as_str()))
        });
        kept.collect()
    }
}

/// The workloads that autoscalers decide about.
fn scaled(objects: &Objects) -> BTreeSet<Id> {
    let scalers = objects.iter().filter(|(id, _)| id.kind == "HorizontalPodAutoscaler");
    scalers.map(|(id, scaler)| referred(&scaler["spec"]["scaleTargetRef"], id.namespace.clone())).collect()
}

/// What a reference with version, kind and name means.
fn referred(reference: &Value, namespace: Option<String>) -> Id {
    let object = serde_json::json!({"apiVersion": reference["apiVersion"], "kind": reference["kind"],
        "metadata": {"name": reference["name"], "namespace": namespace}});
    Id::of(&object)
}

/// The object that a person or a chart made and that an object comes from.
fn root(id: &Id, object: &Value, all: &Objects) -> Id {
    let (mut id, mut object) = (id.clone(), object);
    // Owners form no circle in a sane cluster; the limit is for an insane one.
    for _ in 0..5 {
        let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_object).into_iter().flatten();
        let Some((_, owner)) = owners.into_iter().find(|(_, owner)| owner["controller"] == true) else { break };
        let Some((owner, value)) = all.get_key_value(&referred(owner, id.namespace.clone())) else { break };
        (id, object) = (owner.clone(), value);
    }
    id
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

    fn compare(helm: &Scene, ours: &Scene, random: &Random, phase: Phase, manifests: &[Value]) -> Compared {
        let allowed = Allowed::parse(DOCUMENT).unwrap();
        let mut rendered = Rendered::default();
        for (version, manifest) in manifests.iter().enumerate() {
            let id = Id::parse(&format!("{RECORD} a/web.v{version}")).unwrap();
            rendered.remember(&Objects::from([(id, json!({"version": version, "manifest": manifest}))]));
        }
        let version = HelmVersion::Four;
        Comparison { phase, version, allowed: &allowed, random, rendered: &rendered }.of(helm, ours)
    }

    #[test]
    fn equal_objects_have_no_difference_and_others_are_named() {
        let (one, other) = (object("ConfigMap", "a", json!({"x": 1})), object("ConfigMap", "a", json!({"x": 2})));
        let none = Random::default();
        let (one, other, nothing) = (scene(&[one]), scene(&[other]), scene(&[]));
        let same = compare(&one, &one, &none, Phase::Install, &[]);
        assert!(same.differences.is_empty() && same.objects == 1);
        let found = compare(&one, &other, &none, Phase::Install, &[]);
        assert_eq!(found.differences.len(), 1);
        assert_eq!(
            (found.differences[0].object.as_str(), found.differences[0].field.as_str()),
            ("ConfigMap a/a", "/data/x")
        );
        let gone = compare(&one, &nothing, &none, Phase::Install, &[]);
        assert_eq!((gone.differences.len(), gone.differences[0].field.as_str()), (1, ""));
    }

    #[test]
    fn what_is_untouched_on_both_sides_is_not_compared() {
        let mut helm = scene(&[object("ConfigMap", "a", json!({"x": 1}))]);
        let mut ours = scene(&[object("ConfigMap", "a", json!({"x": 2}))]);
        (helm.touched, ours.touched) = Default::default();
        assert_eq!(compare(&helm, &ours, &Random::default(), Phase::Install, &[]).objects, 0);
    }

    #[test]
    fn a_dropped_claim_may_stay_but_not_one_of_the_chart() {
        let claim = scene(&[object("PersistentVolumeClaim", "data", json!({}))]);
        let random = Random::default();
        let find =
            |phase, manifests: &[Value]| compare(&scene(&[]), &claim, &random, phase, manifests).differences.len();
        let of_the_chart = json!({"PersistentVolumeClaim a/data": {}});
        assert_eq!(find(Phase::Upgrade, &[of_the_chart.clone(), json!({})]), 0);
        assert_eq!(find(Phase::Upgrade, &[json!({}), json!({})]), 1, "the chart never had it");
        assert_eq!(find(Phase::Uninstall, &[json!({}), of_the_chart]), 1);
        assert_eq!(find(Phase::Install, &[json!({})]), 1);
    }

    #[test]
    fn what_is_left_in_a_kept_namespace_is_counted() {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
        let ours = scene(&[namespace, object("ConfigMap", "left", json!({}))]);
        let manifests = [json!({"Namespace shop/a": {}}), json!({})];
        let found = compare(&scene(&[]), &ours, &Random::default(), Phase::Upgrade, &manifests);
        assert_eq!((found.differences.len(), found.allowed["data"]), (0, 2));
    }

    #[test]
    fn random_values_need_one_shape_and_one_fate() {
        let render = |password: &str| format!("kind: Secret\nmetadata: {{name: s}}\ndata: {{p: {password}}}\n");
        let mut random = Random::default();
        random.learn(&render("a"), &render("b"), "a");
        let secret = |password: &str| scene(&[object("Secret", "s", json!({"p": password}))]);
        let find = |left, right| compare(&secret(left), &secret(right), &random, Phase::Install, &[]);
        assert_eq!((find("abc!", "xyz?").differences.len(), find("abc!", "xyz?").random), (0, 1));
        assert_eq!(find("abc!", "xyz??").differences.len(), 1);
        let [h, o, new] = ["abc!", "xyz?", "new!"].map(|password| secret(password).objects);
        assert!(kept_otherwise(&random, [&h, &o], [&h, &o]).is_empty());
        assert!(kept_otherwise(&random, [&h, &o], [&new, &new]).is_empty());
        assert_eq!(kept_otherwise(&random, [&h, &o], [&h, &new]).len(), 1);
    }
}
