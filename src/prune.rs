//! Removing what a release no longer has, and only what is provably ours.
//!
//! [`decide`] is pure and says why. An object goes only if the record names it with this UID, it carries our marks, and
//! nothing asks to keep it. The delete itself names the UID, so that an object which took the name in between stays.

use std::collections::{BTreeMap, HashSet};

use kube::core::ObjectMeta;
use serde_json::{Value, json};

use crate::adoption;
use crate::applyset;
use crate::calls::Calls;
use crate::discovery::absence::{Absence, Unavailable};
use crate::discovery::{Kind, Kinds};
use crate::error::{Category, of_kube, sentence};
use crate::object::{ObjectId, ObjectKey};
use crate::ownership::{Claim, KEPT, judge};
use crate::plan::{Made, Owner, PRIMARY_RESOURCE, PRIMARY_RESOURCE_TYPE, RELEASE_LABEL, is_kept};
use crate::release::Applied;
use crate::sensitive::Sensitive;

/// Why objects are being removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// A new revision does not have them. Namespaces, CRDs and claims stay: their contents cannot be had back.
    Upgrade,
    /// The same, and the watch says `prune: all`.
    UpgradeAll,
    /// The release goes. What Helm deletes is deleted.
    Uninstall,
}

/// What is needed to decide.
pub struct Rules<'a> {
    pub release: &'a str,
    pub namespace: &'a str,
    pub owner: &'a Owner,
    pub occasion: Occasion,
    /// What was just applied: an object may be there under two kinds.
    pub applied: HashSet<String>,
    /// Whether Helm's marks are enough: a person's `helm rollback` takes ours off.
    pub helm_marks_suffice: bool,
    /// What this operator knows that it made for the release. Outside of the release's namespace nothing else is removed.
    pub proven: Made,
    /// Whether what existed before the release goes with it.
    pub delete_adopted: bool,
    /// What the chart has in crds/ now. It may have been among the templates before.
    pub shipped: HashSet<ObjectKey>,
}

