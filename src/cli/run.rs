//! `chartwright run`: the operator.

mod endpoints;
pub mod flags;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::pin_mut;
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::Api;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::calls::Calls;
use crate::children::Children;
use crate::claims::Claims;
use crate::cli::Usage;
use crate::cluster::{Cluster, Shared};
use crate::controller::{self, Operator, Settings};
use crate::discovery::Cache;
use crate::leader::Leading;
use crate::leader::election::{Candidacy, Election};
use crate::leader::guard::Guard;
use crate::leader::settings as lease;
use crate::listeners::Listeners;
use crate::namespaces::Namespaces;
use crate::protected::ProtectedObjects;
use crate::release::Records;
use crate::render::Helm;
use crate::render::lanes::Lanes;
use crate::render::process::processors;
use crate::scalers::Scalers;
use crate::sources::Sources;
use crate::telemetry::logs::control::{self, Levels};
use crate::telemetry::logs::level::LAST;
use crate::trust::Trust;
use crate::watches::{Watch, WatchesError};
use crate::{cluster, definitions, telemetry, watches};
use endpoints::Endpoints;
pub use flags::Args;
use flags::Work;

/// A pod is killed 30 seconds after it was told to end, and some set less.
const LAST_MOMENT: Duration = Duration::from_secs(8);

/// How long writes under way may hold up the next operator. What is left undone is resumed by it.
const LAST_WRITES: Duration = Duration::from_secs(1);

/// How long work may take to notice that nothing can be written any more.
const AT_ONCE: Duration = Duration::from_millis(500);

/// Runs until SIGTERM or SIGINT, or until the Lease is lost.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (args, warnings) = args.settled(std::env::var("OPERATOR_NAME").ok())?;
    let levels = telemetry::logs::start(&args.logs);
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    take_orders(levels);
    let is_json = telemetry::logs::is_json(&args.logs);
    let ended = work(args).await;
    // Whatever the end, it is told what led to it.
    telemetry::traces::flush().await;
    match ended {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // Whoever reads logs as data gets this as data too. It is the last word, so it is told at every level.
        Err(error) if is_json => {
            tracing::error!(target: LAST, "{error:#}");
            Ok(if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE })
        }
        Err(error) => Err(error),
    }
}

async fn work(args: Args) -> anyhow::Result<()> {
    // In a directory that is no project, ports are not what is wrong.
    if let Err(error @ WatchesError::Read { .. }) = watches::kinds(&args.project.watches_file) {
        return Err(error.into());
    }
    let endpoints = Endpoints::open(&args.metrics, &args.health).await?;
    let stop = CancellationToken::new();
    tokio::spawn(stop_on_signal(stop.clone())?);
    let Some(prepared) = stop.run_until_cancelled(prepare(args, &stop)).await else { return Ok(()) };
    let Prepared { watches, operator, mut election } = prepared?;
    endpoints.show(&operator);
    let keeper = operator.trust.keeper.clone();
    let guard = election.as_ref().map(|election| election.guard.clone());
    let last_moment = async {
        stop.cancelled().await;
        match &guard {
            // Somebody waits for the Lease.
            Some(guard) => guard.finish(LAST_WRITES).await,
            None => tokio::time::sleep(LAST_MOMENT).await,
        }
    };
    let lost = async {
        match &mut election {
            Some(election) => election.lost().await,
            None => std::future::pending().await,
        }
    };
    let running = controller::run(watches, operator, stop.clone());
    pin_mut!(running);
    let mut ended = Ok(());
    let has_ended = tokio::select! {
        biased;
        lost = lost => {
            stop.cancel();
            // Nothing is written any more. Renders are ended, and nobody is surprised by the end.
            let _ = tokio::time::timeout(AT_ONCE, running).await;
            return Err(lost.into());
        }
        error = keeper.replaced() => {
            stop.cancel();
            ended = Err(error.into());
            tokio::time::timeout(LAST_WRITES, &mut running).await.is_ok()
        }
        () = &mut running => true,
        () = last_moment => false,
    };
    if let Some(election) = election {
        // Events are not waited for by anybody else.
        let patience = if has_ended { LAST_WRITES } else { Duration::ZERO };
        election.guard.finish(patience).await;
        election.release().await;
    }
    match has_ended || tokio::time::timeout(AT_ONCE, running).await.is_ok() {
        true => tracing::info!("stopped"),
        false => tracing::warn!("stopped, although not everything had ended"),
    }
    ended
}

/// Where releases of cluster-scoped resources live. A variable that is empty says nothing.
fn home(named: Option<String>, connected: String) -> String {
    named.filter(|name| !name.trim().is_empty()).unwrap_or(connected)
}

/// Lets people change how much is told. An operator that cannot hear them works all the same.
fn take_orders(levels: Levels) {
    if let Err(error) = control::listen(levels.clone()) {
        tracing::warn!("the log level cannot be changed by `chartwright log-level`: {error}");
    }
    if let Err(error) = control::heed_signals(levels) {
        tracing::warn!("the log level cannot be changed by signals: {error}");
    }
}

struct Prepared {
    watches: Vec<Watch>,
    operator: Operator,
    /// Where there may be several operators.
    election: Option<Election>,
}

