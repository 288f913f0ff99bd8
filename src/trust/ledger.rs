//! The newest revision of each release, in Secrets of the operator's namespace.
//!
//! A signature proves who wrote a record, and not that it is the newest: an old record can be written again, and a newer one deleted. So before
//! a revision is applied, its number is noted here, where no tenant can write. A revision is recorded first and noted then; a crash between the
//! two leaves a signed record above the noted one, which nobody else can have made.
//!
//! Notes that come together are written together: each Secret holds the entries of many releases, and while one write is under way, the next
//! entries wait for each other.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{OnceCell, oneshot};

use super::{MANAGER, TrustError, code, failed};
use crate::object::ObjectId;
use crate::release::OwnerMark;
use crate::release::proof::{Confirmed, Hash};
// The Secrets are called `chartwright-ledger-0` and so on.
use crate::sensitive::LEDGER as PREFIX;

pub const TYPE: &str = "chartwright.dev/release-ledger";
const LABEL: &str = "chartwright.dev/ledger";
const SHARDS: usize = 32;
/// The most that one entry may say about objects outside of the release's namespace.
const OUTSIDE_LIMIT: usize = 64 * 1024;

/// What is noted of a release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The UID of the custom resource.
    pub uid: String,
    pub namespace: String,
    pub release: String,
    /// The newest revision that was signed and may have been applied.
    pub revision: u32,
    /// The hash of its content.
    #[serde(with = "base64_hash")]
    pub content: Hash,
    /// The digest of what the custom resource asked for then.
    pub digest: String,
    /// The digest that the content was rendered from, where a hold makes it another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendered: Option<String>,
    /// The oldest revision that has not expired. A signed record of an older one was written again by somebody else.
    #[serde(default)]
    pub oldest: u32,
    /// The revision was applied in full and its hooks ran, so a record that says otherwise is an earlier one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub finished: bool,
    /// What the custom resource asked for about going back, and got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<u32>,
    /// Objects outside of the release's namespace that this revision or one before may have made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<ObjectId>,
    /// A revision above this one that somebody else made, and that stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
}

/// A revision that nothing vouches for, and that is left alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    pub revision: u32,
    /// It is left alone until spec and chart give another digest.
    pub digest: String,
}

impl Entry {
    /// What it says about the records of the release.
    pub fn confirmed(&self) -> Confirmed {
        let digest = self.rendered.as_ref().unwrap_or(&self.digest).clone();
        Confirmed { revision: self.revision, content: self.content, digest, oldest: self.oldest }
    }

    /// The same, without the objects outside where they are too many to note: those are then removed by the record alone.
    fn bounded(mut self) -> Self {
        if serde_json::to_vec(&self.outside).map_or(0, |json| json.len()) > OUTSIDE_LIMIT {
            self.outside.clear();
        }
        self
    }
}

mod base64_hash {
    use super::*;
    use serde::de::Error;

    pub fn serialize<S: serde::Serializer>(hash: &Hash, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(hash))
    }

    pub fn deserialize<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Hash, D::Error> {
        let bytes = STANDARD.decode(String::deserialize(deserializer)?).map_err(D::Error::custom)?;
        Hash::try_from(bytes).map_err(|_| D::Error::custom("a hash has 32 bytes"))
    }
}

#[derive(Clone)]
pub struct Ledger(Arc<Inner>);

struct Inner {
    client: Client,
    namespace: String,
    /// By custom resource; read once, by the operator that works.
    entries: OnceCell<Mutex<HashMap<String, Entry>>>,
    shards: Vec<Shard>,
}

#[derive(Default)]
struct Shard {
    waiting: Mutex<Vec<Change>>,
    writer: tokio::sync::Mutex<()>,
}

struct Change {
    id: String,
    /// None removes the entry.
    entry: Option<Entry>,
    written: oneshot::Sender<Result<(), Arc<TrustError>>>,
}

impl Ledger {
    pub fn new(client: Client, namespace: &str) -> Self {
        let shards = std::iter::repeat_with(Shard::default).take(SHARDS).collect();
        Ledger(Arc::new(Inner { client, namespace: namespace.to_owned(), entries: OnceCell::new(), shards }))
    }

    /// What is noted of this custom resource's release. An entry of an earlier custom resource of the same name does not count.
    pub async fn get(&self, owner: &OwnerMark) -> Result<Option<Entry>, Arc<TrustError>> {
        let entry = locked(self.entries().await?).get(&owner.id()).cloned();
        Ok(entry.filter(|entry| entry.uid == owner.uid))
    }

    /// The objects outside of the release's namespace that this custom resource or an earlier one of its name may have made.
    pub async fn outside(&self, owner: &OwnerMark) -> Result<Vec<ObjectId>, Arc<TrustError>> {
        let entry = locked(self.entries().await?).get(&owner.id()).cloned();
        Ok(entry.map(|entry| entry.outside).unwrap_or_default())
    }

