//! Two versions of an object, cleaned for a person's eyes: without what the API server counts, and without the data of Secrets.
//!
//! Pure. A value of a Secret is masked on both sides. Where it becomes another, the later one says so: that it changes is no
//! secret.

use serde_json::Value;

use crate::release::mask::{self, MASK};

const CHANGED: &str = "*** (changed)";
/// kubectl's copy of the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// What the API server counts, as opposed to what somebody wrote.
const COUNTED: [&str; 6] = ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"];

/// What somebody wrote of an object.
pub fn written(mut object: Value) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| !COUNTED.contains(&key.as_str()));
    }
    object
}

/// Masks the data of Secrets in both.
pub fn hide(mut before: Option<&mut Value>, mut after: Option<&mut Value>) {
    let is_secret =
        |side: &Option<&mut Value>| side.as_ref().is_some_and(|it| it["kind"] == "Secret" && it["apiVersion"] == "v1");
    if !is_secret(&before) && !is_secret(&after) {
        return;
    }
    let annotation = format!("/metadata/annotations/{}", LAST_APPLIED.replace('/', "~1"));
    for pointer in ["/data", "/stringData", &annotation] {
        let before = before.as_deref_mut().and_then(|it| it.pointer_mut(pointer));
        let after = after.as_deref_mut().and_then(|it| it.pointer_mut(pointer));
        hide_pair(before, after);
    }
}

/// The keys stay, the values do not.
fn hide_pair(before: Option<&mut Value>, after: Option<&mut Value>) {
    match (before, after) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            for (key, value) in after.iter_mut() {
                *value = masked(before.get(key), value);
            }
            before.values_mut().for_each(|value| *value = MASK.into());
        }
        (Some(before), Some(after)) => {
            *after = masked(Some(before), after);
            mask::hide(before);
        }
        (before, after) => before.into_iter().chain(after).for_each(mask::hide),
    }
}

fn masked(before: Option<&Value>, after: &Value) -> Value {
    let is_changed = before.is_some_and(|before| before != after);
    if is_changed { CHANGED.into() } else { MASK.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn secret(data: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": data})
    }

    #[test]
    fn a_change_shows_and_a_value_does_not() {
        let mut before = secret(json!({"same": "aHVudGVyMg==", "other": "aHVudGVyMg==", "gone": "aHVudGVyMg=="}));
        let mut after = secret(json!({"same": "aHVudGVyMg==", "other": "aHVudGVyMw==", "new": "aHVudGVyMg=="}));
        hide(Some(&mut before), Some(&mut after));
        assert_eq!(before["data"], json!({"same": "***", "other": "***", "gone": "***"}));
        assert_eq!(after["data"], json!({"same": "***", "other": "*** (changed)", "new": "***"}));
    }

    #[test]
    fn an_object_that_comes_or_goes_is_masked_whole() {
        let mut alone = secret(json!({"a": "hunter2"}));
        alone["stringData"] = json!({"b": "hunter2"});
        alone["metadata"]["annotations"] = json!({LAST_APPLIED: "hunter2", "team": "a"});
        for pair in [(true, false), (false, true)] {
            let (mut one, mut other) = (alone.clone(), alone.clone());
            hide(pair.0.then_some(&mut one), pair.1.then_some(&mut other));
            let shown = if pair.0 { one } else { other };
            assert!(!shown.to_string().contains("hunter2"), "{shown}");
            assert_eq!(shown["metadata"]["annotations"]["team"], "a");
        }
    }

    #[test]
    fn strange_data_is_masked_too() {
        let (mut before, mut after) = (secret(json!("hunter2")), secret(json!({"a": "hunter2"})));
        hide(Some(&mut before), Some(&mut after));
        assert!(!before.to_string().contains("hunter2") && !after.to_string().contains("hunter2"), "{before} {after}");
    }

    #[test]
    fn other_kinds_stay_as_they_are() {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}});
        let mut shown = config.clone();
        hide(Some(&mut shown), None);
        assert_eq!(shown, config);
    }

    #[test]
    fn what_the_api_server_counts_is_left_out() {
        let live = json!({"kind": "A", "metadata": {"name": "a", "uid": "u", "resourceVersion": "1", "generation": 3,
            "creationTimestamp": "t", "managedFields": [], "labels": {"b": "c"}}, "status": {"x": 1}, "spec": {}});
        assert_eq!(written(live), json!({"kind": "A", "metadata": {"name": "a", "labels": {"b": "c"}}, "spec": {}}));
    }
}
