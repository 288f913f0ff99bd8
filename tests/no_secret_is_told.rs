//! What Secrets hold is in nothing that an operator says: not in its log at the highest level in either form, not in events, not in
//! a status. Neither are the credentials that it works with.

use kube::api::ListParams;
use serde_json::{Value, json};

use crate::harness::{Operator, Project, until};

/// Given by a Secret, made by the chart, looked up in another Secret. All begin with the same word.
const GIVEN: &str = "hunter-that-was-given";
const LOOKED_UP: &str = "hunter-that-was-looked-up";
/// What every pod of the lab prints; here it is what a Secret of the chart holds that is a hook itself.
const PRINTED: &str = "a line printed by a kwok pod";
/// The word, and its beginning in base64 at each of the three places where it may stand.
const HIDDEN: [&str; 6] = ["hunter", "aHVudGVy", "h1bnRlc", "odW50ZX", PRINTED, "printed by a kwok"];

const CHART: &str = r#"
{{- $seen := lookup "v1" "Secret" .Release.Namespace "looked" }}
{{- if eq .Values.mode "quotes-lookup" }}{{ fail (printf "it is %s" (index $seen.data "password" | b64dec)) }}{{ end }}
{{- if eq .Values.mode "quotes-given" }}{{ fail (printf "it is %s" .Values.given) }}{{ end }}
apiVersion: v1
kind: Secret
metadata: {name: '{{ .Release.Name }}-own'}
stringData:
  own: hunter-of-the-chart
  given: {{ .Values.given | quote }}
  round: {{ .Values.round | quote }}
---
apiVersion: v1
kind: Secret
metadata:
  name: '{{ .Release.Name }}-hooked'
  annotations: {helm.sh/hook: "pre-install,pre-upgrade"}
stringData: {printed: a line printed by a kwok pod}
---
apiVersion: batch/v1
kind: Job
metadata: {name: '{{ .Release.Name }}-leaves', annotations: {helm.sh/hook: pre-delete}}
spec:
  backoffLimit: 0
  template:
    metadata: {labels: {lab.chartwright.dev/behaviour: fail}}
    spec: {restartPolicy: Never, containers: [{name: main, image: registry.example.com/a}]}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: '{{ .Release.Name }}-hook'
  annotations: {helm.sh/hook: "post-install,post-upgrade", helm.sh/hook-output-log-policy: "hook-succeeded,hook-failed"}
spec:
  backoffLimit: 0
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: registry.example.com/a}]}
"#;

async fn secret(project: &Project, name: &str, value: &str) {
    let metadata = json!({"name": name, "namespace": project.namespace});
    let data = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": value}});
    project.create(data).await;
}

/// Refuses a Secret, and quotes what it holds.
async fn a_policy_that_quotes(project: &Project, name: &str) {
    let object = |kind: &str, spec: Value| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": project.namespace}, "spec": spec});
    let rule =
        json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["secrets"]});
    let validation = json!({
        "expression": format!("object.metadata.name != '{name}'"),
        "messageExpression": "'it is ' + string(object.data.own) + ' and ' + string(object.data.given)",
    });
    let spec = json!({"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]});
    project.create(object("ValidatingAdmissionPolicy", spec)).await;
    let here = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": project.namespace}}});
    let binding = json!({"policyName": project.namespace, "validationActions": ["Deny"], "matchResources": here});
    project.create(object("ValidatingAdmissionPolicyBinding", binding)).await;
    until("the policy is in force", async || {
        let probe =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"own": "", "given": ""}});
        let api = project.objects("v1", "Secret", Some(&project.namespace));
        let created = api.create(&Default::default(), &serde_json::from_value(probe).unwrap()).await;
        if created.is_ok() {
            api.delete(name, &Default::default()).await.unwrap();
        }
        created.is_err().then_some(())
    })
    .await;
}

/// Everything that can go well and wrong, once.
async fn work(project: &Project, round: u32, operator: &Operator) {
    for (name, mode, reason) in [
        ("refused", "good", "InvalidObject"),
        ("given", "quotes-given", "Missing"),
        ("lookup", "quotes-lookup", "Missing"),
    ] {
        project.apply(name, json!({"mode": mode, "round": round})).await;
        let told = project
            .told(name, &format!("the failure of round {round}"), |status| {
                let ready = status["conditions"].as_array()?.iter().find(|it| it["type"] == "Ready")?.clone();
                let is_new = status["observedGeneration"] == json!(round);
                (is_new && ready["status"] == "False" && ready["reason"] != "Progressing").then_some(ready)
            })
            .await;
        let message = told["message"].as_str().unwrap();
        assert!(message.contains("it is ") && message.contains("***"), "{told}");
        assert_eq!(told["reason"], reason, "{told}");
    }
    project.apply("web", json!({"mode": "good", "round": round})).await;
    until("the hook's line is told", async || operator.log().contains("| ***").then_some(())).await;
    project.condition("web", "Ready", "True").await;
}

async fn assert_hidden(project: &Project, operator: &Operator) {
    let mut seen = vec![("the log".to_owned(), operator.log())];
    for name in ["web", "refused", "given", "lookup"] {
        seen.push((format!("the status of {name}"), project.status(name).await.to_string()));
    }
    let events = project.objects("events.k8s.io/v1", "Event", Some(&project.namespace));
    let events = events.list(&ListParams::default()).await.unwrap();
    seen.push(("an event".to_owned(), serde_json::to_string(&events.items).unwrap()));
    for (what, text) in &seen {
        for hidden in HIDDEN.iter().chain(&["Bearer", "Authorization", "authorization", "PRIVATE KEY"]) {
            let line = text.lines().find(|line| line.contains(hidden));
            assert_eq!(line, None, "{what} shows {hidden}");
        }
    }
}

#[tokio::test]
async fn at_the_highest_level_in_both_forms() {
    let project = Project::new("App").await;
    project.template("all.yaml", CHART);
    project.template("NOTES.txt", "Log in with {{ .Values.given }}\n");
    project.watch_with(
        "logTail: 10\nlookup: namespace\nvaluesFrom: [{kind: Secret, name: db, valuesKey: password, targetPath: given}]",
    );
    secret(&project, "db", GIVEN).await;
    secret(&project, "looked", LOOKED_UP).await;
    a_policy_that_quotes(&project, "refused-own").await;
    let operator = project.launch().env("RUST_LOG", "trace,hyper=trace,kube_client=trace,rustls=trace").start();
    work(&project, 1, &operator).await;
    assert_hidden(&project, &operator).await;
    assert!(operator.log().contains("\"level\":\"debug\""));
    drop(operator);
    let operator = project.launch().args(&["--zap-encoder=console", "--zap-log-level=9"]).start();
    work(&project, 2, &operator).await;
    project.delete("web").await;
    let failed = project
        .told("web", "the hook before the deletion failed", |status| {
            let conditions = status["conditions"].as_array()?.iter().map(Value::to_string);
            conditions.filter(|said| said.contains("web-leaves")).find(|said| said.contains("exit code 1 (Error)"))
        })
        .await;
    assert!(!failed.contains("***"), "no log is in a condition, hidden or not: {failed}");
    until("an event tells it", async || {
        let events = project.events("web", "UninstallError").await;
        events.iter().any(|(_, note)| note.contains("exit code 1 (Error)")).then_some(())
    })
    .await;
    until("its log is in the operator's", async || operator.log().contains("| ***").then_some(())).await;
    assert_hidden(&project, &operator).await;
}
