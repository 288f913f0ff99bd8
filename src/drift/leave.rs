//! Keeps out of what is applied what others decide.
//!
//! An ignored field that somebody else has by now is left out, so that it stays theirs. One that nobody has is taken as it
//! is. One that is still ours is applied as the chart says: nobody changed it.
//!
//! Replicas that an autoscaler governs are never set: theirs are left out, and ours stay at the live number until the
//! autoscaler takes them. To leave out a number that only we hold would let it fall to 1.

use serde_json::{Value, json};

use super::fields::{is_ours, matches};
use super::rules::{Rules, Token};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

/// Whether [`leave`] could change this object, so that the live one has to be looked at.
pub fn concerns(object: &Value, rules: &Rules, is_scaled: bool) -> bool {
    is_scaled
        || rules.iter().any(|rule| rule.holds(|field| object.get(field).is_some()) && reaches(object, rule.tokens()))
}

/// Whether a path leads to something.
fn reaches(value: &Value, path: &[Token]) -> bool {
    let Some((token, rest)) = path.split_first() else { return true };
    match (value, token) {
        (Value::Object(map), Token::Named(name)) => map.get(name).is_some_and(|below| reaches(below, rest)),
        (Value::Array(items), _) => items.iter().any(|item| reaches(item, rest)),
        _ => false,
    }
}

/// Changes what is about to be applied, in view of what is there.
pub fn leave(object: &mut Value, live: &Value, rules: &Rules, is_scaled: bool) {
    let managers = managers(live);
    let fields: Vec<Owned> = managers
        .iter()
        .filter_map(|entry| Some(Owned { is_ours: is_ours(entry), fields: &entry.fields_v1.as_ref()?.0 }))
        .collect();
    let holding: Vec<_> = rules.iter().filter(|rule| rule.holds(|field| object.get(field).is_some())).collect();
    for rule in holding {
        settle(object, Some(live), &fields, rule.tokens());
    }
    if is_scaled {
        leave_replicas(object, live, &fields);
    }
}

pub(super) fn managers(live: &Value) -> Vec<ManagedFieldsEntry> {
    let entries = live.pointer("/metadata/managedFields").cloned().unwrap_or(Value::Null);
    serde_json::from_value(entries).unwrap_or_default()
}

/// A manager's fields at some place.
#[derive(Clone, Copy)]
struct Owned<'a> {
    is_ours: bool,
    fields: &'a Value,
}

fn below<'a>(owned: &[Owned<'a>], step: &str) -> Vec<Owned<'a>> {
    let below = owned.iter().filter_map(|owned| Some(Owned { fields: owned.fields.get(step)?, ..*owned }));
    below.collect()
}