    /// Notes a release. It is written when this returns.
    pub async fn put(&self, owner: &OwnerMark, entry: Entry) -> Result<(), Arc<TrustError>> {
        let entry = entry.bounded();
        match self.get(owner).await? {
            Some(known) if known == entry => return Ok(()),
            // What is noted never becomes older.
            Some(known) if known.revision > entry.revision => {
                return Err(Arc::new(TrustError::Older { noted: known.revision, revision: entry.revision }));
            }
            _ => {}
        }
        self.change(owner, Some(entry)).await
    }

    pub async fn remove(&self, owner: &OwnerMark) -> Result<(), Arc<TrustError>> {
        if self.get(owner).await?.is_none() {
            return Ok(());
        }
        self.change(owner, None).await
    }

    async fn change(&self, owner: &OwnerMark, entry: Option<Entry>) -> Result<(), Arc<TrustError>> {
        let id = owner.id();
        let number = shard_of(&id);
        let shard = &self.0.shards[number];
        let (written, is_written) = oneshot::channel();
        locked(&shard.waiting).push(Change { id, entry, written });
        let _writer = shard.writer.lock().await;
        // Whoever had the lock before may have written it already.
        let batch = std::mem::take(&mut *locked(&shard.waiting));
        if !batch.is_empty() {
            self.write(number, batch).await;
        }
        match is_written.await {
            Ok(result) => result,
            // The task that wrote it ended in the middle.
            Err(_) => Err(Arc::new(TrustError::Ledger {
                secret: format!("{}/{PREFIX}{number}", self.0.namespace),
                reason: "a write was given up".to_owned(),
            })),
        }
    }

    async fn write(&self, number: usize, batch: Vec<Change>) {
        let mut data = BTreeMap::new();
        for change in &batch {
            let json = change.entry.as_ref().map(|entry| serde_json::to_vec(entry).unwrap_or_default());
            data.insert(change.id.clone(), json);
        }
        let result = self.patch(number, data).await.map_err(Arc::new);
        if result.is_ok()
            && let Some(entries) = self.0.entries.get()
        {
            let mut entries = locked(entries);
            for change in &batch {
                match &change.entry {
                    Some(entry) => entries.insert(change.id.clone(), entry.clone()),
                    None => entries.remove(&change.id),
                };
            }
        }
        for change in batch {
            // Who does not wait any more does not need to know.
            let _ = change.written.send(result.clone());
        }
    }

    /// A merge patch names only the entries that change, so that operators in one namespace do not overwrite each other's.
    async fn patch(&self, number: usize, data: BTreeMap<String, Option<Vec<u8>>>) -> Result<(), TrustError> {
        let (api, name) = (self.api(), format!("{PREFIX}{number}"));
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..Default::default() };
        let encoded: BTreeMap<&String, Value> = data
            .iter()
            .map(|(id, json)| (id, json.as_ref().map_or(Value::Null, |json| json!(STANDARD.encode(json)))))
            .collect();
        match api.patch(&name, &params, &Patch::Merge(json!({"data": encoded}))).await {
            // Nothing is noted there, so there is nothing to remove. In a namespace that is being deleted nothing can be created either.
            Err(error) if code(&error) == Some(404) && data.values().all(Option::is_none) => return Ok(()),
            Err(error) if code(&error) == Some(404) => {}
            result => return result.map(|_| ()).map_err(failed("patch", &self.0.namespace, &name)),
        }
        let data = data.into_iter().filter_map(|(id, json)| Some((id, ByteString(json?)))).collect();
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some(BTreeMap::from([(LABEL.to_owned(), String::new())])),
                ..Default::default()
            },
            type_: Some(TYPE.to_owned()),
            data: Some(data),
            ..Default::default()
        };
        let params = PostParams { field_manager: Some(MANAGER.into()), ..Default::default() };
        api.create(&params, &secret).await.map(|_| ()).map_err(failed("create", &self.0.namespace, &name))
    }

    async fn entries(&self) -> Result<&Mutex<HashMap<String, Entry>>, Arc<TrustError>> {
        let read = async || self.read().await.map(Mutex::new).map_err(Arc::new);
        self.0.entries.get_or_try_init(read).await
    }

    async fn read(&self) -> Result<HashMap<String, Entry>, TrustError> {
        let listed = self.api().list(&ListParams::default().labels(LABEL)).await;
        let listed = listed.map_err(failed("list", &self.0.namespace, PREFIX))?;
        let mut entries = HashMap::new();
        for secret in listed.items.into_iter().filter(|secret| secret.type_.as_deref() == Some(TYPE)) {
            let name = secret.metadata.name.unwrap_or_default();
            for (id, ByteString(json)) in secret.data.unwrap_or_default() {
                let entry = serde_json::from_slice(&json).map_err(|error| TrustError::Ledger {
                    secret: format!("{}/{name}", self.0.namespace),
                    reason: format!("the entry {id} is not JSON of the expected form ({error})"),
                })?;
                entries.insert(id, entry);
            }
        }
        Ok(entries)
    }

    fn api(&self) -> Api<Secret> {
        Api::namespaced(self.0.client.clone(), &self.0.namespace)
    }
}

/// An id is a hash in base64, so any of its characters spreads well.
fn shard_of(id: &str) -> usize {
    id.bytes().fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % SHARDS
}

/// A poisoned lock still holds what was written last.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
