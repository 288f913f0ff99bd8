use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use super::*;
use crate::object::ObjectId;
use crate::release::{Applied, Doubt, HookRecord, HookRun, Json, Own, Proof, Status, Text};

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
        made: Default::default(),
        adopting: Default::default(),
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
        "namespace": "here",
        "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": namespace},
    }))
}

/// As the objects of a release of this operator are in the cluster.
fn of_ours(release: &str, namespace: &str) -> ObjectMeta {
    let mut live = of_helm(release, namespace);
    live.labels.get_or_insert_default().insert(applyset::PART_OF.into(), applyset::id(&owner()));
    live
}

fn record(own: Option<Own>, hooks: Vec<HookRecord>) -> History {
    let release = Release {
        name: "web".into(),
        namespace: "here".into(),
        revision: 1,
        status: Status::Deployed,
        chart: Value::Null,
        defaults: Json::default(),
        config: Json::default(),
        manifest: Text::default(),
        hooks,
        notes: Text::default(),
        description: String::new(),
        first_deployed: Default::default(),
        last_deployed: Default::default(),
        own,
        claimed: None,
        proof: Default::default(),
        stored: Default::default(),
    };
    History::new(vec![release])
}

fn hook(name: &str, phase: HookPhase) -> HookRecord {
    let started_at = (phase != HookPhase::None).then(Default::default);
    HookRecord {
        name: name.into(),
        kind: "Secret".into(),
        manifest: format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\n").into(),
        last_run: HookRun { started_at, phase, ..HookRun::default() },
        ..HookRecord::default()
    }
}

#[test]
fn our_marks_make_an_object_ours_and_helms_alone_do_not() {
    let fence = fence(Lookup::Release, &History::default());
    let key = secret("here", "a").key();
    assert!(fence.shows(&key, &of_ours("web", "here")));
    assert!(!fence.shows(&key, &of_helm("web", "here")), "a Helm release whose records nobody sees has them too");
    let elsewhere = ObjectMeta { namespace: Some("elsewhere".into()), ..of_ours("web", "here") };
    assert!(
        !fence.shows(&secret("elsewhere", "a").key(), &elsewhere),
        "a Helm release of an administrator has them too"
    );
    for other in [of_ours("web", "there"), of_ours("other", "here"), ObjectMeta::default()] {
        assert!(!fence.shows(&key, &other), "{other:?}");
    }
}

#[test]
fn annotations_alone_are_not_helms_marks() {
    let mut marked = of_ours("web", "here");
    marked.labels.get_or_insert_default().remove("app.kubernetes.io/managed-by");
    marked.labels.get_or_insert_default().remove(applyset::PART_OF);
    assert!(!fence(Lookup::Release, &History::default()).shows(&secret("here", "a").key(), &marked));
}

#[test]
fn what_was_applied_is_ours_by_uid() {
    let own = Own { objects: vec![Applied::new(secret("here", "a"), Some("1".into()))], ..Own::default() };
    let fence = fence(Lookup::Release, &record(Some(own), vec![]));
    let with = |uid: &str| metadata(json!({"uid": uid}));
    assert!(fence.shows(&secret("here", "a").key(), &with("1")));
    let taken = ObjectMeta { uid: Some("1".into()), ..of_helm("other", "here") };
    assert!(!fence.shows(&secret("here", "a").key(), &taken), "another release took it over");
    assert!(!fence.shows(&secret("here", "a").key(), &with("2")), "another object took its name");
    assert!(!fence.shows(&secret("here", "b").key(), &with("1")));
}

#[test]
fn helms_marks_count_where_a_record_of_ours_names_the_object() {
    let own = Own { objects: vec![Applied::new(secret("here", "a"), Some("1".into()))], ..Own::default() };
    let with = |uid: &str| ObjectMeta { uid: Some(uid.into()), ..of_helm("web", "here") };
    let recorded = fence(Lookup::Release, &record(Some(own), vec![]));
    assert!(recorded.shows(&secret("here", "a").key(), &with("1")), "helm went back and took our marks off");
    assert!(!recorded.shows(&secret("here", "a").key(), &with("2")));
    let by_helm = |proof: Proof| {
        let release = record(None, vec![]).into_releases().next().unwrap();
        let manifest = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n".into();
        fence(
            Lookup::Release,
            &History::new(vec![Release { manifest, proof, claimed: Some(Box::default()), ..release }]),
        )
    };
    assert!(by_helm(Proof::Content).shows(&secret("here", "a").key(), &with("2")), "helm wrote our record again");
    let unproven = by_helm(Proof::Missing(Doubt::Unsigned));
    assert!(!unproven.shows(&secret("here", "a").key(), &with("2")), "a release that is being adopted");
}

#[test]
fn outside_of_the_namespace_only_marks_count() {
    let mut node = secret("", "n");
    node.namespace = None;
    for id in [secret("elsewhere", "a"), node] {
        let own = Own { objects: vec![Applied::new(id.clone(), Some("1".into()))], ..Own::default() };
        let fence = fence(Lookup::Release, &record(Some(own), vec![]));
        let with_uid = |live: ObjectMeta| ObjectMeta { uid: Some("1".into()), ..live };
        let tied = metadata(json!({"annotations": {
            "operator-sdk/primary-resource": "here/web", "operator-sdk/primary-resource-type": "App.g.io",
        }}));
        assert!(fence.shows(&id.key(), &with_uid(tied)));
        assert!(!fence.shows(&id.key(), &with_uid(ObjectMeta::default())), "a record says it, the object does not");
    }
}

