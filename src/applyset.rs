//! The ApplySet marks (KEP-3659): labels on members and parent that let other tools see what belongs together, and let us
//! find our objects again when the release record is gone.
//!
//! Pure. The marks are never the reason to delete something by themselves; see [`crate::prune`].

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::object::ObjectId;
use crate::plan::Owner;

/// Of all that is here.
pub const PREFIX: &str = "applyset.kubernetes.io/";
/// On every member.
pub const PART_OF: &str = "applyset.kubernetes.io/part-of";
/// On the parent.
pub const ID: &str = "applyset.kubernetes.io/id";
pub const TOOLING: &str = "applyset.kubernetes.io/tooling";
pub const GROUP_KINDS: &str = "applyset.kubernetes.io/contains-group-kinds";
pub const NAMESPACES: &str = "applyset.kubernetes.io/additional-namespaces";

/// How many of each are believed of an annotation. For each pair of them a request may be sent.
pub const MOST_NAMESPACES: usize = 64;
pub const MOST_GROUP_KINDS: usize = 256;

/// The identity of the set whose parent is a custom resource, as the KEP defines it.
pub fn id(owner: &Owner) -> String {
    id_of(&owner.name, owner.namespace.as_deref(), &owner.gvk.kind, &owner.gvk.group)
}

/// The same, of the parent's parts.
pub fn id_of(name: &str, namespace: Option<&str>, kind: &str, group: &str) -> String {
    let name = format!("{name}.{}.{kind}.{group}", namespace.unwrap_or_default());
    format!("applyset-{}-v1", URL_SAFE_NO_PAD.encode(digest(&SHA256, name.as_bytes())))
}

/// What a set contains, as its parent says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    /// `Deployment.apps`, `Service`.
    pub group_kinds: BTreeSet<String>,
    /// Namespaces other than the parent's.
    pub namespaces: BTreeSet<String>,
}

impl Contents {
    /// The contents of a set with these members.
    pub fn of<'a>(members: impl Iterator<Item = &'a ObjectId>, owner: &Owner) -> Self {
        let mut contents = Contents::default();
        for member in members {
            contents.group_kinds.insert(match member.group.as_str() {
                "" => member.kind.clone(),
                group => format!("{}.{group}", member.kind),
            });
            if let Some(namespace) =
                member.namespace.as_ref().filter(|namespace| Some(*namespace) != owner.namespace.as_ref())
            {
                contents.namespaces.insert(namespace.clone());
            }
        }
        contents
    }

    /// Reads the parent's annotations.
    pub fn read(annotation: impl Fn(&str) -> Option<String>) -> Self {
        let list = |key: &str| -> BTreeSet<String> {
            let text = annotation(key).unwrap_or_default();
            text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
        };
        // Anybody can write them, and they become part of a request's path.
        let believed = |items: BTreeSet<String>, most: usize, is_name: fn(&str) -> bool| {
            items.into_iter().filter(|item| is_name(item)).take(most).collect()
        };
        Contents {
            // No limit: names that no API serves must not displace the others, and one request finds out which those are.
            group_kinds: believed(list(GROUP_KINDS), usize::MAX, is_group_kind),
            namespaces: believed(list(NAMESPACES), MOST_NAMESPACES, is_namespace),
        }
    }

    /// Both together: a parent is widened before objects are applied, and shrinks after pruning. Of the other's kinds, which anybody may have
    /// written, only so many are kept.
    pub fn union(mut self, other: &Contents) -> Self {
        let room = MOST_GROUP_KINDS.saturating_sub(self.group_kinds.len());
        let more: Vec<_> = other.group_kinds.difference(&self.group_kinds).take(room).cloned().collect();
        self.group_kinds.extend(more);
        self.namespaces.extend(other.namespaces.iter().cloned());
        self
    }

    /// The parent's annotations.
    pub fn annotations(&self) -> Value {
        let list = |items: &BTreeSet<String>| items.iter().cloned().collect::<Vec<_>>().join(",");
        json!({
            TOOLING: concat!("chartwright/v", env!("CARGO_PKG_VERSION")),
            GROUP_KINDS: list(&self.group_kinds),
            NAMESPACES: list(&self.namespaces),
        })
    }
}

/// Whether the API server would take it as the name of a namespace.
fn is_namespace(name: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    name.len() <= 63 && name.bytes().all(is_fine) && !name.starts_with('-') && !name.ends_with('-') && !name.is_empty()
}

fn is_group_kind(name: &str) -> bool {
    // A kind has up to 63 characters, a group up to 253.
    name.len() <= 317 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::GroupVersionKind;

    fn owner() -> Owner {
        Owner {
            gvk: GroupVersionKind::gvk("g.io", "v1", "App"),
            namespace: Some("here".into()),
            name: "web".into(),
            uid: "u".into(),
        }
    }

    fn member(group: &str, kind: &str, namespace: Option<&str>) -> ObjectId {
        let namespace = namespace.map(str::to_owned);
        ObjectId { group: group.into(), version: "v1".into(), kind: kind.into(), namespace, name: "n".into() }
    }

    #[test]
    fn an_id_fits_a_label() {
        let id = id(&owner());
        assert!(id.starts_with("applyset-") && id.ends_with("-v1") && id.len() <= 63, "{id}");
    }

    #[test]
    fn contents_survive_the_parents_annotations() {
        let members =
            [member("apps", "Deployment", Some("here")), member("", "Secret", Some("there")), member("", "Node", None)];
        let contents = Contents::of(members.iter(), &owner());
        let annotations = contents.annotations();
        assert_eq!(annotations[GROUP_KINDS], "Deployment.apps,Node,Secret");
        assert_eq!(annotations[NAMESPACES], "there");
        assert_eq!(Contents::read(|key| annotations[key].as_str().map(str::to_owned)), contents);
    }

    #[test]
    fn only_so_many_names_of_an_annotation_are_believed_and_only_names() {
        let long = "n".repeat(64);
        let odd = ["..", "a/b", "A", "a b", "-a", "a-", "a%2fb", long.as_str(), "ö"];
        let many: Vec<String> = (0..5000).map(|number| format!("team-{number:04}")).collect();
        let text = |names: &[&str]| Some(names.join(","));
        let read = |names: Option<String>| Contents::read(|key| names.clone().filter(|_| key == NAMESPACES)).namespaces;
        assert!(read(text(&odd)).is_empty());
        let mut all = odd.to_vec();
        all.extend(many.iter().map(String::as_str));
        assert_eq!(read(text(&all)).len(), MOST_NAMESPACES);
        let kinds =
            |names: Option<String>| Contents::read(|key| names.clone().filter(|_| key == GROUP_KINDS)).group_kinds;
        let widened = Contents::default().union(&Contents::read(|_| text(&all)));
        assert_eq!(widened.group_kinds.len(), MOST_GROUP_KINDS);
        assert_eq!(
            kinds(text(&["Deployment.apps", "../x", "Service"])),
            ["Deployment.apps".to_owned(), "Service".to_owned()].into()
        );
    }
}
