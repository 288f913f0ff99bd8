//! What was read of which object, who refers to it, and whom a change concerns. Pure.
//!
//! Nothing is known of an object that nobody refers to. What the watch tells of one is compared with the version that was read:
//! another one makes the content unknown, and whoever refers to it is told.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use kube::core::ObjectMeta;

use super::{Found, SourceKind};
use crate::custom_resource::Place;
use crate::generate::secret::Seen;
use crate::listeners::Parent;
use crate::packed::Packed;
use crate::values::from::Content;

/// Which object.
pub(super) type At = (SourceKind, Place);

/// How many keys of one object are remembered. Authors of custom resources may name any, and others the next time.
const MAX_KEYS: usize = 1024;

/// What the watch of a kind tells.
pub(super) enum News {
    ListStarts(SourceKind),
    Listed(At, u64),
    ListEnds(SourceKind),
    /// It came, changed or went.
    Changed(At, u64),
}

#[derive(Default)]
pub(super) struct Table {
    entries: HashMap<At, Entry>,
    references: HashMap<Parent, HashSet<At>>,
    /// Which of them holds the generated values of the custom resource itself.
    generated: HashMap<Parent, At>,
    /// Kinds that the API server does not let us watch: what was read may be old at any time.
    blind: HashSet<SourceKind>,
    listed: HashMap<SourceKind, HashSet<Place>>,
}

#[derive(Default)]
struct Entry {
    readers: HashSet<Parent>,
    /// The newest version that the watch told of.
    told: u64,
    read: Option<Read>,
    /// The custom resource whose release makes the object, by what was read last. It stays known while the content is not.
    maker: Option<Parent>,
}

/// What the object held when it was read.
struct Read {
    /// 0 where nothing was there.
    version: u64,
    marks: ObjectMeta,
    keys: BTreeMap<String, Kept>,
}

/// Some keys of one version of an object.
pub(super) struct Keys {
    pub marks: ObjectMeta,
    pub contents: BTreeMap<String, Content>,
}

impl Keys {
    pub(super) fn of(found: &Found, keys: &[&str]) -> Self {
        let contents = keys.iter().map(|key| ((*key).to_owned(), found.content(key))).collect();
        Keys { marks: found.marks.clone(), contents }
    }

    /// The same as whoever generates values sees it.
    pub(super) fn seen(self) -> Seen {
        Seen { marks: self.marks, contents: self.contents }
    }

    /// How much text there is.
    pub(super) fn bytes(&self) -> usize {
        let length = |content: &Content| match content {
            Content::Text(text) => text.len(),
            _ => 0,
        };
        self.contents.values().map(length).sum()
    }
}

enum Kept {
    Text(Packed),
    Other(Content),
}

impl Kept {
    fn of(content: Content) -> Self {
        match content {
            Content::Text(text) => Kept::Text(Packed::new(text.as_bytes())),
            other => Kept::Other(other),
        }
    }

    fn content(&self) -> Content {
        match self {
            Kept::Text(packed) => {
                String::from_utf8(packed.bytes()).map_or(Content::Binary, |text| Content::Text(text.into()))
            }
            Kept::Other(content) => content.clone(),
        }
    }
}

impl Table {
    /// Notes all that a custom resource refers to. What nobody refers to any more is forgotten.
    pub(super) fn refer(&mut self, reader: &Parent, places: HashSet<At>) {
        let before = self.references.remove(reader).unwrap_or_default();
        for at in before.difference(&places) {
            let Some(entry) = self.entries.get_mut(at) else { continue };
            entry.readers.remove(reader);
            if entry.readers.is_empty() {
                self.entries.remove(at);
            }
        }
        for at in &places {
            self.entries.entry(at.clone()).or_default().readers.insert(reader.clone());
        }
        self.generated.remove(reader);
        if !places.is_empty() {
            self.references.insert(reader.clone(), places);
        }
    }

    /// Notes that one of its references is the Secret of its own generated values. That it belongs to the custom resource makes no cycle.
    pub(super) fn refer_to_generated(&mut self, reader: &Parent, at: At) {
        self.generated.insert(reader.clone(), at);
    }

    /// What keys held, if all of them are known to be so still.
    pub(super) fn keys(&self, at: &At, keys: &[&str]) -> Option<Keys> {
        let read = self.entries.get(at).filter(|_| !self.blind.contains(&at.0))?.read.as_ref()?;
        let known = keys.iter().map(|key| Some(((*key).to_owned(), read.keys.get(*key)?.content())));
        Some(Keys { marks: read.marks.clone(), contents: known.collect::<Option<_>>()? })
    }

    /// Has what a custom resource refers to read again, also where the watch tells of no change.
    pub(super) fn distrust(&mut self, reader: &Parent) {
        for at in self.references.get(reader).into_iter().flatten() {
            if let Some(entry) = self.entries.get_mut(at) {
                entry.read = None;
            }
        }
    }

