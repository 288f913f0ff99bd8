//! What a chart asked the cluster for and was not shown.
//!
//! What existed before a release and is adopted must have been seen: a chart that was not shown a password has drawn a new one.

use std::collections::{BTreeMap, BTreeSet};

use crate::object::{ObjectId, ObjectKey};

/// An answer that was held back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asked {
    Object(ObjectKey),
    List(List, BTreeSet<ObjectKey>),
}

/// The objects of a kind in one namespace, or in all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct List {
    pub group: String,
    pub kind: String,
    pub namespace: Option<String>,
}

/// All answers that were held back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unseen {
    objects: BTreeSet<ObjectKey>,
    /// Each with the objects that were shown of it.
    lists: BTreeMap<List, BTreeSet<ObjectKey>>,
}

impl Unseen {
    /// Whether the chart asked for an object, by its name or with others, and was not shown it.
    pub fn has(&self, id: &ObjectId) -> bool {
        let key = id.key();
        let is_hidden = |namespace: Option<&String>| {
            let list = List { group: id.group.clone(), kind: id.kind.clone(), namespace: namespace.cloned() };
            self.lists.get(&list).is_some_and(|shown| !shown.contains(&key))
        };
        self.objects.contains(&key) || is_hidden(None) || key.namespace.is_some() && is_hidden(key.namespace.as_ref())
    }
}

impl FromIterator<Asked> for Unseen {
    fn from_iter<T: IntoIterator<Item = Asked>>(all: T) -> Self {
        let mut unseen = Unseen::default();
        for asked in all {
            match asked {
                Asked::Object(key) => drop(unseen.objects.insert(key)),
                // Of what was asked for twice, the second answer may have more.
                Asked::List(list, shown) => match unseen.lists.get_mut(&list) {
                    Some(known) => known.retain(|key| shown.contains(key)),
                    None => drop(unseen.lists.insert(list, shown)),
                },
            }
        }
        unseen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(kind: &str, namespace: Option<&str>, name: &str) -> ObjectId {
        ObjectId {
            group: String::new(),
            version: "v1".into(),
            kind: kind.into(),
            namespace: namespace.map(str::to_owned),
            name: name.into(),
        }
    }

    fn list(namespace: Option<&str>, shown: &[&str]) -> Asked {
        let list = List { group: String::new(), kind: "Secret".into(), namespace: namespace.map(str::to_owned) };
        Asked::List(list, shown.iter().map(|name| id("Secret", Some("here"), name).key()).collect())
    }

    #[test]
    fn an_object_is_unseen_by_its_name_or_in_a_list() {
        let secret = |namespace, name| id("Secret", Some(namespace), name);
        let by_name: Unseen = [Asked::Object(secret("here", "db").key())].into_iter().collect();
        assert!(by_name.has(&secret("here", "db")) && !by_name.has(&secret("here", "own")));
        let all: Unseen = [list(Some("here"), &["own"])].into_iter().collect();
        assert!(all.has(&secret("here", "db")) && !all.has(&secret("here", "own")));
        assert!(!all.has(&secret("there", "db")) && !all.has(&id("ConfigMap", Some("here"), "db")));
        let everywhere: Unseen = [list(None, &["own"])].into_iter().collect();
        assert!(everywhere.has(&secret("there", "db")) && !everywhere.has(&secret("here", "own")));
        let twice: Unseen = [list(None, &["own", "db"]), list(None, &["own"])].into_iter().collect();
        assert!(twice.has(&secret("here", "db")) && !twice.has(&secret("here", "own")));
    }
}
