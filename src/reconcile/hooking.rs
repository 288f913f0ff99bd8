//! Hooks of a release, run as a state that is recorded: none is held up by another's wait.
//!
//! A hook that is begun is a mark in the record, written before its Job or pod is made. Whoever comes next, also after a crash, looks
//! at the object: it carries the run that it was made for. What has ended is written down before it is cleaned up. So every hook
//! runs once per event, and the turn ends where there is something to wait for; the watch on the object begins the next one.
//!
//! What is newer waits until a hook that runs has ended, and goes ahead of the next. A hook whose pod never started is ended for it.

mod course;
mod leaving;
mod stuck;

use std::sync::Arc;
use std::time::Duration;

use super::journal::Stage;
use super::{ReconcileError, Subject};
use crate::discovery::Kinds;
use crate::health::Cause;
use crate::hooks::run::{self, Runner};
use crate::hooks::{self, Event};
use crate::manifest::{self, Hook};
use crate::object::ObjectId;
use crate::release::{HookRecord, Own, Release, Status, Summary};
use course::HookCourse;
use leaving::WITHOUT;

/// What a turn waits for. The cause comes first, where the hook does not get on.
#[derive(Debug, thiserror::Error)]
#[error("{}waiting for the {} hook {id}{}", cause_of(cause.as_ref()), event.as_str(), advice(self))]
pub struct Waiting {
    event: Event,
    id: ObjectId,
    what: Awaited,
    /// Why it does not get on.
    cause: Option<Cause>,
    /// When to look again at the latest.
    pub look: Duration,
}

/// What has to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    /// It has to end.
    End,
    /// It has to end, and something newer waits for that.
    EndForNewer(Newer),
    /// What is in its place has to go.
    Place,
}

/// What waits until a hook that runs has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Newer {
    Spec,
    Deletion,
}

fn cause_of(cause: Option<&Cause>) -> String {
    cause.map(|cause| format!("{}; ", cause.sentence())).unwrap_or_default()
}

/// What a person may do about it.
fn advice(waiting: &Waiting) -> String {
    let delete = || kubectl_delete(&waiting.id);
    match (waiting.what, &waiting.cause) {
        (Awaited::Place, _) => ", which follows when what is in its place has gone".to_owned(),
        (Awaited::End, None) => String::new(),
        (Awaited::End, Some(_)) if matches!(waiting.event, Event::PreDelete | Event::PostDelete) => {
            format!("; to run it again: {}; or {WITHOUT}", delete())
        }
        (Awaited::End, Some(_)) => {
            format!("; a newer spec replaces it if it never started; to run it again: {}", delete())
        }
        (Awaited::EndForNewer(newer), _) => {
            let newer = match newer {
                Newer::Spec => "a newer spec",
                Newer::Deletion => "the deletion",
            };
            format!("; {newer} is queued until it ends; to skip the wait: {}", delete())
        }
    }
}

fn kubectl_delete(id: &ObjectId) -> String {
    let namespace = id.namespace.as_ref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    format!("kubectl delete {} {}{namespace}", id.kind.to_lowercase(), id.name)
}

impl Waiting {
    /// Whether the release's objects have gone by then.
    pub fn is_after_deletion(&self) -> bool {
        self.event == Event::PostDelete
    }

    /// Why the hook does not get on, if it does not just take time.
    pub fn cause(&self) -> Option<&Cause> {
        self.cause.as_ref().filter(|cause| !cause.is_wait)
    }
}

/// Hooks that did not all end well yet, with the record as it is now.
pub(super) struct Halt {
    pub error: ReconcileError,
    pub release: Box<Release>,
}

/// The hooks before and after a revision that is on its way.
pub(super) fn events(pending: &Release) -> (Event, Event) {
    match pending.status {
        Status::PendingInstall => (Event::PreInstall, Event::PostInstall),
        Status::PendingRollback => (Event::PreRollback, Event::PostRollback),
        _ => (Event::PreUpgrade, Event::PostUpgrade),
    }
}

