//! A new revision, from its plan to its record.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use k8s_openapi::jiff::Timestamp;
use kube::core::ObjectMeta;

use super::holds::held_sentence;
use super::hooking::{self, Halt};
use super::journal::{self, Stage};
use super::recording::{by_key, is_install, pending_status};
use super::subject::Wish;
use super::{ReconcileError, Subject};
use crate::apply::{self, Progress};
use crate::applyset::Contents;
use crate::children::Look;
use crate::discovery::Kinds;
use crate::health::Health;
use crate::hooks;
use crate::manifest::{self, Rendered};
use crate::object::{Object, ObjectId, ObjectKey};
use crate::plan::{self, Plan, Planned, Target};
use crate::preflight::{Allowed, Preflight, Rejected, preflight};
use crate::prune::{Occasion, Pruned, Rules, prune};
use crate::release::{Applied, History, HookRecord, Own, Proof, Release, Status, Stored};
use crate::watches::Prune;

impl Subject<'_> {
    /// The record of the revision that is about to be made.
    pub(super) fn draft(&self, wish: &Wish, rendered: &Rendered, history: &History) -> Release {
        let now = Timestamp::now();
        let upgrade = history.stood_before(history.next_revision());
        Release {
            name: self.release.clone(),
            namespace: self.namespace.clone(),
            revision: self.next_revision(history),
            status: if upgrade { Status::PendingUpgrade } else { Status::PendingInstall },
            chart: wish.chart.metadata.clone(),
            defaults: wish.chart.defaults().into(),
            config: wish.values.json().into(),
            manifest: rendered.manifest.as_str().into(),
            hooks: rendered.hooks.iter().map(hooks::recorded).collect(),
            notes: rendered.notes.as_str().into(),
            description: if upgrade { "Preparing upgrade" } else { "Initial install underway" }.to_owned(),
            first_deployed: history.iter().next().map_or(now, |first| first.first_deployed),
            last_deployed: now,
            own: Some(Own {
                sourced: wish.values.sourced().to_vec(),
                is_upgrade: upgrade,
                ..self.own(wish.digest.clone())
            }),
            claimed: None,
            proof: Proof::default(),
            stored: Stored::default(),
        }
    }

    /// A revision once more, as a new one.
    pub(super) fn again(
        &self,
        old: &Release,
        own: Own,
        history: &History,
    ) -> Result<(Release, Rendered), ReconcileError> {
        let rendered = manifest::read_record(&old.manifest.read())?;
        let is_rollback = own.hold.is_some();
        let shipped = old.own.as_ref().map(|own| own.shipped.clone()).unwrap_or_default();
        let own = Own { shipped, is_upgrade: true, ..own };
        let draft = Release {
            revision: self.next_revision(history),
            status: if is_rollback { Status::PendingRollback } else { Status::PendingUpgrade },
            description: if is_rollback { "Preparing rollback" } else { "Preparing upgrade" }.to_owned(),
            first_deployed: history.iter().next().map_or(old.first_deployed, |first| first.first_deployed),
            last_deployed: Timestamp::now(),
            hooks: old.hooks.iter().map(|hook| HookRecord { last_run: Default::default(), ..hook.clone() }).collect(),
            own: Some(own),
            claimed: None,
            proof: Proof::default(),
            stored: Stored::default(),
            ..old.clone()
        };
        Ok((draft, rendered))
    }

    /// Brings a revision into the cluster: nothing is written before everything was asked about, and nothing is pruned
    /// unless everything was applied.
    ///
    /// A failure is recorded, if the revision is: one that is pending must not stay so for ever. A hook that runs is no
    /// failure; the next turn goes on from it.
    pub(super) async fn roll_out(
        &self,
        draft: Release,
        rendered: Rendered,
        history: &History,
    ) -> Result<Release, ReconcileError> {
        journal::note_revision(draft.revision);
        self.learn_secrets(&rendered.objects, &draft.hooks);
        let mut recorded = history.get(draft.revision).cloned();
        let result = match self.go_on_with_hooks(draft, history).await {
            Ok((draft, history)) => {
                recorded = history.get(draft.revision).cloned();
                self.bring_in(draft, rendered, &history).await
            }
            Err(halt) => Err(halt.into()),
        };
        match result {
            Err(Attempt { error: error @ (ReconcileError::AtHook(_) | ReconcileError::AtObject { .. }), .. }) => {
                Err(error)
            }
            // A hook may still run: whoever cannot look at it now looks again.
            Err(Attempt { error: error @ ReconcileError::Hook(_), .. }) if !error.category().counts_as_failure() => {
                Err(error)
            }
            Err(Attempt { error, pending, applied }) => {
                // What ends by itself says nothing about a revision of which nothing was applied.
                match pending.or_else(|| recorded.filter(|_| error.category().counts_as_failure())) {
                    Some(pending) => self.record_failed(&pending, &applied, error).await,
                    None => Err(error),
                }
            }
            Ok(release) => Ok(release),
        }
    }

    async fn bring_in(&self, mut draft: Release, rendered: Rendered, history: &History) -> Result<Release, Attempt> {
        if history.get(draft.revision).is_some() {
            // The signature does not cover the status, which decides the hooks.
            draft.status = pending_status(&draft, history);
        }
        // What failed since then is applied anew: it may be what the hook misses.
        let is_applied = |own: &Own| own.is_applied && own.trouble.is_none() && own.owner.uid == self.owner.uid;
        if draft.own.as_ref().is_some_and(is_applied) {
            return self.finish(draft, Progress::default(), None, history).await;
        }
        let unseen = rendered.unseen.clone();
        let wanted: Vec<_> = rendered.objects.iter().chain(&rendered.crds).map(|object| object.gvk()).collect();
        let kinds = self.context.kinds.kinds_with(&wanted).await?;
        let before = self.before(history).await?;
        let (first, last) = hooking::events(&draft);
        let (made, adopting) = (self.proven(history).await?, self.adopting(history, &kinds)?);
        let target = Target { made, adopting, ..self.target(draft.chart_name(), &draft.hooks) };
        let mut plan = plan::plan(rendered, &before, &target, &kinds)?;
        self.check_reach(&plan, &draft.hooks, &kinds).await?;
        self.check_noted(plan.ids().chain(before.iter().map(|applied| applied.id.clone())))?;
        // A record has no crds/, but knows what was in it.
        plan.shipped.extend(draft.own.iter().flat_map(|own| own.shipped.clone()));
        plan.changing = self.changing_kinds(draft.digest());
        plan.hooked = hooks::at(first, &draft.hooks).into_iter().map(|hook| draft.hooks[hook].name.clone()).collect();
        self.settle(&mut plan, history, &kinds);
        self.store.settle();
        let _claimed = self.claim(plan.ids().map(|id| id.key()).collect()).await?;
        self.leave_to_others(&mut plan, &before).await?;
        let known = self.recognised(&before);
        let mut allowed = self.allowed(is_lenient(&draft));
        allowed.replace |= allowed.leave && self.wishes.replace_going_back;
        let preflight = self.stage(Stage::Preflight, preflight(&plan, &target, &known, allowed, &self.calls)).await?;
        let is_there = |planned: &Planned| {
            let id = planned.object.id();
            preflight.there.contains(&id) && !preflight.adopted.contains(&id)
        };
        // An editor of the namespace can write that helm uninstalled the release.
        let mut since_ours = history.iter().rev().take_while(|release| !release.is_ours());
        let was_uninstalled = draft.status == Status::PendingInstall
            && history.get(draft.revision).is_none()
            && since_ours.any(|release| release.status == Status::Uninstalled);
        if (was_uninstalled || self.may_exist() || !history.iter().any(Release::is_ours))
            && !self.keeps_generated.load(Ordering::Relaxed)
            && plan.apply.iter().any(is_there)
        {
            return Err(ReconcileError::Existing.into());
        }
        plan.note_adopted(&preflight.all_adopted(), &self.owner);
        let mut adopted = plan.apply.iter().filter(|planned| planned.is_adopted).map(|planned| planned.object.id());
        if let Some(id) = adopted.find(|id| unseen.has(id)) {
            return Err(Rejected::unseen(&id).into());
        }

        // They are the chart's and the whole cluster's: no account of a namespace need be allowed to make them.
        let installed = self.stage(Stage::Apply, apply::crds::install(&plan, &self.calls.own())).await;
        installed.map_err(|error| self.weigh_apply(error, draft.digest()))?;
        let contents = self.contents_of(&plan);
        let mut wider = contents.clone().union(&self.contents());
        wider = wider.union(&Contents::of(before.iter().map(|applied| &applied.id), &self.owner));
        self.mark_parent(&wider).await?;
        let pending = self.record_pending(draft, &plan, history).await?;
        let ids: Vec<ObjectId> = plan.ids().chain(before.iter().map(|applied| applied.id.clone())).collect();
        self.note(&pending, ids.iter(), history).await?;
        let pending = self.run_hooks(first, pending).await?;
        let (progress, pruned) = self.carry_out(&plan, &preflight, &pending, history).await?;
        if self.context.watch.watch_dependents {
            // All kinds are there now, those of the release's own CRDs too.
            self.context.children.watch(plan.apply.iter().map(Planned::place));
        }
        let pending = match self.has_hooks(last, &pending) {
            true => self.record_applied(&pending, &progress, &pruned).await?,
            false => pending,
        };
        self.finish(pending, progress, Some(pruned), history).await
    }

    /// Hooks that were begun before are seen to their end before anything is asked or written.
    async fn go_on_with_hooks(&self, mut draft: Release, history: &History) -> Result<(Release, History), Halt> {
        let marks = |release: &Release| release.own.as_ref().map(|own| own.hooks.clone()).unwrap_or_default();
        let begun = marks(&draft);
        if begun.is_empty() || history.get(draft.revision).is_none() {
            return Ok((draft, history.clone()));
        }
        draft.status = pending_status(&draft, history);
        draft = self.run_hooks(hooking::events(&draft).0, draft).await?;
        // What was not written down is not history.
        let history = history.clone();
        Ok(match marks(&draft) == begun {
            true => (draft, history),
            false => (draft.clone(), history.with(draft)),
        })
    }

    /// What is left when all is applied: the hooks that come after, and the record. `pruned` is None where an earlier turn did it.
    async fn finish(
        &self,
        mut pending: Release,
        progress: Progress,
        pruned: Option<Pruned>,
        history: &History,
    ) -> Result<Release, Attempt> {
        pending.status = pending_status(&pending, history);
        let pending = self.run_hooks(hooking::events(&pending).1, pending).await?;
        let kept =
            || Pruned { kept: pending.own.iter().flat_map(|own| own.kept.clone()).collect(), ..Pruned::default() };
        let pruned = pruned.unwrap_or_else(kept);
        let release = self.record_deployed(&pending, progress, pruned, history).await?;
        if let Err(error) = self.note_pruned(&release).await {
            // The revision is deployed and noted. The next turn notes what is missing here.
            tracing::warn!(
                revision = release.revision,
                "cannot note in the ledger that the revision is deployed, trying again: {error}"
            );
            self.repeat_note(release.revision);
        }
        if let Some(own) = &release.own {
            self.narrow_contents(own).await?;
        }
        self.announce(&release).await;
        Ok(release)
    }

    /// Tells of recorded objects whether the watches see them with our marks, so that nobody need be asked.
    pub(super) fn recognised<'b>(&'b self, recorded: &'b [Applied]) -> impl Fn(&ObjectId, &str) -> bool + 'b {
        let recorded: HashSet<&str> = recorded.iter().filter_map(|applied| applied.uid.as_deref()).collect();
        move |id, uid| {
            recorded.contains(uid) && self.context.children.belongs_to(id, uid, &self.context.primary, self.cr)
        }
    }

    pub(super) fn allowed(&self, leave: bool) -> Allowed {
        let is_operators = self.namespace == self.context.protected.namespace;
        Allowed { is_operators, adopt: self.wishes.adopt, replace: self.wishes.replace && !leave, leave }
    }

    /// The objects of a Helm release that is being adopted.
    fn adopting(&self, history: &History, kinds: &Kinds) -> Result<HashSet<ObjectKey>, ReconcileError> {
        match self.context.watch.adopt.allows_releases() {
            true => Ok(plan::adopting(history, &self.namespace, kinds)?),
            false => Ok(HashSet::new()),
        }
    }

    pub(super) fn contents_of(&self, plan: &Plan) -> Contents {
        let ids: Vec<_> = plan.ids().collect();
        Contents::of(ids.iter(), &self.owner)
    }

    /// Marks what was applied. From now on the watches tell.
    pub(super) fn learn(&self, applied: &mut Applied, answer: &ObjectMeta, health: &Health) {
        let children = &self.context.children;
        applied.mark = children.mark(&applied.id.key(), answer);
        // Without watches nothing would ever correct what the answers say.
        if self.context.watch.watch_dependents {
            children.learn(&applied.id, answer, health);
        }
    }

    /// Finds what the deployed revision has put into the cluster just so, and what nobody changed since.
    fn settle(&self, plan: &mut Plan, history: &History, kinds: &Kinds) {
        let Some(latest) = history.latest().filter(|latest| latest.status == Status::Deployed) else { return };
        let is_marked = |own: &&Own| self.context.watch.watch_dependents && own.owner.uid == self.owner.uid;
        let Some(own) = latest.own.as_ref().filter(is_marked) else { return };
        // A manifest that cannot be read any more settles nothing.
        let target = self.target(latest.chart_name(), &latest.hooks);
        let Ok(Ok(old)) =
            manifest::read_record(&latest.manifest.read()).map(|old| plan::plan(old, &own.objects, &target, kinds))
        else {
            return;
        };
        let old: HashMap<ObjectKey, Object> =
            old.apply.into_iter().map(|planned| (planned.object.id().key(), planned.object)).collect();
        let applied = by_key(&own.objects);
        for planned in &mut plan.apply {
            let (id, key) = (planned.object.id(), planned.object.id().key());
            let applied = applied.get(&key).filter(|applied| applied.id == id);
            let is_the_same = old.get(&key) == Some(&planned.object);
            planned.is_settled = is_the_same && applied.is_some_and(|applied| self.is_as_left(applied));
        }
    }

    /// Whether the watch sees an object just as it was left.
    fn is_as_left(&self, applied: &Applied) -> bool {
        let children = &self.context.children;
        let uid = applied.uid.as_deref().unwrap_or_default();
        children.belongs_to(&applied.id, uid, &self.context.primary, self.cr)
            && children.look(applied, &self.context.scalers) == Look::Fine
            && applied.mark.is_some()
    }

    /// Applies and prunes.
    async fn carry_out(
        &self,
        plan: &Plan,
        preflight: &Preflight,
        pending: &Release,
        history: &History,
    ) -> Result<(Progress, Pruned), Attempt> {
        let learn = |applied: &mut Applied, answer: &ObjectMeta, health: &Health| self.learn(applied, answer, health);
        let mut progress = self.stage(Stage::Apply, apply::apply(plan, preflight, &self.calls, &learn)).await;
        let failed = |error: ReconcileError, progress: &Progress| Attempt {
            error,
            pending: Some(pending.clone()),
            applied: progress.all().cloned().collect(),
        };
        if let Some(error) = progress.stopped_by.take() {
            return Err(failed(self.weigh_apply(error, pending.digest()), &progress));
        }
        let is_helms = history.foreign_since_deployed().next().is_some();
        let mut pruned = match self.prune(plan, &progress, pending, history, is_helms).await {
            Ok(pruned) => pruned,
            Err(error) => return Err(failed(error, &progress)),
        };
        let planned: HashSet<ObjectKey> = plan.ids().map(|id| id.key()).collect();
        pruned.kept.extend(history.kept().iter().filter(|id| !planned.contains(&id.key())).cloned());
        pruned.kept.sort();
        pruned.kept.dedup();
        Ok((progress, pruned))
    }

    async fn prune(
        &self,
        plan: &Plan,
        progress: &Progress,
        pending: &Release,
        history: &History,
        helm_marks_suffice: bool,
    ) -> Result<Pruned, ReconcileError> {
        if plan.prune.is_empty() {
            return Ok(Pruned::default());
        }
        let occasion = match self.context.watch.prune {
            Prune::Safe => Occasion::Upgrade,
            Prune::All => Occasion::UpgradeAll,
        };
        let settled = pending.own.iter().flat_map(|own| &own.objects);
        let rules = Rules {
            release: &self.release,
            namespace: &self.namespace,
            owner: &self.owner,
            occasion,
            applied: progress.all().chain(settled).filter_map(|applied| applied.uid.clone()).collect(),
            helm_marks_suffice,
            proven: self.proven(history).await?,
            shipped: plan.shipped.iter().map(ObjectId::key).collect(),
            delete_adopted: self.wishes.delete_adopted,
        };
        let kinds = self.context.kinds.kinds_of(plan.prune.iter().map(|applied| &applied.id)).await?;
        let mut objects = plan.prune.clone();
        objects.sort_by(|a, b| {
            let rank = |applied: &Applied| manifest::order::uninstall_rank(&applied.id.kind).0;
            rank(a).cmp(&rank(b))
        });
        Ok(self.stage(Stage::Prune, prune(&objects, &rules, &kinds, &self.calls)).await?)
    }

    async fn announce(&self, release: &Release) {
        // operator-sdk's words: whoever wonders why a value of the spec has no effect finds them.
        for (key, value) in self.context.watch.overrides.iter() {
            let value = match self.context.settings.suppress_override_values {
                true => "****".to_owned(),
                false => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
            };
            let message = format!("Chart value {key:?} overridden to {value:?} by operator's watches.yaml");
            self.warn_by_event("OverrideValuesInUse", &message).await;
        }
        let (reason, message) = deployed_sentence(release);
        tracing::info!(
            reason,
            digest = release.digest().map(journal::short),
            chart = release.chart_label(),
            renderMs = self.journal.render_ms(),
            applyMs = self.journal.apply_ms(),
            totalMs = self.journal.total_ms(),
            "{}",
            self.shown(&message)
        );
        self.tell_by_event(reason, &message).await;
    }
}

