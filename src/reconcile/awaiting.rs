//! Waiting for an object as a state: the turn ends, and a later one goes on from the release's record.
//!
//! What is waited for is remembered with the time at which this process first saw it. A later turn that still wants the same
//! asks for that one object and nothing else, so that any number of releases that wait cost next to nothing.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::{ReconcileError, Subject};
use crate::apply::ApplyError;
use crate::apply::awaited::{Awaited, Condition, Event};
use crate::apply::crds::GroupKind;
use crate::claims::Claimed;
use crate::course::Course;
use crate::object::ObjectKey;
use crate::release::Revisions;

/// The watch on the object usually begins the next turn before that.
const LOOK_FIRST: Duration = Duration::from_millis(250);
const LOOK_LAST: Duration = Duration::from_secs(10);

/// What a rollout waits for.
#[derive(Debug)]
pub struct Pending {
    condition: Condition,
    /// Of the revision that waits.
    digest: String,
    since: Instant,
}

impl Pending {
    fn is_for(&self, digest: &str) -> bool {
        self.digest == digest
    }

    /// When to look again: the longer it takes, the less often.
    fn look(&self, now: Instant) -> Duration {
        (now.saturating_duration_since(self.since) / 10).clamp(LOOK_FIRST, LOOK_LAST)
    }

    fn is_over(&self, now: Instant) -> bool {
        self.condition.limit().is_some_and(|limit| now.saturating_duration_since(self.since) >= limit)
    }
}

impl Subject<'_> {
    /// The error of an apply. What it waits for is no failure, unless it takes too long.
    pub(super) fn weigh_apply(&self, error: ApplyError, digest: Option<&str>) -> ReconcileError {
        match error {
            ApplyError::Awaited(awaited) => self.wait_or_fail(*awaited, digest.unwrap_or_default()),
            error => error.into(),
        }
    }

    fn wait_or_fail(&self, awaited: Awaited, digest: &str) -> ReconcileError {
        let now = Instant::now();
        let (look, is_over) = self.context.memory.with(&self.owner.uid, |memory| {
            let is_same = |known: &Pending| known.is_for(digest) && known.condition.is_same(&awaited.condition);
            let since = memory.awaited.take().filter(|known| is_same(known)).map_or(now, |known| known.since);
            let pending = Pending { condition: awaited.condition.clone(), digest: digest.to_owned(), since };
            let found = (pending.look(now), pending.is_over(now));
            memory.awaited = Some(Box::new(pending));
            found
        });
        match is_over {
            true => awaited.into_failure().into(),
            false => ReconcileError::AtObject { message: awaited.to_string(), look },
        }
    }

    /// Ends the turn while an earlier turn's wait for the same revision goes on.
    pub(super) async fn check_awaited(
        &self,
        course: &Course,
        known: &Revisions,
        wanted: &str,
    ) -> Result<(), ReconcileError> {
        let digest = match course {
            Course::Resume => known.latest().and_then(|latest| latest.own.as_ref()).map(|own| own.digest.as_str()),
            Course::Deploy => Some(wanted),
            _ => None,
        };
        let Some(digest) = digest else { return Ok(()) };
        let now = Instant::now();
        let pending = self.context.memory.with(&self.owner.uid, |memory| {
            let pending = memory.awaited.as_ref().filter(|it| it.is_for(digest) && !it.is_over(now));
            pending.map(|it| (it.condition.clone(), it.look(now)))
        });
        let Some((condition, look)) = pending else { return Ok(()) };
        // CRDs are the whole cluster's: no account of a namespace need be allowed to read them.
        let calls = match condition.event {
            Event::Established => self.calls.own(),
            Event::Gone { .. } | Event::Served(_) => self.calls.clone(),
        };
        match condition.holds(&calls).await.map_err(ReconcileError::Look)? {
            true => Ok(()),
            false => Err(ReconcileError::AtObject { message: condition.to_string(), look }),
        }
    }

    /// Kinds that an earlier turn of the same rollout changed, and that the API server may not serve yet as they are now.
    pub(super) fn changing_kinds(&self, digest: Option<&str>) -> HashSet<GroupKind> {
        self.context.memory.with(&self.owner.uid, |memory| {
            let pending = memory.awaited.as_ref().filter(|it| digest.is_some_and(|digest| it.is_for(digest)));
            let kind = pending.and_then(|it| match &it.condition.event {
                Event::Served(kind) => Some(kind.clone()),
                Event::Gone { .. } | Event::Established => None,
            });
            kind.into_iter().collect()
        })
    }

    /// Claims objects that this turn writes. Where another turn holds one, this one comes again.
    pub(super) async fn claim(&self, keys: Vec<ObjectKey>) -> Result<Claimed, ReconcileError> {
        self.context.claims.claim(keys).await.ok_or(ReconcileError::Moment)
    }

    /// Makes sure that all autoscalers of a namespace are known, or that waiting for them is in vain.
    pub(super) async fn scalers_ready(&self, namespace: Option<&str>) -> Result<(), ReconcileError> {
        match self.context.scalers.ready(namespace, &self.context.children).await {
            true => Ok(()),
            false => Err(ReconcileError::Moment),
        }
    }

    pub(super) fn forget_awaited(&self) {
        self.context.memory.with(&self.owner.uid, |memory| memory.awaited = None);
    }
}
