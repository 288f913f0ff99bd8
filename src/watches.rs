//! watches.yaml: which kind is made by which chart.
//!
//! The file is operator-sdk's: a list of entries. It is refused as a whole when any entry is wrong, since an operator
//! that silently serves half of its kinds is worse than one that does not start.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use kube::core::GroupVersionKind;
use serde::Deserialize;
use serde_yaml::Value;

use crate::chart::{Chart, ChartError};

/// One entry: a kind and the chart that makes it.
#[derive(Clone, Debug)]
pub struct Watch {
    pub gvk: GroupVersionKind,
    pub chart: Chart,
    pub watch_dependents: bool,
    pub overrides: crate::values::Overrides,
    pub selector: Option<String>,
    pub reconcile_period: Option<std::time::Duration>,
    pub max_concurrent: Option<usize>,
    pub release_namespace: Option<String>,
    pub prune: Prune,
    pub allow_empty: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prune {
    Safe,
    All,
}

/// An entry as it is written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    chart: String,
    #[serde(default = "yes")]
    watch_dependent_resources: bool,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

fn yes() -> bool {
    true
}

#[derive(Debug, thiserror::Error)]
pub enum WatchesError {
    #[error("cannot read {path}: {error}; name the file with --watches-file")]
    Read { path: PathBuf, error: std::io::Error },
    #[error("{path} is not a list of watches: {error}")]
    Syntax { path: PathBuf, error: serde_yaml::Error },
    #[error("{path} has no entries; add one with group, version, kind and chart")]
    Empty { path: PathBuf },
    #[error("{path}: entry {entry}: `{field}` is missing; every entry needs version, kind and chart")]
    Missing { path: PathBuf, entry: usize, field: &'static str },
    #[error("{path}: entry {entry}: {gvk} is already in entry {first}; one kind has one chart", gvk = shown(gvk))]
    Duplicate { path: PathBuf, entry: usize, first: usize, gvk: GroupVersionKind },
    #[error("{path}: entry {entry}: `chart`: {error}")]
    Chart { path: PathBuf, entry: usize, error: ChartError },
}

/// What was read, and what a person should know about it.
#[derive(Debug)]
pub struct Watches {
    pub entries: Vec<Watch>,
    pub warnings: Vec<String>,
}

/// Loads a watches file. Chart paths are relative to `base`, which is the working directory for the operator.
pub fn load(path: &Path, base: &Path) -> Result<Watches, WatchesError> {
    let text = std::fs::read_to_string(path).map_err(|error| WatchesError::Read { path: path.to_owned(), error })?;
    parse(&text, path, base)
}

fn parse(text: &str, path: &Path, base: &Path) -> Result<Watches, WatchesError> {
    let entries: Vec<Entry> =
        serde_yaml::from_str(text).map_err(|error| WatchesError::Syntax { path: path.to_owned(), error })?;
    if entries.is_empty() {
        return Err(WatchesError::Empty { path: path.to_owned() });
    }
    let mut watches = Watches { entries: vec![], warnings: vec![] };
    let mut seen: Vec<GroupVersionKind> = vec![];
    for (index, entry) in entries.into_iter().enumerate() {
        let number = index + 1;
        watches.warnings.extend(warnings(&entry, number, path));
        let watch = check(entry, number, path, base)?;
        if let Some(first) = seen.iter().position(|gvk| *gvk == watch.gvk) {
            let path = path.to_owned();
            return Err(WatchesError::Duplicate { path, entry: number, first: first + 1, gvk: watch.gvk });
        }
        seen.push(watch.gvk.clone());
        watches.entries.push(watch);
    }
    Ok(watches)
}

fn check(entry: Entry, number: usize, path: &Path, base: &Path) -> Result<Watch, WatchesError> {
    let required = [("version", &entry.version), ("kind", &entry.kind), ("chart", &entry.chart)];
    if let Some((field, _)) = required.into_iter().find(|(_, value)| value.is_empty()) {
        return Err(WatchesError::Missing { path: path.to_owned(), entry: number, field });
    }
    let chart = Chart::load(&base.join(&entry.chart)).map_err(|error| WatchesError::Chart {
        path: path.to_owned(),
        entry: number,
        error,
    })?;
    Ok(Watch {
        gvk: GroupVersionKind::gvk(&entry.group, &entry.version, &entry.kind),
        chart,
        watch_dependents: entry.watch_dependent_resources,
        overrides: Default::default(),
        selector: None,
        reconcile_period: None,
        max_concurrent: None,
        release_namespace: None,
        prune: Prune::Safe,
        allow_empty: false,
    })
}

/// Fields that this version does not act on. To ignore them silently would surprise whoever wrote them.
fn warnings(entry: &Entry, number: usize, path: &Path) -> Vec<String> {
    let planned: HashSet<_> =
        ["overrideValues", "selector", "reconcilePeriod", "dryRunOption", "maxConcurrentReconciles"].into();
    let warning = |field: &String| match planned.contains(field.as_str()) {
        true => format!("{}: entry {number}: `{field}` has no effect yet", path.display()),
        false => format!("{}: entry {number}: `{field}` is not a known field and is ignored", path.display()),
    };
    entry.rest.keys().map(warning).collect()
}

fn shown(gvk: &GroupVersionKind) -> String {
    format!("{} {}", gvk.api_version(), gvk.kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("charts/a")).unwrap();
        std::fs::write(dir.path().join("charts/a/Chart.yaml"), "apiVersion: v2\nname: a\nversion: 1.0.0\n").unwrap();
        dir
    }

