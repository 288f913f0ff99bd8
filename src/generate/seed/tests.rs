use serde_json::json;

use super::*;
use crate::release::codec::tests::release;
use crate::release::{Doubt, Proof};

fn record(revision: u32, proof: Proof, is_ours: bool) -> Release {
    let own = release().own.filter(|_| is_ours);
    Release { revision, proof, own, config: json!({"revision": revision}).into(), ..release() }
}

fn chosen(records: &[(u32, Proof, bool)], may_adopt: bool) -> Option<u32> {
    let records = records.iter().cloned().map(|(revision, proof, is_ours)| record(revision, proof, is_ours));
    let (revision, values) = values(&History::new(records.collect()), |_| may_adopt)?;
    assert_eq!(values, json!({"revision": revision}));
    Some(revision)
}

#[test]
fn a_value_comes_from_the_newest_record_that_is_proven_or_from_a_release_that_may_be_adopted() {
    let unsigned = || Proof::Missing(Doubt::Unsigned);
    let signed = [(1, Proof::Record, true), (2, Proof::Content, false), (3, unsigned(), true)];
    assert_eq!(chosen(&signed, true), Some(2));
    assert_eq!(chosen(&[(3, unsigned(), true)], true), None, "a forgery, or another life's");
    let helms = [(1, unsigned(), false), (2, unsigned(), false)];
    assert_eq!(chosen(&helms, true), Some(2));
    assert_eq!(chosen(&helms, false), None, "not without consent, and not of another chart");
}

#[test]
fn of_a_release_that_may_be_adopted_the_deployed_revision_counts() {
    let unsigned = || Proof::Missing(Doubt::Unsigned);
    let failed = Release { status: Status::Failed, ..record(2, unsigned(), false) };
    let history = History::new(vec![record(1, unsigned(), false), failed.clone()]);
    assert_eq!(values(&history, |_| true).unwrap().0, 1);
    assert_eq!(values(&History::new(vec![failed]), |_| true).unwrap().0, 2);
}
