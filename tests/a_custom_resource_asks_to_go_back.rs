//! `chartwright.dev/rollback-to` on a custom resource goes back to an earlier revision, and stays there until the spec changes.

use std::time::Duration;

use chartwright::calls::Calls;
use chartwright::release::{HeldBy, Status, Store};
use kube::ResourceExt;
use kube::api::Patch;
use serde_json::{Value, json};

use crate::harness::{Project, config, stays, until};

const ROLLBACK_TO: &str = "chartwright.dev/rollback-to";

async fn deploy(project: &Project, colours: &[&str]) {
    for colour in colours {
        project.apply("web", json!({"objects": [config("web", colour), config(colour, colour)]})).await;
        project.deployed("web").await;
        project.condition("web", "Ready", "True").await;
    }
}

async fn is(project: &Project, colour: &str) {
    until(&format!("it is {colour}"), async || {
        let config = project.get("v1", "ConfigMap", "web").await?;
        (config.data["data"]["colour"] == colour).then_some(())
    })
    .await;
}

async fn ask(project: &Project, revision: Value) {
    let patch = json!({"metadata": {"annotations": {ROLLBACK_TO: revision}}});
    project.crs().patch("web", &Default::default(), &Patch::Merge(patch)).await.unwrap();
}

/// Revision, status and description of the records.
async fn history(project: &Project) -> Vec<(u32, Status, String)> {
    let store = Store::new(Calls::new(project.client.clone()));
    let history = store.history(&project.namespace, "web").await.unwrap();
    history.iter().map(|release| (release.revision, release.status, release.description.clone())).collect()
}

#[tokio::test]
async fn it_is_done_once_and_held_until_the_spec_changes() {
    let project = Project::of_objects().await;
    let operator = project.run();
    deploy(&project, &["blue", "green"]).await;
    let uid = project.get("v1", "ConfigMap", "web").await.unwrap().uid();
    ask(&project, json!("1")).await;
    let held = project.condition("web", "Held", "True").await;
    assert_eq!(held["reason"], "RollbackRequested", "{held}");
    is(&project, "blue").await;
    project.condition("web", "Ready", "True").await;
    assert_eq!(project.get("v1", "ConfigMap", "web").await.unwrap().uid(), uid);
    assert!(project.get("v1", "ConfigMap", "green").await.is_none(), "what only the later revision had is gone");
    assert_eq!(history(&project).await[2], (3, Status::Deployed, "Rollback to 1".to_owned()));
    for helm in ["helm3", "helm4"] {
        assert!(project.helm(helm, &["history", "web"]).contains("Rollback to 1"), "{helm}");
    }
    drop(operator);
    let _operator = project.run();
    stays(Duration::from_secs(2), "it stays", async || history(&project).await.len()).await;

    deploy(&project, &["black"]).await;
    is(&project, "black").await;
    stays(Duration::from_secs(2), "the same request is not answered again", async || history(&project).await.len())
        .await;

    // Taken back and made again, it is a new one.
    ask(&project, Value::Null).await;
    until("the request is forgotten", async || {
        let store = Store::new(Calls::new(project.client.clone()));
        let history = store.history(&project.namespace, "web").await.unwrap();
        history.latest().unwrap().own.as_ref().unwrap().request.is_none().then_some(())
    })
    .await;
    ask(&project, json!("1")).await;
    is(&project, "blue").await;
    ask(&project, Value::Null).await;
    is(&project, "black").await;
}

#[tokio::test]
async fn a_revision_that_is_not_there_changes_nothing_and_is_told() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    deploy(&project, &["blue", "green"]).await;
    ask(&project, json!("7")).await;
    let told = project.not_ready("web", "NoSuchRevision").await;
    assert!(told["message"].as_str().unwrap().contains("no revision 7 to go back to, only 1, 2"), "{told}");
    is(&project, "green").await;
    ask(&project, json!("seven")).await;
    project.condition("web", "Ready", "True").await;
    let events = project.events("web", "InvalidAnnotation").await;
    assert!(events[0].1.contains("seven"), "{events:?}");
    ask(&project, json!("2")).await;
    let held = project.condition("web", "Held", "True").await;
    assert!(held["message"].as_str().unwrap().contains("Revision 2 stays"), "the one that is there is pinned: {held}");
    assert_eq!(history(&project).await.len(), 2);
}

