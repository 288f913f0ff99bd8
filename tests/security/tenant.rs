//! A tenant's release, and an operator in a namespace of its own, as in a cluster: whoever writes records in the tenant's namespace cannot
//! write there.

use std::time::Duration;

use chartwright::calls::Calls;
use chartwright::release::{OwnerMark, Release, Status, Store};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::command_line::{Said, said};
use crate::harness::{Operator, Project, chartwright, stays, until};

pub const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// A chart that makes a ClusterRole and a ConfigMap.
const CHART: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}'}
data: {colour: '{{ .Values.colour }}'}
{{ if ne .Values.colour `small` }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: '{{ .Release.Namespace }}-{{ .Release.Name }}'}
rules: []
{{ end }}
---
apiVersion: v1
kind: Secret
metadata: {name: '{{ .Release.Name }}-random'}
stringData: {password: '{{ randAlphaNum 12 }}'}
";

pub struct Tenant {
    pub project: Project,
    pub system: String,
}

impl Tenant {
    pub async fn new() -> Self {
        let project = Project::new("Plat").await;
        project.template("all.yaml", CHART);
        // Otherwise a ClusterRoleBinding would be refused as a kind that the chart does not make, whatever the operator believes.
        project.watch_with("allow: [cluster]");
        let system = project.another_namespace("system").await;
        Tenant { project, system }
    }

    pub fn run(&self) -> Operator {
        self.project.launch().env("POD_NAMESPACE", &self.system).start()
    }

    pub fn store(&self) -> Store {
        Store::new(Calls::new(self.project.client.clone()))
    }

    pub fn records(&self) -> Api<DynamicObject> {
        self.project.objects("v1", "Secret", Some(&self.project.namespace))
    }

    pub async fn deploy(&self, colour: &str) {
        self.project.apply("web", json!({"colour": colour})).await;
        self.project.deployed("web").await;
        self.project.condition("web", "Ready", "True").await;
    }

    pub async fn record(&self, revision: u32) -> DynamicObject {
        self.records().get(&format!("sh.helm.release.v1.web.v{revision}")).await.unwrap()
    }

    /// Creates a copy of a record as another revision, with all its labels and data, and then changes it.
    pub async fn copy(&self, from: u32, to: u32, change: impl FnOnce(&mut Release)) {
        let mut copy = self.record(from).await;
        copy.metadata = kube::core::ObjectMeta {
            name: Some(format!("sh.helm.release.v1.web.v{to}")),
            namespace: Some(self.project.namespace.clone()),
            labels: copy.metadata.labels.clone(),
            ..Default::default()
        };
        let original = self.store().get(&self.project.namespace, "web", from).await.unwrap();
        let mut release = Release { revision: to, stored: Default::default(), ..original };
        change(&mut release);
        // Through the codec, so that the payload is well formed; labels and signatures are those of the original.
        let labels = copy.metadata.labels.clone().unwrap_or_default();
        let signature = copy.data["data"]["chartwright.sig"].clone();
        self.store().create(&release).await.unwrap();
        let labels: serde_json::Map<String, Value> = labels
            .into_iter()
            .filter(|(key, _)| key.starts_with("chartwright.dev/"))
            .map(|(key, value)| (key, value.into()))
            .collect();
        let mut patch = json!({"metadata": {"labels": labels}});
        if !signature.is_null() {
            patch["data"] = json!({"chartwright.sig": signature});
        }
        let name = format!("sh.helm.release.v1.web.v{to}");
        self.records().patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Changes the state of a record and nothing else. helm rewrites it, so no signature covers it.
    pub async fn forge_state(&self, revision: u32, status: Status) {
        let signed = self.record(revision).await;
        self.project.forge("web", revision, |release| release.status = status).await;
        let part = json!({"data": {
            "chartwright": signed.data["data"]["chartwright"],
            "chartwright.sig": signed.data["data"]["chartwright.sig"],
        }});
        let name = format!("sh.helm.release.v1.web.v{revision}");
        self.records().patch(&name, &PatchParams::default(), &Patch::Merge(&part)).await.unwrap();
    }

    /// The custom resource as records name it. Everybody can compute that.
    pub async fn owner_mark(&self) -> OwnerMark {
        let owner = self.project.crs().get("web").await.unwrap();
        let (group, kind) = (self.project.resource.group.clone(), self.project.resource.kind.clone());
        OwnerMark { group, kind, namespace: owner.namespace(), name: "web".into(), uid: owner.uid().unwrap() }
    }

    /// Gives a tenant everything in the cluster.
    pub fn binding(&self) -> Value {
        json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": self.evil()},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": self.project.namespace}]})
    }

    pub fn evil(&self) -> String {
        format!("{}-evil", self.project.namespace)
    }

    /// For some seconds.
    pub async fn nothing_came_of_it(&self) {
        let bindings = self.project.objects(RBAC, "ClusterRoleBinding", None);
        let evil = self.evil();
        stays(Duration::from_secs(3), "no ClusterRoleBinding is made of a forged record", async || {
            let made = bindings.get_opt(&evil).await.unwrap().is_some();
            assert!(!made, "the operator made the ClusterRoleBinding of a forged record");
        })
        .await;
    }

    /// Waits until this revision, or a later one, is deployed.
    pub async fn deployed_from(&self, revision: u32) -> Release {
        until(&format!("revision {revision} is deployed"), async || {
            let history = self.store().history(&self.project.namespace, "web").await.ok()?;
            let latest = history.latest().filter(|it| it.revision >= revision && it.status == Status::Deployed);
            latest.cloned()
        })
        .await
    }

    /// The resource versions of the objects that the chart makes: they change with every write.
    pub async fn versions(&self) -> Vec<Option<String>> {
        let role = format!("{}-web", self.project.namespace);
        vec![
            self.project.get("v1", "ConfigMap", "web").await.and_then(|it| it.resource_version()),
            self.project.get("v1", "Secret", "web-random").await.and_then(|it| it.resource_version()),
            self.project.find(RBAC, "ClusterRole", None, &role).await.and_then(|it| it.resource_version()),
        ]
    }

    /// The Secrets of the operator.
    pub fn own_secrets(&self) -> Api<DynamicObject> {
        self.project.objects("v1", "Secret", Some(&self.system))
    }

    pub async fn lose_ledger(&self) {
        let all = ListParams::default().labels("chartwright.dev/ledger");
        self.own_secrets().delete_collection(&DeleteParams::default(), &all).await.unwrap();
    }

    /// For all releases: a namespace would limit the window.
    pub fn trust(&self, arguments: &[&str]) -> Said {
        let mut command = chartwright();
        command.arg("trust").args(arguments).args(["--operator-namespace", &self.system]);
        command.env("KUBECONFIG", self.project.plane().kubeconfig()).current_dir(self.project.dir());
        said(command)
    }

    pub async fn password(&self) -> Value {
        self.project.get("v1", "Secret", "web-random").await.unwrap().data["data"]["password"].clone()
    }
}

pub fn with_evil(release: &mut Release, evil: &Value) {
    with_objects(release, std::slice::from_ref(evil));
}

pub fn with_objects(release: &mut Release, objects: &[Value]) {
    let more: String = objects.iter().map(|object| format!("---\n{object}\n")).collect();
    release.manifest = format!("{}{more}", release.manifest.read()).into();
}
