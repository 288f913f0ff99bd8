//! Watches on what was applied, one per kind, started when a plan first needs the kind, and shared by all watched kinds.
//!
//! They answer two questions without a call: is an object still there and as we left it, and is it healthy? Kinds whose
//! health shows in their status are watched whole, but only what [`health`] reads is looked at; of all others only the
//! metadata travels. A custom resource is told when one of its objects was deleted, changed, or got another health.

mod table;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use futures::{Stream, StreamExt, TryStreamExt, pin_mut};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DynamicObject, PartialObjectMeta, TypeMeta};
use kube::core::ObjectMeta;
use kube::discovery::ApiResource;
use kube::runtime::watcher;
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::custom_resource::{CustomResource, Place};
use crate::discovery::Kind;
use crate::drift::{self, Mark, Rules, Verdict};
use crate::health::{self, Health, Scale};
use crate::listeners::Listeners;
use crate::names::Names;
use crate::namespaces::{Namespaces, Scope};
use crate::object::{ObjectId, ObjectKey};
use crate::plan::RELEASE_LABEL;
use crate::queue::Urgency;
use crate::release::Applied;
use crate::scalers::Scalers;
use crate::watching::{self, Tolerant, tolerant_events_as};

pub use table::Seen;
use table::{Change, Life, Table};

/// Kinds of Kubernetes itself that are ready as soon as they exist.
const WITHOUT_HEALTH: [&str; 22] = [
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "CronJob",
    "Endpoints",
    "EndpointSlice",
    "HorizontalPodAutoscaler",
    "Ingress",
    "IngressClass",
    "LimitRange",
    "MutatingWebhookConfiguration",
    "Namespace",
    "NetworkPolicy",
    "PersistentVolume",
    "PriorityClass",
    "ResourceQuota",
    "Role",
    "RoleBinding",
    "Secret",
    "ServiceAccount",
    "StorageClass",
    "ValidatingWebhookConfiguration",
];

/// A kind of the same name in another group, Crossplane's `Role` for example, has a health of its own.
fn is_without_health(group: &str, kind: &str) -> bool {
    let kubernetes = !group.contains('.') || group.ends_with(".k8s.io");
    kubernetes && WITHOUT_HEALTH.contains(&kind)
}

/// The answer to "is it there?".
#[derive(Clone, Debug, PartialEq)]
pub enum Sight {
    /// The watch of its kind has not caught up yet.
    Unknown,
    Absent,
    Present(Box<Seen>),
}

/// The answer to "is it as we left it?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// As we left it, or nobody can say yet.
    Fine,
    Unsure,
    Changed,
    Gone,
}

/// Group, kind, and what the watch covers.
type Watched = (String, String, Scope);
type Tables = Mutex<HashMap<Watched, Table>>;

/// The watches on the objects of all releases.
pub struct Children {
    client: Client,
    shared: Arc<Shared>,
    namespaces: Namespaces,
    /// The version, and what ends the watch.
    started: Mutex<HashMap<Watched, (String, DropGuard)>>,
    stop: CancellationToken,
}

struct Shared {
    tables: Tables,
    listeners: Arc<Listeners>,
    names: Names,
}

impl Children {
    pub fn new(client: Client, listeners: Arc<Listeners>, namespaces: Namespaces, stop: CancellationToken) -> Self {
        let shared = Arc::new(Shared { tables: Tables::default(), listeners, names: Names::default() });
        Children { client, shared, namespaces, started: Mutex::default(), stop }
    }

