//! Which values a chart is rendered with, to see all that it can make.
//!
//! Pure. A template asks for values in any way it likes, so no list is complete; what stands in the templates is the net below.
//! Tried are: the defaults; every switch thrown, one at a time, with what it is inside of switched on; all switches on, all off;
//! every text that a template compares a value with, that the schema lists, or that is another kind of workload.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::scan::Comparison;
use super::tree::{Member, Tree};

/// What decides what a workload is.
const WORKLOADS: [&str; 3] = ["Deployment", "StatefulSet", "DaemonSet"];
/// How deep a schema is followed.
const MOST_DEPTH: usize = 12;

/// One way to render a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Branch {
    /// Over the defaults.
    pub spec: Value,
    pub is_upgrade: bool,
    /// Whether the cluster has kinds that are often there, but not in Kubernetes itself.
    pub has_more_kinds: bool,
}

/// A value that can be set, and to what.
type Setting = (Vec<String>, Value);

/// The ways to render a chart, those that show most first.
pub fn branches(tree: &Tree, comparisons: &[Comparison]) -> Vec<Branch> {
    let members = tree.members();
    let defaults = defaults(tree);
    let switches = switches(tree, &defaults);
    let all = |on: bool| spec(switches.iter().map(|(path, _)| (path.clone(), on.into())));
    let plain = |spec: Value| Branch { spec, ..Branch::default() };
    let mut branches = vec![
        plain(spec([])),
        plain(all(true)),
        plain(all(false)),
        Branch { has_more_kinds: true, ..plain(spec([])) },
        Branch { has_more_kinds: true, ..plain(all(true)) },
        Branch { is_upgrade: true, ..plain(spec([])) },
        Branch { is_upgrade: true, ..plain(all(true)) },
    ];
    let one_by_one = switches.iter().map(|(path, is_on)| (path.clone(), Value::Bool(!is_on)));
    let texts = choices(tree, &defaults, comparisons);
    for (path, value) in one_by_one.chain(texts) {
        let mut settings = switched_on(&path, &defaults, &members);
        settings.push((path, value));
        branches.push(plain(spec(settings)));
    }
    let mut known = BTreeSet::new();
    branches.retain(|it| known.insert((it.spec.to_string(), it.is_upgrade, it.has_more_kinds)));
    branches
}

/// The values of a chart, with those of its subcharts below, as helm puts them together.
pub fn defaults(tree: &Tree) -> Value {
    let mut all = Value::Object(Map::new());
    for Member { prefix, path, .. } in tree.members() {
        let values = tree.yaml(&format!("{prefix}values.yaml"));
        if values.is_object() {
            // Members come after the charts that they are in, whose values win.
            fill(at(&mut all, &path), values);
        }
    }
    all
}

/// Puts what is not there yet.
fn fill(target: &mut Value, below: Value) {
    let (Value::Object(target), Value::Object(below)) = (target, below) else { return };
    for (key, value) in below {
        match target.get_mut(&key) {
            Some(known) => fill(known, value),
            None => drop(target.insert(key, value)),
        }
    }
}

/// The place under a path, made a map where there is none.
fn at<'a>(root: &'a mut Value, path: &[String]) -> &'a mut Value {
    let mut place = root;
    for key in path {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[key.as_str()];
    }
    if place.is_null() {
        *place = Value::Object(Map::new());
    }
    place
}

fn spec(settings: impl IntoIterator<Item = Setting>) -> Value {
    let mut spec = Value::Object(Map::new());
    for (path, value) in settings {
        if let Some((last, above)) = path.split_last() {
            at(&mut spec, above)[last.as_str()] = value;
        }
    }
    spec
}

/// All booleans, of values and of schemas. One that only a schema has is off.
fn switches(tree: &Tree, defaults: &Value) -> Vec<(Vec<String>, bool)> {
    let mut found = vec![];
    each_leaf(defaults, &mut vec![], &mut |path, value| {
        if let Value::Bool(is_on) = value {
            found.push((path.to_vec(), *is_on));
        }
    });
    each_property(tree, &mut |path, schema| {
        let is_boolean = schema["type"] == "boolean" && !found.iter().any(|(known, _)| known == path);
        if is_boolean && value_at(defaults, path).is_none_or(Value::is_null) {
            found.push((path.to_vec(), false));
        }
    });
    found
}

