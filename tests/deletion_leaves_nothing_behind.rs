//! A custom resource that goes takes everything of its release along, whatever has happened before.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::{Operator, Project, annotated, config, stays, until, within};

const FINALIZER: &str = "helm.sdk.operatorframework.io/uninstall-release";

/// A release with an object here, one in another namespace and one of the whole cluster.
struct Spread {
    project: Project,
    there: String,
}

impl Spread {
    async fn new() -> (Self, Operator) {
        let project = Project::of_objects().await;
        let there = project.another_namespace("there").await;
        let operator = project.run();
        let spread = Spread { project, there };
        spread.project.apply("web", json!({"objects": spread.objects()})).await;
        spread.project.deployed("web").await;
        assert_eq!(spread.left().await, ["here", "there", "everywhere"]);
        (spread, operator)
    }

    fn objects(&self) -> Vec<Value> {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": self.project.namespace}, "rules": []});
        vec![config("here", "blue"), within(&self.there, config("there", "blue")), role]
    }

    async fn left(&self) -> Vec<&'static str> {
        let Spread { project, there } = self;
        let here = project.configs().get_opt("here").await.unwrap();
        let elsewhere = project.objects("v1", "ConfigMap", Some(there)).get_opt("there").await.unwrap();
        let roles = project.objects("rbac.authorization.k8s.io/v1", "ClusterRole", None);
        let everywhere = roles.get_opt(&project.namespace).await.unwrap();
        let all = [(here, "here"), (elsewhere, "there"), (everywhere, "everywhere")];
        all.into_iter().filter_map(|(object, name)| object.map(|_| name)).collect()
    }

    async fn records(&self) -> Vec<String> {
        let secrets = self.project.objects("v1", "Secret", Some(&self.project.namespace));
        let secrets = secrets.list(&Default::default()).await.unwrap();
        secrets.items.iter().map(ResourceExt::name_any).filter(|name| name.starts_with("sh.helm")).collect()
    }

    async fn nothing_is_left(&self) {
        self.project.gone("web").await;
        // What has an owner reference may be the garbage collector's to remove.
        until("every object is gone", async || self.left().await.is_empty().then_some(())).await;
        assert!(self.records().await.is_empty());
    }
}

#[tokio::test]
async fn everything_goes_here_there_and_everywhere() {
    let (spread, _operator) = Spread::new().await;
    let cr = spread.project.crs().get("web").await.unwrap();
    assert_eq!(cr.finalizers(), [FINALIZER]);
    spread.project.delete("web").await;
    spread.nothing_is_left().await;
}

#[tokio::test]
async fn the_finalizer_of_older_operators_is_taken_off_too() {
    let (spread, _operator) = Spread::new().await;
    let patch = json!({"metadata": {"finalizers": ["uninstall-helm-release"]}});
    spread.project.crs().patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    spread.project.delete("web").await;
    spread.nothing_is_left().await;
}

#[tokio::test]
async fn neither_a_broken_chart_nor_a_bad_spec_nor_a_restart_keeps_it() {
    let (spread, operator) = Spread::new().await;
    drop(operator);
    let project = &spread.project;
    project.template("broken.yaml", "{{ fail \"never again\" }}");
    project.apply("web", json!({"objects": 3})).await;
    let _operator = project.run();
    project.condition("web", "ReleaseFailed", "True").await;
    project.delete("web").await;
    spread.nothing_is_left().await;
}

#[tokio::test]
async fn what_was_deleted_while_nobody_looked_goes_after_a_start() {
    let (spread, operator) = Spread::new().await;
    drop(operator);
    spread.project.delete("web").await;
    let _operator = spread.project.run();
    spread.nothing_is_left().await;
}

#[tokio::test]
async fn objects_are_found_by_their_marks_when_the_record_is_gone() {
    let (spread, operator) = Spread::new().await;
    drop(operator);
    let secrets = spread.project.objects("v1", "Secret", Some(&spread.project.namespace));
    secrets.delete("sh.helm.release.v1.web.v1", &DeleteParams::default()).await.unwrap();
    spread.project.delete("web").await;
    let _operator = spread.project.run();
    spread.nothing_is_left().await;
}

