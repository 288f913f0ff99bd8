//! Helm's release records, decoded so that they can be compared like objects. Pure.
//!
//! The templates and files of a chart are left aside: they are Helm's copy of its input.

use std::io::Read;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::object::{Id, RECORD};

const PREFIX: &str = "sh.helm.release.v1.";

pub fn is_record(object: &Value) -> bool {
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    object["kind"] == "Secret" && name.is_some_and(|name| name.starts_with(PREFIX))
}

/// The record in a Secret, if it is one.
pub fn decode(secret: &Value) -> Option<Result<(Id, Value)>> {
    let name = is_record(secret).then(|| secret.pointer("/metadata/name")?.as_str()?.strip_prefix(PREFIX))??;
    let namespace = secret.pointer("/metadata/namespace").and_then(Value::as_str).map(str::to_owned);
    let id = Id { kind: RECORD.into(), group: String::new(), namespace, name: name.to_owned() };
    Some(read(secret).map(|record| (id, record)).with_context(|| format!("the record {name} cannot be read")))
}

fn read(secret: &Value) -> Result<Value> {
    let data = secret.pointer("/data/release").and_then(Value::as_str).context("it has no data")?;
    let packed = STANDARD.decode(STANDARD.decode(data)?)?;
    let mut text = String::new();
    GzDecoder::new(packed.as_slice()).read_to_string(&mut text)?;
    let release: Value = serde_json::from_str(&text)?;
    let mut record = comparable(&release);
    for part in ["labels", "annotations", "ownerReferences"] {
        if let Some(value) = secret.pointer(&format!("/metadata/{part}")) {
            record[part] = value.clone();
        }
    }
    Ok(record)
}

/// What is worth comparing in a release.
fn comparable(release: &Value) -> Value {
    let namespace = release["namespace"].as_str().unwrap_or_default();
    let manifest = objects(release["manifest"].as_str().unwrap_or_default(), namespace);
    let mut record = json!({
        "chart": release["chart"]["metadata"],
        "config": release["config"],
        // A chart without values.yaml has none, or an empty map, depending on who reads it.
        "defaults": release["chart"]["values"].as_object().cloned().unwrap_or_default(),
        "hooks": hooks(release, namespace),
        "order": manifest.iter().map(|(id, _)| id.key()).collect::<Vec<_>>(),
        "manifest": by_key(manifest),
    });
    for field in ["name", "namespace", "version", "apply_method"].into_iter().filter(|field| !release[field].is_null())
    {
        record[field] = release[field].clone();
    }
    for field in ["status", "description", "notes"].into_iter().filter(|field| !release["info"][field].is_null()) {
        record["info"][field] = release["info"][field].clone();
    }
    record
}

/// Hooks by their objects. Where two have the same ones, the second has a number.
fn hooks(release: &Value, namespace: &str) -> Map<String, Value> {
    let mut found = Map::new();
    for hook in release["hooks"].as_array().into_iter().flatten() {
        let objects = objects(hook["manifest"].as_str().unwrap_or_default(), namespace);
        let key = objects.iter().map(|(id, _)| id.key()).collect::<Vec<_>>().join(", ");
        let same = found.keys().filter(|known| known.split(" no. ").next() == Some(&key)).count();
        let key = if same == 0 { key } else { format!("{key} no. {}", same + 1) };
        found.insert(key, hook_of(hook, objects));
    }
    found
}

fn by_key(objects: Vec<(Id, Value)>) -> Map<String, Value> {
    objects.into_iter().map(|(id, object)| (id.key(), object)).collect()
}

fn hook_of(hook: &Value, objects: Vec<(Id, Value)>) -> Value {
    let mut kept = json!({"last_run": {"phase": hook["last_run"]["phase"]}});
    for field in ["path", "weight", "events", "delete_policies", "output_log_policies"] {
        kept[field] = match (field, &hook[field]) {
            ("weight", Value::Null) => json!(0),
            // helm writes the default down once the hook has run.
            ("delete_policies", Value::Null) => json!(["before-hook-creation"]),
            (_, value) => value.clone(),
        };
    }
    kept["manifest"] = by_key(objects).into();
    kept
}

/// The objects of a manifest. A document that a reader of YAML refuses is kept as its text.
pub fn objects(manifest: &str, namespace: &str) -> Vec<(Id, Value)> {
    let mut found: Vec<(Id, Value)> = vec![];
    for text in documents(manifest) {
        let read = serde_yaml::Deserializer::from_str(&text).next().map(Value::deserialize);
        match read {
            Some(Ok(Value::Null)) | None => {}
            Some(Ok(object)) if object["kind"].is_string() => {
                found.extend(items(object).into_iter().map(|object| (Id::rendered(&object, namespace), object)));
            }
            _ => {
                let number = found.len().to_string();
                let id = Id { kind: "text".into(), group: String::new(), namespace: None, name: number };
                found.push((id, json!(text)));
            }
        }
    }
    found
}

