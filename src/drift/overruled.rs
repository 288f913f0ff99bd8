//! What an admission webhook made of an apply.
//!
//! A webhook changes an object while it is written, and the list of fields does not show it: the field counts as ours with
//! a value that is not. So what was sent is compared with what was answered. Only plain values are: quantities and the like
//! may be answered in other words that mean the same.

use std::collections::HashMap;

use serde_json::Value;

/// How many are worth telling.
const TOLD: usize = 3;

/// Fields that were answered with another value than they were sent with.
pub fn overruled(sent: &Value, answered: &Value) -> Vec<String> {
    let mut found = Found::default();
    for part in sent.as_object().into_iter().flat_map(|sent| sent.keys()).filter(|part| *part != "metadata") {
        found.compare_at(Step::Field(part), &sent[part], &answered[part]);
    }
    found.path.push(Step::Field("metadata"));
    for part in ["labels", "annotations"] {
        found.compare_at(Step::Field(part), &sent["metadata"][part], &answered["metadata"][part]);
    }
    found.told
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    /// By its name.
    Item(&'a str),
}

#[derive(Default)]
struct Found<'a> {
    told: Vec<String>,
    /// Where the comparison is.
    path: Vec<Step<'a>>,
}

impl<'a> Found<'a> {
    fn compare_at(&mut self, step: Step<'a>, sent: &'a Value, answered: &Value) {
        if self.told.len() < TOLD {
            self.path.push(step);
            self.compare(sent, answered);
            self.path.pop();
        }
    }

    fn compare(&mut self, sent: &'a Value, answered: &Value) {
        #[cfg(test)]
        crate::steps::count();
        let differs = match (sent, answered) {
            (Value::Object(sent), Value::Object(answered)) => {
                for (key, value) in sent {
                    if let Some(answered) = answered.get(key) {
                        self.compare_at(Step::Field(key), value, answered);
                    }
                }
                false
            }
            (Value::Array(sent), Value::Array(answered)) => {
                self.compare_items(sent, answered);
                false
            }
            (Value::String(sent), Value::String(answered)) => {
                sent != answered && !is_quantity(sent) && !sent.is_empty()
            }
            (Value::Bool(sent), Value::Bool(answered)) => sent != answered,
            (Value::Number(sent), Value::Number(answered)) => sent.as_f64() != answered.as_f64(),
            _ => false,
        };
        if differs {
            self.told.push(shown(&self.path));
        }
    }

    /// Without the schema only items with names can be told apart.
    fn compare_items(&mut self, sent: &'a [Value], answered: &[Value]) {
        let mut by_name = HashMap::new();
        for item in answered {
            #[cfg(test)]
            crate::steps::count();
            if let Some(name) = item["name"].as_str() {
                by_name.entry(name).or_insert(item);
            }
        }
        for item in sent {
            if let Some(name) = item["name"].as_str()
                && let Some(answered) = by_name.get(name)
            {
                self.compare_at(Step::Item(name), item, answered);
            }
        }
    }
}

fn shown(path: &[Step<'_>]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Item(name) => text.push_str(&format!("[name={name}]")),
            Step::Field(key) if text.is_empty() => text.push_str(key),
            Step::Field(key) if key.contains(['.', '/']) => text.push_str(&format!("[{key}]")),
            Step::Field(key) => text.push_str(&format!(".{key}")),
        }
    }
    text
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

    #[test]
    fn the_work_grows_with_the_items_and_not_with_their_product() {
        crate::steps::assert_linear("overruled", |number| {
            let items = |image: &str| -> Vec<Value> {
                (0..number).map(|it| json!({"name": format!("c{it}"), "image": image})).collect()
            };
            let (sent, mut answered) = (json!({"spec": items("a")}), json!({"spec": items("a")}));
            answered["spec"].as_array_mut().unwrap().reverse();
            crate::steps::of(|| assert!(overruled(&sent, &answered).is_empty()))
        });
        let many = |value: &str| json!({"spec": (0..100).map(|it| (format!("f{it}"), json!(value))).collect::<serde_json::Map<_, _>>()});
        assert_eq!(overruled(&many("a"), &many("b")).len(), TOLD);
    }
}
