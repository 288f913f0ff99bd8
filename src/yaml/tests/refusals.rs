//! What is refused, where it is said to be, and the limits.

use super::*;

#[test]
fn say_what_is_wrong_and_where() {
    for (text, message) in [
        ("a: b: c", "line 1, column 5: a ':' is not possible here; put a value that contains ': ' in quotes"),
        ("a: 1\nb: 'x\n", "line 2, column 4: this quote is never closed"),
        ("a: 1\nb", "line 2, column 1: a key is expected here, but no ':' follows on this line"),
        ("a: [1, 2", "line 1, column 9: a ',' or ']' is expected here"),
        ("a: @b", "line 1, column 4: a value cannot start with this character; put it in quotes"),
        (
            "é: \"\u{7}\"",
            "line 1, column 5: the character U+0007 is not allowed in YAML; write it as an escape inside double quotes",
        ),
        (
            "a: */5",
            "line 1, column 5: an anchor or alias needs a name; put a value that starts with '&' or '*' in quotes",
        ),
        (
            "x:\n  a: {{ .Values.a }}",
            "line 2, column 7: a list or map cannot be a map key (is this a template that was not rendered?)",
        ),
        ("x: *y", "line 1, column 4: the alias *y has no anchor &y before it"),
        ("x: !!int y", "line 1, column 10: the tag asks for an integer, which this value is not"),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), message);
    }
}

#[test]
fn what_json_cannot_hold_is_refused_even_where_a_duplicate_hides_it() {
    assert_eq!(problem("a: .nan\na: 1"), Problem::NotFinite);
    assert_eq!(problem("a: {~: b}\na: 1"), Problem::NullAsKey);
}

#[test]
fn nesting_is_bounded_in_every_form() {
    for depth in [MAX_DEPTH, MAX_DEPTH + 1, 100_000] {
        let fits = depth == MAX_DEPTH;
        let flow = "[".repeat(depth) + &"]".repeat(depth);
        let block = "- ".repeat(depth);
        let maps = "{a: ".repeat(depth) + &"}".repeat(depth);
        for text in [&flow, &block, &maps] {
            match parse(text) {
                Ok(_) => assert!(fits, "{depth}"),
                Err(error) => assert!(!fits && error.problem == Problem::TooDeep, "{depth}: {error}"),
            }
        }
    }
}

#[test]
fn what_is_read_can_be_read_back_as_json() {
    let deepest = read(&("[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH)));
    // managedFields wraps an object in five levels, a list in two.
    let reply = json!({"items": [{"metadata": {"managedFields": [{"fieldsV1": deepest}]}}]});
    assert!(serde_json::from_str::<Value>(&reply.to_string()).is_ok());
}

#[test]
fn nesting_through_aliases_is_bounded() {
    let chain: String = (1..10_000).map(|n| format!("- &a{n} [*a{}]\n", n - 1)).collect();
    assert_eq!(problem(&format!("- &a0 x\n{chain}")), Problem::TooDeep);
}

#[test]
fn an_alias_bomb_is_refused_before_it_grows() {
    let tenfold = |n: usize| format!("- &a{n} [{}]\n", format!("*a{}, ", n - 1).repeat(10));
    let levels: String = (1..30).map(tenfold).collect();
    assert_eq!(problem(&format!("- &a0 x\n{levels}")), Problem::TooMuchCopied);
    let long = "x".repeat(100_000);
    let text = format!("a: &a {long}\nb: [{}]", "*a, ".repeat(100_000));
    assert_eq!(problem(&text), Problem::TooMuchCopied);
}

#[test]
fn ordinary_use_of_aliases_fits() {
    let text = format!("a: &a {{x: 1, z: [2, 3]}}\nb: [{}]", "*a, ".repeat(1000));
    assert_eq!(read(&text)["b"][999], json!({"x": 1, "z": [2, 3]}));
}
