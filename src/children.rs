//! Watches on what was applied, one per kind, started when a plan first needs the kind.
//!
//! Metadata only: who the owner is, and whether the object was deleted or its spec changed. What changed is for the
//! reconcile to find out.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use futures::channel::mpsc::UnboundedSender;
use futures::{StreamExt, TryStreamExt, pin_mut};
use kube::api::{Api, DynamicObject, PartialObjectMeta};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::discovery::Kind;
use crate::plan::{PRIMARY_RESOURCE, PRIMARY_RESOURCE_TYPE, RELEASE_LABEL};

type Child = PartialObjectMeta<DynamicObject>;

/// The watches of one watched kind.
pub struct Children {
    client: Client,
    owner: ApiResource,
    started: Mutex<HashSet<GroupVersionKind>>,
    tell: UnboundedSender<ObjectRef<DynamicObject>>,
    stop: CancellationToken,
}

impl Children {
    pub fn new(
        client: Client,
        owner: ApiResource,
        tell: UnboundedSender<ObjectRef<DynamicObject>>,
        stop: CancellationToken,
    ) -> Self {
        Children { client, owner, started: Mutex::default(), tell, stop }
    }

    /// Starts a watch for each kind that has none.
    pub fn watch<'a>(&self, kinds: impl Iterator<Item = &'a Kind>) {
        // A poisoned lock still holds the set of started watches.
        let mut started = self.started.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for kind in kinds {
            let resource = &kind.resource;
            if started.insert(GroupVersionKind::gvk(&resource.group, &resource.version, &resource.kind)) {
                tokio::spawn(self.watch_one(resource.clone()));
            }
        }
    }

    fn watch_one(&self, resource: ApiResource) -> impl Future<Output = ()> + use<> {
        let api: Api<Child> = Api::all_with(self.client.clone(), &resource);
        let owner = self.owner.clone();
        let tell = self.tell.clone();
        let stop = self.stop.clone();
        async move {
            let config = watcher::Config::default().labels(RELEASE_LABEL);
            let events = watcher(api, config).default_backoff().take_until(stop.cancelled());
            pin_mut!(events);
            let mut generations = HashMap::new();
            loop {
                match events.try_next().await {
                    Ok(Some(event)) => {
                        if let Some(parent) = changed(&mut generations, event).and_then(|child| parent(&child, &owner))
                        {
                            // The receiver is gone only when the operator stops.
                            let _ = tell.unbounded_send(parent);
                        }
                    }
                    Ok(None) => break,
                    Err(error) => tracing::warn!(kind = resource.kind, %error, "watch broke; trying again"),
                }
            }
        }
    }
}

/// The object, if it was deleted or its spec is another than before.
fn changed(generations: &mut HashMap<String, Option<i64>>, event: watcher::Event<Child>) -> Option<Child> {
    match event {
        watcher::Event::Delete(child) => {
            generations.remove(&child.uid()?);
            Some(child)
        }
        watcher::Event::Apply(child) | watcher::Event::InitApply(child) => {
            let before = generations.insert(child.uid()?, child.metadata.generation);
            before.is_some_and(|generation| generation != child.metadata.generation).then_some(child)
        }
        watcher::Event::Init | watcher::Event::InitDone => None,
    }
}

/// The custom resource that an object belongs to, by owner reference or by annotation.
fn parent(child: &Child, owner: &ApiResource) -> Option<ObjectRef<DynamicObject>> {
    let by_reference = child.owner_references().iter().find(|reference| {
        reference.controller == Some(true)
            && reference.kind == owner.kind
            && reference.api_version.split('/').next() == owner.api_version.split('/').next()
    });
    if let Some(reference) = by_reference {
        let parent = ObjectRef::new_with(&reference.name, owner.clone());
        return Some(match child.namespace() {
            Some(namespace) => parent.within(&namespace),
            None => parent,
        });
    }
    let annotations = child.annotations();
    if *annotations.get(PRIMARY_RESOURCE_TYPE)? != format!("{}.{}", owner.kind, owner.group) {
        return None;
    }
    let (namespace, name) = annotations.get(PRIMARY_RESOURCE)?.split_once('/')?;
    let parent = ObjectRef::new_with(name, owner.clone());
    Some(if namespace.is_empty() { parent } else { parent.within(namespace) })
}
