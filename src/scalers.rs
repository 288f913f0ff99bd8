//! Which workloads an autoscaler governs. Their number of replicas is its business.
//!
//! All HorizontalPodAutoscalers are watched, in the release or not, from the moment a workload with replicas is seen. Of each
//! only its target is kept.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, pin_mut};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::api::Api;
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::children::Children;
use crate::drift::Replicas;
use crate::namespaces::{Namespaces, Scope};
use crate::object::{Object, ObjectKey, split_api_version};
use crate::release::Applied;
use crate::watching::{self, Tolerant, tolerant_events};

/// How long a list of autoscalers is waited for, from the moment its watch was started.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one turn waits for it.
const MOMENT: Duration = Duration::from_millis(300);

/// Namespace and name of an autoscaler.
type Place = (Option<String>, String);

pub struct Scalers {
    client: Client,
    namespaces: Namespaces,
    /// The watches that were started, by what they cover.
    started: Mutex<HashMap<Scope, Watched>>,
    stop: CancellationToken,
}

#[derive(Clone)]
struct Watched {
    table: Arc<Mutex<Table>>,
    synced: watch::Sender<bool>,
    since: Instant,
}

#[derive(Default)]
struct Table {
    synced: bool,
    targets: HashMap<Place, ObjectKey>,
    governed: HashMap<ObjectKey, usize>,
    listing: HashSet<Place>,
}

impl Scalers {
    pub fn new(client: Client, namespaces: Namespaces, stop: CancellationToken) -> Self {
        Scalers { client, namespaces, started: Mutex::default(), stop }
    }

    /// Starts the watch that sees autoscalers of a namespace, if it does not run yet. Whose replicas may be judged anew is told
    /// through `children`.
    pub fn start(&self, namespace: Option<&str>, children: &Arc<Children>) {
        drop(self.watch(namespace, children));
    }

    /// Starts the watch, and waits for a moment until it knows all autoscalers, or that it may not know them. False where it
    /// does not yet; then another turn asks again. Whoever waited in vain leaves the replicas alone.
    pub async fn ready(&self, namespace: Option<&str>, children: &Arc<Children>) -> bool {
        let watched = self.watch(namespace, children);
        let mut synced = watched.synced.subscribe();
        // The sender lives as long as `self`, so it does not end.
        let known = tokio::time::timeout(MOMENT, synced.wait_for(|synced| *synced)).await.is_ok();
        known || watched.since.elapsed() > PATIENCE
    }

    fn watch(&self, namespace: Option<&str>, children: &Arc<Children>) -> Watched {
        let scope = self.namespaces.scope_of(namespace);
        let mut started = locked(&self.started);
        if let Some(watched) = started.get(&scope) {
            return watched.clone();
        }
        let watched = Watched { table: Arc::default(), synced: watch::Sender::new(false), since: Instant::now() };
        let api: Api<Tolerant<HorizontalPodAutoscaler>> = watching::api(self.client.clone(), &scope);
        let told = Told { watched: watched.clone(), children: children.clone() };
        tokio::spawn(follow(api, told, self.stop.clone()));
        started.insert(scope, watched.clone());
        watched
    }

    /// Whether an autoscaler targets an object. As long as nobody knows, its replicas are left alone.
    pub fn governs(&self, key: &ObjectKey) -> bool {
        self.governs_without(key, &[])
    }

    /// What there is to say about the replicas of an object that was applied.
    pub fn replicas(&self, applied: &Applied) -> Replicas {
        Replicas {
            wanted: applied.wants_replicas,
            left: applied.replicas_left,
            scaled: self.governs(&applied.id.key()),
        }
    }

    /// The same, once these autoscalers are gone.
    pub fn governs_without(&self, key: &ObjectKey, leaving: &[ObjectKey]) -> bool {
        let started = locked(&self.started);
        let Some(watched) = started.get(&self.namespaces.scope_of(key.namespace.as_deref())) else { return false };
        let table = locked(&watched.table);
        if !table.synced {
            return true;
        }
        let Some(count) = table.governed.get(key) else { return false };
        let going = leaving.iter().filter(|scaler| {
            let place = (scaler.namespace.clone(), scaler.name.clone());
            table.targets.get(&place) == Some(key)
        });
        *count > going.count()
    }
}

/// What the watch tells.
struct Told {
    watched: Watched,
    children: Arc<Children>,
}

impl Told {
    fn note(&self, event: watcher::Event<HorizontalPodAutoscaler>) {
        let is_list = matches!(event, watcher::Event::InitDone);
        let news = locked(&self.watched.table).note(event);
        news.iter().for_each(|target| self.children.wake(target));
        if is_list {
            self.is_synced();
        }
    }

    /// From now on replicas can be judged.
    fn is_synced(&self) {
        locked(&self.watched.table).synced = true;
        if !self.watched.synced.send_replace(true) {
            self.children.wake_all();
        }
    }
}

