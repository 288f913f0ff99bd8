//! Definitions that come of charts are accepted by the API server, and so is every custom resource that helm accepts as values.
//!
//! Each chart here has values that helm 3 and helm 4 both take, values that both refuse and the API server too, and values that only helm
//! can refuse. helm is asked every time: what this file says about it is checked.

mod cases;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cases::{CASES, Case};
use chartwright::scaffold::api::Api as Kind;
use chartwright::scaffold::crd::{Options, definition};
use chartwright::scaffold::sample;
use chartwright::scaffold::values::ChartValues;
use chartwright::yaml;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::harness::{chartwright, client, control_plane, tool, until};

const GROUP: &str = "typed.test.chartwright.dev";

fn kind(name: &str) -> Kind {
    Kind::new(GROUP, "v1", name, true).unwrap()
}

fn write(dir: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let file = dir.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
}

/// A chart that renders its values, so that nothing but the values can fail.
fn chart_of(case: &Case, dir: &Path) -> PathBuf {
    let chart = dir.join(case.kind.to_lowercase());
    let name = format!("apiVersion: v2\nname: {}\nversion: 0.1.0\n", case.kind.to_lowercase());
    write(&chart, &[("Chart.yaml", &name), ("templates/values.yaml", "values: {{ toJson .Values | quote }}\n")]);
    write(&chart, case.files);
    chart
}

/// What helm says to these values: nothing, where it takes them.
fn complaint(helm: &str, chart: &Path, values: &Path) -> Option<String> {
    let mut command = Command::new(tool(helm));
    command.args(["template", "release"]).arg(chart).arg("-f").arg(values);
    let output = command.env_clear().env("HOME", chart).stdin(Stdio::null()).output().unwrap();
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// helm 3 and helm 4 agree about these.
fn helms_take(chart: &Path, spec: &str) -> bool {
    let values = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(values.path(), spec).unwrap();
    let said = std::thread::scope(|threads| {
        let path = values.path();
        let other = threads.spawn(move || complaint("helm3", chart, path));
        [complaint("helm4", chart, path), other.join().unwrap()]
    });
    assert_eq!(said[0].is_none(), said[1].is_none(), "{spec}: {said:?}");
    said[0].is_none()
}

async fn install(client: &Client, text: &str) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crd: CustomResourceDefinition = serde_json::from_value(yaml::parse(text).unwrap()).unwrap();
    if let Err(error) = crds.create(&PostParams::default(), &crd).await {
        panic!("{error}: {text}");
    }
}

async fn established(client: &Client, name: &str) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let conditions = until("the definition is established", async || {
        let conditions = crds.get(name).await.unwrap().status?.conditions?;
        let is = |kind: &str| conditions.iter().any(|it| it.type_ == kind && it.status == "True");
        (is("Established") && is("NamesAccepted")).then_some(conditions)
    })
    .await;
    assert!(conditions.iter().all(|it| it.type_ != "NonStructuralSchema"), "{conditions:?}");
}

/// What the API server says to a custom resource, as kubectl would ask it.
async fn refusal(client: &Client, kind: &Kind, spec: &Value) -> Option<String> {
    let cr = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": "some"}, "spec": spec});
    tried(client, kind, &cr).await
}

