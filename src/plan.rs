//! What to do, as data: which objects to apply, in which order, with which marks of ownership, and what to prune.
//!
//! Pure. The plan says everything; applying it takes no further decision about what should be there. It refuses an empty
//! render where there was something before: that is a mistake far more often than a wish.

use std::collections::{BTreeSet, HashMap, HashSet};

use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use crate::adoption::{self, ADOPTED};
use crate::apply::crds::GroupKind;
use crate::applyset;
use crate::aside;
use crate::discovery::{Kind, Kinds, kinds_of_crd};
use crate::error::Category;
use crate::hooks::run::RUN;
use crate::manifest::{self, ManifestError, Rendered};
use crate::object::{Object, ObjectId, ObjectKey};
use crate::ownership::{KEPT, place_of, type_of};
use crate::release::{Applied, History, Release};
use crate::scalers::target_of;
use crate::sensitive::{self, NoObject};
use crate::watches::Crds;

/// Marks every object of a release; the watches on children select it.
pub const RELEASE_LABEL: &str = "chartwright.dev/release";
/// operator-sdk's marks on objects that cannot have an owner reference, `<namespace>/<name>` and `<Kind>.<group>`.
pub const PRIMARY_RESOURCE: &str = "operator-sdk/primary-resource";
pub const PRIMARY_RESOURCE_TYPE: &str = "operator-sdk/primary-resource-type";
/// Helm's own marks.
pub const RELEASE_NAME: &str = "meta.helm.sh/release-name";
pub const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const CHART_LABEL: &str = "helm.sdk.operatorframework.io/chart";

/// The custom resource that a release belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Owner {
    pub gvk: GroupVersionKind,
    pub namespace: Option<String>,
    pub name: String,
    pub uid: String,
}

/// Objects that this operator knows it made for a release, with the UID where a record has it.
pub type Made = HashMap<ObjectKey, Option<String>>;

/// The release that is being made.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    pub release: &'a str,
    pub namespace: &'a str,
    pub chart: &'a str,
    pub owner: &'a Owner,
    /// Whether a render without objects is meant.
    pub allow_empty: bool,
    /// What becomes of the contents of crds/.
    pub crds: Crds,
    /// Whether objects are tied to the custom resource by owner references, where those are possible. Where hooks have to run
    /// before the objects go, they are not: foreground deletion would not wait for the hooks.
    pub may_own: bool,
    /// What this operator knows that it made for the release: Helm's marks are enough on these, also outside of the release's namespace.
    pub made: Made,
    /// The objects of a Helm release that is being adopted, by its record. For these, Helm's marks alone are accepted as well.
    pub adopting: HashSet<ObjectKey>,
}

/// An object with everything decided, and how it is reached.
#[derive(Clone, Debug)]
pub struct Planned {
    pub object: Object,
    pub kind: Kind,
    pub judged: Judged,
    /// Its kind in a version that is served already, where its own version comes with the release.
    pub served_as: Option<Kind>,
    /// It has a number of replicas in the chart.
    pub wants_replicas: bool,
    /// That number was left to an autoscaler.
    pub replicas_left: bool,
    /// An autoscaler of the same release will decide how many replicas it has.
    pub is_scaled: bool,
    /// It is in the cluster just so, and need not be applied.
    pub is_settled: bool,
    /// It existed before the release.
    pub is_adopted: bool,
}

impl Planned {
    pub(crate) fn new(object: Object, kind: Kind, judged: Judged) -> Self {
        let wants_replicas = object.value().pointer("/spec/replicas").is_some();
        Planned {
            object,
            kind,
            judged,
            wants_replicas,
            served_as: None,
            replicas_left: false,
            is_scaled: false,
            is_settled: false,
            is_adopted: false,
        }
    }

    /// Marks it as one that existed before the release. The custom resource does not own it: the garbage collector would
    /// delete it with the custom resource.
    pub fn adopt(&mut self, owner: &Owner) {
        self.is_adopted = true;
        self.object.change(|value| {
            value.get_mut("metadata").and_then(Value::as_object_mut).map(|metadata| metadata.remove("ownerReferences"));
        });
        tied(&mut self.object, owner);
    }

