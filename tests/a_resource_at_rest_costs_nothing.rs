//! Where nothing changes, nothing is asked, rendered or written: not with a period, and not after a restart.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::harness::strange_helm::THE_RELEASE;
use crate::harness::{Operator, Project, asks_for_kinds, config, tool, until, until_calm};

const TALKATIVE: &str = "info,chartwright=debug,kube_client=off,kube_runtime=off";

/// A helm that writes down each render.
fn start(project: &Project) -> Operator {
    let (real, renders) = (tool("helm4"), project.dir().join("renders"));
    let script = format!(
        "#!/bin/sh\n{THE_RELEASE}\n[ \"$1\" = template ] && echo \"$release\" >> {}\nexec {} \"$@\"\n",
        renders.display(),
        real.display()
    );
    project.file("counting-helm", &script);
    let path = project.dir().join("counting-helm");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    project.launch().helm(path).env("RUST_LOG", TALKATIVE).start()
}

fn renders(project: &Project) -> usize {
    std::fs::read_to_string(project.dir().join("renders")).unwrap_or_default().lines().count()
}

/// How often an operator has looked at a custom resource.
fn looks(operator: &Operator, name: &str) -> usize {
    let name = format!("\"name\":\"{name}\"");
    operator.log().lines().filter(|line| line.contains("looked at") && line.contains(&name)).count()
}

/// What an operator asked for, without the watches that wait for news, and without what it asks now and then for all
/// custom resources together: which kinds there are.
fn calls_since(project: &Project, since: Timestamp) -> Vec<String> {
    let is_counted = |call: &String| !call.starts_with("watch ") && !asks_for_kinds(call);
    project.calls_since(since).into_iter().filter(is_counted).collect()
}

async fn deploy(project: &Project, names: &[String]) {
    join_all(names.iter().map(|name| project.apply(name, json!({"objects": [config(name, "blue")]})))).await;
    for name in names {
        project.condition(name, "Ready", "True").await;
    }
}

#[tokio::test]
async fn a_period_that_finds_nothing_changed_makes_no_call() {
    let project = Project::of_objects().await;
    project.watch_with("reconcilePeriod: 1s");
    let operator = start(&project);
    let names = ["one", "two"].map(str::to_owned);
    deploy(&project, &names).await;
    // This one cannot be rendered; it is known why.
    project.apply("bad", json!({"objects": [{"kind": "Nameless"}]})).await;
    project.not_ready("bad", "InvalidManifest").await;
    let more_looks = async |count: usize| {
        let wanted = names.each_ref().map(|name| looks(&operator, name) + count);
        until(&format!("{count} periods passed"), async || {
            names.iter().zip(wanted).all(|(name, wanted)| looks(&operator, name) >= wanted).then_some(())
        })
        .await;
    };
    // Until the writes of the install are over.
    more_looks(2).await;
    let since = Timestamp::now();
    more_looks(10).await;
    assert_eq!(calls_since(&project, since), [""; 0]);
    assert_eq!(renders(&project), 3);
}

