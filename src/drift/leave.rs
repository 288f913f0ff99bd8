//! Keeps out of what is applied what others decide.
//!
//! An ignored field that somebody else has by now is left out, so that it stays theirs. One that nobody has is taken as it
//! is. One that is still ours is applied as the chart says: nobody changed it.
//!
//! Replicas that an autoscaler governs are never set: theirs are left out, and ours stay at the live number until the
//! autoscaler takes them. To leave out a number that only we hold would let it fall to 1.

use std::collections::{BTreeSet, HashMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::{Value, json};

use super::fields::is_ours;
use super::items::Steps;
use super::rules::{self, Rules, Tree};

/// Whether [`leave`] could change this object, so that the live one has to be looked at.
pub fn concerns(object: &Value, rules: &Rules, is_scaled: bool) -> bool {
    is_scaled || reaches(object, &rules.tree(|field| object.get(field).is_some()))
}

/// Whether a path leads to something.
fn reaches(value: &Value, node: &Tree<'_>) -> bool {
    let is_below = || match value {
        Value::Object(map) => {
            node.named.iter().any(|(name, node)| map.get(*name).is_some_and(|below| reaches(below, node)))
        }
        Value::Array(items) => node.all_below().any(|node| items.iter().any(|item| reaches(item, node))),
        _ => false,
    };
    node.ends || is_below()
}

/// Changes what is about to be applied, in view of what is there.
pub fn leave(object: &mut Value, live: &Value, rules: &Rules, is_scaled: bool) {
    let managed = Managed::of(live);
    let parts: BTreeSet<String> = object.as_object().into_iter().flat_map(|object| object.keys().cloned()).collect();
    settle(object, Some(live), managed.owned(), &[&rules.tree(|field| parts.contains(field))]);
    if is_scaled {
        leave_replicas(object, live, managed.owned());
    }
}

/// The fields of all managers, in one list of ours and one of others: who of them it is does not matter here, and an object may have
/// any number of managers.
#[derive(Default)]
pub(super) struct Managed {
    ours: Option<Value>,
    others: Option<Value>,
}

impl Managed {
    pub fn of(live: &Value) -> Self {
        let entries = live.pointer("/metadata/managedFields").cloned().unwrap_or(Value::Null);
        let entries: Vec<ManagedFieldsEntry> = serde_json::from_value(entries).unwrap_or_default();
        let mut managed = Managed::default();
        for entry in entries {
            let is_ours = is_ours(&entry);
            let Some(fields) = entry.fields_v1 else { continue };
            merge(if is_ours { &mut managed.ours } else { &mut managed.others }, fields.0);
        }
        managed
    }

    pub fn owned(&self) -> Owned<'_> {
        Owned { ours: self.ours.as_ref(), others: self.others.as_ref() }
    }
}

fn merge(into: &mut Option<Value>, more: Value) {
    match (into, more) {
        (Some(Value::Object(into)), Value::Object(more)) => {
            for (step, more) in more {
                #[cfg(test)]
                crate::steps::count();
                let mut known = into.remove(&step);
                merge(&mut known, more);
                into.extend(known.map(|merged| (step, merged)));
            }
        }
        (Some(_), _) => {}
        (into, more) => *into = Some(more),
    }
}

/// What we and others own at some place.
#[derive(Clone, Copy)]
pub(super) struct Owned<'a> {
    ours: Option<&'a Value>,
    others: Option<&'a Value>,
}

impl<'a> Owned<'a> {
    pub fn below(self, step: &str) -> Self {
        #[cfg(test)]
        crate::steps::count();
        let below = |fields: &'a Value| fields.get(step);
        Owned { ours: self.ours.and_then(below), others: self.others.and_then(below) }
    }

    /// The lists of those who own something here.
    pub fn lists(self) -> impl Iterator<Item = &'a Value> {
        self.ours.into_iter().chain(self.others)
    }

    fn steps(self) -> Steps<'a> {
        Steps::of(self.lists().filter_map(Value::as_object).flat_map(|fields| fields.keys().map(String::as_str)))
    }
}

fn settle(object: &mut Value, live: Option<&Value>, owned: Owned<'_>, nodes: &[&Tree<'_>]) {
    if nodes.iter().all(|node| node.all_below().next().is_none()) {
        return;
    }
    match object {
        Value::Object(map) => {
            let names: BTreeSet<&str> = nodes.iter().flat_map(|node| node.named.keys().copied()).collect();
            for name in names {
                let nodes: Vec<_> = nodes.iter().filter_map(|node| node.named.get(name)).collect();
                let Some(value) = map.get_mut(name) else { continue };
                let (live, owned) = (live.and_then(|live| live.get(name)), owned.below(&format!("f:{name}")));
                if !nodes.iter().any(|node| node.ends) {
                    settle(value, live, owned, &nodes);
                } else if !keeps(value, live, owned) {
                    map.remove(name);
                }
            }
        }
        Value::Array(items) => {
            let steps = owned.steps();
            let mut found = HashMap::new();
            for item in live.and_then(Value::as_array).into_iter().flatten() {
                if let Some(step) = steps.find(item) {
                    found.entry(step).or_insert(item);
                }
            }
            for item in items {
                let Some(step) = steps.find(item) else { continue };
                settle(item, found.get(step).copied(), owned.below(step), &rules::below(nodes, step));
            }
        }
        _ => {}
    }
}

/// Settles an ignored value, leaf by leaf. False: all of it is others'.
fn keeps(rendered: &mut Value, live: Option<&Value>, owned: Owned<'_>) -> bool {
    if let (Value::Object(map), Some(live @ Value::Object(_))) = (&mut *rendered, live) {
        let was_empty = map.is_empty();
        map.retain(|name, value| keeps(value, live.get(name), owned.below(&format!("f:{name}"))));
        return was_empty || !map.is_empty();
    }
    match live {
        // Nobody has it: the chart may have brought it just now.
        None => true,
        Some(live) if live == rendered => true,
        Some(_) if owned.ours.is_some() => true,
        Some(_) if owned.others.is_some() => false,
        Some(live) => {
            *rendered = live.clone();
            true
        }
    }
}

fn leave_replicas(object: &mut Value, live: &Value, owned: Owned<'_>) {
    let owned = owned.below("f:spec").below("f:replicas");
    let (is_others, is_ours) = (owned.others.is_some(), owned.ours.is_some());
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
    fn the_work_grows_with_items_and_managers_and_not_with_their_product() {
        let item = |it: usize| json!({"port": it, "targetPort": 1});
        let paths = ["/spec/ports/*/targetPort", "/spec/ports/7/targetPort", "/spec/data"];
        crate::steps::assert_linear("leave", |number| {
            let ports: serde_json::Map<String, Value> = (0..number)
                .map(|it| (format!("k:{{\"port\":{it},\"protocol\":\"TCP\"}}"), json!({"f:targetPort": {}})))
                .collect();
            let items = Value::Array((0..number).map(item).collect());
            let mut live = live(json!({"ports": items}), json!({"f:ports": ports}), &[OTHER]);
            let more = json!({"manager": "m", "operation": "Update", "fieldsV1": {"f:spec": {}}});
            let managers = live["metadata"]["managedFields"].as_array_mut().unwrap();
            managers.extend(std::iter::repeat_n(more, number / 2));
            let mut object = json!({"spec": {"ports": items}});
            crate::steps::of(|| leave(&mut object, &live, &rules(&paths), false))
        });
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
