//! The custom resources of a kind as they were last seen, and what is news about them. Pure but for a lock.
//!
//! Our own status writes are no news, nor are labels.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use kube::ResourceExt;
use kube::runtime::watcher::Event;

use crate::applyset;
use crate::children::version;
use crate::custom_resource::{CustomResource, Place};
use crate::identity::FINALIZER;
use crate::namespaces::{Scope, covers};
use crate::queue::Urgency;

/// What a watch's event means.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    /// One to reconcile.
    Told {
        place: Place,
        urgency: Urgency,
        /// What a run that is under way wants is not wanted any more.
        starts_over: bool,
    },
    /// The one with this UID is gone. Another of its name may have come.
    Gone { place: Place, uid: String },
}

#[derive(Default)]
pub struct Resources(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    known: HashMap<Place, Arc<CustomResource>>,
    /// What a whole list of was seen.
    synced: HashSet<Scope>,
    /// The named namespaces that may not be read.
    refused: HashSet<Scope>,
    /// While lists come in, by what they cover: who is in them.
    listed: HashMap<Scope, HashSet<Place>>,
    /// What our own writes were answered since the list began.
    learned: HashSet<Place>,
}

impl Resources {
    pub fn get(&self, place: &Place) -> Option<Arc<CustomResource>> {
        self.locked().known.get(place).cloned()
    }

    /// All of them, in no order.
    pub fn all(&self) -> Vec<Arc<CustomResource>> {
        self.locked().known.values().cloned().collect()
    }

    /// Whether a whole list of each of these has been seen. A named namespace that may not be read holds up nobody.
    pub fn is_synced(&self, scopes: &[Scope]) -> bool {
        let seen = self.locked();
        scopes.iter().all(|scope| seen.synced.contains(scope) || scope.is_some() && seen.refused.contains(scope))
    }

    /// What this scope covers may not be read.
    pub fn is_refused(&self, scope: &Scope) {
        self.locked().refused.insert(scope.clone());
    }

    /// The namespaces that may not be read, in order.
    pub fn refused(&self) -> Vec<String> {
        let mut all: Vec<String> = self.locked().refused.iter().flatten().map(ToString::to_string).collect();
        all.sort();
        all
    }

    /// Those that are meant.
    pub fn places(&self, is_meant: impl Fn(&Place) -> bool) -> Vec<Place> {
        self.locked().known.keys().filter(|place| is_meant(place)).cloned().collect()
    }

    /// Whether this very one is still there.
    pub fn has(&self, cr: &CustomResource) -> bool {
        self.get(&cr.place()).is_some_and(|known| known.metadata.uid == cr.metadata.uid)
    }

    /// Takes over what our own write was answered. Where somebody else changed it as well, the watch has to tell of it.
    pub fn learn(&self, cr: CustomResource) {
        let mut seen = self.locked();
        let place = cr.place();
        let is_only_ours = seen.known.get(&place).is_some_and(|known| is_only_ours(known, &cr));
        if is_only_ours {
            if seen.is_listing(&place) {
                seen.learned.insert(place.clone());
            }
            seen.known.insert(place, Arc::new(cr));
        }
    }

