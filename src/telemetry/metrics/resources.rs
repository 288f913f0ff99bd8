//! What each custom resource is, as gauges. Pure.
//!
//! **Bounded.** So many custom resources have series of their own; of the rest it is only told how many they are. Those that are
//! not ready come first, since they are the ones that somebody will look for. A custom resource that went has none.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use kube::core::GroupVersionKind;
use serde_json::Value;

use super::family::Name;
use super::text::Text;
use crate::custom_resource::CustomResource;

/// Each has about ten series, so the whole stays below three megabytes.
pub const MOST: usize = 2000;

static CREATED: Name<5> = Name {
    name: "resource_created_at_seconds",
    help: "Timestamp at which a resource was created",
    labels: ["group", "kind", "name", "namespace", "version"],
};
static REVISION: Name<4> = Name {
    name: "chartwright_release_revision",
    help: "The revision of a custom resource's release that is deployed.",
    labels: ["group", "kind", "name", "namespace"],
};
static CONDITION: Name<7> = Name {
    name: "chartwright_condition",
    help: "The conditions of a custom resource, as they are now. The value is always 1.",
    labels: ["group", "kind", "name", "namespace", "reason", "status", "type"],
};
static COUNT: Name<3> = Name {
    name: "chartwright_resources",
    help: "Custom resources, by what their condition Ready says.",
    labels: ["group", "kind", "ready"],
};
static LEFT_OUT: Name<0> = Name {
    name: "chartwright_resources_left_out",
    help: "Custom resources without series of their own, because there are too many.",
    labels: [],
};

/// A kind, and the custom resources of it.
pub struct OfKind {
    pub gvk: GroupVersionKind,
    pub all: Vec<Arc<CustomResource>>,
}

/// A kind that is watched in two versions has each custom resource twice. It is shown once.
pub fn once_each(kinds: impl Iterator<Item = OfKind>) -> Vec<OfKind> {
    let mut found: Vec<OfKind> = vec![];
    for kind in kinds {
        let is_same = |other: &&mut OfKind| (&other.gvk.group, &other.gvk.kind) == (&kind.gvk.group, &kind.gvk.kind);
        match found.iter_mut().find(is_same) {
            Some(other) => {
                let known: HashSet<_> = other.all.iter().map(|cr| cr.place()).collect();
                other.all.extend(kind.all.into_iter().filter(|cr| !known.contains(&cr.place())));
            }
            None => found.push(kind),
        }
    }
    found
}

pub fn write(text: &mut Text, kinds: &[OfKind], most: usize) {
    text.gauge(&COUNT, kinds.iter().flat_map(counts));
    let mut shown: Vec<(&GroupVersionKind, &CustomResource)> =
        kinds.iter().flat_map(|kind| kind.all.iter().map(|cr| (&kind.gvk, &**cr))).collect();
    shown
        .sort_by_cached_key(|(gvk, cr)| (cr.is_ready() == Some(true), gvk.group.clone(), gvk.kind.clone(), cr.place()));
    text.gauge(&LEFT_OUT, [([], shown.len().saturating_sub(most) as f64)]);
    shown.truncate(most);
    text.gauge(&CREATED, shown.iter().filter_map(|(gvk, cr)| created(gvk, cr)));
    let (mut revisions, mut conditions) = (vec![], vec![]);
    for (gvk, cr) in shown {
        let Some(status) = cr.status() else { continue };
        let place = place(gvk, cr);
        revisions.extend(status["deployedRelease"]["revision"].as_u64().map(|it| (place.clone(), it as f64)));
        let list = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        // Somebody else may write what is there already.
        let each: BTreeSet<_> = list.iter().map(|it| condition(&place, it)).collect();
        conditions.extend(each.into_iter().map(|it| (it, 1.0)));
    }
    text.gauge(&REVISION, revisions);
    text.gauge(&CONDITION, conditions);
}

/// How many are ready, are not, and have not said yet.
fn counts(kind: &OfKind) -> [([String; 3], f64); 3] {
    [("True", Some(true)), ("False", Some(false)), ("Unknown", None)].map(|(word, ready)| {
        let count = kind.all.iter().filter(|cr| cr.is_ready() == ready).count();
        ([kind.gvk.group.clone(), kind.gvk.kind.clone(), word.to_owned()], count as f64)
    })
}

