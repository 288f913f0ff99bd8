//! What helm or operator-sdk installed becomes a custom resource's release where it is: nothing is made again, nothing restarts,
//! and revisions go on. What helm installed outlives the custom resource.

use std::time::Duration;

use chartwright::calls::Calls;
use chartwright::release::{Status, Store};
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PropagationPolicy};
use serde_json::{Value, json};

use crate::harness::{Project, copy_program, stays, tool, until};

const CHART: &str = "tests/charts/adoptable";

async fn project() -> Project {
    let project = Project::with_chart("App", CHART).await;
    project.watch_with("adopt: releases");
    project
}

/// Everything that must not change: who the objects are, what pods look like, and what was drawn by lot.
async fn identity(project: &Project, name: &str) -> Value {
    let of = async |api_version: &str, kind: &str| project.get(api_version, kind, name).await.unwrap();
    let (deployment, secret) = (of("apps/v1", "Deployment").await, of("v1", "Secret").await);
    let replica_sets = project.objects("apps/v1", "ReplicaSet", Some(&project.namespace));
    let replica_sets = replica_sets.list(&ListParams::default().labels(&format!("app={name}"))).await.unwrap().items;
    let replica_sets: Vec<_> = replica_sets.iter().map(ResourceExt::name_any).collect();
    json!({
        "uids": [deployment.uid(), secret.uid(), of("v1", "Service").await.uid(), of("v1", "ConfigMap").await.uid()],
        "template": deployment.data["spec"]["template"],
        "replica sets": replica_sets,
        "password": secret.data["data"],
    })
}

async fn rolled_out(project: &Project, name: &str) {
    until("the Deployment is rolled out", async || {
        let deployment = project.get("apps/v1", "Deployment", name).await?;
        (deployment.data["status"]["availableReplicas"] == 1).then_some(())
    })
    .await;
}

async fn revisions(project: &Project, name: &str) -> Vec<(u32, Status, bool)> {
    let history = Store::new(Calls::new(project.client.clone())).history(&project.namespace, name).await.unwrap();
    history.iter().map(|release| (release.revision, release.status, release.is_ours())).collect()
}

fn entries(object: &DynamicObject) -> Vec<(String, String)> {
    let fields = object.metadata.managed_fields.iter().flatten().filter(|entry| entry.subresource.is_none());
    fields.map(|entry| (entry.manager.clone().unwrap(), entry.operation.clone().unwrap())).collect()
}

#[tokio::test]
async fn what_helm_installed_with_the_same_values_stays_just_as_it_is() {
    for helm in ["helm3", "helm4"] {
        let project = project().await;
        project.helm(helm, &["install", "web", "charts/app", "--set", "colour=green"]);
        rolled_out(&project, "web").await;
        let before = identity(&project, "web").await;
        let _operator = project.run();
        project.apply("web", json!({"colour": "green"})).await;
        project.condition("web", "Ready", "True").await;
        assert_eq!(revisions(&project, "web").await, [(1, Status::Deployed, true)], "{helm}: nothing new came of it");
        assert_eq!(identity(&project, "web").await, before, "{helm}");
        let events = project.events("web", "Adopted").await;
        assert!(events[0].1.contains("Took over the release web at revision 1 (chart adoptable 0.1.0)"), "{events:?}");
        let deployment = project.get("apps/v1", "Deployment", "web").await.unwrap();
        assert!(deployment.owner_references().is_empty(), "{helm}: it existed before");
        assert_eq!(deployment.annotations()["chartwright.dev/adopted"], format!("{}/web", project.namespace));
        let others: Vec<_> = entries(&deployment).into_iter().filter(|(name, _)| name.starts_with("helm")).collect();
        assert_eq!(others, [("helm".to_owned(), "Apply".to_owned())], "{helm}: one manager is left");

        // What the chart drops goes, also where another helm wrote it.
        project.apply("web", json!({"colour": "green", "extra": false})).await;
        project.deployed("web").await;
        let config = project.get("v1", "ConfigMap", "web").await.unwrap();
        assert_eq!(config.data["data"], json!({"colour": "green"}), "{helm}");
        assert!(!config.labels().contains_key("extra"), "{helm}");
        let deployment = project.get("apps/v1", "Deployment", "web").await.unwrap();
        assert!(!deployment.annotations().contains_key("example.com/extra"), "{helm}");
        assert_eq!(deployment.data["spec"]["template"], before["template"], "{helm}");
        assert_eq!(
            revisions(&project, "web").await,
            [(1, Status::Superseded, true), (2, Status::Deployed, true)],
            "{helm}"
        );
        for other in ["helm3", "helm4"] {
            project.helm(other, &["history", "web"]);
        }
    }
}

