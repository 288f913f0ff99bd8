//! Which custom resource is reconciled when.
//!
//! ```text
//! watch of the custom resources ─┐
//! watches of their objects ──────┼─tell─▶ queue ─turn─▶ reconcile ─▶ again later, or rest
//! a changed chart ───────────────┘
//! ```
//! Each kind has a life: it begins when the API server knows the kind and ends when it does not any more, or when the kind has
//! become another. Nothing of one life is left in the next: no queue, no watch, no memory.
//!
//! | module | what is in it |
//! |---|---|
//! | [`presence`] | whether the API server knows the kind |
//! | [`life`] | the watch, the queue and the runs of one kind |
//! | [`resources`] | the custom resources as they were last seen, and what is news |
//! | [`backoff`] | when to try again after a failure |
//! | [`lives`] | which kinds there are, for metrics and probes |
//! | [`meter`] | how reconciles end, counted |
//! | [`takeover`] | what has to be listed anew before the first turn |

pub mod backoff;
mod life;
pub mod lives;
mod meter;
pub mod presence;
pub mod resources;
mod takeover;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::calls::Calls;
use crate::chart::reload::Live;
use crate::children::Children;
use crate::claims::Claims;
use crate::definitions::Definitions;
use crate::discovery::Cache;
use crate::leader::Leading;
use crate::listeners::Listeners;
use crate::namespaces::Namespaces;
use crate::protected::ProtectedObjects;
use crate::release::Records;
use crate::render::Helm;
use crate::render::lanes::Lanes;
use crate::scalers::Scalers;
use crate::sources::Sources;
use crate::trust::Trust;
use crate::watches::Watch;
use life::Life;
use lives::{Lives, Presence};

/// Everything that the controllers share.
#[derive(Clone)]
pub struct Operator {
    pub client: Client,
    pub helm: Helm,
    pub lanes: Lanes,
    pub calls: Calls,
    pub claims: Claims,
    pub kinds: Arc<Cache>,
    pub definitions: Definitions,
    pub listeners: Arc<Listeners>,
    pub children: Arc<Children>,
    pub scalers: Arc<Scalers>,
    pub sources: Arc<Sources>,
    pub records: Records,
    pub lives: Lives,
    pub default_namespace: String,
    /// The operator's own objects.
    pub protected: Arc<ProtectedObjects>,
    pub settings: Arc<Settings>,
    pub trust: Trust,
    /// Who stands by knows everything and does nothing.
    pub leading: Leading,
}

/// What the flags say about work on custom resources.
#[derive(Debug, Default)]
pub struct Settings {
    pub namespaces: Namespaces,
    /// Where neither the custom resource nor its watch says it; zero is never.
    pub reconcile_period: Duration,
    /// Where the watch does not say it.
    pub max_concurrent: Option<usize>,
    /// Events do not show what values were overridden with.
    pub suppress_override_values: bool,
}

/// Runs a controller per watch until `stop`, and until what was being written is written or time is over.
pub async fn run(watches: Vec<Watch>, operator: Operator, stop: CancellationToken) {
    watches.iter().for_each(|watch| operator.lives.note(&watch.gvk, Presence::Unknown));
    operator.records.start(operator.client.clone(), stop.clone());
    let records = operator.records.clone();
    let wake = move || records.wake_all();
    tokio::spawn(operator.trust.window.clone().follow(wake, stop.clone()));
    tokio::spawn(operator.trust.keeper.clone().follow(stop.clone()));
    stop.run_until_cancelled(operator.records.synced()).await;
    join_all(watches.into_iter().map(|watch| run_one(watch, operator.clone(), stop.clone()))).await;
}

async fn run_one(watch: Watch, operator: Operator, stop: CancellationToken) {
    let chart = Arc::new(Live::new(watch.chart.clone(), operator.helm.clone()));
    let mut definitions = operator.definitions.clone();
    let mut is_first = true;
    loop {
        let known = presence::wait_for(&watch.gvk, &operator.kinds, &mut definitions, is_first, &operator.lives);
        let Some(primary) = stop.run_until_cancelled(known).await else { return };
        let life = Life::new(watch.clone(), primary, chart.clone(), operator.clone(), &stop);
        life.run(&mut definitions).await;
        if stop.is_cancelled() {
            return;
        }
        operator.lives.note(&watch.gvk, Presence::Unknown);
        let kind = &watch.gvk.kind;
        tracing::warn!(kind, apiVersion = watch.gvk.api_version(), "its CRD went or became another; starting anew");
        is_first = false;
    }
}
