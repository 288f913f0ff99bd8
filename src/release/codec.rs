//! A record becomes Helm's Secret, and back.
//!
//! Pure. `data.release` is base64 of gzip of JSON, inside the Secret's own base64; `data.chartwright` is [`Own`].
//!
//! Decoding takes what any Helm wrote, with whole charts inside. It keeps the packed JSON as it was found, so that encoding
//! changes only what differs from it. It refuses what it cannot read, by name: an unreadable record is never "no release".
//! It refuses what exceeds a limit of [`budget`]. Encoding refuses what a Secret cannot hold or decoding would refuse.

mod json;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::budget::{self, Exceeded, Limits, OBJECTS, OWN, QUICK, RECORD, ReadError};
use super::gzip;
use super::own::{Own, OwnError, PACKED_FROM};
use super::proof::{Hash, Proof, SIGNATURE_KEY, SIGNATURE_LABELS};
use super::{Applied, LAST_REVISION, Release};
use crate::chart::recorded::Recorded;
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
/// What the signature of a record takes.
const SIGNATURE_RESERVE: usize = 512;

const SECRET_TYPE: &str = "helm.sh/release.v1";
pub(super) const HELM_KEY: &str = "release";
pub(super) const OWN_KEY: &str = "chartwright";

/// What a Secret held when it was read. Opaque: only the codec writes and reads it.
#[derive(Clone, Default)]
pub struct Stored {
    /// Helm's JSON, packed or not.
    helm: Option<Arc<[u8]>>,
    own: Option<Arc<[u8]>>,
    has_templates: bool,
    resource_version: Option<String>,
    digest_label: Option<String>,
    owner_label: Option<String>,
    /// By the API server's clock.
    written_at: Option<Timestamp>,
    /// The UIDs of the Secret's owners: operator-sdk gives it one.
    owners: Vec<String>,
    /// The hash of the content, once somebody worked it out.
    pub(super) content: Option<Hash>,
    /// How much was read of it, unpacked.
    counted: usize,
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

    /// The part `chart`, with its templates and files.
    pub(super) fn chart(&self) -> Option<Recorded> {
        #[derive(serde::Deserialize)]
        struct Charted {
            chart: Recorded,
        }
        let charted: Charted = budget::read(self.helm.as_deref()?, &RECORD).ok()?;
        Some(charted.chart)
    }

    /// Whether helm reads the record differently.
    pub(super) fn is_ambiguous(&self) -> bool {
        self.helm.as_deref().is_some_and(json::is_ambiguous)
    }

    /// Whether the chart's templates are not in it.
    pub(super) fn is_thin(&self) -> bool {
        !self.has_templates
    }

    /// How much was read of it, as [`budget::READ_OF_ALL_REVISIONS`] counts it.
    pub(super) fn counted(&self) -> usize {
        self.counted
    }

    /// How much memory it takes.
    pub(super) fn held_len(&self) -> usize {
        let labels = [&self.digest_label, &self.owner_label, &self.resource_version].into_iter().flatten();
        [&self.helm, &self.own].into_iter().flatten().map(|bytes| bytes.len()).sum::<usize>()
            + labels.chain(&self.owners).map(|text| size_of::<String>() + text.len()).sum::<usize>()
    }
}

/// By what the Secret held. What was computed from it on reading does not count.
impl PartialEq for Stored {
    fn eq(&self, other: &Self) -> bool {
        let held = |it: &Self| (it.helm.clone(), it.own.clone(), it.has_templates, it.resource_version.clone());
        let marks = |it: &Self| (it.digest_label.clone(), it.owner_label.clone(), it.written_at, it.owners.clone());
        held(self) == held(other) && marks(self) == marks(other)
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
        "the release record in Secret {secret} exceeds a limit of this operator: {exceeded}; restore it from a backup, or delete it if the release is not needed"
    )]
    Exceeded { secret: String, exceeded: Exceeded },
    #[error(
        "the release record {secret} would be {size} bytes and a Secret holds {SECRET_LIMIT}; let the chart render less, or split it"
    )]
    RecordTooLarge { secret: String, size: usize },
    #[error(
        "the release record {secret} would exceed a limit of this operator: {exceeded}; let the chart render less, or split it"
    )]
    WouldExceed { secret: String, exceeded: Exceeded },
}

