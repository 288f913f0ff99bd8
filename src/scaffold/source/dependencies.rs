//! Which charts a chart needs, and which of them it has in charts/.
//!
//! A chart that has them all needs no network: as its lock file says, or without one by their names, which is all that helm asks for when
//! it renders.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::scaffold::error::ScaffoldError;
use crate::yaml;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    pub name: String,
    pub version: String,
    /// An address, `@name`, `alias:name`, `file://…` or nothing.
    pub repository: String,
}

/// What has to be fetched.
#[derive(Debug, PartialEq, Eq)]
pub struct Missing {
    /// All dependencies: helm fetches them together.
    pub dependencies: Vec<Dependency>,
    /// Whether a lock file says which versions.
    pub is_locked: bool,
}

/// None where nothing is missing.
pub fn missing(chart: &Path) -> Result<Option<Missing>, ScaffoldError> {
    let dependencies = declared(chart)?;
    let lock = ["Chart.lock", "requirements.lock"].into_iter().find(|name| chart.join(name).is_file());
    let locked = lock.map(|name| listed(&chart.join(name))).transpose()?;
    let vendored = vendored(&chart.join("charts"));
    let is_there = |dependency: &Dependency, is_exact: bool| {
        vendored.iter().any(|(name, version)| *name == dependency.name && (!is_exact || *version == dependency.version))
    };
    let has_all = match &locked {
        Some(locked) => {
            locked.iter().all(|one| is_there(one, true)) && dependencies.iter().all(|one| is_there(one, false))
        }
        None => dependencies.iter().all(|one| is_there(one, false)),
    };
    Ok((!has_all).then_some(Missing { dependencies, is_locked: locked.is_some() }))
}

/// The paths of dependencies that are directories beside the chart, relative to it.
pub fn neighbours(chart: &Path) -> Result<Vec<PathBuf>, ScaffoldError> {
    let paths =
        declared(chart)?.into_iter().filter_map(|one| one.repository.strip_prefix("file://").map(PathBuf::from));
    Ok(paths.filter(|path| path.is_relative()).collect())
}

/// What Chart.yaml lists, or in older charts requirements.yaml.
fn declared(chart: &Path) -> Result<Vec<Dependency>, ScaffoldError> {
    let mut all = listed(&chart.join("Chart.yaml"))?;
    if chart.join("requirements.yaml").is_file() {
        all.extend(listed(&chart.join("requirements.yaml"))?);
    }
    Ok(all)
}

fn listed(file: &Path) -> Result<Vec<Dependency>, ScaffoldError> {
    let name = || PathBuf::from(file.file_name().unwrap_or_default());
    let text = std::fs::read_to_string(file).map_err(|error| ScaffoldError::Read { file: name(), error })?;
    let content =
        yaml::parse(&text).map_err(|error| ScaffoldError::Generated { file: name(), reason: error.to_string() })?;
    let field = |value: &Value, name: &str| match &value[name] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let entries = content["dependencies"].as_array().cloned().unwrap_or_default();
    let dependency = |entry: &Value| Dependency {
        name: field(entry, "name"),
        version: field(entry, "version"),
        repository: field(entry, "repository"),
    };
    Ok(entries.iter().map(dependency).collect())
}

/// Names and versions of what lies in charts/, unpacked or packed. What cannot be read is not there.
fn vendored(charts: &Path) -> BTreeSet<(String, String)> {
    let entries = std::fs::read_dir(charts).into_iter().flatten().flatten();
    entries.flat_map(|entry| of_entry(&entry.path())).collect()
}

fn of_entry(path: &Path) -> Vec<(String, String)> {
    if path.is_dir() {
        let text = std::fs::read_to_string(path.join("Chart.yaml")).unwrap_or_default();
        let metadata = yaml::parse(&text).unwrap_or_default();
        let field = |name: &str| metadata[name].as_str().map(str::to_owned);
        return field("name").zip(field("version")).into_iter().collect();
    }
    let Some(stem) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".tgz")) else { return vec![] };
    // Both names and versions may have dashes: `a-b-1.0.0-rc.1` is read in every way.
    stem.match_indices('-').map(|(at, _)| (stem[..at].to_owned(), stem[at + 1..].to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        dir
    }

    const NEEDS: (&str, &str) =
        ("Chart.yaml", "name: a\ndependencies:\n- {name: my-db, version: '>=1', repository: 'file://../my-db'}\n");
    const LOCK: (&str, &str) = ("Chart.lock", "dependencies:\n- {name: my-db, version: 1.2.0, repository: x}\n");

    fn is_missing(files: &[(&str, &str)]) -> bool {
        missing(chart(files).path()).unwrap().is_some()
    }

    #[test]
    fn a_chart_with_all_that_it_needs_needs_no_network() {
        assert!(!is_missing(&[("Chart.yaml", "name: a\n")]));
        assert!(is_missing(&[NEEDS]));
        assert!(!is_missing(&[NEEDS, ("charts/my-db-1.3.0.tgz", "")]));
        assert!(!is_missing(&[NEEDS, LOCK, ("charts/my-db-1.2.0.tgz", "")]));
        assert!(!is_missing(&[NEEDS, LOCK, ("charts/my-db/Chart.yaml", "name: my-db\nversion: 1.2.0\n")]));
    }

    #[test]
    fn another_version_than_the_locked_one_is_missing() {
        assert!(is_missing(&[NEEDS, LOCK, ("charts/my-db-1.3.0.tgz", "")]));
        assert!(is_missing(&[
            ("Chart.yaml", "apiVersion: v1\nname: a\n"),
            ("requirements.yaml", "dependencies: [{name: x}]\n")
        ]));
    }

    #[test]
    fn charts_beside_the_chart_are_known_by_their_paths() {
        assert_eq!(neighbours(chart(&[NEEDS]).path()).unwrap(), [PathBuf::from("../my-db")]);
    }
}
