//! What would become of every object, one by one: the live object against the answer to a dry run.
//!
//! The API server fills in its defaults on both sides, so only what really becomes another differs. A Job or a bare pod that is
//! recorded and not there any more is done, not missing. What nobody would touch is in no list.

use std::collections::{HashMap, HashSet};

use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use kube::api::DynamicObject;
use serde_json::Value;

use super::hidden::{hide, written};
use super::others::{Governed, left_to_others};
use super::{Manner, Preview, PreviewError, Scene};
use crate::adoption;
use crate::apply::{crds, crossed};
use crate::children::ends_by_itself;
use crate::manifest::order;
use crate::object::{Object, ObjectId, ObjectKey};
use crate::ownership::{Claim, judge};
use crate::plan::{self, Judged, Planned, Target};
use crate::preflight::{Allowed, Preflight, check_claim, complaint_about, has_made, preflight};
use crate::prune::{self, Occasion, Rules, Verdict};
use crate::release::Applied;
use crate::watches::Prune;
use crate::wishes::Wishes;

/// How many objects are asked about at once.
const AT_ONCE: usize = 8;
/// How often an object that somebody writes meanwhile is read again.
const TRIES: usize = 5;

/// One object that would not stay as it is. The data of Secrets is masked, and so are values that came from ConfigMaps and Secrets.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub id: ObjectId,
    pub what: What,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    Created,
    Changed,
    /// Deleted and made again, since it cannot be changed.
    Replaced,
    Deleted,
    /// The release loses it, and it stays in the cluster. Why.
    Kept(&'static str),
}

impl What {
    pub fn as_str(&self) -> &'static str {
        match self {
            What::Created => "created",
            What::Changed => "changed",
            What::Replaced => "replaced",
            What::Deleted => "deleted",
            What::Kept(_) => "kept",
        }
    }
}

impl Change {
    fn new(id: ObjectId, what: What, mut before: Option<Value>, mut after: Option<Value>) -> Self {
        hide(before.as_mut(), after.as_mut());
        Change { id, what, before, after }
    }
}

type Live = HashMap<ObjectKey, DynamicObject>;

impl Preview {
    /// What would be applied, in order, with all marks and without what others decide. Of the contents of crds/ only what
    /// would be made or changed.
    pub async fn objects(&self, scene: &Scene<'_>) -> Result<Vec<Object>, PreviewError> {
        let (live, governed) = (self.live(scene).await?, Governed::of(self, scene).await);
        let crds = self.changes_of_crds(scene).await?;
        let is_written = |planned: &&Planned| crds.iter().any(|change| change.id == planned.object.id());
        let mut objects: Vec<Object> =
            self.plan.crds.iter().filter(is_written).map(|planned| planned.object.clone()).collect();
        objects.extend(self.plan.apply.iter().map(|planned| match live.get(&planned.object.id().key()) {
            Some(live) => left_to_others(planned, live, self, &governed, scene).object,
            None => planned.object.clone(),
        }));
        Ok(objects)
    }

    /// What would not stay as it is, in the order in which it would happen.
    pub async fn changes(&self, scene: &Scene<'_>) -> Result<Vec<Change>, PreviewError> {
        let mut changes = self.found(scene).await.map_err(|error| error.without(&self.redactor))?;
        for change in &mut changes {
            self.redactor.versions(change.before.as_mut(), change.after.as_mut());
        }
        Ok(changes)
    }

    async fn found(&self, scene: &Scene<'_>) -> Result<Vec<Change>, PreviewError> {
        let look =
            Look { preview: self, scene, governed: Governed::of(self, scene).await, live: self.live(scene).await? };
        let preflight = look.preflight().await?;
        let mut changes = self.changes_of_crds(scene).await?;
        let looks: Vec<_> = self.plan.apply.iter().map(|planned| look.at(planned, &preflight).boxed()).collect();
        let found: Vec<Option<Change>> = stream::iter(looks).buffered(AT_ONCE).try_collect().await?;
        changes.extend(found.into_iter().flatten());
        changes.extend(look.pruned().await?);
        Ok(changes)
    }

    /// Whose the objects are that are there already.
    pub async fn claims(&self, scene: &Scene<'_>) -> Result<Vec<(ObjectId, Claim)>, PreviewError> {
        let live = self.live(scene).await?;
        let target = self.target_in(scene)?;
        let claims = self.plan.ids().filter_map(|id| {
            let metadata = &live.get(&id.key())?.metadata;
            let claim = match judge(metadata, target.release, target.namespace, target.owner) {
                // It goes with the release, which is told by itself.
                Claim::Helm if target.adopting.contains(&id.key()) || has_made(&id, metadata, &target) => Claim::Ours,
                claim => claim,
            };
            Some((id, claim))
        });
        Ok(claims.collect())
    }

