//! `valuesFrom`: ConfigMaps and Secrets that values come from, as Flux writes it.
//!
//! A list of maps. There is no namespace among their fields: objects are where the custom resource is.

use serde_json::{Map, Value};

use super::fields::{Problem, kind};
use super::suggest;
use crate::release::name::ObjectName;
use crate::values::from::{DEFAULT_KEY, MAX_REFERENCES, Source, SourceKind, TargetPath, is_key};

const FIELD: &str = "valuesFrom";
const KNOWN: [&str; 5] = ["kind", "name", "valuesKey", "targetPath", "optional"];

pub fn read(value: &Value) -> Result<Vec<Source>, Problem> {
    let wanted = "a list of maps with `kind` and `name`";
    let items = value.as_array().ok_or(Problem::Type { field: FIELD, wanted, found: kind(value) })?;
    if items.len() > MAX_REFERENCES {
        let count = items.len();
        return Err(wrong(format!("it has {count} items, but values come from at most {MAX_REFERENCES}")));
    }
    let numbered = items.iter().enumerate();
    numbered.map(|(index, it)| item(it).map_err(|why| wrong(format!("item {}: {why}", index + 1)))).collect()
}

fn item(value: &Value) -> Result<Source, String> {
    let map =
        value.as_object().ok_or_else(|| format!("it must be a map with `kind` and `name`, but is {}", kind(value)))?;
    if let Some(unknown) = map.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        let meant = suggest::nearest(unknown, KNOWN.iter().copied());
        let meant = meant.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
        return Err(format!("`{unknown}` is not known{meant}"));
    }
    let source_kind = match required(map, "kind")? {
        "ConfigMap" => SourceKind::ConfigMap,
        "Secret" => SourceKind::Secret,
        other => return Err(format!("`kind`: `{other}` is not known: write `ConfigMap` or `Secret`")),
    };
    let key = text(map, "valuesKey")?.unwrap_or(DEFAULT_KEY);
    if !is_key(key) {
        return Err(format!("`valuesKey`: {key:?} is not a key of a ConfigMap or a Secret"));
    }
    let optional = match map.get("optional") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(optional)) => *optional,
        Some(other) => return Err(format!("`optional` must be true or false, but is {}", kind(other))),
    };
    Ok(Source {
        kind: source_kind,
        name: ObjectName::parse(required(map, "name")?).map_err(|error| format!("`name`: {error}"))?,
        key: key.to_owned(),
        path: path(map)?,
        optional,
    })
}

fn path(map: &Map<String, Value>) -> Result<Option<TargetPath>, String> {
    let path = text(map, "targetPath")?.map(TargetPath::parse);
    path.transpose().map_err(|error| format!("`targetPath`: {error}"))
}

fn text<'a>(map: &'a Map<String, Value>, field: &str) -> Result<Option<&'a str>, String> {
    match map.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(format!("`{field}` must be text (write it in quotes), but is {}", kind(other))),
    }
}

fn required<'a>(map: &'a Map<String, Value>, field: &str) -> Result<&'a str, String> {
    text(map, field)?.ok_or_else(|| format!("`{field}` is missing; each item needs kind and name"))
}

fn wrong(message: String) -> Problem {
    Problem::ValuesFrom(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_item_is_read_with_its_defaults() {
        let all = json!([
            {"kind": "ConfigMap", "name": "common"},
            {"kind": "Secret", "name": "{{ .metadata.name }}-db", "valuesKey": "password", "targetPath": "db.password", "optional": true},
        ]);
        let all = read(&all).unwrap();
        let references: Vec<_> = all.iter().map(|it| it.reference("Web", Some("shop"), "a")).collect();
        let shown: Vec<_> = references.iter().map(|it| (it.to_string(), it.key.as_str(), it.optional)).collect();
        let expected = [("ConfigMap common", "values.yaml", false), ("Secret a-db", "password", true)];
        assert_eq!(shown, expected.map(|(what, key, optional)| (what.to_owned(), key, optional)));
        assert_eq!((references[0].path.is_some(), references[1].path.is_some()), (false, true));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (value, expected) in [
            (json!(vec![json!({}); 65]), "it has 65 items, but values come from at most 64"),
            (json!({}), "`valuesFrom` must be a list of maps with `kind` and `name`, but is a map"),
            (json!(["a"]), "item 1: it must be a map with `kind` and `name`, but is text"),
            (json!([{"name": "a"}]), "item 1: `kind` is missing"),
            (json!([{"kind": "Secret", "name": "a"}, {"kind": "Secret"}]), "item 2: `name` is missing"),
            (json!([{"kind": "secret", "name": "a"}]), "`secret` is not known: write `ConfigMap` or `Secret`"),
            (json!([{"kind": "Secret", "name": "a", "namespace": "b"}]), "`namespace` is not known"),
            (json!([{"kind": "Secret", "name": "a", "valueskey": "b"}]), "did you mean `valuesKey`?"),
            (json!([{"kind": "Secret", "name": "a", "valuesKey": "a/b"}]), "`valuesKey`: \"a/b\" is not a key"),
            (json!([{"kind": "Secret", "name": "a", "targetPath": "a..b"}]), "`targetPath`: a path holds an empty key"),
            (json!([{"kind": "Secret", "name": "a", "optional": "yes"}]), "`optional` must be true or false"),
            (json!([{"kind": "Secret", "name": "{{ .spec.x }}"}]), "`name`: `{{ .spec.x }}` is not known"),
            (json!([{"kind": "Secret", "name": 1}]), "`name` must be text"),
        ] {
            let message = read(&value).unwrap_err().to_string();
            assert!(message.contains(expected), "{message:?} should contain {expected:?}");
        }
    }
}
