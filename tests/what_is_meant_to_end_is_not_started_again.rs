use std::time::Duration;

use kube::ResourceExt;
use serde_json::json;

use crate::harness::{Project, config, until};

/// A Job that the cluster cleans up as soon as it has ended.
fn short_lived_job() -> serde_json::Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate"}, "spec": {
        "ttlSecondsAfterFinished": 0,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}})
}

#[tokio::test]
async fn a_job_that_ended_and_was_cleaned_up_does_not_run_again() {
    let project = Project::of_objects().await;
    let operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue"), short_lived_job()]})).await;
    project.deployed("web").await;
    until("the Job is cleaned up", async || project.get("batch/v1", "Job", "migrate").await.is_none().then_some(()))
        .await;
    project.condition("web", "Ready", "True").await;
    drop(operator);
    let _restarted = project.run();
    // The heal of another object shows that the operator has looked at the release again.
    let before = project.get("v1", "ConfigMap", "web").await.unwrap().uid();
    project.configs().delete("web", &Default::default()).await.unwrap();
    until("the ConfigMap is back", async || {
        project.get("v1", "ConfigMap", "web").await.filter(|config| config.uid() != before)
    })
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(project.get("batch/v1", "Job", "migrate").await.is_none());
    project.condition("web", "Ready", "True").await;
}
