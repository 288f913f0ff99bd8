//! A revision that cannot be applied, or does not become ready, is tried a few times. Then it stops, or the last good one comes
//! back. Neither goes on for ever.

use std::time::Duration;

use chartwright::calls::Calls;
use chartwright::release::{Status, Store};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{ListParams, Patch};
use serde_json::{Value, json};

use crate::harness::{Operator, Project, config, stays, until};

/// Revision and status of the records.
async fn revisions(project: &Project) -> Vec<(u32, Status)> {
    let history = Store::new(Calls::new(project.client.clone())).history(&project.namespace, "web").await.unwrap();
    history.iter().map(|release| (release.revision, release.status)).collect()
}

async fn colour(project: &Project, name: &str) -> Option<Value> {
    Some(project.get("v1", "ConfigMap", name).await?.data["data"]["colour"].clone())
}

/// A deployed release, and a policy against what the next revision brings.
async fn before_a_failure(fields: &str) -> (Project, Operator) {
    let project = Project::of_objects().await;
    project.watch_with(fields);
    let operator = project.run();
    project.apply("web", json!({"objects": [config("good", "blue")]})).await;
    project.deployed("web").await;
    project.refuse_writes_of("refused").await;
    (project, operator)
}

fn bad() -> Value {
    json!({"objects": [config("good", "red"), config("new", "red"), config("refused", "red")]})
}

#[tokio::test]
async fn without_a_wish_it_stops_after_a_few_tries_until_something_changes() {
    let (project, _operator) = before_a_failure("retries: 0").await;
    project.apply("web", bad()).await;
    let told = project.not_ready("web", "RetriesExhausted").await;
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("the policy says no") && message.contains("given up after 1 try"), "{message}");
    project.condition("web", "Stalled", "True").await;
    project.condition("web", "Deployed", "True").await;
    assert_eq!(revisions(&project).await, [(1, Status::Deployed), (2, Status::Failed)]);
    let since = Timestamp::now();
    stays(Duration::from_secs(3), "nothing is tried", async || revisions(&project).await).await;
    let writes: Vec<_> = project.calls_since(since).into_iter().filter(|call| call.contains("configmaps")).collect();
    assert!(writes.is_empty(), "{writes:?}");

    // Whoever repaired the cluster says so with any annotation.
    project.allow_writes().await;
    until("the policy is gone", async || {
        project.annotate("web", "example.com/try", &Timestamp::now().to_string()).await;
        colour(&project, "refused").await
    })
    .await;
    project.condition("web", "Ready", "True").await;
    assert_eq!(revisions(&project).await, [(1, Status::Superseded), (2, Status::Deployed)]);
}

#[tokio::test]
async fn it_is_tried_as_often_as_the_annotation_says() {
    let (project, operator) = before_a_failure("retries: 0").await;
    project.annotate("web", "chartwright.dev/retries", "1").await;
    project.apply("web", bad()).await;
    let told = project.not_ready("web", "RetriesExhausted").await;
    assert!(told["message"].as_str().unwrap().contains("given up after 2 tries"), "{told}");
    // The status may be a moment ahead of the log.
    until("each try is in the log", async || {
        (operator.log().lines().filter(|line| line.contains("the policy says no")).count() >= 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn on_request_the_last_good_revision_comes_back_and_stays() {
    let (project, operator) = before_a_failure("onFailure: rollback\nretries: 0").await;
    let uid = project.get("v1", "ConfigMap", "good").await.unwrap().uid();
    project.apply("web", bad()).await;
    let told = project.not_ready("web", "RolledBack").await;
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("revision 2 failed") && message.contains("the policy says no"), "{message}");
    let held = project.condition("web", "Held", "True").await;
    assert_eq!(held["reason"], "RolledBackAfterFailure", "{held}");
    let expected = [(1, Status::Superseded), (2, Status::Failed), (3, Status::Deployed)];
    assert_eq!(revisions(&project).await, expected);
    assert_eq!(colour(&project, "good").await, Some(json!("blue")));
    assert_eq!(project.get("v1", "ConfigMap", "good").await.unwrap().uid(), uid);
    until("what the failed one brought is gone", async || colour(&project, "new").await.is_none().then_some(())).await;
    drop(operator);
    let _operator = project.run();
    project.annotate("web", "example.com/touched", "1").await;
    stays(Duration::from_secs(3), "no circle", async || revisions(&project).await).await;
    // What is held is looked after.
    project.configs().delete("good", &Default::default()).await.unwrap();
    until("it comes back", async || colour(&project, "good").await).await;

    project.apply("web", json!({"objects": [config("good", "black")]})).await;
    project.deployed("web").await;
    project.condition("web", "Ready", "True").await;
    assert_eq!(colour(&project, "good").await, Some(json!("black")));
    assert_eq!(revisions(&project).await.last(), Some(&(4, Status::Deployed)));
}

#[tokio::test]
async fn a_wish_that_was_left_behind_does_not_make_it_go_round() {
    let (project, _operator) = before_a_failure("onFailure: rollback\nretries: 0").await;
    project.annotate("web", "chartwright.dev/rollback-to", "none").await;
    project.apply("web", bad()).await;
    project.not_ready("web", "RolledBack").await;
    stays(Duration::from_secs(3), "no circle", async || revisions(&project).await).await;
    assert_eq!(revisions(&project).await.len(), 3);
}

#[tokio::test]
async fn a_first_install_has_nothing_to_go_back_to() {
    let project = Project::of_objects().await;
    project.watch_with("onFailure: rollback\nretries: 0");
    let _operator = project.run();
    project.refuse_writes_of("refused").await;
    project.apply("web", bad()).await;
    project.not_ready("web", "RetriesExhausted").await;
    assert_eq!(revisions(&project).await, [(1, Status::Failed)]);
    assert_eq!(colour(&project, "good").await, Some(json!("red")), "what was applied stays");
    project.delete("web").await;
    project.gone("web").await;
    assert_eq!(colour(&project, "good").await, None);
}

fn deployment(behaviour: &str) -> Value {
    let labels = json!({"app": "web", "lab.chartwright.dev/behaviour": behaviour});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "one"}]}}}})
}

