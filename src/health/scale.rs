//! How many pods a workload has, and which: what the scale subresource of a custom resource tells.

use serde_json::Value;

use super::fields::{Kind, count};
use super::selector::selector_of;

/// As in the scale subresource of the workload itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    pub replicas: i64,
    /// As the query string that lists the pods.
    pub selector: Box<str>,
}

/// `None` for what has no number of replicas, and where its pods cannot be told from others.
pub fn scale_of(workload: &Value) -> Option<Scale> {
    if !matches!(Kind::of(workload), Kind::Deployment | Kind::StatefulSet | Kind::ReplicaSet) {
        return None;
    }
    let selector = selector_of(workload)?.into();
    Some(Scale { replicas: count(workload, "/status/replicas"), selector })
}

/// The one that stands for a release: its only workload, or of several the one that is called like the release.
pub fn of_release(release: &str, workloads: Vec<(&str, Scale)>) -> Option<Scale> {
    let is_alone = workloads.len() == 1;
    workloads.into_iter().find(|(name, _)| is_alone || *name == release).map(|(_, scale)| scale)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workload(kind: &str) -> Value {
        let selector = json!({"matchLabels": {"app": "web"}});
        json!({"apiVersion": "apps/v1", "kind": kind, "spec": {"selector": selector}, "status": {"replicas": 3}})
    }

    #[test]
    fn workloads_with_replicas_have_a_scale() {
        for kind in ["Deployment", "StatefulSet", "ReplicaSet"] {
            assert_eq!(scale_of(&workload(kind)), Some(Scale { replicas: 3, selector: "app=web".into() }));
        }
        assert_eq!(scale_of(&workload("DaemonSet")), None);
        assert_eq!(scale_of(&json!({"apiVersion": "apps/v1", "kind": "Deployment"})), None);
    }

    #[test]
    fn of_several_workloads_the_one_with_the_releases_name_counts() {
        let scale = |replicas| Scale { replicas, selector: "a=b".into() };
        assert_eq!(of_release("web", vec![("other", scale(1))]), Some(scale(1)));
        assert_eq!(of_release("web", vec![("db", scale(1)), ("web", scale(2))]), Some(scale(2)));
        assert_eq!(of_release("web", vec![("db", scale(1)), ("cache", scale(2))]), None);
        assert_eq!(of_release("web", vec![]), None);
    }
}
