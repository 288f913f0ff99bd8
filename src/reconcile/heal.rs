//! The repair of a deployed release: what somebody deleted or changed is applied again, and nothing else.
//!
//! Each object is repaired for itself, so that one that cannot be repaired keeps no other from it.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use kube::api::DynamicObject;
use serde_json::Value;

use super::journal::{self, Stage};
use super::recording::fill_in;
use super::{ReconcileError, Subject};
use crate::adoption;
use crate::apply::replace::is_precious;
use crate::apply::{self, ApplyError, Progress};
use crate::children::{Look, Sight, ends_by_itself};
use crate::drift::{self, Lost, Verdict, fields};
use crate::error::Category;
use crate::manifest;
use crate::object::ObjectKey;
use crate::plan::{Plan, Planned, Target, is_kept, made, plan};
use crate::preflight::{Preflight, check_claim};
use crate::reach::{Outside, ReachError};
use crate::release::{Applied, Own, Release, Revisions};
use crate::telemetry::metrics;

/// Objects that are not as they were left.
type Drifted = HashMap<ObjectKey, Look>;

impl Subject<'_> {
    /// Applies again what somebody deleted or changed, and nothing else. Returns our part of the record after that. The
    /// record itself is read only where something is to be applied.
    pub(super) async fn heal(&self, revision: u32, own: &Own) -> Result<Own, ReconcileError> {
        self.look_after();
        let mut drifted = self.drifted(&own.objects).await?;
        let now = Instant::now();
        self.context.memory.with(&self.owner.uid, |memory| {
            drifted.retain(|key, _| memory.fights.wait(key, now).is_none());
        });
        if drifted.is_empty() {
            return Ok(own.clone());
        }
        journal::note_revision(revision);
        let release = self.still_standing(revision).await?;
        let made = made(own.objects.iter().cloned());
        let target = Target { made, ..self.target(release.chart_name(), &release.hooks) };
        let plan = self.plan_again(&release, own, &drifted, &target).await?;
        // Before objects are claimed: others may wait for them, and what is allowed may take a render to find out.
        let (plan, refused) = self.within_reach(plan).await;
        let _claimed = self.claim(drifted.keys().cloned().collect()).await?;
        let (progress, error) = self.repair_all(plan, &drifted, &target).await;
        let mut healed = release.clone();
        if let Some(own) = &mut healed.own {
            fill_in(&mut own.objects, &progress);
        }
        if healed != release {
            healed = self.store.update(&healed).await?;
        }
        error.or(refused).map_or(Ok(healed.own.unwrap_or_else(|| own.clone())), Err)
    }

    /// Creates again what an unfinished rollout deleted to replace it. Nobody else does once a newer spec is refused.
    pub(super) async fn finish_replacements(&self, known: &Revisions) -> Result<(), ReconcileError> {
        let (Some(latest), Some(deployed)) = (known.latest(), known.deployed()) else { return Ok(()) };
        let is_ours = |own: &&Own| own.owner.is_same_resource(&self.owner_mark());
        let own = latest.own.as_ref().filter(is_ours).filter(|own| latest.status.is_unfinished() && !own.is_applied);
        let (Some(own), Some(before)) = (own, deployed.own.as_ref().filter(is_ours)) else { return Ok(()) };
        let before: HashSet<ObjectKey> = before.objects.iter().map(|applied| applied.id.key()).collect();
        let replaced = own.objects.iter().filter(|applied| before.contains(&applied.id.key()));
        let gone = self.gone(replaced).await?;
        if gone.is_empty() {
            return Ok(());
        }
        let release = self.release(latest.revision).await?;
        let made = own.objects.iter().map(|applied| (applied.id.key(), applied.uid.clone())).collect();
        let target = Target { made, ..self.target(release.chart_name(), &release.hooks) };
        let plan = self.plan_again(&release, own, &gone, &target).await?;
        let (plan, refused) = self.within_reach(plan).await;
        let _claimed = self.claim(gone.keys().cloned().collect()).await?;
        let (_, error) = self.repair_all(plan, &gone, &target).await;
        error.or(refused).map_or(Ok(()), Err)
    }

    /// Those of a few objects that are not there any more. One that is still being deleted is an error: it is looked for again.
    async fn gone<'o>(&self, objects: impl Iterator<Item = &'o Applied>) -> Result<Drifted, ReconcileError> {
        let kinds = self.context.kinds.kinds();
        let mut gone = Drifted::new();
        for Applied { id, .. } in objects.filter(|applied| !ends_by_itself(&applied.id)) {
            let is_seen = matches!(self.context.children.sight(&id.key()), Sight::Present(_));
            let Some(kind) = kinds.any_version(&id.group, &id.kind).filter(|_| !is_seen) else { continue };
            match self.calls.metadata(&kind, id).await.map_err(ReconcileError::Look)? {
                None => drop(gone.insert(id.key(), Look::Gone)),
                Some(live) if live.deletion_timestamp.is_some() => {
                    return Err(ApplyError::StillThere { id: Box::new(id.clone()) }.into());
                }
                Some(_) => {}
            }
        }
        Ok(gone)
    }

    /// The plan of the deployed revision, for what drifted only.
    async fn plan_again(
        &self,
        release: &Release,
        own: &Own,
        drifted: &Drifted,
        target: &Target<'_>,
    ) -> Result<Plan, ReconcileError> {
        let rendered = manifest::read_record(&release.manifest.read())?;
        self.learn_secrets(&rendered.objects, &release.hooks);
        let wanted: Vec<_> = rendered.objects.iter().map(|object| object.gvk()).collect();
        let kinds = match drifted.keys().any(|key| key.kind == "CustomResourceDefinition") {
            // Its resources cannot be asked about until it is there again.
            true => self.context.kinds.refresh().await?,
            false => self.context.kinds.kinds_with(&wanted).await?,
        };
        let mut plan = plan(rendered, &own.objects, target, &kinds)?;
        self.check_protected(&plan, &[], &kinds)?;
        plan.prune.clear();
        plan.apply.retain(|planned| drifted.contains_key(&planned.object.id().key()));
        Ok(plan)
    }

    /// What may be written of a plan, and why the rest may not.
    async fn within_reach(&self, mut plan: Plan) -> (Plan, Option<ReconcileError>) {
        let outside = |planned: &Planned| Outside::of(planned.object.id(), planned.kind.namespaced, &self.home());
        if plan.apply.iter().all(|planned| outside(planned).is_empty()) {
            return (plan, None);
        }
        let allowance = match self.context.allowance().await {
            Ok(allowance) => allowance,
            Err(error) => {
                plan.apply.retain(|planned| outside(planned).is_empty());
                return (plan, Some(ReachError::from(error).into()));
            }
        };
        let mut error = None;
        plan.apply.retain(|planned| {
            let refused = allowance.check(outside(planned)).err();
            let is_allowed = refused.is_none();
            error = error.take().or(refused);
            is_allowed
        });
        (plan, error.map(|refused| ReachError::from(refused).into()))
    }

    /// What was repaired or found to be right, and the first error.
    async fn repair_all(
        &self,
        plan: Plan,
        drifted: &Drifted,
        target: &Target<'_>,
    ) -> (Vec<Applied>, Option<ReconcileError>) {
        let (mut done, mut names, mut changes, mut error) = (vec![], vec![], vec![], None);
        for planned in plan.apply {
            let id = planned.object.id();
            let look = drifted.get(&id.key()).copied().unwrap_or(Look::Changed);
            match self.repair(planned, look, target).await {
                Ok(Repair::Right(applied)) => done.push(applied),
                Ok(Repair::Applied(applied, lost)) => {
                    names.push(applied.id.to_string());
                    changes.push(format!("{} ({})", applied.id, what_was_lost(lost.as_deref())));
                    let managers = lost.iter().flatten().map(|lost| lost.manager.as_deref());
                    metrics::repaired(&self.owner.gvk.kind, (&id.group, &id.kind), managers);
                    done.push(applied);
                    let note = Instant::now();
                    self.context.memory.with(&self.owner.uid, |memory| memory.fights.note(&id, lost, note));
                }
                Err(failed) => error = error.or(Some(failed)),
            }
        }
        if !names.is_empty() {
            self.context.memory.with(&self.owner.uid, |memory| memory.repairs.note(names.len()));
            let (apply, total) = (self.journal.apply_ms(), self.journal.total_ms());
            let message = format!("Re-applied objects that were changed or deleted: {}", changes.join(", "));
            tracing::info!(reason = "Healed", applyMs = apply, totalMs = total, "{}", self.shown(&message));
            let message = format!("Re-applied objects that were changed or deleted: {}", names.join(", "));
            self.tell_by_event("Healed", &message).await;
        }
        (done, error)
    }

    async fn repair(&self, mut planned: Planned, look: Look, target: &Target<'_>) -> Result<Repair, ReconcileError> {
        let id = planned.object.id();
        let mut is_new = false;
        let live = self.calls.get(&planned.kind, &id).await.map_err(ReconcileError::Look)?;
        if let Some(live) = &live {
            if live.metadata.deletion_timestamp.is_some() {
                return Err(ApplyError::StillThere { id: Box::new(id) }.into());
            }
            is_new = check_claim(&id, &live.metadata, target, self.allowed(false))?;
            if is_new || adoption::is_marked(&live.metadata) {
                planned.adopt(&self.owner);
            }
        }
        if planned.wants_replicas || planned.is_scaled {
            self.scalers_ready(id.namespace.as_deref()).await?;
        }
        let planned = self.left_to_others(planned, live.as_ref(), &[]);
        if let (Look::Unsure, Some(live)) = (look, &live)
            && let Some(applied) = self.is_right(&planned, live).await?
        {
            return Ok(Repair::Right(applied));
        }
        let adopted = is_new.then(|| id.clone()).into_iter().collect();
        let preflight = Preflight { adopted, ..Preflight::default() };
        let answered = self.apply_again(planned, live.as_ref(), preflight).await?;
        let lost = match (&live, answered.answers.first()) {
            (Some(live), Some((answer, _))) => {
                Some(drift::lost(answer, &live.metadata, &self.context.children.rules(&id.key(), answer)))
            }
            _ => None,
        };
        match answered.applied.into_iter().next() {
            Some(applied) => Ok(Repair::Applied(applied, lost)),
            None => Err(ApplyError::Taken { id: Box::new(id) }.into()),
        }
    }

    /// Whether an apply would change nothing.
    async fn is_right(&self, planned: &Planned, live: &DynamicObject) -> Result<Option<Applied>, ReconcileError> {
        let id = planned.object.id();
        let answer = self.calls.dry_run(planned).await;
        let answer = answer.map_err(|error| ApplyError::Refused { id: Box::new(id.clone()), error })?;
        let fields = |object: &DynamicObject| fields::ours(&object.metadata).and_then(|entry| entry.fields_v1.clone());
        // Times have seconds only, so they cannot tell.
        let is_same = written(&answer.object) == written(live) && fields(&answer.object) == fields(live);
        let mark = self.context.children.mark(&id.key(), &live.metadata);
        let mut applied = Applied { mark, ..Applied::new(id, live.metadata.uid.clone()) };
        (applied.wants_replicas, applied.replicas_left) = (planned.wants_replicas, planned.replicas_left);
        let answered = serde_json::to_value(&answer.object).unwrap_or(Value::Null);
        applied.overruled = drift::overruled(planned.object.value(), &answered);
        Ok(is_same.then_some(applied))
    }

    async fn apply_again(
        &self,
        planned: Planned,
        live: Option<&DynamicObject>,
        preflight: Preflight,
    ) -> Result<Progress, ReconcileError> {
        let plan = Plan { apply: vec![planned], ..Plan::default() };
        let planned = &plan.apply[0];
        let mut progress = self.stage(Stage::Apply, apply::apply(&plan, &preflight, &self.calls)).await;
        if let (Some(error), Some(live)) = (&progress.stopped_by, live) {
            let lists = apply::crossed::lists(error, planned);
            if !lists.is_empty() {
                progress = apply::crossed::apply(planned, &lists, &self.calls).await?;
            } else if self.may_replace(planned, live, error) {
                let replace = live.metadata.uid.iter().map(|uid| (planned.object.id(), uid.clone())).collect();
                progress = apply::apply(&plan, &Preflight { replace, ..Preflight::default() }, &self.calls).await;
            }
        }
        if live.is_some_and(|live| apply::crossed::has_trace(&live.metadata)) {
            apply::crossed::clean(planned, &mut progress, &self.calls).await?;
        }
        self.learn(&mut progress);
        match progress.stopped_by.take() {
            Some(error) => Err(error.into()),
            None => Ok(progress),
        }
    }

    /// Whether an object that cannot be changed may be made again.
    fn may_replace(&self, planned: &Planned, live: &DynamicObject, error: &ApplyError) -> bool {
        let annotations = live.metadata.annotations.as_ref();
        let kept = is_kept(|key| annotations.and_then(|annotations| annotations.get(key)).map(String::as_str));
        let is_precious = is_precious(&planned.object.id());
        error.category() == Category::ImmutableField
            && self.wishes.replace
            && !kept
            && !is_precious
            && !planned.is_adopted
    }

    /// What differs from the record: by the watches, or where there are none, by asking.
    async fn drifted(&self, objects: &[Applied]) -> Result<Drifted, ReconcileError> {
        let kinds = self.context.kinds.kinds_of(objects.iter().map(|applied| &applied.id)).await?;
        let scalers = &self.context.scalers;
        for applied in objects.iter().filter(|applied| applied.wants_replicas) {
            scalers.start(applied.id.namespace.as_deref(), &self.context.children);
        }
        let mut drifted = HashMap::new();
        if self.context.watch.watch_dependents {
            let found = objects.iter().filter_map(|Applied { id, .. }| {
                Some((kinds.any_version(&id.group, &id.kind)?, id.namespace.as_deref()))
            });
            let found: Vec<_> = found.collect();
            self.context.children.watch(found.iter().map(|(kind, namespace)| (kind, *namespace)));
            objects.iter().for_each(|applied| self.context.children.is_held(applied, &self.context.primary, self.cr));
            let looks = objects.iter().map(|applied| (applied.id.key(), self.context.children.look(applied, scalers)));
            drifted = looks.filter(|(_, look)| *look != Look::Fine).collect();
            self.doubt(objects, &mut drifted);
            return Ok(drifted);
        }
        for applied in objects.iter().filter(|applied| !applied.is_left_alone) {
            let Some(kind) = kinds.any_version(&applied.id.group, &applied.id.kind) else { continue };
            let live = self.calls.metadata(&kind, &applied.id).await.map_err(ReconcileError::Look)?;
            let key = applied.id.key();
            let look = match live {
                None if ends_by_itself(&applied.id) => continue,
                None => Look::Gone,
                Some(live) if live.uid != applied.uid || fields::ours(&live).is_none() => Look::Changed,
                Some(live) => {
                    let mark = self.context.children.mark(&key, &live);
                    match drift::compare(applied.mark.as_ref(), mark.as_ref(), scalers.replicas(applied)) {
                        Verdict::Same => continue,
                        Verdict::Unsure => Look::Unsure,
                        Verdict::Changed => Look::Changed,
                    }
                }
            };
            drifted.insert(key, look);
        }
        self.doubt(objects, &mut drifted);
        Ok(drifted)
    }

    /// Where a full check is asked for, every object is compared with what an apply would make of it.
    fn doubt(&self, objects: &[Applied], drifted: &mut Drifted) {
        if self.open_request().is_none() {
            return;
        }
        for applied in objects.iter().filter(|applied| !applied.is_left_alone && !ends_by_itself(&applied.id)) {
            drifted.entry(applied.id.key()).or_insert(Look::Unsure);
        }
    }
}

