//! Who is told when an object changes: the custom resource that it belongs to, in the queue of its kind.
//!
//! Watches on objects are shared by all watched kinds. This is the list of those kinds, and the way from an object to its
//! custom resource, by owner reference or by annotation.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use kube::core::ObjectMeta;

use crate::custom_resource::Place;
use crate::discovery::Kind;
use crate::drift::rules::IGNORE_FIELDS;
use crate::drift::{Rule, Rules};
use crate::object::{ObjectKey, resource_name, split_api_version};
use crate::ownership::{self, Maker};
use crate::queue::{Queue, Urgency};

/// How often objects that nobody recorded may have a custom resource of another namespace reconciled.
const STRANGERS: Duration = Duration::from_secs(5);

/// The custom resource that an object belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Parent {
    /// The watched kind, by its place in the list.
    kind: usize,
    pub place: Place,
}

#[cfg(test)]
impl Parent {
    pub fn of_test(name: &str) -> Self {
        Parent { kind: 0, place: Place::new(Some("default"), name) }
    }
}

impl Parent {
    /// Whether an object can belong to it only by an annotation, which everybody may write who may write the object: it is in
    /// another namespace. What is cluster-scoped only administrators write.
    pub fn is_afar(&self, object: &Place) -> bool {
        object.namespace.is_some() && object.namespace != self.place.namespace
    }
}

/// A watched kind.
#[derive(Clone)]
pub struct Listener {
    pub kind: Kind,
    pub queue: Arc<Queue>,
    /// Whether its custom resources want to know what becomes of their objects.
    pub cares: bool,
    pub ignore: Vec<Ignore>,
}

/// Fields of some objects that others may decide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ignore {
    pub target: Selector,
    pub paths: Vec<Rule>,
}

/// Which objects. What is not given matches all; a `*` in a name stands for anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    pub group: Option<String>,
    pub kind: Option<String>,
    pub namespace: Option<String>,
    pub name: Option<String>,
}

impl Selector {
    pub fn matches(&self, key: &ObjectKey) -> bool {
        let is = |wanted: &Option<String>, text: &str| wanted.as_deref().is_none_or(|wanted| is_like(wanted, text));
        is(&self.group, &key.group)
            && is(&self.kind, &key.kind)
            && is(&self.namespace, key.namespace.as_deref().unwrap_or_default())
            && is(&self.name, &key.name)
    }
}

