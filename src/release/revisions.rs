//! What is known of a release without its records: enough to see that nothing is to be done. Pure.
//!
//! A manifest, values or notes are not in it; who needs them reads the record.

use super::{History, Own, Release, Status};

/// One revision in short.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub revision: u32,
    pub status: Status,
    /// None means that another tool wrote the record.
    pub own: Option<Own>,
}

impl Summary {
    pub fn of(release: &Release) -> Self {
        Summary { revision: release.revision, status: release.status, own: release.own.clone() }
    }
}

/// The revisions of one release, oldest first. Superseded ones may be missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Revisions(Vec<Summary>);

impl Revisions {
    pub fn new(mut summaries: Vec<Summary>) -> Self {
        summaries.sort_by_key(|summary| summary.revision);
        Revisions(summaries)
    }

    pub fn of(history: &History) -> Self {
        Revisions(history.iter().map(Summary::of).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn latest(&self) -> Option<&Summary> {
        self.0.last()
    }

    /// Whether the record of a revision that was deployed went: nothing that is not superseded is as new.
    pub fn have_lost(&self, revision: u32) -> bool {
        !self.0.iter().any(|summary| summary.revision >= revision && summary.status != Status::Superseded)
    }

    /// The newest revision that is deployed.
    pub fn deployed(&self) -> Option<&Summary> {
        self.0.iter().rev().find(|summary| summary.status == Status::Deployed)
    }

    /// Revisions before a deployed one that still say deployed or pending: a crash came before they were put right.
    pub fn leftovers(&self) -> Vec<u32> {
        let Some((latest, before)) = self.0.split_last().filter(|(latest, _)| latest.status == Status::Deployed) else {
            return vec![];
        };
        let is_left = |status: Status| status == Status::Deployed || status.is_pending();
        let left = before.iter().filter(|summary| is_left(summary.status) && summary.revision < latest.revision);
        left.map(|summary| summary.revision).collect()
    }

    /// The revision whose objects are in the cluster, as far as one is whole: also one that did not become ready in time.
    pub fn standing(&self) -> Option<&Summary> {
        let is_late = |own: &Own| own.trouble.as_ref().is_some_and(|trouble| trouble.is_late);
        let late = self.latest().filter(|latest| latest.own.as_ref().is_some_and(is_late));
        late.or_else(|| self.deployed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::*;

    fn summary(revision: u32, status: Status, digest: Option<&str>) -> Summary {
        let own = digest.map(|digest| Own { digest: digest.into(), ..Own::default() });
        Summary { revision, status, own }
    }

    #[test]
    fn the_record_of_a_deployed_revision_is_missed() {
        let some = Revisions::new(vec![summary(1, Superseded, Some("a")), summary(2, Failed, Some("b"))]);
        assert!(some.have_lost(3) && !some.have_lost(2));
        assert!(Revisions::default().have_lost(1));
        let next = Revisions::new(vec![summary(3, Superseded, None), summary(4, PendingRollback, None)]);
        assert!(!next.have_lost(3), "the next one is under way");
    }

    #[test]
    fn what_a_crash_left_unfinished_below_a_deployed_revision_is_found() {
        let all = |latest| {
            let old = [(1, Superseded), (2, PendingUpgrade), (3, Failed), (4, Deployed), (5, latest)];
            Revisions::new(old.map(|(revision, status)| summary(revision, status, Some("a"))).to_vec())
        };
        assert_eq!(all(Deployed).leftovers(), [2, 4]);
        assert!(all(PendingUpgrade).leftovers().is_empty(), "the fourth is still the deployed one");
    }
}
