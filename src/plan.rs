//! What to do, as data: which objects to apply, in which order, with which marks of ownership.
//!
//! Pure. The plan says everything; applying it takes no further decision.

use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use crate::discovery::{Kind, Kinds};
use crate::error::Category;
use crate::manifest::Rendered;
use crate::object::{Object, ObjectId};

/// Marks every object of a release; the watches on children select it.
pub const RELEASE_LABEL: &str = "chartwright.dev/release";
/// operator-sdk's marks on objects that cannot have an owner reference, `<namespace>/<name>` and `<Kind>.<group>`.
pub const PRIMARY_RESOURCE: &str = "operator-sdk/primary-resource";
pub const PRIMARY_RESOURCE_TYPE: &str = "operator-sdk/primary-resource-type";
const CHART_LABEL: &str = "helm.sdk.operatorframework.io/chart";

/// The custom resource that a release belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Owner {
    pub gvk: GroupVersionKind,
    pub namespace: Option<String>,
    pub name: String,
    pub uid: String,
}

/// The release that is being made.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    pub release: &'a str,
    pub namespace: &'a str,
    pub chart: &'a str,
    pub owner: &'a Owner,
}

/// An object with everything decided, and how it is reached.
#[derive(Clone, Debug)]
pub struct Planned {
    pub object: Object,
    pub kind: Kind,
}

#[derive(Debug, Default)]
pub struct Plan {
    /// The contents of crds/, created if absent and never changed.
    pub crds: Vec<Planned>,
    /// In the order of application.
    pub apply: Vec<Planned>,
}

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error(
        "the API server does not know the kind of {id} ({api_version}); install what brings it, or check the chart"
    )]
    UnknownKind { id: Box<ObjectId>, api_version: String },
}

impl PlanError {
    pub fn category(&self) -> Category {
        Category::UnknownKind
    }
}

/// Decides what to do with what a chart rendered.
pub fn plan(rendered: Rendered, target: &Target<'_>, kinds: &Kinds) -> Result<Plan, PlanError> {
    let apply = rendered.objects.into_iter().map(|object| {
        let kind = known(&object, kinds)?;
        Ok(Planned { object: marked(object, target, &kind), kind })
    });
    let crds = rendered.crds.into_iter().map(|object| Ok(Planned { kind: known(&object, kinds)?, object }));
    Ok(Plan { crds: crds.collect::<Result<_, _>>()?, apply: apply.collect::<Result<_, _>>()? })
}

fn known(object: &Object, kinds: &Kinds) -> Result<Kind, PlanError> {
    kinds.get(&object.gvk()).cloned().ok_or_else(|| PlanError::UnknownKind {
        id: Box::new(object.id()),
        api_version: object.api_version().to_owned(),
    })
}

/// Puts on the namespace, Helm's ownership metadata, our label and the tie to the custom resource.
fn marked(mut object: Object, target: &Target<'_>, kind: &Kind) -> Object {
    if kind.namespaced && object.namespace().is_none() {
        object.set_namespace(target.namespace);
    }
    object.set_label("app.kubernetes.io/managed-by", "Helm");
    object.set_annotation("meta.helm.sh/release-name", target.release);
    object.set_annotation("meta.helm.sh/release-namespace", target.namespace);
    object.set_label(RELEASE_LABEL, target.release);
    object.set_label(CHART_LABEL, target.chart);
    let owner = target.owner;
    if can_own(owner, &object, kind) {
        object.set_owner(&owner_reference(owner));
    } else {
        let place = format!("{}/{}", owner.namespace.as_deref().unwrap_or_default(), owner.name);
        object.set_annotation(PRIMARY_RESOURCE, &place);
        object.set_annotation(PRIMARY_RESOURCE_TYPE, &format!("{}.{}", owner.gvk.kind, owner.gvk.group));
    }
    object
}

/// A cluster-scoped owner may own everything, a namespaced one only what is in its namespace.
fn can_own(owner: &Owner, object: &Object, kind: &Kind) -> bool {
    match &owner.namespace {
        None => true,
        Some(namespace) => kind.namespaced && object.namespace() == Some(namespace),
    }
}

fn owner_reference(owner: &Owner) -> Value {
    json!({
        "apiVersion": owner.gvk.api_version(),
        "kind": owner.gvk.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::discovery::ApiResource;

    fn kinds() -> Kinds {
        let kind = |group: &str, kind: &str, namespaced| {
            let gvk = GroupVersionKind::gvk(group, "v1", kind);
            (gvk.clone(), Kind { resource: ApiResource::from_gvk(&gvk), namespaced })
        };
        Kinds::of([kind("", "ConfigMap", true), kind("", "Namespace", false)])
    }

    fn owner(namespace: Option<&str>) -> Owner {
        Owner {
            gvk: GroupVersionKind::gvk("g.io", "v1", "App"),
            namespace: namespace.map(str::to_owned),
            name: "web".into(),
            uid: "u".into(),
        }
    }

    fn planned(owner: &Owner, object: Value) -> Object {
        let rendered = Rendered { objects: vec![Object::new(object).unwrap()], ..Default::default() };
        let target = Target { release: "web", namespace: "here", chart: "app", owner };
        plan(rendered, &target, &kinds()).unwrap().apply.remove(0).object
    }

    /// Whether the object is tied by an owner reference; if not, it must be tied by annotations.
    fn is_owned(object: &Object) -> bool {
        let owned = object.value().pointer("/metadata/ownerReferences/0/uid").is_some();
        assert_ne!(owned, object.annotation(PRIMARY_RESOURCE).is_some(), "{object:?}");
        owned
    }

    #[test]
    fn ownership_follows_the_scopes_of_owner_and_object() {
        let here = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
        let elsewhere = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "x"}});
        let cluster = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
        let expected = [(Some("here"), [true, false, false]), (None, [true, true, true])];
        for (namespace, owned) in expected {
            let objects = [&here, &elsewhere, &cluster].map(|object| planned(&owner(namespace), object.clone()));
            assert_eq!(objects.each_ref().map(is_owned), owned, "owner in {namespace:?}");
        }
    }

    #[test]
    fn helms_marks_and_the_namespace_are_put_on() {
        let object =
            planned(&owner(Some("here")), json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}));
        assert_eq!(object.namespace(), Some("here"));
        assert_eq!(object.annotation("meta.helm.sh/release-name"), Some("web"));
        assert_eq!(object.annotation("meta.helm.sh/release-namespace"), Some("here"));
        assert_eq!(object.value()["metadata"]["labels"]["app.kubernetes.io/managed-by"], "Helm");
    }

    #[test]
    fn an_unknown_kind_is_named() {
        let object = Object::new(json!({"apiVersion": "x.io/v1", "kind": "Y", "metadata": {"name": "z"}})).unwrap();
        let rendered = Rendered { objects: vec![object], ..Default::default() };
        let owner = owner(Some("here"));
        let target = Target { release: "web", namespace: "here", chart: "app", owner: &owner };
        let message = plan(rendered, &target, &kinds()).unwrap_err().to_string();
        assert!(message.contains("Y z (x.io/v1)"), "{message}");
    }
}