#[tokio::test]
async fn claims_and_other_things_that_cannot_be_changed_are_left_alone() {
    let claim = |size: &str| {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}});
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec})
    };
    let job = |image: &str| {
        let pod = json!({"containers": [{"name": "a", "image": image}], "restartPolicy": "Never"});
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": format!("job-{image}")}, "spec": {"template": {"spec": pod}}})
    };
    let service =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}});
    let project = Project::of_objects().await;
    let _operator = project.run();
    let first = json!({"objects": [config("web", "blue"), service.clone(), job("one"), claim("2Gi")]});
    project.apply("web", first).await;
    project.deployed("web").await;
    let ip = project.get("v1", "Service", "web").await.unwrap().data["spec"]["clusterIP"].clone();
    let uid = project.get("v1", "PersistentVolumeClaim", "data").await.unwrap().uid();
    // The claim is dropped, so it is kept, and belongs to the release again afterwards.
    project.apply("web", json!({"objects": [config("web", "green"), service, job("two")]})).await;
    project.deployed("web").await;
    assert_eq!(project.status("web").await["kept"].as_array().unwrap().len(), 1);
    ask(&project, json!("1")).await;
    project.condition("web", "Held", "True").await;
    is(&project, "blue").await;
    assert_eq!(project.get("v1", "Service", "web").await.unwrap().data["spec"]["clusterIP"], ip);
    assert_eq!(project.get("v1", "PersistentVolumeClaim", "data").await.unwrap().uid(), uid);
    let store = Store::new(Calls::new(project.client.clone()));
    let history = store.history(&project.namespace, "web").await.unwrap();
    let hold = history.latest().unwrap().own.as_ref().unwrap().hold.clone().unwrap();
    assert_eq!((hold.by, hold.to), (HeldBy::Request, Some(1)));
}

#[tokio::test]
async fn a_claim_that_has_grown_stays_as_it_is() {
    let project = Project::of_objects().await;
    let class = project.namespace.clone();
    project
        .create(json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": class},
            "provisioner": "example.com/none", "allowVolumeExpansion": true}))
        .await;
    let claim = |size: &str| {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": size}}});
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec})
    };
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue"), claim("1Gi")]})).await;
    project.condition("web", "Deployed", "True").await;
    let claims = project.objects("v1", "PersistentVolumeClaim", Some(&project.namespace));
    let reference = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "data",
        "namespace": project.namespace, "uid": claims.get("data").await.unwrap().uid()});
    project
        .create(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": class}, "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "storageClassName": class,
            "hostPath": {"path": "/lab"}, "claimRef": reference}}))
        .await;
    until("the claim is bound", async || {
        let bound = claims.get("data").await.unwrap().data["status"]["phase"] == "Bound";
        bound.then_some(())
    })
    .await;
    project.apply("web", json!({"objects": [config("web", "green"), claim("2Gi")]})).await;
    project.deployed("web").await;
    ask(&project, json!("1")).await;
    project.condition("web", "Held", "True").await;
    is(&project, "blue").await;
    let claim = claims.get("data").await.unwrap();
    assert_eq!(claim.data["spec"]["resources"]["requests"]["storage"], "2Gi");
}

fn job(image: &str) -> Value {
    let pod = json!({"containers": [{"name": "a", "image": image}], "restartPolicy": "Never"});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": {"template": {"spec": pod}}})
}

#[tokio::test]
async fn by_force_an_object_whose_old_form_is_refused_is_made_again() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue"), job("one")]})).await;
    project.deployed("web").await;
    for force in ["upgrade-force", "rollback-force"] {
        project.annotate("web", &format!("helm.sdk.operatorframework.io/{force}"), "true").await;
    }
    project.apply("web", json!({"objects": [config("web", "green"), job("two")]})).await;
    project.deployed("web").await;
    ask(&project, json!("1")).await;
    project.condition("web", "Held", "True").await;
    is(&project, "blue").await;
    let job = project.get("batch/v1", "Job", "job").await.unwrap();
    assert_eq!(job.data["spec"]["template"]["spec"]["containers"][0]["image"], "one");
}

#[tokio::test]
async fn an_object_whose_old_form_is_refused_stays_as_it_is() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue"), job("one")]})).await;
    project.deployed("web").await;
    project.annotate("web", "helm.sdk.operatorframework.io/upgrade-force", "true").await;
    project.apply("web", json!({"objects": [config("web", "green"), job("two")]})).await;
    project.deployed("web").await;
    let second = project.get("batch/v1", "Job", "job").await.unwrap().uid();
    ask(&project, json!("1")).await;
    project.condition("web", "Held", "True").await;
    is(&project, "blue").await;
    let job = project.get("batch/v1", "Job", "job").await.unwrap();
    assert_eq!((job.uid(), &job.data["spec"]["template"]["spec"]["containers"][0]["image"]), (second, &json!("two")));
}
