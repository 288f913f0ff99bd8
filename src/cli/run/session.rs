//! One session: from the connection to the API server until SIGTERM or the loss of the Lease.
//!
//! Nothing of a session is left in the next one: no client, no cache, no queue, and its guard stays closed. So an operator that lost the
//! Lease knows as little as a new process, and a task that was not done with its work can write nothing.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use futures::pin_mut;
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::Api;
use tokio_util::sync::CancellationToken;

use super::endpoints::Endpoints;
use super::ground::Ground;
use super::patience::Patience;
use crate::calls::Calls;
use crate::children::Children;
use crate::claims::Claims;
use crate::cluster::{self, Access, Cluster, ClusterError, Shared};
use crate::controller::{self, Operator};
use crate::definitions::{self, Definitions};
use crate::discovery::{Cache, DiscoveryError};
use crate::leader::Leading;
use crate::leader::election::{Candidacy, Election, Lost};
use crate::listeners::Listeners;
use crate::namespaces::Namespaces;
use crate::protected::ProtectedObjects;
use crate::release::Records;
use crate::scalers::Scalers;
use crate::sources::Sources;
use crate::trust::{Trust, TrustError};

/// A pod is killed 30 seconds after it was told to end, and some set less.
const LAST_MOMENT: Duration = Duration::from_secs(8);

/// How long writes under way may hold up the next operator. What is left undone is resumed by it.
const LAST_WRITES: Duration = Duration::from_secs(1);

/// How long work may take to notice that nothing can be written any more.
const AT_ONCE: Duration = Duration::from_millis(500);

