//! The release records of the whole cluster in short, from one watch, so that a reconcile need not ask for them.
//!
//! Superseded records do not travel: nobody at rest needs them. One that becomes superseded leaves the watch as if it were
//! deleted. Each record is cut down to our part of it as soon as it arrives; manifests and values are never kept.
//!
//! What we write ourselves is learned from the answers. A change by anybody else (`helm rollback`, `helm uninstall`, a
//! deleted Secret) has the custom resource concerned looked at. It decides nothing: a write still names the version that it
//! is based on.

mod secret;
mod table;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use futures::{StreamExt, TryStreamExt, pin_mut};
use kube::Client;
use kube::api::Api;
use kube::core::ObjectMeta;
use kube::runtime::watcher;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{OwnerMark, Release, Revisions, Signer, Status};
use crate::aside;
use crate::children::version;
use crate::custom_resource::Place;
use crate::discovery::Kind;
use crate::namespaces::{Namespaces, Scope};
use crate::queue::{Queue, Urgency};
use crate::watching::{self, Tolerant, tolerant_events};
use secret::RecordSecret;
use table::{Entry, Life, Part, Replaced, Spot, Table, summaries};

const SELECTOR: &str = "owner=helm,status!=superseded";

#[derive(Clone, Default)]
pub struct Records(Arc<Shared>);

#[derive(Default)]
struct Shared {
    namespaces: Namespaces,
    signer: Signer,
    /// By what a watch covers.
    tables: Mutex<HashMap<Scope, Table>>,
    listeners: Mutex<Vec<Listener>>,
    /// The watches that know all records.
    synced: watch::Sender<HashSet<Scope>>,
    /// The watches that are refused, where others go on without them.
    refused: watch::Sender<HashSet<Scope>>,
}

/// Custom resources of one kind, which want to hear of their records.
struct Listener {
    group: String,
    kind: String,
    candidates: Candidates,
    queue: Arc<Queue>,
}

/// The custom resources whose release may have this namespace and name.
pub type Candidates = Arc<dyn Fn(&str, &str) -> Vec<Place> + Send + Sync>;

impl Records {
    /// Those of these namespaces, as far as they are signed.
    pub fn new(namespaces: Namespaces, signer: Signer) -> Self {
        Records(Arc::new(Shared { namespaces, signer, ..Shared::default() }))
    }

    /// Has every custom resource looked at.
    pub fn wake_all(&self) {
        for listener in locked(&self.0.listeners).iter() {
            listener.queue.tell_all(Urgency::Recheck);
        }
    }

    /// Watches until `stop`.
    pub fn start(&self, client: Client, stop: CancellationToken) {
        for scope in self.0.namespaces.scopes() {
            tokio::spawn(self.clone().follow(client.clone(), scope, stop.clone()));
        }
    }

    /// Returns once all records have been seen. A named namespace whose records may not be seen does not hold up the others.
    pub async fn synced(&self) {
        for scope in self.0.namespaces.scopes() {
            let (mut synced, mut refused) = (self.0.synced.subscribe(), self.0.refused.subscribe());
            // The senders live as long as `self`, so there is no error.
            tokio::select! {
                _ = synced.wait_for(|synced| synced.contains(&scope)) => {}
                _ = refused.wait_for(|refused| scope.is_some() && refused.contains(&scope)) => {}
            }
        }
    }

    /// Whether all records have been seen that may be seen.
    pub fn is_synced(&self) -> bool {
        let (synced, refused) = (self.0.synced.borrow(), self.0.refused.borrow());
        let is_known = |scope: &Scope| synced.contains(scope) || scope.is_some() && refused.contains(scope);
        self.0.namespaces.scopes().iter().all(is_known)
    }

    /// Has the custom resources of a kind told when somebody else changes their records.
    pub fn listen(&self, kind: &Kind, candidates: Candidates, queue: Arc<Queue>) {
        let (group, name) = (kind.resource.group.clone(), kind.resource.kind.clone());
        let mut listeners = locked(&self.0.listeners);
        // A kind whose CRD was made again has another queue.
        listeners.retain(|listener| (&listener.group, &listener.kind) != (&group, &name));
        listeners.push(Listener { group, kind: name, candidates, queue });
    }

