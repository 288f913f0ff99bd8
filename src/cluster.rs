//! The connection to the API server, with errors that name the file and the remedy.

pub mod again;
pub mod clock;
mod counted;

use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, Write};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::Client;
use kube::client::{Body, ConfigExt};
use kube::config::{Config, InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};

use tower::retry::RetryLayer;
use tower::{BoxError, ServiceBuilder};

use crate::error::{innermost, sentence};
use crate::leader::guard::{Guard, GuardedConnector};
use crate::protected::own::Identity;
use again::Willing;
use counted::Counted;

pub const USER_AGENT: &str = concat!("chartwright/", env!("CARGO_PKG_VERSION"));

const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error("cannot use the kubeconfig {file}: {}; correct the file or set KUBECONFIG to another", innermost(error))]
    Kubeconfig { file: String, error: KubeconfigError },
    #[error("no cluster: there is no kubeconfig, and this is not a pod ({}); set KUBECONFIG", innermost(.0))]
    None(InClusterError),
    #[error("cannot connect to {server}: {error}; check {source_name}")]
    Connect { server: String, error: String, source_name: String },
    #[error("cannot reach the API server at {server}: {error}; {remedy}")]
    Unreachable { server: String, error: String, remedy: String },
}

/// A client, and the namespace that its configuration names.
pub struct Cluster {
    pub client: Client,
    pub namespace: String,
    pub version: String,
    /// The user that the kubeconfig has this program act as.
    pub acts_as: Option<String>,
    /// Which pod and which ServiceAccount this program is, as far as its token says so.
    pub identity: Identity,
}

/// The connection of an operator that is one of several.
pub struct Shared {
    /// Writes only while the guard allows it.
    pub cluster: Cluster,
    /// For the Lease. It shares nothing with the others, so that no load holds up a renewal.
    pub election: Client,
}

/// Which cluster a person means, where it is not the one that everything points to.
#[derive(Clone, Debug, Default)]
pub struct Access {
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
}

/// Connects by KUBECONFIG, ~/.kube/config or the pod's ServiceAccount, and makes sure that the API server answers.
pub async fn connect() -> Result<Cluster, ClusterError> {
    connect_by(&Access::default()).await
}

/// The same, for an operator that works only while it holds a Lease.
///
/// # Arguments
/// `margin`: how long before others may write this one stops. What was sent until then and has not arrived by the end of it never does.
pub async fn connect_shared(guard: &Guard, margin: Duration) -> Result<Shared, ClusterError> {
    let found = configuration(&Access::default()).await?;
    let election = found.build(|config| counted(with_agent(config, "/leader-election")))?;
    let client = again::patient(found.build(|config| guarded(with_agent(config, ""), guard, margin))?);
    Ok(Shared { cluster: found.reach(client).await?, election })
}

/// The same, by this kubeconfig and this context of it.
pub async fn connect_by(access: &Access) -> Result<Cluster, ClusterError> {
    let found = configuration(access).await?;
    let client = again::patient(found.build(|config| counted(with_agent(config, "")))?);
    found.reach(client).await
}

/// A configuration, and what to call the place where it is from.
struct Found {
    config: Config,
    source_name: String,
    is_pod: bool,
}

impl Found {
    fn build(&self, client: impl FnOnce(Config) -> kube::Result<Client>) -> Result<Client, ClusterError> {
        client(self.config.clone()).map_err(|error| ClusterError::Connect {
            server: self.config.cluster_url.to_string(),
            error: sentence(&error),
            source_name: self.source_name.clone(),
        })
    }

    async fn reach(self, client: Client) -> Result<Cluster, ClusterError> {
        let (server, namespace) = (self.config.cluster_url.to_string(), self.config.default_namespace);
        let identity = Identity::of(&self.config.auth_info);
        let acts_as = self.config.auth_info.impersonate;
        let remedy = match self.is_pod {
            true => format!("check {} and its NetworkPolicies", self.source_name),
            false => format!("start the cluster or check {}", self.source_name),
        };
        let unreachable = |error| ClusterError::Unreachable { server, error, remedy };
        let version = match tokio::time::timeout(PATIENCE, client.apiserver_version()).await {
            Ok(Ok(version)) => version.git_version,
            Ok(Err(error)) => return Err(unreachable(sentence(&error))),
            Err(_) => return Err(unreachable(format!("no answer within {} s", PATIENCE.as_secs()))),
        };
        Ok(Cluster { client, namespace, version, acts_as, identity })
    }
}

fn with_agent(mut config: Config, suffix: &str) -> Config {
    config.headers.extend("user-agent".parse().ok().zip(format!("{USER_AGENT}{suffix}").parse().ok()));
    config
}

/// The client of who works alone.
fn counted(config: Config) -> kube::Result<Client> {
    stack(config, connector(), None)
}

/// The client of one of several, with the guard in it, above the connections and on them.
fn guarded(config: Config, guard: &Guard, margin: Duration) -> kube::Result<Client> {
    let mut connector = connector();
    // The kernel goes on sending what it was given, also for a process that ended.
    connector.set_tcp_user_timeout(Some(margin));
    stack(config, GuardedConnector::new(connector, guard.clone()), Some(guard))
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector
}

/// kube's own stack, with each try counted. kube has no place for that below its retries, nor for the guard.
fn stack<C>(config: Config, connector: C, guard: Option<&Guard>) -> kube::Result<Client>
where
    C: tower::Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Read + Write + Connection + Unpin + Send + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    // kube refuses what this build cannot do, a proxy for example.
    Client::try_from(config.clone())?;
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(connector)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let connections: legacy::Client<_, Body> = legacy::Client::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.default_retry.then(|| RetryLayer::new(Willing::default())))
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .layer(Counted { host: host(&config).into() })
        .option_layer(guard.cloned())
        .map_err(BoxError::from)
        .service(connections);
    Ok(Client::new(service, config.default_namespace))
}

/// The API server with its port, as metrics name it.
fn host(config: &Config) -> String {
    config.cluster_url.authority().map(ToString::to_string).unwrap_or_default()
}

/// kube's own inference hides a broken kubeconfig behind "not in a cluster"; whoever has one wants to know.
async fn configuration(access: &Access) -> Result<Found, ClusterError> {
    let given = access.kubeconfig.as_ref().map(|file| file.display().to_string());
    if let Some(file) = given.or_else(kubeconfig) {
        let options = KubeConfigOptions { context: access.context.clone(), ..KubeConfigOptions::default() };
        let config = match access.kubeconfig.as_ref().map(Kubeconfig::read_from) {
            None => Config::from_kubeconfig(&options).await,
            Some(Ok(read)) => Config::from_custom_kubeconfig(read, &options).await,
            Some(Err(error)) => Err(error),
        };
        let config = config.map_err(|error| ClusterError::Kubeconfig { file: file.clone(), error })?;
        return Ok(Found { config, source_name: format!("the kubeconfig {file}"), is_pod: false });
    }
    let config = Config::incluster().map_err(ClusterError::None)?;
    Ok(Found { config, source_name: "the pod's network".to_owned(), is_pod: true })
}

/// The kubeconfig that would be read, if there is one.
fn kubeconfig() -> Option<String> {
    if let Some(files) = std::env::var("KUBECONFIG").ok().filter(|files| !files.is_empty()) {
        return Some(files);
    }
    let file = PathBuf::from(std::env::var_os("HOME")?).join(".kube/config");
    file.exists().then(|| file.display().to_string())
}
