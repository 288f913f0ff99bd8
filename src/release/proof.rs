//! Signatures on release records. Pure.
//!
//! A record is a Secret in a tenant's namespace, so whoever may write Secrets there can forge one. The operator signs each record that it
//! writes, with a key that only it can read, and takes object content only from records whose signature it can verify.
//!
//! Two signatures cover a record:
//!
//! | signature | where | covers | survives |
//! |---|---|---|---|
//! | record | data key `chartwright.sig` | content, inventory and the packed bytes, bound to namespace, release, owner UID and revision | nothing that helm writes |
//! | content | two labels | manifest, hooks, values, chart name and version, digest, bound to the same | `helm rollback`, `upgrade`, `test`: helm drops data keys, and keeps labels |
//!
//! Status, description, notes and the results of hooks are not covered: helm rewrites them.

mod content;

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::digest::{Context, SHA256};
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use super::{Own, Release};
pub use content::content_hash;

/// The data key of the record signature.
pub const SIGNATURE_KEY: &str = "chartwright.sig";
/// The labels that together hold the content signature: one label is too short for it.
pub const SIGNATURE_LABELS: [&str; 2] = ["chartwright.dev/signature-1", "chartwright.dev/signature-2"];

const CONTENT: &str = "chartwright.dev/release-content/v1";
const RECORD: &str = "chartwright.dev/release-record/v1";

/// SHA-256.
pub type Hash = [u8; 32];

/// What vouches for a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Proof {
    /// This operator wrote the record, and nobody changed what the signature covers. So it is with every record that is being made.
    #[default]
    Record,
    /// helm rewrote a record of this operator and dropped its data. Manifest, hooks and values are as they were signed.
    Content,
    /// The record is not signed, and its content is that of this signed revision, as after a `helm rollback`, or the content that the ledger
    /// notes for the revision.
    CopyOf {
        revision: u32,
        digest: String,
    },
    Missing(Doubt),
}

/// Why nothing vouches for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Another tool, or an earlier version of this operator, wrote it.
    Unsigned,
    /// The signature is another operator's, or covers something else.
    Signature,
    /// The operator signed it for another custom resource, or for an earlier one of the same name.
    OtherOwner,
    /// The operator signed it, and later signed another record for the same revision, or let it expire.
    Replayed,
    /// It has keys that helm reads as others.
    Ambiguous,
}

impl Doubt {
    pub fn sentence(self) -> &'static str {
        match self {
            Doubt::Unsigned => "this operator did not sign it",
            Doubt::Signature => "its signature does not match its content",
            Doubt::OtherOwner => "this operator signed it for another custom resource",
            Doubt::Replayed => "this operator signed it earlier and has replaced it since",
            Doubt::Ambiguous => "it has keys that differ from Helm's in case only, which helm reads differently",
        }
    }
}

/// What the ledger says about the records of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmed {
    /// The newest revision that was signed and may have been applied.
    pub revision: u32,
    /// The hash of its content.
    pub content: Hash,
    /// The digest that its content was rendered from.
    pub digest: String,
    /// The oldest revision that has not expired.
    pub oldest: u32,
}

/// The operator's key.
pub struct SigningKey {
    pair: Ed25519KeyPair,
}

#[derive(Debug, thiserror::Error)]
#[error("it holds no Ed25519 key in PKCS#8: {0}")]
pub struct KeyError(ring::error::KeyRejected);

