//! Values that a chart generates: random passwords, keys, certificates. Pure.
//!
//! Two renders of the same input differ only in what the chart generates. Where the record of a release is gone, these values live on in its
//! objects, and nowhere else. They alone are taken from there: anybody may have changed the rest of an object.

use std::collections::HashMap;

use serde_json::Value;

use crate::object::{Object, ObjectKey};

/// The generated fields of one object, as JSON pointers.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    pub key: ObjectKey,
    pub fields: Vec<String>,
}

/// The objects of two renders of the same input that differ, with the text fields in which they do.
pub fn fields(one: &[Object], other: &[Object]) -> Vec<Generated> {
    let others: HashMap<ObjectKey, &Object> = other.iter().map(|object| (object.id().key(), object)).collect();
    let mut generated = vec![];
    for object in one {
        let key = object.id().key();
        let Some(second) = others.get(&key) else { continue };
        let mut fields = vec![];
        collect(object.value(), second.value(), &mut String::new(), &mut fields);
        if !fields.is_empty() {
            generated.push(Generated { key, fields });
        }
    }
    generated
}

fn collect(one: &Value, other: &Value, path: &mut String, fields: &mut Vec<String>) {
    let length = path.len();
    let mut within = |segment: &str, one: &Value, other: &Value| {
        path.push('/');
        path.push_str(&segment.replace('~', "~0").replace('/', "~1"));
        collect(one, other, path, fields);
        path.truncate(length);
    };
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            for (key, value) in one {
                if let Some(second) = other.get(key) {
                    within(key, value, second);
                }
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (value, second)) in one.iter().zip(other).enumerate() {
                within(&index.to_string(), value, second);
            }
        }
        (Value::String(one), Value::String(other)) if one != other => fields.push(path.clone()),
        _ => {}
    }
}

/// Puts the generated fields of a live object into a rendered one. Returns those that the live object does not have.
pub fn keep(object: &mut Object, live: &Value, fields: &[String]) -> Vec<String> {
    let mut missing = vec![];
    for field in fields {
        match text_at(live, field) {
            Some(text) => object.change(|value| {
                if let Some(place) = value.pointer_mut(field) {
                    *place = text.into();
                }
            }),
            None => missing.push(field.clone()),
        }
    }
    missing
}

/// The API server keeps `stringData` as `data`.
fn text_at(live: &Value, field: &str) -> Option<String> {
    if let Some(text) = live.pointer(field).and_then(Value::as_str) {
        return Some(text.to_owned());
    }
    let key = field.strip_prefix("/stringData/")?;
    let encoded = live.pointer(&format!("/data/{key}"))?.as_str()?;
    let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded).ok()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(password: &str, checksum: &str) -> Object {
        Object::new(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "annotations": {"check/sum": checksum}},
            "data": {"password": password, "user": "YQ=="},
        }))
        .unwrap()
    }

    #[test]
    fn only_what_differs_between_two_renders_is_taken_from_the_live_object() {
        let generated = fields(&[secret("MQ==", "x")], &[secret("Mg==", "y")]);
        assert_eq!(generated[0].fields, ["/data/password", "/metadata/annotations/check~1sum"]);
        let live = json!({
            "metadata": {"annotations": {"check/sum": "kept", "evil": "1"}},
            "data": {"password": "b2xk", "user": "ZXZpbA==", "more": "ZXZpbA=="},
        });
        let mut object = secret("MQ==", "x");
        assert!(keep(&mut object, &live, &generated[0].fields).is_empty());
        assert_eq!(object, secret("b2xk", "kept"));
    }

    #[test]
    fn what_the_live_object_lacks_is_named() {
        let generated = fields(&[secret("MQ==", "x")], &[secret("Mg==", "x")]);
        let mut object = secret("MQ==", "x");
        let live = json!({"data": {"password": {"nested": "evil"}}});
        assert_eq!(keep(&mut object, &live, &generated[0].fields), ["/data/password"]);
        assert_eq!(object, secret("MQ==", "x"));
    }

    #[test]
    fn text_of_a_secret_is_found_where_the_api_server_keeps_it() {
        let object = |password: &str| {
            Object::new(json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"p": password},
            }))
            .unwrap()
        };
        let generated = fields(&[object("1")], &[object("2")]);
        let mut kept = object("1");
        assert!(keep(&mut kept, &json!({"data": {"p": "b2xk"}}), &generated[0].fields).is_empty());
        assert_eq!(kept, object("old"));
    }

    #[test]
    fn two_equal_renders_generate_nothing() {
        assert!(fields(&[secret("MQ==", "x")], &[secret("MQ==", "x")]).is_empty());
    }
}
