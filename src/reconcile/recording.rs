//! What a rollout writes down: before it begins, when it failed, when it is done.
//!
//! The order of the writes is such that a crash between any two of them shows in what the watch knows of the records: then the
//! rest is made up for at the next look.

use std::collections::{HashMap, HashSet};

use k8s_openapi::jiff::Timestamp;

use super::{ReconcileError, Subject};
use crate::apply::Progress;
use crate::cluster::clock;
use crate::object::ObjectKey;
use crate::plan::Plan;
use crate::prune::Pruned;
use crate::release::{Applied, History, Release, Status, Trouble};
use crate::watches::OnFailure;

/// Helm's words.
pub const INSTALLED: &str = "Install complete";
pub const UPGRADED: &str = "Upgrade complete";

/// A message in a record need not be longer.
const LONGEST: usize = 1000;

impl Subject<'_> {
    /// Writes down what is about to happen, so that a crash can be resumed. An unfinished record of the same input is used
    /// again: retries must not push good revisions out of the history.
    pub(super) async fn record_pending(
        &self,
        draft: Release,
        plan: &Plan,
        history: &History,
    ) -> Result<Release, ReconcileError> {
        let mut pending = draft;
        if let Some(own) = &mut pending.own {
            let settled =
                history.deployed().and_then(|release| release.own.as_ref()).map_or(&[][..], |own| &own.objects);
            own.objects = about_to_be_applied(plan, &own.objects, settled);
            own.shipped.clone_from(&plan.shipped);
            own.shipped.sort();
            own.shipped.dedup();
        }
        match history.get(pending.revision) {
            None => {
                let pending = self.store.create(&pending).await?;
                self.note_revision_made();
                // Also a release that never succeeds has so many records and no more.
                self.expire(&history.clone().with(pending.clone())).await?;
                Ok(pending)
            }
            Some(old) => {
                pending.status = pending_status(&pending, history);
                match *old == pending {
                    true => Ok(pending),
                    false => Ok(self.store.update(&pending).await?),
                }
            }
        }
    }

    /// Records how often a revision failed, and why. The error that led here says more than one about the record.
    pub(super) async fn record_failed<T>(
        &self,
        pending: &Release,
        applied: &[Applied],
        error: ReconcileError,
    ) -> Result<T, ReconcileError> {
        if !error.is_told() {
            return Err(error);
        }
        let category = error.category();
        let why = self.shown(&error.to_string());
        // helm shows it in a column.
        let first = why.lines().next().unwrap_or_default();
        let mut failed = pending.with_status(Status::Failed, &in_helms_words(pending, first));
        if let Some(own) = &mut failed.own {
            fill_in(&mut own.objects, applied);
            let counts = category.counts_as_failure()
                && (self.wishes.on_failure == OnFailure::Rollback || !category.may_be_cured());
            let asked = self.asked();
            let before = own.trouble.as_ref().filter(|trouble| trouble.asked == asked);
            let before = before.map_or(0, |trouble| trouble.attempts);
            own.trouble = Some(Trouble {
                asked,
                attempts: before.saturating_add(u32::from(counts)),
                reason: category.as_str().to_owned(),
                message: why.chars().take(LONGEST).collect(),
                is_late: false,
            });
        }
        if failed != *pending
            && let Err(store) = self.store.update(&failed).await
        {
            let store = self.shown(&store.to_string());
            tracing::warn!("cannot record the failure: {store}");
        }
        Err(error)
    }

    /// Writes down that everything is applied, and only hooks are still to come: nothing is applied twice after a wait.
    pub(super) async fn record_applied(
        &self,
        pending: &Release,
        progress: &Progress,
        pruned: &Pruned,
    ) -> Result<Release, ReconcileError> {
        let mut applied = pending.clone();
        if let Some(own) = &mut applied.own {
            let answered: Vec<Applied> = progress.all().cloned().collect();
            fill_in(&mut own.objects, &answered);
            own.kept = pruned.kept.clone();
            own.is_applied = true;
        }
        Ok(self.store.update(&applied).await?)
    }

    pub(super) async fn record_deployed(
        &self,
        pending: &Release,
        progress: Progress,
        pruned: Pruned,
        history: &History,
    ) -> Result<Release, ReconcileError> {
        let said = done(pending, history);
        let said_instead = match said.as_str() {
            INSTALLED => self.wishes.descriptions.install.as_deref(),
            UPGRADED => self.wishes.descriptions.upgrade.as_deref(),
            _ => None,
        };
        let description = said_instead.map_or_else(|| said.clone(), |text| self.shown(text));
        let mut deployed = pending.with_status(Status::Deployed, &description);
        let now = Timestamp::now();
        deployed.last_deployed = now;
        if let Some(own) = &mut deployed.own {
            let applied: Vec<Applied> = progress.all().cloned().collect();
            fill_in(&mut own.objects, &applied);
            own.kept = pruned.kept.clone();
            own.trouble = None;
            own.is_install = said == INSTALLED && description != INSTALLED;
            (own.hooks, own.is_applied, own.was_deployed) = (vec![], false, true);
            own.applied_at = self.wishes.progress_deadline.map(|_| clock::now().as_second());
        }
        // While the record is pending, a crash has this done again.
        self.let_go_of_hooks(pending).await?;
        self.expire(&history.clone().with(deployed.clone())).await?;
        let deployed = self.store.update(&deployed).await?;
        self.tidy(&history.clone().with(deployed.clone())).await?;
        if !pruned.deleted.is_empty() {
            let names: Vec<_> = pruned.deleted.iter().map(ToString::to_string).collect();
            self.tell("Pruned", &format!("Removed what the chart no longer has: {}", names.join(", "))).await;
        }
        Ok(deployed)
    }

    /// Removes revisions that are too old.
    async fn expire(&self, history: &History) -> Result<(), ReconcileError> {
        for revision in history.expired(self.wishes.max_history) {
            // What still says deployed goes when the new one is there.
            if history.get(revision).is_none_or(|release| release.status != Status::Deployed) {
                self.store.delete(&self.namespace, &self.release, revision).await?;
            }
        }
        Ok(())
    }

    /// Puts right what revisions before the deployed one say of themselves.
    pub(super) async fn tidy(&self, history: &History) -> Result<(), ReconcileError> {
        let expired: HashSet<u32> = history.expired(self.wishes.max_history).into_iter().collect();
        for revision in history.leftovers() {
            if expired.contains(&revision) {
                self.store.delete(&self.namespace, &self.release, revision).await?;
                continue;
            }
            let Some(old) = history.get(revision) else { continue };
            self.let_go_of_hooks(old).await?;
            let put_right = match old.status {
                Status::Deployed => old.with_status(Status::Superseded, &old.description),
                _ => old.with_status(Status::Failed, "Interrupted: a later revision came instead"),
            };
            self.store.update(&put_right).await?;
        }
        Ok(())
    }
}

