//! Values may come from ConfigMaps and Secrets beside the custom resource: below the spec, watched, and shown to nobody.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::{Operator, Project, until, until_calm};

const ANNOTATION: &str = "chartwright.dev/values-from";
const TALKATIVE: &str = "debug";

/// A chart that prints all of its values.
async fn project() -> Project {
    let project = Project::new("App").await;
    project.file(
        "charts/app/values.yaml",
        "colour: default\nsize: default\nshape: default\ngone: default\nlist: [default]\n",
    );
    project.template(
        "all.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\ndata: {all: {{ toJson .Values | quote }}}\n",
    );
    project
}

async fn put(project: &Project, kind: &str, name: &str, data: Value) {
    let field = if kind == "Secret" { "stringData" } else { "data" };
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    object[field] = data;
    let api = project.objects("v1", kind, Some(&project.namespace));
    api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(object)).await.unwrap();
}

async fn remove(project: &Project, kind: &str, name: &str) {
    let api = project.objects("v1", kind, Some(&project.namespace));
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

/// What the chart was given, once that is so.
async fn rendered(project: &Project, name: &str, pointer: &str, expected: Value) -> Value {
    until(&format!("{pointer} of {name} is {expected}"), async || {
        let config = project.get("v1", "ConfigMap", name).await?;
        let all: Value = serde_json::from_str(config.data["data"]["all"].as_str()?).ok()?;
        (all.pointer(pointer) == Some(&expected)).then_some(all)
    })
    .await
}

async fn revision(project: &Project, name: &str) -> Value {
    project.status(name).await["deployedRelease"]["revision"].clone()
}

#[tokio::test]
async fn values_are_merged_below_the_spec_and_above_the_charts_defaults() {
    let project = project().await;
    project.watch_with(
        "valuesFrom:\n- {kind: ConfigMap, name: common}\n- {kind: Secret, name: '{{ .metadata.name }}-own', valuesKey: prod.yaml}\n\
         - {kind: Secret, name: '{{ .metadata.name }}-own', valuesKey: token, targetPath: 'auth.tokens[0]'}\n\
         - {kind: Secret, name: absent, optional: true}\noverrideValues: {over: watch}",
    );
    put(&project, "ConfigMap", "common", json!({"values.yaml": "colour: common\nsize: common\nshape: common\nlist: [a, b]\nmap: {a: common, b: common}\ngone: null\nover: common\nbig: 12345678901\nmode: 0644\n"})).await;
    put(
        &project,
        "Secret",
        "web-own",
        json!({"prod.yaml": "size: own\nshape: own\nlist: [c]\nmap: {b: own}\n", "token": "007"}),
    )
    .await;
    put(&project, "Secret", "more", json!({"values.yaml": "shape: more\nmap: {c: more}\n"})).await;
    let _operator = project.run();
    project.apply("web", json!({"map": {"d": "spec"}, "shape": "spec"})).await;
    project.annotate("web", ANNOTATION, "secret/more, configmap/nowhere?").await;
    project.condition("web", "Deployed", "True").await;
    let all = rendered(&project, "web", "/map/c", json!("more")).await;
    let expected = json!({
        "auth": {"tokens": ["007"]}, "colour": "common", "size": "own", "shape": "spec", "list": ["c"],
        "map": {"a": "common", "b": "own", "c": "more", "d": "spec"},
        "over": "watch", "big": 12345678901_u64, "mode": 420,
    });
    assert_eq!(all, expected);
    // Without the annotation its values go again.
    let off = json!({"metadata": {"annotations": {ANNOTATION: null}}});
    project.crs().patch("web", &PatchParams::default(), &Patch::Merge(off)).await.unwrap();
    rendered(&project, "web", "/map", json!({"a": "common", "b": "own", "d": "spec"})).await;
}

#[tokio::test]
async fn a_changed_secret_upgrades_those_who_refer_to_it_and_nobody_else() {
    let project = project().await;
    project.watch_with("valuesFrom: [{kind: Secret, name: '{{ .metadata.name }}'}]");
    let start = Timestamp::now();
    let _operator = project.run();
    for name in ["one", "two"] {
        put(&project, "Secret", name, json!({"values.yaml": "colour: blue"})).await;
        project.apply(name, json!({})).await;
        rendered(&project, name, "/colour", json!("blue")).await;
        project.condition(name, "Ready", "True").await;
    }
    until_calm(Duration::from_secs(1), "it is calm", async || project.calls_since(start).len()).await;
    let before = revision(&project, "two").await;
    let since = Timestamp::now();
    put(&project, "Secret", "one", json!({"values.yaml": "colour: green"})).await;
    rendered(&project, "one", "/colour", json!("green")).await;
    until("the upgrade is told", async || (!project.events("one", "Upgraded").await.is_empty()).then_some(())).await;
    // Made again, it is another object.
    remove(&project, "Secret", "one").await;
    put(&project, "Secret", "one", json!({"values.yaml": "colour: red"})).await;
    rendered(&project, "one", "/colour", json!("red")).await;
    let calls = project.calls_since(since);
    let of_two: Vec<_> = calls.iter().filter(|call| call.contains("two")).collect();
    assert!(of_two.is_empty(), "{of_two:#?}");
    assert_eq!(revision(&project, "two").await, before);
}

#[tokio::test]
async fn what_is_missing_is_told_and_deployed_when_it_comes() {
    let project = project().await;
    project.watch_with("valuesFrom: [{kind: Secret, name: '{{ .metadata.name }}'}]");
    let _operator = project.run();
    project.apply("web", json!({})).await;
    let told = project.not_ready("web", "ValuesMissing").await;
    let message = told["message"].as_str().unwrap();
    assert!(message.contains(&format!("Secret web in the namespace {}", project.namespace)), "{message}");
    put(&project, "Secret", "web", json!({"other": "colour: blue"})).await;
    let has_no_key = |status: &Value| {
        let conditions = status["conditions"].as_array()?.iter();
        let mut messages = conditions.filter_map(|condition| condition["message"].as_str());
        messages.any(|message| message.contains("has no key \"values.yaml\"")).then_some(())
    };
    project.told("web", "the key is missing", has_no_key).await;
    put(&project, "Secret", "web", json!({"values.yaml": "- blue"})).await;
    project.not_ready("web", "InvalidValues").await;
    put(&project, "Secret", "web", json!({"values.yaml": "colour: blue"})).await;
    rendered(&project, "web", "/colour", json!("blue")).await;
    project.condition("web", "Ready", "True").await;

    // What is deployed stays, and is looked after, when its values go.
    remove(&project, "Secret", "web").await;
    project.not_ready("web", "ValuesMissing").await;
    assert_eq!(project.condition("web", "Deployed", "True").await["status"], "True");
    let uid = project.get("v1", "ConfigMap", "web").await.unwrap().uid();
    remove(&project, "ConfigMap", "web").await;
    until("it is made again", async || {
        project.get("v1", "ConfigMap", "web").await.filter(|config| config.uid() != uid)
    })
    .await;
    rendered(&project, "web", "/colour", json!("blue")).await;
    put(&project, "Secret", "web", json!({"values.yaml": "colour: green"})).await;
    rendered(&project, "web", "/colour", json!("green")).await;
    project.condition("web", "Ready", "True").await;
}

#[tokio::test]
async fn an_annotation_that_cannot_be_read_or_is_not_allowed_changes_nothing() {
    let project = project().await;
    put(&project, "Secret", "db", json!({"values.yaml": "colour: blue"})).await;
    let token = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token", "namespace": project.namespace},
        "type": "bootstrap.kubernetes.io/token", "stringData": {"values.yaml": "colour: stolen"}});
    project.create(token).await;
    let operator = project.run();
    project.apply("web", json!({})).await;
    project.annotate("web", ANNOTATION, "secret/db").await;
    rendered(&project, "web", "/colour", json!("blue")).await;
    for wrong in ["db", "secret/db,", "secret/kube-system/db"] {
        project.annotate("web", ANNOTATION, wrong).await;
        let told = project.not_ready("web", "InvalidAnnotation").await;
        assert!(told["message"].as_str().unwrap().contains("write a list such as"), "{told}");
        rendered(&project, "web", "/colour", json!("blue")).await;
        project.annotate("web", ANNOTATION, "secret/db").await;
        project.condition("web", "Ready", "True").await;
    }
    project.annotate("web", ANNOTATION, "secret/token").await;
    let told = project.not_ready("web", "InvalidValues").await;
    assert!(told["message"].as_str().unwrap().contains("never holds values"), "{told}");
    drop(operator);
    project.watch_with("valuesFromAnnotation: false");
    let _operator = project.run();
    project.annotate("web", ANNOTATION, "secret/db").await;
    let told = project.not_ready("web", "InvalidAnnotation").await;
    assert!(told["message"].as_str().unwrap().contains("is not allowed for this kind"), "{told}");
    rendered(&project, "web", "/colour", json!("blue")).await;
}

