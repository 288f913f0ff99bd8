//! What a chart says about its values: the defaults, the comments, the schema, and those of its subcharts.
//!
//! Defaults are merged as Helm does it, those of a subchart under its name or alias. A library chart lends its defaults, but has no values
//! to set, and is no subchart. Nothing is rendered and nothing is judged here.
//!
//! | module | what is in it |
//! |---|---|
//! | [`comments`] | which comment of values.yaml describes which value |
//! | [`scan`] | the keys and comments of values.yaml, line by line |

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::chart::{Chart, ChartError, references};
use crate::yaml::{self, YamlError};

pub mod comments;
mod scan;

pub use comments::Field;

/// Charts in charts in charts: more is a mistake.
const MOST_NESTED: usize = 8;

/// A chart's values, with those of its subcharts.
#[derive(Clone, Debug, Default)]
pub struct ChartValues {
    /// The chart's name.
    pub name: String,
    /// What Chart.yaml says that it is.
    pub description: String,
    /// values.yaml as it is.
    pub text: String,
    /// What holds where nobody says anything, subcharts included.
    pub defaults: Value,
    /// What the comments say, subcharts included.
    pub fields: Field,
    /// values.schema.json.
    pub schema: Option<Value>,
    pub subcharts: Vec<Subchart>,
}

#[derive(Clone, Debug)]
pub struct Subchart {
    /// Where its values are in those of the parent.
    pub key: String,
    /// It may be switched off, and then helm does not look at its schema.
    pub is_conditional: bool,
    /// The parent's own values have something there.
    pub is_in_values: bool,
    pub chart: ChartValues,
}

#[derive(Debug, thiserror::Error)]
pub enum ValuesError {
    #[error(transparent)]
    Chart(#[from] ChartError),
    #[error("{file} cannot be read as values: {error}")]
    Syntax { file: PathBuf, error: YamlError },
    #[error("{file} cannot be read as values: it is no map")]
    NotAMap { file: PathBuf },
    #[error("{file} is not JSON: {reason}")]
    Schema { file: PathBuf, reason: String },
    #[error("{0} has charts in charts more than {MOST_NESTED} levels deep")]
    TooDeep(PathBuf),
}

impl ChartValues {
    /// Reads a chart directory or a packed chart.
    ///
    /// # Errors
    /// What helm could not read either.
    pub fn read(chart: &Path) -> Result<Self, ValuesError> {
        Self::of_chart(&Chart::load(chart)?, 0)
    }

    /// The same of a chart that is loaded already.
    ///
    /// # Errors
    /// As [`ChartValues::read`].
    pub fn of(chart: &Chart) -> Result<Self, ValuesError> {
        Self::of_chart(chart, 0)
    }

    /// Values that are at hand as text, for a chart without subcharts.
    ///
    /// # Errors
    /// Where the text is no map of values.
    pub fn from_text(name: &str, text: &str, schema: Option<Value>) -> Result<Self, ValuesError> {
        let file = PathBuf::from("values.yaml");
        let (defaults, fields) = parsed(text, &file)?;
        Ok(ChartValues { name: name.into(), text: text.into(), defaults, fields, schema, ..ChartValues::default() })
    }

    fn of_chart(chart: &Chart, depth: usize) -> Result<Self, ValuesError> {
        if depth > MOST_NESTED {
            return Err(ValuesError::TooDeep(chart.origin.clone()));
        }
        let text = std::fs::read_to_string(chart.dir.join("values.yaml")).unwrap_or_default();
        let (defaults, fields) = parsed(&text, &chart.origin.join("values.yaml"))?;
        let mut values = ChartValues {
            name: chart.name.clone(),
            description: chart.metadata["description"].as_str().unwrap_or_default().to_owned(),
            text,
            defaults,
            fields,
            schema: schema_of(chart)?,
            subcharts: vec![],
        };
        for dependency in dependencies(chart)? {
            let chart = ChartValues::of_chart(&dependency.chart, depth + 1)?;
            let is_in_values = values.defaults.get(&dependency.key).is_some();
            values.give(&dependency.key, &chart.defaults);
            values.import(&dependency.imports, &chart.defaults);
            if !dependency.is_library {
                values.fields.child(&dependency.key).merge_below(&chart.fields);
                let Dependency { key, is_conditional, .. } = dependency;
                values.subcharts.push(Subchart { key, is_conditional, is_in_values, chart });
            }
        }
        Ok(values)
    }

