//! Ready=False names what is not ready and why; once it is mended, Ready is true; and nothing is written without news.

use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::{Project, config, stays, until};

fn deployment(name: &str, behaviour: &str, node: &str) -> Value {
    let labels = json!({"app": name});
    let pod_labels = json!({"app": name, "lab.chartwright.dev/behaviour": behaviour});
    let selector = if node.is_empty() { json!({}) } else { json!({"kubernetes.io/hostname": node}) };
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": pod_labels}, "spec": {
            "nodeSelector": selector, "containers": [{"name": "app", "image": "registry.example/app:1"}]}}}})
}

fn job(name: &str, behaviour: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {
        "backoffLimit": 0,
        "template": {"metadata": {"labels": {"lab.chartwright.dev/behaviour": behaviour}}, "spec": {
            "restartPolicy": "Never", "containers": [{"name": "app", "image": "i"}]}}}})
}

/// A workload that cannot become ready, and the words that have to be in the condition.
struct Trouble {
    name: &'static str,
    broken: Value,
    mended: Value,
    reason: &'static str,
    words: &'static [&'static str],
}

fn troubles() -> Vec<Trouble> {
    const PULL: &str = "cannot pull image \"registry.example/app:1\" (container \"app\" of pod pulls-";
    const SCHEDULING: &str = "cannot be scheduled: 0/";
    let trouble = |name, behaviour: &str, node: &str, reason, words| Trouble {
        name,
        broken: deployment(name, behaviour, node),
        mended: deployment(name, "", ""),
        reason,
        words,
    };
    vec![
        trouble("pulls", "pull-error", "", "ImagePullBackOff", &[PULL]),
        trouble(
            "crashes",
            "crash",
            "",
            "CrashLoopBackOff",
            &["exit code 1 (Error) (container \"app\" of pod crashes-"],
        ),
        trouble("misses", "config-error", "", "CreateContainerConfigError", &["cannot start: secret \"db\" not found"]),
        trouble("homeless", "", "no-such-node", "Unschedulable", &[SCHEDULING, "nodes are available"]),
        trouble("slow", "never-ready", "", "Progressing", &["Deployment ", "0 of 1 replica"]),
        Trouble {
            name: "fails",
            broken: job("fails", "fail"),
            mended: config("fails", "blue"),
            reason: "JobFailed",
            words: &["exit code 1 (Error) (container \"app\" of pod fails-"],
        },
        Trouble {
            name: "starts",
            broken: job("starts", "start-error"),
            mended: config("starts", "blue"),
            reason: "StartError",
            words: &[
                "cannot start: failed to create containerd task: exec: \"sh\": executable file not found in $PATH",
            ],
        },
    ]
}

impl Trouble {
    async fn is_told_until_it_is_mended(&self, project: &Project) {
        let name = self.name;
        let fine = config(&format!("{name}-config"), "blue");
        project.apply(name, json!({"objects": [fine, self.broken]})).await;
        let ready = project
            .told(name, &format!("not ready with {:?}", self.words), |status| {
                let ready = status["conditions"].as_array()?.iter().find(|it| it["type"] == "Ready")?.clone();
                let message = ready["message"].as_str()?;
                let is_told =
                    self.words.iter().all(|word| message.contains(word)) && message.starts_with(self.words[0]);
                is_told.then_some(ready)
            })
            .await;
        assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!(self.reason)), "{name}: {ready}");
        let message = ready["message"].as_str().unwrap();
        let kind = self.broken["kind"].as_str().unwrap();
        assert!(message.contains(&format!("{kind} {}/{name}", project.namespace)), "{name}: {message}");
        assert!(!message.contains("-config"), "what is ready is not named: {message}");
        if self.reason != "Progressing" {
            self.is_reported_once(project, message).await;
        }
        project.condition(name, "Deployed", "True").await;
        project.condition(name, "ReleaseFailed", "False").await;
        project.apply(name, json!({"objects": [fine, self.mended]})).await;
        project.condition(name, "Ready", "True").await;
    }
}

impl Trouble {
    /// One Warning for the cause, however often it is looked at.
    async fn is_reported_once(&self, project: &Project, message: &str) {
        for number in 0..2 {
            project.annotate(self.name, "example.com/look", &number.to_string()).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let events = project.events(self.name, self.reason).await;
        assert_eq!(events, [(1, message.to_owned())], "{}", self.name);
    }
}

#[tokio::test]
async fn every_trouble_is_told_with_its_cause_until_it_is_mended() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    let troubles = troubles();
    join_all(troubles.iter().map(|trouble| trouble.is_told_until_it_is_mended(&project))).await;
}