/// How often an operator has looked at a custom resource.
fn looks(operator: &Operator, name: &str) -> usize {
    let name = format!("\"name\":\"{name}\"");
    operator.log().lines().filter(|line| line.contains("looked at") && line.contains(&name)).count()
}

/// What an operator asked for in its namespace, without watches.
fn calls(project: &Project, since: Timestamp) -> Vec<String> {
    let all = project.calls_since(since).into_iter();
    all.filter(|call| !call.starts_with("watch ") && call.contains(&project.namespace)).collect()
}

#[tokio::test]
async fn at_rest_nothing_is_read_and_after_a_restart_each_source_once() {
    let project = project().await;
    project.watch_with("reconcilePeriod: 1s\nvaluesFrom: [{kind: ConfigMap, name: common}]");
    put(&project, "ConfigMap", "common", json!({"values.yaml": "colour: blue"})).await;
    put(&project, "Secret", "own", json!({"values.yaml": "size: small"})).await;
    let start = || project.launch().env("RUST_LOG", TALKATIVE).start();
    let operator = start();
    project.apply("web", json!({})).await;
    project.annotate("web", ANNOTATION, "secret/own").await;
    rendered(&project, "web", "/size", json!("small")).await;
    project.condition("web", "Ready", "True").await;
    let more_looks = async |operator: &Operator, count: usize| {
        let wanted = looks(operator, "web") + count;
        until(&format!("{count} looks"), async || (looks(operator, "web") >= wanted).then_some(())).await;
    };
    more_looks(&operator, 2).await;
    let since = Timestamp::now();
    more_looks(&operator, 5).await;
    assert_eq!(calls(&project, since), [""; 0]);
    drop(operator);

    let since = Timestamp::now();
    let operator = start();
    more_looks(&operator, 5).await;
    // Its own key and ledger are read once too.
    let calls: Vec<_> = calls(&project, since).into_iter().filter(|call| !call.contains("chartwright")).collect();
    assert_eq!(calls.len(), 2, "{calls:#?}");
    assert!(calls.iter().all(|call| call.starts_with("get ")), "{calls:#?}");
}