#[tokio::test]
async fn with_other_values_a_new_revision_follows_unless_the_release_has_other_objects() {
    for helm in ["helm3", "helm4"] {
        let project = project().await;
        project.helm(helm, &["install", "web", "charts/app", "--set", "more=true"]);
        project.helm(helm, &["upgrade", "web", "charts/app", "--set", "more=true", "--set", "colour=blue"]);
        rolled_out(&project, "web").await;
        let before = identity(&project, "web").await;
        assert!(project.get("v1", "ConfigMap", "web-more").await.is_some());
        let _operator = project.run();
        project.apply("web", json!({"colour": "green"})).await;
        let told = project.not_ready("web", "AdoptionNotAllowed").await;
        assert!(told["message"].as_str().unwrap().contains("web-more, which the chart does not render"), "{told}");
        assert_eq!(identity(&project, "web").await, before, "{helm}");
        project.apply("web", json!({"colour": "green", "more": true})).await;
        project.deployed("web").await;
        project.condition("web", "Ready", "True").await;
        let after = identity(&project, "web").await;
        for same in ["uids", "template", "replica sets", "password"] {
            assert_eq!(after[same], before[same], "{helm}: {same}");
        }
        let expected = [(1, Status::Superseded, false), (2, Status::Superseded, false), (3, Status::Deployed, true)];
        assert_eq!(revisions(&project, "web").await, expected, "{helm}");
        project.apply("web", json!({"colour": "green"})).await;
        project
            .told("web", "what the render lacks is kept", |status| {
                (status["kept"] == json!([format!("ConfigMap {}/web-more", project.namespace)])).then_some(())
            })
            .await;
        assert!(project.get("v1", "ConfigMap", "web-more").await.is_some());
    }
}

#[tokio::test]
async fn the_objects_of_an_adopted_release_stay_unless_the_author_says_otherwise() {
    for policy in [PropagationPolicy::Background, PropagationPolicy::Foreground] {
        for is_deleted in [false, true] {
            let project = project().await;
            project.helm("helm4", &["install", "web", "charts/app", "--set", "colour=green"]);
            rolled_out(&project, "web").await;
            let before = identity(&project, "web").await;
            let _operator = project.run();
            project.apply("web", json!({"colour": "green"})).await;
            project.condition("web", "Ready", "True").await;
            if is_deleted {
                project.annotate("web", "chartwright.dev/adopted-deletion-policy", "delete").await;
            }
            let params = DeleteParams { propagation_policy: Some(policy.clone()), ..Default::default() };
            project.crs().delete("web", &params).await.unwrap();
            project.gone("web").await;
            if is_deleted {
                until("it goes", async || project.get("v1", "Secret", "web").await.is_none().then_some(())).await;
                continue;
            }
            assert_eq!(identity(&project, "web").await, before);
            let deployment = project.get("apps/v1", "Deployment", "web").await.unwrap();
            assert!(!deployment.labels().contains_key("chartwright.dev/release"), "nobody manages it any more");
            // A custom resource that is created again finds them.
            project.apply("web", json!({"colour": "green"})).await;
            project.condition("web", "Ready", "True").await;
            assert_eq!(identity(&project, "web").await["password"], before["password"]);
        }
    }
}

/// A revision that the API server refused in part: helm records it as failed, above one that is deployed.
fn fail_to_upgrade(project: &Project, template: &str) {
    project.template("bad.yaml", template);
    project.helm_fails("helm4", &["upgrade", "web", "charts/app", "--set", "colour=green"]);
    std::fs::remove_file(project.dir().join("charts/app/templates/bad.yaml")).unwrap();
}

