//! The story of one custom resource: from its spec to objects in the cluster, and back out.
//!
//! ```text
//! records ▶ values ▶ digest ▶ course ── as it should be ──▶ heal what drifted ──┐
//!                               │ unfinished: resume        │                    ▼
//!                               │ to go back: roll back ────┤         observe ▶ status
//!                               │ another's: take charge ───┤                    ▲
//!                               └─ new ▶ render ────────────┴▶ roll out ─────────┘
//! ```
//! What the watches know is enough for a resource at rest: the release's history is read only where something is to be done.
//! Nothing here holds a slot while it waits. What a stage decides is decided in that stage; this module only leads from one
//! to the next.

mod awaiting;
mod deadline;
mod discretion;
mod failing;
mod fights;
mod generated;
mod heal;
mod holds;
mod hooking;
mod journal;
mod memory;
mod others;
mod pace;
mod pausing;
mod reaching;
mod rechecking;
mod recording;
mod recover;
mod report;
mod rollout;
mod signing;
mod subject;
mod takeover;
mod uninstall;
mod unproven;

use std::time::Duration;

use crate::course::{self, Course, Taking};
use crate::custom_resource::CustomResource;
use crate::error::{Category, Retry};
use crate::manifest;
use crate::queue::{Turn, Urgency};
use crate::release::{History, Hold, Own, Release, Revisions, Status, Summary};
use crate::render;
use crate::status::{Failure, Stage};
use recover::Recovered;
use signing::Signing;

pub use failing::ReconcileError;
pub use journal::{SELDOM, milliseconds, note_outcome, span};
pub use memory::Memory;
pub use subject::{Context, Subject, Wish};
pub use takeover::Taken;

/// What to do after a reconcile that went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait for a change, or for the period.
    Rest,
    /// Wait for a change, and for nothing else.
    Wait,
    /// Look again after a while.
    Look(Duration),
    /// Something is still to be told.
    Soon(Duration),
    /// What failed is tried again then, and not before.
    Pause(Duration),
}

/// The revision that is in the cluster after a reconcile.
pub struct Standing {
    pub revision: u32,
    /// None where another tool made it.
    pub own: Option<Own>,
    /// Its record, where it was at hand or the status does not tell of it yet.
    pub record: Option<Release>,
    /// Why it stays, if the spec asks for something else.
    pub held: Option<Hold>,
}

impl Standing {
    /// A hold of something else than what is wanted now is over.
    fn held_from(self, wanted: &str) -> Self {
        let held = self.held.filter(|hold| hold.digest == wanted);
        Standing { held, ..self }
    }

    /// What went wrong although it stands.
    pub fn failure(&self) -> Option<Failure> {
        let own = self.own.as_ref()?;
        let failed = |category, message: &str| Failure { category, message: message.to_owned(), stage: Stage::Upgrade };
        if let Some(trouble) = own.trouble.as_ref().filter(|trouble| trouble.is_late) {
            return Some(failed(Category::NotReadyInTime, &format!("revision {}: {}", self.revision, trouble.message)));
        }
        let hold = self.held.as_ref()?;
        let to = hold.to.unwrap_or_default();
        let message = format!("revision {to} is in the place of one that failed: {}", hold.failed.as_ref()?);
        Some(failed(Category::RolledBack, &message))
    }
}

impl From<&Summary> for Standing {
    fn from(summary: &Summary) -> Self {
        let held = summary.own.as_ref().and_then(|own| own.hold.clone());
        Standing { revision: summary.revision, own: summary.own.clone(), record: None, held }
    }
}

impl From<Release> for Standing {
    fn from(release: Release) -> Self {
        Standing { record: Some(release.clone()), ..Standing::from(&Summary::of(&release)) }
    }
}

