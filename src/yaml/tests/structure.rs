//! Maps, lists, anchors and the text around them.

use super::*;

#[test]
fn the_last_of_equal_keys_wins() {
    assert_eq!(read("a: 1\na: 2"), json!({"a": 2}));
    assert_eq!(read("x: {a: 1, a: 2}"), json!({"x": {"a": 2}}));
    assert_eq!(read("on: 1\n'true': 2"), json!({"true": 2}));
    assert_eq!(read("'1': a\n1: b\n1.0: c"), json!({"1": "c"}));
}

#[test]
fn merge_keys_take_effect_where_they_stand() {
    assert_eq!(read("{a: 1, <<: {a: 2}}"), json!({"a": 2}));
    assert_eq!(read("{<<: {a: 2}, a: 1}"), json!({"a": 1}));
    assert_eq!(read("<<: [{a: 1}, {a: 2, b: 3}]"), json!({"a": 1, "b": 3}));
    assert_eq!(read("x: &x {a: 1}\nz: {<<: *x, b: 2}"), json!({"x": {"a": 1}, "z": {"a": 1, "b": 2}}));
    assert_eq!(read("'<<': {a: 1}"), json!({"<<": {"a": 1}}));
    assert_eq!(problem("<<: 1"), Problem::BadMerge);
    assert_eq!(problem("x: &x [{a: 1}]\nz: {<<: *x}"), Problem::BadMerge);
}

#[test]
fn aliases_copy_the_latest_anchor() {
    assert_eq!(read("[&a 1, *a, &a 2, *a]"), json!([1, 1, 2, 2]));
    assert_eq!(read("- &k on\n- *k : x"), json!([true, {"true": "x"}]));
    assert_eq!(problem("*a"), Problem::UnknownAlias("a".into()));
    assert_eq!(problem("&a [*a]"), Problem::AliasInsideItself("a".into()));
}

#[test]
fn lists_need_no_indentation_in_a_map() {
    assert_eq!(read("a:\n- b\n- c:\n  - d\ne: f"), json!({"a": ["b", {"c": ["d"]}], "e": "f"}));
}

#[test]
fn flow_collections_follow_go_yaml() {
    assert_eq!(read("{a: [b, {c: d}], e}"), json!({"a": ["b", {"c": "d"}], "e": null}));
    assert_eq!(read("[a: b, ? c : d,]"), json!([{"a": "b"}, {"c": "d"}]));
    assert_eq!(read("{\"a\":1, b:2, c:}"), json!({"a": 1, "b:2": null, "c:": null}));
    assert!(matches!(problem("[a?b]"), Problem::Syntax(_)));
}

#[test]
fn complex_keys_have_to_be_scalars() {
    assert_eq!(read("? |\n  a\n: b"), json!({"a\n": "b"}));
    assert_eq!(problem("? [a]\n: b"), Problem::CollectionAsKey);
    assert_eq!(problem("{{a: b}: c}"), Problem::CollectionAsKey);
}

#[test]
fn keys_end_within_1024_characters() {
    let key = "é".repeat(1024);
    assert_eq!(read(&format!("{key}: a")), json!({ key.as_str(): "a" }));
    assert!(parse(&format!("{key}é: a")).is_err());
}

#[test]
fn line_breaks_and_byte_order_mark() {
    assert_eq!(read("a: 1\r\nb: |\r\n  x\r\n  y\r\n"), json!({"a": 1, "b": "x\ny\n"}));
    assert_eq!(read("\u{feff}a: 1"), json!({"a": 1}));
    assert_eq!(read("a: 1\n\u{feff}b: 2"), json!({"a": 1, "\u{feff}b": 2}));
}

#[test]
fn tabs_separate_but_do_not_indent() {
    assert_eq!(read("a:\t1\t# c\nb: [\tc\t]"), json!({"a": 1, "b": ["c"]}));
    let error = parse("a:\n\tb: 1").unwrap_err();
    assert_eq!(error.to_string(), "line 2, column 1: a tab cannot be used for indentation; use spaces");
}

#[test]
fn comments_need_a_space_before_them() {
    assert_eq!(read("# c\na: b#c # d\n# e"), json!({"a": "b#c"}));
}
