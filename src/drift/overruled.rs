//! What an admission webhook made of an apply.
//!
//! A webhook changes an object while it is written, and the list of fields does not show it: the field counts as ours with
//! a value that is not. So what was sent is compared with what was answered. Only plain values are: quantities and the like
//! may be answered in other words that mean the same.
//!
//! Which keys identify the items of a list is for the API server's schema to say. Our entry in the managedFields of the answer names each
//! item by them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields;
use super::items::Steps;

/// How many are worth telling.
const TOLD: usize = 3;

/// Fields that were answered with another value than they were sent with.
pub fn overruled(sent: &Value, answered: &Value) -> Vec<String> {
    let owned = fields::ours_in(answered);
    let mut found = Found::default();
    for part in sent.as_object().into_iter().flat_map(|sent| sent.keys()).filter(|part| *part != "metadata") {
        found.compare_at(Step::Field(part), &sent[part], &answered[part], below(owned, part));
    }
    found.path.push(Step::Field("metadata"));
    for part in ["labels", "annotations"] {
        found.compare_at(Step::Field(part), &sent["metadata"][part], &answered["metadata"][part], &Value::Null);
    }
    found.told
}

/// What the fields say of a field of a map.
fn below<'a>(owned: &'a Value, field: &str) -> &'a Value {
    &owned[format!("f:{field}")]
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    /// An item of a list by its keys, as managedFields write them.
    Item(&'a str),
    /// An item of a list that is one field as a whole.
    At(usize),
}

#[derive(Default)]
struct Found<'a> {
    told: Vec<String>,
    /// Where the comparison is.
    path: Vec<Step<'a>>,
}

impl<'a> Found<'a> {
    fn compare_at(&mut self, step: Step<'a>, sent: &'a Value, answered: &Value, owned: &'a Value) {
        if self.told.len() < TOLD {
            self.path.push(step);
            self.compare(sent, answered, owned);
            self.path.pop();
        }
    }

