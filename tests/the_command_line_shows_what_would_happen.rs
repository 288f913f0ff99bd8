//! `diff` and `render`: what the next reconcile would do, and nothing else.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::{Value, json};

use crate::harness::command_line::Said;
use crate::harness::{Project, config, create_namespace, until};

/// The custom resource as a file says it.
fn file(project: &Project, name: &str, spec: Value) -> &'static str {
    let cr = json!({"apiVersion": project.resource.api_version, "kind": project.resource.kind,
        "metadata": {"name": name, "namespace": project.namespace}, "spec": spec});
    project.file("cr.yaml", &cr.to_string());
    "cr.yaml"
}

#[track_caller]
fn assert_nothing(said: Said, when: &str) {
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, "", ""), "{when}: {said:?}");
}

/// Nothing would change right after an install, nor after pods have come and gone, nor after a restart of the workloads.
async fn an_unchanged_resource_has_no_diff(project: Project, spec: Value) {
    let _operator = project.run();
    project.apply("web", spec.clone()).await;
    project.deployed("web").await;
    let web = project.named("web");
    assert_nothing(project.cli(&["diff", &web]), "right after the install");
    project.condition("web", "Ready", "True").await;
    delete_pods(&project).await;
    assert_nothing(project.cli(&["diff", &web]), "after its pods were made again");
    for workload in project.kubectl(&["get", "deployment,statefulset,daemonset", "-o", "name"]).lines() {
        project.kubectl(&["rollout", "restart", workload]);
        project.kubectl(&["rollout", "status", workload, "--timeout=60s"]);
    }
    assert_nothing(project.cli(&["diff", &web]), "after a restart of its workloads");
    assert_nothing(project.cli(&["diff", "-f", file(&project, "web", spec)]), "as a file");
}

/// Deletes all pods of workloads, and waits until as many others are ready. A bare pod that ended does not come again.
async fn delete_pods(project: &Project) {
    let pods: Api<Pod> = Api::namespaced(project.client.clone(), &project.namespace);
    let managed = async || {
        let all = pods.list(&ListParams::default()).await.unwrap().items;
        let is_of_workload = |pod: &Pod| pod.owner_references().iter().any(|owner| owner.kind != project.resource.kind);
        all.into_iter().filter(is_of_workload).collect::<Vec<_>>()
    };
    let before = managed().await;
    for pod in &before {
        pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await.unwrap();
    }
    until("the pods are made again", async || {
        let after = managed().await;
        let is_ready = |pod: &Pod| {
            let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        };
        let are_others = after.iter().all(|pod| is_ready(pod) && !before.iter().any(|old| old.uid() == pod.uid()));
        (are_others && after.len() == before.len()).then_some(())
    })
    .await;
}

/// A test per chart, so that they run beside each other.
macro_rules! unchanged {
    ($($name:ident: $kind:literal $chart:literal;)*) => {
        mod nothing_would_change_in {
            use super::*;
            $(#[tokio::test]
            async fn $name() {
                an_unchanged_resource_has_no_diff(Project::with_chart($kind, $chart).await, json!({})).await;
            })*
        }
    };
}

unchanged! {
    the_adoptable: "Adoptable" "tests/charts/adoptable";
    the_agent: "Agent" "tests/charts/agent";
    the_awkward: "Awkward" "tests/charts/awkward";
    the_database: "Database" "tests/charts/database";
    the_gadgets: "Workshop" "tests/charts/gadgets";
    the_lists: "Lists" "tests/charts/lists";
    the_many: "Many" "tests/charts/many";
    the_platform: "Platform" "tests/charts/platform";
    the_schedules: "Planner" "tests/charts/schedules";
    the_sample: "Nginx" "helm-charts/nginx";
}

#[tokio::test]
async fn nothing_would_change_in_the_tenants() {
    let project = Project::with_chart("Tenant", "tests/charts/tenants").await.reaching_out();
    let neighbour = format!("{}-next", project.namespace);
    create_namespace(&project.client, &neighbour).await;
    an_unchanged_resource_has_no_diff(project, json!({"neighbour": neighbour})).await;
}

#[tokio::test]
async fn nothing_would_change_in_a_cluster_scoped_platform() {
    let project = Project::cluster_scoped("Platform", "tests/charts/platform").await;
    let _operator = project.run();
    project.apply("base", json!({})).await;
    project.condition("base", "Ready", "True").await;
    assert_nothing(project.cli(&["diff", &project.named("base")]), "cluster-scoped");
    assert!(project.cli(&["history", &project.named("base")]).good().contains("deployed"));
}