#[tokio::test]
async fn a_failed_revision_of_helm_is_adopted_only_if_chart_and_objects_match() {
    const REFUSED: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_A_Name}\n";
    const MORE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: theirs}\n---\n";
    let project = project().await;
    project.helm("helm4", &["install", "web", "charts/app", "--set", "colour=green"]);
    rolled_out(&project, "web").await;
    fail_to_upgrade(&project, &format!("{MORE}{REFUSED}"));
    let versions = async || {
        let config = project.get("v1", "ConfigMap", "web").await.unwrap();
        (config.resource_version(), config.owner_references().len())
    };
    let untouched = versions().await;
    let _operator = project.run();
    project.apply("web", json!({"colour": "blue"})).await;
    let told = project.not_ready("web", "AdoptionNotAllowed").await;
    assert!(told["message"].as_str().unwrap().contains("which the chart does not render"), "{told}");
    assert_eq!(versions().await, untouched);
    assert_eq!(revisions(&project, "web").await, [(1, Status::Deployed, false), (2, Status::Failed, false)]);
}

#[tokio::test]
async fn a_failed_revision_of_helm_with_the_same_objects_is_adopted_by_a_new_one() {
    let project = project().await;
    project.helm("helm4", &["install", "web", "charts/app", "--set", "colour=green"]);
    rolled_out(&project, "web").await;
    let before = identity(&project, "web").await;
    let path = project.dir().join("charts/app/templates");
    let templates: Vec<_> = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
    let change = |from: &str, to: &str| {
        for template in &templates {
            let text = std::fs::read_to_string(template).unwrap();
            std::fs::write(template, text.replace(from, to)).unwrap();
        }
    };
    // helm meets this only after it has written the rest.
    let (good, bad) = ("ports: [{name: http, port: 80}]", "ports: [{name: http, port: 0}]");
    change(good, bad);
    project.helm_fails("helm4", &["upgrade", "web", "charts/app", "--set", "colour=green"]);
    change(bad, good);
    assert_eq!(revisions(&project, "web").await, [(1, Status::Deployed, false), (2, Status::Failed, false)]);
    let _operator = project.run();
    project.apply("web", json!({"colour": "blue"})).await;
    project.condition("web", "Ready", "True").await;
    assert_eq!(revisions(&project, "web").await.last(), Some(&(3, Status::Deployed, true)));
    let after = identity(&project, "web").await;
    assert_eq!((&after["uids"], &after["template"]), (&before["uids"], &before["template"]));
}

#[tokio::test]
async fn a_failed_release_of_another_chart_is_not_touched() {
    let project = project().await;
    project.file("theirs/Chart.yaml", "apiVersion: v2\nname: theirs\nversion: 0.1.0\n");
    project.file("theirs/templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n");
    project.file("theirs/templates/b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_A_Name}\n");
    project.helm_fails("helm4", &["install", "web", "theirs"]);
    assert_eq!(revisions(&project, "web").await, [(1, Status::Failed, false)]);
    let look = async || project.get("v1", "ConfigMap", "web").await.and_then(|it| it.resource_version());
    let before = look().await;
    let _operator = project.run();
    project.apply("web", json!({})).await;
    project.not_ready("web", "BelongsToAnother").await;
    project.delete("web").await;
    project.gone("web").await;
    assert_eq!(look().await, before);
}

