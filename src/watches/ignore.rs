//! `ignoreFields`: fields of a release's objects that others may decide.
//!
//! A list. An item is a path, for all objects, or `paths` with a `target`, as Flux writes it.

use serde_json::{Map, Value};

use super::fields::{Problem, kind};
use crate::drift::Rule;
use crate::listeners::{Ignore, Selector};

const FIELD: &str = "ignoreFields";

pub fn read(value: &Value) -> Result<Vec<Ignore>, Problem> {
    let wanted = "a list of paths, or of `paths` with a `target`";
    let items = value.as_array().ok_or(Problem::Type { field: FIELD, wanted, found: kind(value) })?;
    items.iter().map(item).collect()
}

fn item(value: &Value) -> Result<Ignore, Problem> {
    match value {
        Value::String(path) => Ok(Ignore { target: Selector::default(), paths: vec![rule(path)?] }),
        Value::Object(map) => {
            if let Some(unknown) = map.keys().find(|key| !matches!(key.as_str(), "paths" | "target")) {
                return Err(wrong(format!("`{unknown}` is not known; an item has `paths` and `target`")));
            }
            let paths = map.get("paths").and_then(Value::as_array).filter(|paths| !paths.is_empty());
            let paths = paths.ok_or_else(|| wrong("an item needs `paths`, a list".to_owned()))?;
            let paths = paths.iter().map(|path| match path {
                Value::String(path) => rule(path),
                other => Err(wrong(format!("a path is text, not {}", kind(other)))),
            });
            Ok(Ignore { target: target(map)?, paths: paths.collect::<Result<_, _>>()? })
        }
        other => Err(wrong(format!("an item is a path or a map, not {}", kind(other)))),
    }
}

fn target(item: &Map<String, Value>) -> Result<Selector, Problem> {
    let mut selector = Selector::default();
    let empty = Map::new();
    let target = match item.get("target") {
        None | Some(Value::Null) => &empty,
        Some(Value::Object(target)) => target,
        Some(other) => return Err(wrong(format!("`target` is a map, not {}", kind(other)))),
    };
    for (key, value) in target {
        let text = value.as_str().ok_or_else(|| wrong(format!("`target.{key}` is text, not {}", kind(value))))?;
        let place = match key.as_str() {
            "group" => &mut selector.group,
            "kind" => &mut selector.kind,
            "namespace" => &mut selector.namespace,
            "name" => &mut selector.name,
            _ => return Err(wrong(format!("`target.{key}` is not known; there are group, kind, namespace and name"))),
        };
        *place = Some(text.to_owned());
    }
    Ok(selector)
}

fn rule(path: &str) -> Result<Rule, Problem> {
    Rule::parse(path).map_err(|error| wrong(error.to_string()))
}

fn wrong(message: String) -> Problem {
    Problem::IgnoreFields(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_path_is_for_all_and_a_target_narrows_it() {
        let read =
            read(&json!(["/spec/replicas", {"paths": ["/data"], "target": {"kind": "ConfigMap", "name": "a-*"}}]));
        let read = read.unwrap();
        assert_eq!(read[0].target, Selector::default());
        let selector = Selector { kind: Some("ConfigMap".into()), name: Some("a-*".into()), ..Selector::default() };
        assert_eq!((&read[1].target, read[1].paths.len()), (&selector, 1));
    }

    #[test]
    fn mistakes_are_told_and_never_ignored() {
        for (value, part) in [
            (json!("/spec"), "a list"),
            (json!(["spec"]), "not a path"),
            (json!([{"target": {}}]), "needs `paths`"),
            (json!([{"paths": ["/a"], "to": 1}]), "`to`"),
            (json!([{"paths": ["/a"], "target": {"label": "x"}}]), "target.label"),
            (json!([1]), "not a number"),
        ] {
            let message = read(&value).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
