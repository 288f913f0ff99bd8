//! All revisions of one release, oldest first, and what follows from them. Pure.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::{Applied, Own, OwnerMark, Release, Status};
use crate::object::{ObjectId, ObjectKey};

/// Clones share the revisions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    releases: Vec<Arc<Release>>,
}

impl History {
    pub fn new(releases: Vec<Release>) -> Self {
        History::of(releases.into_iter().map(Arc::new).collect())
    }

    fn of(mut releases: Vec<Arc<Release>>) -> Self {
        releases.sort_by_key(|release| release.revision);
        History { releases }
    }

    pub fn is_empty(&self) -> bool {
        self.releases.is_empty()
    }

    pub fn into_releases(self) -> impl Iterator<Item = Release> {
        self.releases.into_iter().map(Arc::unwrap_or_clone)
    }

    /// Oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Release> + Clone {
        self.releases.iter().map(|release| &**release)
    }

    pub fn get(&self, revision: u32) -> Option<&Release> {
        let at = self.releases.binary_search_by_key(&revision, |release| release.revision).ok()?;
        self.releases.get(at).map(|release| &**release)
    }

    pub fn latest(&self) -> Option<&Release> {
        self.releases.last().map(|release| &**release)
    }

    /// The newest revision that is deployed.
    pub fn deployed(&self) -> Option<&Release> {
        self.iter().rev().find(|release| release.status == Status::Deployed)
    }

    /// Whether this revision is the latest, and deployed.
    pub fn stands(&self, revision: u32) -> bool {
        self.latest().is_some_and(|latest| latest.revision == revision && latest.status == Status::Deployed)
    }

    /// The newest revision below another that was deployed once and came from another input.
    pub fn good_before(&self, revision: u32, digest: &str) -> Option<&Release> {
        self.iter().rev().find(|release| {
            release.revision < revision
                && matches!(release.status, Status::Deployed | Status::Superseded)
                && release.is_proven()
                && release.digest() != Some(digest)
        })
    }

    pub fn next_revision(&self) -> u32 {
        self.latest().map_or(1, |latest| latest.revision.saturating_add(1))
    }

    /// Whether the release is this custom resource's, by the newest record that tells.
    pub fn belongs_to(&self, owner: &OwnerMark) -> Option<bool> {
        self.iter().rev().find_map(|release| release.belongs_to(owner))
    }

    /// Whether a revision follows one that was whole, or objects without a record. After a `helm uninstall` that kept the records, it does not.
    pub fn stood_before(&self, revision: u32) -> bool {
        let follows = |own: &Own| own.is_rebuilt || own.is_upgrade;
        if self.get(revision).and_then(|release| release.own.as_ref()).is_some_and(follows) {
            return true;
        }
        let stood =
            |own: &Own| own.was_deployed || follows(own) || own.trouble.as_ref().is_some_and(|trouble| trouble.is_late);
        let before = self.iter().rev().filter(|release| release.revision < revision);
        let mut tell = before.filter_map(|release| match release.status {
            Status::Deployed | Status::Superseded => Some(true),
            _ if release.own.as_ref().is_some_and(stood) => Some(true),
            Status::Uninstalled => Some(false),
            _ => None,
        });
        tell.next().unwrap_or(false)
    }

    /// What may be in the cluster by our doing: the objects of the deployed revision and of those after it that did not
    /// finish. Sorted, and each object once, by its newest name and UID; a new API version does not make another object.
    ///
    /// Revisions that another tool wrote add nothing: their objects are known only by their manifest.
    pub fn objects_since_deployed(&self) -> Vec<Applied> {
        let mut objects: BTreeMap<Key, Applied> = BTreeMap::new();
        for object in self.since_deployed().flat_map(objects_of) {
            let known = objects.remove(&key(&object.id));
            // An attempt that got no answer does not know the UID, an earlier one may.
            let uid = object.uid.clone().or(known.and_then(|known| known.uid));
            objects.insert(key(&object.id), Applied { uid, ..object.clone() });
        }
        objects.into_values().collect()
    }

    /// The same with one record in the place of what was known of it.
    pub fn with(mut self, release: Release) -> Self {
        self.releases.retain(|known| known.revision != release.revision);
        self.releases.push(Arc::new(release));
        History::of(self.releases)
    }

    /// Revisions of other tools whose objects may be in the cluster: their manifests tell which.
    pub fn foreign_since_deployed(&self) -> impl Iterator<Item = &Release> {
        self.since_deployed().filter(|release| release.own.is_none())
    }

    /// The objects that existed before the release, as any record that this operator vouches for says.
    pub fn adopted(&self) -> HashSet<ObjectKey> {
        let objects = self.iter().flat_map(objects_of).filter(|applied| applied.is_adopted);
        objects.map(|applied| applied.id.key()).collect()
    }

    /// What upgrades dropped and left in the cluster, as the newest revision of ours says.
    pub fn kept(&self) -> &[ObjectId] {
        self.iter().rev().find_map(|release| release.own.as_ref()).map_or(&[], |own| &own.kept)
    }

    /// Revisions that are not what they say any more, since the latest is deployed.
    pub fn leftovers(&self) -> Vec<u32> {
        super::Revisions::of(self).leftovers()
    }

    /// Revisions that may be deleted: all but the deployed one, the newest `limit`, and an unfinished one that alone knows
    /// of an object which is perhaps in the cluster. As in Helm, 0 is no limit.
    pub fn expired(&self, limit: usize) -> Vec<u32> {
        if limit == 0 {
            return vec![];
        }
        let deployed = self.deployed().map(|release| release.revision);
        let (old, newest) = self.releases.split_at(self.releases.len().saturating_sub(limit));
        let known = newest.iter().map(|release| &**release).chain(self.deployed()).flat_map(objects_of);
        let mut known: BTreeSet<Key> = known.map(|object| key(&object.id)).collect();
        let mut expired = vec![];
        // The newest first: what it knows, an older one need not.
        for release in old.iter().rev().filter(|release| Some(release.revision) != deployed) {
            let unfinished = Some(release.revision) > deployed && release.status.is_unfinished();
            let objects: BTreeSet<Key> = objects_of(release).iter().map(|object| key(&object.id)).collect();
            match unfinished && !objects.is_subset(&known) {
                true => known.extend(objects),
                false => expired.push(release.revision),
            }
        }
        expired.sort_unstable();
        expired
    }

    /// The revisions whose objects may be in the cluster. Everybody who writes the Secret decides on the status of an unsigned record, so
    /// the newest whole revision that is proven counts beside it, whatever stands above.
    fn since_deployed(&self) -> impl Iterator<Item = &Release> {
        let is_settled =
            |release: &&Release| matches!(release.status, Status::Deployed | Status::Superseded | Status::Uninstalled);
        let proven = self.iter().rev().filter(|release| release.is_proven()).find(is_settled);
        let first = proven.or(self.deployed()).map(|release| release.revision);
        self.iter().filter(move |release| {
            let (revision, status) = (Some(release.revision), release.status);
            let may_be_there = || status.is_unfinished() || !release.is_proven() && status == Status::Deployed;
            revision == first && status != Status::Uninstalled || revision > first && may_be_there()
        })
    }
}