fn place(gvk: &GroupVersionKind, cr: &CustomResource) -> [String; 4] {
    let metadata = &cr.metadata;
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    [gvk.group.clone(), gvk.kind.clone(), text(&metadata.name), text(&metadata.namespace)]
}

fn created(gvk: &GroupVersionKind, cr: &CustomResource) -> Option<([String; 5], f64)> {
    let [group, kind, name, namespace] = place(gvk, cr);
    let at = cr.metadata.creation_timestamp.as_ref()?.0.as_second();
    Some(([group, kind, name, namespace, gvk.version.clone()], at as f64))
}

fn condition(place: &[String; 4], condition: &Value) -> [String; 7] {
    let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
    let [group, kind, name, namespace] = place.clone();
    [group, kind, name, namespace, text("reason"), text("status"), text("type")]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cr(name: &str, ready: Option<&str>) -> Arc<CustomResource> {
        let metadata = json!({"name": name, "namespace": "a", "creationTimestamp": "2026-01-01T00:00:00Z"});
        let mut cr = json!({"metadata": metadata});
        if let Some(ready) = ready {
            let conditions = json!([{"type": "Ready", "status": ready, "reason": "Why"}]);
            cr["status"] = json!({"deployedRelease": {"revision": 3}, "conditions": conditions});
        }
        Arc::new(serde_json::from_str(&cr.to_string()).unwrap())
    }

    fn text_of(all: Vec<Arc<CustomResource>>, most: usize) -> String {
        let mut text = Text::default();
        write(&mut text, &[OfKind { gvk: GroupVersionKind::gvk("g.io", "v1", "App"), all }], most);
        text.into_string()
    }

    #[test]
    fn the_labels_are_those_of_operator_sdk() {
        let text = text_of(vec![cr("web", Some("True"))], MOST);
        for line in [
            r#"resource_created_at_seconds{group="g.io",kind="App",name="web",namespace="a",version="v1"} 1767225600"#,
            r#"chartwright_release_revision{group="g.io",kind="App",name="web",namespace="a"} 3"#,
            r#"chartwright_condition{group="g.io",kind="App",name="web",namespace="a",reason="Why",status="True",type="Ready"} 1"#,
        ] {
            assert!(text.lines().any(|it| it == line), "{text}");
        }
    }

    #[test]
    fn a_kind_in_two_versions_and_a_condition_written_twice_are_shown_once() {
        let of = |version, all| OfKind { gvk: GroupVersionKind::gvk("g.io", version, "App"), all };
        let twice =
            json!([{"type": "A", "status": "True", "reason": "B"}, {"type": "A", "status": "True", "reason": "B"}]);
        let twice = json!({"metadata": {"name": "two", "namespace": "a"}, "status": {"conditions": twice}});
        let twice: Arc<CustomResource> = Arc::new(serde_json::from_value(twice).unwrap());
        let kinds =
            [of("v1", vec![cr("web", Some("True")), twice]), of("v2", vec![cr("web", Some("True")), cr("b", None)])];
        let mut text = Text::default();
        write(&mut text, &once_each(kinds.into_iter()), MOST);
        let text = text.into_string();
        let mut series: Vec<&str> = text
            .lines()
            .filter(|it| !it.starts_with('#'))
            .filter_map(|it| it.rsplit_once(' '))
            .map(|it| it.0)
            .collect();
        series.sort();
        assert!(series.windows(2).all(|two| two[0] != two[1]), "{text}");
        assert!(text.contains(r#"chartwright_resources{group="g.io",kind="App",ready="True"} 1"#), "{text}");
    }

    #[test]
    fn those_that_are_not_ready_have_room_first_and_all_are_counted() {
        let all = vec![cr("a", Some("True")), cr("b", Some("False")), cr("c", Some("True")), cr("d", None)];
        let text = text_of(all, 2);
        assert!(text.contains("chartwright_resources_left_out 2\n"), "{text}");
        let shown = |name: &str| text.contains(&format!("name=\"{name}\""));
        assert_eq!(["a", "b", "c", "d"].map(shown), [false, true, false, true]);
        for (ready, count) in [("True", 2), ("False", 1), ("Unknown", 1)] {
            let line = format!("chartwright_resources{{group=\"g.io\",kind=\"App\",ready=\"{ready}\"}} {count}\n");
            assert!(text.contains(&line), "{text}");
        }
    }
}
