//! The newest revision of each release, in Secrets of the operator's namespace.
//!
//! A signature proves who wrote a record, and not that it is the newest: an old record can be written again, and a newer one deleted. So before
//! a revision is applied, its number is noted here, where no tenant can write. A revision is recorded first and noted then; a crash between the
//! two leaves a signed record above the noted one, which nobody else can have made.
//!
//! Each release has a Secret of its own, so no release can use up the room of another. A write names the version of the Secret that it is based
//! on: of two operators in one namespace, neither lowers what the other noted.

mod entry;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;
use tokio::sync::OnceCell;

use super::{MANAGER, TrustError, code, failed};
use crate::calls::Calls;
use crate::object::ObjectId;
use crate::release::OwnerMark;
// The Secrets are called so, with a hash behind it.
use crate::sensitive::LEDGER as PREFIX;

use entry::Noted;
pub use entry::{Entry, Observed, check_outside};

pub const TYPE: &str = "chartwright.dev/release-ledger";
const LABEL: &str = "chartwright.dev/ledger";
/// How many Secrets a page of the first list has.
const PAGE: u32 = 500;
/// How often a write is tried that another operator is faster than.
const TRIES: u32 = 5;

#[derive(Clone)]
pub struct Ledger(Arc<Inner>);

struct Inner {
    calls: Calls,
    namespace: String,
    /// By the id of the custom resource; listed once, by the operator that works.
    entries: OnceCell<Mutex<Entries>>,
}

type Entries = HashMap<String, Noted>;
type Answer<T> = Result<T, Arc<TrustError>>;

impl Ledger {
    pub fn new(calls: Calls, namespace: &str) -> Self {
        Ledger(Arc::new(Inner { calls, namespace: namespace.to_owned(), entries: OnceCell::new() }))
    }

    /// What this operator knows to be noted of a custom resource's release. An entry of an earlier custom resource of the same name does not
    /// count.
    pub async fn get(&self, owner: &OwnerMark) -> Answer<Option<Entry>> {
        Ok(of(owner, self.known(&owner.id()).await?).map(|noted| noted.entry))
    }

    /// The same, and where it knows nothing, or nothing of a record as new as `newest`, the API server is asked: another operator may have
    /// noted it.
    pub async fn look(&self, owner: &OwnerMark, newest: Option<u32>) -> Answer<Option<Entry>> {
        let known = match of(owner, self.known(&owner.id()).await?) {
            Some(known) if newest.is_none_or(|newest| newest <= known.entry.revision) => Some(known),
            _ => of(owner, self.refresh(&owner.id()).await?),
        };
        Ok(known.map(|noted| noted.entry))
    }

    /// The objects outside of the release's namespace that this custom resource or an earlier one of its name may have made.
    pub async fn outside(&self, owner: &OwnerMark) -> Answer<Vec<ObjectId>> {
        Ok(self.known(&owner.id()).await?.map(|noted| noted.entry.outside).unwrap_or_default())
    }

    /// The custom resources that something is noted of.
    pub async fn owners(&self) -> Answer<Vec<OwnerMark>> {
        Ok(locked(self.entries().await?).values().map(|noted| noted.owner.clone()).collect())
    }

    /// The Secret that holds the entry of a custom resource.
    pub fn secret_of(&self, owner: &OwnerMark) -> String {
        format!("{}/{}", self.0.namespace, entry::name(&owner.id()))
    }

    /// Notes a release. It is written when this returns.
    pub async fn put(&self, owner: &OwnerMark, entry: Entry) -> Answer<()> {
        check_outside(&entry.outside)?;
        let id = owner.id();
        let mut known = self.known(&id).await?;
        for _ in 0..TRIES {
            match of(owner, known.clone()).map(|noted| noted.entry) {
                Some(noted) if noted == entry => return Ok(()),
                // What is noted never becomes older.
                Some(Entry { revision: noted, .. }) if noted > entry.revision => {
                    return Err(Arc::new(TrustError::Older { noted, revision: entry.revision }));
                }
                _ => {}
            }
            if let Some(version) = self.write(owner, &entry, known.as_ref()).await? {
                if let Some(Noted { entry: before, .. }) = known.filter(|known| known.owner.uid != owner.uid) {
                    warn_of_left(owner, &before.outside, &entry.outside);
                }
                locked(self.entries().await?).insert(id, Noted { owner: owner.clone(), entry, version });
                return Ok(());
            }
            known = self.refresh(&id).await?;
        }
        Err(Arc::new(self.contended(&id)))
    }

    pub async fn remove(&self, owner: &OwnerMark) -> Answer<()> {
        let id = owner.id();
        let mut known = self.known(&id).await?;
        for _ in 0..TRIES {
            let Some(noted) = of(owner, known) else { return Ok(()) };
            if self.delete(&id, noted.version).await? {
                locked(self.entries().await?).remove(&id);
                return Ok(());
            }
            known = self.refresh(&id).await?;
        }
        Err(Arc::new(self.contended(&id)))
    }

