//! What the watch of one kind has seen, and whom a change concerns. Pure bookkeeping.

use std::collections::{HashMap, HashSet};

use crate::custom_resource::Place;
use crate::drift::Mark;
use crate::health::{Health, Scale, State};
use crate::listeners::Parent;

/// How many objects that were cut short are remembered: of those that releases are known to hold, and of those that only say so.
/// Whoever may create Jobs in a namespace may create and delete any number of them.
const CUT_SHORT: usize = 10_000;
const CUT_SHORT_OF_CLAIMED: usize = 1_000;

/// What a watch knows about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub uid: Box<str>,
    /// What our apply left, as it is now.
    pub mark: Option<Mark>,
    /// None for what is healthy as soon as it exists: most objects are.
    health: Option<Box<Health>>,
    /// Grows with every change, across all objects of a cluster.
    pub version: u64,
    pub parent: Option<Parent>,
    /// What ends by itself: whether it has, or was told to before it could.
    pub life: Life,
    /// Of workloads with replicas. That it changed is no news of its own: a workload whose replicas change is not ready meanwhile.
    pub scale: Option<Box<Scale>>,
    /// The release of its custom resource is known to hold this very object, whatever the object says about itself.
    pub is_recorded: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Most objects: nothing ends.
    Lasting,
    Running,
    Finished,
    /// Somebody deletes it before it finished.
    CutShort,
}

impl Seen {
    pub fn new(uid: &str, version: u64, mark: Option<Mark>, health: Option<Health>, parent: Option<Parent>) -> Self {
        let life = Life::Lasting;
        Seen {
            uid: uid.into(),
            mark,
            health: health.map(Box::new),
            version,
            parent,
            life,
            scale: None,
            is_recorded: false,
        }
    }

    pub fn health(&self) -> Health {
        let exists = || Health::new(State::Current, "Exists", "it exists");
        self.health.as_deref().cloned().unwrap_or_else(exists)
    }

    /// Whether it is the same object, of the same custom resource.
    fn is_same(&self, other: &Seen) -> bool {
        (&self.uid, &self.parent) == (&other.uid, &other.parent)
    }

    /// Whether somebody should look: another object, another mark, another health, an end.
    fn is_news(&self, before: &Seen) -> bool {
        #[cfg(test)]
        crate::steps::count();
        let health = |seen: &Seen| seen.health.as_ref().map(|health| (health.state, health.reason().to_owned()));
        (&self.uid, &self.mark, self.life) != (&before.uid, &before.mark, before.life) || health(self) != health(before)
    }
}

/// An event of a watch.
pub enum Change {
    There(Place, Seen),
    /// While the watch lists.
    Listed(Place, Seen),
    Gone(Place, u64),
    ListStarts,
    ListEnds,
}

/// Whom a change concerns.
#[derive(Debug, Default, PartialEq)]
pub struct News {
    pub parents: Vec<Parent>,
    /// Those that only an object of another namespace claims, which no release is known to hold.
    pub claimed: Vec<Parent>,
    /// Only somebody's health changed.
    pub is_health_only: bool,
    /// The first list is complete: whoever misses an object can see it only now.
    pub is_synced: bool,
}

impl News {
    fn add(&mut self, place: &Place, seen: &Seen) {
        #[cfg(test)]
        crate::steps::count();
        match &seen.parent {
            Some(parent) if parent.is_afar(place) && !seen.is_recorded => self.claimed.push(parent.clone()),
            parent => self.parents.extend(parent.clone()),
        }
    }
}

#[derive(Default)]
pub struct Table {
    pub synced: bool,
    seen: HashMap<Place, Seen>,
    /// Collects a new list, which replaces the old one when it is complete.
    listing: Option<HashMap<Place, Seen>>,
    /// What an apply was answered since the list began.
    learned: HashSet<Place>,
    /// The newest version that the watch has told of.
    newest: u64,
    /// The watch is refused.
    pub is_blind: bool,
    /// What ends by itself and was deleted before it had, with its custom resource.
    cut_short: HashMap<Place, Parent>,
}

impl Table {
    pub fn get(&self, place: &Place) -> Option<&Seen> {
        self.seen.get(place)
    }

    /// Drops what only a custom resource that is gone could want to know.
    pub fn forget(&mut self, gone: &Parent) {
        self.cut_short.retain(|_, parent| parent != gone);
    }

    /// Notes that a release holds this object, if the object says so too.
    pub fn is_held(&mut self, place: &Place, uid: &str, parent: &Parent) {
        if let Some(seen) =
            self.seen.get_mut(place).filter(|seen| &*seen.uid == uid && seen.parent.as_ref() == Some(parent))
        {
            seen.is_recorded = true;
        }
    }

    pub fn was_cut_short(&self, place: &Place) -> bool {
        self.cut_short.contains_key(place)
    }