/// Whether a text is as a pattern with `*` says.
fn is_like(pattern: &str, text: &str) -> bool {
    let Some((first, more)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let (middle, last) = more.rsplit_once('*').unwrap_or(("", more));
    for part in middle.split('*') {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[derive(Default)]
pub struct Listeners(RwLock<Vec<Listener>>);

impl Listeners {
    /// Adds a kind, or puts it in the place of what was known about it.
    pub fn register(&self, listener: Listener) {
        let mut all = self.0.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let is_same = |known: &&mut Listener| is_same_kind(&known.kind, &listener.kind);
        match all.iter_mut().find(is_same) {
            Some(known) => *known = listener,
            None => all.push(listener),
        }
    }

    /// The custom resource that an object belongs to.
    pub fn parent(&self, metadata: &ObjectMeta) -> Option<Parent> {
        let all = self.read();
        all.iter()
            .enumerate()
            .find_map(|(kind, listener)| Some(Parent { kind, place: place(metadata, &listener.kind)? }))
    }

    /// A custom resource, as the parent of its objects.
    pub fn parent_of(&self, kind: &Kind, place: &Place) -> Option<Parent> {
        let number = self.read().iter().position(|listener| is_same_kind(&listener.kind, kind))?;
        Some(Parent { kind: number, place: place.clone() })
    }

    /// `app.example.com/web`, for messages.
    pub fn name_of(&self, parent: &Parent) -> String {
        let all = self.read();
        let resource = all.get(parent.kind).map(|listener| &listener.kind.resource);
        let (group, kind) = resource.map_or(("", "resource"), |it| (it.group.as_str(), it.kind.as_str()));
        resource_name(group, kind, &parent.place.name)
    }

    pub fn tell(&self, parent: &Parent, urgency: Urgency) {
        if let Some(listener) = self.read().get(parent.kind).filter(|listener| listener.cares) {
            listener.queue.tell(parent.place.clone(), urgency);
        }
    }

    /// The same about an object that only claims to belong to the custom resource, from a namespace that others may write to. It
    /// waits until [`STRANGERS`] is over and then comes last, however often and by how many objects it is told.
    pub fn tell_of_stranger(&self, parent: &Parent) {
        if let Some(listener) = self.read().get(parent.kind).filter(|listener| listener.cares) {
            listener.queue.tell_later(parent.place.clone(), STRANGERS);
        }
    }

    /// The same about what goes into a release, which concerns those too who do not care what becomes of their objects.
    pub fn wake(&self, parent: &Parent, urgency: Urgency) {
        if let Some(listener) = self.read().get(parent.kind) {
            listener.queue.tell(parent.place.clone(), urgency);
        }
    }

    pub fn tell_all(&self, urgency: Urgency) {
        for listener in self.read().iter().filter(|listener| listener.cares) {
            listener.queue.tell_all(urgency);
        }
    }

    /// Which fields of an object others may decide.
    pub fn rules(&self, key: &ObjectKey, metadata: &ObjectMeta, parent: Option<&Parent>) -> Rules {
        let all = self.read();
        let ignore = parent.and_then(|parent| all.get(parent.kind)).map_or(&[][..], |listener| &listener.ignore);
        rules(key, metadata, ignore)
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Vec<Listener>> {
        // A poisoned lock still holds a list.
        self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Which fields of an object others may decide: the cluster, and whom the watch or the object itself allows.
pub fn rules(key: &ObjectKey, metadata: &ObjectMeta, ignore: &[Ignore]) -> Rules {
    let of_watch = ignore.iter().filter(|ignore| ignore.target.matches(key)).flat_map(|ignore| ignore.paths.clone());
    let annotation = metadata.annotations.as_ref().and_then(|annotations| annotations.get(IGNORE_FIELDS));
    let of_object = annotation.map(|text| Rules::of_annotation(text)).unwrap_or_default();
    Rules::of_cluster(&key.group, &key.kind).with(of_watch).with(of_object)
}

fn is_same_kind(a: &Kind, b: &Kind) -> bool {
    (&a.resource.group, &a.resource.kind) == (&b.resource.group, &b.resource.kind)
}

fn place(metadata: &ObjectMeta, owner: &Kind) -> Option<Place> {
    let resource = &owner.resource;
    let of = |name: &str, namespace: Option<&str>| Place::new(namespace.filter(|_| owner.namespaced), name);
    match ownership::maker(metadata)? {
        Maker::Controller(reference) => {
            let group = split_api_version(&reference.api_version).0;
            let is_owner = (group, &reference.kind) == (resource.group.as_str(), &resource.kind);
            is_owner.then(|| of(&reference.name, metadata.namespace.as_deref()))
        }
        Maker::Primary { kind, place } => {
            let (namespace, name) = place.split_once('/')?;
            (kind == format!("{}.{}", resource.kind, resource.group)).then(|| of(name, Some(namespace)))
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::GroupVersionKind;
    use kube::discovery::ApiResource;
    use serde_json::json;

    use super::*;
    use crate::plan::{Owner, PRIMARY_RESOURCE, PRIMARY_RESOURCE_TYPE};

    fn kind(kind: &str) -> Kind {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("g.io", "v1", kind));
        Kind { resource, namespaced: true, has_status: true, is_manageable: true }
    }

    /// Its controller, and the App `web` by annotation.
    fn object(controller: Option<&str>) -> ObjectMeta {
        let reference =
            |kind| json!({"apiVersion": "g.io/v1", "kind": kind, "name": "web", "uid": "u", "controller": true});
        let metadata = json!({
            "namespace": "here",
            "annotations": {PRIMARY_RESOURCE_TYPE: "App.g.io", PRIMARY_RESOURCE: "here/web"},
            "ownerReferences": controller.map(reference).into_iter().collect::<Vec<_>>(),
        });
        serde_json::from_value(metadata).unwrap()
    }

    #[test]
    fn an_annotation_does_not_hide_the_controller_of_an_object() {
        let web = Some(Place::new(Some("here"), "web"));
        for (controller, expected) in [
            (None, [&web, &None]),
            (Some("App"), [&web, &None]),
            (Some("Shop"), [&None, &web]),
            (Some("Stranger"), [&None, &None]),
        ] {
            let live = object(controller);
            for (name, expected) in ["App", "Shop"].into_iter().zip(expected) {
                assert_eq!(place(&live, &kind(name)), *expected, "{controller:?} for {name}");
                let owner = Owner {
                    gvk: GroupVersionKind::gvk("g.io", "v1", name),
                    namespace: Some("here".into()),
                    name: "web".into(),
                    uid: "u".into(),
                };
                let is_ours = ownership::judge(&live, "web", "here", &owner) == ownership::Claim::Ours;
                assert_eq!(is_ours, expected.is_some(), "both judge alike: {controller:?} for {name}");
            }
        }
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, text, expected) in [
            ("web", "web", true),
            ("web", "webs", false),
            ("web*", "web-1", true),
            ("*", "", true),
            ("*-db", "a-db", true),
            ("*-db", "a-db-1", false),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(is_like(pattern, text), expected, "{pattern} {text}");
        }
    }
}