    /// The revisions of a release, without superseded ones. None where only its records can tell.
    pub fn revisions(&self, namespace: &str, release: &str) -> Option<Revisions> {
        let scope = self.0.namespaces.scope_of(Some(namespace));
        if scope.is_some() && !self.0.synced.borrow().contains(&scope) {
            return None;
        }
        let entries = self.with(&scope, |table| table.entries(namespace, release))?;
        summaries(entries)
    }

    /// How much memory [`Records::revisions`] of a release takes.
    pub fn weight(&self, namespace: &str, release: &str) -> usize {
        let scope = self.0.namespaces.scope_of(Some(namespace));
        // As it is read, and a copy.
        4 * self.with(&scope, |table| table.own_len(namespace, release))
    }

    /// Takes over a record as we wrote it. The metadata is the answer's.
    pub(super) fn learn(&self, release: &Release, answer: &ObjectMeta) {
        let (spot, version) = (spot(&release.namespace, &release.name, release.revision), version(answer));
        self.within(&release.namespace, |table| {
            if release.status == Status::Superseded {
                return table.bury(&spot, Some(version));
            }
            let part = release.own.as_ref().map_or(Part::Foreign, Part::of);
            table.put(&spot, Entry { version, life: Life::There(release.status, part) });
        });
    }

    /// Takes over that we deleted a record.
    pub(super) fn forget(&self, namespace: &str, release: &str, revision: u32) {
        self.within(namespace, |table| table.bury(&spot(namespace, release, revision), None));
    }

    fn within<T>(&self, namespace: &str, work: impl FnOnce(&mut Table) -> T) -> T {
        self.with(&self.0.namespaces.scope_of(Some(namespace)), work)
    }

    fn with<T>(&self, scope: &Scope, work: impl FnOnce(&mut Table) -> T) -> T {
        work(locked(&self.0.tables).entry(scope.clone()).or_default())
    }

    async fn follow(self, client: Client, scope: Scope, stop: CancellationToken) {
        let api: Api<Tolerant<RecordSecret>> = watching::api(client, &scope);
        let events = tolerant_events(api, Some(SELECTOR), None);
        let events = events.take_until(stop.cancelled());
        pin_mut!(events);
        loop {
            match events.try_next().await {
                Ok(Some(event)) => self.note(&scope, read(event, self.0.signer.clone()).await),
                Ok(None) => break,
                Err(error) if watching::code(&error) == Some(403) => {
                    let place =
                        scope.as_deref().map_or("all namespaces".into(), |name| format!("the namespace {name}"));
                    tracing::error!(
                        "nothing is deployed until release records can be watched: the operator needs the rights get, list and watch on secrets in {place}: {}",
                        watching::words(&error)
                    );
                    self.0.refused.send_if_modified(|refused| refused.insert(scope.clone()));
                }
                Err(error) => {
                    let (words, namespace) = (watching::words(&error), scope.as_deref());
                    tracing::warn!(namespace, "the watch of release records broke; trying again: {words}");
                }
            }
        }
    }

    fn note(&self, scope: &Scope, event: watcher::Event<RecordSecret>) {
        let mut tables = locked(&self.0.tables);
        let table = tables.entry(scope.clone()).or_default();
        let (secret, is_there) = match event {
            watcher::Event::Init => return table.list_starts(),
            watcher::Event::InitApply(secret) => return table.listed(&secret.spot(), secret.entry(&self.0.signer)),
            watcher::Event::InitDone => {
                let Replaced { before, changed } = table.list_ends();
                for (namespace, release) in changed {
                    let mut owners = before.owners(&namespace, &release);
                    owners.extend(table.owners(&namespace, &release));
                    self.tell(&namespace, &release, &owners);
                }
                self.0.synced.send_if_modified(|synced| synced.insert(scope.clone()));
                return;
            }
            watcher::Event::Apply(secret) => (secret, true),
            watcher::Event::Delete(secret) => (secret, false),
        };
        let spot = secret.spot();
        let mut owners = table.owners(&spot.namespace, &spot.release);
        let is_news = match is_there {
            true => table.put(&spot, secret.entry(&self.0.signer)),
            false => table.remove(&spot, secret.version()),
        };
        if is_news {
            owners.extend(table.owners(&spot.namespace, &spot.release));
            self.tell(&spot.namespace, &spot.release, &owners);
        }
    }

