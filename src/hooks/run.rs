//! A hook's objects in the cluster: made, looked at, removed.
//!
//! Every object carries the run that it was made for. So whoever comes after a crash sees whether it was made, and none is made
//! twice. A Job that the cluster removes by itself when it has ended is held by a finalizer until its end was recorded.
//!
//! An object of another owner is never removed, whatever a hook is called. What helm left of an earlier run is: such objects carry
//! no owner in Helm, only the annotation of a hook.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::{Event, Life, Policy, is_same_but_for_attempt, life};
use crate::adoption;
use crate::apply::replace::is_precious;
use crate::calls::Calls;
use crate::discovery::{Kind, Kinds};
use crate::error::{Category, of_kube};
use crate::manifest::{self, HOOK, Hook, ManifestError};
use crate::object::Object;
use crate::object::ObjectId;
use crate::ownership::{Claim, judge, place_of, type_of};
use crate::plan::{Judged, Owner, PRIMARY_RESOURCE, PRIMARY_RESOURCE_TYPE, Planned, RELEASE_LABEL, is_kept};
use crate::preflight::{Adoption, complaint_about};
use crate::protected::{Protected, rights};
use crate::reach::ReachError;
use crate::release::HookRecord;
use crate::sensitive::{self, Labels, NoObject, Sensitive};

/// On every object of a hook: the revision, the event, the hook, the attempt and the custom resource that it was made for. A chart
/// cannot write it.
pub const RUN: &str = "chartwright.dev/hook-run";
/// Keeps a Job that removes itself until its end was recorded.
const FINALIZER: &str = "chartwright.dev/hook";

#[derive(Debug, thiserror::Error)]
pub enum HookError {
    #[error("the {} hook {id} failed: {why}", event.as_str())]
    Failed { event: Event, id: Box<ObjectId>, why: String },
    #[error(
        "the {} hook {id} did not end within {limit} s, which {} can change: {why}",
        event.as_str(),
        if *event == Event::Test { "--timeout" } else { "the annotation chartwright.dev/hook-timeout" }
    )]
    TooLong { event: Event, id: Box<ObjectId>, limit: u64, why: String },
    #[error("the hook {id} exists, and the chart does not ask to delete it before it is made (before-hook-creation)")]
    Exists { id: Box<ObjectId> },
    #[error(
        "the hook {id} is to be made anew, but an object of this name exists that is no hook of this release; {}", adoption.advice()
    )]
    Taken { id: Box<ObjectId>, adoption: Adoption },
    #[error("the API server does not know the kind of the hook {id}; install what brings it, or check the chart")]
    UnknownKind { id: Box<ObjectId> },
    #[error("the hook {id}: {}", complaint_about(id, error))]
    Refused { id: Box<ObjectId>, error: kube::Error },
    #[error(
        "the hook {id} is of a kind that can be created but not read, changed and deleted, so the operator could not see what becomes of it; remove it from the chart"
    )]
    NotManageable { id: Box<ObjectId> },
    #[error(transparent)]
    NoObject(#[from] NoObject),
    #[error(transparent)]
    Protected(#[from] Protected),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Reach(#[from] ReachError),
}

impl HookError {
    pub fn category(&self) -> Category {
        match self {
            HookError::Failed { .. } | HookError::TooLong { .. } | HookError::Exists { .. } => Category::HookFailed,
            HookError::Taken { .. } => Category::BelongsToAnother,
            HookError::UnknownKind { .. } => Category::UnknownKind,
            HookError::NotManageable { .. } | HookError::NoObject(_) | HookError::Protected(_) => Category::NotAllowed,
            HookError::Refused { error, .. } => of_kube(error),
            HookError::Manifest(error) => error.category(),
            HookError::Reach(error) => error.category(),
        }
    }
}

/// Who runs a hook, and where.
pub struct Runner<'a> {
    pub release: &'a str,
    pub namespace: &'a str,
    pub owner: &'a Owner,
    pub kinds: &'a Kinds,
    pub calls: &'a Calls,
    /// Whether objects of the namespace that nobody claims may be replaced.
    pub adopt: Adoption,
    /// Whether somebody will come again to let go of Jobs that remove themselves.
    pub holds: bool,
}

