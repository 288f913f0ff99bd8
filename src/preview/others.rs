//! What others decide in objects that are there: it is taken out of what would be applied, as a reconcile does it.
//!
//! A reconcile knows autoscalers and rules from its watches. Here autoscalers are listed, once, and only where a workload has
//! replicas.

use std::collections::{BTreeSet, HashMap};

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::api::{Api, DynamicObject, ListParams};
use serde_json::Value;

use super::{Preview, Scene};
use crate::drift;
use crate::listeners;
use crate::object::{Object, ObjectKey};
use crate::plan::Planned;
use crate::scalers::target_of;

/// Which workloads an autoscaler governs. None where nobody may know: then their replicas are left alone.
pub struct Governed(Option<HashMap<ObjectKey, BTreeSet<ObjectKey>>>);

impl Governed {
    /// Asks about the namespaces of workloads with replicas.
    pub async fn of(preview: &Preview, scene: &Scene<'_>) -> Self {
        let workloads = preview.plan.apply.iter().filter(|planned| planned.wants_replicas || planned.is_scaled);
        let namespaces: BTreeSet<&str> = workloads.filter_map(|planned| planned.object.namespace()).collect();
        let mut governed: HashMap<ObjectKey, BTreeSet<ObjectKey>> = HashMap::new();
        for namespace in namespaces {
            let api: Api<HorizontalPodAutoscaler> = Api::namespaced(scene.calls.client(), namespace);
            let Ok(listed) = scene.calls.within(api.list(&ListParams::default())).await else { return Governed(None) };
            for scaler in listed.items.iter().filter_map(as_object) {
                if let Some(target) = target_of(&scaler) {
                    governed.entry(target).or_default().insert(scaler.id().key());
                }
            }
        }
        Governed(Some(governed))
    }

    /// Whether one is left that does not go.
    fn has(&self, key: &ObjectKey, leaving: &[ObjectKey]) -> bool {
        match &self.0 {
            None => true,
            Some(governed) => governed.get(key).is_some_and(|scalers| scalers.iter().any(|it| !leaving.contains(it))),
        }
    }
}

/// Items of a list do not say what they are.
fn as_object(scaler: &HorizontalPodAutoscaler) -> Option<Object> {
    let mut value = serde_json::to_value(scaler).ok()?;
    value["apiVersion"] = "autoscaling/v2".into();
    value["kind"] = "HorizontalPodAutoscaler".into();
    Object::new(value).ok()
}

/// An object without what others decide, in view of what is there.
pub fn left_to_others(
    planned: &Planned,
    live: &DynamicObject,
    preview: &Preview,
    governed: &Governed,
    scene: &Scene<'_>,
) -> Planned {
    let key = planned.object.id().key();
    let is_scaler = |id: &&crate::object::ObjectId| id.kind == "HorizontalPodAutoscaler";
    let leaving: Vec<ObjectKey> =
        preview.plan.prune.iter().map(|applied| &applied.id).filter(is_scaler).map(|id| id.key()).collect();
    let rules = listeners::rules(&key, &live.metadata, &scene.watch.ignore);
    let has_replicas = planned.wants_replicas || planned.is_scaled;
    let is_scaled = planned.is_scaled || (has_replicas && governed.has(&key, &leaving));
    let live = serde_json::to_value(live).unwrap_or(Value::Null);
    let mut planned = planned.clone();
    planned.object.change(|object| drift::leave(object, &live, &rules, is_scaled));
    planned
}