/// In everything that a person without rights on Secrets may see.
const SECRET: &str = "xyzzy-hunter2-Grün \"quoted\"";
const BEFORE: &str = "plugh-hunter1-Blau";

async fn assert_hidden(project: &Project, operator: &Operator, names: &[&str], commands: &[&[&str]]) {
    let mut seen = vec![("the log".to_owned(), operator.log())];
    for name in names {
        seen.push((format!("the status of {name}"), project.status(name).await.to_string()));
    }
    let events = project.objects("events.k8s.io/v1", "Event", Some(&project.namespace));
    let events = events.list(&ListParams::default()).await.unwrap();
    seen.push(("an event".to_owned(), serde_json::to_string(&events).unwrap()));
    for command in commands {
        let said = project.cli(command);
        seen.push((format!("{command:?}"), format!("{}{}", said.out, said.err)));
    }
    for (what, text) in &seen {
        assert!(!text.trim().is_empty(), "{what} says nothing");
        for hidden in ["hunter", "xyzzy", "plugh", "eHl6enktaHVud", "cGx1Z2gtaHVud"] {
            let at = text.find(hidden);
            let around = at.map(|at| {
                text.chars().skip(text[..at].chars().count().saturating_sub(80)).take(200).collect::<String>()
            });
            assert_eq!(around, None, "{what} shows a value");
        }
    }
}

