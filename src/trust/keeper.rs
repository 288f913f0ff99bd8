//! The Secret of the signing key stays as it is while the operator works.
//!
//! If it is deleted or emptied, the operator that works writes its key again. If it holds another key, the operator ends: the Secret decides, and
//! the next start uses that key. So an operator never signs with another key than the one in the Secret, and two operators never overwrite each
//! other's. One that stood by reads the Secret again before its first turn.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::key;
use super::{TrustError, failed, followed};
use crate::calls::Calls;
use crate::leader::Leading;
use crate::release::proof::{PublicKey, SigningKey};
use crate::sensitive::SIGNING_KEY as SECRET;

/// After a failure.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub struct Keeper(Arc<Inner>);

struct Inner {
    calls: Calls,
    namespace: String,
    leading: Leading,
    pkcs8: Vec<u8>,
    public: PublicKey,
    standing: watch::Sender<Standing>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Nobody has looked since this operator works.
    Unknown,
    Confirmed,
    Replaced,
}

/// What a Secret means to an operator that has a key.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Same,
    Other,
    /// It holds no key.
    Unusable,
    Missing,
}

fn found(secret: Option<&Secret>, pkcs8: &[u8]) -> Found {
    match secret.map(key::held) {
        None => Found::Missing,
        Some(held) if held == pkcs8 => Found::Same,
        Some(held) if SigningKey::from_pkcs8(held).is_ok() => Found::Other,
        Some(_) => Found::Unusable,
    }
}

impl Keeper {
    pub fn new(calls: Calls, namespace: &str, leading: Leading, pkcs8: Vec<u8>, public: PublicKey) -> Self {
        let (namespace, standing) = (namespace.to_owned(), watch::Sender::new(Standing::Unknown));
        Keeper(Arc::new(Inner { calls, namespace, leading, pkcs8, public, standing }))
    }

    /// Waits until the Secret was seen to hold this operator's key while it works. Nothing may be signed before.
    pub async fn confirmed(&self) {
        self.stands(Standing::Confirmed).await;
    }

    /// Waits until the Secret holds another key.
    pub async fn replaced(&self) -> TrustError {
        self.stands(Standing::Replaced).await;
        TrustError::OtherKey { secret: format!("{}/{SECRET}", self.0.namespace) }
    }

    /// Follows the Secret until `stop`.
    pub async fn follow(self, stop: CancellationToken) {
        let follow = async { tokio::join!(self.take_over(), self.watch()) };
        stop.run_until_cancelled(follow).await;
    }

