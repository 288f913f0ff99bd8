//! Going back to an earlier revision, and staying there although the spec says something else.
//!
//! A hold is part of the record of the revision that stays, with the digest that it overrides. It ends when spec or chart give
//! another digest.

use super::subject::Wish;
use super::{ReconcileError, Subject};
use crate::course::{Refusal, Request};
use crate::release::mask::sourced;
use crate::release::{HeldBy, History, Hold, Own, Release, Status};

impl Subject<'_> {
    /// Makes a new revision of an earlier one, and holds it.
    pub(super) async fn roll_back(
        &self,
        to: u32,
        failed: bool,
        wish: &Wish,
        history: &History,
    ) -> Result<Release, ReconcileError> {
        let Some(target) = history.get(to) else {
            let known = history.iter().map(|release| release.revision).collect();
            return Err(self.refused(&Refusal::NoSuchRevision { wanted: to, known }));
        };
        let hold = self.hold(to, failed, wish, history);
        if history.stands(to) {
            return self.pin(target, hold).await;
        }
        // One that follows a failure follows a revision that was counted.
        if !failed {
            self.check_pace()?;
        }
        let mut own = self.own(target.digest().unwrap_or_default().to_owned());
        own.hold = Some(hold);
        own.sourced = sourced(target, history.iter()).into_iter().cloned().collect();
        let (draft, rendered) = self.again(target, own, history)?;
        self.roll_out(draft, rendered, history).await
    }

    fn hold(&self, to: u32, failed: bool, wish: &Wish, history: &History) -> Hold {
        let latest = history.latest().filter(|_| failed);
        let trouble = latest.and_then(|latest| Some((latest.revision, latest.own.as_ref()?.trouble.as_ref()?)));
        Hold {
            to: Some(to),
            digest: wish.digest.clone(),
            by: if failed { HeldBy::Failure } else { HeldBy::Request },
            failed: trouble.map(|(revision, trouble)| format!("revision {revision} failed: {}", trouble.message)),
        }
    }

    /// The revision that is there is the one to stay.
    async fn pin(&self, release: &Release, hold: Hold) -> Result<Release, ReconcileError> {
        let mut pinned = release.clone();
        if let Some(own) = &mut pinned.own {
            (own.request, own.hold) = (hold.to, Some(hold));
        }
        let pinned = self.store.update(&pinned).await?;
        self.note_again(&pinned).await?;
        Ok(pinned)
    }

    /// A request that is not made any more is forgotten, so that it can be made again; `none` is noted, so that it ends only
    /// what was held when it came.
    pub(super) async fn note_request(&self, latest: &Release) -> Result<Release, ReconcileError> {
        let mut release = latest.clone();
        if let Some(own) = &mut release.own {
            own.request = self.request().answer();
            own.hold = own.hold.take().filter(|hold| match self.request() {
                Request::Spec => false,
                _ => hold.by != HeldBy::Request,
            });
        }
        let release = self.store.update(&release).await?;
        self.note_again(&release).await?;
        Ok(release)
    }

    /// Whether the record tells of a request that is not made any more.
    pub(super) fn has_stale_request(&self, own: Option<&Own>) -> bool {
        own.is_some_and(|own| self.request().is_stale(own.request))
    }
}

/// What is told of a hold.
pub(super) fn held_sentence(hold: &Hold) -> String {
    let end = "this revision stays until the spec, values from elsewhere or the chart change, or until somebody ends that with `chartwright rollback --resume`, or by setting the annotation chartwright.dev/rollback-to anew to \"none\"";
    match (hold.by, &hold.failed) {
        (HeldBy::Helm, _) => format!("a person put this revision in place with helm; {end}"),
        (HeldBy::Request, _) => {
            "the annotation chartwright.dev/rollback-to asks for it; it stays until the spec, values from elsewhere or the chart change, or the annotation goes".to_owned()
        }
        (HeldBy::Failure, Some(failed)) => format!("{failed}; {end}"),
        (HeldBy::Failure, None) => format!("a later revision failed; {end}"),
    }
}

/// The revision that helm says it went back to.
pub(super) fn rolled_back_to(release: &Release) -> Option<u32> {
    release.description.strip_prefix("Rollback to ")?.trim().parse().ok()
}

/// What the newest revision of ours below a person's was made from: that is what the person overrode.
pub(super) fn overridden(history: &History) -> Option<&str> {
    history.iter().rev().skip(1).filter(|release| release.status != Status::Failed).find_map(Release::digest)
}
