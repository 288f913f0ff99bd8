//! Pods that somebody makes beside those of a release.

use std::sync::Arc;

use futures::{StreamExt, stream};
use k8s_openapi::jiff::Timestamp;
use lab::ControlPlane;
use serde_json::json;

use super::{LONG, MEMORY_LIMIT, PROBES, Pulse, peak_memory, post};
use crate::harness::{Project, until, until_within};

/// Items of a pod that take far more memory than text.
const ITEMS: usize = 100_000;

/// Writes pods with these labels that nobody runs.
async fn large_pods(project: &Project, count: usize, labels: &str) {
    until("pods can be made", async || project.get("v1", "ServiceAccount", "default").await).await;
    let items = vec![r#"{"name":"a"}"#; ITEMS].join(",");
    let posts = (0..count).map(|number| {
        let pod = format!(
            r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "large-{number}", "labels": {labels}}}, "spec": {{"schedulerName": "nobody", "containers": [{{"name": "a", "image": "a", "env": [{items}]}}]}}}}"#
        );
        async move { post(project, &format!("/api/v1/namespaces/{}/pods", project.namespace), pod).await }
    });
    stream::iter(posts).buffer_unordered(4).collect::<Vec<()>>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_pods_beside_those_of_a_workload_leave_the_operator_within_its_memory() {
    let plane = Arc::new(ControlPlane::start().expect("a control plane"));
    let project = Project::on(Some(plane), "App").await;
    project.template("objects.yaml", "{{ range .Values.objects }}\n---\n{{ toYaml . }}\n{{ end }}");
    large_pods(&project, 20, r#"{"app": "web"}"#).await;
    let mut operator = project.launch().args(&[PROBES]).start();
    let pulse = Pulse::of(&operator).await;
    let since = Timestamp::now();
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web", "lab.chartwright.dev/behaviour": "never-ready"}},
            "spec": {"containers": [{"name": "main", "image": "registry.example.com/a"}]}}},
    });
    project.apply("web", json!({"objects": [deployment]})).await;
    until_within(LONG, "the pods are asked why several times", async || {
        let asked = project.calls_since(since).into_iter();
        let asked = asked.filter(|call| call.starts_with("list") && call.contains("/pods?") && call.contains("app"));
        (asked.count() >= 4).then_some(())
    })
    .await;
    project.deployed("web").await;
    assert!(operator.runs(), "it ended");
    let peak = peak_memory(&operator);
    eprintln!("{} MiB at most, /healthz within {} ms", peak / 1024, pulse.check());
    assert!(peak < MEMORY_LIMIT / 2, "{} MiB", peak / 1024);
}
