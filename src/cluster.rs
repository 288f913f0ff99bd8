//! The connection to the API server, with errors that name the file and the remedy.

use std::path::PathBuf;
use std::time::Duration;

use kube::Client;
use kube::config::{Config, InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::error::{innermost, sentence};

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
    #[error("cannot reach the API server at {server}: {error}; start the cluster or check {source_name}")]
    Unreachable { server: String, error: String, source_name: String },
}

/// A client, and the namespace that its configuration names.
pub struct Cluster {
    pub client: Client,
    pub namespace: String,
    pub version: String,
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

/// The same, by this kubeconfig and this context of it.
pub async fn connect_by(access: &Access) -> Result<Cluster, ClusterError> {
    let (mut config, source_name) = configuration(access).await?;
    config.headers.extend("user-agent".parse().ok().zip(USER_AGENT.parse().ok()));
    let server = config.cluster_url.to_string();
    let namespace = config.default_namespace.clone();
    let client = Client::try_from(config).map_err(|error| ClusterError::Connect {
        server: server.clone(),
        error: sentence(&error),
        source_name: source_name.clone(),
    })?;
    let unreachable = |error| ClusterError::Unreachable { server, error, source_name };
    let version = match tokio::time::timeout(PATIENCE, client.apiserver_version()).await {
        Ok(Ok(version)) => version.git_version,
        Ok(Err(error)) => return Err(unreachable(sentence(&error))),
        Err(_) => return Err(unreachable(format!("no answer within {} s", PATIENCE.as_secs()))),
    };
    Ok(Cluster { client, namespace, version })
}

/// kube's own inference hides a broken kubeconfig behind "not in a cluster"; whoever has one wants to know.
async fn configuration(access: &Access) -> Result<(Config, String), ClusterError> {
    let given = access.kubeconfig.as_ref().map(|file| file.display().to_string());
    if let Some(file) = given.or_else(kubeconfig) {
        let options = KubeConfigOptions { context: access.context.clone(), ..KubeConfigOptions::default() };
        let config = match access.kubeconfig.as_ref().map(Kubeconfig::read_from) {
            None => Config::from_kubeconfig(&options).await,
            Some(Ok(read)) => Config::from_custom_kubeconfig(read, &options).await,
            Some(Err(error)) => Err(error),
        };
        let config = config.map_err(|error| ClusterError::Kubeconfig { file: file.clone(), error })?;
        return Ok((config, format!("the kubeconfig {file}")));
    }
    let config = Config::incluster().map_err(ClusterError::None)?;
    Ok((config, "the pod's network".to_owned()))
}

/// The kubeconfig that would be read, if there is one.
fn kubeconfig() -> Option<String> {
    if let Some(files) = std::env::var("KUBECONFIG").ok().filter(|files| !files.is_empty()) {
        return Some(files);
    }
    let file = PathBuf::from(std::env::var_os("HOME")?).join(".kube/config");
    file.exists().then(|| file.display().to_string())
}
