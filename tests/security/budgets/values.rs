//! Specs and references that would take more memory or time than an operator has.

use kube::api::{ApiResource, PostParams};
use serde_json::{Value, json};

use super::{MEMORY_LIMIT, PROBES, Pulse, objects, peak_memory, post};
use crate::harness::Project;

const ANNOTATION: &str = "chartwright.dev/values-from";

async fn refer(project: &Project, name: &str, references: &str) {
    let ApiResource { api_version, kind, .. } = &project.resource;
    let cr = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "annotations": {ANNOTATION: references}}, "spec": {},
    });
    let cr = serde_json::from_value(cr).expect("a custom resource");
    project.crs().create(&PostParams::default(), &cr).await.expect("it is created");
}

fn list(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(",")
}

async fn config_map(project: &Project, name: &str, text: &str) {
    let metadata = json!({"name": name, "namespace": project.namespace});
    let object: Value =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"values.yaml": text}});
    project.create(object).await;
}

async fn refused(project: &Project, name: &str, reason: &str, why: &str) {
    let told = project.not_ready(name, reason).await;
    let message = told["message"].as_str().unwrap_or_default();
    assert!(message.contains(why), "{name}: {message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_specs_and_references_are_refused_for_that_custom_resource_alone() {
    let project = Project::of_objects().await;
    config_map(&project, "tiny", "a: 1").await;
    config_map(&project, "large", &format!("a: {}", "x".repeat(1000 * 1000))).await;
    let mut operator = project.launch().args(&[PROBES]).start();
    let pulse = Pulse::of(&operator).await;

    refer(&project, "indices", &format!("configmap/tiny@a{}", "[65536]".repeat(255))).await;
    refer(&project, "many", &list(1000, |number| format!("configmap/large@p{number}"))).await;
    refer(&project, "absent", &list(15_000, |number| format!("secret/s{number}?"))).await;
    refer(&project, "copies", &list(64, |number| format!("configmap/large@p{number}"))).await;
    let ApiResource { api_version, kind, plural, .. } = &project.resource;
    let maps = list(150_000, |_| r#"{"a":1}"#.to_owned());
    let wide = format!(
        r#"{{"apiVersion": "{api_version}", "kind": "{kind}", "metadata": {{"name": "wide"}}, "spec": {{"list": [{maps}]}}}}"#
    );
    post(&project, &format!("/apis/{api_version}/namespaces/{}/{plural}", project.namespace), wide).await;

    refused(&project, "indices", "InvalidValues", "more than 100000 items").await;
    refused(&project, "many", "InvalidAnnotation", "at most 64").await;
    refused(&project, "absent", "InvalidAnnotation", "at most 64").await;
    refused(&project, "copies", "InvalidValues", "more than 4 MiB").await;
    refused(&project, "wide", "InvalidValues", "more than 100000 items").await;
    project.apply("bystander", objects("bystander", "blue")).await;
    project.deployed("bystander").await;
    assert!(operator.runs(), "it ended");
    let peak = peak_memory(&operator);
    eprintln!("{} MiB at most, /healthz within {} ms", peak / 1024, pulse.check());
    assert!(peak < MEMORY_LIMIT / 2, "{} MiB", peak / 1024);
}
