//! Charts of every sort, from install to removal. After each step every object that is there is counted and looked at.
//!
//! What [`Life`] checks at each step is not repeated here: the exact set of objects, their ties to the custom resource, that
//! none was made again, the records, and that the status says Deployed and Ready.

use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use crate::harness::life::Life;
use crate::harness::{Project, create_namespace};

async fn value(project: &Project, api_version: &str, kind: &str, name: &str, pointer: &str) -> Value {
    let object = project.get(api_version, kind, name).await.unwrap_or_else(|| panic!("no {kind} {name}"));
    object.data.pointer(pointer).cloned().unwrap_or_default()
}

async fn of_config(project: &Project, name: &str, key: &str) -> Value {
    value(project, "v1", "ConfigMap", name, &format!("/data/{key}")).await
}

#[tokio::test]
async fn the_sample_chart_lives_and_dies() {
    let project = Project::with_chart("Nginx", "helm-charts/nginx").await;
    let mut life = Life::begin(&project, "web");
    let base = ["ConfigMap ./web", "Deployment ./web", "Service ./web", "ServiceAccount ./web"];
    life.step(json!({}), &base).await;
    life.step(json!({"replicaCount": 3}), &base).await;
    assert_eq!(value(&project, "apps/v1", "Deployment", "web", "/status/readyReplicas").await, 3);
    life.step(json!({"replicaCount": 3, "page": "Hello\n", "service": {"port": 8080}}), &base).await;
    assert_eq!(of_config(&project, "web", "index.html").await, "Hello\n");
    assert_eq!(value(&project, "v1", "Service", "web", "/spec/ports/0/port").await, 8080);
    life.restart().await;
    let on = json!({"enabled": true});
    let more = ["Ingress ./web", "NetworkPolicy ./web", "PodDisruptionBudget ./web"];
    let spec = json!({"ingress": on, "networkPolicy": on, "podDisruptionBudget": on});
    life.step(spec, &[&base[..], &more].concat()).await;
    life.step(json!({"networkPolicy": on}), &[&base[..], &more[1..2]].concat()).await;
    life.restart().await;
    life.end(&[]).await;
}

