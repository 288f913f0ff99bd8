//! The life of one kind: a watch, a queue and the runs.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt, pin_mut};
use kube::ResourceExt;
use kube::api::Api;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::backoff::Attempts;
use super::resources::{News, Resources, by_itself};
use super::{Operator, presence};
use crate::chart::reload::{self, Change, Live};
use crate::custom_resource::{CustomResource, Place};
use crate::definitions::Definitions;
use crate::discovery::Kind;
use crate::error::Retry;
use crate::listeners::Listener;
use crate::queue::{Queue, Turn, Urgency};
use crate::reconcile::{Context, Next, ReconcileError, reconcile};
use crate::release::name;
use crate::release::records::Candidates;
use crate::telemetry::events::Events;
use crate::watches::Watch;
use crate::watching;

/// How long writes that have begun may take after the end. What is not written then is resumed from the release's record.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// What the tasks of a life share.
pub(super) struct Life {
    context: Context,
    queue: Arc<Queue>,
    resources: Arc<Resources>,
    attempts: Attempts,
    /// Rings when the API server says that it does not know the kind.
    missed: Notify,
    end: CancellationToken,
    /// What was started for this life ends with it, however it ends.
    _end: DropGuard,
}

/// Which custom resources a release may belong to, by its name.
fn candidates(watch: &Watch, primary: &Kind, resources: Arc<Resources>) -> Candidates {
    let (template, kind, namespaced) = (watch.release_name.clone(), watch.gvk.kind.clone(), primary.namespaced);
    Arc::new(move |namespace, release| {
        let here = namespaced.then_some(namespace);
        if template.is_plain() && release.len() < name::LONGEST / 2 {
            return vec![Place::new(here, release)];
        }
        // It may stand for a longer name, or for another.
        resources.places(|place| {
            let is_here = place.namespace.as_deref() == here;
            is_here && template.name(&kind, here, &place.name) == release
        })
    })
}

impl Life {
    pub(super) fn new(
        watch: Watch,
        primary: Kind,
        chart: Arc<Live>,
        operator: Operator,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let end = stop.child_token();
        let queue = Arc::new(Queue::new(watch.max_concurrent, end.clone()));
        operator.listeners.register(Listener {
            kind: primary.clone(),
            queue: queue.clone(),
            cares: watch.watch_dependents,
            ignore: watch.ignore.clone(),
        });
        let resources = Arc::<Resources>::default();
        operator.records.listen(&primary, candidates(&watch, &primary, resources.clone()), queue.clone());
        let context = Context {
            events: Events::new(operator.client.clone()),
            children: operator.children,
            scalers: operator.scalers,
            sources: operator.sources,
            records: operator.records,
            client: operator.client,
            helm: operator.helm,
            lanes: operator.lanes,
            calls: operator.calls,
            claims: operator.claims,
            kinds: operator.kinds,
            watch,
            chart,
            primary,
            default_namespace: operator.default_namespace,
            memory: Default::default(),
            resources: resources.clone(),
        };
        let (attempts, missed) = Default::default();
        Arc::new(Life { context, queue, resources, attempts, missed, _end: end.clone().drop_guard(), end })
    }

    /// Runs until the operator stops or the kind is not what it was.
    pub(super) async fn run(self: Arc<Self>, definitions: &mut Definitions) {
        self.say_hello();
        let mut helpers = JoinSet::new();
        helpers.spawn(self.clone().follow_resources());
        helpers.spawn(self.clone().follow_chart());
        let mut runs = JoinSet::new();
        let context = &self.context;
        let (gvk, kind) = (&context.watch.gvk, &context.primary);
        let another = presence::until_another(gvk, kind, &context.kinds, definitions, &self.missed);
        pin_mut!(another);
        loop {
            tokio::select! {
                biased;
                () = self.end.cancelled() => break,
                () = &mut another => break,
                Some(_) = runs.join_next() => {}
                turn = self.queue.next() => drop(runs.spawn(self.clone().take(turn))),
            }
        }
        self.end.cancel();
        helpers.shutdown().await;
        let ended = async { while runs.join_next().await.is_some() {} };
        if tokio::time::timeout(LAST_WRITES, ended).await.is_err() {
            tracing::warn!(kind = gvk.kind, unfinished = runs.len(), "not everything was written; it is resumed later");
            runs.shutdown().await;
        }
    }

    fn say_hello(&self) {
        let resource = &self.context.primary.resource;
        tracing::info!(kind = resource.kind, api_version = resource.api_version, "watching");
        if !self.context.primary.has_status {
            let remedy = "add `subresources: {status: {}}` to its version";
            tracing::warn!(
                kind = resource.kind,
                "its CRD has no status subresource, so no status can be written; {remedy}"
            );
        }
    }

