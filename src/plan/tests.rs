use kube::discovery::ApiResource;

use super::*;

fn kinds() -> Kinds {
    let kind = |group: &str, kind: &str, namespaced| {
        let gvk = GroupVersionKind::gvk(group, "v1", kind);
        (
            gvk.clone(),
            Kind { resource: ApiResource::from_gvk(&gvk), namespaced, has_status: false, is_manageable: true },
        )
    };
    let crd = kind("apiextensions.k8s.io", "CustomResourceDefinition", false);
    Kinds::of([kind("", "ConfigMap", true), kind("", "Namespace", false), crd])
}

fn owner(namespace: Option<&str>) -> Owner {
    Owner {
        gvk: GroupVersionKind::gvk("g.io", "v1", "App"),
        namespace: namespace.map(str::to_owned),
        name: "web".into(),
        uid: "u".into(),
    }
}

fn object(kind: &str, metadata: Value) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": metadata})
}

fn planned_with(owner: &Owner, objects: Vec<Value>, before: &[Applied], allow_empty: bool) -> Result<Plan, PlanError> {
    let objects = objects.into_iter().map(|object| Object::new(object).unwrap()).collect();
    let rendered = Rendered { objects, ..Default::default() };
    let (release, namespace, chart, crds) = ("web", "here", "app", Crds::Create);
    let target = Target {
        release,
        namespace,
        chart,
        owner,
        allow_empty,
        crds,
        may_own: true,
        made: Made::new(),
        adopting: Default::default(),
    };
    plan(rendered, before, &target, &kinds())
}

fn planned(owner: &Owner, object: Value) -> Object {
    planned_with(owner, vec![object], &[], false).unwrap().apply.remove(0).object
}

fn before(name: &str, namespace: &str, version: &str) -> Applied {
    let id = ObjectId {
        group: String::new(),
        version: version.into(),
        kind: "ConfigMap".into(),
        namespace: Some(namespace.into()),
        name: name.into(),
    };
    Applied::new(id, Some("uid".into()))
}

/// Whether the object is tied by an owner reference; if not, it must be tied by annotations.
fn is_owned(object: &Object) -> bool {
    let owned = object.value().pointer("/metadata/ownerReferences/0/uid").is_some();
    assert_ne!(owned, object.annotation(PRIMARY_RESOURCE).is_some(), "{object:?}");
    owned
}

#[test]
fn ownership_follows_the_scopes_of_owner_and_object() {
    let here = object("ConfigMap", json!({"name": "c"}));
    let elsewhere = object("ConfigMap", json!({"name": "c", "namespace": "x"}));
    let cluster = object("Namespace", json!({"name": "n"}));
    let expected = [(Some("here"), [true, false, false]), (None, [true, true, true])];
    for (namespace, owned) in expected {
        let objects = [&here, &elsewhere, &cluster].map(|object| planned(&owner(namespace), object.clone()));
        assert_eq!(objects.each_ref().map(is_owned), owned, "owner in {namespace:?}");
    }
}

#[test]
fn what_is_to_be_kept_has_no_owner() {
    let keep = ["keep", " Keep "].map(|value| json!({"helm.sh/resource-policy": value}));
    let others = [
        json!({"cli-utils.sigs.k8s.io/on-remove": "keep"}),
        json!({"client.lifecycle.config.k8s.io/deletion": "detach"}),
    ];
    for annotations in keep.into_iter().chain(others) {
        let kept = planned(&owner(Some("here")), object("ConfigMap", json!({"name": "c", "annotations": annotations})));
        assert!(!is_owned(&kept), "{kept:?}");
    }
}

#[test]
fn a_chart_cannot_mark_an_object_as_a_run_of_a_hook() {
    let annotations = json!({"chartwright.dev/hook-run": "1.pre-install.0.1.u", "a": "b"});
    let object = planned(&owner(Some("here")), object("ConfigMap", json!({"name": "c", "annotations": annotations})));
    assert_eq!((object.annotation(RUN), object.annotation("a")), (None, Some("b")));
}

#[test]
fn helms_marks_and_the_namespace_are_put_on() {
    let object = planned(&owner(Some("here")), object("ConfigMap", json!({"name": "c"})));
    assert_eq!(object.namespace(), Some("here"));
    assert_eq!(object.annotation("meta.helm.sh/release-name"), Some("web"));
    assert_eq!(object.annotation("meta.helm.sh/release-namespace"), Some("here"));
    let labels = &object.value()["metadata"]["labels"];
    assert_eq!(labels["app.kubernetes.io/managed-by"], "Helm");
    assert_eq!(labels[RELEASE_LABEL], "web");
}

#[test]
fn null_entries_and_a_namespace_on_a_cluster_scoped_object_are_left_out() {
    let mut namespace = object("Namespace", json!({"name": "n", "namespace": "here"}));
    namespace["spec"] = json!({"a": null, "b": [{"c": null, "d": 1}]});
    let namespace = planned(&owner(Some("here")), namespace);
    assert_eq!(namespace.namespace(), None);
    assert_eq!(namespace.value()["spec"], json!({"b": [{"d": 1}]}));
}

#[test]
fn an_unknown_kind_is_named() {
    let unknown = json!({"apiVersion": "x.io/v1", "kind": "Y", "metadata": {"name": "z"}});
    let message = planned_with(&owner(Some("here")), vec![unknown], &[], false).unwrap_err().to_string();
    assert!(message.contains("Y z (x.io/v1)"), "{message}");
}