const RANDOM: &str = "apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}-login}
stringData: {password: {{ randAlphaNum 20 | quote }}, colour: {{ .Values.colour | default \"blue\" }}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-id}
data: {id: {{ uuidv4 | quote }}, made: {{ now | quote }}}
";

#[tokio::test]
async fn nothing_would_change_in_a_chart_with_random_values_until_the_spec_does() {
    let project = Project::new("App").await;
    project.template("all.yaml", RANDOM);
    let _operator = project.run();
    project.apply("web", json!({})).await;
    project.deployed("web").await;
    let web = project.named("web");
    assert_nothing(project.cli(&["diff", &web]), "unchanged");
    let first = project.cli(&["render", &web]).good();
    assert_eq!(project.cli(&["render", &web]).good(), first, "random values are as they are");
    let said = project.cli(&["diff", "-f", file(&project, "web", json!({"colour": "green"}))]);
    assert_eq!((said.code, said.err.as_str()), (1, ""), "{said:?}");
    for line in ["-  password: '***'\n", "+  password: '*** (changed)'\n", "+  colour: '*** (changed)'\n"] {
        assert!(said.out.contains(line), "{}", said.out);
    }
    let password = project.get("v1", "Secret", "web-login").await.unwrap().data["data"]["password"].clone();
    assert!(!said.out.contains(password.as_str().unwrap()), "{}", said.out);
}

fn job(name: &str, ttl: Option<u32>) -> Value {
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    if let Some(ttl) = ttl {
        job["spec"]["ttlSecondsAfterFinished"] = json!(ttl);
    }
    job
}

#[tokio::test]
async fn a_finished_job_is_no_difference_whether_it_is_there_or_cleaned_up() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    let spec = |colour| json!({"objects": [config("web", colour), job("short", Some(0)), job("long", None)]});
    project.apply("web", spec("blue")).await;
    project.deployed("web").await;
    let web = project.named("web");
    let said = until("no Job is being deleted", async || {
        Some(project.cli(&["diff", &web])).filter(|said| !said.err.contains("is being deleted"))
    });
    assert_nothing(said.await, "right after the install");
    until("one is cleaned up", async || project.get("batch/v1", "Job", "short").await.is_none().then_some(())).await;
    until("the other is done", async || {
        let job = project.get("batch/v1", "Job", "long").await?;
        (job.data["status"]["succeeded"] == 1).then_some(())
    })
    .await;
    project.condition("web", "Ready", "True").await;
    assert_nothing(project.cli(&["diff", &web]), "after both ended");
    project.kubectl(&["delete", "pods", "--all", "--grace-period=0", "--force"]);
    assert_nothing(project.cli(&["diff", &web]), "after their pods went");
    // A new revision runs it again, and that is told.
    let data = project.cli(&["diff", "-f", file(&project, "web", spec("green")), "-o", "json"]).json();
    let seen: Vec<_> = data.as_array().unwrap().iter().map(|it| (&it["object"]["name"], &it["change"])).collect();
    assert_eq!(seen, [(&json!("web"), &json!("changed")), (&json!("short"), &json!("created"))]);
}

#[tokio::test]
async fn an_edit_in_a_file_shows_just_that_field() {
    let project = Project::with_chart("Nginx", "helm-charts/nginx").await;
    let _operator = project.run();
    project.apply("web", json!({"replicaCount": 1})).await;
    project.condition("web", "Ready", "True").await;
    let edited = file(&project, "web", json!({"replicaCount": 3}));
    let said = project.cli(&["diff", "-f", edited]);
    assert_eq!((said.code, said.err.as_str()), (1, ""), "{said:?}");
    let changed: Vec<&str> = said.out.lines().filter(|line| line.starts_with(['-', '+'])).collect();
    let name = format!("Deployment {}/web", project.namespace);
    assert_eq!(changed, [&*format!("--- a/{name}"), &format!("+++ b/{name}"), "-  replicas: 1", "+  replicas: 3"]);
    let again = project.cli(&["diff", "-f", edited, "--color", "always"]).out;
    assert!(again.contains("\u{1b}[31m-  replicas: 1\u{1b}[0m\n\u{1b}[32m+  replicas: 3\u{1b}[0m\n"), "{again}");
    let data = project.cli(&["diff", "-f", edited, "-o", "json"]).json();
    assert_eq!(
        data[0]["object"],
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": project.namespace, "name": "web"})
    );
    assert_eq!((&data[0]["before"]["spec"]["replicas"], &data[0]["after"]["spec"]["replicas"]), (&json!(1), &json!(3)));
    let yaml = project.cli(&["diff", "-f", edited, "-o", "yaml"]);
    assert!(yaml.code == 1 && yaml.out.starts_with("- after:\n"), "{yaml:?}");
    assert_eq!(
        project.get("apps/v1", "Deployment", "web").await.unwrap().data["spec"]["replicas"],
        1,
        "nothing is written"
    );
}

#[tokio::test]
async fn what_comes_and_goes_and_stays_is_told() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    project.apply("web", json!({"objects": [config("one", "blue"), config("two", "blue"), claim]})).await;
    project.deployed("web").await;
    let said = project.cli(&[
        "diff",
        "-f",
        file(&project, "web", json!({"objects": [config("one", "blue"), config("three", "blue")]})),
    ]);
    assert_eq!((said.code, said.err.as_str()), (1, ""), "{said:?}");
    let namespace = &project.namespace;
    for expected in [
        format!("--- /dev/null\n+++ b/ConfigMap {namespace}/three\n"),
        format!("--- a/ConfigMap {namespace}/two\n+++ /dev/null\n"),
        format!("# PersistentVolumeClaim {namespace}/data is kept: it may hold what cannot be had back\n"),
    ] {
        assert!(said.out.contains(&expected), "{expected}: {}", said.out);
    }
    assert!(!said.out.contains("/one"), "{}", said.out);
}

#[tokio::test]
async fn what_somebody_changed_is_what_the_next_reconcile_puts_right() {
    let project = Project::of_objects().await;
    let operator = project.run();
    project.apply("web", json!({"objects": [config("one", "blue"), config("two", "blue")]})).await;
    project.condition("web", "Ready", "True").await;
    drop(operator);
    project.kubectl(&[
        "patch",
        "configmap",
        "one",
        "--type=merge",
        "-p",
        r#"{"data": {"colour": "red", "more": "stays"}}"#,
    ]);
    project.kubectl(&["delete", "configmap", "two"]);
    let data = project.cli(&["diff", &project.named("web"), "-o", "json"]).json();
    let seen: Vec<_> = data.as_array().unwrap().iter().map(|it| (&it["object"]["name"], &it["change"])).collect();
    assert_eq!(seen, [(&json!("one"), &json!("changed")), (&json!("two"), &json!("created"))]);
    assert_eq!(data[0]["before"]["data"], json!({"colour": "red", "more": "stays"}));
    assert_eq!(data[0]["after"]["data"], json!({"colour": "blue", "more": "stays"}));
}

#[tokio::test]
async fn a_port_that_somebody_moved_is_shown_to_come_back() {
    let project = Project::of_objects().await;
    let operator = project.run();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {
        "selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}});
    project.apply("web", json!({"objects": [service]})).await;
    project.condition("web", "Ready", "True").await;
    drop(operator);
    let moved = r#"[{"op": "replace", "path": "/spec/ports/0/port", "value": 81}]"#;
    project.kubectl(&["patch", "service", "web", "--type=json", "-p", moved]);
    let said = project.cli(&["diff", &project.named("web")]);
    let changed: Vec<&str> = said.out.lines().skip(2).filter(|line| line.starts_with(['-', '+'])).collect();
    assert_eq!((said.code, changed), (1, vec!["-    port: 81", "+    port: 80"]), "{said:?}");
}

#[tokio::test]
async fn an_autoscalers_replicas_are_no_difference() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": "i"}]}}}});
    project.apply("web", json!({"objects": [deployment]})).await;
    project.deployed("web").await;
    project.create(json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": project.namespace}, "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "minReplicas": 4, "maxReplicas": 9,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]}}))
        .await;
    until("it is scaled", async || {
        let deployment = project.get("apps/v1", "Deployment", "web").await?;
        (deployment.data["spec"]["replicas"] == 4).then_some(())
    })
    .await;
    assert_nothing(project.cli(&["diff", &project.named("web")]), "scaled");
    assert!(
        !project.cli(&["render", &project.named("web")]).good().contains("replicas"),
        "they are not applied either"
    );
}

