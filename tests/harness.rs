//! What a test needs: a namespace, a kind and a project of its own on the shared control plane.
//!
//! ```ignore
//! let project = Project::new("App").await;
//! project.template("config.yaml", "apiVersion: v1 …");
//! let operator = project.run();
//! project.apply("web", json!({"colour": "blue"})).await;
//! project.until("the ConfigMap is there", async || …).await;
//! ```

pub mod asking;
pub mod chance;
pub mod command_line;
mod crd;
pub mod forging;
pub mod gate;
pub mod jobs;
pub mod life;
mod operator;
pub mod policy;
pub mod prometheus;
pub mod proxy;
pub mod rights;
pub mod shelf;
mod sibling;
pub mod site;
pub mod strange_helm;
pub mod trouble;
mod waiting;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, Config};
use lab::ControlPlane;
use serde_json::{Value, json};

pub use crd::{install_crd, uninstall_crd};
pub use operator::{Launch, Operator};
use waiting::PATIENCE;
pub use waiting::{stays, until, until_calm, until_within};

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
    client_of(control_plane()).await
}

async fn client_of(plane: &ControlPlane) -> Client {
    let kubeconfig = kube::config::Kubeconfig::read_from(plane.kubeconfig()).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.expect("a configuration");
    Client::try_from(config).expect("a client")
}

pub fn tool(name: &str) -> PathBuf {
    lab::tools_dir().join(name)
}

/// The operator's program, without a cluster or a helm unless the test gives them.
pub fn chartwright() -> Command {
    let mut command = Command::new(operator::binary());
    command.env_clear().stdin(Stdio::null());
    command
}

/// A ConfigMap for [`Project::of_objects`].
pub fn config(name: &str, colour: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"colour": colour}})
}

/// The same with annotations.
pub fn annotated(mut object: Value, annotations: Value) -> Value {
    object["metadata"]["annotations"] = annotations;
    object
}

/// The same in another namespace.
pub fn within(namespace: &str, mut object: Value) -> Value {
    object["metadata"]["namespace"] = namespace.into();
    object
}

/// An operator project with one kind, in a namespace and an API group of its own.
pub struct Project {
    pub client: Client,
    pub namespace: String,
    pub resource: ApiResource,
    scope: Scope,
    dir: tempfile::TempDir,
    /// What its watch allows, if it says so.
    allow: &'static str,
    /// None is the shared one.
    plane: Option<Arc<ControlPlane>>,
}

/// Of the custom resources.
#[derive(Clone, Copy, PartialEq)]
pub enum Scope {
    Namespaced,
    Cluster,
}

impl Project {
    /// A project whose chart `app` has no templates yet.
    pub async fn new(kind: &str) -> Self {
        Self::scoped(kind, Scope::Namespaced).await
    }

    /// The same on a control plane of its own, if there is one.
    pub async fn on(plane: Option<Arc<ControlPlane>>, kind: &str) -> Self {
        Self::made(plane, kind, Scope::Namespaced).await
    }

    pub fn plane(&self) -> &ControlPlane {
        self.plane.as_deref().unwrap_or_else(|| control_plane())
    }

    /// A project whose chart is a copy of a directory of this repository.
    pub async fn with_chart(kind: &str, chart: &str) -> Self {
        let project = Self::new(kind).await;
        project.copy_chart(chart);
        project
    }

    /// The same for a kind without namespaces. Its releases live in the project's namespace.
    pub async fn cluster_scoped(kind: &str, chart: &str) -> Self {
        let project = Self::scoped(kind, Scope::Cluster).await;
        project.copy_chart(chart);
        project
    }

    async fn scoped(kind: &str, scope: Scope) -> Self {
        Self::made(None, kind, scope).await
    }