/// How soon to look whether helm is done.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Brings one custom resource's objects to what its spec says, and reports how it went.
pub async fn reconcile(cr: &CustomResource, context: &Context, turn: &Turn) -> Result<Next, ReconcileError> {
    let subject = Subject::of(cr, context, turn).await;
    subject.tell_problems().await;
    if let Some(next) = subject.pause().await? {
        return Ok(next);
    }
    if cr.metadata.deletion_timestamp.is_some() {
        return Box::pin(subject.uninstall()).await.map_err(|error| subject.shown_error(error));
    }
    let mut known = Revisions::default();
    subject.forget_attempt();
    let result = deploy(&subject, &mut known).await;
    match result {
        Err(ReconcileError::Moment) => return Ok(Next::Look(LOOK_AGAIN)),
        Err(ReconcileError::TooEarly(left)) => return Ok(Next::Pause(left)),
        Err(ReconcileError::AtHook(waiting)) => {
            tracing::debug!("{waiting}");
            subject.write_at_hook(&waiting.to_string()).await?;
            return Ok(Next::Look(waiting.look));
        }
        Err(ReconcileError::AtObject { message, look }) => {
            tracing::debug!("{message}");
            subject.write_at_object(&message).await?;
            return Ok(Next::Look(look));
        }
        _ => {}
    }
    if let Some(error) = result.as_ref().err().filter(|error| error.is_told()) {
        tell_failure(&subject, error, &known).await.map_err(|error| subject.shown_error(error))?;
    }
    let mut standing = result.map_err(|error| subject.shown_error(error))?;
    subject.forget_attempt();
    subject.forget_pause();
    subject.forget_awaited();
    let next = subject.report(Some(&mut standing), None).await.map_err(|error| subject.shown_error(error))?;
    tracing::debug!(totalMs = subject.journal.total_ms(), "looked at");
    Ok(next)
}

/// Tells why the newest spec is not in the cluster. What is there and ours is still kept in order.
async fn tell_failure(subject: &Subject<'_>, error: &ReconcileError, known: &Revisions) -> Result<(), ReconcileError> {
    let owner = subject.owner_mark();
    let is_ours = |summary: &&Summary| summary.own.as_ref().is_some_and(|own| own.owner.is_same_resource(&owner));
    let stands = known.standing().filter(is_ours);
    let stage = if stands.is_some() { Stage::Upgrade } else { Stage::Install };
    let failure = Failure { category: error.category(), message: subject.shown(&error.to_string()), stage };
    subject.remember(error, &failure);
    subject.pause_after(error);
    if let ReconcileError::TooManyRevisions { wait, .. } = error {
        subject.turn.again(*wait, Urgency::Recheck);
    }
    let latest = known.latest().filter(is_ours).filter(|latest| latest.status == Status::Deployed);
    let kept = match latest.filter(|_| !subject.was_looked_after()) {
        // The new spec was refused before anything changed.
        Some(latest) => Some(keep_in_order(subject, latest).await),
        None => None,
    };
    let mut standing = match kept {
        Some(Ok(standing)) => Some(standing),
        Some(Err(error)) => {
            put_off_repair(subject, &error);
            stands.map(Standing::from)
        }
        None => stands.map(Standing::from),
    };
    // What was given up is repaired only once somebody changes something.
    if !matches!(error, ReconcileError::GaveUp(_))
        && let Err(error) = Box::pin(subject.finish_replacements(known)).await
    {
        put_off_repair(subject, &error);
    }
    // The error decides when it is tried again. What is put off beside it has a time of its own.
    if let Next::Look(after) | Next::Soon(after) = subject.report(standing.as_mut(), Some(failure)).await? {
        subject.turn.again(after, Urgency::Recheck);
    }
    Ok(())
}

fn put_off_repair(subject: &Subject<'_>, error: &ReconcileError) {
    let why = subject.shown(&error.to_string());
    match error.category() {
        Category::NamespaceTerminating => tracing::debug!("cannot look after what is deployed: {why}"),
        category => tracing::warn!(reason = category.as_str(), "cannot look after what is deployed: {why}"),
    }
    if error.category().retry() != Retry::Never {
        subject.turn.again(REPAIR_AGAIN, Urgency::Recheck);
    }
}

/// How soon a repair that failed is tried again, where nothing else would try it.
const REPAIR_AGAIN: Duration = Duration::from_secs(10);