#[test]
fn what_was_adopted_is_not_shown_whether_the_record_or_the_object_says_so() {
    let adopted = |namespace| Applied { is_adopted: true, ..Applied::new(secret(namespace, "a"), Some("1".into())) };
    let own = Own { objects: vec![adopted("here"), adopted("elsewhere")], ..Own::default() };
    let fence = fence(Lookup::Release, &record(Some(own), vec![]));
    assert!(!fence.shows(&secret("here", "a").key(), &of_ours("web", "here")));
    assert!(!fence.shows(&secret("elsewhere", "a").key(), &of_ours("web", "here")));
    assert!(fence.shows(&secret("here", "b").key(), &of_ours("web", "here")));
    let mut marked = of_ours("web", "here");
    marked.annotations.get_or_insert_default().insert(adoption::ADOPTED.into(), "here/web".into());
    assert!(!fence.shows(&secret("here", "b").key(), &marked), "no record remembers, but the object does");
}

#[test]
fn what_an_upgrade_kept_is_ours_by_its_marks() {
    let own = Own { kept: vec![secret("here", "a")], ..Own::default() };
    let fence = fence(Lookup::Release, &record(Some(own), vec![]));
    let mut kept = of_helm("web", "here");
    kept.annotations.get_or_insert_default().insert(ownership::KEPT.into(), applyset::id(&owner()));
    assert!(fence.shows(&secret("here", "a").key(), &kept));
    assert!(!fence.shows(&secret("here", "a").key(), &of_helm("web", "here")), "Helm made another of its name");
    assert!(!fence.shows(&secret("here", "a").key(), &ObjectMeta::default()), "another object took its name");
    assert!(!fence.shows(&secret("here", "a").key(), &of_helm("other", "here")));
}

#[test]
fn what_a_hook_of_helm_made_is_ours_if_it_went_well_and_is_a_hook() {
    let key = |name: &str| secret("here", name).key();
    let live = metadata(json!({"annotations": {"helm.sh/hook": "pre-install"}}));
    let hooks =
        || vec![hook("ran", HookPhase::Succeeded), hook("fell", HookPhase::Failed), hook("waits", HookPhase::None)];
    let taken_over = fence(Lookup::Release, &record(Some(Own::default()), hooks()));
    assert!(taken_over.shows(&key("ran"), &live));
    let release = record(None, hooks()).into_releases().next().unwrap();
    let over_ours = Release { claimed: Some(Box::default()), ..release.clone() };
    let by_helm = fence(Lookup::Release, &History::new(vec![over_ours]));
    assert!(by_helm.shows(&key("ran"), &live));
    assert!(!by_helm.shows(&key("ran"), &ObjectMeta::default()), "somebody else's, whose name a hook has");
    let foreign = History::new(vec![Release { proof: Proof::Missing(Doubt::Unsigned), ..release }]);
    assert!(!fence(Lookup::Release, &foreign).shows(&key("ran"), &live), "of a release that is being adopted");
    let adopted = Applied { is_adopted: true, ..Applied::new(secret("here", "a"), None) };
    let own = Own { objects: vec![adopted], ..Own::default() };
    assert!(!fence(Lookup::Release, &record(Some(own), hooks())).shows(&key("ran"), &live), "of an adopted release");
    assert!(!by_helm.shows(&key("fell"), &live) && !by_helm.shows(&key("waits"), &live));
    assert!(!by_helm.shows(&secret("elsewhere", "ran").key(), &live));
}

#[test]
fn a_hook_of_helm_shows_nothing_outside_of_the_namespace() {
    let live = metadata(json!({"annotations": {"helm.sh/hook": "pre-install"}}));
    let mut elsewhere = hook("ran", HookPhase::Succeeded);
    elsewhere.manifest = "apiVersion: v1\nkind: Secret\nmetadata: {name: ran, namespace: elsewhere}\n".into();
    let fence = fence(Lookup::Release, &record(None, vec![elsewhere]));
    assert!(!fence.shows(&secret("elsewhere", "ran").key(), &live));
    let mut node = secret("", "ran").key();
    node.namespace = None;
    assert!(!fence.shows(&node, &live));
}

#[test]
fn what_our_hook_made_is_ours_by_its_marks() {
    let ours = fence(Lookup::Release, &record(Some(Own::default()), vec![hook("ran", HookPhase::Succeeded)]));
    let marks = |place: &str| {
        let marks = json!({"operator-sdk/primary-resource": place, "operator-sdk/primary-resource-type": "App.g.io"});
        metadata(json!({"annotations": marks}))
    };
    let key = secret("here", "ran").key();
    assert!(ours.shows(&key, &marks("here/web")) && !ours.shows(&key, &marks("here/other")));
    assert!(!ours.shows(&key, &ObjectMeta::default()));
    assert_eq!(ours.recorded("", "Secret", Place::Namespace("here")), [key]);
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
    assert!(!fence(Lookup::None, &History::default()).shows(&node, &of_ours("web", "here")));
}

#[test]
fn a_refusal_names_the_narrowest_setting() {
    let fence = fence(Lookup::Release, &History::default());
    assert_eq!(fence.key_to(Place::Namespace("here")), "lookup: namespace");
    assert_eq!(fence.key_to(Place::Namespace("there")), "lookup: cluster");
    assert_eq!(fence.key_to(Place::Everywhere), "lookup: cluster");
}
