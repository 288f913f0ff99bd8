//! An operator that runs on the node.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::cluster::{Cluster, kubectl, run};

pub struct Operator {
    /// The prefix of its namespace and of its objects.
    pub name: &'static str,
    pub cluster: Cluster,
}

impl Operator {
    pub fn namespace(&self) -> String {
        format!("{}-system", self.name)
    }

    pub fn deployment(&self) -> String {
        format!("{}-controller-manager", self.name)
    }

    /// Its name as the API server knows it.
    pub fn account(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace(), self.deployment())
    }

    pub fn pods(&self) -> Result<Vec<Value>> {
        let pods =
            format!("/api/v1/namespaces/{}/pods?labelSelector=control-plane%3Dcontroller-manager", self.namespace());
        let pods = self.cluster.list(&pods)?;
        Ok(pods.into_iter().filter(|pod| pod["metadata"].get("deletionTimestamp").is_none()).collect())
    }

    /// Its only pod.
    pub fn pod(&self) -> Result<Value> {
        let mut pods = self.pods()?;
        ensure!(pods.len() == 1, "{} pods", pods.len());
        pods.pop().context("no pod")
    }

    /// Fails unless so many pods are there, all of them ready.
    pub fn ready(&self, replicas: usize) -> Result<()> {
        let pods = self.pods()?;
        let ready = pods.iter().filter(|pod| pod["status"]["containerStatuses"][0]["ready"] == true).count();
        ensure!(
            ready == replicas && pods.len() == replicas,
            "{ready} of {} pods are ready: {}",
            pods.len(),
            told(&pods)
        );
        Ok(())
    }

    pub fn scale(&self, replicas: usize) -> Result<()> {
        let replicas = format!("--replicas={replicas}");
        kubectl(&["-n", &self.namespace(), "scale", &format!("deployment/{}", self.deployment()), &replicas])
            .map(|_| ())
    }

    /// Who holds its Lease.
    pub fn holder(&self) -> Result<String> {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}", self.namespace(), self.name);
        let lease = self.cluster.get(&path)?;
        let holder = lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty());
        Ok(holder.context("nobody holds the Lease")?.to_owned())
    }

    /// The pod that holds its Lease.
    pub fn leader(&self) -> Result<Value> {
        let holder = self.holder()?;
        let leads = |pod: &Value| pod["metadata"]["name"].as_str().is_some_and(|name| holder.starts_with(name));
        self.pods()?.into_iter().find(leads).with_context(|| format!("no pod is {holder}, which holds the Lease"))
    }
}

/// The container of a pod, as the runtime knows it.
pub fn container(pod: &Value) -> Result<&str> {
    let id = pod["status"]["containerStatuses"][0]["containerID"].as_str().context("no container runs")?;
    id.strip_prefix("containerd://").with_context(|| format!("{id} is not containerd's"))
}

pub fn restarts(pod: &Value) -> u64 {
    pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap_or_default()
}

/// SIGKILL, as the kernel sends it to a process that used too much memory.
pub fn kill(pod: &Value) -> Result<()> {
    run("ctr", &["--namespace", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", container(pod)?]).map(|_| ())
}

fn told(pods: &[Value]) -> String {
    let states = pods.iter().map(|pod| pod["status"]["containerStatuses"][0]["state"].to_string());
    states.collect::<Vec<_>>().join(", ")
}