#[tokio::test]
async fn objects_are_found_by_their_marks_when_only_the_newest_record_is_gone() {
    let (spread, operator) = Spread::new().await;
    let project = &spread.project;
    let mut objects = spread.objects();
    objects[0]["data"]["colour"] = "red".into();
    project.apply("web", json!({"objects": objects})).await;
    project.deployed("web").await;
    assert_eq!(spread.records().await.len(), 2);
    drop(operator);
    let secrets = project.objects("v1", "Secret", Some(&project.namespace));
    secrets.delete("sh.helm.release.v1.web.v2", &DeleteParams::default()).await.unwrap();
    project.delete("web").await;
    let _operator = project.run();
    spread.nothing_is_left().await;
}

#[tokio::test]
async fn a_namespace_that_is_deleted_ends_and_takes_the_rest_along() {
    let (spread, operator) = Spread::new().await;
    let project = &spread.project;
    let namespaces = project.objects("v1", "Namespace", None);
    namespaces.delete(&project.namespace, &DeleteParams::default()).await.unwrap();
    until("the namespace is gone", async || {
        namespaces.get_opt(&project.namespace).await.unwrap().is_none().then_some(())
    })
    .await;
    assert_eq!(spread.left().await, [""; 0]);
    is_no_error(&operator.log());
}

/// That nothing can be created in a namespace that is being deleted is expected.
fn is_no_error(log: &str) {
    let about = log.lines().filter(|line| line.contains("being terminated"));
    let alarming: Vec<_> = about.filter(|line| line.contains("ERROR") || line.contains("WARN")).collect();
    assert!(alarming.is_empty(), "{alarming:#?}");
}

#[tokio::test]
async fn in_a_namespace_that_is_being_deleted_nothing_is_created_again_and_again() {
    let project = Project::cluster_scoped("App", "fidelity/cases/plain/chart").await.reaching_out();
    let operator = project.run();
    project.apply("web", json!({})).await;
    project.deployed("web").await;
    // It keeps the namespace from going. The custom resource is in no namespace, so it stays.
    let mut blocker = within(&project.namespace, config("blocker", "blue"));
    blocker["metadata"]["finalizers"] = json!(["example.com/blocks"]);
    project.create(blocker).await;
    let namespaces = project.objects("v1", "Namespace", None);
    namespaces.delete(&project.namespace, &DeleteParams::default()).await.unwrap();
    project.not_ready("web", "NamespaceTerminating").await;
    let is_refused =
        |call: &&String| call.starts_with("create ") || call.starts_with("patch ") && !call.contains("status");
    let since = Timestamp::now();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let calls = project.calls_since(since);
    let tries = calls.iter().filter(is_refused).count();
    assert!(tries < 10, "{tries} writes in 5 s: {calls:#?}");
    assert!(operator.log().contains("reason=NamespaceTerminating"), "{}", operator.log());
    is_no_error(&operator.log());
    drop(operator);
    block(&project, "blocker", json!(null)).await;
}

#[tokio::test]
async fn what_asks_to_be_kept_stays() {
    let (spread, _operator) = Spread::new().await;
    let project = &spread.project;
    let mut objects = spread.objects();
    for object in &mut objects {
        *object = annotated(object.clone(), json!({"helm.sh/resource-policy": "keep"}));
    }
    objects.push(config("goes", "blue"));
    project.apply("web", json!({"objects": objects})).await;
    project.deployed("web").await;
    project.delete("web").await;
    project.gone("web").await;
    until("the last one is gone", async || project.get("v1", "ConfigMap", "goes").await.is_none().then_some(())).await;
    // The garbage collector takes a moment to find what has lost its owner.
    stays(Duration::from_secs(3), "what is kept", async || spread.left().await).await;
    assert_eq!(spread.left().await, ["here", "there", "everywhere"]);
    assert!(spread.records().await.is_empty());
}

async fn block(project: &Project, name: &str, finalizers: Value) -> DynamicObject {
    let patch = json!({"metadata": {"finalizers": finalizers}});
    project.configs().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
}

