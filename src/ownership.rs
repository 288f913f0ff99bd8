//! Whose is an object that exists already?
//!
//! Pure. Every release applies under the field manager `helm`, so the API server will not tell; this is asked before any
//! object is applied for the first time, and before anything is deleted.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;

use crate::applyset;
use crate::object::{resource_name, split_api_version};
use crate::plan::{MANAGED_BY, Owner, PRIMARY_RESOURCE, PRIMARY_RESOURCE_TYPE, RELEASE_NAME, RELEASE_NAMESPACE};

/// On an object that a release of this operator left in the cluster: the ApplySet ID of the custom resource. Together with Helm's marks
/// it lets a later custom resource of the same name take the object again. It ties the object to nothing.
pub const KEPT: &str = "chartwright.dev/kept";

/// The answer, as far as metadata can give it.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    Ours,
    /// Somebody's, named for a person.
    Foreign(String),
    /// Only Helm's marks name the release. A Helm release of an administrator, whose records the operator may not see, has those too: what
    /// the operator recorded, or consent to adopt a release, has to confirm them.
    Helm,
    /// Nobody says that it is theirs.
    Loose,
}

/// Who an object says has made it.
pub enum Maker<'a> {
    Controller(&'a OwnerReference),
    /// As in the annotations [`PRIMARY_RESOURCE_TYPE`] and [`PRIMARY_RESOURCE`].
    Primary {
        kind: &'a str,
        place: &'a str,
    },
}

/// Who an object says has made it. Where it has a controller its annotations say nothing: everybody who may write the object
/// can add those, and they must not hide the controller.
pub fn maker(live: &ObjectMeta) -> Option<Maker<'_>> {
    if let Some(controller) = controller(live) {
        return Some(Maker::Controller(controller));
    }
    let annotations = live.annotations.as_ref()?;
    Some(Maker::Primary { kind: annotations.get(PRIMARY_RESOURCE_TYPE)?, place: annotations.get(PRIMARY_RESOURCE)? })
}

/// Judges an object by its metadata, for the release `release` in `namespace` of the custom resource `owner`.
pub fn judge(live: &ObjectMeta, release: &str, namespace: &str, owner: &Owner) -> Claim {
    let helm = helm_release(live);
    let is_our_release = helm.as_deref() == Some(&format!("{namespace}/{release}"));
    match maker(live) {
        Some(Maker::Controller(controller)) => {
            return match is_ours(controller, owner) {
                // An earlier life of this custom resource: restored or made again. The release's marks must agree.
                true if controller.uid == owner.uid || is_our_release => Claim::Ours,
                _ => {
                    let (group, _) = split_api_version(&controller.api_version);
                    Claim::Foreign(resource_name(group, &controller.kind, &controller.name))
                }
            };
        }
        Some(Maker::Primary { kind, place }) => {
            return match (kind, place) == (type_of(owner).as_str(), place_of(owner).as_str()) {
                true => Claim::Ours,
                false => Claim::Foreign(named(kind, place)),
            };
        }
        None => {}
    }
    match helm {
        Some(_) if is_our_release && live.namespace.as_deref() == Some(namespace) && is_confirmed(live, owner) => {
            Claim::Ours
        }
        Some(_) if is_our_release => Claim::Helm,
        Some(other) => Claim::Foreign(format!("the Helm release {other}")),
        None => Claim::Loose,
    }
}

/// As much of an object's metadata as that takes.
pub fn marks(live: &ObjectMeta) -> ObjectMeta {
    let only = |map: &Option<BTreeMap<String, String>>, keys: &[&str]| {
        let all = map.iter().flatten().filter(|(key, _)| keys.contains(&key.as_str()));
        Some(all.map(|(key, text)| (key.clone(), text.clone())).collect())
    };
    ObjectMeta {
        labels: only(&live.labels, &[MANAGED_BY, applyset::PART_OF]),
        annotations: only(
            &live.annotations,
            &[RELEASE_NAME, RELEASE_NAMESPACE, PRIMARY_RESOURCE, PRIMARY_RESOURCE_TYPE, KEPT],
        ),
        namespace: live.namespace.clone(),
        owner_references: controller(live).map(|controller| vec![controller.clone()]),
        ..ObjectMeta::default()
    }
}

/// `<namespace>/<name>` of the Helm release that an object's three marks name.
fn helm_release(live: &ObjectMeta) -> Option<String> {
    let annotations = live.annotations.as_ref()?;
    let managed = live.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY)).is_some_and(|by| by == "Helm");
    let (name, namespace) = (annotations.get(RELEASE_NAME)?, annotations.get(RELEASE_NAMESPACE)?);
    managed.then(|| format!("{namespace}/{name}"))
}

/// Whether a mark of ours says that the release which Helm's marks name is this custom resource's.
fn is_confirmed(live: &ObjectMeta, owner: &Owner) -> bool {
    let part_of = live.labels.as_ref().and_then(|labels| labels.get(applyset::PART_OF));
    let kept = live.annotations.as_ref().and_then(|annotations| annotations.get(KEPT));
    let id = applyset::id(owner);
    part_of == Some(&id) || kept == Some(&id)
}

