//! Objects that others made by update become ours, so that what a chart drops really goes.

use std::sync::Arc;

use chartwright::apply::handover::{hand_over, handed_over};
use chartwright::calls::Calls;
use chartwright::discovery::{Cache, Kinds};
use chartwright::manifest::Rendered;
use chartwright::object::Object;
use chartwright::plan::{Owner, Planned, Target, plan};
use chartwright::watches::Crds;
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use crate::harness::{Project, until};

/// What the chart makes: first with a label, an environment variable, a port and a data key that it drops later.
fn objects(is_first: bool) -> Vec<Value> {
    let mut labels = json!({"app": "web"});
    let mut env = vec![json!({"name": "A", "value": "1"})];
    let mut ports = vec![json!({"name": "http", "port": 80, "targetPort": 8080})];
    let mut data = json!({"a": "1"});
    if is_first {
        labels["dropped"] = "x".into();
        env.push(json!({"name": "DROPPED", "value": "x"}));
        ports.push(json!({"name": "dropped", "port": 81, "targetPort": 8081}));
        data["dropped"] = "x".into();
    }
    let metadata = json!({"name": "web", "labels": labels});
    let pod =
        json!({"containers": [{"name": "app", "image": "img:1", "env": env, "ports": [{"containerPort": 8080}]}]});
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": pod});
    vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": {"app": "web"}, "ports": ports}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template}}),
    ]
}

struct Scene {
    project: Project,
    calls: Calls,
    kinds: Arc<Kinds>,
    owner: Owner,
}

impl Scene {
    async fn new() -> Self {
        let project = Project::new("App").await;
        let calls = Calls::new(project.client.clone());
        let kinds = Cache::new(calls.clone()).await.unwrap().kinds();
        let cr = project.apply("web", json!({})).await;
        let owner = Owner {
            gvk: GroupVersionKind::gvk(&project.resource.group, "v1", "App"),
            namespace: cr.namespace(),
            name: cr.name_any(),
            uid: cr.uid().unwrap(),
        };
        Scene { project, calls, kinds, owner }
    }

    /// As helm 3 makes it.
    fn install(&self) {
        let documents: Vec<String> = objects(true).iter().map(Value::to_string).collect();
        self.project.template("web.yaml", &documents.join("\n---\n"));
        self.project.helm("helm3", &["install", "web", "charts/app"]);
    }

