//! What scalars mean.

use super::*;

#[test]
fn booleans_are_those_of_yaml_1_1() {
    for text in "y Y yes Yes YES true True TRUE on On ON".split(' ') {
        assert_eq!(read(text), json!(true), "{text}");
        assert_eq!(read(&format!("{text}: x")), json!({"true": "x"}), "{text}");
    }
    for text in "n N no No NO false False FALSE off Off OFF".split(' ') {
        assert_eq!(read(text), json!(false), "{text}");
        assert_eq!(read(&format!("{text}: x")), json!({"false": "x"}), "{text}");
    }
    assert_eq!(read("[yEs, tRUE, oN, t]"), json!(["yEs", "tRUE", "oN", "t"]));
}

#[test]
fn null_has_five_forms_and_is_no_key() {
    assert_eq!(read("[~, null, Null, NULL]"), json!([null, null, null, null]));
    assert_eq!(read("a:\nb: ''"), json!({"a": null, "b": ""}));
    assert_eq!(problem("~: a"), Problem::NullAsKey);
    assert_eq!(problem("? \n: a"), Problem::NullAsKey);
    assert_eq!(read("'null': a"), json!({"null": "a"}));
}

#[test]
fn integers_have_the_base_of_their_prefix() {
    assert_eq!(
        read("[0644, 0o644, 0x1F, 0b101, +12, -0x10, 1_000, 0b-101]"),
        json!([420, 420, 31, 5, 12, -16, 1000, -5])
    );
    assert_eq!(read("0644: a"), json!({"420": "a"}));
}

#[test]
fn large_integers_are_unsigned_and_then_floats() {
    assert!(read("9223372036854775807").is_i64());
    assert_eq!(read("18446744073709551615"), json!(u64::MAX));
    assert!(read("18446744073709551616").is_f64());
    assert!(read("-9223372036854775809").is_f64());
    assert_eq!(problem("18446744073709551615: a"), Problem::LargeKey(u64::MAX));
}

#[test]
fn a_leading_zero_that_is_not_octal_makes_a_decimal_number() {
    assert_eq!(read("[08, 09.5, 0o8]"), json!([8, 9.5, "0o8"]));
}

#[test]
fn whole_floats_are_written_as_integers() {
    assert_eq!(read("[1e3, 1000.0, -0.0]").to_string(), "[1000,1000,0]");
    assert_eq!(read("[.5, 1.5e-3]"), json!([0.5, 0.0015]));
    // Go writes the shortest digits that give the same float.
    assert_eq!(read("1152921504606846976.0"), json!(1152921504606847000i64));
}

#[test]
fn float_keys_have_single_precision_and_an_exponent() {
    for (text, key) in [
        ("1.5", "1.5"),
        ("1e3", "1000"),
        ("1e6", "1e+06"),
        ("1234567.5", "1.2345675e+06"),
        ("1e-5", "1e-05"),
        ("1e39", ".inf"),
        (".nan", ".nan"),
        ("-0.0", "-0"),
    ] {
        assert_eq!(read(&format!("{text}: v")), json!({ key: "v" }), "{text}");
    }
}

#[test]
fn infinity_and_nan_are_refused_as_values() {
    for text in ".inf +.inf -.INF .nan .NaN".split(' ') {
        assert_eq!(problem(text), Problem::NotFinite, "{text}");
    }
    assert_eq!(read("1e999"), json!("1e999"));
}

#[test]
fn times_dates_versions_and_signs_stay_text() {
    for text in ["2001-01-01", "12:30:45", "1.2.3", "=", "<<", "--", "10%", "1e", "0x", "_1"] {
        assert_eq!(read(&format!("a: {text}")), json!({ "a": text }));
    }
}

#[test]
fn quoted_and_block_scalars_are_text() {
    assert_eq!(read("['yes', \"0644\", '~']"), json!(["yes", "0644", "~"]));
    assert_eq!(read("a: |-\n  12"), json!({"a": "12"}));
}

#[test]
fn explicit_tags_decide() {
    assert_eq!(
        read("[!!str 123, !!int '3', !!float 3, !!bool 'yes', !!null '', !foo 12, ! 12]"),
        json!(["123", 3, 3, true, null, "12", "12"])
    );
    assert_eq!(read("!!binary aGk="), json!("hi"));
    assert_eq!(read("!!timestamp 2001-01-01"), json!("2001-01-01"));
    assert_eq!(read("!!str [a]"), json!(["a"]));
    assert_eq!(problem("!!binary a"), Problem::NotBase64);
    assert!(matches!(problem("!!int x"), Problem::TagMismatch(_)));
    assert!(matches!(problem("!!timestamp 2001-02-29"), Problem::TagMismatch(_)));
}

#[test]
fn block_scalars_keep_fold_and_chomp() {
    assert_eq!(read("|\n  a\n   b\n\n"), json!("a\n b\n"));
    assert_eq!(read(">\n  a\n  b\n\n  c\n"), json!("a b\nc\n"));
    assert_eq!(read("|-\n  a\n"), json!("a"));
    assert_eq!(read("|+\n  a\n\n"), json!("a\n\n"));
    assert_eq!(read("a: |1\n   b\n"), json!({"a": "  b\n"}));
    assert_eq!(read("a: |\n  no break at the end"), json!({"a": "no break at the end"}));
}

#[test]
fn double_quotes_know_go_yamls_escapes() {
    assert_eq!(read(r#""it\'s \x41\u00e9\U0001F600\t\\""#), json!("it's Aé😀\t\\"));
    assert!(matches!(problem(r#""a\/b""#), Problem::Syntax(_)));
    assert_eq!(read("\"a\\\n  b\n  c\""), json!("ab c"));
}