#[tokio::test]
async fn a_value_is_in_no_status_event_log_or_diff() {
    let project = Project::new("App").await;
    project.template(
        "all.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: '{{ .Release.Name }}'}\nstringData: {password: {{ .Values.password | quote }}}\n\
         ---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\n\
         data: {url: {{ printf \"postgres://u:%s@db\" .Values.password | quote }}, encoded: {{ .Values.password | b64enc }}}\n\
         {{ if eq .Values.mode \"refused\" }}---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {type: {{ .Values.password | quote }}}\n{{ end }}\
         {{ if eq .Values.mode \"broken\" }}{{ fail .Values.password }}{{ end }}",
    );
    project.template("NOTES.txt", "Log in with {{ .Values.password }} or {{ .Values.password | quote }}\n");
    project.watch_with("valuesFrom: [{kind: Secret, name: db, valuesKey: password, targetPath: password}]");
    put(&project, "Secret", "db", json!({"password": BEFORE})).await;
    let operator = project.launch().env("RUST_LOG", TALKATIVE).start();
    project.apply("web", json!({"mode": "good"})).await;
    project.condition("web", "Ready", "True").await;
    let notes = project.condition("web", "Deployed", "True").await["message"].clone();
    assert_eq!(notes, "Log in with *** or \"***\"\n");
    let web = project.named("web");
    let looking: [&[&str]; 2] = [&["get", "values", &web], &["get", "manifest", &web]];
    assert_hidden(&project, &operator, &["web"], &looking).await;
    assert!(project.cli(&["get", "values", &web, "--show-secrets"]).good().contains("hunter"));
    assert!(project.cli(&["get", "manifest", &web, "--show-secrets"]).good().contains("hunter"));

    // One is refused, one cannot be rendered, one stays at the old value.
    for (name, mode, reason) in [("bad", "refused", "InvalidObject"), ("worse", "broken", "RenderFailed")] {
        project.apply(name, json!({"mode": mode})).await;
        project.not_ready(name, reason).await;
    }
    project.apply("web", json!({"mode": "refused"})).await;
    project.not_ready("web", "InvalidObject").await;
    put(&project, "Secret", "db", json!({"password": SECRET})).await;
    until_calm(Duration::from_secs(2), "it is calm", async || operator.log().len()).await;
    let (bad, worse) = (project.named("bad"), project.named("worse"));
    let failing: [&[&str]; 6] = [
        &["diff", &web],
        &["diff", &bad],
        &["diff", &worse],
        &["history", &web],
        &["get", "values", &web],
        &["get", "manifest", &web],
    ];
    let names = ["web", "bad", "worse"];
    assert_hidden(&project, &operator, &names, &failing).await;
    drop(operator);

    // A new operator knows only the new value, and the old one is deployed.
    project.apply("web", json!({"mode": "good"})).await;
    let diff = project.cli(&["diff", &web]);
    assert!(diff.out.contains("encoded: '***='") || diff.out.contains("(changed)"), "{}", diff.out);
    let operator = project.launch().env("RUST_LOG", TALKATIVE).start();
    rendered_url(&project).await;
    project.condition("web", "Ready", "True").await;
    assert_hidden(&project, &operator, &names, &[&["diff", &bad], &["history", &web], &["get", "manifest", &web]])
        .await;
}

