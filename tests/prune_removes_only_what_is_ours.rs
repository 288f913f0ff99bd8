//! What a chart no longer renders goes, unless anything at all speaks for leaving it.

use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::{Operator, Project, annotated, config, until, within};

/// A release of one ConfigMap that stays and these objects, which the next revision will not have.
async fn with(objects: &[Value]) -> (Project, Operator) {
    let project = Project::of_objects().await;
    let operator = project.run();
    deploy(&project, objects).await;
    (project, operator)
}

async fn deploy(project: &Project, objects: &[Value]) {
    let objects = [&[config("stays", "blue")], objects].concat();
    project.apply("web", json!({"objects": objects})).await;
    project.deployed("web").await;
}

async fn drop_all(project: &Project) {
    deploy(project, &[]).await;
    assert!(project.get("v1", "ConfigMap", "stays").await.is_some());
}

/// Whether anything on an object would bring us or the garbage collector back.
fn is_released(object: &kube::api::DynamicObject) -> bool {
    let ours = ["chartwright.dev/release", "applyset.kubernetes.io/part-of"];
    object.owner_references().is_empty()
        && !ours.iter().any(|label| object.labels().contains_key(*label))
        && !object.annotations().keys().any(|key| key.starts_with("operator-sdk/"))
}

#[tokio::test]
async fn what_a_new_revision_drops_is_removed_and_told() {
    let (project, _operator) = with(&[config("goes", "blue")]).await;
    drop_all(&project).await;
    assert!(project.get("v1", "ConfigMap", "goes").await.is_none());
    let told = until("the event is there", async || project.events("web", "Pruned").await.pop()).await;
    assert!(told.1.contains("goes") && !told.1.contains("stays"), "{told:?}");
    assert!(project.status("web").await.get("kept").is_none());
}

#[tokio::test]
async fn annotations_that_ask_to_keep_are_honoured_and_our_marks_come_off() {
    let keep = [
        ("plain", "helm.sh/resource-policy", "keep"),
        ("loud", "helm.sh/resource-policy", " KEEP "),
        ("cli-utils", "cli-utils.sigs.k8s.io/on-remove", "keep"),
        ("lifecycle", "client.lifecycle.config.k8s.io/deletion", "detach"),
    ];
    let objects: Vec<_> =
        keep.iter().map(|(name, key, value)| annotated(config(name, "blue"), json!({*key: value}))).collect();
    let (project, _operator) = with(&objects).await;
    // Somebody asks to keep an object that the chart would let go.
    deploy(&project, &[objects.as_slice(), &[config("late", "blue")]].concat()).await;
    let patch = json!({"metadata": {"annotations": {"helm.sh/resource-policy": "keep"}}});
    project.configs().patch("late", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    drop_all(&project).await;
    let kept = project.status("web").await["kept"].clone();
    for name in keep.iter().map(|(name, ..)| *name).chain(["late"]) {
        let object = project.get("v1", "ConfigMap", name).await.unwrap_or_else(|| panic!("{name} is gone"));
        assert!(is_released(&object), "{name} still carries our marks: {:?}", object.metadata);
        assert!(kept.as_array().unwrap().iter().any(|entry| entry.as_str().unwrap().ends_with(name)), "{kept}");
    }
}

#[tokio::test]
async fn claims_namespaces_and_definitions_are_kept_and_listed() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    let group = format!("kept.{}", project.resource.group);
    let space = format!("{}-kept", project.namespace);
    let definition = format!("widgets.{group}");
    let objects = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": definition}, "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]}}),
    ];
    deploy(&project, &objects).await;
    drop_all(&project).await;
    let kept = [
        ("v1", "Namespace", None, &space),
        ("v1", "PersistentVolumeClaim", Some(project.namespace.as_str()), &"data".to_owned()),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", None, &definition),
    ];
    let listed = project.status("web").await["kept"].to_string();
    for (api_version, kind, namespace, name) in kept {
        let object = project.objects(api_version, kind, namespace).get(name).await.unwrap();
        assert!(object.metadata.deletion_timestamp.is_none(), "{kind} is being deleted");
        assert!(is_released(&object), "{kind} still carries our marks: {:?}", object.metadata);
        assert!(listed.contains(kind) && listed.contains(name.as_str()), "{listed}");
    }
    // What is kept stays listed, and is taken back when the chart has it again.
    deploy(&project, &[config("another", "blue")]).await;
    assert!(project.status("web").await["kept"].to_string().contains("data"));
    deploy(&project, &objects).await;
    assert!(project.status("web").await.get("kept").is_none());
}

#[tokio::test]
async fn what_somebody_else_owns_by_now_is_left_alone() {
    let (project, _operator) = with(&[config("goes", "blue")]).await;
    let owner = project.create(within(&project.namespace, config("new-owner", "blue"))).await;
    let owners = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "new-owner", "uid": owner.uid(), "controller": true}]);
    let patch = json!({"metadata": {"ownerReferences": owners}});
    project.configs().patch("goes", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    drop_all(&project).await;
    assert_eq!(project.get("v1", "ConfigMap", "goes").await.unwrap().owner_references()[0].name, "new-owner");
}

