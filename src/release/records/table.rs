//! All records that are known, in as little memory as they need. Pure.
//!
//! It is fed from two sides: by the watch, and by the answers to our own writes, which are often faster. A version decides
//! between them: what is older than what is known is not news and changes nothing.

use std::collections::HashMap;
use std::sync::Arc;

use crate::aside;
use crate::packed::Packed;
use crate::release::budget::{OWN_OF_ALL_REVISIONS, REVISIONS};
use crate::release::{Own, OwnerMark, Revisions, Status, Summary};

/// Which record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    pub namespace: Box<str>,
    pub release: Box<str>,
    pub revision: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub version: u64,
    pub life: Life,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Life {
    There(Status, Part),
    /// We deleted or superseded it, and the watch has not said so yet. What it still tells of the time before is ignored.
    Gone,
}

/// Our part of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Foreign,
    Unreadable,
    Ours(Ours),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ours {
    /// [`Own`] as it is stored, packed: a small part of what it takes when it is read.
    packed: Packed,
    /// Unpacked.
    json_len: usize,
    /// Beside it, so that nobody unpacks all records of a release to see whose it is.
    owner: Arc<OwnerMark>,
}

impl Part {
    pub fn of(own: &Own) -> Self {
        let json = own.to_json();
        Part::Ours(Ours { packed: Packed::new(&json), json_len: json.len(), owner: Arc::new(own.owner.clone()) })
    }

    pub fn own(&self) -> Option<Own> {
        match self {
            Part::Ours(ours) => Own::from_bytes(&ours.packed.bytes()).ok(),
            Part::Foreign | Part::Unreadable => None,
        }
    }
}

/// What records hold. None where one does not tell. It takes long where there is much, so nobody holds a table meanwhile.
pub fn summaries(entries: Vec<(u32, Status, Part)>) -> Option<Revisions> {
    let length = entries.iter().map(|(_, _, part)| if let Part::Ours(ours) = part { ours.json_len } else { 0 }).sum();
    let summaries = entries.into_iter().map(|(revision, status, part)| match part {
        Part::Foreign => Some(Summary { revision, status, own: None }),
        part => part.own().map(|own| Summary { revision, status, own: Some(own) }),
    });
    aside::here(length, || summaries.collect::<Option<Vec<_>>>().map(Revisions::new))
}

#[derive(Default)]
pub struct Table {
    known: Known,
    /// Collects a new list, which replaces what is known when it is complete.
    listing: Option<Known>,
}

/// By namespace, then by release: so each name is held once.
#[derive(Default)]
struct Known(HashMap<Box<str>, HashMap<Box<str>, Entries>>);

/// The records of one release, by their revisions.
#[derive(Default)]
struct Entries {
    sorted: Vec<(u32, Entry)>,
    /// There are more than anybody holds.
    are_too_many: bool,
}

/// What a new list replaced.
pub struct Replaced {
    pub before: Table,
    /// The releases that are not as they were, by namespace and name.
    pub changed: Vec<(Box<str>, Box<str>)>,
}

impl Table {
    /// The records of a release, for [`summaries`]. None where there are too many.
    pub fn entries(&self, namespace: &str, release: &str) -> Option<Vec<(u32, Status, Part)>> {
        let is_held =
            !self.known.has_too_many(namespace, release) && self.own_len(namespace, release) <= OWN_OF_ALL_REVISIONS;
        let there = self.known.entries(namespace, release).iter().filter_map(|(revision, entry)| match &entry.life {
            Life::There(status, part) => Some((*revision, *status, part.clone())),
            Life::Gone => None,
        });
        is_held.then(|| there.collect())
    }

    /// The length of our parts of a release's records as JSON.
    pub fn own_len(&self, namespace: &str, release: &str) -> usize {
        let lengths = self.known.entries(namespace, release).iter().map(|(_, entry)| match &entry.life {
            Life::There(_, Part::Ours(ours)) => ours.json_len,
            _ => 0,
        });
        lengths.sum()
    }

    /// The custom resources that the known records of a release name as theirs, each once.
    pub fn owners(&self, namespace: &str, release: &str) -> Vec<OwnerMark> {
        let mut owners: Vec<&OwnerMark> = vec![];
        for (_, entry) in self.known.entries(namespace, release) {
            if let Life::There(_, Part::Ours(ours)) = &entry.life
                && owners.last() != Some(&&*ours.owner)
            {
                owners.push(&ours.owner);
            }
        }
        owners.sort();
        owners.dedup();
        owners.into_iter().cloned().collect()
    }

    /// Takes over what an answer or the watch says about a record. Says whether that is news.
    pub fn put(&mut self, spot: &Spot, entry: Entry) -> bool {
        if let Some(listing) = &mut self.listing {
            listing.put(spot, entry.clone());
        }
        self.known.put(spot, entry)
    }

    /// Takes over that we removed a record, or that it left the watch by our doing at this version.
    pub fn bury(&mut self, spot: &Spot, at: Option<u64>) {
        let Some(known) = self.known.get(spot) else { return };
        let version = at.unwrap_or(known.version);
        self.put(spot, Entry { version: version.max(known.version + 1), life: Life::Gone });
    }

