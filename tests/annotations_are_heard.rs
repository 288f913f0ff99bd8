//! What a custom resource asks for by annotations: to be left alone for a time, to be checked, to be described.

use std::time::{Duration, Instant};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::{ApiResource, DeleteParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use crate::harness::{Project, Scope, config, install_crd, uninstall_crd, until};

const PAUSED: &str = "chartwright.dev/paused";
const REQUESTED_AT: &str = "chartwright.dev/requested-at";

async fn edit_config(project: &Project, colour: &str) {
    let patch = Patch::Merge(json!({"data": {"colour": colour}}));
    project.configs().patch("web", &PatchParams::default(), &patch).await.unwrap();
}

async fn has_colour(project: &Project, colour: &str) {
    until(&format!("it is {colour}"), async || {
        let config = project.get("v1", "ConfigMap", "web").await?;
        (config.data["data"]["colour"] == colour).then_some(())
    })
    .await;
}

fn paused(status: &Value) -> Option<&Value> {
    status["conditions"].as_array()?.iter().find(|it| it["type"] == "Paused")
}

#[tokio::test]
async fn nothing_is_done_to_what_is_paused() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    for name in ["web", "witness"] {
        project.apply(name, json!({"objects": [config(name, "blue")]})).await;
        project.condition(name, "Ready", "True").await;
    }
    project.annotate("web", PAUSED, "true").await;
    let told =
        project.told("web", "Paused", |status| paused(status).filter(|it| it["status"] == "True").cloned()).await;
    assert_eq!(told["reason"], "PauseReconcileAnnotationTrue");
    let since = Timestamp::now();
    edit_config(&project, "red").await;
    project.apply("web", json!({"objects": [config("web", "green")]})).await;
    project.crs().delete("web", &DeleteParams::default()).await.unwrap();
    project
        .told("web", "a deletion that waits", |status| {
            let message = paused(status)?["message"].as_str()?;
            message.ends_with("until it is taken off. Its deletion waits.").then_some(())
        })
        .await;
    project.apply("witness", json!({"objects": [config("witness", "green")]})).await;
    project.told("witness", "revision 2", |status| (status["deployedRelease"]["revision"] == 2).then_some(())).await;
    has_colour(&project, "red").await;
    let is_write = |call: &String| !["get", "list", "watch"].iter().any(|verb| call.starts_with(verb));
    let writes: Vec<_> = project.calls_since(since).into_iter().filter(is_write).collect();
    assert!(!writes.iter().any(|call| call.contains("web") && !call.contains("/web/status")), "{writes:#?}");
    // The record of the other one's second revision.
    let records = writes.iter().filter(|call| call.starts_with("create") && call.contains("/secrets"));
    assert_eq!(records.count(), 1, "{writes:#?}");
    project.annotate("web", PAUSED, "false").await;
    until("it goes", async || project.crs().get_opt("web").await.unwrap().is_none().then_some(())).await;
}

#[tokio::test]
async fn a_pause_until_a_time_ends_by_itself() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.deployed("web").await;
    let end = Timestamp::now() + SignedDuration::from_secs(4);
    project.annotate("web", PAUSED, &end.to_string()).await;
    project.told("web", "Paused", |status| paused(status).filter(|it| it["status"] == "True").cloned()).await;
    project.apply("web", json!({"objects": [config("web", "green")]})).await;
    has_colour(&project, "green").await;
    assert!(Timestamp::now() >= end, "it waited");
    project.told("web", "Paused=False", |status| paused(status).filter(|it| it["status"] == "False").map(drop)).await;
}

#[tokio::test]
async fn a_new_request_has_everything_checked_and_makes_no_revision() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.condition("web", "Ready", "True").await;
    let since = Timestamp::now();
    project.annotate("web", REQUESTED_AT, "first").await;
    project.told("web", "the request", |status| (status["lastHandledRequestedAt"] == "first").then_some(())).await;
    let calls = project.calls_since(since);
    let dry_runs = calls.iter().filter(|call| call.contains("/configmaps/web?") && call.contains("dryRun=All"));
    assert_eq!(dry_runs.count(), 1, "{calls:#?}");
    assert!(calls.iter().any(|call| call.starts_with("list") && call.contains("/secrets")), "{calls:#?}");
    let status = project.status("web").await;
    assert_eq!(status["deployedRelease"]["revision"], 1);
    // The same value asks for nothing.
    let since = Timestamp::now();
    project.annotate("web", "example.com/any", "thing").await;
    project.apply("witness", json!({"objects": [config("witness", "blue")]})).await;
    project.deployed("witness").await;
    assert!(!project.calls_since(since).iter().any(|call| call.contains("/configmaps/web")));
}

