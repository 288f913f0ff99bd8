//! YAML that Kubernetes reads as it was meant.
//!
//! The library for our own configuration leaves `on`, `y` and `0644` without quotes, since YAML 1.2 has no other meaning for them.
//! Kubernetes reads YAML 1.1, where they are no texts. Here a text is plain only if Kubernetes' reader gives the same text back.
//! Maps keep their order; lists are not indented, as in what `kubectl` and kubebuilder write.

use serde_yaml::{Mapping, Value};

use crate::yaml;

/// A document, with a line break at its end.
pub fn text(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Mapping(map) if !map.is_empty() => write_map(map, 0, &mut out),
        Value::Sequence(items) if !items.is_empty() => write_list(items, 0, &mut out),
        scalar => {
            out.push_str(&inline(scalar));
            out.push('\n');
        }
    }
    out
}

fn write_map(map: &Mapping, indent: usize, out: &mut String) {
    for (at, (key, value)) in map.iter().enumerate() {
        if at > 0 {
            out.push_str(&" ".repeat(indent));
        }
        out.push_str(&key_text(key));
        out.push(':');
        write_value(value, indent, out);
    }
}

/// What follows a colon.
fn write_value(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Mapping(map) if !map.is_empty() => {
            out.push('\n');
            out.push_str(&" ".repeat(indent + 2));
            write_map(map, indent + 2, out);
        }
        Value::Sequence(items) if !items.is_empty() => {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            write_list(items, indent, out);
        }
        Value::Tagged(tagged) => write_value(&tagged.value, indent, out),
        scalar => {
            out.push(' ');
            out.push_str(&inline(scalar));
            out.push('\n');
        }
    }
}

fn write_list(items: &[Value], indent: usize, out: &mut String) {
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push_str(&" ".repeat(indent));
        }
        out.push_str("- ");
        match item {
            Value::Mapping(map) if !map.is_empty() => write_map(map, indent + 2, out),
            Value::Sequence(inner) if !inner.is_empty() => write_list(inner, indent + 2, out),
            scalar => {
                out.push_str(&inline(scalar));
                out.push('\n');
            }
        }
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(is) => is.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quoted_where_needed(text, |plain| format!("k: {plain}"), |read, text| read["k"] == text),
        Value::Sequence(_) => "[]".into(),
        Value::Mapping(_) => "{}".into(),
        Value::Tagged(tagged) => inline(&tagged.value),
    }
}

fn key_text(key: &Value) -> String {
    match key {
        Value::String(text) => {
            quoted_where_needed(text, |plain| format!("{plain}: 0"), |read, text| read.get(text).is_some())
        }
        other => inline(other),
    }
}

fn quoted_where_needed(
    text: &str,
    line: impl Fn(&str) -> String,
    is_same: impl Fn(&serde_json::Value, &str) -> bool,
) -> String {
    let is_odd =
        |letter: char| letter.is_control() || matches!(letter, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}');
    if text.chars().any(is_odd) {
        // JSON is YAML, and has an escape for everything.
        return escaped(text);
    }
    let may_be_plain = !text.is_empty() && !text.starts_with(['"', '\'', '?', '-', ' ']) && !text.ends_with([' ', ':']);
    match may_be_plain && yaml::parse(&line(text)).is_ok_and(|read| is_same(&read, text)) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "''")),
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            letter if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                out.push_str(&format!("\\u{:04x}", letter as u32));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn order_and_indentation_are_a_persons() {
        let source = "b: 1\na:\n- x\n- w: 2\n  z: []\n- - 1\n  - 2\nc: {}\nd:\n  e: null\n";
        let value: Value = serde_yaml::from_str(source).unwrap();
        assert_eq!(text(&value), source);
    }

    #[test]
    fn what_kubernetes_would_read_otherwise_is_in_quotes() {
        let quoted = [
            "on", "y", "yes", "0644", "1e3", "null", "~", "1.0", "true", "", "a: b", "# a", "- a", "*a", "{", "a #b",
            "!x", "it's:", "%a", "0x1f", "=", "@a", "`a",
        ];
        for word in quoted {
            let written = inline(&word.into());
            assert_eq!(yaml::parse(&format!("k: {written}")).unwrap()["k"], word, "{written}");
            let key = key_text(&word.into());
            assert!(yaml::parse(&format!("{key}: 1")).unwrap().get(word).is_some(), "{key}");
        }
        for (word, written) in
            [("on", "'on'"), ("it's", "it's"), ("a b", "a b"), ("x-y/z.w", "x-y/z.w"), ("a\nb", "\"a\\nb\"")]
        {
            assert_eq!(inline(&word.into()), written);
        }
    }

    proptest! {
        #[test]
        fn any_text_comes_back(key in "\\PC{0,8}", word in any::<String>()) {
            let value = Value::Mapping(Mapping::from_iter([(key.as_str().into(), Value::Sequence(vec![word.as_str().into()]))]));
            let written = text(&value);
            let read = yaml::parse(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
            prop_assert_eq!(&read[&key][0], &serde_json::Value::from(word));
        }
    }
}
