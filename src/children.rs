//! Watches on what was applied, one per kind, started when a plan first needs the kind.
//!
//! They answer two questions without a call: is an object still there and as we left it, and is it healthy? Kinds whose
//! health shows in their status are watched whole, but only what [`health`] reads is looked at; of all others only the
//! metadata travels. A custom resource is told when one of its objects was deleted, changed, or got another health.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use futures::{Stream, StreamExt, TryStreamExt, pin_mut};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DynamicObject, PartialObjectMeta, TypeMeta};
use kube::core::ObjectMeta;
use kube::discovery::ApiResource;
use kube::runtime::watcher;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::custom_resource::{CustomResource, Place};
use crate::discovery::Kind;
use crate::health::{self, Health, State};
use crate::object::{ObjectId, ObjectKey, split_api_version};
use crate::plan::{PRIMARY_RESOURCE, PRIMARY_RESOURCE_TYPE, RELEASE_LABEL};
use crate::queue::{Queue, Urgency};
use crate::release::Applied;
use crate::watching;

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
fn is_without_health(resource: &ApiResource) -> bool {
    let kubernetes = !resource.group.contains('.') || resource.group.ends_with(".k8s.io");
    kubernetes && WITHOUT_HEALTH.contains(&resource.kind.as_str())
}

/// What a watch knows about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub uid: String,
    pub generation: Option<i64>,
    pub health: Health,
    /// Grows with every change, across all objects of a cluster.
    version: u64,
    parent: Option<Place>,
}

/// The answer to "is it there?".
#[derive(Clone, Debug, PartialEq)]
pub enum Sight {
    /// The watch of its kind has not caught up yet.
    Unknown,
    Absent,
    Present(Box<Seen>),
}

/// What the watch of one kind has seen.
#[derive(Default)]
struct Table {
    synced: bool,
    seen: HashMap<(Option<String>, String), Seen>,
    /// Collects a new list, which replaces the old one when it is complete.
    listing: Option<HashMap<(Option<String>, String), Seen>>,
    /// The newest version that the watch has told of.
    newest: u64,
}

/// The watches of one watched kind's objects.
pub struct Children {
    client: Client,
    owner: Kind,
    tables: Arc<Mutex<HashMap<(String, String), Table>>>,
    started: Mutex<HashSet<(String, String)>>,
    queue: Arc<Queue>,
    stop: CancellationToken,
}

impl Children {
    pub fn new(client: Client, owner: Kind, queue: Arc<Queue>, stop: CancellationToken) -> Self {
        Children { client, owner, tables: Arc::default(), started: Mutex::default(), queue, stop }
    }

