//! This build of the operator takes over what an earlier build deployed, without a write to any of its objects.

use std::ffi::OsString;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::harness::{Project, until};

const CHARTS: [(&str, &str); 6] = [
    ("Nginx", "helm-charts/nginx"),
    ("Database", "tests/charts/database"),
    ("Hooked", "tests/charts/hooked"),
    ("Worker", "tests/charts/worker"),
    ("Umbrella", "tests/charts/umbrella"),
    ("Gadget", "tests/charts/gadgets"),
];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it requires an earlier build: make upgrade-proof FROM=path"]
async fn releases_of_an_earlier_build_are_taken_over_without_a_write_to_their_objects() {
    let earlier = std::env::var_os("FROM").filter(|from| !from.is_empty());
    let earlier = earlier.expect("FROM names the earlier build, as in: make upgrade-proof FROM=path");
    for (kind, chart) in CHARTS {
        let writes = upgrade(&earlier, kind, chart).await;
        println!("{chart}: taken over, {writes} writes to its records and its custom resource, none to its objects");
    }
}

/// Returns how often the new build wrote.
async fn upgrade(earlier: &OsString, kind: &str, chart: &str) -> usize {
    let project = Project::with_chart(kind, chart).await.reaching_out();
    let system = project.another_namespace("system").await;
    let launch = || project.launch().env("POD_NAMESPACE", &system);
    let operator = launch().binary(earlier.clone()).start();
    project.apply("web", json!({})).await;
    project.condition("web", "Ready", "True").await;
    // The schema of this chart refuses other values.
    let edited = if kind == "Nginx" { json!({"replicaCount": 2}) } else { json!({"upgraded": true}) };
    project.apply("web", edited).await;
    project.deployed("web").await;
    project.condition("web", "Ready", "True").await;
    // The last status and the last revision are written.
    until("the revision is in the status", async || {
        (project.status("web").await["deployedRelease"]["revision"] == 2).then_some(())
    })
    .await;
    drop(operator);
    let since = Timestamp::now();
    let _operator = launch().start();
    project.not_ready("web", "RecordUnproven").await;
    project.cli(&["trust", "open", "--yes", "--operator-namespace", &system]).good();
    project.condition("web", "Ready", "True").await;
    until("the record is signed", async || {
        let state = project.cli(&["trust", "status", "-o", "json", "--operator-namespace", &system]).json();
        (state["window"]["signed"] == 1).then_some(())
    })
    .await;
    let writes: Vec<Value> = project.audited_since(since).into_iter().filter(is_write).collect();
    let to_objects: Vec<&Value> = writes.iter().filter(|call| !is_own_work(&project, &system, call)).collect();
    assert!(to_objects.is_empty(), "{chart}: {to_objects:#?}");
    assert_eq!(project.status("web").await["deployedRelease"]["revision"], 2, "{chart}");
    writes.len()
}

fn is_write(call: &Value) -> bool {
    let verb = call["verb"].as_str().unwrap_or_default();
    let request = call["requestURI"].as_str().unwrap_or_default();
    !["get", "list", "watch"].contains(&verb) && !request.contains("dryRun=All")
}

/// Events, reviews of rights, the operator's own namespace, Helm's records, and the custom resource.
fn is_own_work(project: &Project, system: &str, call: &Value) -> bool {
    let text = |key: &str| call["objectRef"][key].as_str().unwrap_or_default();
    match (text("apiGroup"), text("resource")) {
        ("authorization.k8s.io" | "authentication.k8s.io" | "events.k8s.io", _) => true,
        ("", "secrets") => text("namespace") == system || text("name").starts_with("sh.helm.release.v1."),
        (group, _) => group == project.resource.group,
    }
}
