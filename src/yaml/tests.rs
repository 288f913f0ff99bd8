//! Every rule once by name, then all answers of the real library, then what no input may do.

mod refusals;
mod scalars;
mod streams;
mod structure;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read(text: &str) -> Value {
    parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn problem(text: &str) -> Problem {
    match parse(text) {
        Ok(value) => panic!("{text:?} was read as {value}"),
        Err(error) => error.problem,
    }
}

#[test]
fn reads_what_the_real_library_reads() {
    // Written by sigs.k8s.io/yaml v1.6.0 with go.yaml.in/yaml/v2 v2.4.4.
    let vectors = include_str!("../../tests/data/yaml-vectors.json");
    let vectors: Vec<Value> = serde_json::from_str(vectors).unwrap();
    for vector in &vectors {
        let text = vector["yaml"].as_str().unwrap();
        match (parse(text), vector.get("json")) {
            (Ok(ours), Some(theirs)) => {
                assert!(same(&ours, theirs), "{text:?}: {ours} instead of {theirs}")
            }
            (Err(error), Some(theirs)) => panic!("{text:?}: {error} instead of {theirs}"),
            (Ok(ours), None) => panic!("{text:?}: {ours} instead of an error"),
            (Err(_), None) => {}
        }
    }
    assert!(vectors.len() > 2000);
}

/// Equality, with room for the last digit: serde_json rounds the floats of the file itself.
fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() || b.is_f64() => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            (a - b).abs() <= a.abs() * 1e-15
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.keys().eq(b.keys()) && a.values().zip(b.values()).all(|(a, b)| same(a, b))
        }
        _ => ours == theirs,
    }
}

#[rustfmt::skip]
const FRAGMENTS: &[&str] = &[
    "\n", "\n  ", " ", "\t", "- ", "-", "? ", ": ", ":", ", ", "[", "]", "{", "}", "#", "&a ", "*a", "!x ", "!!int ",
    "!", "|\n", ">-\n", "'", "\"", "\\", "\\x4", "%", "%TAG !e! x\n", "!e!x ", "@", "---\n", "\n...\n", "a", "key", "08",
    "0x1f", ".5", "~", "on", "<<: ", "<<: *a", "é", "\u{2028}", "\r\n", "\u{feff}", "a: 1", "k: &a {x: 1}\n",
];

fn any_json() -> impl Strategy<Value = Value> {
    let text = "[ -~éß日😀\n\t]{0,12}";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(text, inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes);
        let _ = documents(&text);
        // Few of those get past the check for control characters.
        let _ = documents(&text.replace(char::is_control, "\n"));
    }

    #[test]
    fn no_mix_of_fragments_makes_it_panic(parts in prop::collection::vec(prop::sample::select(FRAGMENTS), 0..60)) {
        let text = parts.concat();
        let all = documents(&text);
        // Both ways to read agree.
        match parse(&text) {
            Ok(one) => prop_assert_eq!(all.map(|mut all| all.pop().unwrap_or_default()), Ok(one)),
            Err(error) => prop_assert!(all.is_err() || error.problem == Problem::SecondDocument),
        }
    }

    #[test]
    fn json_is_read_as_itself(value in any_json()) {
        prop_assert_eq!(&read(&value.to_string()), &value);
        prop_assert_eq!(&read(&format!("{value:#}")), &value);
    }
}
