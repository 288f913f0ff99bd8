//! Which custom resource is reconciled when.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc;
use futures::future::join_all;
use kube::api::Api;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::predicates;
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::{Predicate, WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::calls::Calls;
use crate::chart::reload::{self, Change, Live};
use crate::children::Children;
use crate::claims::Claims;
use crate::custom_resource::CustomResource;
use crate::discovery::{Cache, Kind};
use crate::error::Retry;
use crate::queue::Queue;
use crate::reconcile::{Context, Next, ReconcileError, reconcile};
use crate::release::Records;
use crate::render::Helm;
use crate::telemetry::events::Events;
use crate::watches::Watch;

/// How long to wait for a kind's CRD before looking again.
const LOOK_FOR_CRD: Duration = Duration::from_secs(2);
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);

/// Everything that the controllers share.
#[derive(Clone)]
pub struct Operator {
    pub client: Client,
    pub helm: Helm,
    /// One per helm process.
    pub helm_slots: Arc<Semaphore>,
    pub calls: Calls,
    pub claims: Claims,
    pub kinds: Arc<Cache>,
    pub records: Records,
    pub default_namespace: String,
}

/// Runs a controller per watch until `stop`.
pub async fn run(watches: Vec<Watch>, operator: Operator, stop: CancellationToken) {
    operator.records.start(operator.client.clone(), stop.clone());
    stop.run_until_cancelled(operator.records.synced()).await;
    join_all(watches.into_iter().map(|watch| run_one(watch, operator.clone(), stop.clone()))).await;
}

