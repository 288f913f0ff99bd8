//! Whoever writes a custom resource cannot have the operator write outside of its namespace, unless the watch allows it.

use std::time::Duration;

use chartwright::calls::Calls;
use chartwright::discovery::Cache;
use chartwright::reach::scopes;
use chartwright::release::{Release, Status};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::harness::forging::as_crds;
use crate::harness::{Project, client, config, stays, until, within};

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// As many charts have it: a list of extra objects, of which templates are made.
const EXTRA: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: own, namespace: {{ .Release.Namespace }}}
data: {colour: {{ .Values.colour | quote }}}
{{ range .Values.extra }}
---
{{ tpl . $ }}
{{ end }}
";

fn role(name: &str) -> Value {
    json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": []})
}

async fn colour(project: &Project) -> Option<String> {
    let own = project.get("v1", "ConfigMap", "own").await?;
    own.data["data"]["colour"].as_str().map(str::to_owned)
}

/// An operator that also logs what is as usual.
fn run(project: &Project) -> crate::harness::Operator {
    project.launch().args(&["--zap-log-level=debug"]).start()
}

async fn says(operator: &crate::harness::Operator, words: &str) {
    until(words, async || operator.log().contains(words).then_some(())).await;
}

#[tokio::test]
async fn no_spec_leads_outside_and_the_last_good_release_stays() {
    let project = Project::new("App").await;
    project.template("all.yaml", EXTRA);
    let operator = run(&project);
    says(
        &operator,
        "releases of this kind are limited to their own namespace (set `allow` in watches.yaml to change this)",
    )
    .await;
    project.apply("web", json!({"colour": "blue"})).await;
    project.deployed("web").await;
    let victim = project.another_namespace("victim").await;
    let wide = format!("{}-wide", project.namespace);
    let far = within(&victim, config("far", "red"));
    let hook = json!({"apiVersion": RBAC, "kind": "ClusterRole", "rules": [],
        "metadata": {"name": wide, "annotations": {"helm.sh/hook": "pre-upgrade"}}});
    let here = within(&project.namespace, role(&wide));
    let binding = json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": wide},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": project.namespace}]});
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": wide}});
    let list =
        json!({"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "List", "items": [far]}]});
    let roles =
        json!({"apiVersion": RBAC, "kind": "ClusterRoleList", "items": [{"metadata": {"name": wide}, "rules": []}]});
    // Nobody limits crds/, so a template may try to look like it.
    let disguised = format!("# Source: app/crds/wide.yaml\n{binding}");
    let disguised_later = format!("{}\n---\n# Source: app/crds/wide.yaml\n{binding}", config("a", "b"));
    let slash = config(&format!("../../../namespaces/{victim}/configmaps/far"), "red");
    let subresource = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web/proxy/secret"}});
    let elsewhere = within(&format!("{victim}/configmaps/far?x="), config("far", "red"));
    let (outside, unreadable) = ("NotAllowed", "InvalidManifest");
    for (extra, reason, named) in [
        (far.to_string(), outside, format!("ConfigMap {victim}/far")),
        (role(&wide).to_string(), outside, format!("ClusterRole {wide}")),
        (here.to_string(), outside, format!("ClusterRole {wide}")),
        (hook.to_string(), outside, format!("ClusterRole {wide}")),
        (binding.to_string(), outside, format!("ClusterRoleBinding {wide}")),
        (space.to_string(), outside, format!("Namespace {wide}")),
        (list.to_string(), outside, format!("ConfigMap {victim}/far")),
        (roles.to_string(), outside, format!("ClusterRole {wide}")),
        (disguised, outside, format!("ClusterRoleBinding {wide}")),
        (disguised_later, outside, format!("ClusterRoleBinding {wide}")),
        (slash.to_string(), unreadable, "cannot be its metadata.name".to_owned()),
        (subresource.to_string(), unreadable, "cannot be its metadata.name".to_owned()),
        (elsewhere.to_string(), unreadable, "cannot be its metadata.namespace".to_owned()),
    ] {
        let generation = project.apply("web", json!({"colour": "red", "extra": [extra]})).await.metadata.generation;
        let told = project
            .told("web", &format!("{reason} for {extra}"), |status| {
                let ready = status["conditions"].as_array()?.iter().find(|it| it["type"] == "Ready")?.clone();
                (status["observedGeneration"] == json!(generation) && ready["reason"] == reason).then_some(ready)
            })
            .await;
        let message = told["message"].as_str().unwrap();
        assert!(message.contains(&named), "{message:?} should name {named:?}");
        assert!(reason != outside || message.contains("set `allow: ["), "{message:?} should name the setting");
        assert_eq!(colour(&project).await.as_deref(), Some("blue"), "after {extra}");
    }
    assert!(project.find("v1", "ConfigMap", Some(&victim), "far").await.is_none());
    assert!(project.find("v1", "Namespace", None, &wide).await.is_none());
    for kind in ["ClusterRole", "ClusterRoleBinding"] {
        assert!(project.find(RBAC, kind, None, &wide).await.is_none());
    }
    // What stays inside is not held up by it.
    project.apply("web", json!({"colour": "green", "extra": [config("more", "green").to_string()]})).await;
    project.deployed("web").await;
    assert_eq!(colour(&project).await.as_deref(), Some("green"));
}

#[tokio::test]
async fn what_the_chart_needs_by_default_is_allowed_and_told() {
    let project = Project::new("App").await;
    project.file("charts/app/values.yaml", "colour: grey\nextra: []\n");
    let wide = "{{ .Release.Namespace }}-wide";
    project.template("role.yaml", &role(wide).to_string());
    project.template("all.yaml", EXTRA);
    let operator = run(&project);
    says(&operator, "allowed by default: cluster, since the chart makes ClusterRole namespace-of-the-release-wide")
        .await;
    project.apply("web", json!({})).await;
    project.deployed("web").await;
    let victim = project.another_namespace("victim").await;
    project.apply("web", json!({"extra": [within(&victim, config("far", "red")).to_string()]})).await;
    let refused = project.not_ready("web", "NotAllowed").await;
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("`allow: [other-namespaces, cluster]`"), "{message:?}");
    for command in ["diff", "render"] {
        let complaint = project.cli(&[command, &project.named("web")]).complaint(if command == "diff" { 2 } else { 1 });
        assert!(complaint.contains("not allowed by default"), "{complaint}");
    }
    // The next chart makes none of its own.
    std::fs::remove_file(project.dir().join("charts/app/templates/role.yaml")).unwrap();
    says(
        &operator,
        "releases of this kind are limited to their own namespace (set `allow` in watches.yaml to change this)",
    )
    .await;
    drop(operator);
    project.watch_with("allow: [other-namespaces]");
    let operator = run(&project);
    says(&operator, "allowed by watches.yaml: other-namespaces").await;
    project.deployed("web").await;
    assert!(project.find("v1", "ConfigMap", Some(&victim), "far").await.is_some());
}

