//! Doing what the plan says, by server-side apply: crds/ first, then kind by kind in Helm's order.
//!
//! | module | what is in it |
//! |---|---|
//! | [`awaited`] | what has to happen before an apply can go on, as a state |
//! | [`crds`] | the contents of crds/, and kinds that change on the way |
//! | [`crossed`] | lists that cannot be merged any more |
//! | [`handover`] | what others made and is handed over |
//! | [`replace`] | whether an object may be deleted to be created again |
//!
//! Nothing here waits longer than a moment: see [`awaited`]. Whatever happens, the caller learns what was applied, so that the record can say it.

pub mod awaited;
pub mod crds;
pub mod crossed;
pub mod handover;
pub mod replace;

use futures::{FutureExt, StreamExt, stream};
use k8s_openapi::jiff::Timestamp;
use kube::Error;
use kube::api::DynamicObject;
use kube::core::ObjectMeta;
use serde_json::Value;

use crate::adoption;
use crate::calls::Calls;
use crate::drift::{self, fields};
use crate::error::{Category, of_kube};
use crate::health::{self, Health};
use crate::manifest::order::install_rank;
use crate::object::ObjectId;
use crate::plan::{Plan, Planned, RELEASE_NAME, RELEASE_NAMESPACE};
use crate::preflight::{Preflight, complaint_about};
use crate::release::Applied;
use awaited::{Awaited, Condition, ESTABLISHED_WITHIN, Patience};
use replace::Irreplaceable;

/// How many objects of one rank are sent at once.
const AT_ONCE: usize = 8;

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("{id}: {}", complaint_about(id, error))]
    Refused { id: Box<ObjectId>, error: Error },
    #[error("{id} was not established within {} s", ESTABLISHED_WITHIN.as_secs())]
    NotEstablished { id: Box<ObjectId> },
    #[error("{id} is still being deleted; it is made again when it is gone")]
    StillThere { id: Box<ObjectId> },
    #[error("{id} was to be made again, but somebody else made it meanwhile")]
    Taken { id: Box<ObjectId> },
    #[error(transparent)]
    Irreplaceable(Box<Irreplaceable>),
    /// It takes longer than a turn may wait.
    #[error(transparent)]
    Awaited(Box<Awaited>),
}

impl ApplyError {
    pub fn category(&self) -> Category {
        match self {
            ApplyError::Refused { error, .. } => of_kube(error),
            ApplyError::NotEstablished { .. } => Category::ApplyFailed,
            ApplyError::StillThere { .. } | ApplyError::Taken { .. } | ApplyError::Awaited(_) => Category::Waiting,
            ApplyError::Irreplaceable(why) => why.category(),
        }
    }

    fn refused(planned: &Planned, error: Error) -> Self {
        ApplyError::Refused { id: Box::new(planned.object.id()), error }
    }
}

impl From<Awaited> for ApplyError {
    fn from(awaited: Awaited) -> Self {
        ApplyError::Awaited(Box::new(awaited))
    }
}

/// What was applied, also when it ended early.
#[derive(Default)]
pub struct Progress {
    pub applied: Vec<Applied>,
    /// What stays as it is, since it cannot be changed.
    pub left: Vec<Applied>,
    pub stopped_by: Option<ApplyError>,
}

/// What is done with an answer at once. The answer is not kept: others decide how large it is.
pub type Answered<'a> = dyn Fn(&mut Applied, &ObjectMeta, &Health) + Sync + 'a;

/// Applies the plan's objects and stops after the first rank in which one was refused.
pub async fn apply(plan: &Plan, preflight: &Preflight, calls: &Calls, answered: &Answered<'_>) -> Progress {
    let mut progress = Progress::default();
    let patience = Patience::default();
    for rank in plan.apply.chunk_by(|a, b| install_rank(a.object.kind()) == install_rank(b.object.kind())) {
        let is_left = |planned: &Planned| preflight.leave.contains_key(&planned.object.id());
        rank.iter().filter(|planned| is_left(planned)).for_each(|planned| progress.note_left(planned, preflight));
        let rank = || rank.iter().filter(|planned| !planned.is_settled && !is_left(planned));
        // Boxed, since the compiler cannot see that a future which borrows from a slice may cross threads.
        let applications: Vec<_> =
            rank().map(|planned| apply_one(planned, preflight, &patience, calls).boxed()).collect();
        let mut results = stream::iter(applications).buffer_unordered(AT_ONCE);
        while let Some(result) = results.next().await {
            match result {
                Ok((planned, object)) => {
                    progress.note(planned, object, answered);
                }
                Err(error) => progress.stopped_by = progress.stopped_by.take().or(Some(error)),
            }
        }
        if progress.stopped_by.is_none() {
            progress.stopped_by = crds::wait_for(rank(), &patience, calls).await.err();
        }
        if progress.stopped_by.is_some() {
            break;
        }
    }
    progress
}

