//! A record becomes Helm's Secret, and back.
//!
//! Pure. `data.release` is base64 of gzip of JSON, inside the Secret's own base64; `data.chartwright` is [`Own`].
//!
//! Decoding takes what any Helm wrote, with whole charts inside. It keeps the JSON as it was found, so that encoding
//! changes only what differs from it. It refuses what it cannot read, by name: an unreadable record is never "no release".
//! It unpacks only so much. Encoding refuses what a Secret cannot hold.

mod json;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::gzip::{self, GzipError};
use super::own::{Own, OwnError, PACKED_FROM};
use super::{Applied, Release};
use crate::error::Category;

pub(super) use json::nullable;

/// On every record of ours. It proves nothing (`helm rollback` copies it), but finds records.
pub const DIGEST_LABEL: &str = "chartwright.dev/digest";
/// On every record of ours too, and kept and copied by helm as the other: whose the release is, also where helm dropped our data.
pub const OWNER_LABEL: &str = "chartwright.dev/owner";
/// The most that a Secret's data may be, by the API server's rule.
pub const SECRET_LIMIT: usize = 1024 * 1024;
/// What an object's UID and marks will take in our data, once it was applied: as text, and packed. They are mostly random
/// digits, of which packing leaves half.
const OBJECT_RESERVE: usize = 256;
const PACKED_RESERVE: usize = 64;
const HOOK_RESERVE: usize = 256;

const SECRET_TYPE: &str = "helm.sh/release.v1";
const HELM_KEY: &str = "release";
const OWN_KEY: &str = "chartwright";

/// What a Secret held when it was read. Opaque: only the codec writes and reads it.
#[derive(Clone, Default, PartialEq)]
pub struct Stored {
    helm: Option<Value>,
    own: Option<Vec<u8>>,
    resource_version: Option<String>,
    digest_label: Option<String>,
    owner_label: Option<String>,
    /// By the API server's clock.
    written_at: Option<Timestamp>,
    /// The UIDs of the Secret's owners: operator-sdk gives it one.
    owners: Vec<String>,
}

impl Stored {
    /// The label that helm keeps when it rewrites a record of ours.
    pub(super) fn digest_label(&self) -> Option<&str> {
        self.digest_label.as_deref()
    }

    pub(super) fn owner_label(&self) -> Option<&str> {
        self.owner_label.as_deref()
    }

    pub(super) fn is_owned_by(&self, uid: &str) -> bool {
        self.owners.iter().any(|owner| owner == uid)
    }

    pub(super) fn written_at(&self) -> Option<Timestamp> {
        self.written_at
    }

    pub(super) fn chart(&self) -> Option<&Value> {
        self.helm.as_ref()?.get("chart")
    }

    /// Whether the chart's templates are not in it.
    pub(super) fn is_thin(&self) -> bool {
        let templates = self.chart().and_then(|chart| chart.get("templates"));
        templates.and_then(Value::as_array).is_none_or(Vec::is_empty)
    }
}

/// Without the contents: a whole chart, and the values of a user.
impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored").field("resource_version", &self.resource_version).finish_non_exhaustive()
    }
}

/// A record that cannot be read or written. The Secret is named `<namespace>/<name>`.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error(
        "the release record in Secret {secret} cannot be read: {reason}; restore it from a backup, or delete it if the release is not needed"
    )]
    Unreadable { secret: String, reason: Unreadable },
    #[error("the release record in Secret {secret} cannot be read: {error}")]
    Own { secret: String, error: OwnError },
    #[error(
        "the release record {secret} would be {size} bytes and a Secret holds {SECRET_LIMIT}; let the chart render less, or split it"
    )]
    RecordTooLarge { secret: String, size: usize },
}

/// Why a Secret is not a release record.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("it has no data key `{HELM_KEY}`")]
    NoData,
    #[error("its data is not base64 ({0})")]
    Base64(base64::DecodeError),
    #[error(transparent)]
    Gzip(GzipError),
    #[error("its data is not Helm's JSON ({0})")]
    Json(serde_json::Error),
    #[error("it says that it is revision {revision} of {name:?}, which belongs under another name")]
    Misplaced { name: String, revision: u32 },
    #[error("it says that hook {hook} was begun, and has {hooks} hooks, counted from 0")]
    Mark { hook: usize, hooks: usize },
}

impl RecordError {
    pub fn category(&self) -> Category {
        match self {
            RecordError::Unreadable { .. } | RecordError::Own { .. } => Category::RecordUnusable,
            // Only another render can help.
            RecordError::RecordTooLarge { .. } => Category::InvalidManifest,
        }
    }
}

