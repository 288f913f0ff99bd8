//! Texts that are put at places of their own: over the spec, and below `overrideValues`.
//!
//! Pure. A text wins over whatever the spec has at its place. Where the spec has something else on the way there, a list in the place of a map
//! for example, there are no values.

use std::fmt;

use serde_json::{Map, Value};

use super::ValuesError;
use super::from::TargetPath;
use super::set::{self, Assignment, Step};

/// A text and its place. It is never shown: it may be a secret.
#[derive(Clone, PartialEq)]
pub struct Placed {
    pub path: TargetPath,
    pub text: String,
}

/// The place alone.
impl fmt::Debug for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Placed({})", self.path)
    }
}

/// Puts all texts at their places. Returns the places where the values had something else that says something.
pub(super) fn put(dest: &mut Map<String, Value>, all: &[Placed]) -> Result<Vec<String>, ValuesError> {
    let mut overruled = vec![];
    for Placed { path, text } in all {
        if at(dest, path).is_some_and(|it| says_something(it) && it != text) {
            overruled.push(path.to_string());
        }
        let value = Some(Value::from(text.as_str()));
        let assignment = Assignment { path: path.steps().to_vec(), value, cut_short: false };
        let unfit = |reason| ValuesError::Generated { path: path.to_string(), reason };
        set::assign(dest, assignment).map_err(unfit)?;
    }
    Ok(overruled)
}

/// Where the texts are in the values, as JSON pointers: an override may have come over one.
pub(super) fn pointers(all: &[Placed], values: &Value) -> Vec<String> {
    let is_there = |it: &&Placed| values.pointer(&it.path.pointer()).is_some_and(|value| *value == it.text);
    all.iter().filter(is_there).map(|it| it.path.pointer()).collect()
}

fn at<'a>(values: &'a Map<String, Value>, path: &TargetPath) -> Option<&'a Value> {
    match path.steps().split_first()? {
        (Step::Key(key), rest) => values.get(key)?.pointer(&set::pointer(rest)),
        // A path starts with a key.
        (Step::Index(_), _) => None,
    }
}

fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Overrides, Sourced, Values};
    use super::*;

    fn placed(path: &str, text: &str) -> Placed {
        Placed { path: TargetPath::parse(path).unwrap(), text: text.to_owned() }
    }

    fn merged(spec: Value, generated: &[Placed], overrides: Value) -> Result<Values, ValuesError> {
        let sources = json!({"auth": {"user": "source", "password": "source"}, "list": [{"a": 1}]});
        let sources = Sourced { all: sources.as_object().unwrap().clone(), ..Sourced::default() };
        let overrides = overrides.as_object().unwrap().clone().into_iter().collect();
        Values::merged(sources, Some(spec), generated, &Overrides::parse(&overrides).unwrap())
    }

    #[test]
    fn a_generated_value_wins_over_sources_and_spec_and_loses_to_an_override() {
        let generated = [placed("auth.password", "drawn"), placed("auth.root", "drawn too"), placed("list[1].b", "x")];
        let spec = json!({"auth": {"user": "spec", "password": "spec", "root": ""}});
        let values = merged(spec.clone(), &generated, json!({})).unwrap();
        let auth = json!({"user": "spec", "password": "drawn", "root": "drawn too"});
        assert_eq!(values.json(), &json!({"auth": auth, "list": [{"a": 1}, {"b": "x"}]}));
        assert_eq!(values.overruled(), ["auth.password"], "what is empty says nothing");
        assert_eq!(values.sourced(), ["/list/0/a", "/auth/password", "/auth/root", "/list/1/b"]);
        let values = merged(spec, &generated, json!({"auth.password": "forced"})).unwrap();
        assert_eq!(values.json()["auth"]["password"], "forced");
        assert!(!values.sourced().contains(&"/auth/password".to_owned()), "that one is no secret of ours");
    }

    #[test]
    fn a_spec_without_room_for_a_generated_value_is_told_by_the_path() {
        let error = merged(json!({"auth": [1]}), &[placed("auth.password", "hunter2")], json!({})).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("`auth.password`") && message.contains("`auth` is a list"), "{message}");
        assert!(!message.contains("hunter2"), "{message}");
    }

    #[test]
    fn values_with_other_generated_texts_are_other_values() {
        let values = |text: &str| merged(json!({}), &[placed("a", text)], json!({})).unwrap().file_json();
        assert_ne!(values("1"), values("2"));
    }
}
