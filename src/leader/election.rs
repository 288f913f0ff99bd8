//! The calls, the watch and the log of an election. What to do is decided by the [`Candidate`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, PostParams};
use kube::runtime::watcher::{self, Event};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Leading;
use super::candidate::{Candidate, Loss, Next, is_new};
use super::clock::Moment;
use super::guard::Guard;
use super::settings::Settings;
use crate::error::sentence;
use crate::telemetry::events::Events;
use crate::watching;

/// Missing rights are given by a person. How many retries are left out.
const FORBIDDEN: u32 = 10;
/// The same failure is told again after this time.
const SAY_AGAIN: Duration = Duration::from_secs(300);
/// How long giving the Lease back may hold up the end. Who does not get it so waits until it is old.
const LAST_CALL: Duration = Duration::from_secs(1);

/// The Lease was lost. Whoever gets this ends all work at once.
#[derive(Debug, thiserror::Error)]
#[error("this operator does not hold the Lease {lease} any more: {why}; it stops all work and ends")]
pub struct Lost {
    pub lease: String,
    pub why: String,
}

/// What it takes to stand for election.
pub struct Candidacy {
    pub settings: Settings,
    /// No other living process has it.
    pub identity: Arc<str>,
    /// Until then, what an earlier process or session with this identity wrote may arrive.
    pub not_before: Moment,
    /// For the Lease, without a guard.
    pub client: Client,
    pub guard: Guard,
}

/// An election that is going on.
pub struct Election {
    pub leading: Leading,
    pub guard: Guard,
    task: JoinHandle<Result<(), Lost>>,
    release: CancellationToken,
}

impl Election {
    /// # Arguments
    /// `working`: what the guard is for. `stop`: who does not hold the Lease by then does not want it any more.
    pub fn start(candidacy: Candidacy, working: Client, stop: CancellationToken) -> Self {
        let Candidacy { settings, identity, not_before, client, guard } = candidacy;
        let (leads, leading) = Leading::of(&settings.name);
        let release = CancellationToken::new();
        let elector = Elector {
            candidate: Candidate::new(&identity, settings.pace, Moment::now()).not_before(not_before),
            api: Api::namespaced(client, &settings.namespace),
            events: Arc::new(Events::new(working)),
            guard: guard.clone(),
            leads,
            stop,
            release: release.clone(),
            told: None,
            trouble: None,
            settings,
            identity,
        };
        Election { leading, guard, task: tokio::spawn(elector.run()), release }
    }

    /// Waits until the Lease is lost, which may never be.
    pub async fn lost(&mut self) -> Lost {
        match (&mut self.task).await {
            Ok(Err(lost)) => lost,
            Ok(Ok(())) => std::future::pending().await,
            Err(error) => {
                Lost { lease: "for leader election".to_owned(), why: format!("the election broke down: {error}") }
            }
        }
    }

    /// Gives the Lease back, if nothing that was written can arrive any more.
    pub async fn release(self) {
        self.release.cancel();
        if self.task.is_finished() {
            return;
        }
        if tokio::time::timeout(LAST_CALL, self.task).await.is_err() {
            tracing::warn!("the Lease could not be given back in time; the next operator waits until it is old");
        }
    }
}

/// What the watch of the Lease says: how it is now, or that it cannot be watched.
type Tidings = BoxStream<'static, Result<Option<Lease>, watcher::Error>>;

struct Elector {
    settings: Settings,
    identity: Arc<str>,
    candidate: Candidate,
    api: Api<Lease>,
    events: Arc<Events>,
    guard: Guard,
    leads: watch::Sender<Option<Instant>>,
    stop: CancellationToken,
    release: CancellationToken,
    /// Who was last said to hold the Lease.
    told: Option<String>,
    /// What was last said to go wrong.
    trouble: Option<(Moment, String)>,
}

impl Elector {
    async fn run(mut self) -> Result<(), Lost> {
        let lease = self.lease();
        tracing::info!(lease, identity = &*self.identity, "leader election");
        let mut tidings = tidings(self.api.clone(), &self.settings.name);
        loop {
            if self.is_over() {
                self.give_back().await;
                return Ok(());
            }
            match self.candidate.next(Moment::now(), Timestamp::now()) {
                Next::Lost(loss) => return Err(self.lose(&loss)),
                Next::Look => self.look().await,
                Next::Claim(claim) => self.claim(*claim).await,
                Next::Wait(until) => self.wait(until, &mut tidings).await,
            }
        }
    }