    /// Its kind and its namespace: what a watch has to see.
    pub fn place(&self) -> (&Kind, Option<&str>) {
        (&self.kind, self.object.namespace())
    }
}

/// What can be asked about an object before the release is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    Wholly,
    /// Its namespace comes with the release. If that exists, the object may exist as well, and be somebody else's.
    OwnerOnly,
    /// Its CRD comes with the release.
    Never,
}

#[derive(Debug, Default)]
pub struct Plan {
    /// The contents of crds/, as far as the watch wants them in the cluster.
    pub crds: Vec<Planned>,
    /// Whether those that are there already are changed.
    pub replaces_crds: bool,
    /// All that the chart has in crds/, which nobody ever deletes.
    pub shipped: Vec<ObjectId>,
    /// In the order of application.
    pub apply: Vec<Planned>,
    /// What an earlier revision had and this one has not.
    pub prune: Vec<Applied>,
    /// Names of objects that hooks make before the others are applied.
    pub hooked: Vec<String>,
    /// Kinds whose CRDs an earlier turn of the same rollout changed: the API server may not serve them as they are now.
    pub changing: HashSet<GroupKind>,
}

impl Plan {
    pub fn ids(&self) -> impl Iterator<Item = ObjectId> {
        self.apply.iter().map(|planned| planned.object.id())
    }

    /// Takes note of objects that turned out to have existed before the release.
    pub fn note_adopted(&mut self, ids: &HashSet<ObjectId>, owner: &Owner) {
        for planned in self.apply.iter_mut().filter(|planned| ids.contains(&planned.object.id())) {
            planned.adopt(owner);
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error(
        "the API server does not know the kind of {id} ({api_version}); install what brings it, or check the chart"
    )]
    UnknownKind { id: Box<ObjectId>, api_version: String },
    #[error(transparent)]
    NoObject(#[from] NoObject),
    #[error("the chart renders {id} twice; give one of them another name")]
    Duplicate { id: Box<ObjectId> },
    #[error(
        "the chart renders no objects any more, which would remove all {count} of the release; if that is meant, set `allowEmpty: true` in watches.yaml"
    )]
    Empty { count: usize },
}

impl PlanError {
    pub fn category(&self) -> Category {
        match self {
            PlanError::UnknownKind { .. } => Category::UnknownKind,
            PlanError::NoObject(_) => Category::NotAllowed,
            PlanError::Duplicate { .. } => Category::InvalidManifest,
            PlanError::Empty { .. } => Category::EmptyRender,
        }
    }
}

/// Decides what to do with what a chart rendered. `before` is what earlier revisions have in the cluster.
pub fn plan(rendered: Rendered, before: &[Applied], target: &Target<'_>, kinds: &Kinds) -> Result<Plan, PlanError> {
    const OBJECT: usize = 1024;
    let length = (rendered.objects.len() + before.len()) * OBJECT;
    aside::here(length, || plan_all(rendered, before, target, kinds))
}

