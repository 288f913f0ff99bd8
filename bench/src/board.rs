//! What is in the cluster, as watches tell it: the custom resources and the objects that they become.
//!
//! Latencies are measured against this board. The watches are open before anything is measured, so nothing is polled.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Web,
    ServiceAccount,
    Service,
    Deployment,
    Ingress,
}

/// What the chart makes.
pub const CHILDREN: [Kind; 4] = [Kind::ServiceAccount, Kind::Service, Kind::Deployment, Kind::Ingress];

impl Kind {
    pub fn resource(self) -> ApiResource {
        let (group, kind) = match self {
            Kind::Web => ("bench.chartwright.dev", "Web"),
            Kind::ServiceAccount => ("", "ServiceAccount"),
            Kind::Service => ("", "Service"),
            Kind::Deployment => ("apps", "Deployment"),
            Kind::Ingress => ("networking.k8s.io", "Ingress"),
        };
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind))
    }

    /// The place in an object that the benchmark changes.
    fn field(self) -> &'static str {
        match self {
            Kind::Deployment => "/spec/template/spec/containers/0/image",
            Kind::Service => "/spec/ports/0/targetPort",
            Kind::Web | Kind::ServiceAccount | Kind::Ingress => "",
        }
    }
}

/// What is kept of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    pub uid: String,
    pub version: u64,
    /// The text of the field that the benchmark changes.
    pub field: String,
    deployed: bool,
    ready: bool,
}

/// A namespace and a name.
pub type Place = (String, String);

#[derive(Default)]
pub struct Board {
    seen: HashMap<Kind, HashMap<Place, Seen>>,
    /// Custom resources with the condition Deployed.
    pub deployed: usize,
    /// Custom resources with the condition Ready.
    pub ready: usize,
    lists: usize,
}

impl Board {
    pub fn count(&self, kind: Kind) -> usize {
        self.seen.get(&kind).map_or(0, HashMap::len)
    }

    pub fn get(&self, kind: Kind, place: &Place) -> Option<&Seen> {
        self.seen.get(&kind)?.get(place)
    }

    /// Exactly so many custom resources and objects of each kind are there.
    pub fn has(&self, n: usize) -> bool {
        self.count(Kind::Web) == n && CHILDREN.iter().all(|kind| self.count(*kind) == n)
    }

    /// A list of a kind is complete: what was seen before and is not in it has gone.
    fn listed(&mut self, kind: Kind, all: &HashSet<Place>) {
        let seen = self.seen.entry(kind).or_default();
        let gone: Vec<Place> = seen.keys().filter(|place| !all.contains(*place)).cloned().collect();
        for place in gone {
            self.put(kind, place, None);
        }
        self.lists += 1;
    }

    fn put(&mut self, kind: Kind, place: Place, seen: Option<Seen>) {
        let (deployed, ready) = seen.as_ref().map_or((false, false), |it| (it.deployed, it.ready));
        let all = self.seen.entry(kind).or_default();
        let before = match seen {
            Some(seen) => all.insert(place, seen),
            None => all.remove(&place),
        };
        let before = before.unwrap_or_default();
        self.deployed = self.deployed + usize::from(deployed) - usize::from(before.deployed);
        self.ready = self.ready + usize::from(ready) - usize::from(before.ready);
    }
}

/// Follows the cluster until it is dropped.
pub struct Watches {
    client: Client,
    prefix: &'static str,
    tell: watch::Sender<Board>,
    board: watch::Receiver<Board>,
    tasks: Mutex<JoinSet<()>>,
}

