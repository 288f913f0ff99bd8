//! A custom resource as it is watched: its metadata, its spec unread, its status in short.
//!
//! Anybody who may create a custom resource decides how its spec looks. A spec that cannot be read, nested too deeply for
//! example, must not make the whole list unreadable and thereby stop all others; so it is read when its own turn comes, within
//! limits, since a megabyte of brackets takes a hundred times as much memory once it is parsed. What
//! managedFields say about it nests as deeply, is large, and is not needed: it is left out. So are the manifest in the status
//! and what `kubectl apply` remembers: an operator holds thousands of these.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use kube::core::{DynamicResourceScope, ObjectMeta};
use kube::discovery::ApiResource;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::applyset;
use crate::aside;
use crate::packed::Packed;
use crate::release::budget::{self, Exceeded, VALUES};
use crate::status;

/// The whole spec once more.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Which custom resource of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// None for a cluster-scoped resource.
    pub namespace: Option<Arc<str>>,
    pub name: Arc<str>,
}

impl Place {
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        Place { namespace: namespace.map(Arc::from), name: name.into() }
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct CustomResource {
    #[serde(deserialize_with = "without_managed_fields")]
    pub metadata: ObjectMeta,
    #[serde(default, deserialize_with = "as_text")]
    spec: Spec,
    #[serde(default, deserialize_with = "in_short")]
    status: Option<Short>,
}

/// A spec that was not read yet. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Spec(Option<Arc<RawValue>>);

/// Why a spec cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    #[error("{0}; make the spec smaller")]
    Exceeded(Exceeded),
    #[error(transparent)]
    Json(serde_json::Error),
}

impl Spec {
    /// The bytes of its text.
    pub fn length(&self) -> usize {
        self.0.as_ref().map_or(0, |text| text.get().len())
    }

    /// # Errors
    /// The spec is larger or nested more deeply than any that is meant.
    pub fn read(&self) -> Result<Option<Value>, SpecError> {
        let Some(text) = &self.0 else { return Ok(None) };
        budget::check(text.get().as_bytes(), &VALUES).map_err(SpecError::Exceeded)?;
        serde_json::from_str(text.get()).map(Some).map_err(SpecError::Json)
    }
}

/// A status as it is held.
#[derive(Clone, Debug)]
struct Short {
    text: Packed,
    /// What its condition Ready says, so that all can be counted without reading any.
    ready: Option<bool>,
}

impl Short {
    fn of(text: &str) -> Option<Self> {
        budget::check(text.as_bytes(), &VALUES).ok()?;
        let mut status: Value = serde_json::from_str(text).ok()?;
        status::shorten(&mut status);
        Some(Short { text: Packed::new(status.to_string().as_bytes()), ready: ready(&status) })
    }
}

impl CustomResource {
    pub fn place(&self) -> Place {
        Place::new(self.metadata.namespace.as_deref(), self.metadata.name.as_deref().unwrap_or_default())
    }

    pub fn spec(&self) -> Spec {
        self.spec.clone()
    }

    /// The status, with a mark in the place of the manifest. None also where it is nothing that anybody could read.
    pub fn status(&self) -> Option<Value> {
        serde_json::from_slice(&self.status.as_ref()?.text.bytes()).ok()
    }

    /// What the condition Ready says, if it is there.
    pub fn is_ready(&self) -> Option<bool> {
        self.status.as_ref()?.ready
    }
}

fn as_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Spec, D::Error> {
    let text = Option::<Box<RawValue>>::deserialize(deserializer)?;
    Ok(Spec(text.map(Arc::from)))
}

/// The status as packed text, since it is looked at seldom. Somebody may have written one that is too large or nested too deeply;
/// it is replaced with the next.
///
/// kube reads an event, or a page of a list, in one go, so this cannot wait for a turn elsewhere. etcd takes 1.5 MiB for an object, and others
/// take over what this thread has to do meanwhile.
fn in_short<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Short>, D::Error> {
    let text = Option::<Box<RawValue>>::deserialize(deserializer)?;
    Ok(text.and_then(|text| aside::here(text.get().len(), || Short::of(text.get()))))
}

fn ready(status: &Value) -> Option<bool> {
    let condition = status["conditions"].as_array()?.iter().find(|condition| condition["type"] == "Ready")?;
    Some(condition["status"] == "True")
}

/// The metadata that is used.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    finalizers: Option<Vec<String>>,
}

