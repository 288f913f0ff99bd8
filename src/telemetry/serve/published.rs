//! The certificate for metrics that all replicas share, and that whoever scrapes can verify.
//!
//! The pair is in a Secret of the operator's namespace, which the first replica makes. Its certificate is in a ConfigMap of the same name,
//! for the `tlsConfig` of a ServiceMonitor: `ca.configMap` with the key `ca.crt`, and the server name [`SERVER_NAME`]. Whoever
//! replaces the pair in the Secret, cert-manager for example, replaces what is served after the next start; a `ca.crt` beside it is
//! what the ConfigMap gets then.
//!
//! An operator without the rights to this serves a certificate of its own, as before it was connected, and logs why.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use rustls::sign::CertifiedKey;
use serde_json::json;

use super::tls::{self, CERTIFICATE, KEY, Own, Pem, TlsError};
use crate::error::sentence;
use crate::leader::guard::is_refusal;
use crate::sensitive::METRICS_CA as NAME;

/// The name that the certificate is for, whatever the Service is called.
pub const SERVER_NAME: &str = "chartwright-metrics";
const CA: &str = "ca.crt";
const TYPE: &str = "kubernetes.io/tls";

/// Between tries while the API server cannot be asked, or while only the leader may write.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
enum PublishError {
    #[error("cannot {verb} the {kind} {NAME}: {}", sentence(.error))]
    Api { verb: &'static str, kind: &'static str, error: kube::Error },
    #[error("the Secret {NAME} has no {key}; delete it, and the operator makes a new one")]
    NoKey { key: &'static str },
    #[error("the Secret {NAME} cannot be used: {0}; delete it, and the operator makes a new one")]
    Pair(#[from] TlsError),
}

impl PublishError {
    /// Whether the next try may end differently without anybody's help.
    fn passes(&self) -> bool {
        match self {
            PublishError::Api { error, .. } if is_refusal(error) => true,
            PublishError::Api { error: kube::Error::Api(status), .. } => !matches!(status.code, 401 | 403),
            PublishError::Api { .. } => true,
            PublishError::NoKey { .. } | PublishError::Pair(_) => false,
        }
    }
}

/// Has `own` serve the shared certificate as soon as there is one.
pub async fn share(client: Client, namespace: String, own: Arc<Own>) {
    let mut pause = FIRST_PAUSE;
    loop {
        match publish(&client, &namespace, &own).await {
            Ok(()) => {
                tracing::info!(namespace, name = NAME, "metrics are served with the certificate of the Secret");
                return;
            }
            Err(error) if error.passes() => {
                tracing::debug!(namespace, "the certificate for metrics is not shared yet: {error}");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Err(error) => {
                tracing::warn!(namespace, "metrics are served with a certificate that nobody can verify: {error}");
                return;
            }
        }
    }
}

async fn publish(client: &Client, namespace: &str, own: &Own) -> Result<(), PublishError> {
    let secret = secret(&Api::namespaced(client.clone(), namespace)).await?;
    let (pair, ca) = read(&secret)?;
    own.replace(pair);
    announce(&Api::namespaced(client.clone(), namespace), &ca).await
}

/// The Secret, made if there is none.
async fn secret(api: &Api<Secret>) -> Result<Secret, PublishError> {
    let failed = |verb| move |error| PublishError::Api { verb, kind: "Secret", error };
    if let Some(secret) = api.get_opt(NAME).await.map_err(failed("get"))? {
        return Ok(secret);
    }
    let Pem { certificate, key } = tls::self_signed()?;
    let data = [(CERTIFICATE, certificate), (KEY, key)];
    let secret = Secret {
        metadata: metadata(),
        type_: Some(TYPE.to_owned()),
        data: Some(data.map(|(name, pem)| (name.to_owned(), ByteString(pem.into_bytes()))).into()),
        ..Default::default()
    };
    match api.create(&PostParams::default(), &secret).await {
        // Another replica was faster.
        Err(kube::Error::Api(status)) if status.code == 409 => api.get(NAME).await.map_err(failed("get")),
        created => created.map_err(failed("create")),
    }
}

/// The pair, and the certificate by which others verify it.
fn read(secret: &Secret) -> Result<(CertifiedKey, String), PublishError> {
    let data = |key: &'static str| secret.data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.as_slice());
    let needed = |key: &'static str| data(key).ok_or(PublishError::NoKey { key });
    let (certificate, key) = (needed(CERTIFICATE)?, needed(KEY)?);
    let pair = tls::pair_of(NAME.as_ref(), certificate, key)?;
    let ca = data(CA).filter(|ca| !ca.is_empty()).unwrap_or(certificate);
    Ok((pair, String::from_utf8_lossy(ca).into_owned()))
}

/// Has the ConfigMap hold this certificate, and writes only where it does not.
async fn announce(api: &Api<ConfigMap>, ca: &str) -> Result<(), PublishError> {
    let failed = |verb| move |error| PublishError::Api { verb, kind: "ConfigMap", error };
    let data: BTreeMap<String, String> = [(CA.to_owned(), ca.to_owned())].into();
    match api.get_opt(NAME).await.map_err(failed("get"))? {
        Some(known) if known.data.as_ref().and_then(|data| data.get(CA)).is_some_and(|known| known == ca) => Ok(()),
        Some(_) => {
            let patch = Patch::Merge(json!({"data": data}));
            api.patch(NAME, &PatchParams::default(), &patch).await.map(|_| ()).map_err(failed("patch"))
        }
        None => {
            let config = ConfigMap { metadata: metadata(), data: Some(data), ..Default::default() };
            match api.create(&PostParams::default(), &config).await {
                // Another replica was faster, with the certificate of the same Secret.
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
                created => created.map(|_| ()).map_err(failed("create")),
            }
        }
    }
}

fn metadata() -> ObjectMeta {
    let labels = [("app.kubernetes.io/managed-by".to_owned(), "chartwright".to_owned())];
    ObjectMeta { name: Some(NAME.to_owned()), labels: Some(labels.into()), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(entries: &[(&str, &str)]) -> Secret {
        let data = entries.iter().map(|(key, text)| ((*key).to_owned(), ByteString(text.as_bytes().to_vec())));
        Secret { data: Some(data.collect()), ..Default::default() }
    }

    #[test]
    fn a_pair_is_its_own_ca_unless_the_secret_names_another() {
        let Pem { certificate, key } = tls::self_signed().unwrap();
        let (_, ca) = read(&held(&[(CERTIFICATE, &certificate), (KEY, &key)])).unwrap();
        assert_eq!(ca, certificate);
        let (_, ca) = read(&held(&[(CERTIFICATE, &certificate), (KEY, &key), (CA, "theirs")])).unwrap();
        assert_eq!(ca, "theirs");
    }

    #[test]
    fn a_broken_secret_is_told_without_its_content() {
        let Pem { certificate, key } = tls::self_signed().unwrap();
        let other = tls::self_signed().unwrap().key;
        for (entries, expected) in [
            (vec![], "has no tls.crt"),
            (vec![(CERTIFICATE, certificate.as_str())], "has no tls.key"),
            (vec![(CERTIFICATE, certificate.as_str()), (KEY, "nonsense")], "holds no private key"),
            (vec![(CERTIFICATE, certificate.as_str()), (KEY, other.as_str())], "cannot be used"),
            (vec![(CERTIFICATE, "nonsense"), (KEY, key.as_str())], "holds no certificate"),
        ] {
            let error = read(&held(&entries)).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert!(!error.passes() && !error.to_string().contains("BEGIN"), "{error}");
        }
    }
}
