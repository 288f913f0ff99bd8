//! Which custom resource is reconciled when.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc;
use futures::future::join_all;
use kube::api::{Api, DynamicObject};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::children::Children;
use crate::discovery::{Cache, Kind};
use crate::reconcile::{Context, ReconcileError, reconcile};
use crate::render::Helm;
use crate::telemetry::events::Events;
use crate::watches::Watch;

/// How many custom resources of a kind are worked on at once.
const AT_ONCE: u16 = 4;
/// How long to wait for a kind's CRD before looking again.
const LOOK_FOR_CRD: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_secs(15);

/// Everything that the controllers share.
#[derive(Clone)]
pub struct Operator {
    pub client: Client,
    pub helm: Helm,
    pub kinds: Arc<Cache>,
    pub default_namespace: String,
}

/// Runs a controller per watch until `stop`.
pub async fn run(watches: Vec<Watch>, operator: Operator, stop: CancellationToken) {
    join_all(watches.into_iter().map(|watch| run_one(watch, operator.clone(), stop.clone()))).await;
}

async fn run_one(watch: Watch, operator: Operator, stop: CancellationToken) {
    let Some(primary) = stop.run_until_cancelled(wait_for_kind(&watch, &operator.kinds)).await else { return };
    let (tell, told) = mpsc::unbounded();
    let children = Children::new(operator.client.clone(), primary.resource.clone(), tell, stop.clone());
    let api: Api<DynamicObject> = Api::all_with(operator.client.clone(), &primary.resource);
    let resource = primary.resource.clone();
    let context = Arc::new(Context {
        events: Events::new(operator.client.clone()),
        client: operator.client,
        helm: operator.helm,
        kinds: operator.kinds,
        watch,
        primary,
        default_namespace: operator.default_namespace,
        children,
    });
    tracing::info!(kind = resource.kind, api_version = resource.api_version, "watching");
    Controller::new_with(api, watcher::Config::default(), resource)
        .with_config(Config::default().concurrency(AT_ONCE))
        .reconcile_on(told)
        .graceful_shutdown_on(stop.cancelled_owned())
        .run(one, failed, context)
        .for_each(|_| async {})
        .await;
}

/// A missing CRD is waited for; other kinds work meanwhile.
async fn wait_for_kind(watch: &Watch, kinds: &Cache) -> Kind {
    let mut said = false;
    loop {
        match kinds.kinds_with(std::slice::from_ref(&watch.gvk)).await {
            Ok(known) => {
                if let Some(kind) = known.get(&watch.gvk) {
                    return kind.clone();
                }
                if !said {
                    let kind = &watch.gvk.kind;
                    tracing::warn!(kind, api_version = watch.gvk.api_version(), "waiting for its CRD to be installed");
                    said = true;
                }
            }
            Err(error) => tracing::warn!("{error}"),
        }
        tokio::time::sleep(LOOK_FOR_CRD).await;
    }
}

async fn one(cr: Arc<DynamicObject>, context: Arc<Context>) -> Result<Action, ReconcileError> {
    reconcile(&cr, &context).await.map(|()| Action::await_change())
}

/// What cannot get better by itself waits for a change.
fn failed(cr: Arc<DynamicObject>, error: &ReconcileError, context: Arc<Context>) -> Action {
    let (kind, namespace, name) = (&context.watch.gvk.kind, cr.namespace(), cr.name_any());
    tracing::error!(kind, namespace, name, reason = error.category().as_str(), "{error}");
    match error.category().is_permanent() {
        true => Action::await_change(),
        false => Action::requeue(RETRY),
    }
}