/// An attempt to bring a revision into the cluster that failed, with what was recorded and applied by then.
struct Attempt {
    error: ReconcileError,
    pending: Option<Release>,
    applied: Vec<Applied>,
}

/// Before anything was recorded.
impl<E: Into<ReconcileError>> From<E> for Attempt {
    fn from(error: E) -> Self {
        Attempt { error: error.into(), pending: None, applied: vec![] }
    }
}

/// What hooks did by then is in the record.
impl From<Halt> for Attempt {
    fn from(Halt { error, release }: Halt) -> Self {
        Attempt { error, pending: Some(*release), applied: vec![] }
    }
}

/// What became of a revision that is in the cluster now.
fn deployed_sentence(release: &Release) -> (&'static str, String) {
    let own = release.own.as_ref();
    let (revision, objects) = (release.revision, own.map_or(0, |own| own.objects.len()));
    let objects = if objects == 1 { "1 object".to_owned() } else { format!("{objects} objects") };
    match own.and_then(|own| own.hold.as_ref()) {
        Some(hold) => {
            let (to, why) = (hold.to.unwrap_or_default(), held_sentence(hold));
            ("RolledBack", format!("Rolled back to revision {to}, as revision {revision}; {why}"))
        }
        None if is_install(release) => ("Installed", format!("Installed revision {revision} with {objects}")),
        None => ("Upgraded", format!("Upgraded to revision {revision} with {objects}")),
    }
}

/// Whether what cannot be changed is left as it is.
fn is_lenient(release: &Release) -> bool {
    release.own.as_ref().is_some_and(|own| own.hold.is_some())
}
