//! The key that signs release records, in a Secret of the operator's namespace.
//!
//! Its public half is in a Secret of its own, so that people may be allowed to verify records without being able to sign any.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, PostParams};
use kube::core::ObjectMeta;

use super::{MANAGER, TrustError, code, failed};
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

pub async fn load(client: Client, namespace: &str, mut leading: Leading) -> Result<SigningKey, TrustError> {
    let api: Api<Secret> = Api::namespaced(client, namespace);
    loop {
        if let Some(secret) = api.get_opt(SECRET).await.map_err(failed("get", namespace, SECRET))? {
            let key = read(&secret, namespace)?;
            if leading.now() {
                publish(&api, namespace, &key).await?;
            }
            return Ok(key);
        }
        if leading.now() {
            let pkcs8 = SigningKey::generate().map_err(|_| TrustError::NoRandomNumbers)?;
            create(&api, namespace, SECRET, TYPE, PRIVATE_KEY, pkcs8).await?;
            tracing::info!(namespace, secret = SECRET, "created the key that signs release records");
            continue;
        }
        tokio::select! {
            () = leading.begins() => {}
            () = tokio::time::sleep(LOOK_AGAIN) => {}
        }
    }
}

/// Whoever reads this Secret can verify records.
async fn publish(api: &Api<Secret>, namespace: &str, key: &SigningKey) -> Result<(), TrustError> {
    let public = key.public().to_base64().into_bytes();
    let published = api.get_opt(PUBLIC_SECRET).await.map_err(failed("get", namespace, PUBLIC_SECRET))?;
    if published.as_ref().is_some_and(|secret| !is_public(secret)) {
        // The type of a Secret cannot be changed, and the operator may not delete Secrets here.
        tracing::warn!(
            namespace,
            secret = PUBLIC_SECRET,
            "the Secret is not of the type {PUBLIC_TYPE}, so nobody verifies records with it; delete it and restart the operator, which creates it again"
        );
        return Ok(());
    }
    match published.as_ref().map(|secret| data(secret, PUBLIC_KEY)) {
        Some(Some(bytes)) if bytes == public => Ok(()),
        Some(_) => {
            let patch = serde_json::json!({"data": {PUBLIC_KEY: ByteString(public)}});
            let params = kube::api::PatchParams { field_manager: Some(MANAGER.into()), ..Default::default() };
            let patched = api.patch(PUBLIC_SECRET, &params, &kube::api::Patch::Merge(patch)).await;
            patched.map(|_| ()).map_err(failed("patch", namespace, PUBLIC_SECRET))
        }
        None => create(api, namespace, PUBLIC_SECRET, PUBLIC_TYPE, PUBLIC_KEY, public).await,
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

fn read(secret: &Secret, namespace: &str) -> Result<SigningKey, TrustError> {
    let bytes = data(secret, PRIVATE_KEY).unwrap_or_default();
    SigningKey::from_pkcs8(bytes).map_err(|error| TrustError::Key { secret: format!("{namespace}/{SECRET}"), error })
}

fn data<'a>(secret: &'a Secret, key: &str) -> Option<&'a [u8]> {
    secret.data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.as_slice())
}

/// One that exists already is no error: another operator was faster.
async fn create(
    api: &Api<Secret>,
    namespace: &str,
    name: &'static str,
    type_: &str,
    key: &str,
    bytes: Vec<u8>,
) -> Result<(), TrustError> {
    let secret = Secret {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..Default::default() },
        type_: Some(type_.to_owned()),
        data: Some(BTreeMap::from([(key.to_owned(), ByteString(bytes))])),
        ..Default::default()
    };
    let params = PostParams { field_manager: Some(MANAGER.into()), ..Default::default() };
    match api.create(&params, &secret).await {
        Err(error) if code(&error) != Some(409) => Err(failed("create", namespace, name)(error)),
        _ => Ok(()),
    }
}