    /// The target, with what records of the operator name.
    fn target_in(&self, scene: &Scene<'_>) -> Result<Target<'_>, PreviewError> {
        let (kinds, namespace) = (scene.kinds.kinds(), &self.identity.namespace);
        let made = plan::proven(&self.history, namespace, &kinds)?;
        let adopting = match scene.watch.adopt.allows_releases() {
            true => plan::adopting(&self.history, namespace, &kinds)?,
            false => HashSet::new(),
        };
        Ok(Target { made, adopting, ..self.target() })
    }

    /// What is there of the planned objects.
    async fn live(&self, scene: &Scene<'_>) -> Result<Live, PreviewError> {
        let askable = self.plan.apply.iter().filter(|planned| planned.judged != Judged::Never);
        let reads: Vec<_> = askable.map(|planned| read(planned, scene).boxed()).collect();
        let found: Vec<Option<DynamicObject>> = stream::iter(reads).buffered(AT_ONCE).try_collect().await?;
        let keys = self.plan.apply.iter().filter(|planned| planned.judged != Judged::Never);
        let keys = keys.map(|planned| planned.object.id().key());
        Ok(keys.zip(found).filter_map(|(key, live)| Some((key, live?))).collect())
    }

    /// What would become of the contents of crds/.
    async fn changes_of_crds(&self, scene: &Scene<'_>) -> Result<Vec<Change>, PreviewError> {
        let mut changes = vec![];
        for planned in &self.plan.crds {
            let id = planned.object.id();
            let Some(live) = read(planned, scene).await? else {
                changes.push(created(&planned.object));
                continue;
            };
            if self.plan.replaces_crds {
                let answer = scene.calls.dry_run(planned).await.map_err(|error| refused(&id, &error))?;
                let (before, after) = (value_of(&live), value_of(&answer.object));
                changes.extend((before != after).then(|| Change::new(id, What::Changed, Some(before), Some(after))));
            }
        }
        Ok(changes)
    }
}

async fn read(planned: &Planned, scene: &Scene<'_>) -> Result<Option<DynamicObject>, PreviewError> {
    let id = planned.object.id();
    let live = scene.calls.get(&planned.kind, &id).await;
    live.map_err(|error| PreviewError::Look { id: Box::new(id), error })
}

fn refused(id: &ObjectId, error: &kube::Error) -> PreviewError {
    PreviewError::Refused { id: Box::new(id.clone()), complaint: complaint_about(id, error) }
}

fn created(object: &Object) -> Change {
    Change::new(object.id(), What::Created, None, Some(object.value().clone()))
}

fn value_of(object: &DynamicObject) -> Value {
    written(serde_json::to_value(object).unwrap_or(Value::Null))
}

/// A look at everything that a preview plans.
struct Look<'a> {
    preview: &'a Preview,
    scene: &'a Scene<'a>,
    governed: Governed,
    live: Live,
}