impl Progress {
    /// All that this revision has in the cluster.
    pub fn all(&self) -> impl Iterator<Item = &Applied> {
        self.applied.iter().chain(&self.left)
    }

    fn note_left(&mut self, planned: &Planned, preflight: &Preflight) {
        let id = planned.object.id();
        let uid = preflight.leave.get(&id).cloned();
        // What becomes of it is not ours to judge: it never was as this revision wants it.
        self.left.push(Applied { is_left_alone: true, is_adopted: planned.is_adopted, ..Applied::new(id, uid) });
    }

    fn note(&mut self, planned: &Planned, mut object: DynamicObject, answered: &Answered<'_>) {
        // The lists of others are of no use here, and may be as large as etcd takes.
        object.metadata.managed_fields.iter_mut().for_each(|entries| entries.retain(fields::is_ours));
        let mut applied = Applied::new(planned.object.id(), object.metadata.uid.clone());
        let value = serde_json::to_value(&object).unwrap_or(Value::Null);
        let annotation = |key: &str| object.metadata.annotations.as_ref()?.get(key);
        (applied.wants_replicas, applied.replicas_left) = (planned.wants_replicas, planned.replicas_left);
        applied.is_left_alone = annotation(drift::DRIFT).is_some_and(|drift| drift == "ignore");
        applied.overruled = drift::overruled(planned.object.value(), &value);
        applied.is_adopted = planned.is_adopted || adoption::is_marked(&object.metadata);
        answered(&mut applied, &object.metadata, &health::of(&value, Timestamp::now()));
        self.applied.push(applied);
    }
}

async fn apply_one<'a>(
    planned: &'a Planned,
    preflight: &Preflight,
    patience: &Patience,
    calls: &Calls,
) -> Result<(&'a Planned, DynamicObject), ApplyError> {
    let id = planned.object.id();
    if let Some(uid) = preflight.replace.get(&id) {
        remove(planned, &id, uid, patience, calls).await?;
    }
    if preflight.adopted.contains(&id) {
        mark_adopted(planned, calls).await?;
    }
    if preflight.hand_over.contains(&id) {
        handover::hand_over(planned, calls).await?;
    }
    let applied = match crds::is_of(&planned.object, &preflight.changing) {
        true => crds::apply_when_served(planned, patience, calls).await?,
        false => calls.apply(planned).await.map_err(|error| ApplyError::refused(planned, error))?,
    };
    Ok((planned, applied))
}

/// Writes on an object that it was adopted.
pub async fn mark_adopted(planned: &Planned, calls: &Calls) -> Result<DynamicObject, ApplyError> {
    let release = |key: &str| planned.object.annotation(key).unwrap_or_default();
    let mark = adoption::mark(release(RELEASE_NAMESPACE), release(RELEASE_NAME));
    let marked = calls.merge_as(adoption::MANAGER, &planned.kind, &planned.object.id(), &mark).await;
    marked.map_err(|error| ApplyError::refused(planned, error))
}

/// Deletes an object that is created again. Its name may take longer to become free than a turn may wait.
async fn remove(
    planned: &Planned,
    id: &ObjectId,
    uid: &str,
    patience: &Patience,
    calls: &Calls,
) -> Result<(), ApplyError> {
    let refused = |error| ApplyError::refused(planned, error);
    let Some(live) = calls.get(&planned.kind, id).await.map_err(refused)? else { return Ok(()) };
    if live.metadata.uid.as_deref() != Some(uid) {
        return Err(ApplyError::Taken { id: Box::new(id.clone()) });
    }
    if live.metadata.deletion_timestamp.is_none() {
        // Once more: by now everything that the object needs of its own release is there.
        let checked = replace::check(planned, &live, calls).await;
        let policy = checked.map_err(|why| ApplyError::Irreplaceable(Box::new(why)))?;
        calls.delete_by(&planned.kind, id, uid, policy).await.map_err(refused)?;
    }
    loop {
        match calls.metadata(&planned.kind, id).await.map_err(refused)? {
            None => return Ok(()),
            Some(live) if live.uid.as_deref() != Some(uid) => {
                return Err(ApplyError::Taken { id: Box::new(id.clone()) });
            }
            Some(_) if patience.pause().await => {}
            Some(_) => return Err(Awaited::new(Condition::gone(planned, uid)).into()),
        }
    }
}
