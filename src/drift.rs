//! Has somebody changed an object since we applied it? Answered from its metadata alone.
//!
//! The API server keeps a list of the fields that each manager owns. Any write by somebody else to a field of ours takes it
//! out of our list; what others add beside does not. So a hash of our list is a mark of the object as we left it, and a
//! watch that carries metadata only is enough to see a change. Nothing is asked for, and nothing is written, while the marks
//! agree.
//!
//! | module | what is in it |
//! |---|---|
//! | [`fields`] | the list of fields: hash, what was lost and to whom |
//! | [`rules`] | fields that others may decide |
//! | [`leave`] | keeps those out of what is applied |
//! | `items` | items of lists, and how managers name them |
//! | [`extract`] | what we applied, taken out of the live object |
//! | [`overruled`] | what an admission webhook made of an apply |
//!
//! Pure. Whether an object is there at all is for the watches to tell.

pub mod extract;
pub mod fields;
mod items;
pub mod leave;
pub mod overruled;
pub mod rules;

use kube::core::ObjectMeta;
use serde::{Deserialize, Serialize};

pub use extract::extract;
pub use fields::{Lost, lost};
pub use leave::{concerns, leave};
pub use overruled::overruled;
pub use rules::{Rule, RuleError, Rules};

/// On an object: what becomes of it after the apply is nobody's business, until the next revision.
pub const DRIFT: &str = "chartwright.dev/drift";

/// What an object looked like right after our apply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// When our list of fields was written last, in seconds since 1970.
    pub at: i64,
    /// Of our list, without ignored fields and without the replicas.
    pub hash: Hash,
    /// Of the rules that said what to ignore.
    pub rules: Hash,
    /// Whether the number of replicas is ours. An autoscaler may take it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replicas: bool,
}

/// The first bytes of a SHA-256.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Hash(pub u64);

impl Hash {
    /// Of texts, each of which counts for itself.
    pub fn of<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut context = ring::digest::Context::new(&ring::digest::SHA256);
        for text in texts {
            context.update(&(text.len() as u64).to_be_bytes());
            context.update(text.as_bytes());
        }
        fields::shortened(context)
    }
}

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Serialize for Hash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map(Hash).map_err(serde::de::Error::custom)
    }
}

impl Mark {
    /// None where no list of fields is ours, as after a write that cleared them.
    pub fn of(metadata: &ObjectMeta, rules: &Rules) -> Option<Mark> {
        let entry = fields::ours(metadata)?;
        let fields = &entry.fields_v1.as_ref()?.0;
        Some(Mark {
            at: entry.time.as_ref().map(|time| time.0.as_second()).unwrap_or_default(),
            hash: fields::hash(fields, rules),
            rules: rules.hash(),
            replicas: fields::has_replicas(fields),
        })
    }
}

/// What the marks say about an object that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As we left it, as far as it concerns us.
    Same,
    /// Written under our own name (Helm 4 does so), or marked under other rules: only a dry run can tell.
    Unsure,
    /// Somebody took a field of ours.
    Changed,
}

/// What there is to say about an object's replicas.
#[derive(Clone, Copy, Debug, Default)]
pub struct Replicas {
    /// The chart gives a number.
    pub wanted: bool,
    /// The last apply left the number to an autoscaler.
    pub left: bool,
    /// An autoscaler decides.
    pub scaled: bool,
}

impl Replicas {
    /// Whether the chart's number should be there and is not.
    fn are_lost(self, live: &Mark) -> bool {
        self.wanted && !self.scaled && (self.left || !live.replicas)
    }
}

/// Compares what was recorded with what is there. An autoscaler's replicas are not ours to judge.
pub fn compare(recorded: Option<&Mark>, live: Option<&Mark>, replicas: Replicas) -> Verdict {
    let Some(live) = live else { return Verdict::Changed };
    let Some(recorded) = recorded else { return Verdict::Unsure };
    if recorded.rules != live.rules {
        return Verdict::Unsure;
    }
    if recorded.hash != live.hash || replicas.are_lost(live) {
        return Verdict::Changed;
    }
    match recorded.at == live.at {
        true => Verdict::Same,
        // Whoever takes a field also writes our list anew. Where the replicas went to an autoscaler, that is all it was.
        false if replicas.scaled && recorded.replicas && !live.replicas => Verdict::Same,
        false => Verdict::Unsure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(hash: u64, at: i64, replicas: bool) -> Mark {
        Mark { at, hash: Hash(hash), rules: Hash(0), replicas }
    }

    #[test]
    fn another_hash_is_a_change_and_only_another_time_is_not_sure() {
        let (ours, compare) =
            (mark(1, 10, false), |a: Option<&Mark>, b: Option<&Mark>| compare(a, b, Replicas::default()));
        assert_eq!(compare(Some(&ours), Some(&ours)), Verdict::Same);
        assert_eq!(compare(Some(&ours), Some(&mark(2, 10, false))), Verdict::Changed);
        assert_eq!(compare(Some(&ours), Some(&mark(1, 11, false))), Verdict::Unsure);
        assert_eq!(compare(Some(&ours), None), Verdict::Changed, "somebody cleared the lists");
        assert_eq!(compare(None, Some(&ours)), Verdict::Unsure, "applied before there were marks");
    }

    #[test]
    fn other_rules_make_marks_incomparable() {
        let other = Mark { rules: Hash(7), ..mark(2, 10, false) };
        assert_eq!(compare(Some(&mark(1, 10, false)), Some(&other), Replicas::default()), Verdict::Unsure);
    }

    #[test]
    fn replicas_are_a_change_unless_an_autoscaler_has_them() {
        let (ours, lost) = (mark(1, 10, true), mark(1, 12, false));
        let compare =
            |mark, scaled| super::compare(Some(mark), Some(&lost), Replicas { wanted: true, scaled, left: false });
        assert_eq!((compare(&ours, false), compare(&ours, true)), (Verdict::Changed, Verdict::Same));
        assert_eq!(compare(&lost, false), Verdict::Changed, "an autoscaler had them, and is gone");
        let left = Replicas { wanted: true, scaled: false, left: true };
        assert_eq!(
            super::compare(Some(&ours), Some(&ours), left),
            Verdict::Changed,
            "ours in name, but not the chart's"
        );
    }

    #[test]
    fn a_mark_is_read_as_it_is_written() {
        let text = serde_json::to_string(&mark(255, 3, false)).unwrap();
        assert_eq!(text, r#"{"at":3,"hash":"00000000000000ff","rules":"0000000000000000"}"#);
        assert_eq!(serde_json::from_str::<Mark>(&text).unwrap(), mark(255, 3, false));
    }
}
