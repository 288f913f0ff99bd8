//! A custom resource makes revisions only so fast, and keeps only so many.

use std::time::Duration;

use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::{Project, config, until, until_within};

async fn put(project: &Project, turn: usize) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "source"},
        "data": {"values.yaml": format!("turn: '{turn}'")}});
    project.configs().patch("source", &PatchParams::apply("test").force(), &Patch::Apply(map)).await.unwrap();
}

async fn revisions(project: &Project) -> Vec<u32> {
    let secrets = project.objects("v1", "Secret", Some(&project.namespace));
    let records = secrets.list(&ListParams::default().labels("owner=helm")).await.unwrap();
    let mut all: Vec<u32> = records.iter().filter_map(|record| record.labels().get("version")?.parse().ok()).collect();
    all.sort();
    all
}

async fn newest(project: &Project) -> u32 {
    revisions(project).await.pop().unwrap_or_default()
}

async fn shows(project: &Project, key: &str, value: &str) -> Option<()> {
    let config = project.get("v1", "ConfigMap", "web").await?;
    (config.data["data"][key] == value).then_some(())
}

#[tokio::test]
async fn a_source_that_changes_without_end_is_followed_at_a_limited_pace() {
    let project = Project::new("App").await;
    project.template(
        "config.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {turn: '{{ .Values.turn }}', colour: '{{ .Values.colour }}'}\n",
    );
    project.watch_with("valuesFrom: [{kind: ConfigMap, name: source}]\nmaxHistory: 100");
    let operator = project.run();
    put(&project, 0).await;
    project.apply("web", json!({"colour": "blue"})).await;
    until("the first is there", async || shows(&project, "turn", "0").await).await;
    let told = |status: &Value| {
        let conditions = status["conditions"].as_array()?.iter();
        let mut ready = conditions.filter(|it| it["type"] == "Ready" && it["reason"] == "TooManyRevisions");
        ready.next().map(|it| it["message"].as_str().unwrap_or_default().to_owned())
    };
    let mut turn = 0;
    let message = until_within(Duration::from_secs(60), "the custom resource is slowed down", async || {
        if shows(&project, "turn", &turn.to_string()).await.is_some() {
            turn += 1;
            assert!(turn < 30, "nothing slows it down");
            put(&project, turn).await;
        }
        told(&project.status("web").await)
    })
    .await;
    assert!(message.contains("without a change of its spec") && message.contains("one per 30 s"), "{message}");
    let newest_then = newest(&project).await;
    assert!((9..=13).contains(&newest_then), "revision {newest_then}");
    assert!(!project.events("web", "TooManyRevisions").await.is_empty());

    // A person's edits are not slowed down.
    for colour in ["red", "green", "yellow"] {
        project.apply("web", json!({"colour": colour})).await;
        until_within(Duration::from_secs(15), "the edit is there", async || shows(&project, "colour", colour).await)
            .await;
    }
    project.condition("web", "Ready", "True").await;
    // What the source says in the end arrives by itself.
    put(&project, 1000).await;
    until_within(Duration::from_secs(60), "the last one is there", async || shows(&project, "turn", "1000").await)
        .await;
    project.condition("web", "Ready", "True").await;
    drop(operator);
}

#[tokio::test]
async fn records_that_are_deleted_without_end_are_made_again_at_a_limited_pace() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.condition("web", "Ready", "True").await;
    let secrets = project.objects("v1", "Secret", Some(&project.namespace));
    let mut deleted = 0;
    let message = until_within(Duration::from_secs(60), "the custom resource is slowed down", async || {
        if !revisions(&project).await.is_empty() {
            deleted += 1;
            assert!(deleted < 30, "nothing slows it down");
            let all = ListParams::default().labels("owner=helm");
            secrets.delete_collection(&Default::default(), &all).await.unwrap();
        }
        let status = project.status("web").await;
        let conditions = status["conditions"].as_array()?.iter();
        let mut ready = conditions.filter(|it| it["type"] == "Ready" && it["reason"] == "TooManyRevisions");
        ready.next().map(|it| it["message"].as_str().unwrap_or_default().to_owned())
    })
    .await;
    assert!(message.contains("its records"), "{message}");
}

#[tokio::test]
async fn the_author_of_a_custom_resource_cannot_keep_more_revisions_than_the_watch() {
    for (asked, ceiling, lines) in [("0", 2, "maxHistory: 2"), ("50", 3, "maxHistory: 3")] {
        let project = Project::of_objects().await;
        project.watch_with(lines);
        let _operator = project.run();
        project.apply("web", json!({"objects": [config("web", "0")]})).await;
        project.annotate("web", "chartwright.dev/max-history", asked).await;
        for edit in 1..=5 {
            let colour = edit.to_string();
            project.apply("web", json!({"objects": [config("web", &colour)]})).await;
            until("the edit is there", async || shows(&project, "colour", &colour).await).await;
            project.deployed("web").await;
        }
        project.condition("web", "Ready", "True").await;
        let kept = revisions(&project).await;
        assert!(kept.len() <= ceiling, "{asked}: {kept:?}");
        let told = project.events("web", "InvalidAnnotation").await;
        assert!(told.iter().any(|(_, note)| note.contains("max-history") && note.contains("maxHistory")), "{told:?}");
    }
}

#[tokio::test]
async fn without_a_setting_the_default_is_the_ceiling_and_less_is_heard() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "0")]})).await;
    project.annotate("web", "chartwright.dev/max-history", "0").await;
    until("it is told", async || (!project.events("web", "InvalidAnnotation").await.is_empty()).then_some(())).await;
    project.annotate("web", "chartwright.dev/max-history", "1").await;
    for colour in ["1", "2", "3"] {
        project.apply("web", json!({"objects": [config("web", colour)]})).await;
        until("the edit is there", async || shows(&project, "colour", colour).await).await;
    }
    until("one is kept", async || (revisions(&project).await.len() == 1).then_some(())).await;
}
