use std::time::Duration;

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::{Value, json};

use crate::harness::{Project, stays, until, within};

fn deployment(replicas: Option<u32>, image: &str) -> Value {
    let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": image}]}}}});
    if let Some(replicas) = replicas {
        object["spec"]["replicas"] = json!(replicas);
    }
    object
}

/// It scales without a metrics server, because it must never be below its minimum.
fn scaler(minimum: u32) -> Value {
    json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"}, "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": minimum, "maxReplicas": 20,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]}})
}

fn deployments(project: &Project) -> Api<Deployment> {
    Api::namespaced(project.client.clone(), &project.namespace)
}

async fn replicas(project: &Project) -> Option<i32> {
    deployments(project).get("web").await.expect("a Deployment").spec.and_then(|spec| spec.replicas)
}

async fn becomes(project: &Project, wanted: i32) {
    until(&format!("{wanted} replicas"), async || (replicas(project).await == Some(wanted)).then_some(())).await;
}

async fn image_becomes(project: &Project, wanted: &str) {
    until(&format!("the image {wanted}"), async || {
        let deployment = project.get("apps/v1", "Deployment", "web").await?;
        (deployment.data["spec"]["template"]["spec"]["containers"][0]["image"] == wanted).then_some(())
    })
    .await;
}

#[tokio::test]
async fn enabling_autoscaling_on_five_never_passes_through_one() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [deployment(Some(5), "one")]})).await;
    project.deployed("web").await;
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let seen = tokio::spawn({
        let changes = watcher(deployments(&project), watcher::Config::default()).applied_objects();
        async move {
            let (mut seen, mut begun) = (vec![], Some(begun));
            pin_mut!(changes);
            while let Some(Ok(deployment)) = changes.next().await {
                seen.extend(deployment.spec.and_then(|spec| spec.replicas));
                begun.take().map(|begun| begun.send(()));
                if seen.last() == Some(&7) {
                    return seen;
                }
            }
            seen
        }
    });
    has_begun.await.expect("the watch sees five");
    // As the usual chart does it: with autoscaling there is no number in the Deployment.
    project.apply("web", json!({"objects": [deployment(None, "one"), scaler(7)]})).await;
    let seen = tokio::time::timeout(Duration::from_secs(60), seen).await.expect("it is scaled").expect("a watch");
    assert!(seen.iter().all(|replicas| matches!(replicas, 5 | 7)), "{seen:?}");
    // An upgrade leaves the number alone, and so does the end of a rollout.
    project.apply("web", json!({"objects": [deployment(None, "two"), scaler(7)]})).await;
    image_becomes(&project, "two").await;
    stays(Duration::from_secs(2), "seven stay", async || replicas(&project).await == Some(7)).await;
    // Without autoscaling the chart's number counts again.
    project.apply("web", json!({"objects": [deployment(Some(3), "two")]})).await;
    becomes(&project, 3).await;
    stays(Duration::from_secs(2), "three stay", async || replicas(&project).await == Some(3)).await;
}

#[tokio::test]
async fn somebody_elses_autoscaler_counts_as_long_as_it_is_there() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [deployment(Some(2), "one")]})).await;
    project.deployed("web").await;
    project.create(within(&project.namespace, scaler(4))).await;
    becomes(&project, 4).await;
    stays(Duration::from_secs(2), "four stay", async || replicas(&project).await == Some(4)).await;
    project.apply("web", json!({"objects": [deployment(Some(2), "two")]})).await;
    image_becomes(&project, "two").await;
    assert_eq!(replicas(&project).await, Some(4), "an upgrade is no reason to scale");
    let scalers = project.objects("autoscaling/v2", "HorizontalPodAutoscaler", Some(&project.namespace));
    scalers.delete("web", &Default::default()).await.expect("it is deleted");
    becomes(&project, 2).await;
}

#[tokio::test]
async fn without_an_autoscaler_a_persons_scaling_is_set_back() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [deployment(Some(2), "one")]})).await;
    project.deployed("web").await;
    let params = PatchParams { field_manager: Some("kubectl".into()), ..Default::default() };
    let scale = json!({"spec": {"replicas": 9}});
    deployments(&project).patch_scale("web", &params, &Patch::Merge(&scale)).await.expect("kubectl scale");
    becomes(&project, 2).await;
}
