//! When the API server goes and comes back, the operator goes on where it was, and says little about it.

use std::time::Duration;

use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;

use crate::harness::proxy::{Line, Proxy};
use crate::harness::{Project, config, until};

#[tokio::test]
async fn what_happened_while_the_api_server_was_away_is_seen_afterwards() {
    let project = Project::of_objects().await;
    let proxy = Proxy::start().await;
    let operator = project.launch().through(&proxy).start();
    for name in ["web", "goes"] {
        project.apply(name, json!({"objects": [config(name, "blue")]})).await;
        project.deployed(name).await;
    }
    proxy.set(Line::Cut);
    until("it is told", async || operator.log().contains("the watch broke").then_some(())).await;
    let old = project.get("v1", "ConfigMap", "web").await.unwrap().uid();
    project.configs().delete("web", &DeleteParams::default()).await.unwrap();
    project.delete("goes").await;
    project.apply("comes", json!({"objects": [config("comes", "blue")]})).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    proxy.set(Line::Open);
    until("it is there again", async || project.get("v1", "ConfigMap", "web").await.filter(|new| new.uid() != old))
        .await;
    project.gone("goes").await;
    project.deployed("comes").await;

    // And once more after that: the watches were taken up, not just read once.
    let old = project.get("v1", "ConfigMap", "web").await.unwrap().uid();
    project.configs().delete("web", &DeleteParams::default()).await.unwrap();
    until("it is there again", async || project.get("v1", "ConfigMap", "web").await.filter(|new| new.uid() != old))
        .await;
    let warnings = operator.log().lines().filter(|line| line.contains("broke")).count();
    // One each for the custom resources, their ConfigMaps, the records, the CRDs, the signing key and the window for unsigned records.
    assert!(warnings <= 6, "{}", operator.log());
}
