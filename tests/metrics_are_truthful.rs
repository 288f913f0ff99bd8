//! The operator exports what happened, in a form that Prometheus reads, and under the names that its documents, alerts and
//! dashboard use.
//!
//! One operator works for all tests of this file: it installs, runs a hook, repairs, and fails.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::harness::asking::get;
use crate::harness::prometheus::{self, Scrape};
use crate::harness::{Project, annotated, config, until};

/// Exported only where the operator is asked to serve by TLS with somebody's certificate.
const NOT_ALWAYS: [&str; 3] = [
    "certwatcher_read_certificate_total",
    "certwatcher_read_certificate_errors_total",
    "chartwright_unreadable_objects_total",
];

/// Labels that Prometheus adds.
const OF_PROMETHEUS: [&str; 3] = ["job", "instance", "le"];

/// A scrape of an operator that has worked, one after a custom resource went, and who it worked for.
struct Worked {
    before: Scrape,
    after: Scrape,
    group: String,
    namespace: String,
}

async fn worked() -> &'static Worked {
    static WORKED: OnceCell<Worked> = OnceCell::const_new();
    WORKED.get_or_init(work).await
}

async fn work() -> Worked {
    let project = Project::new("App").await;
    project.with_kind_to_come("Later");
    project.template(
        "objects.yaml",
        "{{ if .Values.wrong }}{{ fail \"no\" }}{{ end }}{{ range .Values.objects }}\n---\n{{ toYaml . }}\n{{ end }}",
    );
    let args = ["--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0", "--leader-elect"];
    let operator = project.launch().args(&args).start();
    let address = operator.address("metrics").await;
    let hook = annotated(config("hook", "red"), json!({"helm.sh/hook": "pre-install"}));
    project.apply("web", json!({"objects": [config("web", "blue"), hook]})).await;
    project.deployed("web").await;
    project.apply("other", json!({"objects": [config("other", "blue")]})).await;
    project.deployed("other").await;
    project.apply("broken", json!({"wrong": true})).await;
    project.not_ready("broken", "RenderFailed").await;
    meddle(&project).await;
    let scrape = async || Scrape::read(&get(&address, "/metrics", None).await.expect("an answer").body);
    let before = until("the repair is counted", async || {
        let scrape = scrape().await;
        scrape.value("chartwright_drift_repairs_total", &[]).map(|_| scrape)
    })
    .await;
    project.delete("other").await;
    project.gone("other").await;
    let after = until("the series are gone", async || {
        let scrape = scrape().await;
        scrape.value("resource_created_at_seconds", &[("name", "other")]).is_none().then_some(scrape)
    })
    .await;
    Worked { before, after, group: project.resource.group.clone(), namespace: project.namespace.clone() }
}

/// Somebody else takes a field.
async fn meddle(project: &Project) {
    let patch = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"colour": "green"}});
    let params = PatchParams::apply("meddler").force();
    project.configs().patch("web", &params, &Patch::Apply(patch)).await.unwrap();
    until("the colour is back", async || {
        let colour = project.configs().get("web").await.unwrap().data["data"]["colour"].clone();
        (colour == "blue").then_some(())
    })
    .await;
}

#[tokio::test]
async fn controller_runtimes_metrics_say_what_happened() {
    let Worked { before: scrape, .. } = worked().await;
    let of_app = ("controller", "app-controller");
    let value = |name: &str, labels: &[(&str, &str)]| scrape.value(name, &[&[of_app][..], labels].concat());
    let at_least = |name: &str, labels: &[(&str, &str)], least: f64| {
        let found = value(name, labels);
        assert!(found.is_some_and(|found| found >= least), "{name}{labels:?} is {found:?}, not {least} or more");
    };
    at_least("controller_runtime_reconcile_total", &[("result", "success")], 2.0);
    at_least("controller_runtime_reconcile_total", &[("result", "error")], 1.0);
    at_least("controller_runtime_reconcile_errors_total", &[], 1.0);
    at_least("controller_runtime_terminal_reconcile_errors_total", &[], 1.0);
    at_least("controller_runtime_reconcile_time_seconds", &[], 3.0);
    at_least("controller_runtime_max_concurrent_reconciles", &[], 1.0);
    assert_eq!(value("controller_runtime_reconcile_panics_total", &[]), Some(0.0));
    for name in ["workqueue_adds_total", "workqueue_queue_duration_seconds", "workqueue_work_duration_seconds"] {
        at_least(name, &[("name", "app-controller")], 3.0);
    }
    for priority in ["0", "-50", "-100"] {
        at_least("workqueue_depth", &[("priority", priority)], 0.0);
    }
    let posts = scrape.value("rest_client_requests_total", &[("method", "POST"), ("code", "201")]);
    assert!(posts.is_some_and(|posts| posts >= 2.0), "records were made");
    assert!(scrape.value("process_resident_memory_bytes", &[]).is_some_and(|bytes| bytes > 1e6));
    assert_eq!(scrape.value("helm_operator_build_info", &[]), Some(1.0));
}

