//! Releases whose values depend on each other are refused, over any number of releases.

use std::time::Duration;

use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::harness::{Project, stays, until, until_calm};

const ANNOTATION: &str = "chartwright.dev/values-from";

/// A chart whose object says another thing with every revision.
async fn project(kind: &str) -> Project {
    project_that_says(kind, "turn: {{ .Release.Revision }}").await
}

async fn project_that_says(kind: &str, text: &str) -> Project {
    let project = Project::new("App").await;
    let data = match kind {
        "Secret" => "stringData",
        _ => "data",
    };
    project.template(
        "source.yaml",
        &format!(
            "apiVersion: v1\nkind: {kind}\nmetadata: {{name: '{{{{ .Release.Name }}}}'}}\n{data}: {{values.yaml: '{text}'}}\n"
        ),
    );
    project
}

/// A custom resource whose values come from the object that another one's release makes.
async fn make(project: &Project, resource: &ApiResource, kind: &str, name: &str, from: &str) {
    let api: Api<DynamicObject> = Api::namespaced_with(project.client.clone(), &project.namespace, resource);
    let cr = json!({
        "apiVersion": resource.api_version, "kind": resource.kind,
        "metadata": {"name": name, "annotations": {ANNOTATION: format!("{}/{from}?", kind.to_lowercase())}},
        "spec": {"source": from},
    });
    api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(cr)).await.unwrap();
}

/// The newest revision of each release in the namespace.
async fn newest(project: &Project) -> Vec<(String, u32)> {
    let secrets = project.objects("v1", "Secret", Some(&project.namespace));
    let records = secrets.list(&ListParams::default().labels("owner=helm")).await.unwrap();
    let mut newest: Vec<(String, u32)> = vec![];
    for record in records {
        let label = |key: &str| record.labels().get(key).cloned().unwrap_or_default();
        let (name, version) = (label("name"), label("version").parse().unwrap_or(0));
        match newest.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = version.max(*known),
            None => newest.push((name, version)),
        }
    }
    newest.sort();
    newest
}

/// All of them are refused, each with all names in its message, and make no more revisions.
async fn all_are_refused(project: &Project, names: &[&str]) {
    for name in names {
        let told = project.not_ready(name, "InvalidValues").await;
        let message = told["message"].as_str().unwrap().to_owned();
        for on_it in names {
            assert!(message.contains(&format!(" {on_it} ")) || message.contains(&format!(" {on_it},")), "{message}");
        }
    }
    stays(Duration::from_secs(8), "no more revisions", async || newest(project).await).await;
    let newest = newest(project).await;
    assert!(newest.iter().all(|(_, revision)| *revision <= 4), "{newest:?}");
}

async fn ring(kind: &str, names: &[&str]) -> Project {
    let project = project(kind).await;
    for (at, name) in names.iter().enumerate() {
        make(&project, &project.resource, kind, name, names[(at + 1) % names.len()]).await;
    }
    project
}

#[tokio::test]
async fn two_releases_that_take_values_from_each_other_are_refused() {
    let names = ["alpha", "beta"];
    let project = ring("ConfigMap", &names).await;
    let _operator = project.run();
    all_are_refused(&project, &names).await;
    assert!(!project.events("alpha", "InvalidValues").await.is_empty());
}

