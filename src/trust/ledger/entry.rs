//! What is noted of a release, and the Secret that holds it. Pure.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::core::ObjectMeta;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::{LABEL, PREFIX, TYPE};
use crate::object::ObjectId;
use crate::release::OwnerMark;
use crate::release::proof::{Confirmed, Hash};
use crate::trust::TrustError;

/// The data keys of a Secret.
const OWNER: &str = "owner";
const ENTRY: &str = "entry";
/// The most that one entry may say about objects outside of the release's namespace, in bytes. A Secret takes 1 MiB.
const OUTSIDE_LIMIT: usize = 256 * 1024;

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

impl Entry {
    /// What it says about the records of the release.
    pub fn confirmed(&self) -> Confirmed {
        let digest = self.rendered.as_ref().unwrap_or(&self.digest).clone();
        Confirmed { revision: self.revision, content: self.content, digest, oldest: self.oldest }
    }
}

/// A revision that nothing vouches for, and that is left alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    pub revision: u32,
    /// It is left alone until spec and chart give another digest.
    pub digest: String,
}

mod base64_hash {
    use serde::de::Error;

    use super::*;

    pub fn serialize<S: serde::Serializer>(hash: &Hash, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(hash))
    }

    pub fn deserialize<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Hash, D::Error> {
        let bytes = STANDARD.decode(String::deserialize(deserializer)?).map_err(D::Error::custom)?;
        Hash::try_from(bytes).map_err(|_| D::Error::custom("a hash has 32 bytes"))
    }
}

/// Refuses objects outside of a release's namespace that are too many to note. Without a note they would stay when the release goes.
pub fn check_outside(outside: &[ObjectId]) -> Result<(), TrustError> {
    let size = serde_json::to_vec(outside).map_or(usize::MAX, |json| json.len());
    match size > OUTSIDE_LIMIT {
        true => Err(TrustError::TooMuchOutside { objects: outside.len(), size, limit: OUTSIDE_LIMIT }),
        false => Ok(()),
    }
}

/// An entry as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Noted {
    pub owner: OwnerMark,
    pub entry: Entry,
    /// The resource version of the Secret.
    pub version: String,
}

impl Noted {
    /// # Errors
    /// Says what is wrong with the Secret.
    pub fn read(secret: &Secret) -> Result<Self, String> {
        if secret.type_.as_deref() != Some(TYPE) {
            return Err(format!("it is not of the type {TYPE}"));
        }
        let part = |key: &str| {
            let data = secret.data.as_ref().and_then(|data| data.get(key));
            data.map(|bytes| bytes.0.as_slice()).ok_or_else(|| format!("it has no data key {key:?}"))
        };
        let wrong = |key: &'static str| move |error| format!("the data key {key:?} cannot be read ({error})");
        Ok(Noted {
            owner: serde_json::from_slice(part(OWNER)?).map_err(wrong(OWNER))?,
            entry: serde_json::from_slice(part(ENTRY)?).map_err(wrong(ENTRY))?,
            version: secret.metadata.resource_version.clone().unwrap_or_default(),
        })
    }
}

pub fn secret(owner: &OwnerMark, entry: &Entry) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(name(&owner.id())),
            labels: Some(BTreeMap::from([(LABEL.to_owned(), String::new())])),
            ..Default::default()
        },
        type_: Some(TYPE.to_owned()),
        data: Some(data(owner, entry)),
        ..Default::default()
    }
}

pub fn data(owner: &OwnerMark, entry: &Entry) -> BTreeMap<String, ByteString> {
    BTreeMap::from([
        (OWNER.to_owned(), ByteString(serde_json::to_vec(owner).unwrap_or_default())),
        (ENTRY.to_owned(), ByteString(serde_json::to_vec(entry).unwrap_or_default())),
    ])
}

/// The name of the Secret. An id has capital letters, which a name may not have.
pub fn name(id: &str) -> String {
    let hash = digest(&SHA256, id.as_bytes());
    hash.as_ref().iter().fold(PREFIX.to_owned(), |name, byte| format!("{name}{byte:02x}"))
}
