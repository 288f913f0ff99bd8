use serde_json::{Map, json};

use super::*;
use crate::values::set::{Typing, set_into};

fn exact(values: &Value) -> Exact {
    Exact::of(values, values, &Value::Null)
}

/// Why integers were left out, how many, and where the first one is.
fn left_out(value: &Value) -> Vec<(Reason, usize, String)> {
    exact(value).left_out.into_iter().map(|entry| (entry.reason, entry.count, entry.first)).collect()
}

/// What Helm makes of the file: every number a float.
fn as_helm_reads(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(list) => list.iter().map(as_helm_reads).collect(),
        Value::Object(map) => map.iter().map(|(key, inner)| (key.clone(), as_helm_reads(inner))).collect(),
        other => other.clone(),
    }
}

/// What Helm makes of the file and the arguments.
fn with_arguments(value: &Value) -> Value {
    let Value::Object(mut map) = as_helm_reads(value) else { panic!("values are an object") };
    for argument in exact(value).arguments {
        assert!(argument.len() <= ARGUMENT_BYTES);
        set_into(&mut map, &argument, Typing::Typed).unwrap_or_else(|error| panic!("{argument:?}: {error}"));
    }
    Value::Object(map)
}

#[test]
fn only_integers_that_a_float_would_spoil_are_set() {
    let values = json!({
        "small": 999_999, "million": 1_000_000, "minus": -1_000_000, "float": 1.0e9, "text": "1000000",
        "max": i64::MAX, "min": i64::MIN, "list": [1, 2_000_000, {"x": 3_000_000, "y": null}, [4_000_000]],
    });
    let expected = "list[1]=2000000,list[2].x=3000000,list[3][0]=4000000,max=9223372036854775807,million=1000000,\
                    min=-9223372036854775808,minus=-1000000";
    assert_eq!(exact(&values).arguments, [expected]);
    assert_eq!(left_out(&values), []);
}

#[test]
fn nothing_to_set_is_no_argument() {
    assert_eq!(exact(&json!({"a": {"b": [1, null]}})), Exact::default());
}

#[test]
fn awkward_keys_are_escaped() {
    let keys = [
        "a.b", "a,b", "a=b", "a[0]", "[0]", "a]", "{a}", r"a\b", r"\", r"a\", " ", " a ", "'a'", "\"", "é", "😀",
        "a\nb", "-f", "--set", "null", "true", "0", "\u{2028}", "\u{7f}", "<<", "$(x)", "`",
    ];
    for key in keys {
        let values = json!({ key: {key: 1_234_567, "l": [{key: 7_654_321}]} });
        assert_eq!(left_out(&values), []);
        let result = with_arguments(&values);
        assert_eq!(result, values, "{key:?}");
    }
}

#[test]
fn what_the_grammar_cannot_say_is_listed() {
    let mut deep = json!(1_000_000);
    for _ in 0..=MAX_DOTS + 1 {
        deep = json!({ "k": deep });
    }
    let values = json!({
        "": 1_000_000, "a": {"": {"b": 1_000_000}}, "nul\0": [1_000_000], "big": u64::MAX, "deep": deep,
        "long": {"x".repeat(ARGUMENT_BYTES): 1_000_000},
    });
    assert_eq!(exact(&values).arguments, Vec::<String>::new());
    use Reason::*;
    let expected = [
        (EmptyKey, 2, "\"\"".to_string()),
        (BeyondInt64, 1, "big".to_string()),
        (TooDeep, 1, format!("deep{}", ".k".repeat(MAX_DOTS + 2))),
        (PathTooLong, 1, format!("long.{}…", "x".repeat(195))),
        (NulInKey, 1, "nul\0[0]".to_string()),
    ];
    assert_eq!(left_out(&values), expected);
}

#[test]
fn a_warning_says_how_many_and_where_and_what_to_do() {
    let values = json!({"a": {"": [1_000_000, 2_000_000]}, "b": u64::MAX});
    let warnings: Vec<String> = exact(&values).left_out.iter().map(LeftOut::to_string).collect();
    let expected = [
        "large integers reach the chart as floats, which templates print with an exponent: 2 under an empty key, \
         the first at `a.\"\"[0]`; write them as text, in quotes, if the chart prints them",
        "large integers reach the chart as floats, which templates print with an exponent: 1 larger than an int64, \
         the first at `b`; write them as text, in quotes, if the chart prints them",
    ];
    assert_eq!(warnings, expected);
}

/// A CR of a megabyte must not become gigabytes of paths.
#[test]
fn many_integers_under_a_long_path_stay_cheap() {
    for characters in [60_000, 70_000] {
        let values = json!({ "x".repeat(characters): vec![json!(1_000_000); 100_000] });
        let exact = exact(&values);
        assert!(exact.arguments.iter().map(String::len).sum::<usize>() <= TOTAL_BYTES);
        assert!(exact.left_out.iter().all(|entry| entry.first.len() < 300));
    }
}

