//! Whether a chart is the one that a helm release was made from, as far as the release's record tells.
//!
//! Helm records a chart's metadata, its own templates, files and default values, but nothing of its subcharts beyond their
//! versions. A thin record has no templates, and so never counts as the same.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use super::{Chart, notes};

/// The part `chart` of a release record.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Recorded {
    metadata: Value,
    templates: Option<Vec<File>>,
    files: Option<Vec<File>>,
    values: Value,
}

#[derive(Deserialize)]
struct File {
    name: String,
    /// In base64. Go writes an empty file as null.
    #[serde(default)]
    data: Option<String>,
}

pub fn is_the_same(chart: &Chart, recorded: &Recorded) -> bool {
    let metadata = &recorded.metadata;
    let is_same_version = ["name", "version"].iter().all(|key| metadata[*key] == chart.metadata[*key])
        && are_used(&metadata["dependencies"], &chart.metadata["dependencies"]);
    if !is_same_version || recorded.templates.as_ref().is_none_or(Vec::is_empty) {
        return false;
    }
    let Ok((own_templates, own_files)) = files_in(&chart.dir) else { return false };
    let (templates, files) = (by_path(&recorded.templates), by_path(&recorded.files));
    templates == Some(own_templates) && files == Some(own_files) && has_same_values(chart, &recorded.values)
}

/// Whether subcharts that helm recorded are among those of a chart. helm leaves out what conditions and tags switch off, and
/// writes an alias as the name (seen).
fn are_used(recorded: &Value, own: &Value) -> bool {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let own = list(own);
    list(recorded).iter().all(|used| {
        own.iter().any(|own| {
            let name = own.get("alias").filter(|alias| *alias != "").unwrap_or(&own["name"]);
            (&used["name"], &used["version"]) == (name, &own["version"])
        })
    })
}

/// By path: `templates/service.yaml`.
type Files = BTreeMap<String, Vec<u8>>;

/// None where one of them is not base64.
fn by_path(files: &Option<Vec<File>>) -> Option<Files> {
    let file = |file: &File| {
        let data = file.data.as_deref().unwrap_or_default();
        Some((file.name.clone(), STANDARD.decode(data).ok()?))
    };
    files.iter().flatten().map(file).collect()
}

/// A chart's own templates, and what `.Files` has. What Helm records elsewhere is in neither.
fn files_in(dir: &Path) -> std::io::Result<(Files, Files)> {
    const ELSEWHERE: [&str; 6] =
        ["Chart.yaml", "Chart.lock", "values.yaml", "values.schema.json", "requirements.yaml", "requirements.lock"];
    let (mut templates, mut files) = (Files::new(), Files::new());
    let mut directories = vec![dir.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            let name = path.strip_prefix(dir).unwrap_or(&path).to_string_lossy().into_owned();
            if path.is_dir() {
                directories.extend((name != "charts").then_some(path));
                continue;
            }
            let content = std::fs::read(&path)?;
            match name.starts_with("templates/") {
                _ if notes::is_ours(&name, &content) || ELSEWHERE.contains(&name.as_str()) => None,
                true => templates.insert(name, content),
                false => files.insert(name, content),
            };
        }
    }
    Ok((templates, files))
}

/// Helm merges values of subcharts into those that it records: of a chart that has some, all its own must be there.
fn has_same_values(chart: &Chart, recorded: &Value) -> bool {
    let own = chart.defaults();
    match chart.dir.join("charts").is_dir() {
        true => is_within(&own, recorded),
        false => is_equal(&own, recorded),
    }
}

/// Whether all of one is in the other.
fn is_within(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            part.iter().all(|(key, part)| whole.get(key).is_some_and(|whole| is_within(part, whole)))
        }
        (Value::Null, _) => true,
        (part, whole) => is_equal(part, whole),
    }
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

    fn is_same(chart: &Chart, recorded: &Value) -> bool {
        is_the_same(chart, &serde_json::from_value(recorded.clone()).unwrap())
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
        assert!(is_same(&chart(values, "a: b"), &recorded));
        assert!(!is_same(&chart(values, "a: c"), &recorded));
        assert!(!is_same(&chart("big: 2\nlist: [1, x]\n", "a: b"), &recorded));
        let mut other = recorded.clone();
        other["metadata"]["version"] = "0.2.0".into();
        assert!(!is_same(&chart(values, "a: b"), &other));
        let mut more = recorded.clone();
        more["files"] = json!([file("dashboard.json", "{}")]);
        assert!(!is_same(&chart(values, "a: b"), &more), "a file counts too");
        let mut below = recorded.clone();
        below["metadata"]["dependencies"] = json!([{"name": "b", "version": "1.0.0", "repository": ""}]);
        assert!(!is_same(&chart(values, "a: b"), &below), "the chart has no such subchart");
        let own = json!([{"name": "a", "version": "1.0.0", "alias": "b"}, {"name": "c", "version": "2.0.0"}]);
        assert!(are_used(&below["metadata"]["dependencies"], &own), "an alias, and one that is switched off");
        let mut thin = recorded;
        thin["templates"] = json!([]);
        assert!(!is_same(&chart(values, "a: b"), &thin));
    }
}