    /// Starts a watch for each kind that has none; where namespaces are named, for each kind and namespace of an object.
    pub fn watch<'a>(&self, objects: impl Iterator<Item = (&'a Kind, Option<&'a str>)>) {
        for (kind, namespace) in objects {
            let resource = &kind.resource;
            let scope = self.namespaces.scope_of(namespace.filter(|_| kind.namespaced));
            let key = (resource.group.clone(), resource.kind.clone(), scope.clone());
            let mut started = locked(&self.started);
            // A version that is not served any more would never be heard of again.
            if started.get(&key).is_none_or(|(version, _)| *version != resource.version) {
                let end = self.stop.child_token();
                tokio::spawn(self.watch_one(resource.clone(), scope, end.clone()));
                started.insert(key, (resource.version.clone(), end.drop_guard()));
            }
        }
    }

    /// What is known about an object.
    pub fn sight(&self, key: &ObjectKey) -> Sight {
        let tables = locked(&self.shared.tables);
        let Some(table) = tables.get(&self.watched(key)) else { return Sight::Unknown };
        match table.get(&place_of(key)) {
            Some(seen) => Sight::Present(Box::new(seen.clone())),
            None if table.synced => Sight::Absent,
            None => Sight::Unknown,
        }
    }

    /// Whether the watch of an object's kind has been started and will tell about the object soon.
    pub fn is_catching_up(&self, key: &ObjectKey) -> bool {
        let is_started = locked(&self.started).contains_key(&self.watched(key));
        is_started && self.sight(key) == Sight::Unknown && !self.is_blind(key)
    }

    /// Whether the API server refuses the watch of an object's kind.
    pub fn is_blind(&self, key: &ObjectKey) -> bool {
        let tables = locked(&self.shared.tables);
        tables.get(&self.watched(key)).is_some_and(|table| table.is_blind)
    }

    /// The watch that sees an object.
    fn watched(&self, key: &ObjectKey) -> Watched {
        (key.group.clone(), key.kind.clone(), self.namespaces.scope_of(key.namespace.as_deref()))
    }

    /// Kinds whose objects have not all been seen yet, although the API server lets us.
    pub fn catching_up(&self) -> Vec<String> {
        let started: Vec<_> = locked(&self.started).keys().cloned().collect();
        let tables = locked(&self.shared.tables);
        let is_there = |key| tables.get(key).is_some_and(|table| table.synced || table.is_blind);
        started.iter().filter(|key| !is_there(*key)).map(|(_, kind, _)| kind.clone()).collect()
    }

    /// Takes over what an apply was answered: the watch would say the same a moment later.
    pub fn learn(&self, id: &ObjectId, metadata: &ObjectMeta, health: &Health) {
        let key = id.key();
        let health = (!is_without_health(&key.group, &key.kind)).then(|| health.clone());
        let (place, seen) = self.shared.seen(&key.group, &key.kind, metadata, health, false);
        let watched = self.watched(&key);
        locked(&self.shared.tables).entry(watched).or_default().learn(place, seen);
    }

    /// The mark of an object with this metadata.
    pub fn mark(&self, key: &ObjectKey, metadata: &ObjectMeta) -> Option<Mark> {
        Mark::of(metadata, &self.rules(key, metadata))
    }

    /// Whether the watch sees this very object with the marks of this custom resource.
    pub fn belongs_to(&self, id: &ObjectId, uid: &str, kind: &Kind, cr: &CustomResource) -> bool {
        let Sight::Present(seen) = self.sight(&id.key()) else { return false };
        &*seen.uid == uid && seen.parent.is_some() && seen.parent == self.shared.listeners.parent_of(kind, &cr.place())
    }

    /// Notes that the release of a custom resource holds this object, so that what becomes of it is told at once wherever it is,
    /// and that it was cut short is remembered.
    pub fn is_held(&self, applied: &Applied, kind: &Kind, cr: &CustomResource) {
        let (key, listeners) = (applied.id.key(), &self.shared.listeners);
        let (Some(uid), Some(parent)) = (&applied.uid, listeners.parent_of(kind, &cr.place())) else { return };
        let place = place_of(&key);
        if (parent.is_afar(&place) || ends_by_itself(&applied.id))
            && let Some(table) = locked(&self.shared.tables).get_mut(&self.watched(&key))
        {
            table.is_held(&place, uid, &parent);
        }
    }

    /// Whether an object is as the record says it was left.
    pub fn look(&self, applied: &Applied, scalers: &Scalers) -> Look {
        let key = applied.id.key();
        match self.sight(&key) {
            _ if applied.is_left_alone => Look::Fine,
            Sight::Unknown => Look::Fine,
            // What is meant to end may be cleaned up afterwards; to make it again would run it again.
            Sight::Absent if ends_by_itself(&applied.id) && !self.was_cut_short(&key) => Look::Fine,
            Sight::Absent => Look::Gone,
            Sight::Present(seen) if Some(&*seen.uid) != applied.uid.as_deref() => Look::Changed,
            Sight::Present(seen) => {
                match drift::compare(applied.mark.as_ref(), seen.mark.as_ref(), scalers.replicas(applied)) {
                    Verdict::Same => Look::Fine,
                    Verdict::Unsure => Look::Unsure,
                    Verdict::Changed => Look::Changed,
                }
            }
        }
    }

    /// Has the custom resource of an object look at it.
    pub fn wake(&self, key: &ObjectKey) {
        if let Sight::Present(seen) = self.sight(key)
            && let Some(parent) = &seen.parent
        {
            match parent.is_afar(&place_of(key)) && !seen.is_recorded {
                true => self.shared.listeners.tell_of_stranger(parent),
                false => self.shared.listeners.tell(parent, Urgency::Edit),
            }
        }
    }

    /// Drops what only a custom resource that is gone could want to know.
    pub fn forget(&self, kind: &Kind, place: &Place) {
        let Some(gone) = self.shared.listeners.parent_of(kind, place) else { return };
        locked(&self.shared.tables).values_mut().for_each(|table| table.forget(&gone));
    }

    /// Has all look at their objects.
    pub fn wake_all(&self) {
        self.shared.listeners.tell_all(Urgency::Recheck);
    }

    /// Which fields of an object others may decide.
    pub fn rules(&self, key: &ObjectKey, metadata: &ObjectMeta) -> Rules {
        let listeners = &self.shared.listeners;
        listeners.rules(key, metadata, listeners.parent(metadata).as_ref())
    }

    fn was_cut_short(&self, key: &ObjectKey) -> bool {
        let tables = locked(&self.shared.tables);
        tables.get(&self.watched(key)).is_some_and(|table| table.was_cut_short(&place_of(key)))
    }

    fn watch_one(
        &self,
        resource: ApiResource,
        scope: Scope,
        stop: CancellationToken,
    ) -> impl Future<Output = ()> + use<> {
        let (client, shared) = (self.client.clone(), self.shared.clone());
        async move {
            let (noting, noted) = (shared.clone(), resource.clone());
            if is_without_health(&resource.group, &resource.kind) {
                let api: Api<Tolerant<PartialObjectMeta<DynamicObject>>> =
                    watching::api_with(client, &scope, &resource);
                let note = move |object: PartialObjectMeta<DynamicObject>| {
                    noting.noted(&noted, Told::of_metadata(object.metadata))
                };
                let events = tolerant_events_as(api, Some(RELEASE_LABEL), None, note).map_ok(change);
                follow(events, &shared, &resource, &scope, stop).await;
            } else {
                let api: Api<Tolerant<DynamicObject>> = watching::api_with(client, &scope, &resource);
                let note = move |object: DynamicObject| noting.noted(&noted, whole(object, &noted));
                let events = tolerant_events_as(api, Some(RELEASE_LABEL), None, note).map_ok(change);
                follow(events, &shared, &resource, &scope, stop).await;
            }
        }
    }
}

