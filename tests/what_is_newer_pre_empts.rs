//! A render whose result nobody wants any more is given up. A failure is tried again with patience, a new spec at once.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::strange_helm::{own_sleep, sleeping, strange_helm};
use crate::harness::{Project, config, stays, until, until_within};

fn colour(colour: &str) -> Value {
    json!({"objects": [config("web", colour)]})
}

async fn colour_of(project: &Project) -> Option<Value> {
    Some(project.get("v1", "ConfigMap", "web").await?.data["data"]["colour"].clone())
}

#[tokio::test]
async fn a_new_generation_ends_a_hanging_render_without_a_word() {
    let project = Project::of_objects().await;
    let sleep = own_sleep();
    let helm = strange_helm(&project, &format!("grep -q hangs values.json && sleep {sleep}"));
    let operator = project.launch().helm(helm).start();
    project.apply("web", colour("hangs")).await;
    until("helm hangs", async || (sleeping(&sleep) == 1).then_some(())).await;
    project.apply("web", colour("blue")).await;
    until_within(Duration::from_secs(8), "it is blue", async || {
        (colour_of(&project).await == Some(json!("blue"))).then_some(())
    })
    .await;
    project.deployed("web").await;
    until("the first render has ended", async || (sleeping(&sleep) == 0).then_some(())).await;

    // Once more, for an upgrade that has been in the slow lane for a while.
    project.apply("web", colour("hangs")).await;
    until("helm hangs", async || (sleeping(&sleep) == 1).then_some(())).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    project.apply("web", colour("red")).await;
    until_within(Duration::from_secs(8), "it is red", async || {
        (colour_of(&project).await == Some(json!("red"))).then_some(())
    })
    .await;
    project.deployed("web").await;
    assert_eq!(project.events("web", "HelmFailed").await, []);
    assert!(!operator.log().contains("\"level\":\"error\""), "{}", operator.log());
}

#[tokio::test]
async fn a_deletion_ends_a_hanging_render() {
    let project = Project::of_objects().await;
    let sleep = own_sleep();
    let helm = strange_helm(&project, &format!("grep -q hangs values.json && sleep {sleep}"));
    let _operator = project.launch().helm(helm).start();
    project.apply("web", colour("blue")).await;
    project.deployed("web").await;
    project.apply("web", colour("hangs")).await;
    until("helm hangs", async || (sleeping(&sleep) == 1).then_some(())).await;
    project.delete("web").await;
    until_within(Duration::from_secs(8), "it is gone", async || {
        project.crs().get_opt("web").await.unwrap().is_none().then_some(())
    })
    .await;
    assert_eq!(sleeping(&sleep), 0);
}

#[tokio::test]
async fn what_cannot_succeed_is_tried_once_and_a_new_spec_at_once() {
    let project = Project::of_objects().await;
    project.template("fail.yaml", r#"{{ if eq .Values.mood "bad" }}{{ fail "in a bad mood" }}{{ end }}"#);
    let helm = strange_helm(&project, &format!("echo $release >> {}/renders", project.dir().display()));
    let _operator = project.launch().helm(helm).start();
    let spec = |mood: &str, colour: &str| json!({"mood": mood, "objects": [config("web", colour)]});
    project.apply("web", spec("bad", "blue")).await;
    project.not_ready("web", "RenderFailed").await;
    project.annotate("web", "look", "again").await;
    let renders = || std::fs::read_to_string(project.dir().join("renders")).unwrap_or_default().lines().count();
    stays(Duration::from_secs(3), "no further render", async || renders()).await;
    assert_eq!(renders(), 1);
    // The API server refuses a label; that is tried again after 20 seconds. Another spec need not wait for it.
    let mut refused = spec("good", "blue");
    refused["objects"][0]["metadata"]["labels"] = json!({"a": "not a label!"});
    project.apply("web", refused).await;
    project.not_ready("web", "InvalidObject").await;
    project.apply("web", spec("good", "green")).await;
    until_within(Duration::from_secs(8), "it is green", async || {
        (colour_of(&project).await == Some(json!("green"))).then_some(())
    })
    .await;
}