/// Why a Secret is not a release record.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("it has no data key `{HELM_KEY}`")]
    NoData,
    #[error("its data is not base64 ({0})")]
    Base64(base64::DecodeError),
    #[error("its data cannot be unpacked ({0})")]
    Gzip(std::io::Error),
    #[error("its data is not Helm's JSON ({0})")]
    Json(serde_json::Error),
    #[error("it says that it is revision {revision} of {name:?}, which belongs under another name")]
    Misplaced { name: String, revision: u32 },
    #[error("its revision is {0}, and no release has more than {LAST_REVISION}")]
    Revision(u32),
    #[error("it says that hook {hook} was begun, and has {hooks} hooks, counted from 0")]
    Mark { hook: usize, hooks: usize },
}

impl RecordError {
    pub fn category(&self) -> Category {
        match self {
            RecordError::Unreadable { .. } | RecordError::Own { .. } | RecordError::Exceeded { .. } => {
                Category::RecordUnusable
            }
            // Only another render can help.
            RecordError::RecordTooLarge { .. } | RecordError::WouldExceed { .. } => Category::InvalidManifest,
        }
    }

    fn of_reading(secret: &str, error: ReadError) -> Self {
        let reason = match error {
            ReadError::Exceeded(exceeded) => return RecordError::Exceeded { secret: secret.to_owned(), exceeded },
            ReadError::Broken(error) => Unreadable::Gzip(error),
            ReadError::Json(error) => Unreadable::Json(error),
        };
        RecordError::Unreadable { secret: secret.to_owned(), reason }
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
    let [first, second] = SIGNATURE_LABELS;
    let labels = json!({DIGEST_LABEL: null, OWNER_LABEL: null, first: null, second: null});
    let version = &release.stored.resource_version;
    let data = json!({OWN_KEY: null, SIGNATURE_KEY: null});
    json!({"metadata": {"labels": labels, "resourceVersion": version, "ownerReferences": null}, "data": data})
}

/// The merge patch that takes the owners off a record's Secret.
pub fn disowning(release: &Release) -> Value {
    json!({"metadata": {"resourceVersion": release.stored.resource_version, "ownerReferences": null}})
}

/// The record after it was written, so that it can be written again. The Secret is the API server's answer.
pub(super) fn written(release: &Release, secret: &Secret) -> Release {
    let helm = data(secret, HELM_KEY).and_then(|packed| unwrapped(packed).ok());
    let stored = Stored { has_templates: release.stored.has_templates, ..stored(secret, helm) };
    let proof = if release.own.is_some() { Proof::Record } else { release.proof.clone() };
    Release { stored, proof, claimed: None, ..release.clone() }
}

/// Reads a Secret. Nothing vouches for what it says until somebody looks at its signature.
///
/// # Errors
/// It is no release record, not the one that its name says, or exceeds a limit.
pub fn decode(secret: &Secret) -> Result<Release, RecordError> {
    decode_within(secret, &RECORD, &OWN)
}

/// The same where little has to be unpacked, and None where it is more.
pub(super) fn decode_quickly(secret: &Secret) -> Option<Result<Release, RecordError>> {
    match decode_within(secret, &QUICK, &QUICK) {
        Err(RecordError::Exceeded { .. }) => None,
        result => Some(result),
    }
}

fn decode_within(
    secret: &Secret,
    limits: &'static Limits,
    own_limits: &'static Limits,
) -> Result<Release, RecordError> {
    let name = secret.metadata.name.clone().unwrap_or_default();
    let place = match &secret.metadata.namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.clone(),
    };
    let unreadable = |reason| RecordError::Unreadable { secret: place.clone(), reason };
    let packed = data(secret, HELM_KEY).ok_or_else(|| unreadable(Unreadable::NoData))?;
    let helm = unwrapped(packed).map_err(|error| unreadable(Unreadable::Base64(error)))?;
    let own = data(secret, OWN_KEY).map(|bytes| Own::within(bytes, own_limits)).transpose();
    let (own, counted_own) = own
        .map_err(|error| match error {
            OwnError::Exceeded(exceeded) => RecordError::Exceeded { secret: place.clone(), exceeded },
            error => RecordError::Own { secret: place.clone(), error },
        })?
        .unzip();
    let json::Read { mut release, has_templates, counted } =
        json::read(&helm, limits).map_err(|error| RecordError::of_reading(&place, error))?;
    if release.revision > LAST_REVISION {
        return Err(unreadable(Unreadable::Revision(release.revision)));
    }
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
    let counted = counted + counted_own.unwrap_or_default();
    release.stored = Stored { has_templates, counted, ..stored(secret, Some(helm)) };
    Ok(release)
}

