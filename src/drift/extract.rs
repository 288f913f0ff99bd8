//! What a manager applied, taken out of the live object by the manager's list of fields.
//!
//! Pure. As client-go's `ExtractInto` does it, but without a schema. So one thing is not known: a leaf may be a map that is one
//! field as a whole, or an empty one that was applied as `{}`. If another manager has fields below, it was empty; otherwise the
//! whole live value is taken, with what the API server filled in.
//!
//! What the list names and the object no longer has is left out. Lists are in the order of the live object.

use std::borrow::Cow;
use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::items::{Steps, keys_of};
use super::leave::{Managed, Owned};

/// The object as the manager of `fields` would apply it again.
pub fn extract(live: &Value, fields: &Value) -> Value {
    let managed = Managed::of(live);
    let live = &*with_string_data(live, fields);
    let mut object = match taken(live, fields, managed.owned()) {
        Some(Value::Object(object)) if !is_leaf(fields) => object,
        _ => Map::new(),
    };
    // No list names what makes an object what it is.
    copy(live, &mut object, &["apiVersion", "kind"]);
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let (Some(metadata), Some(live)) = (metadata.as_object_mut(), live.get("metadata")) {
        copy(live, metadata, &["name", "namespace"]);
    }
    Value::Object(object)
}

/// A Secret's `stringData` is never answered: it went into `data`, while the list goes on naming it.
fn with_string_data<'a>(live: &'a Value, fields: &Value) -> Cow<'a, Value> {
    if live["kind"] != "Secret" || live["apiVersion"] != "v1" || fields.get("f:stringData").is_none() {
        return Cow::Borrowed(live);
    }
    let decoded = |value: &Value| String::from_utf8(STANDARD.decode(value.as_str()?).ok()?).ok();
    let data = live["data"].as_object().into_iter().flatten();
    let texts = data.filter_map(|(key, value)| Some((key.clone(), Value::String(decoded(value)?))));
    let texts = Value::Object(texts.collect());
    let mut live = live.clone();
    if let Some(live) = live.as_object_mut() {
        live.insert("stringData".to_owned(), texts);
    }
    Cow::Owned(live)
}

fn copy(from: &Value, to: &mut Map<String, Value>, fields: &[&str]) {
    for field in fields {
        if let Some(value) = from.get(field) {
            to.insert((*field).to_owned(), value.clone());
        }
    }
}

/// The part of a live value that `fields` names. `all` is what all managers own at this place.
fn taken(live: &Value, fields: &Value, all: Owned<'_>) -> Option<Value> {
    if is_leaf(fields) {
        return Some(leaf(live, all));
    }
    let found = match live {
        Value::Object(map) => Value::Object(taken_fields(map, fields, all)),
        Value::Array(items) => Value::Array(taken_items(items, fields, all)),
        _ => return None,
    };
    // An empty place counts only where it is named itself.
    (!is_empty(&found) || fields.get(".").is_some()).then_some(found)
}

fn leaf(live: &Value, all: Owned<'_>) -> Value {
    match live {
        _ if all.lists().all(is_leaf) => live.clone(),
        Value::Object(_) => Value::Object(Map::new()),
        Value::Array(_) => Value::Array(vec![]),
        plain => plain.clone(),
    }
}

fn taken_fields(live: &Map<String, Value>, fields: &Value, all: Owned<'_>) -> Map<String, Value> {
    let named = live.iter().filter_map(|(name, value)| {
        let step = format!("f:{name}");
        Some((name.clone(), taken(value, fields.get(&step)?, all.below(&step))?))
    });
    named.collect()
}

fn taken_items(live: &[Value], fields: &Value, all: Owned<'_>) -> Vec<Value> {
    let Some(fields) = fields.as_object() else { return vec![] };
    let by_keys = Steps::of(fields.keys().map(String::as_str));
    let as_value = |step: &str| serde_json::from_str::<Value>(step.strip_prefix("v:")?).ok();
    let by_value: HashMap<String, &String> =
        fields.keys().filter_map(|step| Some((as_value(step)?.to_string(), step))).collect();
    let items = live.iter().enumerate().filter_map(|(index, item)| {
        let value = || by_value.get(&item.to_string()).map(|step| step.as_str());
        let value = if by_value.is_empty() { None } else { value() };
        let number = format!("i:{index}");
        let step = fields.get_key_value(&number).map(|(step, _)| step.as_str());
        let step = step.or_else(|| by_keys.find(item)).or(value)?;
        with_keys(taken(item, fields.get(step)?, all.below(step)), step)
    });
    items.collect()
}