#[tokio::test]
async fn secrets_never_appear_in_clear() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    let secret = |name: &str, password: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"password": password}});
    project
        .apply(
            "web",
            json!({"objects": [secret("same", "hunter1"), secret("other", "hunter2"), secret("gone", "hunter3")]}),
        )
        .await;
    project.deployed("web").await;
    let spec = json!({"objects": [secret("same", "hunter1"), secret("other", "hunter4"), secret("new", "hunter5")]});
    let edited = file(&project, "web", spec);
    let encoded = ["aHVudGVyMQ==", "aHVudGVyMg==", "aHVudGVyMw==", "aHVudGVyNA==", "aHVudGVyNQ=="];
    for format in [&[][..], &["-o", "json"], &["-o", "yaml"]] {
        let said = project.cli(&[&["diff", "-f", edited], format].concat());
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.out.contains("*** (changed)") && !said.out.contains("hunter"), "{}", said.out);
        assert!(!encoded.iter().any(|encoded| said.out.contains(encoded)), "{}", said.out);
        assert!(["other", "gone", "new"].iter().all(|name| said.out.contains(name)), "{}", said.out);
    }
}

#[tokio::test]
async fn what_is_rendered_is_what_is_applied() {
    let project = Project::with_chart("Nginx", "helm-charts/nginx").await;
    let spec = json!({"replicaCount": 2, "ingress": {"enabled": true}});
    let before = project.cli(&["render", "-f", file(&project, "web", spec.clone())]).good();
    assert!(before.contains("uid: unknown-until-it-is-made"), "{before}");
    let _operator = project.run();
    let uid = project.apply("web", spec).await.uid().unwrap();
    project.condition("web", "Ready", "True").await;
    let after = project.cli(&["render", &project.named("web")]).good();
    assert_eq!(after, before.replace("unknown-until-it-is-made", &uid), "the same, and now its UID is known");
    // To apply it once more as the operator does changes nothing.
    project.file("rendered.yaml", &after);
    let versions = |text: &str| -> Value {
        let list: Value = serde_json::from_str(text).unwrap();
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| json!([it["kind"], it["metadata"]["generation"], it["spec"]]))
            .collect()
    };
    let apply = ["apply", "--server-side", "--field-manager=helm", "-f", "rendered.yaml", "-o", "json"];
    let live = project.kubectl(&["get", "-f", "rendered.yaml", "-o", "json"]);
    assert_eq!(versions(&project.kubectl(&apply)), versions(&live));
    let list = project.cli(&["render", &project.named("web"), "-o", "json"]).json();
    let kinds: Vec<&Value> = list["items"].as_array().unwrap().iter().map(|item| &item["kind"]).collect();
    assert_eq!(kinds, ["ServiceAccount", "ConfigMap", "Service", "Deployment", "Ingress"], "in Helm's order");
}