#[tokio::test]
async fn what_somebody_made_again_is_left_alone() {
    let (project, operator) = with(&[config("bare", "blue"), config("marked", "blue")]).await;
    drop(operator);
    for name in ["bare", "marked"] {
        let old = project.get("v1", "ConfigMap", name).await.unwrap();
        project.configs().delete(name, &DeleteParams::default()).await.unwrap();
        let mut new = within(&project.namespace, config(name, "red"));
        if name == "marked" {
            // As a restore from a backup makes it: all marks, another UID.
            new["metadata"]["labels"] = json!(old.labels());
            new["metadata"]["annotations"] = json!(old.annotations());
            new["metadata"]["ownerReferences"] = json!(old.owner_references());
        }
        project.create(new).await;
    }
    project.apply("web", json!({"objects": [config("stays", "blue")]})).await;
    let _operator = project.run();
    project.deployed("web").await;
    assert!(project.get("v1", "ConfigMap", "bare").await.is_some());
    assert!(project.get("v1", "ConfigMap", "marked").await.is_some());
}

#[tokio::test]
async fn nothing_is_pruned_where_an_apply_failed() {
    let (project, _operator) = with(&[config("goes", "blue")]).await;
    project.refuse_writes_of("refused").await;
    project.apply("web", json!({"objects": [config("stays", "red"), config("refused", "red")]})).await;
    let failed = project.condition("web", "ReleaseFailed", "True").await;
    let message = failed["message"].as_str().unwrap();
    assert!(message.contains("refused") && message.contains("the policy says no"), "{message}");
    assert!(project.get("v1", "ConfigMap", "goes").await.is_some());
    project.allow_writes().await;
    // Once it goes through, what was waiting is pruned.
    project.annotate("web", "example.com/try", "again").await;
    until("the upgrade goes through", async || {
        if project.get("v1", "ConfigMap", "refused").await.is_none() {
            project.annotate("web", "example.com/try", &format!("{:?}", std::time::Instant::now())).await;
        }
        project.get("v1", "ConfigMap", "goes").await.is_none().then_some(())
    })
    .await;
    project.deployed("web").await;
}

#[tokio::test]
async fn an_object_that_moves_to_another_namespace_leaves_the_old_one() {
    let (project, _operator) = with(&[config("moves", "blue")]).await;
    let there = project.another_namespace("there").await;
    deploy(&project, &[within(&there, config("moves", "blue"))]).await;
    assert!(project.objects("v1", "ConfigMap", Some(&there)).get_opt("moves").await.unwrap().is_some());
    assert!(project.get("v1", "ConfigMap", "moves").await.is_none());
    deploy(&project, &[config("moves", "blue")]).await;
    assert!(project.objects("v1", "ConfigMap", Some(&there)).get_opt("moves").await.unwrap().is_none());
    assert!(project.get("v1", "ConfigMap", "moves").await.is_some());
}

/// A kind that comes and goes, with its definition's name.
async fn fleeting_kind(project: &Project) -> (String, String) {
    let group = format!("fleeting.{}", project.resource.group);
    let name = format!("widgets.{group}");
    project
        .create(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name}, "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]}}))
        .await;
    let widgets = project.objects(&format!("{group}/v1"), "Widget", Some(&project.namespace));
    until("the kind is served", async || widgets.list(&Default::default()).await.ok()).await;
    (format!("{group}/v1"), name)
}

async fn remove_definition(project: &Project, name: &str) {
    let definitions = project.objects("apiextensions.k8s.io/v1", "CustomResourceDefinition", None);
    definitions.delete(name, &DeleteParams::default()).await.unwrap();
    until("the definition is gone", async || definitions.get_opt(name).await.unwrap().is_none().then_some(())).await;
}

#[tokio::test]
async fn a_kind_that_has_gone_holds_up_neither_an_upgrade_nor_the_end() {
    let project = Project::of_objects().await;
    let (api_version, definition) = fleeting_kind(&project).await;
    let _operator = project.run();
    let widget = json!({"apiVersion": api_version, "kind": "Widget", "metadata": {"name": "w"}});
    deploy(&project, std::slice::from_ref(&widget)).await;
    project
        .apply(
            "leaves",
            json!({"objects": [within(&project.namespace, {
                let mut other = widget.clone();
                other["metadata"]["name"] = "v".into();
                other
            })]}),
        )
        .await;
    project.deployed("leaves").await;
    remove_definition(&project, &definition).await;
    let missing = project.not_ready("web", "UnknownKind").await;
    assert!(missing["message"].as_str().unwrap().contains("Widget"), "{missing}");
    drop_all(&project).await;
    project.condition("web", "Ready", "True").await;
    project.delete("leaves").await;
    project.gone("leaves").await;
}