/// What to do with an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Delete,
    /// It stays, without our marks.
    Keep(&'static str),
    /// It is not ours to touch.
    Leave(&'static str),
    /// It is outside of the release's namespace, and nothing proves that the release made it.
    Unproven,
}

/// Decides by the record and the live metadata.
pub fn decide(recorded: &Applied, live: &ObjectMeta, rules: &Rules<'_>) -> Verdict {
    match Sensitive::of_metadata(&recorded.id, live) {
        Some(Sensitive::Record) => return Verdict::Leave("it is a Helm release record"),
        Some(Sensitive::Operator) => return Verdict::Leave("it is a Secret of the operator"),
        Some(Sensitive::Token) | None => {}
    }
    let uid = live.uid.as_deref().unwrap_or_default();
    if recorded.uid.as_deref().is_some_and(|known| known != uid) {
        return Verdict::Leave("somebody made it again");
    }
    if rules.applied.contains(uid) {
        return Verdict::Leave("the release has it under another kind");
    }
    let is_inside = live.namespace.as_deref() == Some(rules.namespace);
    if !is_inside && !rules.proven.contains_key(&recorded.id.key()) {
        return Verdict::Unproven;
    }
    let labelled = live.labels.as_ref().and_then(|labels| labels.get(RELEASE_LABEL)).map(String::as_str);
    if labelled != Some(rules.release) && !(rules.helm_marks_suffice && is_inside) {
        return Verdict::Leave("it does not carry our label any more");
    }
    let is_ours = match judge(live, rules.release, rules.namespace, rules.owner) {
        Claim::Ours => true,
        // The record names it with this UID, or helm wrote one of ours again.
        Claim::Helm => is_inside && (recorded.uid.is_some() || rules.proven.contains_key(&recorded.id.key())),
        Claim::Foreign(_) | Claim::Loose => false,
    };
    if !is_ours {
        return Verdict::Leave("it belongs to something else now");
    }
    let annotations = live.annotations.as_ref();
    if is_kept(|key| annotations.and_then(|annotations| annotations.get(key)).map(String::as_str)) {
        return Verdict::Keep("an annotation asks to keep it");
    }
    if (recorded.is_adopted || adoption::is_marked(live)) && !(rules.delete_adopted && is_inside) {
        return Verdict::Keep("it existed before the release");
    }
    if rules.shipped.contains(&recorded.id.key()) {
        return Verdict::Keep("the chart has it in crds/ now");
    }
    if rules.occasion == Occasion::Upgrade && holds_data(&recorded.id) {
        return Verdict::Keep("it may hold what cannot be had back");
    }
    Verdict::Delete
}

/// What goes with such an object cannot be had back.
pub fn holds_data(id: &ObjectId) -> bool {
    matches!(
        (id.group.as_str(), id.kind.as_str()),
        ("", "Namespace" | "PersistentVolumeClaim") | ("apiextensions.k8s.io", "CustomResourceDefinition")
    )
}

#[derive(Debug, thiserror::Error)]
pub enum PruneError {
    #[error("cannot remove {id}: {}", sentence(error))]
    Refused { id: Box<ObjectId>, error: kube::Error },
    #[error("cannot remove {id}: {error}")]
    Unavailable { id: Box<ObjectId>, error: Unavailable },
}

impl PruneError {
    fn of_call(id: &ObjectId, kind: &Kind, error: kube::Error) -> Self {
        let id = Box::new(id.clone());
        match Unavailable::of_call(&kind.resource, error) {
            Ok(error) => PruneError::Unavailable { id, error },
            Err(error) => PruneError::Refused { id, error },
        }
    }

    pub fn category(&self) -> Category {
        match self {
            PruneError::Refused { error, .. } => of_kube(error),
            PruneError::Unavailable { error, .. } => error.category(),
        }
    }
}

/// The kinds of objects that are removed. A kind that is not known is believed gone only after its group was asked for.
struct Known<'a> {
    kinds: &'a Kinds,
    absence: Absence,
    gone: HashSet<(&'a str, &'a str)>,
}

impl<'a> Known<'a> {
    fn new(kinds: &'a Kinds, calls: &'a Calls) -> Self {
        Known { kinds, absence: Absence::new(calls), gone: HashSet::new() }
    }

    /// None where the kind is gone, and its objects with it.
    async fn kind(&mut self, id: &'a ObjectId) -> Result<Option<Kind>, PruneError> {
        if let Some(kind) = self.kinds.any_version(&id.group, &id.kind) {
            return Ok(Some(kind));
        }
        if self.gone.insert((&id.group, &id.kind)) {
            let confirmed = self.absence.confirm(&id.group, &id.kind).await;
            confirmed.map_err(|error| PruneError::Unavailable { id: Box::new(id.clone()), error })?;
        }
        Ok(None)
    }
}

/// What became of the objects.
#[derive(Debug, Default)]
pub struct Pruned {
    pub deleted: Vec<ObjectId>,
    pub kept: Vec<ObjectId>,
    /// Outside of the release's namespace, and recorded by nothing that is proven.
    pub unproven: Vec<ObjectId>,
}

/// Removes objects one after the other, in the given order.
pub async fn prune(objects: &[Applied], rules: &Rules<'_>, kinds: &Kinds, calls: &Calls) -> Result<Pruned, PruneError> {
    let (mut pruned, mut known) = (Pruned::default(), Known::new(kinds, calls));
    for recorded in objects {
        let id = &recorded.id;
        let Some(kind) = known.kind(id).await? else { continue };
        let failed = |error| PruneError::of_call(id, &kind, error);
        let Some(live) = calls.metadata(&kind, id).await.map_err(failed)? else { continue };
        match decide(recorded, &live, rules) {
            Verdict::Delete => {
                let uid = live.uid.as_deref().unwrap_or_default();
                calls.delete(&kind, id, uid).await.map_err(failed)?;
                pruned.deleted.push(id.clone());
            }
            Verdict::Keep(why) => {
                tracing::info!(object = %id, "kept: {why}");
                release_from(id, &kind, &live, rules.owner, calls).await.map_err(failed)?;
                pruned.kept.push(id.clone());
            }
            Verdict::Leave(why) => tracing::warn!(object = %id, "left alone: {why}"),
            Verdict::Unproven => pruned.unproven.push(id.clone()),
        }
    }
    Ok(pruned)
}

