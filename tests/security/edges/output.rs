//! What others wrote cannot speak to the terminal of whoever reads it, also where the output goes through a pipe first.

use chartwright::printable::is_printable;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::harness::command_line::{Said, said};
use crate::harness::{Project, chartwright, config, tool, until};

/// Clears the screen, sets a title, and makes text read backwards: in ASCII, in Latin-1, by marks of Unicode, and by our own colours.
const EVIL: &str = "a\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}\u{2066}\u{7f}\rb\u{1b}[31mc";

/// The same without what the API server refuses in an apply, whose body it reads as YAML.
const IN_OBJECT: &str = "a\u{1b}[2J\u{1b}]0;owned\u{7}\u{202e}\u{2066}\rb\u{1b}[31mc";

/// By a create, which takes any JSON.
async fn create(project: &Project, name: &str, spec: Value) {
    let resource = &project.resource;
    let metadata = json!({"name": name, "namespace": project.namespace});
    let cr = json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec});
    let cr = serde_json::from_value(cr).unwrap();
    project.crs().create(&PostParams::default(), &cr).await.unwrap();
}

/// A release whose values and objects quote it, and one that fails with it.
async fn project() -> (Project, crate::harness::Operator) {
    let project = Project::of_objects().await;
    project.template("fail.yaml", "{{ if .Values.fail }}{{ fail .Values.fail }}{{ end }}");
    let operator = project.run();
    let quoting = json!({"objects": [config("web", IN_OBJECT)], "quoted": EVIL, "lines": "one\r\ntwo\n"});
    create(&project, "web", quoting).await;
    project.deployed("web").await;
    create(&project, "bad", json!({"objects": [], "fail": EVIL})).await;
    project.condition("bad", "ReleaseFailed", "True").await;
    (project, operator)
}

fn assert_printable(arguments: &[&str], said: &Said) {
    assert!(is_printable(&said.out), "{arguments:?}: {:?}", said.out);
    assert!(is_printable(&said.err), "{arguments:?}: {:?}", said.err);
}