fn data<'a>(secret: &'a Secret, key: &str) -> Option<&'a [u8]> {
    secret.data.as_ref()?.get(key).map(|bytes| bytes.0.as_slice())
}

fn stored(secret: &Secret, helm: Option<Vec<u8>>) -> Stored {
    Stored {
        helm: helm.map(Arc::from),
        own: data(secret, OWN_KEY).map(Arc::from),
        has_templates: false,
        resource_version: secret.metadata.resource_version.clone(),
        digest_label: label(secret, DIGEST_LABEL),
        owner_label: label(secret, OWNER_LABEL),
        written_at: written_at(secret),
        owners: owners(secret),
        content: None,
        counted: 0,
    }
}

/// The data keys, if a Secret holds them and `reserve` bytes more, and if they can be read again. What helm does without is
/// left out where there is no room.
fn pack(release: &Release, reserve: usize) -> Result<BTreeMap<&'static str, Vec<u8>>, RecordError> {
    let reserve = reserve + SIGNATURE_RESERVE;
    let secret = || format!("{}/{}", release.namespace, release.secret_name());
    let stored = &release.stored;
    let helm = json::write(release, stored.helm.as_deref());
    let mut helm = helm.map_err(|error| RecordError::of_reading(&secret(), error))?;
    let own = release.own.as_ref().map(|own| own_bytes(own, stored)).transpose();
    let own = own.map_err(|exceeded| RecordError::WouldExceed { secret: secret(), exceeded })?;
    let pack = |helm: &json::Document| {
        let bytes = helm.to_bytes();
        budget::check(&bytes, &RECORD)?;
        let packed = STANDARD.encode(gzip::pack(&bytes)).into_bytes();
        let mut data = BTreeMap::from([(HELM_KEY, packed)]);
        data.extend(own.clone().map(|own| (OWN_KEY, own)));
        let size = data.values().map(Vec::len).sum::<usize>() + reserve;
        Ok((data, size))
    };
    let would_exceed = |exceeded| RecordError::WouldExceed { secret: secret(), exceeded };
    let (mut data, mut size) = pack(&helm).map_err(would_exceed)?;
    if size > SECRET_LIMIT {
        helm.thin_out();
        (data, size) = pack(&helm).map_err(would_exceed)?;
    }
    match size > SECRET_LIMIT {
        true => Err(RecordError::RecordTooLarge { secret: secret(), size }),
        false => Ok(data),
    }
}

fn own_bytes(own: &Own, stored: &Stored) -> Result<Vec<u8>, Exceeded> {
    match &stored.own {
        // Nothing of ours changed, so fields of a later version stay.
        Some(bytes) if Own::from_bytes(bytes).is_ok_and(|stored| stored == *own) => Ok(bytes.to_vec()),
        _ if own.objects.len() > OBJECTS => Err(Exceeded::Objects),
        _ => budget::check(&own.to_json(), &OWN).map(|()| own.to_bytes()),
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

/// As Helm does: line breaks in the base64 are skipped.
fn unwrapped(packed: &[u8]) -> Result<Vec<u8>, base64::DecodeError> {
    match packed.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
        true => {
            let text: Vec<u8> = packed.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
            STANDARD.decode(text)
        }
        false => STANDARD.decode(packed),
    }
}