    /// As an operator makes it that has Helm built in.
    async fn make(&self, manager: &str) {
        for mut object in objects(true) {
            object["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "Helm".into();
            let namespace = &self.project.namespace;
            let marks = json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": namespace});
            object["metadata"]["annotations"] = marks;
            let params = PostParams { field_manager: Some(manager.into()), ..Default::default() };
            self.api(&object).create(&params, &serde_json::from_value(object).unwrap()).await.unwrap();
        }
    }

    fn api(&self, object: &Value) -> Api<DynamicObject> {
        let text = |field: &str| object[field].as_str().unwrap();
        self.project.objects(text("apiVersion"), text("kind"), Some(&self.project.namespace))
    }

    async fn live(&self) -> Vec<DynamicObject> {
        let mut live = vec![];
        for object in objects(true) {
            live.push(self.api(&object).get("web").await.unwrap());
        }
        live
    }

    fn planned(&self, is_first: bool) -> Vec<Planned> {
        self.planned_of(objects(is_first))
    }

    fn planned_of(&self, objects: Vec<Value>) -> Vec<Planned> {
        let namespace = &self.project.namespace;
        let target = Target {
            release: "web",
            namespace,
            chart: "app",
            owner: &self.owner,
            allow_empty: false,
            crds: Crds::Create,
            may_own: true,
            made: Default::default(),
            adopting: Default::default(),
        };
        let objects = objects.into_iter().map(|object| Object::new(object).unwrap()).collect();
        plan(Rendered { objects, ..Default::default() }, &[], &target, &self.kinds).unwrap().apply
    }

    async fn hand_over(&self) {
        for planned in self.planned(true) {
            hand_over(&planned, &self.calls).await.unwrap();
        }
    }

    async fn apply(&self, is_first: bool) {
        for planned in self.planned(is_first) {
            self.calls.apply(&planned).await.unwrap();
        }
    }

    /// Somebody labels everything and sets a data key.
    async fn meddle(&self) {
        let params = PatchParams { field_manager: Some("kubectl-label".into()), ..Default::default() };
        let label = Patch::Merge(json!({"metadata": {"labels": {"theirs": "x"}}}));
        for object in objects(true) {
            self.api(&object).patch("web", &params, &label).await.unwrap();
        }
        let key = Patch::Merge(json!({"data": {"theirs": "x"}}));
        self.project.configs().patch("web", &params, &key).await.unwrap();
    }

    /// Where `dropped` still is, and where `theirs` is.
    async fn found(&self) -> (usize, usize) {
        let texts: Vec<String> = self.live().await.into_iter().map(|object| content(object).to_string()).collect();
        let count = |word: &str| texts.iter().map(|text| text.to_lowercase().matches(word).count()).sum();
        (count("\"dropped\""), count("\"theirs\""))
    }

    /// The names of ReplicaSets hold the hash of the pod template.
    async fn replica_sets(&self) -> Vec<String> {
        let api: Api<ReplicaSet> = Api::namespaced(self.project.client.clone(), &self.project.namespace);
        api.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect()
    }

    async fn handed_over_and_upgraded(&self) {
        self.meddle().await;
        assert_eq!(self.found().await, (6, 4), "three labels and three things inside; three labels and a key");
        self.hand_over().await;
        for object in self.live().await {
            assert_eq!(updaters(&object), ["kubectl-label"], "{:?}", object.metadata.managed_fields);
        }
        self.apply(false).await;
        assert_eq!(self.found().await, (0, 4), "what the chart dropped is gone, and what somebody set is not");
    }
}

/// An object without its list of managers, which names every field.
fn content(mut object: DynamicObject) -> Value {
    object.metadata.managed_fields = None;
    serde_json::to_value(object).unwrap()
}

/// Who updated the object itself.
fn updaters(object: &DynamicObject) -> Vec<String> {
    let entries = object.metadata.managed_fields.iter().flatten();
    let updates = entries.filter(|entry| entry.operation.as_deref() == Some("Update") && entry.subresource.is_none());
    updates.map(|entry| entry.manager.clone().unwrap()).collect()
}

#[tokio::test]
async fn what_helm_3_made_loses_what_the_chart_drops() {
    let scene = Scene::new().await;
    scene.install();
    scene.handed_over_and_upgraded().await;
}

#[tokio::test]
async fn so_does_what_another_operator_made() {
    for manager in ["helm-operator", "nginx-operator"] {
        let scene = Scene::new().await;
        scene.make(manager).await;
        scene.handed_over_and_upgraded().await;
    }
}

/// An autoscaler has other fields in version 1 than in version 2.
#[tokio::test]
async fn what_was_written_in_two_versions_loses_what_the_chart_drops_too() {
    let scaler = |version: &str, label: &str, spec: Value| {
        let mut object =
            json!({"apiVersion": format!("autoscaling/{version}"), "kind": "HorizontalPodAutoscaler", "spec": spec});
        object["metadata"] = json!({"name": "web", "labels": {label: "x"}});
        object["spec"]["scaleTargetRef"] = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        object
    };
    let first = scaler("v1", "dropped", json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}));
    let second = scaler("v2", "dropped", json!({"maxReplicas": 4, "minReplicas": 2}));
    let target = json!({"type": "Utilization", "averageUtilization": 60});
    let metrics = json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
    let third = scaler("v2", "ours", json!({"maxReplicas": 5, "metrics": metrics}));
    for is_updated in [false, true] {
        let scene = Scene::new().await;
        let params = PostParams { field_manager: Some("helm".into()), ..Default::default() };
        let made = serde_json::from_value(first.clone()).unwrap();
        scene.api(&first).create(&params, &made).await.unwrap();
        if is_updated {
            let params = PatchParams { field_manager: Some("helm".into()), ..Default::default() };
            scene.api(&second).patch("web", &params, &Patch::Merge(&second)).await.unwrap();
        }
        let planned = scene.planned_of(vec![third.clone()]).remove(0);
        hand_over(&planned, &scene.calls).await.unwrap();
        let after = scene.calls.apply(&planned).await.unwrap();
        assert!(updaters(&after).is_empty(), "{:?}", after.metadata.managed_fields);
        assert_eq!((&after.data["spec"]["maxReplicas"], &after.data["spec"]["metrics"]), (&json!(5), &metrics));
        let labels = after.metadata.labels.unwrap();
        assert!(labels.contains_key("ours") && !labels.contains_key("dropped"), "{labels:?}");
    }
}

#[tokio::test]
async fn without_a_hand_over_it_would_stay() {
    let scene = Scene::new().await;
    scene.install();
    scene.apply(false).await;
    assert_eq!(scene.found().await, (6, 0));
}

#[tokio::test]
async fn a_hand_over_and_an_equal_apply_change_no_object() {
    let scene = Scene::new().await;
    scene.install();
    until("the ReplicaSet is there", async || (!scene.replica_sets().await.is_empty()).then_some(())).await;
    let sets = scene.replica_sets().await;
    let before = scene.live().await;
    scene.hand_over().await;
    for (before, after) in before.iter().zip(scene.live().await) {
        assert_eq!(before.data["spec"], after.data["spec"]);
        assert_eq!(
            (&before.metadata.labels, &before.metadata.generation),
            (&after.metadata.labels, &after.metadata.generation)
        );
        assert_eq!(handed_over(&after.metadata), None);
    }
    scene.apply(true).await;
    for (before, after) in before.iter().zip(scene.live().await) {
        assert_eq!(before.data["spec"], after.data["spec"]);
        assert_eq!(before.metadata.generation, after.metadata.generation);
    }
    assert_eq!(scene.replica_sets().await, sets);
}

#[tokio::test]
async fn a_second_hand_over_and_one_of_nothing_write_nothing() {
    let scene = Scene::new().await;
    scene.hand_over().await;
    scene.install();
    scene.hand_over().await;
    // A Deployment's status may still be written.
    let versions = async || {
        let live = scene.live().await.into_iter().take(2);
        live.map(|object| object.resource_version().unwrap()).collect::<Vec<_>>()
    };
    let before = versions().await;
    scene.hand_over().await;
    assert_eq!(versions().await, before);
    scene.apply(true).await;
    let applied = versions().await;
    scene.hand_over().await;
    assert_eq!(versions().await, applied);
}
