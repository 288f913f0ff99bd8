//! Records that went, that cannot be read, or that are too large never cost an object.

use std::time::Duration;

use chartwright::calls::Calls;
use chartwright::release::{Status, Store};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PropagationPolicy};
use serde_json::{Value, json};

use crate::harness::{Project, annotated, config, until, until_calm, until_within};

const RANDOM: &str =
    "apiVersion: v1\nkind: Secret\nmetadata: {name: random}\nstringData: {password: '{{ randAlphaNum 12 }}'}\n";

async fn project() -> Project {
    let project = Project::of_objects().await;
    project.template("random.yaml", RANDOM);
    project
}

async fn password(project: &Project) -> Value {
    project.get("v1", "Secret", "random").await.unwrap().data["data"]["password"].clone()
}

async fn revisions(project: &Project) -> Vec<(u32, Status)> {
    let history = Store::new(Calls::new(project.client.clone())).history(&project.namespace, "web").await.unwrap();
    history.iter().map(|release| (release.revision, release.status)).collect()
}

async fn lose_records(project: &Project) {
    let secrets = project.objects("v1", "Secret", Some(&project.namespace));
    let ours = ListParams::default().labels("owner=helm,name=web");
    secrets.delete_collection(&DeleteParams::default(), &ours).await.unwrap();
}

fn workload() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": {
        "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [
            {"name": "app", "image": "one", "env": [{"name": "A", "value": "1"}], "ports": [{"containerPort": 80}]}]}}}})
}

#[tokio::test]
async fn without_records_the_chart_is_rendered_again_and_generated_values_stay() {
    for runs in [true, false] {
        let project = project().await;
        let mut operator = Some(project.run());
        for colour in ["blue", "green"] {
            project.apply("web", json!({"objects": [config("web", colour), config("other", "x"), workload()]})).await;
            project.deployed("web").await;
            project.condition("web", "Ready", "True").await;
        }
        let before =
            (password(&project).await, project.get("apps/v1", "Deployment", "web").await.unwrap().metadata.generation);
        if !runs {
            operator = None;
        }
        lose_records(&project).await;
        let _operator = operator.take().unwrap_or_else(|| project.run());
        until("it is recorded again", async || (revisions(&project).await == [(3, Status::Deployed)]).then_some(()))
            .await;
        let told = until("it is told", async || project.events("web", "RecordRebuilt").await.pop()).await;
        assert!(told.1.contains("renders the chart again over the 4 objects"), "{told:?}");
        let after =
            (password(&project).await, project.get("apps/v1", "Deployment", "web").await.unwrap().metadata.generation);
        assert_eq!(after, before, "nothing was generated anew");
        for helm in ["helm3", "helm4"] {
            let manifest = project.helm(helm, &["get", "manifest", "web"]);
            assert!(manifest.contains("colour: green") && !manifest.contains("chartwright.dev"), "{manifest}");
        }
        until_calm(Duration::from_secs(1), "it rests", async || {
            (revisions(&project).await, project.crs().get("web").await.unwrap().resource_version())
        })
        .await;
        // It serves as any other: what the next revision lacks goes.
        project.apply("web", json!({"objects": [config("web", "black"), workload()]})).await;
        project.deployed("web").await;
        until("it is pruned", async || project.get("v1", "ConfigMap", "other").await.is_none().then_some(())).await;
        assert_eq!(revisions(&project).await, [(3, Status::Superseded), (4, Status::Deployed)]);
    }
}

#[tokio::test]
async fn where_a_generated_value_is_gone_nothing_is_touched_until_somebody_allows_it() {
    let project = project().await;
    let operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue"), config("other", "x")]})).await;
    project.condition("web", "Ready", "True").await;
    drop(operator);
    lose_records(&project).await;
    let secrets = project.objects("v1", "Secret", Some(&project.namespace));
    secrets.delete("random", &DeleteParams::default()).await.unwrap();
    let _operator = project.run();
    let told = project.not_ready("web", "RecordLost").await;
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("the chart generates") && message.contains("chartwright.dev/render-anew"), "{message}");
    assert!(project.get("v1", "Secret", "random").await.is_none());
    assert!(project.get("v1", "ConfigMap", "other").await.is_some());
    // What the new render lacks stays: only its marks say that it is the release's, and everybody can write those.
    project.apply("web", json!({"objects": [config("other", "x")]})).await;
    project.annotate("web", "chartwright.dev/render-anew", "true").await;
    project.condition("web", "Ready", "True").await;
    assert!(project.get("v1", "ConfigMap", "other").await.is_some());
    let told = until("it is told", async || project.events("web", "NotPruned").await.pop()).await;
    assert!(told.1.contains("ConfigMap") && told.1.contains("web"), "{told:?}");
    assert!(project.get("v1", "ConfigMap", "web").await.is_some());
    assert_eq!(revisions(&project).await, [(2, Status::Deployed)]);
}

