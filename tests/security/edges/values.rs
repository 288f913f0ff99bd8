//! Values that not everybody may read are on no command line, and a log has only so much of a hook's.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use crate::harness::strange_helm::strange_helm;
use crate::harness::{Project, config, until};

/// Beyond what a float prints in full.
const OF_ENVIRONMENT: &str = "90071992540991";
const OF_WATCH: &str = "80071992540992";
const OF_CONFIG_MAP: &str = "70071992540993";
const OF_SPEC: &str = "60071992540994";

#[tokio::test]
async fn only_integers_of_the_spec_are_among_the_arguments_of_helm() {
    let project = Project::of_objects().await;
    project.watch_with(&format!(
        "overrideValues: {{account: $ACCOUNT, fixed: {OF_WATCH}, 'list[1]': $ACCOUNT}}\nvaluesFrom: [{{kind: ConfigMap, name: more}}]"
    ));
    let more = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "more", "namespace": project.namespace},
        "data": {"values.yaml": format!("number: {OF_CONFIG_MAP}\n")},
    });
    project.create(more).await;
    let arguments = project.dir().join("arguments");
    let helm = strange_helm(&project, &format!("printf '%s\\n' \"$@\" >> {}", arguments.display()));
    let _operator = project.launch().helm(helm).env("ACCOUNT", OF_ENVIRONMENT).start();
    let own: u64 = OF_SPEC.parse().unwrap();
    project
        .apply("web", json!({"objects": [config("web", "blue")], "own": own, "list": [own], "account": 1000001}))
        .await;
    project.deployed("web").await;
    let said = std::fs::read_to_string(&arguments).unwrap();
    for secret in [OF_ENVIRONMENT, OF_WATCH, OF_CONFIG_MAP, "1000001"] {
        assert!(!said.contains(secret), "{secret} is an argument: {said}");
    }
    assert!(said.contains(&format!("own={OF_SPEC}")), "those of the spec stay exact: {said}");
    let told = until("an event tells of it", async || {
        let events = project.events("web", "InexactInteger").await;
        (!events.is_empty()).then_some(events)
    })
    .await;
    assert!(told.iter().any(|(_, note)| note.contains("overrideValues")), "{told:?}");
}

#[tokio::test]
async fn a_log_is_read_up_to_a_limit() {
    let project = Project::new("App").await;
    project.template(
        "hook.yaml",
        "apiVersion: batch/v1
kind: Job
metadata: {name: '{{ .Release.Name }}-hook', annotations: {helm.sh/hook: pre-install}}
spec:
  backoffLimit: 0
  template:
    metadata: {labels: {lab.chartwright.dev/behaviour: fail}}
    spec: {restartPolicy: Never, containers: [{name: main, image: registry.example.com/a}]}
",
    );
    project.watch_with("logTail: 10");
    let (since, _operator) = (Timestamp::now(), project.run());
    project.apply("web", json!({})).await;
    let read = until("the log of the hook is read", async || {
        let calls = project.calls_since(since);
        let logs: Vec<String> = calls.into_iter().filter(|call| call.contains("/log?")).collect();
        if logs.is_empty() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        (!logs.is_empty()).then_some(logs)
    })
    .await;
    assert!(read.iter().all(|call| call.contains("limitBytes=")), "{read:?}");
}
