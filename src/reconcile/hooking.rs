//! Hooks of a release, run as a state that is recorded: none is held up by another's wait.
//!
//! A hook that is begun is a mark in the record, written before its Job or pod is made. Whoever comes next, also after a crash, looks
//! at the object: it carries the run that it was made for. What has ended is written down before it is cleaned up. So every hook
//! runs once per event, and the turn ends where there is something to wait for; the watch on the object begins the next one.
//!
//! What is newer waits until a hook that runs has ended, and goes ahead of the next.

mod course;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;

use super::{ReconcileError, Subject};
use crate::discovery::Kinds;
use crate::error::Category;
use crate::hooks::run::Runner;
use crate::hooks::{self, Event};
use crate::manifest;
use crate::object::ObjectId;
use crate::release::{History, HookRecord, Own, Release, Status, Summary, Trouble};
use course::HookCourse;

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
        let mut course = HookCourse { subject: self, event, release, is_wanted: true, is_unsaved: false };
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
        let mut course = HookCourse { subject: self, event: mark.event, release, is_wanted: false, is_unsaved: false };
        match Box::pin(course.end(mark)).await {
            Ok(()) if course.is_unsaved => {
                course.save().await?;
                course.clean_up().await
            }
            Ok(()) => Ok(()),
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
        }
        if !self.has_hooks(event, latest) {
            return Ok(history);
        }
        // Its hook may just have been recorded.
        let latest = if is_running { self.release(latest.revision).await? } else { latest.clone() };
        let release = self.leaving_record(&latest, event)?;
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

impl Subject<'_> {
    fn runner<'b>(&'b self, kinds: &'b Kinds) -> Runner<'b> {
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
    async fn hook_kinds(&self, hook: &HookRecord) -> Result<Arc<Kinds>, ReconcileError> {
        let rendered = manifest::read(&hook.manifest)?;
        let wanted: Vec<_> = rendered.hooks.iter().map(|hook| hook.object.gvk()).collect();
        Ok(self.context.kinds.kinds_with(&wanted).await?)
    }
}
