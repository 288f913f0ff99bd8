//! The contents of crds/, and kinds that become others in the middle of a rollout.
//!
//! Helm creates what is not there and never changes it. A watch may ask for more: then what is there is applied too. Nothing
//! here deletes, and what the API server refuses (to give up a version that objects are stored in, say) is refused before
//! anything was written.
//!
//! A release may change a CRD and use what is new at once. The API server still judges by the old one when it is asked
//! before, and for a moment after it was changed. So objects of such kinds are not judged ahead, and are tried for a while: for
//! a moment in the same turn, and then in later ones.

use std::collections::HashSet;

use kube::Error;
use kube::api::DynamicObject;
use serde_json::Value;

use super::awaited::{Awaited, Condition, Patience};
use super::{ApplyError, handover};
use crate::calls::Calls;
use crate::error::{Category, of_kube};
use crate::object::Object;
use crate::ownership::{Claim, judge};
use crate::plan::{Plan, Planned, Target};
use crate::preflight::Rejected;

/// A kind in all its versions: group and name.
pub type GroupKind = (String, String);

/// Makes sure that the contents of crds/ are there and established.
pub async fn install(plan: &Plan, calls: &Calls) -> Result<(), ApplyError> {
    for crd in &plan.crds {
        // Only definitions are replaced: whose anything else is, nobody knows.
        let is_replaced = plan.replaces_crds && is_crd(&crd.object);
        let done = match is_replaced {
            true => {
                handover::hand_over(crd, calls).await?;
                calls.apply(crd).await
            }
            false => calls.create(crd).await,
        };
        match done {
            Ok(_) => {}
            Err(Error::Api(status)) if status.code == 409 && !is_replaced => {}
            Err(error) => return Err(ApplyError::refused(crd, error)),
        }
    }
    wait_for(plan.crds.iter(), &Patience::default(), calls).await
}

/// Waits for a moment until those of the objects that are CRDs are established.
pub(super) async fn wait_for(
    objects: impl Iterator<Item = &Planned>,
    patience: &Patience,
    calls: &Calls,
) -> Result<(), ApplyError> {
    for crd in objects.filter(|planned| is_crd(&planned.object)) {
        let condition = Condition::established(crd);
        while !condition.holds(calls).await.map_err(|error| ApplyError::refused(crd, error))? {
            if !patience.pause().await {
                return Err(Awaited::new(condition).into());
            }
        }
    }
    Ok(())
}

/// The kinds that the plan makes others of, found by a dry run of their CRDs. Refuses what the API server would refuse of
/// crds/, and a CRD that belongs to another release.
pub async fn foresee(plan: &Plan, target: &Target<'_>, calls: &Calls) -> Result<HashSet<GroupKind>, Rejected> {
    let mut changing = plan.changing.clone();
    let own = calls.own();
    for crd in plan.crds.iter().filter(|crd| plan.replaces_crds && is_crd(&crd.object)) {
        let id = crd.object.id();
        let rejected = |error: &Error| Rejected::about(&id, error);
        let Some(live) = own.metadata(&crd.kind, &id).await.map_err(|error| rejected(&error))? else { continue };
        if let Claim::Foreign(who) = judge(&live, target.release, target.namespace, target.owner) {
            return Err(Rejected::foreign_crd(&id, &who));
        }
        let answer = own.dry_run(crd).await.map_err(|error| rejected(&error))?;
        if answer.object.metadata.generation != live.generation {
            changing.insert(group_kind(&crd.object));
        }
    }
    // What is wrong with these is told when all objects are asked about.
    for crd in plan.apply.iter().filter(|planned| !planned.is_settled && is_crd(&planned.object)) {
        let Ok(Some(live)) = calls.metadata(&crd.kind, &crd.object.id()).await else { continue };
        let Ok(answer) = calls.dry_run(crd).await else { continue };
        if answer.object.metadata.generation != live.generation {
            changing.insert(group_kind(&crd.object));
        }
    }
    Ok(changing)
}

/// Whether an object is of one of these kinds.
pub fn is_of(object: &Object, kinds: &HashSet<GroupKind>) -> bool {
    !kinds.is_empty() && kinds.contains(&(object.gvk().group, object.kind().to_owned()))
}

/// Applies an object of a kind that was just changed, as soon as the API server knows what it is now.
pub(super) async fn apply_when_served(
    planned: &Planned,
    patience: &Patience,
    calls: &Calls,
) -> Result<DynamicObject, ApplyError> {
    loop {
        match calls.apply(planned).await {
            Err(error) if is_of_old_kind(&error) => {
                if !patience.pause().await {
                    return Err(Awaited::refused(Condition::served(planned), error).into());
                }
            }
            answer => return answer.map_err(|error| ApplyError::refused(planned, error)),
        }
    }
}

/// What the old version of a kind may say of an object of the new one.
fn is_of_old_kind(error: &Error) -> bool {
    matches!(of_kube(error), Category::InvalidObject | Category::ImmutableField | Category::UnknownKind)
}

/// The kinds that the CRDs of a release define.
pub fn defined(plan: &Plan) -> HashSet<GroupKind> {
    let all = plan.crds.iter().chain(&plan.apply).filter(|planned| is_crd(&planned.object));
    all.map(|planned| group_kind(&planned.object)).collect()
}

pub fn is_crd(object: &Object) -> bool {
    object.kind() == "CustomResourceDefinition"
}

/// The kind that a CRD defines.
fn group_kind(crd: &Object) -> GroupKind {
    let text = |pointer: &str| crd.value().pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("/spec/group"), text("/spec/names/kind"))
}
