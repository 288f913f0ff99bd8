use std::collections::HashSet;
use std::time::Duration;

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use kube::api::Api;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;

use crate::harness::{Project, config, until};

/// A Job that the cluster cleans up as soon as it has ended.
fn short_lived_job() -> serde_json::Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate"}, "spec": {
        "ttlSecondsAfterFinished": 0,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}})
}

#[tokio::test]
async fn a_job_with_a_time_to_live_runs_once_in_a_minute_and_a_restart() {
    let project = Project::of_objects().await;
    let operator = project.run();
    let jobs: Api<Job> = Api::namespaced(project.client.clone(), &project.namespace);
    let runs = tokio::spawn({
        let changes = watcher(jobs, watcher::Config::default()).applied_objects();
        async move {
            let mut runs = HashSet::new();
            pin_mut!(changes);
            let minute = tokio::time::sleep(Duration::from_secs(60));
            pin_mut!(minute);
            loop {
                tokio::select! {
                    () = &mut minute => return runs,
                    change = changes.next() => runs.extend(change.and_then(|job| job.ok()?.metadata.uid)),
                }
            }
        }
    });
    let mut job = short_lived_job();
    job["spec"]["ttlSecondsAfterFinished"] = json!(2);
    project.apply("web", json!({"objects": [config("web", "blue"), job]})).await;
    project.deployed("web").await;
    until("the Job is cleaned up", async || project.get("batch/v1", "Job", "migrate").await.is_none().then_some(()))
        .await;
    drop(operator);
    let _restarted = project.run();
    assert_eq!(runs.await.expect("a watch").len(), 1);
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
