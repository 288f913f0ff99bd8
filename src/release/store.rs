//! The release records in the cluster.
//!
//! Each call is one request. It refuses to skip a record that it cannot read, and to overwrite one that changed since it
//! was read: `helm` may be working on the same release.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use kube::api::{Api, DeleteParams, ListParams, PartialObjectMeta, Patch, PatchParams, PostParams};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::budget::{HELD_OF_ALL_REVISIONS, READ_OF_ALL_REVISIONS, REVISIONS};
use super::codec::{self, RecordError, Unreadable};
use super::lease::{Lease, NoRoom};
use super::reading::Reading;
use super::{History, Records, Release, Signer, proof, seal};
use crate::aside;
use crate::calls::Calls;
use crate::error::{Category, of_kube, sentence};
use crate::watching::Tolerant;

/// How many records the first page of a list has, and how many one may have. A record may be more than a mebibyte, so pages
/// grow only where their records are small.
const FIRST_PAGE: u32 = 10;
const LARGEST_PAGE: u32 = 40;
const SMALL_PAGE_BYTES: usize = 512 * 1024;
/// Answers with records are large, so few are read at once.
static FETCHES: Semaphore = Semaphore::const_new(3);

/// The name under which records are written.
const MANAGER: &str = "chartwright";

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(
        "the release record {secret} exists already: an earlier try of this operator, helm or another operator made it just now; this is tried again"
    )]
    Exists { secret: String },
    #[error(
        "the release record {secret} was changed or removed since it was read: by helm, another operator, or a try of this one whose answer was lost; this is tried again"
    )]
    Changed { secret: String },
    #[error(
        "release {release} has more than {REVISIONS} records; delete old ones (Secrets with the labels owner=helm and name), and set `maxHistory` so that they do not come back"
    )]
    TooManyRevisions { release: String },
    #[error(
        "the records of release {release} hold more than this operator reads of one release ({} MiB unpacked, {} MiB in memory); delete old or large records (Secrets with the labels owner=helm and name), or let `maxHistory` keep fewer",
        READ_OF_ALL_REVISIONS / 1024 / 1024,
        HELD_OF_ALL_REVISIONS / 1024 / 1024
    )]
    TooMuchInAll { release: String },
    #[error("the operator is busy with large release records; it reads those of release {release} later")]
    NoRoom { release: String },
    #[error("cannot {verb} {what}: {}", sentence(.error))]
    Api { verb: &'static str, what: String, error: Box<kube::Error> },
}

impl StoreError {
    pub fn category(&self) -> Category {
        match self {
            StoreError::Record(error) => error.category(),
            StoreError::TooManyRevisions { .. } | StoreError::TooMuchInAll { .. } => Category::RecordUnusable,
            StoreError::NoRoom { .. } => Category::Waiting,
            // Somebody else was faster; look again.
            StoreError::Exists { .. } | StoreError::Changed { .. } => Category::Waiting,
            StoreError::Api { error, .. } => of_kube(error),
        }
    }
}

/// Reads and writes release records.
#[derive(Clone)]
pub struct Store {
    calls: Calls,
    /// Learns what is written here.
    records: Records,
    signer: Signer,
    /// The UID of the custom resource whose records are read and written, where it is known.
    owner: Option<String>,
    /// Covers what is read here, as long as this store or a clone of it is there.
    lease: Arc<Lease>,
}

impl Store {
    pub fn new(calls: Calls) -> Self {
        Store { calls, records: Records::default(), signer: Signer::default(), owner: None, lease: Arc::default() }
    }

    /// The same, which signs and verifies the records of the custom resource with this UID.
    pub fn signed_by(self, signer: Signer, owner: &str) -> Self {
        Store { signer, owner: Some(owner.to_owned()), ..self }
    }

    /// The same, and these records learn at once what it writes.
    pub fn noted_in(self, records: Records) -> Self {
        Store { records, ..self }
    }

    /// All revisions of a release, by whoever wrote them, with what vouches for them.
    ///
    /// # Errors
    /// Also where a single record cannot be read: what it holds may matter.
    pub async fn confirmed_history(
        &self,
        namespace: &str,
        release: &str,
        confirmed: Option<&proof::Confirmed>,
    ) -> Result<History, StoreError> {
        Ok(seal::compared(self.history(namespace, release).await?, confirmed))
    }

