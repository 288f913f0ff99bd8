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

use crate::error::{innermost, is_away, sentence};
use crate::leader::guard::{Guard, GuardedConnector};
use crate::protected::own::Identity;
use again::Willing;
use counted::Counted;

pub const USER_AGENT: &str = concat!("chartwright/", env!("CARGO_PKG_VERSION"));

const PATIENCE: Duration = Duration::from_secs(10);

/// For a connection from a pod. Where packets are lost, the kernel repeats the first one after 1, 3, 7, 15 and 31 seconds. A new
/// connection notices the end of an outage earlier.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error("cannot use the kubeconfig {file}: {}; correct the file or set KUBECONFIG to another", innermost(error))]
    Kubeconfig { file: String, error: KubeconfigError },
    #[error("no cluster: there is no kubeconfig, and this is not a pod ({}); set KUBECONFIG", innermost(.0))]
    None(InClusterError),
    #[error("cannot connect to {server}: {error}; check {source_name}")]
    Connect { server: String, error: String, source_name: String },
    #[error("cannot reach the API server at {server}: {error}; {remedy}")]
    Unreachable { server: String, error: String, remedy: String, is_away: bool },
    #[error("the API server at {server} refuses this program: {error}; check {credentials}")]
    Refused { server: String, error: String, credentials: String },
}

impl ClusterError {
    /// Whether trying again may help, without anybody's doing.
    pub fn is_away(&self) -> bool {
        matches!(self, ClusterError::Unreachable { is_away: true, .. })
    }
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

/// Connects by this kubeconfig and this context of it, and makes sure that the API server answers.
pub async fn connect_by(access: &Access) -> Result<Cluster, ClusterError> {
    configuration(access).await?.connect().await
}

/// Whether this is a container of a pod. The kubelet sets the variable in each, and kube looks for it too.
pub fn is_pod() -> bool {
    std::env::var_os("KUBERNETES_SERVICE_HOST").is_some_and(|host| !host.is_empty())
}

/// A configuration, and where it is from.
pub struct Found {
    config: Config,
    /// None is the pod's ServiceAccount.
    kubeconfig: Option<String>,
}

impl Found {
    /// Which pod and which ServiceAccount this program is, as far as its token says so.
    pub fn identity(&self) -> Identity {
        Identity::of(&self.config.auth_info)
    }

    /// Connects, and makes sure that the API server answers.
    pub async fn connect(self) -> Result<Cluster, ClusterError> {
        let client = again::patient(self.build(|config| counted(with_agent(config, "")))?);
        self.reach(client).await
    }

    /// The same, for an operator that works only while it holds a Lease.
    ///
    /// # Arguments
    /// `margin`: how long before others may write this one stops. What was sent until then and has not arrived by the end of it never does.
    pub async fn connect_shared(self, guard: &Guard, margin: Duration) -> Result<Shared, ClusterError> {
        let election = self.build(|config| counted(with_agent(config, "/leader-election")))?;
        let client = again::patient(self.build(|config| guarded(with_agent(config, ""), guard, margin))?);
        Ok(Shared { cluster: self.reach(client).await?, election })
    }

    fn build(&self, client: impl FnOnce(Config) -> kube::Result<Client>) -> Result<Client, ClusterError> {
        client(self.config.clone()).map_err(|error| ClusterError::Connect {
            server: self.config.cluster_url.to_string(),
            error: sentence(&error),
            source_name: self.source_name(),
        })
    }

    async fn reach(self, client: Client) -> Result<Cluster, ClusterError> {
        let version = match tokio::time::timeout(PATIENCE, client.apiserver_version()).await {
            Ok(Ok(version)) => version.git_version,
            Ok(Err(error)) => return Err(self.failed(&error)),
            Err(_) => return Err(self.unreachable(format!("no answer within {} s", PATIENCE.as_secs()), true)),
        };
        let identity = self.identity();
        let Config { default_namespace: namespace, auth_info, .. } = self.config;
        Ok(Cluster { client, namespace, version, acts_as: auth_info.impersonate, identity })
    }

    fn failed(&self, error: &kube::Error) -> ClusterError {
        match error {
            kube::Error::Api(status) if matches!(status.code, 401 | 403) => ClusterError::Refused {
                server: self.config.cluster_url.to_string(),
                error: sentence(error),
                credentials: self.kubeconfig.as_ref().map_or_else(
                    || "the pod's ServiceAccount and its token".to_owned(),
                    |_| format!("the user of {}", self.source_name()),
                ),
            },
            error => self.unreachable(sentence(error), is_away(error)),
        }
    }

    fn unreachable(&self, error: String, is_away: bool) -> ClusterError {
        let remedy = match (is_pod(), &self.kubeconfig) {
            (true, None) => {
                "if it is up, check what is between it and this pod: NetworkPolicies, and kube-proxy on the pod's node"
                    .to_owned()
            }
            (true, Some(_)) => format!(
                "if it is up, check {}, and what is between it and this pod, as NetworkPolicies",
                self.source_name()
            ),
            (false, _) => format!("start the cluster or check {}", self.source_name()),
        };
        ClusterError::Unreachable { server: self.config.cluster_url.to_string(), error, remedy, is_away }
    }

    fn source_name(&self) -> String {
        self.kubeconfig.as_ref().map_or_else(|| "the pod's network".to_owned(), |file| format!("the kubeconfig {file}"))
    }
}

fn with_agent(mut config: Config, suffix: &str) -> Config {
    if is_pod() {
        config.connect_timeout = Some(CONNECT_PATIENCE);
    }
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

/// What KUBECONFIG, ~/.kube/config or the pod's ServiceAccount says.
///
/// kube's own inference hides a broken kubeconfig behind "not in a cluster"; whoever has one wants to know.
pub async fn configuration(access: &Access) -> Result<Found, ClusterError> {
    let given = access.kubeconfig.as_ref().map(|file| file.display().to_string());
    if let Some(file) = given.or_else(kubeconfig) {
        let options = KubeConfigOptions { context: access.context.clone(), ..KubeConfigOptions::default() };
        let config = match access.kubeconfig.as_ref().map(Kubeconfig::read_from) {
            None => Config::from_kubeconfig(&options).await,
            Some(Ok(read)) => Config::from_custom_kubeconfig(read, &options).await,
            Some(Err(error)) => Err(error),
        };
        let config = config.map_err(|error| ClusterError::Kubeconfig { file: file.clone(), error })?;
        return Ok(Found { config, kubeconfig: Some(file) });
    }
    let config = Config::incluster().map_err(ClusterError::None)?;
    Ok(Found { config, kubeconfig: None })
}

/// The kubeconfig that would be read, if there is one.
fn kubeconfig() -> Option<String> {
    if let Some(files) = std::env::var("KUBECONFIG").ok().filter(|files| !files.is_empty()) {
        return Some(files);
    }
    let file = PathBuf::from(std::env::var_os("HOME")?).join(".kube/config");
    file.exists().then(|| file.display().to_string())
}