/// Objects that the chart makes in hooks.
const HOOKS: &str = "\
apiVersion: v1
kind: Secret
metadata: {name: installed, annotations: {helm.sh/hook: pre-install}}
stringData: {password: '{{ randAlphaNum 12 }}'}
---
apiVersion: v1
kind: Secret
metadata: {name: both, annotations: {helm.sh/hook: 'pre-install,pre-upgrade'}}
stringData: {password: '{{ randAlphaNum 12 }}'}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: upgraded, annotations: {helm.sh/hook: post-upgrade}}
---
{{- if .Release.IsInstall }}
apiVersion: v1
kind: ConfigMap
metadata: {name: first, annotations: {helm.sh/resource-policy: keep}}
{{- end }}
";

async fn secret(project: &Project, name: &str) -> (Option<String>, Value) {
    let secret = project.get("v1", "Secret", name).await.unwrap();
    (secret.uid(), secret.data["data"]["password"].clone())
}

#[tokio::test]
async fn without_records_a_release_is_upgraded_and_what_hooks_generated_stays() {
    let project = project().await;
    project.template("hooks.yaml", HOOKS);
    let operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.condition("web", "Ready", "True").await;
    let before = (secret(&project, "installed").await, secret(&project, "both").await.1);
    drop(operator);
    lose_records(&project).await;
    project.configs().delete("first", &DeleteParams::default()).await.unwrap();
    let _operator = project.run();
    until("it is recorded again", async || (revisions(&project).await == [(2, Status::Deployed)]).then_some(())).await;
    assert_eq!((secret(&project, "installed").await, secret(&project, "both").await.1), before);
    assert!(project.get("v1", "ConfigMap", "upgraded").await.is_some(), "the hooks of an upgrade run");
    assert!(project.get("v1", "ConfigMap", "first").await.is_none(), "the chart sees an upgrade");
    let description = project.helm("helm4", &["history", "web"]);
    assert!(description.contains("Upgrade complete"), "{description}");
}

#[tokio::test]
async fn an_object_with_a_generated_name_is_neither_made_twice_nor_removed_silently() {
    let project = project().await;
    project.template("random.yaml", &RANDOM.replace("name: random", "name: 'random-{{ randAlpha 5 | lower }}'"));
    let secrets = project.objects("v1", "Secret", Some(&project.namespace));
    let generated = async || {
        let all = secrets.list(&ListParams::default()).await.unwrap();
        all.iter().map(ResourceExt::name_any).filter(|name| name.starts_with("random-")).collect::<Vec<_>>()
    };
    let operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.condition("web", "Ready", "True").await;
    drop(operator);
    let before = generated().await;
    lose_records(&project).await;
    let _operator = project.run();
    let told = project.not_ready("web", "RecordLost").await;
    assert!(told["message"].as_str().unwrap().contains("generates the name"), "{told}");
    assert_eq!(generated().await, before);
    project.annotate("web", "chartwright.dev/render-anew", "true").await;
    project.condition("web", "Ready", "True").await;
    let after = generated().await;
    assert!(after.len() == 2 && after.contains(&before[0]), "{before:?} {after:?}");
}

/// Deletes the custom resource and its records. Its objects stay, as where a backup has these alone.
async fn lose_custom_resource(project: &Project) {
    lose_records(project).await;
    let none = json!({"metadata": {"finalizers": null}});
    project.crs().patch("web", &Default::default(), &Patch::Merge(none)).await.unwrap();
    let orphan = DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..Default::default() };
    project.crs().delete("web", &orphan).await.unwrap();
    project.gone("web").await;
}