    /// Takes over that the watch says a record is gone. Says whether that is news.
    pub fn remove(&mut self, spot: &Spot, version: u64) -> bool {
        if let Some(listing) = &mut self.listing {
            listing.remove(spot, version);
        }
        self.known.remove(spot, version)
    }

    pub fn list_starts(&mut self) {
        self.listing = Some(Known::default());
    }

    pub fn listed(&mut self, spot: &Spot, entry: Entry) {
        self.listing.get_or_insert_default().put(spot, entry);
    }

    pub fn list_ends(&mut self) -> Replaced {
        let listed = self.listing.take().unwrap_or_default();
        let before = Table { known: std::mem::replace(&mut self.known, listed), listing: None };
        let mut changed: Vec<_> = before.known.releases().chain(self.known.releases()).collect();
        changed.sort_unstable();
        changed.dedup();
        changed.retain(|(namespace, release)| {
            before.known.lives(namespace, release) != self.known.lives(namespace, release)
        });
        let changed = changed.into_iter().map(|(namespace, release)| (namespace.into(), release.into())).collect();
        Replaced { before, changed }
    }
}

impl Known {
    fn entries(&self, namespace: &str, release: &str) -> &[(u32, Entry)] {
        let entries = self.0.get(namespace).and_then(|releases| releases.get(release));
        entries.map_or(&[], |entries| &entries.sorted)
    }

    fn has_too_many(&self, namespace: &str, release: &str) -> bool {
        let entries = self.0.get(namespace).and_then(|releases| releases.get(release));
        entries.is_some_and(|entries| entries.are_too_many)
    }

    fn get(&self, spot: &Spot) -> Option<&Entry> {
        let entries = self.entries(&spot.namespace, &spot.release);
        let at = place_of(entries, spot.revision).ok()?;
        entries.get(at).map(|(_, entry)| entry)
    }

    fn releases(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|(namespace, releases)| releases.keys().map(|release| (&**namespace, &**release)))
    }

    /// What is there of a release, without the versions.
    fn lives(&self, namespace: &str, release: &str) -> Vec<(u32, &Life)> {
        let entries = self.entries(namespace, release).iter();
        let mut lives: Vec<_> = entries.map(|(revision, entry)| (*revision, &entry.life)).collect();
        lives.retain(|(_, life)| **life != Life::Gone);
        lives
    }

    fn put(&mut self, spot: &Spot, entry: Entry) -> bool {
        let releases = self.0.entry(spot.namespace.clone()).or_default();
        let entries = releases.entry(spot.release.clone()).or_default();
        match place_of(&entries.sorted, spot.revision) {
            Ok(at) => {
                let known = &mut entries.sorted[at].1;
                if known.version >= entry.version {
                    return false;
                }
                let is_news = known.life != entry.life;
                *known = entry;
                is_news
            }
            Err(_) if entries.sorted.len() == REVISIONS => !std::mem::replace(&mut entries.are_too_many, true),
            Err(at) => {
                if entries.sorted.is_empty() {
                    // Most releases have one record that is not superseded.
                    entries.sorted.reserve_exact(1);
                }
                entries.sorted.insert(at, (spot.revision, entry));
                true
            }
        }
    }

    fn remove(&mut self, spot: &Spot, version: u64) -> bool {
        let Some(releases) = self.0.get_mut(&spot.namespace) else { return false };
        let Some(entries) = releases.get_mut(&spot.release) else { return false };
        let at = place_of(&entries.sorted, spot.revision).ok();
        let Some(at) = at.filter(|at| entries.sorted[*at].1.version <= version) else { return false };
        let (_, entry) = entries.sorted.remove(at);
        if entries.sorted.is_empty() {
            releases.remove(&spot.release);
        }
        if releases.is_empty() {
            self.0.remove(&spot.namespace);
        }
        entry.life != Life::Gone
    }
}

