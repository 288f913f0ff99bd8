//! One custom resource while it is being reconciled: who it is, what its release is called, what it says about itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::rollout::INSTALLED;
use super::{Next, ReconcileError, lifecycle_hooks};
use crate::applyset::{self, Contents};
use crate::calls::Calls;
use crate::chart::Chart;
use crate::chart::reload::Live;
use crate::children::{Children, Sight};
use crate::claims::Claims;
use crate::discovery::{Cache, Kind};
use crate::health::{self, Cause, Health, State};
use crate::manifest::{self, Rendered};
use crate::object::ObjectId;
use crate::plan::{Owner, Target};
use crate::release::digest::Parts;
use crate::release::{self, History, OwnerMark, Release, Store};
use crate::render::{Helm, Request};
use crate::status::{self, Deployed, Failure, Report};
use crate::telemetry::events::Events;
use crate::values::Values;
use crate::watches::Watch;

/// The name under which the custom resource itself is written.
pub const CR_MANAGER: &str = "chartwright";
/// operator-sdk's, so that a project can change sides in both directions.
pub const FINALIZER: &str = "helm.sdk.operatorframework.io/uninstall-release";
pub const OLDER_FINALIZER: &str = "uninstall-helm-release";

/// What a reconcile needs besides the custom resource.
pub struct Context {
    pub client: Client,
    pub helm: Helm,
    pub helm_slots: Arc<Semaphore>,
    pub calls: Calls,
    pub claims: Claims,
    pub store: Store,
    pub kinds: Arc<Cache>,
    pub watch: Watch,
    pub chart: Arc<Live>,
    /// The custom resource's own kind.
    pub primary: Kind,
    /// Where the releases of cluster-scoped resources live.
    pub default_namespace: String,
    pub children: Children,
    pub events: Events,
    pub memory: Memory,
}

/// What is remembered about custom resources between reconciles. All of it may be lost.
#[derive(Default)]
pub struct Memory(Mutex<HashMap<String, Remembered>>);

#[derive(Default)]
struct Remembered {
    /// A digest that cannot be deployed, and why.
    refused: Option<(String, Failure)>,
    /// The digest of the running attempt.
    trying: String,
    /// Why objects are not ready, and when to ask again.
    causes: HashMap<ObjectId, Cause>,
    asked: u32,
    ask_at: Option<Instant>,
}

impl Memory {
    fn of(&self, uid: &str) -> MutexGuard<'_, HashMap<String, Remembered>> {
        // A poisoned lock still holds what was remembered.
        let mut all = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        all.entry(uid.to_owned()).or_default();
        all
    }

    fn with<T>(&self, uid: &str, change: impl FnOnce(&mut Remembered) -> T) -> T {
        change(self.of(uid).entry(uid.to_owned()).or_default())
    }

    pub fn forget(&self, uid: &str) {
        self.of(uid).remove(uid);
    }
}

/// A custom resource and everything around it.
pub struct Subject<'a> {
    pub cr: &'a DynamicObject,
    pub context: &'a Context,
    pub owner: Owner,
    pub release: String,
    pub namespace: String,
}

impl<'a> Subject<'a> {
    pub fn of(cr: &'a DynamicObject, context: &'a Context) -> Self {
        let owner = Owner {
            gvk: context.watch.gvk.clone(),
            namespace: cr.namespace(),
            name: cr.name_any(),
            uid: cr.metadata.uid.clone().unwrap_or_default(),
        };
        let fallback = context.watch.release_namespace.as_ref().unwrap_or(&context.default_namespace);
        let namespace = owner.namespace.clone().unwrap_or_else(|| fallback.clone());
        Subject { cr, context, release: owner.name.clone(), namespace, owner }
    }

    pub fn target<'b>(&'b self, chart: &'b str) -> Target<'b> {
        Target {
            release: &self.release,
            namespace: &self.namespace,
            chart,
            owner: &self.owner,
            allow_empty: self.context.watch.allow_empty,
        }
    }

    pub fn owner_mark(&self) -> OwnerMark {
        OwnerMark {
            group: self.owner.gvk.group.clone(),
            kind: self.owner.gvk.kind.clone(),
            namespace: self.owner.namespace.clone(),
            name: self.owner.name.clone(),
            uid: self.owner.uid.clone(),
        }
    }

    pub async fn history(&self) -> Result<History, ReconcileError> {
        Ok(self.context.store.history(&self.namespace, &self.release).await?)
    }

