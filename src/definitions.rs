//! The CustomResourceDefinitions that are there, from one watch on their metadata for all kinds together.
//!
//! It tells when a kind may have come, changed or gone; what the kind is then, discovery says. An operator that may not read
//! CustomResourceDefinitions works too: whoever misses one has to ask discovery from time to time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, pin_mut};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, PartialObjectMeta};
use kube::core::ObjectMeta;
use kube::runtime::watcher::{self, Event};
use tokio::sync::watch;

use crate::discovery::Kind;
use crate::watching::{self, Tolerant, tolerant_events};

/// Somebody may give the permission while the operator runs.
const ASK_AGAIN: Duration = Duration::from_secs(300);

/// One definition, as far as anybody asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    pub uid: String,
    /// Changes with its spec.
    pub generation: i64,
    /// Changes with anything, its conditions too.
    version: String,
}

/// All of them by name, which is `<plural>.<group>`; None while they cannot be listed.
#[derive(Clone, Debug, Default)]
pub struct Known {
    all: Option<Arc<HashMap<String, Definition>>>,
    /// When this was learned.
    since: Option<Instant>,
}

/// By what is there, whenever that was learned.
impl PartialEq for Known {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl Known {
    /// Whether the list tells of everything that comes.
    pub fn is_complete(&self) -> bool {
        self.all.is_some()
    }

    /// Whether nothing has come, changed or gone for so long.
    pub fn is_older_than(&self, age: Duration) -> bool {
        self.since.is_some_and(|since| since.elapsed() > age)
    }

    pub fn of(&self, kind: &Kind) -> Option<&Definition> {
        self.all.as_ref()?.get(&format!("{}.{}", kind.resource.plural, kind.resource.group))
    }

    /// Those of a group, in any order that stays.
    pub fn in_group(&self, group: &str) -> Vec<(String, Definition)> {
        let is_meant = |name: &str| name.split_once('.').is_some_and(|(_, of)| of == group);
        let all = self.all.iter().flat_map(|all| all.iter());
        let mut found: Vec<_> =
            all.filter(|(name, _)| is_meant(name)).map(|(name, it)| (name.clone(), it.clone())).collect();
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        found
    }
}

/// Tells what is known, now and after each change.
pub type Definitions = watch::Receiver<Known>;

/// Starts to watch. The watch ends when nobody listens any more.
pub fn follow(client: Client) -> Definitions {
    let (tell, told) = watch::channel(Known::default());
    tokio::spawn(async move {
        let following = async {
            let (api, mut said) = (Api::all(client), false);
            while let Some(error) = refusal(&api, &tell).await {
                tell.send_replace(Known::default());
                if !std::mem::replace(&mut said, true) {
                    let words = watching::words(&error);
                    tracing::info!("CustomResourceDefinitions cannot be watched; kinds are asked for: {words}");
                }
                tokio::time::sleep(ASK_AGAIN).await;
            }
        };
        tokio::select! {
            () = following => {}
            () = tell.closed() => {}
        }
    });
    told
}

/// Watches until that is refused. The watch is over then, for all who count watches: it can be done without.
async fn refusal(
    api: &Api<Tolerant<PartialObjectMeta<CustomResourceDefinition>>>,
    tell: &watch::Sender<Known>,
) -> Option<watcher::Error> {
    let mut all = HashMap::new();
    let events = tolerant_events(api.clone(), None, None);
    pin_mut!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => note(&mut all, event, tell),
            Err(error) if watching::code(&error) == Some(403) => return Some(error),
            Err(error) => {
                let words = watching::words(&error);
                tracing::warn!("the watch of CustomResourceDefinitions broke; trying again: {words}");
            }
        }
    }
    None
}

fn note(
    all: &mut HashMap<String, Definition>,
    event: Event<PartialObjectMeta<CustomResourceDefinition>>,
    tell: &watch::Sender<Known>,
) {
    match event {
        Event::Init => return all.clear(),
        Event::InitApply(it) => return drop(all.insert(name(&it.metadata), definition(&it.metadata))),
        Event::InitDone => {}
        Event::Apply(it) => drop(all.insert(name(&it.metadata), definition(&it.metadata))),
        Event::Delete(it) => drop(all.remove(&name(&it.metadata))),
    }
    let now = Known { all: Some(Arc::new(all.clone())), since: Some(Instant::now()) };
    tell.send_if_modified(|known| {
        let is_new = *known != now;
        if is_new {
            *known = now;
        }
        is_new
    });
}

fn name(metadata: &ObjectMeta) -> String {
    metadata.name.clone().unwrap_or_default()
}

fn definition(metadata: &ObjectMeta) -> Definition {
    Definition {
        uid: metadata.uid.clone().unwrap_or_default(),
        generation: metadata.generation.unwrap_or_default(),
        version: metadata.resource_version.clone().unwrap_or_default(),
    }
}
