//! Rendering with both versions of helm: notes, exact overrides, readable complaints, charts that change. No cluster.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use chartwright::chart::reload::{self, Change, Live};
use chartwright::chart::{Chart, notes};
use chartwright::discovery::Capabilities;
use chartwright::error::Category;
use chartwright::render::{Helm, RenderError, Request};
use chartwright::values::{Overrides, Values};
use chartwright::watches;
use serde_json::{Value, json};

use crate::harness::{chartwright, tool};

const BOTH: [&str; 2] = ["helm3", "helm4"];

/// A project with the chart `app` and a watch for it.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        let files = Files(tempfile::tempdir().unwrap());
        files.write("app/Chart.yaml", "apiVersion: v2\nname: app\nversion: 0.1.0\n");
        files.write("watches.yaml", "- {group: g.io, version: v1, kind: App, chart: app}\n");
        files
    }

    fn with(path: &str, text: &str) -> Self {
        let files = Files::new();
        files.write(path, text);
        files
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn chart(&self) -> Chart {
        Chart::load(&self.path("app")).unwrap()
    }

    async fn render(&self, helm: &str, spec: Value) -> Result<String, RenderError> {
        render(&self.chart(), &find(helm).await, spec).await
    }

    /// The same failure with both helms.
    async fn failure(&self, spec: Value) -> RenderError {
        let three = self.render("helm3", spec.clone()).await.unwrap_err();
        let four = self.render("helm4", spec).await.unwrap_err();
        assert_eq!(three.to_string(), four.to_string());
        assert_eq!(three.category(), four.category());
        four
    }

    fn validate(&self, helm: &str, args: &[&str]) -> Output {
        let mut command = chartwright();
        command.arg("validate").args(args).current_dir(self.0.path()).env("CHARTWRIGHT_HELM", tool(helm));
        command.env("IMAGE", "registry/web:1.2").output().unwrap()
    }
}

async fn find(helm: &str) -> Helm {
    Helm::find(Some(&tool(helm))).await.unwrap()
}

async fn render(chart: &Chart, helm: &Helm, spec: Value) -> Result<String, RenderError> {
    render_as("web", chart, helm, spec).await
}

async fn render_as(release: &str, chart: &Chart, helm: &Helm, spec: Value) -> Result<String, RenderError> {
    let values = Values::new(Some(&spec), &Overrides::default()).unwrap();
    let request = Request {
        chart,
        release,
        namespace: "apps",
        values: &values,
        capabilities: &Capabilities::default(),
        is_upgrade: false,
        revision: 1,
        is_patient: false,
    };
    helm.template(&request).await
}

/// Documents of helm's output with the file that each comes from.
fn documents(text: &str) -> Vec<(&str, &str)> {
    let documents = text.split("---\n").filter(|document| !document.is_empty());
    documents.map(|document| (document.lines().next().unwrap().trim_start_matches("# Source: "), document)).collect()
}

/// Where a kind has no status of its own, the author of a custom resource writes what the release is called.
#[tokio::test]
async fn the_name_of_a_release_is_never_a_flag() {
    let files = Files::with("app/templates/all.yaml", "{{ fail (toString .Values.stolen) }}");
    files.write("token", "hunter");
    let flag = format!("--set-file=stolen={}", files.path("token").display());
    for helm in BOTH {
        let error = render_as(&flag, &files.chart(), &find(helm).await, json!({})).await.unwrap_err().to_string();
        assert!(error.contains("release name") && !error.contains("hunter"), "{helm}: {error}");
    }
}

#[tokio::test]
async fn notes_come_with_the_manifest_and_are_exact() {
    let files = Files::with(
        "app/templates/NOTES.txt",
        "Hi {{ .Release.Name }} in {{ .Release.Namespace }}\n---\n\"q\": \u{85} \u{7f}é\n",
    );
    files.write("app/templates/a.yaml", "files: {{ len .Files }}\n");
    for helm in BOTH {
        let text = files.render(helm, json!({})).await.unwrap();
        let found: Vec<String> = documents(&text).iter().filter_map(|(file, text)| notes::read(file, text)).collect();
        assert_eq!(found, ["Hi web in apps\n---\n\"q\": \u{85} \u{7f}é\n"], "{helm}: {text}");
    }
}

