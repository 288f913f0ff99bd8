//! Somebody else's change of a release record has the custom resource looked at, without waiting for a change of its own.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams};
use serde_json::json;

use crate::harness::{Project, config, until_within};

/// Two revisions of one release, green after blue.
async fn two_revisions(project: &Project) {
    for colour in ["blue", "green"] {
        project.apply("web", json!({"objects": [config("web", colour)]})).await;
        project.deployed("web").await;
        project.condition("web", "Ready", "True").await;
    }
}

fn records(project: &Project) -> Api<Secret> {
    Api::namespaced(project.client.clone(), &project.namespace)
}

#[tokio::test]
async fn what_a_person_uninstalled_comes_back_within_seconds() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    two_revisions(&project).await;
    project.helm("helm4", &["uninstall", "web"]);
    until_within(Duration::from_secs(3), "it is installed again", async || {
        records(&project).get_opt("sh.helm.release.v1.web.v3").await.unwrap()?;
        project.get("v1", "ConfigMap", "web").await
    })
    .await;
    project.condition("web", "Ready", "True").await;
}

#[tokio::test]
async fn a_deleted_record_is_replaced_within_seconds_and_numbers_go_on() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    two_revisions(&project).await;
    let names = ["sh.helm.release.v1.web.v1", "sh.helm.release.v1.web.v2"];
    records(&project).delete(names[1], &DeleteParams::default()).await.unwrap();
    // The superseded revision does not travel in the watch, but it counts.
    until_within(Duration::from_secs(5), "a third revision is recorded", async || {
        records(&project)
            .get_opt("sh.helm.release.v1.web.v3")
            .await
            .unwrap()
            .filter(|secret| secret.metadata.labels.as_ref().is_some_and(|labels| labels["status"] == "deployed"))
    })
    .await;
    let first = records(&project).get(names[0]).await.unwrap();
    assert_eq!(first.metadata.labels.unwrap()["status"], "superseded");
    project.condition("web", "Ready", "True").await;
    assert_eq!(project.get("v1", "ConfigMap", "web").await.unwrap().data["data"]["colour"], "green");
}

#[tokio::test]
async fn a_release_that_gives_way_is_taken_at_once() {
    let project = Project::of_objects().await;
    project.file("charts/theirs/Chart.yaml", "apiVersion: v2\nname: theirs\nversion: 0.1.0\n");
    project.helm("helm4", &["install", "web", "charts/theirs"]);
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.not_ready("web", "BelongsToAnother").await;
    project.helm("helm4", &["uninstall", "web"]);
    until_within(Duration::from_secs(3), "the name is free, so the custom resource has it", async || {
        project.get("v1", "ConfigMap", "web").await
    })
    .await;
    project.condition("web", "Ready", "True").await;
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_told_and_mended_again() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    two_revisions(&project).await;
    let name = "sh.helm.release.v1.web.v2";
    let good = records(&project).get(name).await.unwrap().data.unwrap()["chartwright"].clone();
    let write = async |text: serde_json::Value| {
        let patch = kube::api::Patch::Merge(json!({"data": {"chartwright": text}}));
        records(&project).patch(name, &Default::default(), &patch).await.unwrap();
    };
    // {"format":99}
    write(json!("eyJmb3JtYXQiOjk5fQ==")).await;
    let told = project.not_ready("web", "RecordUnusable").await;
    assert!(told["message"].as_str().unwrap().contains("format 99"), "{told}");
    write(serde_json::to_value(good).unwrap()).await;
    project.condition("web", "Ready", "True").await;
}