#[test]
fn depth_is_counted_as_helm_counts_it() {
    let mut deepest = json!(1_000_000);
    for _ in 0..=MAX_DOTS {
        deepest = json!({ "k": deepest });
    }
    assert_eq!(with_arguments(&deepest), deepest);
    assert_eq!(left_out(&json!({ "k": deepest }))[0].0, Reason::TooDeep);
    // A dot after an index costs nothing, and lists nest without limit.
    assert_eq!(with_arguments(&json!({ "k": [deepest] })), json!({ "k": [deepest] }));
}

#[test]
fn elements_behind_helms_last_index_are_counted() {
    let mut list = vec![json!(null); MAX_INDEX];
    list.extend([json!(1_000_000), json!(2_000_000), json!(3_000_000)]);
    let values = json!({ "l": list });
    assert_eq!(exact(&values).arguments, ["l[65536]=1000000"]);
    assert_eq!(left_out(&values), [(Reason::IndexTooLarge, 2, "l[65537]".to_string())]);
}

#[test]
fn ten_thousand_integers_fit_in_few_arguments() {
    let values = json!({ "list": (0..10_000).map(|n| 1_000_000 + n).collect::<Vec<i64>>() });
    assert_eq!(exact(&values).arguments.len(), 3);
    assert_eq!(with_arguments(&values), values);
}

#[test]
fn the_command_line_has_an_end() {
    let name = "n".repeat(1000);
    let values = json!({ name: (0..2_000).map(|n| 1_000_000 + n).collect::<Vec<i64>>() });
    let exact = exact(&values);
    let total: usize = exact.arguments.iter().map(|argument| argument.len() + 1).sum();
    assert!(total <= TOTAL_BYTES && total > TOTAL_BYTES - 2_000, "{total}");
    let assigned: usize = exact.arguments.iter().map(|argument| argument.matches('=').count()).sum();
    let counts: Vec<_> = exact.left_out.iter().map(|entry| (entry.reason, entry.count)).collect();
    assert_eq!(counts, [(Reason::TooMany, 2_000 - assigned)]);
}

/// Trees from a fixed seed: whatever the shape, each large integer comes out exact or is counted, and nothing else changes.
#[test]
fn every_large_integer_is_exact_or_counted() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..2_000 {
        let tree = random.object(4);
        let counted: usize = exact(&tree).left_out.iter().map(|entry| entry.count).sum();
        assert_eq!(floats(&tree, &with_arguments(&tree), true), counted, "{tree}");
    }
}

/// Compares, and counts the large integers that became floats. `sayable` is false under an empty key.
fn floats(values: &Value, result: &Value, sayable: bool) -> usize {
    match (values, result) {
        (Value::Object(map), Value::Object(other)) if map.len() == other.len() => {
            map.iter().map(|(key, inner)| floats(inner, &other[key], sayable && !key.is_empty())).sum()
        }
        (Value::Array(list), Value::Array(other)) if list.len() == other.len() => {
            list.iter().zip(other).map(|(inner, other)| floats(inner, other, sayable)).sum()
        }
        (Value::Number(number), _) if is_large_integer(number) => {
            let exact = sayable && number.is_i64();
            let expected = if exact { values.clone() } else { as_helm_reads(values) };
            assert_eq!(expected, *result);
            usize::from(!exact)
        }
        _ => {
            assert_eq!(as_helm_reads(values), *result);
            0
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn key(&mut self) -> String {
        const PARTS: &[&str] = &["a", "b", ".", ",", "=", "[", "]", "{", "}", "\\", " ", "\"", "é", "0", "[0]"];
        (0..self.below(5)).map(|_| PARTS[self.below(PARTS.len() as u64) as usize]).collect()
    }

    fn object(&mut self, depth: u64) -> Value {
        let entries: Map<String, Value> = (0..self.below(5)).map(|_| (self.key(), self.value(depth))).collect();
        Value::Object(entries)
    }

    fn value(&mut self, depth: u64) -> Value {
        match self.below(if depth == 0 { 5 } else { 9 }) {
            0 => Value::Null,
            1 => json!(self.below(1_000_000)),
            2 if self.below(5) == 0 => json!(u64::MAX - self.below(1 << 62)),
            2 => json!(i64::MIN + self.below(1 << 62) as i64),
            3 => json!(1_000_000 + self.below(1 << 40)),
            4 => json!(self.key()),
            5 | 6 => (0..self.below(4)).map(|_| self.value(depth - 1)).collect(),
            _ => self.object(depth - 1),
        }
    }
}
