//! Values that a chart generates: random passwords, keys, certificates. Pure.
//!
//! Two renders of the same input differ only in what the chart generates. Where the record of a release is gone, these values live on in its
//! objects, and nowhere else. They alone are taken from there: anybody may have changed the rest of an object.

use std::collections::HashMap;

use serde_json::Value;

use crate::object::{Object, ObjectKey};

/// What a chart generates of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    pub key: ObjectKey,
    /// Texts, numbers and booleans, as JSON pointers. A live object has others in their place, which can be kept.
    pub fields: Vec<String>,
    /// What differs and cannot be kept: a list of another length, for example. Empty stands for the whole object, which only one render has.
    pub unkept: Option<String>,
}

/// The objects of a render in which another one of the same input differs.
pub fn differences(one: &[Object], other: &[Object]) -> Vec<Generated> {
    let others: HashMap<ObjectKey, &Object> = other.iter().map(|object| (object.id().key(), object)).collect();
    let differing = one.iter().filter_map(|object| {
        let mut found = Generated { key: object.id().key(), fields: vec![], unkept: None };
        match others.get(&found.key) {
            Some(second) => collect(object.value(), second.value(), &mut String::new(), &mut found),
            None => found.unkept = Some(String::new()),
        }
        (!found.fields.is_empty() || found.unkept.is_some()).then_some(found)
    });
    differing.collect()
}

fn collect(one: &Value, other: &Value, path: &mut String, found: &mut Generated) {
    let length = path.len();
    let mut within = |segment: &str, one: Option<&Value>, other: Option<&Value>| {
        path.push('/');
        path.push_str(&segment.replace('~', "~0").replace('/', "~1"));
        match (one, other) {
            (Some(one), Some(other)) => collect(one, other, path, found),
            _ => found.unkept = Some(path.clone()),
        }
        path.truncate(length);
    };
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.iter().for_each(|(key, value)| within(key, Some(value), other.get(key)));
            other.keys().filter(|key| !one.contains_key(*key)).for_each(|key| within(key, None, None));
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let pairs = one.iter().zip(other).enumerate();
            pairs.for_each(|(index, (value, second))| within(&index.to_string(), Some(value), Some(second)));
        }
        (one, other) if one == other => {}
        (one, other) if is_scalar(one) && is_alike(one, other) => found.fields.push(path.clone()),
        _ => found.unkept = Some(path.clone()),
    }
}

fn is_scalar(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Number(_) | Value::Bool(_))
}

fn is_alike(one: &Value, other: &Value) -> bool {
    std::mem::discriminant(one) == std::mem::discriminant(other)
}

/// Puts the generated fields of a live object into a rendered one. Returns those that the live object does not have.
pub fn keep(object: &mut Object, live: &Value, fields: &[String]) -> Vec<String> {
    let mut missing = vec![];
    for field in fields {
        let kept = scalar_at(live, field);
        let kept = kept.filter(|kept| object.value().pointer(field).is_some_and(|rendered| is_alike(kept, rendered)));
        match kept {
            Some(kept) => object.change(|value| {
                if let Some(place) = value.pointer_mut(field) {
                    *place = kept;
                }
            }),
            None => missing.push(field.clone()),
        }
    }
    missing
}

/// The API server keeps `stringData` as `data`.
fn scalar_at(live: &Value, field: &str) -> Option<Value> {
    if let Some(value) = live.pointer(field) {
        return is_scalar(value).then(|| value.clone());
    }
    let key = field.strip_prefix("/stringData/")?;
    let encoded = live.pointer(&format!("/data/{key}"))?.as_str()?;
    let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded).ok()?;
    String::from_utf8(bytes).ok().map(Value::String)
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
        let generated = differences(&[secret("MQ==", "x")], &[secret("Mg==", "y")]);
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
        let generated = differences(&[secret("MQ==", "x")], &[secret("Mg==", "x")]);
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
        let generated = differences(&[object("1")], &[object("2")]);
        let mut kept = object("1");
        assert!(keep(&mut kept, &json!({"data": {"p": "b2xk"}}), &generated[0].fields).is_empty());
        assert_eq!(kept, object("old"));
    }

    #[test]
    fn two_equal_renders_generate_nothing() {
        assert!(differences(&[secret("MQ==", "x")], &[secret("MQ==", "x")]).is_empty());
    }

    fn spec(name: &str, spec: Value) -> Object {
        Object::new(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})).unwrap()
    }

    fn unkept(one: Object, other: Object) -> Option<String> {
        differences(&[one], &[other]).into_iter().find_map(|found| found.unkept)
    }

    #[test]
    fn a_generated_number_is_kept_and_nothing_of_another_type_takes_its_place() {
        let port = |port: u16| spec("a", json!({"ports": [{"port": 80, "nodePort": port}]}));
        let generated = differences(&[port(1)], &[port(2)]);
        assert_eq!(
            (generated[0].fields.as_slice(), &generated[0].unkept),
            (&["/spec/ports/0/nodePort".into()][..], &None)
        );
        let mut kept = port(1);
        assert!(keep(&mut kept, port(3).value(), &generated[0].fields).is_empty());
        assert_eq!(kept, port(3));
        let text = json!({"spec": {"ports": [{"nodePort": "3"}]}});
        assert_eq!(keep(&mut kept, &text, &generated[0].fields), ["/spec/ports/0/nodePort"]);
    }

    #[test]
    fn what_cannot_be_kept_is_named() {
        let of = |value: Value| spec("a", json!({"a": value}));
        let cases = [
            (json!(["x"]), json!(["x", "y"]), "/spec/a"),
            (json!("x"), json!(1), "/spec/a"),
            (json!("x"), json!(null), "/spec/a"),
            (json!({"x": 1}), json!({}), "/spec/a/x"),
            (json!({}), json!({"x": 1}), "/spec/a/x"),
        ];
        for (one, other, expected) in cases {
            assert_eq!(unkept(of(one.clone()), of(other.clone())).as_deref(), Some(expected), "{one} and {other}");
        }
        assert_eq!(unkept(spec("a", json!({})), spec("b", json!({}))).as_deref(), Some(""));
        assert_eq!(unkept(of(json!("x")), of(json!("y"))), None);
    }
}