/// Lets objects go as they are: what is ours loses our marks, and stays.
pub async fn set_free(objects: &[Applied], rules: &Rules<'_>, kinds: &Kinds, calls: &Calls) -> Result<(), PruneError> {
    let mut known = Known::new(kinds, calls);
    for recorded in objects {
        let id = &recorded.id;
        let Some(kind) = known.kind(id).await? else { continue };
        let failed = |error| PruneError::of_call(id, &kind, error);
        let Some(live) = calls.metadata(&kind, id).await.map_err(failed)? else { continue };
        if judge(&live, rules.release, rules.namespace, rules.owner) == Claim::Ours && has_our_marks(&live, rules.owner)
        {
            release_from(id, &kind, &live, rules.owner, calls).await.map_err(failed)?;
        }
    }
    Ok(())
}

/// Takes an owner's reference off objects, and nothing else.
pub async fn disown(objects: &[Applied], owner: &Owner, kinds: &Kinds, calls: &Calls) -> Result<(), PruneError> {
    let mut known = Known::new(kinds, calls);
    for Applied { id, .. } in objects {
        let Some(kind) = known.kind(id).await? else { continue };
        let failed = |error| PruneError::of_call(id, &kind, error);
        let Some(live) = calls.metadata(&kind, id).await.map_err(failed)? else { continue };
        if live.owner_references.iter().flatten().any(|reference| reference.uid == owner.uid) {
            let version = &live.resource_version;
            let patch =
                json!({"metadata": {"resourceVersion": version, "ownerReferences": owners_without(&live, owner)}});
            calls.merge(&kind, id, &patch).await.map_err(failed)?;
        }
    }
    Ok(())
}

/// The owner references but for this owner's, as a patch has them.
fn owners_without(live: &ObjectMeta, owner: &Owner) -> Value {
    let others = live.owner_references.iter().flatten().filter(|reference| reference.uid != owner.uid);
    let others: Vec<_> = others.collect();
    if others.is_empty() { Value::Null } else { json!(others) }
}

fn has_our_marks(live: &ObjectMeta, owner: &Owner) -> bool {
    let has = |map: Option<&BTreeMap<String, String>>, key: &str| map.is_some_and(|map| map.contains_key(key));
    live.owner_references.iter().flatten().any(|reference| reference.uid == owner.uid)
        || has(live.labels.as_ref(), RELEASE_LABEL)
        || has(live.labels.as_ref(), applyset::PART_OF)
        || has(live.annotations.as_ref(), PRIMARY_RESOURCE)
}

/// Takes our owner reference and labels off, so that neither we nor the garbage collector come back for it. Helm's marks
/// stay, as they do when Helm keeps something, and [`KEPT`] says whose it was: a custom resource of this name finds it again.
async fn release_from(
    id: &ObjectId,
    kind: &Kind,
    live: &ObjectMeta,
    owner: &Owner,
    calls: &Calls,
) -> Result<(), kube::Error> {
    calls.merge(kind, id, &without_our_marks(live, owner)).await
}

