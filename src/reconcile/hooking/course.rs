//! The hooks of one event, from the first that has not ended to the last, or to one that is waited for.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::stuck::Stuck;
use super::{Awaited, Waiting};
use crate::cluster::clock;
use crate::health::Cause;
use crate::hooks::run::{Begun, HookError, Look, Runner};
use crate::hooks::{self, Event, Mark, Policy, Step};
use crate::manifest::{self, Hook};
use crate::object::ObjectId;
use crate::plan::Planned;
use crate::reach;
use crate::reconcile::{ReconcileError, Subject};
use crate::release::{HookPhase, HookRecord, HookRun, Release};
use crate::telemetry::metrics;

/// What is deleted goes soon.
const LOOK_GOING: Duration = Duration::from_millis(250);
const LOOK_GOING_LONG: Duration = Duration::from_secs(5);

/// The hooks of one event while they are run.
pub(super) struct HookCourse<'a> {
    pub(super) subject: &'a Subject<'a>,
    pub(super) event: Event,
    pub(super) release: Release,
    /// What is not there is made. A revision that nobody wants any more only has its running hook seen to the end.
    pub(super) is_wanted: bool,
    /// A hook ended, and the record in the cluster does not tell it yet.
    pub(super) is_unsaved: bool,
}

impl HookCourse<'_> {
    pub(super) async fn run(&mut self) -> Result<(), ReconcileError> {
        loop {
            match hooks::next(self.event, &self.release.hooks, self.marks(), clock::now()) {
                Step::Done => break,
                Step::Look(mark) => self.end(mark).await?,
                Step::Begin(mark) => {
                    let is_waited_for = is_waited_for(self.hook(&mark))?;
                    self.note(&mark);
                    // What is there as soon as it was made need not be written down before.
                    if is_waited_for {
                        self.save().await?;
                    }
                    self.end(mark).await?;
                }
            }
        }
        if self.is_unsaved {
            self.save().await?;
        }
        self.clean_up().await
    }

    /// Sees to the end of a hook that nobody wants any more. Whatever became of it is no failure of what is wanted now.
    pub(super) async fn end_unwanted(&mut self, mark: Mark) -> Result<(), ReconcileError> {
        match self.end(mark).await {
            Err(ReconcileError::Hook(error)) if error.category().counts_as_failure() => {
                self.subject.warn(error.category().as_str(), &error.to_string()).await;
                return Ok(());
            }
            ended => ended?,
        }
        if self.is_unsaved {
            self.save().await?;
        }
        self.clean_up().await
    }

    fn marks(&self) -> &[Mark] {
        self.release.own.as_ref().map_or(&[], |own| &own.hooks)
    }

    fn hook(&self, mark: &Mark) -> &HookRecord {
        &self.release.hooks[mark.hook]
    }

    /// Brings a hook that was begun to its end, or says what it waits for.
    pub(super) async fn end(&mut self, mark: Mark) -> Result<(), ReconcileError> {
        let (subject, run) = (self.subject, mark.run(self.release.revision, &self.subject.owner.uid));
        let kinds = subject.hook_kinds(self.hook(&mark)).await?;
        let runner = subject.runner(&kinds);
        match self.advance(&runner, &mark, &run).await {
            Ok(Look::Succeeded) => {
                self.succeeded(&mark).await;
                Ok(())
            }
            Ok(Look::Failed { id, why, object }) => {
                let cause = subject.cause_of_run(&object).await;
                let why = cause.iter().fold(why, |why, cause| format!("{}; {why}", cause.sentence()));
                let error = HookError::Failed { event: self.event, id: Box::new(id.clone()), why };
                self.write_log_tail(&id, cause.as_ref()).await;
                Err(self.failed(&runner, &mark, &run, error).await)
            }
            Ok(Look::Running { id, object }) => {
                let limit = hooks::limit_of(&object, subject.wishes.hooks.timeout);
                let Some(left) = mark.left(limit, hooks::created(&object), clock::now()) else {
                    let cause = subject.cause_of_run(&object).await;
                    let why = cause.as_ref().map_or("it is still running".to_owned(), Cause::sentence);
                    self.write_log_tail(&id, cause.as_ref()).await;
                    let limit = limit.as_secs();
                    let error = HookError::TooLong { event: self.event, id: Box::new(id), limit, why };
                    return Err(self.failed(&runner, &mark, &run, error).await);
                };
                let stuck = self.stuck(&id, &object).await;
                if !self.is_wanted
                    && let Some(Stuck { cause, has_started: false }) = &stuck
                    && self.cancel(&runner, &id, &object, cause).await?
                {
                    return Ok(());
                }
                let look = self.look(&id, &object).min(left);
                Err(self.waiting(id, (Awaited::End, stuck.map(|stuck| stuck.cause)), look).await)
            }
            Ok(Look::Absent) if !self.is_wanted => Ok(()),
            Ok(Look::Absent) => {
                let objects = runner.objects(self.hook(&mark), &run)?;
                let first = objects.first().ok_or(ReconcileError::Unsettled)?;
                let (id, limit) =
                    (first.object.id(), hooks::limit_of(first.object.value(), subject.wishes.hooks.timeout));
                let Some(left) = mark.left(limit, None, clock::now()) else {
                    let why = "what is in its place is being deleted and does not go".to_owned();
                    let error = HookError::TooLong { event: self.event, id: Box::new(id), limit: limit.as_secs(), why };
                    return Err(self.failed(&runner, &mark, &run, error).await);
                };
                // The longer it takes, the less it is asked about.
                let look = ((limit - left) / 10).clamp(LOOK_GOING, LOOK_GOING_LONG);
                Err(self.waiting(id, (Awaited::Place, None), look).await)
            }
            // The API server refuses to make it: as in Helm, the hook has failed.
            Err(error) if error.category().counts_as_failure() => Err(self.failed(&runner, &mark, &run, error).await),
            Err(error) => Err(error.into()),
        }
    }

    /// Looks at a hook, and makes its objects if they are not there. Absent means that they cannot be made yet.
    async fn advance(&self, runner: &Runner<'_>, mark: &Mark, run: &str) -> Result<Look, HookError> {
        let hook = self.hook(mark);
        // Before anything is looked at, so that no end is missed; after a restart nobody watches yet.
        if self.subject.context.watch.watch_dependents {
            let objects = runner.objects(hook, run)?;
            let waited_for = objects.iter().filter(|planned| hooks::is_waited_for(planned.object.kind()));
            self.subject.context.children.watch(waited_for.map(Planned::place));
        }
        match runner.look(hook, run).await? {
            Look::Absent if self.is_wanted => {}
            look => return Ok(look),
        }
        // The record may be older than what the watch allows, or written by somebody else.
        let outside = reach::of_hooks(std::slice::from_ref(hook), &self.subject.home(), runner.kinds);
        self.subject.check_outside(outside).await?;
        self.subject.check_hook(hook, &self.release, runner.kinds)?;
        match runner.begin(hook, run).await? {
            Begun::Later(_) => Ok(Look::Absent),
            Begun::Made => {
                tracing::info!(
                    reason = "HookBegun",
                    revision = self.release.revision,
                    "The {} hook {} {} begins",
                    self.event.as_str(),
                    hook.kind,
                    hook.name
                );
                self.tell_unreadable(&runner.objects(hook, run)?).await;
                runner.look(hook, run).await
            }
        }
    }

    /// A time limit that nobody can read counts as none. Whoever wrote it has to know.
    async fn tell_unreadable(&self, objects: &[Planned]) {
        for object in objects.iter().map(|planned| &planned.object) {
            let limit = object.annotation(hooks::TIMEOUT);
            if let Some(text) = limit.filter(|text| !hooks::is_limit(text)) {
                let message = format!(
                    "the annotation {} of the hook {} is {text:?}: write a duration such as `10m`; until then it has {} s",
                    hooks::TIMEOUT,
                    object.id(),
                    hooks::limit_of(object.value(), self.subject.wishes.hooks.timeout).as_secs()
                );
                self.subject.warn("InvalidAnnotation", &message).await;
            }
        }
    }

    /// Ends the turn. What has ended by then is written down, or it would end again in the next.
    async fn waiting(
        &mut self,
        id: ObjectId,
        (what, cause): (Awaited, Option<Cause>),
        look: Duration,
    ) -> ReconcileError {
        if self.is_unsaved
            && let Err(error) = self.save().await
        {
            return error;
        }
        ReconcileError::AtHook(Box::new(Waiting { event: self.event, id, what, cause, look }))
    }

    async fn succeeded(&mut self, mark: &Mark) {
        self.note(&Mark { phase: HookPhase::Succeeded, ..mark.clone() });
        self.is_unsaved = true;
        let (subject, hook) = (self.subject, self.hook(mark));
        metrics::hook_ended(&subject.owner.gvk.kind, self.event.as_str(), true);
        let message = format!("The {} hook {} {} succeeded", self.event.as_str(), hook.kind, hook.name);
        let HookRun { started_at, completed_at, .. } = &hook.last_run;
        let took = completed_at.zip(*started_at).map(|(end, begin)| end.as_millisecond() - begin.as_millisecond());
        tracing::info!(reason = "HookSucceeded", revision = self.release.revision, hookMs = took, "{message}");
        if Policy::Succeeded.tells_logs(hook) {
            self.write_logs(mark).await;
        }
        if hooks::is_waited_for(&hook.kind) {
            subject.tell_by_event("HookSucceeded", &message).await;
        }
    }

    /// Records that a hook failed, and cleans up as Helm does then: the hook itself, and those before it that succeeded.
    async fn failed(&mut self, runner: &Runner<'_>, mark: &Mark, run: &str, error: HookError) -> ReconcileError {
        self.note(&Mark { phase: HookPhase::Failed, ..mark.clone() });
        if let Err(unsaved) = self.save().await {
            return unsaved;
        }
        metrics::hook_ended(&self.subject.owner.gvk.kind, self.event.as_str(), false);
        let hook = self.hook(mark);
        let let_go = runner.let_go(hook, run).await;
        let removed = match Policy::Failed.deletes(hook) {
            true => runner.remove(hook, run).await,
            false => Ok(()),
        };
        let cleaned = self.clean_up().await;
        let problems = [let_go.err().map(ReconcileError::from), removed.err().map(ReconcileError::from), cleaned.err()];
        for problem in problems.into_iter().flatten() {
            let problem = self.subject.shown(&problem.to_string());
            tracing::warn!("cannot clean up after a hook that failed: {problem}");
        }
        error.into()
    }

    /// Lets go of what has ended well, and removes it in the reverse order where the chart asks for that.
    pub(super) async fn clean_up(&self) -> Result<(), ReconcileError> {
        let is_done = |mark: &&Mark| mark.event == self.event && mark.phase == HookPhase::Succeeded;
        for mark in self.marks().iter().filter(is_done).rev() {
            let (hook, run) = (self.hook(mark), mark.run(self.release.revision, &self.subject.owner.uid));
            let kinds = self.subject.hook_kinds(hook).await?;
            let runner = self.subject.runner(&kinds);
            runner.let_go(hook, &run).await?;
            if Policy::Succeeded.deletes(hook) {
                runner.remove(hook, &run).await?;
            }
        }
        Ok(())
    }

    /// Puts a mark into the record, in our words and in Helm's.
    fn note(&mut self, mark: &Mark) {
        if let Some(own) = &mut self.release.own {
            hooks::note(&mut own.hooks, mark.clone());
        }
        let now = Timestamp::now();
        let last_run = &mut self.release.hooks[mark.hook].last_run;
        *last_run = match mark.phase {
            HookPhase::Running => HookRun { started_at: Some(now), completed_at: None, phase: mark.phase },
            _ => HookRun { completed_at: Some(now), phase: mark.phase, ..last_run.clone() },
        };
    }

    pub(super) async fn save(&mut self) -> Result<(), ReconcileError> {
        self.release = self.subject.store.update(&self.release).await?;
        self.is_unsaved = false;
        Ok(())
    }
}

/// Whether any object of a hook is waited for.
fn is_waited_for(hook: &HookRecord) -> Result<bool, ReconcileError> {
    let rendered = manifest::read_record(&hook.manifest.read())?;
    let mut objects = rendered.hooks.iter().flat_map(Hook::objects);
    Ok(objects.any(|object| hooks::is_waited_for(object.kind())))
}
