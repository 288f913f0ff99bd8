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

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde_json::Value;

use crate::applyset::Contents;
use crate::calls::Calls;
use crate::course::{self, Course, Refusal, Request, Situation, Taking};
use crate::custom_resource::CustomResource;
use crate::discovery::{Cache, DiscoveryError};
use crate::error::sentence;
use crate::manifest::{self, ManifestError, Rendered};
use crate::object::ObjectId;
use crate::plan::{self, Owner, Plan, PlanError, Target};
use crate::preflight::Rejected;
use crate::reconcile::{Taken, is_same_input};
use crate::release::digest::Parts;
use crate::release::{self, Applied, History, Own, OwnerMark, Release, Revisions, Store, StoreError};
use crate::render::{self, Helm, RenderError};
use crate::values::{Values, ValuesError};
use crate::watches::{OnFailure, Watch};
use crate::wishes::{self, RollbackTo, Wishes};

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
}

/// The next step of a release.
pub struct Preview {
    pub owner: Owner,
    pub release: String,
    pub namespace: String,
    pub wishes: Wishes,
    pub history: History,
    pub course: Course,
    pub manner: Manner,
    /// The name of the chart that the plan is made from.
    pub chart: String,
    /// What is in the cluster by an earlier revision.
    pub before: Vec<Applied>,
    pub plan: Plan,
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
    Values(#[from] ValuesError),
    #[error("the spec cannot be read: {0}")]
    Spec(serde_json::Error),
    #[error(transparent)]
    Render(#[from] RenderError),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    Plan(#[from] PlanError),
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
}

impl Preview {
    pub async fn of(cr: &CustomResource, scene: &Scene<'_>) -> Result<Self, PreviewError> {
        if cr.metadata.deletion_timestamp.is_some() {
            return Err(PreviewError::Leaving);
        }
        let who = Who::of(cr, scene);
        let history = Store::new(scene.calls.clone()).history(&who.namespace, &who.release).await?;
        let spec = cr.spec().map_err(PreviewError::Spec)?;
        let values = Values::new(spec.as_ref(), &scene.watch.overrides)?;
        let digest = who.digest(scene, &values);
        let owner = who.owner_mark();
        let situation = who.situation(cr, &owner, &digest, scene);
        let course = course::decide(&Revisions::of(&history), Some(&history), &situation);
        let route = route(&course, &history, &format!("{}/{}", who.namespace, who.release), |taking| {
            who.after_taking(taking, cr, &history, &situation, is_same(&history, &values, scene))
        })?;
        let (plan, chart, before, manner) = who.planned(route, &history, &values, scene).await?;
        let Who { owner, release, namespace, wishes } = who;
        Ok(Preview { owner, release, namespace, wishes, history, course, manner, chart, before, plan })
    }

    pub fn target<'a>(&'a self, scene: &Scene<'_>) -> Target<'a> {
        Target {
            release: &self.release,
            namespace: &self.namespace,
            chart: &self.chart,
            owner: &self.owner,
            allow_empty: scene.watch.allow_empty,
        }
    }
}

fn is_same(history: &History, values: &Values, scene: &Scene<'_>) -> bool {
    history.latest().is_some_and(|latest| is_same_input(latest, &scene.watch.chart, values))
}

/// A custom resource and what its release is called.
struct Who {
    owner: Owner,
    release: String,
    namespace: String,
    wishes: Wishes,
}

impl Who {
    fn of(cr: &CustomResource, scene: &Scene<'_>) -> Self {
        let owner = Owner {
            gvk: scene.watch.gvk.clone(),
            namespace: cr.namespace(),
            name: cr.name_any(),
            uid: cr.metadata.uid.clone().unwrap_or_else(|| UNKNOWN_UID.to_owned()),
        };
        let fallback = scene.watch.release_namespace.as_deref().unwrap_or(scene.namespace);
        let namespace = owner.namespace.clone().unwrap_or_else(|| fallback.to_owned());
        let status = cr.status().unwrap_or_default();
        let told = status.pointer("/deployedRelease/name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let release = match told {
            Some(name) => name.to_owned(),
            None => scene.watch.release_name.name(&owner.gvk.kind, owner.namespace.as_deref(), &owner.name),
        };
        let wishes = Wishes::of(|key| cr.annotations().get(key).map(String::as_str), scene.watch);
        Who { owner, release, namespace, wishes }
    }

    fn owner_mark(&self) -> OwnerMark {
        OwnerMark {
            group: self.owner.gvk.group.clone(),
            kind: self.owner.gvk.kind.clone(),
            namespace: self.owner.namespace.clone(),
            name: self.owner.name.clone(),
            uid: self.owner.uid.clone(),
        }
    }

    fn digest(&self, scene: &Scene<'_>, values: &Values) -> String {
        release::digest(&Parts {
            chart: &scene.watch.chart.digest,
            release: &self.release,
            namespace: &self.namespace,
            values: &values.file_json(),
            options: &[],
        })
    }

    fn situation<'a>(
        &self,
        cr: &CustomResource,
        owner: &'a OwnerMark,
        wanted: &'a str,
        scene: &Scene<'a>,
    ) -> Situation<'a> {
        let status = cr.status().unwrap_or_default();
        Situation {
            owner,
            wanted,
            chart: &scene.watch.chart.name,
            request: match self.wishes.rollback_to {
                RollbackTo::Unset | RollbackTo::Wrong(_) => Request::Nothing,
                RollbackTo::Spec => Request::Spec,
                RollbackTo::Revision(revision) => Request::Revision(revision),
            },
            retries: self.wishes.retries,
            asked: wishes::asked(cr.annotations()),
            rolls_back: self.wishes.on_failure == OnFailure::Rollback,
            is_new: cr.finalizers().is_empty(),
            was_deployed: status.pointer("/deployedRelease/revision").is_some_and(Value::is_u64),
            was_ours: Contents::read(|key| cr.annotations().get(key).cloned()) != Contents::default(),
            now: Timestamp::now(),
        }
    }