async fn tried(client: &Client, kind: &Kind, cr: &Value) -> Option<String> {
    let path = format!("/apis/{}/namespaces/default/{}", kind.api_version(), kind.plural);
    let request = http::Request::post(format!("{path}?dryRun=All&fieldValidation=Strict"))
        .header("Content-Type", "application/json")
        .body(cr.to_string().into_bytes())
        .unwrap();
    match client.request::<Value>(request).await {
        Ok(_) => None,
        Err(kube::Error::Api(status)) if status.code != 404 => Some(status.message.clone()),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn what_helm_accepts_is_accepted_and_what_a_schema_refuses_is_refused() {
    let client = client().await;
    let dir = tempfile::tempdir().unwrap();
    for case in CASES {
        let chart = ChartValues::read(&chart_of(case, dir.path())).unwrap();
        let options = Options { strict_types: case.is_strict, ..Options::default() };
        install(&client, &definition(&kind(case.kind), &chart, &options).unwrap().text).await;
    }
    let mut wrong = vec![];
    for case in CASES {
        let (kind, chart) = (kind(case.kind), dir.path().join(case.kind.to_lowercase()));
        established(&client, &kind.definition()).await;
        let values = ChartValues::read(&chart).unwrap();
        let whole = yaml::parse(&sample::full(&kind, "whole", &values)).unwrap();
        let ask = async |spec: &str| refusal(&client, &kind, &yaml::parse(spec).unwrap()).await;
        // The first question may come before the API server serves the kind.
        until("the kind is served", async || {
            let api = format!("/apis/{}", kind.api_version());
            let list: Value = client.request(http::Request::get(api).body(vec![]).unwrap()).await.ok()?;
            list["resources"].as_array()?.iter().any(|it| it["kind"] == kind.kind.as_str()).then_some(())
        })
        .await;
        if case.takes_its_defaults {
            wrong.extend(
                tried(&client, &kind, &whole).await.map(|said| format!("{}: its own values: {said}", case.kind)),
            );
        }
        for (specs, is_taken_by_helm, is_taken_by_us) in
            [(case.accepted, true, true), (case.refused, case.is_strict, false), (case.open, false, true)]
        {
            for spec in specs {
                let said = ask(spec).await;
                if helms_take(&chart, spec) != is_taken_by_helm {
                    wrong.push(format!("{}: helm takes {spec}: {}", case.kind, !is_taken_by_helm));
                }
                if said.is_none() != is_taken_by_us {
                    wrong.push(format!("{}: the API server takes {spec}: {said:?}", case.kind));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What a person sees.
#[tokio::test]
async fn a_person_finds_the_values_with_kubectl_explain() {
    let client = client().await;
    let chart = ChartValues::read(&lab::checkout().join("helm-charts/nginx")).unwrap();
    let kind = kind("Explained");
    let text = definition(&kind, &chart, &Options::default()).unwrap().text;
    install(&client, &text).await;
    let bare = self::kind("Untold");
    let values =
        ChartValues::from_text("untold", "# How it is reached.\nservice:\n  # Where.\n  port: 80\n", None).unwrap();
    install(&client, &definition(&bare, &values, &Options::default()).unwrap().text).await;
    for (path, words) in [
        (
            "explaineds.spec.service",
            ["The Service in front of the pods.", "port\t<integer>", "Default: 80.", "One of ClusterIP"],
        ),
        (
            "explaineds.spec",
            ["replicaCount\t<integer>", "Number of pods.", "service\t<Object>", "The values of the chart nginx."],
        ),
        (
            "untolds.spec.service",
            ["How it is reached.", "port\t<", "Where. Type: integer, not enforced.", "Default: 80."],
        ),
    ] {
        let shown = until("kubectl explains it", async || {
            let mut command = Command::new(tool("kubectl"));
            command.args(["explain", path, "--api-version", &kind.api_version()]);
            let output = command.env("KUBECONFIG", control_plane().kubeconfig()).output().unwrap();
            output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
        })
        .await;
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        for word in words {
            let word = word.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(shown.contains(&word), "{path}: {word} is not in {shown}");
        }
    }
}

/// All charts of this repository: the sample, those of other tests, those of the proof.
#[tokio::test]
async fn the_definition_of_every_chart_here_is_accepted() {
    let crds: Api<CustomResourceDefinition> = Api::all(client().await);
    let mut charts = vec![];
    for parent in ["helm-charts", "tests/charts", "fidelity/cases"] {
        for entry in std::fs::read_dir(lab::checkout().join(parent)).unwrap() {
            let path = entry.unwrap().path();
            charts
                .extend([path.clone(), path.join("chart")].into_iter().filter(|dir| dir.join("Chart.yaml").is_file()));
        }
    }
    assert!(charts.len() > 20, "{charts:?}");
    let params = PostParams { dry_run: true, ..PostParams::default() };
    for chart in charts {
        let values = ChartValues::read(&chart).unwrap_or_else(|error| panic!("{error}"));
        for strict_types in [false, true] {
            let options = Options { strict_types, ..Options::default() };
            let text = definition(&kind("Tried"), &values, &options).unwrap().text;
            let crd: CustomResourceDefinition = serde_json::from_value(yaml::parse(&text).unwrap()).unwrap();
            if let Err(error) = crds.create(&params, &crd).await {
                panic!("{}: {error}", chart.display());
            }
        }
    }
}

#[test]
fn the_command_prints_the_definition_and_tells_what_is_wrong_in_one_line() {
    let run = |chart: &str, kind: &str| {
        let mut command = chartwright();
        command.args(["generate", "crd", "--chart", chart, "--group", "demo.chartwright.dev", "--version", "v1alpha1"]);
        let output = command.args(["--kind", kind]).current_dir(lab::checkout()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    let (code, printed, said) = run("helm-charts/nginx", "Nginx");
    let kept = lab::checkout().join("config/crd/bases/demo.chartwright.dev_nginxes.yaml");
    assert_eq!((code, printed), (0, std::fs::read_to_string(kept).unwrap()));
    assert!(said.starts_with("note: spec.replicaCount backs the scale subresource"), "{said}");
    for (chart, kind, code, words) in [
        ("helm-charts/nginx", "nginx", 2, "is no kind"),
        ("helm-charts/none", "Nginx", 1, "does not exist"),
        ("config", "Nginx", 1, "is not a chart directory"),
    ] {
        let (ended, printed, said) = run(chart, kind);
        assert_eq!((ended, printed.as_str(), said.lines().count()), (code, "", 1), "{said}");
        assert!(said.starts_with("error: ") && said.contains(words), "{said}");
    }
}

#[test]
fn a_short_name_that_is_none_or_would_be_ignored_is_refused() {
    for more in [&["--short-name", "Web"][..], &["--short-name", "wb", "--add-to", "some.yaml"]] {
        let mut command = chartwright();
        command.args(["generate", "crd", "--chart", "helm-charts/nginx", "--group", "a.b", "--version", "v1"]);
        let output = command.args(["--kind", "Web"]).args(more).current_dir(lab::checkout()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains("--short-name"), "{said}");
    }
}

/// Each version is read and stored as the other.
#[tokio::test]
async fn what_a_new_version_takes_is_not_lost_in_the_stored_one() {
    let client = client().await;
    let closed = |fields: Value| json!({"type": "object", "additionalProperties": false, "properties": fields});
    let chart = |fields: Value| ChartValues::from_text("app", "", Some(closed(fields))).unwrap();
    let (first, options) = (kind("Grown"), Options::default());
    let older = chart(json!({"a": {"type": "string"}, "in": closed(json!({"a": {}}))}));
    let newer = chart(json!({"a": {"type": "string"}, "b": {"type": "string"}, "in": closed(json!({"b": {}}))}));
    let text = definition(&first, &older, &options).unwrap().text;
    let second = Kind { version: "v2".into(), ..first.clone() };
    let both = chartwright::scaffold::crd::add_version(&text, &second, &newer, &options).unwrap();
    assert_eq!(both.notes.len(), 2, "{:?}", both.notes);
    install(&client, &both.text).await;
    established(&client, &first.definition()).await;
    let spec = json!({"a": "x", "b": "y", "in": {"b": 1}});
    let path = |kind: &Kind| format!("/apis/{}/namespaces/default/{}", kind.api_version(), kind.plural);
    until("the new version takes it", async || {
        let cr = json!({"apiVersion": second.api_version(), "kind": second.kind, "metadata": {"name": "some"}, "spec": spec});
        let request = http::Request::post(path(&second)).header("Content-Type", "application/json");
        client.request::<Value>(request.body(cr.to_string().into_bytes()).unwrap()).await.ok()
    })
    .await;
    for kind in [&first, &second] {
        let request = http::Request::get(format!("{}/some", path(kind))).body(vec![]).unwrap();
        assert_eq!(client.request::<Value>(request).await.unwrap()["spec"], spec, "{}", kind.version);
    }
    let wrong = refusal(&client, &second, &json!({"c": 1})).await;
    assert!(wrong.is_some_and(|said| said.contains("unknown field")));
}

/// The one exception to what helm accepts, with its bounds.
#[tokio::test]
async fn above_a_number_of_replicas_the_api_server_wants_maps() {
    let client = client().await;
    let kind = kind("Counted");
    let values = ChartValues::from_text("app", "web: {replicaCount: 1}\n", None).unwrap();
    install(&client, &definition(&kind, &values, &Options::default()).unwrap().text).await;
    established(&client, &kind.definition()).await;
    until("the kind is served", async || {
        let path = format!("/apis/{}/{}", kind.api_version(), kind.plural);
        client.request::<Value>(http::Request::get(path).body(vec![]).unwrap()).await.ok()
    })
    .await;
    for taken in [json!({}), json!({"web": null}), json!({"web": {"replicaCount": 2, "a": 1}})] {
        assert_eq!(refusal(&client, &kind, &taken).await, None, "{taken}");
    }
    for refused in [json!({"web": "text"}), json!({"web": [1]}), json!({"web": {"replicaCount": "two"}})] {
        assert!(refusal(&client, &kind, &refused).await.is_some(), "{refused}");
    }
}

/// Two versions of a kind at once.
#[tokio::test]
async fn a_second_version_is_served_beside_the_first() {
    let client = client().await;
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let values = ChartValues::from_text("app", "replicaCount: 1\n", None).unwrap();
    let (first, options) = (kind("Versioned"), Options::default());
    let text = definition(&first, &values, &options).unwrap().text;
    let second = Kind { version: "v2".into(), ..first.clone() };
    let both = chartwright::scaffold::crd::add_version(&text, &second, &values, &options).unwrap().text;
    install(&client, &both).await;
    established(&client, &first.definition()).await;
    for kind in [&first, &second] {
        until("the version is served", async || {
            let path = format!("/apis/{}/{}", kind.api_version(), kind.plural);
            client.request::<Value>(http::Request::get(path).body(vec![]).unwrap()).await.ok()
        })
        .await;
        assert_eq!(refusal(&client, kind, &json!({"replicaCount": 2})).await, None);
    }
    let status = crds.get(&first.definition()).await.unwrap().status.unwrap();
    assert_eq!(status.stored_versions, Some(vec!["v1".to_owned()]));
}
