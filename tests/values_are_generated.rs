//! The operator generates values once for each custom resource: charts that demand their passwords on every upgrade just work.

mod hidden;
mod whose;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::gate::{Gate, When};
use crate::harness::rights::generate_rbac_in;
use crate::harness::{Operator, Project, stays, until};

/// As the charts of some databases do: an install generates a password, and an upgrade demands the one that is in use.
const CHART: &str = r#"
{{- if .Release.IsUpgrade }}{{ $_ := required "PASSWORDS ERROR: auth.password is required when upgrading" .Values.auth.password }}{{ end }}
apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}}
stringData:
  password: {{ .Values.auth.password | default (randAlphaNum 10) | quote }}
  root: {{ .Values.auth.root | default "" | quote }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data:
  colour: {{ .Values.colour | quote }}
  revision: {{ .Release.Revision | quote }}
"#;

const TWO: &str = "generate:\n- {name: password, text: {}, targetPath: auth.password}\n- {name: root, text: {length: 12, characters: digits}, targetPath: auth.root}";
const ROTATE: &str = "chartwright.dev/rotate";

async fn project(fields: &str) -> Project {
    let project = Project::new("App").await;
    project.file("charts/app/values.yaml", "colour: none\nauth: {}\n");
    project.template("all.yaml", CHART);
    project.watch_with(fields);
    project
}

/// What the Secret of a release's generated values holds.
async fn generated(project: &Project, release: &str) -> Option<Value> {
    data(project, &format!("{release}-generated")).await
}

/// What a Secret holds, decoded.
async fn data(project: &Project, name: &str) -> Option<Value> {
    let secret = project.get("v1", "Secret", name).await?;
    let text = |value: &Value| {
        let bytes = serde_json::from_value::<k8s_openapi::ByteString>(value.clone()).unwrap().0;
        Value::from(String::from_utf8(bytes).unwrap())
    };
    let data = secret.data["data"].as_object().cloned().unwrap_or_default();
    Some(data.iter().map(|(key, value)| (key.clone(), text(value))).collect())
}

/// Waits until an edit is deployed.
async fn edited(project: &Project, name: &str, colour: &str) {
    project.apply(name, json!({"colour": colour})).await;
    coloured(project, name, colour).await;
}

async fn coloured(project: &Project, name: &str, colour: &str) {
    until(&format!("{name} is {colour}"), async || {
        let config = project.get("v1", "ConfigMap", name).await?;
        (config.data["data"]["colour"] == colour).then_some(())
    })
    .await;
    project.deployed(name).await;
}

async fn revision(project: &Project, name: &str) -> u64 {
    project.status(name).await["deployedRelease"]["revision"].as_u64().unwrap_or_default()
}

/// Waits until the chart was given other values than these.
async fn given_others(project: &Project, name: &str, before: &Value) -> Value {
    until(&format!("{name} is given other values"), async || data(project, name).await.filter(|now| now != before))
        .await
}

async fn change(project: &Project, secret: &str, patch: Value) {
    let api = project.objects("v1", "Secret", Some(&project.namespace));
    api.patch(secret, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn remove(project: &Project, secret: &str) {
    let api = project.objects("v1", "Secret", Some(&project.namespace));
    api.delete(secret, &DeleteParams::default()).await.unwrap();
}

async fn told_of(project: &Project, name: &str, reason: &str) -> String {
    until(&format!("{name} is told {reason}"), async || Some(project.events(name, reason).await.pop()?.1)).await
}

#[tokio::test]
async fn a_chart_that_demands_its_password_on_upgrade_can_be_edited() {
    let project = project("").await;
    let operator = project.run();
    project.apply("plain", json!({"colour": "blue"})).await;
    project.condition("plain", "Ready", "True").await;
    project.apply("plain", json!({"colour": "green"})).await;
    let told = project.not_ready("plain", "RenderFailed").await;
    assert!(told["message"].as_str().unwrap().contains("PASSWORDS ERROR"), "{told}");
    drop(operator);

    project.watch_with(TWO);
    let _operator = project.run();
    for name in ["web", "shop"] {
        project.apply(name, json!({"colour": "blue"})).await;
        project.condition(name, "Ready", "True").await;
        edited(&project, name, "green").await;
        assert_eq!(generated(&project, name).await, data(&project, name).await, "{name}");
    }
    let (web, shop) = (generated(&project, "web").await.unwrap(), generated(&project, "shop").await.unwrap());
    let (password, root) = (web["password"].as_str().unwrap(), web["root"].as_str().unwrap());
    assert!(password.len() == 32 && password.bytes().all(|it| it.is_ascii_alphanumeric()), "{password}");
    assert!(root.len() == 12 && root.bytes().all(|it| it.is_ascii_digit()), "{root}");
    assert!(web["password"] != shop["password"] && web["root"] != shop["root"], "each has values of its own");
    let secret = project.get("v1", "Secret", "web-generated").await.unwrap();
    let owner = &secret.owner_references()[0];
    assert_eq!((owner.name.as_str(), owner.controller), ("web", Some(true)));
    assert_eq!(project.events("web", "ValuesGenerated").await, [], "that is as it should be");
    let at_first = project.helm("helm4", &["get", "manifest", "web", "--revision", "1"]);
    assert!(at_first.contains(password), "{at_first}");
    // The one whose chart generated the password itself has to be helped.
    told_of(&project, "plain", "ValuesGenerated").await;
}

#[tokio::test]
async fn a_chart_that_cannot_be_upgraded_with_its_defaults_is_named_with_the_remedy() {
    let project = project("").await;
    let notes = || {
        let said = generate_rbac_in(project.dir(), "helm4", &["--stdout"]);
        assert_eq!(said.code, 0, "{said:?}");
        said.err
    };
    let before = notes();
    assert!(before.contains("not as an upgrade") && before.contains("PASSWORDS ERROR: auth.password"), "{before}");
    assert!(before.contains("`generate` in watches.yaml"), "{before}");
    project.watch_with(TWO);
    assert!(!notes().contains("not as an upgrade"), "a stand-in takes the place of the password");
}

#[tokio::test]
async fn generated_values_survive_restarts_and_cost_nothing_at_rest() {
    let project = project(&format!("reconcilePeriod: 1s\n{TWO}")).await;
    let operator = project.run();
    project.apply("web", json!({"colour": "blue"})).await;
    project.condition("web", "Ready", "True").await;
    let before = (generated(&project, "web").await, revision(&project, "web").await);
    drop(operator);
    let operator = project.launch().env("RUST_LOG", "debug").start();
    let looks = |operator: &Operator| operator.log().matches("looked at").count();
    let more_looks = async |count: usize| {
        let wanted = looks(&operator) + count;
        until("it is looked at", async || (looks(&operator) >= wanted).then_some(())).await;
    };
    more_looks(3).await;
    let since = Timestamp::now();
    more_looks(3).await;
    let calls: Vec<String> =
        project.calls_since(since).into_iter().filter(|call| !call.starts_with("watch ")).collect();
    assert_eq!(calls.iter().filter(|call| call.contains("secrets")).count(), 0, "{calls:#?}");
    assert_eq!((generated(&project, "web").await, revision(&project, "web").await), before);
    edited(&project, "web", "green").await;
    assert_eq!(generated(&project, "web").await, before.0);
    assert_eq!(data(&project, "web").await, before.0);
}

#[tokio::test]
async fn an_operator_that_is_killed_around_the_first_write_generates_nothing_twice() {
    for when in [When::Before, When::After] {
        let project = project(TWO).await;
        let gate = Gate::start(project.client.clone()).await;
        let operator = project.launch().before(&gate).start();
        project.apply("first", json!({"colour": "blue"})).await;
        project.condition("first", "Ready", "True").await;
        // The next Secret that is created is the one with generated values: a record comes later.
        gate.arm_at_call(&operator, "POST", "/secrets", when);
        project.apply("web", json!({"colour": "blue"})).await;
        until("it is killed", async || gate.has_killed().then_some(())).await;
        gate.empty().await;
        drop(operator);
        let left = generated(&project, "web").await;
        assert_eq!(left.is_some(), when == When::After, "{:?}", gate.calls());
        assert!(project.get("v1", "Secret", "sh.helm.release.v1.web.v1").await.is_none());
        let _operator = project.run();
        project.condition("web", "Ready", "True").await;
        let now = generated(&project, "web").await;
        assert_eq!(data(&project, "web").await, now);
        assert!(left.is_none() || left == now, "what was generated is used");
        edited(&project, "web", "green").await;
        assert_eq!(data(&project, "web").await, now);
    }
}

#[tokio::test]
async fn an_operator_that_is_killed_during_a_rotation_rotates_once() {
    for when in [When::Before, When::After] {
        let project = project(TWO).await;
        let gate = Gate::start(project.client.clone()).await;
        let operator = project.launch().before(&gate).start();
        project.apply("web", json!({"colour": "blue"})).await;
        project.condition("web", "Ready", "True").await;
        let before = generated(&project, "web").await.unwrap();
        gate.arm_at_call(&operator, "PATCH", "/secrets/web-generated", when);
        project.annotate("web", ROTATE, "today").await;
        until("it is killed", async || gate.has_killed().then_some(())).await;
        gate.empty().await;
        drop(operator);
        let left = generated(&project, "web").await.unwrap();
        assert_eq!(left != before, when == When::After);
        let _operator = project.run();
        let now = given_others(&project, "web", &before).await;
        assert_eq!(Some(&now), generated(&project, "web").await.as_ref());
        assert!(when == When::Before || now == left, "it was rotated already");
        until("the rotation is deployed", async || (revision(&project, "web").await == 2).then_some(())).await;
    }
}

#[tokio::test]
async fn a_rotation_happens_once_for_each_new_text() {
    let project = project(TWO).await;
    let operator = project.run();
    project.apply("web", json!({"colour": "blue"})).await;
    project.condition("web", "Ready", "True").await;
    let first = generated(&project, "web").await.unwrap();
    project.annotate("web", ROTATE, "2026-11-20").await;
    let second = given_others(&project, "web", &first).await;
    assert!(second["password"] != first["password"] && second["root"] != first["root"], "{second}");
    assert!(told_of(&project, "web", "ValuesRotated").await.contains("Rotated password, root"));
    until("the revision is told", async || (revision(&project, "web").await == 2).then_some(())).await;
    drop(operator);

    let operator = project.run();
    edited(&project, "web", "green").await;
    assert_eq!(generated(&project, "web").await, Some(second.clone()), "the text was answered");
    project.annotate("web", "chartwright.dev/rotate-root", "now").await;
    let third = given_others(&project, "web", &second).await;
    assert!(third["password"] == second["password"] && third["root"] != second["root"], "{third}");
    // What is asked for by a name that nobody has is told.
    project.annotate("web", "chartwright.dev/rotate-rot", "now").await;
    let told = told_of(&project, "web", "InvalidAnnotation").await;
    assert!(told.contains("names no generated value"), "{told}");
    assert_eq!(generated(&project, "web").await, Some(third));
    drop(operator);
}

#[tokio::test]
async fn a_rollback_leaves_the_generated_values_as_they_are() {
    let project = project(TWO).await;
    let _operator = project.run();
    project.apply("web", json!({"colour": "blue"})).await;
    project.condition("web", "Ready", "True").await;
    let first = generated(&project, "web").await.unwrap();
    project.annotate("web", ROTATE, "1").await;
    let second = given_others(&project, "web", &first).await;
    project.deployed("web").await;
    project.annotate("web", "chartwright.dev/rollback-to", "1").await;
    project.condition("web", "Held", "True").await;
    assert_eq!(data(&project, "web").await, Some(first), "the objects are those of the first revision");
    assert_eq!(generated(&project, "web").await, Some(second.clone()));
    project.helm("helm4", &["rollback", "web", "2"]);
    until("helm's rollback is there", async || (data(&project, "web").await == Some(second.clone())).then_some(()))
        .await;
    project.annotate("web", "chartwright.dev/rollback-to", "none").await;
    edited(&project, "web", "green").await;
    assert_eq!(data(&project, "web").await, Some(second.clone()));
    assert_eq!(generated(&project, "web").await, Some(second));
}

#[tokio::test]
async fn a_deleted_secret_is_restored_from_the_record() {
    let project = project(TWO).await;
    let operator = project.run();
    project.apply("web", json!({"colour": "blue"})).await;
    project.condition("web", "Ready", "True").await;
    let first = generated(&project, "web").await.unwrap();
    project.annotate("web", ROTATE, "an old wish").await;
    let before = Some(given_others(&project, "web", &first).await);
    let made = 2;
    until("the rotation is deployed", async || (revision(&project, "web").await == made).then_some(())).await;
    remove(&project, "web-generated").await;
    until("it is there again", async || generated(&project, "web").await.filter(|now| Some(now) == before.as_ref()))
        .await;
    let told = told_of(&project, "web", "ValuesRestored").await;
    assert!(told.contains("lacked password, root"), "{told}");
    drop(operator);
    // The same while nobody looks, and for a value that somebody emptied.
    remove(&project, "web-generated").await;
    let operator = project.run();
    until("it is there again", async || generated(&project, "web").await.filter(|now| Some(now) == before.as_ref()))
        .await;
    change(&project, "web-generated", json!({"data": {"password": ""}})).await;
    until("it is whole again", async || generated(&project, "web").await.filter(|now| Some(now) == before.as_ref()))
        .await;
    edited(&project, "web", "green").await;
    assert_eq!((data(&project, "web").await, revision(&project, "web").await), (before, made + 1));
    drop(operator);
}

const CERTIFICATES: &str = r#"
apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}}
stringData: {{ toJson .Values.tls }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {colour: {{ .Values.colour | quote }}}
"#;

#[tokio::test]
async fn a_value_that_no_record_has_is_generated_again_with_a_warning() {
    let project = Project::new("App").await;
    project.template("all.yaml", CERTIFICATES);
    project.watch_with(
        "generate:\n- name: ca\n  certificate: {isCA: true}\n- name: tls\n  certificate:\n    issuer: ca\n\
         \x20   dnsNames: ['{{ .Release.Name }}.{{ .Release.Namespace }}.svc']\n\
         \x20 targetPath: {certificate: tls.crt, privateKey: tls.key, ca: tls.ca}",
    );
    let _operator = project.run();
    project.apply("web", json!({"colour": "blue"})).await;
    project.condition("web", "Ready", "True").await;
    let (kept, first) = (generated(&project, "web").await.unwrap(), data(&project, "web").await.unwrap());
    let of_secret = json!({"crt": kept["tls.crt"], "key": kept["tls.key"], "ca": kept["ca.crt"]});
    assert_eq!(first, of_secret);
    assert!(kept["ca.key"].as_str().unwrap().starts_with("-----BEGIN PRIVATE KEY-----"));
    edited(&project, "web", "green").await;
    assert_eq!(data(&project, "web").await, Some(first.clone()));

    // No record has the key of the authority.
    remove(&project, "web-generated").await;
    let second = given_others(&project, "web", &first).await;
    assert!(second["ca"] != first["ca"] && second["crt"] != first["crt"], "one without the other is of no use");
    let told = told_of(&project, "web", "ValuesGenerated").await;
    assert!(told.contains("Generated ca, tls") && told.contains("no record of it has these values"), "{told}");
}

#[tokio::test]
async fn somebody_who_changes_the_secret_changes_the_values() {
    let project = project(TWO).await;
    let _operator = project.run();
    for name in ["web", "shop"] {
        project.apply(name, json!({"colour": "blue"})).await;
        project.condition(name, "Ready", "True").await;
    }
    let shop = (data(&project, "shop").await, revision(&project, "shop").await);
    change(&project, "web-generated", json!({"stringData": {"password": "by-hand"}})).await;
    until("the value is used", async || data(&project, "web").await.filter(|now| now["password"] == "by-hand")).await;
    assert_eq!((data(&project, "shop").await, revision(&project, "shop").await), shop);
    // What was taken off comes back, and the values stay.
    change(&project, "web-generated", json!({"metadata": {"ownerReferences": null}})).await;
    until("it is owned again", async || {
        let secret = project.get("v1", "Secret", "web-generated").await?;
        (!secret.owner_references().is_empty()).then_some(())
    })
    .await;
    assert_eq!(generated(&project, "web").await.unwrap()["password"], "by-hand");
    // What is no text is refused, and the release stays as it is.
    change(&project, "web-generated", json!({"data": {"password": "//79"}})).await;
    let told = project.not_ready("web", "InvalidValues").await;
    assert!(told["message"].as_str().unwrap().contains("\"password\" of the Secret"), "{told}");
    assert_eq!(data(&project, "web").await.unwrap()["password"], "by-hand");
}

#[tokio::test]
async fn a_generated_value_wins_over_the_spec_and_an_override_over_both() {
    let project = project(&format!("{TWO}\noverrideValues: {{auth.root: forced}}")).await;
    let _operator = project.run();
    project.apply("web", json!({"auth": {"password": "of the spec", "root": "of the spec"}})).await;
    project.condition("web", "Ready", "True").await;
    let now = data(&project, "web").await.unwrap();
    assert_eq!(now, json!({"password": generated(&project, "web").await.unwrap()["password"], "root": "forced"}));
    let told = told_of(&project, "web", "GeneratedValuesInUse").await;
    assert!(told.contains("watches.yaml generates auth.password"), "{told}");
    project.apply("web", json!({"auth": "text"})).await;
    let told = project.not_ready("web", "InvalidValues").await;
    assert!(told["message"].as_str().unwrap().contains("the generated value for `auth.password`"), "{told}");
}

#[tokio::test]
async fn a_release_of_helm_keeps_its_password_when_it_is_adopted() {
    let project = project("").await;
    project.helm("helm4", &["install", "web", "charts/app", "--set", "auth.password=of-helm"]);
    project.watch_with(&format!("adopt: releases\n{TWO}"));
    let _operator = project.run();
    project.apply("web", json!({"colour": "blue", "auth": {"password": "of-helm"}})).await;
    coloured(&project, "web", "blue").await;
    assert_eq!(data(&project, "web").await.unwrap()["password"], "of-helm");
    assert_eq!(generated(&project, "web").await.unwrap()["password"], "of-helm");
    // From now on nobody has to say it.
    edited(&project, "web", "green").await;
    assert_eq!(data(&project, "web").await.unwrap()["password"], "of-helm");
}

#[tokio::test]
async fn a_release_that_was_given_a_password_keeps_it_when_the_watch_begins_to_generate_it() {
    let project = project("").await;
    let operator = project.run();
    project.apply("web", json!({"colour": "blue", "auth": {"password": "of-the-spec"}})).await;
    project.condition("web", "Ready", "True").await;
    drop(operator);
    project.watch_with("generate: [{name: password, text: {}, targetPath: auth.password}]");
    let _operator = project.run();
    let told = told_of(&project, "web", "ValuesRestored").await;
    assert!(told.contains("from the record of revision 1"), "{told}");
    edited(&project, "web", "green").await;
    assert_eq!(data(&project, "web").await.unwrap()["password"], "of-the-spec");
    assert_eq!(revision(&project, "web").await, 2, "nothing changed before the edit");
}

/// Whether the same Secret is still there.
async fn stays_there(project: &Project, before: &DynamicObject) {
    let uid = before.uid();
    stays(std::time::Duration::from_secs(2), "it is there", async || {
        project.get("v1", "Secret", &before.name_any()).await.filter(|now| now.uid() == uid).is_some()
    })
    .await;
}