    /// Who stands by ends with everybody else. Who holds the Lease keeps it until the last write is done.
    fn is_over(&self) -> bool {
        self.release.is_cancelled() || self.stop.is_cancelled() && !self.candidate.is_holder()
    }

    async fn wait(&mut self, until: Moment, tidings: &mut Tidings) {
        let over = match self.candidate.is_holder() {
            true => self.release.clone(),
            false => self.stop.clone(),
        };
        tokio::select! {
            () = over.cancelled() => {}
            () = tokio::time::sleep(Moment::now().until(until)) => {}
            Some(told) = tidings.next() => match told {
                Ok(lease) => {
                    self.candidate.hear(lease, Moment::now());
                    self.tell_holder();
                }
                // The rights may come later, so the watch goes on trying.
                Err(error) if watching::code(&error) == Some(403) => {
                    if !self.candidate.poll(Moment::now()) {
                        tracing::info!(lease = self.lease(), "it may not be watched, so it is asked for: {}", watching::words(&error));
                    }
                }
                Err(error) => tracing::warn!(lease = self.lease(), "the watch of it broke: {}", watching::words(&error)),
            }
        }
    }

    async fn look(&mut self) {
        let (api, name) = (self.api.clone(), self.settings.name.clone());
        match self.bounded(Box::pin(async move { api.get_opt(&name).await })).await {
            Ok(lease) => {
                self.candidate.see(lease, Moment::now());
                self.tell_holder();
            }
            Err(failure) => self.failed("get", failure),
        }
    }

    async fn claim(&mut self, mut lease: Lease) {
        lease.metadata.name = Some(self.settings.name.clone());
        let verb = if is_new(&lease) { "create" } else { "update" };
        let sent = Moment::now();
        let call = write(self.api.clone(), lease);
        match self.bounded(Box::pin(call)).await {
            Ok(lease) => self.claimed(lease, sent),
            // Somebody was faster, or the Lease went.
            Err(Failure::Answer(error)) if matches!(code(&error), Some(404 | 409)) && !no_such_namespace(&error) => {
                self.candidate.doubt(Moment::now());
            }
            Err(failure) => self.failed(verb, failure),
        }
    }

    fn claimed(&mut self, lease: Lease, sent: Moment) {
        let is_first = !self.candidate.is_holder();
        self.candidate.claimed(lease.clone(), sent, Moment::now());
        self.trouble = None;
        if let Some(deadline) = self.candidate.deadline() {
            self.guard.open_until(deadline);
        }
        if is_first {
            let transitions = lease.spec.as_ref().and_then(|spec| spec.lease_transitions);
            tracing::info!(
                lease = self.lease(),
                identity = &*self.identity,
                transitions,
                "acquired the Lease; starting to work"
            );
            self.leads.send_replace(Some(Instant::now()));
            let (events, note) = (self.events.clone(), format!("{} became leader", self.identity));
            tokio::spawn(async move { events.about_lease(&reference(&lease), &note).await });
        }
    }

    fn lose(&mut self, loss: &Loss) -> Lost {
        self.guard.close();
        self.leads.send_replace(None);
        let because = match (loss, &self.trouble) {
            (Loss::Late { .. }, Some((_, trouble))) => format!("{loss} ({trouble})"),
            _ => loss.to_string(),
        };
        Lost { lease: self.lease(), why: because }
    }

    /// Nothing is written after the guard is closed, so the next one may begin at once. Unless there are writes that nobody answered:
    /// they may wait in the API server. Then the next one begins as late as after a crash.
    async fn give_back(&mut self) {
        self.guard.close();
        self.leads.send_replace(None);
        if !self.candidate.is_holder() {
            return;
        }
        let lease = self.lease();
        if !self.guard.is_settled(self.settings.pace.lease) {
            return tracing::warn!(
                lease,
                "not released: a write was not answered and may still arrive; the next operator waits until the Lease is old"
            );
        }
        for _ in 0..2 {
            let Some(released) = self.candidate.release(Timestamp::now()) else { return };
            match write(self.api.clone(), released).await {
                Ok(_) => return tracing::info!(lease, "released the Lease"),
                // Somebody touched it. If it is still ours, it is given back all the same.
                Err(error) if code(&error) == Some(409) => self.look().await,
                Err(error) => {
                    let why = sentence(&error);
                    return tracing::warn!(
                        lease,
                        "cannot release the Lease; the next operator waits until it is old: {why}"
                    );
                }
            }
        }
    }

