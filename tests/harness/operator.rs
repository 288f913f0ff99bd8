//! The operator as a process.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{Project, gate, proxy, trouble, until_within};

/// A running operator. It ends with the test; when the test fails, its log is printed.
pub struct Operator {
    process: Child,
    log: tempfile::NamedTempFile,
}

/// How an operator is started.
pub struct Launch<'a> {
    pub(super) project: &'a Project,
    pub(super) helm: PathBuf,
    pub(super) args: Vec<String>,
    /// Nothing but these arguments and this environment.
    pub(super) is_pod: bool,
    pub(super) groups: Vec<&'static str>,
    pub(super) env: Vec<(String, String)>,
    /// Another way to the API server.
    pub(super) server: Option<String>,
    /// Proves who it is by itself, in place of being named by the administrator.
    pub(super) token: Option<String>,
    /// Which of several it is.
    pub(super) replica: Option<String>,
    pub(super) binary: OsString,
}

impl Launch<'_> {
    pub fn helm(self, helm: PathBuf) -> Self {
        Launch { helm, ..self }
    }

    pub fn args(self, args: &[&str]) -> Self {
        Launch { args: args.iter().map(|arg| (*arg).to_owned()).collect(), ..self }
    }

    /// As a pod of an image is started: with its ENTRYPOINT, the arguments of a manifest, and no other. What a pod reads of its
    /// namespace in a file, a variable says.
    pub fn in_pod(self, args: &[&str]) -> Self {
        Launch { is_pod: true, ..self.args(args) }
    }

    /// In a container of the pod with this UID, with the variables that the manifests and the kubelet set. Its directory for
    /// temporary files outlives the container, as the pod's volume does.
    pub fn in_container(self, uid: &str) -> Self {
        let volume = self.project.volume(uid).display().to_string();
        self.env("KUBERNETES_SERVICE_HOST", "10.96.0.1").env("POD_UID", uid).env("TMPDIR", &volume)
    }

    /// Without an administrator's rights: it may do what the project's user is given.
    pub fn limited(self) -> Self {
        Launch { groups: vec!["system:authenticated"], ..self }
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// One of several. It is a user of its own, and a pod of this name.
    pub fn replica(self, name: &str) -> Self {
        Launch { replica: Some(name.to_owned()), ..self }
    }

    /// Another build of the operator.
    pub fn binary(self, binary: OsString) -> Self {
        Launch { binary, ..self }
    }

    /// Reaches the API server by a connection that can be broken.
    pub fn through(self, proxy: &proxy::Proxy) -> Self {
        Launch { server: Some(format!("https://{}", proxy.address)), ..self }
    }

    /// Reaches the API server by a gate that can kill it.
    pub fn before(self, gate: &gate::Gate) -> Self {
        Launch { server: Some(format!("http://{}", gate.address)), ..self }
    }

    /// With a token of its own: only such an operator can act as somebody else.
    pub fn token(self, token: String) -> Self {
        Launch { token: Some(token), ..self }
    }

    /// Reaches the API server by a gate that makes trouble.
    pub fn behind(self, gate: &trouble::Troubled) -> Self {
        Launch { server: Some(format!("http://{}", gate.address)), ..self }
    }

    pub fn start(self) -> Operator {
        let log = tempfile::NamedTempFile::new().expect("a file");
        let file = log.reopen().expect("a file");
        // Guarded: it must not outlive a killed test runner.
        let mut command = lab::guard::command(&self.binary).expect("the lab program");
        // Many operators run side by side here: each has its ports only where a test asks for them.
        let given = match self.is_pod {
            true => &["run", "--watches-file=./watches.yaml"][..],
            false => &["run", "--metrics-bind-address=0", "--health-probe-bind-address=0"],
        };
        command.args(given).args(&self.args).env_clear();
        // In a pod a file says it.
        command.env("POD_NAMESPACE", &self.project.namespace);
        let process = command
            .env("KUBECONFIG", self.kubeconfig())
            .env("CHARTWRIGHT_HELM", &self.helm)
            .envs(self.replica.iter().map(|name| ("POD_NAME", name)))
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(self.project.dir())
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a file"))
            .stderr(file)
            .spawn()
            .expect("the operator starts");
        Operator { process, log }
    }

    /// The administrator's, under the name of the project's user, so that the audit log tells operators apart.
    fn kubeconfig(&self) -> PathBuf {
        let text = std::fs::read_to_string(self.project.plane().kubeconfig()).expect("a kubeconfig");
        let mut config: Value = serde_json::from_str(&text).expect("the lab writes JSON");
        let user = &mut config["users"][0]["user"];
        let (name, file) = match &self.replica {
            Some(replica) => (self.project.replica_user(replica), format!("kubeconfig-{replica}")),
            None => (self.project.user(), "kubeconfig".to_owned()),
        };
        match &self.token {
            Some(token) => *user = json!({"token": token}),
            None => (user["as"], user["as-groups"]) = (name.into(), json!(self.groups)),
        }
        if let Some(server) = &self.server {
            config["clusters"][0]["cluster"]["server"] = server.as_str().into();
        }
        let path = self.project.dir().join(file);
        std::fs::write(&path, config.to_string()).expect("a file");
        path
    }
}

/// CHARTWRIGHT_BINARY names another build, to see that a test fails on code without the fix it covers.
pub(super) fn binary() -> OsString {
    std::env::var_os("CHARTWRIGHT_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_chartwright").into())
}

impl Operator {
    /// Asks it to end, as Kubernetes does.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub fn signal(&self, signal: Signal) {
        let process = Pid::from_raw(self.process.id().cast_signed()).expect("a process");
        kill_process(process, signal).expect("it still runs");
    }

    /// Whether it has not ended.
    pub fn runs(&mut self) -> bool {
        self.process.try_wait().expect("the operator can be waited for").is_none()
    }

    /// Its exit code, once it has ended by itself.
    pub async fn exit_code(&mut self, patience: Duration) -> Option<i32> {
        let ended = until_within(patience, "the operator ends", async || {
            self.process.try_wait().expect("the operator can be waited for")
        });
        ended.await.code()
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap_or_default()
    }
}

/// The processes that another one started.
fn children_of(parent: u32) -> Vec<rustix::process::Pid> {
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let ids = processes.filter_map(|process| process.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |id: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        // The name, in brackets, may hold anything.
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        fields.nth(1) == Some(&parent.to_string())
    };
    ids.filter(is_child).filter_map(rustix::process::Pid::from_raw).collect()
}

impl Drop for Operator {
    fn drop(&mut self) {
        let helms = children_of(self.process.id());
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
        // Nobody is left to end a helm that hangs. Each leads a group of its own.
        for helm in helms {
            let _ = rustix::process::kill_process_group(helm, rustix::process::Signal::KILL);
        }
        if std::thread::panicking() {
            eprintln!("the operator's log:\n{}", self.log());
        }
    }
}