/// A release as operator-sdk's helm-operator leaves it: its own manager, owner references on objects and records.
async fn install_as_operator_sdk(project: &Project, cr: &DynamicObject) {
    let program = project.dir().join("helm-operator");
    copy_program(tool("helm3"), &program);
    project.helm(program.to_str().unwrap(), &["install", "web", "charts/app", "--set", "colour=green"]);
    let owner = json!({
        "apiVersion": project.resource.api_version, "kind": "App", "name": "web", "uid": cr.uid(),
        "controller": true, "blockOwnerDeletion": true,
    });
    let params = PatchParams { field_manager: Some("helm-operator".into()), ..Default::default() };
    let marks = json!({"metadata": {"ownerReferences": [owner], "labels": {"helm.sdk.operatorframework.io/chart": "adoptable"}}});
    for (api_version, kind) in [("apps/v1", "Deployment"), ("v1", "Service"), ("v1", "ConfigMap"), ("v1", "Secret")] {
        let api = project.objects(api_version, kind, Some(&project.namespace));
        api.patch("web", &params, &Patch::Merge(&marks)).await.unwrap();
    }
    let record = json!({"metadata": {"ownerReferences": [owner]}});
    let secrets = project.objects("v1", "Secret", Some(&project.namespace));
    secrets.patch("sh.helm.release.v1.web.v1", &params, &Patch::Merge(&record)).await.unwrap();
    let finalizer = json!({"metadata": {"finalizers": ["helm.sdk.operatorframework.io/uninstall-release"]}});
    project.crs().patch("web", &params, &Patch::Merge(&finalizer)).await.unwrap();
    let conditions = json!([{"type": "Deployed", "status": "True", "reason": "InstallSuccessful", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let status = json!({"status": {"conditions": conditions, "deployedRelease": {"name": "web", "manifest": "---"}}});
    project.crs().patch_status("web", &params, &Patch::Merge(&status)).await.unwrap();
}

#[tokio::test]
async fn what_operator_sdk_installed_stays_just_as_it_is() {
    let project = project().await;
    let cr = project.apply("web", json!({"colour": "green"})).await;
    install_as_operator_sdk(&project, &cr).await;
    rolled_out(&project, "web").await;
    let before = identity(&project, "web").await;
    let _operator = project.run();
    project.condition("web", "Ready", "True").await;
    assert_eq!(revisions(&project, "web").await, [(1, Status::Deployed, true)]);
    assert_eq!(identity(&project, "web").await, before);
    let record = project.get("v1", "Secret", "sh.helm.release.v1.web.v1").await.unwrap();
    assert!(record.owner_references().is_empty(), "the garbage collector must not take the record first");
    project.apply("web", json!({"colour": "green", "extra": false})).await;
    project.deployed("web").await;
    assert_eq!(project.get("v1", "ConfigMap", "web").await.unwrap().data["data"], json!({"colour": "green"}));
    assert_eq!(identity(&project, "web").await["template"], before["template"]);
    project.delete("web").await;
    project.gone("web").await;
    assert!(project.get("v1", "Service", "web").await.is_none());
}

#[tokio::test]
async fn a_release_of_operator_sdk_that_is_not_taken_stays_when_the_custom_resource_goes() {
    for policy in ["orphan", "uninstall"] {
        let project = project().await;
        let cr = project.apply("web", json!({"colour": "green"})).await;
        install_as_operator_sdk(&project, &cr).await;
        rolled_out(&project, "web").await;
        // An object keeps its owner where somebody removes its labels.
        let unlabelled = Patch::Merge(json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}}));
        project.configs().patch("web", &PatchParams::default(), &unlabelled).await.unwrap();
        let before = identity(&project, "web").await;
        project.file("charts/app/Chart.yaml", "apiVersion: v2\nname: renamed\nversion: 0.1.0\n");
        let _operator = project.run();
        project.not_ready("web", "BelongsToAnother").await;
        project.annotate("web", "chartwright.dev/deletion-policy", policy).await;
        project.delete("web").await;
        project.gone("web").await;
        stays(Duration::from_secs(3), "the garbage collector leaves it alone", async || {
            identity(&project, "web").await
        })
        .await;
        assert_eq!(identity(&project, "web").await, before, "{policy}");
        let unlabelled = project.get("v1", "ConfigMap", "web").await.unwrap();
        assert!(unlabelled.owner_references().is_empty(), "{policy}: {:?}", unlabelled.owner_references());
        assert_eq!(revisions(&project, "web").await, [(1, Status::Deployed, false)], "{policy}");
    }
}

