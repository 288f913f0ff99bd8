//! Taking charge of a revision that is in the cluster already: what helm or operator-sdk installed, what a person rolled back to
//! with helm, what belongs to an earlier life of the custom resource.
//!
//! Its objects are applied where they are, as the record says, with our marks. Nothing is made again, no new revision comes of
//! it, and the record gets our part only when all of it is done; so a crash has it done once more, and that changes nothing.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::holds::{held_sentence, overridden, rolled_back_to};
use super::journal::{self, Stage};
use super::subject::Wish;
use super::{ReconcileError, Subject};
use crate::apply;
use crate::chart::{Chart, recorded};
use crate::children::ends_by_itself;
use crate::course::Taking;
use crate::manifest;
use crate::plan::{self, Planned};
use crate::preflight::preflight;
use crate::release::mask::sourced;
use crate::release::{Applied, HeldBy, History, Hold, Own, Release};
use crate::values::Values;

impl Subject<'_> {
    /// Makes the latest revision ours.
    pub(super) async fn take_charge(
        &self,
        taking: Taking,
        wish: &Wish,
        history: &History,
    ) -> Result<Release, ReconcileError> {
        let Some(latest) = history.latest() else { return Err(ReconcileError::Unsettled) };
        journal::note_revision(latest.revision);
        let mut own = self.own_of_taken(taking, wish, history, latest);
        let kinds = self.context.kinds.kinds();
        let members = plan::members(&latest.manifest, &self.namespace, &kinds);
        // Before anything is touched: what cannot be recorded is not taken.
        self.store.check_size(&Release { own: Some(Own { objects: members, ..own.clone() }), ..latest.clone() })?;
        own.objects = self.apply_in_place(latest).await?;
        let taken = self.store.update(&Release { own: Some(own), ..latest.clone() }).await?;
        self.tell_of(taking, &taken).await;
        Ok(taken)
    }

    fn own_of_taken(&self, taking: Taking, wish: &Wish, history: &History, latest: &Release) -> Own {
        let taken = Taken { taking, latest, history, wanted: &wish.digest, is_observed: self.is_observed(self.cr) };
        // Whoever wrote it, the values are where ours are, or were.
        let before = sourced(latest, history.iter()).into_iter().chain(wish.values.sourced()).cloned();
        let sourced = before.collect::<BTreeSet<_>>().into_iter().collect();
        let fresh = Own { sourced, ..self.own(String::new()) };
        taken.own(fresh, is_same_input(latest, &wish.chart, &wish.values))
    }

    /// Applies the objects of a revision that is there, and says what they are. What has ended and was cleaned up is not
    /// started again, and what cannot be changed is left as it is.
    async fn apply_in_place(&self, release: &Release) -> Result<Vec<Applied>, ReconcileError> {
        let rendered = manifest::read_record(&release.manifest)?;
        self.learn_secrets(&rendered.objects, &release.hooks);
        let wanted: Vec<_> = rendered.objects.iter().map(|object| object.gvk()).collect();
        let kinds = self.context.kinds.kinds_with(&wanted).await?;
        let target = self.target(release.chart_name(), &release.hooks);
        let mut plan = plan::plan(rendered, &[], &target, &kinds)?;
        self.check_reach(&plan, &[], &kinds).await?;
        let _claimed = self.context.claims.claim(plan.ids().map(|id| id.key()).collect()).await;
        let there: Vec<Applied> = plan.ids().map(|id| Applied::new(id, None)).collect();
        self.leave_to_others(&mut plan, &there).await?;
        let known = |_: &_, _: &str| false;
        let preflight = preflight(&plan, &target, &known, self.allowed(true), &self.calls);
        let preflight = self.stage(Stage::Preflight, preflight).await?;
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
            self.mark_only(planned).await?;
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
    async fn mark_only(&self, planned: &Planned) -> Result<(), ReconcileError> {
        let (id, wanted) = (planned.object.id(), &planned.object.value()["metadata"]);
        let live = self.calls.metadata(&planned.kind, &id).await.map_err(ReconcileError::Look)?;
        let Some(live) = live else { return Ok(()) };
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

    async fn tell_of(&self, taking: Taking, taken: &Release) {
        let (revision, chart) = (taken.revision, &taken.chart);
        let text = |key: &str| chart[key].as_str().unwrap_or_default();
        let (reason, message) = match taking {
            Taking::Adopted => {
                let made = format!("chart {} {}", text("name"), text("version"));
                ("Adopted", format!("Took over the release {} at revision {revision} ({made})", self.release))
            }
            Taking::ByHelm => match taken.own.as_ref().and_then(|own| own.hold.as_ref()) {
                Some(hold) => {
                    ("Held", format!("Revision {revision} ({}) is held: {}", taken.description, held_sentence(hold)))
                }
                // `helm test` writes a record anew, and nothing else happened.
                None => {
                    tracing::debug!("helm wrote the record of what the spec asks for");
                    return;
                }
            },
            Taking::NewLife => {
                ("TookOver", format!("Took over revision {revision} from an earlier custom resource of this name"))
            }
        };
        self.tell(reason, &message).await;
    }
}

/// A revision that is taken over, and what decides what is recorded of it. Pure.
pub struct Taken<'a> {
    pub taking: Taking,
    pub latest: &'a Release,
    pub history: &'a History,
    /// The digest of what spec and chart say now.
    pub wanted: &'a str,
    /// Whether the status speaks of the spec as it is now.
    pub is_observed: bool,
}

impl Taken<'_> {
    /// Our part of its record. `fresh` is that of a new one.
    pub fn own(&self, fresh: Own, is_same_input: bool) -> Own {
        match (self.taking, &self.latest.own) {
            (Taking::NewLife, Some(own)) => Own { owner: fresh.owner, ..own.clone() },
            (Taking::Adopted, _) => {
                let digest = if is_same_input { self.wanted.to_owned() } else { String::new() };
                // What is asked for was asked of the release as it is.
                Own { digest, request: None, ..fresh }
            }
            _ => {
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
    }
}

/// Whether another tool made a revision from just what the custom resource asks for. Then its render is the right one, and
/// random values in it stay.
pub fn is_same_input(release: &Release, chart: &Chart, values: &Values) -> bool {
    let is_chart = |recorded: &Value| recorded::is_the_same(chart, recorded);
    release.config == *values.json() && release.recorded_chart().is_some_and(is_chart)
}
