//! Nothing that one custom resource waits for holds up another.

use std::time::{Duration, Instant};

use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::FORCE;
use crate::harness::{Project, config, until, until_within};

const FINALIZER: &str = "example.com/never";
/// How long an edit may take on a busy machine. A wait inside of a worker takes a minute.
const PROMPT: Duration = Duration::from_secs(20);

/// A ConfigMap that cannot be changed and, once it is deleted, does not go.
fn stubborn(name: &str, colour: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "immutable": true,
        "metadata": {"name": name, "finalizers": [FINALIZER]}, "data": {"colour": colour},
    })
}

/// Edits a custom resource and waits until its ConfigMap shows that.
async fn is_prompt(project: &Project, name: &str, colour: &str) {
    let began = Instant::now();
    project.apply(name, json!({"objects": [config(name, colour)]})).await;
    until("the edit is in the cluster", async || {
        let config = project.get("v1", "ConfigMap", name).await?;
        (config.data["data"]["colour"] == colour).then_some(())
    })
    .await;
    let took = began.elapsed();
    assert!(took < PROMPT, "the edit of {name} took {took:?}");
}

async fn going(project: &Project) -> usize {
    let all = project.configs().list(&ListParams::default()).await.unwrap();
    all.iter().filter(|config| config.metadata.deletion_timestamp.is_some()).count()
}

async fn let_go(project: &Project, name: &str) {
    let patch = json!({"metadata": {"finalizers": null}});
    project.configs().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// `count` custom resources replace an object that does not go. Another one is edited meanwhile.
async fn replaced_objects_delay_nobody(project: &Project, count: usize) {
    let _operator = project.run();
    let names: Vec<String> = (0..count).map(|number| format!("stuck-{number}")).collect();
    let spec = |name: &str, colour: &str| json!({"objects": [stubborn(name, colour)]});
    for name in &names {
        project.apply(name, spec(name, "blue")).await;
        project.annotate(name, FORCE, "true").await;
    }
    project.apply("quick", json!({"objects": [config("quick", "blue")]})).await;
    for name in names.iter().map(String::as_str).chain(["quick"]) {
        until_within(Duration::from_secs(240), &format!("{name} is deployed"), async || {
            project.get("v1", "ConfigMap", name).await.map(|_| ())
        })
        .await;
        project.condition(name, "Deployed", "True").await;
    }
    for name in &names {
        project.apply(name, spec(name, "green")).await;
    }
    let some = count.min(25);
    until("objects are on their way out", async || (going(project).await >= some).then_some(())).await;
    is_prompt(project, "quick", "green").await;

    let first = names.first().unwrap();
    let told = project.condition(first, "Ready", "False").await;
    assert!(told["message"].as_str().unwrap().contains(first.as_str()), "{told}");
    let old = project.get("v1", "ConfigMap", first).await.unwrap().uid();
    let_go(project, first).await;
    let new = until("it is created again", async || {
        project.get("v1", "ConfigMap", first).await.filter(|config| config.uid() != old)
    })
    .await;
    assert_eq!(new.data["data"]["colour"], "green");
    project.condition(first, "Ready", "True").await;
    is_prompt(project, "quick", "red").await;
    for name in &names {
        let_go(project, name).await;
    }
}

#[tokio::test]
async fn replaced_objects_that_do_not_go_delay_no_other_edit() {
    replaced_objects_delay_nobody(&Project::of_objects().await, 70).await;
}

#[tokio::test]
async fn a_single_worker_is_not_held_by_a_replaced_object() {
    let project = Project::of_objects().await;
    project.watch_with("maxConcurrentReconciles: 1");
    replaced_objects_delay_nobody(&project, 1).await;
}

#[tokio::test]
async fn an_edit_goes_ahead_of_a_replacement_that_waits() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [stubborn("old", "blue"), config("web", "blue")]})).await;
    project.annotate("web", FORCE, "true").await;
    project.deployed("web").await;
    project.apply("web", json!({"objects": [stubborn("old", "green"), config("web", "green")]})).await;
    until("the object is on its way out", async || (going(&project).await == 1).then_some(())).await;
    // The newer spec does without it.
    is_prompt(&project, "web", "red").await;
    let_go(&project, "old").await;
    project.condition("web", "Ready", "True").await;
    until("it is gone", async || project.get("v1", "ConfigMap", "old").await.is_none().then_some(())).await;
}

#[tokio::test]
async fn a_crd_that_is_never_established_holds_no_worker_and_fails_in_time() {
    let project = Project::of_objects().await;
    project.watch_with("maxConcurrentReconciles: 1\nretries: 0");
    let _operator = project.run();
    project.apply("quick", json!({"objects": [config("quick", "blue")]})).await;
    project.condition("quick", "Ready", "True").await;
    let group = format!("{}.example.com", project.namespace);
    let crd = |plural: &str| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"kind": "Part", "plural": plural, "singular": plural},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        })
    };
    project.create(crd("parts")).await;
    let established = async || {
        let name = format!("parts.{group}");
        let crd = project.find("apiextensions.k8s.io/v1", "CustomResourceDefinition", None, &name).await?;
        let conditions = crd.data["status"]["conditions"].as_array()?.clone();
        conditions.iter().any(|it| it["type"] == "Established" && it["status"] == "True").then_some(())
    };
    until("the first is established", established).await;
    // Its kind is taken, so its names are never accepted.
    project.apply("stuck", json!({"objects": [crd("pieces")]})).await;
    until("the second is there", async || {
        let name = format!("pieces.{group}");
        project.find("apiextensions.k8s.io/v1", "CustomResourceDefinition", None, &name).await
    })
    .await;
    is_prompt(&project, "quick", "green").await;
    let told = until_within(Duration::from_secs(150), "the wait ends as a failure", async || {
        let status = project.status("stuck").await;
        let conditions = status["conditions"].as_array()?.iter();
        let mut messages = conditions.filter_map(|condition| condition["message"].as_str());
        messages.find(|message| message.contains("was not established within 60 s")).map(str::to_owned)
    })
    .await;
    assert!(told.contains("pieces"), "{told}");
    is_prompt(&project, "quick", "red").await;
    for plural in ["pieces", "parts"] {
        let api = project.objects("apiextensions.k8s.io/v1", "CustomResourceDefinition", None);
        api.delete(&format!("{plural}.{group}"), &Default::default()).await.unwrap();
    }
}