fn settle(object: &mut Value, live: Option<&Value>, owned: &[Owned<'_>], path: &[Token]) {
    let Some((token, rest)) = path.split_first() else { return };
    match (object, token) {
        (Value::Object(map), Token::Named(name)) => {
            let owned = below(owned, &format!("f:{name}"));
            let live = live.and_then(|live| live.get(name));
            match (rest.is_empty(), map.get_mut(name)) {
                (_, None) => {}
                (false, Some(value)) => settle(value, live, &owned, rest),
                (true, Some(value)) => {
                    if !keeps(value, live, &owned) {
                        map.remove(name);
                    }
                }
            }
        }
        (Value::Array(items), token) => {
            for item in items {
                let Some(step) = step_of(item, owned).filter(|step| matches(step, token)) else { continue };
                let live =
                    live.and_then(Value::as_array).and_then(|items| items.iter().find(|live| is_item(live, &step)));
                settle(item, live, &below(owned, &step), rest);
            }
        }
        _ => {}
    }
}

/// Settles an ignored value, leaf by leaf. False: all of it is others'.
fn keeps(rendered: &mut Value, live: Option<&Value>, owned: &[Owned<'_>]) -> bool {
    if let (Value::Object(map), Some(live @ Value::Object(_))) = (&mut *rendered, live) {
        let was_empty = map.is_empty();
        map.retain(|name, value| keeps(value, live.get(name), &below(owned, &format!("f:{name}"))));
        return was_empty || !map.is_empty();
    }
    match live {
        // Nobody has it: the chart may have brought it just now.
        None => true,
        Some(live) if live == rendered => true,
        Some(_) if owned.iter().any(|owned| owned.is_ours) => true,
        Some(_) if !owned.is_empty() => false,
        Some(live) => {
            *rendered = live.clone();
            true
        }
    }
}

/// The step by which the managers name a list item. None in a list that is one field as a whole.
fn step_of(item: &Value, owned: &[Owned<'_>]) -> Option<String> {
    let steps = owned.iter().filter_map(|owned| owned.fields.as_object()).flat_map(|fields| fields.keys());
    steps.filter(|step| step.starts_with("k:")).find(|step| is_item(item, step)).cloned()
}

/// Whether an item has the keys of a step.
pub(super) fn is_item(item: &Value, step: &str) -> bool {
    let keys = step.strip_prefix("k:").and_then(|keys| serde_json::from_str::<Value>(keys).ok());
    let Some(Value::Object(keys)) = keys else { return false };
    // A key that is not written has its default, which only the API server knows: `protocol: TCP`.
    keys.iter().all(|(key, value)| item.get(key).is_none_or(|known| known == value))
        && keys.keys().any(|key| item.get(key).is_some())
}

fn leave_replicas(object: &mut Value, live: &Value, owned: &[Owned<'_>]) {
    let owned = below(&below(owned, "f:spec"), "f:replicas");
    let is_others = owned.iter().any(|owned| !owned.is_ours);
    let is_ours = owned.iter().any(|owned| owned.is_ours);
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    match live.pointer("/spec/replicas") {
        _ if is_others => drop(spec.remove("replicas")),
        Some(live) if is_ours || spec.contains_key("replicas") => drop(spec.insert("replicas".into(), json!(live))),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::Rule;
    use super::*;

    fn rules(paths: &[&str]) -> Rules {
        Rules::default().with(paths.iter().map(|path| Rule::parse(path).unwrap()))
    }

    /// A live object with one field below spec, owned by these managers.
    fn live(spec: Value, fields: Value, managers: &[(&str, &str)]) -> Value {
        let entry = |(manager, operation): &(&str, &str)| json!({"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": fields}});
        let managers: Vec<_> = managers.iter().map(entry).collect();
        json!({"metadata": {"managedFields": managers}, "spec": spec})
    }

    const OURS: (&str, &str) = ("helm", "Apply");
    const OTHER: (&str, &str) = ("hpa", "Update");

    fn left(mut object: Value, live: &Value, paths: &[&str], is_scaled: bool) -> Value {
        leave(&mut object, live, &rules(paths), is_scaled);
        object
    }

    #[test]
    fn an_ignored_field_stays_with_whoever_has_it() {
        let rendered = json!({"spec": {"a": 1, "b": 1}});
        let fields = json!({"f:a": {}});
        let of = |managers: &[(&str, &str)]| {
            left(rendered.clone(), &live(json!({"a": 2, "b": 1}), fields.clone(), managers), &["/spec/a"], false)
        };
        assert_eq!(of(&[OTHER]), json!({"spec": {"b": 1}}));
        assert_eq!(of(&[OURS]), rendered, "nobody else changed it, so the chart may");
        assert_eq!(of(&[]), json!({"spec": {"a": 2, "b": 1}}), "nobody has it: taken as it is");
        let new = live(json!({"b": 1}), json!({}), &[]);
        assert_eq!(left(rendered.clone(), &new, &["/spec/a"], false), rendered, "the chart brings it");
    }

    #[test]
    fn an_ignored_map_is_settled_entry_by_entry() {
        let rendered = json!({"spec": {"map": {"ours": 1, "theirs": 1, "new": 1}}});
        let mut cluster = live(json!({"map": {"ours": 0, "theirs": 2}}), json!({"f:map": {"f:ours": {}}}), &[OURS]);
        let theirs = live(json!({}), json!({"f:map": {"f:theirs": {}}}), &[OTHER]);
        let entry = theirs["metadata"]["managedFields"][0].clone();
        cluster["metadata"]["managedFields"].as_array_mut().unwrap().push(entry);
        let result = left(rendered, &cluster, &["/spec/map"], false);
        assert_eq!(result, json!({"spec": {"map": {"ours": 1, "new": 1}}}));
    }

    #[test]
    fn an_item_of_a_list_is_found_by_its_keys() {
        let rendered = json!({"spec": {"ports": [{"port": 80, "targetPort": 1}, {"port": 90, "targetPort": 1}]}});
        let fields = json!({"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {"f:targetPort": {}}}});
        let spec = json!({"ports": [{"port": 90, "protocol": "TCP", "targetPort": 1}, {"port": 80, "protocol": "TCP", "targetPort": 7}]});
        let result = left(rendered, &live(spec, fields, &[OTHER]), &["/spec/ports/*/targetPort"], false);
        assert_eq!(result, json!({"spec": {"ports": [{"port": 80}, {"port": 90, "targetPort": 1}]}}));
    }

    #[test]
    fn an_autoscalers_replicas_are_never_set() {
        let of = |rendered: Value, managers: &[(&str, &str)]| {
            left(
                json!({"spec": rendered}),
                &live(json!({"replicas": 5}), json!({"f:replicas": {}}), managers),
                &[],
                true,
            )
        };
        assert_eq!(of(json!({"replicas": 1}), &[OTHER]), json!({"spec": {}}));
        assert_eq!(of(json!({"replicas": 1}), &[OURS, OTHER]), json!({"spec": {}}));
        assert_eq!(of(json!({"replicas": 1}), &[OURS]), json!({"spec": {"replicas": 5}}));
        assert_eq!(
            of(json!({}), &[OURS]),
            json!({"spec": {"replicas": 5}}),
            "the render dropped it: it must not fall to 1"
        );
        assert_eq!(of(json!({}), &[OTHER]), json!({"spec": {}}));
    }

    #[test]
    fn a_live_object_is_needed_only_where_a_rule_reaches() {
        let service = json!({"spec": {"ports": [{"port": 80}]}});
        assert!(!concerns(&service, &Rules::of_cluster("", "Service"), false));
        assert!(concerns(&json!({"spec": {"clusterIP": "None"}}), &Rules::of_cluster("", "Service"), false));
        assert!(concerns(&service, &rules(&["/spec/ports/*/port"]), false));
        assert!(concerns(&service, &Rules::default(), true));
    }
}
