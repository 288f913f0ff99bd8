use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use serde_json::json;

use crate::harness::{Project, until};

const CONFIG: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  colour: {{ .Values.colour }}
  big: {{ .Values.big | quote }}
"#;

const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec: {containers: [{name: app, image: app}]}
"#;

const SERVICE: &str = r#"
apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}
spec:
  ports: [{port: 80}]
"#;

const ALL: [(&str, &str); 3] = [("v1", "ConfigMap"), ("apps/v1", "Deployment"), ("v1", "Service")];

async fn project() -> Project {
    let project = Project::new("App").await;
    project.template("config.yaml", CONFIG);
    project.template("deployment.yaml", DEPLOYMENT);
    project.template("service.yaml", SERVICE);
    project
}

async fn applying_creates_all_objects_with_owner_references(helm: &str) {
    let project = project().await;
    let _operator = project.run_with(helm);
    let cr = project.apply("web", json!({"colour": "blue", "replicas": 2, "big": 12345678})).await;
    let deployed = project.condition("web", "Deployed", "True").await;
    assert_eq!(deployed["reason"], "InstallSuccessful");
    for (api_version, kind) in ALL {
        let object = project.get(api_version, kind, "web").await.unwrap_or_else(|| panic!("no {kind}"));
        let [owner] = object.owner_references() else { panic!("{kind} has not one owner: {object:?}") };
        assert_eq!(Some(&owner.uid), cr.uid().as_ref(), "{kind}");
        assert_eq!((owner.controller, owner.block_owner_deletion), (Some(true), Some(true)), "{kind}");
        assert_eq!(object.labels().get("app.kubernetes.io/managed-by").map(String::as_str), Some("Helm"), "{kind}");
        assert_eq!(object.annotations().get("meta.helm.sh/release-name").map(String::as_str), Some("web"), "{kind}");
    }
    let config = project.get("v1", "ConfigMap", "web").await.unwrap();
    assert_eq!(config.data["data"], json!({"colour": "blue", "big": "12345678"}));
}

#[tokio::test]
async fn with_helm_3_applying_creates_all_objects_with_owner_references() {
    applying_creates_all_objects_with_owner_references("helm3").await;
}

#[tokio::test]
async fn with_helm_4_applying_creates_all_objects_with_owner_references() {
    applying_creates_all_objects_with_owner_references("helm4").await;
}

#[tokio::test]
async fn an_edit_upgrades_and_pods_become_ready() {
    let project = project().await;
    let _operator = project.run();
    project.apply("web", json!({"colour": "blue", "replicas": 1})).await;
    project.condition("web", "Deployed", "True").await;
    project.apply("web", json!({"colour": "green", "replicas": 3})).await;
    until("the edit arrives and the pods are ready", async || {
        let config = project.get("v1", "ConfigMap", "web").await?;
        let deployment = project.get("apps/v1", "Deployment", "web").await?;
        (config.data["data"]["colour"] == "green" && deployment.data["status"]["readyReplicas"] == 3).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_deleted_service_comes_back() {
    let project = project().await;
    let _operator = project.run();
    project.apply("web", json!({"colour": "blue", "replicas": 0})).await;
    project.condition("web", "Deployed", "True").await;
    let before = project.get("v1", "Service", "web").await.unwrap().uid();
    let services: Api<k8s_openapi::api::core::v1::Service> =
        Api::namespaced(project.client.clone(), &project.namespace);
    services.delete("web", &DeleteParams::default()).await.unwrap();
    until("another Service is there", async || {
        project.get("v1", "Service", "web").await.filter(|service| service.uid() != before)
    })
    .await;
}

#[tokio::test]
async fn a_template_error_is_told_in_a_condition_and_leaves_the_release_alone() {
    let project = project().await;
    project.template(
        "config.yaml",
        &format!("{{{{ if .Values.broken }}}}{{{{ fail \"no luck\" }}}}{{{{ end }}}}{CONFIG}"),
    );
    let _operator = project.run();
    project.apply("web", json!({"colour": "blue", "replicas": 0})).await;
    project.condition("web", "Deployed", "True").await;
    project.apply("web", json!({"colour": "green", "replicas": 0, "broken": true})).await;
    let failed = project.condition("web", "ReleaseFailed", "True").await;
    let message = failed["message"].as_str().unwrap();
    assert!(
        message.contains("RenderFailed") && message.contains("config.yaml") && message.contains("no luck"),
        "{message}"
    );
    project.condition("web", "Deployed", "True").await;
    assert_eq!(project.get("v1", "ConfigMap", "web").await.unwrap().data["data"]["colour"], "blue");
}