    async fn made(plane: Option<Arc<ControlPlane>>, kind: &str, scope: Scope) -> Self {
        let client = client_of(plane.as_deref().unwrap_or_else(|| control_plane())).await;
        let id = unique();
        let namespace = format!("test-{id}");
        create_namespace(&client, &namespace).await;
        let gvk = GroupVersionKind::gvk(&format!("{id}.test.chartwright.dev"), "v1", kind);
        let resource = ApiResource::from_gvk(&gvk);
        install_crd(&client, &resource, scope).await;
        let dir = tempfile::tempdir().expect("a directory");
        let project = Project { client, namespace, resource, scope, dir, allow: "", plane };
        project.file("charts/app/Chart.yaml", "apiVersion: v2\nname: app\nversion: 0.1.0\n");
        project.watch_with("");
        project
    }

    /// A project whose chart renders the objects that the spec lists, wherever they are.
    pub async fn of_objects() -> Self {
        let project = Project::new("App").await.reaching_out();
        project.template("objects.yaml", "{{ range .Values.objects }}\n---\n{{ toYaml . }}\n{{ end }}");
        project
    }

    /// The same, with a watch that allows objects outside of the release's namespace.
    pub fn reaching_out(self) -> Self {
        let project = Project { allow: "allow: [other-namespaces, cluster]", ..self };
        project.watch_with("");
        project
    }

    /// Adds lines to the one entry of watches.yaml.
    pub fn watch_with(&self, fields: &str) {
        let (group, kind) = (&self.resource.group, &self.resource.kind);
        let allow = self.allow.lines().filter(|_| !fields.contains("allow:"));
        let home = format!("releaseNamespace: {}", self.namespace);
        let home = home.lines().filter(|_| self.scope == Scope::Cluster && !fields.contains("releaseNamespace:"));
        let lines: String = fields.trim().lines().chain(allow).chain(home).map(|line| format!("  {line}\n")).collect();
        self.file(
            "watches.yaml",
            &format!("- group: {group}\n  version: v1\n  kind: {kind}\n  chart: charts/app\n{lines}"),
        );
    }

    /// One more kind of the same group, made by the same chart.
    pub async fn with_kind(&self, kind: &str) -> ApiResource {
        let resource = self.with_kind_to_come(kind);
        install_crd(&self.client, &resource, self.scope).await;
        resource
    }

