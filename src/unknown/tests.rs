use std::path::PathBuf;

use serde_json::json;

use super::*;
use crate::yaml;

const VALUES: &str = "\
# How many.
replicaCount: 1
image:
  repository: nginx
  tag: latest
service:
  type: ClusterIP
  # nodePort: 30080
resources: {}
podLabels:
  team: web
tls: null
hosts: []
";

const TEMPLATE: &str = "\
{{ .Values.replicaCount }} {{ .Values.image.repository }}:{{ .Values.image.tag }}
{{ .Values.service.type }} {{ if .Values.service.clusterIP }}{{ end }}
{{ toYaml .Values.podLabels }}
{{ .Values.unlisted }}
";

fn chart(files: &[(&str, &str)]) -> (tempfile::TempDir, Known) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("app");
    for (path, text) in [&[("Chart.yaml", "apiVersion: v2\nname: app\nversion: 0.1.0\n")], files].concat() {
        let file = root.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let known = Known::of(&Chart::load(&root).unwrap()).unwrap();
    (dir, known)
}

fn plain() -> (tempfile::TempDir, Known) {
    chart(&[("values.yaml", VALUES), ("templates/all.yaml", TEMPLATE)])
}

fn shown_of(known: &Known, spec: Value) -> Vec<String> {
    known.unknown(&spec).iter().map(ToString::to_string).collect()
}

#[test]
fn a_misspelt_field_is_named_with_what_was_meant() {
    let (_dir, known) = plain();
    for (spec, expected) in [
        (json!({"replicaCout": 2}), "spec.replicaCout (did you mean spec.replicaCount?)"),
        (json!({"image": {"tagg": "1"}}), "spec.image.tagg (did you mean spec.image.tag?)"),
        (json!({"tag": "1"}), "spec.tag (did you mean spec.image.tag?)"),
        (json!({"completely": {"other": 1}}), "spec.completely"),
        (json!({"a.b": 1}), "spec[\"a.b\"]"),
    ] {
        assert_eq!(shown_of(&known, spec), [expected]);
    }
    let fields = known.unknown(&json!({"replicaCout": 2}));
    let sentence = sentence(&fields, "app").unwrap();
    assert_eq!(sentence, "The chart app has no such value: spec.replicaCout (did you mean spec.replicaCount?)");
}

#[test]
fn what_may_have_a_meaning_is_known() {
    let (_dir, known) = plain();
    for spec in [
        json!({"replicaCount": 2, "image": {"tag": "1"}, "unlisted": 1, "service": {"nodePort": 1, "clusterIP": "None"}}),
        json!({"resources": {"limits": {"cpu": 1}}, "podLabels": {"any": "x"}, "tls": {"a": 1}, "hosts": [{"a": 1}]}),
        json!({"global": {"any": 1}, "tags": {"any": true}, "image": "text in the place of a table"}),
        json!({"removed": null, "_note": 1, "x-common": {"a": 1}}),
        json!({"mine": "x", "podLabels": {"a": "{{ .Values.mine }}"}}),
        json!({}),
        json!(null),
        json!(["no table"]),
    ] {
        assert_eq!(shown_of(&known, spec.clone()), [""; 0], "{spec}");
    }
}

#[test]
fn a_chart_that_lists_no_values_or_takes_any_knows_all() {
    let anything = json!({"any": 1, "thing": {"a": 1}});
    for files in [
        &[("templates/a.yaml", "{{ .Values.a }}")][..],
        &[("values.yaml", VALUES), ("templates/a.yaml", "{{ range $k, $v := .Values }}{{ end }}")],
        &[("values.yaml", VALUES), ("values.schema.json", r#"{"additionalProperties": true}"#)],
    ] {
        let (_dir, known) = chart(files);
        assert_eq!(shown_of(&known, anything.clone()), [""; 0], "{files:?}");
    }
}

#[test]
fn a_subchart_has_its_values_under_its_alias() {
    let main = "apiVersion: v2\nname: app\nversion: 1.0.0\ndependencies:\n\
        - {name: db, version: 1.0.0, alias: store}\n- name: db\n  version: 1.0.0\n  alias: cache\n  condition: cache.active\n";
    let (_dir, known) = chart(&[
        ("Chart.yaml", main),
        ("values.yaml", "colour: red\nstore: {}\n"),
        ("templates/a.yaml", "{{ .Values.colour }}"),
        ("charts/db/Chart.yaml", "apiVersion: v2\nname: db\nversion: 1.0.0\n"),
        ("charts/db/values.yaml", "auth:\n  user: me\nsize: 1\n"),
        ("charts/db/templates/a.yaml", "{{ .Values.auth.user }}{{ .Values.size }}{{ .Values.auth.secret }}"),
    ]);
    let good = json!({"store": {"auth": {"user": "a", "secret": "b"}, "size": 2, "global": {"x": 1}}, "cache": {"active": true}});
    assert_eq!(shown_of(&known, good), [""; 0]);
    let bad = json!({"store": {"auth": {"usr": "a"}}, "cache": {"sise": 3}, "colour": "blue"});
    assert_eq!(
        shown_of(&known, bad),
        ["spec.cache.sise (did you mean spec.cache.size?)", "spec.store.auth.usr (did you mean spec.store.auth.user?)"]
    );
}

#[test]
fn only_some_are_named_and_a_long_name_is_cut() {
    let (_dir, known) = plain();
    let many: Value = (0..100).map(|it| (format!("wrong{it:03}"), json!(1))).collect::<Map<_, _>>().into();
    let fields = known.unknown(&many);
    assert!(sentence(&fields, "app").unwrap().ends_with("spec.wrong004 and others"), "{fields:?}");
    let long = known.unknown(&json!({"ä".repeat(100_000): 1}));
    assert_eq!(long[0].to_string(), format!("spec.{}…", "ä".repeat(LONGEST_NAME)));
}

#[test]
fn the_work_grows_with_the_fields() {
    let (_dir, known) = plain();
    crate::steps::assert_linear("unknown", |number| {
        let labels: Map<String, Value> = (0..number).map(|it| (format!("_{it}"), json!(it))).collect();
        let spec = json!({"image": labels});
        crate::steps::of(|| assert!(known.unknown(&spec).is_empty()))
    });
}

/// Values that the charts of the proof of fidelity are deployed with: none of them may be called unknown.
#[test]
fn the_values_of_real_charts_are_known() {
    let cases = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fidelity/cases");
    let mut looked = 0;
    for case in std::fs::read_dir(cases).unwrap().flatten() {
        let upgraded = if case.path().join("upgrade-chart").is_dir() { "upgrade-chart" } else { "chart" };
        for (chart, values) in [("chart", "values.yaml"), (upgraded, "upgrade.yaml")] {
            let (chart, values) = (case.path().join(chart), case.path().join(values));
            let Ok(text) = std::fs::read_to_string(&values) else { continue };
            let known = Known::of(&Chart::load(&chart).unwrap()).unwrap();
            let unknown = shown_of(&known, yaml::parse(&text).unwrap());
            assert!(unknown.is_empty(), "{}: {unknown:?}", values.display());
            looked += 1;
        }
    }
    assert!(looked > 20, "{looked}");
    let sample = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("helm-charts/nginx");
    let known = Known::of(&Chart::load(&sample).unwrap()).unwrap();
    assert_eq!(shown_of(&known, json!({"image": {"tga": "1"}})), ["spec.image.tga (did you mean spec.image.tag?)"]);
    let defaults = yaml::parse(&std::fs::read_to_string(sample.join("values.yaml")).unwrap()).unwrap();
    assert_eq!(shown_of(&known, defaults), [""; 0]);
}