#[tokio::test]
async fn a_restart_asks_for_no_custom_resource_by_itself_and_writes_and_renders_nothing() {
    let project = Project::of_objects().await;
    let operator = start(&project);
    let names: Vec<_> = (0..20).map(|number| format!("app-{number}")).collect();
    deploy(&project, &names).await;
    drop(operator);
    let versions = async || {
        let crs = project.crs().list(&ListParams::default()).await.unwrap();
        crs.items.iter().map(|cr| (cr.name_any(), cr.resource_version())).collect::<Vec<_>>()
    };
    let (rendered, before, since) = (renders(&project), versions().await, Timestamp::now());
    let operator = start(&project);
    // Where the first look finds watches that know nothing yet, another follows when they do.
    until("each was looked at", async || names.iter().all(|name| looks(&operator, name) >= 1).then_some(())).await;
    let all_looks = || names.iter().map(|name| looks(&operator, name)).sum::<usize>();
    until_calm(Duration::from_secs(1), "it is calm", async || all_looks()).await;
    let calls = calls_since(&project, since);
    for verb in ["create", "update", "patch", "delete"] {
        assert!(!calls.iter().any(|call| call.starts_with(verb)), "{calls:#?}");
    }
    // The operator's key and ledger are in this namespace too, and are read once.
    let is_own = |call: &&String| call.contains("/secrets") && call.contains("chartwright");
    let single = calls.iter().filter(|call| call.contains(&project.namespace));
    let single: Vec<_> = single.filter(|call| !is_own(call)).collect();
    assert!(single.is_empty(), "what was asked in the namespace: {single:#?}");
    assert!(calls.len() < 20, "{calls:#?}");
    assert_eq!((renders(&project), versions().await), (rendered, before));
    project.apply("app-7", json!({"objects": [config("app-7", "green")]})).await;
    project.deployed("app-7").await;
    assert_eq!(project.get("v1", "ConfigMap", "app-7").await.unwrap().data["data"]["colour"], "green");
    assert_eq!(renders(&project), rendered + 1);
}

/// Prints what an install costs, for whoever wants to make it cheaper.
#[tokio::test]
async fn an_install_writes_what_it_must_and_reads_no_records() {
    let project = Project::of_objects().await;
    let operator = start(&project);
    let spec = |name: &str| json!({"objects": [config(name, "blue"), deployment(name)]});
    project.apply("first", spec("first")).await;
    project.condition("first", "Ready", "True").await;
    let since = Timestamp::now();
    project.apply("second", spec("second")).await;
    project.condition("second", "Ready", "True").await;
    until("it was looked at", async || (looks(&operator, "second") >= 1).then_some(())).await;
    until_calm(Duration::from_secs(1), "it is calm", async || looks(&operator, "second")).await;
    let calls = calls_since(&project, since);
    eprintln!("one install of a ConfigMap and a Deployment: {calls:#?}");
    let count = |verb: &str, part: &str| calls.iter().filter(|it| it.starts_with(verb) && it.contains(part)).count();
    // The release's record and its entry in the ledger are created, and the record is patched.
    assert_eq!((count("create ", "/secrets?"), count("patch ", "/secrets/")), (2, 1), "{calls:#?}");
    assert_eq!(count("create ", "/events?"), 1, "{calls:#?}");
    assert_eq!((count("list ", "/secrets?"), count("get ", "/secrets/")), (0, 0), "{calls:#?}");
    assert!(count("patch ", "/second/status?") <= 2, "{calls:#?}");
}

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "app", "image": "app"}]},
            },
        },
    })
}

/// The memory that a process holds, in bytes.
fn resident(operator: &Operator) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", operator.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}

/// A restarted operator holds only what it needs, and not what its allocator kept from the installs.
#[tokio::test]
#[ignore = "a measurement of a minute: run it with --ignored --nocapture"]
async fn three_hundred_more_custom_resources_need_little_memory() {
    let project = Project::of_objects().await;
    let mut held = vec![];
    let mut all = vec![];
    for count in [20, 320] {
        let names: Vec<_> = (all.len()..count).map(|number| format!("app-{number}")).collect();
        let operator = start(&project);
        for some in names.chunks(40) {
            deploy(&project, some).await;
        }
        all.extend(names);
        let installed = resident(&operator);
        drop(operator);
        let operator = start(&project);
        until("each was looked at twice", async || all.iter().all(|name| looks(&operator, name) >= 2).then_some(()))
            .await;
        held.push(resident(&operator));
        eprintln!(
            "{count} custom resources: {installed} bytes after the installs, {} after a restart",
            held[count / 320]
        );
    }
    let each = held[1].saturating_sub(held[0]) / 300;
    eprintln!("{each} bytes per custom resource");
    assert!(each < 40_000, "{each} bytes per custom resource");
}