#[tokio::test]
async fn no_command_writes_control_characters_into_a_pipe() {
    let (project, operator) = project().await;
    let (web, bad) = (project.named("web"), project.named("bad"));
    for arguments in [
        &["status"][..],
        &["status", &bad],
        &["status", &bad, "-o", "json"],
        &["status", &bad, "-o", "yaml"],
        &["status", "-o", "wide"],
        &["status", &web],
        &["history", &web],
        &["get", "values", &web],
        &["get", "values", &web, "-o", "json"],
        &["get", "manifest", &web],
        &["get", "manifest", &web, "-o", "json"],
        &["get", "manifest", &web, "--show-secrets"],
        &["render", &web],
        &["render", &web, "-o", "json"],
        &["diff", &web],
        &["diff", &bad],
        &["diff", &bad, "-o", "yaml"],
    ] {
        assert_printable(arguments, &project.cli(arguments));
    }
    for arguments in [&["status", "--color", "always"][..], &["status", &bad, "--color", "always"]] {
        let said = project.cli(arguments);
        let plain = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[32m", "\u{1b}[33m", "\u{1b}[31m"];
        let out = plain.iter().fold(said.out, |out, colour| out.replace(colour, ""));
        assert!(is_printable(&out), "{arguments:?}: {out:?}");
    }
    // Only the colour of the resource itself, and not that of its message.
    let red = project.cli(&["status", &bad, "--color", "always"]).out.matches("\u{1b}[31m").count();
    let calm = project.cli(&["status", &web, "--color", "always"]).out.matches("\u{1b}[31mc").count();
    assert!(red <= 1 && calm == 0, "{red} {calm}");
    // It would put right what is forged now.
    drop(operator);
    what_others_forge_is_printable(&project).await;
    the_chart_is_printable(&project);
}

/// In a record, and then in the status.
async fn what_others_forge_is_printable(project: &Project) {
    let (web, bad) = (project.named("web"), project.named("bad"));
    project
        .forge("web", 1, |release| {
            release.description = EVIL.to_owned();
            release.chart["version"] = EVIL.into();
        })
        .await;
    let history = project.cli(&["history", &web, "-o", "json"]);
    assert_eq!(history.json()[0]["description"], EVIL);
    let nobody = format!("{bad}{IN_OBJECT}");
    for arguments in [
        &["history", &web][..],
        &["history", &web, "-o", "json"],
        &["status", &web],
        &["rollback", &web],
        &["rollback", &web, "1", "--no-wait"],
        &["rollback", &bad, "1", "--no-wait"],
        &["rollback", &nobody],
        &["adopt", &web],
        &["adopt", &bad],
        &["adopt", &bad, "-o", "json"],
    ] {
        assert_printable(arguments, &project.cli(arguments));
    }
    let files = project.support_bundle();
    for (path, text) in &files {
        assert!(is_printable(text), "{path}: {text:?}");
    }
    let of = |name: &str, file: &str| {
        let path = format!("resources/{}/App.{}/{name}/{file}", project.namespace, project.resource.group);
        chartwright::yaml::parse(&files[&path]).unwrap_or_else(|error| panic!("{error}: {}", files[&path]))
    };
    assert_eq!(of("web", "resource.yaml")["spec"]["quoted"], EVIL, "data stays the same");
    assert_eq!(of("web", "history.yaml")[0]["description"], EVIL);
    assert!(of("bad", "resource.yaml")["status"].to_string().contains("owned"));

    let condition = json!({"type": "Ready", "status": "False", "reason": "RecordUnproven", "message": EVIL,
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = Patch::Merge(json!({"status": {"conditions": [condition], "deployedRelease": {"name": EVIL}}}));
    project.crs().patch_status("web", &PatchParams::default(), &status).await.unwrap();
    for arguments in [&["trust", "status"][..], &["rollback", &web], &["adopt", &web], &["status", &web]] {
        assert_printable(arguments, &project.cli(arguments));
    }
    let status = project.cli(&["trust", "status", "-o", "json"]);
    assert_printable(&["trust", "status", "-o", "json"], &status);
    assert_eq!(status.json()["waiting"][0]["release"], EVIL, "it is JSON, and means the same");
}

fn the_chart_is_printable(project: &Project) {
    project.template("fail.yaml", "{{ fail (printf \"%c[2J%c\" 27 0x202e) }}");
    for arguments in [&["validate"][..], &["validate", "-o", "json"]] {
        let mut command = chartwright();
        command.args(arguments).current_dir(project.dir()).env("CHARTWRIGHT_HELM", tool("helm4"));
        let said = said(command);
        assert!(said.out.contains("[2J"), "{said:?}");
        assert_printable(arguments, &said);
    }
}

#[tokio::test]
async fn data_for_scripts_stays_the_same() {
    let (project, _operator) = project().await;
    let web = project.named("web");
    let values = project.cli(&["get", "values", &web, "-o", "json"]).json();
    assert_eq!((&values["quoted"], &values["lines"]), (&json!(EVIL), &json!("one\r\ntwo\n")));
    let yaml = project.cli(&["get", "values", &web]).good();
    assert_eq!(chartwright::yaml::parse(&yaml).unwrap(), values);
    let manifest = project.cli(&["get", "manifest", &web]).good();
    let objects: Vec<Value> = chartwright::yaml::documents(&manifest).unwrap();
    assert_eq!(objects[0]["data"]["colour"], json!(IN_OBJECT), "{manifest}");
}

#[tokio::test]
async fn neither_events_nor_the_log_hold_control_characters() {
    let (project, operator) = project().await;
    let notes = until("an event tells of the failure", async || {
        let events = project.events("bad", "RenderFailed").await;
        (!events.is_empty()).then_some(events)
    })
    .await;
    for (_, note) in notes {
        assert!(note.contains("owned") && is_printable(&note), "{note:?}");
    }
    assert!(operator.log().contains("owned") && is_printable(&operator.log()), "{:?}", operator.log());
}