    fn target<'a>(&'a self, chart: &'a str, scene: &Scene<'_>) -> Target<'a> {
        let allow_empty = scene.watch.allow_empty;
        Target { release: &self.release, namespace: &self.namespace, chart, owner: &self.owner, allow_empty }
    }

    /// What would be recorded of a revision that is taken over, and the course after that.
    fn after_taking(
        &self,
        taking: Taking,
        cr: &CustomResource,
        history: &History,
        situation: &Situation<'_>,
        is_same_input: bool,
    ) -> Course {
        let Some(latest) = history.latest() else { return Course::Deploy };
        let status = cr.status().unwrap_or_default();
        let observed = status["observedGeneration"].as_i64();
        let is_observed = observed.is_some() && observed == cr.metadata.generation;
        let taken = Taken { taking, latest, history, wanted: situation.wanted, is_observed };
        let request = match situation.request {
            Request::Revision(revision) => Some(revision),
            _ => None,
        };
        let fresh = Own { owner: situation.owner.clone(), request, ..Own::default() };
        let own = taken.own(fresh, is_same_input);
        let history = history.clone().with(Release { own: Some(own), ..latest.clone() });
        course::decide(&Revisions::of(&history), Some(&history), situation)
    }

    /// The plan, the name of its chart, what was there before, and how it is brought in.
    async fn planned(
        &self,
        route: Route<'_>,
        history: &History,
        values: &Values,
        scene: &Scene<'_>,
    ) -> Result<(Plan, String, Vec<Applied>, Manner), PreviewError> {
        if let Route::Record(record, manner) = route {
            let chart = record.chart_name().to_owned();
            match self.plan(manifest::read(&record.manifest)?, history, &chart, scene).await {
                // A record has no crds/: if one of those went, only a render brings it back.
                Err(PreviewError::Plan(PlanError::UnknownKind { .. })) => {}
                Err(error) => return Err(error),
                Ok((mut plan, before)) => {
                    if !matches!(manner, Manner::Rollout { .. }) {
                        plan.prune.clear();
                    }
                    return Ok((plan, chart, before, manner));
                }
            }
        }
        let chart = scene.watch.chart.name.clone();
        let rendered = self.render(values, history.deployed().is_some(), scene).await?;
        let (plan, before) = self.plan(rendered, history, &chart, scene).await?;
        Ok((plan, chart, before, Manner::Rollout { is_lenient: false }))
    }

    async fn plan(
        &self,
        rendered: Rendered,
        history: &History,
        chart: &str,
        scene: &Scene<'_>,
    ) -> Result<(Plan, Vec<Applied>), PreviewError> {
        let wanted: Vec<_> = rendered.objects.iter().chain(&rendered.crds).map(|object| object.gvk()).collect();
        let kinds = scene.kinds.kinds_with(&wanted).await?;
        let before = plan::before(history, &self.namespace, &kinds);
        Ok((plan::plan(rendered, &before, &self.target(chart, scene), &kinds)?, before))
    }

    async fn render(&self, values: &Values, is_upgrade: bool, scene: &Scene<'_>) -> Result<Rendered, PreviewError> {
        let kinds = scene.kinds.for_render().await?;
        let request = render::Request {
            chart: &scene.watch.chart,
            release: &self.release,
            namespace: &self.namespace,
            values,
            capabilities: &kinds.capabilities,
            is_upgrade,
            is_patient: false,
        };
        let text = scene.helm.template(&request).await?;
        Ok(manifest::read(&text)?)
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
        Course::Recover => nothing(format!(
            "the record of the release {release} went; the operator makes it anew from what is there, and nobody can tell before that what would change"
        )),
        Course::Wait { revision, status, .. } => nothing(format!(
            "another tool is at work on the release {release}: its revision {revision} is {}; the operator waits until that is over",
            status.as_str()
        )),
        Course::Stop(trouble) => nothing(format!(
            "the latest revision of {release} failed {} times, and is not tried again before the spec or the chart changes: {}",
            trouble.attempts, trouble.message
        )),
        Course::Refuse(refusal) => nothing(refused(refusal, release)),
    }
}

fn refused(refusal: &Refusal, release: &str) -> String {
    match refusal {
        Refusal::Owned(owner) => {
            format!("the release {release} exists and belongs to the {} {}", owner.kind, owner.name)
        }
        Refusal::OtherChart { theirs } => {
            format!(
                "the release {release} was made by another tool from another chart, {theirs}, so it is not taken over"
            )
        }
        Refusal::NoSuchRevision { wanted, known } => {
            let known: Vec<String> = known.iter().map(u32::to_string).collect();
            format!("the release {release} has no revision {wanted} to go back to; it has {}", known.join(", "))
        }
    }
}