fn plan_all(rendered: Rendered, before: &[Applied], target: &Target<'_>, kinds: &Kinds) -> Result<Plan, PlanError> {
    if rendered.objects.is_empty() && !before.is_empty() && !target.allow_empty {
        return Err(PlanError::Empty { count: before.len() });
    }
    rendered.objects.iter().chain(&rendered.crds).try_for_each(sensitive::check)?;
    let mut rendered = rendered;
    let mut plan = Plan { replaces_crds: target.crds == Crds::CreateReplace, ..Plan::default() };
    plan.shipped = rendered.crds.iter().map(Object::id).collect();
    if target.crds == Crds::Skip {
        rendered.crds.clear();
    }
    let brought = Brought::by(&rendered, before);
    for object in rendered.crds {
        let kind = brought.kind_of(&object, kinds)?;
        let mut object = adoption::unclaimed(object.without_nulls());
        // Nothing forbids other things in crds/, and Helm puts them where the release is.
        if kind.namespaced && object.namespace().is_none() {
            object.set_namespace(target.namespace);
        }
        plan.crds.push(Planned::new(object, kind, Judged::Wholly));
    }
    let mut seen = HashSet::new();
    let adopted: HashSet<ObjectKey> =
        before.iter().filter(|applied| applied.is_adopted).map(|applied| applied.id.key()).collect();
    for object in rendered.objects {
        let mut planned = brought.plan_one(object, target, kinds)?;
        if adopted.contains(&planned.object.id().key()) {
            planned.adopt(target.owner);
        }
        let id = planned.object.id();
        if !seen.insert(id.key()) {
            return Err(PlanError::Duplicate { id: Box::new(id) });
        }
        plan.apply.push(planned);
    }
    let scaled: HashSet<ObjectKey> = plan.apply.iter().filter_map(|planned| target_of(&planned.object)).collect();
    for planned in &mut plan.apply {
        planned.is_scaled = scaled.contains(&planned.object.id().key());
    }
    plan.prune = gone(before, &seen);
    Ok(plan)
}

/// Recorded before and not planned now, each once.
fn gone(before: &[Applied], planned: &HashSet<ObjectKey>) -> Vec<Applied> {
    let mut listed = HashSet::new();
    let gone = before.iter().filter(|applied| {
        let key = applied.id.key();
        !planned.contains(&key) && listed.insert(key)
    });
    gone.cloned().collect()
}

/// What the release itself brings that its other objects need.
struct Brought {
    namespaces: HashSet<String>,
    kinds: HashMap<GroupVersionKind, Kind>,
}

impl Brought {
    fn by(rendered: &Rendered, before: &[Applied]) -> Self {
        let there = before.iter().filter(|old| old.uid.is_some() && old.id.kind == "Namespace");
        let there: HashSet<&str> = there.map(|old| old.id.name.as_str()).collect();
        let namespaces =
            rendered.objects.iter().filter(|object| object.kind() == "Namespace" && object.api_version() == "v1");
        let crds =
            rendered.objects.iter().chain(&rendered.crds).filter(|object| object.kind() == "CustomResourceDefinition");
        Brought {
            namespaces: namespaces
                .map(|namespace| namespace.name().to_owned())
                .filter(|name| !there.contains(name.as_str()))
                .collect(),
            // The first of two that define the same counts.
            kinds: crds.rev().flat_map(|crd| kinds_of_crd(crd.value()).into_iter().rev()).collect(),
        }
    }

    fn brings_kind(&self, gvk: &GroupVersionKind) -> Option<&Kind> {
        self.kinds.get(gvk)
    }

    fn kind_of(&self, object: &Object, kinds: &Kinds) -> Result<Kind, PlanError> {
        let gvk = object.gvk();
        let kind = kinds.get(&gvk).or_else(|| self.brings_kind(&gvk)).cloned();
        kind.ok_or_else(|| PlanError::UnknownKind {
            id: Box::new(object.id()),
            api_version: object.api_version().to_owned(),
        })
    }

    fn plan_one(&self, object: Object, target: &Target<'_>, kinds: &Kinds) -> Result<Planned, PlanError> {
        let kind = self.kind_of(&object, kinds)?;
        let unknown_yet = kinds.get(&object.gvk()).is_none();
        let object = marked(object, target, &kind);
        let new_namespace = object.namespace().is_some_and(|namespace| self.namespaces.contains(namespace));
        let judged = match (unknown_yet, new_namespace) {
            (true, _) => Judged::Never,
            (false, true) => Judged::OwnerOnly,
            (false, false) => Judged::Wholly,
        };
        let served_as = unknown_yet.then(|| kinds.any_version(&object.gvk().group, object.kind())).flatten();
        Ok(Planned { served_as, ..Planned::new(object, kind, judged) })
    }
}

