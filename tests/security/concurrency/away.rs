//! An API that cannot be reached is not taken for one that is gone.

use std::time::Duration;

use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::harness::{Project, config, stays, until, until_within};

const CRD: &str = "CustomResourceDefinition";
const CRD_VERSION: &str = "apiextensions.k8s.io/v1";

fn group(project: &Project) -> String {
    format!("{}.example.com", project.namespace)
}

/// A release with an object of a kind whose API can be sent away.
async fn deployed() -> Project {
    let project = Project::of_objects().await;
    let group = group(&project);
    project
        .create(json!({
            "apiVersion": CRD_VERSION, "kind": CRD, "metadata": {"name": format!("parts.{group}")},
            "spec": {"group": group, "scope": "Namespaced", "names": {"kind": "Part", "plural": "parts"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}}}]},
        }))
        .await;
    project
}

async fn deploy(project: &Project) {
    let part = json!({"apiVersion": format!("{}/v1", group(project)), "kind": "Part", "metadata": {"name": "wheel"}});
    project.apply("web", json!({"objects": [part, config("web", "blue")]})).await;
    project.condition("web", "Deployed", "True").await;
    project.get(&format!("{}/v1", group(project)), "Part", "wheel").await.expect("the part");
}

/// Has the API served by a Service that does not exist.
async fn send_away(project: &Project) {
    let services = project.objects("apiregistration.k8s.io/v1", "APIService", None);
    let patch = json!({
        "metadata": {"labels": {"kube-aggregator.kubernetes.io/automanaged": null}},
        "spec": {"service": {"name": "nowhere", "namespace": project.namespace}, "insecureSkipTLSVerify": true},
    });
    let name = format!("v1.{}", group(project));
    services.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    until("the API is away", async || {
        let service = services.get(&name).await.unwrap();
        let conditions = service.data["status"]["conditions"].as_array()?.clone();
        conditions.iter().any(|it| it["type"] == "Available" && it["status"] == "False").then_some(())
    })
    .await;
}

/// The controller for CRDs registers the API again.
async fn bring_back(project: &Project) {
    let services = project.objects("apiregistration.k8s.io/v1", "APIService", None);
    services.delete(&format!("v1.{}", group(project)), &DeleteParams::default()).await.unwrap();
}

async fn records(project: &Project) -> usize {
    let secrets = project.objects("v1", "Secret", Some(&project.namespace));
    secrets.list(&ListParams::default().labels("owner=helm")).await.unwrap().items.len()
}

async fn remove_crd(project: &Project) {
    let crds = project.objects(CRD_VERSION, CRD, None);
    crds.delete(&format!("parts.{}", group(project)), &DeleteParams::default()).await.unwrap();
}

/// The deletion waits while the API is away, says so, and is finished when it is back.
async fn waits_for_the_api(policy: &str, restarts: bool) {
    let project = deployed().await;
    let mut operator = project.run();
    deploy(&project).await;
    project.annotate("web", "chartwright.dev/deletion-policy", policy).await;
    send_away(&project).await;
    if restarts {
        drop(operator);
        operator = project.run();
    }
    project.delete("web").await;
    let told = until("it is told which API is away", async || {
        let cr = project.crs().get_opt("web").await.unwrap().expect("the custom resource waits");
        let conditions = cr.data["status"]["conditions"].as_array()?.clone();
        let messages = conditions.iter().filter_map(|it| it["message"].as_str().map(str::to_owned));
        messages.into_iter().find(|message| message.contains(&group(&project)))
    })
    .await;
    assert!(told.contains("not available"), "{told}");
    stays(Duration::from_secs(5), "it waits, and its record stays", async || {
        (project.crs().get_opt("web").await.unwrap().is_some(), records(&project).await)
    })
    .await;
    assert!(records(&project).await > 0);
    bring_back(&project).await;
    until_within(Duration::from_secs(150), "the custom resource goes", async || {
        project.crs().get_opt("web").await.unwrap().is_none().then_some(())
    })
    .await;
    let wheel = project.get(&format!("{}/v1", group(&project)), "Part", "wheel").await;
    match policy {
        "orphan" => assert!(wheel.is_some_and(|wheel| wheel.owner_references().is_empty()), "it is left free"),
        _ => {
            until("the part goes", async || {
                project.get(&format!("{}/v1", group(&project)), "Part", "wheel").await.is_none().then_some(())
            })
            .await
        }
    }
    remove_crd(&project).await;
    drop(operator);
}

#[tokio::test]
async fn an_uninstall_waits_for_an_api_that_is_away() {
    waits_for_the_api("uninstall", false).await;
}

#[tokio::test]
async fn an_uninstall_waits_also_if_the_operator_never_saw_the_api() {
    waits_for_the_api("uninstall", true).await;
}

#[tokio::test]
async fn objects_that_are_left_free_wait_for_an_api_that_is_away() {
    waits_for_the_api("orphan", true).await;
}

#[tokio::test]
async fn an_uninstall_does_not_wait_for_a_kind_that_is_gone() {
    let project = deployed().await;
    let _operator = project.run();
    deploy(&project).await;
    remove_crd(&project).await;
    project.delete("web").await;
    project.gone("web").await;
    assert_eq!(records(&project).await, 0);
}