    /// What a watch tells, which covers this scope.
    pub fn note(&self, scope: &Scope, event: Event<CustomResource>) -> Vec<News> {
        self.locked().note(scope, event)
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Seen> {
        // A poisoned lock still holds what was seen last.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Seen {
    fn note(&mut self, scope: &Scope, event: Event<CustomResource>) -> Vec<News> {
        let is_covered = |place: &Place| covers(scope, place.namespace.as_deref());
        match event {
            Event::Init => {
                self.listed.insert(scope.clone(), HashSet::new());
                self.learned.retain(|place| !is_covered(place));
                vec![]
            }
            Event::InitApply(cr) => {
                if let Some(listed) = self.listed.get_mut(scope) {
                    listed.insert(cr.place());
                }
                self.see(cr)
            }
            Event::Apply(cr) => self.see(cr),
            Event::InitDone => {
                self.synced.insert(scope.clone());
                self.refused.remove(scope);
                let Some(listed) = self.listed.remove(scope) else { return vec![] };
                // Who is missing went while nobody watched.
                let missing = self.known.keys().filter(|place| is_covered(place) && !listed.contains(place));
                let missing: Vec<_> = missing.cloned().collect();
                missing.into_iter().filter_map(|place| self.lose(place)).collect()
            }
            Event::Delete(cr) => self.lose(cr.place()).into_iter().collect(),
        }
    }

    fn is_listing(&self, place: &Place) -> bool {
        self.listed.keys().any(|scope| covers(scope, place.namespace.as_deref()))
    }

    fn lose(&mut self, place: Place) -> Option<News> {
        let cr = self.known.remove(&place)?;
        Some(News::Gone { place, uid: cr.metadata.uid.clone().unwrap_or_default() })
    }

    fn see(&mut self, cr: CustomResource) -> Vec<News> {
        let place = cr.place();
        let mut news = vec![];
        let mut before = self.known.get(&place).cloned();
        if before.as_ref().is_some_and(|before| before.metadata.uid != cr.metadata.uid) {
            before = None;
            news.extend(self.lose(place.clone()));
        }
        // A list is believed, also where it is older: the cluster may have been set back. Only our own writes are newer.
        let may_be_set_back = self.is_listing(&place) && !self.learned.contains(&place);
        let is_older = before.as_ref().is_some_and(|before| version(&before.metadata) > version(&cr.metadata));
        if is_older && !may_be_set_back {
            return news;
        }
        if let Some(urgency) = urgency(before.as_deref(), &cr) {
            let starts_over = before.is_some_and(|before| wants_something_else(&before, &cr));
            news.push(News::Told { place: place.clone(), urgency, starts_over });
        }
        self.known.insert(place, Arc::new(cr));
        news
    }
}

/// How urgent the change from one state to another is; None if it is no news.
fn urgency(before: Option<&CustomResource>, now: &CustomResource) -> Option<Urgency> {
    let metadata = &now.metadata;
    if let Some(before) = before.map(|before| &before.metadata) {
        let same = before.generation == metadata.generation
            && before.annotations == metadata.annotations
            && before.finalizers == metadata.finalizers
            && before.deletion_timestamp == metadata.deletion_timestamp;
        return (!same).then(|| by_itself(now));
    }
    let observed = now.status().and_then(|status| status["observedGeneration"].as_i64());
    Some(match by_itself(now) {
        Urgency::Edit if metadata.deletion_timestamp.is_none() && observed == metadata.generation => Urgency::Recheck,
        urgency => urgency,
    })
}

/// How urgent work on a custom resource is when there is some.
pub fn by_itself(cr: &CustomResource) -> Urgency {
    let is_deployed = cr.status().is_some_and(|status| !status["deployedRelease"].is_null());
    match cr.metadata.deletion_timestamp.is_some() || is_deployed {
        true => Urgency::Edit,
        false => Urgency::Install,
    }
}

/// Whether nothing but what we write differs, and this is the newer one.
fn is_only_ours(before: &CustomResource, now: &CustomResource) -> bool {
    let annotations = |cr: &CustomResource| {
        let others = cr.annotations().iter().filter(|(key, _)| !key.starts_with(applyset::PREFIX));
        others.map(|(key, value)| (key.clone(), value.clone())).collect::<Vec<_>>()
    };
    let finalizers = |cr: &CustomResource| {
        let others = cr.finalizers().iter().filter(|finalizer| *finalizer != FINALIZER);
        others.cloned().collect::<Vec<_>>()
    };
    before.metadata.uid == now.metadata.uid
        && version(&before.metadata) < version(&now.metadata)
        && !wants_something_else(before, now)
        && annotations(before) == annotations(now)
        && finalizers(before) == finalizers(now)
}

fn wants_something_else(before: &CustomResource, now: &CustomResource) -> bool {
    (before.metadata.generation, before.metadata.deletion_timestamp.is_some())
        != (now.metadata.generation, now.metadata.deletion_timestamp.is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use Urgency::*;

    fn cr(version: u64, generation: i64, more: Value) -> CustomResource {
        let mut value = json!({
            "metadata": {"name": "web", "namespace": "a", "uid": "1", "resourceVersion": version.to_string(), "generation": generation},
        });
        for (key, new) in more.as_object().unwrap() {
            match key.as_str() {
                "status" => value["status"] = new.clone(),
                key => value["metadata"][key] = new.clone(),
            }
        }
        serde_json::from_value(value).unwrap()
    }

    fn deployed(observed: i64) -> Value {
        json!({"status": {"deployedRelease": {"name": "web"}, "observedGeneration": observed}})
    }

    fn told(urgency: Urgency, starts_over: bool) -> Vec<News> {
        vec![News::Told { place: Place::new(Some("a"), "web"), urgency, starts_over }]
    }

    fn gone(uid: &str) -> News {
        News::Gone { place: Place::new(Some("a"), "web"), uid: uid.into() }
    }

    #[test]
    fn at_the_start_the_status_says_how_urgent_it_is() {
        let first = |cr| Resources::default().note(&None, Event::InitApply(cr));
        assert_eq!(first(cr(1, 1, json!({}))), told(Install, false));
        assert_eq!(first(cr(1, 2, deployed(2))), told(Recheck, false));
        assert_eq!(first(cr(1, 2, deployed(1))), told(Edit, false));
        let leaving = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(first(cr(1, 2, leaving)), told(Edit, false));
    }

    #[test]
    fn a_status_and_labels_are_no_news_but_annotations_and_generations_are() {
        let resources = Resources::default();
        assert_eq!(resources.note(&None, Event::Apply(cr(1, 1, json!({})))), told(Install, false));
        assert_eq!(resources.note(&None, Event::Apply(cr(2, 1, deployed(1)))), []);
        let mut labelled = deployed(1);
        labelled["labels"] = json!({"a": "b"});
        assert_eq!(resources.note(&None, Event::Apply(cr(3, 1, labelled.clone()))), []);
        labelled["annotations"] = json!({"a": "b"});
        assert_eq!(resources.note(&None, Event::Apply(cr(4, 1, labelled.clone()))), told(Edit, false));
        assert_eq!(resources.note(&None, Event::Apply(cr(5, 2, labelled.clone()))), told(Edit, true));
        labelled["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(resources.note(&None, Event::Apply(cr(6, 2, labelled))), told(Edit, true));
    }

    #[test]
    fn a_new_list_tells_who_went_and_is_believed_but_for_our_own_writes() {
        let resources = Resources::default();
        resources.note(&None, Event::Apply(cr(5, 2, deployed(2))));
        resources.note(&None, Event::Init);
        resources.learn(cr(6, 2, deployed(2)));
        assert_eq!(resources.note(&None, Event::InitApply(cr(5, 2, deployed(2)))), [], "it is from before our write");
        assert_eq!(resources.note(&None, Event::InitDone), []);
        let place = Place::new(Some("a"), "web");
        assert_eq!(version(&resources.get(&place).unwrap().metadata), 6);
        resources.note(&None, Event::Init);
        assert_eq!(
            resources.note(&None, Event::InitApply(cr(4, 1, deployed(1)))),
            told(Edit, true),
            "the cluster was set back"
        );
        assert_eq!(resources.note(&None, Event::InitDone), []);
        resources.note(&None, Event::Init);
        assert_eq!(resources.note(&None, Event::InitDone), [gone("1")]);
        assert!(resources.get(&place).is_none());
    }

    #[test]
    fn a_named_namespace_that_may_not_be_read_holds_up_nobody() {
        let (resources, scopes) = (Resources::default(), [Some("a".into()), Some("b".into())]);
        resources.note(&scopes[0], Event::InitDone);
        assert!(!resources.is_synced(&scopes));
        resources.is_refused(&scopes[1]);
        assert!(resources.is_synced(&scopes));
        assert_eq!(resources.refused(), ["b"]);
        resources.note(&scopes[1], Event::InitDone);
        assert!(resources.is_synced(&scopes) && resources.refused().is_empty());
        let everywhere = Resources::default();
        everywhere.is_refused(&None);
        assert!(!everywhere.is_synced(&[None]), "it sees nothing at all");
    }

    #[test]
    fn another_of_the_same_name_is_another() {
        let resources = Resources::default();
        let old = cr(5, 1, deployed(1));
        resources.note(&None, Event::Apply(old.clone()));
        let news = resources.note(&None, Event::Apply(cr(6, 1, json!({"uid": "2"}))));
        assert_eq!(news[0], gone("1"));
        assert_eq!(news[1..], told(Install, false));
        assert!(!resources.has(&old));
        assert_eq!(resources.note(&None, Event::Delete(cr(7, 1, json!({"uid": "2"})))), [gone("2")]);
    }
}