/// Texts that a value may be in place of what it is.
fn choices(tree: &Tree, defaults: &Value, comparisons: &[Comparison]) -> Vec<Setting> {
    let mut found: Vec<Setting> = vec![];
    let mut add = |path: &[String], text: &str| {
        let setting = (path.to_vec(), Value::from(text));
        if value_at(defaults, path) != Some(&setting.1) && !found.contains(&setting) {
            found.push(setting);
        }
    };
    each_leaf(defaults, &mut vec![], &mut |path, value| {
        let Some(text) = value.as_str().filter(|text| WORKLOADS.iter().any(|it| it.eq_ignore_ascii_case(text))) else {
            return;
        };
        let is_small = text.chars().all(|letter| letter.is_ascii_lowercase());
        WORKLOADS.iter().for_each(|it| add(path, &if is_small { it.to_ascii_lowercase() } else { (*it).to_owned() }));
    });
    each_property(tree, &mut |path, schema| {
        schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).for_each(|text| add(path, text));
    });
    for Comparison { path, text } in comparisons {
        if value_at(defaults, path).is_none_or(|it| it.is_string() || it.is_null()) {
            add(path, text);
        }
    }
    found
}

/// What a value is inside of: subcharts that are off, and maps that say `enabled: false`.
fn switched_on(path: &[String], defaults: &Value, members: &[Member]) -> Vec<Setting> {
    let is_off = |path: &[String]| value_at(defaults, path) == Some(&Value::Bool(false));
    let of_members = members.iter().filter(|it| !it.path.is_empty() && path.starts_with(&it.path));
    let mut settings: Vec<Setting> = vec![];
    let mut add = |switch: Vec<String>| {
        if switch != path && is_off(&switch) {
            settings.push((switch, true.into()));
        }
    };
    of_members.flat_map(|it| &it.conditions).for_each(|condition| add(condition.clone()));
    for end in 1..path.len() {
        let mut switch = path[..end].to_vec();
        switch.push("enabled".to_owned());
        add(switch);
    }
    settings
}

/// What a spec changes about the defaults. Specs that change the same render the same.
pub fn beyond(defaults: &Value, spec: &Value) -> Value {
    let (Value::Object(own), Value::Object(spec)) = (defaults, spec) else { return spec.clone() };
    let change = |(key, value): (&String, &Value)| {
        let change = match own.get(key) {
            Some(default) if default == value && !holds_null(value) => None,
            // A map is put over a map field by field, so one that changes none of them changes nothing.
            Some(default @ Value::Object(_)) if value.is_object() => {
                Some(beyond(default, value)).filter(|change| change.as_object().is_none_or(|it| !it.is_empty()))
            }
            _ => Some(value.clone()),
        };
        Some((key.clone(), change?))
    };
    Value::Object(spec.iter().filter_map(change).collect())
}

/// In Helm, null removes a default.
fn holds_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(holds_null),
        Value::Object(map) => map.values().any(holds_null),
        _ => false,
    }
}

fn value_at<'a>(values: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(values, |place, key| place.get(key))
}

fn each_leaf(value: &Value, path: &mut Vec<String>, look: &mut impl FnMut(&[String], &Value)) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                path.push(key.clone());
                each_leaf(value, path, look);
                path.pop();
            }
        }
        // What is in a list has no name by which a spec could change it alone.
        Value::Array(_) => {}
        leaf => look(path, leaf),
    }
}

/// Every property of the schemas of a chart and its subcharts, with the path of its value.
fn each_property(tree: &Tree, look: &mut impl FnMut(&[String], &Value)) {
    for Member { prefix, mut path, .. } in tree.members() {
        let schema = tree.yaml(&format!("{prefix}values.schema.json"));
        properties(&schema, &schema, &mut path, look);
    }
}

