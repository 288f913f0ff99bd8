//! How one state differs from another, in lines.

use serde_json::Value;

use super::seen::State;

/// Each place that differs, with what is there and what should be.
pub fn difference(found: &State, wanted: &State) -> Vec<String> {
    let mut lines = vec![];
    let keys = found.keys().chain(wanted.keys().filter(|key| !found.contains_key(*key)));
    for key in keys {
        match (found.get(key), wanted.get(key)) {
            (Some(_), None) => lines.push(format!("{key} is there and should not be")),
            (None, Some(_)) => lines.push(format!("{key} is not there")),
            (Some(found), Some(wanted)) => compare(key, found, wanted, &mut lines),
            (None, None) => {}
        }
    }
    lines
}

fn compare(place: &str, found: &Value, wanted: &Value, lines: &mut Vec<String>) {
    match (found, wanted) {
        (Value::Object(a), Value::Object(b)) => {
            let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            for key in keys {
                compare(&format!("{place}.{key}"), &found[key.as_str()], &wanted[key.as_str()], lines);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&format!("{place}[{index}]"), a, b, lines);
            }
        }
        _ if found == wanted => {}
        _ => lines.push(format!("{place} is {found} and should be {wanted}")),
    }
}
