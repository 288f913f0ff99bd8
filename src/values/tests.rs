use serde_json::json;

use super::*;

fn values(spec: Value) -> Values {
    Values::new(Some(&spec), &Overrides::default()).expect("a good spec")
}

#[test]
fn an_absent_spec_is_an_empty_one() {
    for spec in [None, Some(&Value::Null), Some(&json!({}))] {
        let values = Values::new(spec, &Overrides::default()).expect("no spec is fine");
        assert_eq!(values.file_json(), "{}\n");
        assert!(values.exact_integers().is_empty() && values.left_out().is_empty());
    }
}

#[test]
fn a_spec_that_is_no_object_is_refused() {
    let error = Values::new(Some(&json!([1])), &Overrides::default()).expect_err("a list");
    assert_eq!(
        error.to_string(),
        "the spec is a list, but chart values are an object: write the values as `key: value` entries under `spec`"
    );
}

#[test]
fn the_file_is_the_same_whatever_the_order_of_keys() {
    let one: Value = serde_json::from_str(r#"{"b": 1, "a": {"d": null, "c": [1, 2.5]}}"#).expect("JSON");
    let two: Value = serde_json::from_str(r#"{"a": {"c": [1, 2.5], "d": null}, "b": 1}"#).expect("JSON");
    assert_eq!(values(one).file_json(), values(two).file_json());
}

#[test]
fn nulls_stay_because_they_take_defaults_away() {
    assert_eq!(values(json!({"a": {"b": null}, "c": null})).file_json(), "{\"a\":{\"b\":null},\"c\":null}\n");
}

#[test]
fn an_integer_is_in_the_file_and_beside_it() {
    let values = values(json!({"port": 8080, "memory": 1_073_741_824}));
    assert_eq!(values.file_json(), "{\"memory\":1073741824,\"port\":8080}\n");
    assert_eq!(values.exact_integers(), ["memory=1073741824"]);
}

#[test]
fn an_integer_from_an_override_is_on_no_command_line() {
    let entries = [("tag".to_string(), json!("20240101")), ("list[1]".to_string(), json!(7_000_001))].into();
    let overrides = Overrides::parse(&entries).expect("a good override");
    let spec = json!({"tag": 1_000_002, "list": [1_000_003], "own": 1_000_004});
    let values = Values::new(Some(&spec), &overrides).expect("a good spec");
    assert_eq!(values.exact_integers(), ["list[0]=1000003,own=1000004"]);
    let left_out: Vec<_> = values.left_out().iter().map(|it| (it.reason, it.count, it.first.as_str())).collect();
    assert_eq!(left_out, [(Reason::NotOfSpec, 2, "list[1]")]);
    assert_eq!(values.file_json(), "{\"list\":[1000003,7000001],\"own\":1000004,\"tag\":20240101}\n");
}

/// Helm reads the file as YAML, which refuses the first of these and folds the line separators into a space.
#[test]
fn characters_that_yaml_spoils_are_escaped() {
    let text = "\u{7f}\u{85}\u{9f}\u{a0}\u{2028}\u{2029}\u{feff}\u{fffe}\u{ffff}é😀";
    let file = values(json!({ "a": text })).file_json();
    assert_eq!(file, "{\"a\":\"\\u007f\\u0085\\u009f\u{a0}\\u2028\\u2029\\ufeff\\ufffe\\uffffé😀\"}\n");
    assert_eq!(serde_json::from_str::<Value>(&file).expect("still JSON"), json!({ "a": text }));
}

#[test]
fn a_key_that_helm_cannot_read_is_named() {
    for (key, longest) in [("k", 1022), ("é", 1022), ("\"", 511), ("\n", 511), ("\u{1}", 170), ("\u{2028}", 170)] {
        assert_eq!(values(json!({ key.repeat(longest): 1 })).left_out(), []);
        let spec = json!({"a": [{"b": {key.repeat(longest + 1): 1}}]});
        let error = Values::new(Some(&spec), &Overrides::default()).expect_err("one more is too long");
        assert_eq!(error, ValuesError::KeyTooLong { under: "spec.a[0].b".into(), start: key.repeat(40) });
    }
}