/// How a session ended.
pub(super) enum End {
    Stopped,
    Lost(Lost),
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    Trust(#[from] TrustError),
}

impl ConnectError {
    /// Whether trying again may help, without anybody's doing.
    pub(super) fn is_away(&self) -> bool {
        match self {
            ConnectError::Cluster(error) => error.is_away(),
            ConnectError::Discovery(error) => error.is_away(),
            ConnectError::Trust(error) => error.is_away(),
        }
    }
}

/// The way to the API server, which answers.
struct Connection {
    cluster: Cluster,
    candidacy: Option<Candidacy>,
    calls: Calls,
    definitions: Definitions,
    kinds: Cache,
}

/// Works until `stop`, or until the Lease is lost.
pub(super) async fn run(ground: &mut Ground, endpoints: &Endpoints, stop: &CancellationToken) -> anyhow::Result<End> {
    let over = stop.child_token();
    // What was started for this session ends with it, however it ends.
    let _over = over.clone().drop_guard();
    let Some(connection) = stop.run_until_cancelled(connected(ground)).await else { return Ok(End::Stopped) };
    let mut connection = connection?;
    let (cluster, version) = (&connection.cluster, env!("CARGO_PKG_VERSION"));
    let (helm, kinds) = (&ground.helm.version, ground.watches.len());
    tracing::info!(version, helm, kubernetes = cluster.version, kinds, "starting");
    check_account(ground, cluster)?;
    let absent = tell_absent(ground.settings.namespaces.clone(), cluster.client.clone());
    tokio::spawn(over.clone().run_until_cancelled_owned(absent));
    // Not before the way to the cluster is known to be good. What it lists is its own affair: a standby has done so already.
    let candidacy = connection.candidacy.take();
    let mut election = candidacy.map(|candidacy| Election::start(candidacy, cluster.client.clone(), over.clone()));
    let leading = election.as_ref().map_or_else(Leading::always, |election| election.leading.clone());
    let home = home(std::env::var("POD_NAMESPACE").ok(), cluster.namespace.clone());
    let trust = tokio::select! {
        biased;
        lost = lost(&mut election) => {
            ground.lost();
            return Ok(End::Lost(lost));
        }
        () = stop.cancelled() => None,
        trust = trusted(&connection.calls, &home, &leading, &mut ground.patience) => Some(trust),
    };
    let trust = match trust {
        Some(Ok(trust)) => trust,
        none => {
            over.cancel();
            release(election, Duration::ZERO).await;
            return none.and_then(Result::err).map_or(Ok(End::Stopped), |error| Err(error.into()));
        }
    };
    let operator = operator(ground, connection, home, trust, leading, &over);
    endpoints.connected(&operator, &over);
    work(ground, operator, election, over).await
}

/// An operator that knows nothing yet.
fn operator(
    ground: &Ground,
    connection: Connection,
    home: String,
    trust: Trust,
    leading: Leading,
    over: &CancellationToken,
) -> Operator {
    let protected = protected(ground, &connection.cluster, &home).into();
    let Connection { cluster: Cluster { client, .. }, calls, definitions, kinds, .. } = connection;
    let (listeners, names) = (Arc::new(Listeners::default()), &ground.settings.namespaces);
    Operator {
        children: Arc::new(Children::new(client.clone(), listeners.clone(), names.clone(), over.clone())),
        sources: Arc::new(Sources::new(client.clone(), listeners.clone(), names.clone(), over.clone())),
        scalers: Arc::new(Scalers::new(client.clone(), names.clone(), over.clone())),
        listeners,
        helm: ground.helm.clone(),
        lanes: ground.lanes.clone(),
        calls,
        claims: Claims::default(),
        definitions,
        client,
        kinds: Arc::new(kinds),
        records: Records::new(names.clone(), trust.signer.clone()),
        lives: Default::default(),
        protected,
        default_namespace: home,
        settings: ground.settings.clone(),
        trust,
        leading,
    }
}

/// Works with what is known, until the end.
async fn work(
    ground: &mut Ground,
    operator: Operator,
    mut election: Option<Election>,
    over: CancellationToken,
) -> anyhow::Result<End> {
    let keeper = operator.trust.keeper.clone();
    let guard = election.as_ref().map(|election| election.guard.clone());
    let last_moment = async {
        over.cancelled().await;
        match &guard {
            // Somebody waits for the Lease.
            Some(guard) => guard.finish(LAST_WRITES).await,
            None => tokio::time::sleep(LAST_MOMENT).await,
        }
    };
    let running = controller::run(ground.watches.clone(), operator, over.clone());
    pin_mut!(running);
    let mut ended = Ok(End::Stopped);
    let has_ended = tokio::select! {
        biased;
        lost = lost(&mut election) => {
            ground.lost();
            over.cancel();
            // Nothing is written any more. Renders are ended, and nobody is surprised by the end.
            let _ = tokio::time::timeout(AT_ONCE, running).await;
            return Ok(End::Lost(lost));
        }
        error = keeper.replaced() => {
            over.cancel();
            ended = Err(error.into());
            tokio::time::timeout(LAST_WRITES, &mut running).await.is_ok()
        }
        () = &mut running => true,
        () = last_moment => false,
    };
    // Events are not waited for by anybody else.
    release(election, if has_ended { LAST_WRITES } else { Duration::ZERO }).await;
    match has_ended || tokio::time::timeout(AT_ONCE, running).await.is_ok() {
        true => tracing::info!("stopped"),
        false => tracing::warn!("stopped, although not everything had ended"),
    }
    ended
}

/// Waits until the Lease is lost. Without one that is never.
async fn lost(election: &mut Option<Election>) -> Lost {
    match election {
        Some(election) => election.lost().await,
        None => std::future::pending().await,
    }
}

/// Gives the Lease back, after writes under way had so much time.
async fn release(election: Option<Election>, patience: Duration) {
    if let Some(election) = election {
        election.guard.finish(patience).await;
        election.release().await;
    }
}

/// Connects, in a pod for as long as the API server is away.
async fn connected(ground: &mut Ground) -> Result<Connection, ConnectError> {
    loop {
        match connect(ground).await {
            Ok(connection) => {
                ground.patience.succeeded();
                return Ok(connection);
            }
            Err(error) => ground.patience.wait(error).await?,
        }
    }
}

async fn connect(ground: &mut Ground) -> Result<Connection, ConnectError> {
    let found = cluster::configuration(&Access::default()).await?;
    let (cluster, candidacy) = match &mut ground.standing {
        None => (found.connect().await?, None),
        Some(standing) => {
            let (guard, settings) = (standing.next_guard(), standing.settings.clone());
            let Shared { cluster, election: client } = found.connect_shared(&guard, settings.pace.margin()).await?;
            let (identity, not_before) = (standing.identity.text(), standing.not_before);
            (cluster, Some(Candidacy { settings, identity, not_before, client, guard }))
        }
    };
    let calls = Calls::new(cluster.client.clone());
    let definitions = definitions::follow(cluster.client.clone());
    let kinds = Cache::new(calls.clone()).await?.with_news(definitions.clone());
    Ok(Connection { cluster, candidacy, calls, definitions, kinds })
}

/// The same for the key and the ledger.
async fn trusted(calls: &Calls, home: &str, leading: &Leading, patience: &mut Patience) -> Result<Trust, ConnectError> {
    loop {
        match Trust::load(calls, home, leading.clone()).await {
            Ok(trust) => {
                patience.succeeded();
                return Ok(trust);
            }
            Err(error) => patience.wait(error.into()).await?,
        }
    }
}

/// Nobody can act as somebody who acts as somebody else, and the kubeconfig's user would win.
fn check_account(ground: &Ground, cluster: &Cluster) -> anyhow::Result<()> {
    let with_account = ground.watches.iter().find(|watch| watch.service_account.is_some());
    if let (Some(watch), Some(user)) = (with_account, &cluster.acts_as) {
        let kind = &watch.gvk.kind;
        bail!("{kind} has `serviceAccountName`, but the kubeconfig acts as {user:?} itself; use one without `as`");
    }
    Ok(())
}

fn protected(ground: &Ground, cluster: &Cluster, home: &str) -> ProtectedObjects {
    let own = cluster.identity.clone().with_environment();
    let lease = ground.standing.as_ref().map(|it| (it.settings.namespace.clone(), it.settings.name.clone()));
    ProtectedObjects {
        namespace: home.to_owned(),
        pod: own.pod,
        service_account: own.service_account,
        lease,
        kinds: ground.watches.iter().map(|watch| watch.gvk.clone()).collect(),
    }
}

/// Where releases of cluster-scoped resources live. A variable that is empty says nothing.
fn home(named: Option<String>, connected: String) -> String {
    named.filter(|name| !name.trim().is_empty()).unwrap_or(connected)
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