impl Subject<'_> {
    /// Whether the hooks of an event are to be run.
    pub(super) fn has_hooks(&self, event: Event, release: &Release) -> bool {
        release.own.is_some() && self.wishes.hooks.run_at(event) && hooks::has(event, &release.hooks)
    }

    /// Runs the hooks of an event as far as they go without waiting, and returns the record after that.
    pub(super) async fn run_hooks(&self, event: Event, release: Release) -> Result<Release, Halt> {
        let is_wanted = self.has_hooks(event, &release);
        let running = release.own.as_ref().and_then(|own| hooks::running(&own.hooks)).cloned();
        if is_wanted || running.is_some() {
            self.learn_record(&release);
        }
        let mut course = HookCourse { subject: self, event, release, is_wanted, is_unsaved: false };
        let result = match running.filter(|mark| mark.event == event) {
            _ if is_wanted => Box::pin(self.stage(Stage::Hooks, course.run())).await,
            // They were switched off meanwhile: one that runs is not overtaken all the same.
            Some(mark) => Box::pin(course.end_unwanted(mark)).await,
            None => Ok(()),
        };
        match result {
            Ok(()) => Ok(course.release),
            Err(error) => Err(Halt { error, release: Box::new(course.release) }),
        }
    }

    /// Whether a hook of a revision was begun and has not ended, as far as the record tells.
    pub(super) fn is_at_hook(&self, latest: &Summary) -> bool {
        let is_ours = |own: &&Own| own.owner.is_same_resource(&self.owner_mark());
        let own = latest.own.as_ref().filter(is_ours);
        let is_on_its_way = latest.status.is_unfinished() && latest.status != Status::Uninstalling;
        is_on_its_way && own.is_some_and(|own| hooks::running(&own.hooks).is_some())
    }

    /// Sees to the end of a hook of a revision that is not wanted any more.
    pub(super) async fn see_hook_end(&self, revision: u32) -> Result<(), ReconcileError> {
        let release = self.release(revision).await?;
        let Some(mark) = release.own.as_ref().and_then(|own| hooks::running(&own.hooks)).cloned() else {
            return Ok(());
        };
        self.learn_record(&release);
        let mut course = HookCourse { subject: self, event: mark.event, release, is_wanted: false, is_unsaved: false };
        match Box::pin(course.end_unwanted(mark)).await {
            Err(ReconcileError::AtHook(waiting)) => {
                let is_deletion = self.cr.metadata.deletion_timestamp.is_some();
                let what = Awaited::EndForNewer(if is_deletion { Newer::Deletion } else { Newer::Spec });
                Err(ReconcileError::AtHook(Box::new(Waiting { what, ..*waiting })))
            }
            ended => ended,
        }
    }

    /// Lets go of the objects of all hooks that a record tells of, before it stops telling of them.
    pub(super) async fn let_go_of_hooks(&self, release: &Release) -> Result<(), ReconcileError> {
        for mark in release.own.iter().flat_map(|own| &own.hooks) {
            let hook = &release.hooks[mark.hook];
            if run::may_be_held(hook) {
                let kinds = self.hook_kinds(hook).await?;
                self.runner(&kinds).let_go(hook, &mark.run(release.revision, &self.owner.uid)).await?;
            }
        }
        Ok(())
    }
}

impl Subject<'_> {
    fn runner<'b>(&'b self, kinds: &'b Kinds) -> Runner<'b> {
        Runner {
            release: &self.release,
            namespace: &self.namespace,
            owner: &self.owner,
            kinds,
            calls: &self.calls,
            adopt: self.wishes.adopt,
            holds: true,
        }
    }

    /// The kinds that a hook's objects need.
    async fn hook_kinds(&self, hook: &HookRecord) -> Result<Arc<Kinds>, ReconcileError> {
        let rendered = manifest::read_record(&hook.manifest.read())?;
        let wanted: Vec<_> = rendered.hooks.iter().flat_map(Hook::objects).map(|object| object.gvk()).collect();
        Ok(self.context.kinds.kinds_with(&wanted).await?)
    }
}
