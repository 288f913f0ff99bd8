//! Conditions, and which of several schemas holds.

use serde_json::json;

use super::*;

#[test]
fn alternatives_of_different_types_are_checked_together() {
    let made = of(
        json!({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": "%$"}, {"type": "null"}]}),
    );
    assert_eq!(made.x(), json!({"nullable": true, "x-kubernetes-int-or-string": true, "minimum": 1, "pattern": "%$"}));
    let inside = of(json!({"anyOf": [{"type": "object", "properties": {"a": {"minLength": 2}}}, {"type": "string"}]}));
    assert_eq!(inside.x()["anyOf"], json!([{"properties": {"a": {"minLength": 2}}}]));
    let nullable = of(json!({"oneOf": [{"type": "string", "minLength": 1}, {"type": "null"}]}));
    assert_eq!((nullable.x(), nullable.notes.len()), (typed("string", json!({"minLength": 1})), 0));
    let choice = of(json!({"oneOf": [{"type": "null"}, {"type": "string", "enum": ["a", "b"]}]}));
    assert_eq!((choice.x(), choice.notes.len()), (typed("string", json!({"anyOf": [{"enum": ["a", "b"]}]})), 0));
}

#[test]
fn a_word_says_nothing_about_values_of_other_types() {
    let number = of(json!({"anyOf": [{"type": "string", "minimum": 1, "minLength": 2}, {"type": "integer"}]}));
    assert_eq!(number.x(), json!({"nullable": true, "x-kubernetes-int-or-string": true, "minLength": 2}));
    let map = of(json!({"oneOf": [{"type": "string", "required": ["a"], "maxProperties": 1}, {"type": "object"}]}));
    assert_eq!(map.x(), open());
}

#[test]
fn a_type_that_depends_on_alternatives_is_told() {
    let branch = |name: &str| json!({"required": [name], "properties": {"a": {"type": "string"}}});
    let made = of(json!({"type": "object", "anyOf": [branch("b"), branch("c")]}));
    assert_eq!((made.x()["properties"]["a"].clone(), made.notes_on("spec.x.a")), (open(), 1));
}

#[test]
fn what_need_not_be_a_map_is_not_closed_and_that_is_told() {
    let schema = json!({"additionalProperties": false, "properties": {"a": {"type": "string"}}});
    let made = of(schema.clone());
    assert_eq!((made.x()["x-kubernetes-preserve-unknown-fields"].clone(), made.notes_on("spec.x")), (json!(true), 1));
    let root = self::made("", Some(schema), &Options::default());
    assert_eq!((root.spec().get("x-kubernetes-preserve-unknown-fields"), root.notes.len()), (None, 0));
}

#[test]
fn alternatives_of_one_type_stay_alternatives() {
    let either = json!({"type": "string", "anyOf": [{"pattern": "^a"}, {"maxLength": 2}]});
    assert_eq!(of(either).x(), typed("string", json!({"anyOf": [{"pattern": "^a"}, {"maxLength": 2}]})));
    let one = of(json!({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}));
    assert_eq!(one.x()["oneOf"], json!([{"required": ["a"]}, {"required": ["b"]}]));
    // With a default for one of them nobody can tell from the spec alone.
    let schema = json!({"properties": {"x": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}}});
    let made = made("x: {a: 1}", Some(schema), &Options::default());
    assert_eq!((made.x().get("oneOf"), made.x().get("anyOf")), (None, None));
    assert!(made.notes_on("spec.x") > 0);
}

#[test]
fn fields_in_alternatives_are_part_of_the_shape() {
    let made = of(json!({
        "type": "object",
        "anyOf": [
            {"properties": {"a": {"type": "string", "minLength": 1}, "metadata": {"minProperties": 1}}, "required": ["a"]},
            {"properties": {"b": {"type": "array", "items": {"properties": {"c": {"pattern": "x"}}}}}, "required": ["b"]},
        ],
    }));
    let x = made.x();
    assert_eq!(x["properties"]["a"], open());
    assert_eq!(x["properties"]["b"]["items"]["properties"]["c"], open());
    assert_eq!(x["anyOf"][0], json!({"required": ["a"], "properties": {"a": {"minLength": 1}}}));
    assert_eq!(
        x["anyOf"][1],
        json!({"required": ["b"], "properties": {"b": {"items": {"properties": {"c": {"pattern": "x"}}}}}})
    );
}

#[test]
fn not_is_said_only_where_it_is_exact() {
    assert_eq!(
        of(json!({"type": "string", "not": {"pattern": "^a"}})).x(),
        typed("string", json!({"not": {"pattern": "^a"}}))
    );
    assert_eq!(
        of(json!({"type": "string", "not": {"enum": ["a"]}})).x(),
        typed("string", json!({"not": {"enum": ["a"]}}))
    );
    assert_eq!(of(json!({"type": "object", "not": {"required": ["a"]}})).x()["not"], json!({"required": ["a"]}));
    assert_eq!(of(json!({"type": "string", "not": {"type": "integer"}})).x(), typed("string", json!({})));
    // The API server takes 0.5 for 0 and 65 for A when it compares.
    assert_eq!(of(json!({"type": "integer", "not": {"const": 0}})).x()["not"], json!({"enum": [0]}));
    for (schema, name) in
        [(json!({"type": "number", "not": {"enum": [0]}}), "number"), (json!({"not": {"const": "A"}}), "")]
    {
        let made = of(schema);
        let unsaid = if name.is_empty() { open() } else { typed(name, json!({})) };
        assert_eq!((made.x(), made.notes_on("spec.x")), (unsaid, 1));
    }
    for inexact in [json!({"type": "string"}), json!({"format": "ipv4"}), json!({"uniqueItems": true})] {
        let made = by(DRAFT_7, json!({"not": inexact}));
        assert_eq!((made.x(), made.notes_on("spec.x")), (open(), 1), "{inexact}");
    }
    let schema = json!({"properties": {"x": {"type": "object", "not": {"required": ["a"]}}}});
    let made = made("x: {a: 1}", Some(schema), &Options::default());
    assert_eq!((made.x().get("not"), made.notes_on("spec.x")), (None, 1));
}

#[test]
fn conditions_are_alternatives_where_they_are_exact() {
    let schema =
        json!({"type": "object", "if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}});
    let x = of(schema.clone()).x();
    let then = json!([{"not": {"required": ["a"]}}, {"required": ["b"]}]);
    assert_eq!((&x["anyOf"], &x["allOf"]), (&then, &json!([{"anyOf": [{"required": ["a"]}, {"required": ["c"]}]}])));
    let made = made("x: {a: 1}", Some(json!({"properties": {"x": schema}})), &Options::default());
    assert_eq!((made.x().get("anyOf"), made.notes_on("spec.x")), (None, 1));
    assert_eq!(by(DRAFT_4, json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}})).x(), open());
}

#[test]
fn a_field_may_ask_for_another() {
    let wanted = json!([{"not": {"required": ["a"]}}, {"required": ["b"]}]);
    assert_eq!(of(json!({"type": "object", "dependentRequired": {"a": ["b"]}})).x()["anyOf"], wanted);
    assert_eq!(by(DRAFT_7, json!({"type": "object", "dependencies": {"a": ["b"]}})).x()["anyOf"], wanted);
    assert_eq!(of(json!({"type": "string", "dependentRequired": {"a": ["b"]}})).x(), typed("string", json!({})));
    assert_eq!(of(json!({"dependentRequired": {"a": ["b"]}})).x(), open(), "a text has no field either");
    assert_eq!(by(DRAFT_7, json!({"type": "object", "dependencies": {"a": {"required": ["b"]}}})).x()["anyOf"], wanted);
}
