//! This build of the operator takes over what an earlier build deployed, without a change to any of its objects.

use std::ffi::OsString;
use std::time::Duration;

use chartwright::calls::Calls;
use chartwright::object::ObjectId;
use chartwright::release::Store;
use kube::ResourceExt;
use serde_json::json;

use crate::harness::{Project, until, until_calm};

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
async fn releases_of_an_earlier_build_are_taken_over_without_a_change_to_their_objects() {
    let earlier = std::env::var_os("FROM").filter(|from| !from.is_empty());
    let earlier = earlier.expect("FROM names the earlier build, as in: make upgrade-proof FROM=path");
    for (kind, chart) in CHARTS {
        let objects = upgrade(&earlier, kind, chart).await;
        println!("{chart}: taken over, {objects} objects, none of them changed");
    }
}

/// Returns how many objects the release has.
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
    until_calm(Duration::from_secs(2), "the objects rest", async || versions(&project).await).await;
    let before = versions(&project).await;
    let _operator = launch().start();
    project.not_ready("web", "RecordUnproven").await;
    project.cli(&["trust", "open", "--yes", "--operator-namespace", &system]).good();
    project.condition("web", "Ready", "True").await;
    until("the record is signed", async || {
        let state = project.cli(&["trust", "status", "-o", "json", "--operator-namespace", &system]).json();
        (state["window"]["signed"] == 1).then_some(())
    })
    .await;
    assert_eq!(versions(&project).await, before, "{chart}");
    assert_eq!(project.status("web").await["deployedRelease"]["revision"], 2, "{chart}");
    before.len()
}

/// The resource version of each object of the release: it changes with every change.
async fn versions(project: &Project) -> Vec<(String, Option<String>)> {
    let store = Store::new(Calls::new(project.client.clone()));
    let release = store.get(&project.namespace, "web", 2).await.unwrap();
    let own = release.own.or(release.claimed.map(|claimed| *claimed)).expect("the inventory of the release");
    let mut versions = vec![];
    for ObjectId { group, version, kind, namespace, name } in own.objects.into_iter().map(|applied| applied.id) {
        let api_version = if group.is_empty() { version } else { format!("{group}/{version}") };
        let found = project.find(&api_version, &kind, namespace.as_deref(), &name).await;
        versions.push((format!("{kind} {name}"), found.and_then(|object| object.resource_version())));
    }
    versions
}
