//! What an admission webhook made of an apply.
//!
//! A webhook changes an object while it is written, and the list of fields does not show it: the field counts as ours with
//! a value that is not. So what was sent is compared with what was answered. Only plain values are: quantities and the like
//! may be answered in other words that mean the same.

use serde_json::Value;

/// How many are worth telling.
const TOLD: usize = 3;

/// Fields that were answered with another value than they were sent with.
pub fn overruled(sent: &Value, answered: &Value) -> Vec<String> {
    let mut found = vec![];
    for part in sent.as_object().into_iter().flat_map(|sent| sent.keys()).filter(|part| *part != "metadata") {
        compare(&sent[part], &answered[part], part, &mut found);
    }
    for part in ["labels", "annotations"] {
        let at = |object: &Value| object["metadata"][part].clone();
        compare(&at(sent), &at(answered), &format!("metadata.{part}"), &mut found);
    }
    found.truncate(TOLD);
    found
}

fn compare(sent: &Value, answered: &Value, path: &str, found: &mut Vec<String>) {
    match (sent, answered) {
        (Value::Object(sent), Value::Object(answered)) => {
            for (key, value) in sent {
                if let Some(answered) = answered.get(key) {
                    compare(value, answered, &step(path, key), found);
                }
            }
        }
        // Without the schema only items with names can be told apart.
        (Value::Array(sent), Value::Array(answered)) => {
            for item in sent {
                let Some(name) = item["name"].as_str() else { continue };
                if let Some(answered) = answered.iter().find(|answered| answered["name"] == name) {
                    compare(item, answered, &format!("{path}[name={name}]"), found);
                }
            }
        }
        (Value::String(sent), Value::String(answered))
            if sent != answered && !is_quantity(sent) && !sent.is_empty() =>
        {
            found.push(path.to_owned());
        }
        (Value::Bool(sent), Value::Bool(answered)) if sent != answered => found.push(path.to_owned()),
        (Value::Number(sent), Value::Number(answered)) if sent.as_f64() != answered.as_f64() => {
            found.push(path.to_owned());
        }
        _ => {}
    }
}

fn step(path: &str, key: &str) -> String {
    match key.contains(['.', '/']) {
        true => format!("{path}[{key}]"),
        false => format!("{path}.{key}"),
    }
}

/// Also durations, times, addresses and ports: what begins with a digit may have other spellings.
fn is_quantity(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_changed_value_is_named_and_defaults_and_spellings_are_not() {
        let sent = json!({"kind": "A", "metadata": {"name": "a", "labels": {"x.y/z": "1a", "b": "ours"}}, "spec": {
            "containers": [{"name": "app", "image": "ours", "resources": {"limits": {"cpu": "1000m"}}}], "on": true, "n": 1}});
        let answered = json!({"kind": "A", "metadata": {"name": "a", "uid": "u", "labels": {"b": "theirs"}}, "spec": {
            "more": 1, "containers": [{"name": "side"}, {"name": "app", "image": "theirs", "resources": {"limits": {"cpu": "1"}}}],
            "on": true, "n": 2}});
        assert_eq!(overruled(&sent, &answered), ["spec.containers[name=app].image", "spec.n", "metadata.labels.b"]);
        assert!(overruled(&sent, &sent).is_empty());
    }
}
