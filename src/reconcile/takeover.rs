//! Taking charge of a revision that is in the cluster already: what helm or operator-sdk installed, and what a person rolled back to
//! with helm.
//!
//! The record's content is that of a signed revision, or what the chart renders right now. Its objects are applied where they are, with our marks. Nothing is made again, no new revision comes of
//! it, and the record gets our part only when all of it is done; so a crash has it done once more, and that changes nothing.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Value, json};

use super::holds::{held_sentence, overridden, rolled_back_to};
use super::journal::{self, Stage};
use super::subject::Wish;
use super::{ReconcileError, Subject, is_about_unknown_kind};
use crate::apply;
use crate::children::ends_by_itself;
use crate::discovery::Kinds;
use crate::error::Category;
use crate::hooks;
use crate::manifest::{self, Rendered};
use crate::object::{Object, ObjectKey};
use crate::plan::{self, Made, Planned, Target, members};
use crate::preflight::{Rejected, preflight};
use crate::release::mask::sourced;
use crate::release::{Applied, HeldBy, History, Hold, HookRecord, Own, Release, Status};

/// On which objects Helm's marks are enough.
pub(super) struct Marks {
    /// The release made them.
    pub made: Made,
    /// They were a Helm release's.
    pub adopting: HashSet<ObjectKey>,
}

