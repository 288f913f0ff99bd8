//! The list of fields that a manager owns (`fieldsV1`): what it says, hashed and compared.
//!
//! It is a tree. `f:name` is a field, `k:{...}` the item of a list with these keys, `v:...` the item of a set, and `.` the
//! place itself.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::core::ObjectMeta;
use ring::digest::{Context, SHA256};
use serde_json::{Map, Value};

use super::Hash;
use super::rules::{self, Rules, Token, Tree};
use crate::calls::FIELD_MANAGER;

/// Our entry among an object's managers.
pub fn ours(metadata: &ObjectMeta) -> Option<&ManagedFieldsEntry> {
    metadata.managed_fields.iter().flatten().find(|entry| is_ours(entry))
}

pub fn is_ours(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(FIELD_MANAGER)
        && entry.operation.as_deref() == Some("Apply")
        && entry.subresource.as_deref().unwrap_or_default().is_empty()
}

/// The fields of our entry in an object. Null where there is none.
pub(super) fn ours_in(object: &Value) -> &Value {
    let is_ours = |entry: &&Value| {
        entry["manager"] == FIELD_MANAGER
            && entry["operation"] == "Apply"
            && entry["subresource"].as_str().unwrap_or_default().is_empty()
    };
    let mut entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries.find(is_ours).map_or(&Value::Null, |entry| &entry["fieldsV1"])
}

/// Whether `spec.replicas` is among the fields.
pub fn has_replicas(fields: &Value) -> bool {
    fields.pointer("/f:spec/f:replicas").is_some()
}

/// One number for all fields but the ignored ones and the replicas, which an autoscaler may take at any time.
pub fn hash(fields: &Value, rules: &Rules) -> Hash {
    let mut context = Context::new(&SHA256);
    let kept = kept(fields, rules);
    update(&mut context, &kept);
    shortened(context)
}