/// Where the entry of a revision is, or belongs.
fn place_of(entries: &[(u32, Entry)], revision: u32) -> Result<usize, usize> {
    entries.binary_search_by_key(&revision, |(revision, _)| {
        #[cfg(test)]
        crate::steps::count();
        *revision
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps;

    #[test]
    fn the_steps_for_a_record_grow_with_the_logarithm_of_the_revisions() {
        for number in [10, 100, REVISIONS as u32] {
            let (mut table, most) = (Table::default(), (number.ilog2() + 2) as usize);
            for revision in (0..number).rev() {
                let steps = steps::of(|| table.put(&spot(revision), entry(1, Status::Failed)));
                assert!(steps <= most, "{steps} steps to add one of {number}");
            }
            let steps = steps::of(|| table.bury(&spot(0), None));
            assert!(steps <= 2 * most, "{steps} steps to bury one of {number}");
            let steps = steps::of(|| table.remove(&spot(1), 2));
            assert!(steps <= most, "{steps} steps to remove one of {number}");
        }
    }

    impl Table {
        fn revisions(&self, namespace: &str, release: &str) -> Option<Revisions> {
            summaries(self.entries(namespace, release)?)
        }
    }

    fn spot(revision: u32) -> Spot {
        Spot { namespace: "here".into(), release: "web".into(), revision }
    }

    fn entry(version: u64, status: Status) -> Entry {
        let own = Own { digest: "d".into(), ..Own::default() };
        Entry { version, life: Life::There(status, Part::of(&own)) }
    }

    fn revisions(table: &Table) -> Vec<(u32, Status)> {
        let revisions = table.revisions("here", "web").unwrap();
        revisions.latest().into_iter().map(|latest| (latest.revision, latest.status)).collect()
    }

    #[test]
    fn the_watchs_echo_of_our_own_write_is_no_news() {
        let mut table = Table::default();
        table.put(&spot(1), entry(5, Status::PendingInstall));
        table.put(&spot(1), entry(6, Status::Deployed));
        assert!(!table.put(&spot(1), entry(5, Status::PendingInstall)), "an echo of the past");
        assert!(!table.put(&spot(1), entry(6, Status::Deployed)));
        assert_eq!(revisions(&table), [(1, Status::Deployed)]);
        assert!(!table.put(&spot(1), entry(7, Status::Deployed)), "only a label changed");
        assert!(table.put(&spot(1), entry(8, Status::Failed)));
        assert!(table.put(&spot(2), entry(9, Status::Deployed)));
    }

    #[test]
    fn what_we_removed_stays_away_until_it_is_made_again() {
        let mut table = Table::default();
        table.put(&spot(1), entry(5, Status::Deployed));
        table.bury(&spot(1), None);
        assert!(table.revisions("here", "web").unwrap().is_empty());
        assert!(!table.put(&spot(1), entry(5, Status::Deployed)), "the watch is behind");
        table.put(&spot(1), entry(9, Status::PendingInstall));
        assert!(!table.remove(&spot(1), 7), "that was the one before");
        assert_eq!(revisions(&table), [(1, Status::PendingInstall)]);
        assert!(table.remove(&spot(1), 10));
        assert!(table.known.0.is_empty(), "nothing is left of it");
    }

    #[test]
    fn what_we_superseded_leaves_without_news() {
        let mut table = Table::default();
        table.put(&spot(1), entry(5, Status::Deployed));
        table.put(&spot(2), entry(6, Status::Deployed));
        table.bury(&spot(1), Some(8));
        assert!(!table.remove(&spot(1), 8));
        assert_eq!(revisions(&table), [(2, Status::Deployed)]);
        table.bury(&spot(3), Some(9));
        assert_eq!(table.known.entries("here", "web").len(), 1, "nothing is remembered of what was not known");
    }

    #[test]
    fn a_new_list_tells_what_changed_meanwhile_and_keeps_what_was_learned_meanwhile() {
        let mut table = Table::default();
        for (name, version) in [("same", 1), ("gone", 2), ("other", 3)] {
            table.put(&Spot { release: name.into(), ..spot(1) }, entry(version, Status::Deployed));
        }
        table.list_starts();
        table.put(&Spot { release: "ours".into(), ..spot(1) }, entry(9, Status::Deployed));
        table.bury(&Spot { release: "same".into(), ..spot(1) }, None);
        table.listed(&Spot { release: "same".into(), ..spot(1) }, entry(1, Status::Deployed));
        table.listed(&Spot { release: "other".into(), ..spot(1) }, entry(4, Status::Failed));
        table.listed(&Spot { release: "new".into(), ..spot(1) }, entry(5, Status::Deployed));
        let Replaced { before, changed } = table.list_ends();
        let names: Vec<_> = changed.iter().map(|(_, release)| &**release).collect();
        assert_eq!(names, ["gone", "new", "other"]);
        assert_eq!(before.owners("here", "gone").len(), 1);
        assert!(table.owners("here", "gone").is_empty());
        assert!(table.revisions("here", "same").unwrap().is_empty(), "we removed it while the list was under way");
        assert!(!table.revisions("here", "ours").unwrap().is_empty());
    }

    #[test]
    fn of_a_release_with_too_many_records_only_the_records_can_tell() {
        let mut table = Table::default();
        for revision in (1..=REVISIONS as u32).rev() {
            assert!(table.put(&spot(revision), entry(1, Status::Failed)));
        }
        assert_eq!(table.revisions("here", "web").unwrap().latest().unwrap().revision, REVISIONS as u32);
        assert_eq!(table.owners("here", "web").len(), 1, "each once");
        assert!(table.put(&spot(9_999), entry(2, Status::Failed)));
        assert!(!table.put(&spot(10_000), entry(2, Status::Failed)), "that is no news");
        assert_eq!(table.revisions("here", "web"), None);
        assert_eq!(table.known.entries("here", "web").len(), REVISIONS);
    }

    #[test]
    fn a_record_that_cannot_be_read_is_no_absent_release() {
        let mut table = Table::default();
        table.put(&spot(1), Entry { version: 1, life: Life::There(Status::Deployed, Part::Unreadable) });
        assert_eq!(table.revisions("here", "web"), None);
    }
}