/// Which object, whatever API version it is asked for with.
type Key<'a> = (&'a str, &'a str, Option<&'a str>, &'a str);

fn key(id: &ObjectId) -> Key<'_> {
    #[cfg(test)]
    crate::steps::count();
    (&id.group, &id.kind, id.namespace.as_deref(), &id.name)
}

fn objects_of(release: &Release) -> &[Applied] {
    release.own.as_ref().map_or(&[], |own| &own.objects)
}

#[cfg(test)]
mod tests {
    use super::super::codec::tests::release;
    use super::*;
    use crate::steps;
    use Status::*;

    /// An object is written as `name=uid`, or `name` where the UID is not known.
    fn revision(revision: u32, status: Status, objects: &[&str]) -> Release {
        let mut release = Release { revision, status, ..release() };
        let own = release.own.as_mut().unwrap();
        own.objects = objects.iter().map(|text| applied(text, "v1")).collect();
        release
    }

    fn applied(text: &str, version: &str) -> Applied {
        let (name, uid) = text.split_once('=').map_or((text, None), |(name, uid)| (name, Some(uid.to_owned())));
        let id = ObjectId {
            group: String::new(),
            version: version.into(),
            kind: "ConfigMap".into(),
            namespace: Some("default".into()),
            name: name.into(),
        };
        Applied::new(id, uid)
    }

    fn known(history: &History) -> Vec<String> {
        let text = |object: Applied| format!("{}={}", object.id.name, object.uid.unwrap_or_default());
        history.objects_since_deployed().into_iter().map(text).collect()
    }

    #[test]
    fn revisions_are_sorted_and_counted_on() {
        assert_eq!(History::default().next_revision(), 1);
        let history =
            History::new(vec![revision(10, Failed, &[]), revision(9, Deployed, &[]), revision(2, Deployed, &[])]);
        assert_eq!(history.next_revision(), 11);
        assert_eq!(history.latest().unwrap().revision, 10);
        assert_eq!(history.deployed().unwrap().revision, 9);
    }

    #[test]
    fn the_newest_record_that_tells_says_whose_the_release_is() {
        let owner = |name: &str| OwnerMark { kind: "App".into(), name: name.into(), ..OwnerMark::default() };
        let mut ours = revision(1, Superseded, &[]);
        ours.own.as_mut().unwrap().owner = owner("web");
        let foreign = Release { own: None, ..revision(2, Deployed, &[]) };
        let history = History::new(vec![ours, foreign.clone()]);
        assert_eq!(history.belongs_to(&owner("web")), Some(true));
        assert_eq!(history.belongs_to(&owner("shop")), Some(false));
        assert_eq!(History::new(vec![foreign]).belongs_to(&owner("web")), None);
    }

