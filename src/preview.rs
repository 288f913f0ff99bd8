//! What the next reconcile would do, without doing it.
//!
//! ```text
//! custom resource ▶ history ▶ digest ▶ course ▶ record or render ▶ plan ─┬▶ objects  what would be applied
//!   + watch                                                              └▶ changes  what would become another
//! ```
//! It goes the way that [`crate::course`] says, as a reconcile does, but it has no watches: whatever they would know is asked for. It writes
//! nothing. Every call is a read or a dry run.
//!
//! | module | what is in it |
//! |---|---|
//! | [`changes`] | what would become of every object |
//! | [`others`] | what others decide in them |
//! | [`hidden`] | two versions of an object without the data of Secrets |
//! | [`unified`] | the difference of two objects as text |

pub mod changes;
pub mod hidden;
pub mod others;
pub mod unified;

use std::sync::Arc;

use kube::core::GroupVersionKind;

use crate::calls::Calls;
use crate::course::{self, Course, Noted, Refusal, Situation, Taking};
use crate::custom_resource::CustomResource;
use crate::discovery::{Cache, DiscoveryError};
use crate::error::sentence;
use crate::hooks::{self, Event};
use crate::identity::Identity;
use crate::manifest::{self, ManifestError, Rendered};
use crate::object::{Object, ObjectId};
use crate::plan::{self, Plan, PlanError, Target};
use crate::preflight::Rejected;
use crate::protected::{self, Protected, ProtectedObjects};
use crate::reach::trial::SOME_NAMESPACE;
use crate::reach::{self, Allowance, Beyond, Home, ReachError, Says, Trial};
use crate::reconcile::Taken;
use crate::redaction::Redactor;
use crate::release::mask;
use crate::release::{Applied, History, HookRecord, Own, Release, Revisions, Signer, Store, StoreError};
use crate::render::gateway::fence::Fence;
use crate::render::{self, Helm, Needs, RenderError};
use crate::sensitive::{self, NoObject};
use crate::sources::{self, WantedError};
use crate::unknown::{self, Known};
use crate::values::Values;
use crate::watches::Watch;

/// Stands for the UID of a custom resource that is not in the cluster yet.
pub const UNKNOWN_UID: &str = "unknown-until-it-is-made";

/// What a preview needs besides the custom resource.
pub struct Scene<'a> {
    pub watch: &'a Watch,
    pub helm: &'a Helm,
    pub calls: &'a Calls,
    pub kinds: &'a Cache,
    /// Where the releases of cluster-scoped resources live, unless the watch says it.
    pub namespace: &'a str,
    /// All kinds in watches.yaml.
    pub watched: &'a [GroupVersionKind],
    /// Where the operator runs, if that is known.
    pub operator: Option<&'a str>,
    /// By what release records are verified.
    pub signer: &'a Signer,
    /// Who is told what the operator would tell in events.
    pub warn: fn(&str),
}

/// The next step of a release.
pub struct Preview {
    pub identity: Identity,
    pub history: History,
    pub course: Course,
    pub manner: Manner,
    /// The revision whose record has the objects. None where the chart was rendered.
    pub source: Option<u32>,
    /// The name of the chart that the plan is made from.
    pub chart: String,
    /// The hooks of the revision.
    pub hooks: Vec<HookRecord>,
    /// What is in the cluster by an earlier revision.
    pub before: Vec<Applied>,
    pub plan: Plan,
    /// What must not be shown.
    pub redactor: Redactor,
}

/// How the objects get into the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// The revision stays, and only what somebody changed is put right.
    Repair,
    /// What is there is taken over as it is.
    InPlace,
    /// A new revision. A lenient one leaves alone what cannot be changed.
    Rollout { is_lenient: bool },
}

