//! `kubectl scale` on a custom resource: the number goes to the chart, and comes back from its workload, with the selector.

use std::process::Command;

use chartwright::scaffold::api::Api as Kind;
use chartwright::scaffold::crd::{Options, definition};
use chartwright::scaffold::values::ChartValues;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::{Project, control_plane, tool, until};

/// The sample chart under a definition that was made for it.
async fn project() -> Project {
    let project = Project::with_chart("Site", "helm-charts/nginx").await;
    let resource = &project.resource;
    let kind = Kind::new(&resource.group, "v1", "Site", true).unwrap();
    let chart = ChartValues::read(&project.dir().join("charts/app")).unwrap();
    let made = definition(&kind, &chart, &Options::default()).unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(project.client.clone());
    let patch = Patch::Merge(chartwright::yaml::parse(&made.text).unwrap());
    crds.patch(&kind.definition(), &PatchParams::default(), &patch).await.unwrap();
    project
}

fn kubectl(project: &Project, args: &[&str]) -> Option<String> {
    let mut command = Command::new(tool("kubectl"));
    command.args(args).args(["--namespace", &project.namespace]).env("KUBECONFIG", control_plane().kubeconfig());
    let output = command.output().unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

#[tokio::test]
async fn a_number_of_replicas_reaches_the_pods_and_comes_back() {
    let project = project().await;
    let _operator = project.run();
    project.apply("web", json!({"replicaCount": 2})).await;
    project.condition("web", "Ready", "True").await;
    let name = format!("site.{}/web", project.resource.group);
    until("kubectl scales it", async || kubectl(&project, &["scale", &name, "--replicas=4"])).await;
    until("the Deployment has four replicas", async || {
        let deployment = project.get("apps/v1", "Deployment", "web").await?;
        (deployment.data["spec"]["replicas"] == 4).then_some(())
    })
    .await;
    let scale: Value = until("the scale tells of four pods", async || {
        let text = kubectl(&project, &["get", &name, "--subresource=scale", "-o", "json"])?;
        let scale: Value = serde_json::from_str(&text).unwrap();
        (scale["status"]["replicas"] == 4).then_some(scale)
    })
    .await;
    assert_eq!(scale["spec"]["replicas"], 4);
    let selector = scale["status"]["selector"].as_str().unwrap();
    let pods: Api<Pod> = Api::namespaced(project.client.clone(), &project.namespace);
    let found = pods.list(&ListParams::default().labels(selector)).await.unwrap().items;
    assert_eq!(found.len(), 4, "{selector}");
    let columns = kubectl(&project, &["get", &name]).unwrap();
    assert!(columns.lines().next().unwrap().contains("REPLICAS"), "{columns}");
}
