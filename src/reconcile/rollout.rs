//! A new revision, from its plan to its record.

use std::collections::HashMap;

use k8s_openapi::jiff::Timestamp;

use super::{ReconcileError, Subject};
use crate::apply::{self, Progress};
use crate::applyset::Contents;
use crate::chart::Chart;
use crate::children::Look;
use crate::discovery::Kinds;
use crate::manifest::{self, Hook, Rendered};
use crate::object::{Object, ObjectId, ObjectKey};
use crate::plan::{self, Plan, Target};
use crate::preflight::{Allowed, Preflight, preflight};
use crate::prune::{Occasion, Pruned, Rules, prune};
use crate::release::{Applied, History, HookRecord, Own, Release, Status, Stored};
use crate::values::Values;
use crate::watches::Prune;

/// Helm's words.
pub const INSTALLED: &str = "Install complete";
pub const UPGRADED: &str = "Upgrade complete";

/// Helm's default.
const MAX_HISTORY: usize = 10;

impl Subject<'_> {
    /// The record of the revision that is about to be made.
    pub(super) fn draft(
        &self,
        chart: &Chart,
        values: &Values,
        digest: String,
        rendered: &Rendered,
        history: &History,
    ) -> Release {
        let now = Timestamp::now();
        let upgrade = history.deployed().is_some();
        Release {
            name: self.release.clone(),
            namespace: self.namespace.clone(),
            revision: history.next_revision(),
            status: if upgrade { Status::PendingUpgrade } else { Status::PendingInstall },
            chart: chart.metadata.clone(),
            config: values.json().clone(),
            manifest: rendered.manifest.clone(),
            hooks: rendered.hooks.iter().map(hook_record).collect(),
            notes: rendered.notes.clone(),
            description: if upgrade { "Preparing upgrade" } else { "Initial install underway" }.to_owned(),
            first_deployed: history.iter().next().map_or(now, |first| first.first_deployed),
            last_deployed: now,
            own: Some(Own { digest, owner: self.owner_mark(), ..Own::default() }),
            stored: Stored::default(),
        }
    }

    /// The deployed revision once more, as a new one.
    pub(super) fn again(&self, deployed: Release, history: &History) -> Result<(Release, Rendered), ReconcileError> {
        let now = Timestamp::now();
        let rendered = manifest::read(&deployed.manifest)?;
        let draft = Release {
            revision: history.next_revision(),
            status: Status::PendingUpgrade,
            description: "Preparing upgrade".to_owned(),
            last_deployed: now,
            stored: Stored::default(),
            ..deployed
        };
        Ok((draft, rendered))
    }

    /// Brings a revision into the cluster: nothing is written before everything was asked about, and nothing is pruned
    /// unless everything was applied.
    pub(super) async fn roll_out(
        &self,
        draft: Release,
        rendered: Rendered,
        history: &History,
    ) -> Result<Release, ReconcileError> {
        let before = history.objects_since_deployed();
        let wanted: Vec<_> = rendered.objects.iter().chain(&rendered.crds).map(|object| object.gvk()).collect();
        let kinds = self.context.kinds.kinds_with(&wanted).await?;
        let chart = draft.chart["name"].as_str().unwrap_or_default().to_owned();
        let target = self.target(&chart);
        let mut plan = plan::plan(rendered, &before, &target, &kinds)?;
        self.settle(&mut plan, history, &target, &kinds);
        let _claimed = self.context.claims.claim(plan.ids().map(|id| id.key()).collect()).await;
        self.leave_to_others(&mut plan, &before).await?;
        let known = self.recognised(&before);
        let preflight = preflight(&plan, &target, &known, self.allowed(), &self.calls).await?;

        apply::install_crds(&plan, &self.calls).await?;
        let contents = self.contents_of(&plan);
        let mut wider = contents.clone().union(&self.contents());
        wider = wider.union(&Contents::of(before.iter().map(|applied| &applied.id), &self.owner));
        self.mark_parent(&wider).await?;
        let pending = self.record_pending(draft, &plan, history).await?;
        let (progress, pruned) = self.carry_out(&plan, &preflight, &pending, history).await?;
        if self.context.watch.watch_dependents {
            // All kinds are there now, those of the release's own CRDs too.
            self.context.children.watch(plan.apply.iter().map(|planned| &planned.kind));
        }
        let release = self.record_deployed(&pending, progress, pruned, history).await?;
        if wider != contents {
            self.mark_parent(&contents).await?;
        }
        self.announce(&release, &plan).await;
        Ok(release)
    }

    /// Tells of recorded objects whether the watches see them with our marks, so that nobody need be asked.
    pub(super) fn recognised<'b>(&'b self, recorded: &'b [Applied]) -> impl Fn(&ObjectId, &str) -> bool + 'b {
        |id, uid| {
            let is_recorded = recorded.iter().any(|applied| applied.uid.as_deref() == Some(uid));
            is_recorded && self.context.children.belongs_to(id, uid, &self.context.primary, self.cr)
        }
    }

    pub(super) fn allowed(&self) -> Allowed {
        Allowed {
            adopt: self.is_asked("chartwright.dev/adopt"),
            replace: self.is_asked("helm.sdk.operatorframework.io/upgrade-force"),
        }
    }

    fn contents_of(&self, plan: &Plan) -> Contents {
        let ids: Vec<_> = plan.ids().collect();
        Contents::of(ids.iter(), &self.owner)
    }

    /// Marks what was applied. From now on the watches tell.
    pub(super) fn learn(&self, progress: &mut Progress) {
        let children = &self.context.children;
        for (applied, (metadata, health)) in progress.applied.iter_mut().zip(&progress.answers) {
            applied.mark = children.mark(&applied.id.key(), metadata);
            // Without watches nothing would ever correct what the answers say.
            if self.context.watch.watch_dependents {
                children.learn(&applied.id, metadata, health);
            }
        }
    }

    /// Finds what the deployed revision has put into the cluster just so, and what nobody changed since.
    fn settle(&self, plan: &mut Plan, history: &History, target: &Target<'_>, kinds: &Kinds) {
        let Some(latest) = history.latest().filter(|latest| latest.status == Status::Deployed) else { return };
        let Some(own) = latest.own.as_ref().filter(|_| self.context.watch.watch_dependents) else { return };
        // A manifest that cannot be read any more settles nothing.
        let Ok(Ok(old)) = manifest::read(&latest.manifest).map(|old| plan::plan(old, &own.objects, target, kinds))
        else {
            return;
        };
        let old: HashMap<ObjectKey, Object> =
            old.apply.into_iter().map(|planned| (planned.object.id().key(), planned.object)).collect();
        for planned in &mut plan.apply {
            let id = planned.object.id();
            let applied = own.objects.iter().find(|applied| applied.id == id);
            let is_the_same = old.get(&id.key()) == Some(&planned.object);
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

    /// Writes down what is about to happen, so that a crash can be resumed. An unfinished record of the same input is used
    /// again: retries must not push good revisions out of the history.
    async fn record_pending(&self, draft: Release, plan: &Plan, history: &History) -> Result<Release, ReconcileError> {
        let mut pending = draft;
        if let Some(own) = &mut pending.own {
            let settled =
                history.deployed().and_then(|release| release.own.as_ref()).map_or(&[][..], |own| &own.objects);
            let objects = plan.apply.iter().map(|planned| {
                let id = planned.object.id();
                let known = if planned.is_settled { settled } else { &own.objects };
                known.iter().find(|known| known.id == id).cloned().unwrap_or_else(|| Applied::new(id, None))
            });
            own.objects = objects.collect();
        }
        match history.get(pending.revision) {
            None => Ok(self.store.create(&pending).await?),
            Some(old) => {
                let status = if history.deployed().is_some() { Status::PendingUpgrade } else { Status::PendingInstall };
                pending.status = status;
                match *old == pending {
                    true => Ok(pending),
                    false => Ok(self.store.update(&pending).await?),
                }
            }
        }
    }

    /// Applies and prunes. A failure is recorded with what was applied until then.
    async fn carry_out(
        &self,
        plan: &Plan,
        preflight: &Preflight,
        pending: &Release,
        history: &History,
    ) -> Result<(Progress, Pruned), ReconcileError> {
        let mut progress = apply::apply(plan, preflight, &self.calls).await;
        self.learn(&mut progress);
        if let Some(error) = progress.stopped_by.take() {
            return self.record_failed(pending, &progress.applied, error.into()).await;
        }
        match self.prune(plan, &progress, pending).await {
            Ok(mut pruned) => {
                let kept = history.deployed().and_then(|release| release.own.as_ref()).map_or(&[][..], |own| &own.kept);
                pruned
                    .kept
                    .extend(kept.iter().filter(|id| !plan.ids().any(|planned| planned.key() == id.key())).cloned());
                pruned.kept.sort();
                pruned.kept.dedup();
                Ok((progress, pruned))
            }
            Err(error) => self.record_failed(pending, &progress.applied, error).await,
        }
    }

    async fn prune(&self, plan: &Plan, progress: &Progress, pending: &Release) -> Result<Pruned, ReconcileError> {
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
            applied: progress.applied.iter().chain(settled).filter_map(|applied| applied.uid.clone()).collect(),
            helm_marks_suffice: false,
        };
        let kinds = self.context.kinds.kinds_of(plan.prune.iter().map(|applied| &applied.id)).await?;
        let mut objects = plan.prune.clone();
        objects.sort_by(|a, b| {
            let rank = |applied: &Applied| manifest::order::uninstall_rank(&applied.id.kind).0;
            rank(a).cmp(&rank(b))
        });
        Ok(prune(&objects, &rules, &kinds, &self.calls).await?)
    }

    async fn record_failed<T>(
        &self,
        pending: &Release,
        applied: &[Applied],
        error: ReconcileError,
    ) -> Result<T, ReconcileError> {
        let mut failed = pending.with_status(Status::Failed, &error.to_string());
        if let Some(own) = &mut failed.own {
            fill_in(&mut own.objects, applied);
        }
        // The error that led here says more than one about the record.
        if let Err(store) = self.store.update(&failed).await {
            tracing::warn!(release = self.release, "cannot record the failure: {store}");
        }
        Err(error)
    }

    async fn record_deployed(
        &self,
        pending: &Release,
        progress: Progress,
        pruned: Pruned,
        history: &History,
    ) -> Result<Release, ReconcileError> {
        let description = if is_upgrade(history) { UPGRADED } else { INSTALLED };
        let mut deployed = pending.with_status(Status::Deployed, description);
        deployed.last_deployed = Timestamp::now();
        if let Some(own) = &mut deployed.own {
            fill_in(&mut own.objects, &progress.applied);
            own.kept = pruned.kept.clone();
        }
        let store = &self.store;
        let deployed = store.update(&deployed).await?;
        for old in history.iter().filter(|old| old.revision != deployed.revision && old.status == Status::Deployed) {
            store.update(&old.with_status(Status::Superseded, &old.description)).await?;
        }
        for revision in history.expired(MAX_HISTORY) {
            if revision != deployed.revision {
                store.delete(&self.namespace, &self.release, revision).await?;
            }
        }
        if !pruned.deleted.is_empty() {
            let names: Vec<_> = pruned.deleted.iter().map(ToString::to_string).collect();
            self.tell("Pruned", &format!("Removed what the chart no longer has: {}", names.join(", "))).await;
        }
        Ok(deployed)
    }

    async fn announce(&self, release: &Release, plan: &Plan) {
        // operator-sdk's words: whoever wonders why a value of the spec has no effect finds them.
        for (key, value) in self.context.watch.overrides.iter() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let message = format!("Chart value {key:?} overridden to {value:?} by operator's watches.yaml");
            self.warn("OverrideValuesInUse", &message).await;
        }
        let objects = plan.apply.len();
        let (revision, kind) = (release.revision, &self.owner.gvk.kind);
        tracing::info!(kind, namespace = self.namespace, name = self.release, revision, objects, "deployed");
        let first = release.description == INSTALLED;
        let (reason, verb) = if first { ("Installed", "Installed") } else { ("Upgraded", "Upgraded to") };
        self.tell(reason, &format!("{verb} revision {revision} with {objects} objects")).await;
    }
}

