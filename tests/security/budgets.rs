//! Hostile data costs the operator only so much memory and time, and nobody else anything.

mod hostile;
mod kinds;
mod pods;
mod values;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::Request;
use kube::api::{ApiResource, DeleteParams};
use kube::core::GroupVersionKind;
use lab::ControlPlane;
use serde_json::{Value, json};

use crate::harness::asking::get;
use crate::harness::trouble::{Trouble, Troubled};
use crate::harness::{Operator, Project, Scope, config, install_crd, stays, until, until_within};
use hostile::{Record, write_all};

pub const PROBES: &str = "--health-probe-bind-address=127.0.0.1:0";
/// What the shipped Deployment allows, in KiB.
pub const MEMORY_LIMIT: u64 = 1024 * 1024;
/// The kubelet's patience is a second by default. This machine is shared, and the build is not optimised.
const PROBE_PATIENCE: Duration = Duration::from_secs(4);
const LONG: Duration = Duration::from_secs(240);

/// A project on a control plane of its own: what is written here concerns every operator of a cluster.
async fn project() -> Project {
    let plane = Arc::new(ControlPlane::start().expect("a control plane"));
    let project = Project::on(Some(plane), "App").await;
    project.template("objects.yaml", "{{ range .Values.objects }}\n---\n{{ toYaml . }}\n{{ end }}");
    project
}

