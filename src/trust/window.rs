//! The time during which unsigned records are signed as they are.
//!
//! Releases of a version that did not sign, and all releases after the key or the ledger was lost, have records that nothing vouches for. Whoever
//! administers the operator's namespace can have them signed: `chartwright trust open` writes until when, and for which releases, into a Secret
//! there. When that time is over, the operator writes down that it is, and refuses such records from then on.

mod state;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{StreamExt, pin_mut};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{MANAGER, TrustError, code, failed, followed};
use crate::calls::Calls;
use crate::cluster::clock;
use crate::leader::Leading;
use crate::sensitive::TRUST as SECRET;
pub use state::{LONGEST, Limits, State};
use state::{Turn, next};

pub const TYPE: &str = "chartwright.dev/trust";
const KEY: &str = "window";
/// After a count changed, others that change soon are written with it.
const GATHER: Duration = Duration::from_secs(1);
/// After a write that failed.
const PAUSE: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub struct Window {
    calls: Calls,
    namespace: String,
    leading: Leading,
    state: Arc<Mutex<Option<Seen>>>,
    counted: Arc<Notify>,
}

/// The state as it is here, and the version of the Secret that it is based on.
#[derive(Clone)]
struct Seen {
    state: State,
    version: Option<String>,
    /// Its opening was told.
    is_told: bool,
    /// What is counted here is in the Secret.
    is_written: bool,
}

impl Window {
    pub fn new(calls: Calls, namespace: &str, leading: Leading) -> Self {
        let (state, counted) = Default::default();
        Window { calls, namespace: namespace.to_owned(), leading, state, counted }
    }

    /// Whether the records of a release are signed right now.
    pub fn is_open_for(&self, namespace: &str, release: &str) -> bool {
        self.is(|state| state.is_open(clock::now()) && state.limits.include(namespace, release))
    }

    /// Whether they are signed without a comparison with the chart.
    pub fn is_open_as_recorded(&self, namespace: &str, release: &str) -> bool {
        self.is(|state| state.is_open(clock::now()) && state.limits.include_as_recorded(namespace, release))
    }

    /// Counts a release that was signed.
    pub fn count(&self) {
        self.with(|seen| {
            if let Some(seen) = seen {
                seen.state.signed = seen.state.signed.saturating_add(1);
                seen.is_written = false;
            }
        });
        self.counted.notify_one();
    }

    /// Follows the Secret until `stop`. `opened` is called whenever it is opened.
    pub async fn follow(self, opened: impl Fn(), stop: CancellationToken) {
        let secrets = followed::secret(self.calls.client(), &self.namespace, SECRET).take_until(stop.cancelled());
        pin_mut!(secrets);
        loop {
            let (wait, turn) = self.next_turn();
            let turn = tokio::select! {
                secret = secrets.next() => match secret {
                    Some(secret) => {
                        self.note(secret.as_ref());
                        continue;
                    }
                    None => return,
                },
                () = self.counted.notified() => continue,
                () = self.wait_for(turn, wait) => turn,
            };
            match turn {
                Turn::Open => {
                    self.with(|seen| seen.iter_mut().for_each(|seen| seen.is_told = true));
                    tracing::warn!(
                        reason = "TrustWindowOpened",
                        "unsigned release records are signed until the window closes"
                    );
                    opened();
                }
                Turn::Close => self.close().await,
                Turn::Write => self.write().await,
                Turn::Rest => {}
            }
        }
    }

    fn next_turn(&self) -> (Duration, Turn) {
        self.with(|seen| match seen {
            Some(seen) => next(&seen.state, seen.is_told, seen.is_written, clock::now()),
            None => (Duration::ZERO, Turn::Rest),
        })
    }

    /// One that stands by writes nothing.
    async fn wait_for(&self, turn: Turn, wait: Duration) {
        match turn {
            Turn::Rest => std::future::pending().await,
            Turn::Open => tokio::time::sleep(wait).await,
            Turn::Close | Turn::Write => {
                tokio::time::sleep(wait).await;
                self.leading.clone().begins().await;
            }
        }
    }