/// Puts on the namespace, Helm's ownership metadata, our labels and the tie to the custom resource.
fn marked(object: Object, target: &Target<'_>, kind: &Kind) -> Object {
    let mut object = adoption::unclaimed(object.without_nulls().with_plain_data());
    object.change(remove_run);
    match kind.namespaced {
        true if object.namespace().is_none() => object.set_namespace(target.namespace),
        // Charts put the release's namespace on everything; on a cluster-scoped object it means nothing.
        false => object.clear_namespace(),
        _ => {}
    }
    object.set_label(MANAGED_BY, "Helm");
    object.set_annotation(RELEASE_NAME, target.release);
    object.set_annotation(RELEASE_NAMESPACE, target.namespace);
    object.set_label(RELEASE_LABEL, target.release);
    object.set_label(CHART_LABEL, target.chart);
    let owner = target.owner;
    object.set_label(applyset::PART_OF, &applyset::id(owner));
    if target.may_own && can_own(owner, &object, kind) {
        object.set_owner(&owner_reference(owner));
    } else {
        tied(&mut object, owner);
    }
    object
}

/// What carries the annotation of a run is deleted as a hook.
fn remove_run(object: &mut Value) {
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(RUN);
    }
}

/// Ties an object to the custom resource where an owner reference cannot, or must not.
fn tied(object: &mut Object, owner: &Owner) {
    object.set_annotation(PRIMARY_RESOURCE, &place_of(owner));
    object.set_annotation(PRIMARY_RESOURCE_TYPE, &type_of(owner));
}

/// An object as the chart had it: without what [`marked`] puts on, but for the namespace.
pub fn unmarked(mut object: Value) -> Value {
    const LABELS: [&str; 4] = [MANAGED_BY, RELEASE_LABEL, CHART_LABEL, applyset::PART_OF];
    const ANNOTATIONS: [&str; 6] =
        [RELEASE_NAME, RELEASE_NAMESPACE, PRIMARY_RESOURCE, PRIMARY_RESOURCE_TYPE, ADOPTED, KEPT];
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return object };
    metadata.remove("ownerReferences");
    for (map, keys) in [("labels", &LABELS[..]), ("annotations", &ANNOTATIONS[..])] {
        if let Some(entries) = metadata.get_mut(map).and_then(Value::as_object_mut) {
            entries.retain(|key, _| !keys.contains(&key.as_str()));
            if entries.is_empty() {
                metadata.remove(map);
            }
        }
    }
    object
}

/// What may be in the cluster by earlier revisions of a release in this namespace, those of other tools included.
///
/// # Errors
/// A manifest exceeds a limit, so nobody knows what it holds.
pub fn before(history: &History, namespace: &str, kinds: &Kinds) -> Result<Vec<Applied>, ManifestError> {
    let mut before = history.objects_since_deployed();
    let mut known: HashSet<ObjectKey> = before.iter().map(|applied| applied.id.key()).collect();
    for foreign in history.foreign_since_deployed() {
        let members = members(&foreign.manifest.read(), namespace, kinds)?;
        // A record that nothing vouches for tells about the release's namespace alone.
        let is_told = |member: &Applied| foreign.is_proven() || member.id.namespace.as_deref() == Some(namespace);
        let members = members.into_iter().filter(is_told);
        before.extend(members.filter(|member| known.insert(member.id.key())));
    }
    Ok(before)
}

/// The objects that records which this operator vouches for name: those of the newest such record, and those that may be in the cluster. helm drops
/// the UIDs from records that it writes again.
///
/// # Errors
/// A manifest exceeds a limit, so nobody knows what it holds.
pub fn proven(history: &History, namespace: &str, kinds: &Kinds) -> Result<Made, ManifestError> {
    let mut proven = made(history.objects_since_deployed());
    let newest = history.iter().rev().find(|release| release.is_proven());
    let inventory = newest.and_then(|release| release.own.as_ref()).map(|own| own.objects.clone()).unwrap_or_default();
    for (key, uid) in made(inventory) {
        proven.entry(key).or_insert(uid);
    }
    let rewritten = newest.into_iter().chain(history.foreign_since_deployed());
    for release in rewritten.filter(|it| it.own.is_none() && it.is_proven() && it.is_claimed()) {
        // helm may have created them anew.
        proven.extend(made(members(&release.manifest.read(), namespace, kinds)?));
    }
    Ok(proven)
}