/// What is in the cluster after this. `known` becomes what was known about the release when it began.
async fn deploy(subject: &Subject<'_>, known: &mut Revisions) -> Result<Standing, ReconcileError> {
    subject.check_namespace()?;
    subject.check_is_watched()?;
    let is_asked = subject.open_request().is_some();
    let mut history = None;
    *known = match subject.revisions()? {
        Some(seen) if !is_asked => seen,
        _ => Revisions::of(history.insert(subject.history().await?)),
    };
    if is_asked {
        subject.distrust_sources();
    }
    let wish = subject.wish().await?;
    let owner = subject.owner_mark();
    let course = course::decide(known, history.as_ref(), &subject.situation(&wish, &owner).await?);
    journal::note_course(&course);
    if let Some(latest) = known.latest().filter(|latest| course != Course::Resume && subject.is_at_hook(latest)) {
        // What is newer goes ahead of the next hook, and not of one that runs.
        Box::pin(subject.see_hook_end(latest.revision)).await?;
    }
    Box::pin(subject.check_awaited(&course, known, &wish.digest)).await?;
    if let (Course::Keep, Some(history)) = (&course, &history)
        && is_asked
        && Box::pin(subject.renders_something_else(&wish, history)).await?
    {
        return render_over(subject, &wish, history).await;
    }
    if let (Course::Keep, Some(latest)) = (&course, known.latest())
        && known.leftovers().is_empty()
        && !subject.has_stale_request(latest.own.as_ref())
    {
        match keep_in_order(subject, latest).await {
            Err(error) if is_about_unknown_kind(&error) => {}
            result => return result.map(|standing| standing.held_from(&wish.digest)),
        }
    }
    // Boxed, as all that a custom resource at rest does not need: many are looked at together.
    let standing = Box::pin(follow(subject, known, history, &wish, course)).await?;
    Ok(standing.held_from(&wish.digest))
}

/// How often a course may lead to another: to ask, to take charge, to deploy.
const MOST_TURNS: usize = 5;

/// Follows a course to its end. `known` and the history are read anew where the course asks for it.
async fn follow(
    subject: &Subject<'_>,
    known: &mut Revisions,
    mut history: Option<History>,
    wish: &Wish,
    mut course: Course,
) -> Result<Standing, ReconcileError> {
    let owner = subject.owner_mark();
    for _ in 0..MOST_TURNS {
        let situation = subject.situation(wish, &owner).await?;
        let read = match (&course, history.take()) {
            (Course::Deploy, history) => match deploy_anew(subject, known, history, wish, &situation).await? {
                Deployed::Done(release) => return Ok(Standing::from(*release)),
                // Somebody was faster than the watch.
                Deployed::NotYet(read) => read,
            },
            (_, Some(history)) => history,
            (_, None) => subject.history().await?,
        };
        *known = Revisions::of(&read);
        let course_now = course::decide(known, Some(&read), &situation);
        let may_render = may_render_instead(&course_now, &read);
        journal::note_course(&course_now);
        let step = take_step(subject, course_now, wish, &read).await;
        match step {
            Ok(Step::Done(standing)) => return Ok(*standing),
            Ok(Step::Changed(release)) => {
                let read = read.with(*release);
                *known = Revisions::of(&read);
                course = course::decide(known, Some(&read), &subject.situation(wish, &owner).await?);
                history = Some(read);
            }
            Ok(Step::Deploy) => return render_over(subject, wish, &read).await,
            Err(error) if may_render && is_about_unknown_kind(&error) => {
                return render_over(subject, wish, &read).await;
            }
            Ok(Step::Rebuild(left)) => return Ok(subject.upgrade_over(wish, &read, Some(*left)).await?.into()),
            Err(error) => return Err(error),
        }
    }
    Err(ReconcileError::Unsettled)
}