    /// Starts a watch for each kind that has none.
    pub fn watch<'a>(&self, kinds: impl Iterator<Item = &'a Kind>) {
        for kind in kinds {
            let resource = &kind.resource;
            let key = (resource.group.clone(), resource.kind.clone());
            if locked(&self.started).insert(key) {
                tokio::spawn(self.watch_one(resource.clone()));
            }
        }
    }

    /// What is known about an object.
    pub fn sight(&self, key: &ObjectKey) -> Sight {
        let tables = locked(&self.tables);
        let Some(table) = tables.get(&(key.group.clone(), key.kind.clone())) else { return Sight::Unknown };
        match table.seen.get(&(key.namespace.clone(), key.name.clone())) {
            Some(seen) => Sight::Present(Box::new(seen.clone())),
            None if table.synced => Sight::Absent,
            None => Sight::Unknown,
        }
    }

    /// Whether the watch of an object's kind has been started and will tell about the object soon.
    pub fn is_catching_up(&self, key: &ObjectKey) -> bool {
        let kind = (key.group.clone(), key.kind.clone());
        self.sight(key) == Sight::Unknown && locked(&self.started).contains(&kind)
    }

    /// Takes over what an apply was answered: the watch would say the same a moment later. What the watch knows better, an
    /// object that changed or went since then, stays as the watch told it.
    pub fn learn(&self, applied: &Applied, metadata: &ObjectMeta, health: &Health) {
        let key = applied.id.key();
        let seen = seen(metadata, Some(health.clone()), &self.owner);
        let mut tables = locked(&self.tables);
        let table = tables.entry((key.group, key.kind)).or_default();
        let known = match table.seen.get(&place(metadata)) {
            Some(known) => known.version,
            None if table.synced => table.newest,
            None => 0,
        };
        if seen.version > known {
            table.seen.insert(place(metadata), seen);
        }
    }

    /// Whether the watch sees this very object with the marks of this custom resource.
    pub fn belongs_to(&self, id: &ObjectId, uid: &str, cr: &CustomResource) -> bool {
        let Sight::Present(seen) = self.sight(&id.key()) else { return false };
        seen.uid == uid && seen.parent == Some(cr.place())
    }

    /// Whether an object is not as the record says it was applied.
    pub fn has_drifted(&self, applied: &Applied) -> bool {
        match self.sight(&applied.id.key()) {
            Sight::Unknown => false,
            // What is meant to end may be cleaned up afterwards; to make it again would run it again.
            Sight::Absent => !ends_by_itself(&applied.id),
            Sight::Present(seen) => {
                Some(&seen.uid) != applied.uid.as_ref()
                    || (applied.generation.is_some() && seen.generation != applied.generation)
            }
        }
    }

    fn watch_one(&self, resource: ApiResource) -> impl Future<Output = ()> + use<> {
        let watch = Watch {
            resource: resource.clone(),
            owner: self.owner.clone(),
            tables: self.tables.clone(),
            queue: self.queue.clone(),
        };
        let (client, stop) = (self.client.clone(), self.stop.clone());
        async move {
            if is_without_health(&resource) {
                let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(client, &resource);
                let events = watching::events(api, Some(RELEASE_LABEL))
                    .map_ok(|event| event_of(event, |object| (object.metadata, None)));
                watch.follow(events, stop).await;
            } else {
                let api: Api<DynamicObject> = Api::all_with(client, &resource);
                let events = watching::events(api, Some(RELEASE_LABEL))
                    .map_ok(move |event| event_of(event, |object| whole(object, &resource)));
                watch.follow(events, stop).await;
            }
        }
    }
}

/// An event, with an object's metadata and, where it counts, its health.
enum Change {
    There(ObjectMeta, Option<Health>, bool),
    Gone(ObjectMeta),
    ListStarts,
    ListEnds,
}

fn event_of<K>(event: watcher::Event<K>, read: impl Fn(K) -> (ObjectMeta, Option<Health>)) -> Change {
    match event {
        watcher::Event::Apply(object) => {
            let (metadata, health) = read(object);
            Change::There(metadata, health, false)
        }
        watcher::Event::InitApply(object) => {
            let (metadata, health) = read(object);
            Change::There(metadata, health, true)
        }
        watcher::Event::Delete(object) => Change::Gone(read(object).0),
        watcher::Event::Init => Change::ListStarts,
        watcher::Event::InitDone => Change::ListEnds,
    }
}

fn whole(mut object: DynamicObject, resource: &ApiResource) -> (ObjectMeta, Option<Health>) {
    let metadata = object.metadata.clone();
    // Items of a list come without their kind.
    object.types = Some(TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() });
    let value = serde_json::to_value(object).unwrap_or(Value::Null);
    (metadata, Some(health::of(&value, Timestamp::now())))
}

/// One running watch.
struct Watch {
    resource: ApiResource,
    owner: Kind,
    tables: Arc<Mutex<HashMap<(String, String), Table>>>,
    queue: Arc<Queue>,
}

impl Watch {
    async fn follow(self, events: impl Stream<Item = Result<Change, watcher::Error>>, stop: CancellationToken) {
        let events = events.take_until(stop.cancelled());
        pin_mut!(events);
        loop {
            match events.try_next().await {
                Ok(Some(change)) => self.note(change),
                Ok(None) => break,
                Err(error) => {
                    let words = watching::words(&error);
                    tracing::warn!(kind = self.resource.kind, "the watch broke; trying again: {words}");
                }
            }
        }
    }

