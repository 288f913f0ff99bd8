//! Ready=False names what is not ready and why; once it is mended, Ready is true; and nothing is written without news.

use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::{Project, config, stays, until, within};

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
    let trouble = |name, behaviour: &str, node: &str, words| Trouble {
        name,
        broken: deployment(name, behaviour, node),
        mended: deployment(name, "", ""),
        reason: "Progressing",
        words,
    };
    vec![
        trouble("pulls", "pull-error", "", &["cannot pull image", "registry.example/app:1", "ImagePullBackOff"]),
        trouble("crashes", "crash", "", &["container \"app\"", "CrashLoopBackOff", "exit code 1"]),
        trouble("homeless", "", "no-such-node", &["cannot be scheduled", "node"]),
        trouble("never-ready", "never-ready", "", &["0 of 1 replica"]),
        Trouble {
            name: "fails",
            broken: job("fails", "fail"),
            mended: config("fails", "blue"),
            reason: "ObjectsFailed",
            words: &["Job", "fails", "exit code 1"],
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
                self.words.iter().all(|word| message.contains(word)).then_some(ready)
            })
            .await;
        assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!(self.reason)), "{name}: {ready}");
        let message = ready["message"].as_str().unwrap();
        let kind = self.broken["kind"].as_str().unwrap();
        assert!(message.contains(&format!("{kind} {}/{name}", project.namespace)), "{name}: {message}");
        assert!(!message.contains("config"), "what is ready is not named: {message}");
        project.condition(name, "Deployed", "True").await;
        project.condition(name, "ReleaseFailed", "False").await;
        project.apply(name, json!({"objects": [fine, self.mended]})).await;
        project.condition(name, "Ready", "True").await;
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
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"},
        "spec": {"hard": {"pods": "0"}}});
    project.create(within(&project.namespace, quota)).await;
    let quotas = project.objects("v1", "ResourceQuota", Some(&project.namespace));
    until("the quota counts", async || quotas.get("none").await.unwrap().data.pointer("/status/hard/pods").map(|_| ()))
        .await;
    project.apply("web", json!({"objects": [deployment("web", "", "")]})).await;
    project
        .told("web", "the quota", |status| {
            let ready = status["conditions"].as_array()?.iter().find(|it| it["type"] == "Ready")?;
            let message = ready["message"].as_str()?;
            (message.contains("Deployment") && message.contains("exceeded quota")).then_some(())
        })
        .await;
    quotas.delete("none", &DeleteParams::default()).await.unwrap();
    project.condition("web", "Ready", "True").await;
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

#[tokio::test]
async fn a_misspelt_field_is_warned_about_until_it_is_corrected() {
    let project = Project::new("App").await;
    project.file("charts/app/values.yaml", "replicaCount: 1\nlabels: {}\n");
    let template =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata:\n  count: {{ .Values.replicaCount | quote }}\n";
    project.template("config.yaml", template);
    let _operator = project.run();
    project.apply("web", json!({"replicaCout": 3, "labels": {"any": "x"}})).await;
    let told = project.condition("web", "UnknownFields", "True").await;
    let sentence = "The chart app has no such value: spec.replicaCout (did you mean spec.replicaCount?)";
    assert_eq!((&told["reason"], &told["message"]), (&json!("UnknownField"), &json!(sentence)));
    project.condition("web", "Ready", "True").await;
    assert_eq!(project.events("web", "UnknownField").await, [(1, sentence.to_owned())]);
    let web = project.named("web");
    for command in ["diff", "render"] {
        let said = project.cli(&[command, &web]);
        assert_eq!((said.code, said.err), (0, format!("warning: {sentence}\n")), "{command}");
    }
    let status = project.cli(&["status", &web]).good();
    assert!(status.contains(&format!("Warning    {sentence}")), "{status}");

    let version = project.crs().get("web").await.unwrap().metadata.resource_version;
    project.annotate("web", "example.com/look", "again").await;
    stays(Duration::from_secs(1), "the status", async || project.status("web").await).await;
    assert_ne!(project.crs().get("web").await.unwrap().metadata.resource_version, version);
    assert_eq!(project.events("web", "UnknownField").await.len(), 1, "it is told once");

    let params = PatchParams::apply("test").force();
    let corrected = json!({"apiVersion": project.resource.api_version, "kind": project.resource.kind,
        "metadata": {"name": "web"}, "spec": {"replicaCount": 3}});
    project.crs().patch("web", &params, &Patch::Apply(corrected)).await.unwrap();
    project.deployed("web").await;
    let status = project.status("web").await;
    assert!(!status["conditions"].to_string().contains("UnknownFields"), "{status}");
    assert_eq!(project.get("v1", "ConfigMap", "web").await.unwrap().data["data"]["count"], "3");
}
