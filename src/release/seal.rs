//! Signing what is about to be written, and judging what was read.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::codec::{DIGEST_LABEL, HELM_KEY, OWN_KEY};
use super::proof::{Confirmed, Doubt, Evidence, Labels, Proof, SIGNATURE_KEY, SIGNATURE_LABELS, Signatures, Signer};
use super::{History, Release, proof};

/// Signs the Secret of a new record.
pub fn seal(secret: &mut Secret, release: &Release, signer: &Signer) {
    let Some(signatures) = signatures(release, signer, |key| secret.data.as_ref()?.get(key).map(|it| it.0.clone()))
    else {
        return;
    };
    let data = secret.data.get_or_insert_default();
    data.insert(SIGNATURE_KEY.to_owned(), ByteString(signatures.record));
    let labels = SIGNATURE_LABELS.map(str::to_owned).into_iter().zip(signatures.content);
    secret.metadata.labels.get_or_insert_default().extend(labels);
}

/// Signs a merge patch. What is not ours any more loses its signature.
pub fn seal_patch(patch: &mut Value, release: &Release, signer: &Signer) {
    if release.own.is_none() {
        patch["data"][SIGNATURE_KEY] = Value::Null;
        return;
    }
    let bytes = |key: &str| patch["data"][key].as_str().and_then(|text| STANDARD.decode(text).ok());
    let Some(signatures) = signatures(release, signer, bytes) else { return };
    patch["data"][SIGNATURE_KEY] = STANDARD.encode(signatures.record).into();
    for (label, half) in SIGNATURE_LABELS.into_iter().zip(signatures.content) {
        patch["metadata"]["labels"][label] = json!(half);
    }
}

fn signatures(release: &Release, signer: &Signer, bytes: impl Fn(&str) -> Option<Vec<u8>>) -> Option<Signatures> {
    let own = release.own.as_ref()?;
    signer.sign(release, own, &bytes(HELM_KEY)?, &bytes(OWN_KEY)?)
}

/// A record that was read from a Secret, with what vouches for it. Our data is taken out where nothing does.
pub fn judged(release: Release, secret: &Secret, signer: &Signer, owner: Option<&str>) -> Release {
    let data = |key: &str| secret.data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.as_slice());
    let labels = Labels::of(secret.metadata.labels.as_ref(), DIGEST_LABEL);
    let content = proof::content_hash(&release);
    let evidence = Evidence { own: data(OWN_KEY), signature: data(SIGNATURE_KEY), labels, content };
    let proof = unless_ambiguous(&release, signer.judge(&release, evidence, owner));
    let mut release = with_proof(release, proof);
    release.stored.content = Some(content);
    release
}

/// The signature of content covers what we read in a record that somebody else wrote, and helm may read something else.
fn unless_ambiguous(release: &Release, proof: Proof) -> Proof {
    match proof {
        Proof::Content | Proof::CopyOf { .. } if release.stored.is_ambiguous() => Proof::Missing(Doubt::Ambiguous),
        proof => proof,
    }
}

/// The hash of a record's content, which was worked out when it was read.
fn content_of(release: &Release) -> proof::Hash {
    release.stored.content.unwrap_or_else(|| proof::content_hash(release))
}

fn with_proof(mut release: Release, proof: Proof) -> Release {
    if proof != Proof::Record {
        release.claimed = release.own.take().map(Box::new).or(release.claimed);
    }
    Release { proof, ..release }
}

/// The same history, judged by what the ledger confirms. Content that the ledger or a signed revision has is recognised in unsigned records,
/// and signed records that were replaced since are doubted.
pub fn compared(history: History, confirmed: Option<&Confirmed>) -> History {
    let releases: Vec<Release> = history.into_releases().map(|release| held_against(release, confirmed)).collect();
    let signed: HashMap<proof::Hash, Proof> = releases
        .iter()
        .filter(|release| release.is_proven())
        .map(|release| {
            let (revision, digest) = (release.revision, release.digest().unwrap_or_default().to_owned());
            (content_of(release), Proof::CopyOf { revision, digest })
        })
        .collect();
    // What helm copies is a new revision.
    let newest = confirmed.map_or(0, |confirmed| confirmed.revision);
    let compared = releases.into_iter().map(|release| match release.proof {
        Proof::Missing(_) if release.revision > newest => match signed.get(&content_of(&release)) {
            Some(copy) => Release { proof: unless_ambiguous(&release, copy.clone()), ..release },
            None => release,
        },
        _ => release,
    });
    History::new(compared.collect())
}

fn held_against(release: Release, confirmed: Option<&Confirmed>) -> Release {
    let Some(Confirmed { revision, content, digest, oldest }) = confirmed else { return release };
    let is_confirmed = release.revision == *revision && content_of(&release) == *content;
    let is_replaced = release.revision < *oldest || release.revision == *revision && !is_confirmed;
    match release.is_proven() {
        true if is_replaced => with_proof(release, Proof::Missing(Doubt::Replayed)),
        false if is_confirmed => {
            let copy = Proof::CopyOf { revision: *revision, digest: digest.clone() };
            let proof = unless_ambiguous(&release, copy);
            with_proof(release, proof)
        }
        _ => release,
    }
}