async fn follow(api: Api<Tolerant<HorizontalPodAutoscaler>>, told: Told, stop: CancellationToken) {
    let events = tolerant_events(api, None, None).take_until(stop.cancelled());
    pin_mut!(events);
    let mut is_quiet = false;
    loop {
        match events.try_next().await {
            Ok(Some(event)) => {
                is_quiet = false;
                told.note(event);
            }
            Ok(None) => break,
            Err(error) => {
                if !std::mem::replace(&mut is_quiet, true) {
                    let words = watching::words(&error);
                    tracing::warn!(
                        "cannot watch HorizontalPodAutoscalers; without the right to, replicas are set as charts say: {words}"
                    );
                }
                // Without the right to look, there is nothing to wait for. Anything else passes.
                if matches!(watching::code(&error), Some(403 | 404)) {
                    told.is_synced();
                }
            }
        }
    }
}

impl Table {
    /// Takes an event in, and tells whose replicas have to be looked at.
    fn note(&mut self, event: watcher::Event<HorizontalPodAutoscaler>) -> Vec<ObjectKey> {
        match event {
            watcher::Event::Init => {
                self.listing.clear();
                vec![]
            }
            watcher::Event::InitApply(scaler) => {
                self.listing.insert(place(&scaler));
                self.set(place(&scaler), Some(target(&scaler)))
            }
            watcher::Event::Apply(scaler) => self.set(place(&scaler), Some(target(&scaler))),
            watcher::Event::Delete(scaler) => self.set(place(&scaler), None),
            watcher::Event::InitDone => {
                let gone: Vec<_> =
                    self.targets.keys().filter(|place| !self.listing.contains(*place)).cloned().collect();
                self.listing.clear();
                self.synced = true;
                gone.into_iter().flat_map(|place| self.set(place, None)).collect()
            }
        }
    }

    fn set(&mut self, place: Place, target: Option<ObjectKey>) -> Vec<ObjectKey> {
        let before = self.targets.get(&place).cloned();
        if before == target {
            return vec![];
        }
        if let Some(before) = &before {
            let count = self.governed.entry(before.clone()).or_default();
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.governed.remove(before);
            }
        }
        match target {
            Some(target) => {
                *self.governed.entry(target.clone()).or_default() += 1;
                self.targets.insert(place, target);
            }
            None => drop(self.targets.remove(&place)),
        }
        before.into_iter().collect()
    }
}

fn place(scaler: &HorizontalPodAutoscaler) -> Place {
    (scaler.namespace(), scaler.name_any())
}

fn target(scaler: &HorizontalPodAutoscaler) -> ObjectKey {
    let reference = scaler.spec.as_ref().map(|spec| &spec.scale_target_ref);
    let text = |text: Option<&String>| text.cloned().unwrap_or_default();
    let api_version = reference.and_then(|reference| reference.api_version.as_deref()).unwrap_or_default();
    ObjectKey {
        group: split_api_version(api_version).0.to_owned(),
        kind: text(reference.map(|reference| &reference.kind)),
        namespace: scaler.namespace(),
        name: text(reference.map(|reference| &reference.name)),
    }
}

/// What an autoscaler that a chart renders will govern.
pub fn target_of(object: &Object) -> Option<ObjectKey> {
    if object.kind() != "HorizontalPodAutoscaler" || object.gvk().group != "autoscaling" {
        return None;
    }
    let reference = object.value().pointer("/spec/scaleTargetRef")?;
    let text = |key: &str| reference.get(key).and_then(Value::as_str).unwrap_or_default();
    Some(ObjectKey {
        group: split_api_version(text("apiVersion")).0.to_owned(),
        kind: text("kind").to_owned(),
        namespace: object.namespace().map(str::to_owned),
        name: text("name").to_owned(),
    })
}

/// A poisoned lock still holds targets.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn scaler(name: &str, target: &str) -> HorizontalPodAutoscaler {
        let reference = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": target});
        let value = json!({"metadata": {"namespace": "a", "name": name}, "spec": {"scaleTargetRef": reference, "maxReplicas": 3}});
        serde_json::from_value(value).unwrap()
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey { group: "apps".into(), kind: "Deployment".into(), namespace: Some("a".into()), name: name.into() }
    }

    #[test]
    fn a_workload_is_governed_as_long_as_one_autoscaler_targets_it() {
        let mut table = Table::default();
        for name in ["one", "two"] {
            assert!(table.note(watcher::Event::Apply(scaler(name, "web"))).is_empty());
        }
        assert_eq!(table.note(watcher::Event::Delete(scaler("one", "web"))), [key("web")]);
        assert!(table.governed.contains_key(&key("web")));
        assert_eq!(table.note(watcher::Event::Apply(scaler("two", "api"))), [key("web")]);
        assert!(!table.governed.contains_key(&key("web")) && table.governed.contains_key(&key("api")));
    }

    #[test]
    fn an_autoscaler_that_went_unseen_is_missed_in_the_next_list() {
        let mut table = Table::default();
        table.note(watcher::Event::Apply(scaler("one", "web")));
        table.note(watcher::Event::Init);
        assert_eq!(table.note(watcher::Event::InitDone), [key("web")]);
        assert!(table.governed.is_empty() && table.synced);
    }

    #[test]
    fn a_rendered_autoscaler_names_its_target() {
        let value = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "x", "namespace": "a"},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}});
        assert_eq!(target_of(&Object::new(value).unwrap()), Some(key("web")));
    }
}