/// What became of an attempt to make a hook's objects.
#[derive(Debug, PartialEq)]
pub enum Begun {
    Made,
    /// What an earlier run left is still being deleted.
    Later(ObjectId),
}

/// What a hook's objects are doing.
#[derive(Debug)]
pub enum Look {
    /// Not all are there: the run was never begun, or somebody deleted them before they had ended.
    Absent,
    Running {
        id: ObjectId,
        object: Value,
    },
    Succeeded,
    Failed {
        id: ObjectId,
        why: String,
        object: Value,
    },
}

impl Runner<'_> {
    /// The objects of a hook as they are made for a run.
    pub fn objects(&self, hook: &HookRecord, run: &str) -> Result<Vec<Planned>, HookError> {
        let rendered = manifest::read_record(&hook.manifest.read())?;
        let objects = rendered.hooks.into_iter().flat_map(Hook::into_objects);
        objects.map(|object| self.planned(object, run)).collect()
    }

    fn planned(&self, object: Object, run: &str) -> Result<Planned, HookError> {
        let unknown = || HookError::UnknownKind { id: Box::new(object.id()) };
        let kind = self.kinds.get(&object.gvk()).cloned().ok_or_else(unknown)?;
        let mut object = object.without_nulls();
        match kind.namespaced {
            true if object.namespace().is_none() => object.set_namespace(self.namespace),
            false => object.clear_namespace(),
            _ => {}
        }
        object.set_label(RELEASE_LABEL, self.release);
        object.set_annotation(PRIMARY_RESOURCE, &place_of(self.owner));
        object.set_annotation(PRIMARY_RESOURCE_TYPE, &type_of(self.owner));
        object.set_annotation(RUN, run);
        if self.holds && object.kind() == "Job" && object.value().pointer("/spec/ttlSecondsAfterFinished").is_some() {
            object.change(|value| match value.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
                Some(finalizers) => finalizers.push(FINALIZER.into()),
                None => value["metadata"]["finalizers"] = json!([FINALIZER]),
            });
        }
        Ok(Planned::new(object, kind, Judged::Wholly))
    }

    /// Makes the objects of a hook, if they are not there for this run yet.
    pub async fn begin(&self, hook: &HookRecord, run: &str) -> Result<Begun, HookError> {
        let objects = self.objects(hook, run)?;
        for planned in &objects {
            sensitive::check(&planned.object)?;
            if !planned.kind.is_manageable {
                return Err(HookError::NotManageable { id: Box::new(planned.object.id()) });
            }
        }
        for planned in &objects {
            if let Some(going) = self.make(planned, hook, run).await? {
                return Ok(Begun::Later(going));
            }
        }
        Ok(Begun::Made)
    }

    /// Makes one object. What is still being deleted in its place is returned.
    async fn make(&self, planned: &Planned, hook: &HookRecord, run: &str) -> Result<Option<ObjectId>, HookError> {
        let id = planned.object.id();
        let refused = |error| HookError::Refused { id: Box::new(id.clone()), error };
        let live = self.calls.metadata(&planned.kind, &id).await.map_err(refused)?;
        let made = match live {
            Some(live) if run_of(&live) == Some(run) => {
                return Ok(live.deletion_timestamp.is_some().then_some(id));
            }
            Some(live) if !self.may_replace(&id, &live) || self.is_sensitive(planned, &id, &live).await? => {
                return Err(HookError::Taken { id: Box::new(id), adoption: self.adopt });
            }
            // Nobody deletes a CRD: its resources would go with it.
            Some(_) if id.kind == "CustomResourceDefinition" => self.calls.apply(planned).await,
            Some(live) => {
                let is_earlier_attempt = run_of(&live).is_some_and(|old| is_same_but_for_attempt(old, run));
                if !Policy::BeforeCreation.deletes(hook) && !is_earlier_attempt {
                    return Err(HookError::Exists { id: Box::new(id) });
                }
                self.delete(planned, &live).await?;
                if self.calls.metadata(&planned.kind, &id).await.map_err(refused)?.is_some() {
                    return Ok(Some(id));
                }
                self.calls.create(planned).await
            }
            None => self.calls.create(planned).await,
        };
        made.map(|_| None).map_err(refused)
    }

    /// Looks what the objects of a run are doing.
    pub async fn look(&self, hook: &HookRecord, run: &str) -> Result<Look, HookError> {
        let mut running = None;
        for planned in &self.objects(hook, run)? {
            let id = planned.object.id();
            let live = self.calls.get(&planned.kind, &id).await;
            let live = live.map_err(|error| HookError::Refused { id: Box::new(id.clone()), error })?;
            let Some(live) = live.filter(|live| run_of(&live.metadata) == Some(run)) else {
                return Ok(Look::Absent);
            };
            let object = serde_json::to_value(&live).unwrap_or(Value::Null);
            match life(&object) {
                Life::Succeeded => {}
                Life::Failed(why) => return Ok(Look::Failed { id, why, object }),
                Life::Running if live.metadata.deletion_timestamp.is_some() => {
                    self.let_go_of(&planned.kind, &id, &live.metadata).await?;
                    return Ok(Look::Absent);
                }
                Life::Running => running = Some(Look::Running { id, object }),
            }
        }
        Ok(running.unwrap_or(Look::Succeeded))
    }

    /// Takes the finalizer off objects whose end was recorded.
    pub async fn let_go(&self, hook: &HookRecord, run: &str) -> Result<(), HookError> {
        for planned in &self.objects(hook, run)? {
            if !is_held(planned.object.value().pointer("/metadata/finalizers")) {
                continue;
            }
            if let Some(live) = self.live_of(planned, run).await? {
                self.let_go_of(&planned.kind, &planned.object.id(), &live).await?;
            }
        }
        Ok(())
    }

    /// Whether this is an object of a hook of this custom resource that waits for its end to be recorded.
    pub fn is_holding(&self, job: &ObjectMeta) -> bool {
        let is_held = job.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER);
        is_held && self.is_marked(job)
    }

    /// Whether a run of a hook of this custom resource made an object.
    fn has_made(&self, live: &ObjectMeta) -> bool {
        run_of(live).is_some() && self.is_marked(live)
    }

    /// Whether an object names this custom resource.
    fn is_marked(&self, live: &ObjectMeta) -> bool {
        let annotation = |key: &str| live.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str);
        annotation(PRIMARY_RESOURCE) == Some(place_of(self.owner).as_str())
            && annotation(PRIMARY_RESOURCE_TYPE) == Some(type_of(self.owner).as_str())
    }

    /// The objects of these hooks that are in the cluster, whichever run made them. A Job that removes itself is not counted, and what cannot
    /// be read is left out.
    pub async fn left<'h>(&self, hooks: impl Iterator<Item = &'h HookRecord>) -> BTreeSet<ObjectId> {
        let planned = hooks.filter_map(|hook| self.objects(hook, "").ok()).flatten();
        let stays = |planned: &Planned| planned.object.value().pointer("/spec/ttlSecondsAfterFinished").is_none();
        let planned: BTreeMap<ObjectId, Planned> =
            planned.filter(stays).map(|planned| (planned.object.id(), planned)).collect();
        let mut left = BTreeSet::new();
        for (id, planned) in planned {
            let live = self.calls.metadata(&planned.kind, &id).await.ok().flatten();
            if live.is_some_and(|live| self.has_made(&live) && live.deletion_timestamp.is_none()) {
                left.insert(id);
            }
        }
        left
    }

    /// Takes the finalizer off such an object.
    pub async fn let_go_of_job(&self, kind: &Kind, job: &ObjectMeta) -> Result<(), HookError> {
        let id = ObjectId {
            group: kind.resource.group.clone(),
            version: kind.resource.version.clone(),
            kind: kind.resource.kind.clone(),
            namespace: job.namespace.clone(),
            name: job.name.clone().unwrap_or_default(),
        };
        self.let_go_of(kind, &id, job).await
    }

    /// Deletes the objects of a run.
    pub async fn remove(&self, hook: &HookRecord, run: &str) -> Result<(), HookError> {
        for planned in &self.objects(hook, run)? {
            if let Some(live) = self.live_of(planned, run).await? {
                self.delete(planned, &live).await?;
            }
        }
        Ok(())
    }

    async fn live_of(&self, planned: &Planned, run: &str) -> Result<Option<ObjectMeta>, HookError> {
        let id = planned.object.id();
        let live = self.calls.metadata(&planned.kind, &id).await;
        let live = live.map_err(|error| HookError::Refused { id: Box::new(id), error })?;
        Ok(live.filter(|live| run_of(live) == Some(run)))
    }

    async fn delete(&self, planned: &Planned, live: &ObjectMeta) -> Result<(), HookError> {
        let id = planned.object.id();
        let uid = live.uid.as_deref().unwrap_or_default();
        let deleted = self.calls.delete(&planned.kind, &id, uid).await;
        deleted.map_err(|error| HookError::Refused { id: Box::new(id.clone()), error })?;
        self.let_go_of(&planned.kind, &id, live).await
    }

    /// Takes our finalizer off an object. Others may change the list at the same time, so it is read again where they did.
    async fn let_go_of(&self, kind: &Kind, id: &ObjectId, live: &ObjectMeta) -> Result<(), HookError> {
        let mut live = live.clone();
        loop {
            let finalizers = live.finalizers.as_deref().unwrap_or_default();
            if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
                return Ok(());
            }
            let rest: Vec<&String> = finalizers.iter().filter(|finalizer| *finalizer != FINALIZER).collect();
            let patch = json!({"metadata": {"resourceVersion": live.resource_version, "finalizers": rest}});
            let refused = |error| HookError::Refused { id: Box::new(id.clone()), error };
            match self.calls.merge(kind, id, &patch).await {
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                merged => return merged.map_err(refused),
            }
            let uid = live.uid.take();
            match self.calls.metadata(kind, id).await.map_err(refused)?.filter(|now| now.uid == uid) {
                Some(now) => live = now,
                None => return Ok(()),
            }
        }
    }

    /// Whether what stands in the place of a hook is a hook itself: of this release, or as helm leaves them, in its
    /// namespace and without an owner. What belongs to nobody at all may be replaced where that is allowed, unless its content or
    /// the rights that it gives could not be had back.
    fn may_replace(&self, id: &ObjectId, live: &ObjectMeta) -> bool {
        let annotation = |key: &str| live.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str);
        let is_owned = live.owner_references.as_ref().is_some_and(|owners| !owners.is_empty());
        if adoption::is_marked(live) {
            return false;
        }
        match annotation(PRIMARY_RESOURCE) {
            Some(_) => self.has_made(live),
            None if is_owned => false,
            None => {
                let is_loose = || judge(live, self.release, self.namespace, self.owner) == Claim::Loose;
                let is_here = live.namespace.as_deref() == Some(self.namespace);
                let is_spared = is_precious(id) || is_kept(annotation);
                let is_taken = || self.adopt == Adoption::Asked && is_loose() && id.group != rights::GROUP;
                is_here && !is_spared && (annotation(HOOK).is_some() || is_taken())
            }
        }
    }

    /// Whether a record, a token or a Secret of the operator stands in the place of a hook that is none.
    async fn is_sensitive(&self, planned: &Planned, id: &ObjectId, live: &ObjectMeta) -> Result<bool, HookError> {
        if Sensitive::of_metadata(id, live).is_some() {
            return Ok(true);
        }
        if !id.group.is_empty() || id.kind != "Secret" || Sensitive::of_object(&planned.object).is_some() {
            return Ok(false);
        }
        let live = self.calls.get(&planned.kind, id).await;
        let live = live.map_err(|error| HookError::Refused { id: Box::new(id.clone()), error })?;
        Ok(live.is_some_and(|live| {
            let labels = live.metadata.labels.as_ref().map_or(Labels::None, Labels::Map);
            let secret_type = live.data.get("type").and_then(Value::as_str);
            Sensitive::of(&id.group, &id.kind, secret_type, &id.name, &labels).is_some()
        }))
    }
}

/// Whether an object of a hook may carry the finalizer.
pub fn may_be_held(hook: &HookRecord) -> bool {
    hook.manifest.read().contains("ttlSecondsAfterFinished")
}

fn is_held(finalizers: Option<&Value>) -> bool {
    finalizers.and_then(Value::as_array).is_some_and(|all| all.iter().any(|finalizer| finalizer == FINALIZER))
}

fn run_of(live: &ObjectMeta) -> Option<&str> {
    live.annotations.as_ref()?.get(RUN).map(String::as_str)
}