/// An item is nothing without its keys, whoever has them. One that is missing beside another was left to its default by the
/// apply, and to name it would claim it: `protocol: TCP`.
fn with_keys(item: Option<Value>, step: &str) -> Option<Value> {
    let Some(keys) = keys_of(step) else { return item };
    match item.unwrap_or_else(|| Value::Object(Map::new())) {
        Value::Object(mut item) => {
            if !keys.keys().any(|key| item.contains_key(key)) {
                item.extend(keys);
            }
            Some(Value::Object(item))
        }
        other => Some(other),
    }
}

fn is_leaf(fields: &Value) -> bool {
    fields.as_object().is_none_or(|fields| fields.keys().all(|step| step == "."))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// An object with this below `spec`, and the same of a list of fields.
    fn of_spec(live: Value, fields: Value) -> Value {
        let live = json!({"apiVersion": "g.io/v1", "kind": "A", "metadata": {"name": "a"}, "spec": live});
        extract(&live, &json!({"f:spec": fields}))["spec"].clone()
    }

    #[test]
    fn a_deployment_comes_back_as_it_was_applied() {
        let live = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "web", "namespace": "default", "uid": "u", "resourceVersion": "7", "generation": 2,
                "labels": {"app": "web", "theirs": "x"},
                "annotations": {"deployment.kubernetes.io/revision": "1"},
            },
            "spec": {
                "replicas": 2, "progressDeadlineSeconds": 600,
                "selector": {"matchLabels": {"app": "web"}},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {
                        "containers": [
                            {"name": "sidecar", "image": "theirs"},
                            {
                                "name": "app", "image": "img:1", "imagePullPolicy": "IfNotPresent",
                                "args": ["a", "b"],
                                "env": [{"name": "A", "value": "1"}, {"name": "THEIRS"}, {"name": "B", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "x"}}}],
                                "ports": [{"containerPort": 80, "protocol": "TCP", "name": "http"}, {"containerPort": 80, "protocol": "UDP"}],
                                "resources": {"limits": {"cpu": "1"}},
                            },
                        ],
                        "volumes": [{"name": "tmp", "emptyDir": {}}],
                        "restartPolicy": "Always",
                    },
                },
            },
            "status": {"replicas": 2},
        });
        let fields = json!({
            "f:metadata": {"f:labels": {"f:app": {}}},
            "f:spec": {
                "f:replicas": {}, "f:selector": {},
                "f:template": {
                    "f:metadata": {"f:labels": {"f:app": {}}},
                    "f:spec": {
                        "f:containers": {"k:{\"name\":\"app\"}": {
                            ".": {}, "f:name": {}, "f:image": {}, "f:args": {},
                            "f:env": {
                                "k:{\"name\":\"A\"}": {".": {}, "f:name": {}, "f:value": {}},
                                "k:{\"name\":\"B\"}": {".": {}, "f:name": {}, "f:valueFrom": {"f:fieldRef": {}}},
                            },
                            "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}, "f:name": {}}},
                            "f:resources": {"f:limits": {"f:cpu": {}}},
                        }},
                        "f:volumes": {"k:{\"name\":\"tmp\"}": {".": {}, "f:name": {}, "f:emptyDir": {}}},
                    },
                },
            },
        });
        let expected = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {
                        "containers": [{
                            "name": "app", "image": "img:1", "args": ["a", "b"],
                            "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "x"}}}],
                            "ports": [{"containerPort": 80, "name": "http"}],
                            "resources": {"limits": {"cpu": "1"}},
                        }],
                        "volumes": [{"name": "tmp", "emptyDir": {}}],
                    },
                },
            },
        });
        assert_eq!(extract(&live, &fields), expected);
    }

    #[test]
    fn ports_of_a_service_are_found_by_both_keys_in_the_live_order() {
        let port = |port: u16, protocol: &str| json!({"port": port, "protocol": protocol, "targetPort": port});
        let live = json!({"ports": [port(53, "UDP"), port(53, "TCP"), port(80, "TCP")], "clusterIP": "10.0.0.1"});
        let fields = json!({"f:ports": {
            "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}, "f:targetPort": {}},
            "k:{\"port\":53,\"protocol\":\"UDP\"}": {".": {}, "f:port": {}, "f:protocol": {}},
        }});
        let expected = json!({"ports": [{"port": 53, "protocol": "UDP"}, {"port": 80, "targetPort": 80}]});
        assert_eq!(of_spec(live, fields), expected);
    }

    #[test]
    fn a_config_map_keeps_the_keys_of_others_out() {
        let live = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n", "finalizers": ["x/y", "z/w"]},
            "data": {"ours": "1", "theirs": "2"}, "immutable": false,
        });
        let fields = json!({"f:data": {"f:ours": {}, "f:gone": {}}, "f:metadata": {"f:finalizers": {"v:\"z/w\"": {}, "v:\"gone\"": {}}}});
        let expected = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n", "finalizers": ["z/w"]},
            "data": {"ours": "1"},
        });
        assert_eq!(extract(&live, &fields), expected);
    }

    #[test]
    fn the_texts_of_a_secret_are_found_in_its_data() {
        let live = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"},
            "data": {"password": "cA==", "token": "dA==", "theirs": "eA==", "binary": "/w=="},
        });
        let fields =
            json!({"f:stringData": {"f:password": {}, "f:binary": {}, "f:gone": {}}, "f:data": {"f:token": {}}});
        let found = extract(&live, &fields);
        assert_eq!(found["stringData"], json!({"password": "p"}));
        assert_eq!(found["data"], json!({"token": "dA=="}));
    }

    #[test]
    fn the_whole_of_a_leaf_is_taken() {
        let reference = json!({"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u", "controller": true});
        let live = json!({"atomic": {"a": [{"b": 1}]}, "list": [1, 2], "owners": [reference, {"uid": "v"}]});
        let fields = json!({"f:atomic": {}, "f:list": {}, "f:owners": {"k:{\"uid\":\"u\"}": {}}});
        let expected = json!({"atomic": {"a": [{"b": 1}]}, "list": [1, 2], "owners": [reference]});
        assert_eq!(of_spec(live, fields), expected);
    }

    #[test]
    fn an_empty_map_that_others_filled_is_still_empty() {
        let entry = |manager: &str, fields: Value| json!({"manager": manager, "fieldsV1": {"f:spec": fields}});
        let ours = json!({"f:map": {}, "f:list": {}, "f:whole": {}});
        let theirs = json!({"f:map": {".": {}, "f:a": {}}, "f:list": {"v:1": {}}, "f:whole": {}});
        let live = json!({
            "metadata": {"name": "a", "managedFields": [entry("helm", ours.clone()), entry("other", theirs)]},
            "spec": {"map": {"a": 1}, "list": [1], "whole": {"a": 1}},
        });
        let expected = json!({"map": {}, "list": [], "whole": {"a": 1}});
        assert_eq!(extract(&live, &json!({"f:spec": ours}))["spec"], expected);
    }

    #[test]
    fn a_place_that_is_named_itself_stays_when_it_is_empty() {
        let live = json!({"a": {"theirs": 1}, "b": {"theirs": 1}, "c": [{"name": "theirs"}], "d": 1});
        let fields = json!({
            "f:a": {".": {}, "f:gone": {}}, "f:b": {"f:gone": {}}, "f:c": {".": {}, "k:{\"name\":\"gone\"}": {}},
            "f:d": {"f:gone": {}}, "f:e": {".": {}},
        });
        assert_eq!(of_spec(live, fields), json!({"a": {}, "c": []}));
    }

    #[test]
    fn an_item_has_its_keys_also_where_the_list_does_not_name_them() {
        let live = json!({"env": [{"name": "A", "value": "1"}], "ports": [{"port": 80}]});
        let fields = json!({
            "f:env": {"k:{\"name\":\"A\"}": {"f:value": {}}},
            "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {"f:gone": {}}},
        });
        let expected = json!({"env": [{"name": "A", "value": "1"}], "ports": [{"port": 80, "protocol": "TCP"}]});
        assert_eq!(of_spec(live, fields), expected);
    }

    #[test]
    fn the_work_grows_with_the_items_and_not_with_their_product() {
        crate::steps::assert_linear("extract", |number| {
            let items: Vec<Value> = (0..number).map(|it| json!({"name": it, "value": it})).collect();
            let named = |it| (format!("k:{{\"name\":{it}}}"), json!({"f:value": {}}));
            let of_set = |it| (format!("v:{it}"), json!({}));
            let fields: Map<String, Value> = (0..number).map(named).chain((0..number).map(of_set)).collect();
            let live = json!({
                "metadata": {"managedFields": [{"manager": "m", "fieldsV1": {"f:list": fields}}]},
                "list": items,
            });
            let fields = json!({"f:list": fields});
            crate::steps::of(|| assert_eq!(extract(&live, &fields)["list"].as_array().unwrap().len(), number))
        });
    }

    #[test]
    fn items_may_be_named_by_their_number() {
        assert_eq!(of_spec(json!({"a": [5, 6, 7]}), json!({"f:a": {"i:0": {}, "i:2": {}}})), json!({"a": [5, 7]}));
    }

    #[test]
    fn an_empty_list_names_nothing_but_the_object_itself() {
        let live =
            json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a", "labels": {"x": "y"}}, "data": {}});
        let expected = json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}});
        for fields in [json!({}), Value::Null, json!({".": {}})] {
            assert_eq!(extract(&live, &fields), expected);
        }
    }
}