/// What a revision that is on its way is called.
pub(super) fn pending_status(pending: &Release, history: &History) -> Status {
    match &pending.own {
        Some(own) if own.hold.is_some() => Status::PendingRollback,
        Some(own) if own.is_rebuilt => Status::PendingUpgrade,
        _ if history.stood_before(pending.revision) => Status::PendingUpgrade,
        _ => Status::PendingInstall,
    }
}

/// Whether there was no revision before it.
pub(super) fn is_install(release: &Release) -> bool {
    release.description == INSTALLED || release.own.as_ref().is_some_and(|own| own.is_install)
}

/// What Helm says of such a revision when it fails.
fn in_helms_words(pending: &Release, why: &str) -> String {
    let what = match pending.status {
        Status::PendingUpgrade => "Upgrade",
        Status::PendingRollback => "Rollback",
        _ => "Release",
    };
    format!("{what} {:?} failed: {why}", pending.name)
}

/// What Helm says of such a revision when it is there.
fn done(pending: &Release, history: &History) -> String {
    let hold = pending.own.as_ref().and_then(|own| own.hold.as_ref());
    match hold.and_then(|hold| hold.to) {
        Some(to) => format!("Rollback to {to}"),
        None if pending.is_rebuilt() || history.stood_before(pending.revision) => UPGRADED.to_owned(),
        None => INSTALLED.to_owned(),
    }
}

/// Puts what the API server answered into the list of objects.
pub(super) fn fill_in(objects: &mut [Applied], answered: &[Applied]) {
    let answered = by_key(answered);
    for object in objects {
        if let Some(answer) = answered.get(&object.id.key()) {
            let is_adopted = object.is_adopted || answer.is_adopted;
            *object = Applied { is_adopted, ..(*answer).clone() };
        }
    }
}

