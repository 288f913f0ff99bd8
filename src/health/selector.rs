//! A workload's label selector as the query string that lists its pods.

use serde_json::Value;

use super::fields::{Kind, items, text};

/// `a=b,c in (x,y),!d`, for Deployment, StatefulSet, DaemonSet, ReplicaSet and Job.
///
/// `None` for every other kind, and whenever the selector is empty or has a part we cannot read: half a selector would
/// select somebody else's pods.
pub fn selector_of(workload: &Value) -> Option<String> {
    let has_pods = matches!(
        Kind::of(workload),
        Kind::Deployment | Kind::StatefulSet | Kind::DaemonSet | Kind::ReplicaSet | Kind::Job
    );
    let selector = workload.pointer("/spec/selector").filter(|_| has_pods)?;
    let labels = match selector.get("matchLabels") {
        None | Some(Value::Null) => Vec::new(),
        Some(labels) => labels.as_object()?.iter().map(equality).collect::<Option<Vec<_>>>()?,
    };
    let expressions = match selector.get("matchExpressions") {
        None | Some(Value::Null) => Vec::new(),
        Some(requirements) => requirements.as_array()?.iter().map(expression).collect::<Option<Vec<_>>>()?,
    };
    let parts = [labels, expressions].concat();
    (!parts.is_empty()).then(|| parts.join(","))
}

fn equality((key, value): (&String, &Value)) -> Option<String> {
    Some(format!("{key}={}", value.as_str()?))
}

fn expression(requirement: &Value) -> Option<String> {
    let key = Some(text(requirement, "/key")).filter(|key| !key.is_empty())?;
    let values = items(requirement, "/values").iter().map(Value::as_str).collect::<Option<Vec<_>>>()?;
    match (text(requirement, "/operator"), values.is_empty()) {
        ("In", false) => Some(format!("{key} in ({})", values.join(","))),
        ("NotIn", false) => Some(format!("{key} notin ({})", values.join(","))),
        ("Exists", true) => Some(key.to_owned()),
        ("DoesNotExist", true) => Some(format!("!{key}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selector(kind: &str, selector: Value) -> Option<String> {
        selector_of(&json!({"apiVersion": "apps/v1", "kind": kind, "spec": {"selector": selector}}))
    }

    #[test]
    fn labels_and_expressions_become_one_query() {
        let all = json!({
            "matchLabels": {"app": "web", "empty": ""},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["x", "y"]},
                {"key": "zone", "operator": "NotIn", "values": ["z"]},
                {"key": "example.com/on", "operator": "Exists"},
                {"key": "off", "operator": "DoesNotExist", "values": []},
            ],
        });
        let query = "app=web,empty=,tier in (x,y),zone notin (z),example.com/on,!off";
        assert_eq!(selector("Deployment", all).as_deref(), Some(query));
    }

    #[test]
    fn only_workloads_have_one() {
        let labels = json!({"matchLabels": {"app": "web"}});
        for kind in ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"] {
            assert_eq!(selector(kind, labels.clone()).as_deref(), Some("app=web"), "{kind}");
        }
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"selector": labels.clone()}});
        assert_eq!(selector_of(&job).as_deref(), Some("app=web"));
        assert_eq!(selector("PodDisruptionBudget", labels), None);
        assert_eq!(
            selector_of(&json!({"apiVersion": "v1", "kind": "Service", "spec": {"selector": {"app": "web"}}})),
            None
        );
    }

    #[test]
    fn what_cannot_be_read_whole_selects_nothing() {
        let labels = json!({"app": "web"});
        for unreadable in [
            json!(null),
            json!({}),
            json!({"matchLabels": {}}),
            json!({"matchLabels": {"app": 1}}),
            json!({"matchLabels": labels, "matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]}),
            json!({"matchLabels": labels, "matchExpressions": [{"key": "a", "operator": "In", "values": []}]}),
            json!({"matchLabels": labels, "matchExpressions": [{"operator": "Exists"}]}),
            json!({"matchLabels": labels, "matchExpressions": ["a"]}),
            json!({"matchLabels": "app=web", "matchExpressions": [{"key": "a", "operator": "Exists"}]}),
            json!({"matchLabels": labels, "matchExpressions": "a"}),
        ] {
            assert_eq!(selector("Deployment", unreadable.clone()), None, "{unreadable}");
        }
    }
}
