//! An object that exists and belongs to somebody else stays theirs, and the condition says whose it is.

use std::process::{Command, Stdio};
use std::time::Duration;

use futures::future::join_all;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::harness::{Project, config, control_plane, stays, tool, until, until_calm, within};

fn identity(object: &DynamicObject) -> (Option<String>, Option<String>, Value) {
    (object.uid(), object.resource_version(), object.data["data"].clone())
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})
}

#[tokio::test]
async fn of_two_that_want_the_same_object_at_once_one_gets_it_and_they_do_not_fight() {
    const ROUNDS: usize = 8;
    let project = Project::of_objects().await;
    let _operator = project.run();
    let names: Vec<_> =
        (0..ROUNDS).flat_map(|round| ["a", "b"].map(|side| (round, format!("{side}{round}")))).collect();
    join_all(names.iter().map(async |(round, name)| {
        // Secrets are applied first: that is the moment in which both believe that the ConfigMap is free.
        let mut objects: Vec<_> = (0..12).map(|number| secret(&format!("{name}-{number}"))).collect();
        objects.push(config(&format!("shared{round}"), name));
        project.apply(name, json!({"objects": objects})).await;
    }))
    .await;
    for round in 0..ROUNDS {
        let shared = format!("shared{round}");
        let object = until("somebody has it", async || project.get("v1", "ConfigMap", &shared).await).await;
        let winner = object.owner_references()[0].name.clone();
        assert_eq!(object.data["data"]["colour"], winner.as_str());
        let loser = if winner.starts_with('a') { format!("b{round}") } else { format!("a{round}") };
        project.condition(&winner, "Ready", "True").await;
        let message = project.not_ready(&loser, "BelongsToAnother").await["message"].to_string();
        assert!(message.contains(&shared) && message.contains(&winner), "{message}");
    }
    stays(Duration::from_secs(4), "nobody writes any more", async || {
        let all = project.configs().list(&Default::default()).await.unwrap();
        all.items.iter().filter(|it| it.name_any().starts_with("shared")).map(identity).collect::<Vec<_>>()
    })
    .await;
}

fn helm_install(project: &Project, helm: &str, release: &str) {
    let output = Command::new(tool(helm))
        .args(["install", release, "foreign", "--namespace", &project.namespace, "--set", &format!("name={release}")])
        .env_clear()
        .env("KUBECONFIG", control_plane().kubeconfig())
        .env("HOME", project.dir())
        .current_dir(project.dir())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn what_a_person_installed_with_helm_is_not_taken() {
    let project = Project::of_objects().await;
    project.file("foreign/Chart.yaml", "apiVersion: v2\nname: foreign\nversion: 0.1.0\n");
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Values.name }}'}\ndata: {colour: theirs}\n";
    project.file("foreign/templates/config.yaml", template);
    let _operator = project.run();
    for helm in ["helm3", "helm4"] {
        let release = format!("by-{helm}");
        helm_install(&project, helm, &release);
        let before = identity(&project.get("v1", "ConfigMap", &release).await.unwrap());
        // One that wants the object, and one that wants the release.
        let wants = format!("wants-{helm}");
        project.apply(&wants, json!({"objects": [config(&release, "ours"), config(&wants, "ours")]})).await;
        let message = project.not_ready(&wants, "BelongsToAnother").await["message"].to_string();
        assert!(message.contains(&format!("the Helm release {}/{release}", project.namespace)), "{message}");
        assert!(project.get("v1", "ConfigMap", &wants).await.is_none(), "nothing else was made either");
        project.apply(&release, json!({"objects": [config(&release, "ours")]})).await;
        let message = project.not_ready(&release, "BelongsToAnother").await["message"].to_string();
        assert!(message.contains("another tool"), "{message}");
        for name in [&wants, &release] {
            project.delete(name).await;
            project.gone(name).await;
        }
        assert_eq!(identity(&project.get("v1", "ConfigMap", &release).await.unwrap()), before);
        let record = project.get("v1", "Secret", &format!("sh.helm.release.v1.{release}.v1")).await;
        assert!(record.is_some(), "the record of {helm} is gone");
    }
}

