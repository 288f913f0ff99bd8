//! Why something is not ready, asked of the cluster: pods, and the Events about them.
//!
//! Asked only while somebody wants to know it, and only of those that may tell more, so nothing is watched for it. What may not
//! be read is left out of the answer: the state of the object is told anyway.

use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ListParams};
use serde_json::Value;

use crate::calls::Calls;
use crate::error::sentence;
use crate::health::{self, Cause};

/// Pods of one workload that are looked at.
pub const MOST_PODS: usize = 50;
/// Events about one object.
const MOST_EVENTS: u32 = 100;

/// What was found out.
#[derive(Debug, Default)]
pub struct Answer {
    pub cause: Option<Cause>,
    /// Why Events could not be read, if some were asked for.
    pub refused: Option<kube::Error>,
}

/// Why a workload, a Job or a Pod is not ready. `workload` is the live object.
pub async fn of(workload: &Value, calls: &Calls) -> Answer {
    match pods_of(workload, calls).await {
        Ok(pods) => of_pods(workload, &pods, calls).await,
        Err(_) => Answer::default(),
    }
}

/// The same where its pods are known.
pub async fn of_pods(workload: &Value, pods: &[Value], calls: &Calls) -> Answer {
    let now = Timestamp::now();
    let asked = health::unexplained(workload, pods, now);
    let (events, refused) = match namespace_of(workload) {
        Some(namespace) if !asked.is_empty() => match events_about(namespace, &asked, calls).await {
            Ok(events) => (events, None),
            Err(error) => (vec![], Some(error)),
        },
        _ => (vec![], None),
    };
    Answer { cause: health::why(workload, pods, &events, now), refused }
}

/// The pods of a workload; of a Pod, itself.
///
/// # Errors
/// The API server refuses or cannot be reached.
pub async fn pods_of(workload: &Value, calls: &Calls) -> Result<Vec<Value>, kube::Error> {
    if workload["kind"] == "Pod" {
        return Ok(vec![workload.clone()]);
    }
    let (Some(namespace), Some(selector)) = (namespace_of(workload), health::selector_of(workload)) else {
        return Ok(vec![]);
    };
    let pods: Api<Pod> = Api::namespaced(calls.hands(), namespace);
    let params = ListParams::default().labels(&selector).limit(u32::try_from(MOST_PODS).unwrap_or(u32::MAX));
    let list = calls.within(pods.list(&params)).await?;
    Ok(list.items.iter().filter_map(|pod| serde_json::to_value(pod).ok()).collect())
}

/// The Warnings about objects with these UIDs.
///
/// # Errors
/// The API server refuses or cannot be reached.
pub async fn events_about(namespace: &str, uids: &[String], calls: &Calls) -> Result<Vec<Value>, kube::Error> {
    let api: Api<Event> = Api::namespaced(calls.hands(), namespace);
    let mut found = vec![];
    for uid in uids {
        let params = ListParams::default().fields(&format!("regarding.uid={uid},type=Warning")).limit(MOST_EVENTS);
        let list = calls.within(api.list(&params)).await?;
        found.extend(list.items.iter().filter_map(|event| serde_json::to_value(event).ok()));
    }
    Ok(found)
}

/// The pod that speaks for a Job: the newest that failed, or else the newest.
pub fn newest(mut pods: Vec<Value>) -> Option<Value> {
    let has_failed = |pod: &Value| pod.pointer("/status/phase").and_then(Value::as_str) == Some("Failed");
    let created = |pod: &Value| pod.pointer("/metadata/creationTimestamp").and_then(Value::as_str).map(str::to_owned);
    pods.sort_by_key(|pod| (has_failed(pod), created(pod)));
    pods.pop()
}

/// Why a Job, or a Pod that runs once, failed or does not begin: as its newest pod tells it.
pub async fn of_run(object: &Value, calls: &Calls) -> Answer {
    match pods_of(object, calls).await {
        Ok(pods) => of_pods(object, &newest(pods).into_iter().collect::<Vec<_>>(), calls).await,
        Err(_) => Answer::default(),
    }
}

fn namespace_of(object: &Value) -> Option<&str> {
    object.pointer("/metadata/namespace").and_then(Value::as_str)
}

/// Whether it was told that Events may not be read: once is enough.
#[derive(Debug, Default)]
pub struct Refused(AtomicBool);

impl Refused {
    /// Logs a refusal, unless one was logged before.
    pub fn note(&self, error: &kube::Error) {
        let is_refusal = matches!(error, kube::Error::Api(status) if status.code == 403);
        if !is_refusal || self.0.swap(true, Ordering::Relaxed) {
            tracing::debug!("cannot read Events: {}", sentence(error));
            return;
        }
        tracing::warn!(
            reason = "EventsNotReadable",
            "causes that only Events tell (failing probes, sandboxes, mounts) are missing in conditions; allow `list` on `events` of events.k8s.io: {}",
            sentence(error)
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_failed_pod_speaks_for_its_job() {
        let pod = |name: &str, created: &str, phase: &str| json!({"metadata": {"name": name, "creationTimestamp": created}, "status": {"phase": phase}});
        let pods = vec![pod("a", "2", "Failed"), pod("b", "3", "Running"), pod("c", "1", "Failed")];
        assert_eq!(newest(pods).unwrap()["metadata"]["name"], "a");
    }
}