impl Watches {
    /// Follows the custom resources in namespaces whose name begins with `prefix`.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn open(client: &Client, prefix: &'static str) -> Result<Self> {
        let (tell, board) = watch::channel(Board::default());
        let watches = Watches { client: client.clone(), prefix, tell, board, tasks: Mutex::default() };
        watches.follow(&[Kind::Web]).await?;
        Ok(watches)
    }

    /// Follows their objects too. During the install nobody does, since that would be part of the load.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn follow_objects(&self) -> Result<()> {
        self.follow(&CHILDREN).await
    }

    async fn follow(&self, kinds: &[Kind]) -> Result<()> {
        let all = self.now().lists + kinds.len();
        for kind in kinds {
            let task = follow(self.client.clone(), *kind, self.prefix, self.tell.clone());
            self.tasks.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).spawn(task);
        }
        self.until(Duration::from_secs(120), "the watches to open", |board| board.lists >= all).await
    }

    /// Waits for a state of the board.
    ///
    /// # Errors
    /// It did not come within `patience`.
    pub async fn until(&self, patience: Duration, what: &str, wanted: impl Fn(&Board) -> bool) -> Result<()> {
        let mut board = self.board.clone();
        let waited = tokio::time::timeout(patience, board.wait_for(|board| wanted(board))).await;
        if let Ok(told) = waited {
            told.context("the watches ended")?;
            return Ok(());
        }
        let now = self.now();
        let counts: Vec<String> = CHILDREN.iter().map(|kind| format!("{} {kind:?}", now.count(*kind))).collect();
        let webs = format!("{} Web, {} deployed, {} ready", now.count(Kind::Web), now.deployed, now.ready);
        bail!("waited {patience:?} for {what}; there are {webs}, {}", counts.join(", "))
    }

    pub fn now(&self) -> watch::Ref<'_, Board> {
        self.board.borrow()
    }
}

async fn follow(client: Client, kind: Kind, prefix: &'static str, board: watch::Sender<Board>) {
    let api: Api<DynamicObject> = Api::all_with(client, &kind.resource());
    let config = match kind {
        Kind::Web => watcher::Config::default(),
        _ => watcher::Config::default().labels("app.kubernetes.io/name=web"),
    };
    let mut events = std::pin::pin!(watcher(api, config).default_backoff());
    let place = |object: &DynamicObject| (object.namespace().unwrap_or_default(), object.name_any());
    // What a list had. A watch that broke may have missed deletions.
    let mut listed = HashSet::new();
    while let Some(event) = events.next().await {
        let (object, is_there) = match event {
            Ok(watcher::Event::Apply(object)) => (object, true),
            Ok(watcher::Event::InitApply(object)) => {
                listed.insert(place(&object));
                (object, true)
            }
            Ok(watcher::Event::Delete(object)) => (object, false),
            Ok(watcher::Event::InitDone) => {
                board.send_modify(|board| board.listed(kind, &listed));
                continue;
            }
            Ok(watcher::Event::Init) => {
                listed.clear();
                continue;
            }
            // It is opened again.
            Err(_) => continue,
        };
        let place = place(&object);
        if place.0.starts_with(prefix) {
            let seen = is_there.then(|| read(kind, &object));
            board.send_modify(|board| board.put(kind, place, seen));
        }
    }
}

fn read(kind: Kind, object: &DynamicObject) -> Seen {
    let text = |value: &Value| value.as_str().map(str::to_owned).unwrap_or_else(|| value.to_string());
    let condition = |wanted: &str| {
        let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
        conditions.into_iter().flatten().any(|it| it["type"] == wanted && it["status"] == "True")
    };
    Seen {
        uid: object.uid().unwrap_or_default(),
        version: version(&object.metadata),
        field: object.data.pointer(kind.field()).map(text).filter(|_| !kind.field().is_empty()).unwrap_or_default(),
        deployed: kind == Kind::Web && condition("Deployed"),
        ready: kind == Kind::Web && condition("Ready"),
    }
}

/// Resource versions of one API server can be compared.
pub fn version(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_that_goes_takes_its_conditions_with_it() {
        let mut board = Board::default();
        let place = ("a".to_owned(), "b".to_owned());
        let seen = Seen { deployed: true, ready: true, ..Seen::default() };
        board.put(Kind::Web, place.clone(), Some(seen.clone()));
        board.put(Kind::Web, place.clone(), Some(seen));
        assert_eq!((board.count(Kind::Web), board.deployed, board.ready), (1, 1, 1));
        board.listed(Kind::Web, &HashSet::new());
        assert_eq!((board.count(Kind::Web), board.deployed, board.ready), (0, 0, 0));
    }
}
