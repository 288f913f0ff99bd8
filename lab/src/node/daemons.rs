//! The programs of the node: the control plane of the lab, bound to the node's address, and what runs containers.

use std::env;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::ADDRESS;
use super::cluster::Cluster;
use crate::components::{self, Component, Layout};
use crate::programs::Programs;
use crate::{checkout, pki};

/// The port of `kubectl proxy`. Nothing else listens in a network of our own.
const PROXY: u16 = 8001;

pub struct Node {
    pub programs: Programs,
    pub cluster: Cluster,
    /// How long the API server took to be ready.
    pub api_started: Duration,
    /// How long all took until the node was Ready.
    pub started: Duration,
    audit_log: PathBuf,
}

impl Node {
    pub fn start() -> Result<Self> {
        let dir =
            PathBuf::from(env::var_os("NODE_DIR").context("run lab/node/proof.sh: it sets NODE_DIR")?).join("lab");
        let logs = logs();
        std::fs::create_dir_all(&dir)?;
        let at = Layout { address: ADDRESS, ..Layout::new(&dir)? };
        write_files(&at)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let begun = Instant::now();
        let mut programs = Programs::new(&dir, &logs);
        let api_started = runtime.block_on(start(&mut programs, &at))?;
        let proxy = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PROXY);
        let (cluster, audit_log) = (Cluster { proxy }, dir.join("audit.log"));
        Ok(Node { programs, cluster, api_started, started: begun.elapsed(), audit_log })
    }

    /// What the API server refused a ServiceAccount.
    pub fn refused(&self, account: &str) -> Result<Vec<String>> {
        let log = std::fs::read_to_string(&self.audit_log)?;
        let calls = log.lines().filter(|line| line.contains(account) && line.contains(r#""code":403"#));
        let calls = calls.map(serde_json::from_str::<serde_json::Value>).collect::<Result<Vec<_>, _>>()?;
        let is_meant =
            |call: &serde_json::Value| call["user"]["username"] == account && call["responseStatus"]["code"] == 403;
        let told = |call: &serde_json::Value| format!("{} {}", call["verb"], call["requestURI"]);
        Ok(calls.iter().filter(|call| is_meant(call)).map(told).collect())
    }
}

/// Where the programs write their logs. They stay until the next run.
pub fn logs() -> PathBuf {
    checkout().join("target/node/log")
}

async fn start(programs: &mut Programs, at: &Layout) -> Result<Duration> {
    let begun = Instant::now();
    programs.start(components::etcd(at))?;
    programs.start(api_server(at))?;
    programs.until("the API server to be ready", "kube-apiserver", &["get", "--raw=/readyz"]).await?;
    let api_started = begun.elapsed();
    programs.start(components::controller_manager(at))?;
    programs.start(components::scheduler(at))?;
    programs.start(containerd(at))?;
    programs.start(kubelet(at))?;
    programs.start(kube_proxy(at))?;
    programs.start(proxy(at))?;
    let wait = ["wait", "--for=condition=Ready", "node/node1", "--timeout=1s"];
    programs.until("the node to be ready", "kubelet", &wait).await?;
    Ok(api_started)
}

fn write_files(at: &Layout) -> Result<()> {
    let ca = pki::write_files(at)?;
    let (certificate, key) = ca.client("kube-apiserver", Some("system:masters"))?;
    let cgroup = env::var("NODE_CGROUP").context("run lab/node/proof.sh: it sets NODE_CGROUP")?;
    let placed = |text: &str| text.replace("LAB_DIR", &at.dir.display().to_string()).replace("NODE_CGROUP", &cgroup);
    let files = [
        ("kubelet-client.crt", certificate),
        ("kubelet-client.key", key),
        ("audit.yaml", include_str!("../audit.yaml").to_owned()),
        ("containerd.toml", include_str!("../../node/containerd.toml").to_owned()),
        ("kubelet.yaml", placed(include_str!("../../node/kubelet.yaml"))),
        ("kube-proxy.yaml", placed(include_str!("../../node/kube-proxy.yaml"))),
    ];
    for (name, text) in files {
        pki::write_private(&at.dir.join(name), &text)?;
    }
    let users = [("kubelet", "system:node:node1", Some("system:nodes")), ("kube-proxy", "system:kube-proxy", None)];
    for (name, user, group) in users {
        ca.write_kubeconfig(&at.dir.join(format!("{name}.kubeconfig")), &at.server(), user, group)?;
    }
    Ok(())
}

fn api_server(at: &Layout) -> Component {
    components::api_server(at)
        .with("--bind-address", ADDRESS)
        .with("--advertise-address", ADDRESS)
        // Pods reach it by the `kubernetes` Service.
        .with("--endpoint-reconciler-type", "lease")
        .with("--authorization-mode", "Node,RBAC")
        .with("--enable-admission-plugins", "NodeRestriction,OwnerReferencesPermissionEnforcement")
        .with("--kubelet-client-certificate", at.path("kubelet-client.crt"))
        .with("--kubelet-client-key", at.path("kubelet-client.key"))
}

fn containerd(at: &Layout) -> Component {
    Component { name: "containerd", args: vec![format!("--config={}", at.path("containerd.toml"))] }
}

fn kubelet(at: &Layout) -> Component {
    let args = vec![
        format!("--config={}", at.path("kubelet.yaml")),
        format!("--kubeconfig={}", at.path("kubelet.kubeconfig")),
        "--hostname-override=node1".into(),
        format!("--node-ip={ADDRESS}"),
    ];
    Component { name: "kubelet", args }
}

fn kube_proxy(at: &Layout) -> Component {
    Component { name: "kube-proxy", args: vec![format!("--config={}", at.path("kube-proxy.yaml"))] }
}

fn proxy(at: &Layout) -> Component {
    let args = vec![format!("--kubeconfig={}", at.path("kubeconfig")), "proxy".into(), format!("--port={PROXY}")];
    Component { name: "kubectl", args }
}