    fn compare(&mut self, sent: &'a Value, answered: &Value, owned: &'a Value) {
        #[cfg(test)]
        crate::steps::count();
        let differs = match (sent, answered) {
            (Value::Object(sent), Value::Object(answered)) => {
                for (key, value) in sent {
                    if let Some(answered) = answered.get(key) {
                        self.compare_at(Step::Field(key), value, answered, below(owned, key));
                    }
                }
                false
            }
            (Value::Array(sent), Value::Array(answered)) => {
                self.compare_items(sent, answered, owned);
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

    fn compare_items(&mut self, sent: &'a [Value], answered: &[Value], owned: &'a Value) {
        let fields = owned.as_object();
        if fields.is_none_or(|fields| fields.keys().all(|key| key == ".")) {
            // One field as a whole, or below one: nobody but a webhook adds or removes items.
            if sent.len() == answered.len() {
                for (at, (sent, answered)) in sent.iter().zip(answered).enumerate() {
                    self.compare_at(Step::At(at), sent, answered, &Value::Null);
                }
            }
            return;
        }
        let steps = Steps::of(fields.into_iter().flat_map(|fields| fields.keys()).map(String::as_str));
        let answered = by_step(&steps, answered);
        for (step, item) in by_step(&steps, sent) {
            if let (Some(item), Some(Some(answered))) = (item, answered.get(step)) {
                self.compare_at(Step::Item(step), item, answered, &owned[step]);
            }
        }
    }
}

/// The item that each step names. None where several items would be meant.
fn by_step<'a, 's>(steps: &Steps<'s>, items: &'a [Value]) -> BTreeMap<&'s str, Option<&'a Value>> {
    let mut all = BTreeMap::new();
    for item in items {
        if let Some(step) = steps.find(item) {
            all.entry(step).and_modify(|it| *it = None).or_insert(Some(item));
        }
    }
    all
}

fn shown(path: &[Step<'_>]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Item(step) => text.push_str(&fields::item_shown(step)),
            Step::At(at) => text.push_str(&format!("[{at}]")),
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
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::calls::FIELD_MANAGER;

    /// An answer with the fields that it gives to our field manager.
    fn owning(mut answered: Value, fields: Value) -> Value {
        answered["metadata"]["managedFields"] =
            json!([{"manager": FIELD_MANAGER, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields}]);
        answered
    }

    #[test]
    fn a_changed_value_is_named_and_defaults_and_spellings_are_not() {
        let sent = json!({"kind": "A", "metadata": {"name": "a", "labels": {"x.y/z": "1a", "b": "ours"}}, "spec": {
            "containers": [{"name": "app", "image": "ours", "resources": {"limits": {"cpu": "1000m"}}}], "on": true, "n": 1}});
        let answered = json!({"kind": "A", "metadata": {"name": "a", "uid": "u", "labels": {"b": "theirs"}}, "spec": {
            "more": 1, "containers": [{"name": "side"}, {"name": "app", "image": "theirs", "resources": {"limits": {"cpu": "1"}}}],
            "on": true, "n": 2}});
        let fields =
            json!({"f:spec": {"f:containers": {"k:{\"name\":\"app\"}": {".": {}, "f:image": {}, "f:name": {}}}}});
        let answered = owning(answered, fields.clone());
        assert_eq!(overruled(&sent, &answered), ["spec.containers[name=app].image", "spec.n", "metadata.labels.b"]);
        assert!(overruled(&sent, &owning(sent.clone(), fields)).is_empty());
    }

    #[test]
    fn the_schema_says_which_keys_identify_items() {
        let mount = |path: &str, sub_path: &str| json!({"name": "empty-dir", "mountPath": path, "subPath": sub_path});
        let sent =
            json!({"spec": {"volumeMounts": [mount("/tmp", "tmp"), mount("/conf", "conf"), mount("/logs", "logs")]}});
        let step = |path: &str| format!("k:{{\"mountPath\":\"{path}\"}}");
        let fields = json!({"f:spec": {"f:volumeMounts": {
            step("/tmp"): {".": {}}, step("/conf"): {".": {}}, step("/logs"): {".": {}}}}});
        assert!(overruled(&sent, &owning(sent.clone(), fields.clone())).is_empty());
        let mut answered = sent.clone();
        answered["spec"]["volumeMounts"][1]["subPath"] = json!("theirs");
        answered["spec"]["volumeMounts"].as_array_mut().unwrap().reverse();
        assert_eq!(overruled(&sent, &owning(answered, fields)), ["spec.volumeMounts[mountPath=/conf].subPath"]);
    }

    #[test]
    fn a_list_that_is_one_field_is_compared_in_its_order() {
        let sent = json!({"spec": {"args": ["a", "b"], "rules": [{"host": "x"}]}});
        let fields = json!({"f:spec": {"f:args": {}, "f:rules": {}}});
        let answered = json!({"metadata": {}, "spec": {"args": ["a", "c"], "rules": [{"host": "y"}]}});
        assert_eq!(overruled(&sent, &owning(answered, fields)), ["spec.args[1]", "spec.rules[0].host"]);
    }

    #[test]
    fn the_work_grows_with_the_items_and_not_with_their_product() {
        crate::steps::assert_linear("overruled", |number| {
            let items = |image: &str| -> Vec<Value> {
                (0..number).map(|it| json!({"name": format!("c{it}"), "image": image})).collect()
            };
            let step = |it| (format!("k:{{\"name\":\"c{it}\"}}"), json!({}));
            let fields: Value = (0..number).map(step).collect::<serde_json::Map<_, _>>().into();
            let (sent, mut answered) = (json!({"spec": items("a")}), json!({"spec": items("a")}));
            answered["spec"].as_array_mut().unwrap().reverse();
            let answered = owning(answered, json!({"f:spec": fields}));
            crate::steps::of(|| assert!(overruled(&sent, &answered).is_empty()))
        });
        let many = |value: &str| json!({"spec": (0..100).map(|it| (format!("f{it}"), json!(value))).collect::<serde_json::Map<_, _>>()});
        assert_eq!(overruled(&many("a"), &many("b")).len(), TOLD);
    }

    /// Values with few names, so that items repeat their keys.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..3_i64).prop_map(Value::from),
            "[ab1]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 64, 5, |inner| {
            let names = prop::sample::select(vec!["name", "mountPath", "port", "protocol", "list"]);
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(names, inner, 0..5)
                    .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
            ]
        })
    }

