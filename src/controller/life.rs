//! The life of one kind: a watch, a queue and the runs.

mod collection;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{FutureExt, StreamExt, pin_mut};
use kube::ResourceExt;
use kube::api::Api;
use kube::runtime::watcher::{self, Event};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument;

use super::backoff::Attempts;
use super::lives::{Here, Presence};
use super::meter::Meter;
use super::resources::{News, Resources, by_itself};
use super::takeover::Takeover;
use super::{Operator, presence};
use crate::account::Accounts;
use crate::chart::reload::{self, Change, Live};
use crate::custom_resource::{CustomResource, Place};
use crate::definitions::Definitions;
use crate::discovery::Kind;
use crate::error::{Category, Retry};
use crate::leader::Leading;
use crate::listeners::Listener;
use crate::namespaces::{Namespaces, Scope};
use crate::queue::{Queue, Turn, Urgency};
use crate::reach::{Reach, ReachError, Says};
use crate::reconcile::{self, Context, Next, ReconcileError};
use crate::redaction::Redactor;
use crate::release::name;
use crate::release::records::Candidates;
use crate::telemetry::events::Events;
use crate::watches::Watch;
use crate::watching::{self, Lists};
use crate::wishes;

/// How long writes that have begun may take after the end. What is not written then is resumed from the release's record.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// When to come again for what only time can change.
const SOON: Duration = Duration::from_secs(1);

/// What the tasks of a life share.
pub(super) struct Life {
    context: Context,
    queue: Arc<Queue>,
    resources: Arc<Resources>,
    attempts: Attempts,
    leading: Leading,
    takeover: Takeover,
    meter: Meter,
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

/// What is watched. A kind without namespaces is watched whole, as in operator-sdk.
fn scopes(primary: &Kind, namespaces: &Namespaces) -> Vec<Scope> {
    match primary.namespaced {
        true => namespaces.scopes(),
        false => vec![None],
    }
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
        let max = watch.max_concurrent.or(operator.settings.max_concurrent);
        let queue = Arc::new(Queue::new(max, end.clone()).counted(&watch.gvk.kind));
        operator.listeners.register(Listener {
            kind: primary.clone(),
            queue: queue.clone(),
            cares: watch.watch_dependents,
            ignore: watch.ignore.clone(),
        });
        let resources = Arc::<Resources>::default();
        let scopes = scopes(&primary, &operator.settings.namespaces);
        let takeover = Takeover::new(if operator.leading.now() { vec![] } else { scopes.clone() });
        let here = Here { queue: queue.clone(), resources: resources.clone(), scopes };
        operator.lives.note(&watch.gvk, Presence::Here(here));
        operator.records.listen(&primary, candidates(&watch, &primary, resources.clone()), queue.clone());
        let accounts = watch.service_account.as_deref().map(|name| Accounts::new(name, operator.client.clone()));
        let meter = Meter::of(&watch.gvk.kind);
        let context = Context {
            accounts,
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
            fields: Default::default(),
            primary,
            default_namespace: operator.default_namespace,
            protected: operator.protected,
            trials: Default::default(),
            memory: Default::default(),
            resources: resources.clone(),
            settings: operator.settings,
            trust: operator.trust,
        };
        let (attempts, missed) = Default::default();
        let leading = operator.leading;
        let end_guard = end.clone().drop_guard();
        Arc::new(Life { context, queue, resources, attempts, leading, takeover, meter, missed, _end: end_guard, end })
    }

