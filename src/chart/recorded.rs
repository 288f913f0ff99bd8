//! Whether a chart is the one that a helm release was made from, as far as the release's record tells.
//!
//! Helm records a chart's metadata, its own templates and its default values, but nothing of its subcharts beyond their
//! versions. A thin record has no templates, and so never counts as the same.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{Chart, notes};
use crate::yaml;

/// `recorded` is the part `chart` of a release record.
pub fn is_the_same(chart: &Chart, recorded: &Value) -> bool {
    let metadata = |key: &str| recorded["metadata"].get(key).cloned().unwrap_or_default();
    let is_same_version = ["name", "version", "dependencies"].iter().all(|key| {
        let own = chart.metadata.get(*key).cloned().unwrap_or_default();
        // What a repository adds to a dependency (tags, aliases) is written by both or by none.
        metadata(key) == own || *key == "dependencies" && is_nothing(&metadata(key)) && is_nothing(&own)
    });
    let Some(templates) = templates_of(recorded) else { return false };
    is_same_version
        && !templates.is_empty()
        && templates_in(&chart.dir).is_ok_and(|own| own == templates)
        && has_same_values(chart, recorded)
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

/// By path: `templates/service.yaml`.
type Templates = BTreeMap<String, Vec<u8>>;

fn templates_of(recorded: &Value) -> Option<Templates> {
    let list = recorded.get("templates")?.as_array()?;
    let file = |file: &Value| {
        Some((file.get("name")?.as_str()?.to_owned(), STANDARD.decode(file.get("data")?.as_str()?).ok()?))
    };
    list.iter().map(file).collect()
}

fn templates_in(dir: &Path) -> std::io::Result<Templates> {
    let mut found = Templates::new();
    let mut directories = vec![dir.join("templates")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let name = path.strip_prefix(dir).unwrap_or(&path).to_string_lossy().into_owned();
            let content = std::fs::read(&path)?;
            if !notes::is_ours(&name, &content) {
                found.insert(name, content);
            }
        }
    }
    Ok(found)
}

/// Helm merges values of subcharts into those that it records, so only a chart without any can be compared.
fn has_same_values(chart: &Chart, recorded: &Value) -> bool {
    if chart.dir.join("charts").is_dir() {
        return true;
    }
    let text = std::fs::read_to_string(chart.dir.join("values.yaml")).unwrap_or_default();
    let own = yaml::parse(&text).unwrap_or(Value::Null);
    is_equal(&own, recorded.get("values").unwrap_or(&Value::Null))
}

/// Helm reads every number as a float.
fn is_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_equal(a, b)))
        }
        (Value::Null, Value::Object(map)) | (Value::Object(map), Value::Null) => map.is_empty(),
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chart(values: &str, template: &str) -> Chart {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| std::fs::write(dir.path().join(path), text).unwrap();
        std::fs::create_dir(dir.path().join("templates")).unwrap();
        write("Chart.yaml", "apiVersion: v2\nname: app\nversion: 0.1.0\n");
        write("values.yaml", values);
        write("templates/a.yaml", template);
        write("templates/NOTES.txt", "hello");
        Chart::load(dir.path()).unwrap()
    }

    #[test]
    fn templates_values_and_version_must_agree() {
        let file = |name: &str, text: &str| json!({"name": name, "data": STANDARD.encode(text)});
        let recorded = json!({
            "metadata": {"name": "app", "version": "0.1.0", "apiVersion": "v2"},
            "templates": [file("templates/a.yaml", "a: b"), file("templates/NOTES.txt", "hello")],
            "values": {"big": 1e6, "list": [1, "x"]},
        });
        let values = "big: 1000000\nlist: [1, x]\n";
        assert!(is_the_same(&chart(values, "a: b"), &recorded));
        assert!(!is_the_same(&chart(values, "a: c"), &recorded));
        assert!(!is_the_same(&chart("big: 2\nlist: [1, x]\n", "a: b"), &recorded));
        let mut other = recorded.clone();
        other["metadata"]["version"] = "0.2.0".into();
        assert!(!is_the_same(&chart(values, "a: b"), &other));
        let mut thin = recorded;
        thin["templates"] = json!([]);
        assert!(!is_the_same(&chart(values, "a: b"), &thin));
    }
}