    /// Refuses a release that another tool or another custom resource made.
    pub fn check_owner(&self, history: &History) -> Result<(), ReconcileError> {
        let Some(latest) = history.latest() else { return Ok(()) };
        let who = match &latest.own {
            None => "was made by another tool".to_owned(),
            Some(own) if own.owner.is_same_resource(&self.owner_mark()) => return Ok(()),
            Some(own) => format!("belongs to the {} {}", own.owner.kind, own.owner.name),
        };
        Err(ReconcileError::NotOurs { release: format!("{}/{}", self.namespace, self.release), who })
    }

    pub fn digest(&self, chart: &Chart, values: &Values) -> String {
        let digest = release::digest(&Parts {
            chart: &chart.digest,
            release: &self.release,
            namespace: &self.namespace,
            values: &values.file_json(),
            options: &[],
        });
        self.context.memory.with(&self.owner.uid, |memory| memory.trying = digest.clone());
        digest
    }

    /// Renders, with a helm slot.
    pub async fn render(&self, chart: &Chart, values: &Values, history: &History) -> Result<Rendered, ReconcileError> {
        let kinds = self.context.kinds.kinds();
        let request = Request {
            chart,
            release: &self.release,
            namespace: &self.namespace,
            values,
            capabilities: &kinds.capabilities,
            is_upgrade: history.deployed().is_some(),
        };
        // The semaphore is never closed.
        let _slot = self.context.helm_slots.acquire().await;
        let text = self.context.helm.template(&request).await?;
        let rendered = manifest::read(&text)?;
        self.warn_about(values, &rendered).await;
        Ok(rendered)
    }

    /// What this version does not do, or cannot do exactly. Whoever relies on it has to know.
    async fn warn_about(&self, values: &Values, rendered: &Rendered) {
        let hooks = lifecycle_hooks(rendered);
        if !hooks.is_empty() {
            let message = format!("This version does not run the chart's hooks: {}", hooks.join("; "));
            self.warn("HooksNotRun", &message).await;
        }
        for left_out in values.left_out() {
            self.warn("InexactInteger", &left_out.to_string()).await;
        }
    }

    pub async fn warn(&self, reason: &str, message: &str) {
        self.context.events.warning(self.cr, self.context, reason, message).await;
    }

    pub async fn tell(&self, reason: &str, message: &str) {
        self.context.events.normal(self.cr, self.context, reason, message).await;
    }

    /// Whether an annotation of the custom resource says yes, as Go reads booleans.
    pub fn is_asked(&self, annotation: &str) -> bool {
        let text = self.cr.annotations().get(annotation).map(String::as_str).unwrap_or_default();
        matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")
    }

    pub fn check_refusal(&self, digest: &str) -> Result<(), ReconcileError> {
        let refused = self.context.memory.with(&self.owner.uid, |memory| memory.refused.clone());
        match refused {
            Some((refused, failure)) if refused == digest => Err(ReconcileError::Again(failure)),
            _ => Ok(()),
        }
    }

    /// Remembers what only a change of the input can repair, so that helm is not run for it again.
    pub fn remember(&self, error: &ReconcileError, failure: &Failure) {
        if error.depends_on_input_only() {
            let failure = failure.clone();
            self.context.memory.with(&self.owner.uid, |memory| {
                memory.refused = Some((memory.trying.clone(), failure));
            });
        }
    }

    /// Makes sure that the custom resource carries the finalizer and says what its release contains.
    pub async fn mark_parent(&self, contents: &Contents) -> Result<(), ReconcileError> {
        let annotations = contents.annotations();
        let id = applyset::id(&self.owner);
        let has_finalizer = self.cr.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
        let has_label = self.cr.labels().get(applyset::ID) == Some(&id);
        let has =
            |(key, value): (&String, &Value)| self.cr.annotations().get(key).map(String::as_str) == value.as_str();
        if has_finalizer && has_label && annotations.as_object().into_iter().flatten().all(has) {
            return Ok(());
        }
        let gvk = &self.owner.gvk;
        let patch = json!({
            "apiVersion": gvk.api_version(),
            "kind": gvk.kind,
            "metadata": {
                "name": self.owner.name,
                // An apply creates what is not there. A custom resource that went in the meantime must stay away.
                "uid": self.owner.uid,
                "finalizers": [FINALIZER],
                "labels": {applyset::ID: id},
                "annotations": annotations,
            },
        });
        let params = PatchParams::apply(CR_MANAGER).force();
        let (api, patch) = (self.api(), Patch::Apply(patch));
        let written = self.context.calls.within(api.patch(&self.owner.name, &params, &patch)).await;
        written.map(|_| ()).map_err(ReconcileError::Write)
    }

    pub fn contents(&self) -> Contents {
        Contents::read(|key| self.cr.annotations().get(key).cloned())
    }