async fn rendered_url(project: &Project) {
    until("the new value is deployed", async || {
        let config = project.get("v1", "ConfigMap", "web").await?;
        config.data["data"]["url"].as_str()?.contains("xyzzy").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_revision_of_old_values_stays_hidden_after_a_rollback_and_a_restart() {
    let project = Project::new("App").await;
    project.template(
        "config.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\ndata: {url: {{ .Values.password | quote }}}\n",
    );
    project.template("NOTES.txt", "Log in with {{ .Values.password }}\n");
    project.watch_with("valuesFrom: [{kind: Secret, name: db}]");
    put(&project, "Secret", "db", json!({"values.yaml": format!("password: {BEFORE}\n")})).await;
    let operator = project.launch().env("RUST_LOG", TALKATIVE).start();
    project.apply("web", json!({})).await;
    project.condition("web", "Ready", "True").await;
    let first = revision(&project, "web").await;
    put(&project, "Secret", "db", json!({"values.yaml": format!("password: {}\n", json!(SECRET))})).await;
    rendered_url(&project).await;
    project.condition("web", "Ready", "True").await;
    project.helm("helm4", &["rollback", "web", &first.to_string()]);
    project.condition("web", "Held", "True").await;
    let config = project.get("v1", "ConfigMap", "web").await.unwrap();
    assert_eq!(config.data["data"]["url"], BEFORE);
    let web = project.named("web");
    let commands: [&[&str]; 4] =
        [&["diff", &web, "-o", "json"], &["history", &web], &["get", "values", &web], &["get", "manifest", &web]];
    assert_hidden(&project, &operator, &["web"], &commands).await;
    drop(operator);
    // Only the record knows the old value now.
    remove(&project, "Secret", "db").await;
    let operator = project.launch().env("RUST_LOG", TALKATIVE).start();
    project.not_ready("web", "ValuesMissing").await;
    assert_hidden(&project, &operator, &["web"], &commands[1..]).await;
}

#[tokio::test]
async fn a_cluster_scoped_resource_refers_to_the_namespace_of_its_release_and_only_if_that_is_allowed() {
    let project = Project::cluster_scoped("App", "tests/charts/lists").await;
    project.watch_with("valuesFrom: [{kind: Secret, name: own, optional: true}]");
    let operator = project.run();
    let name = format!("web-{}", project.namespace);
    project.apply(&name, json!({})).await;
    project.annotate(&name, ANNOTATION, "secret/own").await;
    let told = project.not_ready(&name, "InvalidAnnotation").await;
    assert!(told["message"].as_str().unwrap().contains("valuesFromAnnotation: true"), "{told}");
    drop(operator);
    project.watch_with("valuesFromAnnotation: true");
    let _operator = project.run();
    project.annotate(&name, ANNOTATION, "secret/absent").await;
    let told = project.not_ready(&name, "ValuesMissing").await;
    assert!(told["message"].as_str().unwrap().contains(&format!("namespace {}", project.namespace)), "{told}");
}

#[tokio::test]
async fn what_a_release_makes_itself_is_no_source_of_its_values() {
    let project = project().await;
    project.template(
        "own.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: own}\nstringData: {values.yaml: 'colour: {{ randAlphaNum 8 }}'}\n",
    );
    let _operator = project.run();
    project.apply("web", json!({})).await;
    project.condition("web", "Ready", "True").await;
    let before = revision(&project, "web").await;
    project.annotate("web", ANNOTATION, "secret/own").await;
    let told = project.not_ready("web", "InvalidValues").await;
    assert!(told["message"].as_str().unwrap().contains("belongs to this release itself"), "{told}");
    let diff = project.cli(&["diff", &project.named("web")]);
    assert!(diff.err.contains("belongs to this release itself"), "{}{}", diff.out, diff.err);
    assert_eq!(revision(&project, "web").await, before);
    project.annotate("web", ANNOTATION, "").await;
    project.condition("web", "Ready", "True").await;
}