/// The objects of a plan with what is known of them: of those that need no apply, what the deployed revision says.
fn about_to_be_applied(plan: &Plan, known: &[Applied], settled: &[Applied]) -> Vec<Applied> {
    let (known, settled) = (by_key(known), by_key(settled));
    let objects = plan.apply.iter().map(|planned| {
        let id = planned.object.id();
        let known = if planned.is_settled { &settled } else { &known };
        let known = known.get(&id.key()).filter(|known| known.id == id).map(|known| (*known).clone());
        Applied { is_adopted: planned.is_adopted, ..known.unwrap_or_else(|| Applied::new(id, None)) }
    });
    objects.collect()
}

/// The first of each.
pub(super) fn by_key(objects: &[Applied]) -> HashMap<ObjectKey, &Applied> {
    objects.iter().rev().map(|applied| (applied.id.key(), applied)).collect()
}

#[cfg(test)]
mod tests {
    use kube::core::GroupVersionKind;
    use kube::discovery::ApiResource;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::discovery::Kind;
    use crate::object::Object;
    use crate::plan::{Judged, Planned};
    use crate::steps;

    fn planned(number: usize) -> Planned {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{number}"), "namespace": "here"}});
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
        let kind = Kind { resource, namespaced: true, has_status: false, is_manageable: true };
        let (is_settled, is_adopted) = (number.is_multiple_of(2), number == 3);
        Planned { is_settled, is_adopted, ..Planned::new(Object::new(object).unwrap(), kind, Judged::Wholly) }
    }

    fn applied(number: usize, uid: &str) -> Applied {
        Applied::new(planned(number).object.id(), Some(uid.to_owned()))
    }

    #[test]
    fn what_is_known_of_objects_is_recorded_before_they_are_applied() {
        let plan = Plan { apply: (0..4).map(planned).collect(), ..Plan::default() };
        let (known, settled) = ([applied(0, "old"), applied(1, "old")], [applied(0, "new"), applied(1, "new")]);
        let objects = about_to_be_applied(&plan, &known, &settled);
        let seen: Vec<_> = objects.iter().map(|it| (it.uid.as_deref(), it.is_adopted)).collect();
        assert_eq!(seen, [(Some("new"), false), (Some("old"), false), (None, false), (None, true)]);
    }

    #[test]
    fn the_steps_of_recording_grow_with_the_objects() {
        steps::assert_linear("fill_in", |number| {
            let mut objects: Vec<_> = (0..number).map(|it| applied(it, "old")).collect();
            let answered: Vec<_> = (0..number).rev().map(|it| applied(it, "new")).collect();
            let steps = steps::of(|| fill_in(&mut objects, &answered));
            assert!(objects.iter().all(|it| it.uid.as_deref() == Some("new")));
            steps
        });
        steps::assert_linear("about_to_be_applied", |number| {
            let plan = Plan { apply: (0..number).map(planned).collect(), ..Plan::default() };
            let known: Vec<_> = (0..number).rev().map(|it| Applied { is_adopted: true, ..applied(it, "u") }).collect();
            steps::of(|| about_to_be_applied(&plan, &known, &known))
        });
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

        #[test]
        fn lists_of_any_shape_take_a_few_steps_for_each_object(
            numbers in proptest::collection::vec(0..30_usize, 0..60),
            answered in proptest::collection::vec(0..40_usize, 0..60),
        ) {
            let number = 1 + numbers.len() + answered.len();
            let mut objects: Vec<_> = numbers.iter().map(|it| applied(*it, "old")).collect();
            let known: Vec<_> = answered.iter().map(|it| applied(*it, "new")).collect();
            steps::assert_few("fill_in", number, steps::of(|| fill_in(&mut objects, &known)));
            for (object, name) in objects.iter().zip(&numbers) {
                let expected = if answered.contains(name) { "new" } else { "old" };
                prop_assert_eq!(object.uid.as_deref(), Some(expected));
            }
            let plan = Plan { apply: numbers.iter().map(|it| planned(*it)).collect(), ..Plan::default() };
            steps::assert_few("about_to_be_applied", number, steps::of(|| about_to_be_applied(&plan, &known, &known)));
        }
    }
}