    fn note(&self, change: Change) {
        let mut tables = locked(&self.tables);
        let table = tables.entry((self.resource.group.clone(), self.resource.kind.clone())).or_default();
        match change {
            Change::ListStarts => table.listing = Some(HashMap::new()),
            Change::There(metadata, health, in_list) => self.note_object(table, metadata, health, in_list),
            Change::Gone(metadata) => {
                table.newest = table.newest.max(version(&metadata));
                table.seen.remove(&place(&metadata));
                tell(&self.queue, parent(&metadata, &self.owner));
            }
            Change::ListEnds => {
                if !std::mem::replace(&mut table.synced, true) {
                    // Whoever misses an object of this kind can see it only now.
                    self.queue.tell_all(Urgency::Recheck);
                }
                let Some(mut listed) = table.listing.take() else { return };
                let newest = listed.values().map(|seen| seen.version).max().unwrap_or_default();
                for (place, seen) in table.seen.drain() {
                    match listed.contains_key(&place) {
                        true => {}
                        // Learned from an answer while the list was under way.
                        false if seen.version > newest => drop(listed.insert(place, seen)),
                        // What is missing from a new list went while nobody watched.
                        false => tell(&self.queue, seen.parent),
                    }
                }
                table.seen = listed;
                table.newest = table.newest.max(newest);
            }
        }
    }

    fn note_object(&self, table: &mut Table, metadata: ObjectMeta, health: Option<Health>, in_list: bool) {
        let place = place(&metadata);
        let seen = seen(&metadata, health, &self.owner);
        table.newest = table.newest.max(seen.version);
        if let (true, Some(listing)) = (in_list, &mut table.listing) {
            listing.insert(place.clone(), seen.clone());
        }
        if table.seen.get(&place).is_some_and(|known| known.version > seen.version) {
            return;
        }
        let before = table.seen.insert(place, seen.clone());
        let is_news = before.is_none_or(|before| {
            (&before.uid, before.generation) != (&seen.uid, seen.generation)
                || (before.health.state, &before.health.reason) != (seen.health.state, &seen.health.reason)
        });
        if is_news {
            tell(&self.queue, seen.parent);
        }
    }
}

fn tell(queue: &Queue, parent: Option<Place>) {
    if let Some(parent) = parent {
        queue.tell(parent, Urgency::Edit);
    }
}

fn seen(metadata: &ObjectMeta, health: Option<Health>, owner: &Kind) -> Seen {
    Seen {
        uid: metadata.uid.clone().unwrap_or_default(),
        generation: metadata.generation,
        health: health.unwrap_or_else(|| Health::new(State::Current, "Exists", "it exists")),
        version: version(metadata),
        parent: parent(metadata, owner),
    }
}

/// The API server promises that these can be compared as numbers.
pub fn version(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Jobs, and pods that nobody manages.
pub fn ends_by_itself(id: &ObjectId) -> bool {
    matches!((id.group.as_str(), id.kind.as_str()), ("batch", "Job") | ("", "Pod"))
}

fn place(metadata: &ObjectMeta) -> (Option<String>, String) {
    (metadata.namespace.clone(), metadata.name.clone().unwrap_or_default())
}

/// A poisoned lock still holds what was seen last.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The custom resource that an object belongs to, by owner reference or by annotation.
fn parent(metadata: &ObjectMeta, owner: &Kind) -> Option<Place> {
    let resource = &owner.resource;
    let reference_to = |name: &str, namespace: Option<&str>| Place::new(namespace.filter(|_| owner.namespaced), name);
    let by_reference = metadata.owner_references.iter().flatten().find(|reference| {
        reference.controller == Some(true)
            && reference.kind == resource.kind
            && split_api_version(&reference.api_version).0 == resource.group
    });
    if let Some(reference) = by_reference {
        return Some(reference_to(&reference.name, metadata.namespace.as_deref()));
    }
    let annotations = metadata.annotations.as_ref()?;
    if *annotations.get(PRIMARY_RESOURCE_TYPE)? != format!("{}.{}", resource.kind, resource.group) {
        return None;
    }
    let (namespace, name) = annotations.get(PRIMARY_RESOURCE)?.split_once('/')?;
    Some(reference_to(name, Some(namespace)))
}
