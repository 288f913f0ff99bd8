//! One Kubernetes object, as data. It has an apiVersion, a kind and a name; nothing else is checked here.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::api::{DynamicObject, TypeMeta};
use kube::core::{GroupVersionKind, ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A Kubernetes object.
#[derive(Clone, Debug, PartialEq)]
pub struct Object(Value);

/// Which object, among all of a cluster, and in which version it was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectId {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    pub version: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
}

/// Which object, whatever the version: an object that moves from v1beta1 to v1 is still the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    pub group: String,
    pub kind: String,
    pub namespace: Option<String>,
    pub name: String,
}

impl ObjectId {
    pub fn key(&self) -> ObjectKey {
        #[cfg(test)]
        crate::steps::count();
        ObjectKey {
            group: self.group.clone(),
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::gvk(&self.group, &self.version, &self.kind)
    }
}

#[derive(Debug, thiserror::Error, PartialEq)]
pub enum ObjectError {
    #[error("it is not a map but {0}")]
    NotAMap(&'static str),
    #[error("it has no {0}")]
    Missing(&'static str),
    #[error("its {0} is not a {1}")]
    WrongType(&'static str, &'static str),
    #[error("{1:?} cannot be its {0}")]
    NoName(&'static str, String),
}

impl Object {
    /// # Errors
    /// The value is not a map, or apiVersion, kind or metadata.name is missing or no string.
    pub fn new(value: Value) -> Result<Self, ObjectError> {
        if !value.is_object() {
            return Err(ObjectError::NotAMap(type_name(&value)));
        }
        required(&value, "/apiVersion", "apiVersion")?;
        required(&value, "/kind", "kind")?;
        if !value.get("metadata").unwrap_or(&Value::Null).is_object() {
            return Err(ObjectError::Missing("metadata"));
        }
        required(&value, "/metadata/name", "metadata.name")?;
        for (pointer, name) in [("/metadata/name", "metadata.name"), ("/metadata/namespace", "metadata.namespace")] {
            match value.pointer(pointer).and_then(Value::as_str) {
                Some(text) if !is_path_segment(text) => return Err(ObjectError::NoName(name, text.to_owned())),
                _ => {}
            }
        }
        for (pointer, name) in [("/metadata/labels", "labels"), ("/metadata/annotations", "annotations")] {
            if value.pointer(pointer).is_some_and(|map| !map.is_object() && !map.is_null()) {
                return Err(ObjectError::WrongType(name, "map"));
            }
        }
        Ok(Object(value))
    }

    pub fn value(&self) -> &Value {
        &self.0
    }

    pub fn api_version(&self) -> &str {
        self.text("/apiVersion")
    }

    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    pub fn namespace(&self) -> Option<&str> {
        self.0.pointer("/metadata/namespace").and_then(Value::as_str).filter(|namespace| !namespace.is_empty())
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.0.pointer("/metadata/annotations")?.get(key)?.as_str()
    }

    pub fn gvk(&self) -> GroupVersionKind {
        let (group, version) = split_api_version(self.api_version());
        GroupVersionKind::gvk(group, version, self.kind())
    }

    pub fn id(&self) -> ObjectId {
        let (group, version) = split_api_version(self.api_version());
        ObjectId {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: self.kind().to_owned(),
            namespace: self.namespace().map(str::to_owned),
            name: self.name().to_owned(),
        }
    }

    /// The object without nulls, as a create makes it: in a map of texts a null is an empty one, elsewhere the entry is left
    /// out. A server-side apply may refuse nulls.
    pub fn without_nulls(mut self) -> Self {
        fill_nulls(&mut self.0["metadata"]);
        if is_builtin(split_api_version(self.api_version()).0) {
            fill_nulls(&mut self.0);
        }
        drop_nulls(&mut self.0);
        self
    }

    /// A Secret with its `stringData` as `data`, which is what the API server makes of it. Nobody owns a key that came in as
    /// `stringData`: a change of it would not be seen, and one that the chart drops would stay for ever.
    pub fn with_plain_data(mut self) -> Self {
        let is_secret = self.kind() == "Secret" && self.api_version() == "v1";
        let is_text = |texts: &Map<String, Value>| texts.values().all(Value::is_string);
        let texts = self.0.get("stringData").and_then(Value::as_object).filter(|texts| is_secret && is_text(texts));
        let Some(texts) = texts.cloned() else { return self };
        // Something else than a map is for the API server to refuse.
        if self.0.get("data").is_some_and(|data| !data.is_object() && !data.is_null()) {
            return self;
        }
        let data =
            texts.iter().map(|(key, text)| (key.clone(), STANDARD.encode(text.as_str().unwrap_or_default()).into()));
        let data: Vec<(String, Value)> = data.collect();
        if let Some(map) = self.0.as_object_mut() {
            map.remove("stringData");
            let all = map.entry("data").or_insert_with(|| json!({}));
            match all.as_object_mut() {
                Some(all) => all.extend(data),
                None => *all = Value::Object(data.into_iter().collect()),
            }
        }
        self
    }

    /// Changes what is below spec, data and the like. What makes the object what it is has to stay.
    pub fn change(&mut self, change: impl FnOnce(&mut Value)) {
        change(&mut self.0);
    }

    pub fn clear_namespace(&mut self) {
        self.metadata().remove("namespace");
    }

    pub fn set_namespace(&mut self, namespace: &str) {
        self.metadata().insert("namespace".into(), namespace.into());
    }

    pub fn set_label(&mut self, key: &str, value: &str) {
        self.entries("labels").insert(key.into(), value.into());
    }

    pub fn set_annotation(&mut self, key: &str, value: &str) {
        self.entries("annotations").insert(key.into(), value.into());
    }

    /// Makes `owner` the one owner of this object.
    pub fn set_owner(&mut self, owner: &Value) {
        self.metadata().insert("ownerReferences".into(), json!([owner]));
    }

    /// The same, with owners whose deletion does not wait for it.
    pub fn without_blocking_owner(mut self) -> Self {
        if let Some(Value::Array(owners)) = self.metadata().get_mut("ownerReferences") {
            for owner in owners.iter_mut().filter_map(Value::as_object_mut) {
                owner.remove("blockOwnerDeletion");
            }
        }
        self
    }

    /// What kube's client creates: name, namespace, labels, annotations, finalizers and owners, and everything outside of the
    /// metadata.
    pub fn to_dynamic(&self) -> DynamicObject {
        let types = TypeMeta { api_version: self.api_version().to_owned(), kind: self.kind().to_owned() };
        let metadata = ObjectMeta {
            name: Some(self.name().to_owned()),
            namespace: self.namespace().map(str::to_owned),
            labels: self.part("labels"),
            annotations: self.part("annotations"),
            finalizers: self.part("finalizers"),
            owner_references: self.part("ownerReferences"),
            ..Default::default()
        };
        let mut data = self.0.clone();
        if let Value::Object(map) = &mut data {
            for separate in ["apiVersion", "kind", "metadata"] {
                map.remove(separate);
            }
        }
        DynamicObject { types: Some(types), metadata, data }
    }

    /// A part of the metadata, if it is as Kubernetes has it.
    fn part<T: Default + serde::de::DeserializeOwned>(&self, name: &str) -> T {
        serde_json::from_value(self.0["metadata"][name].clone()).unwrap_or_default()
    }

    fn text(&self, pointer: &str) -> &str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    fn metadata(&mut self) -> &mut Map<String, Value> {
        map_at(&mut self.0, "metadata")
    }

    fn entries(&mut self, name: &str) -> &mut Map<String, Value> {
        let metadata = self.metadata();
        let entry = metadata.entry(name).or_insert_with(|| json!({}));
        if entry.is_null() {
            *entry = json!({});
        }
        as_map(entry)
    }
}

/// Whether a text stands for itself in the path of a request. One that does not may lead to another object, to a subresource, or
/// out of the namespace. No name in Kubernetes has such characters.
pub fn is_path_segment(text: &str) -> bool {
    let is_harmless = |c: char| !matches!(c, '/' | '%' | '?' | '#' | '\\') && !c.is_whitespace() && !c.is_control();
    text != "." && text != ".." && text.chars().all(is_harmless)
}

/// Groups of Kubernetes itself whose objects have maps of texts. What a null means elsewhere is for a CRD to say.
fn is_builtin(group: &str) -> bool {
    const DOTTED: [&str; 4] =
        ["networking.k8s.io", "storage.k8s.io", "admissionregistration.k8s.io", "rbac.authorization.k8s.io"];
    !group.contains('.') || DOTTED.contains(&group)
}

/// Puts in what Kubernetes reads a null as, in maps that can hold anything.
fn fill_nulls(value: &mut Value) {
    const TEXTS: [&str; 9] = [
        "labels",
        "annotations",
        "matchLabels",
        "nodeSelector",
        "selector",
        "data",
        "stringData",
        "binaryData",
        "parameters",
    ];
    const QUANTITIES: [&str; 2] = ["limits", "requests"];
    match value {
        Value::Object(map) => {
            for (key, inner) in map.iter_mut() {
                let filling = match key.as_str() {
                    key if TEXTS.contains(&key) => Some(""),
                    key if QUANTITIES.contains(&key) => Some("0"),
                    _ => None,
                };
                match (inner, filling) {
                    (Value::Object(entries), Some(filling)) if entries.values().all(is_scalar) => {
                        entries.values_mut().filter(|entry| entry.is_null()).for_each(|entry| *entry = filling.into());
                    }
                    (inner, _) => fill_nulls(inner),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(fill_nulls),
        _ => {}
    }
}

fn is_scalar(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, inner| !inner.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn map_at<'a>(value: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    as_map(&mut value[key])
}

/// `Object::new` has checked that these places hold maps.
fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => unreachable!("checked when the object was made"),
    }
}

fn required(value: &Value, pointer: &str, name: &'static str) -> Result<(), ObjectError> {
    match value.pointer(pointer) {
        None | Some(Value::Null) => Err(ObjectError::Missing(name)),
        Some(Value::String(text)) if text.is_empty() => Err(ObjectError::Missing(name)),
        Some(Value::String(_)) => Ok(()),
        Some(_) => Err(ObjectError::WrongType(name, "string")),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

/// A resource as `kubectl get -o name` prints it: `nginx.demo.example.com/web`. Kinds of one name in several groups differ by it.
pub fn resource_name(group: &str, kind: &str, name: &str) -> String {
    let kind = kind.to_lowercase();
    if group.is_empty() { format!("{kind}/{name}") } else { format!("{kind}.{group}/{name}") }
}

/// `apps/v1` is group apps, version v1; `v1` is the core group.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        write!(f, "{}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_lead_elsewhere_is_none() {
        let object = |name: &str, namespace: &str| {
            let metadata = json!({"name": name, "namespace": namespace});
            Object::new(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})).map(|_| ())
        };
        assert_eq!(object("system:web.1", "here"), Ok(()));
        for name in ["a/exec", "..", ".", "a?b", "a#b", "a%2fb", "a b", "a\nb", "..\\a"] {
            assert_eq!(object(name, "here"), Err(ObjectError::NoName("metadata.name", name.to_owned())));
            assert_eq!(object("a", name), Err(ObjectError::NoName("metadata.namespace", name.to_owned())));
        }
    }

    #[test]
    fn an_object_needs_a_kind_a_version_and_a_name() {
        let cases = [
            (json!([]), "it is not a map but a list"),
            (json!({"kind": "A", "metadata": {"name": "a"}}), "it has no apiVersion"),
            (json!({"apiVersion": "v1", "metadata": {"name": "a"}}), "it has no kind"),
            (json!({"apiVersion": "v1", "kind": "A"}), "it has no metadata"),
            (json!({"apiVersion": "v1", "kind": "A", "metadata": {}}), "it has no metadata.name"),
            (json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": 3}}), "its metadata.name is not a string"),
            (
                json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a", "labels": []}}),
                "its labels is not a map",
            ),
        ];
        for (value, message) in cases {
            assert_eq!(Object::new(value).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_null_is_an_empty_text_where_any_key_may_be_and_nothing_elsewhere() {
        let cleaned = |value: Value| Object::new(value).unwrap().without_nulls().value().clone();
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": null, "b": "x"},
            "metadata": {"name": "c", "labels": {"l": null}, "annotations": null}});
        assert_eq!(
            cleaned(config),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "", "b": "x"},
                "metadata": {"name": "c", "labels": {"l": ""}}})
        );
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
            "nodeSelector": {"k": null}, "affinity": {"nodeAffinity": null},
            "containers": [{"name": "c", "resources": {"limits": {"cpu": null}}, "command": null}]}});
        assert_eq!(
            cleaned(pod)["spec"],
            json!({"nodeSelector": {"k": ""}, "affinity": {},
                "containers": [{"name": "c", "resources": {"limits": {"cpu": "0"}}}]})
        );
        let custom = json!({"apiVersion": "g.io/v1", "kind": "A", "metadata": {"name": "a", "labels": {"l": null}},
            "spec": {"data": {"a": null}}});
        assert_eq!(cleaned(custom)["spec"], json!({"data": {}}));
    }

    #[test]
    fn labels_are_added_where_there_were_none_or_null() {
        for metadata in [json!({"name": "a"}), json!({"name": "a", "labels": null})] {
            let mut object = Object::new(json!({"apiVersion": "apps/v1", "kind": "A", "metadata": metadata})).unwrap();
            object.set_label("x", "y");
            assert_eq!(object.value()["metadata"]["labels"], json!({"x": "y"}));
            assert_eq!(object.id().group, "apps");
        }
    }
}