impl Look<'_> {
    /// What a rollout would ask before its first write. A repair asks about each object by itself.
    async fn preflight(&self) -> Result<Preflight, PreviewError> {
        let Preview { plan, .. } = self.preview;
        if self.preview.manner == Manner::Repair {
            return Ok(Preflight::default());
        }
        let target = self.target()?;
        let known = |id: &ObjectId, uid: &str| {
            let live = self.live.get(&id.key()).filter(|live| live.metadata.uid.as_deref() == Some(uid));
            live.is_some_and(|live| {
                judge(&live.metadata, target.release, target.namespace, target.owner) == Claim::Ours
            })
        };
        Ok(preflight(plan, &target, &known, self.allowed(), self.scene.calls).await?)
    }

    fn target(&self) -> Result<Target<'_>, PreviewError> {
        self.preview.target_in(self.scene)
    }

    fn allowed(&self) -> Allowed {
        let Wishes { adopt, replace, replace_going_back, .. } = self.preview.identity.wishes;
        let goes_back = matches!(self.preview.manner, Manner::Rollout { is_lenient: true });
        let leave = goes_back || matches!(self.preview.manner, Manner::InPlace);
        let replace = if leave { goes_back && replace_going_back } else { replace };
        let is_operators = self.scene.operator == Some(self.preview.identity.namespace.as_str());
        Allowed { adopt, is_operators, replace, leave }
    }

    /// What would become of one planned object; None if it stays as it is.
    async fn at(&self, planned: &Planned, preflight: &Preflight) -> Result<Option<Change>, PreviewError> {
        let id = planned.object.id();
        let recorded = self.recorded(&id);
        let live = self.live.get(&id.key());
        let mut planned = planned.clone();
        if preflight.adopted.contains(&id) || live.is_some_and(|live| adoption::is_marked(&live.metadata)) {
            planned.adopt(&self.preview.identity.owner);
        }
        let planned = &planned;
        let is_left_alone = recorded.is_some_and(|applied| applied.is_left_alone);
        if (self.preview.manner == Manner::Repair && is_left_alone) || preflight.leave.contains_key(&id) {
            return Ok(None);
        }
        let is_new_revision = matches!(self.preview.manner, Manner::Rollout { .. });
        match live {
            None if !is_new_revision && ends_by_itself(&id) => Ok(None),
            None => Ok(Some(created(&planned.object))),
            Some(live) if preflight.replace.contains_key(&id) => {
                let after = planned.object.value().clone();
                Ok(Some(Change::new(id, What::Replaced, Some(value_of(live)), Some(after))))
            }
            // The API server would judge it by what the kind is now.
            Some(live) if crds::is_of(&planned.object, &preflight.changing) => {
                let after = planned.object.value().clone();
                Ok(Some(Change::new(id, What::Changed, Some(value_of(live)), Some(after))))
            }
            Some(live) => self.compare(planned, live).await,
        }
    }

    fn recorded(&self, id: &ObjectId) -> Option<&Applied> {
        self.preview.before.iter().find(|applied| applied.id.key() == id.key())
    }

    /// The live object against the answer to a dry run. Both must be of one version.
    async fn compare(&self, planned: &Planned, live: &DynamicObject) -> Result<Option<Change>, PreviewError> {
        let id = planned.object.id();
        let mut live = live.clone();
        for _ in 0..TRIES {
            if live.metadata.deletion_timestamp.is_some() {
                return Err(PreviewError::Going(Box::new(id)));
            }
            let sent = left_to_others(planned, &live, self.preview, &self.governed, self.scene);
            let answer = self.asked(&sent).await?;
            if answer.metadata.resource_version == live.metadata.resource_version {
                return self.changed(id, &live, &answer);
            }
            match read(planned, self.scene).await? {
                Some(newer) => live = newer,
                None => return Ok(Some(created(&planned.object))),
            }
        }
        let complaint = "somebody changes it all the time; try again".to_owned();
        Err(PreviewError::Refused { id: Box::new(id), complaint })
    }

    /// The answer to a dry run. A repair sets a list as a whole where its items cannot be merged any more.
    async fn asked(&self, sent: &Planned) -> Result<DynamicObject, PreviewError> {
        let (id, calls) = (sent.object.id(), self.scene.calls);
        let error = match calls.dry_run(sent).await {
            Ok(answer) => return Ok(answer.object),
            Err(error) => error,
        };
        let lists = crossed::lists_of(&error, sent);
        let answer = match lists.is_empty() || self.preview.manner != Manner::Repair {
            true => Err(error),
            false => crossed::dry_run(sent, &lists, calls).await,
        };
        answer.map_err(|error| refused(&id, &error))
    }

    fn changed(
        &self,
        id: ObjectId,
        live: &DynamicObject,
        answer: &DynamicObject,
    ) -> Result<Option<Change>, PreviewError> {
        let (before, after) = (value_of(live), value_of(answer));
        if before == after {
            return Ok(None);
        }
        check_claim(&id, &live.metadata, &self.target()?, self.allowed())?;
        Ok(Some(Change::new(id, What::Changed, Some(before), Some(after))))
    }

    /// What an earlier revision has and this one has not.
    async fn pruned(&self) -> Result<Vec<Change>, PreviewError> {
        let preview = self.preview;
        let mut objects: Vec<&Applied> = preview.plan.prune.iter().collect();
        objects.sort_by_key(|applied| order::uninstall_rank(&applied.id.kind).0);
        let rules = Rules {
            release: &preview.identity.release,
            namespace: &preview.identity.namespace,
            owner: &preview.identity.owner,
            occasion: match self.scene.watch.prune {
                Prune::Safe => Occasion::Upgrade,
                Prune::All => Occasion::UpgradeAll,
            },
            applied: self.live.values().filter_map(|live| live.metadata.uid.clone()).collect(),
            delete_adopted: preview.identity.wishes.delete_adopted,
            helm_marks_suffice: preview.history.foreign_since_deployed().next().is_some(),
            proven: plan::proven(&preview.history, &preview.identity.namespace, &self.scene.kinds.kinds())?,
            shipped: preview.plan.shipped.iter().map(ObjectId::key).collect(),
        };
        let kinds = self.scene.kinds.kinds_of(objects.iter().map(|applied| &applied.id)).await?;
        let mut changes = vec![];
        for recorded in objects {
            let id = recorded.id.clone();
            let Some(kind) = kinds.any_version(&id.group, &id.kind) else { continue };
            let live = self.scene.calls.get(&kind, &id).await;
            let live = live.map_err(|error| PreviewError::Look { id: Box::new(id.clone()), error })?;
            let Some(live) = live else { continue };
            match prune::decide(recorded, &live.metadata, &rules) {
                Verdict::Delete => changes.push(Change::new(id, What::Deleted, Some(value_of(&live)), None)),
                Verdict::Keep(why) => changes.push(Change::new(id, What::Kept(why), None, None)),
                Verdict::Leave(_) | Verdict::Unproven => {}
            }
        }
        Ok(changes)
    }
}
