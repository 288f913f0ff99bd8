//! What pods say of themselves.
//!
//! Whoever may create pods in a namespace decides on their labels and makes them as large as etcd takes. So few of those that a
//! selector matches are read, and only the fields that explain why something is not ready.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Calls, PAGES};
use crate::aside;
use crate::watching::Tolerant;

/// How many pods are read, and how many of them in one page.
const MOST: usize = 10;
const PAGE: u32 = 5;
/// A longer field is left out. Those of a usual pod have a few kilobytes.
const FIELD_BYTES: usize = 64 * 1024;

impl Calls {
    /// Some of the pods that a selector matches: their names, times and status, and of the spec what explains the status. None where they
    /// cannot be read now.
    pub async fn pods(&self, namespace: &str, selector: &str) -> Option<Vec<Value>> {
        let api: Api<Tolerant<Pod>> = Api::namespaced(self.hands(), namespace);
        let mut params = ListParams::default().labels(selector).limit(PAGE);
        let mut pods = vec![];
        loop {
            let _turn = PAGES.acquire().await;
            let page = self.within(api.list(&params)).await.ok()?;
            pods.extend(read(namespace, page.items).await?);
            match page.metadata.continue_.filter(|token| !token.is_empty() && pods.len() < MOST) {
                Some(token) => params = params.continue_token(&token),
                None => return Some(pods),
            }
        }
    }
}

async fn read(namespace: &str, pods: Vec<Tolerant<Pod>>) -> Option<Vec<Value>> {
    let length: usize = pods.iter().map(Tolerant::bytes).sum();
    let read = move || pods.iter().filter_map(brief).collect();
    match length < aside::LONG {
        true => Some(read()),
        false => aside::run_for(namespace, read).await,
    }
}

fn brief(pod: &Tolerant<Pod>) -> Option<Value> {
    #[derive(Deserialize)]
    struct Brief<'a> {
        metadata: Metadata,
        #[serde(borrow, default)]
        spec: Spec<'a>,
        #[serde(borrow)]
        status: Option<&'a RawValue>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        name: String,
        creation_timestamp: Option<String>,
        deletion_timestamp: Option<String>,
    }

    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Spec<'a> {
        node_name: Option<String>,
        #[serde(borrow)]
        volumes: Option<&'a RawValue>,
        #[serde(borrow)]
        init_containers: Option<&'a RawValue>,
    }

    let Brief { metadata, spec, status } = pod.read_as().ok()?;
    Some(json!({
        "metadata": {
            "name": metadata.name,
            "creationTimestamp": metadata.creation_timestamp,
            "deletionTimestamp": metadata.deletion_timestamp,
        },
        "spec": {
            "nodeName": spec.node_name,
            "volumes": field(spec.volumes),
            "initContainers": field(spec.init_containers),
        },
        "status": field(status),
    }))
}

fn field(text: Option<&RawValue>) -> Value {
    let text = text.map(RawValue::get).filter(|text| text.len() <= FIELD_BYTES);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brief_of(pod: &Value) -> Value {
        brief(&serde_json::from_str(&pod.to_string()).unwrap()).unwrap()
    }

    #[test]
    fn a_pod_is_read_as_far_as_it_explains_itself() {
        let pod = |env: Value| {
            json!({
                "metadata": {"name": "web-1", "deletionTimestamp": "2026-01-01T00:00:00Z", "labels": {"a": "b"}},
                "spec": {"nodeName": "n", "volumes": [{"secret": {"secretName": "s"}}], "containers": [{"env": env}],
                    "initContainers": [{"name": "side", "restartPolicy": "Always"}]},
                "status": {"phase": "Pending"},
            })
        };
        let read = brief_of(&pod(json!([])));
        assert_eq!(read, brief_of(&pod(json!(vec![json!({"name": "a"}); 10_000]))));
        assert_eq!(read["metadata"]["deletionTimestamp"], "2026-01-01T00:00:00Z");
        assert_eq!(read.pointer("/spec/initContainers/0/name"), Some(&json!("side")));
        assert_eq!((&read["spec"]["nodeName"], &read["status"]["phase"]), (&json!("n"), &json!("Pending")));
        assert_eq!(read["metadata"]["labels"], Value::Null);
    }

    #[test]
    fn a_field_that_is_too_long_is_left_out() {
        let long = "x".repeat(FIELD_BYTES);
        let read = brief_of(&json!({"metadata": {"name": "a"}, "status": {"phase": "Failed", "message": long}}));
        assert_eq!((&read["metadata"]["name"], &read["status"]), (&json!("a"), &Value::Null));
    }
}
