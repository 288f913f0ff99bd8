use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use super::*;
use crate::object::ObjectId;
use crate::release::{Applied, HookRecord, HookRun, Own, Status};

fn owner() -> Owner {
    let gvk = GroupVersionKind::gvk("g.io", "v1", "App");
    Owner { gvk, namespace: Some("here".into()), name: "web".into(), uid: "u".into() }
}

fn fence(lookup: Lookup, history: &History) -> Fence {
    let owner = owner();
    let target = Target {
        release: "web",
        namespace: "here",
        chart: "app",
        owner: &owner,
        allow_empty: false,
        crds: Default::default(),
        may_own: true,
    };
    Fence::new(lookup, &target, history)
}

fn secret(namespace: &str, name: &str) -> ObjectId {
    ObjectId {
        group: String::new(),
        version: "v1".into(),
        kind: "Secret".into(),
        namespace: Some(namespace.into()),
        name: name.into(),
    }
}

fn metadata(metadata: Value) -> ObjectMeta {
    serde_json::from_value(metadata).unwrap()
}

fn of_helm(release: &str, namespace: &str) -> ObjectMeta {
    metadata(json!({
        "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": namespace},
    }))
}

fn record(own: Option<Own>, hooks: Vec<HookRecord>) -> History {
    let release = Release {
        name: "web".into(),
        namespace: "here".into(),
        revision: 1,
        status: Status::Deployed,
        chart: Value::Null,
        defaults: Value::Null,
        config: Value::Null,
        manifest: String::new(),
        hooks,
        notes: String::new(),
        description: String::new(),
        first_deployed: Default::default(),
        last_deployed: Default::default(),
        own,
        stored: Default::default(),
    };
    History::new(vec![release])
}

fn hook(name: &str, has_run: bool) -> HookRecord {
    let started_at = has_run.then(Default::default);
    HookRecord {
        name: name.into(),
        kind: "Secret".into(),
        manifest: format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\n"),
        last_run: HookRun { started_at, ..HookRun::default() },
        ..HookRecord::default()
    }
}

#[test]
fn helms_marks_make_an_object_ours_and_nobody_elses() {
    let fence = fence(Lookup::Release, &History::default());
    let key = secret("here", "a").key();
    assert!(fence.shows(&key, &of_helm("web", "here")));
    assert!(fence.shows(&secret("elsewhere", "a").key(), &of_helm("web", "here")));
    for other in [of_helm("web", "there"), of_helm("other", "here"), ObjectMeta::default()] {
        assert!(!fence.shows(&key, &other), "{other:?}");
    }
}

#[test]
fn annotations_alone_are_not_helms_marks() {
    let mut marked = of_helm("web", "here");
    marked.labels = None;
    assert!(!fence(Lookup::Release, &History::default()).shows(&secret("here", "a").key(), &marked));
}

#[test]
fn what_was_applied_is_ours_by_uid() {
    let own = Own { objects: vec![Applied::new(secret("here", "a"), Some("1".into()))], ..Own::default() };
    let fence = fence(Lookup::Release, &record(Some(own), vec![]));
    let with = |uid: &str| metadata(json!({"uid": uid}));
    assert!(fence.shows(&secret("here", "a").key(), &with("1")));
    assert!(!fence.shows(&secret("here", "a").key(), &with("2")), "another object took its name");
    assert!(!fence.shows(&secret("here", "b").key(), &with("1")));
}

#[test]
fn what_an_upgrade_kept_is_ours_unless_somebody_took_it() {
    let own = Own { kept: vec![secret("here", "a")], ..Own::default() };
    let fence = fence(Lookup::Release, &record(Some(own), vec![]));
    assert!(fence.shows(&secret("here", "a").key(), &ObjectMeta::default()));
    assert!(!fence.shows(&secret("here", "a").key(), &of_helm("other", "here")));
}

#[test]
fn what_a_hook_made_is_ours_if_it_ran() {
    let key = |name: &str| secret("here", name).key();
    let loose = ObjectMeta::default();
    let by_helm = fence(Lookup::Release, &record(None, vec![hook("ran", true), hook("waits", false)]));
    assert!(by_helm.shows(&key("ran"), &loose));
    assert!(!by_helm.shows(&key("waits"), &loose));
    let ours = fence(Lookup::Release, &record(Some(Own::default()), vec![hook("ran", true)]));
    assert!(ours.shows(&key("ran"), &metadata(json!({"labels": {"chartwright.dev/release": "web"}}))));
    assert!(!ours.shows(&key("ran"), &loose), "somebody else's, whose name a custom resource gave to a hook");
    assert!(!ours.shows(&secret("elsewhere", "ran").key(), &loose));
}

#[test]
fn the_fence_is_as_wide_as_the_watch_says() {
    let loose = ObjectMeta::default();
    let mut node = secret("", "n").key();
    node.namespace = None;
    let seen = |lookup| {
        let fence = fence(lookup, &History::default());
        [&secret("here", "a").key(), &secret("there", "a").key(), &node].map(|key| fence.shows(key, &loose))
    };
    assert_eq!(seen(Lookup::None), [false, false, false]);
    assert_eq!(seen(Lookup::Release), [false, false, false]);
    assert_eq!(seen(Lookup::Namespace), [true, false, false]);
    assert_eq!(seen(Lookup::Cluster), [true, true, true]);
    assert!(!fence(Lookup::None, &History::default()).shows(&node, &of_helm("web", "here")));
}

#[test]
fn a_refusal_names_the_narrowest_setting() {
    let fence = fence(Lookup::Release, &History::default());
    assert_eq!(fence.key_to(Place::Namespace("here")), "lookup: namespace");
    assert_eq!(fence.key_to(Place::Namespace("there")), "lookup: cluster");
    assert_eq!(fence.key_to(Place::Everywhere), "lookup: cluster");
}
