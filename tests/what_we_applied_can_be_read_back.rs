//! By the API server's own measure: to apply what was read back changes nothing, and claims nothing else.

use chartwright::drift::{extract, fields};
use kube::ResourceExt;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::{Project, until};

fn applied() -> Vec<Value> {
    let labels = json!({"app": "web"});
    let pod = json!({
        "serviceAccountName": "default",
        "securityContext": {},
        "containers": [
            {
                "name": "app", "image": "img:1", "args": ["--verbose"],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "ports": [{"name": "http", "containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}],
                "resources": {"limits": {"cpu": "0.5", "memory": "64Mi"}},
                "readinessProbe": {"httpGet": {"path": "/", "port": "http"}},
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
            },
            {"name": "sidecar", "image": "img:2"},
        ],
        "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "c", "configMap": {"name": "web"}}],
        "tolerations": [{"key": "a", "operator": "Exists"}],
    });
    let metadata = json!({"name": "web", "labels": labels});
    vec![
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {
            "replicas": 0, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": {"a.b/c": "d"}}, "spec": pod},
        }}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {
            "selector": labels,
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}, {"name": "dns", "port": 53, "protocol": "UDP"}],
        }}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1", "b.yaml": "x: y\n"}, "binaryData": {"c": "AAEC"},
            "metadata": {"name": "web", "annotations": {"a.b/c": "d"}, "finalizers": ["chartwright.dev/test"]}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque",
            "stringData": {"password": "p"}, "data": {"token": "dA=="}}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata, "spec": {
            "rules": [{"host": "a.example.com", "http": {"paths": [
                {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"name": "http"}}}},
            ]}}],
            "tls": [{"hosts": ["a.example.com"], "secretName": "web"}],
        }}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        ]}),
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}],
        }}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": {
            "minAvailable": "50%", "selector": {"matchLabels": labels},
        }}),
    ]
}

struct Writer<'a> {
    project: &'a Project,
}

impl Writer<'_> {
    async fn send(&self, object: &Value, params: PatchParams) -> DynamicObject {
        let text = |field: &str| object[field].as_str().unwrap().to_owned();
        let api = self.project.objects(&text("apiVersion"), &text("kind"), Some(&self.project.namespace));
        api.patch(object["metadata"]["name"].as_str().unwrap(), &params, &Patch::Apply(object)).await.unwrap()
    }

    async fn apply(&self, object: &Value) -> DynamicObject {
        self.send(object, PatchParams::apply("helm").force()).await
    }

    async fn dry_run(&self, object: &Value) -> DynamicObject {
        self.send(object, PatchParams { dry_run: true, ..PatchParams::apply("helm").force() }).await
    }
}

fn our_fields(object: &DynamicObject) -> Value {
    fields::ours(&object.metadata).unwrap().fields_v1.as_ref().unwrap().0.clone()
}

/// An object as JSON, without the names of managers and the time at which each wrote.
fn content(object: &DynamicObject) -> Value {
    let mut value = serde_json::to_value(object).unwrap();
    value["metadata"]["managedFields"] = Value::Null;
    value
}

#[tokio::test]
async fn applying_what_was_read_back_changes_nothing() {
    let project = Project::new("App").await;
    let writer = Writer { project: &project };
    for object in applied() {
        let kind = object["kind"].as_str().unwrap();
        writer.apply(&object).await;
        // Somebody adds what must not become ours.
        let theirs = json!({"metadata": {"labels": {"theirs": "x"}, "annotations": {"theirs": "x"}}});
        let api = project.objects(object["apiVersion"].as_str().unwrap(), kind, Some(&project.namespace));
        api.patch("web", &PatchParams::default(), &Patch::Merge(theirs)).await.unwrap();
        let (live, back, again) = until(&format!("nobody writes {kind} meanwhile"), async || {
            let live = api.get("web").await.unwrap();
            let back = extract(&serde_json::to_value(&live).unwrap(), &our_fields(&live));
            let again = writer.dry_run(&back).await;
            // Controllers tell how it is, and what they tell is in both only where they are done.
            let is_same = api.get("web").await.unwrap().resource_version() == live.resource_version();
            is_same.then_some((live, back, again))
        })
        .await;
        assert_eq!(back["metadata"]["namespace"], project.namespace.as_str(), "{kind}");
        assert_eq!(our_fields(&again), our_fields(&live), "{kind}: {back:#}");
        assert_eq!(content(&again), content(&live), "{kind}: {back:#}");
    }
    let free = json!({"metadata": {"finalizers": null}});
    project.configs().patch("web", &PatchParams::default(), &Patch::Merge(free)).await.unwrap();
}

#[tokio::test]
async fn what_was_read_back_brings_a_lost_value_back() {
    let project = Project::new("App").await;
    let writer = Writer { project: &project };
    let object = &applied()[0];
    let before = writer.apply(object).await;
    let back = extract(&serde_json::to_value(&before).unwrap(), &our_fields(&before));
    let other =
        json!({"spec": {"replicas": 0, "template": {"spec": {"containers": [{"name": "app", "image": "theirs"}]}}}});
    let deployments = project.objects("apps/v1", "Deployment", Some(&project.namespace));
    deployments.patch("web", &PatchParams::default(), &Patch::Strategic(other)).await.unwrap();
    let after = writer.apply(&back).await;
    assert_eq!(after.data["spec"], before.data["spec"]);
    assert_eq!(our_fields(&after), our_fields(&before));
}
