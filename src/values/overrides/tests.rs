use serde_json::json;

use super::*;
use crate::values::Values;

fn overrides(entries: Value) -> Result<Overrides, OverrideError> {
    let Value::Object(map) = entries else { panic!("entries are an object") };
    Overrides::parse(&map.into_iter().collect())
}

/// What one text becomes.
fn value(text: &str) -> Value {
    let read = overrides(json!({ "a": text })).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    read.iter().next().expect("one entry").1.clone()
}

fn merged(spec: Value, entries: Value) -> Result<Value, ValuesError> {
    let overrides = overrides(entries).expect("well-formed overrides");
    Values::new(Some(&spec), &overrides).map(|values| values.json().clone())
}

#[test]
fn text_is_typed_as_by_set() {
    assert_eq!(value("true"), json!(true));
    assert_eq!(value("3"), json!(3));
    assert_eq!(value("null"), json!(null));
    assert_eq!(value("007"), json!("007"));
    assert_eq!(value("1.10"), json!("1.10"));
    assert_eq!(value("9223372036854775808"), json!("9223372036854775808"));
    assert_eq!(value(""), json!(""));
    assert_eq!(value(" 3 "), json!(" 3 "));
}

#[test]
fn quotes_make_a_string_of_whatever_is_between_them() {
    assert_eq!(value("'3'"), json!("3"));
    assert_eq!(value("\"true\""), json!("true"));
    assert_eq!(value("''"), json!(""));
    assert_eq!(value(r#""C:\dir, {x} "y""#), json!(r#"C:\dir, {x} "y"#), "a password may hold anything");
    assert_eq!(value("'"), json!("'"), "one quote does not wrap");
    assert_eq!(value("'a\""), json!("'a\""));
}

/// operator-sdk#4084.
#[test]
fn a_comma_in_a_value_is_text() {
    assert_eq!(value("a,b"), json!("a,b"));
    assert_eq!(value(r"a\,b"), json!("a,b"), "what worked around the bug still works");
    assert_eq!(value("-Xmx1g,-Dx=y"), json!("-Xmx1g,-Dx=y"), "no second assignment hides in it");
    assert_eq!(value("1,2"), json!("1,2"));
}

#[test]
fn braces_make_a_list() {
    assert_eq!(value(r"{a,1,null,x\,y,'z'}"), json!(["a", 1, null, "x,y", "'z'"]));
    assert_eq!(value(r"\{a,b}"), json!("{a,b}"));
    assert_eq!(value("a{b}"), json!("a{b}"));
    let half = overrides(json!({"a": "{x"})).expect_err("not closed");
    assert_eq!(half, OverrideError::Value { key: "a".into(), reason: SetError::ListNotClosed });
    let document = overrides(json!({"a": "{\"x\":{\"y\":1}}"})).expect_err("JSON is not in the grammar");
    assert_eq!(document, OverrideError::Value { key: "a".into(), reason: SetError::AfterList });
}

#[test]
fn yaml_scalars_are_taken_as_they_are() {
    let read = overrides(json!({"b": true, "f": 1.5, "i": 3, "n": null})).expect("scalars");
    let values: Vec<_> = read.iter().map(|(_, value)| value.clone()).collect();
    assert_eq!(values, [json!(true), json!(1.5), json!(3), json!(null)]);
    let list = overrides(json!({"a": [1]})).expect_err("a list");
    assert_eq!(list, OverrideError::NotScalar { key: "a".into(), found: "a list" });
}

#[test]
fn overrides_win_over_the_spec_and_leave_the_rest() {
    let spec = json!({"image": {"tag": "1", "repository": "r"}, "hosts": ["a", "b"], "off": null});
    let entries = json!({"image.tag": "2", "hosts[1]": "c", "new.deep[0].x": "true", "list": "{x}"});
    let expected = json!({
        "image": {"tag": 2, "repository": "r"}, "hosts": ["a", "c"], "off": null,
        "new": {"deep": [{"x": true}]}, "list": ["x"],
    });
    assert_eq!(merged(spec, entries), Ok(expected));
}

#[test]
fn null_takes_a_default_away() {
    assert_eq!(merged(json!({"a": {"b": 1}}), json!({"a.b": "null"})), Ok(json!({"a": {"b": null}})));
}

#[test]
fn the_order_is_that_of_the_keys() {
    assert_eq!(merged(json!({}), json!({"a.b": "1", "a": "null"})).map_err(|e| e.to_string()), {
        Err("the override `a.b` of watches.yaml does not fit the spec: `a` is null, and an object is needed there; \
             change the spec at that place, or the override"
            .to_string())
    });
    assert_eq!(merged(json!({}), json!({"l[1]": "b", "l[0]": "a"})), Ok(json!({"l": ["a", "b"]})));
}

#[test]
fn a_spec_of_another_shape_is_reported_and_never_evades_an_override() {
    for image in [json!("nginx"), json!(null), json!([])] {
        let outcome = merged(json!({ "image": image }), json!({"image.tag": "2"}));
        assert!(matches!(outcome, Err(ValuesError::Override { .. })), "{outcome:?}");
    }
}

#[test]
fn a_bad_key_is_named() {
    let message = |key: &str| overrides(json!({ key: "1" })).expect_err(key).to_string();
    assert_eq!(
        message("a..b"),
        "the key `a..b` of overrideValues cannot be read: a path holds an empty key, which Helm never sets: \
         look for two dots in a row, or one at an end"
    );
    assert_eq!(
        message("a=b"),
        "the key `a=b` of overrideValues cannot be read: `a=b` is not a single path: \
         escape `=` and `,` that belong to a key (`\\=`, `\\,`)"
    );
}

#[test]
fn no_message_shows_a_value() {
    for text in ["{s3cret", "{s3cret}x"] {
        let message = overrides(json!({ "a": text })).expect_err(text).to_string();
        assert!(!message.contains("s3cret"), "{message}");
    }
}