pub(super) fn shortened(context: Context) -> Hash {
    let digest = context.finish();
    let bytes = digest.as_ref().iter().take(8);
    Hash(bytes.fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// The fields without those that others may decide, and without the replicas.
fn kept(fields: &Value, rules: &Rules) -> Value {
    let replicas = [Token::Named("spec".into()), Token::Named("replicas".into())];
    let mut tree = rules.tree(|field| fields.get(format!("f:{field}")).is_some());
    tree.add(&replicas);
    without(fields, &[&tree])
}

fn update(context: &mut Context, fields: &Value) {
    // Maps are sorted, so the same fields give the same bytes.
    for (key, value) in fields.as_object().into_iter().flatten() {
        #[cfg(test)]
        crate::steps::count();
        context.update(key.as_bytes());
        context.update(&[1]);
        update(context, value);
        context.update(&[2]);
    }
}

/// Leaves out what rules name, and what becomes empty by that: an empty place would count as a field of its own.
fn without(fields: &Value, nodes: &[&Tree<'_>]) -> Value {
    let Some(map) = fields.as_object().filter(|_| !nodes.is_empty()) else { return fields.clone() };
    let kept = map.iter().filter_map(|(step, value)| {
        #[cfg(test)]
        crate::steps::count();
        let nodes = rules::below(nodes, step);
        if nodes.iter().any(|node| node.ends) {
            return None;
        }
        let rest = without(value, &nodes);
        (is_empty(value) || !is_empty(&rest)).then(|| (step.clone(), rest))
    });
    Value::Object(kept.collect())
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_none_or(Map::is_empty)
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A field that is ours and that somebody else has now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lost {
    /// As a person writes it: `spec.template.spec.containers[name=app].image`.
    pub field: String,
    /// Who has it now. None where it was removed.
    pub manager: Option<String>,
}

/// How many lost fields are looked for. For each, every manager is asked whether it has the field.
const MOST_LOST: usize = 64;

/// What an apply would take back: the first fields of `wanted`, as a dry run answered, that are not ours in `live`.
pub fn lost(wanted: &ObjectMeta, live: &ObjectMeta, rules: &Rules) -> Vec<Lost> {
    let of = |metadata: &ObjectMeta| {
        let fields = ours(metadata).and_then(|entry| entry.fields_v1.as_ref());
        fields.map_or(Value::Null, |fields| fields.0.clone())
    };
    let (wanted, mine) = (of(wanted), of(live));
    let tree = rules.tree(|field| wanted.get(format!("f:{field}")).is_some());
    let wanted = without(&wanted, &[&tree]);
    let mut paths = vec![];
    collect(&wanted, Some(&mine), &mut vec![], &mut paths);
    let others = live.managed_fields.iter().flatten().filter(|entry| !is_ours(entry));
    let others: Vec<_> = others.collect();
    let owner = |path: &[String]| {
        let owner = others.iter().filter(|entry| {
            let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
            fields.is_some_and(|fields| path.iter().try_fold(fields, |fields, step| fields.get(step)).is_some())
        });
        owner.max_by_key(|entry| entry.time.as_ref().map(|time| time.0)).and_then(|entry| entry.manager.clone())
    };
    paths.iter().map(|path| Lost { field: shown(path), manager: owner(path) }).collect()
}

/// The paths to the leaves that are missing in the other list.
fn collect(wanted: &Value, have: Option<&Value>, path: &mut Vec<String>, missing: &mut Vec<Vec<String>>) {
    for (step, below) in wanted.as_object().into_iter().flatten().filter(|(step, _)| *step != ".") {
        if missing.len() == MOST_LOST {
            return;
        }
        path.push(step.clone());
        let have = have.and_then(|have| have.get(step));
        let is_leaf = below.as_object().is_none_or(|below| below.keys().all(|step| step == "."));
        match (is_leaf, have) {
            (true, None) => missing.push(path.clone()),
            (true, Some(_)) => {}
            (false, have) => collect(below, have, path, missing),
        }
        path.pop();
    }
}

/// A path as a person writes it.
fn shown(path: &[String]) -> String {
    let mut text = String::new();
    for step in path {
        match step.split_at_checked(2) {
            Some(("f:", name)) if name.contains(['.', '/']) => text.push_str(&format!("[{name}]")),
            Some(("f:", name)) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(name);
            }
            _ => text.push_str(&item_shown(step)),
        }
    }
    text
}

/// The step of an item as a person writes it.
pub(super) fn item_shown(step: &str) -> String {
    match step.split_at_checked(2) {
        Some(("k:", keys)) => format!("[{}]", keys_shown(keys)),
        Some((_, item)) => format!("[{item}]"),
        None => String::new(),
    }
}

fn keys_shown(keys: &str) -> String {
    let keys: Value = serde_json::from_str(keys).unwrap_or(Value::Null);
    let pairs = keys.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={}", self::text(value)));
    pairs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drift::Rule;
    use crate::steps;
    use serde_json::json;

    fn rules(paths: &[&str]) -> Rules {
        Rules::default().with(paths.iter().map(|path| Rule::parse(path).unwrap()))
    }

    fn deployment(image: bool, replicas: bool) -> Value {
        let mut container = json!({".": {}, "f:name": {}});
        if image {
            container["f:image"] = json!({});
        }
        let mut spec = json!({"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"app\"}": container}}}});
        if replicas {
            spec["f:replicas"] = json!({});
        }
        json!({"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": spec})
    }

    fn metadata(entries: Value) -> ObjectMeta {
        serde_json::from_value(json!({"name": "a", "managedFields": entries})).unwrap()
    }

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    #[test]
    fn the_work_grows_with_the_fields_and_not_with_the_rules() {
        steps::assert_linear("hash", |number| {
            let items: Map<String, Value> =
                (0..number).map(|it| (format!("k:{{\"name\":\"c{it}\"}}"), json!({"f:image": {}}))).collect();
            let fields = json!({"f:spec": {"f:list": items}});
            let named = (0..number).map(|it| Rule::parse(&format!("/spec/list/c{it}/other")).unwrap());
            let any = (0..number).map(|it| Rule::parse(&format!("/spec/list/*/other{it}")).unwrap());
            let rules = Rules::default().with(named).with(any);
            steps::of(|| hash(&fields, &rules))
        });
    }

    #[test]
    fn only_so_many_lost_fields_are_looked_for() {
        let fields: Map<String, Value> = (0..10_000).map(|it| (format!("f:{it}"), json!({}))).collect();
        let wanted = metadata(json!([entry("helm", "Apply", json!({"f:data": fields}))]));
        let live = metadata(json!([entry("helm", "Apply", json!({"f:a": {}}))]));
        assert_eq!(lost(&wanted, &live, &Rules::default()).len(), MOST_LOST);
    }

    #[test]
    fn rules_below_each_other_and_through_any_item_hold_together() {
        let fields = json!({"f:spec": {"f:a": {"f:b": {}, "f:c": {}}, "f:l": {"k:{\"n\":\"x\"}": {"f:p": {}, "f:q": {}}, "v:\"s\"": {}}}});
        let rules = rules(&["/spec/a/b", "/spec/a/c", "/spec/l/*/p", "/spec/l/x/q", "/spec/l/s"]);
        assert_eq!(kept(&fields, &rules), json!({}));
    }

    #[test]
    fn a_lost_field_changes_the_hash_and_replicas_do_not() {
        let none = Rules::default();
        assert_ne!(hash(&deployment(true, true), &none), hash(&deployment(false, true), &none));
        assert_eq!(hash(&deployment(true, true), &none), hash(&deployment(true, false), &none));
    }

    #[test]
    fn an_ignored_field_does_not_change_the_hash_however_it_is_named() {
        for path in ["*", "app", "0"] {
            let rules = rules(&[&format!("/spec/template/spec/containers/{path}/image")]);
            assert_eq!(hash(&deployment(true, true), &rules), hash(&deployment(false, true), &rules), "{path}");
        }
        let other = rules(&["/spec/template/spec/containers/sidecar/image"]);
        assert_ne!(hash(&deployment(true, true), &other), hash(&deployment(false, true), &other));
    }

    #[test]
    fn what_becomes_empty_by_an_ignored_field_goes_with_it() {
        let rules = rules(&["/spec/replicas"]);
        let (with, without) = (json!({"f:spec": {"f:replicas": {}}, "f:a": {}}), json!({"f:a": {}}));
        assert_eq!(hash(&with, &rules), hash(&without, &rules));
    }

    #[test]
    fn the_rules_of_a_cluster_role_count_unless_they_are_aggregated() {
        let rules = Rules::of_cluster("rbac.authorization.k8s.io", "ClusterRole");
        let plain = |ours: bool| if ours { json!({"f:rules": {}, "f:a": {}}) } else { json!({"f:a": {}}) };
        assert_ne!(hash(&plain(true), &rules), hash(&plain(false), &rules));
        let aggregated = |ours: bool| {
            let mut fields = plain(ours);
            fields["f:aggregationRule"] = json!({});
            fields
        };
        assert_eq!(hash(&aggregated(true), &rules), hash(&aggregated(false), &rules));
    }

    #[test]
    fn lost_fields_are_named_with_who_has_them() {
        let wanted = metadata(json!([entry("helm", "Apply", deployment(true, true))]));
        let live = metadata(json!([
            entry("helm", "Apply", deployment(false, false)),
            entry("kubectl-edit", "Update", deployment(true, false)),
        ]));
        let expected = [
            Lost { field: "spec.replicas".into(), manager: None },
            Lost {
                field: "spec.template.spec.containers[name=app].image".into(),
                manager: Some("kubectl-edit".into()),
            },
        ];
        assert_eq!(lost(&wanted, &live, &Rules::default()), expected);
        assert!(lost(&wanted, &live, &rules(&["/spec"])).is_empty());
    }

    #[test]
    fn a_write_under_our_name_that_is_no_apply_is_not_ours() {
        let live = metadata(json!([entry("helm", "Update", deployment(true, true))]));
        assert!(ours(&live).is_none());
    }

    #[test]
    fn a_label_with_a_dot_is_shown_in_brackets() {
        let path = ["f:metadata", "f:labels", "f:a.b/c"].map(str::to_owned);
        assert_eq!(shown(&path), "metadata.labels[a.b/c]");
    }
}