fn without_managed_fields<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let mut used = Metadata::deserialize(deserializer)?;
    if let Some(annotations) = &mut used.annotations {
        annotations.remove(LAST_APPLIED);
    }
    if let Some(labels) = &mut used.labels {
        // The API server selects by the others.
        labels.retain(|key, _| key == applyset::ID);
    }
    Ok(ObjectMeta {
        name: used.name,
        namespace: used.namespace,
        uid: used.uid,
        resource_version: used.resource_version,
        generation: used.generation,
        creation_timestamp: used.creation_timestamp,
        deletion_timestamp: used.deletion_timestamp,
        labels: used.labels,
        annotations: used.annotations,
        finalizers: used.finalizers,
        ..ObjectMeta::default()
    })
}

impl Resource for CustomResource {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> String {
        format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels))
    }

    fn read(levels: usize) -> CustomResource {
        let deep = nested(levels);
        let text = format!(
            r#"{{"apiVersion": "g.io/v1", "kind": "A", "metadata": {{"name": "a", "managedFields": [{{"fieldsV1": {deep}}}]}}, "spec": {deep}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_spec_that_nobody_can_read_leaves_the_rest_readable() {
        let cr = read(1000);
        assert_eq!(cr.metadata.name.as_deref(), Some("a"));
        assert!(matches!(cr.spec().read(), Err(SpecError::Exceeded(Exceeded::Depth(127)))));
        assert!(read(100).spec().read().is_ok());
    }

    /// A custom resource whose spec and status are lists of so many maps, each with one entry.
    fn wide(maps: usize) -> CustomResource {
        let list = vec![r#"{"a":1}"#; maps].join(",");
        let text =
            format!(r#"{{"metadata": {{"name": "a"}}, "spec": {{"a": [{list}]}}, "status": {{"a": [{list}]}}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_spec_that_would_fill_the_memory_is_refused_before_it_is_parsed() {
        let cr = wide(150_000);
        let error = cr.spec().read().unwrap_err();
        assert_eq!(error.to_string(), "its JSON has more than 100000 items; make the spec smaller");
        assert_eq!(cr.status(), None);
        let cr = wide(40_000);
        assert!(cr.spec().read().unwrap().is_some() && cr.status().is_some());
    }

    #[test]
    fn what_is_large_and_not_needed_is_not_held() {
        let text = serde_json::json!({
            "metadata": {
                "name": "a",
                "labels": {applyset::ID: "x", "team": "a"},
                "annotations": {LAST_APPLIED: "{}", "look": "1"},
            },
            "status": {"deployedRelease": {"revision": 1, "manifest": "---\n".repeat(1000)}, "conditions": []},
        });
        let cr: CustomResource = serde_json::from_str(&text.to_string()).unwrap();
        assert_eq!(cr.metadata.labels.as_ref().unwrap().keys().collect::<Vec<_>>(), [applyset::ID]);
        assert_eq!(cr.metadata.annotations.as_ref().unwrap().keys().collect::<Vec<_>>(), ["look"]);
        assert!(cr.status.as_ref().unwrap().text.bytes().len() < 200);
        assert_eq!(cr.status().unwrap()["deployedRelease"]["revision"], 1);
    }

    #[test]
    fn whether_it_is_ready_is_known_without_reading_the_status() {
        for (conditions, expected) in [
            (r#"[{"type": "Deployed", "status": "True"}, {"type": "Ready", "status": "True"}]"#, Some(true)),
            (r#"[{"type": "Ready", "status": "False"}]"#, Some(false)),
            ("[]", None),
        ] {
            let text = format!(r#"{{"metadata": {{"name": "a"}}, "status": {{"conditions": {conditions}}}}}"#);
            assert_eq!(serde_json::from_str::<CustomResource>(&text).unwrap().is_ready(), expected);
        }
    }

    #[test]
    fn a_status_that_nobody_can_read_is_none() {
        let text = format!(r#"{{"metadata": {{"name": "a"}}, "status": {}}}"#, nested(1000));
        assert_eq!(serde_json::from_str::<CustomResource>(&text).unwrap().status(), None);
    }

    #[test]
    fn a_spec_is_read_when_it_is_asked_for() {
        assert_eq!(read(2).spec().read().unwrap(), Some(serde_json::json!({"a": {"a": 1}})));
        let without: CustomResource = serde_json::from_str(r#"{"metadata": {"name": "a"}}"#).unwrap();
        assert_eq!(without.spec().read().unwrap(), None);
        assert_eq!(without.spec().length(), 0);
    }
}