    async fn follow_resources(self: Arc<Self>) {
        let resource = &self.context.primary.resource;
        let api: Api<CustomResource> = Api::all_with(self.context.client.clone(), resource);
        let events = watching::events(api, self.context.watch.selector.as_deref());
        pin_mut!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.resources.note(event).into_iter().for_each(|news| self.hear(news)),
                Err(error) if watching::code(&error) == Some(404) => self.missed.notify_one(),
                Err(error) => {
                    let words = watching::words(&error);
                    tracing::warn!(kind = resource.kind, "the watch broke; trying again: {words}");
                }
            }
        }
    }

    fn hear(&self, news: News) {
        match news {
            News::Told { place, urgency, starts_over } => {
                self.queue.know(place.clone());
                match starts_over {
                    true => self.queue.start_over(place, urgency),
                    false => self.queue.tell(place, urgency),
                }
            }
            News::Gone { place, uid } => {
                self.queue.forget(&place);
                self.context.children.forget(&self.context.primary, &place);
                self.context.sources.forget(&self.context.primary, &place);
                self.forget(&uid);
            }
        }
    }

    fn forget(&self, uid: &str) {
        self.context.memory.forget(uid);
        self.attempts.forget(uid);
    }

    /// Has everything reconciled when the chart on disk changes. A broken chart is told once; the last good one stays in use.
    async fn follow_chart(self: Arc<Self>) {
        let context = &self.context;
        let kind = &context.watch.gvk.kind;
        let mut ticks = tokio::time::interval(reload::INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match context.chart.poll().await {
                None => {}
                Some(Change::New(current)) => {
                    tracing::info!(kind, chart = current.name, version = current.version, "the chart changed");
                    self.queue.tell_all(Urgency::Recheck);
                }
                Some(Change::Mended) => tracing::info!(kind, "the chart is as it was"),
                Some(Change::Broken(message)) => {
                    tracing::error!(
                        kind,
                        "the changed chart cannot be used, the last good one stays in use: {message}"
                    );
                    context.events.broken_chart(&context.primary, &message).await;
                }
            }
        }
    }

    /// One custom resource's turn.
    async fn take(self: Arc<Self>, turn: Turn) {
        let Some(cr) = self.resources.get(&turn.place) else { return };
        let run = AssertUnwindSafe(reconcile(&cr, &self.context, &turn)).catch_unwind();
        match run.await {
            Ok(Ok(next)) => self.went_well(&cr, next, &turn),
            // Something newer has told already; who was put off comes again.
            Ok(Err(ReconcileError::Interrupted)) => turn.again(Duration::ZERO, turn.urgency),
            Ok(Err(error)) => self.failed(&cr, &error, &turn),
            Err(_) => self.broke_down(&cr, &turn),
        }
        if !self.resources.has(&cr) {
            self.forget(&cr.uid().unwrap_or_default());
        }
    }

    fn went_well(&self, cr: &CustomResource, next: Next, turn: &Turn) {
        if let Next::Pause(after) = next {
            return turn.again(after, Urgency::Recheck);
        }
        self.attempts.succeeded(cr);
        match next {
            Next::Pause(_) => {}
            Next::Look(after) if cr.metadata.deletion_timestamp.is_some() => turn.again(after, Urgency::Edit),
            Next::Look(after) => turn.again(after, Urgency::Recheck),
            Next::Soon(after) => turn.again(after, turn.urgency),
            Next::Rest => self.come_again_in_time(turn),
        }
    }

    fn failed(&self, cr: &CustomResource, error: &ReconcileError, turn: &Turn) {
        let (kind, namespace, name) = (&self.context.watch.gvk.kind, cr.namespace(), cr.name_any());
        let category = error.category();
        tracing::error!(kind, namespace, name, reason = category.as_str(), "{error}");
        match self.attempts.failed(cr, category.retry()) {
            Some(delay) => turn.again(delay, by_itself(cr)),
            None => self.come_again_in_time(turn),
        }
    }

    /// A panic is a defect of ours. It must not take the others with it.
    fn broke_down(&self, cr: &CustomResource, turn: &Turn) {
        let (kind, namespace, name) = (&self.context.watch.gvk.kind, cr.namespace(), cr.name_any());
        tracing::error!(kind, namespace, name, "the reconcile panicked; this is a defect of the operator");
        if let Some(delay) = self.attempts.failed(cr, Retry::Seldom) {
            turn.again(delay, by_itself(cr));
        }
    }

    fn come_again_in_time(&self, turn: &Turn) {
        if let Some(period) = self.context.watch.reconcile_period.filter(|period| !period.is_zero()) {
            turn.again(period, Urgency::Recheck);
        }
    }
}