/// Asks `/healthz` all the time, and remembers the longest answer.
pub struct Pulse {
    longest: Arc<AtomicU64>,
    failed: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl Pulse {
    pub async fn of(operator: &Operator) -> Self {
        let address = operator.address("probes").await;
        let (longest, failed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (noted, missed) = (longest.clone(), failed.clone());
        let task = tokio::spawn(async move {
            loop {
                let began = Instant::now();
                let answer = tokio::time::timeout(Duration::from_secs(60), get(&address, "/healthz", None)).await;
                noted.fetch_max(began.elapsed().as_millis() as u64, Ordering::Relaxed);
                if answer.ok().flatten().is_none_or(|answer| answer.code != 200) {
                    missed.store(true, Ordering::Relaxed);
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        });
        Pulse { longest, failed, task }
    }

    /// The longest answer, in milliseconds. None was missing or too late.
    pub fn check(self) -> u64 {
        self.task.abort();
        assert!(!self.failed.load(Ordering::Relaxed), "/healthz was not answered with 200");
        let longest = Duration::from_millis(self.longest.load(Ordering::Relaxed));
        assert!(longest < PROBE_PATIENCE, "/healthz took {longest:?}");
        longest.as_millis() as u64
    }
}

/// The most memory that a process ever had, in KiB.
pub fn peak_memory(operator: &Operator) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", operator.id())).expect("the operator runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

/// Changes a custom resource, and says how long it takes until its object is as wanted.
async fn edit(project: &Project, name: &str, colour: &str, patience: Duration) -> Duration {
    let began = Instant::now();
    project.apply(name, objects(name, colour)).await;
    until_within(patience, &format!("{name} is {colour}"), async || {
        let found = project.get("v1", "ConfigMap", name).await?;
        (found.data["data"]["colour"] == colour).then_some(())
    })
    .await;
    began.elapsed()
}

/// How long an edit may take beside an attack. What takes its turn is fast on a slow machine too; who starves waits for minutes.
fn patience(undisturbed: Duration) -> Duration {
    Duration::from_secs(20) + 10 * undisturbed
}

fn objects(name: &str, colour: &str) -> Value {
    json!({"objects": [config(name, colour)]})
}

async fn survives(project: &Project, victims: &[String], records: Vec<Record>, what: &str) {
    let mut operator = project.launch().args(&[PROBES]).start();
    edit(project, "bystander", "blue", LONG).await;
    let undisturbed = edit(project, "bystander", "yellow", LONG).await;
    for victim in victims {
        project.apply(victim, objects(victim, "blue")).await;
    }
    for victim in victims {
        project.deployed(victim).await;
    }
    let pulse = Pulse::of(&operator).await;
    let quiet = project.another_namespace("quiet").await;
    write_all(project, &quiet, records).await;
    for victim in victims {
        project.apply(victim, objects(victim, "green")).await;
    }
    let edited = edit(project, "bystander", "green", patience(undisturbed)).await;
    eprintln!("{what}: an edit took {edited:?}, and {undisturbed:?} before");
    hostile::digested(project, victims, &operator, LONG).await;
    assert!(operator.runs(), "{what}: it ended");
    let peak = peak_memory(&operator);
    eprintln!("{what}: {} MiB at most, /healthz within {} ms", peak / 1024, pulse.longest.load(Ordering::Relaxed));
    pulse.check();
    assert!(peak < MEMORY_LIMIT / 2, "{what}: {} MiB", peak / 1024);

    drop(operator);
    let mut operator = project.launch().args(&[PROBES]).start();
    let pulse = Pulse::of(&operator).await;
    // Also the start of the process is in it.
    edit(project, "bystander", "red", patience(undisturbed) + patience(undisturbed)).await;
    hostile::digested(project, victims, &operator, LONG).await;
    assert!(operator.runs(), "{what}: it ended after a restart");
    let peak = peak_memory(&operator);
    eprintln!("{what}, restarted: {} MiB, /healthz within {} ms", peak / 1024, pulse.longest.load(Ordering::Relaxed));
    pulse.check();
    assert!(peak < MEMORY_LIMIT / 2, "{what}, restarted: {} MiB", peak / 1024);
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_hostile_records_of_the_largest_size_leave_the_operator_within_its_memory() {
    let project = project().await;
    let victims = hostile::victims(4);
    survives(&project, &victims, hostile::fifty(&victims), "fifty records").await;
    // What exceeds a limit concerns its release alone, is named, and changes nothing.
    let told = project.not_ready(&victims[0], "RecordUnusable").await;
    let message = told["message"].as_str().unwrap_or_default();
    assert!(message.contains("exceeds a limit of this operator"), "{message}");
    assert!(message.contains(&format!("sh.helm.release.v1.{}.v", victims[0])), "{message}");
    let kept = project.get("v1", "ConfigMap", &victims[0]).await.expect("it stays");
    assert_eq!(kept.data["data"]["colour"], "blue");
}

#[tokio::test(flavor = "multi_thread")]
async fn records_with_very_many_objects_or_revisions_keep_nobody_from_work() {
    let project = project().await;
    let victims = hostile::victims(4);
    survives(&project, &victims, hostile::many_objects(&victims), "many objects").await;
    let too_many = project.not_ready(&victims[3], "RecordUnusable").await;
    let message = too_many["message"].as_str().unwrap_or_default();
    assert!(message.contains("more than 2000 records"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_custom_resources_with_the_largest_records_that_are_read_share_the_memory() {
    let project = project().await;
    let victims = hostile::victims(12);
    survives(&project, &victims, hostile::within_limits(&victims), "within limits").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn small_records_that_become_much_starve_nobody() {
    let project = project().await;
    // More than have a turn of one urgency at once.
    let victims = hostile::victims(34);
    survives(&project, &victims, hostile::much_from_little(&victims), "much from little").await;
    let refused = project.not_ready(&victims[1], "RecordUnusable").await;
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(message.contains(&victims[1]) && message.contains("than this operator reads of one release"), "{message}");
}

fn nested(levels: usize) -> String {
    format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels))
}

/// Sends what no client of ours can read.
async fn post(project: &Project, path: &str, body: String) {
    let request = Request::post(path).header("content-type", "application/json").body(body.into_bytes()).unwrap();
    let answer = project.client.request_text(request).await.expect("it is created");
    assert!(answer.contains("\"uid\""), "{answer}");
}

#[tokio::test]
async fn an_object_that_nobody_can_read_blinds_no_watch() {
    let project = Project::of_objects().await;
    let widget = ApiResource::from_gvk(&GroupVersionKind::gvk(&project.resource.group, "v1", "Widget"));
    install_crd(&project.client, &widget, Scope::Namespaced).await;
    let elsewhere = project.another_namespace("elsewhere").await;
    let metadata = |name: &str, fields: &str| {
        format!(r#""metadata": {{"name": "{name}", "labels": {{"chartwright.dev/release": "any"}}{fields}}}"#)
    };
    let api_version = &widget.api_version;
    let deep = format!(
        r#"{{"apiVersion": "{api_version}", "kind": "Widget", {}, "spec": {}}}"#,
        metadata("poison", ""),
        nested(200)
    );
    post(&project, &format!("/apis/{api_version}/namespaces/{elsewhere}/{}", widget.plural), deep).await;
    // Also where only metadata is watched.
    let managed = format!(", {}", unreadable_fields());
    let config_map =
        format!(r#"{{"apiVersion": "v1", "kind": "ConfigMap", {}, "data": {{}}}}"#, metadata("poison", &managed));
    post(&project, &format!("/api/v1/namespaces/{elsewhere}/configmaps"), config_map).await;

    let gate = Troubled::start(project.client.clone(), Trouble::NoStreamedLists).await;
    let operator = project.launch().args(&[PROBES]).behind(&gate).start();
    let wanted =
        json!({"apiVersion": api_version, "kind": "Widget", "metadata": {"name": "mine"}, "spec": {"size": 1}});
    project.apply("web", json!({"objects": [wanted, config("mine", "blue")]})).await;
    project.deployed("web").await;
    until("it is ready although it saw the poison", async || {
        (operator.probe("/readyz").await.code == 200).then_some(())
    })
    .await;
    let widgets = project.objects(api_version, "Widget", Some(&project.namespace));
    widgets.delete("mine", &DeleteParams::default()).await.expect("it is deleted");
    project.configs().delete("mine", &DeleteParams::default()).await.expect("it is deleted");
    until("what was deleted is made again", async || {
        let widget = widgets.get_opt("mine").await.expect("an answer");
        let config = project.get("v1", "ConfigMap", "mine").await;
        (widget.is_some() && config.is_some()).then_some(())
    })
    .await;
    let named = || operator.log().matches("this object cannot be read").count();
    until("the log names it", async || operator.log().contains("poison").then_some(())).await;
    let at_most = 2;
    stays(Duration::from_secs(2), "the log names each once", async || named() <= at_most).await;
    assert!(named() >= 1 && named() <= at_most, "{}", operator.log());
}

#[tokio::test]
async fn the_annotation_of_namespaces_leads_to_few_questions() {
    let project = Project::of_objects().await;
    let many: Vec<String> = (0..5000).map(|number| format!("team-{number}")).collect();
    let operator = project.run();
    project.apply("web", objects("mine", "blue")).await;
    project.deployed("web").await;
    drop(operator);
    // Somebody removes the records, so that the marks on the custom resource are all that is left.
    let secrets = project.objects("v1", "Secret", Some(&project.namespace));
    for record in secrets.list(&kube::api::ListParams::default().labels("owner=helm")).await.expect("records") {
        secrets.delete(&record.metadata.name.unwrap(), &DeleteParams::default()).await.expect("it is deleted");
    }
    project.annotate("web", "applyset.kubernetes.io/additional-namespaces", &many.join(",")).await;
    let since = k8s_openapi::jiff::Timestamp::now();
    let _operator = project.run();
    project.delete("web").await;
    project.gone("web").await;
    let asked = project.calls_since(since).into_iter().filter(|call| call.contains("/namespaces/team-")).count();
    assert!(asked <= 200, "{asked} questions about namespaces that an annotation names");
}

/// A list of fields in which no client of ours reads anything.
fn unreadable_fields() -> String {
    managed("m", "Update", &nested(200).replace(r#""a""#, r#""f:a""#).replace('1', "{}"))
}

fn managed(manager: &str, operation: &str, fields: &str) -> String {
    format!(
        r#""managedFields": [{{"manager": "{manager}", "operation": "{operation}", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {fields}}}]"#
    )
}

#[tokio::test]
async fn large_lists_of_fields_and_rules_keep_nobody_from_work() {
    let project = Project::of_objects().await;
    let mut operator = project.launch().args(&[PROBES]).start();
    // Two watches, as many as the operator has threads.
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}});
    let wanted = |colour: &str| json!({"objects": [config("mine", colour), secret]});
    project.apply("web", wanted("blue")).await;
    project.deployed("web").await;
    let pulse = Pulse::of(&operator).await;
    let elsewhere = project.another_namespace("elsewhere").await;
    let fields: String = (0..80_000).map(|number| format!(r#""f:{number}": {{}},"#)).collect();
    let fields = managed("helm", "Apply", &format!(r#"{{"f:data": {{{}}}}}"#, fields.trim_end_matches(',')));
    let rules: String = (0..20_000).map(|number| format!("/data/x{number},")).collect();
    for (kind, plural) in [("ConfigMap", "configmaps"), ("Secret", "secrets")] {
        for number in 0..4 {
            let object = format!(
                r#"{{"apiVersion": "v1", "kind": "{kind}", "metadata": {{"name": "large-{number}", "labels": {{"chartwright.dev/release": "any"}}, "annotations": {{"chartwright.dev/ignore-fields": "{rules}"}}, {fields}}}}}"#
            );
            post(&project, &format!("/api/v1/namespaces/{elsewhere}/{plural}"), object).await;
        }
    }
    project.apply("web", wanted("green")).await;
    until_within(LONG, "mine is green", async || {
        let found = project.get("v1", "ConfigMap", "mine").await?;
        (found.data["data"]["colour"] == "green").then_some(())
    })
    .await;
    pulse.check();
    assert!(operator.runs(), "{}", operator.log());
}

/// Has somebody else own very many fields of an object of a release.
async fn burden(project: &Project, name: &str) {
    let fields: String = (0..80_000).map(|number| format!(r#""f:{number}": {{}},"#)).collect();
    let fields = managed("editor", "Update", &format!(r#"{{"f:data": {{{}}}}}"#, fields.trim_end_matches(',')));
    let path = format!("/api/v1/namespaces/{}/configmaps/{name}", project.namespace);
    let request = Request::patch(path).header("content-type", "application/merge-patch+json");
    let request = request.body(format!(r#"{{"metadata": {{{fields}}}}}"#).into_bytes()).unwrap();
    project.client.request_text(request).await.expect("it is patched");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_lists_of_fields_of_a_releases_own_objects_leave_the_operator_within_its_memory() {
    burden_own_objects(8).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the API server takes minutes to write them: make budgets-proof"]
async fn seventy_objects_with_large_lists_of_fields_leave_the_operator_within_its_memory() {
    burden_own_objects(70).await;
}

/// Somebody adds very many fields to each object of a release.
async fn burden_own_objects(count: usize) {
    let project = project().await;
    let names: Vec<String> = (0..count).map(|number| format!("own-{number}")).collect();
    let wanted = |colour: &str| {
        let objects: Vec<Value> = names.iter().map(|name| config(name, colour)).collect();
        json!({"objects": objects})
    };
    let operator = project.launch().args(&[PROBES]).start();
    project.apply("web", wanted("blue")).await;
    project.deployed("web").await;
    // Nothing is repaired while they are written.
    drop(operator);
    for name in &names {
        burden(&project, name).await;
    }
    project.apply("web", wanted("green")).await;
    let mut operator = project.launch().args(&[PROBES]).start();
    let pulse = Pulse::of(&operator).await;
    until_within(LONG, "all are green", async || {
        for name in &names {
            let found = project.get("v1", "ConfigMap", name).await?;
            (found.data["data"]["colour"] == "green").then_some(())?;
        }
        let status = project.status("web").await;
        let generation = project.crs().get("web").await.ok()?.metadata.generation;
        (status["observedGeneration"] == json!(generation)).then_some(())
    })
    .await;
    assert!(operator.runs(), "{}", operator.log());
    let peak = peak_memory(&operator);
    eprintln!("{} MiB at most, /healthz within {} ms", peak / 1024, pulse.check());
    assert!(peak < MEMORY_LIMIT / 2, "{} MiB", peak / 1024);
}

#[tokio::test]
async fn a_job_that_nobody_can_read_keeps_no_custom_resource_from_going() {
    let project = Project::of_objects().await;
    project.template(
        "hook.yaml",
        r#"
apiVersion: batch/v1
kind: Job
metadata: {name: before, annotations: {"helm.sh/hook": pre-delete}}
spec:
  ttlSecondsAfterFinished: 0
  template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}
"#,
    );
    let elsewhere = project.another_namespace("elsewhere").await;
    let _operator = project.run();
    project.apply("web", objects("mine", "blue")).await;
    project.deployed("web").await;
    let (place, kind) = (format!("{}/web", project.namespace), format!("App.{}", project.resource.group));
    let job = format!(
        r#"{{"apiVersion": "batch/v1", "kind": "Job", "metadata": {{"name": "poison", "labels": {{"chartwright.dev/release": "web"}}, "finalizers": ["chartwright.dev/hook"], "annotations": {{"operator-sdk/primary-resource": "{place}", "operator-sdk/primary-resource-type": "{kind}"}}, {}}}, "spec": {{"suspend": true, "template": {{"spec": {{"restartPolicy": "Never", "containers": [{{"name": "a", "image": "a"}}]}}}}}}}}"#,
        unreadable_fields()
    );
    post(&project, &format!("/apis/batch/v1/namespaces/{elsewhere}/jobs"), job).await;
    // And a record that nobody can read, which goes with the release.
    let secrets = project.objects("v1", "Secret", Some(&project.namespace));
    let of_web = kube::api::ListParams::default().labels("owner=helm,name=web");
    assert!(!secrets.list(&of_web).await.expect("records").items.is_empty());
    let record = format!(
        r#"{{"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1", "metadata": {{"name": "sh.helm.release.v1.web.v0", "labels": {{"owner": "helm", "name": "web", "status": "superseded", "chartwright.dev/digest": "d"}}, {}}}}}"#,
        unreadable_fields()
    );
    post(&project, &format!("/api/v1/namespaces/{}/secrets", project.namespace), record).await;
    project.annotate("web", "helm.sdk.operatorframework.io/uninstall-disable-hooks", "true").await;
    project.delete("web").await;
    project.gone("web").await;
    assert!(project.get("v1", "ConfigMap", "mine").await.is_none(), "it was uninstalled");
}

#[tokio::test]
async fn what_a_cluster_scoped_resource_says_of_kinds_and_namespaces_leads_to_few_questions() {
    let project = Project::cluster_scoped("App", "tests/charts/lists").await;
    let operator = project.run();
    project.apply("web", json!({})).await;
    project.deployed("web").await;
    drop(operator);
    // Neither records nor ledger are left, so that only objects could tell where the release lives.
    let secrets = project.objects("v1", "Secret", Some(&project.namespace));
    for secret in secrets.list(&kube::api::ListParams::default()).await.expect("Secrets") {
        let name = secret.metadata.name.unwrap();
        if name.starts_with("sh.helm.release") || name.starts_with("chartwright-ledger") {
            secrets.delete(&name, &DeleteParams::default()).await.expect("it is deleted");
        }
    }
    let namespaces: Vec<String> = (0..5000).map(|number| format!("team-{number}")).collect();
    let kinds = "ConfigMap,Secret,Service,ServiceAccount,Pod,PersistentVolumeClaim,Endpoints,LimitRange,ResourceQuota,Deployment.apps,StatefulSet.apps,DaemonSet.apps,ReplicaSet.apps,Job.batch,CronJob.batch,Role.rbac.authorization.k8s.io,RoleBinding.rbac.authorization.k8s.io,Ingress.networking.k8s.io,NetworkPolicy.networking.k8s.io,Lease.coordination.k8s.io";
    project.annotate("web", "applyset.kubernetes.io/additional-namespaces", &namespaces.join(",")).await;
    project.annotate("web", "applyset.kubernetes.io/contains-group-kinds", kinds).await;
    let since = k8s_openapi::jiff::Timestamp::now();
    let _operator = project.run();
    let asked = || {
        let calls = project.calls_since(since).into_iter();
        calls.filter(|call| call.starts_with("list") && call.contains("part-of")).collect::<Vec<_>>()
    };
    let everywhere = |call: &String| !call.contains("/namespaces/");
    until("it looks where the release lives", async || asked().iter().any(everywhere).then_some(())).await;
    project.deployed("web").await;
    let asked = asked();
    assert!(asked.len() <= 100, "{} lists: {asked:?}", asked.len());
    assert!(asked.iter().all(|call| !call.contains("/namespaces/team-")), "{asked:?}");
}
