//! Words of JSON Schema that need no other to be understood.

use serde_json::{Map, Value};

use super::super::document::Draft;
use super::super::place::Given;
use super::super::schema::Rules;
use super::super::types::Types;
use super::{Subject, Told};

/// The API server reads no larger count.
const MOST: u64 = i64::MAX as u64;

/// The types that a word says something about.
pub(super) fn about(word: &str) -> Types {
    match word {
        "minLength" | "maxLength" | "pattern" | "format" => Types::STRING,
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => Types::NUMBER,
        "items" | "prefixItems" | "additionalItems" | "unevaluatedItems" | "minItems" | "maxItems" | "uniqueItems"
        | "contains" => Types::ARRAY,
        "properties"
        | "patternProperties"
        | "additionalProperties"
        | "unevaluatedProperties"
        | "propertyNames"
        | "minProperties"
        | "maxProperties"
        | "required"
        | "dependencies"
        | "dependentRequired"
        | "dependentSchemas" => Types::OBJECT,
        _ => Types::ALL,
    }
}

pub(super) fn count(word: &str, value: &Value) -> Told {
    let word = match word {
        "minLength" => "minLength",
        "maxLength" => "maxLength",
        "minItems" => "minItems",
        _ => "maxItems",
    };
    let count = value.as_f64().filter(|count| *count >= 0.0).map(|count| count as u64);
    match count.filter(|count| *count <= MOST) {
        Some(count) => Told::rules(Rules::simple(word, count)),
        None => Told::inexact(),
    }
}

/// Defaults add to the number of fields, and null takes some of them away.
pub(super) fn sized(word: &str, value: &Value, subject: &Subject<'_, '_>) -> Told {
    let (Some(count), Some(given)) = (value.as_f64(), subject.place.given.size()) else { return Told::inexact() };
    let (count, given) = (count.max(0.0) as u64, given as u64);
    let (word, bound) = match word {
        "minProperties" => ("minProperties", count.saturating_sub(given)),
        _ => ("maxProperties", count.saturating_add(given)),
    };
    match bound {
        0 if word == "minProperties" => Told { is_exact: given == 0, ..Told::nothing() },
        bound if bound > MOST => Told::inexact(),
        bound => Told { is_exact: given == 0, ..Told::rules(Rules::simple(word, bound)) },
    }
}

pub(super) fn bound(word: &str, value: &Value, map: &Map<String, Value>, draft: Draft) -> Told {
    if !value.is_number() {
        return Told::inexact();
    }
    let (word, exclusive) = match word {
        "minimum" => ("minimum", "exclusiveMinimum"),
        _ => ("maximum", "exclusiveMaximum"),
    };
    let mut rules = Rules::simple(word, value.clone());
    match map.get(exclusive) {
        Some(Value::Bool(true)) if draft == Draft::Four => drop(rules.simple.insert(exclusive, true.into())),
        // Told with the other word, which is the narrower one.
        Some(other) if draft >= Draft::Six && is_narrower(word, other, value) => return Told::nothing(),
        _ => {}
    }
    Told::rules(rules)
}

pub(super) fn exclusive(word: &str, value: &Value, map: &Map<String, Value>) -> Told {
    let (word, exclusive) = match word {
        "exclusiveMinimum" => ("minimum", "exclusiveMinimum"),
        _ => ("maximum", "exclusiveMaximum"),
    };
    if !value.is_number() {
        return Told::inexact();
    }
    match map.get(word) {
        Some(other) if other.is_number() && !is_narrower(word, value, other) => Told::nothing(),
        _ => {
            let mut rules = Rules::simple(word, value.clone());
            rules.simple.insert(exclusive, true.into());
            Told::rules(rules)
        }
    }
}

/// Whether the exclusive bound is the one that counts.
fn is_narrower(word: &str, exclusive: &Value, inclusive: &Value) -> bool {
    match (exclusive.as_f64(), inclusive.as_f64()) {
        (Some(exclusive), Some(inclusive)) if word == "minimum" => exclusive >= inclusive,
        (Some(exclusive), Some(inclusive)) => exclusive <= inclusive,
        _ => false,
    }
}

/// What a default may give need not be written.
pub(super) fn required(value: &Value, subject: &Subject<'_, '_>) -> Told {
    let names: Vec<&str> = value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let given = |name: &&str| subject.place.given.may_have(name);
    let wanted: Vec<Value> = names.iter().filter(|name| !given(name)).map(|name| (*name).into()).collect();
    let is_exact = wanted.len() == names.len() && !matches!(subject.place.given, Given::Unknown);
    match wanted.is_empty() {
        true => Told { is_exact, ..Told::nothing() },
        false => Told { is_exact, ..Told::rules(Rules::simple("required", wanted)) },
    }
}

/// Whether Go's regular expressions know all of it. helm uses the same, so this catches little; but a CRD with a pattern that does not
/// compile is refused as a whole.
pub(in crate::scaffold::crd) fn is_re2(pattern: &str) -> bool {
    const UNKNOWN: [&str; 6] = ["(?=", "(?!", "(?<=", "(?<!", "(?>", "(?("];
    let has_reference = pattern.as_bytes().windows(2).enumerate().any(|(at, pair)| {
        let escapes = pattern.as_bytes()[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
        escapes % 2 == 0 && pair[0] == b'\\' && matches!(pair[1], b'1'..=b'9' | b'k' | b'Z' | b'c' | b'u')
    });
    !has_reference && !UNKNOWN.iter().any(|word| pattern.contains(word)) && !repeats_too_often(pattern)
}

/// `{1001}` is one too many.
fn repeats_too_often(pattern: &str) -> bool {
    pattern.split('{').skip(1).any(|rest| {
        let counts = rest.split('}').next().unwrap_or_default();
        counts.split(',').any(|count| count.parse::<u32>().is_ok_and(|count| count > 1000))
    })
}