impl Subject<'_> {
    /// Makes the latest revision ours, which helm wrote with the content of one of ours.
    pub(super) async fn take_charge(&self, wish: &Wish, history: &History) -> Result<Release, ReconcileError> {
        let Some(latest) = history.latest().filter(|latest| latest.is_proven()) else {
            return Err(ReconcileError::Unsettled);
        };
        let taken = Taken { latest, history, wanted: &wish.digest, is_observed: self.is_observed(self.cr) };
        let fresh = Own { sourced: self.sourced(wish, history, latest), ..self.own(String::new()) };
        let adopting = match latest.is_claimed() {
            true => HashSet::new(),
            // An adoption that was interrupted.
            false => plan::keys(&members(&latest.manifest.read(), &self.namespace, &self.context.kinds.kinds())?),
        };
        let marks = Marks { made: self.proven(history).await?, adopting };
        let taken = self.take_in_place(latest, taken.own(fresh), marks).await?;
        let hold = taken.own.as_ref().and_then(|own| own.hold.as_ref());
        let (revision, description) = (taken.revision, &taken.description);
        match hold {
            Some(hold) => {
                self.tell("Held", &format!("Revision {revision} ({description}) is held: {}", held_sentence(hold)))
                    .await;
            }
            None => self.tell("TookOver", &format!("Took over revision {revision}, whose record was rewritten")).await,
        }
        Ok(taken)
    }

    /// Makes a release ours that helm or operator-sdk installed, as far as it is what the chart renders. Where it is exactly that, nothing is
    /// made anew; otherwise a new revision follows.
    pub(super) async fn adopt(&self, wish: &Wish, history: &History) -> Result<Release, ReconcileError> {
        let Some(latest) = history.latest() else { return Err(ReconcileError::Unsettled) };
        // Before the chart may ask for anything with `lookup`.
        check_source(&latest.chart, &wish.chart.metadata).map_err(|what| self.not_adopted(&what))?;
        let upgrade_to = self.upgrade_to(history);
        let rendered = self.render(wish, upgrade_to).await?;
        let kinds = self.context.kinds.kinds();
        let mut recorded = members(&latest.manifest.read(), &self.namespace, &kinds)?;
        recorded.extend(plan::before(history, &self.namespace, &kinds)?);
        self.check_same_objects(&recorded, &rendered)?;
        if let Some(unseen) = recorded.iter().find(|applied| rendered.unseen.contains(&applied.id.to_string())) {
            return Err(Rejected::unseen(&unseen.id).into());
        }
        let known: HashSet<ObjectKey> = recorded.iter().map(|applied| applied.id.key()).collect();
        // What did not finish need not have made all of its objects.
        let is_deployed = latest.status == Status::Deployed;
        let is_new = |object: &&Object| !is_deployed || !known.contains(&self.placed(object, &kinds));
        let new = rendered.objects.iter().filter(is_new).map(|object| object.id().key()).collect();
        let rendered = self.keep_generated(wish, rendered, upgrade_to, &new).await?;
        let text = |key: &str| latest.chart[key].as_str().unwrap_or_default();
        let made = format!("chart {} {}", text("name"), text("version"));
        let message = format!("Took over the release {} at revision {} ({made})", self.release, latest.revision);
        if is_deployed && is_same_content(latest, &rendered, wish) {
            let sourced = self.sourced(wish, history, latest);
            let own = Own { sourced, request: None, ..self.own(wish.digest.clone()) };
            let adopting = plan::keys(&members(&latest.manifest.read(), &self.namespace, &kinds)?);
            match self.take_in_place(latest, own, Marks { made: Made::new(), adopting }).await {
                // A record has no crds/: if one of those is gone, only a new revision creates it.
                Err(error) if is_about_unknown_kind(&error) => {}
                taken => {
                    let taken = taken?;
                    self.tell("Adopted", &message).await;
                    return Ok(taken);
                }
            }
        }
        self.tell("Adopted", &message).await;
        let draft = self.draft(wish, &rendered, history);
        self.roll_out(draft, rendered, history).await
    }

    /// Refuses a release with objects that the chart does not render: it is another one.
    fn check_same_objects(&self, recorded: &[Applied], rendered: &Rendered) -> Result<(), ReconcileError> {
        let kinds = self.context.kinds.kinds();
        let made: HashSet<ObjectKey> = rendered.objects.iter().map(|object| self.placed(object, &kinds)).collect();
        match recorded.iter().find(|applied| !made.contains(&applied.id.key())) {
            Some(other) => {
                Err(self.not_adopted(&format!("has {}, which the chart does not render with these values", other.id)))
            }
            None => Ok(()),
        }
    }

    fn not_adopted(&self, what: &str) -> ReconcileError {
        let message = format!(
            "the release {} {what}, so it is not adopted; make the custom resource and the chart match the release, or uninstall it",
            self.release
        );
        ReconcileError::Refused { category: Category::AdoptionNotAllowed, message }
    }

    /// The key of a rendered object in its place.
    pub(super) fn placed(&self, object: &Object, kinds: &Kinds) -> ObjectKey {
        let mut id = object.id();
        id.namespace = match kinds.any_version(&id.group, &id.kind) {
            Some(kind) if !kind.namespaced => None,
            _ => id.namespace.or_else(|| Some(self.namespace.clone())),
        };
        id.key()
    }

    /// Applies the objects of a recorded revision where they are, and signs its record.
    pub(super) async fn take_in_place(
        &self,
        latest: &Release,
        mut own: Own,
        marks: Marks,
    ) -> Result<Release, ReconcileError> {
        journal::note_revision(latest.revision);
        let members = members(&latest.manifest.read(), &self.namespace, &self.context.kinds.kinds())?;
        // Before anything is touched: what cannot be recorded is not taken.
        self.check_noted(members.iter().map(|applied| applied.id.clone()))?;
        let draft = Release { own: Some(Own { objects: members, ..own.clone() }), ..latest.clone() };
        self.store.check_size(&draft)?;
        own.objects = self.apply_in_place(&draft, marks).await?;
        // Whatever its status says: it is not installed once more.
        own.was_deployed = true;
        let taken = self.store.update(&Release { own: Some(own), ..latest.clone() }).await?;
        self.note_finished(&taken).await?;
        Ok(taken)
    }

    /// Where in the values those from elsewhere are. Whoever wrote the record, they are where ours are, or were.
    pub(super) fn sourced(&self, wish: &Wish, history: &History, latest: &Release) -> Vec<String> {
        let before = sourced(latest, history.iter()).into_iter().chain(wish.values.sourced()).cloned();
        before.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Applies the objects of a revision that is there, and says what they are. What has ended and was cleaned up is not
    /// started again, and what cannot be changed is left as it is.
    async fn apply_in_place(&self, release: &Release, marks: Marks) -> Result<Vec<Applied>, ReconcileError> {
        let rendered = manifest::read_record(&release.manifest.read())?;
        self.learn_secrets(&rendered.objects, &release.hooks);
        let wanted: Vec<_> = rendered.objects.iter().map(|object| object.gvk()).collect();
        let kinds = self.context.kinds.kinds_with(&wanted).await?;
        let Marks { made, adopting } = marks;
        let target = Target { made, adopting, ..self.target(release.chart_name(), &release.hooks) };
        let mut plan = plan::plan(rendered, &[], &target, &kinds)?;
        self.check_reach(&plan, &[], &kinds).await?;
        let _claimed = self.claim(plan.ids().map(|id| id.key()).collect()).await?;
        let there: Vec<Applied> = plan.ids().map(|id| Applied::new(id, None)).collect();
        self.leave_to_others(&mut plan, &there).await?;
        self.store.settle();
        let known = |_: &_, _: &str| false;
        let preflight = preflight(&plan, &target, &known, self.allowed(true), &self.calls);
        let preflight = self.stage(Stage::Preflight, preflight).await?;
        // Before the first write, as with every revision: a crash leaves a record whose content the ledger confirms. And not before it is
        // certain whose the objects are, since the ledger is evidence for that.
        self.note_again(release).await?;
        plan.note_adopted(&preflight.all_adopted(), &self.owner);
        self.mark_parent(&self.contents_of(&plan).union(&self.contents())).await?;
        plan.apply.retain(|planned| {
            let id = planned.object.id();
            !(ends_by_itself(&id) && preflight.new.contains(&id))
        });
        let mut progress = self.stage(Stage::Apply, apply::apply(&plan, &preflight, &self.calls)).await;
        self.learn(&mut progress);
        if let Some(error) = progress.stopped_by.take() {
            return Err(error.into());
        }
        for planned in plan.apply.iter().filter(|planned| preflight.leave.contains_key(&planned.object.id())) {
            self.mark_only(planned, preflight.adopted.contains(&planned.object.id())).await?;
        }
        if self.context.watch.watch_dependents {
            self.context.children.watch(plan.apply.iter().map(Planned::place));
        }
        let mut objects = there;
        let applied: Vec<Applied> = progress.all().cloned().collect();
        super::recording::fill_in(&mut objects, &applied);
        Ok(objects)
    }

    /// Puts our marks on an object that cannot be changed otherwise, so that it goes when the release goes.
    async fn mark_only(&self, planned: &Planned, is_adopted: bool) -> Result<(), ReconcileError> {
        let (id, wanted) = (planned.object.id(), &planned.object.value()["metadata"]);
        let live = self.calls.metadata(&planned.kind, &id).await.map_err(ReconcileError::Look)?;
        let Some(mut live) = live else { return Ok(()) };
        if is_adopted {
            live.resource_version = apply::mark_adopted(planned, &self.calls).await?.metadata.resource_version;
        }
        let others = live.owner_references.iter().flatten().filter(|reference| reference.controller != Some(true));
        let ours = wanted["ownerReferences"].as_array().into_iter().flatten().cloned();
        let owners: Vec<Value> = others.map(|reference| json!(reference)).chain(ours).collect();
        let patch = json!({"metadata": {
            "resourceVersion": live.resource_version,
            "labels": wanted.get("labels"),
            "annotations": wanted.get("annotations"),
            "ownerReferences": owners,
        }});
        self.calls.merge(&planned.kind, &id, &patch).await.map_err(ReconcileError::Look)
    }
}

