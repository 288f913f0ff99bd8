use kube::discovery::ApiResource;
use proptest::prelude::*;

use super::*;
use crate::release::{Own, Release, Status, codec};
use crate::steps;

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

/// A manifest of ConfigMaps.
fn manifest_of(names: impl IntoIterator<Item = String>) -> String {
    let object = |name| format!("---\n{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}}}\n");
    names.into_iter().map(object).collect()
}

fn numbered(number: usize) -> String {
    manifest_of((0..number).map(|it| format!("c{it}")))
}

fn foreign(revision: u32, status: Status, manifest: String) -> Release {
    Release { revision, status, manifest: manifest.into(), own: None, ..codec::tests::release() }
}

/// What comes before, and a plan, in steps.
fn steps_of(history: &History, rendered: Rendered) -> (usize, usize, Plan) {
    let owner = owner(Some("here"));
    let (release, namespace, chart, crds) = ("web", "here", "app", Crds::Skip);
    let target = Target {
        release,
        namespace,
        chart,
        owner: &owner,
        allow_empty: true,
        crds,
        may_own: true,
        made: Made::new(),
        adopting: Default::default(),
    };
    let (mut before, mut planned) = (vec![], Plan::default());
    let first = steps::of(|| before = super::before(history, "here", &kinds()).unwrap());
    let second = steps::of(|| planned = plan(rendered, &before, &target, &kinds()).unwrap());
    (first, second, planned)
}

#[test]
fn the_steps_of_planning_grow_with_the_objects() {
    steps::assert_linear("before", |number| {
        let failed = |revision| foreign(revision, Status::Failed, numbered(number));
        let (steps, _, planned) = steps_of(&History::new(vec![failed(1), failed(2)]), Rendered::default());
        assert_eq!(planned.prune.len(), number);
        steps
    });
    steps::assert_linear("plan", |number| {
        let history = History::new(vec![foreign(1, Status::Failed, numbered(number * 2))]);
        let (_, steps, planned) = steps_of(&history, manifest::read_record(&numbered(number)).unwrap());
        assert_eq!((planned.apply.len(), planned.prune.len()), (number, number));
        steps
    });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// Revisions of ours and of others, with objects in common, and a render that has some of them.
    #[test]
    fn histories_of_any_shape_take_a_few_steps_for_each_object(
        revisions in proptest::collection::vec(
            (any::<bool>(), proptest::sample::select(Status::ALL.to_vec()), proptest::collection::vec(0..40_u8, 0..40)),
            0..8,
        ),
        rendered in proptest::collection::btree_set(0..60_u8, 0..40),
    ) {
        let named = |number: &u8| format!("c{number}");
        let release = |(revision, (is_ours, status, names)): (u32, &(bool, Status, Vec<u8>))| {
            let objects = names.iter().map(|it| before(&named(it), "here", "v1")).collect();
            let own = is_ours.then(|| Own { objects, ..codec::tests::release().own.unwrap() });
            Release { own, ..foreign(revision, *status, manifest_of(names.iter().map(named))) }
        };
        let history = History::new((1..).zip(&revisions).map(release).collect());
        let objects = 1 + revisions.iter().map(|(_, _, names)| names.len()).sum::<usize>();
        let wanted = manifest::read_record(&manifest_of(rendered.iter().map(named))).unwrap();
        let (first, second, planned) = steps_of(&history, wanted);
        steps::assert_few("before", objects, first);
        steps::assert_few("plan", objects + rendered.len(), second);
        let applied: HashSet<ObjectKey> = planned.ids().map(|id| id.key()).collect();
        let pruned: HashSet<ObjectKey> = planned.prune.iter().map(|applied| applied.id.key()).collect();
        prop_assert_eq!((applied.len(), pruned.len()), (rendered.len(), planned.prune.len()), "each once");
        prop_assert!(applied.is_disjoint(&pruned));
    }
}