    /// The newest version that the watch told of.
    pub(super) fn told(&self, at: &At) -> u64 {
        self.entries.get(at).map_or(0, |entry| entry.told)
    }

    /// Keeps what was read, unless the watch has told of something newer meanwhile. `before` is what it had told when the read
    /// began: where nothing was found, there is no version to compare.
    ///
    /// Says who has to look again. The watch will not tell them: for it, a version that was read is no news, whoever read it.
    pub(super) fn learn(
        &mut self,
        at: &At,
        keys: &[&str],
        found: &Found,
        before: u64,
        reader: Option<&Parent>,
    ) -> Vec<Parent> {
        let Some(entry) = self.entries.get_mut(at) else { return vec![] };
        entry.maker.clone_from(&found.maker);
        let newest = entry.read.as_ref().map_or(0, |read| read.version).max(entry.told);
        let is_old = if found.version == 0 { entry.told != before } else { found.version < newest };
        if is_old {
            // Without a watch, nothing would ever end this.
            return reader.filter(|_| !self.blind.contains(&at.0)).cloned().into_iter().collect();
        }
        let (same, other) = match entry.read.take() {
            Some(read) if read.version == found.version => (Some(read), None),
            other => (None, other),
        };
        let mut all = same.map(|read| read.keys).filter(|known| known.len() < MAX_KEYS).unwrap_or_default();
        all.extend(keys.iter().map(|key| ((*key).to_owned(), Kept::of(found.content(key)))));
        entry.read = Some(Read { version: found.version, marks: found.marks.clone(), keys: all });
        let others = entry.readers.iter().filter(|it| other.is_some() && Some(*it) != reader);
        others.cloned().collect()
    }

    /// What a custom resource refers to and another one makes, with who does.
    pub(super) fn made_for(&self, reader: &Parent) -> Vec<(At, Parent)> {
        let own = self.generated.get(reader);
        let places = self.references.get(reader).into_iter().flatten().filter(|at| Some(*at) != own);
        let made = places.filter_map(|at| Some((at.clone(), self.entries.get(at)?.maker.clone()?)));
        let mut made: Vec<_> = made.collect();
        // The same way each time, so that the same sentence is told.
        made.sort_by(|(a, _), (b, _)| (a.0, &a.1.name).cmp(&(b.0, &b.1.name)));
        made
    }

    /// Notes that a kind cannot be watched, and says whom that concerns and who was not told yet.
    pub(super) fn is_refused(&mut self, kind: SourceKind) -> Vec<Parent> {
        if !self.blind.insert(kind) {
            return vec![];
        }
        let entries = self.entries.iter().filter(|(at, _)| at.0 == kind);
        let readers: HashSet<&Parent> = entries.flat_map(|(_, entry)| &entry.readers).collect();
        readers.into_iter().cloned().collect()
    }

    /// The kinds that somebody refers to and that cannot be watched.
    pub(super) fn blind_to(&self, reader: &Parent) -> Vec<SourceKind> {
        let kinds: BTreeSet<SourceKind> = self.references.get(reader).into_iter().flatten().map(|at| at.0).collect();
        kinds.into_iter().filter(|kind| self.blind.contains(kind)).collect()
    }

    /// Takes news in, and says who has to look.
    pub(super) fn note(&mut self, news: News) -> Vec<Parent> {
        match news {
            News::ListStarts(kind) => {
                self.listed.insert(kind, HashSet::new());
                vec![]
            }
            News::Listed(at, version) => {
                let readers = self.differs(&at, |read| *read != version, version);
                if let Some(listed) = self.listed.get_mut(&at.0).filter(|_| self.entries.contains_key(&at)) {
                    listed.insert(at.1);
                }
                readers
            }
            News::Changed(at, version) => self.differs(&at, |read| *read < version, version),
            News::ListEnds(kind) => {
                self.blind.remove(&kind);
                let listed = self.listed.remove(&kind).unwrap_or_default();
                let missing: Vec<At> =
                    self.entries.keys().filter(|at| at.0 == kind && !listed.contains(&at.1)).cloned().collect();
                missing.iter().flat_map(|at| self.differs(at, |read| *read != 0, 0)).collect()
            }
        }
    }

