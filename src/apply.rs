//! Doing what the plan says, by server-side apply.

use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, Error};

use crate::error::{Category, of_kube, sentence};
use crate::manifest::order::install_rank;
use crate::object::ObjectId;
use crate::plan::{Plan, Planned};

/// Helm 4 applies under this name too, so that its `rollback` and `upgrade` do not conflict with us.
pub const FIELD_MANAGER: &str = "helm";

/// How many objects of one rank are sent at once.
const AT_ONCE: usize = 8;

#[derive(Debug, thiserror::Error)]
#[error("{id}: {}", sentence(error))]
pub struct ApplyError {
    pub id: ObjectId,
    pub error: Error,
}

impl ApplyError {
    pub fn category(&self) -> Category {
        of_kube(&self.error)
    }
}

/// Applies everything, kind by kind in Helm's order, and stops at the first refusal.
pub async fn apply(plan: &Plan, client: &Client) -> Result<(), ApplyError> {
    for crd in &plan.crds {
        create_if_absent(crd, client).await?;
    }
    for rank in plan.apply.chunk_by(|a, b| install_rank(a.object.kind()) == install_rank(b.object.kind())) {
        // Boxed, since the compiler cannot see that a future which borrows from a slice may cross threads.
        let applied: Vec<_> = rank.iter().map(|planned| apply_one(planned, client).boxed()).collect();
        stream::iter(applied).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
    }
    Ok(())
}

async fn apply_one(planned: &Planned, client: &Client) -> Result<(), ApplyError> {
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let object = &planned.object;
    let applied = api(planned, client).patch(object.name(), &params, &Patch::Apply(object.value())).await;
    applied.map(|_| ()).map_err(|error| ApplyError { id: object.id(), error })
}

/// Helm creates the contents of crds/ once and never changes them.
async fn create_if_absent(planned: &Planned, client: &Client) -> Result<(), ApplyError> {
    let created = api(planned, client).create(&PostParams::default(), &planned.object.to_dynamic()).await;
    match created {
        Ok(_) => Ok(()),
        Err(Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(ApplyError { id: planned.object.id(), error }),
    }
}

fn api(planned: &Planned, client: &Client) -> Api<DynamicObject> {
    match planned.object.namespace().filter(|_| planned.kind.namespaced) {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &planned.kind.resource),
        None => Api::all_with(client.clone(), &planned.kind.resource),
    }
}
