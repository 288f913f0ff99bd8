//! The release records in the cluster.
//!
//! Each call is one request. It refuses to skip a record that it cannot read, and to overwrite one that changed since it
//! was read: `helm` may be working on the same release.

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, ListParams, PartialObjectMeta, Patch, PatchParams, PostParams};
use serde_json::Value;

use super::codec::{self, RecordError};
use super::{History, Records, Release};
use crate::calls::Calls;
use crate::error::{Category, of_kube, sentence};

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
    #[error("cannot {verb} {what}: {}", sentence(.error))]
    Api { verb: &'static str, what: String, error: Box<kube::Error> },
}

impl StoreError {
    pub fn category(&self) -> Category {
        match self {
            StoreError::Record(error) => error.category(),
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
}

impl Store {
    pub fn new(calls: Calls) -> Self {
        Store { calls, records: Records::default() }
    }

    /// The same, and these records learn at once what it writes.
    pub fn noted_in(self, records: Records) -> Self {
        Store { records, ..self }
    }

    /// All revisions of a release, by whoever wrote them.
    ///
    /// # Errors
    /// Also where a single record cannot be read: what it holds may matter.
    pub async fn history(&self, namespace: &str, release: &str) -> Result<History, StoreError> {
        let params = ListParams::default().labels(&format!("owner=helm,name={release}"));
        let api = self.api(namespace);
        let listed = self.calls.within(api.list(&params)).await.map_err(|error| StoreError::Api {
            verb: "list",
            what: format!("the records of release {namespace}/{release}"),
            error: Box::new(error),
        })?;
        let releases: Result<Vec<Release>, RecordError> = listed.items.iter().map(codec::decode).collect();
        Ok(History::new(releases?))
    }

    /// One revision.
    ///
    /// # Errors
    /// Also where it is not there: whoever asks has seen it.
    pub async fn get(&self, namespace: &str, release: &str, revision: u32) -> Result<Release, StoreError> {
        let (api, name) = (self.api(namespace), codec::secret_name(release, revision));
        let secret = self.calls.within(api.get(&name)).await.map_err(|error| match code(&error) {
            Some(404) => StoreError::Changed { secret: format!("{namespace}/{name}") },
            _ => StoreError::Api {
                verb: "get",
                what: format!("the release record {namespace}/{name}"),
                error: Box::new(error),
            },
        })?;
        Ok(codec::decode(&secret)?)
    }

    /// Whether a Secret can hold a record, also when its objects were applied.
    pub fn check_size(&self, release: &Release) -> Result<(), StoreError> {
        Ok(codec::encode(release, Timestamp::now()).map(|_| ())?)
    }

    /// Makes a new record, and returns it as it can be updated.
    pub async fn create(&self, release: &Release) -> Result<Release, StoreError> {
        let secret = codec::encode(release, Timestamp::now())?;
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
        let patch = Patch::Merge(codec::patch(release, Timestamp::now())?);
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
        let (api, name) = (self.api(&release.namespace), release.secret_name());
        let updated = self.calls.within(api.patch(&name, &params, patch)).await;
        updated.map_err(|error| match code(&error) {
            Some(404 | 409) => StoreError::Changed { secret: place(release) },
            _ => failed("update", release, error),
        })
    }

    /// Whether there is a record of this revision.
    pub async fn exists(&self, namespace: &str, release: &str, revision: u32) -> Result<bool, StoreError> {
        let api: Api<PartialObjectMeta<Secret>> = Api::namespaced(self.calls.client(), namespace);
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
        let api: Api<PartialObjectMeta<Secret>> = Api::namespaced(self.calls.client(), namespace);
        let listed = self.calls.within(api.list(&ListParams::default().labels(&selector))).await;
        let listed = listed.map_err(|error| StoreError::Api {
            verb: "list",
            what: format!("the records of release {namespace}/{release}"),
            error: Box::new(error),
        })?;
        for secret in listed.items {
            self.delete_secret(namespace, release, &secret.metadata.name.unwrap_or_default()).await?;
        }
        Ok(())
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

    fn api(&self, namespace: &str) -> Api<Secret> {
        Api::namespaced(self.calls.client(), namespace)
    }
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