#[tokio::test]
async fn what_is_not_ready_in_time_has_failed_and_may_still_become_ready() {
    let project = Project::of_objects().await;
    project.watch_with("progressDeadline: 2s");
    let _operator = project.run();
    project.apply("web", json!({"objects": [deployment("never-ready")]})).await;
    let told = project.not_ready("web", "NotReadyInTime").await;
    assert!(told["message"].as_str().unwrap().contains("did not become ready within 2 s"), "{told}");
    project.condition("web", "Stalled", "True").await;
    project.condition("web", "Deployed", "True").await;
    assert_eq!(revisions(&project).await, [(1, Status::Failed)]);
    assert!(project.helm("helm4", &["status", "web"]).contains("STATUS: failed"));
    // Somebody repairs what kept the pod from being ready.
    let pods = project.objects("v1", "Pod", Some(&project.namespace));
    for pod in pods.list(&ListParams::default()).await.unwrap().items {
        let patch = json!({"metadata": {"labels": {"lab.chartwright.dev/behaviour": null}}});
        pods.patch(&pod.name_any(), &Default::default(), &Patch::Merge(patch)).await.unwrap();
        let ready = json!([{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}]);
        let status = json!({"status": {"conditions": ready}});
        pods.patch_status(&pod.name_any(), &Default::default(), &Patch::Strategic(status)).await.unwrap();
    }
    project.condition("web", "Ready", "True").await;
    assert_eq!(revisions(&project).await, [(1, Status::Deployed)]);
}

#[tokio::test]
async fn what_is_not_ready_in_time_gives_way_to_the_revision_before() {
    let project = Project::of_objects().await;
    project.watch_with("progressDeadline: 3s\nonFailure: rollback");
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue"), deployment("well")]})).await;
    project.deployed("web").await;
    project.condition("web", "Ready", "True").await;
    project.apply("web", json!({"objects": [config("web", "green"), deployment("never-ready")]})).await;
    let told = project.not_ready("web", "RolledBack").await;
    assert!(told["message"].as_str().unwrap().contains("did not become ready within 3 s"), "{told}");
    assert_eq!(colour(&project, "web").await, Some(json!("blue")));
    let expected = [(1, Status::Superseded), (2, Status::Failed), (3, Status::Deployed)];
    assert_eq!(revisions(&project).await, expected);
    stays(Duration::from_secs(5), "no circle", async || revisions(&project).await).await;
}

#[tokio::test]
async fn a_release_that_was_ready_once_has_kept_its_deadline() {
    let project = Project::of_objects().await;
    project.watch_with("progressDeadline: 20s");
    let _operator = project.run();
    project.apply("web", json!({"objects": [deployment("well")]})).await;
    project.condition("web", "Ready", "True").await;
    project.annotate("web", "chartwright.dev/progress-deadline", "1s").await;
    until("that is written down", async || {
        let history = Store::new(Calls::new(project.client.clone())).history(&project.namespace, "web").await.unwrap();
        history.latest()?.own.as_ref()?.was_ready.then_some(())
    })
    .await;
    let pods = project.objects("v1", "Pod", Some(&project.namespace));
    for pod in pods.list(&ListParams::default()).await.unwrap().items {
        let patch = json!({"metadata": {"labels": {"lab.chartwright.dev/behaviour": "never-ready"}}});
        pods.patch(&pod.name_any(), &Default::default(), &Patch::Merge(patch)).await.unwrap();
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        pods.patch_status(&pod.name_any(), &Default::default(), &Patch::Strategic(status)).await.unwrap();
    }
    project.condition("web", "Ready", "False").await;
    stays(Duration::from_secs(4), "it is not called failed", async || revisions(&project).await).await;
    assert_eq!(revisions(&project).await, [(1, Status::Deployed)]);
}

#[tokio::test]
async fn as_many_revisions_are_kept_as_asked_for() {
    let project = Project::of_objects().await;
    project.watch_with("maxHistory: 3");
    let _operator = project.run();
    for colour in ["a", "b", "c", "d"] {
        project.apply("web", json!({"objects": [config("web", colour)]})).await;
        project.deployed("web").await;
    }
    let expected = [(2, Status::Superseded), (3, Status::Superseded), (4, Status::Deployed)];
    assert_eq!(revisions(&project).await, expected);
    project.annotate("web", "chartwright.dev/max-history", "2").await;
    for colour in ["e", "f"] {
        project.apply("web", json!({"objects": [config("web", colour)]})).await;
        project.deployed("web").await;
    }
    let numbers: Vec<u32> = revisions(&project).await.into_iter().map(|(number, _)| number).collect();
    assert_eq!(numbers, [5, 6]);
}