#[tokio::test]
async fn a_quota_that_forbids_pods_is_told() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    let quotas = project.forbid_pods().await;
    project.apply("web", json!({"objects": [deployment("web", "", "")]})).await;
    project
        .told("web", "the quota", |status| {
            let ready = status["conditions"].as_array()?.iter().find(|it| it["type"] == "Ready")?;
            let message = ready["message"].as_str()?;
            let is_told = message.starts_with("pods \"web-") && message.contains("exceeded quota");
            (is_told && message.contains("Deployment") && ready["reason"] == "FailedCreate").then_some(())
        })
        .await;
    // Of a StatefulSet, only Events tell.
    let labels = json!({"app": "db"});
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {
        "serviceName": "db", "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "app", "image": "i"}]}}}});
    project.apply("db", json!({"objects": [set]})).await;
    let told = project.not_ready("db", "FailedCreate").await;
    let message = told["message"].as_str().unwrap();
    assert!(message.starts_with("pods \"db-0\" is forbidden: exceeded quota"), "{message}");
    assert!(message.ends_with(&format!("(StatefulSet {}/db)", project.namespace)), "{message}");
    quotas.delete("none", &DeleteParams::default()).await.unwrap();
    project.condition("web", "Ready", "True").await;
}

/// The pod of a Deployment, once it has a container in some state.
async fn pod_of(project: &Project, app: &str) -> DynamicObject {
    let pods = project.objects("v1", "Pod", Some(&project.namespace));
    until(&format!("a pod of {app} is on its node"), async || {
        let list = pods.list(&ListParams::default().labels(&format!("app={app}"))).await.unwrap();
        list.items.into_iter().find(|pod| pod.data.pointer("/status/containerStatuses").is_some())
    })
    .await
}

/// An Event as a kubelet writes it.
async fn event_about(project: &Project, pod: &DynamicObject, path: &str, reason: &str, message: &str) {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let name = pod.name_any();
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": reason, "message": message, "count": 3,
        "metadata": {"name": format!("{name}.{}", reason.to_lowercase()), "namespace": project.namespace},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": project.namespace, "name": name,
            "uid": pod.uid(), "fieldPath": path},
        "source": {"component": "kubelet", "host": "lab"}, "firstTimestamp": now, "lastTimestamp": now,
    });
    project.create(event).await;
}

const NOT_FOUND: &str = "Readiness probe failed: HTTP probe failed with statuscode: 404";

#[tokio::test]
async fn events_tell_of_failing_probes_and_of_sandboxes() {
    let project = Project::of_objects().await;
    let operator = project.run();
    project.apply("web", json!({"objects": [deployment("web", "never-ready", "")]})).await;
    project.apply("box", json!({"objects": [deployment("box", "creating", "")]})).await;
    event_about(&project, &pod_of(&project, "web").await, "spec.containers{app}", "Unhealthy", NOT_FOUND).await;
    let sandbox = "Failed to create pod sandbox: rpc error: container init was OOM-killed (memory limit too low?)";
    event_about(&project, &pod_of(&project, "box").await, "", "FailedCreatePodSandBox", sandbox).await;
    let probe = "readiness probe failed: HTTP probe failed with statuscode: 404 (container \"app\" of pod web-";
    for (name, reason, words) in [("web", "ReadinessProbeFailed", probe), ("box", "FailedCreatePodSandBox", sandbox)] {
        let told = project.not_ready(name, reason).await;
        let message = told["message"].as_str().unwrap();
        assert!(message.starts_with(words), "{message}");
        let shown = project.cli(&["status", &project.named(name)]).good();
        assert!(shown.lines().any(|line| line.contains("─ Pod ") && line.contains(&words[..60])), "{shown}");
        let events = project.events(name, reason).await;
        assert_eq!(events, [(1, message.to_owned())]);
        let lines = operator.log().lines().filter(|line| line.contains(reason)).count();
        assert_eq!(lines, 1, "{}", operator.log());
    }
    project.apply("web", json!({"objects": [deployment("web", "", "")]})).await;
    project.condition("web", "Ready", "True").await;
}

#[tokio::test]
async fn an_operator_that_may_not_read_events_says_so_once() {
    let project = Project::of_objects().await;
    project.apply("web", json!({"objects": [deployment("web", "never-ready", "")]})).await;
    project.apply("more", json!({"objects": [deployment("more", "never-ready", "")]})).await;
    let rule = |group: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": ["*"], "verbs": verbs});
    let all = ["get", "list", "watch", "create", "update", "patch", "delete"];
    let mut rules: Vec<Value> = ["", "apps", "batch", "autoscaling", "apiextensions.k8s.io", &project.resource.group]
        .iter()
        .map(|group| rule(group, &all))
        .collect();
    rules.push(rule("events.k8s.io", &["create", "patch"]));
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": rules});
    project.file("config/rbac/role.yaml", &role.to_string());
    project.bind_role(&project.user()).await;
    let operator = project.launch().limited().start();
    for name in ["web", "more"] {
        event_about(&project, &pod_of(&project, name).await, "spec.containers{app}", "Unhealthy", NOT_FOUND).await;
        // The pod's own state is told all the same, after a while.
        project
            .told(name, "its probe", |status| {
                let ready = status["conditions"].as_array()?.iter().find(|it| it["type"] == "Ready")?;
                let words = "has not passed its readiness probe yet (container \"app\" of pod ";
                (ready["message"].as_str()?.starts_with(words) && ready["reason"] == "Progressing").then_some(())
            })
            .await;
    }
    let log = operator.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("EventsNotReadable")).collect();
    assert!(lines.len() == 1 && lines[0].contains("allow `list` on `events` of events.k8s.io"), "{lines:#?}");
}