    /// Takes over what the Secret says.
    fn note(&self, secret: Option<&Secret>) {
        let version = secret.and_then(|secret| secret.metadata.resource_version.clone());
        let said = secret.and_then(read);
        self.with(|seen| {
            *seen = said.map(|said| {
                let before = seen.as_ref().filter(|seen| seen.state.opened_at == said.opened_at);
                let signed = before.map_or(0, |before| before.state.signed);
                Seen {
                    is_told: before.is_some_and(|before| before.is_told),
                    is_written: signed <= said.signed,
                    state: State { signed: said.signed.max(signed), ..said },
                    version,
                }
            });
        });
    }

    /// Writes down that the window is closed.
    async fn close(&self) {
        let signed = self.with(|seen| {
            let seen = seen.as_mut()?;
            seen.state.closed_at = Some(clock::now());
            Some(seen.state.signed)
        });
        tracing::warn!(reason = "TrustWindowClosed", signed, "unsigned release records are refused from now on");
        self.write().await;
    }

    /// Writes the state, if nobody changed the Secret since. Otherwise the watch brings what it says now.
    async fn write(&self) {
        let Some(Seen { state, version, .. }) = self.with(|seen| {
            seen.iter_mut().for_each(|seen| seen.is_written = true);
            seen.clone()
        }) else {
            return;
        };
        let api: Api<Secret> = Api::namespaced(self.calls.client(), &self.namespace);
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..Default::default() };
        let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version}, "data": {KEY: encoded(&state)}}));
        match self.calls.within(api.patch(SECRET, &params, &patch)).await {
            Ok(secret) => self.note(Some(&secret)),
            Err(error) if matches!(code(&error), Some(404 | 409)) => {}
            // The window is over by the clock, whatever the Secret says.
            Err(error) => {
                tracing::warn!("cannot write how the window is; trying again: {}", crate::error::sentence(&error));
                tokio::time::sleep(PAUSE).await;
                self.with(|seen| seen.iter_mut().for_each(|seen| seen.is_written = false));
            }
        }
    }

    fn is(&self, holds: impl FnOnce(&State) -> bool) -> bool {
        self.with(|seen| seen.as_ref().is_some_and(|seen| holds(&seen.state)))
    }

    fn with<T>(&self, work: impl FnOnce(&mut Option<Seen>) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

/// What the Secret in an operator's namespace says. For the command line.
pub async fn state(calls: &Calls, namespace: &str) -> Result<Option<State>, TrustError> {
    let api: Api<Secret> = Api::namespaced(calls.client(), namespace);
    let secret = calls.within(api.get_opt(SECRET)).await.map_err(failed("get", namespace, SECRET))?;
    Ok(secret.as_ref().and_then(read))
}

/// Writes what the Secret is to say. For the command line.
pub async fn write(calls: &Calls, namespace: &str, state: &State) -> Result<(), TrustError> {
    let api: Api<Secret> = Api::namespaced(calls.client(), namespace);
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..Default::default() };
    let patch = Patch::Merge(json!({"data": {KEY: encoded(state)}}));
    match calls.within(api.patch(SECRET, &params, &patch)).await {
        Err(error) if code(&error) == Some(404) => {}
        result => return result.map(|_| ()).map_err(failed("patch", namespace, SECRET)),
    }
    let secret = Secret {
        metadata: ObjectMeta { name: Some(SECRET.to_owned()), ..Default::default() },
        type_: Some(TYPE.to_owned()),
        data: Some(BTreeMap::from([(KEY.to_owned(), encoded(state))])),
        ..Default::default()
    };
    let created = calls.within(api.create(&PostParams::default(), &secret)).await;
    created.map(|_| ()).map_err(failed("create", namespace, SECRET))
}

fn read(secret: &Secret) -> Option<State> {
    let ByteString(json) = secret.data.as_ref()?.get(KEY)?;
    serde_json::from_slice(json).ok()
}

fn encoded(state: &State) -> ByteString {
    ByteString(serde_json::to_vec(state).unwrap_or_default())
}