impl SigningKey {
    /// A new key, as PKCS#8.
    ///
    /// # Errors
    /// The system has no source of random numbers.
    pub fn generate() -> Result<Vec<u8>, ring::error::Unspecified> {
        Ok(Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())?.as_ref().to_vec())
    }

    pub fn from_pkcs8(bytes: &[u8]) -> Result<Self, KeyError> {
        Ok(SigningKey { pair: Ed25519KeyPair::from_pkcs8(bytes).map_err(KeyError)? })
    }

    pub fn public(&self) -> PublicKey {
        PublicKey(self.pair.public_key().as_ref().to_vec())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(Vec<u8>);

impl PublicKey {
    pub fn from_base64(text: &str) -> Option<Self> {
        STANDARD.decode(text.trim()).ok().filter(|bytes| bytes.len() == 32).map(PublicKey)
    }

    pub fn to_base64(&self) -> String {
        STANDARD.encode(&self.0)
    }

    fn verifies(&self, statement: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(statement, signature).is_ok()
    }
}

/// How records are signed and verified.
#[derive(Clone, Default)]
pub enum Signer {
    /// Signs nothing, and takes every record that has our data for ours. For commands that only show what the operator would do.
    #[default]
    Unchecked,
    /// Verifies, and signs nothing.
    Verify(PublicKey),
    /// The operator.
    Sign(Arc<SigningKey>),
}

/// What the data key [`SIGNATURE_KEY`] holds.
struct RecordSignature {
    /// The hash of the content, so that the watch need not unpack the record.
    content: Hash,
    /// The hash of the data key `release` as it was written.
    packed: Hash,
    signature: Vec<u8>,
}

/// The same as JSON.
#[derive(Serialize, Deserialize)]
struct StoredSignature {
    content: String,
    packed: String,
    signature: String,
}

impl RecordSignature {
    fn read(stored: Option<&[u8]>) -> Option<Self> {
        let stored: StoredSignature = serde_json::from_slice(stored?).ok()?;
        let hash = |text: &str| STANDARD.decode(text).ok().and_then(|bytes| Hash::try_from(bytes).ok());
        let signature = STANDARD.decode(&stored.signature).ok()?;
        Some(RecordSignature { content: hash(&stored.content)?, packed: hash(&stored.packed)?, signature })
    }

    fn statement(&self, subject: Subject<'_>, own: &[u8]) -> Vec<u8> {
        record_statement(subject, &hash(own), &self.content, &self.packed)
    }
}

/// What identifies a record.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    pub namespace: &'a str,
    pub release: &'a str,
    pub revision: u32,
}

impl<'a> Subject<'a> {
    pub fn of(release: &'a Release) -> Self {
        Subject { namespace: &release.namespace, release: &release.name, revision: release.revision }
    }
}

/// The signatures of one record, as they are stored.
pub struct Signatures {
    /// For [`SIGNATURE_KEY`].
    pub record: Vec<u8>,
    /// For [`SIGNATURE_LABELS`].
    pub content: [String; 2],
}

impl Signer {
    fn public(&self) -> Option<PublicKey> {
        match self {
            Signer::Unchecked => None,
            Signer::Verify(key) => Some(key.clone()),
            Signer::Sign(key) => Some(key.public()),
        }
    }

    /// The signatures of a record that is about to be written. `packed` and `own` are its data keys. None where nothing is signed.
    pub fn sign(&self, release: &Release, own: &Own, packed: &[u8], own_bytes: &[u8]) -> Option<Signatures> {
        let Signer::Sign(key) = self else { return None };
        let (subject, content, packed) = (Subject::of(release), content_hash(release), hash(packed));
        let sign = |statement: &[u8]| key.pair.sign(statement).as_ref().to_vec();
        let record = StoredSignature {
            content: STANDARD.encode(content),
            packed: STANDARD.encode(packed),
            signature: STANDARD.encode(sign(&record_statement(subject, &hash(own_bytes), &content, &packed))),
        };
        let signed = sign(&content_statement(subject, &own.owner.uid, &own.digest, &content));
        let (first, second) = signed.split_at(signed.len() / 2);
        // A label's value begins and ends with a letter or a digit.
        let label = |half: &[u8]| format!("s{}s", URL_SAFE_NO_PAD.encode(half));
        Some(Signatures {
            record: serde_json::to_vec(&record).unwrap_or_default(),
            content: [label(first), label(second)],
        })
    }

    /// Whether the record signature covers our data and the packed record. Without the packed record, its hash is enough.
    pub fn verify_own(&self, subject: Subject<'_>, own: &[u8], packed: &Hash, signature: Option<&[u8]>) -> bool {
        let Some(key) = self.public() else { return true };
        let Some(signed) = RecordSignature::read(signature) else { return false };
        signed.packed == *packed && key.verifies(&signed.statement(subject, own), &signed.signature)
    }

