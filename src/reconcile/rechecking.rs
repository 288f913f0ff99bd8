//! The full check that somebody asks for with `chartwright.dev/requested-at`.
//!
//! Everything is read again: records, sources of values, objects. The chart is rendered again although its input is the same, since
//! capabilities and what `lookup` finds may be others. Objects are compared with what an apply would make of them; that part is
//! the repair's. A chart that renders something else each time, a random password for example, is no reason for a revision.

use super::memory::Remembered;
use super::{ReconcileError, Subject, Wish};
use crate::manifest::{self, Rendered};
use crate::release::{History, Status};

impl Subject<'_> {
    /// The request for a full check that was not answered yet, by what the status tells and by what is remembered: not every status
    /// can be written.
    pub(super) fn open_request(&self) -> Option<&str> {
        let asked = self.untold_request()?;
        let is_answered = |memory: &mut Remembered| memory.answered.as_deref() == Some(asked);
        (!self.context.memory.with(&self.owner.uid, is_answered)).then_some(asked)
    }

    /// Has values from ConfigMaps and Secrets read again.
    pub(super) fn distrust_sources(&self) {
        self.context.sources.distrust(&self.context.primary, &self.cr.place());
    }

    /// Whether the chart would render other objects now than those that are deployed.
    pub(super) async fn renders_something_else(&self, wish: &Wish, history: &History) -> Result<bool, ReconcileError> {
        let Some(latest) = history.latest().filter(|latest| latest.status == Status::Deployed) else {
            return Ok(false);
        };
        // What is held, or taken over from helm, was made of something else.
        if latest.own.as_ref().is_none_or(|own| own.hold.is_some() || own.digest != wish.digest) {
            return Ok(false);
        }
        let deployed = manifest::read_record(&latest.manifest.read())?;
        let as_deployed = history.stood_before(latest.revision).then_some(latest.revision);
        let first = self.render(wish, as_deployed).await?;
        if is_same(&first, &deployed) {
            return Ok(false);
        }
        let second = self.render(wish, as_deployed).await?;
        if is_same(&first, &second) {
            return Ok(true);
        }
        let message = "The chart renders something else each time, so the check compares the objects with the deployed revision only";
        self.tell("RandomRender", message).await;
        Ok(false)
    }
}

fn is_same(a: &Rendered, b: &Rendered) -> bool {
    a.objects == b.objects
}
