//! The hooks that ran in a phase, in the order in which they were made.
//!
//! A hook may be gone before anybody looks, and at the end its record is gone too. So Jobs and pods are watched from the start of
//! a phase. Pods that a Job made are not hooks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ResourceExt};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::compare::Scene;
use crate::object::{HOOKS, Id};
use crate::plane::GROUP;
use crate::random::{DRAWN, Random};

const HOOK: &str = "helm.sh/hook";

/// Looks until it is dropped.
pub struct Runs {
    seen: Arc<Mutex<Seen>>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    /// UIDs of what has been seen or was there before.
    known: BTreeSet<String>,
    /// Hooks by the version in which they were made, which the API server counts across kinds.
    made: BTreeMap<u64, Id>,
    /// Why nothing more will be seen.
    broken: Option<String>,
}

impl Runs {
    /// Begins to look. What comes after this is seen, however short it lives.
    ///
    /// # Errors
    /// A watch does not begin.
    pub async fn watch(client: &Client) -> Result<Self> {
        let mut runs = Runs { seen: Arc::default(), tasks: vec![] };
        let jobs = runs.begin::<Job>(Api::all(client.clone()), "Job");
        let pods = runs.begin::<Pod>(Api::all(client.clone()), "Pod");
        for ready in [jobs, pods] {
            ready.await.context("the watch of hooks does not begin")?;
        }
        Ok(runs)
    }

    fn begin<K>(&mut self, api: Api<K>, kind: &'static str) -> oneshot::Receiver<()>
    where
        K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
    {
        let (ready, is_ready) = oneshot::channel();
        let seen = self.seen.clone();
        self.tasks.push(tokio::spawn(async move {
            let mut ready = Some(ready);
            let events = watcher(api, watcher::Config::default());
            pin_mut!(events);
            while let Some(event) = events.next().await {
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                match event {
                    Ok(Event::InitApply(object)) if ready.is_some() => {
                        seen.know(&object);
                    }
                    Ok(Event::Apply(object) | Event::InitApply(object)) => seen.note(kind, &object),
                    Ok(Event::InitDone) => drop(ready.take().map(|ready| ready.send(()))),
                    Ok(Event::Init | Event::Delete(_)) => {}
                    Err(error) => {
                        seen.broken = Some(error.to_string());
                        return;
                    }
                }
            }
        }));
        is_ready
    }

    /// The hooks so far, each as often as it was made.
    ///
    /// # Errors
    /// A watch broke: something may have been missed.
    pub fn made(&self) -> Result<Vec<Id>> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match &seen.broken {
            Some(error) => bail!("the watch of hooks broke: {error}"),
            None => Ok(seen.made.values().cloned().collect()),
        }
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Seen {
    fn know(&mut self, object: &impl Resource) -> bool {
        self.known.insert(object.uid().unwrap_or_default())
    }

    fn note(&mut self, kind: &str, object: &impl Resource) {
        let mut owners = object.owner_references().iter();
        let is_made = owners.any(|owner| owner.controller == Some(true) && !owner.api_version.starts_with(GROUP));
        let is_hook = object.annotations().contains_key(HOOK) && !is_made;
        if !self.know(object) || !is_hook {
            return;
        }
        let version = object.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default();
        let id = Id { kind: kind.into(), group: String::new(), namespace: object.namespace(), name: object.name_any() };
        self.made.insert(version, id);
    }
}

/// Puts the order into what is compared. Where no side ran a hook there is nothing to compare.
pub fn add(scenes: [&mut Scene; 2], made: [&[Id]; 2], random: &Random) {
    if made.iter().all(|it| it.is_empty()) {
        return;
    }
    let id = Id { kind: HOOKS.into(), group: String::new(), namespace: None, name: "that ran".into() };
    for (scene, made) in scenes.into_iter().zip(made) {
        scene.touched.insert(id.clone());
        scene.objects.insert(id.clone(), order(made, random));
    }
}

/// A name that the chart draws anew in each render counts by its beginning.
fn order(made: &[Id], random: &Random) -> Value {
    let plain = |id: &Id| match random.name_of(&id.kind, &id.name) {
        Some(begin) => Id { name: format!("{begin}{DRAWN}"), ..id.clone() }.to_string(),
        None => id.to_string(),
    };
    json!({"order": made.iter().map(plain).collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, uid: &str, version: &str, annotation: &str) -> Job {
        let metadata = json!({"name": name, "namespace": "a", "uid": uid, "resourceVersion": version, "annotations": {annotation: "pre-install"}});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn hooks_are_noted_once_for_each_time_they_were_made() {
        let mut seen = Seen::default();
        seen.know(&job("old", "0", "1", HOOK));
        for (name, uid, version) in
            [("old", "0", "5"), ("b", "1", "12"), ("b", "1", "13"), ("a", "2", "9"), ("b", "3", "20")]
        {
            seen.note("Job", &job(name, uid, version, HOOK));
        }
        seen.note("Job", &job("other", "4", "21", "other"));
        let mut child = job("child", "5", "22", HOOK);
        let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "b", "uid": "3", "controller": true}]);
        child.metadata.owner_references = serde_json::from_value(owner).unwrap();
        seen.note("Job", &child);
        let made: Vec<Id> = seen.made.values().cloned().collect();
        assert_eq!(order(&made, &Random::default()), json!({"order": ["Job a/a", "Job a/b", "Job a/b"]}));
    }

    #[test]
    fn an_order_is_compared_where_a_side_ran_a_hook() {
        let (mut helm, mut ours) = (Scene::default(), Scene::default());
        add([&mut helm, &mut ours], [&[], &[]], &Random::default());
        assert!(helm.objects.is_empty() && ours.objects.is_empty());
        let made = [Id { kind: "Job".into(), group: String::new(), namespace: None, name: "a".into() }];
        add([&mut helm, &mut ours], [&made, &[]], &Random::default());
        assert_eq!((helm.touched.len(), ours.touched.len()), (1, 1));
        assert_ne!(helm.objects, ours.objects);
    }
}
