//! How long a revision may take to become ready.
//!
//! [`judge`] is pure. A revision that was ready once has kept its deadline, whatever becomes of it later; that is written down only
//! where there is a deadline.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::{ReconcileError, Standing, Subject};
use crate::cluster::clock;
use crate::drift::Hash;
use crate::error::Category;
use crate::health::{self, Health};
use crate::object::ObjectId;
use crate::release::{Own, Release, Status, Trouble};

/// What a deadline has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// Nothing: there is none, or it is over.
    Nothing,
    /// It is not over yet.
    Wait(Duration),
    /// The revision is ready in time.
    Kept,
    /// It is not.
    Missed,
    /// It is ready after all.
    MadeUp,
}

/// `now` is on the API server's clock, as is the time in the record.
fn judge(own: &Own, deadline: Option<Duration>, is_ready: bool, now: Timestamp) -> Judged {
    let is_late = own.trouble.as_ref().is_some_and(|trouble| trouble.is_late);
    if is_late {
        return if is_ready { Judged::MadeUp } else { Judged::Nothing };
    }
    let (Some(deadline), Some(applied_at), false) = (deadline, own.applied_at, own.was_ready) else {
        return Judged::Nothing;
    };
    if is_ready {
        return Judged::Kept;
    }
    let passed = u64::try_from(now.as_second().saturating_sub(applied_at)).unwrap_or_default();
    match deadline.checked_sub(Duration::from_secs(passed)).filter(|left| !left.is_zero()) {
        Some(left) => Judged::Wait(left),
        None => Judged::Missed,
    }
}

impl Subject<'_> {
    /// Holds a revision to its deadline, and says when to look again. What is recorded of it changes with that.
    pub(super) async fn mind_deadline(
        &self,
        standing: &mut Standing,
        objects: &[(ObjectId, Health)],
    ) -> Result<Option<Duration>, ReconcileError> {
        let Some(own) = &standing.own else { return Ok(None) };
        let summary = health::summary(objects);
        let deadline = self.wishes.progress_deadline;
        let judged = judge(own, deadline, summary.ready, clock::now());
        if let Judged::Nothing | Judged::Wait(_) = judged {
            let wait = match judged {
                Judged::Wait(left) => Some(left),
                _ => None,
            };
            return Ok(wait);
        }
        let recorded = self.still_standing(standing.revision).await?;
        let told = self.store.update(&told(recorded, judged, deadline, &self.shown(&summary.message))).await?;
        standing.own = told.own;
        if judged == Judged::Missed {
            // What follows from it, a rollback perhaps, is decided at the next look.
            return Ok(Some(Duration::ZERO));
        }
        Ok(None)
    }
}

/// The record that says so.
fn told(release: Release, judged: Judged, deadline: Option<Duration>, why: &str) -> Release {
    let seconds = deadline.unwrap_or_default().as_secs();
    let message = format!("it did not become ready within {seconds} s: {why}");
    let mut release = match judged {
        Judged::Missed => release.with_status(Status::Failed, &format!("Release failed: {message}")),
        Judged::MadeUp => release.with_status(Status::Deployed, "Became ready after its deadline"),
        _ => release,
    };
    if let Some(own) = &mut release.own {
        own.was_ready = judged != Judged::Missed;
        own.trouble = (judged == Judged::Missed).then(|| Trouble {
            attempts: 0,
            reason: Category::NotReadyInTime.as_str().to_owned(),
            message,
            asked: Hash::default(),
            is_late: true,
        });
    }
    release
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn own() -> Own {
        Own { applied_at: Some(100), ..Own::default() }
    }

    #[test]
    fn a_deadline_counts_until_the_revision_was_ready_once() {
        let minute = Some(Duration::from_secs(60));
        assert_eq!(judge(&own(), None, false, at(1000)), Judged::Nothing);
        assert_eq!(judge(&own(), minute, false, at(130)), Judged::Wait(Duration::from_secs(30)));
        assert_eq!(judge(&own(), minute, true, at(130)), Judged::Kept);
        assert_eq!(judge(&own(), minute, false, at(160)), Judged::Missed);
        let ready = Own { was_ready: true, ..own() };
        assert_eq!(judge(&ready, minute, false, at(1000)), Judged::Nothing, "it was ready once");
    }

    #[test]
    fn what_was_late_may_still_become_ready() {
        let trouble =
            Trouble { attempts: 0, reason: String::new(), message: String::new(), asked: Hash(0), is_late: true };
        let late = Own { trouble: Some(trouble), ..own() };
        assert_eq!(judge(&late, None, false, at(1000)), Judged::Nothing);
        assert_eq!(judge(&late, None, true, at(1000)), Judged::MadeUp);
    }
}