/// A revision that is taken over, and what decides what is recorded of it. Pure.
pub struct Taken<'a> {
    pub latest: &'a Release,
    pub history: &'a History,
    /// The digest of what spec and chart say now.
    pub wanted: &'a str,
    /// Whether the status speaks of the spec as it is now.
    pub is_observed: bool,
}

impl Taken<'_> {
    /// Our part of its record. `fresh` is that of a new one.
    pub fn own(&self, fresh: Own) -> Own {
        let digest = self.latest.digest().unwrap_or_default().to_owned();
        let overrides = match self.is_observed {
            true => Some(self.wanted),
            false => overridden(self.history),
        };
        let hold = overrides.filter(|overridden| *overridden != digest).map(|overridden| Hold {
            to: rolled_back_to(self.latest),
            digest: overridden.to_owned(),
            by: HeldBy::Helm,
            failed: None,
        });
        Own { digest, hold, kept: self.history.kept().to_vec(), ..fresh }
    }
}

/// Whether a release was made from a watch's chart, by name and source.
pub fn is_of_chart(release: &Release, chart: &Chart) -> bool {
    release.chart_name() == chart.name && check_source(&release.chart, &chart.metadata).is_ok()
}

/// Says how a release's chart differs from the watch's where both have the same name. A chart that names neither `home` nor `sources` does not say where
/// it comes from: then its version in the record must not be newer as well.
fn check_source(recorded: &Value, chart: &Value) -> Result<(), String> {
    let is_set = |value: &Value| {
        !value.is_null() && value.as_str() != Some("") && value.as_array().is_none_or(|list| !list.is_empty())
    };
    let source = |chart: &Value| ["home", "sources"].map(|key| Some(chart[key].clone()).filter(is_set));
    if source(recorded) != source(chart) {
        return Err("comes from a chart with another `home` or other `sources`".to_owned());
    }
    let version = |chart: &Value| chart["version"].as_str().unwrap_or_default().to_owned();
    let (theirs, ours) = (version(recorded), version(chart));
    match source(chart) == [None, None] && is_newer(&theirs, &ours) {
        true => Err(format!(
            "comes from version {theirs} of a chart without `home` and `sources`, and this kind's chart has version {ours}, which is not as new"
        )),
        false => Ok(()),
    }
}