async fn follow(
    events: impl Stream<Item = Result<Change, watcher::Error>>,
    shared: &Shared,
    resource: &ApiResource,
    scope: &Scope,
    stop: CancellationToken,
) {
    let watched = (resource.group.clone(), resource.kind.clone(), scope.clone());
    let events = events.take_until(stop.cancelled());
    pin_mut!(events);
    loop {
        match events.try_next().await {
            Ok(Some(change)) => shared.note(&watched, change),
            Ok(None) => break,
            Err(error) => {
                if matches!(watching::code(&error), Some(403 | 404)) {
                    shared.is_refused(&watched);
                }
                let (words, namespace) = (watching::words(&error), scope.as_deref());
                tracing::warn!(kind = resource.kind, namespace, "the watch broke; trying again: {words}");
            }
        }
    }
}

impl Shared {
    /// Whoever waits for this watch has to be told that it will not tell.
    fn is_refused(&self, watched: &Watched) {
        let was_blind = std::mem::replace(&mut locked(&self.tables).entry(watched.clone()).or_default().is_blind, true);
        if !was_blind {
            self.listeners.tell_all(Urgency::Recheck);
        }
    }

    fn note(&self, watched: &Watched, change: Change) {
        let news = locked(&self.tables).entry(watched.clone()).or_default().note(change);
        // What becomes ready during an install is part of the install.
        let urgency = if news.is_health_only { Urgency::Install } else { Urgency::Edit };
        for parent in &news.parents {
            self.listeners.tell(parent, urgency);
        }
        for parent in &news.claimed {
            self.listeners.tell_of_stranger(parent);
        }
        if news.is_synced {
            self.listeners.tell_all(Urgency::Recheck);
        }
    }

