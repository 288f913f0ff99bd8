//! Lists of objects, which charts may print in place of the objects. Pure.
//!
//! What a list says about its items is copied into each of them, so a text of a few kilobytes can stand for gigabytes. Copies count like
//! values of the text.

use serde_json::{Map, Value};

use super::{Budget, HOOK, Limit};

/// What a document holds: an object, or those of a list.
pub(super) struct Items {
    pub all: Vec<Value>,
    pub is_list: bool,
    /// Whether what they say about hooks means something.
    pub may_be_hooks: bool,
}

pub(super) fn items(document: Value, left: &mut Budget) -> Result<Items, Limit> {
    let of_list = list_hook(&document);
    let is_list = of_list.is_some();
    let mut all = vec![];
    flatten(document, left, &mut all)?;
    let may_be_hooks = match of_list {
        None => true,
        Some(annotations) if annotations.contains_key(HOOK) => {
            let length = annotations.iter().map(|(key, value)| key.len() + value.to_string().len()).sum();
            for item in &mut all {
                left.copy(annotations.len(), length)?;
                inherit(item, &annotations);
            }
            true
        }
        Some(_) => false,
    };
    Ok(Items { all, is_list, may_be_hooks })
}

/// The hook annotations of a list, if the document is one. Helm looks at documents: what the items of a list say about hooks
/// means nothing to it, and a list that is a hook is one as a whole.
fn list_hook(document: &Value) -> Option<Map<String, Value>> {
    if !is_list(document) {
        return None;
    }
    let annotations = document.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten();
    Some(
        annotations.filter(|(key, _)| key.starts_with(HOOK)).map(|(key, value)| (key.clone(), value.clone())).collect(),
    )
}

/// Has an item say what its list says about hooks.
fn inherit(item: &mut Value, annotations: &Map<String, Value>) {
    let is_map = |value: Option<&Value>| value.is_none_or(Value::is_object);
    if !item.is_object() || !is_map(item.get("metadata")) {
        // Whoever reads it as an object complains.
        return;
    }
    let own = &mut item["metadata"]["annotations"];
    if !own.is_object() {
        *own = Value::Object(Map::new());
    }
    for (key, value) in annotations {
        #[cfg(test)]
        crate::steps::count();
        own[key] = value.clone();
    }
}

/// An empty document is nothing; a `List` is its items. In a `ConfigMapList`, an item may leave out what it is.
fn flatten(value: Value, left: &mut Budget, all: &mut Vec<Value>) -> Result<(), Limit> {
    #[cfg(test)]
    crate::steps::count();
    let is_list = is_list(&value);
    match value {
        Value::Null => {}
        Value::Object(mut map) if is_list => {
            let Some(Value::Array(items)) = map.remove("items") else { return Ok(()) };
            let text = |key: &str| map.get(key).and_then(Value::as_str);
            let kind = text("kind").and_then(|kind| kind.strip_suffix("List")).filter(|kind| !kind.is_empty());
            let types = text("apiVersion").zip(kind);
            for mut item in items {
                if let Some(types) = types {
                    add_types(&mut item, types, left)?;
                }
                flatten(item, left, all)?;
            }
        }
        other => all.push(other),
    }
    Ok(())
}

/// Gives an item of a list the type that the list says, unless it says one itself.
fn add_types(item: &mut Value, (api_version, kind): (&str, &str), left: &mut Budget) -> Result<(), Limit> {
    let is_untyped = |map: &&mut Map<String, Value>| !map.contains_key("apiVersion") && !map.contains_key("kind");
    if let Some(map) = item.as_object_mut().filter(is_untyped) {
        left.copy(2, api_version.len() + kind.len())?;
        map.insert("apiVersion".to_owned(), api_version.into());
        map.insert("kind".to_owned(), kind.into());
    }
    Ok(())
}

fn is_list(value: &Value) -> bool {
    let is_named_so = value.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    is_named_so && value.get("items").is_some_and(|items| items.is_array() || items.is_null())
}
