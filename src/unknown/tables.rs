//! The values of a chart that are known by name.

use std::collections::BTreeMap;

use serde_json::Value;

use super::usage::Usage;
use crate::scaffold::values::ChartValues;

/// How deep values.yaml is followed.
const MOST_NESTED: usize = 32;
/// What every chart has.
const OF_HELM: [&str; 2] = ["global", "tags"];

/// The values below some place.
#[derive(Debug)]
pub enum Table {
    /// They may have any name, or it is no table.
    Open,
    Named(BTreeMap<Box<str>, Table>),
}

/// Where in the values of a chart a table is.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// From the values of the whole chart on.
    path: &'a [&'a str],
    /// Where in that the values of a subchart begin: its templates name what is there from there on.
    starts: &'a [usize],
}

impl Place<'_> {
    /// The path as the templates of each chart write it that has a part in it.
    fn written(&self) -> impl Iterator<Item = &[&str]> {
        self.starts.iter().map(|start| &self.path[*start..])
    }
}

impl Table {
    pub fn of(values: &ChartValues, usage: &Usage) -> Self {
        of_chart(values, &values.defaults, Place { path: &[], starts: &[0] }, usage)
    }

    /// The path of the only value of this name. None where there are several, or none.
    pub fn only_place_of(&self, name: &str) -> Option<String> {
        let mut places = vec![];
        self.places_of(name, &mut vec![], &mut places);
        match places.as_slice() {
            [_] => places.pop(),
            _ => None,
        }
    }

    fn places_of<'a>(&'a self, name: &str, path: &mut Vec<&'a str>, places: &mut Vec<String>) {
        let Table::Named(known) = self else { return };
        for (key, table) in known {
            path.push(key);
            if **key == *name {
                places.push(path.join("."));
            }
            table.places_of(name, path, places);
            path.pop();
        }
    }
}

/// The values of a chart or of a subchart. `defaults` has those of its parents in it.
fn of_chart(values: &ChartValues, defaults: &Value, place: Place<'_>, usage: &Usage) -> Table {
    let Value::Object(listed) = defaults else { return Table::Open };
    let is_empty = listed.keys().all(|name| OF_HELM.contains(&name.as_str()));
    let is_subchart = !place.path.is_empty();
    if is_empty || usage.is_enumerated || is_open(values.schema.as_ref()) || is_subchart && is_whole(place, usage) {
        return Table::Open;
    }
    let mut known = named(listed, place, usage);
    OF_HELM.iter().for_each(|name| drop(known.insert((*name).into(), Table::Open)));
    for subchart in &values.subcharts {
        let key = subchart.key.as_str();
        let path = [place.path, &[key]].concat();
        let starts = [place.starts, &[path.len()]].concat();
        let below = Place { path: &path, starts: &starts };
        let defaults = listed.get(key).unwrap_or(&subchart.chart.defaults);
        known.insert(key.into(), of_chart(&subchart.chart, defaults, below, usage));
    }
    Table::Named(known)
}

/// The tables below some place, each with what templates use of it.
fn named(listed: &serde_json::Map<String, Value>, place: Place<'_>, usage: &Usage) -> BTreeMap<Box<str>, Table> {
    let mut known = BTreeMap::new();
    for (name, value) in listed {
        let path = [place.path, &[name.as_str()]].concat();
        let below = Place { path: &path, ..place };
        known.insert(name.as_str().into(), of_value(value, below, usage));
    }
    for path in place.written() {
        for name in usage.below(path) {
            known.entry(name.into()).or_insert(Table::Open);
        }
    }
    known
}

fn of_value(value: &Value, place: Place<'_>, usage: &Usage) -> Table {
    match value {
        Value::Object(listed) if !listed.is_empty() && place.path.len() < MOST_NESTED && !is_whole(place, usage) => {
            Table::Named(named(listed, place, usage))
        }
        _ => Table::Open,
    }
}

/// Whether a schema says that there may be values of any name.
fn is_open(schema: Option<&Value>) -> bool {
    let lets_in = |key: &str| schema.and_then(|schema| schema.get(key)).is_some_and(|it| *it != Value::Bool(false));
    lets_in("additionalProperties") || lets_in("patternProperties")
}

fn is_whole(place: Place<'_>, usage: &Usage) -> bool {
    place.written().any(|path| usage.is_whole(path))
}
