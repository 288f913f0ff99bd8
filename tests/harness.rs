//! What a test needs: a namespace, a kind and a project of its own on the shared control plane.
//!
//! ```ignore
//! let project = Project::new("App").await;
//! project.template("config.yaml", "apiVersion: v1 …");
//! let operator = project.run();
//! project.apply("web", json!({"colour": "blue"})).await;
//! project.until("the ConfigMap is there", async || …).await;
//! ```

pub mod life;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, Config};
use lab::ControlPlane;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);

/// The control plane that all tests of this run share. It ends with this process.
pub fn control_plane() -> &'static ControlPlane {
    static SHARED: OnceLock<ControlPlane> = OnceLock::new();
    SHARED.get_or_init(|| {
        lab::owner::exit_with_it();
        ControlPlane::start().expect("a control plane")
    })
}

/// A client for the administrator of the shared control plane. Each test has its own: a client belongs to a runtime.
pub async fn client() -> Client {
    let kubeconfig = kube::config::Kubeconfig::read_from(control_plane().kubeconfig()).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.expect("a configuration");
    Client::try_from(config).expect("a client")
}

/// Polls until there is an answer; fails with `what` after half a minute.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?}, but it did not happen: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub fn tool(name: &str) -> PathBuf {
    lab::tools_dir().join(name)
}

/// The operator's program, without a cluster or a helm unless the test gives them.
pub fn chartwright() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chartwright"));
    command.env_clear().stdin(Stdio::null());
    command
}

/// An operator project with one kind, in a namespace and an API group of its own.
pub struct Project {
    pub client: Client,
    pub namespace: String,
    pub resource: ApiResource,
    scope: Scope,
    dir: tempfile::TempDir,
}

/// Of the custom resources.
#[derive(Clone, Copy, PartialEq)]
enum Scope {
    Namespaced,
    Cluster,
}

impl Project {
    /// A project whose chart `app` has no templates yet.
    pub async fn new(kind: &str) -> Self {
        Self::scoped(kind, Scope::Namespaced).await
    }

    /// A project whose chart is a copy of a directory of this repository.
    pub async fn with_chart(kind: &str, chart: &str) -> Self {
        let project = Self::new(kind).await;
        project.copy_chart(chart);
        project
    }

    /// The same for a kind without namespaces. Its releases live in the operator's namespace, which is the project's.
    pub async fn cluster_scoped(kind: &str, chart: &str) -> Self {
        let project = Self::scoped(kind, Scope::Cluster).await;
        project.copy_chart(chart);
        project
    }

    async fn scoped(kind: &str, scope: Scope) -> Self {
        let client = client().await;
        let id = unique();
        let namespace = format!("test-{id}");
        create_namespace(&client, &namespace).await;
        let gvk = GroupVersionKind::gvk(&format!("{id}.test.chartwright.dev"), "v1", kind);
        let resource = ApiResource::from_gvk(&gvk);
        install_crd(&client, &resource, scope).await;
        let project = Project { client, namespace, resource, scope, dir: tempfile::tempdir().expect("a directory") };
        project.file("charts/app/Chart.yaml", "apiVersion: v2\nname: app\nversion: 0.1.0\n");
        let watch = format!("- {{group: {}, version: v1, kind: {kind}, chart: charts/app}}\n", gvk.group);
        project.file("watches.yaml", &watch);
        project
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn file(&self, path: &str, text: &str) {
        let path = self.dir().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, text).expect("a file");
    }

    pub fn template(&self, name: &str, text: &str) {
        self.file(&format!("charts/app/templates/{name}"), text);
    }

    /// Starts the operator, with helm 4.
    pub fn run(&self) -> Operator {
        self.run_with("helm4")
    }

    pub fn run_with(&self, helm: &str) -> Operator {
        Operator::start_in(&self.namespace, self.dir(), helm)
    }

    pub fn crs(&self) -> Api<DynamicObject> {
        match self.scope {
            Scope::Namespaced => Api::namespaced_with(self.client.clone(), &self.namespace, &self.resource),
            Scope::Cluster => Api::all_with(self.client.clone(), &self.resource),
        }
    }

    fn copy_chart(&self, chart: &str) {
        let (from, to) = (lab::checkout().join(chart), self.dir().join("charts/app"));
        std::fs::remove_dir_all(&to).expect("a chart to replace");
        copy_dir(&from, &to);
    }

