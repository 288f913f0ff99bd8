//! Generated values are in nothing that somebody reads who may not read Secrets.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::api::ListParams;
use serde_json::json;

use super::{ROTATE, generated, given_others};
use crate::harness::{Operator, Project, until};

/// It shows the password wherever it can, and hides the key of an authority that nobody uses.
const CHART: &str = r#"
apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}}
stringData: {password: {{ .Values.auth.password | quote }}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {url: {{ printf "postgres://u:%s@db" .Values.auth.password | quote }}, key: {{ .Values.tls.key | quote }}}
{{ if eq .Values.mode "broken" }}{{ fail (printf "it is %s" .Values.auth.password) }}{{ end }}
{{ if eq .Values.mode "refused" }}
---
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}}
spec: {type: {{ .Values.auth.password | quote }}}
{{ end }}
"#;

const FIELDS: &str = "generate:\n- {name: password, text: {}, targetPath: auth.password}\n- {name: ca, certificate: {isCA: true}}\n\
                      - {name: tls, certificate: {issuer: ca, dnsNames: [a.svc]}, targetPath: {privateKey: tls.key}}";

/// What nobody may see: texts, their lines, and their beginnings in base64.
async fn secrets(project: &Project) -> Vec<String> {
    let data = generated(project, "web").await.unwrap();
    let password = data["password"].as_str().unwrap().to_owned();
    let line = |key: &str| data[key].as_str().unwrap().lines().nth(1).unwrap().to_owned();
    let encoded = STANDARD.encode(&password)[..40].to_owned();
    vec![password, encoded, line("tls.key"), line("ca.key")]
}

async fn assert_hidden(project: &Project, operator: &Operator, secrets: &[String], commands: &[&[&str]]) {
    let mut seen = vec![("the log".to_owned(), operator.log())];
    for name in ["web", "bad", "worse"] {
        seen.push((format!("the status of {name}"), project.status(name).await.to_string()));
    }
    let events = project.objects("events.k8s.io/v1", "Event", Some(&project.namespace));
    let events = events.list(&ListParams::default()).await.unwrap();
    seen.push(("an event".to_owned(), serde_json::to_string(&events).unwrap()));
    for command in commands {
        let said = project.cli(command);
        seen.push((format!("{command:?}"), format!("{}{}", said.out, said.err)));
    }
    seen.extend(project.support_bundle());
    for (what, text) in &seen {
        for hidden in secrets {
            assert!(!text.contains(hidden.as_str()), "{what} shows {hidden}");
        }
    }
}

#[tokio::test]
async fn a_generated_value_is_in_no_status_event_log_diff_render_or_bundle() {
    let project = Project::new("App").await;
    project.file("charts/app/values.yaml", "mode: good\n");
    project.template("all.yaml", CHART);
    project.template("NOTES.txt", "Log in with {{ .Values.auth.password }}\n");
    project.watch_with(FIELDS);
    let operator = project.launch().env("RUST_LOG", "debug").start();
    let before = project.cli(&["render", &project.named("web")]);
    assert_ne!(before.code, 0, "it is not there yet");
    project.apply("web", json!({})).await;
    project.condition("web", "Ready", "True").await;
    let notes = project.condition("web", "Deployed", "True").await["message"].clone();
    assert_eq!(notes, "Log in with ***\n");
    for (name, mode, reason) in [("bad", "refused", "InvalidObject"), ("worse", "broken", "RenderFailed")] {
        project.apply(name, json!({"mode": mode})).await;
        project.not_ready(name, reason).await;
    }
    let (web, bad) = (project.named("web"), project.named("bad"));
    let commands: [&[&str]; 8] = [
        &["render", &web],
        &["render", &web, "-o", "json"],
        &["diff", &web],
        &["diff", &bad],
        &["get", "values", &web],
        &["get", "manifest", &web],
        &["history", &web],
        &["status", &web],
    ];
    let first = secrets(&project).await;
    assert_hidden(&project, &operator, &first, &commands).await;
    assert!(project.cli(&["diff", &web]).good().is_empty(), "the Secret is read, so nothing would change");
    let shown = project.cli(&["render", &web, "--show-secrets"]).good();
    assert!(shown.contains(&format!("postgres://u:{}@db", first[0])), "{shown}");
    assert!(project.cli(&["render", &web]).good().contains("postgres://u:***@db"));

    // Earlier values stay hidden too, also from an operator that has never seen them.
    let before = super::data(&project, "web").await.unwrap();
    drop(operator);
    project.annotate("web", ROTATE, "1").await;
    let diff = project.cli(&["diff", &web]);
    assert!(diff.code == 1 && diff.out.contains("***") && diff.err.contains("placeholders"), "{diff:?}");
    assert!(first.iter().all(|hidden| !diff.out.contains(hidden.as_str())), "{diff:?}");
    let operator = project.launch().env("RUST_LOG", "debug").start();
    given_others(&project, "web", &before).await;
    project.deployed("web").await;
    let both = [first, secrets(&project).await].concat();
    assert_hidden(&project, &operator, &both, &commands).await;
}

#[tokio::test]
async fn a_preview_uses_placeholders_for_what_is_not_generated_yet() {
    let project = Project::new("App").await;
    project.file("charts/app/values.yaml", "mode: good\n");
    project.template("all.yaml", CHART);
    project.watch_with(FIELDS);
    let cr =
        json!({"apiVersion": project.resource.api_version, "kind": "App", "metadata": {"name": "web"}, "spec": {}});
    project.file("web.yaml", &cr.to_string());
    let render = project.cli(&["render", "-f", "web.yaml"]);
    assert!(render.code == 0 && render.out.contains("postgres://u:***@db"), "{render:?}");
    assert!(render.err.contains("placeholders stand for") && render.err.contains("password, ca, tls"), "{render:?}");
    let diff = project.cli(&["diff", "-f", "web.yaml"]);
    assert!(diff.code == 1 && diff.out.contains("postgres://u:***@db"), "{diff:?}");
    assert!(project.get("v1", "Secret", "web-generated").await.is_none(), "only the operator writes it");
    let validated = project.cli(&["validate"]);
    assert!(validated.code == 0 && !validated.out.contains("does not render"), "{validated:?}");
    let operator = project.run();
    project.apply("web", json!({})).await;
    until("it is generated", async || generated(&project, "web").await).await;
    drop(operator);
}
