//! A kind is served as soon as its CRD is there, and as what the CRD says it is, while others are served all the time.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::json;

use crate::harness::{Project, Scope, config, install_crd, uninstall_crd, until};

/// Makes a custom resource of another kind than the project's own.
async fn make(project: &Project, resource: &ApiResource, scope: Scope, name: &str) -> Api<DynamicObject> {
    let api: Api<DynamicObject> = match scope {
        Scope::Namespaced => Api::namespaced_with(project.client.clone(), &project.namespace, resource),
        Scope::Cluster => Api::all_with(project.client.clone(), resource),
    };
    let cr = json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name},
        "spec": {"objects": [config(name, "blue")]}});
    api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(cr)).await.unwrap();
    api
}

async fn has_config(project: &Project, name: &str) {
    until(&format!("the ConfigMap {name} is there"), async || project.get("v1", "ConfigMap", name).await).await;
}

#[tokio::test]
async fn a_crd_that_comes_late_is_waited_for_without_asking_again_and_again() {
    let project = Project::of_objects().await;
    let late = project.with_kind_to_come("Late");
    let start = Timestamp::now();
    let operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.condition("web", "Ready", "True").await;
    until("it waits", async || operator.log().contains("waiting for its CRD").then_some(())).await;
    let mut since = Timestamp::now();
    until("it asks nothing for four seconds", async || {
        if project.calls_since(since).iter().any(|call| !call.starts_with("watch ")) {
            since = Timestamp::now();
        }
        (Timestamp::now().duration_since(since) > SignedDuration::from_secs(4)).then_some(())
    })
    .await;
    let own = format!("/apis/{}", project.resource.api_version);
    let (streamed, listed): (Vec<_>, Vec<_>) = project
        .calls_since(start)
        .into_iter()
        .filter(|call| call.contains(&own))
        .partition(|call| call.starts_with("watch "));
    assert!(streamed.iter().any(|call| call.contains("sendInitialEvents=true")), "{streamed:#?}");
    assert!(!listed.iter().any(|call| call.starts_with("list ")), "a streamed list needs no other: {listed:#?}");
    install_crd(&project.client, &late, Scope::Namespaced).await;
    make(&project, &late, Scope::Namespaced, "late").await;
    has_config(&project, "late").await;
}

#[tokio::test]
async fn a_crd_that_is_made_again_with_another_scope_is_served_again() {
    let project = Project::of_objects().await;
    let other = project.with_kind("Other").await;
    let operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    make(&project, &other, Scope::Namespaced, "first").await;
    has_config(&project, "first").await;
    uninstall_crd(&project.client, &other).await;
    until("its release went with it", async || project.get("v1", "ConfigMap", "first").await.is_none().then_some(()))
        .await;
    until("it is told", async || operator.log().contains("its CRD went or became another").then_some(())).await;
    install_crd(&project.client, &other, Scope::Cluster).await;
    make(&project, &other, Scope::Cluster, "second").await;
    has_config(&project, "second").await;
    // The other kind was served all the time, and still is.
    project.apply("web", json!({"objects": [config("red", "red")]})).await;
    has_config(&project, "red").await;
    let broke = operator.log().lines().filter(|line| line.contains("broke")).count();
    assert!(broke <= 2, "{}", operator.log());
}

#[tokio::test]
async fn an_operator_that_may_not_watch_definitions_notices_too() {
    let project = Project::of_objects().await;
    let (name, user) = (project.user(), project.user());
    let rules = json!([
        {"apiGroups": [project.resource.group], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch", "create", "patch"]}]);
    let (rbac, group) = ("rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io");
    project
        .create(json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}))
        .await;
    let role = json!({"apiGroup": group, "kind": "ClusterRole", "name": name});
    let subjects = json!([{"apiGroup": group, "kind": "User", "name": user}]);
    let binding = json!({"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": role, "subjects": subjects});
    project.create(binding).await;
    let operator = project.launch().limited().start();
    let said = |words: &str| operator.log().lines().filter(|line| line.contains(words)).count();
    until("it serves the kind", async || (said("\"watching\"") == 1).then_some(())).await;
    until("it may not watch", async || (said("CustomResourceDefinitions cannot be watched") == 1).then_some(())).await;
    uninstall_crd(&project.client, &project.resource).await;
    until("it waits for the kind", async || (said("waiting for its CRD") == 1).then_some(())).await;
    install_crd(&project.client, &project.resource, Scope::Namespaced).await;
    until("it serves the kind again", async || (said("\"watching\"") == 2).then_some(())).await;
}