    /// A call that does not hang for longer than the holder could bear. There must be time for another one.
    async fn bounded<T>(&self, call: BoxFuture<'_, Result<T, kube::Error>>) -> Result<T, Failure> {
        let patience = self.settings.pace.renew_deadline / 2;
        match tokio::time::timeout(patience, call).await {
            Ok(answer) => answer.map_err(Failure::Answer),
            Err(_) => Err(Failure::Silence(patience)),
        }
    }

    fn failed(&mut self, verb: &str, failure: Failure) {
        let now = Moment::now();
        let is_forbidden = matches!(&failure, Failure::Answer(error) if code(error) == Some(403));
        let pause = self.settings.pace.retry * if is_forbidden { FORBIDDEN } else { 1 };
        self.candidate.failed(now, pause);
        let words = match failure {
            Failure::Answer(error) if is_forbidden => format!("{}; {}", sentence(&error), self.remedy()),
            Failure::Answer(error) => sentence(&error),
            Failure::Silence(patience) => format!("no answer within {} s", patience.as_secs_f32()),
        };
        let was_told = self.trouble.as_ref().is_some_and(|(at, told)| *told == words && at.until(now) < SAY_AGAIN);
        if !was_told {
            tracing::error!(lease = self.lease(), "cannot {verb} the Lease; trying again: {words}");
            self.trouble = Some((now, words));
        }
    }

    fn remedy(&self) -> String {
        let namespace = &self.settings.namespace;
        format!(
            "bind a Role in the namespace {namespace} that allows get, list, watch, create and update on leases of coordination.k8s.io (config/rbac/leader_election_role.yaml) to the operator's ServiceAccount"
        )
    }

    fn tell_holder(&mut self) {
        if self.candidate.is_holder() {
            return;
        }
        let holder = self.candidate.holder().map(str::to_owned);
        if let Some(holder) = holder.as_ref().filter(|_| self.told != holder) {
            match self.candidate.is_heir() {
                true => tracing::info!(
                    lease = self.lease(),
                    holder,
                    "nobody has acquired the Lease since this pod held it; acquiring it again"
                ),
                false => tracing::info!(lease = self.lease(), holder, "standing by: another operator holds the Lease"),
            }
        }
        self.told = holder;
    }

    fn lease(&self) -> String {
        format!("{}/{}", self.settings.namespace, self.settings.name)
    }
}

enum Failure {
    Answer(kube::Error),
    Silence(Duration),
}

/// The version in the Lease makes sure that nobody wrote it meanwhile.
async fn write(api: Api<Lease>, lease: Lease) -> Result<Lease, kube::Error> {
    match is_new(&lease) {
        true => api.create(&PostParams::default(), &lease).await,
        false => {
            let name = lease.metadata.name.clone().unwrap_or_default();
            api.replace(&name, &PostParams::default(), &lease).await
        }
    }
}

/// A watch of one Lease only, so that rights on this one are enough.
fn tidings(api: Api<Lease>, name: &str) -> Tidings {
    let events = watching::events_with(api, None, Some(&format!("metadata.name={name}")));
    // A list without the Lease says so only by its end.
    let mut listed = None;
    let told = events.filter_map(move |event| {
        let told = match event {
            Ok(Event::Init) => {
                listed = None;
                None
            }
            Ok(Event::InitApply(lease)) => {
                listed = Some(lease);
                None
            }
            Ok(Event::InitDone) => Some(Ok(listed.take())),
            Ok(Event::Apply(lease)) => Some(Ok(Some(lease))),
            Ok(Event::Delete(_)) => Some(Ok(None)),
            Err(error) => Some(Err(error)),
        };
        std::future::ready(told)
    });
    told.boxed()
}

fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// As opposed to a Lease that went.
fn no_such_namespace(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404 && status.message.starts_with("namespaces "))
}

fn reference(lease: &Lease) -> ObjectReference {
    ObjectReference {
        api_version: Some("coordination.k8s.io/v1".into()),
        kind: Some("Lease".into()),
        name: lease.metadata.name.clone(),
        namespace: lease.metadata.namespace.clone(),
        uid: lease.metadata.uid.clone(),
        ..Default::default()
    }
}