#[test]
fn a_kind_that_the_release_brings_is_known_but_cannot_be_judged_yet() {
    let mut crd = object("CustomResourceDefinition", json!({"name": "ys.x.io"}));
    crd["apiVersion"] = "apiextensions.k8s.io/v1".into();
    crd["spec"] = json!({"group": "x.io", "scope": "Namespaced", "names": {"kind": "Y", "plural": "ys"}, "versions": [{"name": "v1"}]});
    let custom = json!({"apiVersion": "x.io/v1", "kind": "Y", "metadata": {"name": "z"}});
    let plan = planned_with(&owner(Some("here")), vec![crd, custom], &[], false).unwrap();
    let custom = &plan.apply[1];
    assert_eq!((custom.judged, custom.kind.namespaced), (Judged::Never, true));
    assert_eq!(custom.kind.resource.plural, "ys");
}

#[test]
fn objects_in_a_namespace_of_the_release_cannot_be_judged_yet() {
    let objects =
        vec![object("Namespace", json!({"name": "n"})), object("ConfigMap", json!({"name": "c", "namespace": "n"}))];
    let plan = planned_with(&owner(Some("here")), objects, &[], false).unwrap();
    assert_eq!(
        plan.apply.iter().map(|planned| planned.judged).collect::<Vec<_>>(),
        [Judged::Wholly, Judged::OwnerOnly]
    );
}

#[test]
fn objects_in_a_namespace_that_an_earlier_revision_made_can_be_judged() {
    let objects =
        vec![object("Namespace", json!({"name": "n"})), object("ConfigMap", json!({"name": "c", "namespace": "n"}))];
    let mut namespace = before("n", "here", "v1");
    (namespace.id.kind, namespace.id.namespace) = ("Namespace".into(), None);
    let plan = planned_with(&owner(Some("here")), objects, &[namespace], false).unwrap();
    assert!(plan.apply.iter().all(|planned| planned.judged == Judged::Wholly));
}

#[test]
fn what_is_gone_from_the_render_is_pruned_once_and_a_new_version_is_not_another_object() {
    let before = [
        before("c", "here", "v1beta1"),
        before("old", "here", "v1"),
        before("old", "here", "v1"),
        before("c", "x", "v1"),
    ];
    let plan =
        planned_with(&owner(Some("here")), vec![object("ConfigMap", json!({"name": "c"}))], &before, false).unwrap();
    let pruned: Vec<_> = plan.prune.iter().map(|applied| applied.id.to_string()).collect();
    assert_eq!(pruned, ["ConfigMap here/old", "ConfigMap x/c"]);
}

#[test]
fn an_empty_render_is_refused_unless_allowed() {
    let before = [before("c", "here", "v1")];
    let refused = planned_with(&owner(Some("here")), vec![], &before, false).unwrap_err();
    assert_eq!(refused.category(), Category::EmptyRender);
    assert_eq!(planned_with(&owner(Some("here")), vec![], &before, true).unwrap().prune.len(), 1);
    assert!(planned_with(&owner(Some("here")), vec![], &[], false).unwrap().apply.is_empty());
}

#[test]
fn the_same_object_twice_is_refused() {
    let twice =
        vec![object("ConfigMap", json!({"name": "c"})), object("ConfigMap", json!({"name": "c", "namespace": "here"}))];
    let message = planned_with(&owner(Some("here")), twice, &[], false).unwrap_err().to_string();
    assert!(message.contains("ConfigMap here/c twice"), "{message}");
}

#[test]
fn the_steps_of_planning_grow_with_the_objects() {
    use crate::release::{Release, Status, codec};
    let resource = kube::discovery::ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let kind = Kind { resource, namespaced: true, has_status: false, is_manageable: true };
    let kinds = Kinds::of([(GroupVersionKind::gvk("", "v1", "ConfigMap"), kind)]);
    let manifest = |number: usize| -> String {
        let object = |it| format!("---\n{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c{it}}}}}\n");
        (0..number).map(object).collect()
    };
    let failed = |revision, number| {
        let manifest = manifest(number).into();
        Release { revision, status: Status::Failed, manifest, own: None, ..codec::tests::release() }
    };
    crate::steps::assert_linear("before", |number| {
        let history = History::new(vec![failed(1, number), failed(2, number)]);
        let mut before = vec![];
        let steps = crate::steps::of(|| before = super::before(&history, "here", &kinds).unwrap());
        assert_eq!(before.len(), number);
        steps
    });
    let gvk = GroupVersionKind::gvk("g.io", "v1", "App");
    let owner = Owner { gvk, namespace: Some("here".into()), name: "web".into(), uid: "u".into() };
    let target = Target {
        release: "web",
        namespace: "here",
        chart: "app",
        owner: &owner,
        allow_empty: false,
        crds: Crds::Skip,
        may_own: true,
        made: Made::new(),
        adopting: Default::default(),
    };
    crate::steps::assert_linear("plan", |number| {
        let before = members(&manifest(number * 2), "here", &kinds).unwrap();
        let rendered = manifest::read_record(&manifest(number)).unwrap();
        let mut planned = Plan::default();
        let steps = crate::steps::of(|| planned = plan(rendered, &before, &target, &kinds).unwrap());
        assert_eq!((planned.apply.len(), planned.prune.len()), (number, number));
        steps
    });
}
