//! kwok stands in for kubelets. What the tests rely on, shown.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, LogParams};
use serde_json::{Value, json};

use crate::harness::{Project, client, control_plane, until};

async fn with_workload(kind: &str, behaviour: &str, seen: impl Fn(&Value) -> bool) -> Project {
    let project = Project::new("App").await;
    let (api_version, restart) = if kind == "Job" { ("batch/v1", "Never") } else { ("apps/v1", "Always") };
    let mut spec = json!({"template": {
        "metadata": {"labels": {"app": "a", "lab.chartwright.dev/behaviour": behaviour}},
        "spec": {"restartPolicy": restart, "containers": [{"name": "c", "image": "img"}]},
    }});
    match kind {
        "Job" => spec["backoffLimit"] = json!(0),
        _ => spec["selector"] = json!({"matchLabels": {"app": "a"}}),
    }
    let template = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "w"}, "spec": spec});
    project.template("w.yaml", &template.to_string());
    let operator = project.run();
    project.apply("web", json!({})).await;
    until(&format!("a {kind} with behaviour {behaviour:?} shows it"), async || {
        let pods: Api<Pod> = Api::namespaced(project.client.clone(), &project.namespace);
        let pods = serde_json::to_value(pods.list(&ListParams::default()).await.unwrap().items).unwrap();
        let workload = project.get(api_version, kind, "w").await?;
        seen(&json!({"workload": workload.data, "pod": pods[0]})).then_some(())
    })
    .await;
    drop(operator);
    project
}

fn waiting(seen: &Value) -> &Value {
    &seen["pod"]["status"]["containerStatuses"][0]["state"]["waiting"]["reason"]
}

#[tokio::test]
async fn a_job_completes_and_its_pod_has_a_log() {
    let project = with_workload("Job", "", |seen| seen["workload"]["status"]["succeeded"] == 1).await;
    let pods: Api<Pod> = Api::namespaced(project.client.clone(), &project.namespace);
    let pod = pods.list(&ListParams::default()).await.unwrap().items.remove(0).metadata.name.unwrap();
    let log = pods.logs(&pod, &LogParams::default()).await.unwrap();
    assert_eq!(log.trim(), "a line printed by a kwok pod");
}

#[tokio::test]
async fn a_job_can_fail() {
    with_workload("Job", "fail", |seen| seen["workload"]["status"]["failed"] == 1).await;
}

#[tokio::test]
async fn a_job_can_hang() {
    with_workload("Job", "hang", |seen| seen["pod"]["status"]["phase"] == "Running").await;
}

#[tokio::test]
async fn a_pod_can_be_in_a_crash_loop() {
    with_workload("Deployment", "crash", |seen| waiting(seen) == "CrashLoopBackOff").await;
}

#[tokio::test]
async fn an_image_can_fail_to_be_pulled() {
    with_workload("Deployment", "pull-error", |seen| waiting(seen) == "ImagePullBackOff").await;
}

#[tokio::test]
async fn a_pod_can_run_without_becoming_ready() {
    let never_ready = |seen: &Value| {
        let status = &seen["pod"]["status"];
        status["phase"] == "Running" && status["containerStatuses"][0]["ready"] == false
    };
    with_workload("Deployment", "never-ready", never_ready).await;
}

#[tokio::test]
async fn a_stateful_set_gets_its_volume() {
    let project = Project::new("App").await;
    project.template("w.yaml", STATEFUL_SET);
    let _operator = project.run();
    project.apply("web", json!({})).await;
    until("the StatefulSet is ready and its claim bound", async || {
        let set = project.get("apps/v1", "StatefulSet", "db").await?;
        let claim = project.get("v1", "PersistentVolumeClaim", "data-db-0").await?;
        (set.data["status"]["readyReplicas"] == 1 && claim.data["status"]["phase"] == "Bound").then_some(())
    })
    .await;
}

const STATEFUL_SET: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: db}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
";

#[tokio::test]
async fn calls_are_counted_by_user_agent() {
    let version = client().await.apiserver_version().await.unwrap();
    assert_eq!(version.git_version, "v1.36.3");
    let log = until("the audit log has lines", async || {
        std::fs::read_to_string(control_plane().audit_log()).ok().filter(|log| !log.is_empty())
    })
    .await;
    let first: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert!(first["userAgent"].is_string() && first["verb"].is_string(), "{first}");
}
