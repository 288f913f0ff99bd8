//! What the watch of one kind has seen, and whom a change concerns. Pure bookkeeping.

use std::collections::{HashMap, HashSet};

use crate::custom_resource::Place;
use crate::drift::Mark;
use crate::health::{Health, Scale, State};
use crate::listeners::Parent;

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
        Seen { uid: uid.into(), mark, health: health.map(Box::new), version, parent, life: Life::Lasting, scale: None }
    }

    pub fn health(&self) -> Health {
        let exists = || Health::new(State::Current, "Exists", "it exists");
        self.health.as_deref().cloned().unwrap_or_else(exists)
    }

    /// Whether somebody should look: another object, another mark, another health, an end.
    fn is_news(&self, before: &Seen) -> bool {
        let health = |seen: &Seen| seen.health.as_ref().map(|health| (health.state, health.reason.clone()));
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
    /// Only somebody's health changed.
    pub is_health_only: bool,
    /// The first list is complete: whoever misses an object can see it only now.
    pub is_synced: bool,
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
        let before_parent = before.and_then(|before| before.parent.clone());
        let is_news = before.is_none_or(|before| seen.is_news(before));
        let is_health_only = before.is_some_and(|before| (&seen.uid, &seen.mark) == (&before.uid, &before.mark));
        let mut parents: Vec<Parent> = vec![];
        if is_news {
            // Somebody may have taken the very mark that says whose it is.
            parents.extend(seen.parent.clone());
            parents.extend(before_parent.filter(|before| Some(before) != seen.parent.as_ref()));
        }
        self.seen.insert(place, seen);
        News { parents, is_health_only, is_synced: false }
    }

    fn gone(&mut self, place: &Place, version: u64) -> News {
        self.newest = self.newest.max(version);
        // Another one of this name may have been made since.
        if self.seen.get(place).is_none_or(|known| known.version > version) {
            return News::default();
        }
        let Some(before) = self.seen.remove(place) else { return News::default() };
        if let (true, Some(parent)) = (matches!(before.life, Life::Running | Life::CutShort), &before.parent) {
            self.cut_short.insert(place.clone(), parent.clone());
        }
        News { parents: before.parent.into_iter().collect(), ..News::default() }
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
        let mut parents = vec![];
        for (place, seen) in listed {
            match before.get(&place) {
                Some(known) if learned.contains(&place) && known.version > seen.version => {
                    self.seen.insert(place, known.clone());
                    continue;
                }
                Some(known) if !seen.is_news(known) => {}
                known => parents.extend(seen.parent.clone().into_iter().chain(known.and_then(|it| it.parent.clone()))),
            }
            self.seen.insert(place, seen);
        }
        let missing = before.iter().filter(|(place, _)| !self.seen.contains_key(*place));
        parents.extend(missing.filter_map(|(_, seen)| seen.parent.clone()));
        match was_synced {
            true => News { parents, ..News::default() },
            // Before the first list was complete nobody knew enough to act. Now all look.
            false => News { is_synced: true, ..News::default() },
        }
    }
}