#[tokio::test]
async fn our_own_metrics_say_what_happened() {
    let Worked { before: scrape, .. } = worked().await;
    let value = |name: &str, labels: &[(&str, &str)]| scrape.value(name, labels).unwrap_or(-1.0);
    assert!(value("chartwright_render_seconds", &[("result", "success")]) >= 2.0);
    assert!(value("chartwright_render_seconds", &[("result", "RenderFailed")]) >= 1.0);
    assert!(value("chartwright_helm_processes_total", &[]) >= 3.0);
    assert_eq!(value("chartwright_helm_processes_running", &[]), 0.0);
    assert!(value("chartwright_errors_total", &[("category", "RenderFailed")]) >= 1.0);
    assert!(value("chartwright_drift_repairs_total", &[("object_kind", "ConfigMap"), ("object_group", "")]) >= 1.0);
    assert!(value("chartwright_field_conflicts_total", &[("manager", "meddler")]) >= 1.0);
    assert_eq!(value("chartwright_hooks_total", &[("event", "pre-install"), ("result", "succeeded")]), 1.0);
    assert!(value("chartwright_watches", &[("state", "working")]) >= 4.0);
    assert_eq!(value("chartwright_kind_present", &[("kind", "App")]), 1.0);
    assert_eq!(value("chartwright_kind_present", &[("kind", "Later")]), 0.0);
}

#[tokio::test]
async fn each_custom_resource_has_series_until_it_goes() {
    let Worked { before, after, group, namespace } = worked().await;
    let of = |name| [("group", group.as_str()), ("kind", "App"), ("namespace", namespace.as_str()), ("name", name)];
    assert!(before.value("resource_created_at_seconds", &of("web")).is_some_and(|at| at > 1.7e9));
    assert_eq!(before.value("chartwright_release_revision", &of("web")), Some(1.0));
    let condition = |name, kind, status| {
        before.value("chartwright_condition", &[&of(name)[..], &[("type", kind), ("status", status)]].concat())
    };
    assert_eq!(condition("web", "Ready", "True"), Some(1.0));
    assert_eq!(condition("broken", "Ready", "False"), Some(1.0));
    assert_eq!(condition("broken", "Ready", "True"), None);
    assert_eq!(before.value("chartwright_resources", &[("ready", "True")]), Some(2.0));
    assert_eq!(before.value("chartwright_resources", &[("ready", "False")]), Some(1.0));
    for name in ["resource_created_at_seconds", "chartwright_release_revision", "chartwright_condition"] {
        assert!(before.value(name, &of("other")).is_some(), "{name}");
        assert_eq!(after.value(name, &of("other")), None, "{name}");
    }
}

#[tokio::test]
async fn every_expression_of_the_alerts_and_the_dashboard_is_about_what_is_exported() {
    let Worked { before: scrape, .. } = worked().await;
    let all: Vec<String> = alerts().into_iter().chain(panels()).collect();
    assert!(all.len() > 30, "{} expressions", all.len());
    for it in prometheus::expressions(&all) {
        let mut known: BTreeSet<&str> = OF_PROMETHEUS.into();
        for selector in it.selectors.iter().filter(|it| !NOT_ALWAYS.contains(&it.metric.as_str())) {
            let family = scrape.family_of(&selector.metric);
            let family = family.unwrap_or_else(|| panic!("{} is not exported: {}", selector.metric, it.expression));
            let labels = scrape.labels(family).unwrap();
            for label in selector.labels.iter().filter(|label| !OF_PROMETHEUS.contains(&label.as_str())) {
                assert!(labels.contains(label.as_str()), "{family} has no label {label}: {}", it.expression);
            }
            known.extend(labels);
        }
        if it.selectors.iter().any(|it| NOT_ALWAYS.contains(&it.metric.as_str())) {
            known.insert("name");
        }
        for label in &it.grouped {
            assert!(known.contains(label.as_str()), "nothing has the label {label}: {}", it.expression);
        }
    }
}

#[tokio::test]
async fn the_table_of_metrics_in_the_documents_is_what_is_exported() {
    let Worked { before: scrape, .. } = worked().await;
    let documented = documented();
    for (name, family) in &scrape.0 {
        let (kind, labels) = documented.get(name).unwrap_or_else(|| panic!("docs/operations.md does not list {name}"));
        assert_eq!(*kind, family.kind.to_lowercase(), "the type of {name}");
        let exported = scrape.labels(name).unwrap().into_iter().map(str::to_owned).collect();
        assert_eq!(*labels, exported, "the labels of {name}");
        assert!(!family.help.is_empty(), "{name} says what it is");
    }
    for name in documented.keys().filter(|name| !NOT_ALWAYS.contains(&name.as_str())) {
        assert!(scrape.0.contains_key(name), "docs/operations.md lists {name}, which is not exported");
    }
}

fn file(path: &str) -> String {
    let path: PathBuf = lab::checkout().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn alerts() -> Vec<String> {
    let rules: Value = serde_yaml::from_str(&file("config/prometheus/alerts.yaml")).unwrap();
    let groups = rules["spec"]["groups"].as_array().unwrap();
    let rules = groups.iter().flat_map(|group| group["rules"].as_array().unwrap());
    rules.map(|rule| rule["expr"].as_str().unwrap().to_owned()).collect()
}

/// With what Grafana puts in before it asks.
fn panels() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&file("config/grafana/chartwright.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let expressions = targets.map(|target| target["expr"].as_str().unwrap().replace("$__rate_interval", "5m"));
    expressions.collect()
}

/// The rows of the tables in the section on metrics: name, type, labels.
fn documented() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let page = file("docs/operations.md");
    let section = page.split("\n## ").find(|section| section.starts_with("Metrics")).expect("a section on metrics");
    let rows = section.lines().filter(|line| line.starts_with("| `") && !line.starts_with("| `--"));
    let words = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        (words(cells[0])[0].clone(), (cells[1].to_owned(), words(cells[2]).into_iter().collect()))
    })
    .collect()
}