    /// Writes an entry over the one that is known, or as a new one. Returns the Secret's new version, or None if another operator was faster.
    async fn write(&self, owner: &OwnerMark, entry: &Entry, known: Option<&Noted>) -> Answer<Option<String>> {
        let (api, secret) = (self.api(), entry::secret(owner, entry));
        let name = secret.metadata.name.clone().unwrap_or_default();
        let (verb, answer) = match known {
            None => {
                let params = PostParams { field_manager: Some(MANAGER.into()), ..Default::default() };
                ("create", self.0.calls.within(api.create(&params, &secret)).await)
            }
            Some(known) => {
                let params = PatchParams { field_manager: Some(MANAGER.into()), ..Default::default() };
                let metadata = json!({"resourceVersion": known.version});
                let patch = Patch::Merge(json!({"metadata": metadata, "data": entry::data(owner, entry)}));
                ("patch", self.0.calls.within(api.patch(&name, &params, &patch)).await)
            }
        };
        match answer {
            Ok(written) => Ok(Some(written.metadata.resource_version.unwrap_or_default())),
            Err(error) if code(&error) == Some(409) || known.is_some() && code(&error) == Some(404) => Ok(None),
            Err(error) => Err(Arc::new(failed(verb, &self.0.namespace, &name)(error))),
        }
    }

    /// Deletes the Secret of an entry as it is known. False if another operator changed it since.
    async fn delete(&self, id: &str, version: String) -> Answer<bool> {
        let preconditions = Preconditions { resource_version: Some(version), ..Default::default() };
        let params = DeleteParams { preconditions: Some(preconditions), ..Default::default() };
        let (api, name) = (self.api(), entry::name(id));
        match self.0.calls.within(api.delete(&name, &params)).await {
            Ok(_) => Ok(true),
            Err(error) if code(&error) == Some(404) => Ok(true),
            Err(error) if code(&error) == Some(409) => Ok(false),
            Err(error) => Err(Arc::new(failed("delete", &self.0.namespace, &name)(error))),
        }
    }

    async fn known(&self, id: &str) -> Answer<Option<Noted>> {
        Ok(locked(self.entries().await?).get(id).cloned())
    }

    /// Reads an entry again.
    async fn refresh(&self, id: &str) -> Answer<Option<Noted>> {
        let (api, name) = (self.api(), entry::name(id));
        let found = self.0.calls.within(api.get_opt(&name)).await;
        let found = found.map_err(failed("get", &self.0.namespace, &name)).map_err(Arc::new)?;
        let noted = found.as_ref().map(Noted::read).transpose();
        let noted = noted.map_err(|reason| {
            Arc::new(TrustError::Ledger { secret: format!("{}/{name}", self.0.namespace), reason })
        })?;
        let mut entries = locked(self.entries().await?);
        match &noted {
            Some(noted) => entries.insert(id.to_owned(), noted.clone()),
            None => entries.remove(id),
        };
        Ok(noted)
    }

    async fn entries(&self) -> Answer<&Mutex<Entries>> {
        let list = async || self.list().await.map(Mutex::new).map_err(Arc::new);
        self.0.entries.get_or_try_init(list).await
    }

    async fn list(&self) -> Result<Entries, TrustError> {
        let (api, mut entries) = (self.api(), HashMap::new());
        let mut params = ListParams::default().labels(LABEL).limit(PAGE);
        loop {
            let page = self.0.calls.within(api.list(&params)).await;
            let page = page.map_err(failed("list", &self.0.namespace, PREFIX))?;
            for secret in &page.items {
                match Noted::read(secret) {
                    Ok(noted) => drop(entries.insert(noted.owner.id(), noted)),
                    // It concerns one release, which says so when it is looked at.
                    Err(reason) => {
                        let (namespace, name) = (&self.0.namespace, secret.metadata.name.as_deref());
                        tracing::warn!(namespace, secret = name, "an entry of the ledger cannot be read: {reason}");
                    }
                }
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(entries),
            }
        }
    }

    fn contended(&self, id: &str) -> TrustError {
        TrustError::Contended { secret: format!("{}/{}", self.0.namespace, entry::name(id)) }
    }

    fn api(&self) -> Api<Secret> {
        Api::namespaced(self.0.calls.client(), &self.0.namespace)
    }
}

/// What is noted of this very custom resource.
fn of(owner: &OwnerMark, noted: Option<Noted>) -> Option<Noted> {
    noted.filter(|noted| noted.owner.uid == owner.uid)
}

/// The custom resource of this name was deleted without its release and made again. What the release had outside of its namespace is known to
/// nobody from now on.
fn warn_of_left(owner: &OwnerMark, before: &[ObjectId], now: &[ObjectId]) {
    const SHOWN: usize = 10;
    let now: HashSet<&ObjectId> = now.iter().collect();
    let left: Vec<&ObjectId> = before.iter().filter(|id| !now.contains(id)).collect();
    if !left.is_empty() {
        let shown: Vec<String> = left.iter().take(SHOWN).map(ToString::to_string).collect();
        tracing::warn!(
            reason = "ObjectsLeft",
            kind = owner.kind,
            namespace = owner.namespace,
            name = owner.name,
            objects = left.len(),
            "an earlier custom resource of this name was deleted without its finalizer; objects of its release outside of the namespace may be left: {}",
            shown.join(", ")
        );
    }
}

/// A poisoned lock still holds what was written last.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests;