fn without_our_marks(live: &ObjectMeta, owner: &Owner) -> Value {
    json!({"metadata": {
        // Whoever changed the owners in between wins; we come again.
        "resourceVersion": live.resource_version,
        "ownerReferences": owners_without(live, owner),
        "labels": {RELEASE_LABEL: null, applyset::PART_OF: null},
        "annotations": {PRIMARY_RESOURCE: null, PRIMARY_RESOURCE_TYPE: null, KEPT: applyset::id(owner)},
    }})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{MANAGED_BY, RELEASE_NAME, RELEASE_NAMESPACE};
    use kube::core::GroupVersionKind;

    fn recorded(group: &str, kind: &str, uid: Option<&str>) -> Applied {
        let id = ObjectId {
            group: group.into(),
            version: "v1".into(),
            kind: kind.into(),
            namespace: Some("here".into()),
            name: "x".into(),
        };
        Applied::new(id, uid.map(str::to_owned))
    }

    fn live() -> Value {
        json!({
            "uid": "u1",
            "namespace": "here",
            "labels": {RELEASE_LABEL: "web"},
            "ownerReferences": [{"apiVersion": "g.io/v1", "kind": "App", "name": "web", "uid": "owner", "controller": true}],
        })
    }

    fn verdict_for(recorded: &Applied, live: Value, occasion: Occasion, applied: &[&str]) -> Verdict {
        judged(recorded, live, occasion, applied, false)
    }

    fn judged(recorded: &Applied, live: Value, occasion: Occasion, applied: &[&str], delete_adopted: bool) -> Verdict {
        let owner = Owner {
            gvk: GroupVersionKind::gvk("g.io", "v1", "App"),
            namespace: Some("here".into()),
            name: "web".into(),
            uid: "owner".into(),
        };
        let applied = applied.iter().map(|uid| uid.to_string()).collect();
        let shipped = [self::recorded("apiextensions.k8s.io", "Shipped", None).id.key()].into();
        let rules = Rules {
            release: "web",
            namespace: "here",
            owner: &owner,
            occasion,
            applied,
            helm_marks_suffice: false,
            proven: Made::new(),
            shipped,
            delete_adopted,
        };
        decide(recorded, &serde_json::from_value(live).unwrap(), &rules)
    }

    fn verdict(live: Value) -> Verdict {
        verdict_for(&recorded("", "ConfigMap", Some("u1")), live, Occasion::Upgrade, &[])
    }

    #[test]
    fn what_is_recorded_marked_and_not_kept_goes() {
        assert_eq!(verdict(live()), Verdict::Delete);
        // A crash before the answer: the record has no UID, but the marks are ours.
        let unanswered = recorded("", "ConfigMap", None);
        assert_eq!(verdict_for(&unanswered, live(), Occasion::Upgrade, &[]), Verdict::Delete);
    }

    #[test]
    fn another_uid_is_left_alone() {
        let mut other = live();
        other["uid"] = "u2".into();
        assert!(matches!(verdict(other), Verdict::Leave(_)));
    }

    #[test]
    fn a_foreign_owner_or_a_missing_label_protects() {
        let mut foreign = live();
        foreign["ownerReferences"][0]["name"] = "shop".into();
        foreign["ownerReferences"][0]["uid"] = "other".into();
        let mut unlabelled = live();
        unlabelled["labels"] = json!({});
        let mut loose = live();
        loose["ownerReferences"] = json!([]);
        for live in [foreign, unlabelled, loose] {
            assert!(matches!(verdict(live.clone()), Verdict::Leave(_)), "{live}");
        }
    }

    #[test]
    fn helms_marks_suffice_where_a_record_names_the_object() {
        let marks = json!({
            "uid": "u1",
            "namespace": "here",
            "labels": {RELEASE_LABEL: "web", MANAGED_BY: "Helm"},
            "annotations": {RELEASE_NAME: "web", RELEASE_NAMESPACE: "here"},
        });
        assert_eq!(verdict(marks.clone()), Verdict::Delete);
        let told = recorded("", "ConfigMap", None);
        assert!(matches!(verdict_for(&told, marks, Occasion::Upgrade, &[]), Verdict::Leave(_)), "a record of helm's");
    }

    #[test]
    fn keep_annotations_are_honoured_on_every_occasion() {
        let mut kept = live();
        kept["annotations"] = json!({"helm.sh/resource-policy": "Keep "});
        for occasion in [Occasion::Upgrade, Occasion::UpgradeAll, Occasion::Uninstall] {
            let verdict = verdict_for(&recorded("", "ConfigMap", Some("u1")), kept.clone(), occasion, &[]);
            assert!(matches!(verdict, Verdict::Keep(_)), "{occasion:?}");
        }
    }

    #[test]
    fn what_holds_data_survives_an_upgrade_but_not_an_uninstall() {
        for (group, kind) in
            [("", "Namespace"), ("", "PersistentVolumeClaim"), ("apiextensions.k8s.io", "CustomResourceDefinition")]
        {
            let recorded = recorded(group, kind, Some("u1"));
            let verdict = |occasion| verdict_for(&recorded, live(), occasion, &[]);
            assert!(matches!(verdict(Occasion::Upgrade), Verdict::Keep(_)), "{kind}");
            assert_eq!(verdict(Occasion::UpgradeAll), Verdict::Delete, "{kind}");
            assert_eq!(verdict(Occasion::Uninstall), Verdict::Delete, "{kind}");
        }
    }

    #[test]
    fn what_was_adopted_stays_unless_the_author_says_otherwise() {
        let in_record = Applied { is_adopted: true, ..recorded("", "ConfigMap", Some("u1")) };
        let on_object = recorded("", "ConfigMap", Some("u1"));
        let mut marked = live();
        marked["annotations"] = adoption::mark("here", "web")["metadata"]["annotations"].clone();
        for occasion in [Occasion::Upgrade, Occasion::UpgradeAll, Occasion::Uninstall] {
            for (recorded, live) in [(&in_record, live()), (&on_object, marked.clone())] {
                assert!(matches!(verdict_for(recorded, live.clone(), occasion, &[]), Verdict::Keep(_)));
                assert_eq!(judged(recorded, live, occasion, &[], true), Verdict::Delete);
            }
        }
    }

    #[test]
    fn a_release_record_is_no_object_that_could_be_removed() {
        let mut labelled = live();
        labelled["labels"]["owner"] = "helm".into();
        assert!(matches!(
            verdict_for(&recorded("", "Secret", Some("u1")), labelled, Occasion::Uninstall, &[]),
            Verdict::Leave(_)
        ));
        let mut named = recorded("", "Secret", Some("u1"));
        named.id.name = "sh.helm.release.v1.agent.v2".into();
        assert!(matches!(verdict_for(&named, live(), Occasion::Uninstall, &[]), Verdict::Leave(_)));
    }

    #[test]
    fn what_moved_to_crds_is_kept() {
        let shipped = recorded("apiextensions.k8s.io", "Shipped", Some("u1"));
        assert!(matches!(verdict_for(&shipped, live(), Occasion::UpgradeAll, &[]), Verdict::Keep(_)));
    }

    #[test]
    fn an_object_that_was_just_applied_under_another_kind_stays() {
        let verdict = verdict_for(&recorded("", "ConfigMap", Some("u1")), live(), Occasion::Upgrade, &["u1"]);
        assert!(matches!(verdict, Verdict::Leave(_)));
    }

    #[test]
    fn keeping_takes_off_our_marks_and_says_whose_it_was() {
        let mut metadata = live();
        metadata["ownerReferences"]
            .as_array_mut()
            .unwrap()
            .push(json!({"apiVersion": "v1", "kind": "A", "name": "b", "uid": "c"}));
        let owner = Owner {
            gvk: GroupVersionKind::gvk("g.io", "v1", "App"),
            namespace: None,
            name: "web".into(),
            uid: "owner".into(),
        };
        let patch = without_our_marks(&serde_json::from_value(metadata).unwrap(), &owner);
        assert_eq!(patch["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
        assert_eq!(patch["metadata"]["labels"], json!({RELEASE_LABEL: null, applyset::PART_OF: null}));
        assert_eq!(patch["metadata"]["annotations"][KEPT], applyset::id(&owner));
    }
}