#[tokio::test]
async fn a_failure_deep_in_the_chart_is_its_place_and_its_cause() {
    let files = Files::with(
        "app/templates/_h.tpl",
        "{{- define \"one\" }}{{ include \"two\" . }}{{ end }}\n{{- define \"two\" }}{{ .Values.a.b.c }}{{ end }}\n",
    );
    files.write("app/templates/a.yaml", "kind: A\nb: {{ include \"one\" . }}\n");
    let error = files.failure(json!({})).await;
    assert_eq!(
        error.to_string(),
        "app/templates/_h.tpl:2:29 (included from app/templates/a.yaml:2:6): at <.Values.a.b.c>: nil pointer evaluating \
         interface {}.b"
    );
    assert_eq!(error.category(), Category::RenderFailed);
}

#[tokio::test]
async fn what_a_chart_requires_is_said_in_its_own_words() {
    let files = Files::with("app/templates/a.yaml", "a: {{ required \"give a colour\" .Values.colour }}\n");
    assert_eq!(files.failure(json!({})).await.to_string(), "app/templates/a.yaml:1:6: give a colour");
    for helm in BOTH {
        assert!(files.render(helm, json!({"colour": "blue"})).await.unwrap().contains("a: blue"));
    }
}

#[tokio::test]
async fn values_against_the_schema_are_named_by_their_paths() {
    let schema = json!({
        "type": "object",
        "required": ["colour"],
        "properties": {
            "replicas": {"type": "integer"},
            "image": {"required": ["tag"]},
            "args": {"items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
        },
    });
    let files = Files::with("app/values.schema.json", &schema.to_string());
    let error = files.failure(json!({"replicas": "x", "image": {}, "args": ["a", true]})).await;
    assert_eq!(
        error.to_string(),
        "the values do not fit the chart's schema: missing property 'colour'; args[1]: 'anyOf' failed (got boolean, want \
         string; got boolean, want integer); image: missing property 'tag'; replicas: got string, want integer"
    );
    assert_eq!(error.category(), Category::InvalidValues);
}

#[tokio::test]
async fn output_that_is_not_yaml_names_its_file_and_line() {
    let files = Files::with("app/templates/a.yaml", "kind: A\nmetadata:\n  name: a\n bad: {x\n");
    let error = files.failure(json!({})).await;
    assert!(error.to_string().starts_with("app/templates/a.yaml: its output is not YAML: line "), "{error}");
}

#[tokio::test]
async fn a_chart_that_cannot_be_parsed_is_not_blamed_on_the_values() {
    let error = Files::with("app/templates/a.yaml", "a: 1\nb: {{ nofunc }}\n").failure(json!({})).await;
    assert_eq!(
        error.to_string(),
        "helm cannot read the chart: app/templates/a.yaml:2: function \"nofunc\" not defined"
    );
    assert_eq!(error.category(), Category::InvalidChart);
}

#[tokio::test]
async fn a_helm_that_floods_is_stopped() {
    let files = Files::new();
    let script = files.path("helm");
    let body = "#!/bin/sh\nif [ \"$1\" = version ]; then echo v4.0.0; else head -c 104857600 /dev/zero; fi\n";
    std::fs::write(&script, body).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
    // A child that another test starts may hold the script open for writing until its own exec.
    let helm = loop {
        match Helm::find(Some(&script)).await {
            Err(RenderError::Spawn { .. }) => {}
            other => break other.unwrap(),
        }
    };
    let error = render(&files.chart(), &helm, json!({})).await.unwrap_err();
    assert!(error.to_string().contains("more than 16 MiB"), "{error}");
}

async fn load(files: &Files, helm: &str) -> Result<watches::Watches, watches::WatchesError> {
    watches::load(&files.path("watches.yaml"), files.0.path(), &find(helm).await).await
}

#[tokio::test]
async fn override_templates_give_exact_results() {
    let files = Files::with(
        "watches.yaml",
        r#"- group: g.io
  version: v1
  kind: App
  chart: app
  overrideValues:
    a: '{{ ("registry:5000/web:1.2" | split ":")._0 }}'
    b: "'{{ \"x\" }}\n---\n  y: \x7f\t{{ \"é\" | upper }} '"
    c: "{{ define \"n\" }}1{{ end }}{{ template \"n\" }}"
    d: "{{ define \"n\" }}2{{ end }}{{ template \"n\" }}"
    e: plain
"#,
    );
    for helm in BOTH {
        let watches = load(&files, helm).await.unwrap();
        let overrides: Vec<(&str, &Value)> = watches.entries[0].overrides.iter().collect();
        let expected = [json!("registry"), json!("x\n---\n  y: \u{7f}\tÉ "), json!(1), json!(2), json!("plain")];
        assert_eq!(overrides.iter().map(|(_, value)| (*value).clone()).collect::<Vec<_>>(), expected, "{helm}");
    }
}

#[tokio::test]
async fn an_override_that_does_not_expand_is_named() {
    let watch = |text: &str| {
        let start = "- group: g.io\n  version: v1\n  kind: App\n  chart: app\n  overrideValues:\n    good: '{{ 1 }}'\n";
        Files::with("watches.yaml", &format!("{start}    tag: '{text}'\n"))
    };
    for helm in BOTH {
        for (text, expected) in [
            ("{{ nofunc }}", "function \"nofunc\" not defined"),
            ("{{ if }}", "missing value for if"),
            ("{{ fail \"no\" }}", "no"),
            ("{{ index (list 1) 3 }}", "error calling index: index out of range: 3"),
            ("{{ env \"A\" }}", "function \"env\" not defined; write $NAME to use a variable of the environment"),
        ] {
            let message = load(&watch(text), helm).await.unwrap_err().to_string();
            let start = "watches.yaml:7: entry 1 (g.io/v1 App): `overrideValues`: `tag` does not expand: ";
            assert!(message.ends_with(&format!("{start}{expected}")), "{helm}: {message}");
        }
    }
}

#[tokio::test]
async fn the_copy_of_a_chart_renders_as_the_chart_itself() {
    let files = Files::with(
        "app/templates/a.yaml",
        "files:\n{{- range $path, $_ := .Files }}\n- {{ $path | quote }}\n{{- end }}\n",
    );
    files.write("app/.helmignore", "*.swp\n/docs/*.txt\nold/\n[xy]?\n# comment\n");
    for path in
        ["a.swp", "docs/a.txt", "docs/b/a.txt", "docs/a.md", "old/a", "b/old", "x1", "z1", "b/y2", ".hidden", "x12"]
    {
        files.write(&format!("app/{path}"), "x");
    }
    for helm in BOTH {
        let mut plain = std::process::Command::new(tool(helm));
        let plain = plain.args(["template", "web"]).arg(files.path("app")).output().unwrap();
        let copy = files.render(helm, json!({})).await.unwrap();
        assert_eq!(copy, String::from_utf8(plain.stdout).unwrap(), "{helm}");
        assert!(copy.contains("docs/a.md") && !copy.contains("a.swp"), "{copy}");
    }
}

#[tokio::test]
async fn a_watched_chart_tells_its_changes() {
    let files = Files::with("app/templates/a.yaml", "a: 1\n");
    let live = Arc::new(Live::new(files.chart(), find("helm4").await));
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let watching = tokio::spawn(reload::watch(live, move |change| tell.send(change).unwrap()));
    files.write("app/templates/a.yaml", "a: 2\n");
    let change = tokio::time::timeout(Duration::from_secs(30), told.recv()).await;
    assert!(is_new(change.expect("a change is told")));
    watching.abort();
}

fn is_new(change: Option<Change>) -> bool {
    matches!(change, Some(Change::New(_)))
}

#[tokio::test]
async fn a_changed_chart_is_taken_when_it_has_settled() {
    let files = Files::with("app/templates/a.yaml", "a: 1\n");
    let live = Live::new(files.chart(), find("helm4").await);
    let first = live.current();
    assert!(live.poll().await.is_none());
    files.write("app/templates/a.yaml", "a: 2\n");
    assert!(live.poll().await.is_none(), "it may still be moving");
    files.write("app/templates/b.yaml", "b: 2\n");
    assert!(live.poll().await.is_none(), "it was still moving");
    assert!(is_new(live.poll().await));
    assert_ne!(live.current().digest, first.digest);
    assert!(first.dir.exists(), "whoever still renders the old chart keeps it");
    assert!(live.poll().await.is_none());
}

#[tokio::test]
async fn a_chart_that_is_only_touched_is_the_same() {
    let files = Files::with("app/templates/a.yaml", "a: 1\n");
    let live = Live::new(files.chart(), find("helm4").await);
    std::fs::remove_file(files.path("app/templates/a.yaml")).unwrap();
    files.write("app/templates/a.yaml", "a: 1\n");
    for _ in 0..3 {
        assert!(live.poll().await.is_none());
    }
}

#[tokio::test]
async fn a_broken_chart_is_told_once_and_the_last_good_one_stays() {
    for helm in BOTH {
        let files = Files::with("app/templates/a.yaml", "a: 1\n");
        let live = Live::new(files.chart(), find(helm).await);
        let good = live.current().digest.clone();
        let settle = async |text: &str| {
            files.write("app/templates/a.yaml", text);
            assert!(live.poll().await.is_none());
            live.poll().await
        };
        match settle("a: {{ if }}\n").await {
            Some(Change::Broken(message)) => assert!(message.contains("app/templates/a.yaml:1"), "{message}"),
            other => panic!("{other:?}"),
        }
        assert!(settle("a: {{ if }}\n# the same mistake\n").await.is_none());
        assert!(matches!(settle("a: {{ nofunc }}\n").await, Some(Change::Broken(_))));
        assert_eq!(live.current().digest, good);
        assert!(matches!(settle("a: 1\n").await, Some(Change::Mended)));
        assert!(is_new(settle("a: {{ required \"a value\" .Values.x }}\n").await), "it may refuse its defaults");
        std::fs::remove_dir_all(files.path("app")).unwrap();
        assert!(live.poll().await.is_none());
        assert!(matches!(live.poll().await, Some(Change::Broken(_))));
    }
}

fn lines(output: &Output) -> Vec<String> {
    String::from_utf8(output.stdout.clone()).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn validate_accepts_a_good_project() {
    let files = Files::with("app/templates/NOTES.txt", "Hi\n");
    files.write(
        "watches.yaml",
        "- group: g.io\n  version: v1\n  kind: App\n  chart: app\n  overrideValues: {image: '{{ (\"$IMAGE\" | split \":\")._1 }}'}\n",
    );
    files.write("app/templates/a.yaml", "{{ if ne .Values.image \"1.2\" }}{{ fail .Values.image }}{{ end }}");
    for helm in BOTH {
        let output = files.validate(helm, &[]);
        let reach = "         releases of this kind are limited to their own namespace (set `allow` in watches.yaml to change this)";
        assert_eq!(lines(&output), ["ok       g.io/v1 App  chart app 0.1.0", reach], "{output:?}");
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn validate_reports_every_entry() {
    let files = Files::with("app/templates/a.yaml", "a: {{ required \"give a colour\" .Values.colour }}\n");
    files.write(
        "watches.yaml",
        "- {group: g.io, version: v1, kind: App, chart: app, selectr: {}}\n- {version: v1, kind: B}\n- {kind: C, chart: app}\n",
    );
    let output = files.validate("helm4", &[]);
    assert_eq!(
        lines(&output),
        [
            "warning  ./watches.yaml:1: entry 1 (g.io/v1 App): `selectr` is not a known field and is ignored; did you mean \
             `selector`?",
            "ok       g.io/v1 App  chart app 0.1.0",
            "         releases of this kind are limited to their own namespace, because the chart does not render with its default \
             values (see the warning); set `allow` in watches.yaml if they need other namespaces or cluster-scoped objects",
            "warning  g.io/v1 App  chart app 0.1.0: it does not render with its default values: app/templates/a.yaml:1:6: give a \
             colour; fine if the spec must set them",
            "error    ./watches.yaml:2: entry 2 (v1 B): `chart` is missing; every entry needs version, kind and chart",
            "error    ./watches.yaml:3: entry 3: `version` is missing; every entry needs version, kind and chart",
        ]
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn validate_speaks_json() {
    let files = Files::new();
    let output = files.validate("helm4", &["-o", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ok"], true);
    assert_eq!(report["entries"][0]["watch"]["chart"]["name"], "app");
    let output = files.validate("helm4", &["-o", "json", "--watches-file", "absent"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ok"], false);
    assert!(report["errors"][0].as_str().unwrap().contains("absent"), "{report}");
    assert_eq!(output.status.code(), Some(1));
    let output = files.validate("helm4", &["--watches-file", "absent"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("error: cannot read absent") && output.stdout.is_empty(), "{said}");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(files.validate("helm4", &["-o", "xml"]).status.code(), Some(2));
}

#[test]
fn validate_refuses_a_chart_that_cannot_be_parsed() {
    let files = Files::with("app/templates/a.yaml", "a: {{ if }}\n");
    let output = files.validate("helm3", &[]);
    assert!(lines(&output)[0].starts_with("error    g.io/v1 App  chart app 0.1.0: helm cannot read the chart: "));
    assert_eq!(output.status.code(), Some(1));
}