/// Does what a course says, as far as it needs no render.
async fn take_step(
    subject: &Subject<'_>,
    course: Course,
    wish: &Wish,
    history: &History,
) -> Result<Step, ReconcileError> {
    match course {
        Course::Keep => keep_whole(subject, history).await.map(Step::done),
        Course::Resume => resume(subject, history).await.map(Step::done),
        Course::Again => again(subject, wish, history).await.map(Step::done),
        Course::RollBack { to, failed } => {
            subject.roll_back(to, failed, wish, history).await.map(|release| Step::done(release.into()))
        }
        Course::TakeCharge(Taking::ByHelm) => {
            subject.take_charge(wish, history).await.map(|release| Step::Changed(Box::new(release)))
        }
        Course::TakeCharge(Taking::Adopted) => {
            subject.check_pace()?;
            subject.adopt(wish, history).await.map(|release| Step::Changed(Box::new(release)))
        }
        Course::Sign => match subject.sign(wish, history).await? {
            Signing::Signed(release) => Ok(Step::Changed(release)),
            Signing::Outdated => recover(subject, wish, history).await,
        },
        Course::Observe { overrides, .. } => subject.leave_unproven(overrides, history).await.map(Step::done),
        Course::Recover => recover(subject, wish, history).await,
        Course::Reinstall => {
            subject.tell_uninstalled().await;
            Ok(Step::Deploy)
        }
        Course::Deploy | Course::Ask => Ok(Step::Deploy),
        Course::Wait { is_new: true, .. } => Err(ReconcileError::Moment),
        Course::Wait { revision, status, .. } => {
            Err(ReconcileError::HelmAtWork { release: subject.release.clone(), revision, status })
        }
        Course::Stop(trouble) => {
            if let Some(latest) = history.latest().filter(|latest| subject.has_stale_request(latest.own.as_ref())) {
                subject.note_request(latest).await?;
            }
            Err(ReconcileError::GaveUp(trouble))
        }
        Course::Refuse(refusal) => Err(subject.refused(&refusal)),
    }
}

/// Finds out what is left of a release that has no record to believe.
async fn recover(subject: &Subject<'_>, wish: &Wish, history: &History) -> Result<Step, ReconcileError> {
    subject.check_pace()?;
    Ok(match subject.recover(wish, history).await? {
        Recovered::Left(left) => Step::Rebuild(left),
        Recovered::Gone => Step::Deploy,
    })
}

/// Whether a kind is missing: by what discovery said, or by what the API server says of an object before discovery knows it.
fn is_about_unknown_kind(error: &ReconcileError) -> bool {
    let is_of_object = matches!(error, ReconcileError::Plan(_) | ReconcileError::Apply(_));
    is_of_object && error.category() == Category::UnknownKind
}

/// A record has no crds/: if one of those went, only a render brings it back. What was gone back to is not to be had so.
fn may_render_instead(course: &Course, history: &History) -> bool {
    let is_held = history.latest().and_then(|latest| latest.own.as_ref()).is_some_and(|own| own.hold.is_some());
    let is_plain = matches!(course, Course::Keep | Course::Resume | Course::Again);
    is_plain && !is_held
}

/// Where a course has led.
enum Step {
    Done(Box<Standing>),
    /// The history has this record now, and the course is decided anew.
    Changed(Box<Release>),
    /// Rendered, as a new revision.
    Deploy,
    /// The same, over what is left of a release whose record went.
    Rebuild(Box<Release>),
}

impl Step {
    fn done(standing: Standing) -> Self {
        Step::Done(Box::new(standing))
    }
}

async fn render_over(subject: &Subject<'_>, wish: &Wish, history: &History) -> Result<Standing, ReconcileError> {
    subject.check_pace()?;
    let rendered = subject.render(wish, subject.upgrade_to(history)).await?;
    let draft = subject.draft(wish, &rendered, history);
    match subject.roll_out(draft, rendered, history).await {
        Err(ReconcileError::Existing) => Ok(subject.install_over(wish, history).await?.into()),
        release => Ok(release?.into()),
    }
}

enum Deployed {
    Done(Box<Release>),
    /// The records say something else than the watch did.
    NotYet(History),
}