    /// The parent's own values win, as in Helm.
    fn give(&mut self, key: &str, values: &Value) {
        let Value::Object(defaults) = &mut self.defaults else { return };
        let own = defaults.entry(key).or_insert_with(|| Value::Object(Map::new()));
        merge_below(own, values);
        // helm puts it there, also where nobody has any.
        if let Value::Object(own) = own {
            own.entry("global").or_insert_with(|| Value::Object(Map::new()));
        }
    }

    /// `import-values` of a dependency: parts of its values become the parent's.
    fn import(&mut self, imports: &[(String, String)], values: &Value) {
        for (from, to) in imports {
            let pointer = |path: &str| path.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect();
            let (from, to): (Vec<String>, Vec<String>) = (pointer(from), pointer(to));
            let found = from.iter().try_fold(values, |value, key| value.get(key));
            let Some(found) = found else { continue };
            let wrapped =
                to.iter().rev().fold(found.clone(), |value, key| Value::Object(Map::from_iter([(key.clone(), value)])));
            merge_below(&mut self.defaults, &wrapped);
        }
    }
}

fn parsed(text: &str, file: &Path) -> Result<(Value, Field), ValuesError> {
    let wrong = |error| ValuesError::Syntax { file: file.to_owned(), error };
    let defaults = match yaml::parse(text).map_err(wrong)? {
        Value::Null => Value::Object(Map::new()),
        map @ Value::Object(_) => map,
        _ => return Err(ValuesError::NotAMap { file: file.to_owned() }),
    };
    let fields = comments::read(text, &defaults);
    Ok((defaults, fields))
}

fn schema_of(chart: &Chart) -> Result<Option<Value>, ValuesError> {
    let Ok(text) = std::fs::read(chart.dir.join("values.schema.json")) else { return Ok(None) };
    let wrong = |error: serde_json::Error| ValuesError::Schema {
        file: chart.origin.join("values.schema.json"),
        reason: error.to_string(),
    };
    references::parsed(&text).map(Some).map_err(wrong)
}

/// Fills what is missing; maps are merged, all else stays.
pub(crate) fn merge_below(over: &mut Value, under: &Value) {
    let (Value::Object(over), Value::Object(under)) = (over, under) else { return };
    for (key, value) in under {
        match over.get_mut(key) {
            Some(own) => merge_below(own, value),
            None => drop(over.insert(key.clone(), value.clone())),
        }
    }
}

struct Dependency {
    key: String,
    is_conditional: bool,
    is_library: bool,
    /// From a path in its values to one in the parent's.
    imports: Vec<(String, String)>,
    chart: Chart,
}

/// The charts in charts/, each as often as Chart.yaml names it.
fn dependencies(chart: &Chart) -> Result<Vec<Dependency>, ValuesError> {
    let entries = entries(chart);
    let mut found = vec![];
    for packed in vendored(&chart.dir) {
        let subchart = match Chart::load_part(&packed) {
            Ok(subchart) => subchart,
            Err(ChartError::NoChartFile(_)) => continue,
            Err(error) => return Err(error.into()),
        };
        let is_library = subchart.is_library();
        let named: Vec<&Value> = entries.iter().filter(|entry| entry["name"] == subchart.name.as_str()).collect();
        if named.is_empty() {
            let key = subchart.name.clone();
            found.push(Dependency { key, is_conditional: false, is_library, imports: vec![], chart: subchart.clone() });
        }
        for entry in named {
            let alias = entry["alias"].as_str().filter(|alias| !alias.is_empty());
            found.push(Dependency {
                key: alias.unwrap_or(&subchart.name).to_owned(),
                is_conditional: is_conditional(entry),
                is_library,
                imports: imports(entry),
                chart: subchart.clone(),
            });
        }
    }
    Ok(found)
}

fn is_conditional(entry: &Value) -> bool {
    let has_tags = entry["tags"].as_array().is_some_and(|tags| !tags.is_empty());
    has_tags || entry["condition"].as_str().is_some_and(|condition| !condition.trim().is_empty())
}

fn imports(entry: &Value) -> Vec<(String, String)> {
    let list = entry["import-values"].as_array().into_iter().flatten();
    let pair = |item: &Value| match item {
        Value::String(name) => Some((format!("exports.{name}"), String::new())),
        item => Some((item["child"].as_str()?.to_owned(), item["parent"].as_str()?.trim_matches('.').to_owned())),
    };
    list.filter_map(pair).collect()
}

/// Chart.yaml's, or for older charts requirements.yaml's.
fn entries(chart: &Chart) -> Vec<Value> {
    if let Some(list) = chart.metadata["dependencies"].as_array() {
        return list.clone();
    }
    let text = std::fs::read_to_string(chart.dir.join("requirements.yaml")).unwrap_or_default();
    let parsed = yaml::parse(&text).unwrap_or_default();
    parsed["dependencies"].as_array().cloned().unwrap_or_default()
}

/// What is in charts/, in the order of names.
fn vendored(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir.join("charts")) else { return vec![] };
    let is_chart = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_hidden = name.starts_with(['.', '_']);
        !is_hidden && (path.is_dir() || name.ends_with(".tgz"))
    };
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_chart).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chart(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let file = dir.path().join("app").join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        dir
    }

    #[test]
    fn a_subchart_has_its_values_under_its_alias_and_the_parents_win() {
        let dir = chart(&[
            (
                "Chart.yaml",
                "apiVersion: v2\nname: app\nversion: 1.0.0\ndependencies:\n- {name: db, version: 1.0.0, alias: store, condition: store.enabled}\n- {name: db, version: 1.0.0, alias: cache, import-values: [data, {child: port, parent: cachePort}]}\n- {name: lib, version: 1.0.0, import-values: [shared]}\n",
            ),
            ("values.yaml", "store:\n  # Ours.\n  size: 2\nglobal: {zone: a}\n"),
            ("charts/db/Chart.yaml", "apiVersion: v2\nname: db\nversion: 1.0.0\n"),
            ("charts/db/values.yaml", "# How large.\nsize: 1\n# Where.\nport: 5432\nexports: {data: {user: me}}\n"),
            ("charts/db/values.schema.json", "{\"type\": \"object\"}"),
            ("charts/lib/Chart.yaml", "apiVersion: v2\nname: lib\nversion: 1.0.0\ntype: library\n"),
            ("charts/lib/values.yaml", "exports: {shared: {town: here}}\n"),
            ("charts/own/Chart.yaml", "apiVersion: v2\nname: own\nversion: 1.0.0\n"),
        ]);
        let values = ChartValues::read(&dir.path().join("app")).unwrap();
        let keys: Vec<_> = values.subcharts.iter().map(|sub| (sub.key.as_str(), sub.is_conditional)).collect();
        assert_eq!(keys, [("store", true), ("cache", false), ("own", false)]);
        assert_eq!(values.defaults["store"]["size"], 2);
        assert_eq!(values.defaults["store"]["port"], 5432);
        assert_eq!(values.defaults["cache"]["size"], 1);
        assert_eq!(values.defaults["own"], json!({"global": {}}));
        assert_eq!((&values.defaults["user"], &values.defaults["cachePort"]), (&json!("me"), &json!(5432)));
        assert_eq!((&values.defaults["town"], &values.defaults["lib"]["global"]), (&json!("here"), &json!({})));
        let is_in_values: Vec<bool> = values.subcharts.iter().map(|sub| sub.is_in_values).collect();
        assert_eq!(is_in_values, [true, false, false]);
        assert!(values.subcharts[0].chart.schema.is_some());
        let store = values.fields.get("store").unwrap();
        assert_eq!(store.get("size").unwrap().description, "Ours.");
        assert_eq!(store.get("port").unwrap().description, "Where.");
    }

    #[test]
    fn what_is_no_map_of_values_is_refused_with_its_file() {
        let wrong = |text: &str| ChartValues::from_text("app", text, None).unwrap_err().to_string();
        assert_eq!(wrong("- a"), "values.yaml cannot be read as values: it is no map");
        assert!(wrong("a: [").starts_with("values.yaml cannot be read as values: line "));
        assert_eq!(ChartValues::from_text("app", "# nothing\n", None).unwrap().defaults, json!({}));
    }

    #[test]
    fn a_schema_may_begin_with_a_byte_order_mark() {
        let dir = chart(&[
            ("Chart.yaml", "apiVersion: v2\nname: app\nversion: 1.0.0\n"),
            ("values.schema.json", "\u{feff}{\"type\": \"object\"}"),
        ]);
        let values = ChartValues::read(&dir.path().join("app")).unwrap();
        assert_eq!(values.schema, Some(json!({"type": "object"})));
    }
}