/// Whether one semantic version may be above another. Versions that cannot be compared are not above only if they are the same.
fn is_newer(one: &str, other: &str) -> bool {
    let core = |version: &str| -> Option<Vec<u64>> {
        let numbers = version.split(['-', '+']).next().unwrap_or_default().trim_start_matches('v');
        numbers.split('.').map(|number| number.parse().ok()).collect()
    };
    match (core(one), core(other)) {
        (Some(a), Some(b)) if a != b => a > b,
        _ => one != other,
    }
}

/// Whether a record holds just what was rendered.
pub(super) fn is_same_content(recorded: &Release, rendered: &Rendered, wish: &Wish) -> bool {
    let hooks: Vec<HookRecord> = rendered.hooks.iter().map(hooks::recorded).collect();
    let plain = |hook: &HookRecord| HookRecord { last_run: Default::default(), ..hook.clone() };
    let objects = manifest::read_record(&recorded.manifest.read()).map(|recorded| recorded.objects);
    recorded.config == *wish.values.json()
        && recorded.chart["version"] == wish.chart.metadata["version"]
        && recorded.hooks.iter().map(plain).collect::<Vec<_>>() == hooks
        && objects.is_ok_and(|objects| is_permutation(&objects, &rendered.objects))
}

fn is_permutation(one: &[Object], other: &[Object]) -> bool {
    let keyed = |objects: &[Object]| -> HashMap<ObjectKey, Value> {
        objects.iter().map(|object| (object.id().key(), object.value().clone())).collect()
    };
    one.len() == other.len() && keyed(one) == keyed(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_with_another_source_is_another_chart() {
        let chart = |home: &str, version: &str| json!({"name": "app", "home": home, "version": version});
        assert_eq!(check_source(&chart("a", "2.0.0"), &chart("a", "1.0.0")), Ok(()));
        assert!(check_source(&chart("a", "1.0.0"), &chart("b", "1.0.0")).is_err());
        assert!(check_source(&chart("", "1.0.0"), &chart("b", "1.0.0")).is_err());
        let empty = json!({"home": "", "sources": [], "version": "1.0.0"});
        assert_eq!(check_source(&json!({"version": "1.0.0"}), &empty), Ok(()));
    }

    #[test]
    fn without_a_source_the_recorded_chart_must_not_be_newer() {
        let checked = |recorded: &str, chart: &str| {
            check_source(&json!({"version": recorded}), &json!({"version": chart})).is_ok()
        };
        assert!(checked("1.2.3", "1.2.3") && checked("1.9.0", "1.10.0") && checked("v1.0.0", "1.0.1"));
        assert!(!checked("1.10.0", "1.9.0") && !checked("1.0.0-rc2", "1.0.0-rc1") && !checked("odd", "1.0.0"));
    }
}