#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    #[error(transparent)]
    Wanted(#[from] WantedError),
    #[error(transparent)]
    Render(#[from] RenderError),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Reach(#[from] ReachError),
    #[error(transparent)]
    NoObject(#[from] NoObject),
    #[error(transparent)]
    Protected(#[from] Protected),
    #[error(transparent)]
    Rejected(#[from] Rejected),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot look at {id}: {}", sentence(error))]
    Look { id: Box<ObjectId>, error: kube::Error },
    #[error("{id} is refused: {complaint}")]
    Refused { id: Box<ObjectId>, complaint: String },
    #[error("{0} is being deleted; waiting until it is gone")]
    Going(Box<ObjectId>),
    #[error("the custom resource is being deleted, and its release goes with it")]
    Leaving,
    /// The operator does nothing, and this is why.
    #[error("{0}")]
    Nothing(String),
    /// One of the others, without what must not be shown.
    #[error("{0}")]
    Redacted(String),
}

impl PreviewError {
    fn without(self, redactor: &Redactor) -> Self {
        match redactor.is_empty() {
            true => self,
            false => PreviewError::Redacted(redactor.text(&self.to_string()).into_owned()),
        }
    }
}

impl Preview {
    pub async fn of(cr: &CustomResource, scene: &Scene<'_>) -> Result<Self, PreviewError> {
        if cr.metadata.deletion_timestamp.is_some() {
            return Err(PreviewError::Leaving);
        }
        let (identity, history) = Self::recorded(cr, scene).await?;
        let read = async |references: &[_]| sources::read_once(scene.calls, &identity, references).await;
        let known = Known::of(&scene.watch.chart).map(Arc::new);
        let (values, unknown) = sources::values_of(cr, scene.watch, &identity, known, read).await?;
        let mut redactor = Redactor::default();
        redactor.learn(values.json(), values.sourced());
        mask::learn(&mut redactor, history.iter());
        if let Some(sentence) = unknown::sentence(&unknown, &scene.watch.chart.name) {
            (scene.warn)(&redactor.text(&sentence));
        }
        let made = Self::made(cr, scene, identity, history, &values, &redactor).await;
        match made {
            Ok(made) => Ok(Preview { redactor, ..made }),
            Err(error) => Err(error.without(&redactor)),
        }
    }

    /// Whose release it is, and its records. The status names the release only where that has records: others than the operator may
    /// write it.
    async fn recorded(cr: &CustomResource, scene: &Scene<'_>) -> Result<(Identity, History), PreviewError> {
        let identity = |has_records: bool| {
            let mut identity = Identity::of(cr, scene.watch, scene.namespace, None, |_, _| has_records);
            if identity.owner.uid.is_empty() {
                identity.owner.uid = UNKNOWN_UID.to_owned();
            }
            identity
        };
        let (told, by_template) = (identity(true), identity(false));
        if let Some(why) = told.misplaced(scene.watch) {
            return Err(PreviewError::Nothing(why));
        }
        let store = Store::new(scene.calls.clone()).signed_by(scene.signer.clone(), &told.owner.uid);
        let history = store.history(&told.namespace, &told.release).await?;
        if !history.is_empty() || told.release == by_template.release {
            return Ok((told, history));
        }
        let history = store.history(&by_template.namespace, &by_template.release).await?;
        Ok((by_template, history))
    }

    async fn made(
        cr: &CustomResource,
        scene: &Scene<'_>,
        identity: Identity,
        history: History,
        values: &Values,
        redactor: &Redactor,
    ) -> Result<Self, PreviewError> {
        let digest = identity.digest(&scene.watch.chart, values);
        let owner = identity.owner_mark();
        let noted = (Noted::Unknown, false);
        let situation = identity.situation(cr, &owner, &digest, &scene.watch.chart.name, noted);
        let course = course::decide(&Revisions::of(&history), Some(&history), &situation);
        let release = format!("{}/{}", identity.namespace, identity.release);
        let route = route(&course, &history, &release, &scene.watch.chart.name, |taking| {
            let own = identity.own(String::new());
            let is_observed = identity.is_observed(cr);
            after_taking(taking, own, is_observed, &history, &situation)
        })?;
        let drafter = Drafter { identity: &identity, history: &history, values, scene, redactor };
        let Drafted { plan, source, chart, hooks, before, manner } = drafter.planned(route).await?;
        let redactor = Redactor::default();
        Ok(Preview { identity, history, course, manner, source, chart, hooks, before, plan, redactor })
    }

    /// The record that has the objects, if they are not rendered.
    pub fn record(&self) -> Option<&Release> {
        self.history.get(self.source?)
    }

    /// The revision that stays although the spec says something else.
    pub fn held(&self) -> Option<u32> {
        let latest = self.history.latest().filter(|_| self.course == Course::Keep)?;
        let own = latest.own.as_ref()?;
        own.hold.as_ref().filter(|hold| hold.digest != own.digest).map(|_| latest.revision)
    }

    /// The hooks of the new revision that would be made, with their events.
    pub fn hooks_to_run(&self) -> Vec<String> {
        let Manner::Rollout { is_lenient } = self.manner else { return vec![] };
        let events = match (is_lenient, self.history.stood_before(self.history.next_revision())) {
            (true, _) => [Event::PreRollback, Event::PostRollback],
            (false, true) => [Event::PreUpgrade, Event::PostUpgrade],
            (false, false) => [Event::PreInstall, Event::PostInstall],
        };
        let on = events.into_iter().filter(|event| self.identity.wishes.hooks.run_at(*event));
        let named = |event: Event| {
            let hooks = hooks::at(event, &self.hooks).into_iter().map(|hook| &self.hooks[hook]);
            hooks.map(move |hook| format!("{} {} ({})", hook.kind, hook.name, event.as_str())).collect::<Vec<_>>()
        };
        on.flat_map(named).collect()
    }

    pub fn target(&self) -> Target<'_> {
        self.identity.target(&self.chart, &self.hooks)
    }
}

/// The course after a revision was taken over, by what would be recorded of it. `fresh` is our part of a new record.
fn after_taking(taking: Taking, fresh: Own, is_observed: bool, history: &History, situation: &Situation<'_>) -> Course {
    let Some(latest) = history.latest().filter(|_| taking == Taking::ByHelm) else { return Course::Deploy };
    let taken = Taken { latest, history, wanted: situation.wanted, is_observed };
    let own = taken.own(fresh);
    let history = history.clone().with(Release { own: Some(own), ..latest.clone() });
    course::decide(&Revisions::of(&history), Some(&history), situation)
}

/// Makes the plan.
struct Drafter<'a> {
    identity: &'a Identity,
    history: &'a History,
    values: &'a Values,
    scene: &'a Scene<'a>,
    redactor: &'a Redactor,
}

/// A plan, what it is made from, what was there before, and how it is brought in.
struct Drafted {
    plan: Plan,
    source: Option<u32>,
    chart: String,
    hooks: Vec<HookRecord>,
    before: Vec<Applied>,
    manner: Manner,
}

impl Drafter<'_> {
    async fn planned(&self, route: Route<'_>) -> Result<Drafted, PreviewError> {
        if let Route::Record(record, manner) = route {
            let (chart, hooks) = (record.chart_name().to_owned(), record.hooks.clone());
            match self.plan(manifest::read_record(&record.manifest.read())?, &chart, &hooks).await {
                // A record has no crds/: if one of those went, only a render brings it back.
                Err(PreviewError::Plan(PlanError::UnknownKind { .. })) => {}
                Err(error) => return Err(error),
                Ok((mut plan, before)) => {
                    // Of a revision that stays, only what somebody changed is written.
                    if manner != Manner::Repair {
                        self.check_reach(&plan, &hooks).await?;
                    }
                    if !matches!(manner, Manner::Rollout { .. }) {
                        plan.prune.clear();
                    }
                    return Ok(Drafted { plan, source: Some(record.revision), chart, hooks, before, manner });
                }
            }
        }
        let chart = self.scene.watch.chart.name.clone();
        let rendered = self.render().await?;
        let hooks: Vec<HookRecord> = rendered.hooks.iter().map(hooks::recorded).collect();
        let (plan, before) = self.plan(rendered, &chart, &hooks).await?;
        self.check_reach(&plan, &hooks).await?;
        Ok(Drafted { plan, source: None, chart, hooks, before, manner: Manner::Rollout { is_lenient: false } })
    }

    /// Refuses what the operator would refuse, as far as it is known here which objects are the operator's own.
    async fn check_reach(&self, plan: &Plan, hooks: &[HookRecord]) -> Result<(), PreviewError> {
        let Identity { namespace: home, owner, .. } = self.identity;
        let Scene { watch, helm, kinds, watched, .. } = self.scene;
        let kinds = kinds.kinds();
        let hooked: Vec<Object> = hooks.iter().flat_map(hooks::objects_of).collect();
        hooked.iter().try_for_each(sensitive::check)?;
        let namespace = self.scene.operator.unwrap_or_default().to_owned();
        let protected = ProtectedObjects { namespace, kinds: watched.to_vec(), ..ProtectedObjects::default() };
        let has_consent = watch.allow.is_some_and(|reach| reach.covers(Beyond::OperatorNamespace));
        protected::check_revision(&protected, has_consent, plan, &hooked, home, &kinds)?;
        let inside = Home { namespace: home, kind: &watch.gvk, watched };
        let mut outside = reach::of_plan(plan, &inside);
        outside.extend(reach::of_hooks(hooks, &inside, &kinds));
        if outside.is_empty() {
            return Ok(());
        }
        let allowance = match watch.allow {
            Some(reach) => Allowance { reach, says: Says::Watch },
            None => {
                let home = if owner.namespace.is_some() { SOME_NAMESPACE } else { home };
                let trial = Trial::of(&watch.chart, &watch.overrides, home, &kinds.capabilities, helm).await;
                let trial = trial.map_err(ReachError::from)?;
                trial.allowance(&watch.gvk, watched, |gvk| kinds.get(gvk).map(|kind| kind.namespaced))
            }
        };
        Ok(allowance.check(outside).map_err(ReachError::from)?)
    }

    async fn plan(
        &self,
        rendered: Rendered,
        chart: &str,
        hooks: &[HookRecord],
    ) -> Result<(Plan, Vec<Applied>), PreviewError> {
        let wanted: Vec<_> = rendered.objects.iter().chain(&rendered.crds).map(|object| object.gvk()).collect();
        let kinds = self.scene.kinds.kinds_with(&wanted).await?;
        let before = plan::before(self.history, &self.identity.namespace, &kinds)?;
        let mut plan = plan::plan(rendered, &before, &self.identity.target(chart, hooks), &kinds)?;
        let first = [Event::PreInstall, Event::PreUpgrade, Event::PreRollback];
        let is_first = |hook: &&HookRecord| first.iter().any(|event| event.is_of(hook));
        plan.hooked = hooks.iter().filter(is_first).map(|hook| hook.name.clone()).collect();
        Ok((plan, before))
    }

    async fn render(&self) -> Result<Rendered, PreviewError> {
        let kinds = self.scene.kinds.for_render().await?;
        let upgrade_to = self.identity.upgrade_to(self.history);
        let request = render::Request {
            chart: &self.scene.watch.chart,
            release: &self.identity.release,
            namespace: &self.identity.namespace,
            values: self.values,
            capabilities: &kinds.capabilities,
            is_upgrade: upgrade_to.is_some(),
            revision: upgrade_to.unwrap_or(1),
            is_patient: false,
        };
        let Scene { watch, helm, calls, .. } = self.scene;
        let Some(needs) = Needs::of(&watch.chart, self.values, watch.lookup, &kinds.catalog) else {
            return Ok(manifest::read(&helm.template(&request).await?)?);
        };
        let fence = Fence::new(watch.lookup, &self.identity.target(&watch.chart.name, &[]), self.history);
        let through = needs.through(&watch.chart, watch.crds, kinds.clone(), (*calls).clone(), fence);
        let (text, seen) = helm.template_through(&request, through).await;
        seen.refusals().iter().for_each(|refusal| (self.scene.warn)(&self.redactor.text(refusal)));
        Ok(manifest::read(&text?)?)
    }
}

/// Where the objects come from, and how they get into the cluster.
#[derive(Debug)]
enum Route<'a> {
    Record(&'a Release, Manner),
    Render,
}

/// The route of a course. `after_taking` tells how it goes on where a revision is taken over first.
fn route<'a>(
    course: &Course,
    history: &'a History,
    release: &str,
    chart: &str,
    after_taking: impl FnOnce(Taking) -> Course,
) -> Result<Route<'a>, PreviewError> {
    let nothing = |why: String| Err(PreviewError::Nothing(why));
    let by = |record: Option<&'a Release>, manner| Ok(record.map_or(Route::Render, |it| Route::Record(it, manner)));
    let is_held = history.latest().and_then(|latest| latest.own.as_ref()).is_some_and(|own| own.hold.is_some());
    match course {
        Course::Keep => by(history.latest(), Manner::Repair),
        Course::Resume => by(history.latest(), Manner::Rollout { is_lenient: is_held }),
        Course::Again => by(history.deployed(), Manner::Rollout { is_lenient: false }),
        Course::TakeCharge(taking) => match after_taking(*taking) {
            Course::Keep => by(history.latest(), Manner::InPlace),
            _ => Ok(Route::Render),
        },
        // The revision that is there stays, and is held from now on.
        Course::RollBack { to, .. } if history.stands(*to) => by(history.get(*to), Manner::Repair),
        Course::RollBack { to, .. } => by(history.get(*to), Manner::Rollout { is_lenient: true }),
        Course::Deploy | Course::Reinstall | Course::Ask => Ok(Route::Render),
        Course::Sign => nothing(format!("the operator signs the records of the release {release} as they are")),
        Course::Observe { revision, .. } => nothing(format!(
            "somebody else made revision {revision} of the release {release}; it stays until the spec or the chart changes, and the operator does not repair it"
        )),
        Course::Recover => nothing(format!(
            "the record of the release {release} was deleted, or is that of an earlier custom resource; the operator renders the chart again and keeps generated values of the objects that exist"
        )),
        Course::Wait { revision, status, .. } => nothing(format!(
            "another tool is at work on the release {release}: its revision {revision} is {}; the operator waits until that is over",
            status.as_str()
        )),
        Course::Stop(trouble) => nothing(format!(
            "the latest revision of {release} failed {} times, and is not tried again before the spec, the chart or an annotation changes: {}",
            trouble.attempts, trouble.message
        )),
        // Only the operator can read its ledger.
        Course::Refuse(Refusal::Unproven { revision, .. }) => nothing(format!(
            "the record of revision {revision} of the release {release} is not proven: if the operator's ledger has the release, the operator renders the chart again and keeps generated values of the objects that exist; otherwise it refuses the record until an administrator runs `chartwright trust open`"
        )),
        Course::Refuse(refusal) => nothing(refusal.sentence(release, chart)),
    }
}

#[cfg(test)]
mod tests;
