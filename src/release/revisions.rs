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

    /// Whether a revision that is not superseded was made from this input.
    pub fn has(&self, digest: &str) -> bool {
        self.0.iter().any(|summary| summary.own.as_ref().is_some_and(|own| own.digest == digest))
    }

    /// The latest revision and our part of it, if it is deployed and was made from this input.
    pub fn deployed_from(&self, digest: &str) -> Option<(u32, &Own)> {
        let latest = self.latest().filter(|latest| latest.status == Status::Deployed)?;
        let own = latest.own.as_ref().filter(|own| own.digest == digest)?;
        Some((latest.revision, own))
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
    fn only_the_latest_revision_is_deployed_from_an_input() {
        let (first, second) = (summary(1, Status::Deployed, Some("a")), summary(2, Status::Failed, Some("b")));
        let both = Revisions::new(vec![second, first.clone()]);
        assert_eq!(both.deployed().map(|summary| summary.revision), Some(1));
        assert_eq!(both.latest().map(|summary| summary.revision), Some(2));
        assert_eq!(both.deployed_from("a"), None, "a later revision did not finish");
        assert_eq!(both.deployed_from("b"), None);
        let one = Revisions::new(vec![first]);
        assert_eq!(one.deployed_from("a").map(|(revision, _)| revision), Some(1));
        assert_eq!(one.deployed_from("b"), None);
        assert_eq!(Revisions::new(vec![summary(1, Status::Deployed, None)]).deployed_from(""), None);
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
