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
    /// The object's place in the render.
    pub at: usize,
    pub key: ObjectKey,
    /// Texts, numbers and booleans, as JSON pointers. A live object has others in their place, which can be kept.
    pub fields: Vec<String>,
    /// What differs and cannot be kept: a list of another length, for example. Empty stands for the whole object, which only one render has.
    pub unkept: Option<String>,
}

/// How long all paths of fields together may be. Each repeats the keys above its field, so a long key above many fields would fill the
/// memory.
const PATHS: usize = 16 * 1024 * 1024;

/// A second render of the same input, by object.
pub struct Second<'a>(HashMap<ObjectKey, &'a Object>);

impl<'a> Second<'a> {
    pub fn of(objects: impl IntoIterator<Item = &'a Object>) -> Self {
        Second(objects.into_iter().map(|object| (object.id().key(), object)).collect())
    }

    /// The objects of the first render, or of a part of it, that are others in this one.
    pub fn differences(&self, first: &[Object]) -> Vec<Generated> {
        self.differences_within(first, PATHS)
    }

    fn differences_within(&self, first: &[Object], mut room: usize) -> Vec<Generated> {
        let differing = first.iter().enumerate().filter_map(|(at, object)| {
            let mut found = Generated { at, key: object.id().key(), fields: vec![], unkept: None };
            match self.0.get(&found.key) {
                Some(second) => collect(object.value(), second.value(), &mut String::new(), &mut found, &mut room),
                None => found.unkept = Some(String::new()),
            }
            (!found.fields.is_empty() || found.unkept.is_some()).then_some(found)
        });
        differing.collect()
    }
}

fn collect(one: &Value, other: &Value, path: &mut String, found: &mut Generated, room: &mut usize) {
    #[cfg(test)]
    crate::steps::count();
    let length = path.len();
    let mut within = |segment: &str, one: Option<&Value>, other: Option<&Value>| {
        path.push('/');
        path.push_str(&segment.replace('~', "~0").replace('/', "~1"));
        match (one, other) {
            (Some(one), Some(other)) => collect(one, other, path, found, room),
            _ => found.leave(path),
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
        (one, other) if is_scalar(one) && is_alike(one, other) && length <= *room => {
            *room -= length;
            found.fields.push(path.clone());
        }
        _ => found.leave(path),
    }
}

impl Generated {
    /// Notes that something cannot be kept. One such place is enough to say so.
    fn leave(&mut self, path: &str) {
        self.unkept.get_or_insert_with(|| path.to_owned());
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
        #[cfg(test)]
        crate::steps::count();
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
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::steps;

    fn differences(one: &[Object], other: &[Object]) -> Vec<Generated> {
        Second::of(other).differences(one)
    }

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

    fn config(name: &str, data: Value) -> Object {
        Object::new(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})).unwrap()
    }

    #[test]
    fn long_keys_above_many_fields_do_not_fill_the_memory() {
        let long = "k".repeat(100);
        let of = |text: &str| config("a", json!({long.as_str(): vec![text; 20]}));
        let (first, second) = ([of("x")], [of("y")]);
        let generated = Second::of(&second).differences_within(&first, 1_100).remove(0);
        assert_eq!(generated.fields.len(), 10);
        assert_eq!(generated.unkept, Some(format!("/data/{long}/10")), "what finds no room is named");
    }

    /// Takes the differences of two renders and keeps what a live object has of them, as for a release without a record.
    fn kept(first: &mut [Object], second: &[Object], live: &Value) -> usize {
        steps::of(|| {
            for Generated { at, fields, .. } in differences(first, second) {
                keep(&mut first[at], live, &fields);
            }
        })
    }

    #[test]
    fn the_steps_grow_with_the_objects_and_with_the_fields() {
        let many = |number: usize, text: &str| -> Vec<Object> {
            (0..number).map(|it| config(&format!("c{it}"), json!({"a": text}))).collect()
        };
        steps::assert_linear("objects", |number| {
            // Each has seven values.
            let number = number / 2;
            kept(&mut many(number, "x"), &many(number, "y"), &json!({}))
        });
        let wide = |number: usize, text: &str| -> Object {
            config("c", (0..number).map(|it| (format!("k{it}"), Value::from(text))).collect())
        };
        steps::assert_linear("fields", |number| {
            let live = wide(number, "z");
            let mut first = [wide(number, "x")];
            let steps = kept(&mut first, &[wide(number, "y")], live.value());
            assert_eq!(first[0], live);
            steps
        });
    }

    fn shape() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0..9_u8).prop_map(Value::from),
            "[ab/~]{0,2}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 64, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::btree_map("[a-c/~]{1,2}", inner, 0..6)
                    .prop_map(|map| map.into_iter().collect::<Value>()),
            ]
        })
    }

    fn size(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(size).sum(),
            Value::Object(map) => map.values().map(size).sum::<usize>(),
            _ => 0,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

        /// Names repeat, so there are objects that a render has twice, and some that only one of them has.
        #[test]
        fn renders_of_any_shape_take_a_few_steps_for_each_value(
            first in proptest::collection::vec(("[a-e]", shape()), 0..12),
            second in proptest::collection::vec(("[a-e]", shape()), 0..12),
            live in shape(),
        ) {
            let objects = |all: &[(String, Value)]| -> Vec<Object> {
                all.iter().map(|(name, data)| config(name, data.clone())).collect()
            };
            let (mut first, second) = (objects(&first), objects(&second));
            let (before, values) = (first.clone(), first.iter().chain(&second).map(|it| size(it.value())).sum());
            let steps = kept(&mut first, &second, &json!({"data": live}));
            steps::assert_few("differences", values, steps);
            let same = before.iter().zip(&first).filter(|(before, after)| before != after).count();
            prop_assert!(same <= differences(&before, &second).len(), "only what is generated changes");
        }
    }
}