/// Whether a revision was ever deployed.
fn is_upgrade(history: &History) -> bool {
    history.iter().any(|release| matches!(release.status, Status::Deployed | Status::Superseded))
}

/// Puts what the API server answered into the list of objects.
pub(super) fn fill_in(objects: &mut [Applied], answered: &[Applied]) {
    for object in objects {
        if let Some(answer) = answered.iter().find(|answer| answer.id.key() == object.id.key()) {
            *object = answer.clone();
        }
    }
}

fn hook_record(hook: &Hook) -> HookRecord {
    let list = |key: &str| -> Vec<String> {
        let text = hook.object.annotation(key).unwrap_or_default();
        text.split(',').map(|item| item.trim().to_ascii_lowercase()).filter(|item| !item.is_empty()).collect()
    };
    HookRecord {
        name: hook.object.name().to_owned(),
        kind: hook.object.kind().to_owned(),
        path: hook.file.clone(),
        manifest: hook.text.clone(),
        events: hook.events.clone(),
        weight: hook.object.annotation("helm.sh/hook-weight").and_then(|text| text.trim().parse().ok()).unwrap_or(0),
        delete_policies: list("helm.sh/hook-delete-policy"),
        output_log_policies: list("helm.sh/hook-output-log-policy"),
        ..HookRecord::default()
    }
}