/// Renders, and makes a new revision of it.
async fn deploy_anew(
    subject: &Subject<'_>,
    known: &mut Revisions,
    history: Option<History>,
    wish: &Wish,
    situation: &course::Situation<'_>,
) -> Result<Deployed, ReconcileError> {
    subject.check_pace()?;
    subject.check_known_refusal(wish).await?;
    let upgrade_to = known.standing().and(known.latest()).map(|latest| latest.revision.saturating_add(1));
    let history = match history {
        None if upgrade_to.is_some() && render::asks_revision(&wish.chart, &wish.values) => {
            Some(subject.history().await?)
        }
        history => history,
    };
    let (history, rendered) = match history {
        None if known.is_empty() && subject.is_new() => (History::default(), subject.render(wish, None).await),
        // Nothing that is known could be used again, so nobody waits for the records before helm starts.
        None => {
            let (history, rendered) = tokio::join!(subject.history(), subject.render(wish, upgrade_to));
            (history?, rendered)
        }
        Some(history) => {
            let rendered = subject.render(wish, subject.upgrade_to(&history)).await;
            (history, rendered)
        }
    };
    *known = Revisions::of(&history);
    if course::decide(known, Some(&history), situation) != Course::Deploy {
        return Ok(Deployed::NotYet(history));
    }
    let rendered = rendered?;
    let draft = subject.draft(wish, &rendered, &history);
    match subject.roll_out(draft, rendered, &history).await {
        Err(ReconcileError::Existing) => Ok(Deployed::Done(Box::new(subject.install_over(wish, &history).await?))),
        release => Ok(Deployed::Done(Box::new(release?))),
    }
}

/// A deployed revision, with what a crash left undone around it.
async fn keep_whole(subject: &Subject<'_>, history: &History) -> Result<Standing, ReconcileError> {
    subject.tidy(history).await?;
    let Some(latest) = history.latest() else { return Err(ReconcileError::Unsettled) };
    let latest = &subject.sealed_again(latest).await?;
    match subject.has_stale_request(latest.own.as_ref()) {
        true => keep_in_order(subject, &Summary::of(&subject.note_request(latest).await?)).await,
        false => keep_in_order(subject, &Summary::of(latest)).await,
    }
}

/// What was recorded and did not get into the cluster.
async fn resume(subject: &Subject<'_>, history: &History) -> Result<Standing, ReconcileError> {
    let Some(latest) = history.latest() else { return Err(ReconcileError::Unsettled) };
    if let Some(left) = subject.pause_left(latest.own.as_ref()) {
        return Err(ReconcileError::TooEarly(left));
    }
    let rendered = manifest::read_record(&latest.manifest.read())?;
    let mut draft = latest.clone();
    if let Some(own) = draft.own.as_mut().filter(|own| subject.has_stale_request(Some(own))) {
        own.request = subject.request().answer();
    }
    Ok(subject.roll_out(draft, rendered, history).await?.into())
}

/// A later revision did not finish, and the one before is wanted: its render is still the right one.
async fn again(subject: &Subject<'_>, wish: &Wish, history: &History) -> Result<Standing, ReconcileError> {
    let Some(deployed) = history.deployed() else { return Err(ReconcileError::Unsettled) };
    let Some(before) = &deployed.own else { return Err(ReconcileError::Unsettled) };
    subject.check_pace()?;
    let hold = before.hold.clone().filter(|_| before.digest != wish.digest);
    let (objects, sourced) = (before.objects.clone(), before.sourced.clone());
    let own = Own { objects, sourced, hold, ..subject.own(before.digest.clone()) };
    let (draft, rendered) = subject.again(deployed, own, history)?;
    Ok(subject.roll_out(draft, rendered, history).await?.into())
}

/// A deployed revision with all its objects, and its record where the status does not tell of it yet.
async fn keep_in_order(subject: &Subject<'_>, deployed: &Summary) -> Result<Standing, ReconcileError> {
    let own = match &deployed.own {
        Some(own) => Some(Box::pin(subject.heal(deployed.revision, own)).await?),
        None => None,
    };
    if let Some(own) = &own {
        subject.narrow_contents(own).await?;
    }
    let record = match subject.is_told(deployed.revision) {
        true => None,
        false => Some(match subject.untold(deployed.revision) {
            Some(record) => record,
            None => subject.release(deployed.revision).await?,
        }),
    };
    let held = own.as_ref().and_then(|own| own.hold.clone());
    Ok(Standing { revision: deployed.revision, own, record, held })
}
