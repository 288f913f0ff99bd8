//! Fields of a spec that the chart does not know: probably misspelt, since nothing uses them.
//!
//! ```text
//! values.yaml, values.schema.json ──▶ ChartValues ──┐
//!   of the chart and its subcharts                  ├──▶ Known ── a spec ──▶ unknown fields
//! text of all templates ──────────────▶ Usage ──────┘
//! ```
//! A warning that is wrong costs more than one that is missing. So only tables whose values all have names are checked: what templates
//! use as a whole, what is empty or null by default, and lists may hold anything. And a name that occurs anywhere in a template in a
//! place where it may mean the value is known, also if values.yaml does not list it.
//!
//! | module | what is in it |
//! |---|---|
//! | [`usage`] | which values the templates of a chart use, read from their text |
//! | [`tables`] | the values of a chart that are known by name |
//!
//! Pure, but for the files of a chart, which are read once.

mod tables;
mod usage;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::Mutex;

use crate::aside;
use crate::chart::{Chart, archive, files};
use crate::scaffold::values::ChartValues;
use crate::watches::suggest::nearest;
use tables::Table;
use usage::Usage;

/// How many fields are named. What follows is not looked for.
const MOST: usize = 5;
/// No value has a longer name. What is longer is cut, and compared with nothing.
const LONGEST_NAME: usize = 63;

/// The values that a chart knows.
#[derive(Debug)]
pub struct Known {
    table: Table,
    usage: Usage,
}

/// A field of a spec that is no value of the chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    path: String,
    /// The field that was probably meant.
    meant: Option<String>,
}

impl fmt::Display for UnknownField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        self.meant.iter().try_for_each(|meant| write!(f, " (did you mean {meant}?)"))
    }
}

/// A sentence for a person. None where all fields are known.
pub fn sentence(fields: &[UnknownField], chart: &str) -> Option<String> {
    let named: Vec<String> = fields.iter().take(MOST).map(ToString::to_string).collect();
    let more = if fields.len() > MOST { " and others" } else { "" };
    match fields {
        [] => None,
        [_] => Some(format!("The chart {chart} has no such value: {}", named.join(""))),
        _ => Some(format!("The chart {chart} has no such values: {}{more}", named.join(", "))),
    }
}

impl Known {
    /// Reads a chart. None where its values cannot be read: then nothing is said about a spec.
    pub fn of(chart: &Chart) -> Option<Self> {
        let values = ChartValues::of(chart).ok()?;
        let mut usage = Usage::default();
        read(&chart.dir, &mut usage).ok()?;
        let table = Table::of(&values, &usage);
        usage.forget_paths();
        Some(Known { table, usage })
    }

    /// The fields of a spec that the chart does not know: [`MOST`] of them, and one more if there are others.
    pub fn unknown(&self, spec: &Value) -> Vec<UnknownField> {
        let Value::Object(fields) = spec else { return vec![] };
        let mut found = vec![];
        self.look(fields, &self.table, &mut vec!["spec"], &mut found);
        if !found.is_empty() {
            let used = Usage::of_spec(spec);
            found.retain(|(name, _)| !used.mentions(name) && !used.below(&[]).any(|used| used == *name));
        }
        found.into_iter().map(|(_, field)| field).collect()
    }

    fn look<'a>(
        &'a self,
        written: &'a Map<String, Value>,
        table: &'a Table,
        path: &mut Vec<&'a str>,
        found: &mut Vec<(&'a str, UnknownField)>,
    ) {
        let Table::Named(known) = table else { return };
        for (name, value) in written {
            #[cfg(test)]
            crate::steps::count();
            if found.len() > MOST {
                return;
            }
            match (known.get(name.as_str()), value) {
                (Some(table), Value::Object(inner)) => {
                    path.push(name);
                    self.look(inner, table, path, found);
                    path.pop();
                }
                (Some(_), _) => {}
                // A null takes a default away, and there is none.
                (None, Value::Null) => {}
                (None, _) if is_private(name) || self.usage.mentions(name) => {}
                (None, _) => {
                    let meant = self.meant(name, known.keys().map(|known| &**known), path);
                    found.push((name, UnknownField { path: shown(path, name), meant }));
                }
            }
        }
    }

    /// A similar name beside it, or the only place where the same name is known.
    fn meant<'a>(&self, name: &str, beside: impl Iterator<Item = &'a str>, path: &[&str]) -> Option<String> {
        if name.len() > LONGEST_NAME {
            return None;
        }
        match nearest(name, beside) {
            Some(near) => Some(shown(path, near)),
            None => self.table.only_place_of(name).map(|place| format!("spec.{place}")),
        }
    }
}

/// Anchors and notes of whoever wrote the spec.
fn is_private(name: &str) -> bool {
    name.starts_with(['_', '.']) || name.starts_with("x-")
}

/// `spec.image.tag`, `spec.["a.b"]`
fn shown(path: &[&str], name: &str) -> String {
    let mut text = String::new();
    for step in path.iter().copied().chain([name]) {
        let step = match step.char_indices().nth(LONGEST_NAME) {
            Some((end, _)) => format!("{}…", &step[..end]),
            None => step.to_owned(),
        };
        match step.contains('.') {
            true => text.push_str(&format!("[{step:?}]")),
            false if text.is_empty() => text.push_str(&step),
            false => text.push_str(&format!(".{step}")),
        }
    }
    text
}

/// Reads all files of a chart and of its subcharts, packed ones too.
fn read(chart: &Path, usage: &mut Usage) -> Result<(), ()> {
    for found in files::list(chart).map_err(drop)? {
        let content = std::fs::read(&found.file).map_err(drop)?;
        read_file(&found.path, &content, usage)?;
    }
    Ok(())
}

fn read_file(path: &Path, content: &[u8], usage: &mut Usage) -> Result<(), ()> {
    let is_archive = path.extension().is_some_and(|extension| extension == "tgz");
    if is_archive && path.parent().is_some_and(|parent| parent.ends_with("charts")) {
        return archive::each_file(content, |path, _, entry| {
            let mut content = vec![];
            std::io::Read::read_to_end(entry, &mut content).map_err(drop)?;
            read_file(path, &content, usage)
        })
        .map_err(drop);
    }
    if let Ok(text) = std::str::from_utf8(content) {
        usage.read(path, text);
    }
    Ok(())
}

/// What the chart of a kind knows, read when it is first asked for and when the chart is another.
#[derive(Default)]
pub struct Fields(Mutex<Option<(String, Option<Arc<Known>>)>>);

impl Fields {
    pub async fn of(&self, chart: &Arc<Chart>) -> Option<Arc<Known>> {
        let mut held = self.0.lock().await;
        match &*held {
            Some((digest, known)) if *digest == chart.digest => known.clone(),
            _ => {
                let read = chart.clone();
                let known = aside::run(move || Known::of(&read)).await.map(Arc::new);
                *held = Some((chart.digest.clone(), known.clone()));
                known
            }
        }
    }
}

#[cfg(test)]
mod tests;