    /// What vouches for a record that was read. `owner` is the UID of the custom resource that asks, where it is known.
    pub fn judge(&self, release: &Release, read: Evidence<'_>, owner: Option<&str>) -> Proof {
        let Evidence { own, signature, labels, content } = read;
        let Some(key) = self.public() else {
            return if own.is_some() { Proof::Record } else { unchecked(release, labels) };
        };
        let subject = Subject::of(release);
        if let (Some(own), Some(signed)) = (own, RecordSignature::read(signature)) {
            let is_signed = key.verifies(&signed.statement(subject, own), &signed.signature);
            if is_signed && signed.content == content {
                let is_owner = |uid: &str| release.own.as_ref().is_some_and(|own| own.owner.uid == uid);
                return match owner.is_none_or(is_owner) {
                    true => Proof::Record,
                    false => Proof::Missing(Doubt::OtherOwner),
                };
            }
        }
        let (Some(bytes), Some(digest)) = (labels.signature(), labels.digest) else {
            return Proof::Missing(if own.is_some() && signature.is_some() {
                Doubt::Signature
            } else {
                Doubt::Unsigned
            });
        };
        let is_signed = |uid: &str| key.verifies(&content_statement(subject, uid, digest, &content), &bytes);
        match owner.is_some_and(is_signed) {
            true => Proof::Content,
            false => Proof::Missing(Doubt::Signature),
        }
    }
}

/// What a command without a key makes of a record that helm wrote over ours.
fn unchecked(release: &Release, labels: Labels<'_>) -> Proof {
    match labels.digest.is_some() && release.stored.is_thin() {
        true => Proof::Content,
        false => Proof::Missing(Doubt::Unsigned),
    }
}

/// What of a record that was read matters here.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    /// The data keys.
    pub own: Option<&'a [u8]>,
    pub signature: Option<&'a [u8]>,
    pub labels: Labels<'a>,
    /// [`content_hash`] of the record.
    pub content: Hash,
}

/// The labels of a record that matter here.
#[derive(Clone, Copy, Default)]
pub struct Labels<'a> {
    pub digest: Option<&'a str>,
    pub halves: [Option<&'a str>; 2],
}

impl<'a> Labels<'a> {
    pub fn of(labels: Option<&'a BTreeMap<String, String>>, digest: &str) -> Self {
        let get = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
        Labels { digest: get(digest), halves: SIGNATURE_LABELS.map(get) }
    }

    fn signature(self) -> Option<Vec<u8>> {
        let mut bytes = vec![];
        for half in self.halves {
            let inner = half?.strip_prefix('s')?.strip_suffix('s')?;
            bytes.extend(URL_SAFE_NO_PAD.decode(inner).ok()?);
        }
        Some(bytes)
    }
}

fn record_statement(subject: Subject<'_>, own: &Hash, content: &Hash, packed: &Hash) -> Vec<u8> {
    let mut statement = header(RECORD, subject);
    [&own[..], content, packed].into_iter().for_each(|part| append(&mut statement, part));
    statement
}

fn content_statement(subject: Subject<'_>, owner: &str, digest: &str, content: &Hash) -> Vec<u8> {
    let mut statement = header(CONTENT, subject);
    [owner.as_bytes(), digest.as_bytes(), content].into_iter().for_each(|part| append(&mut statement, part));
    statement
}

fn header(kind: &str, subject: Subject<'_>) -> Vec<u8> {
    let mut statement = vec![];
    let revision = subject.revision.to_string();
    for part in [kind, subject.namespace, subject.release, &revision] {
        append(&mut statement, part.as_bytes());
    }
    statement
}

/// With its length, so that no two lists of parts give the same bytes.
fn append(statement: &mut Vec<u8>, part: &[u8]) {
    statement.extend((part.len() as u64).to_be_bytes());
    statement.extend(part);
}

pub fn hash(bytes: &[u8]) -> Hash {
    let mut context = Context::new(&SHA256);
    context.update(bytes);
    finish(context)
}

fn finish(context: Context) -> Hash {
    let mut hash = Hash::default();
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

#[cfg(test)]
mod tests;