#[tokio::test]
async fn an_adoption_that_a_crash_cut_short_is_still_an_adoption() {
    let project = project().await;
    project.helm("helm3", &["install", "web", "charts/app", "--set", "colour=green"]);
    let before = identity(&project, "web").await;
    project.apply("web", json!({"colour": "green"})).await;
    // What is written on the custom resource before the first object is applied, and the status of a failed try.
    let marks = json!({"metadata": {
        "finalizers": ["helm.sdk.operatorframework.io/uninstall-release"],
        "annotations": {"applyset.kubernetes.io/contains-group-kinds": "ConfigMap,Secret,Service"},
    }});
    project.crs().patch("web", &Default::default(), &Patch::Merge(&marks)).await.unwrap();
    let status = json!({"status": {"observedGeneration": 1, "conditions": []}});
    project.crs().patch_status("web", &Default::default(), &Patch::Merge(&status)).await.unwrap();
    let _operator = project.run();
    project.condition("web", "Ready", "True").await;
    assert_eq!(revisions(&project, "web").await, [(1, Status::Deployed, true)]);
    assert_eq!(identity(&project, "web").await["password"], before["password"]);
    let conditions = project.status("web").await["conditions"].clone();
    assert!(conditions.as_array().unwrap().iter().all(|it| it["type"] != "Held"), "{conditions}");
}

#[tokio::test]
async fn annotations_that_somebody_copied_prove_nothing() {
    let project = project().await;
    project.file("theirs/Chart.yaml", "apiVersion: v2\nname: theirs\nversion: 0.1.0\n");
    project.file("theirs/templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: theirs}\n");
    project.helm("helm4", &["install", "web", "theirs"]);
    project.apply("web", json!({})).await;
    let marks = json!({"metadata": {
        "finalizers": ["helm.sdk.operatorframework.io/uninstall-release"],
        "annotations": {"applyset.kubernetes.io/contains-group-kinds": "ConfigMap"},
    }});
    project.crs().patch("web", &Default::default(), &Patch::Merge(&marks)).await.unwrap();
    let _operator = project.run();
    project.not_ready("web", "BelongsToAnother").await;
    project.delete("web").await;
    project.gone("web").await;
    assert!(project.get("v1", "ConfigMap", "theirs").await.is_some());
    assert_eq!(revisions(&project, "web").await, [(1, Status::Deployed, false)]);
}

#[tokio::test]
async fn an_autoscaled_workload_keeps_its_replicas_when_it_is_taken_over() {
    let project = project().await;
    let scaled = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: scaled}\nspec:\n  replicas: 3\n  selector: {matchLabels: {app: scaled}}\n  template:\n    metadata: {labels: {app: scaled}}\n    spec: {containers: [{name: a, image: b}]}\n---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: scaled}\nspec:\n  minReplicas: 3\n  maxReplicas: 5\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: scaled}\n";
    project.template("scaled.yaml", scaled);
    project.helm("helm3", &["install", "web", "charts/app"]);
    let look = async || project.get("apps/v1", "Deployment", "scaled").await.unwrap().data["spec"].clone();
    let before = look().await;
    let _operator = project.run();
    project.apply("web", json!({})).await;
    project.condition("web", "Deployed", "True").await;
    assert_eq!(look().await, before);
    assert_eq!(before["replicas"], 3);
}

#[tokio::test]
async fn a_release_of_another_chart_is_not_touched_and_both_charts_are_named() {
    let project = project().await;
    project.file("theirs/Chart.yaml", "apiVersion: v2\nname: theirs\nversion: 0.1.0\n");
    project.file("theirs/templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n");
    project.helm("helm4", &["install", "web", "theirs"]);
    let look = async || {
        let objects = [
            project.get("v1", "ConfigMap", "web").await,
            project.get("v1", "Secret", "sh.helm.release.v1.web.v1").await,
        ];
        objects.map(|object| object.and_then(|object| object.resource_version()))
    };
    let before = look().await;
    let _operator = project.run();
    project.apply("web", json!({})).await;
    let told = project.not_ready("web", "BelongsToAnother").await;
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("from the chart theirs") && message.contains("chart is adoptable"), "{message}");
    project.delete("web").await;
    project.gone("web").await;
    assert_eq!(look().await, before);
}