#[tokio::test]
async fn with_uninstall_wait_it_stays_until_the_last_object_is_gone_and_says_so() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("slow", "blue"), config("quick", "blue")]})).await;
    project.annotate("web", "helm.sdk.operatorframework.io/uninstall-wait", "true").await;
    project.deployed("web").await;
    block(&project, "slow", json!(["example.com/blocks"])).await;
    project.delete("web").await;
    let waits = project.not_ready("web", "Uninstalling").await;
    assert!(waits["message"].as_str().unwrap().contains("ConfigMap"), "{waits}");
    assert!(waits["message"].as_str().unwrap().contains("slow"), "{waits}");
    assert_eq!(project.condition("web", "Deployed", "False").await["reason"], "UninstallSuccessful");
    assert!(project.get("v1", "ConfigMap", "quick").await.is_none());
    assert!(project.get("v1", "Secret", "sh.helm.release.v1.web.v1").await.is_some(), "the record is still needed");
    stays(Duration::from_secs(2), "the wait is told once", async || {
        project.crs().get("web").await.unwrap().resource_version()
    })
    .await;
    block(&project, "slow", json!(null)).await;
    project.gone("web").await;
    assert!(project.get("v1", "Secret", "sh.helm.release.v1.web.v1").await.is_none());
}

async fn after_a_persons_rollback_the_objects_go_too(helm: &str) {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.deployed("web").await;
    project.apply("web", json!({"objects": [config("web", "green")]})).await;
    project.deployed("web").await;
    project.helm(helm, &["rollback", "web", "1"]);
    project.delete("web").await;
    project.gone("web").await;
    assert!(project.get("v1", "ConfigMap", "web").await.is_none());
    assert_eq!(project.helm(helm, &["list", "--short"]).trim(), "");
}

#[tokio::test]
async fn after_a_persons_rollback_with_helm_3_the_objects_go_too() {
    after_a_persons_rollback_the_objects_go_too("helm3").await;
}

#[tokio::test]
async fn after_a_persons_rollback_with_helm_4_the_objects_go_too() {
    after_a_persons_rollback_the_objects_go_too("helm4").await;
}

#[tokio::test]
async fn with_uninstall_wait_kept_objects_are_not_waited_for() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    let kept = annotated(config("kept", "blue"), json!({"helm.sh/resource-policy": "keep"}));
    project.apply("web", json!({"objects": [kept, config("slow", "blue")]})).await;
    project.annotate("web", "helm.sdk.operatorframework.io/uninstall-wait", "true").await;
    project.deployed("web").await;
    block(&project, "slow", json!(["example.com/blocks"])).await;
    project.delete("web").await;
    project.not_ready("web", "Uninstalling").await;
    block(&project, "slow", json!(null)).await;
    project.gone("web").await;
    assert!(project.get("v1", "ConfigMap", "kept").await.is_some());
}

#[tokio::test]
async fn without_uninstall_wait_an_object_that_is_slow_to_go_holds_up_nobody() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("slow", "blue")]})).await;
    project.deployed("web").await;
    block(&project, "slow", json!(["example.com/blocks"])).await;
    project.delete("web").await;
    project.gone("web").await;
    block(&project, "slow", json!(null)).await;
}

#[tokio::test]
async fn objects_are_deleted_in_helms_order() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    let labels = json!({"app": "web"});
    let objects = json!([
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "web"}},
        config("web", "blue"),
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}},
    ]);
    project.apply("web", json!({"objects": objects})).await;
    project.condition("web", "Ready", "True").await;
    let since = Timestamp::now();
    project.delete("web").await;
    project.gone("web").await;
    let calls = project.calls_since(since);
    let kinds: Vec<_> = calls
        .iter()
        .filter(|call| {
            call.starts_with("delete ") && !call.contains("sh.helm.release") && !call.contains("chartwright-ledger")
        })
        .filter_map(|call| call.split('/').rev().nth(1))
        .collect();
    assert_eq!(kinds, ["services", "deployments", "configmaps", "serviceaccounts"]);
}