    fn noted(&self, resource: &ApiResource, told: Told) -> (Place, Seen) {
        let Told { metadata, health, is_finished, scale } = told;
        let (place, mut seen) = self.seen(&resource.group, &resource.kind, &metadata, health, is_finished);
        seen.scale = scale.map(Box::new);
        (place, seen)
    }

    fn seen(
        &self,
        group: &str,
        kind: &str,
        metadata: &ObjectMeta,
        health: Option<Health>,
        is_finished: bool,
    ) -> (Place, Seen) {
        let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref().unwrap_or_default());
        let place = Place { namespace: namespace.map(|name| self.names.share(name)), name: name.into() };
        let key = ObjectKey {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: metadata.namespace.clone(),
            name: name.to_owned(),
        };
        let mut parent = self.listeners.parent(metadata);
        if let Some(parent) = &mut parent {
            parent.place = self.names.place(&parent.place);
        }
        let mark = Mark::of(metadata, &self.listeners.rules(&key, metadata, parent.as_ref()));
        let uid = metadata.uid.as_deref().unwrap_or_default();
        let mut seen = Seen::new(uid, version(metadata), mark, health, parent);
        seen.life = match metadata.deletion_timestamp {
            _ if !is_meant_to_end(group, kind) => Life::Lasting,
            _ if is_finished => Life::Finished,
            Some(_) => Life::CutShort,
            None => Life::Running,
        };
        (place, seen)
    }
}

fn change(event: watcher::Event<(Place, Seen)>) -> Change {
    match event {
        watcher::Event::Apply((place, seen)) => Change::There(place, seen),
        watcher::Event::InitApply((place, seen)) => Change::Listed(place, seen),
        watcher::Event::Delete((place, seen)) => Change::Gone(place, seen.version),
        watcher::Event::Init => Change::ListStarts,
        watcher::Event::InitDone => Change::ListEnds,
    }
}

/// What is read of an object.
struct Told {
    metadata: ObjectMeta,
    health: Option<Health>,
    /// It has done what it was there for.
    is_finished: bool,
    scale: Option<Scale>,
}

impl Told {
    fn of_metadata(metadata: ObjectMeta) -> Self {
        Told { metadata, health: None, is_finished: false, scale: None }
    }
}

/// What is read of an object that is watched whole.
fn whole(mut object: DynamicObject, resource: &ApiResource) -> Told {
    let managed_fields = object.metadata.managed_fields.take();
    let metadata = ObjectMeta { managed_fields, ..object.metadata.clone() };
    // Items of a list come without their kind.
    object.types = Some(TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() });
    let value = serde_json::to_value(object).unwrap_or(Value::Null);
    let is_finished = is_finished(&value);
    let (health, scale) = (health::of(&value, Timestamp::now()), health::scale_of(&value));
    Told { metadata, health: Some(health), is_finished, scale }
}

/// Whether a Job or a pod has ended, well or badly.
fn is_finished(object: &Value) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let mut ends = conditions.filter(|condition| condition["status"] == "True");
    match object["kind"].as_str() {
        Some("Job") => ends.any(|condition| {
            matches!(condition["type"].as_str(), Some("Complete" | "Failed" | "SuccessCriteriaMet" | "FailureTarget"))
        }),
        Some("Pod") => matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed")),
        _ => false,
    }
}

/// The API server promises that these can be compared as numbers.
pub fn version(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Jobs, and pods that nobody manages.
pub fn ends_by_itself(id: &ObjectId) -> bool {
    is_meant_to_end(&id.group, &id.kind)
}

fn is_meant_to_end(group: &str, kind: &str) -> bool {
    matches!((group, kind), ("batch", "Job") | ("", "Pod"))
}

fn place_of(key: &ObjectKey) -> Place {
    Place::new(key.namespace.as_deref(), &key.name)
}

/// A poisoned lock still holds what was seen last.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