/// The custom resource that [`PRIMARY_RESOURCE_TYPE`] and [`PRIMARY_RESOURCE`] name. The author of the object may have written anything there.
fn named(kind: &str, place: &str) -> String {
    let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
    let (namespace, name) = place.split_once('/').unwrap_or(("", place));
    let name = resource_name(group, kind, name);
    if namespace.is_empty() { name } else { format!("{name} in the namespace {namespace}") }
}

fn controller(live: &ObjectMeta) -> Option<&OwnerReference> {
    live.owner_references.iter().flatten().find(|reference| reference.controller == Some(true))
}

fn is_ours(controller: &OwnerReference, owner: &Owner) -> bool {
    let (group, _) = split_api_version(&controller.api_version);
    (group, &controller.kind, &controller.name) == (owner.gvk.group.as_str(), &owner.gvk.kind, &owner.name)
}

/// As in the annotation [`PRIMARY_RESOURCE_TYPE`].
pub fn type_of(owner: &Owner) -> String {
    format!("{}.{}", owner.gvk.kind, owner.gvk.group)
}

/// As in the annotation [`PRIMARY_RESOURCE`].
pub fn place_of(owner: &Owner) -> String {
    format!("{}/{}", owner.namespace.as_deref().unwrap_or_default(), owner.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::GroupVersionKind;
    use serde_json::{Value, json};

    fn owner(name: &str) -> Owner {
        Owner {
            gvk: GroupVersionKind::gvk("g.io", "v1", "App"),
            namespace: Some("here".into()),
            name: name.into(),
            uid: "u".into(),
        }
    }

    fn judged(metadata: Value) -> Claim {
        let owner = owner("web");
        let metadata = serde_json::from_value(metadata).unwrap();
        let claim = judge(&metadata, "web", "here", &owner);
        assert_eq!(judge(&marks(&metadata), "web", "here", &owner), claim, "its marks tell as much");
        claim
    }

    fn helm(name: &str, namespace: &str) -> Value {
        json!({"labels": {MANAGED_BY: "Helm"}, "annotations": {RELEASE_NAME: name, RELEASE_NAMESPACE: namespace}})
    }

    fn owned_by(kind: &str, name: &str, uid: &str, mut metadata: Value) -> Value {
        metadata["ownerReferences"] =
            json!([{"apiVersion": "g.io/v1", "kind": kind, "name": name, "uid": uid, "controller": true}]);
        metadata
    }

    #[test]
    fn an_object_without_marks_is_loose() {
        assert_eq!(judged(json!({"labels": {"a": "b"}})), Claim::Loose);
    }

    #[test]
    fn the_owner_reference_decides_first() {
        assert_eq!(judged(owned_by("App", "web", "u", json!({}))), Claim::Ours);
        assert_eq!(judged(owned_by("Other", "web", "v", helm("web", "here"))), Claim::Foreign("other.g.io/web".into()));
        assert_eq!(judged(owned_by("App", "shop", "v", helm("web", "here"))), Claim::Foreign("app.g.io/shop".into()));
    }

    #[test]
    fn an_earlier_life_of_the_custom_resource_needs_the_releases_marks() {
        assert_eq!(judged(owned_by("App", "web", "earlier", helm("web", "here"))), Claim::Ours);
        assert_eq!(judged(owned_by("App", "web", "earlier", json!({}))), Claim::Foreign("app.g.io/web".into()));
    }

    #[test]
    fn annotations_stand_in_for_the_owner_reference() {
        let tied =
            |kind: &str, place: &str| json!({"annotations": {PRIMARY_RESOURCE: place, PRIMARY_RESOURCE_TYPE: kind}});
        assert_eq!(judged(tied("App.g.io", "here/web")), Claim::Ours);
        assert_eq!(judged(tied("App.g.io", "there/web")), Claim::Foreign("app.g.io/web in the namespace there".into()));
    }

    #[test]
    fn helms_marks_count_where_a_mark_of_ours_confirms_them() {
        let mut inside = helm("web", "here");
        inside["namespace"] = "here".into();
        assert_eq!(judged(inside.clone()), Claim::Helm, "a Helm release whose records nobody sees has these marks too");
        assert_eq!(judged(helm("web", "here")), Claim::Helm);
        for (map, key) in [("labels", applyset::PART_OF), ("annotations", KEPT)] {
            let marked = |name: &str, mut object: Value| {
                object["metadata"][map][key] = applyset::id(&owner(name)).into();
                judged(object["metadata"].take())
            };
            assert_eq!(marked("web", json!({"metadata": inside})), Claim::Ours, "{key}");
            assert_eq!(marked("shop", json!({"metadata": inside})), Claim::Helm, "{key} of another custom resource");
            assert_eq!(marked("web", json!({"metadata": helm("web", "here")})), Claim::Helm, "{key} elsewhere");
            assert_eq!(marked("web", json!({"metadata": {"namespace": "here"}})), Claim::Loose, "{key} alone");
        }
        assert_eq!(judged(helm("web", "there")), Claim::Foreign("the Helm release there/web".into()));
        let unmanaged = json!({"annotations": {RELEASE_NAME: "web", RELEASE_NAMESPACE: "here"}});
        assert_eq!(judged(unmanaged), Claim::Loose);
    }
}
