//! The definitions of a project, made anew from its charts.
//!
//! Only what we made is made anew, which its header tells. A definition that somebody else wrote is named and left.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::crd::{self, CrdError, MADE, Options};
use super::draft::Draft;
use super::entries::{self, Entry};
use super::error::ScaffoldError;
use super::layout;
use super::values::ChartValues;
use crate::yaml;

const PLACE: &str = "config/crd/bases";

/// A definition as it is and as it shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewed {
    pub path: String,
    pub before: String,
    pub after: String,
}

/// All definitions of a project that follow from its charts, and what a person should know. Nothing is written, here or in the draft.
///
/// # Errors
/// There is no watches.yaml with an entry, or a chart or a definition cannot be read.
pub fn renewed(draft: &Draft, wanted: &Options) -> Result<(Vec<Renewed>, Vec<String>), ScaffoldError> {
    let entries = entries::read(&draft.read(layout::WATCHES)?.unwrap_or_default());
    if entries.is_empty() {
        return Err(ScaffoldError::NothingWatched);
    }
    let definitions = definitions(draft)?;
    let (mut all, mut notes) = (vec![], vec![]);
    for (at, entry) in entries.iter().enumerate() {
        let is_same = |other: &&Entry| other.is_of(&entry.group, &entry.kind);
        if entries[..at].iter().any(|other| is_same(&other)) {
            continue;
        }
        let found = definitions.iter().find(|(_, _, definition)| is_of(definition, entry));
        let Some((path, before, _)) = found else {
            notes.push(format!(
                "{PLACE} has no definition of {}; print one with `chartwright generate crd --chart {} --group {} --version {} --kind {}`",
                entry.kind, entry.chart, entry.group, entry.version, entry.kind
            ));
            continue;
        };
        if !before.lines().take_while(|line| line.starts_with('#')).any(|line| line.contains(MADE)) {
            notes.push(format!("{path} does not say that chartwright made it, and is left as it is"));
            continue;
        }
        let entries: Vec<&Entry> = entries.iter().filter(is_same).collect();
        let made = of_charts(draft, before, entry, &entries, wanted)
            .map_err(|reason| ScaffoldError::Generated { file: path.into(), reason })?;
        notes.extend(made.notes.into_iter().map(|note| format!("{}: {note}", entry.kind)));
        all.push(Renewed { path: path.clone(), before: before.clone(), after: made.text });
    }
    Ok((all, notes))
}

/// A version has the chart of its own entry, or else that of the kind.
fn of_charts(
    draft: &Draft,
    before: &str,
    first: &Entry,
    entries: &[&Entry],
    wanted: &Options,
) -> Result<crd::Definition, String> {
    let mut charts = BTreeMap::new();
    for entry in entries {
        let chart = ChartValues::read(&draft.root().join(&entry.chart)).map_err(|error| error.to_string())?;
        let values_from = wanted.values_from || entry.has_other_values;
        charts.insert(entry.version.as_str(), (chart, Options { values_from, ..wanted.clone() }));
    }
    let chart_of = |version: &str| {
        let (chart, options) = charts.get(version).unwrap_or(&charts[first.version.as_str()]);
        (chart, options.clone())
    };
    crd::renewed(before, chart_of).map_err(|error: CrdError| error.to_string())
}

fn is_of(definition: &Value, entry: &Entry) -> bool {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    definition["kind"] == "CustomResourceDefinition"
        && entry.is_of(&text(&spec["group"]), &text(&spec["names"]["kind"]))
}

/// Paths, texts and what they say, in the order of names.
fn definitions(draft: &Draft) -> Result<Vec<(String, String, Value)>, ScaffoldError> {
    let files = std::fs::read_dir(draft.root().join(PLACE)).into_iter().flatten().flatten();
    let mut names: Vec<String> = files.filter_map(|file| file.file_name().into_string().ok()).collect();
    names.retain(|name| Path::new(name).extension().is_some_and(|end| end == "yaml" || end == "yml"));
    names.sort();
    let mut found = vec![];
    for name in names {
        let path = format!("{PLACE}/{name}");
        let text = draft.read(&path)?.unwrap_or_default();
        let definition = yaml::parse(&text)
            .map_err(|error| ScaffoldError::Generated { file: path.clone().into(), reason: error.to_string() })?;
        found.push((path, text, definition));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaffold::api::Api;

    fn project() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        put(&dir, "watches.yaml", "- {group: example.com, version: v1, kind: Shop, chart: helm-charts/shop}\n");
        put(&dir, "helm-charts/shop/Chart.yaml", "apiVersion: v2\nname: shop\nversion: 0.1.0\n");
        put(&dir, "helm-charts/shop/values.yaml", "colour: red\n");
        let chart = ChartValues::read(&dir.path().join("helm-charts/shop")).unwrap();
        let api = Api::new("example.com", "v1", "Shop", true).unwrap();
        let made = crd::definition(&api, &chart, &Options::default()).unwrap();
        put(&dir, "config/crd/bases/example.com_shops.yaml", &made.text);
        dir
    }

    fn put(dir: &tempfile::TempDir, path: &str, text: &str) {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn renew(dir: &tempfile::TempDir) -> (Vec<Renewed>, Vec<String>) {
        renewed(&Draft::of(dir.path()), &Options::default()).unwrap()
    }

    #[test]
    fn a_definition_follows_its_chart() {
        let dir = project();
        let (same, notes) = renew(&dir);
        assert_eq!((same.len(), notes.len()), (1, 0));
        assert_eq!(same[0].before, same[0].after);
        put(&dir, "helm-charts/shop/values.yaml", "colour: red\nsize: 3\n");
        let (other, _) = renew(&dir);
        assert_eq!(other[0].path, "config/crd/bases/example.com_shops.yaml");
        assert!(!other[0].before.contains("size:") && other[0].after.contains("size:"));
    }

    #[test]
    fn nothing_is_required_where_a_watch_gives_values() {
        let dir = project();
        put(&dir, "helm-charts/shop/values.schema.json", r#"{"required": ["password"]}"#);
        assert!(renew(&dir).0[0].after.contains("- password"));
        let watch = "- {group: example.com, version: v1, kind: Shop, chart: helm-charts/shop, valuesFrom: [{kind: Secret, name: a}]}\n";
        put(&dir, "watches.yaml", watch);
        assert!(!renew(&dir).0[0].after.contains("- password"));
    }

    #[test]
    fn what_somebody_else_wrote_or_nobody_is_named_and_left() {
        let dir = project();
        let file = "config/crd/bases/example.com_shops.yaml";
        let text = std::fs::read_to_string(dir.path().join(file)).unwrap();
        put(&dir, file, text.split_once("apiVersion").map(|(_, rest)| format!("apiVersion{rest}")).unwrap().as_str());
        let (all, notes) = renew(&dir);
        assert_eq!(
            (all.len(), notes),
            (0, vec![format!("{file} does not say that chartwright made it, and is left as it is")])
        );
        std::fs::remove_file(dir.path().join(file)).unwrap();
        assert!(renew(&dir).1[0].contains("--chart helm-charts/shop --group example.com --version v1 --kind Shop"));
        put(&dir, "watches.yaml", "[]\n");
        assert!(renewed(&Draft::of(dir.path()), &Options::default()).is_err());
    }
}