    /// Tells the owners. Where no record names one, every kind may have a custom resource with such a release; one that does
    /// not exist is told in vain.
    fn tell(&self, namespace: &str, release: &str, owners: &[OwnerMark]) {
        for listener in locked(&self.0.listeners).iter() {
            let is_owner = |owner: &&OwnerMark| owner.group == listener.group && owner.kind == listener.kind;
            let places = match owners.iter().find(is_owner) {
                Some(owner) => vec![Place::new(owner.namespace.as_deref(), &owner.name)],
                None if owners.is_empty() => (listener.candidates)(namespace, release),
                None => continue,
            };
            places.into_iter().for_each(|place| listener.queue.tell(place, Urgency::Edit));
        }
    }
}

/// Reads our part of a record, apart from all else where it is large.
async fn read(event: watcher::Event<RecordSecret>, signer: Signer) -> watcher::Event<RecordSecret> {
    let is_large = |secret: &RecordSecret| secret.is_large();
    match event {
        watcher::Event::Apply(secret) if is_large(&secret) => {
            watcher::Event::Apply(aside::run(move || secret.with_part_read(&signer)).await)
        }
        watcher::Event::InitApply(secret) if is_large(&secret) => {
            watcher::Event::InitApply(aside::run(move || secret.with_part_read(&signer)).await)
        }
        event => event,
    }
}

fn spot(namespace: &str, release: &str, revision: u32) -> Spot {
    Spot { namespace: namespace.into(), release: release.into(), revision }
}

/// A poisoned lock still holds what was seen last.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use futures::FutureExt;
    use kube::core::GroupVersionKind;
    use kube::discovery::ApiResource;
    use serde_json::json;

    use super::*;
    use crate::release::Own;

    struct Ear(Arc<Queue>);

    impl Ear {
        fn on(records: &Records, kind: &str, namespaced: bool) -> Ear {
            let queue = Arc::new(Queue::new(None, CancellationToken::new()));
            queue.know(Place::new(namespaced.then_some("here"), "web"));
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("g.io", "v1", kind));
            let kind = Kind { resource, namespaced, has_status: true, is_manageable: true };
            let by_name =
                move |namespace: &str, release: &str| vec![Place::new(namespaced.then_some(namespace), release)];
            records.listen(&kind, Arc::new(by_name), queue.clone());
            Ear(queue)
        }

        fn heard(&mut self) -> Vec<Place> {
            std::iter::from_fn(|| self.0.next().now_or_never()).map(|turn| turn.place.clone()).collect()
        }
    }

    fn secret(name: &str, version: u64, owner: Option<&str>) -> RecordSecret {
        let own = owner.map(|kind| {
            let namespace = Some("here".to_owned());
            let owner =
                OwnerMark { group: "g.io".into(), kind: kind.into(), namespace, name: name.into(), uid: "u".into() };
            STANDARD.encode(Own { owner, ..Own::default() }.to_bytes())
        });
        let metadata = json!({
            "name": format!("sh.helm.release.v1.{name}.v1"), "namespace": "here",
            "resourceVersion": version.to_string(), "labels": {"name": name, "status": "deployed"},
        });
        serde_json::from_value(json!({"metadata": metadata, "data": {"chartwright": own}})).unwrap()
    }

    #[test]
    fn the_owner_is_told_and_nobody_else() {
        let records = Records::default();
        let (mut app, mut other) = (Ear::on(&records, "App", true), Ear::on(&records, "Other", true));
        records.note(&None, watcher::Event::Apply(secret("web", 1, Some("App"))));
        assert_eq!(app.heard(), [Place::new(Some("here"), "web")]);
        records.note(&None, watcher::Event::Delete(secret("web", 2, None)));
        assert_eq!(app.heard(), [Place::new(Some("here"), "web")], "it was the owner until now");
        assert!(other.heard().is_empty());
    }

    #[test]
    fn of_a_record_without_an_owner_every_kind_is_told_by_its_name() {
        let records = Records::default();
        let (mut app, mut cluster) = (Ear::on(&records, "App", true), Ear::on(&records, "Platform", false));
        records.note(&None, watcher::Event::Apply(secret("web", 1, None)));
        assert_eq!(
            (app.heard(), cluster.heard()),
            (vec![Place::new(Some("here"), "web")], vec![Place::new(None, "web")])
        );
        records.note(&None, watcher::Event::Apply(secret("web", 1, None)));
        assert!(app.heard().is_empty() && cluster.heard().is_empty(), "that is no news");
    }
}
