//! `selector` in watches.yaml, with WATCH_NAMESPACE and without, and what becomes of a custom resource that it lets go.

use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;

use crate::harness::{Project, config, until};

#[tokio::test]
async fn only_what_matches_is_served_in_all_in_one_and_in_several_namespaces() {
    let project = Project::of_objects().await;
    let other = project.another_namespace("b").await;
    project.watch_with("selector: {matchLabels: {serve: 'yes'}}");
    for (number, names) in
        ["".to_owned(), project.namespace.clone(), format!("{},{other}", project.namespace)].iter().enumerate()
    {
        let operator = project.launch().env("WATCH_NAMESPACE", names).start();
        let (served, left) = (format!("served-{number}"), format!("left-{number}"));
        project.apply(&left, json!({"objects": [config(&left, "blue")]})).await;
        project.apply(&served, json!({"objects": [config(&served, "blue")]})).await;
        project.label(&served, "serve", "yes").await;
        project.deployed(&served).await;
        assert!(project.status(&left).await.is_null(), "{names:?}");
        drop(operator);
    }
}

#[tokio::test]
async fn what_does_not_match_any_more_is_left_alone_and_told() {
    let project = Project::of_objects().await;
    project.watch_with("selector: {matchLabels: {serve: 'yes'}}");
    let _operator = project.run();
    for name in ["web", "witness"] {
        project.apply(name, json!({"objects": [config(name, "blue")]})).await;
        project.label(name, "serve", "yes").await;
        project.deployed(name).await;
    }
    project.label("web", "serve", "no").await;
    let told = until("it is told", async || project.events("web", "NotSelected").await.pop()).await;
    assert!(told.1.contains("A deletion waits until the labels match again"), "{told:?}");
    project.apply("web", json!({"objects": [config("web", "green")]})).await;
    project.crs().delete("web", &DeleteParams::default()).await.unwrap();
    // Whoever is served is served meanwhile, so the operator had its chance.
    project.apply("witness", json!({"objects": [config("witness", "green")]})).await;
    project.told("witness", "revision 2", |status| (status["deployedRelease"]["revision"] == 2).then_some(())).await;
    let config = project.get("v1", "ConfigMap", "web").await.expect("its objects stay");
    assert_eq!(config.data["data"]["colour"], "blue");
    let cr = project.crs().get("web").await.expect("it waits");
    assert!(cr.metadata.deletion_timestamp.is_some() && !cr.finalizers().is_empty());
    project.label("web", "serve", "yes").await;
    until("it goes with its objects", async || {
        let gone = project.crs().get_opt("web").await.unwrap().is_none();
        (gone && project.get("v1", "ConfigMap", "web").await.is_none()).then_some(())
    })
    .await;
}
