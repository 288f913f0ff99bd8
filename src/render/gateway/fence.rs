//! Which objects a `lookup` may see. Pure.
//!
//! **Contract.** Within [`Lookup::Release`], an object is shown only if it is provably of this release. Its own metadata says
//! so; nothing else counts outside of the release's namespace, for whoever writes a Secret there can have the record say anything. In
//! the namespace the record counts too, where nobody else claims the object: by UID, and for what hooks made that left no
//! marks. What was adopted is never shown as the release's own: the author of the custom resource asked for the marks. Both the record and the
//! object say so, and either is enough.
//!
//! Whoever writes a custom resource can smuggle a `lookup` in through `tpl`; they may name any object, but cannot change what it
//! says about itself.

use std::collections::{HashMap, HashSet};

use kube::core::ObjectMeta;

use crate::adoption;
use crate::applyset;
use crate::manifest::{self, HOOK};
use crate::object::{Object, ObjectKey};
use crate::ownership::{self, Claim};
use crate::plan::{Owner, Target};
use crate::release::{History, HookPhase, Release};
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
    /// What was there before the release, by its records.
    adopted: HashSet<ObjectKey>,
    /// What is in the manifests of our revisions that helm recorded again, which drops the UIDs. In the release's namespace only.
    rewritten: HashSet<ObjectKey>,
    /// What hooks made: a list by Helm's label does not hold it.
    hooked: HashSet<ObjectKey>,
    /// What hooks made in the release's namespace. Where helm ran them, it carries no marks.
    unmarked: HashSet<ObjectKey>,
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
            adopted: HashSet::new(),
            rewritten: HashSet::new(),
            hooked: HashSet::new(),
            unmarked: HashSet::new(),
        };
        history.iter().for_each(|release| fence.note(release));
        fence
    }

    fn note(&mut self, release: &Release) {
        for applied in release.own.iter().flat_map(|own| &own.objects) {
            let key = applied.id.key();
            if applied.is_adopted {
                self.adopted.insert(key.clone());
            }
            self.applied.entry(key).or_default().extend(applied.uid.clone());
        }
        let is_ours = release.is_proven() && release.is_claimed();
        if release.own.is_none() && is_ours {
            self.note_rewritten(release);
        }
        let has_adopted = release.own.iter().flat_map(|own| &own.objects).any(|applied| applied.is_adopted);
        for hook in release.hooks.iter().filter(|hook| hook.last_run.started_at.is_some()) {
            let object = yaml::parse(&hook.manifest.read()).ok().and_then(|value| Object::new(value).ok());
            let Some(mut key) = object.map(|object| object.id().key()) else { continue };
            self.hooked.insert(key.clone());
            // Where it has none, it is in the release's namespace or, by its kind, in none.
            key.namespace.get_or_insert_with(|| self.namespace.clone());
            self.hooked.insert(key.clone());
            // Whoever adopts a release asked for its record, so what its hooks made is adopted as well.
            if is_ours && !has_adopted && hook.last_run.phase == HookPhase::Succeeded && self.is_inside(&key) {
                self.unmarked.insert(key);
            }
        }
    }

    fn note_rewritten(&mut self, release: &Release) {
        let objects =
            manifest::read_record(&release.manifest.read()).map(|rendered| rendered.objects).unwrap_or_default();
        let keys = objects.iter().map(|object| {
            let mut key = object.id().key();
            key.namespace.get_or_insert_with(|| self.namespace.clone());
            key
        });
        self.rewritten.extend(keys.filter(|key| self.is_inside(key)).collect::<Vec<_>>());
    }

    /// Whether it is in the release's namespace.
    fn is_inside(&self, key: &ObjectKey) -> bool {
        key.namespace.as_ref() == Some(&self.namespace)
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
        if self.adopted.contains(key) || adoption::is_marked(live) {
            return false;
        }
        match ownership::judge(live, &self.release, &self.namespace, &self.owner) {
            Claim::Ours => true,
            Claim::Foreign(_) => false,
            Claim::Helm => self.is_inside(key) && (self.rewritten.contains(key) || self.is_recorded(key, live)),
            Claim::Loose => self.is_part_of_us(live) || (self.is_inside(key) && self.is_recorded(key, live)),
        }
    }

    fn is_part_of_us(&self, live: &ObjectMeta) -> bool {
        let part_of = live.labels.as_ref().and_then(|labels| labels.get(applyset::PART_OF));
        part_of == Some(&applyset::id(&self.owner))
    }

    fn is_recorded(&self, key: &ObjectKey, live: &ObjectMeta) -> bool {
        let uids = self.applied.get(key).zip(live.uid.as_ref());
        let is_hook = || live.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(HOOK));
        uids.is_some_and(|(uids, uid)| uids.contains(uid)) || (self.unmarked.contains(key) && is_hook())
    }

    /// The objects of a kind in a place that the record names. A list by Helm's label may lack them.
    pub fn recorded(&self, group: &str, kind: &str, place: Place<'_>) -> Vec<ObjectKey> {
        let is_there = |key: &&ObjectKey| match place {
            Place::Namespace(namespace) => key.namespace.as_deref() == Some(namespace),
            Place::Everywhere => true,
        };
        let all = self.applied.keys().chain(&self.hooked).filter(|key| key.group == group && key.kind == kind);
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