/// What of an object somebody wrote, as opposed to what the API server counts.
fn written(object: &DynamicObject) -> (Vec<(&String, &Value)>, impl PartialEq + '_) {
    let metadata = &object.metadata;
    let parts = object.data.as_object().into_iter().flatten().filter(|(part, _)| *part != "status");
    (parts.collect(), (&metadata.labels, &metadata.annotations, &metadata.owner_references, &metadata.finalizers))
}

/// What somebody did to an object, and who.
fn what_was_lost(lost: Option<&[Lost]>) -> String {
    const MOST: usize = 5;
    let Some(lost) = lost else { return "deleted".to_owned() };
    let by = |lost: &Lost| match &lost.manager {
        Some(manager) => format!("{} by {manager}", lost.field),
        None => format!("{} removed", lost.field),
    };
    let mut fields: Vec<String> = lost.iter().take(MOST).map(by).collect();
    if lost.len() > MOST {
        fields.push(format!("{} more", lost.len() - MOST));
    }
    if fields.is_empty() { "changed".to_owned() } else { fields.join(", ") }
}

/// What became of an object that seemed to have drifted.
enum Repair {
    /// It is right after all.
    Right(Applied),
    /// And what had to be taken back; None if it was gone.
    Applied(Applied, Option<Vec<Lost>>),
}
