//! The time during which unsigned records are signed as they are.
//!
//! Releases of a version that did not sign, and all releases after the key or the ledger was lost, have records that nothing vouches for. Whoever
//! administers the operator's namespace can have them signed: `chartwright trust open` writes until when into a Secret there. When that time is
//! over, the operator writes down that it is, and refuses such records from then on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, pin_mut};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::runtime::watcher::Event;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{MANAGER, TrustError, code, failed};
use crate::sensitive::TRUST as SECRET;
use crate::watching;

pub const TYPE: &str = "chartwright.dev/trust";
const KEY: &str = "window";
/// Longer than any migration takes, and short enough that nobody forgets it open.
pub const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// What the Secret says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    pub opened_at: Timestamp,
    pub until: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
    /// How many releases were signed.
    #[serde(default)]
    pub signed: u32,
}

impl State {
    pub fn new(now: Timestamp, length: Duration) -> Self {
        State { opened_at: now, until: now + length.min(LONGEST), closed_at: None, signed: 0 }
    }

    pub fn is_open(&self, now: Timestamp) -> bool {
        self.closed_at.is_none() && self.opened_at <= now && now < self.until && self.until <= self.opened_at + LONGEST
    }
}

#[derive(Clone)]
pub struct Window {
    client: Client,
    namespace: String,
    state: Arc<Mutex<Option<State>>>,
}

impl Window {
    pub fn new(client: Client, namespace: &str) -> Self {
        Window { client, namespace: namespace.to_owned(), state: Arc::default() }
    }

    pub fn is_open(&self) -> bool {
        self.with(|state| state.as_ref().is_some_and(|state| state.is_open(Timestamp::now())))
    }

    /// Whether the window is open for this very release, so that its records are signed as they are.
    pub fn names(&self, _namespace: &str, _release: &str) -> bool {
        false
    }

    /// Counts a release that was signed.
    pub fn count(&self) {
        self.with(|state| {
            if let Some(state) = state {
                state.signed = state.signed.saturating_add(1);
            }
        });
    }

    /// Follows the Secret until `stop`. `opened` is called whenever it is opened.
    pub async fn follow(self, opened: impl Fn(), stop: CancellationToken) {
        let fields = format!("metadata.name={SECRET}");
        let events = watching::events_with(self.api(), None, Some(&fields)).take_until(stop.cancelled());
        pin_mut!(events);
        loop {
            let left =
                self.with(|state| state.as_ref().filter(|state| state.closed_at.is_none()).map(|state| state.until));
            let left = left.map(|until| Timestamp::now().duration_until(until).try_into().unwrap_or(Duration::ZERO));
            let over = async {
                match left {
                    Some(left) => tokio::time::sleep(left).await,
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                event = events.try_next() => event,
                () = over => {
                    self.close().await;
                    continue;
                }
            };
            match event {
                Ok(Some(Event::Apply(secret) | Event::InitApply(secret))) => {
                    if self.note(read(&secret)) {
                        tracing::warn!(
                            reason = "TrustWindowOpened",
                            "unsigned release records are signed until the window closes"
                        );
                        opened();
                    }
                }
                Ok(Some(Event::Delete(_))) => drop(self.note(None)),
                Ok(Some(Event::Init | Event::InitDone)) => {}
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!("the watch of the Secret {SECRET} broke; trying again: {}", watching::words(&error))
                }
            }
        }
    }

    /// Takes over what the Secret says. Returns whether the window was opened by it.
    fn note(&self, seen: Option<State>) -> bool {
        let now = Timestamp::now();
        self.with(|state| {
            let before = state.as_ref().map(|state| state.opened_at);
            let is_new = seen.as_ref().is_some_and(|seen| seen.is_open(now) && Some(seen.opened_at) != before);
            let signed = state.as_ref().filter(|_| !is_new).map_or(0, |state| state.signed);
            *state = seen.map(|seen| State { signed: seen.signed.max(signed), ..seen });
            is_new
        })
    }

    /// Writes down that the window is closed.
    async fn close(&self) {
        let closed = self.with(|state| {
            let state = state.as_mut()?;
            state.closed_at = Some(Timestamp::now());
            Some(state.clone())
        });
        let Some(closed) = closed else { return };
        tracing::warn!(
            reason = "TrustWindowClosed",
            signed = closed.signed,
            "unsigned release records are refused from now on"
        );
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..Default::default() };
        let patch = Patch::Merge(json!({"data": {KEY: encoded(&closed)}}));
        if let Err(error) = self.api().patch(SECRET, &params, &patch).await {
            // It is over by the clock, whatever the Secret says.
            tracing::warn!("cannot write down that the window is closed: {}", crate::error::sentence(&error));
        }
    }

    fn api(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn with<T>(&self, work: impl FnOnce(&mut Option<State>) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

/// What the Secret in an operator's namespace says. For the command line.
pub async fn state(client: Client, namespace: &str) -> Result<Option<State>, TrustError> {
    let api: Api<Secret> = Api::namespaced(client, namespace);
    Ok(api.get_opt(SECRET).await.map_err(failed("get", namespace, SECRET))?.as_ref().and_then(read))
}

/// Writes what the Secret is to say. For the command line.
pub async fn write(client: Client, namespace: &str, state: &State) -> Result<(), TrustError> {
    let api: Api<Secret> = Api::namespaced(client, namespace);
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..Default::default() };
    let patch = Patch::Merge(json!({"data": {KEY: encoded(state)}}));
    match api.patch(SECRET, &params, &patch).await {
        Err(error) if code(&error) == Some(404) => {}
        result => return result.map(|_| ()).map_err(failed("patch", namespace, SECRET)),
    }
    let secret = Secret {
        metadata: ObjectMeta { name: Some(SECRET.to_owned()), ..Default::default() },
        type_: Some(TYPE.to_owned()),
        data: Some(BTreeMap::from([(KEY.to_owned(), encoded(state))])),
        ..Default::default()
    };
    api.create(&PostParams::default(), &secret).await.map(|_| ()).map_err(failed("create", namespace, SECRET))
}

fn read(secret: &Secret) -> Option<State> {
    let ByteString(json) = secret.data.as_ref()?.get(KEY)?;
    serde_json::from_slice(json).ok()
}

fn encoded(state: &State) -> ByteString {
    ByteString(serde_json::to_vec(state).unwrap_or_default())
}
