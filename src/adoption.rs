//! The fact that an object was adopted, written on the object itself.
//!
//! Pure. A release may forget: old revisions expire, an object is dropped and taken again, a custom resource is made anew. The
//! object does not. The annotation is written under a field manager of its own, so that no apply removes it, and it is never
//! taken off. A chart cannot write it. Whoever edits the namespace can remove it, so what the record says counts as well.
//!
//! An adopted object existed before its release, and somebody else decided what is in it. So it is not shown to a `lookup` that may
//! see the release's own objects only, the custom resource does not own it, and it stays when the release goes.

use kube::core::ObjectMeta;
use serde_json::{Value, json};

use crate::object::Object;
use crate::ownership::KEPT;

/// On an adopted object: the release that adopted it first, `<namespace>/<name>`. Any value counts.
pub const ADOPTED: &str = "chartwright.dev/adopted";
/// Writes that annotation and nothing else.
pub const MANAGER: &str = "chartwright-adoption";

/// Whether an object in the cluster was adopted at any time.
pub fn is_marked(live: &ObjectMeta) -> bool {
    live.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(ADOPTED))
}

/// The patch that marks an object.
pub fn mark(namespace: &str, release: &str) -> Value {
    json!({"metadata": {"annotations": {ADOPTED: format!("{namespace}/{release}")}}})
}

/// An object of a chart without the annotations that are not the chart's to write.
pub fn unclaimed(mut object: Object) -> Object {
    object.change(|value| {
        if let Some(annotations) = value.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
            [ADOPTED, KEPT].iter().for_each(|key| drop(annotations.remove(*key)));
        }
    });
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_cannot_write_the_annotations() {
        let metadata = json!({"name": "a", "annotations": {ADOPTED: "false", KEPT: "a", "b": "c"}});
        let object = Object::new(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})).unwrap();
        assert_eq!(unclaimed(object).value()["metadata"]["annotations"], json!({"b": "c"}));
    }

    #[test]
    fn any_value_counts() {
        let live = |annotations: Value| serde_json::from_value(json!({"annotations": annotations})).unwrap();
        assert!(is_marked(&live(json!({ADOPTED: ""}))));
        assert!(is_marked(&live(mark("here", "web")["metadata"]["annotations"].clone())));
        assert!(!is_marked(&live(json!({}))) && !is_marked(&ObjectMeta::default()));
    }
}