pub fn secret_name(release: &str, revision: u32) -> String {
    format!("sh.helm.release.v1.{release}.v{revision}")
}

/// Which revision of a release a Secret's name stands for.
pub(super) fn revision_of(secret: &str, release: &str) -> Option<u32> {
    let revision = secret.rsplit_once(".v")?.1.parse().ok()?;
    (secret_name(release, revision) == secret).then_some(revision)
}

/// The Secret of a new record.
///
/// # Errors
/// It is larger than a Secret may be, also counting what its objects will need once they were applied.
pub fn encode(release: &Release, now: Timestamp) -> Result<Secret, RecordError> {
    let objects = release.own.iter().flat_map(|own| &own.objects);
    // A hook that ran has a mark in our part and two times in Helm's.
    let data = pack(release, reserve(objects) + release.hooks.len() * HOOK_RESERVE)?;
    let mut labels = labels(release);
    labels.insert("createdAt".into(), now.as_second().to_string());
    Ok(Secret {
        metadata: ObjectMeta {
            name: Some(release.secret_name()),
            namespace: Some(release.namespace.clone()),
            labels: Some(labels),
            ..Default::default()
        },
        type_: Some(SECRET_TYPE.into()),
        data: Some(data.into_iter().map(|(key, bytes)| (key.to_owned(), ByteString(bytes))).collect()),
        ..Default::default()
    })
}

/// What our data may grow by, once the objects were applied. What grows beyond the size of plain text is packed.
pub(super) fn reserve<'a>(objects: impl Iterator<Item = &'a Applied>) -> usize {
    let unanswered = objects.filter(|object| object.uid.is_none()).count();
    (unanswered * OBJECT_RESERVE).min(PACKED_FROM.max(unanswered * PACKED_RESERVE))
}

/// The merge patch that brings a record's Secret up to date. Data keys and labels of others stay. It names the version
/// that was read, so that it fails where somebody else wrote since.
pub fn patch(release: &Release, now: Timestamp) -> Result<Value, RecordError> {
    let data = pack(release, 0)?;
    let mut labels = labels(release);
    labels.insert("modifiedAt".into(), now.as_second().to_string());
    // operator-sdk lets the custom resource own its records, and the garbage collector would remove them too early.
    let metadata = json!({"labels": labels, "ownerReferences": null});
    let mut patch = json!({"metadata": metadata, "data": {OWN_KEY: null}});
    for (key, bytes) in data {
        patch["data"][key] = STANDARD.encode(bytes).into();
    }
    if let Some(version) = &release.stored.resource_version {
        patch["metadata"]["resourceVersion"] = version.as_str().into();
    }
    Ok(patch)
}

/// The merge patch that leaves a record to helm: nothing of ours stays in it.
pub fn freeing(release: &Release) -> Value {
    let labels = json!({DIGEST_LABEL: null, OWNER_LABEL: null});
    let version = &release.stored.resource_version;
    json!({"metadata": {"labels": labels, "resourceVersion": version, "ownerReferences": null}, "data": {OWN_KEY: null}})
}

/// The merge patch that takes the owners off a record's Secret.
pub fn disowning(release: &Release) -> Value {
    json!({"metadata": {"resourceVersion": release.stored.resource_version, "ownerReferences": null}})
}

/// The record after it was written, so that it can be written again.
pub(super) fn written(release: &Release, secret: &Secret) -> Release {
    let stored = Stored {
        resource_version: secret.metadata.resource_version.clone(),
        written_at: written_at(secret),
        owners: owners(secret),
        ..contents(release)
    };
    Release { stored, ..release.clone() }
}

/// Reads a Secret.
///
/// # Errors
/// It is no release record, or not the one that its name says.
pub fn decode(secret: &Secret) -> Result<Release, RecordError> {
    let name = secret.metadata.name.clone().unwrap_or_default();
    let place = match &secret.metadata.namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.clone(),
    };
    let unreadable = |reason| RecordError::Unreadable { secret: place.clone(), reason };
    let data = |key: &str| secret.data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.as_slice());
    let packed = data(HELM_KEY).ok_or_else(|| unreadable(Unreadable::NoData))?;
    let helm = unpack(packed).map_err(unreadable)?;
    let own_bytes = data(OWN_KEY);
    let own = own_bytes.map(Own::from_bytes).transpose();
    let own = own.map_err(|error| RecordError::Own { secret: place.clone(), error })?;
    let mut release = json::read(&helm).map_err(|error| unreadable(Unreadable::Json(error)))?;
    if release.secret_name() != name {
        return Err(unreadable(Unreadable::Misplaced { name: release.name, revision: release.revision }));
    }
    if let Some(namespace) = &secret.metadata.namespace {
        // Where it is counts: a backup may have been restored into another namespace.
        release.namespace = namespace.clone();
    }
    let mut marks = own.iter().flat_map(|own| &own.hooks);
    if let Some(mark) = marks.find(|mark| mark.hook >= release.hooks.len()) {
        return Err(unreadable(Unreadable::Mark { hook: mark.hook, hooks: release.hooks.len() }));
    }
    release.own = own;
    release.stored = Stored {
        helm: Some(helm),
        own: own_bytes.map(<[u8]>::to_vec),
        resource_version: secret.metadata.resource_version.clone(),
        digest_label: label(secret, DIGEST_LABEL),
        owner_label: label(secret, OWNER_LABEL),
        written_at: written_at(secret),
        owners: owners(secret),
    };
    Ok(release)
}

