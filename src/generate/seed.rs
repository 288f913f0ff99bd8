//! The record that a value is restored from which the Secret lacks: somebody deleted it, or the release is older than `generate`. Pure.

use serde_json::Value;

use crate::release::{History, Release, Status};

/// The values of the newest record that this operator vouches for. Without one, those of a release that another tool made and that `may_adopt`
/// allows: what runs with these values keeps them.
pub fn values(history: &History, may_adopt: impl Fn(&Release) -> bool) -> Option<(u32, Value)> {
    let newest_first = || history.iter().rev();
    let proven = newest_first().find(|release| release.is_proven());
    let of_others = || newest_first().filter(|release| !release.is_claimed() && may_adopt(release));
    let deployed = || of_others().find(|release| release.status == Status::Deployed);
    let release = proven.or_else(deployed).or_else(|| of_others().next())?;
    Some((release.revision, release.config.value()))
}

#[cfg(test)]
mod tests;