#[tokio::test]
async fn a_partial_restore_replaces_no_generated_value_silently() {
    let project = project().await;
    project.template("hooks.yaml", HOOKS);
    let spec = json!({"objects": [config("web", "blue"), workload()]});
    let operator = project.run();
    project.apply("web", spec.clone()).await;
    project.condition("web", "Ready", "True").await;
    let before = (password(&project).await, secret(&project, "installed").await);
    drop(operator);
    // All objects are there.
    lose_custom_resource(&project).await;
    project.apply("web", spec.clone()).await;
    let operator = project.run();
    project.condition("web", "Ready", "True").await;
    assert_eq!((password(&project).await, secret(&project, "installed").await), before);
    drop(operator);
    // The Secret is missing.
    lose_custom_resource(&project).await;
    let secrets = project.objects("v1", "Secret", Some(&project.namespace));
    secrets.delete("random", &DeleteParams::default()).await.unwrap();
    project.apply("web", spec.clone()).await;
    let operator = project.run();
    let told = project.not_ready("web", "RecordLost").await;
    assert!(told["message"].as_str().unwrap().contains("Secret"), "{told}");
    assert!(project.get("v1", "Secret", "random").await.is_none());
    project.annotate("web", "chartwright.dev/render-anew", "true").await;
    project.condition("web", "Ready", "True").await;
    drop(operator);
    // Nothing is left but what the chart keeps: that is an install.
    lose_custom_resource(&project).await;
    for (version, kind, name) in
        [("v1", "Secret", "random"), ("v1", "ConfigMap", "web"), ("apps/v1", "Deployment", "web")]
    {
        let objects = project.objects(version, kind, Some(&project.namespace));
        objects.delete(name, &DeleteParams::default()).await.unwrap();
        until("it is gone", async || project.get(version, kind, name).await.is_none().then_some(())).await;
    }
    project.apply("web", spec).await;
    let _operator = project.run();
    project.condition("web", "Ready", "True").await;
    assert_ne!(secret(&project, "installed").await, before.1, "the hooks of an install run");
}

#[tokio::test]
async fn what_helm_uninstalled_comes_back_and_the_claims_left_behind_are_named() {
    let claims = json!([{"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {
        "serviceName": "db", "replicas": 1, "selector": {"matchLabels": {"app": "db"}}, "volumeClaimTemplates": claims,
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "db", "image": "one"}]}}}});
    for (helm, more) in [("helm3", &[][..]), ("helm4", &[]), ("helm4", &["--keep-history"])] {
        let project = Project::of_objects().await;
        let _operator = project.run();
        let kept = annotated(config("kept", "blue"), json!({"helm.sh/resource-policy": "keep"}));
        let mut objects = vec![config("web", "blue"), set.clone()];
        objects.extend((!more.is_empty()).then_some(kept));
        project.apply("web", json!({"objects": objects})).await;
        project.condition("web", "Ready", "True").await;
        let claim = project.get("v1", "PersistentVolumeClaim", "data-db-0").await.unwrap().uid();
        let old = project.get("v1", "ConfigMap", "web").await.unwrap().uid();
        project.helm(helm, &[&["uninstall", "web"], more].concat());
        let told = until_within(Duration::from_secs(10), "it is told", async || {
            project.events("web", "Uninstalled").await.pop()
        })
        .await;
        assert!(told.1.contains("installed again") && told.1.contains("data-db-0"), "{told:?}");
        until("it is there again", async || project.get("v1", "ConfigMap", "web").await.filter(|it| it.uid() != old))
            .await;
        project.condition("web", "Ready", "True").await;
        assert_eq!(project.get("v1", "PersistentVolumeClaim", "data-db-0").await.unwrap().uid(), claim);
        // Numbers go on.
        until("it is recorded", async || {
            (revisions(&project).await.last() == Some(&(2, Status::Deployed))).then_some(())
        })
        .await;
        let is_rebuilt = project.events("web", "RecordRebuilt").await.pop();
        assert!(more.is_empty() || is_rebuilt.is_none(), "there is a proven record: {is_rebuilt:?}");
    }
}

#[tokio::test]
async fn a_record_that_would_be_too_large_is_told_and_nothing_is_half_written() {
    let project = Project::of_objects().await;
    let bulk = "{{ range $i := until (int .Values.bulk) }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'bulk-{{ $i }}'}\ndata:\n  a: {{ randBytes 300000 }}\n{{ end }}";
    project.template("bulk.yaml", bulk);
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue")], "bulk": 1})).await;
    project.condition("web", "Ready", "True").await;
    project.apply("web", json!({"objects": [config("web", "green")], "bulk": 4})).await;
    let told = project.not_ready("web", "InvalidManifest").await;
    assert!(told["message"].as_str().unwrap().contains("and a Secret holds 1048576"), "{told}");
    assert_eq!(project.get("v1", "ConfigMap", "web").await.unwrap().data["data"]["colour"], "blue");
    assert!(project.get("v1", "ConfigMap", "bulk-1").await.is_none());
    assert_eq!(revisions(&project).await, [(1, Status::Deployed)]);
    project.apply("web", json!({"objects": [config("web", "black")], "bulk": 0})).await;
    project.deployed("web").await;
    project.condition("web", "Ready", "True").await;
}