#[tokio::test]
async fn a_database_leaves_its_claims_and_what_is_to_be_kept() {
    let project = Project::with_chart("Database", "tests/charts/database").await;
    let mut life = Life::begin(&project, "db");
    let base = [
        "ConfigMap ./db",
        "PersistentVolumeClaim ./data-db-0 (made)",
        "Secret ./db-password",
        "Service ./db",
        "StatefulSet ./db",
    ];
    let with = |more: &[&'static str]| [&base[..], more].concat();
    let (backup, archive) = ("PersistentVolumeClaim ./db-backup", "PersistentVolumeClaim ./db-archive");
    let (metrics, second) = ("Service ./db-metrics", "PersistentVolumeClaim ./data-db-1 (made)");
    life.step(json!({}), &with(&[backup, archive, metrics])).await;
    life.step(json!({"replicas": 2}), &with(&[backup, archive, metrics, second])).await;
    assert_eq!(value(&project, "apps/v1", "StatefulSet", "db", "/status/readyReplicas").await, 2);
    life.step(json!({"replicas": 1, "logLevel": "debug"}), &with(&[backup, archive, metrics, second])).await;
    assert_eq!(of_config(&project, "db", "database.conf").await, "log_level = debug\n");
    life.restart().await;

    let off = json!({"enabled": false});
    let (no_backup, no_archive) =
        ("PersistentVolumeClaim ./db-backup (kept)", "PersistentVolumeClaim ./db-archive (kept)");
    let spec = json!({"metrics": off, "backup": off, "archive": off});
    life.step(spec, &with(&[no_backup, no_archive, second])).await;
    assert_eq!(kept(&life).await, [in_namespace(&project, "db-archive"), in_namespace(&project, "db-backup")]);
    life.restart().await;

    // A claim that was kept is found again.
    life.step(json!({"archive": off}), &with(&[backup, no_archive, metrics, second])).await;
    assert_eq!(kept(&life).await, [in_namespace(&project, "db-archive")]);
    life.end(&["PersistentVolumeClaim ./data-db-0 (made)", second, no_archive, "Secret ./db-password (kept)"]).await;
}

fn in_namespace(project: &Project, claim: &str) -> String {
    format!("PersistentVolumeClaim {}/{claim}", project.namespace)
}

/// What the status says that upgrades left.
async fn kept(life: &Life<'_>) -> Vec<String> {
    let cr = life.project.crs().get(&life.name).await.unwrap();
    serde_json::from_value(cr.data["status"]["kept"].clone()).unwrap_or_default()
}

#[tokio::test]
async fn a_daemon_set_lives_and_dies() {
    let project = Project::with_chart("Agent", "tests/charts/agent").await;
    let mut life = Life::begin(&project, "agent");
    let base = [
        "ConfigMap ./agent",
        "DaemonSet ./agent",
        "Role ./agent",
        "RoleBinding ./agent",
        "ServiceAccount ./agent",
        "Service ./agent-metrics",
    ];
    life.step(json!({}), &base).await;
    assert_eq!(value(&project, "apps/v1", "DaemonSet", "agent", "/status/numberReady").await, 1);
    life.step(json!({"logLevel": "debug"}), &base).await;
    let argument = "/spec/template/spec/containers/0/args/0";
    assert_eq!(value(&project, "apps/v1", "DaemonSet", "agent", argument).await, "--log-level=debug");
    assert_eq!(value(&project, "apps/v1", "DaemonSet", "agent", "/status/updatedNumberScheduled").await, 1);
    life.step(json!({"interval": "1m"}), &base).await;
    assert_eq!(of_config(&project, "agent", "interval").await, "1m");
    assert_eq!(value(&project, "apps/v1", "DaemonSet", "agent", argument).await, "--log-level=info");
    life.restart().await;
    life.step(json!({"interval": "1m", "labels": {"tier": "node"}}), &base).await;
    life.step(json!({"metrics": {"enabled": false}}), &base[..5]).await;
    life.end(&[]).await;
}

#[tokio::test]
async fn a_crd_of_crds_and_its_resources_arrive_at_the_first_try_and_the_crd_stays() {
    let project = Project::with_chart("Workshop", "tests/charts/gadgets").await;
    let mut life = Life::begin(&project, "shop");
    let base = ["ConfigMap ./shop", "Gadget ./shop", "Gadget ./shop-spare"];
    let gadget = async |pointer| value(&project, "gadgets.example.com/v1", "Gadget", "shop", pointer).await;
    let crd = async || {
        let (api_version, name) = ("apiextensions.k8s.io/v1", "gadgets.gadgets.example.com");
        project.find(api_version, "CustomResourceDefinition", None, name).await.unwrap()
    };
    life.step(json!({}), &base).await;
    let before = crd().await;
    assert!(before.owner_references().is_empty() && before.labels().is_empty(), "{before:?}");
    assert_no_warnings(&project).await;
    life.step(json!({"size": 2}), &base).await;
    assert_eq!(gadget("/spec/size").await, 2);
    life.step(json!({"size": 2, "colour": "green"}), &base).await;
    assert_eq!(
        (gadget("/spec/colour").await, of_config(&project, "shop", "colour").await),
        ("green".into(), "green".into())
    );
    life.restart().await;
    // Large enough that helm would print it as 1.2345678e+07.
    life.step(json!({"size": 12345678}), &base).await;
    assert_eq!(gadget("/spec/size").await, 12345678);
    life.step(json!({"spare": {"enabled": false}}), &base[..2]).await;
    life.end(&[]).await;
    assert_eq!(crd().await.resource_version(), before.resource_version(), "the CRD of crds/ was touched");
}

/// A first try that fails leaves an event on the custom resource, even if the second goes well.
async fn assert_no_warnings(project: &Project) {
    let events: Api<Event> = Api::all(project.client.clone());
    let warnings = events.list(&ListParams::default().fields("type=Warning")).await.unwrap().items;
    let ours = |event: &&Event| event.involved_object.api_version.as_ref() == Some(&project.resource.api_version);
    let warnings: Vec<_> = warnings.iter().filter(ours).map(|event| (&event.reason, &event.message)).collect();
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[tokio::test]
async fn a_crd_among_the_templates_is_kept_by_an_upgrade_and_goes_with_the_release() {
    let project = Project::with_chart("Planner", "tests/charts/schedules").await;
    let mut life = Life::begin(&project, "plan");
    let crd = "CustomResourceDefinition schedules.{ns}.example.com";
    let all = ["ConfigMap ./plan", crd, "Schedule ./plan-nightly", "Schedule ./plan-weekly"];
    let api_version = format!("{}.example.com/v1", project.namespace);
    let nightly = async |pointer| value(&project, &api_version, "Schedule", "plan-nightly", pointer).await;
    life.step(json!({}), &all).await;
    assert_no_warnings(&project).await;
    life.step(json!({"retention": 14}), &all).await;
    assert_eq!(nightly("/spec/retention").await, 14);
    life.step(json!({"retention": 14, "time": "04:00"}), &all).await;
    assert_eq!(nightly("/spec/time").await, "04:00");
    life.restart().await;
    life.step(json!({"weekly": {"enabled": false}}), &all[..3]).await;
    let kept_crd = "CustomResourceDefinition schedules.{ns}.example.com (kept)";
    life.step(json!({"enabled": false}), &["ConfigMap ./plan", kept_crd]).await;
    assert_eq!(kept(&life).await, [format!("CustomResourceDefinition schedules.{}.example.com", project.namespace)]);
    life.restart().await;
    life.step(json!({"enabled": true}), &all).await;
    assert_eq!(kept(&life).await, [""; 0]);
    life.end(&[]).await;
}

const PLATFORM: [&str; 7] = [
    "ConfigMap ./base",
    "ClusterRole {ns}-base",
    "Pod ./base-check",
    "PriorityClass {ns}-base",
    "ServiceAccount ./base",
    "ClusterRoleBinding {ns}-base",
    "IngressClass {ns}-base",
];

/// The objects are the same for both scopes of the custom resource; their ties differ.
async fn a_platform_lives_and_dies(project: Project) {
    let mut life = Life::begin(&project, "base");
    let name = format!("{}-base", project.namespace);
    let role = async || project.find("rbac.authorization.k8s.io/v1", "ClusterRole", None, &name).await.unwrap();
    life.step(json!({}), &PLATFORM).await;
    assert_no_warnings(&project).await;
    life.step(json!({"verbs": ["get", "watch"]}), &PLATFORM).await;
    assert_eq!(role().await.data["rules"][0]["verbs"], json!(["get", "watch"]));
    life.step(json!({"colour": "green"}), &PLATFORM).await;
    assert_eq!(of_config(&project, "base", "colour").await, "green");
    life.restart().await;
    let off = json!({"enabled": false});
    life.step(json!({"ingressClass": off, "annotations": {"team": "a"}}), &PLATFORM[..6]).await;
    assert_eq!(role().await.annotations().get("team").map(String::as_str), Some("a"));
    life.step(json!({"ingressClass": off, "binding": off}), &PLATFORM[..5]).await;
    life.end(&[]).await;
}

#[tokio::test]
async fn cluster_scoped_objects_of_a_namespaced_resource_live_and_die() {
    a_platform_lives_and_dies(Project::with_chart("Platform", "tests/charts/platform").await).await;
}

#[tokio::test]
async fn a_cluster_scoped_resource_owns_all_its_objects_and_is_released_in_the_operators_namespace() {
    a_platform_lives_and_dies(Project::cluster_scoped("Platform", "tests/charts/platform").await).await;
}

#[tokio::test]
async fn objects_in_other_namespaces_live_and_die() {
    let project = Project::with_chart("Tenant", "tests/charts/tenants").await.reaching_out();
    let neighbour = format!("{}-next", project.namespace);
    create_namespace(&project.client, &neighbour).await;
    let mut life = Life::begin(&project, "t").also_in(&neighbour);
    let all = [
        "ConfigMap ./t",
        "ConfigMap {ns}-next/t",
        "Role {ns}-next/t",
        "Namespace {ns}-team",
        "ConfigMap {ns}-team/t",
        "ResourceQuota {ns}-team/t",
    ];
    let colour = async |namespace: &str| {
        project.find("v1", "ConfigMap", Some(namespace), "t").await.unwrap().data["data"]["colour"].clone()
    };
    let team = format!("{}-team", project.namespace);
    let spec = |more: Value| {
        let mut spec = json!({"neighbour": neighbour});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    life.step(spec(json!({})), &all).await;
    assert_no_warnings(&project).await;
    life.step(spec(json!({"colour": "green"})), &all).await;
    for namespace in [&project.namespace, &neighbour, &team] {
        assert_eq!(colour(namespace).await, "green", "in {namespace}");
    }
    life.step(spec(json!({"limit": 5})), &all).await;
    let quota = project.find("v1", "ResourceQuota", Some(&team), "t").await.unwrap();
    assert_eq!(quota.data["spec"]["hard"]["pods"], "5");
    life.restart().await;
    life.step(spec(json!({"reader": {"enabled": false}})), &[&all[..2], &all[3..]].concat()).await;
    let without_team = [&all[..3], &["Namespace {ns}-team (kept)"]].concat();
    life.step(spec(json!({"team": {"enabled": false}})), &without_team).await;
    assert_eq!(kept(&life).await, [format!("Namespace {team}")]);
    life.restart().await;
    life.step(spec(json!({})), &all).await;
    life.end(&[]).await;
    let namespace = project.find("v1", "Namespace", None, &neighbour).await.unwrap();
    assert!(namespace.metadata.deletion_timestamp.is_none(), "the neighbour must stay");
}

#[tokio::test]
async fn objects_in_lists_live_and_die() {
    let project = Project::with_chart("Lists", "tests/charts/lists").await;
    let mut life = Life::begin(&project, "l");
    let all = [
        "ConfigMap ./l-first",
        "ConfigMap ./l-second",
        "Secret ./l-inner",
        "Service ./l",
        "ConfigMap ./l-third",
        "ServiceAccount ./l",
    ];
    life.step(json!({}), &all).await;
    life.step(json!({"colour": "green"}), &all).await;
    assert_eq!(of_config(&project, "l-first", "colour").await, "green");
    assert_eq!(value(&project, "v1", "Secret", "l-inner", "/data/colour").await, "Z3JlZW4=");
    life.step(json!({"port": 8080}), &all).await;
    assert_eq!(value(&project, "v1", "Service", "l", "/spec/ports/0/port").await, 8080);
    assert_eq!(of_config(&project, "l-second", "port").await, "8080");
    life.restart().await;
    life.step(json!({"accounts": {"enabled": false}}), &all[..5]).await;
    life.step(json!({"accounts": {"enabled": false}, "third": {"enabled": false}}), &all[..4]).await;
    life.end(&[]).await;
}

#[tokio::test]
async fn two_hundred_objects_live_and_die() {
    let project = Project::with_chart("Many", "tests/charts/many").await;
    let mut life = Life::begin(&project, "m");
    let numbered = |kind: &str, count: u32| (0..count).map(|n| format!("{kind} ./m-{n:03}")).collect::<Vec<_>>();
    let (configs, secrets) = (numbered("ConfigMap", 150), numbered("Secret", 50));
    let all: Vec<&str> = configs.iter().chain(&secrets).map(String::as_str).collect();
    life.step(json!({}), &all).await;
    life.step(json!({"colour": "green"}), &all).await;
    for (name, colour) in [("m-000", "green"), ("m-049", "grey"), ("m-100", "green")] {
        assert_eq!(of_config(&project, name, "colour").await, colour, "{name}");
    }
    life.restart().await;
    life.step(json!({"count": 120}), &[&all[..120], &all[150..]].concat()).await;
    life.step(json!({"count": 120, "secrets": {"enabled": false}}), &all[..120]).await;
    life.end(&[]).await;
}

#[tokio::test]
async fn awkward_yaml_arrives_as_helm_sends_it() {
    let project = Project::with_chart("Awkward", "tests/charts/awkward").await;
    let mut life = Life::begin(&project, "a");
    let all = ["ConfigMap ./a", "ConfigMap ./a-windows", "Deployment ./a", "ConfigMap ./a-extra"];
    let deployment = async |pointer| value(&project, "apps/v1", "Deployment", "a", pointer).await;
    life.step(json!({}), &all).await;
    assert_eq!(as_helm_installs_it(&project).await, as_installed(&project, &project.namespace).await);
    let pod = deployment("/spec/template/spec").await;
    let volume = &pod["volumes"][0]["configMap"];
    assert_eq!((&volume["defaultMode"], &volume["items"][0]["mode"]), (&json!(0o755), &json!(0o644)));
    assert_eq!(pod["containers"][1]["command"], pod["containers"][0]["command"], "merged");
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["securityContext"], json!({"runAsUser": 1000, "runAsNonRoot": true}));
    assert_eq!(deployment("/spec/replicas").await, 2, "of duplicate keys the last one wins");
    let config = value(&project, "v1", "ConfigMap", "a", "/data").await;
    let run = "#!/bin/sh\n--- not a marker\necho 1.10\n\n";
    assert_eq!((&config["run.sh"], &config["folded"]), (&json!(run), &json!("one two\nthree")));
    assert_eq!((&config["y"], &config["10"], &config["bytes"]), (&json!("it's"), &json!("ä\tb"), &json!("hello")));

    // Exact, where helm alone would send 1.00069e+09.
    life.step(json!({"user": 1000690000}), &all).await;
    assert_eq!(deployment("/spec/template/spec/securityContext/runAsUser").await, 1000690000);
    life.step(json!({"mode": 0o400}), &all).await;
    assert_eq!(deployment("/spec/template/spec/volumes/0/configMap/items/0/mode").await, 0o400);
    life.restart().await;
    life.step(json!({"version": "1.20"}), &all).await;
    for name in ["a", "a-windows"] {
        assert_eq!(of_config(&project, name, "version").await, "1.20", "in {name}");
    }
    life.step(json!({"version": "1.20", "extra": {"enabled": false}}), &all[..3]).await;
    life.end(&[]).await;
}

/// What a real `helm install` of the project's chart leaves in a namespace of its own.
async fn as_helm_installs_it(project: &Project) -> Value {
    let namespace = format!("{}-helm", project.namespace);
    create_namespace(&project.client, &namespace).await;
    project.helm_in("helm3", &namespace, &["install", "a", "charts/app"]);
    as_installed(project, &namespace).await
}

/// The contents of the awkward chart's objects.
async fn as_installed(project: &Project, namespace: &str) -> Value {
    let mut contents = json!({});
    for (api_version, kind, name) in [
        ("apps/v1", "Deployment", "a"),
        ("v1", "ConfigMap", "a"),
        ("v1", "ConfigMap", "a-windows"),
        ("v1", "ConfigMap", "a-extra"),
    ] {
        let object = project.find(api_version, kind, Some(namespace), name).await.unwrap();
        let own = object.annotations().iter().filter(|(key, _)| key.starts_with("example.com/"));
        let own: std::collections::BTreeMap<_, _> = own.collect();
        let data = ["spec", "data", "binaryData", "immutable"].map(|field| object.data.get(field).cloned());
        contents[format!("{kind} {name}")] = json!([data, own]);
    }
    contents
}