    /// Looks once when this operator begins to work.
    async fn take_over(&self) {
        self.0.leading.clone().begins().await;
        loop {
            match self.look().await {
                Ok(Found::Same) => break,
                Ok(Found::Other) => return,
                // It was written just now, and is read once more.
                Ok(Found::Missing | Found::Unusable) => {}
                Err(error) => {
                    tracing::warn!("nothing is deployed until the signing key was looked at: {error}");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        self.stand(Standing::Confirmed);
        if let Err(error) = key::publish(&self.0.calls, &self.0.namespace, &self.0.public).await {
            tracing::warn!("nobody else can verify release records: {error}");
        }
    }

    async fn look(&self) -> Result<Found, TrustError> {
        let api: Api<Secret> = Api::namespaced(self.0.calls.client(), &self.0.namespace);
        let seen = self.0.calls.within(api.get_opt(SECRET)).await.map_err(failed("get", &self.0.namespace, SECRET))?;
        self.check(seen.as_ref()).await
    }

    async fn watch(&self) {
        let seen = followed::secret(self.0.calls.client(), &self.0.namespace, SECRET);
        pin_mut!(seen);
        while let Some(seen) = seen.next().await {
            while let Err(error) = self.check(seen.as_ref()).await {
                tracing::warn!(reason = "SigningKeyLost", "{error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Acts on what was seen.
    async fn check(&self, seen: Option<&Secret>) -> Result<Found, TrustError> {
        let Inner { calls, namespace, leading, pkcs8, .. } = &*self.0;
        let found = found(seen, pkcs8);
        let is_written = match found {
            Found::Other => {
                self.stand(Standing::Replaced);
                false
            }
            Found::Missing if leading.now() => key::create(calls, namespace, pkcs8.clone()).await?,
            Found::Unusable if leading.now() => key::replace(calls, namespace, pkcs8.clone()).await?,
            // The operator that works sees to it.
            Found::Same | Found::Missing | Found::Unusable => false,
        };
        if is_written {
            let why = if found == Found::Missing { "was deleted" } else { "held no key any more" };
            tracing::warn!(
                reason = "SigningKeyRestored",
                namespace,
                secret = SECRET,
                "the Secret of the signing key {why}; the operator wrote its key again"
            );
        }
        Ok(found)
    }

    /// What was replaced once stays so: this operator has the wrong key.
    fn stand(&self, now: Standing) {
        self.0.standing.send_if_modified(|standing| {
            let changes = *standing != Standing::Replaced && *standing != now;
            if changes {
                *standing = now;
            }
            changes
        });
    }

    async fn stands(&self, wanted: Standing) {
        // The sender is here, so the channel stays open.
        let _ = self.0.standing.subscribe().wait_for(|standing| *standing == wanted).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::FutureExt;
    use http::{Method, Request, Response};
    use k8s_openapi::ByteString;
    use kube::Client;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// The keeper of an operator that begins to work, with a key of its own, in a namespace whose Secret of the key is this one.
    async fn took_over(held: Option<Vec<u8>>) -> (Keeper, Vec<u8>, Arc<Mutex<Option<Value>>>) {
        let ours = SigningKey::generate().unwrap();
        let stored =
            held.map(|held| json!({"metadata": {"name": SECRET}, "data": {"ed25519.pkcs8": ByteString(held)}}));
        let stored = Arc::new(Mutex::new(stored));
        let secrets = stored.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let secrets = secrets.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let is_key = parts.uri.path().ends_with(SECRET);
                let mut stored = secrets.lock().unwrap();
                if let Ok(body) = serde_json::from_slice::<Value>(&body)
                    && parts.method == Method::POST
                    && body["metadata"]["name"] == SECRET
                {
                    *stored = Some(body);
                }
                let missing =
                    json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": ""});
                let (code, answer) = match (parts.method.as_str(), &*stored) {
                    ("GET", None) => (404, missing),
                    ("GET", Some(_)) if !is_key => (404, missing),
                    (_, stored) => (200, stored.clone().unwrap_or_default()),
                };
                let answer = Body::from(answer.to_string().into_bytes());
                Ok::<_, std::io::Error>(Response::builder().status(code).body(answer).unwrap())
            }
        });
        let calls = Calls::new(Client::new(service, "ops"));
        let public = SigningKey::from_pkcs8(&ours).unwrap().public();
        let keeper = Keeper::new(calls, "ops", Leading::always(), ours.clone(), public);
        keeper.take_over().await;
        (keeper, ours, stored)
    }

    #[tokio::test]
    async fn an_operator_that_begins_to_work_signs_with_no_other_key_than_that_of_the_secret() {
        let (keeper, ..) = took_over(Some(SigningKey::generate().unwrap())).await;
        assert!(keeper.confirmed().now_or_never().is_none(), "it gets no turn");
        let ended = keeper.replaced().now_or_never().unwrap().to_string();
        assert!(ended.contains("ops/chartwright-signing-key holds another key"), "{ended}");
    }

    #[tokio::test]
    async fn an_operator_that_begins_to_work_writes_a_key_again_that_went() {
        let (keeper, ours, stored) = took_over(None).await;
        keeper.confirmed().await;
        assert_eq!(stored.lock().unwrap().as_ref().unwrap()["data"]["ed25519.pkcs8"], json!(ByteString(ours)));
        assert!(keeper.replaced().now_or_never().is_none());
    }

    #[test]
    fn only_a_secret_without_a_key_is_written_again() {
        let [ours, other] = [(); 2].map(|()| SigningKey::generate().unwrap());
        let secret = |bytes: &[u8]| Secret {
            data: Some([("ed25519.pkcs8".to_owned(), ByteString(bytes.to_vec()))].into()),
            ..Default::default()
        };
        assert_eq!(found(Some(&secret(&ours)), &ours), Found::Same);
        assert_eq!(found(Some(&secret(&other)), &ours), Found::Other, "whoever wrote it wants it used");
        assert_eq!(found(Some(&secret(b"x")), &ours), Found::Unusable);
        assert_eq!(found(Some(&Secret::default()), &ours), Found::Unusable);
        assert_eq!(found(None, &ours), Found::Missing);
    }
}
