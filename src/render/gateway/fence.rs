//! Which objects a `lookup` may see. Pure.
//!
//! **Contract.** Within [`Lookup::Release`], an object is shown only if it is provably of this release: its own metadata says
//! so, or the release's record names it, by UID where it knows one. Whoever writes a custom resource can smuggle a `lookup` in
//! through `tpl`; they may name any object, but cannot change what it says about itself.

use std::collections::{HashMap, HashSet};

use kube::core::ObjectMeta;

use crate::applyset;
use crate::object::{Object, ObjectKey};
use crate::ownership::{self, Claim};
use crate::plan::{Owner, RELEASE_LABEL, Target};
use crate::release::{History, Release};
use crate::watches::Lookup;
use crate::yaml;

/// What is within reach of one release.
#[derive(Clone, Debug)]
pub struct Fence {
    pub lookup: Lookup,
    release: String,
    namespace: String,
    owner: Owner,
    /// What was applied, with the UIDs that it had.
    applied: HashMap<ObjectKey, HashSet<String>>,
    /// What our hooks made, if it carries our label.
    hooked: HashSet<ObjectKey>,
    /// What upgrades left behind, and what hooks made that helm ran: it carries no marks.
    named: HashSet<ObjectKey>,
}

/// Which objects are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// Those in a namespace.
    Namespace(&'a str),
    /// Those of the whole cluster.
    Everywhere,
}

impl Fence {
    /// The fence of the release that `target` is about, with what its records know.
    pub fn new(lookup: Lookup, target: &Target<'_>, history: &History) -> Self {
        let mut fence = Fence {
            lookup,
            release: target.release.to_owned(),
            namespace: target.namespace.to_owned(),
            owner: target.owner.clone(),
            applied: HashMap::new(),
            hooked: HashSet::new(),
            named: history.kept().iter().map(|id| id.key()).collect(),
        };
        history.iter().for_each(|release| fence.note(release));
        fence
    }

    fn note(&mut self, release: &Release) {
        for applied in release.own.iter().flat_map(|own| &own.objects) {
            self.applied.entry(applied.id.key()).or_default().extend(applied.uid.clone());
        }
        let made = release.hooks.iter().filter(|hook| hook.last_run.started_at.is_some());
        for object in made.filter_map(|hook| Object::new(yaml::parse(&hook.manifest).ok()?).ok()) {
            let noted = if release.own.is_some() { &mut self.hooked } else { &mut self.named };
            let mut key = object.id().key();
            noted.insert(key.clone());
            // Where it has none, it is in the release's namespace or, by its kind, in none.
            key.namespace.get_or_insert_with(|| self.namespace.clone());
            noted.insert(key);
        }
    }

    /// Whether anything is shown at all.
    pub fn is_shut(&self) -> bool {
        self.lookup == Lookup::None
    }

    /// Whether all objects of a place are shown, whatever they say about themselves.
    pub fn is_open(&self, place: Place<'_>) -> bool {
        match self.lookup {
            Lookup::None | Lookup::Release => false,
            Lookup::Namespace => place == Place::Namespace(&self.namespace),
            Lookup::Cluster => true,
        }
    }

    /// Whether an object that exists is shown.
    pub fn shows(&self, key: &ObjectKey, live: &ObjectMeta) -> bool {
        let place = key.namespace.as_deref().map_or(Place::Everywhere, Place::Namespace);
        !self.is_shut() && (self.is_open(place) || self.is_own(key, live))
    }

    fn is_own(&self, key: &ObjectKey, live: &ObjectMeta) -> bool {
        let label = |key: &str| live.labels.as_ref().and_then(|labels| labels.get(key));
        let is_hooks = || self.hooked.contains(key) && label(RELEASE_LABEL) == Some(&self.release);
        let has_our_uid = || {
            let uids = self.applied.get(key);
            uids.zip(live.uid.as_ref()).is_some_and(|(uids, uid)| uids.contains(uid))
        };
        match ownership::judge(live, &self.release, &self.namespace, &self.owner) {
            Claim::Ours => true,
            Claim::Foreign(_) => has_our_uid(),
            Claim::Loose => {
                label(applyset::PART_OF) == Some(&applyset::id(&self.owner))
                    || has_our_uid()
                    || is_hooks()
                    || self.named.contains(key)
            }
        }
    }

    /// The objects of a kind in a place that only the record knows to be ours.
    pub fn recorded(&self, group: &str, kind: &str, place: Place<'_>) -> Vec<ObjectKey> {
        let is_there = |key: &&ObjectKey| match place {
            Place::Namespace(namespace) => key.namespace.as_deref() == Some(namespace),
            Place::Everywhere => true,
        };
        let all = self
            .applied
            .keys()
            .chain(&self.hooked)
            .chain(&self.named)
            .filter(|key| key.group == group && key.kind == kind);
        let mut keys: Vec<ObjectKey> = all.filter(is_there).cloned().collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// The namespace that a list of everything has to include in full.
    pub fn open_namespace(&self) -> Option<&str> {
        (self.lookup == Lookup::Namespace).then_some(self.namespace.as_str())
    }

    /// The setting that would show a place.
    pub fn key_to(&self, place: Place<'_>) -> &'static str {
        match place == Place::Namespace(&self.namespace) {
            true => "lookup: namespace",
            false => "lookup: cluster",
        }
    }
}

#[cfg(test)]
mod tests;