    /// The same, as far as the records alone tell.
    pub async fn history(&self, namespace: &str, release: &str) -> Result<History, StoreError> {
        let mut params = ListParams::default().labels(&format!("owner=helm,name={release}")).limit(FIRST_PAGE);
        let api = self.texts(namespace);
        let mut reading = self.reading(namespace, release);
        loop {
            let page = {
                let _turn = FETCHES.acquire().await;
                let page = self.calls.within(api.list(&params)).await.map_err(|error| StoreError::Api {
                    verb: "list",
                    what: format!("the records of release {namespace}/{release}"),
                    error: Box::new(error),
                })?;
                // What finds no room goes before another page comes.
                reading.cover(page.items.iter().map(Tolerant::bytes).sum())?;
                page
            };
            if page.items.iter().map(Tolerant::bytes).sum::<usize>() < SMALL_PAGE_BYTES {
                params.limit = params.limit.map(|limit| (limit * 2).min(LARGEST_PAGE));
            }
            let secrets: Vec<Secret> = page.items.into_iter().map(of_text).collect::<Result<_, _>>()?;
            reading = reading.read(secrets).await?;
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(seal::compared(History::new(reading.into_releases()), None)),
            }
        }
    }

    /// Takes room for so many bytes that are held of a release elsewhere.
    pub fn cover(&self, namespace: &str, release: &str, bytes: usize) -> Result<(), StoreError> {
        let covered = self.lease.cover(namespace, bytes, 0);
        covered.map_err(|NoRoom| StoreError::NoRoom { release: format!("{namespace}/{release}") })
    }

    /// Gives back the room that was only needed to read the objects of records: none is read any more.
    pub fn settle(&self) {
        self.lease.settle();
    }

    /// One revision.
    ///
    /// # Errors
    /// Also where it is not there: whoever asks has seen it.
    pub async fn get(&self, namespace: &str, release: &str, revision: u32) -> Result<Release, StoreError> {
        let (api, name) = (self.texts(namespace), codec::secret_name(release, revision));
        let secret = self.calls.within(api.get(&name)).await.map_err(|error| match code(&error) {
            Some(404) => StoreError::Changed { secret: format!("{namespace}/{name}") },
            _ => StoreError::Api {
                verb: "get",
                what: format!("the release record {namespace}/{name}"),
                error: Box::new(error),
            },
        })?;
        let read = self.reading(namespace, release).read(vec![of_text(secret)?]).await?;
        let changed = StoreError::Changed { secret: format!("{namespace}/{name}") };
        read.into_releases().pop().ok_or(changed)
    }

    /// Whether a Secret can hold a record, also when its objects were applied.
    pub fn check_size(&self, release: &Release) -> Result<(), StoreError> {
        encoded(release)?;
        Ok(())
    }

    /// Makes a new record, and returns it as it can be updated.
    pub async fn create(&self, release: &Release) -> Result<Release, StoreError> {
        let mut secret = encoded(release)?;
        seal::seal(&mut secret, release, &self.signer);
        let params = PostParams { field_manager: Some(MANAGER.into()), ..Default::default() };
        let api = self.api(&release.namespace);
        let created = self.calls.within(api.create(&params, &secret)).await;
        let created = created.map_err(|error| match code(&error) {
            Some(409) => StoreError::Exists { secret: place(release) },
            _ => failed("create", release, error),
        })?;
        self.records.learn(release, &created.metadata);
        Ok(codec::written(release, &created))
    }

    /// Writes a record that was created or read before, and returns it as it can be updated again. Data keys and labels
    /// that are not ours or Helm's stay.
    pub async fn update(&self, release: &Release) -> Result<Release, StoreError> {
        let mut patch = aside::here(length(release), || codec::patch(release, Timestamp::now()))?;
        seal::seal_patch(&mut patch, release, &self.signer);
        let patch = Patch::Merge(patch);
        let updated = self.write(release, &patch).await?;
        self.records.learn(release, &updated.metadata);
        Ok(codec::written(release, &updated))
    }

    /// Takes our part out of a record, and leaves the rest to helm.
    pub async fn set_free(&self, release: &Release) -> Result<(), StoreError> {
        let patch = Patch::Merge(codec::freeing(release));
        self.write(release, &patch).await.map(|_| ())
    }

    /// Takes the owners off a record's Secret, and changes nothing else.
    pub async fn disown(&self, release: &Release) -> Result<(), StoreError> {
        self.write(release, &Patch::Merge(codec::disowning(release))).await.map(|_| ())
    }

    async fn write(&self, release: &Release, patch: &Patch<Value>) -> Result<Secret, StoreError> {
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..Default::default() };
        let (api, name) = (self.texts(&release.namespace), release.secret_name());
        let updated = self.calls.within(api.patch(&name, &params, patch)).await;
        let updated = updated.map_err(|error| match code(&error) {
            Some(404 | 409) => StoreError::Changed { secret: place(release) },
            _ => failed("update", release, error),
        })?;
        Ok(of_text(updated)?)
    }

    /// Whether there is a record of this revision.
    pub async fn exists(&self, namespace: &str, release: &str, revision: u32) -> Result<bool, StoreError> {
        let api: Api<Tolerant<PartialObjectMeta<Secret>>> = Api::namespaced(self.calls.client(), namespace);
        let name = codec::secret_name(release, revision);
        match self.calls.within(api.get(&name)).await {
            Ok(_) => Ok(true),
            Err(error) if code(&error) == Some(404) => Ok(false),
            Err(error) => {
                let what = format!("the release record {namespace}/{name}");
                Err(StoreError::Api { verb: "get", what, error: Box::new(error) })
            }
        }
    }

    /// Removes a record. One that is gone already is no error.
    pub async fn delete(&self, namespace: &str, release: &str, revision: u32) -> Result<(), StoreError> {
        self.delete_secret(namespace, release, &codec::secret_name(release, revision)).await
    }

    /// Removes every record of a release that we wrote or helped to write, also those that cannot be read.
    pub async fn delete_all(&self, namespace: &str, release: &str) -> Result<(), StoreError> {
        let selector = format!("owner=helm,name={release},{}", codec::DIGEST_LABEL);
        let mut params = ListParams::default().labels(&selector).limit(LARGEST_PAGE);
        let api: Api<Tolerant<PartialObjectMeta<Secret>>> = Api::namespaced(self.calls.client(), namespace);
        loop {
            let page = {
                let _turn = FETCHES.acquire().await;
                self.calls.within(api.list(&params)).await
            };
            let page = page.map_err(|error| StoreError::Api {
                verb: "list",
                what: format!("the records of release {namespace}/{release}"),
                error: Box::new(error),
            })?;
            for secret in page.items {
                let name = secret.into_metadata().name.unwrap_or_default();
                self.delete_secret(namespace, release, &name).await?;
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(()),
            }
        }
    }

    async fn delete_secret(&self, namespace: &str, release: &str, name: &str) -> Result<(), StoreError> {
        let api = self.api(namespace);
        match self.calls.within(api.delete(name, &DeleteParams::default())).await {
            Err(error) if code(&error) != Some(404) => Err(StoreError::Api {
                verb: "delete",
                what: format!("the release record {namespace}/{name}"),
                error: Box::new(error),
            }),
            _ => {
                if let Some(revision) = codec::revision_of(name, release) {
                    self.records.forget(namespace, release, revision);
                }
                Ok(())
            }
        }
    }

    fn reading(&self, namespace: &str, release: &str) -> Reading {
        Reading::of(namespace, release, self.signer.clone(), self.owner.clone(), self.lease.clone())
    }

    fn api(&self, namespace: &str) -> Api<Secret> {
        Api::namespaced(self.calls.client(), namespace)
    }

    /// Secrets as they come: their managedFields may nest so deeply that nobody can read them.
    fn texts(&self, namespace: &str) -> Api<Tolerant<Secret>> {
        Api::namespaced(self.calls.client(), namespace)
    }
}

fn of_text(text: Tolerant<Secret>) -> Result<Secret, RecordError> {
    let metadata = text.meta();
    let secret = format!(
        "{}/{}",
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default()
    );
    text.without_fields().map_err(|error| RecordError::Unreadable { secret, reason: Unreadable::Json(error) })
}

fn encoded(release: &Release) -> Result<Secret, RecordError> {
    aside::here(length(release), || codec::encode(release, Timestamp::now()))
}

/// How much there is to pack.
fn length(release: &Release) -> usize {
    // Of our part, some 240 bytes for each object.
    release.manifest.len() + release.own.as_ref().map_or(0, |own| own.objects.len() * 240)
}

fn place(release: &Release) -> String {
    format!("{}/{}", release.namespace, release.secret_name())
}

fn failed(verb: &'static str, release: &Release, error: kube::Error) -> StoreError {
    StoreError::Api { verb, what: format!("the release record {}", place(release)), error: Box::new(error) }
}

fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}