/// The objects of a list, or the object itself. Items of a typed list may leave out what they are.
fn items(object: Value) -> Vec<Value> {
    let kind = object["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).map(str::to_owned);
    let (Some(kind), Some(items)) = (kind, object["items"].as_array()) else { return vec![object] };
    let named = items.iter().cloned().map(|mut item| {
        if item["kind"].is_null() {
            (item["apiVersion"], item["kind"]) = (object["apiVersion"].clone(), kind.clone().into());
        }
        item
    });
    named.collect()
}

/// The parts between lines that begin with three dashes.
fn documents(manifest: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in manifest.lines() {
        match line.strip_prefix("---") {
            Some(rest) => parts.push(rest.to_owned() + "\n"),
            None => parts.iter_mut().next_back().into_iter().for_each(|part| *part += &format!("{line}\n")),
        }
    }
    let is_empty = |part: &String| part.lines().all(|line| line.trim().is_empty() || line.starts_with('#'));
    parts.into_iter().filter(|part| !is_empty(part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn secret(release: &Value) -> Value {
        let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        packed.write_all(release.to_string().as_bytes()).unwrap();
        let data = STANDARD.encode(STANDARD.encode(packed.finish().unwrap()));
        json!({"kind": "Secret", "metadata": {"name": "sh.helm.release.v1.web.v2", "namespace": "shop", "labels": {"status": "deployed"}},
            "data": {"release": data}})
    }

    #[test]
    fn a_record_is_read_and_its_manifest_becomes_objects() {
        let manifest = "---\n# Source: a/b.yaml\nkind: Service\nmetadata:\n  name: web\n---\n# nothing\n---\nkind: [\n";
        let hook = json!({"name": "job", "kind": "Job", "events": ["pre-install"], "weight": 3,
            "last_run": {"phase": "Succeeded", "started_at": "x"}, "manifest": "kind: Job\nmetadata: {name: job}"});
        let release = json!({"name": "web", "namespace": "shop", "version": 2, "info": {"status": "deployed"}, "manifest": manifest,
            "chart": {"metadata": {"name": "web"}, "templates": [1]}, "hooks": [hook]});
        let (id, record) = decode(&secret(&release)).unwrap().unwrap();
        assert_eq!(id.to_string(), "Record shop/web.v2");
        assert_eq!(record["manifest"]["Service shop/web"]["metadata"]["name"], "web");
        assert_eq!(record["order"], json!(["Service shop/web", "text 1"]));
        assert_eq!(record["chart"], json!({"name": "web"}));
        assert_eq!(record["hooks"]["Job shop/job"]["last_run"], json!({"phase": "Succeeded"}));
        assert_eq!(record["hooks"]["Job shop/job"]["delete_policies"], json!(["before-hook-creation"]));
        assert_eq!(record["labels"]["status"], "deployed");
    }

    #[test]
    fn lists_are_their_items() {
        let text = "kind: List\nitems:\n- kind: Service\n  metadata: {name: a}\n---\nkind: List\nitems: []\n---\n\
            apiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: b}\n";
        let names: Vec<String> = objects(text, "n").into_iter().map(|(id, _)| id.key()).collect();
        assert_eq!(names, ["Service n/a", "ConfigMap n/b"]);
    }

    #[test]
    fn objects_of_one_name_do_not_hide_each_other() {
        let text = "kind: A\nmetadata: {name: a}\n---\nkind: A\nmetadata: {name: a, namespace: other}\n---\n\
            apiVersion: x.io/v1\nkind: A\nmetadata: {name: a}\n";
        assert_eq!(by_key(objects(text, "n")).len(), 3);
        let hook = |text: &str| json!({"manifest": text});
        let list = "kind: List\nitems: [{kind: Job, metadata: {name: a}}, {kind: Job, metadata: {name: b}}]";
        let release = json!({"hooks": [hook(list), hook("kind: Job\nmetadata: {name: a}"), hook("kind: Job\nmetadata: {name: a}")]});
        let hooks = hooks(&release, "n");
        assert_eq!(hooks.keys().collect::<Vec<_>>(), ["Job n/a", "Job n/a no. 2", "Job n/a, Job n/b"]);
        assert_eq!(hooks["Job n/a, Job n/b"]["manifest"].as_object().unwrap().len(), 2);
    }

    #[test]
    fn other_secrets_are_none_and_broken_records_are_told() {
        assert!(decode(&json!({"kind": "Secret", "metadata": {"name": "password"}})).is_none());
        let broken =
            json!({"kind": "Secret", "metadata": {"name": "sh.helm.release.v1.web.v1"}, "data": {"release": "!"}});
        assert!(decode(&broken).unwrap().is_err());
    }
}
