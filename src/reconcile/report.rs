//! What a reconcile says in the end: the health of the release's objects, from the watches, and the status from it.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::holds::held_sentence;
use super::journal::Stage;
use super::memory::Untold;
use super::recording::is_install;
use super::subject::CR_MANAGER;
use super::{Next, ReconcileError, Standing, Subject};
use crate::children::{Sight, ends_by_itself};
use crate::health::{self, Cause, Health, Scale, State, scale};
use crate::object::ObjectId;
use crate::release::{self, Own, Release};
use crate::status::{self, Deployed, Failure, Present, Report, UNKNOWN_FIELD, UNKNOWN_FIELDS};

impl Subject<'_> {
    /// Observes the release's objects and writes the status if it says something new.
    pub async fn report(
        &self,
        standing: Option<&mut Standing>,
        failure: Option<Failure>,
    ) -> Result<Next, ReconcileError> {
        if let (Some(standing), None) = (&standing, &failure)
            && self.is_early(standing)
        {
            return Ok(Next::Rest);
        }
        let record = standing.as_ref().and_then(|standing| standing.record.as_ref());
        self.learn_records(record.into_iter());
        let own = standing.as_ref().and_then(|standing| standing.own.as_ref());
        let observed = self.stage(Stage::Observe, self.observe(own.map_or(&[], |own| &own.objects)));
        let (objects, mut next) = observed.await;
        let record = standing.as_ref().and_then(|standing| standing.record.as_ref());
        if let (Some(record), None) = (record, &failure)
            && let Some(wait) = self.put_off(record, &objects)
        {
            return Ok(Next::Soon(wait));
        }
        let mut standing = standing;
        if let (Some(standing), None) = (standing.as_mut(), &failure)
            && let Some(after) = self.mind_deadline(standing, &objects).await?
        {
            next = sooner(next, after);
        }
        let standing = standing.as_deref();
        // Whoever failed is told in the log by what comes of the turn.
        let has_failed = failure.is_some();
        let failure = failure.or_else(|| standing.and_then(Standing::failure));
        let failure = failure.map(|failure| self.shown_failure(failure));
        if let Some(failure) = failure.as_ref().filter(|failure| !self.says_already(&failure.message)) {
            match has_failed {
                true => self.warn_by_event(failure.category.as_str(), &failure.message).await,
                false => self.warn(failure.category.as_str(), &failure.message).await,
            }
        }
        let report = self.composed(standing, failure, &objects);
        self.warn_of_unknown_fields(&report).await;
        if let Some(revision) = standing.and_then(|standing| self.unknown_values(standing))
            && self.is_news(&report)
        {
            // What it was made with may be in what its objects say.
            self.release(revision).await?;
        }
        self.write_status(&report).await?;
        self.context.memory.with(&self.owner.uid, |memory| {
            memory.untold = None;
            memory.repairs.told(report.repairs);
            if report.requested.is_some() {
                memory.answered.clone_from(&report.requested);
            }
        });
        // Repairs that are put off are due then, or there is less to tell.
        let put_off = self.context.memory.with(&self.owner.uid, |memory| memory.fights.due_in(Instant::now()));
        Ok(put_off.map_or(next, |later| sooner(next, later)))
    }

    /// A request is answered when all went well, or when only a change can help. What passes is tried again, in full.
    fn answered(&self, failure: Option<&Failure>) -> Option<String> {
        let is_answered = failure.is_none_or(|failure| failure.category.needs_a_change());
        let answered = self.open_request().filter(|_| is_answered)?;
        tracing::info!(
            reason = "Checked",
            requestedAt = answered,
            "everything was read and compared again, as was asked for"
        );
        Some(answered.to_owned())
    }

    /// While nothing is done because somebody wants it so.
    pub async fn write_paused(&self, message: &str) -> Result<(), ReconcileError> {
        self.write(|old, now| status::paused(old, message, now)).await
    }

    /// When the pause is over.
    pub async fn write_resumed(&self) -> Result<(), ReconcileError> {
        self.write(status::resumed).await
    }

    /// All that there is to say.
    fn composed<'r>(
        &'r self,
        standing: Option<&'r Standing>,
        failure: Option<Failure>,
        objects: &'r [(ObjectId, Health)],
    ) -> Report<'r> {
        let own = standing.and_then(|standing| standing.own.as_ref());
        let record = standing.and_then(|standing| standing.record.as_ref());
        let all = own.map_or(&[][..], |own| &own.objects);
        Report {
            generation: self.cr.metadata.generation.unwrap_or_default(),
            deployed: record.map(|release| Deployed {
                release: &release.name,
                revision: release.revision,
                digest: release.own.as_ref().map_or("", |own| &own.digest),
                is_upgrade: !is_install(release),
                notes: release.notes.read(),
                manifest: self.shown_manifest(&release.manifest.read()),
            }),
            requested: self.answered(failure.as_ref()),
            failure,
            // What a record that went held is needed to make it anew.
            present: (standing.is_some() || self.told_revision().is_none()).then(|| Present {
                held: standing.and_then(|standing| {
                    let hold = standing.held.as_ref()?;
                    Some((hold, format!("Revision {} stays: {}", standing.revision, held_sentence(hold))))
                }),
                objects,
                kept: own.map_or(&[], |own| &own.kept),
                adopted: all
                    .iter()
                    .filter(|applied| applied.is_adopted)
                    .map(|applied| applied.id.to_string())
                    .collect(),
                namespace: standing.map(|_| self.namespace.as_str()),
                scale: self.scale(all),
            }),
            contested: self.contested(own),
            unknown_fields: self.unknown_fields(),
            repairs: self.repairs_to_tell(),
        }
    }

    /// How often objects were repaired in all, where the status does not say so yet. The status that is at hand may be older than the
    /// last one that was written.
    fn repairs_to_tell(&self) -> Option<u64> {
        let told = self.status_at("/repairs/count").and_then(Value::as_u64).unwrap_or_default();
        self.context.memory.with(&self.owner.uid, |memory| memory.repairs.all(told))
    }

    /// How long to wait before a new revision is told. Most objects become ready within a moment: then one status says all.
    fn put_off(&self, record: &Release, objects: &[(ObjectId, Health)]) -> Option<Duration> {
        const MOMENT: Duration = Duration::from_millis(150);
        let is_on_its_way = |(_, health): &(ObjectId, Health)| health.state == State::InProgress;
        let (settled, under_way): (Vec<_>, Vec<_>) = objects.iter().partition(|object| !is_on_its_way(object));
        if under_way.is_empty() || settled.iter().any(|(_, health)| !health.is_ready()) {
            return None;
        }
        let now = Instant::now();
        self.context.memory.with(&self.owner.uid, |memory| {
            let untold = memory.untold.take().filter(|untold| untold.record.revision == record.revision);
            let since = untold.as_ref().map_or(now, |untold| untold.since);
            let wait = (since + MOMENT).checked_duration_since(now).filter(|wait| !wait.is_zero())?;
            memory.untold = Some(untold.unwrap_or_else(|| Box::new(Untold { record: record.clone(), since })));
            Some(wait)
        })
    }

    /// What others decide although the chart says something else.
    fn contested(&self, own: Option<&Own>) -> Vec<String> {
        let now = Instant::now();
        let mut sentences = self.context.memory.with(&self.owner.uid, |memory| memory.fights.told(now));
        let overruled = own.into_iter().flat_map(|own| &own.objects).filter(|applied| !applied.overruled.is_empty());
        sentences.extend(overruled.map(|applied| {
            let fields = applied.overruled.join(", ");
            format!("{}: an admission webhook or policy changes what the chart sets: {fields}", applied.id)
        }));
        sentences
    }

    /// After a restart the watches know nothing yet. Until they do, what the last status said of this revision stands: it must
    /// not say "not ready" just because somebody else looks. Every watch has all reconciled when it has caught up.
    fn is_early(&self, standing: &Standing) -> bool {
        let observed = self.status_at("/observedGeneration").and_then(Value::as_i64);
        let told = self.is_told(standing.revision) && observed == self.cr.metadata.generation;
        let objects = standing.own.iter().flat_map(|own| &own.objects);
        let mut keys = objects.map(|applied| applied.id.key());
        self.context.watch.watch_dependents && told && keys.any(|key| self.context.children.is_catching_up(&key))
    }

    /// Whether the last status tells of this revision. Then its notes and its manifest stay there as they are.
    pub(super) fn is_told(&self, revision: u32) -> bool {
        let told = |pointer: &str| self.status_at(&format!("/deployedRelease/{pointer}"));
        told("revision").and_then(Value::as_u64) == Some(revision.into())
            && told("name").and_then(Value::as_str) == Some(&self.release)
            && told("manifest").is_some()
            && told("digest").is_some()
            && self.conditions().any(|condition| condition["type"] == "Deployed" && condition["status"] == "True")
    }

    fn status_at(&self, pointer: &str) -> Option<&Value> {
        self.status()?.pointer(pointer)
    }

    fn conditions(&self) -> impl Iterator<Item = &Value> {
        self.status_at("/conditions").and_then(Value::as_array).into_iter().flatten()
    }

    /// Whether the last status told the same failure: then no event repeats it.
    fn says_already(&self, message: &str) -> bool {
        self.conditions().any(|condition| condition["type"] == "Ready" && condition["message"] == message)
    }

    /// Once, when the status does not say so yet.
    async fn warn_of_unknown_fields(&self, report: &Report<'_>) {
        let Some(Some(sentence)) = &report.unknown_fields else { return };
        let shown = self.shown(sentence);
        let is_told = |condition: &Value| condition["type"] == UNKNOWN_FIELDS && condition["message"] == *shown;
        if !self.conditions().any(is_told) {
            self.warn(UNKNOWN_FIELD, sentence).await;
        }
    }

    pub async fn write_status(&self, report: &Report<'_>) -> Result<(), ReconcileError> {
        self.write(|old, now| status::next(old, report, now)).await
    }

    /// While the custom resource goes and something is waited for.
    pub async fn write_leaving(&self, message: &str, is_removed: bool) -> Result<(), ReconcileError> {
        let generation = self.cr.metadata.generation.unwrap_or_default();
        self.write(|old, now| status::leaving(old, generation, message, is_removed, now)).await
    }

    /// While a hook runs.
    pub async fn write_at_hook(&self, message: &str) -> Result<(), ReconcileError> {
        let generation = self.cr.metadata.generation.unwrap_or_default();
        self.write(|old, now| status::at_hook(old, generation, message, now)).await
    }

    /// While a rollout waits for an object.
    pub async fn write_at_object(&self, message: &str) -> Result<(), ReconcileError> {
        let generation = self.cr.metadata.generation.unwrap_or_default();
        self.write(|old, now| status::at_object(old, generation, message, now)).await
    }

    fn is_news(&self, report: &Report<'_>) -> bool {
        let old = self.status();
        status::changes(old, &self.shown_status(status::next(old, report, &now()))).is_some()
    }

    async fn write(&self, next: impl FnOnce(Option<&Value>, &str) -> Value) -> Result<(), ReconcileError> {
        let old = self.status();
        match status::changes(old, &self.shown_status(next(old, &now()))) {
            Some(changes) => self.stage(Stage::Status, self.patch_status(changes)).await,
            None => Ok(()),
        }
    }

    /// Writes only what changed: the manifest, the largest part, need not be at hand for it.
    async fn patch_status(&self, changes: Value) -> Result<(), ReconcileError> {
        // Another custom resource that took the name in the meantime has another UID, which cannot be changed.
        let patch = json!({"metadata": {"uid": self.owner.uid}, "status": changes});
        let params = PatchParams { field_manager: Some(CR_MANAGER.into()), ..Default::default() };
        let (api, patch) = (self.api(), Patch::Merge(patch));
        let written = self.calls.within(api.patch_status(&self.owner.name, &params, &patch)).await;
        match written {
            // It went in the meantime.
            Err(kube::Error::Api(status)) if status.code == 404 || is_about_uid(&status) => Ok(()),
            Ok(cr) => {
                self.note_write(cr);
                Ok(())
            }
            Err(error) => Err(ReconcileError::Write(error)),
        }
    }

    /// The health of a release's objects, from the watches, and when to look again.
    async fn observe(&self, objects: &[release::Applied]) -> (Vec<(ObjectId, Health)>, Next) {
        let mut healths = vec![];
        for applied in objects {
            let key = applied.id.key();
            let health = match self.context.children.sight(&key) {
                // Others may watch the kind, but nobody corrects what this one says.
                _ if !self.context.watch.watch_dependents => Health::new(State::Current, "Applied", "applied"),
                Sight::Present(seen) => seen.health(),
                Sight::Absent if ends_by_itself(&applied.id) => {
                    Health::new(State::Current, "Ended", "it ended and was cleaned up")
                }
                Sight::Absent => Health::not_found(),
                Sight::Unknown if self.context.children.is_blind(&key) => {
                    let remedy = "it cannot be watched; give the operator the rights list and watch on its kind";
                    Health::new(State::Unknown, "NotWatched", remedy)
                }
                Sight::Unknown => Health::new(State::InProgress, "NotSeenYet", "it was applied and not seen since"),
            };
            healths.push((applied.id.clone(), health));
        }
        let next = self.explain(&mut healths).await;
        (healths, next)
    }

    /// How many pods the release has, from the watches. None where they have not told yet.
    fn scale(&self, objects: &[release::Applied]) -> Option<Option<Scale>> {
        if !self.context.watch.watch_dependents {
            return None;
        }
        let mut workloads = vec![];
        for applied in objects.iter().filter(|applied| has_replicas(&applied.id)) {
            match self.context.children.sight(&applied.id.key()) {
                Sight::Present(seen) => workloads.push((applied.id.name.as_str(), *seen.scale?)),
                Sight::Absent => {}
                Sight::Unknown => return None,
            }
        }
        Some(scale::of_release(&self.release, workloads))
    }

    /// While workloads are not ready, and only then, their pods are asked why, less and less often.
    async fn explain(&self, healths: &mut [(ObjectId, Health)]) -> Next {
        const FIRST: Duration = Duration::from_secs(2);
        const LONGEST: Duration = Duration::from_secs(60);
        let waiting: Vec<ObjectId> = healths
            .iter()
            .filter(|(id, health)| has_pods(id) && !health.is_ready())
            .map(|(id, _)| id.clone())
            .collect();
        let memory = &self.context.memory;
        if waiting.is_empty() {
            memory.with(&self.owner.uid, |memory| {
                memory.causes.clear();
                (memory.asked, memory.ask_at) = (0, None);
            });
            return Next::Rest;
        }
        let now = Instant::now();
        let due = memory.with(&self.owner.uid, |memory| *memory.ask_at.get_or_insert(now + FIRST) <= now);
        if due {
            for id in &waiting {
                let cause = self.cause(id).await;
                memory.with(&self.owner.uid, |memory| match cause {
                    Some(cause) => drop(memory.causes.insert(id.clone(), cause)),
                    None => drop(memory.causes.remove(id)),
                });
            }
            memory.with(&self.owner.uid, |memory| {
                memory.asked += 1;
                memory.ask_at = Some(now + FIRST.saturating_mul(1 << memory.asked.min(5)).min(LONGEST));
            });
        }
        memory.with(&self.owner.uid, |memory| {
            for (id, health) in healths.iter_mut().filter(|(id, health)| has_pods(id) && !health.is_ready()) {
                if let Some(cause) = memory.causes.get(id) {
                    *health = health.clone().because(cause);
                }
            }
            Next::Look(
                memory.ask_at.map_or(FIRST, |at| at.saturating_duration_since(now).max(Duration::from_millis(100))),
            )
        })
    }

    /// Why a workload's pods are not ready. What cannot be asked is not explained: the workload's own state is told anyway.
    async fn cause(&self, id: &ObjectId) -> Option<Cause> {
        let kind = self.context.kinds.kinds().any_version(&id.group, &id.kind)?;
        let live = self.calls.get(&kind, id).await.ok()??;
        let selector = health::selector_of(&serde_json::to_value(live).ok()?)?;
        let pods: Api<Pod> = Api::namespaced(self.calls.hands(), id.namespace.as_deref()?);
        let list = self.calls.within(pods.list(&ListParams::default().labels(&selector).limit(50))).await.ok()?;
        let pods: Vec<Value> = list.items.iter().filter_map(|pod| serde_json::to_value(pod).ok()).collect();
        health::why(&pods, Timestamp::now())
    }
}

fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The next look, but not later than after this.
fn sooner(next: Next, after: Duration) -> Next {
    match next {
        Next::Rest | Next::Wait => Next::Look(after),
        Next::Look(other) => Next::Look(other.min(after)),
        Next::Soon(other) => Next::Soon(other.min(after)),
        Next::Pause(other) => Next::Pause(other.min(after)),
    }
}

fn is_about_uid(refusal: &kube::core::Status) -> bool {
    match refusal.code {
        422 => refusal.message.contains("metadata.uid"),
        // Others are those of writers who came in between, again and again.
        409 => refusal.message.contains("UID"),
        _ => false,
    }
}

fn has_replicas(id: &ObjectId) -> bool {
    matches!((id.group.as_str(), id.kind.as_str()), ("apps", "Deployment" | "StatefulSet" | "ReplicaSet"))
}

fn has_pods(id: &ObjectId) -> bool {
    matches!(
        (id.group.as_str(), id.kind.as_str()),
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet") | ("batch", "Job")
    )
}
