//! Values that not everybody may read are on no command line, and a log has only so much of a hook's.

use serde_json::json;

use crate::harness::strange_helm::strange_helm;
use crate::harness::trouble::{Trouble, Troubled};
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
    let gate = Troubled::start(project.client.clone(), Trouble::LongLogs).await;
    let operator = project.launch().behind(&gate).start();
    project.apply("web", json!({})).await;
    let told = project.condition("web", "ReleaseFailed", "True").await;
    let asked = gate.counts().calls.into_iter().filter(|call| call.contains("/log?")).collect::<Vec<_>>();
    assert!(!asked.is_empty() && asked.iter().all(|call| call.contains("limitBytes=")), "{asked:?}");
    // Whoever answers need not know the limit.
    let message = told["message"].as_str().unwrap_or_default();
    let shown = message.matches('x').count();
    assert!((100..2000).contains(&shown), "{} characters: {message:.300}", message.len());
    let longest = operator.log().lines().map(str::len).max().unwrap_or_default();
    assert!(longest < 8 * 1024, "a line of the operator's log has {longest} bytes");
}