#[tokio::test]
async fn scopes_that_are_known_without_a_cluster_are_the_api_servers() {
    let kinds = Cache::new(Calls::new(client().await)).await.unwrap().kinds();
    let is_own = |group: &str| !group.contains('.') || group.ends_with(".k8s.io");
    // Reviews are questions, which nobody applies.
    let all: Vec<_> = kinds.catalog.kinds().filter(|(gvk, _)| !gvk.kind.ends_with("Review")).collect();
    let own: Vec<_> = all.iter().filter(|(gvk, _)| is_own(&gvk.group)).collect();
    let wrong: Vec<_> = own.iter().filter(|(gvk, kind)| scopes::is_namespaced(gvk) != Some(kind.namespaced)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(own.len() > 40, "only {} kinds", own.len());
}

/// Whoever may write Secrets may write records, and gets no further than a spec would.
#[tokio::test]
async fn no_record_leads_outside_either() {
    let project = Project::of_objects().await;
    project.watch_with("allow: []");
    let _operator = project.run();
    for colour in ["blue", "green"] {
        project.apply("web", json!({"objects": [config("own", colour)]})).await;
        project.deployed("web").await;
    }
    let wide = format!("{}-wide", project.namespace);
    let forged = as_crds(&role(&wide));
    project.forge("web", 1, |record| record.manifest = forged.clone().into()).await;
    project.annotate("web", "chartwright.dev/rollback-to", "1").await;
    let refused = project.not_ready("web", "RecordUnproven").await;
    assert!(refused["message"].as_str().unwrap().contains("cannot go back to revision 1"), "{refused}");

    project.annotate("web", "chartwright.dev/rollback-to", "").await;
    project.condition("web", "Ready", "True").await;
    let on_its_way = |record: &mut Release| (record.manifest, record.status) = (forged.into(), Status::PendingUpgrade);
    project.forge("web", 2, on_its_way).await;
    until("the chart is rendered instead", async || project.events("web", "RecordRebuilt").await.pop()).await;
    project.condition("web", "Ready", "True").await;
    assert!(project.find(RBAC, "ClusterRole", None, &wide).await.is_none());
}

/// What an earlier revision put outside is left as it is, and goes with its release; nothing is written there any more.
#[tokio::test]
async fn what_is_outside_already_may_go_but_is_not_written_again() {
    let project = Project::of_objects().await;
    let victim = project.another_namespace("victim").await;
    let (far, near) = (|colour: &str| within(&victim, config("far", colour)), |colour: &str| config("near", colour));
    let operator = project.run();
    project.apply("web", json!({"objects": [far("blue"), near("blue")]})).await;
    project.deployed("web").await;
    drop(operator);

    project.watch_with("allow: []");
    let operator = run(&project);
    says(&operator, "releases of this kind are limited to their own namespace by `allow` in watches.yaml").await;
    let configs = project.objects("v1", "ConfigMap", Some(&victim));
    configs.delete("far", &DeleteParams::default()).await.unwrap();
    project.configs().delete("near", &DeleteParams::default()).await.unwrap();
    until("what is inside is repaired", async || project.get("v1", "ConfigMap", "near").await).await;
    let is_there = async || project.find("v1", "ConfigMap", Some(&victim), "far").await.is_some();
    let refused = project.not_ready("web", "NotAllowed").await;
    assert!(refused["message"].as_str().unwrap().contains(&format!("ConfigMap {victim}/far")), "{refused}");
    assert!(!is_there().await);
    project.apply("web", json!({"objects": [near("green")]})).await;
    project.deployed("web").await;
    project.annotate("web", "chartwright.dev/rollback-to", "1").await;
    project.not_ready("web", "NotAllowed").await;
    stays(Duration::from_secs(1), "nothing is made outside", is_there).await;
    assert!(!is_there().await);
    drop(operator);

    // While it is allowed, it comes back; after that it can still be removed.
    project.watch_with("");
    let operator = project.run();
    until("the revision is gone back to", async || is_there().await.then_some(())).await;
    project.deployed("web").await;
    drop(operator);
    project.watch_with("allow: []");
    let _operator = project.run();
    project.delete("web").await;
    project.gone("web").await;
    assert!(!is_there().await);
}