/// The objects of the Helm release that the operator adopts or began to adopt: those of the records below its own.
///
/// # Errors
/// A manifest exceeds a limit, so nobody knows what it holds.
pub fn adopting(history: &History, namespace: &str, kinds: &Kinds) -> Result<HashSet<ObjectKey>, ManifestError> {
    let first = history.iter().find(|release| release.is_proven()).map(|release| release.revision);
    let is_before = |release: &&Release| !release.is_proven() && first.is_none_or(|first| release.revision < first);
    let mut adopting = HashSet::new();
    for release in history.foreign_since_deployed().filter(is_before) {
        adopting.extend(keys(&members(&release.manifest.read(), namespace, kinds)?));
    }
    Ok(adopting)
}

pub fn keys(objects: &[Applied]) -> HashSet<ObjectKey> {
    objects.iter().map(|applied| applied.id.key()).collect()
}

/// Recorded objects by their keys.
pub fn made(objects: impl IntoIterator<Item = Applied>) -> Made {
    objects.into_iter().map(|applied| (applied.id.key(), applied.uid)).collect()
}

/// The objects of a manifest that another tool recorded for a release in this namespace. What cannot be read was not
/// applied either, and a kind that is gone took its objects with it.
///
/// # Errors
/// It exceeds a limit, so nobody knows what it holds.
pub fn members(manifest: &str, namespace: &str, kinds: &Kinds) -> Result<Vec<Applied>, ManifestError> {
    let objects = match manifest::read_record(manifest) {
        Ok(rendered) => rendered.objects,
        Err(error @ ManifestError::RecordTooMuch(_)) => return Err(error),
        Err(_) => vec![],
    };
    let mut are_namespaced: HashMap<(String, String), Option<bool>> = HashMap::new();
    let ids = objects.iter().filter_map(|object| {
        let mut id = object.id();
        let ask = || kinds.any_version(&id.group, &id.kind).map(|kind| kind.namespaced);
        let is_namespaced = *are_namespaced.entry((id.group.clone(), id.kind.clone())).or_insert_with(ask);
        id.namespace = match is_namespaced? {
            true => id.namespace.or_else(|| Some(namespace.to_owned())),
            false => None,
        };
        Some(Applied::new(id, None))
    });
    Ok(ids.collect())
}

/// The kinds of a manifest's objects that the API server does not list.
pub fn unknown_kinds(manifest: &str, kinds: &Kinds) -> BTreeSet<GroupKind> {
    let objects = manifest::read_record(manifest).map(|rendered| rendered.objects).unwrap_or_default();
    let all: BTreeSet<GroupKind> =
        objects.iter().map(|object| (object.gvk().group, object.kind().to_owned())).collect();
    all.into_iter().filter(|(group, kind)| kinds.any_version(group, kind).is_none()).collect()
}

/// A cluster-scoped owner may own everything, a namespaced one only what is in its namespace. What is to be kept is not
/// owned, or the garbage collector would not keep it.
fn can_own(owner: &Owner, object: &Object, kind: &Kind) -> bool {
    let in_reach = match &owner.namespace {
        None => true,
        Some(namespace) => kind.namespaced && object.namespace() == Some(namespace),
    };
    in_reach && !is_kept(|key| object.annotation(key))
}

/// Whether an object's annotations ask to leave it alone when its release drops it or goes.
pub fn is_kept<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> bool {
    let is = |key: &str, value: &str| annotation(key).is_some_and(|text| text.trim().eq_ignore_ascii_case(value));
    is("helm.sh/resource-policy", "keep")
        || is("cli-utils.sigs.k8s.io/on-remove", "keep")
        || is("client.lifecycle.config.k8s.io/deletion", "detach")
}

fn owner_reference(owner: &Owner) -> Value {
    json!({
        "apiVersion": owner.gvk.api_version(),
        "kind": owner.gvk.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

#[cfg(test)]
mod tests;
