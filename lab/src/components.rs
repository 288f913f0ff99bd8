//! The programs of the control plane and their arguments. Loopback only, RBAC on, the default admission plugins plus
//! OwnerReferencesPermissionEnforcement, as OpenShift has it.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::tools_dir;

/// Where everything of one control plane is.
pub struct Layout {
    pub dir: PathBuf,
    pub etcd: u16,
    pub etcd_peer: u16,
    pub api: u16,
    pub kubelet: u16,
    /// Where the API server is reached.
    pub address: &'static str,
}

impl Layout {
    /// Finds free ports. They are all held before the first is let go, so that they differ.
    pub fn new(dir: &Path) -> Result<Self> {
        let held: Vec<TcpListener> =
            (0..4).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>().context("no free port")?;
        let port = |i: usize| held[i].local_addr().map(|address| address.port());
        let address = "127.0.0.1";
        Ok(Layout {
            dir: dir.to_owned(),
            etcd: port(0)?,
            etcd_peer: port(1)?,
            api: port(2)?,
            kubelet: port(3)?,
            address,
        })
    }

    pub fn server(&self) -> String {
        format!("https://{}:{}", self.address, self.api)
    }

    pub fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }
}

/// A program of the control plane, by the name of its binary.
pub struct Component {
    pub name: &'static str,
    pub args: Vec<String>,
}

impl Component {
    /// Where its binary is: among the tools, or, as a program of the distribution, in /usr/bin.
    pub fn binary(&self) -> PathBuf {
        let tool = tools_dir().join(self.name);
        let installed = Path::new("/usr/bin").join(self.name);
        if !tool.exists() && installed.exists() { installed } else { tool }
    }

    /// The same program with another value for a flag.
    #[must_use]
    pub fn with(mut self, flag: &str, value: impl std::fmt::Display) -> Self {
        self.args.retain(|arg| arg.split('=').next() != Some(flag));
        self.args.push(format!("{flag}={value}"));
        self
    }
}

pub fn etcd(at: &Layout) -> Component {
    let client = format!("http://127.0.0.1:{}", at.etcd);
    let peer = format!("http://127.0.0.1:{}", at.etcd_peer);
    let args = vec![
        format!("--data-dir={}", at.path("etcd")),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        // The data is thrown away; waiting for the disk would only slow the tests down.
        "--unsafe-no-fsync".into(),
        "--log-level=warn".into(),
    ];
    Component { name: "etcd", args }
}

pub fn api_server(at: &Layout) -> Component {
    let args = vec![
        format!("--etcd-servers=http://127.0.0.1:{}", at.etcd),
        "--bind-address=127.0.0.1".into(),
        "--advertise-address=127.0.0.1".into(),
        // Endpoints may not be loopback addresses, and nothing here dials the `kubernetes` Service.
        "--endpoint-reconciler-type=none".into(),
        format!("--secure-port={}", at.api),
        format!("--tls-cert-file={}", at.path("server.crt")),
        format!("--tls-private-key-file={}", at.path("server.key")),
        format!("--client-ca-file={}", at.path("ca.crt")),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        format!("--service-account-signing-key-file={}", at.path("service-account.key")),
        format!("--service-account-key-file={}", at.path("service-account.pub")),
        "--service-cluster-ip-range=10.96.0.0/12".into(),
        "--authorization-mode=RBAC".into(),
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement".into(),
        "--allow-privileged=true".into(),
        "--kubelet-preferred-address-types=InternalIP".into(),
        format!("--audit-policy-file={}", at.path("audit.yaml")),
        format!("--audit-log-path={}", at.path("audit.log")),
        // A test that counts calls must find them in the file as soon as they were answered.
        "--audit-log-mode=blocking".into(),
        // In megabytes. The file stays one file, so that whoever follows it misses nothing.
        "--audit-log-maxsize=1000000".into(),
        "--profiling=false".into(),
    ];
    Component { name: "kube-apiserver", args }
}

pub fn controller_manager(at: &Layout) -> Component {
    let args = vec![
        format!("--kubeconfig={}", at.path("controller-manager.kubeconfig")),
        format!("--service-account-private-key-file={}", at.path("service-account.key")),
        format!("--root-ca-file={}", at.path("ca.crt")),
        "--use-service-account-credentials=true".into(),
        "--leader-elect=false".into(),
        "--secure-port=0".into(),
        "--kube-api-qps=500".into(),
        "--kube-api-burst=1000".into(),
        "--horizontal-pod-autoscaler-sync-period=1s".into(),
        "--profiling=false".into(),
    ];
    Component { name: "kube-controller-manager", args }
}

pub fn scheduler(at: &Layout) -> Component {
    let args = vec![
        format!("--kubeconfig={}", at.path("scheduler.kubeconfig")),
        "--leader-elect=false".into(),
        "--secure-port=0".into(),
        "--kube-api-qps=500".into(),
        "--kube-api-burst=1000".into(),
        "--profiling=false".into(),
    ];
    Component { name: "kube-scheduler", args }
}

pub fn kwok(at: &Layout) -> Component {
    let args = vec![
        format!("--kubeconfig={}", at.path("kubeconfig")),
        format!("--config={}", at.path("kwok.yaml")),
        "--manage-all-nodes=true".into(),
        "--cidr=10.0.0.1/16".into(),
        "--node-ip=127.0.0.1".into(),
        format!("--node-port={}", at.kubelet),
        format!("--server-address=127.0.0.1:{}", at.kubelet),
        format!("--tls-cert-file={}", at.path("server.crt")),
        format!("--tls-private-key-file={}", at.path("server.key")),
    ];
    Component { name: "kwok", args }
}

#[cfg(test)]
mod tests {
    use super::Component;

    #[test]
    fn a_flag_has_one_value() {
        let program = Component { name: "p", args: vec!["--a=1".into(), "--ab=2".into()] };
        assert_eq!(program.with("--a", 3).with("--c", "x=y").args, ["--ab=2", "--a=3", "--c=x=y"]);
    }
}