#[tokio::test]
async fn a_request_finds_that_the_chart_renders_something_else() {
    let project = Project::new("App").await;
    let late = ApiResource::from_gvk(&GroupVersionKind::gvk(&format!("late.{}", project.resource.group), "v1", "Late"));
    let has = format!("{{{{ .Capabilities.APIVersions.Has \"{}\" | ternary \"green\" \"blue\" }}}}", late.api_version);
    project.template(
        "config.yaml",
        &format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\ndata:\n  colour: {has}\n"),
    );
    let _operator = project.run();
    project.apply("web", json!({})).await;
    project.condition("web", "Ready", "True").await;
    install_crd(&project.client, &late, Scope::Namespaced).await;
    // What the cluster offers is no reason for a render by itself.
    project.annotate("web", "example.com/any", "thing").await;
    has_colour(&project, "blue").await;
    project.annotate("web", REQUESTED_AT, "1").await;
    project.told("web", "the request", |status| (status["lastHandledRequestedAt"] == "1").then_some(())).await;
    has_colour(&project, "green").await;
    assert_eq!(project.status("web").await["deployedRelease"]["revision"], 2);
    uninstall_crd(&project.client, &late).await;
}

#[tokio::test]
async fn a_request_keeps_random_values() {
    let project = Project::new("App").await;
    let configs = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\ndata:\n  colour: blue\n";
    project.template("config.yaml", &format!("{configs}  random: {{{{ randAlphaNum 16 }}}}\n"));
    let _operator = project.run();
    project.apply("web", json!({})).await;
    project.condition("web", "Ready", "True").await;
    let before = project.get("v1", "ConfigMap", "web").await.unwrap();
    project.annotate("web", REQUESTED_AT, "1").await;
    project.told("web", "the request", |status| (status["lastHandledRequestedAt"] == "1").then_some(())).await;
    let after = project.get("v1", "ConfigMap", "web").await.unwrap();
    assert_eq!((&after.data, after.resource_version()), (&before.data, before.resource_version()));
    assert_eq!(project.events("web", "RandomRender").await.len(), 1);
    assert_eq!(project.status("web").await["deployedRelease"]["revision"], 1);
}

#[tokio::test]
async fn descriptions_are_in_the_history_and_slips_are_told() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    let sdk = |name: &str| format!("helm.sdk.operatorframework.io/{name}");
    project.condition("web", "Ready", "True").await;
    project.annotate("web", &sdk("upgrade-description"), "ticket 7").await;
    project.annotate("web", "chartwright.dev/pasued", "true").await;
    project.annotate("web", &sdk("reconcile-period"), "often").await;
    project.apply("web", json!({"objects": [config("web", "green")]})).await;
    project.told("web", "revision 2", |status| (status["deployedRelease"]["revision"] == 2).then_some(())).await;
    let history = project.helm("helm4", &["history", "web"]);
    assert!(history.contains("Install complete") && history.contains("ticket 7"), "{history}");
    let told = until("both slips are told", async || {
        let told = project.events("web", "InvalidAnnotation").await;
        (told.len() == 2).then_some(told)
    })
    .await;
    let says = |text: &str| told.iter().any(|(_, note)| note.contains(text));
    assert!(says("did you mean chartwright.dev/paused?") && says("reconcile-period is \"often\""), "{told:?}");
}

#[tokio::test]
async fn the_period_of_an_annotation_beats_the_flag() {
    let project = Project::of_objects().await;
    // Only a look by the clock finds out what happens to objects.
    project.watch_with("watchDependentResources: false");
    let _operator = project.launch().args(&["--reconcile-period=1h"]).start();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.deployed("web").await;
    project.annotate("web", "helm.sdk.operatorframework.io/reconcile-period", "1s").await;
    let start = Instant::now();
    // The annotation itself is a reason to look. The second time, only the period is.
    for _ in 0..2 {
        edit_config(&project, "red").await;
        has_colour(&project, "blue").await;
    }
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn the_flag_sets_the_period_and_hides_overrides() {
    let project = Project::of_objects().await;
    project.watch_with("watchDependentResources: false\noverrideValues: {password: hunter2}");
    project
        .template("refuse.yaml", r#"{{ if .Values.refuse }}{{ fail (print "not with " .Values.password) }}{{ end }}"#);
    let operator = project.launch().args(&["--reconcile-period=1s", "--suppress-override-values"]).start();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.deployed("web").await;
    edit_config(&project, "red").await;
    has_colour(&project, "blue").await;
    let told = until("the override is told", async || project.events("web", "OverrideValuesInUse").await.pop()).await;
    assert_eq!(told.1, r#"Chart value "password" overridden to "****" by operator's watches.yaml"#);
    // Nor when a chart quotes them.
    project.apply("web", json!({"refuse": true, "objects": []})).await;
    let told = project.not_ready("web", "RenderFailed").await.to_string();
    assert!(told.contains("not with") && !told.contains("hunter2"), "{told}");
    assert!(!operator.log().contains("hunter2"), "{}", operator.log());
}