#[tokio::test]
async fn what_cannot_be_told_ends_in_one_line_and_code_2() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.deployed("web").await;
    project.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs", "namespace": project.namespace}})).await;
    let cases = [
        (json!({"objects": 3}), "objects.yaml"),
        (json!({"objects": [config("web", "blue"), config("No_Name", "blue")]}), "No_Name"),
        (json!({"objects": []}), "renders no objects any more"),
        (json!({"objects": [config("theirs", "blue")]}), "nobody says that it is theirs"),
        (
            json!({"objects": [{"apiVersion": "none.io/v1", "kind": "None", "metadata": {"name": "a"}}]}),
            "does not know the kind of None",
        ),
    ];
    for (spec, expected) in cases {
        let complaint = project.cli(&["diff", "-f", file(&project, "web", spec)]).complaint(2);
        assert!(complaint.contains(expected), "{complaint:?} should contain {expected:?}");
    }
}

#[tokio::test]
async fn a_broken_chart_of_another_kind_is_in_nobodys_way() {
    let project = Project::of_objects().await;
    let group = &project.resource.group;
    let watches = std::fs::read_to_string(project.dir().join("watches.yaml")).unwrap();
    project.file(
        "watches.yaml",
        &format!("- {{group: {group}, version: v1, kind: Broken, chart: charts/none}}\n{watches}"),
    );
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    assert!(project.cli(&["render", &project.named("web")]).good().contains("blue"));
}