fn properties(root: &Value, schema: &Value, path: &mut Vec<String>, look: &mut impl FnMut(&[String], &Value)) {
    if path.len() > MOST_DEPTH {
        return;
    }
    let referred = |it: &Value| root.pointer(it["$ref"].as_str()?.strip_prefix('#')?).cloned();
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let property = referred(property).unwrap_or_else(|| property.clone());
        path.push(key.clone());
        look(path, &property);
        properties(root, &property, path, look);
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn specs(files: &[(&str, &str)], comparisons: &[Comparison]) -> Vec<Value> {
        branches(&Tree::of(files.iter().copied()), comparisons).into_iter().map(|it| it.spec).collect()
    }

    #[test]
    fn a_spec_that_repeats_the_defaults_changes_nothing() {
        let defaults = json!({"a": 1, "b": {"c": true, "d": [1]}, "e": {}, "n": null});
        for same in
            [json!({}), json!({"a": 1, "b": {"c": true, "d": [1]}, "e": {}}), json!({"b": {}}), json!({"e": {}})]
        {
            assert_eq!(beyond(&defaults, &same), json!({}), "{same}");
        }
        for other in [
            json!({"a": 1.0}),
            json!({"a": null}),
            json!({"b": {"d": []}}),
            json!({"e": {"f": {}}}),
            json!({"n": null}),
        ] {
            assert_eq!(beyond(&defaults, &other), other);
        }
        assert_eq!(beyond(&defaults, &json!({"a": 1, "b": {"c": false, "d": [1]}})), json!({"b": {"c": false}}));
    }

    #[test]
    fn every_switch_is_thrown_alone_and_with_all_others() {
        let values = "a: {enabled: false}\nb: true\nc: text\nlist: [{x: true}]\n";
        let specs = specs(&[("values.yaml", values)], &[]);
        for expected in [
            json!({}),
            json!({"a": {"enabled": true}, "b": true}),
            json!({"a": {"enabled": false}, "b": false}),
            json!({"a": {"enabled": true}}),
            json!({"b": false}),
        ] {
            assert!(specs.contains(&expected), "{expected} is not in {specs:?}");
        }
        // Twice more with other capabilities, and twice for an upgrade.
        assert_eq!(specs.len(), 5 + 4);
    }

    #[test]
    fn what_a_switch_is_inside_of_is_switched_on() {
        let files = [
            ("Chart.yaml", "name: app\ndependencies: [{name: db, condition: db.enabled}]"),
            ("values.yaml", "db: {enabled: false}\nother: false\n"),
            ("charts/db/Chart.yaml", "name: db"),
            ("charts/db/values.yaml", "metrics: {enabled: false, monitor: {enabled: false}}\n"),
        ];
        let expected = json!({"db": {"enabled": true, "metrics": {"enabled": true, "monitor": {"enabled": true}}}});
        assert!(specs(&files, &[])[7..].contains(&expected), "beside the render with everything on");
        assert!(specs(&files, &[])[7..].contains(&json!({"db": {"enabled": true, "metrics": {"enabled": true}}})));
    }

    #[test]
    fn a_value_that_is_a_kind_is_tried_as_the_others() {
        let specs = specs(&[("values.yaml", "workload: {type: deployment}\nkind: DaemonSet\n")], &[]);
        for expected in [json!({"workload": {"type": "statefulset"}}), json!({"kind": "Deployment"})] {
            assert!(specs.contains(&expected), "{expected} is not in {specs:?}");
        }
    }

    #[test]
    fn schemas_and_comparisons_name_more_values() {
        let schema = r##"{"properties": {"mode": {"enum": ["a", "b", 3]}, "extra": {"$ref": "#/$defs/flag"}},
                       "$defs": {"flag": {"properties": {"on": {"type": "boolean"}}}}}"##;
        let path = |text: &str| text.split('.').map(str::to_owned).collect();
        let comparison = Comparison { path: path("auth.kind"), text: "oidc".into() };
        let files = [("values.yaml", "mode: a\n"), ("values.schema.json", schema)];
        let specs = specs(&files, &[comparison]);
        for expected in [json!({"mode": "b"}), json!({"extra": {"on": true}}), json!({"auth": {"kind": "oidc"}})] {
            assert!(specs.contains(&expected), "{expected} is not in {specs:?}");
        }
        assert!(!specs.contains(&json!({"mode": "a"})), "that is the default");
    }

    #[test]
    fn the_values_of_a_chart_win_over_its_subcharts() {
        let tree = Tree::of([
            ("values.yaml", "db: {a: 1}\n"),
            ("charts/db/Chart.yaml", "name: db"),
            ("charts/db/values.yaml", "a: 2\nb: 3\n"),
        ]);
        assert_eq!(defaults(&tree), json!({"db": {"a": 1, "b": 3}}));
    }
}
