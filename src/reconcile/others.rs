//! What others decide in a release's objects: it is taken out of what is applied, in view of what is there.

use std::collections::HashSet;

use kube::api::DynamicObject;
use serde_json::Value;

use super::{ReconcileError, Subject};
use crate::apply::handover;
use crate::children::Sight;
use crate::drift;
use crate::drift::rules::{self, IGNORE_FIELDS};
use crate::object::ObjectKey;
use crate::plan::{Plan, Planned};
use crate::release::Applied;

impl Subject<'_> {
    /// Takes out of the plan what others decide in objects that are there already.
    pub(super) async fn leave_to_others(&self, plan: &mut Plan, before: &[Applied]) -> Result<(), ReconcileError> {
        let is_scaler = |applied: &&Applied| applied.id.kind == "HorizontalPodAutoscaler";
        let leaving: Vec<ObjectKey> = plan.prune.iter().filter(is_scaler).map(|applied| applied.id.key()).collect();
        let before: HashSet<ObjectKey> = before.iter().map(|applied| applied.id.key()).collect();
        for planned in plan.apply.iter_mut().filter(|planned| !planned.is_settled) {
            let id = planned.object.id();
            let key = id.key();
            let annotation =
                planned.object.value().pointer("/metadata/annotations").and_then(|all| all[IGNORE_FIELDS].as_str());
            if let Some(complaint) = annotation.and_then(rules::complaint) {
                let message = format!("The annotation {IGNORE_FIELDS} of {id}: {complaint}");
                self.warn("InvalidAnnotation", &message).await;
            }
            let is_there = before.contains(&key);
            match planned.wants_replicas || planned.is_scaled {
                true if is_there => self.scalers_ready(key.namespace.as_deref()).await?,
                true => self.context.scalers.start(key.namespace.as_deref(), &self.context.children),
                false => {}
            }
            if !is_there || !self.others_may_decide(planned, &key, &leaving) {
                continue;
            }
            let live = self.calls.get(&planned.kind, &id).await.map_err(ReconcileError::Look)?;
            *planned = self.left_to_others(planned.clone(), live.as_ref(), &leaving);
        }
        Ok(())
    }

    fn others_may_decide(&self, planned: &Planned, key: &ObjectKey, leaving: &[ObjectKey]) -> bool {
        let children = &self.context.children;
        let rules = children.rules(key, &planned.object.to_dynamic().metadata);
        let is_scaled = planned.is_scaled || self.context.scalers.governs_without(key, leaving);
        // The live object may allow more than the chart.
        let has_other_rules = match children.sight(key) {
            Sight::Present(seen) => seen.mark.is_some_and(|mark| mark.rules != rules.hash()),
            _ => false,
        };
        has_other_rules || drift::concerns(planned.object.value(), &rules, is_scaled)
    }

    /// An object without what others decide, in view of what is there. `leaving` are autoscalers that go.
    pub(super) fn left_to_others(
        &self,
        mut planned: Planned,
        live: Option<&DynamicObject>,
        leaving: &[ObjectKey],
    ) -> Planned {
        let Some(live) = live else { return planned };
        let key = planned.object.id().key();
        let rules = self.context.children.rules(&key, &live.metadata);
        let is_scaled = planned.is_scaled || self.context.scalers.governs_without(&key, leaving);
        // What helm wrote by update is about to become ours, so it is not others'.
        let mut live = live.clone();
        if let Some(managers) = handover::handed_over(&live.metadata) {
            live.metadata.managed_fields = Some(managers);
        }
        let live = serde_json::to_value(live).unwrap_or(Value::Null);
        let replicas = |planned: &Planned| planned.object.value().pointer("/spec/replicas").cloned();
        let wanted = replicas(&planned);
        planned.object.change(|object| drift::leave(object, &live, &rules, is_scaled));
        planned.replicas_left = planned.wants_replicas && replicas(&planned) != wanted;
        planned
    }
}