    /// Runs until the operator stops or the kind is not what it was.
    pub(super) async fn run(self: Arc<Self>, definitions: &mut Definitions) {
        self.say_hello();
        let mut helpers = JoinSet::new();
        for scope in scopes(&self.context.primary, &self.context.settings.namespaces) {
            helpers.spawn(self.clone().follow_resources(scope));
        }
        helpers.spawn(self.clone().follow_chart());
        helpers.spawn(self.clone().say_reach());
        helpers.spawn(self.clone().read_fields());
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
                turn = self.next_turn() => drop(runs.spawn(self.clone().take(turn))),
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

    /// The watches fill the queue of an operator that stands by, and nobody has a turn.
    async fn next_turn(&self) -> Turn {
        self.leading.clone().begins().await;
        self.takeover.answered().await;
        self.context.trust.keeper.confirmed().await;
        self.queue.next().await
    }

    fn say_hello(&self) {
        let resource = &self.context.primary.resource;
        tracing::info!(kind = resource.kind, apiVersion = resource.api_version, "watching");
        if !self.context.primary.namespaced && !self.context.settings.namespaces.is_all() {
            tracing::info!(kind = resource.kind, "it has no namespaces, so all of its kind are served");
        }
        if !self.context.primary.namespaced && self.context.watch.release_namespace.is_none() {
            tracing::warn!(
                kind = resource.kind,
                "it has no namespaces and its entry in watches.yaml no `releaseNamespace`, so nothing is deployed for it; set that field to the namespace that its releases live in"
            );
        }
        if !self.context.primary.has_status {
            let remedy = "add `subresources: {status: {}}` to its version";
            tracing::warn!(
                kind = resource.kind,
                "its CRD has no status subresource, so no status can be written; {remedy}"
            );
        }
    }

    /// Reads what the chart knows of a spec, before somebody waits for it.
    async fn read_fields(self: Arc<Self>) {
        self.context.fields.of(&self.context.chart.current()).await;
    }

    /// Says what releases may write outside of their namespace. Nobody waits for it but who needs the answer.
    async fn say_reach(self: Arc<Self>) {
        let kind = &self.context.watch.gvk.kind;
        // A chart may quote the watch's overrides where it does not render.
        let mut redactor = Redactor::default();
        if self.context.settings.suppress_override_values {
            let values = self.context.watch.overrides.iter().map(|(_, value)| value.clone()).collect();
            redactor.learn(&values, [&String::new()]);
        }
        match self.context.allowance().await {
            Ok(allowance) if matches!(allowance.says, Says::Nobody(_)) => {
                tracing::warn!(kind, "{}", redactor.text(&allowance.to_string()));
            }
            Ok(allowance) if allowance.reach == Reach::default() => tracing::debug!(kind, "{allowance}"),
            Ok(allowance) => tracing::info!(kind, "{allowance}"),
            Err(error) => tracing::warn!(kind, "{}", redactor.text(&ReachError::from(error).to_string())),
        }
    }

    /// Follows them twice where it stood by: what it was told until then may be old.
    async fn follow_resources(self: Arc<Self>, scope: Scope) {
        if !self.leading.now() {
            let mut leading = self.leading.clone();
            tokio::select! {
                () = self.hear_all(&scope, Lists::Streamed, false) => {}
                () = leading.begins() => {}
            }
        }
        // Another operator may have worked right before. Without an election there is none.
        let lists = if self.leading.lease.is_some() { Lists::Paged } else { Lists::Streamed };
        self.hear_all(&scope, lists, true).await;
    }

    /// # Arguments
    /// `works`: this is asked for by an operator that works.
    async fn hear_all(self: &Arc<Self>, scope: &Scope, lists: Lists, works: bool) {
        let resource = &self.context.primary.resource;
        let api: Api<CustomResource> = watching::api_with(self.context.client.clone(), scope, resource);
        let events = watching::events_after(api, self.context.watch.selector.as_deref(), None, lists);
        pin_mut!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    let is_list = matches!(event, Event::InitDone);
                    self.resources.note(scope, event).into_iter().for_each(|news| self.hear(news));
                    if is_list && works {
                        self.takeover.listed(scope);
                        self.aside(self.clone().collect_missing(scope.clone()));
                    }
                }
                Err(error) => {
                    if works {
                        self.takeover.failed(scope);
                    }
                    self.broke(&error, scope);
                }
            }
        }
    }

    fn broke(&self, error: &watcher::Error, scope: &Scope) {
        if watching::code(error) == Some(404) {
            return self.missed.notify_one();
        }
        if watching::code(error) == Some(403) {
            self.resources.is_refused(scope);
        }
        let (kind, namespace) = (&self.context.primary.resource.kind, scope.as_deref());
        tracing::warn!(kind, namespace, "the watch broke; trying again: {}", watching::words(error));
    }

    fn hear(self: &Arc<Self>, news: News) {
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
                if self.leading.now() {
                    self.aside(self.clone().collect_gone(place.clone(), uid.clone()));
                }
                if self.context.watch.selector.is_some() {
                    self.aside(self.clone().tell_if_let_go(place, uid));
                }
            }
        }
    }

    /// Does something that nobody waits for, until the end.
    fn aside(&self, work: impl Future<Output = ()> + Send + 'static) {
        let end = self.end.clone();
        tokio::spawn(async move { end.run_until_cancelled(work).await });
    }

    /// What left the watch may still be there: its labels do not match any more. Nobody would know why nothing happens to it.
    async fn tell_if_let_go(self: Arc<Self>, place: Place, uid: String) {
        let context = &self.context;
        let scope = place.namespace.as_deref().map(Arc::from);
        let api: Api<CustomResource> = watching::api_with(context.client.clone(), &scope, &context.primary.resource);
        let Ok(Some(cr)) = context.calls.at(Urgency::Recheck).within(api.get_opt(&place.name)).await else { return };
        if cr.metadata.uid.as_deref() == Some(uid.as_str()) && cr.metadata.deletion_timestamp.is_none() {
            let message = "Its labels do not match the selector in watches.yaml any more, so this operator leaves it and its objects alone. A deletion waits until the labels match again.";
            context.events.warning(&cr, context, "NotSelected", message).await;
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
                    self.clone().say_reach().await;
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
        if !self.takeover.is_over(turn.place.namespace.as_deref()) {
            return turn.again(SOON, turn.urgency);
        }
        let Some(cr) = self.resources.get(&turn.place) else { return };
        let span = reconcile::span(&cr, &self.context);
        self.work_on(&cr, &turn).instrument(span).await;
        if !self.resources.has(&cr) {
            self.forget(&cr.uid().unwrap_or_default());
        }
    }

    async fn work_on(&self, cr: &CustomResource, turn: &Turn) {
        let run = AssertUnwindSafe(reconcile::reconcile(cr, &self.context, turn)).catch_unwind();
        let began = Instant::now();
        let outcome = run.await;
        self.meter.note(&outcome, began.elapsed());
        match outcome {
            Ok(Ok(next)) => {
                self.went_well(cr, next, turn);
                reconcile::note_outcome("done");
            }
            // Something newer has told already; who was put off comes again.
            Ok(Err(ReconcileError::Interrupted)) => {
                tracing::debug!("interrupted by something newer or more urgent");
                turn.again(Duration::ZERO, turn.urgency);
                reconcile::note_outcome("interrupted");
            }
            Ok(Err(error)) => {
                self.failed(cr, &error, turn);
                reconcile::note_outcome(error.category().as_str());
            }
            Err(_) => {
                self.broke_down(cr, turn);
                reconcile::note_outcome("panicked");
            }
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
            Next::Wait => {}
            Next::Rest => self.come_again_in_time(cr, turn),
        }
    }

    fn failed(&self, cr: &CustomResource, error: &ReconcileError, turn: &Turn) {
        let category = error.category();
        let (reason, message) = (category.as_str(), error.to_string());
        if category == Category::NotLeading {
            tracing::debug!(reason, "{message}");
            return turn.again(SOON, turn.urgency);
        }
        let delay = self.attempts.failed(cr, category.retry());
        let (attempts, is_news) = self.attempts.tell(cr, &message);
        let retry = delay.map(reconcile::milliseconds);
        match (is_news, category) {
            (true, category) if category.is_expected() => {
                tracing::info!(reason, attempts, retryMs = retry, "{message}");
            }
            (true, _) => tracing::error!(reason, attempts, retryMs = retry, "{message}"),
            (false, _) => tracing::debug!(reason, attempts, retryMs = retry, "again: {message}"),
        }
        match delay {
            // Others go ahead of it.
            Some(delay) if error.lacks_room() => turn.again(delay, Urgency::Recheck),
            Some(delay) => turn.again(delay, by_itself(cr)),
            None => self.come_again_in_time(cr, turn),
        }
    }

    /// A panic is a defect of ours. It must not take the others with it.
    fn broke_down(&self, cr: &CustomResource, turn: &Turn) {
        tracing::error!(reason = "Panicked", "the reconcile panicked; this is a defect of the operator");
        if let Some(delay) = self.attempts.failed(cr, Retry::Seldom) {
            turn.again(delay, by_itself(cr));
        }
    }

    /// By the annotation, the watch or the flag, in this order. In a watch, as in operator-sdk, zero says nothing.
    fn come_again_in_time(&self, cr: &CustomResource, turn: &Turn) {
        let of_watch = self.context.watch.reconcile_period.filter(|period| !period.is_zero());
        let period = wishes::period(cr.annotations()).or(of_watch).unwrap_or(self.context.settings.reconcile_period);
        if !period.is_zero() {
            turn.again(period.max(wishes::SHORTEST_PERIOD), Urgency::Recheck);
        }
    }
}