#[tokio::test]
async fn a_release_at_rest_reads_no_events() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    let since = Timestamp::now();
    project.apply("web", json!({"objects": [deployment("web", "", ""), config("web", "blue")]})).await;
    project.condition("web", "Ready", "True").await;
    project.annotate("web", "example.com/look", "again").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let reads = |call: &String| call.contains("/events") && !call.starts_with("create") && !call.starts_with("patch");
    let calls: Vec<String> = project.calls_since(since).into_iter().filter(reads).collect();
    assert_eq!(calls, [""; 0]);
}

#[tokio::test]
async fn every_object_is_listed_and_nothing_is_written_without_news() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"ports": [{"port": 80}]}});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "web"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let objects = json!([config("web", "blue"), service, deployment("web", "", ""), job("web", ""), claim]);
    project.apply("web", json!({"objects": objects})).await;
    project.condition("web", "Ready", "True").await;
    let status = project.status("web").await;
    let mut listed: Vec<_> = status["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|object| {
            assert_eq!((&object["name"], &object["health"]), (&json!("web"), &json!("Current")), "{object}");
            object["kind"].as_str().unwrap()
        })
        .collect();
    listed.sort_unstable();
    assert_eq!(listed, ["ConfigMap", "Deployment", "Job", "PersistentVolumeClaim", "Service"]);
    assert_eq!(status["observedGeneration"], 1);
    let since = Timestamp::now();
    // It is looked at again, and there is nothing new to say.
    project.annotate("web", "example.com/look", "again").await;
    stays(Duration::from_secs(5), "the status is not written", async || {
        project.crs().get("web").await.unwrap().resource_version()
    })
    .await;
    // A write that changes nothing leaves no trace on the object, but in the audit log.
    let writes: Vec<_> = project.calls_since(since).into_iter().filter(|call| call.starts_with("patch ")).collect();
    assert_eq!(writes, [""; 0]);
    // Somebody breaks it: that is news, and it is undone.
    let broken = json!({"spec": {"template": {"metadata": {"labels": {"lab.chartwright.dev/behaviour": "crash"}}}}});
    let deployments = project.objects("apps/v1", "Deployment", Some(&project.namespace));
    deployments.patch("web", &PatchParams::default(), &Patch::Merge(broken)).await.unwrap();
    until("the edit is undone", async || {
        let labels = &deployments.get("web").await.unwrap().data["spec"]["template"]["metadata"]["labels"];
        (labels["lab.chartwright.dev/behaviour"] == "").then_some(())
    })
    .await;
    project.condition("web", "Ready", "True").await;
}

#[tokio::test]
async fn what_happened_is_told_in_events_once_each() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("a", "blue"), config("b", "blue")]})).await;
    project.deployed("web").await;
    project.apply("web", json!({"objects": [config("a", "red")]})).await;
    project.deployed("web").await;
    let invalid = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": []}});
    project.apply("web", json!({"objects": [config("a", "green"), invalid]})).await;
    project.not_ready("web", "InvalidObject").await;
    // Further looks at the same failure are no news.
    for number in 0..3 {
        project.annotate("web", "example.com/look", &number.to_string()).await;
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    for (reason, words) in [
        ("Installed", "revision 1 with 2 objects"),
        ("Upgraded", "revision 2 with 1 object"),
        ("Pruned", "ConfigMap"),
        ("InvalidObject", "spec.ports"),
    ] {
        let events = project.events("web", reason).await;
        let [(count, note)] = events.as_slice() else { panic!("not one event {reason}: {events:?}") };
        assert!(*count == 1 && note.contains(words), "{reason} was told {count} times: {note}");
    }
}

#[tokio::test]
async fn the_status_holds_no_data_of_secrets() {
    let project = Project::new("App").await;
    project.template(
        "secret.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: web}\nstringData: {password: hunter2}\ndata: {token: c3dvcmRmaXNo}\n",
    );
    project.template("config.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {colour: blue}\n");
    let _operator = project.run();
    project.apply("web", json!({})).await;
    project.condition("web", "Ready", "True").await;
    let status = project.status("web").await;
    let manifest = status["deployedRelease"]["manifest"].as_str().unwrap();
    assert!(
        manifest.contains("kind: ConfigMap") && manifest.contains("blue") && manifest.contains("Secret"),
        "{manifest}"
    );
    let cr = serde_json::to_string(&project.crs().get("web").await.unwrap()).unwrap();
    for secret in ["hunter2", "aHVudGVyMg==", "c3dvcmRmaXNo", "swordfish"] {
        assert!(!cr.contains(secret), "{secret} is in {cr}");
    }
}