#[tokio::test]
async fn a_loose_object_is_taken_only_on_request() {
    let project = Project::of_objects().await;
    project.watch_with("adopt: objects");
    let _operator = project.run();
    let before = project.create(within(&project.namespace, config("loose", "theirs"))).await;
    project.apply("web", json!({"objects": [config("loose", "ours")]})).await;
    let message = project.not_ready("web", "BelongsToAnother").await["message"].to_string();
    assert!(message.contains("loose") && message.contains("chartwright.dev/adopt"), "{message}");
    assert_eq!(identity(&project.get("v1", "ConfigMap", "loose").await.unwrap()), identity(&before));
    project.annotate("web", "chartwright.dev/adopt", "true").await;
    project.condition("web", "Ready", "True").await;
    let taken = project.get("v1", "ConfigMap", "loose").await.unwrap();
    assert_eq!((taken.uid(), &taken.data["data"]["colour"]), (before.uid(), &json!("ours")));
    assert!(taken.owner_references().is_empty(), "it existed before, so it does not go with the custom resource");
    assert_eq!(taken.annotations()["operator-sdk/primary-resource"], format!("{}/web", project.namespace));
    assert_eq!(taken.annotations()["chartwright.dev/adopted"], format!("{}/web", project.namespace));
    let adopted = json!([format!("ConfigMap {}/loose", project.namespace)]);
    assert_eq!(project.status("web").await["adopted"], adopted, "the status remembers");
    project.apply("web", json!({"objects": [config("loose", "green"), config("more", "green")]})).await;
    project.deployed("web").await;
    assert_eq!(project.status("web").await["adopted"], adopted, "also in later revisions");
}

#[tokio::test]
async fn an_annotation_does_not_take_what_somebody_owns() {
    let project = Project::of_objects().await;
    project.watch_with("adopt: objects");
    let _operator = project.run();
    project.apply("owner", json!({"objects": [config("taken", "theirs")]})).await;
    project.condition("owner", "Ready", "True").await;
    project.apply("web", json!({"objects": [config("taken", "ours")]})).await;
    project.annotate("web", "chartwright.dev/adopt", "true").await;
    let message = project.not_ready("web", "BelongsToAnother").await["message"].to_string();
    assert!(message.contains("App owner"), "{message}");
    assert_eq!(project.get("v1", "ConfigMap", "taken").await.unwrap().data["data"]["colour"], "theirs");
}

#[tokio::test]
async fn two_kinds_with_the_same_name_do_not_touch_each_others_release() {
    let project = Project::of_objects().await;
    let other = project.with_kind("Other").await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("of-app", "blue")]})).await;
    project.condition("web", "Ready", "True").await;
    let record = async || identity(&project.get("v1", "Secret", "sh.helm.release.v1.web.v1").await.unwrap());
    let cr = json!({"apiVersion": other.api_version, "kind": "Other",
        "metadata": {"name": "web", "namespace": project.namespace}, "spec": {"objects": [config("of-other", "red")]}});
    project.create(cr).await;
    let others = project.objects(&other.api_version, "Other", Some(&project.namespace));
    let ready = until("the other one says why not", async || {
        let status = others.get("web").await.unwrap().data.get("status").cloned()?;
        // At first it may say something that passes.
        let is_meant = |it: &&Value| it["type"] == "Ready" && it["reason"] == "BelongsToAnother";
        status["conditions"].as_array()?.iter().find(is_meant).cloned()
    })
    .await;
    assert!(ready["message"].as_str().unwrap().contains("App web"), "{ready}");
    assert!(project.get("v1", "ConfigMap", "of-other").await.is_none());
    // It neither tells of the other's release nor looks after it.
    project.configs().delete("of-app", &Default::default()).await.unwrap();
    let back = until("it comes back", async || project.get("v1", "ConfigMap", "of-app").await).await;
    assert_eq!(back.owner_references()[0].kind, "App");
    let refused = others.get("web").await.unwrap();
    assert!(refused.data["status"].get("deployedRelease").is_none(), "{}", refused.data["status"]);
    assert!(refused.finalizers().is_empty() && refused.annotations().keys().all(|key| !key.contains("applyset")));
    // A repair is written into the record of whoever repairs.
    until_calm(Duration::from_secs(1), "the repair is recorded", async || record().await).await;
    let before = record().await;
    others.delete("web", &Default::default()).await.unwrap();
    until("it is gone", async || others.get_opt("web").await.unwrap().is_none().then_some(())).await;
    assert_eq!(record().await, before);
    assert!(project.get("v1", "ConfigMap", "of-app").await.is_some());
    project.condition("web", "Ready", "True").await;
}
