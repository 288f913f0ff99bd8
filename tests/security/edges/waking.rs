//! Objects of one namespace cannot keep the custom resources of another one busy.

use std::time::{Duration, Instant};

use chartwright::plan::{PRIMARY_RESOURCE, PRIMARY_RESOURCE_TYPE, RELEASE_LABEL};
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::harness::asking::get;
use crate::harness::prometheus::Scrape;
use crate::harness::{Project, config, until, until_calm, within};

async fn reconciles(address: &str) -> f64 {
    let scrape = Scrape::read(&get(address, "/metrics", None).await.unwrap().body);
    scrape.value("controller_runtime_reconcile_total", &[]).unwrap_or_default()
}

#[tokio::test]
async fn a_stranger_wakes_a_custom_resource_of_another_namespace_seldom() {
    let project = Project::of_objects().await;
    let operator = project.launch().args(&["--metrics-bind-address=127.0.0.1:0"]).start();
    let address = operator.address("metrics").await;
    project.apply("victim", json!({"objects": [config("victim", "blue")]})).await;
    project.deployed("victim").await;
    until_calm(Duration::from_millis(1500), "the victim is at rest", async || reconciles(&address).await).await;
    let (before, begun) = (reconciles(&address).await, Instant::now());
    let mine = project.another_namespace("mallory").await;
    let configs = project.objects("v1", "ConfigMap", Some(&mine));
    let mut poke = within(&mine, config("poke", "red"));
    poke["metadata"]["labels"] = json!({RELEASE_LABEL: "victim"});
    poke["metadata"]["annotations"] = json!({
        PRIMARY_RESOURCE: format!("{}/victim", project.namespace),
        PRIMARY_RESOURCE_TYPE: format!("{}.{}", project.resource.kind, project.resource.group),
    });
    let poke = serde_json::from_value(poke).unwrap();
    for _ in 0..40 {
        configs.create(&PostParams::default(), &poke).await.unwrap();
        configs.delete("poke", &DeleteParams::default()).await.unwrap();
        until("it is gone", async || configs.get_opt("poke").await.unwrap().is_none().then_some(())).await;
    }
    // The scrape may be a second old.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let woken = reconciles(&address).await - before;
    let allowed = begun.elapsed().as_secs_f64() / 5.0 + 2.0;
    assert!(woken <= allowed, "{woken} turns, and {allowed} are enough");
}

#[tokio::test]
async fn what_the_release_holds_in_another_namespace_is_repaired_at_once_also_after_a_restart() {
    let project = Project::of_objects().await;
    let elsewhere = project.another_namespace("shared").await;
    let operator = project.run();
    project.apply("web", json!({"objects": [within(&elsewhere, config("web", "blue"))]})).await;
    project.deployed("web").await;
    let configs = project.objects("v1", "ConfigMap", Some(&elsewhere));
    let repaired = async || {
        let uid = configs.get("web").await.unwrap().metadata.uid;
        configs.delete("web", &DeleteParams::default()).await.unwrap();
        until("it is there again", async || {
            configs.get_opt("web").await.unwrap().filter(|now| now.metadata.uid != uid).map(|_| ())
        })
        .await;
    };
    repaired().await;
    drop(operator);
    let _operator = project.run();
    project.deployed("web").await;
    repaired().await;
}