    pub fn api(&self) -> Api<DynamicObject> {
        let resource = &self.context.primary.resource;
        match &self.owner.namespace {
            Some(namespace) => Api::namespaced_with(self.context.client.clone(), namespace, resource),
            None => Api::all_with(self.context.client.clone(), resource),
        }
    }

    /// Observes the release's objects and writes the status if it says something new.
    pub async fn report(&self, release: Option<&Release>, failure: Option<Failure>) -> Result<Next, ReconcileError> {
        if let Some(failure) = failure.as_ref().filter(|failure| !self.says_already(&failure.message)) {
            self.warn(failure.category.as_str(), &failure.message).await;
        }
        let own = release.and_then(|release| release.own.as_ref());
        if let (Some(release), None) = (release, &failure)
            && self.is_early(release)
        {
            return Ok(Next::Rest);
        }
        let (objects, next) = self.observe(own.map_or(&[], |own| &own.objects)).await;
        let manifest = release.map(|release| release::without_secret_data(&release.manifest)).unwrap_or_default();
        let report = Report {
            generation: self.cr.metadata.generation.unwrap_or_default(),
            deployed: release.map(|release| Deployed {
                release: &release.name,
                revision: release.revision,
                is_upgrade: release.description != INSTALLED,
                notes: &release.notes,
                manifest: &manifest,
            }),
            failure,
            objects: &objects,
            kept: own.map_or(&[], |own| &own.kept),
        };
        self.write_status(&report).await?;
        Ok(next)
    }

    /// After a restart the watches know nothing yet. Until they do, what the last status said of this revision stands: it must
    /// not say "not ready" just because somebody else looks. Every watch has all reconciled when it has caught up.
    fn is_early(&self, release: &Release) -> bool {
        let status = |pointer: &str| self.cr.data.pointer(pointer).and_then(Value::as_i64);
        let told = status("/status/deployedRelease/revision") == Some(release.revision.into())
            && status("/status/observedGeneration") == self.cr.metadata.generation;
        let objects = release.own.iter().flat_map(|own| &own.objects);
        let mut keys = objects.map(|applied| applied.id.key());
        told && keys.any(|key| self.context.children.is_catching_up(&key))
    }

    /// Whether the last status told the same failure: then no event repeats it.
    fn says_already(&self, message: &str) -> bool {
        let conditions = self.cr.data.pointer("/status/conditions").and_then(Value::as_array);
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|condition| condition["type"] == "Ready" && condition["message"] == message)
    }

    pub async fn write_status(&self, report: &Report<'_>) -> Result<(), ReconcileError> {
        let old = self.cr.data.get("status");
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let new = status::next(old, report, &now);
        if old == Some(&new) {
            return Ok(());
        }
        let gvk = &self.owner.gvk;
        let patch = json!({
            "apiVersion": gvk.api_version(),
            "kind": gvk.kind,
            "metadata": {"name": self.owner.name, "uid": self.owner.uid},
            "status": new,
        });
        let params = PatchParams::apply(CR_MANAGER).force();
        let written = self.api().patch_status(&self.owner.name, &params, &Patch::Apply(patch)).await;
        match written {
            // It went in the meantime.
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
            written => written.map(|_| ()).map_err(ReconcileError::Write),
        }
    }

    /// The health of a release's objects, from the watches, and when to look again.
    async fn observe(&self, objects: &[release::Applied]) -> (Vec<(ObjectId, Health)>, Next) {
        let mut healths = vec![];
        for applied in objects {
            let health = match self.context.children.sight(&applied.id.key()) {
                Sight::Present(seen) => seen.health,
                Sight::Absent => Health::not_found(),
                Sight::Unknown if !self.context.watch.watch_dependents => {
                    Health::new(State::Current, "Applied", "applied")
                }
                Sight::Unknown => Health::new(State::InProgress, "NotSeenYet", "it was applied and not seen since"),
            };
            healths.push((applied.id.clone(), health));
        }
        let next = self.explain(&mut healths).await;
        (healths, next)
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
            memory.with(&self.owner.uid, |memory| (memory.asked, memory.ask_at) = (0, None));
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
        let live = self.context.calls.get(&kind, id).await.ok()??;
        let selector = health::selector_of(&serde_json::to_value(live).ok()?)?;
        let pods: Api<Pod> = Api::namespaced(self.context.client.clone(), id.namespace.as_deref()?);
        let list =
            self.context.calls.within(pods.list(&ListParams::default().labels(&selector).limit(50))).await.ok()?;
        let pods: Vec<Value> = list.items.iter().filter_map(|pod| serde_json::to_value(pod).ok()).collect();
        health::why(&pods, Timestamp::now())
    }
}

fn has_pods(id: &ObjectId) -> bool {
    matches!(
        (id.group.as_str(), id.kind.as_str()),
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet") | ("batch", "Job")
    )
}