#[tokio::test]
async fn a_cycle_of_three_over_secrets_is_refused_and_ends_when_one_lets_go() {
    let names = ["alpha", "beta", "gamma"];
    let project = ring("Secret", &names).await;
    let _operator = project.run();
    all_are_refused(&project, &names).await;
    // One reference less, and all go on.
    let patch = json!({"metadata": {"annotations": {ANNOTATION: null}}});
    project.crs().patch("gamma", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    for name in names {
        project.condition(name, "Ready", "True").await;
    }
    let spec = json!({"spec": {"edited": true}});
    project.crs().patch("gamma", &PatchParams::default(), &Patch::Merge(spec)).await.unwrap();
    project.deployed("gamma").await;
}

#[tokio::test]
async fn a_cycle_over_two_kinds_is_refused() {
    let project = project("ConfigMap").await;
    let other = project.with_kind("Shop").await;
    make(&project, &project.resource, "ConfigMap", "alpha", "beta").await;
    make(&project, &other, "ConfigMap", "beta", "alpha").await;
    let _operator = project.run();
    let told = project.not_ready("alpha", "InvalidValues").await;
    let message = told["message"].as_str().unwrap();
    let group = &project.resource.group;
    let names = [format!("app.{group}/alpha"), format!("shop.{group}/beta")];
    assert!(names.iter().all(|name| message.contains(name)), "{message}");
    let shops: Api<DynamicObject> = Api::namespaced_with(project.client.clone(), &project.namespace, &other);
    until("the other one is refused too", async || {
        let conditions = shops.get("beta").await.unwrap().data["status"]["conditions"].as_array()?.clone();
        conditions.iter().any(|it| it["type"] == "Ready" && it["reason"] == "InvalidValues").then_some(())
    })
    .await;
    stays(Duration::from_secs(5), "no more revisions", async || newest(&project).await).await;
}

#[tokio::test]
async fn releases_that_exchange_constants_are_refused_until_one_takes_them_from_elsewhere() {
    let names = ["alpha", "beta"];
    let project = project_that_says("ConfigMap", "address: db.example.com").await;
    for (name, from) in names.iter().zip(["beta", "alpha"]) {
        make(&project, &project.resource, "ConfigMap", name, from).await;
    }
    let _operator = project.run();
    all_are_refused(&project, &names).await;
    let told = project.not_ready("alpha", "InvalidValues").await;
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("an object that none of these releases makes"), "{message}");
    let shared = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared", "namespace": project.namespace},
        "data": {"values.yaml": "address: db.example.com"},
    });
    project.create(shared).await;
    make(&project, &project.resource, "ConfigMap", "alpha", "shared").await;
    for name in names {
        project.condition(name, "Ready", "True").await;
    }
}

#[tokio::test]
async fn an_annotation_on_an_object_hides_no_cycle() {
    let project = project("ConfigMap").await;
    let shop = project.with_kind("Shop").await;
    let _operator = project.run();
    make(&project, &shop, "ConfigMap", "beta", "nothing").await;
    until("the object is there", async || project.get("v1", "ConfigMap", "beta").await).await;
    // The object of beta also claims that alpha has made it.
    let claim = json!({"metadata": {"annotations": {
        "operator-sdk/primary-resource": format!("{}/alpha", project.namespace),
        "operator-sdk/primary-resource-type": format!("{}.{}", project.resource.kind, project.resource.group),
    }}});
    let configs = project.objects("v1", "ConfigMap", Some(&project.namespace));
    configs.patch("beta", &PatchParams::default(), &Patch::Merge(claim)).await.unwrap();
    make(&project, &project.resource, "ConfigMap", "alpha", "beta").await;
    project.condition("alpha", "Ready", "True").await;
    make(&project, &shop, "ConfigMap", "beta", "alpha").await;
    let told = project.not_ready("alpha", "InvalidValues").await;
    let message = told["message"].as_str().unwrap();
    let group = &project.resource.group;
    let names = [format!("app.{group}/alpha"), format!("shop.{group}/beta")];
    assert!(names.iter().all(|name| message.contains(name)), "{message}");
    stays(Duration::from_secs(5), "no more revisions", async || newest(&project).await).await;
}

#[tokio::test]
async fn a_cycle_that_is_closed_later_is_refused_and_a_row_is_not() {
    let project = project("ConfigMap").await;
    let _operator = project.run();
    project.apply("alpha", json!({})).await;
    make(&project, &project.resource, "ConfigMap", "beta", "alpha").await;
    make(&project, &project.resource, "ConfigMap", "gamma", "beta").await;
    for name in ["alpha", "beta", "gamma"] {
        project.condition(name, "Ready", "True").await;
    }
    // What changes at the head of a row arrives at its end, which may have begun without a source.
    let revision = async || project.status("gamma").await["deployedRelease"]["revision"].as_u64();
    until_calm(Duration::from_secs(2), "the last one has all it asks for", revision).await;
    let began = revision().await;
    project.apply("alpha", json!({"edited": true})).await;
    project.deployed("alpha").await;
    until("the last one follows", async || revision().await.filter(|now| Some(*now) > began)).await;
    let before = newest(&project).await.into_iter().find(|(name, _)| name == "alpha");
    make(&project, &project.resource, "ConfigMap", "alpha", "gamma").await;
    all_are_refused(&project, &["alpha", "beta", "gamma"]).await;
    let after = newest(&project).await.into_iter().find(|(name, _)| name == "alpha");
    assert_eq!(after, before, "the one that closes the cycle makes no revision of it");
}