#[tokio::test]
async fn a_custom_resource_that_was_made_again_keeps_its_objects_and_their_generated_values() {
    let project = project().await;
    let operator = project.run();
    project.apply("web", json!({"colour": "green"})).await;
    project.condition("web", "Ready", "True").await;
    let before = identity(&project, "web").await;
    drop(operator);
    // As a restore from backup does it: the records and the objects are there, the custom resource is another.
    let none = json!({"metadata": {"finalizers": null}});
    project.crs().patch("web", &Default::default(), &Patch::Merge(none)).await.unwrap();
    let orphan = kube::api::DeleteParams {
        propagation_policy: Some(kube::api::PropagationPolicy::Orphan),
        ..Default::default()
    };
    project.crs().delete("web", &orphan).await.unwrap();
    project.gone("web").await;
    let cr = project.apply("web", json!({"colour": "green"})).await;
    let _operator = project.run();
    project.condition("web", "Ready", "True").await;
    assert_eq!(identity(&project, "web").await, before);
    assert_eq!(revisions(&project, "web").await.last(), Some(&(2, Status::Deployed, true)));
    for (api_version, kind) in [("apps/v1", "Deployment"), ("v1", "Service"), ("v1", "ConfigMap"), ("v1", "Secret")] {
        let owners = project.get(api_version, kind, "web").await.unwrap().owner_references().to_vec();
        assert_eq!(owners.iter().map(|owner| Some(owner.uid.clone())).collect::<Vec<_>>(), [cr.uid()], "{kind}");
    }
}

#[tokio::test]
async fn an_orphaned_release_stays_and_is_helms() {
    for helm in ["helm3", "helm4"] {
        let project = project().await;
        let _operator = project.run();
        project.apply("web", json!({"colour": "green"})).await;
        project.condition("web", "Ready", "True").await;
        let before = identity(&project, "web").await;
        project.annotate("web", "chartwright.dev/deletion-policy", "orphn").await;
        project.delete("web").await;
        let told = project.not_ready("web", "InvalidAnnotation").await;
        assert!(told["message"].as_str().unwrap().contains("orphn"), "{told}");
        assert_eq!(identity(&project, "web").await, before, "a slip of the pen removes nothing");
        project.annotate("web", "chartwright.dev/deletion-policy", "orphan").await;
        project.gone("web").await;
        stays(Duration::from_secs(2), "the garbage collector leaves it alone", async || {
            identity(&project, "web").await
        })
        .await;
        assert_eq!(identity(&project, "web").await, before);
        let deployment = project.get("apps/v1", "Deployment", "web").await.unwrap();
        assert!(deployment.owner_references().is_empty());
        assert!(deployment.labels().keys().all(|key| !key.contains("chartwright") && !key.contains("applyset")));
        assert_eq!(
            revisions(&project, "web").await,
            [(1, Status::Deployed, false)],
            "{helm}: the record is helm's alone"
        );
        project.helm(helm, &["upgrade", "web", "charts/app", "--set", "colour=red"]);
        assert_eq!(project.get("v1", "ConfigMap", "web").await.unwrap().data["data"]["colour"], "red");
        project.helm(helm, &["uninstall", "web"]);
        assert!(project.get("v1", "ConfigMap", "web").await.is_none());
    }
}

#[tokio::test]
async fn a_job_that_was_cleaned_up_is_not_run_again_by_taking_over() {
    let project = project().await;
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: once}\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n      containers: [{name: a, image: b}]\n";
    project.template("job.yaml", job);
    project.helm("helm4", &["install", "web", "charts/app"]);
    let jobs = project.objects("batch/v1", "Job", Some(&project.namespace));
    jobs.delete("once", &kube::api::DeleteParams::background()).await.unwrap();
    until("the Job is gone", async || jobs.get_opt("once").await.unwrap().is_none().then_some(())).await;
    let _operator = project.run();
    project.apply("web", json!({})).await;
    project.condition("web", "Ready", "True").await;
    assert!(jobs.get_opt("once").await.unwrap().is_none());
}
