//! Charts that change on disk while the operator runs.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::json;

use crate::harness::life::Life;
use crate::harness::{Project, until};

/// Two looks at the files, a render, and what a busy machine adds.
const A_FEW_SECONDS: Duration = Duration::from_secs(15);

fn config(name: &str, colour: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{{{ .Release.Name }}}}-{name}\ndata:\n  colour: {colour}\n"
    )
}

fn chart_file(version: &str) -> String {
    format!("apiVersion: v2\nname: app\nversion: {version}\n")
}

async fn project() -> Project {
    let project = Project::new("App").await;
    project.template("first.yaml", &config("first", "blue"));
    project
}

async fn colour(project: &Project, name: &str) -> Option<String> {
    let config = project.get("v1", "ConfigMap", name).await?;
    config.data["data"]["colour"].as_str().map(str::to_owned)
}

/// The chart and its version, as helm lists the one release.
fn listed(project: &Project) -> String {
    let list: serde_json::Value = serde_json::from_str(&project.helm("helm4", &["list", "--output", "json"])).unwrap();
    list[0]["chart"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn files_that_are_added_changed_and_deleted_arrive_without_a_restart() {
    let project = project().await;
    let mut life = Life::begin(&project, "web");
    life.step(json!({}), &["ConfigMap ./web-first"]).await;

    let changed = Instant::now();
    project.template("second.yaml", &config("second", "green"));
    life.next_revision(None, &["ConfigMap ./web-first", "ConfigMap ./web-second"]).await;
    assert!(changed.elapsed() < A_FEW_SECONDS, "it took {:?}", changed.elapsed());

    project.template("first.yaml", &config("first", "red"));
    life.next_revision(None, &["ConfigMap ./web-first", "ConfigMap ./web-second"]).await;
    assert_eq!(colour(&project, "web-first").await.as_deref(), Some("red"));

    std::fs::remove_file(project.dir().join("charts/app/templates/first.yaml")).unwrap();
    life.next_revision(None, &["ConfigMap ./web-second"]).await;

    assert_eq!(listed(&project), "app-0.1.0");
    project.file("charts/app/Chart.yaml", &chart_file("0.2.0"));
    life.next_revision(None, &["ConfigMap ./web-second"]).await;
    assert_eq!(listed(&project), "app-0.2.0");

    // What was seen while it ran is what the next one finds.
    life.restart().await;
    life.end(&[]).await;
}

#[tokio::test]
async fn a_packed_chart_is_used_and_its_successor_upgrades() {
    let project = project().await;
    pack(&project);
    let group = &project.resource.group;
    let watch = format!("- {{group: {group}, version: v1, kind: App, chart: packed/app.tgz}}\n");
    project.file("watches.yaml", &watch);
    let mut life = Life::begin(&project, "web");
    life.step(json!({}), &["ConfigMap ./web-first"]).await;
    assert_eq!(listed(&project), "app-0.1.0");

    project.template("second.yaml", &config("second", "green"));
    project.file("charts/app/Chart.yaml", &chart_file("0.2.0"));
    pack(&project);
    life.next_revision(None, &["ConfigMap ./web-first", "ConfigMap ./web-second"]).await;
    assert_eq!(listed(&project), "app-0.2.0");
    life.restart().await;
    life.end(&[]).await;
}

/// Packs the chart and puts it in the place of the last one at once.
fn pack(project: &Project) {
    project.helm("helm4", &["package", "charts/app", "--destination", "fresh"]);
    let fresh = std::fs::read_dir(project.dir().join("fresh")).unwrap().next().unwrap().unwrap().path();
    std::fs::create_dir_all(project.dir().join("packed")).unwrap();
    std::fs::rename(fresh, project.dir().join("packed/app.tgz")).unwrap();
}

/// What the Warning events on the project's CRD say.
async fn complaints(project: &Project) -> Vec<String> {
    let crd = format!("{}.{}", project.resource.plural, project.resource.group);
    let events: Api<Event> = Api::namespaced(project.client.clone(), "default");
    let selector = format!("type=Warning,reason=BrokenChart,involvedObject.name={crd}");
    let mut list = events.list(&ListParams::default().fields(&selector)).await.unwrap().items;
    list.sort_by_key(|event| event.metadata.creation_timestamp.clone());
    list.into_iter().filter_map(|event| event.message).collect()
}

async fn complaint_about(project: &Project, what: &str) {
    until(&format!("an event on the CRD that names {what}"), async || {
        complaints(project).await.into_iter().find(|message| message.contains(what))
    })
    .await;
}

#[tokio::test]
async fn a_broken_chart_is_told_on_the_crd_and_the_last_good_one_stays_in_use() {
    let project = project().await;
    let mut life = Life::begin(&project, "web");
    life.step(json!({}), &["ConfigMap ./web-first"]).await;

    project.template("broken.yaml", "{{ if }}");
    project.template("first.yaml", &config("first", "red"));
    complaint_about(&project, "broken.yaml").await;

    // An edit and a new resource get the last good chart.
    life.step(json!({"any": "thing"}), &["ConfigMap ./web-first"]).await;
    assert_eq!(colour(&project, "web-first").await.as_deref(), Some("blue"));
    project.apply("late", json!({})).await;
    project.condition("late", "Ready", "True").await;
    assert_eq!(colour(&project, "late-first").await.as_deref(), Some("blue"));

    project.file("charts/app/Chart.yaml", "apiVersion: v2\nname: app\n");
    complaint_about(&project, "version").await;
    assert_eq!(colour(&project, "web-first").await.as_deref(), Some("blue"));

    // Repaired, everybody gets the new one.
    project.file("charts/app/Chart.yaml", &chart_file("0.2.0"));
    std::fs::remove_file(project.dir().join("charts/app/templates/broken.yaml")).unwrap();
    until("both resources have the repaired chart", async || {
        let colours = (colour(&project, "web-first").await?, colour(&project, "late-first").await?);
        (colours == ("red".into(), "red".into())).then_some(())
    })
    .await;
    let told = complaints(&project).await;
    assert_eq!(told.len(), 2, "each mistake is told once: {told:#?}");
    for name in ["web", "late"] {
        let failed = project.condition(name, "ReleaseFailed", "False").await;
        assert!(failed.get("message").is_none(), "{failed}");
    }
}

#[tokio::test]
async fn a_chart_that_is_gone_and_comes_back_changes_nothing() {
    let project = project().await;
    let mut life = Life::begin(&project, "web");
    life.step(json!({}), &["ConfigMap ./web-first"]).await;
    let before = project.get("v1", "ConfigMap", "web-first").await.unwrap();
    let (chart, aside) = (project.dir().join("charts/app"), project.dir().join("aside"));
    std::fs::rename(&chart, &aside).unwrap();
    complaint_about(&project, "does not exist").await;
    std::fs::rename(&aside, &chart).unwrap();
    // The next change shows that the chart's return was no revision of its own.
    project.template("second.yaml", &config("second", "green"));
    life.next_revision(None, &["ConfigMap ./web-first", "ConfigMap ./web-second"]).await;
    let after = project.get("v1", "ConfigMap", "web-first").await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version());
    life.end(&[]).await;
}