    /// The fields of a value, where lists are named by some keys, as sets, or as a whole.
    fn fields_of(value: &Value, choice: usize) -> Value {
        const KEYS: [&[&str]; 4] = [&["name"], &["mountPath"], &["port", "protocol"], &[]];
        match value {
            Value::Object(map) => {
                map.iter().map(|(key, value)| (format!("f:{key}"), fields_of(value, choice + 1))).collect()
            }
            Value::Array(items) => {
                let keys = KEYS[choice % KEYS.len()];
                let step = |item: &Value| {
                    let present: serde_json::Map<_, _> =
                        keys.iter().filter_map(|key| Some(((*key).to_owned(), item.get(*key)?.clone()))).collect();
                    (!present.is_empty())
                        .then(|| (format!("k:{}", Value::Object(present)), fields_of(item, choice + 1)))
                };
                items.iter().filter_map(step).collect()
            }
            _ => json!({}),
        }
    }

    proptest! {
        #[test]
        fn what_is_answered_as_it_was_sent_is_not_overruled(spec in value(), choice in 0..4_usize) {
            let sent = json!({"kind": "A", "metadata": {"labels": {"a": "b"}}, "spec": spec});
            let fields = json!({"f:spec": fields_of(&sent["spec"], choice)});
            prop_assert!(overruled(&sent, &owning(sent.clone(), fields)).is_empty());
            prop_assert!(overruled(&sent, &sent).is_empty());
            let live = owning(sent.clone(), json!({"f:spec": fields_of(&sent["spec"], choice)}));
            prop_assert!(overruled(&live, &live).is_empty());
        }

        /// The items repeat their names, as mounts of one volume do.
        #[test]
        fn what_a_webhook_changed_in_any_item_is_found(
            paths in prop::collection::btree_set("[a-d]{1,2}", 1..6),
            names in prop::collection::vec("[xy]", 6),
            chosen in any::<prop::sample::Index>(),
            is_reversed in any::<bool>(),
            others in prop::collection::btree_set("[e-h]{1,2}", 0..3),
        ) {
            let item = |(path, name): (&String, &String)| json!({"name": name, "mountPath": path, "subPath": "ours"});
            let items: Vec<Value> = paths.iter().zip(&names).map(item).collect();
            let sent = json!({"spec": {"pods": [{"name": "app", "mounts": items}]}});
            let step = |path: &String| (format!("k:{{\"mountPath\":\"{path}\"}}"), json!({"f:name": {}, "f:subPath": {}}));
            let steps: serde_json::Map<_, _> = paths.iter().map(step).collect();
            let fields = json!({"f:spec": {"f:pods": {"k:{\"name\":\"app\"}": {"f:mounts": steps}}}});
            let chosen = chosen.index(items.len());
            let mut answered: Vec<Value> = items;
            answered[chosen]["subPath"] = "theirs".into();
            answered.extend(others.iter().map(|path| json!({"name": "x", "mountPath": path, "subPath": "added"})));
            if is_reversed {
                answered.reverse();
            }
            let answered = owning(json!({"spec": {"pods": [{"name": "app", "mounts": answered}]}}), fields);
            let path = paths.iter().nth(chosen).unwrap();
            prop_assert_eq!(
                overruled(&sent, &answered),
                [format!("spec.pods[name=app].mounts[mountPath={path}].subPath")]
            );
        }
    }
}