    /// Takes over what an apply was answered. What the watch knows better, an object that changed or went since then, stays as
    /// the watch told it.
    pub fn learn(&mut self, place: Place, mut seen: Seen) {
        let known = match self.seen.get(&place) {
            Some(known) => known.version,
            None if self.synced => self.newest,
            None => 0,
        };
        if seen.version > known {
            self.cut_short.remove(&place);
            if self.listing.is_some() {
                self.learned.insert(place.clone());
            }
            // An apply is not answered with how many pods there are.
            let known = self.seen.get(&place).filter(|known| known.uid == seen.uid);
            seen.scale = seen.scale.or_else(|| known.and_then(|known| known.scale.clone()));
            // We have just applied it for this custom resource.
            seen.is_recorded = true;
            self.seen.insert(place, seen);
        }
    }

    pub fn note(&mut self, change: Change) -> News {
        self.is_blind = false;
        match change {
            Change::ListStarts => {
                self.listing = Some(HashMap::new());
                self.learned.clear();
                News::default()
            }
            Change::There(place, seen) => self.there(place, seen),
            Change::Listed(place, seen) => {
                self.listing.get_or_insert_default().insert(place, seen);
                News::default()
            }
            Change::Gone(place, version) => self.gone(&place, version),
            Change::ListEnds => self.list_ends(),
        }
    }

    fn there(&mut self, place: Place, mut seen: Seen) -> News {
        self.newest = self.newest.max(seen.version);
        let before = self.seen.get(&place);
        if before.is_some_and(|known| known.version > seen.version) {
            return News::default();
        }
        if before.is_some_and(|before| before.uid == seen.uid && before.life == Life::CutShort) {
            seen.life = Life::CutShort;
        }
        self.cut_short.remove(&place);
        seen.is_recorded |= before.is_some_and(|before| before.is_recorded && before.is_same(&seen));
        let is_news = before.is_none_or(|before| seen.is_news(before));
        let is_health_only = before.is_some_and(|before| (&seen.uid, &seen.mark) == (&before.uid, &before.mark));
        let mut news = News { is_health_only, ..News::default() };
        if is_news {
            // Somebody may have taken the very mark that says whose it is.
            news.add(&place, &seen);
            before
                .filter(|before| before.parent != seen.parent)
                .into_iter()
                .for_each(|before| news.add(&place, before));
        }
        self.seen.insert(place, seen);
        news
    }

    fn gone(&mut self, place: &Place, version: u64) -> News {
        self.newest = self.newest.max(version);
        // Another one of this name may have been made since.
        if self.seen.get(place).is_none_or(|known| known.version > version) {
            return News::default();
        }
        let Some(before) = self.seen.remove(place) else { return News::default() };
        if let (true, Some(parent)) = (matches!(before.life, Life::Running | Life::CutShort), &before.parent) {
            let most = match before.is_recorded {
                true => CUT_SHORT,
                // What is in another namespace anybody may claim to be a release's.
                false if parent.is_afar(place) => 0,
                false => CUT_SHORT_OF_CLAIMED,
            };
            if self.cut_short.len() < most {
                self.cut_short.insert(place.clone(), parent.clone());
            }
        }
        let mut news = News::default();
        news.add(place, &before);
        news
    }

    /// A list replaces everything that was known before it began, also by older versions: a cluster may have been set back.
    /// What an apply was answered meanwhile stays, unless the list is newer: it is at least as new as the newest object in it.
    fn list_ends(&mut self) -> News {
        let listed = self.listing.take().unwrap_or_default();
        let before = std::mem::take(&mut self.seen);
        let was_synced = std::mem::replace(&mut self.synced, true);
        self.newest = listed.values().map(|seen| seen.version).max().unwrap_or_default();
        let (learned, newest) = (std::mem::take(&mut self.learned), self.newest);
        let is_newer = |(place, seen): &(&Place, &Seen)| learned.contains(*place) && seen.version > newest;
        self.seen = before.iter().filter(is_newer).map(own).collect();
        let mut news = News::default();
        for (place, mut seen) in listed {
            let known = before.get(&place);
            seen.is_recorded |= known.is_some_and(|known| known.is_recorded && known.is_same(&seen));
            match known {
                Some(known) if learned.contains(&place) && known.version > seen.version => {
                    self.seen.insert(place, known.clone());
                    continue;
                }
                Some(known) if !seen.is_news(known) => {}
                known => {
                    news.add(&place, &seen);
                    known.into_iter().for_each(|known| news.add(&place, known));
                }
            }
            self.seen.insert(place, seen);
        }
        let missing = before.iter().filter(|(place, _)| !self.seen.contains_key(*place));
        missing.for_each(|(place, seen)| news.add(place, seen));
        match was_synced {
            true => news,
            // Before the first list was complete nobody knew enough to act. Now all look.
            false => News { is_synced: true, ..News::default() },
        }
    }
}

fn own((place, seen): (&Place, &Seen)) -> (Place, Seen) {
    #[cfg(test)]
    crate::steps::count();
    (place.clone(), seen.clone())
}

#[cfg(test)]
mod tests;