    /// The same, without its CRD.
    pub fn with_kind_to_come(&self, kind: &str) -> ApiResource {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&self.resource.group, "v1", kind));
        let watches = std::fs::read_to_string(self.dir().join("watches.yaml")).expect("a file");
        // Of a kind that has namespaces, nobody reads where releases live.
        let (group, home) = (&resource.group, &self.namespace);
        let more =
            format!("- {{group: {group}, version: v1, kind: {kind}, chart: charts/app, releaseNamespace: {home}}}\n");
        self.file("watches.yaml", &(watches + &more));
        resource
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
        self.launch().helm(tool(helm)).start()
    }

    /// An operator that is about to start, with helm 4 and the rights of an administrator.
    pub fn launch(&self) -> Launch<'_> {
        Launch {
            project: self,
            helm: tool("helm4"),
            args: vec![],
            is_pod: false,
            groups: vec!["system:masters"],
            env: vec![],
            server: None,
            token: None,
            replica: None,
            binary: operator::binary(),
        }
    }

    /// The user that this project's operator is for the API server.
    pub fn user(&self) -> String {
        format!("operator-of-{}", self.namespace)
    }

    /// The user that one of several operators is.
    pub fn replica_user(&self, replica: &str) -> String {
        format!("{}-{replica}", self.user())
    }

    /// What this project's operator asked the API server since then, as `<verb> <path>`.
    pub fn calls_since(&self, since: Timestamp) -> Vec<String> {
        self.calls_that(since, |_| true)
    }

    /// The same, of those that were refused for want of a right.
    pub fn refused_since(&self, since: Timestamp) -> Vec<String> {
        self.calls_that(since, |call| call["responseStatus"]["code"] == 403 && !is_too_early(call))
    }

    fn calls_that(&self, since: Timestamp, are_meant: impl Fn(&Value) -> bool) -> Vec<String> {
        let calls = self.audited_since(since).into_iter().filter(are_meant);
        calls.map(|call| format!("{} {}", call["verb"], call["requestURI"]).replace('"', "")).collect()
    }

    /// The same calls, with all that the audit log tells of them.
    pub fn audited_since(&self, since: Timestamp) -> Vec<Value> {
        let log = std::fs::read_to_string(self.plane().audit_log()).expect("an audit log");
        let user = self.user();
        let mut seen = HashSet::new();
        let lines = log.lines().filter(|line| line.contains(&user));
        let calls = lines.filter_map(|line| {
            let call: Value = serde_json::from_str(line).ok()?;
            let at: Timestamp = call["requestReceivedTimestamp"].as_str()?.parse().ok()?;
            let is_meant = call["impersonatedUser"]["username"] == user.as_str() && at >= since;
            // A watch has a line when it starts and one when it ends.
            (is_meant && seen.insert(call["auditID"].to_string())).then_some(call)
        });
        calls.collect()
    }

    /// The custom resources of a namespace.
    pub fn crs_in(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &self.resource)
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
        let (succeeded, said) = self.helm_said(program, namespace, arguments);
        assert!(succeeded, "{program} {arguments:?}: {said}");
        said
    }

    /// What helm complains about.
    pub fn helm_fails(&self, program: &str, arguments: &[&str]) -> String {
        let (succeeded, said) = self.helm_said(program, &self.namespace, arguments);
        assert!(!succeeded, "{program} {arguments:?}: {said}");
        said
    }

    fn helm_said(&self, program: &str, namespace: &str, arguments: &[&str]) -> (bool, String) {
        let output = Command::new(tool(program))
            .args(arguments)
            .args(["--namespace", namespace])
            .env_clear()
            .env("KUBECONFIG", self.plane().kubeconfig())
            .env("HOME", self.dir())
            .current_dir(self.dir())
            .stdin(Stdio::null())
            .output()
            .expect("helm runs");
        let said = if output.status.success() { output.stdout } else { [output.stdout, output.stderr].concat() };
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
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

    /// Sets a label of a custom resource.
    pub async fn label(&self, name: &str, key: &str, value: &str) {
        let patch = json!({"metadata": {"labels": {key: value}}});
        let patched = self.crs().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.expect("the custom resource is labelled");
    }

    /// Sets an annotation of a custom resource.
    pub async fn annotate(&self, name: &str, key: &str, value: &str) {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        let patched = self.crs().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.expect("the custom resource is annotated");
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
        self.objects(api_version, kind, namespace).get_opt(name).await.expect("the API server answers")
    }

    /// The objects of a kind, in a namespace or of the whole cluster.
    pub fn objects(&self, api_version: &str, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
        let (group, version) = chartwright::object::split_api_version(api_version);
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    pub fn configs(&self) -> Api<DynamicObject> {
        self.objects("v1", "ConfigMap", Some(&self.namespace))
    }

    /// Creates an object as somebody who is not the operator. It says itself where it belongs.
    pub async fn create(&self, object: Value) -> DynamicObject {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let (api_version, kind) = (text("/apiVersion").expect("a version"), text("/kind").expect("a kind"));
        let api = self.objects(&api_version, &kind, text("/metadata/namespace").as_deref());
        let object = serde_json::from_value(object).expect("an object");
        api.create(&PostParams::default(), &object).await.expect("the object is created")
    }

    /// One more namespace, which the project's name begins.
    pub async fn another_namespace(&self, suffix: &str) -> String {
        let name = format!("{}-{suffix}", self.namespace);
        self.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
        name
    }

    /// How often events with this reason were told about a custom resource, and what they say.
    pub async fn events(&self, cr: &str, reason: &str) -> Vec<(i32, String)> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let events = api.list(&ListParams::default()).await.expect("the API server answers").items;
        let about = |event: &Event| event.regarding.as_ref().is_some_and(|it| it.name.as_deref() == Some(cr));
        let meant = events.into_iter().filter(|event| about(event) && event.reason.as_deref() == Some(reason));
        meant.map(|event| (event.series.map_or(1, |it| it.count), event.note.unwrap_or_default())).collect()
    }

    /// The condition Ready=False with this reason.
    pub async fn not_ready(&self, name: &str, reason: &str) -> Value {
        self.told(name, &format!("Ready=False with the reason {reason}"), |status| {
            find_condition(status, "Ready").filter(|it| it["status"] == "False" && it["reason"] == reason)
        })
        .await
    }

    /// What a custom resource's status says at last; when it does not, the status is shown.
    pub async fn told<T>(&self, name: &str, what: &str, look: impl Fn(&Value) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.status(name).await;
            if let Some(found) = look(&status) {
                return found;
            }
            let shown = format!("{:#}", json!([status["conditions"], status["objects"]]));
            assert!(Instant::now() < deadline, "waited {PATIENCE:?} for {name}: {what}; it says {shown}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn status(&self, name: &str) -> Value {
        let cr = self.crs().get(name).await.expect("the custom resource exists");
        cr.data.get("status").cloned().unwrap_or_default()
    }

    /// Waits until the spec as it is now is in the cluster.
    pub async fn deployed(&self, name: &str) {
        let generation = json!(self.crs().get(name).await.expect("the custom resource exists").metadata.generation);
        self.told(name, &format!("generation {generation} is deployed"), |status| {
            let failed = find_condition(status, "ReleaseFailed")?;
            (generation == status["observedGeneration"] && failed["status"] == "False").then_some(())
        })
        .await;
    }

    /// Deletes a custom resource, without waiting.
    pub async fn delete(&self, name: &str) {
        self.crs().delete(name, &DeleteParams::default()).await.expect("the custom resource is deleted");
    }

    pub async fn gone(&self, name: &str) {
        until(&format!("the custom resource {name} is gone"), async || {
            self.crs().get_opt(name).await.expect("the API server answers").is_none().then_some(())
        })
        .await;
    }

    /// A condition of a custom resource, once it has the wanted status.
    pub async fn condition(&self, name: &str, kind: &str, status: &str) -> Value {
        self.told(name, &format!("{kind}={status}"), |all| {
            find_condition(all, kind).filter(|it| it["status"] == status)
        })
        .await
    }
}

/// Whether admission refuses a call until something else is there, whoever asks: the kind of an owner, which it learns of some seconds late,
/// or a pod's account.
pub fn is_too_early(call: &Value) -> bool {
    let why = call["responseStatus"]["message"].as_str().unwrap_or_default();
    ["cannot find RESTMapping", "error looking up service account"].iter().any(|early| why.contains(early))
}

/// Whether a call asks which kinds the API server knows.
pub fn asks_for_kinds(call: &str) -> bool {
    call.split([' ', '?']).nth(1).is_some_and(|path| ["/version", "/api", "/apis"].contains(&path))
}

pub async fn create_namespace(client: &Client, name: &str) {
    let body: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a namespace");
    Api::all(client.clone()).create(&PostParams::default(), &body).await.expect("the namespace is created");
}

/// Copies a program, to be run from there.
///
/// Another process copies. A file that this one has open for writing is inherited by whatever another thread starts in that moment, and the
/// kernel runs no program that anybody may write ("Text file busy").
pub fn copy_program(from: impl AsRef<Path>, to: &Path) {
    let copied = Command::new("cp").arg(from.as_ref()).arg(to).status().expect("cp");
    assert!(copied.success(), "cannot copy {}", from.as_ref().display());
}

pub fn copy_dir(from: &Path, to: &Path) {
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

fn find_condition(status: &Value, kind: &str) -> Option<Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind).cloned()
}

/// Differs for every test of every run.
pub fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("t{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