async fn prepare(args: Args, stop: &CancellationToken) -> anyhow::Result<Prepared> {
    let settings = Arc::new(settings(&args.work)?);
    let here = std::env::current_dir().context("cannot find the working directory")?;
    let mut helm = Helm::find(args.project.helm.as_deref()).await?;
    helm.limits.time = args.work.render_timeout;
    let watches = watches::load(&args.project.watches_file, &here, &helm).await?;
    for warning in &watches.warnings {
        tracing::warn!("{warning}");
    }
    let (cluster, candidacy) = connect(&args.leader, &watches.entries).await?;
    let (version, kinds) = (env!("CARGO_PKG_VERSION"), watches.entries.len());
    tracing::info!(version, helm = helm.version, kubernetes = cluster.version, kinds, "starting");
    let with_account = watches.entries.iter().find(|watch| watch.service_account.is_some());
    if let (Some(watch), Some(user)) = (with_account, &cluster.acts_as) {
        let kind = &watch.gvk.kind;
        // Nobody can act as somebody who acts as somebody else, and the kubeconfig's user would win.
        bail!("{kind} has `serviceAccountName`, but the kubeconfig acts as {user:?} itself; use one without `as`");
    }
    let calls = Calls::new(cluster.client.clone());
    tokio::spawn(tell_absent(settings.namespaces.clone(), cluster.client.clone()));
    let definitions = definitions::follow(cluster.client.clone());
    let kinds = Arc::new(Cache::new(calls.clone()).await?.with_news(definitions.clone()));
    let listeners = Arc::new(Listeners::default());
    let default_namespace = home(std::env::var("POD_NAMESPACE").ok(), cluster.namespace);
    let lease = candidacy.as_ref().map(|it| (it.settings.namespace.clone(), it.settings.name.clone()));
    let own = cluster.identity.with_environment();
    let protected = Arc::new(ProtectedObjects {
        namespace: default_namespace.clone(),
        pod: own.pod,
        service_account: own.service_account,
        lease,
        kinds: watches.entries.iter().map(|watch| watch.gvk.clone()).collect(),
    });
    // Not before the way to the cluster is known to be good. What it lists is its own affair: a standby has done so already.
    let election = candidacy.map(|candidacy| Election::start(candidacy, cluster.client.clone(), stop.clone()));
    let (client, names) = (&cluster.client, &settings.namespaces);
    let leading = election.as_ref().map_or_else(Leading::always, |election| election.leading.clone());
    let trust = Trust::load(&calls, &default_namespace, leading.clone()).await?;
    let operator = Operator {
        children: Arc::new(Children::new(client.clone(), listeners.clone(), names.clone(), stop.clone())),
        sources: Arc::new(Sources::new(client.clone(), listeners.clone(), names.clone(), stop.clone())),
        scalers: Arc::new(Scalers::new(client.clone(), names.clone(), stop.clone())),
        listeners,
        helm,
        lanes: Lanes::new(processors()),
        calls,
        claims: Claims::default(),
        definitions,
        client: cluster.client.clone(),
        kinds,
        records: Records::new(names.clone(), trust.signer.clone()),
        lives: Default::default(),
        default_namespace,
        protected,
        settings,
        trust,
        leading,
    };
    Ok(Prepared { watches: watches.entries, operator, election })
}

/// A namespace that is misspelt looks like one in which nothing happens. Who may not ask is told by the watches.
async fn tell_absent(namespaces: Namespaces, client: Client) {
    let api: Api<Namespace> = Api::all(client);
    for name in namespaces.scopes().iter().flatten() {
        if let Ok(None) = api.get_metadata_opt(name).await {
            tracing::warn!(
                namespace = &**name,
                "the namespace does not exist; waiting for it. Is WATCH_NAMESPACE right?"
            );
        }
    }
}

/// A connection, and what decides whether it may be written by.
async fn connect(leader: &flags::Leader, watches: &[Watch]) -> anyhow::Result<(Cluster, Option<Candidacy>)> {
    if !leader.leader_elect {
        return Ok((cluster::connect().await?, None));
    }
    let group = watches.first().map_or("", |watch| &watch.gvk.group);
    let (id, namespace) = (leader.leader_election_id.as_deref(), leader.leader_election_namespace.as_deref());
    let settings = lease::Settings::new(id, namespace, group, leader.pace())?;
    let guard = Guard::closed();
    let Shared { cluster, election: client } = cluster::connect_shared(&guard, settings.pace.margin()).await?;
    Ok((cluster, Some(Candidacy { settings, client, guard })))
}

fn settings(work: &Work) -> Result<Settings, Usage> {
    let namespaces = Namespaces::parse(&work.watch_namespace).map_err(|error| Usage(error.to_string()))?;
    match namespaces.is_all() {
        true => tracing::info!("watching all namespaces"),
        false => tracing::info!(namespaces = namespaces.shown(), "watching these namespaces and no others"),
    }
    Ok(Settings {
        namespaces,
        reconcile_period: work.reconcile_period,
        // As controller-runtime reads a zero.
        max_concurrent: work.max_concurrent_reconciles.map(|most| most.max(1)),
        suppress_override_values: work.suppress_override_values,
    })
}

/// The first signal lets what is being written end. The second ends at once.
fn stop_on_signal(stop: CancellationToken) -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut told = async move || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    Ok(async move {
        told().await;
        tracing::info!("stopping");
        stop.cancel();
        told().await;
        std::process::exit(1);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_is_empty_names_no_namespace() {
        assert_eq!(home(Some("ops".into()), "default".into()), "ops");
        for none in [None, Some(String::new()), Some(" ".into())] {
            assert_eq!(home(none, "default".into()), "default");
        }
    }
}