    fn load_text(text: &str) -> Result<Watches, WatchesError> {
        let dir = project();
        parse(text, Path::new("watches.yaml"), dir.path())
    }

    fn message(text: &str) -> String {
        load_text(text).unwrap_err().to_string()
    }

    const GOOD: &str = "- {group: g.io, version: v1, kind: A, chart: charts/a}\n";

    #[test]
    fn a_good_file_gives_its_entries() {
        let watches = load_text(GOOD).unwrap();
        assert_eq!(watches.entries[0].gvk, GroupVersionKind::gvk("g.io", "v1", "A"));
        assert_eq!(watches.entries[0].chart.name, "a");
        assert!(watches.entries[0].watch_dependents);
        assert!(watches.warnings.is_empty());
    }

    #[test]
    fn a_group_may_be_empty() {
        assert_eq!(load_text("- {version: v1, kind: A, chart: charts/a}").unwrap().entries[0].gvk.group, "");
    }

    #[test]
    fn a_bad_file_gives_one_error_that_names_entry_and_field() {
        let second = |entry: &str| format!("{GOOD}- {entry}\n");
        let cases = [
            (second("{kind: B, chart: charts/a}"), "entry 2: `version` is missing"),
            (second("{version: v1, chart: charts/a}"), "entry 2: `kind` is missing"),
            (second("{version: v1, kind: B}"), "entry 2: `chart` is missing"),
            (second("{version: v1, kind: B, chart: charts/b}"), "entry 2: `chart`: "),
            (second("{group: g.io, version: v1, kind: A, chart: charts/a}"), "g.io/v1 A is already in entry 1"),
            ("version: v1\nkind: A\n".to_owned(), "is not a list of watches"),
            ("- [".to_owned(), "is not a list of watches"),
            ("[]".to_owned(), "has no entries"),
        ];
        for (text, expected) in cases {
            let message = message(&text);
            assert!(message.contains(expected), "{message:?} should contain {expected:?}");
            assert!(message.contains("watches.yaml"), "{message:?} should name the file");
        }
    }

    #[test]
    fn an_unknown_field_is_named_in_a_warning() {
        let watches = load_text("- {version: v1, kind: A, chart: charts/a, selectr: {}}").unwrap();
        assert_eq!(watches.warnings, ["watches.yaml: entry 1: `selectr` is not a known field and is ignored"]);
    }
}