    /// What a helm program prints when it works in the project's namespace. It must succeed.
    pub fn helm(&self, program: &str, arguments: &[&str]) -> String {
        self.helm_in(program, &self.namespace, arguments)
    }

    /// The same in another namespace.
    pub fn helm_in(&self, program: &str, namespace: &str, arguments: &[&str]) -> String {
        let output = Command::new(tool(program))
            .args(arguments)
            .args(["--namespace", namespace])
            .env_clear()
            .env("KUBECONFIG", control_plane().kubeconfig())
            .env("HOME", self.dir())
            .current_dir(self.dir())
            .stdin(Stdio::null())
            .output()
            .expect("helm runs");
        let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{program} {arguments:?}: {said}{errors}");
        said.into_owned()
    }

    /// Makes or edits a custom resource.
    pub async fn apply(&self, name: &str, spec: Value) -> DynamicObject {
        let cr = json!({
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "metadata": {"name": name},
            "spec": spec,
        });
        let params = PatchParams::apply("test").force();
        self.crs().patch(name, &params, &Patch::Apply(cr)).await.expect("the custom resource is applied")
    }

    /// An object of the project's namespace, if it is there.
    pub async fn get(&self, api_version: &str, kind: &str, name: &str) -> Option<DynamicObject> {
        self.find(api_version, kind, Some(&self.namespace), name).await
    }

    /// An object of any namespace or of none, if it is there.
    pub async fn find(
        &self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Option<DynamicObject> {
        let (group, version) = chartwright::object::split_api_version(api_version);
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        api.get_opt(name).await.expect("the API server answers")
    }

    /// A condition of a custom resource, once it has the wanted status.
    pub async fn condition(&self, name: &str, kind: &str, status: &str) -> Value {
        until(&format!("{name} has the condition {kind}={status}"), async || {
            let cr = self.crs().get(name).await.expect("the custom resource exists");
            let conditions = cr.data.pointer("/status/conditions")?.as_array()?.clone();
            conditions.into_iter().find(|condition| condition["type"] == kind && condition["status"] == status)
        })
        .await
    }
}

pub async fn create_namespace(client: &Client, name: &str) {
    let body: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a namespace");
    Api::all(client.clone()).create(&PostParams::default(), &body).await.expect("the namespace is created");
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).unwrap_or_else(|error| panic!("{}: {error}", from.display())) {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy_dir(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).expect("a copy")),
        }
    }
}

async fn install_crd(client: &Client, resource: &ApiResource, scope: Scope) {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = json!({
        "metadata": {"name": format!("{}.{}", resource.plural, resource.group)},
        "spec": {
            "group": resource.group,
            "scope": if scope == Scope::Cluster { "Cluster" } else { "Namespaced" },
            "names": {"kind": resource.kind, "plural": resource.plural},
            "versions": [{
                "name": resource.version, "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
            }],
        },
    });
    let crd: CustomResourceDefinition = serde_json::from_value(crd).expect("a CRD");
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = crd.metadata.name.clone().expect("a name");
    api.create(&PostParams::default(), &crd).await.expect("the CRD is created");
    until("the CRD is established", async || {
        let conditions = api.get(&name).await.expect("the CRD exists").status?.conditions?;
        conditions.iter().any(|condition| condition.type_ == "Established" && condition.status == "True").then_some(())
    })
    .await;
}

/// Differs for every test of every run.
fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("t{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A running operator. It ends with the test; when the test fails, its log is printed.
pub struct Operator {
    process: Child,
    log: tempfile::NamedTempFile,
}

impl Operator {
    /// Starts one that takes `namespace` for its own.
    pub fn start_in(namespace: &str, dir: &Path, helm: &str) -> Self {
        let log = tempfile::NamedTempFile::new().expect("a file");
        let file = log.reopen().expect("a file");
        // Guarded: it must not outlive a killed test runner.
        let process = lab::guard::command(env!("CARGO_BIN_EXE_chartwright"))
            .expect("the lab program")
            .arg("run")
            .env_clear()
            .env("KUBECONFIG", control_plane().kubeconfig())
            .env("CHARTWRIGHT_HELM", tool(helm))
            .env("POD_NAMESPACE", namespace)
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a file"))
            .stderr(file)
            .spawn()
            .expect("the operator starts");
        Operator { process, log }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("the operator's log:\n{}", std::fs::read_to_string(self.log.path()).unwrap_or_default());
        }
    }
}
