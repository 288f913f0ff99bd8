//! The key that signs release records, in a Secret of the operator's namespace.
//!
//! Its public half is in a Secret of its own, so that people may be allowed to verify records without being able to sign any.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use serde_json::json;

use super::{MANAGER, TrustError, code, failed};
use crate::calls::Calls;
use crate::leader::Leading;
use crate::release::proof::{PublicKey, SigningKey};
use crate::sensitive::{PUBLIC_KEY as PUBLIC_SECRET, SIGNING_KEY as SECRET};

/// No release may render, adopt, look up or read Secrets of such a type.
pub const TYPE: &str = "chartwright.dev/signing-key";
pub const PUBLIC_TYPE: &str = "chartwright.dev/public-key";

const PRIVATE_KEY: &str = "ed25519.pkcs8";
const PUBLIC_KEY: &str = "ed25519.pub";

/// How often an operator that stands by looks whether the one that works has made the key.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// A key, and what its Secret holds.
pub struct Loaded {
    pub key: SigningKey,
    pub pkcs8: Vec<u8>,
}

/// Reads the key. Where there is none, the operator that works makes it, and the others wait for it.
pub async fn load(calls: &Calls, namespace: &str, mut leading: Leading) -> Result<Loaded, TrustError> {
    let api: Api<Secret> = Api::namespaced(calls.client(), namespace);
    loop {
        let found = calls.within(api.get_opt(SECRET)).await.map_err(failed("get", namespace, SECRET))?;
        if let Some(secret) = found {
            let pkcs8 = held(&secret).to_vec();
            let key = SigningKey::from_pkcs8(&pkcs8);
            let key = key.map_err(|error| TrustError::Key { secret: format!("{namespace}/{SECRET}"), error })?;
            return Ok(Loaded { key, pkcs8 });
        }
        if leading.now() {
            let pkcs8 = SigningKey::generate().map_err(|_| TrustError::NoRandomNumbers)?;
            if create(calls, namespace, pkcs8).await? {
                tracing::info!(namespace, secret = SECRET, "created the key that signs release records");
            }
            continue;
        }
        tokio::select! {
            () = leading.begins() => {}
            () = tokio::time::sleep(LOOK_AGAIN) => {}
        }
    }
}

/// The key that a Secret holds, as PKCS#8. Nothing where it holds none.
pub fn held(secret: &Secret) -> &[u8] {
    data(secret, PRIVATE_KEY).unwrap_or_default()
}

/// Creates the Secret of a key. Returns whether it did: another operator may be faster.
pub async fn create(calls: &Calls, namespace: &str, pkcs8: Vec<u8>) -> Result<bool, TrustError> {
    create_secret(calls, namespace, (SECRET, TYPE), (PRIVATE_KEY, pkcs8)).await
}

/// Writes the key into a Secret that exists.
pub async fn replace(calls: &Calls, namespace: &str, pkcs8: Vec<u8>) -> Result<bool, TrustError> {
    patch_secret(calls, namespace, SECRET, (PRIVATE_KEY, pkcs8)).await
}

/// Whoever reads this Secret can verify records.
pub async fn publish(calls: &Calls, namespace: &str, key: &PublicKey) -> Result<bool, TrustError> {
    let api: Api<Secret> = Api::namespaced(calls.client(), namespace);
    let public = key.to_base64().into_bytes();
    let published = calls.within(api.get_opt(PUBLIC_SECRET)).await;
    let published = published.map_err(failed("get", namespace, PUBLIC_SECRET))?;
    if published.as_ref().is_some_and(|secret| !is_public(secret)) {
        // The type of a Secret cannot be changed, and the operator may not delete Secrets here.
        tracing::warn!(
            namespace,
            secret = PUBLIC_SECRET,
            "the Secret is not of the type {PUBLIC_TYPE}, so nobody verifies records with it; delete it and restart the operator, which creates it again"
        );
        return Ok(false);
    }
    match published.as_ref().map(|secret| data(secret, PUBLIC_KEY)) {
        Some(Some(bytes)) if bytes == public => Ok(false),
        Some(_) => patch_secret(calls, namespace, PUBLIC_SECRET, (PUBLIC_KEY, public)).await,
        None => create_secret(calls, namespace, (PUBLIC_SECRET, PUBLIC_TYPE), (PUBLIC_KEY, public)).await,
    }
}

/// The public key of the operator in a namespace. None where there is none, and where the Secret is not of the operator's type:
/// somebody else may have created it.
pub async fn public(client: Client, namespace: &str) -> Result<Option<PublicKey>, kube::Error> {
    let api: Api<Secret> = Api::namespaced(client, namespace);
    let secret = api.get_opt(PUBLIC_SECRET).await?.filter(is_public);
    let text = secret.as_ref().and_then(|secret| data(secret, PUBLIC_KEY)).map(String::from_utf8_lossy);
    Ok(text.and_then(|text| PublicKey::from_base64(&text)))
}

fn is_public(secret: &Secret) -> bool {
    secret.type_.as_deref() == Some(PUBLIC_TYPE)
}

fn data<'a>(secret: &'a Secret, key: &str) -> Option<&'a [u8]> {
    secret.data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.as_slice())
}

async fn patch_secret(
    calls: &Calls,
    namespace: &str,
    name: &'static str,
    (key, bytes): (&str, Vec<u8>),
) -> Result<bool, TrustError> {
    let api: Api<Secret> = Api::namespaced(calls.client(), namespace);
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..Default::default() };
    let patch = Patch::Merge(json!({"data": {key: ByteString(bytes)}}));
    let patched = calls.within(api.patch(name, &params, &patch)).await;
    patched.map(|_| true).map_err(failed("patch", namespace, name))
}

async fn create_secret(
    calls: &Calls,
    namespace: &str,
    (name, type_): (&'static str, &str),
    (key, bytes): (&str, Vec<u8>),
) -> Result<bool, TrustError> {
    let api: Api<Secret> = Api::namespaced(calls.client(), namespace);
    let secret = Secret {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..Default::default() },
        type_: Some(type_.to_owned()),
        data: Some(BTreeMap::from([(key.to_owned(), ByteString(bytes))])),
        ..Default::default()
    };
    let params = PostParams { field_manager: Some(MANAGER.into()), ..Default::default() };
    match calls.within(api.create(&params, &secret)).await {
        Ok(_) => Ok(true),
        Err(error) if code(&error) == Some(409) => Ok(false),
        Err(error) => Err(failed("create", namespace, name)(error)),
    }
}