/// What the data keys are to hold.
fn contents(release: &Release) -> Stored {
    let helm = json::write(release, release.stored.helm.as_ref());
    let own = release.own.as_ref().map(|own| match &release.stored.own {
        // Nothing of ours changed, so fields of a later version stay.
        Some(bytes) if Own::from_bytes(bytes).is_ok_and(|stored| stored == *own) => bytes.clone(),
        _ => own.to_bytes(),
    });
    let own_labels = release.own.as_ref().map(|own| (own.digest.clone(), own.owner.id()));
    let (digest_label, owner_label) = match own_labels {
        Some((digest, owner)) => (Some(digest), Some(owner)),
        None => (release.stored.digest_label.clone(), release.stored.owner_label.clone()),
    };
    Stored { helm: Some(helm), own, digest_label, owner_label, ..Stored::default() }
}

/// The data keys, if a Secret holds them and `reserve` bytes more. What helm does without is left out where there is no room.
fn pack(release: &Release, reserve: usize) -> Result<BTreeMap<&'static str, Vec<u8>>, RecordError> {
    let contents = contents(release);
    let mut helm = contents.helm.unwrap_or_default();
    let pack = |helm: &Value| {
        let packed = STANDARD.encode(gzip::pack(helm.to_string().as_bytes())).into_bytes();
        let mut data = BTreeMap::from([(HELM_KEY, packed)]);
        data.extend(contents.own.clone().map(|own| (OWN_KEY, own)));
        let size = data.values().map(Vec::len).sum::<usize>() + reserve;
        (data, size)
    };
    let (mut data, mut size) = pack(&helm);
    if size > SECRET_LIMIT {
        thin_out(&mut helm);
        (data, size) = pack(&helm);
    }
    match size > SECRET_LIMIT {
        true => Err(RecordError::RecordTooLarge {
            secret: format!("{}/{}", release.namespace, release.secret_name()),
            size,
        }),
        false => Ok(data),
    }
}

/// Takes out what helm needs neither to list, show and roll back nor to uninstall.
fn thin_out(helm: &mut Value) {
    if let Some(chart) = helm.get_mut("chart").and_then(Value::as_object_mut) {
        chart.extend(
            [("templates", json!([])), ("files", json!([])), ("values", json!({}))].map(|(k, v)| (k.to_owned(), v)),
        );
    }
}

fn label(secret: &Secret, key: &str) -> Option<String> {
    secret.metadata.labels.as_ref()?.get(key).cloned()
}

/// When anybody last wrote it.
fn written_at(secret: &Secret) -> Option<Timestamp> {
    let managers = secret.metadata.managed_fields.iter().flatten().filter_map(|entry| entry.time.as_ref());
    managers.chain(&secret.metadata.creation_timestamp).map(|time| time.0).max()
}

fn owners(secret: &Secret) -> Vec<String> {
    secret.metadata.owner_references.iter().flatten().map(|owner| owner.uid.clone()).collect()
}

fn labels(release: &Release) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([
        ("name".into(), release.name.clone()),
        ("owner".into(), "helm".into()),
        ("status".into(), release.status.as_str().into()),
        ("version".into(), release.revision.to_string()),
    ]);
    if let Some(own) = &release.own {
        labels.extend([(DIGEST_LABEL.into(), own.digest.clone()), (OWNER_LABEL.into(), own.owner.id())]);
    }
    labels
}

/// As Helm does: line breaks in the base64 are skipped, and what does not begin as gzip does is JSON already.
fn unpack(packed: &[u8]) -> Result<Value, Unreadable> {
    let text: Vec<u8> = packed.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    let bytes = STANDARD.decode(text).map_err(Unreadable::Base64)?;
    let json = match gzip::is_packed(&bytes) {
        true => gzip::unpack(&bytes).map_err(Unreadable::Gzip)?,
        false => bytes,
    };
    serde_json::from_slice(&json).map_err(Unreadable::Json)
}