    fn differs(&mut self, at: &At, is_another: impl Fn(&u64) -> bool, told: u64) -> Vec<Parent> {
        let Some(entry) = self.entries.get_mut(at) else { return vec![] };
        let is_new = std::mem::replace(&mut entry.told, told) != told;
        // Where nothing is known, somebody may be reading right now what is old already.
        let concerns = entry.read.as_ref().map_or(is_new, |read| is_another(&read.version));
        if !concerns {
            return vec![];
        }
        entry.read = None;
        entry.readers.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Held;
    use super::*;

    fn at(name: &str) -> At {
        (SourceKind::Secret, Place::new(Some("shop"), name))
    }

    fn found(version: u64, text: &str) -> Found {
        let data = [("values.yaml".to_owned(), text.as_bytes().to_vec())];
        let marks = ObjectMeta::default();
        let object = (version != 0).then(|| Held { sensitive: None, data: data.into() });
        Found { version, marks, maker: None, object }
    }

    fn text(table: &Table, name: &str) -> Option<String> {
        let mut keys = table.keys(&at(name), &["values.yaml"])?;
        match keys.contents.remove("values.yaml")? {
            Content::Text(text) => Some(text.to_string()),
            Content::NoObject => Some("nothing there".into()),
            _ => None,
        }
    }

    /// Somebody who does not matter reads it.
    fn learn(table: &mut Table, name: &str, found: &Found, before: u64) {
        table.learn(&at(name), &["values.yaml"], found, before, None);
    }

    /// `one` and `two` refer to `db`, and only `one` to `own`; both were read at version 5.
    fn table() -> Table {
        let mut table = Table::default();
        table.refer(&Parent::of_test("one"), [at("db"), at("own")].into());
        table.refer(&Parent::of_test("two"), [at("db")].into());
        for name in ["db", "own"] {
            learn(&mut table, name, &found(5, "a: 1"), 0);
        }
        table
    }

    fn names(mut told: Vec<Parent>) -> Vec<String> {
        told.sort_by(|a, b| a.place.cmp(&b.place));
        told.iter().map(|parent| parent.place.name.to_string()).collect()
    }

    #[test]
    fn a_change_is_told_to_those_who_refer_to_it_and_to_nobody_else() {
        let mut table = table();
        assert_eq!(names(table.note(News::Changed(at("other"), 9))), [""; 0]);
        assert_eq!(names(table.note(News::Changed(at("own"), 6))), ["one"]);
        assert_eq!((text(&table, "own"), text(&table, "db").as_deref()), (None, Some("a: 1")));
        assert_eq!(names(table.note(News::Changed(at("db"), 7))), ["one", "two"]);
        assert_eq!(names(table.note(News::Changed(at("db"), 7))), [""; 0], "told already");
        assert_eq!(names(table.note(News::Changed(at("db"), 8))), ["one", "two"], "somebody may be reading it");
    }

    #[test]
    fn what_is_known_already_is_no_news() {
        let mut table = table();
        assert_eq!(names(table.note(News::Changed(at("db"), 5))), [""; 0]);
        assert_eq!(names(table.note(News::Changed(at("db"), 4))), [""; 0], "the watch is behind");
        table.note(News::ListStarts(SourceKind::Secret));
        assert_eq!(names(table.note(News::Listed(at("db"), 5))), [""; 0]);
        assert_eq!(
            names(table.note(News::Listed(at("own"), 3))),
            ["one"],
            "a list is believed, also where it is older"
        );
        assert_eq!(names(table.note(News::ListEnds(SourceKind::Secret))), [""; 0]);
    }

    #[test]
    fn what_a_list_lacks_is_read_again() {
        let mut table = table();
        table.note(News::ListStarts(SourceKind::Secret));
        table.note(News::Listed(at("own"), 5));
        assert_eq!(names(table.note(News::ListEnds(SourceKind::ConfigMap))), [""; 0]);
        assert_eq!(names(table.note(News::ListEnds(SourceKind::Secret))), ["one", "two"]);
        assert_eq!((text(&table, "own").as_deref(), text(&table, "db")), (Some("a: 1"), None));
    }

    #[test]
    fn what_was_missing_is_told_when_it_comes() {
        let mut table = table();
        learn(&mut table, "own", &found(0, ""), 0);
        assert_eq!(text(&table, "own").as_deref(), Some("nothing there"));
        assert_eq!(names(table.note(News::Changed(at("own"), 1))), ["one"]);
    }

    #[test]
    fn what_came_while_it_was_being_missed_is_told_and_read_again() {
        let mut table = table();
        table.note(News::Changed(at("own"), 6));
        let before = table.told(&at("own"));
        assert_eq!(names(table.note(News::Changed(at("own"), 7))), ["one"]);
        learn(&mut table, "own", &found(0, ""), before);
        assert_eq!(text(&table, "own"), None);
    }

    #[test]
    fn what_is_older_than_the_watch_is_not_kept() {
        let mut table = table();
        table.note(News::Changed(at("db"), 9));
        learn(&mut table, "db", &found(7, "a: 2"), 0);
        assert_eq!(text(&table, "db"), None);
        learn(&mut table, "db", &found(9, "a: 3"), 0);
        assert_eq!(text(&table, "db").as_deref(), Some("a: 3"));
    }

    #[test]
    fn what_nobody_refers_to_any_more_is_forgotten() {
        let mut table = table();
        table.refer(&Parent::of_test("one"), [at("db")].into());
        assert_eq!((text(&table, "own"), table.entries.len()), (None, 1));
        table.refer(&Parent::of_test("one"), HashSet::new());
        assert_eq!(text(&table, "db").as_deref(), Some("a: 1"));
        table.refer(&Parent::of_test("two"), HashSet::new());
        assert!(table.entries.is_empty() && table.references.is_empty());
    }

    #[test]
    fn without_a_watch_nothing_is_believed_for_long() {
        let mut table = table();
        table.is_refused(SourceKind::Secret);
        assert_eq!(text(&table, "db"), None);
        table.note(News::ListStarts(SourceKind::Secret));
        table.note(News::Listed(at("db"), 5));
        table.note(News::ListEnds(SourceKind::Secret));
        assert_eq!(text(&table, "db").as_deref(), Some("a: 1"));
    }

    #[test]
    fn several_keys_of_one_object_are_kept_beside_each_other() {
        let mut table = table();
        assert!(table.keys(&at("db"), &["values.yaml", "other"]).is_none(), "all or nothing");
        table.learn(&at("db"), &["other"], &found(5, "a: 1"), 0, None);
        let both = table.keys(&at("db"), &["values.yaml", "other"]).unwrap().contents;
        assert!(both["other"] == Content::NoKey && both["values.yaml"] == Content::Text("a: 1".into()));
    }

    #[test]
    fn keys_that_somebody_named_once_are_not_remembered_without_limit() {
        let mut table = table();
        for key in 0..10 * MAX_KEYS {
            table.learn(&at("db"), &[&format!("k{key}")], &found(5, "a: 1"), 0, None);
            assert!(table.entries[&at("db")].read.as_ref().unwrap().keys.len() <= MAX_KEYS);
        }
    }

    #[test]
    fn who_read_an_older_version_is_told_when_another_reads_a_newer_one_before_the_watch_tells() {
        let mut table = table();
        let (one, two) = (Parent::of_test("one"), Parent::of_test("two"));
        let woken = table.learn(&at("db"), &["other"], &found(6, "a: 2"), 0, Some(&two));
        assert_eq!(names(woken), ["one"]);
        assert_eq!(names(table.note(News::Changed(at("db"), 6))), [""; 0], "for the watch it is no news");
        assert_eq!(text(&table, "db"), None, "nothing of the old version is left");
        let woken = table.learn(&at("db"), &["values.yaml"], &found(6, "a: 2"), 6, Some(&one));
        assert_eq!(names(woken), [""; 0]);
        assert_eq!(text(&table, "db").as_deref(), Some("a: 2"));
    }

    #[test]
    fn who_was_slow_to_read_an_older_version_looks_again() {
        let mut table = table();
        let one = Parent::of_test("one");
        learn(&mut table, "db", &found(6, "a: 2"), 0);
        let woken = table.learn(&at("db"), &["values.yaml"], &found(5, "a: 1"), 0, Some(&one));
        assert_eq!((names(woken), text(&table, "db").as_deref()), (vec!["one".to_owned()], Some("a: 2")));
        table.note(News::Changed(at("db"), 6));
        let woken = table.learn(&at("db"), &["values.yaml"], &found(5, "a: 1"), 0, Some(&one));
        assert_eq!(names(woken), ["one"]);
    }

    #[test]
    fn the_secret_of_its_generated_values_makes_a_custom_resource_depend_on_nobody() {
        let (mut table, one) = (table(), Parent::of_test("one"));
        let made = Found { maker: Some(one.clone()), ..found(6, "a: 2") };
        learn(&mut table, "db", &made, 0);
        assert_eq!(table.made_for(&one).len(), 1);
        table.refer(&one, [at("db")].into());
        table.refer_to_generated(&one, at("db"));
        assert!(table.made_for(&one).is_empty());
        assert_eq!(table.made_for(&Parent::of_test("two")).len(), 1, "whoever else takes a value from there does");
        assert_eq!(names(table.note(News::Changed(at("db"), 9))), ["one", "two"], "it is followed all the same");
        table.refer(&one, HashSet::new());
        assert!(table.generated.is_empty());
    }

    #[test]
    fn that_a_kind_cannot_be_watched_is_told_once_to_those_who_refer_to_it() {
        let mut table = table();
        assert_eq!(names(table.is_refused(SourceKind::ConfigMap)), [""; 0]);
        assert_eq!(names(table.is_refused(SourceKind::Secret)), ["one", "two"]);
        assert_eq!(names(table.is_refused(SourceKind::Secret)), [""; 0]);
        assert_eq!(table.blind_to(&Parent::of_test("one")), [SourceKind::Secret]);
        assert_eq!(table.blind_to(&Parent::of_test("other")), []);
    }
}
