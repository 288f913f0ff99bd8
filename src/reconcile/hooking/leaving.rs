//! The hooks of a release that goes.
//!
//! They come from the newest record, so the chart is not needed. What helm wrote last is no exception: such a record gets our part
//! first.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;
use kube::core::{GroupVersionKind, ObjectMeta};

use super::Halt;
use crate::discovery::Kind;
use crate::error::Category;
use crate::hooks::run::Runner;
use crate::hooks::{self, Event, run};
use crate::object::is_path_segment;
use crate::plan::{RELEASE_LABEL, members};
use crate::reconcile::failing::tries;
use crate::reconcile::{ReconcileError, Subject};
use crate::release::{HeldBy, History, Hold, Own, Release, Status, Summary, Trouble};

/// The way out.
const WITHOUT: &str =
    "set the annotation helm.sdk.operatorframework.io/uninstall-disable-hooks: \"true\" to delete without its hooks";

/// How many hooks are looked for, each by a call, and how many of their objects an event names.
const MOST_HOOKS: usize = 100;
const MOST_NAMED: usize = 10;

impl Subject<'_> {
    /// Runs the hooks of a release that goes, and returns its history after that.
    ///
    /// A hook that fails before the deletion stops it, as in Helm. One that fails afterwards is told, and that is all.
    pub(in crate::reconcile) async fn run_delete_hooks(
        &self,
        event: Event,
        history: History,
    ) -> Result<History, ReconcileError> {
        let is_on = self.wishes.hooks.run_at(event);
        if let Some(latest) = history.latest().filter(|latest| !latest.is_proven() && is_on) {
            let message = format!(
                "This operator does not vouch for the record of revision {}, so the {} hooks of the newest revision that it signed are run",
                latest.revision,
                event.as_str()
            );
            self.warn("RecordUnproven", &message).await;
        }
        let Some(latest) = newest_proven(&history) else {
            if !history.is_empty() {
                return Ok(history);
            }
            // In a namespace that goes, the records may go first. Then only the chart tells whether there were hooks.
            let is_likely = is_on && self.told_revision().is_some();
            if is_likely && self.context.chart.current().mentions(event.as_str()) && self.is_namespace_going().await? {
                self.tell_skipped(event, "may not have been run").await;
            }
            return Ok(history);
        };
        let is_running = self.is_at_hook(&Summary::of(latest));
        let has_hooks = is_on && hooks::has(event, &latest.hooks);
        if !is_running && !has_hooks {
            return Ok(history);
        }
        if self.is_namespace_going().await? {
            if has_hooks {
                self.tell_skipped(event, "were not run").await;
            }
            return Ok(history);
        }
        if is_running {
            self.see_hook_end(latest.revision).await?;
        }
        // Its hook may just have been recorded. What is read again is judged again.
        let history = if is_running { self.history().await? } else { history };
        let Some(latest) = newest_proven(&history).cloned() else { return Err(ReconcileError::Unsettled) };
        if !has_hooks {
            return Ok(history);
        }
        let release = self.leaving_record(latest, event)?;
        match self.run_hooks(event, release).await {
            Ok(release) => Ok(history.with(release)),
            Err(Halt { error: ReconcileError::Hook(error), release })
                if event == Event::PostDelete && error.category().counts_as_failure() =>
            {
                self.warn(error.category().as_str(), &error.to_string()).await;
                Ok(history.with(*release))
            }
            Err(Halt { error, release }) => {
                if !error.category().counts_as_failure() || !matches!(error, ReconcileError::Hook(_)) {
                    return Err(error);
                }
                self.note_trouble(*release, &error).await?;
                let message = format!("the deletion waits, and this is tried again; or {WITHOUT}: {error}");
                Err(ReconcileError::Refused { category: error.category(), message })
            }
        }
    }

    /// The record of a release that goes, in Helm's words. An error where its hook has failed and must not be tried now.
    fn leaving_record(&self, latest: Release, event: Event) -> Result<Release, ReconcileError> {
        let mut release = latest;
        if !release.is_proven() {
            return Err(ReconcileError::Unsettled);
        }
        if release.own.is_none() {
            release.own = Some(self.own_of_helms(&release)?);
        }
        if release.status != Status::Uninstalling {
            let description = self.wishes.descriptions.uninstall.as_deref();
            let description = description.unwrap_or("Deletion in progress (or silently failed)");
            release = release.with_status(Status::Uninstalling, &self.shown(description));
            if let Some(own) = &mut release.own {
                (own.hooks, own.trouble, own.is_applied) = (vec![], None, false);
            }
        }
        let own = release.own.as_ref();
        let trouble = own.and_then(|own| own.trouble.as_ref());
        let trouble = trouble.filter(|trouble| event == Event::PreDelete && trouble.asked == self.asked());
        let Some(trouble) = trouble else { return Ok(release) };
        if trouble.attempts > self.wishes.retries {
            let message = format!(
                "given up after {}; correct what it needs and change any annotation to have it tried again, or {WITHOUT}: {}",
                tries(trouble.attempts),
                trouble.message
            );
            return Err(ReconcileError::Refused { category: Category::RetriesExhausted, message });
        }
        match self.pause_left(own) {
            Some(left) => Err(ReconcileError::TooEarly(left)),
            None => Ok(release),
        }
    }

    /// Our part of a record that helm wrote. That helm did is kept in it: helm takes our marks off the objects.
    fn own_of_helms(&self, release: &Release) -> Result<Own, ReconcileError> {
        let objects = members(&release.manifest.read(), &self.namespace, &self.context.kinds.kinds())?;
        let hold = Hold { to: None, digest: String::new(), by: HeldBy::Helm, failed: None };
        Ok(Own { objects, hold: Some(hold), ..self.own(release.digest().unwrap_or_default().to_owned()) })
    }

    async fn note_trouble(&self, mut release: Release, error: &ReconcileError) -> Result<(), ReconcileError> {
        let (asked, category) = (self.asked(), error.category());
        if let Some(own) = &mut release.own {
            let before = own.trouble.as_ref().filter(|trouble| trouble.asked == asked);
            own.trouble = Some(Trouble {
                asked,
                attempts: before
                    .map_or(0, |trouble| trouble.attempts)
                    .saturating_add(u32::from(!category.may_be_cured())),
                reason: category.as_str().to_owned(),
                message: self.shown(&error.to_string()),
                is_late: false,
            });
        }
        self.store.update(&release).await?;
        Ok(())
    }

    /// Names the objects of hooks that stay when everything else of the release is deleted. As with `helm uninstall`, only their delete
    /// policies delete them.
    pub(in crate::reconcile) async fn tell_hooks_left(&self, history: &History) -> Result<(), ReconcileError> {
        let kinds = self.context.kinds.kinds();
        let proven = history.iter().filter(|release| release.is_proven());
        let left = self.runner(&kinds).left(proven.flat_map(|release| &release.hooks).take(MOST_HOOKS)).await;
        if left.is_empty() || self.is_namespace_going().await? {
            return Ok(());
        }
        let mut names: Vec<String> = left.iter().take(MOST_NAMED).map(ToString::to_string).collect();
        if left.len() > MOST_NAMED {
            names.push(format!("{} more", left.len() - MOST_NAMED));
        }
        let message = format!(
            "Hook objects are left in place, as with helm uninstall: {}; delete them if they are not needed, or set helm.sh/hook-delete-policy in the chart",
            names.join(", ")
        );
        self.tell("HooksLeft", &message).await;
        Ok(())
    }

    /// Lets go of Jobs that would wait for us for ever: their records go, or have gone.
    pub(in crate::reconcile) async fn let_go_of_jobs(&self, history: &History) -> Result<(), ReconcileError> {
        let may_be_held = |release: &Release| release.hooks.iter().any(run::may_be_held);
        // A chart without hooks has made none, and its operator has no right to look for them.
        let may_have_hooks = || self.context.chart.current().may_have_hooks();
        let is_lost = history.is_empty() && self.told_revision().is_some() && may_have_hooks();
        if !is_lost && !history.iter().any(may_be_held) {
            return Ok(());
        }
        let job = GroupVersionKind::gvk("batch", "v1", "Job");
        let kinds = self.context.kinds.kinds();
        let Some(kind) = kinds.get(&job) else { return Ok(()) };
        let places = self.places_of_jobs(history, is_lost);
        if !self.calls.has_account() && self.context.settings.namespaces.is_all() {
            return self.let_go_of_jobs_in(None, kind, &self.runner(&kinds), &places).await;
        }
        // Who has rights in some namespaces may not list in all. Where an account may nothing any more, the operator takes off its
        // finalizer itself.
        let own = self.calls.own();
        for place in &places {
            for calls in [&self.calls, &own] {
                let runner = Runner { calls, ..self.runner(&kinds) };
                match self.let_go_of_jobs_in(Some(place), kind, &runner, &places).await {
                    Err(error) if error.category() == Category::Forbidden => {}
                    let_go => {
                        let_go?;
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Where Jobs of hooks may be. A record that nothing vouches for names any place.
    fn places_of_jobs(&self, history: &History, is_lost: bool) -> BTreeSet<String> {
        let hooks = history.iter().filter(|release| release.is_proven()).flat_map(|release| &release.hooks);
        let hooked = hooks.flat_map(hooks::objects_of).filter_map(|object| object.id().namespace);
        let hooked = hooked.filter(|place| is_path_segment(place));
        // Without records nobody knows where hooks were.
        let watched = self.context.settings.namespaces.scopes().into_iter().flatten().filter(|_| is_lost);
        let known = self.contents().namespaces.into_iter().chain([self.namespace.clone()]);
        known.chain(hooked).chain(watched.map(|place| place.to_string())).collect()
    }

    async fn let_go_of_jobs_in(
        &self,
        place: Option<&str>,
        kind: &Kind,
        runner: &Runner<'_>,
        known: &BTreeSet<String>,
    ) -> Result<(), ReconcileError> {
        let selector = format!("{RELEASE_LABEL}={}", self.release);
        let holding = |job: ObjectMeta| runner.is_holding(&job).then_some(job);
        let jobs = match runner.calls.list(kind, place, &selector, holding).await {
            Ok(jobs) => jobs,
            // Who may not list Jobs has made none.
            Err(kube::Error::Api(status)) if status.code == 403 && !runner.calls.has_account() => return Ok(()),
            Err(error) => return Err(ReconcileError::Look(error)),
        };
        for job in jobs {
            match runner.let_go_of_job(kind, &job).await {
                // Whoever may create Jobs in a namespace can put these marks on one. That must not keep a custom resource from going.
                Err(error) if job.namespace.as_ref().is_none_or(|place| !known.contains(place)) => {
                    let (namespace, name) = (job.namespace.as_deref(), job.name.as_deref());
                    tracing::warn!(namespace, name, "the finalizer of a hook stays on this Job: {error}");
                }
                let_go => let_go?,
            }
        }
        Ok(())
    }

    async fn tell_skipped(&self, event: Event, what: &str) {
        let message = format!(
            "The {} hooks of the {} {} {what}: its namespace is being deleted, and nothing can be made in it any more",
            event.as_str(),
            self.owner.gvk.kind,
            self.owner.name
        );
        tracing::warn!(reason = "HooksSkipped", "{message}");
        self.context.events.about_namespace(&self.namespace, "HooksSkipped", &message).await;
    }

    pub(in crate::reconcile) async fn is_namespace_going(&self) -> Result<bool, ReconcileError> {
        let api: Api<Namespace> = Api::all(self.context.client.clone());
        match self.calls.within(api.get_opt(&self.namespace)).await {
            Ok(namespace) => Ok(namespace.is_none_or(|it| it.metadata.deletion_timestamp.is_some())),
            // Who may not ask finds out when a hook is made.
            Err(kube::Error::Api(status)) if status.code == 403 => {
                let (namespace, name) = (&self.namespace, &self.owner.name);
                tracing::info!(
                    namespace,
                    name,
                    "namespaces may not be read, so its hooks are tried also in one that goes"
                );
                Ok(false)
            }
            Err(error) => Err(ReconcileError::Look(error)),
        }
    }
}

fn newest_proven(history: &History) -> Option<&Release> {
    history.iter().rev().find(|release| release.is_proven())
}
