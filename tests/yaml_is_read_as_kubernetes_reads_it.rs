//! The reader of rendered YAML against the real thing: what `kubectl` sends and the API server stores.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::{Project, control_plane, tool};

/// Scalars that readers disagree about, each under a key of its own, and structures.
const AWKWARD: &str = r#"
octal: 0644
octalNew: 0o644
hex: 0x1F
binary: 0b101
signed: +12
underscores: 1_000_000
notOctal: 08
yes: on
no: off
short: [y, n, Y, N]
caps: [YES, No, TRUE, False, ON, Off]
nothing: [~, null, Null, NULL, "", ]
empty:
float: [1.5, .5, 1e3, 1.0, -0.0, 1e-7, 123456789.123]
big: [9007199254740993, 9223372036854775807]
text: ["0644", 'yes', "null", "1e3"]
dates: [2001-01-01, 2001-12-14t21:59:43.10-05:00]
sexagesimal: [190:20:30, 12:30:45]
equals: =
versions: [1.10, v1.10, 1.2.3, 1e10x]
colon: b:c
url: http://x.y/z?a=b#c
tagged: [!!str 123, !!int "7", !!float 3, !!bool "yes"]
duplicate: first
duplicate: last
base: &base {a: 1, b: 2}
merged: {<<: *base, b: 3}
alias: *base
folded: >-
  one
  two

  three
literal: |+
  keeps
   its spaces

quoted: "tab\tnew\nline \u263A \x41"
single: 'it''s'
1: number as key
true: boolean as key
1.5: float as key
"#;

#[tokio::test]
async fn awkward_scalars_are_read_as_kubectl_and_the_api_server_read_them() {
    let project = Project::new("Awkward").await;
    let resource = &project.resource;
    let spec: String = AWKWARD.lines().map(|line| format!("  {line}\n")).collect();
    let document = format!(
        "apiVersion: {}\nkind: {}\nmetadata:\n  name: awkward\nspec:\n{spec}",
        resource.api_version, resource.kind
    );
    create(&document, &project.namespace);
    let stored = project.crs().get("awkward").await.unwrap();
    let read = chartwright::yaml::parse(&document).unwrap();
    // An open spec is stored as it was sent.
    let (stored, read) = (&stored.data["spec"], &read["spec"]);
    for (key, value) in read.as_object().unwrap() {
        assert_eq!(numbers_alike(&stored[key]), numbers_alike(value), "{key}");
    }
    assert_eq!(stored.as_object().unwrap().len(), read.as_object().unwrap().len());
}

fn create(document: &str, namespace: &str) {
    let mut kubectl = Command::new(tool("kubectl"))
        .args(["create", "--validate=false", "-n", namespace, "-f", "-"])
        .env("KUBECONFIG", control_plane().kubeconfig())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    kubectl.stdin.take().unwrap().write_all(document.as_bytes()).unwrap();
    assert!(kubectl.wait().unwrap().success());
}

/// JSON has one kind of number: 3 and 3.0 are the same.
fn numbers_alike(value: &Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => Value::from(float as i64),
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(numbers_alike).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), numbers_alike(value))).collect(),
        other => other.clone(),
    }
}
