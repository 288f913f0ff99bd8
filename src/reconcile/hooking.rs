//! Hooks of a release, run as a state that is recorded: none is held up by another's wait.
//!
//! A hook that is begun is a mark in the record, written before its Job or pod is made. Whoever comes next, also after a crash, looks
//! at the object: it carries the run that it was made for. What has ended is written down before it is cleaned up. So every hook
//! runs once per event, and the turn ends where there is something to wait for; the watch on the object begins the next one.
//!
//! What is newer waits until a hook that runs has ended, and goes ahead of the next.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::jiff::Timestamp;
use kube::api::Api;

use super::{ReconcileError, Subject};
use crate::error::Category;
use crate::hooks::run::{Begun, HookError, Look, Runner};
use crate::hooks::{self, Event, Mark, Policy, Step, words};
use crate::object::ObjectId;
use crate::release::{History, HookPhase, HookRecord, HookRun, Own, Release, Status, Summary, Trouble};

/// How soon to look where the watch does not tell, or may not.
const LOOK_UNWATCHED: Duration = Duration::from_secs(1);
const LOOK_WATCHED: Duration = Duration::from_secs(30);
/// What is deleted goes soon.
const LOOK_GOING: Duration = Duration::from_millis(250);

/// What a turn waits for.
#[derive(Debug, thiserror::Error)]
#[error("waiting for the {} hook {id}{more}", event.as_str())]
pub struct Waiting {
    event: Event,
    id: ObjectId,
    more: &'static str,
    /// When to look again at the latest.
    pub look: Duration,
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
        if !self.has_hooks(event, &release) {
            return Ok(release);
        }
        let mut course = HookCourse { subject: self, event, release, is_unsaved: false };
        match Box::pin(course.run()).await {
            Ok(()) => Ok(course.release),
            Err(error) => Err(Halt { error, release: Box::new(course.release) }),
        }
    }

    /// Whether a hook of a revision was begun and has not ended, as far as the record tells.
    pub(super) fn is_at_hook(&self, latest: &Summary) -> bool {
        let is_ours = |own: &&Own| own.owner.is_same_resource(&self.owner_mark());
        let own = latest.own.as_ref().filter(is_ours);
        latest.status.is_pending() && own.is_some_and(|own| hooks::running(&own.hooks).is_some())
    }

    /// Sees to the end of a hook of a revision that is not wanted any more.
    pub(super) async fn see_hook_end(&self, revision: u32) -> Result<(), ReconcileError> {
        let release = self.release(revision).await?;
        let Some(mark) = release.own.as_ref().and_then(|own| hooks::running(&own.hooks)).cloned() else {
            return Ok(());
        };
        let mut course = HookCourse { subject: self, event: mark.event, release, is_unsaved: false };
        match Box::pin(course.end(mark)).await {
            Ok(()) => {
                course.save().await?;
                course.clean_up().await
            }
            Err(ReconcileError::AtHook(waiting)) => {
                let more = "; what is newer follows when it has ended";
                Err(ReconcileError::AtHook(Box::new(Waiting { more, ..*waiting })))
            }
            // Whatever became of it: nobody wants the revision any more.
            Err(ReconcileError::Hook(error)) => {
                self.warn(error.category().as_str(), &error.to_string()).await;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Runs the hooks of a release that goes, and returns its history after that.
    ///
    /// A hook that fails before the deletion stops it, as in Helm. One that fails afterwards is told, and that is all.
    pub(super) async fn run_delete_hooks(&self, event: Event, history: History) -> Result<History, ReconcileError> {
        let Some(latest) = history.latest() else {
            // In a namespace that goes, the records may go first. Then only the chart tells whether there were hooks.
            let is_likely = self.told_revision().is_some() && self.wishes.hooks.run_at(event);
            if is_likely && self.context.chart.current().mentions(event.as_str()) && self.is_namespace_going().await? {
                self.tell_skipped(event).await;
            }
            return Ok(history);
        };
        let is_running = self.is_at_hook(&Summary::of(latest));
        if !is_running && !self.has_hooks(event, latest) {
            return Ok(history);
        }
        if self.is_namespace_going().await? {
            self.tell_skipped(event).await;
            return Ok(history);
        }
        if is_running {
            self.see_hook_end(latest.revision).await?;
            return Err(ReconcileError::Moment);
        }
        let release = self.leaving_record(latest, event)?;
        match self.run_hooks(event, release).await {
            Ok(release) => Ok(history.with(release)),
            Err(Halt { error: ReconcileError::Hook(error), release }) if event == Event::PostDelete => {
                self.warn(error.category().as_str(), &error.to_string()).await;
                Ok(history.with(*release))
            }
            Err(Halt { error, release }) => {
                if let ReconcileError::Hook(_) = &error {
                    self.note_trouble(*release, &error).await?;
                }
                Err(error)
            }
        }
    }

    /// The record of a release that goes, in Helm's words.
    fn leaving_record(&self, latest: &Release, event: Event) -> Result<Release, ReconcileError> {
        let mut release = latest.clone();
        if release.status != Status::Uninstalling {
            release = release.with_status(Status::Uninstalling, "Deletion in progress (or silently failed)");
            if let Some(own) = &mut release.own {
                (own.hooks, own.trouble) = (vec![], None);
            }
        }
        let trouble = release.own.as_ref().and_then(|own| own.trouble.as_ref());
        match trouble.filter(|trouble| event == Event::PreDelete && trouble.asked == self.asked()) {
            Some(trouble) if trouble.attempts > self.wishes.retries => {
                let message = format!(
                    "{}, tried {} times; correct what it needs and change any annotation to have it tried again, or set the annotation helm.sdk.operatorframework.io/uninstall-disable-hooks: \"true\" to delete without it",
                    trouble.message, trouble.attempts
                );
                Err(ReconcileError::Refused { category: Category::RetriesExhausted, message })
            }
            _ => Ok(release),
        }
    }

    async fn note_trouble(&self, mut release: Release, error: &ReconcileError) -> Result<(), ReconcileError> {
        let asked = self.asked();
        if let Some(own) = &mut release.own {
            let before = own.trouble.as_ref().filter(|trouble| trouble.asked == asked);
            own.trouble = Some(Trouble {
                asked,
                attempts: before.map_or(0, |trouble| trouble.attempts) + 1,
                reason: error.category().as_str().to_owned(),
                message: error.to_string(),
                is_late: false,
            });
        }
        self.store.update(&release).await?;
        Ok(())
    }

    async fn tell_skipped(&self, event: Event) {
        let message = format!(
            "The {} hooks of the {} {} were not run: its namespace is being deleted, and nothing can be made in it any more",
            event.as_str(),
            self.owner.gvk.kind,
            self.owner.name
        );
        tracing::warn!(namespace = self.namespace, name = self.owner.name, "{message}");
        self.context.events.about_namespace(&self.namespace, "HooksSkipped", &message).await;
    }

    async fn is_namespace_going(&self) -> Result<bool, ReconcileError> {
        let api: Api<Namespace> = Api::all(self.context.client.clone());
        match self.calls.within(api.get_opt(&self.namespace)).await {
            Ok(namespace) => Ok(namespace.is_none_or(|it| it.metadata.deletion_timestamp.is_some())),
            // Who may not ask finds out when a hook is made.
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(false),
            Err(error) => Err(ReconcileError::Look(error)),
        }
    }
}

/// The hooks of one event while they are run.
struct HookCourse<'a> {
    subject: &'a Subject<'a>,
    event: Event,
    release: Release,
    /// A hook ended, and the record in the cluster does not tell it yet.
    is_unsaved: bool,
}

impl HookCourse<'_> {
    async fn run(&mut self) -> Result<(), ReconcileError> {
        loop {
            match hooks::next(self.event, &self.release.hooks, self.marks(), Timestamp::now()) {
                Step::Done => break,
                Step::Look(mark) => self.end(mark).await?,
                Step::Begin(mark) => {
                    let is_waited_for = hooks::is_waited_for(&self.hook(&mark).kind);
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

    fn marks(&self) -> &[Mark] {
        self.release.own.as_ref().map_or(&[], |own| &own.hooks)
    }

    fn hook(&self, mark: &Mark) -> &HookRecord {
        &self.release.hooks[mark.hook]
    }

    /// Brings a hook that was begun to its end, or says what it waits for.
    async fn end(&mut self, mark: Mark) -> Result<(), ReconcileError> {
        let (subject, run) = (self.subject, mark.run(self.release.revision));
        let kinds = subject.hook_kinds(self.hook(&mark)).await?;
        let runner = subject.runner(&kinds);
        match self.advance(&runner, &mark, &run).await {
            Ok(Look::Succeeded) => {
                self.succeeded(&mark).await;
                Ok(())
            }
            Ok(Look::Failed { id, why, object }) => {
                let words = words::last(&id, &object, &subject.calls).await;
                let why = words.iter().fold(why, |why, words| format!("{why}; {}", words.sentence()));
                let error = HookError::Failed { event: self.event, id: Box::new(id), why };
                Err(self.failed(&runner, &mark, &run, error).await)
            }
            Ok(Look::Running { id, object }) => {
                let limit = hooks::limit(
                    object.pointer("/metadata/annotations").and_then(|all| all.get(hooks::TIMEOUT)?.as_str()),
                    subject.wishes.hooks.timeout,
                );
                let Some(left) = mark.left(limit, Timestamp::now()) else {
                    let words = words::last(&id, &object, &subject.calls).await;
                    let why = words.map_or("it still runs".to_owned(), |words| words.sentence());
                    let limit = limit.as_secs();
                    let error = HookError::TooLong { event: self.event, id: Box::new(id), limit, why };
                    return Err(self.failed(&runner, &mark, &run, error).await);
                };
                let look = if subject.context.watch.watch_dependents { LOOK_WATCHED } else { LOOK_UNWATCHED };
                Err(self.waiting(id, "", look.min(left)))
            }
            Ok(Look::Absent) => {
                let id = runner.objects(self.hook(&mark), &run)?.first().map(|planned| planned.object.id());
                let id = id.ok_or(ReconcileError::Unsettled)?;
                Err(self.waiting(id, ", which follows when what an earlier run left is gone", LOOK_GOING))
            }
            // The API server refuses to make it: as in Helm, the hook has failed.
            Err(error) if error.category().counts_as_failure() => Err(self.failed(&runner, &mark, &run, error).await),
            Err(error) => Err(error.into()),
        }
    }

    /// Looks at a hook, and makes its objects if they are not there. Absent means that they cannot be made yet.
    async fn advance(&self, runner: &Runner<'_>, mark: &Mark, run: &str) -> Result<Look, HookError> {
        let hook = self.hook(mark);
        match runner.look(hook, run).await? {
            Look::Absent => {}
            look => return Ok(look),
        }
        if self.subject.context.watch.watch_dependents {
            let objects = runner.objects(hook, run)?;
            let waited_for = objects.iter().filter(|planned| hooks::is_waited_for(planned.object.kind()));
            self.subject.context.children.watch(waited_for.map(|planned| &planned.kind));
        }
        match runner.begin(hook, run).await? {
            Begun::Later(_) => Ok(Look::Absent),
            Begun::Made => {
                tracing::info!(
                    kind = self.subject.owner.gvk.kind,
                    namespace = self.subject.namespace,
                    name = self.subject.owner.name,
                    hook = hook.name,
                    event = self.event.as_str(),
                    "hook begun"
                );
                runner.look(hook, run).await
            }
        }
    }

    fn waiting(&self, id: ObjectId, more: &'static str, look: Duration) -> ReconcileError {
        ReconcileError::AtHook(Box::new(Waiting { event: self.event, id, more, look }))
    }

    async fn succeeded(&mut self, mark: &Mark) {
        self.note(&Mark { phase: HookPhase::Succeeded, ..mark.clone() });
        self.is_unsaved = true;
        let (subject, hook) = (self.subject, self.hook(mark));
        tracing::info!(
            kind = subject.owner.gvk.kind,
            namespace = subject.namespace,
            name = subject.owner.name,
            hook = hook.name,
            event = self.event.as_str(),
            "hook succeeded"
        );
        if Policy::Succeeded.tells_logs(hook) {
            self.tell_logs(mark).await;
        }
        if hooks::is_waited_for(&hook.kind) {
            let message = format!("The {} hook {} {} succeeded", self.event.as_str(), hook.kind, hook.name);
            subject.tell("HookSucceeded", &message).await;
        }
    }

    /// Records that a hook failed, and cleans up as Helm does then: the hook itself, and those before it that succeeded.
    async fn failed(&mut self, runner: &Runner<'_>, mark: &Mark, run: &str, error: HookError) -> ReconcileError {
        self.note(&Mark { phase: HookPhase::Failed, ..mark.clone() });
        if let Err(unsaved) = self.save().await {
            return unsaved;
        }
        if Policy::Failed.tells_logs(self.hook(mark)) {
            self.tell_logs(mark).await;
        }
        let hook = self.hook(mark);
        let let_go = runner.let_go(hook, run).await;
        let removed = match Policy::Failed.deletes(hook) {
            true => runner.remove(hook, run).await,
            false => Ok(()),
        };
        let cleaned = self.clean_up().await;
        for problem in [let_go.err().map(ReconcileError::from), removed.err().map(ReconcileError::from), cleaned.err()]
        {
            if let Some(problem) = problem {
                tracing::warn!(release = self.subject.release, "cannot clean up after a hook that failed: {problem}");
            }
        }
        error.into()
    }

    /// Lets go of what has ended well, and removes it in the reverse order where the chart asks for that.
    async fn clean_up(&self) -> Result<(), ReconcileError> {
        let is_done = |mark: &&Mark| mark.event == self.event && mark.phase == HookPhase::Succeeded;
        for mark in self.marks().iter().filter(is_done).rev() {
            let (hook, run) = (self.hook(mark), mark.run(self.release.revision));
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

    async fn save(&mut self) -> Result<(), ReconcileError> {
        self.release = self.subject.store.update(&self.release).await?;
        self.is_unsaved = false;
        Ok(())
    }

    /// Writes the last lines of a hook's log to ours.
    async fn tell_logs(&self, mark: &Mark) {
        let (subject, hook, run) = (self.subject, self.hook(mark), mark.run(self.release.revision));
        let Ok(kinds) = subject.hook_kinds(hook).await else { return };
        let Ok(objects) = subject.runner(&kinds).objects(hook, &run) else { return };
        for planned in objects {
            let id = planned.object.id();
            let Ok(Some(live)) = subject.calls.get(&planned.kind, &id).await else { continue };
            let object = serde_json::to_value(live).unwrap_or_default();
            for line in words::last(&id, &object, &subject.calls).await.into_iter().flat_map(|words| words.lines) {
                tracing::info!(namespace = subject.namespace, name = subject.owner.name, hook = hook.name, "| {line}");
            }
        }
    }
}

impl Subject<'_> {
    fn runner<'b>(&'b self, kinds: &'b crate::discovery::Kinds) -> Runner<'b> {
        Runner {
            release: &self.release,
            namespace: &self.namespace,
            owner: &self.owner,
            kinds,
            calls: &self.calls,
            adopt: self.wishes.adopt,
        }
    }

    /// The kinds that a hook's objects need.
    async fn hook_kinds(&self, hook: &HookRecord) -> Result<std::sync::Arc<crate::discovery::Kinds>, ReconcileError> {
        let rendered = crate::manifest::read(&hook.manifest)?;
        let wanted: Vec<_> = rendered.hooks.iter().map(|hook| hook.object.gvk()).collect();
        Ok(self.context.kinds.kinds_with(&wanted).await?)
    }
}