    #[test]
    fn what_follows_an_uninstall_is_an_install() {
        let of = |statuses: &[Status]| {
            let numbered = statuses.iter().zip(1..).map(|(status, number)| revision(number, *status, &[]));
            let history = History::new(numbered.collect());
            history.stood_before(history.next_revision())
        };
        assert!(!of(&[]) && !of(&[Failed]) && !of(&[PendingInstall]));
        assert!(of(&[Deployed]) && of(&[Superseded, Failed]) && of(&[Deployed, PendingUpgrade]));
        assert!(!of(&[Superseded, Uninstalled]) && !of(&[Superseded, Uninstalled, Failed]));
        assert!(of(&[Superseded, Uninstalled, Deployed]));
    }

    #[test]
    fn what_is_made_over_existing_objects_is_an_upgrade_and_so_is_what_follows_its_failure() {
        for status in [PendingUpgrade, Failed] {
            let mut rebuilt = revision(3, status, &[]);
            rebuilt.own.as_mut().unwrap().is_rebuilt = true;
            let history = History::new(vec![rebuilt]);
            assert!(history.stood_before(3) && history.stood_before(4), "{status:?}");
        }
    }

    #[test]
    fn objects_of_failed_attempts_are_not_forgotten() {
        let history = History::new(vec![
            revision(1, Superseded, &["gone=1"]),
            revision(2, Failed, &["gone-too=1"]),
            revision(3, Deployed, &["a=1", "b=1"]),
            revision(4, Failed, &["a=2", "c=1"]),
            revision(5, PendingUpgrade, &["a", "b", "d"]),
        ]);
        assert_eq!(known(&history), ["a=2", "b=1", "c=1", "d="]);
    }

    #[test]
    fn without_a_deployed_revision_every_unfinished_one_counts() {
        let history = History::new(vec![revision(1, Failed, &["a=1"]), revision(2, Uninstalling, &["b=1"])]);
        assert_eq!(known(&history), ["a=1", "b=1"]);
    }

    #[test]
    fn a_new_api_version_does_not_make_another_object() {
        let mut second = revision(2, PendingUpgrade, &[]);
        second.own.as_mut().unwrap().objects = vec![applied("a", "v2")];
        let history = History::new(vec![revision(1, Deployed, &["a=1"]), second]);
        assert_eq!(history.objects_since_deployed(), [applied("a=1", "v2")]);
    }

    #[test]
    fn old_revisions_expire_but_never_the_deployed_one() {
        let mut all = vec![revision(1, Superseded, &[]), revision(2, Deployed, &[])];
        all.extend((3..8).map(|number| revision(number, Failed, &[])));
        let history = History::new(all);
        assert_eq!(history.expired(2), [1, 3, 4, 5]);
        assert!(history.expired(7).is_empty());
        assert!(history.expired(0).is_empty(), "no limit");
    }

    #[test]
    fn a_failed_revision_that_alone_knows_of_an_object_does_not_expire() {
        let history = History::new(vec![
            revision(1, Deployed, &["a=1"]),
            revision(2, Failed, &["a=1", "lost=1"]),
            revision(3, Failed, &["a=1"]),
            revision(4, Failed, &["b=1"]),
        ]);
        assert_eq!(history.expired(1), [3]);
        assert_eq!(known(&history), ["a=1", "b=1", "lost=1"]);
    }

    #[test]
    fn the_steps_grow_with_the_objects_and_with_the_revisions() {
        let named = |number: usize| applied(&format!("c{number}=1"), "v1");
        let with = |number: u32, objects: Vec<Applied>| {
            let mut release = revision(number, Failed, &[]);
            release.own.as_mut().unwrap().objects = objects;
            release
        };
        let of_objects = |number: usize| History::new(vec![with(1, (0..number).map(named).collect()), with(2, vec![])]);
        let of_revisions =
            |number: usize| History::new((0..number).map(|it| with(it as u32, vec![named(it)])).collect());
        for history in [&of_objects as &dyn Fn(usize) -> History, &of_revisions] {
            steps::assert_linear("expired", |number| {
                let history = history(number);
                steps::of(|| history.expired(1))
            });
            steps::assert_linear("objects_since_deployed", |number| {
                let history = history(number);
                steps::of(|| assert_eq!(history.objects_since_deployed().len(), number))
            });
        }
    }

    #[test]
    fn clones_share_the_revisions() {
        let history = History::new(vec![revision(1, Deployed, &[]), revision(2, Failed, &[])]);
        let other = history.clone().with(revision(3, Deployed, &[]));
        assert!(std::ptr::eq(history.get(1).unwrap(), other.get(1).unwrap()));
        assert_eq!((history.latest().unwrap().revision, other.latest().unwrap().revision), (2, 3));
    }
}