fn own((place, seen): (&Place, &Seen)) -> (Place, Seen) {
    (place.clone(), seen.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drift::Hash;

    fn place(name: &str) -> Place {
        Place::new(Some("default"), name)
    }

    fn seen(version: u64, hash: u64) -> Seen {
        let mark = Mark { at: 0, hash: Hash(hash), rules: Hash(0), replicas: false };
        Seen::new("u", version, Some(mark), None, Some(Parent::of_test("cr")))
    }

    fn synced() -> Table {
        let mut table = Table::default();
        table.note(Change::ListStarts);
        table.note(Change::Listed(place("a"), seen(5, 1)));
        assert_eq!(table.note(Change::ListEnds), News { is_synced: true, ..News::default() });
        table
    }

    #[test]
    fn a_change_of_the_mark_is_news_and_any_other_write_is_not() {
        let mut table = synced();
        assert!(table.note(Change::There(place("a"), seen(6, 1))).parents.is_empty());
        assert_eq!(table.note(Change::There(place("a"), seen(7, 2))).parents, [Parent::of_test("cr")]);
    }

    #[test]
    fn what_an_apply_was_answered_is_no_news_when_the_watch_tells_it() {
        let mut table = synced();
        table.learn(place("a"), seen(8, 3));
        assert!(table.note(Change::There(place("a"), seen(8, 3))).parents.is_empty());
    }

    #[test]
    fn how_many_pods_there_are_is_known_also_after_an_apply() {
        let mut table = synced();
        let scale = Some(Box::new(Scale { replicas: 2, selector: "a=b".into() }));
        table.note(Change::There(place("a"), Seen { scale: scale.clone(), ..seen(6, 1) }));
        table.learn(place("a"), seen(8, 3));
        assert_eq!(table.get(&place("a")).unwrap().scale, scale);
        table.learn(place("a"), Seen { uid: "other".into(), ..seen(9, 3) });
        assert_eq!(table.get(&place("a")).unwrap().scale, None);
    }

    #[test]
    fn an_answer_that_is_older_than_what_the_watch_told_is_not_believed() {
        let mut table = synced();
        table.note(Change::Gone(place("a"), 9));
        table.learn(place("a"), seen(8, 3));
        assert!(table.get(&place("a")).is_none());
    }

    #[test]
    fn somebody_who_takes_the_owner_away_is_noticed_by_the_owner() {
        let mut table = synced();
        let loose = Seen { parent: None, ..seen(6, 9) };
        assert_eq!(table.note(Change::There(place("a"), loose)).parents, [Parent::of_test("cr")]);
    }

    #[test]
    fn what_went_while_nobody_watched_is_noticed_in_the_next_list() {
        let mut table = synced();
        table.note(Change::ListStarts);
        table.note(Change::Listed(place("b"), seen(20, 1)));
        let news = table.note(Change::ListEnds);
        assert_eq!((news.parents.len(), news.is_synced), (2, false), "one went and one came");
        assert!(table.get(&place("a")).is_none() && table.get(&place("b")).is_some());
    }

    #[test]
    fn what_is_deleted_before_it_finished_was_cut_short() {
        let mut table = synced();
        table.note(Change::There(place("a"), Seen { life: Life::Finished, ..seen(6, 1) }));
        table.note(Change::Gone(place("a"), 7));
        assert!(!table.was_cut_short(&place("a")));
        table.note(Change::There(place("a"), Seen { life: Life::Running, ..seen(8, 1) }));
        table.note(Change::There(place("a"), Seen { life: Life::CutShort, ..seen(9, 1) }));
        // A pod that is told to end reports its end.
        table.note(Change::There(place("a"), Seen { life: Life::Finished, ..seen(10, 1) }));
        table.note(Change::Gone(place("a"), 11));
        assert!(table.was_cut_short(&place("a")));
        table.forget(&Parent::of_test("cr"));
        assert!(!table.was_cut_short(&place("a")));
    }

    #[test]
    fn the_newest_of_all_is_missed_too_when_it_is_not_in_the_next_list() {
        let mut table = synced();
        table.note(Change::ListStarts);
        assert_eq!(table.note(Change::ListEnds).parents, [Parent::of_test("cr")]);
        assert!(table.get(&place("a")).is_none());
    }

    #[test]
    fn what_is_applied_while_a_list_comes_in_stays() {
        let mut table = synced();
        table.note(Change::ListStarts);
        table.note(Change::Listed(place("a"), seen(5, 1)));
        table.learn(place("a"), seen(7, 2));
        table.learn(place("b"), seen(8, 1));
        assert!(table.note(Change::ListEnds).parents.is_empty());
        assert_eq!((table.get(&place("a")), table.get(&place("b"))), (Some(&seen(7, 2)), Some(&seen(8, 1))));
    }

    #[test]
    fn what_was_applied_and_is_not_in_a_newer_list_is_gone() {
        let mut table = synced();
        table.note(Change::ListStarts);
        table.learn(place("a"), seen(7, 2));
        table.learn(place("b"), seen(8, 1));
        table.note(Change::Listed(place("c"), seen(9, 1)));
        let news = table.note(Change::ListEnds);
        assert!(
            table.get(&place("a")).is_none() && table.get(&place("b")).is_none(),
            "they went before the list was made"
        );
        assert_eq!(news.parents.len(), 3, "two went and one came");
    }

    #[test]
    fn a_cluster_that_was_set_back_is_believed() {
        let mut table = synced();
        table.note(Change::ListStarts);
        table.note(Change::Listed(place("a"), seen(2, 9)));
        assert_eq!(table.note(Change::ListEnds).parents.len(), 2);
        assert_eq!(table.get(&place("a")), Some(&seen(2, 9)));
    }

    #[test]
    fn the_end_of_an_earlier_one_is_not_the_end_of_its_successor() {
        let mut table = synced();
        table.learn(place("a"), seen(12, 1));
        assert!(table.note(Change::Gone(place("a"), 9)).parents.is_empty());
        assert!(table.get(&place("a")).is_some());
    }

    #[test]
    fn what_lasts_is_just_gone() {
        let mut table = synced();
        table.note(Change::Gone(place("a"), 7));
        assert!(!table.was_cut_short(&place("a")));
    }
}
