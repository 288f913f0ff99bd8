//! Objects by their place, and the paths of their fields. Pure.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

/// The kind of a release record once it is decoded. No API server has it.
pub const RECORD: &str = "Record";
/// The kind of the order in which hooks ran. No API server has it either.
pub const HOOKS: &str = "Hooks";

/// What an object is called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    pub kind: String,
    pub group: String,
    pub namespace: Option<String>,
    pub name: String,
}

pub type Objects = BTreeMap<Id, Value>;

/// The way to a field. An item of a list is named by its number.
pub type Path = Vec<String>;

impl Id {
    pub fn of(object: &Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let version = text("/apiVersion").unwrap_or_default();
        Id {
            kind: text("/kind").unwrap_or_default(),
            group: version.split_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default(),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name").unwrap_or_default(),
        }
    }

    /// Of a rendered object: where it names no namespace, it is in that of the release. So is one that has none; [`find`] knows.
    pub fn rendered(object: &Value, namespace: &str) -> Self {
        let id = Id::of(object);
        Id { namespace: id.namespace.clone().or_else(|| Some(namespace.to_owned())), ..id }
    }

    /// All of it as one text, which [`Id::parse`] reads.
    pub fn key(&self) -> String {
        let dot = if self.group.is_empty() { "" } else { "." };
        let namespace = self.namespace.iter().map(|namespace| format!("{namespace}/")).collect::<String>();
        format!("{}{dot}{} {namespace}{}", self.kind, self.group, self.name)
    }

    pub fn parse(key: &str) -> Option<Self> {
        let (kind, name) = key.split_once(' ')?;
        let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
        let (namespace, name) = name.split_once('/').map_or((None, name), |(namespace, name)| (Some(namespace), name));
        let namespace = namespace.map(str::to_owned);
        Some(Id { kind: kind.into(), group: group.into(), namespace, name: name.into() })
    }
}

/// What belongs to an object of an API server in a map by rendered names. One without a namespace may have been rendered in any.
pub fn find<'a, T>(rendered: &'a BTreeMap<Id, T>, id: &Id) -> Option<&'a T> {
    let anywhere = |it: &Id| (&it.kind, &it.group, &it.name) == (&id.kind, &id.group, &id.name);
    match id.namespace {
        Some(_) => rendered.get(id),
        None => rendered.iter().find(|(it, _)| anywhere(it)).map(|(_, found)| found),
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// A path as a JSON pointer.
pub fn pointer(path: &[String]) -> String {
    let escaped = path.iter().map(|segment| segment.replace('~', "~0").replace('/', "~1"));
    escaped.map(|segment| format!("/{segment}")).collect()
}

/// The segments of a JSON pointer.
pub fn segments(pointer: &str) -> Path {
    let parts = pointer.split('/').skip(1).filter(|part| !part.is_empty());
    parts.map(|part| part.replace("~1", "/").replace("~0", "~")).collect()
}

pub fn at<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, segment| match value {
        Value::Object(map) => map.get(segment),
        Value::Array(items) => items.get(segment.parse::<usize>().ok()?),
        _ => None,
    })
}

/// A field in which two values differ, with what each of them has there.
#[derive(Debug, PartialEq)]
pub struct Unequal<'a> {
    pub path: Path,
    pub left: Option<&'a Value>,
    pub right: Option<&'a Value>,
}

/// Every field in which two objects differ. Of a map that only one of them has, each entry; of a list, each item.
pub fn unequal<'a>(left: Option<&'a Value>, right: Option<&'a Value>) -> Vec<Unequal<'a>> {
    let mut found = vec![];
    walk(left, right, &mut vec![], &mut found);
    found
}

fn walk<'a>(left: Option<&'a Value>, right: Option<&'a Value>, path: &mut Path, found: &mut Vec<Unequal<'a>>) {
    let mut step = |segment: String, left, right, path: &mut Path| {
        path.push(segment);
        walk(left, right, path, found);
        path.pop();
    };
    match (left, right) {
        (Some(left), Some(right)) if same(left, right) => {}
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            for (key, value) in left {
                step(key.clone(), Some(value), right.get(key), path);
            }
            for (key, value) in right.iter().filter(|(key, _)| !left.contains_key(*key)) {
                step(key.clone(), None, Some(value), path);
            }
        }
        (Some(Value::Object(map)), None) if !map.is_empty() => {
            map.iter().for_each(|(key, value)| step(key.clone(), Some(value), None, path));
        }
        (None, Some(Value::Object(map))) if !map.is_empty() => {
            map.iter().for_each(|(key, value)| step(key.clone(), None, Some(value), path));
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) => {
            for index in 0..left.len().max(right.len()) {
                step(index.to_string(), left.get(index), right.get(index), path);
            }
        }
        _ => found.push(Unequal { path: path.clone(), left, right }),
    }
}

/// JSON has one sort of numbers; integers are compared to the last digit.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left == right || (left.is_f64() || right.is_f64()) && left.as_f64() == right.as_f64()
        }
        _ => left == right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn paths(left: Value, right: Value) -> Vec<String> {
        unequal(Some(&left), Some(&right)).iter().map(|it| pointer(&it.path)).collect()
    }

    #[test]
    fn each_field_that_differs_is_named() {
        assert_eq!(paths(json!({"a": 1, "b": [1, 2]}), json!({"a": 2, "b": [1, 3, 4]})), ["/a", "/b/1", "/b/2"]);
        assert_eq!(paths(json!({}), json!({"labels": {"a/b": "x", "c": "y"}})), ["/labels/a~1b", "/labels/c"]);
        assert_eq!(paths(json!({"a": {}}), json!({})), ["/a"]);
        assert!(paths(json!({"a": 1e6}), json!({"a": 1_000_000})).is_empty());
    }

    #[test]
    fn integers_are_compared_to_the_last_digit() {
        assert_eq!(paths(json!(9_007_199_254_740_992_u64), json!(9_007_199_254_740_993_u64)), [""]);
    }

    #[test]
    fn a_key_tells_groups_and_namespaces_apart() {
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
        let id = Id::rendered(&object, "shop");
        assert_eq!(id.key(), "Deployment.apps shop/web");
        assert_eq!(Id::parse(&id.key()), Some(id.clone()));
        let rendered = BTreeMap::from([(id.clone(), 1)]);
        assert_eq!(find(&rendered, &id), Some(&1));
        assert_eq!(find(&rendered, &Id { namespace: Some("other".into()), ..id.clone() }), None);
        assert_eq!(find(&rendered, &Id { namespace: None, ..id }), Some(&1), "it is not in a namespace");
    }

    #[test]
    fn a_pointer_can_be_read_back() {
        let path = segments("/metadata/labels/a~1b");
        assert_eq!(path, ["metadata", "labels", "a/b"]);
        assert_eq!(pointer(&path), "/metadata/labels/a~1b");
        assert_eq!(at(&json!({"metadata": {"labels": {"a/b": 1}}}), &path), Some(&json!(1)));
    }
}