async fn run_one(watch: Watch, operator: Operator, stop: CancellationToken) {
    let Some(primary) = stop.run_until_cancelled(wait_for_kind(&watch, &operator.kinds)).await else { return };
    let (tell, told) = mpsc::unbounded();
    let (tell_all, told_all) = mpsc::unbounded();
    let queue = Arc::new(Queue::new(tell, tell_all.clone()));
    operator.records.listen(&primary, queue.clone());
    let resource = primary.resource.clone();
    let chart = Arc::new(Live::new(watch.chart.clone(), operator.helm.clone()));
    let context = Arc::new(Context {
        events: Events::new(operator.client.clone()),
        children: Children::new(operator.client.clone(), primary.clone(), queue, stop.clone()),
        client: operator.client.clone(),
        helm: operator.helm,
        helm_slots: operator.helm_slots,
        calls: operator.calls,
        claims: operator.claims,
        kinds: operator.kinds,
        records: operator.records,
        watch,
        chart,
        primary,
        default_namespace: operator.default_namespace,
        memory: Default::default(),
        written: Default::default(),
    });
    let reload = tokio::spawn(follow_chart(context.clone(), tell_all));
    tracing::info!(kind = resource.kind, api_version = resource.api_version, "watching");
    if !context.primary.has_status {
        let remedy = "add `subresources: {status: {}}` to its version and start again";
        tracing::warn!(
            kind = resource.kind,
            "its CRD has no status subresource, so no status can be written; {remedy}"
        );
    }
    let api: Api<CustomResource> = Api::all_with(operator.client, &resource);
    let mut config = watcher::Config::default().page_size(50);
    if let Some(selector) = &context.watch.selector {
        config = config.labels(selector);
    }
    let writer = reflector::store::Writer::<CustomResource>::new(resource.clone());
    let reader = writer.as_reader();
    // Our own status writes are not news, nor are labels.
    let news = predicates::generation.combine(predicates::annotations).combine(predicates::finalizers);
    let resources = watcher(api, config)
        .default_backoff()
        .reflect(writer)
        .applied_objects()
        .predicate_filter(news, Default::default());
    let named = resource.clone();
    let told = told.map(move |(place, _)| {
        let reference = ObjectRef::new_with(&place.name, named.clone());
        match &place.namespace {
            Some(namespace) => reference.within(namespace),
            None => reference,
        }
    });
    let attempts = Arc::new(Attempts::default());
    let counted = attempts.clone();
    Controller::for_stream_with(resources, reader, resource)
        // What waits holds no slot, so there may be many at once; slots are counted where work is done.
        .with_config(
            Config::default()
                .concurrency(context.watch.max_concurrent.map_or(0, |max| u16::try_from(max).unwrap_or(u16::MAX))),
        )
        .reconcile_on(told)
        .reconcile_all_on(told_all)
        .graceful_shutdown_on(stop.cancelled_owned())
        .run(
            move |cr, context| one(cr, context, attempts.clone()),
            move |cr, error, context| failed(cr, error, &context, &counted),
            context,
        )
        .for_each(|result| async {
            // Failures of reconciles are told where they happen; what is left are those of the watch itself.
            if let Err(kube::runtime::controller::Error::QueueError(error)) = result {
                tracing::warn!("the watch of custom resources broke; trying again: {error}");
            }
        })
        .await;
    reload.abort();
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

/// Has everything reconciled when the chart on disk changes. A broken chart is told once; the last good one stays in use.
async fn follow_chart(context: Arc<Context>, tell_all: mpsc::UnboundedSender<()>) {
    let chart = context.chart.clone();
    let kind = &context.watch.gvk.kind;
    let mut ticks = tokio::time::interval(reload::INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match chart.poll().await {
            None => {}
            Some(Change::New(current)) => {
                tracing::info!(kind, chart = current.name, version = current.version, "the chart changed");
                // The receiver is gone only when the operator stops.
                let _ = tell_all.unbounded_send(());
            }
            Some(Change::Mended) => tracing::info!(kind, "the chart is as it was"),
            Some(Change::Broken(message)) => {
                tracing::error!(kind, "the changed chart cannot be used, the last good one stays in use: {message}");
                context.events.broken_chart(&context.primary, &message).await;
            }
        }
    }
}

/// Failures in a row, per custom resource and generation.
#[derive(Default)]
struct Attempts(Mutex<HashMap<String, (i64, u32)>>);

impl Attempts {
    fn succeeded(&self, cr: &CustomResource) {
        self.locked().remove(&cr.uid().unwrap_or_default());
    }

    /// How many there have been, this one included.
    fn failed(&self, cr: &CustomResource) -> u32 {
        let generation = cr.metadata.generation.unwrap_or_default();
        let mut all = self.locked();
        let entry = all.entry(cr.uid().unwrap_or_default()).or_default();
        if entry.0 != generation {
            *entry = (generation, 0);
        }
        entry.1 = entry.1.saturating_add(1);
        entry.1
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<String, (i64, u32)>> {
        // A poisoned lock still holds counts.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

async fn one(
    cr: Arc<CustomResource>,
    context: Arc<Context>,
    attempts: Arc<Attempts>,
) -> Result<Action, ReconcileError> {
    let next = reconcile(&cr, &context).await?;
    attempts.succeeded(&cr);
    Ok(match (next, context.watch.reconcile_period) {
        (Next::Look(after), _) => Action::requeue(after),
        (Next::Rest, Some(period)) if !period.is_zero() => Action::requeue(period),
        (Next::Rest, _) => Action::await_change(),
    })
}

fn failed(cr: Arc<CustomResource>, error: &ReconcileError, context: &Context, attempts: &Attempts) -> Action {
    let (kind, namespace, name) = (&context.watch.gvk.kind, cr.namespace(), cr.name_any());
    let category = error.category();
    tracing::error!(kind, namespace, name, reason = category.as_str(), "{error}");
    match backoff(category.retry(), attempts.failed(&cr)) {
        Some(delay) => Action::requeue(jittered(delay, &cr.uid().unwrap_or_default())),
        None => match context.watch.reconcile_period.filter(|period| !period.is_zero()) {
            Some(period) => Action::requeue(period),
            None => Action::await_change(),
        },
    }
}

/// Twice as long after each failure in a row. What only a person can repair starts slowly.
fn backoff(retry: Retry, attempt: u32) -> Option<Duration> {
    let (first, longest) = match retry {
        Retry::Never => return None,
        Retry::Seldom => (Duration::from_secs(20), LONGEST_BACKOFF),
        Retry::Often => (Duration::from_secs(1), LONGEST_BACKOFF),
        // It ends by itself, and somebody waits for it.
        Retry::Soon => (Duration::from_millis(500), Duration::from_secs(5)),
    };
    Some(first.saturating_mul(1 << attempt.saturating_sub(1).min(10)).min(longest))
}

/// Up to a quarter longer, so that many that failed together do not come back together.
fn jittered(delay: Duration, uid: &str) -> Duration {
    let spread = uid.bytes().fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % 256;
    delay + delay.mul_f64(f64::from(spread) / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit_and_hopeless_cases_rest() {
        assert_eq!(backoff(Retry::Never, 1), None);
        assert_eq!(backoff(Retry::Often, 1), Some(Duration::from_secs(1)));
        assert_eq!(backoff(Retry::Often, 3), Some(Duration::from_secs(4)));
        assert_eq!(backoff(Retry::Often, 40), Some(LONGEST_BACKOFF));
        assert_eq!(backoff(Retry::Soon, 40), Some(Duration::from_secs(5)));
    }

    #[test]
    fn jitter_lengthens_by_a_quarter_at_most() {
        for uid in ["a", "b", "0c8f-11", ""] {
            let delay = jittered(Duration::from_secs(4), uid);
            assert!(delay >= Duration::from_secs(4) && delay <= Duration::from_secs(5), "{delay:?}");
        }
    }
}
