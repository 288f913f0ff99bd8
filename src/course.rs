//! Which way a release goes next, by its records and by what its custom resource asks for.
//!
//! Pure. It reads no manifest and makes no plan: it only says which of the ways below is the right one. What the watch
//! knows of the records is enough for most; where it is not, the answer is [`Course::Ask`].
//!
//! A record of another tool, one that went or one that did not finish never leads to an uninstall: what is unclear is
//! refused, waited for, or taken over in place.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::drift::Hash;
use crate::release::{Doubt, HeldBy, History, Own, OwnerMark, Proof, Release, Revisions, Status, Summary, Trouble};
use crate::trust::Entry;

/// helm gives up after five minutes, if nobody tells it otherwise. What is older is not going on any more.
const IN_FLIGHT: SignedDuration = SignedDuration::from_mins(15);

/// What takes no longer is not worth telling.
const A_MOMENT: SignedDuration = SignedDuration::from_secs(20);

/// Everything besides the records that decides.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    pub owner: &'a OwnerMark,
    /// The digest of what spec and chart say now.
    pub wanted: &'a str,
    /// The name of the watch's chart.
    pub chart: &'a str,
    pub request: Request,
    pub retries: u32,
    /// Stands for the custom resource's annotations.
    pub asked: Hash,
    /// Whether a failure is followed by a rollback.
    pub rolls_back: bool,
    /// What the operator noted of this custom resource's release where no tenant can write.
    pub noted: Noted,
    /// Whether the administrator has unsigned records signed right now.
    pub may_sign: bool,
    /// Whether the watch allows that releases of other tools are adopted.
    pub adopts_releases: bool,
    /// Whether the status speaks of the spec as it is now.
    pub is_observed: bool,
    /// Nothing was ever written for this custom resource.
    pub is_new: bool,
    /// The revision that the custom resource's status says is deployed.
    pub told: Option<u32>,
    /// The custom resource says what its release contains. That is written before the first record, and proves nothing.
    pub has_contents: bool,
    pub now: Timestamp,
}

/// What the ledger says of a release.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Noted {
    /// It cannot be asked: a command shows what the operator would do.
    #[default]
    Unknown,
    Nothing,
    Entry(Box<Entry>),
}

/// What the custom resource says about going back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Request {
    #[default]
    Nothing,
    /// The revision that is held is held no longer: the spec decides.
    Spec,
    Revision(u32),
    /// Something that nobody can read. Whatever holds goes on.
    Unreadable,
}

impl Request {
    /// What is recorded of it when it was answered. None where there is nothing to answer.
    pub fn answer(self) -> Option<u32> {
        match self {
            Request::Nothing | Request::Unreadable => None,
            Request::Spec => Some(0),
            Request::Revision(revision) => Some(revision),
        }
    }

    /// Whether what is recorded as answered is not asked for any more, so that it can be asked for again.
    pub fn is_stale(self, answered: Option<u32>) -> bool {
        match self {
            Request::Unreadable | Request::Revision(_) => false,
            Request::Nothing | Request::Spec => answered != self.answer(),
        }
    }
}

/// The ways.
#[derive(Clone, Debug, PartialEq)]
pub enum Course {
    /// Only the whole history can tell.
    Ask,
    /// The latest revision is as it should be: look after its objects.
    Keep,
    /// The latest revision holds the right render, and did not get it into the cluster yet.
    Resume,
    /// A later revision did not finish, and the deployed one is wanted again.
    Again,
    /// Render, and make a new revision.
    Deploy,
    /// Make the latest revision's objects ours where they are, without a new revision.
    TakeCharge(Taking),
    /// Sign the release's records as they are, since the administrator says so.
    Sign,
    /// Nothing vouches for the latest revision, which somebody made above ours: it stays, and is neither repaired nor replaced.
    Observe {
        revision: u32,
        /// The digest that it overrides.
        overrides: String,
    },
    /// Make a new revision of an earlier one.
    RollBack {
        to: u32,
        failed: bool,
    },
    /// The record of what is deployed went.
    Recover,
    /// Somebody uninstalled the release and kept its history.
    Reinstall,
    /// Another tool is at work on the release, perhaps just for a moment.
    Wait {
        revision: u32,
        status: Status,
        is_new: bool,
    },
    /// The latest revision failed too often.
    Stop(Trouble),
    Refuse(Refusal),
}

impl Course {
    /// For logs and traces.
    pub fn as_str(&self) -> &'static str {
        match self {
            Course::Ask => "ask",
            Course::Keep => "keep",
            Course::Resume => "resume",
            Course::Again => "again",
            Course::Deploy => "deploy",
            Course::TakeCharge(_) => "take-charge",
            Course::Sign => "sign",
            Course::Observe { .. } => "observe",
            Course::RollBack { .. } => "roll-back",
            Course::Recover => "recover",
            Course::Reinstall => "reinstall",
            Course::Wait { .. } => "wait",
            Course::Stop(_) => "stop",
            Course::Refuse(_) => "refuse",
        }
    }
}

/// Why a revision is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// helm or operator-sdk installed it.
    Adopted,
    /// A person rolled our release back with helm, or had helm write a record of ours again.
    ByHelm,
}

/// Why nothing is done.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// Another custom resource has the release; only a mark tells where nobody says which.
    Owned(Option<Box<OwnerMark>>),
    /// Another tool made it from another chart.
    OtherChart { theirs: String },
    /// Another tool made it, and the watch does not allow that it is adopted.
    NotAdopted,
    /// Nothing vouches for a record that says it is this custom resource's.
    Unproven { revision: u32, doubt: Option<Doubt> },
    /// There is no such revision to go back to.
    NoSuchRevision { wanted: u32, known: Vec<u32> },
    /// Nothing vouches for the revision to go back to.
    UnprovenTarget { wanted: u32 },
}

impl Refusal {
    /// For a person. `chart` is that of the watch.
    pub fn sentence(&self, release: &str, chart: &str) -> String {
        match self {
            Refusal::Owned(owner) => {
                let who = owner.as_ref().map(|owner| owner.resource_name());
                format!(
                    "the release {release} exists and belongs to {}; give the custom resource another name, give the kind names of its own with `releaseName` in watches.yaml, or remove that one",
                    who.as_deref().unwrap_or("another custom resource")
                )
            }
            Refusal::OtherChart { theirs } => format!(
                "the release {release} exists and was made by another tool from the chart {theirs}, and this kind's chart is {chart}, so it is not taken over; give the custom resource another name, or remove that release"
            ),
            Refusal::NotAdopted => format!(
                "the release {release} exists and another tool made it, and this kind does not adopt releases; set `adopt: releases` in watches.yaml to adopt it, give the custom resource another name, or uninstall that release"
            ),
            Refusal::Unproven { revision, doubt } => {
                let why = doubt.map_or("this operator has not noted the release", Doubt::sentence);
                format!(
                    "revision {revision} of the release {release} is not used, since {why}: an earlier version of the operator, a restored backup or somebody else wrote its record, or the operator's key or ledger was lost; an administrator who trusts the records runs `chartwright trust open --release {release}` with --namespace and --operator-namespace; otherwise delete them (Secrets sh.helm.release.v1.{release}.v*) to have the chart rendered again"
                )
            }
            Refusal::UnprovenTarget { wanted } => format!(
                "the release {release} cannot go back to revision {wanted}, since this operator does not vouch for its record; name another revision in the annotation chartwright.dev/rollback-to, or remove it"
            ),
            Refusal::NoSuchRevision { wanted, known } => {
                let known: Vec<String> = known.iter().map(u32::to_string).collect();
                format!(
                    "the release {release} has no revision {wanted} to go back to, only {}; correct the annotation chartwright.dev/rollback-to, or remove it",
                    known.join(", ")
                )
            }
        }
    }
}

/// Decides. `history` is None until somebody read it; `known` is then what the watch says.
pub fn decide(known: &Revisions, history: Option<&History>, situation: &Situation<'_>) -> Course {
    let newest = match &situation.noted {
        Noted::Entry(entry) => Some(entry.revision),
        // The status is the custom resource's, and proves nothing: it only has somebody look.
        Noted::Unknown | Noted::Nothing => situation.told,
    };
    let is_lost = newest.is_some_and(|newest| known.have_lost(newest));
    if is_lost || known.is_empty() && situation.has_contents {
        return match history {
            None => Course::Ask,
            Some(history) => lost(history, situation),
        };
    }
    let Some(latest) = known.latest() else {
        return if history.is_some() || situation.is_new { Course::Deploy } else { Course::Ask };
    };
    match (&latest.own, history) {
        (Some(own), None) if own.owner.is_another_life_of(situation.owner) => Course::Ask,
        // The records are those of an earlier custom resource of this name.
        (Some(own), Some(_)) if own.owner.is_another_life_of(situation.owner) => Course::Recover,
        (Some(own), _) if own.owner.is_same_resource(situation.owner) => {
            let by_ledger = noted(latest, own, history.is_some(), situation);
            by_ledger.unwrap_or_else(|| ours(latest, own, known, history, situation))
        }
        (Some(own), _) => Course::Refuse(Refusal::Owned(Some(Box::new(own.owner.clone())))),
        (None, None) => Course::Ask,
        (None, Some(history)) => theirs(history, known, situation),
    }
}

/// The way of a signed revision that the ledger does not know, or whose status cannot be true. None where nothing of the revision was applied
/// yet: a revision is recorded first, noted then, and applied last.
fn noted(latest: &Summary, own: &Own, has_read: bool, situation: &Situation<'_>) -> Option<Course> {
    let is_finished = |entry: &Entry| entry.finished && entry.revision == latest.revision;
    let was_deployed = own.was_deployed || matches!(&situation.noted, Noted::Entry(entry) if is_finished(entry));
    match &situation.noted {
        Noted::Nothing => {}
        // Somebody wrote the status, or a signed record of an earlier state once more.
        Noted::Entry(_) | Noted::Unknown if was_deployed && !is_after_deployment(latest, own) => {
            return Some(if has_read { Course::Recover } else { Course::Ask });
        }
        Noted::Entry(_) | Noted::Unknown => return None,
    }
    // A lost ledger must not make an early state of a later revision believed.
    let is_first = latest.revision == 1 || situation.told.is_none();
    let is_untouched = latest.status != Status::Deployed && own.objects.iter().all(|object| object.uid.is_none());
    match is_first && is_untouched {
        true => None,
        false => Some(unconfirmed(latest.revision, None, situation)),
    }
}

/// Whether a revision that was deployed may have this status.
fn is_after_deployment(latest: &Summary, own: &Own) -> bool {
    let is_late = own.trouble.as_ref().is_some_and(|trouble| trouble.is_late);
    matches!(latest.status, Status::Deployed | Status::Superseded) || latest.status == Status::Failed && is_late
}

/// The record of what is deployed went. If another took the name since, that is another matter.
fn lost(history: &History, situation: &Situation<'_>) -> Course {
    let is_noted = matches!(situation.noted, Noted::Entry(_));
    match history.latest() {
        Some(latest)
            if latest.own.is_none()
                && latest.status != Status::Superseded
                && (!is_noted || is_strangers(latest, situation)) =>
        {
            theirs(history, &Revisions::of(history), situation)
        }
        _ => Course::Recover,
    }
}

/// Whether another tool made a release of this name, and does not even say that it is ours.
fn is_strangers(latest: &Release, situation: &Situation<'_>) -> bool {
    !latest.is_proven() && latest.claims_to_belong_to(situation.owner).is_none()
}

/// The latest record is not one that we wrote, or not as we wrote it.
fn theirs(history: &History, known: &Revisions, situation: &Situation<'_>) -> Course {
    let Some(latest) = history.latest() else { return Course::Ask };
    if let Some(refusal) = another_owner(history, situation) {
        return Course::Refuse(refusal);
    }
    if latest.is_proven() {
        return match situation.noted {
            // Nobody knows whether it is the newest.
            Noted::Nothing => unconfirmed(latest.revision, None, situation),
            _ => by_helm(latest, known, situation, Course::TakeCharge(Taking::ByHelm)),
        };
    }
    let has_proof = history.iter().any(Release::is_proven);
    match &situation.noted {
        // Somebody uninstalled ours and installed another.
        Noted::Entry(entry) if latest.revision <= entry.revision && is_strangers(latest, situation) => {
            foreign(latest, known, situation)
        }
        // Somebody wrote over a record of ours.
        Noted::Entry(entry) if latest.revision <= entry.revision => Course::Recover,
        // An earlier version of the operator made it, after a downgrade.
        Noted::Entry(_) if situation.may_sign && latest.claimed.is_some() => Course::Sign,
        Noted::Entry(entry) => by_helm(latest, known, situation, observed(latest, Some(entry), history, situation)),
        Noted::Unknown if has_proof => by_helm(latest, known, situation, observed(latest, None, history, situation)),
        Noted::Unknown | Noted::Nothing => unknown(latest, has_proof, known, situation),
    }
}

/// Another custom resource has the release, by the newest record that says whose it is. That is believed without proof: it only leads to a
/// refusal.
fn another_owner(history: &History, situation: &Situation<'_>) -> Option<Refusal> {
    if matches!(situation.noted, Noted::Entry(_)) || history.belongs_to(situation.owner) == Some(true) {
        return None;
    }
    let newest = history.iter().rev().find_map(|release| {
        let owner = release.own.as_ref().or(release.claimed.as_deref()).map(|own| own.owner.clone());
        release.claims_to_belong_to(situation.owner).map(|is_ours| (is_ours, owner))
    });
    newest.filter(|(is_ours, _)| !is_ours).map(|(_, owner)| Refusal::Owned(owner.map(Box::new)))
}

/// A record that nothing vouches for, of a release of which nothing is noted.
fn unknown(latest: &Release, has_proof: bool, known: &Revisions, situation: &Situation<'_>) -> Course {
    let is_earlier_life = |claimed: &Own| {
        latest.proof == Proof::Missing(Doubt::OtherOwner) && claimed.owner.is_another_life_of(situation.owner)
    };
    if latest.claimed.as_deref().is_some_and(is_earlier_life) {
        return Course::Recover;
    }
    match latest.claims_to_belong_to(situation.owner) {
        claims if claims.is_some() || has_proof => {
            let Proof::Missing(doubt) = latest.proof else { return Course::Ask };
            unconfirmed(latest.revision, Some(doubt), situation)
        }
        _ => foreign(latest, known, situation),
    }
}

/// A revision of ours that is believed only if an administrator says so.
fn unconfirmed(revision: u32, doubt: Option<Doubt>, situation: &Situation<'_>) -> Course {
    match situation.may_sign {
        true => Course::Sign,
        false => Course::Refuse(Refusal::Unproven { revision, doubt }),
    }
}

/// A release of helm or operator-sdk.
fn foreign(latest: &Release, known: &Revisions, situation: &Situation<'_>) -> Course {
    let chart = latest.chart_name();
    let is_of_chart = chart == situation.chart;
    let is_gone = latest.status == Status::Uninstalled && known.deployed().is_none();
    match in_flight(latest, situation) {
        Some(wait) => wait,
        None if is_gone && (is_of_chart || situation.adopts_releases) => Course::Reinstall,
        None if !is_of_chart => Course::Refuse(Refusal::OtherChart { theirs: chart.to_owned() }),
        None if !situation.adopts_releases => Course::Refuse(Refusal::NotAdopted),
        // What helm did not finish is there all the same, and somebody else's.
        None => Course::TakeCharge(Taking::Adopted),
    }
}

/// Another tool is still at work on a revision.
fn in_flight(latest: &Release, situation: &Situation<'_>) -> Option<Course> {
    let status = latest.status;
    let age = situation.now.duration_since(latest.written_at());
    let is_at_work = (status.is_pending() || status == Status::Uninstalling) && age < IN_FLIGHT;
    is_at_work.then(|| Course::Wait { revision: latest.revision, status, is_new: age < A_MOMENT })
}

/// The way of a record that helm wrote, where `deployed` is that of a deployed one.
fn by_helm(latest: &Release, known: &Revisions, situation: &Situation<'_>, deployed: Course) -> Course {
    match (in_flight(latest, situation), latest.status) {
        (Some(wait), _) => wait,
        (None, Status::Deployed) => deployed,
        (None, Status::Uninstalled) => Course::Reinstall,
        // What helm tried in vain or gave up. Our own revision is still the right one, if it is.
        (None, _) => again_or_anew(known, situation),
    }
}

/// A person upgraded our release with helm, or somebody forged a record above ours. Nobody can tell which, so it stays as it is until spec or
/// chart change, and nothing is taken from it.
fn observed(latest: &Release, entry: Option<&Entry>, history: &History, situation: &Situation<'_>) -> Course {
    let answered = entry.and_then(|entry| entry.request);
    if situation.request.answer().is_some_and(|answer| Some(answer) != answered) {
        return match situation.request {
            Request::Revision(to) => rolled_back(to, history),
            _ => Course::Deploy,
        };
    }
    let seen = entry.and_then(|entry| entry.observed.as_ref()).filter(|seen| seen.revision == latest.revision);
    let overrides = match (seen, entry) {
        (Some(seen), _) => seen.digest.as_str(),
        (None, Some(entry)) if !situation.is_observed => &entry.digest,
        _ => situation.wanted,
    };
    match overrides == situation.wanted {
        true => Course::Observe { revision: latest.revision, overrides: overrides.to_owned() },
        false => Course::Deploy,
    }
}

fn rolled_back(to: u32, history: &History) -> Course {
    match history.get(to) {
        Some(target) if target.is_proven() => Course::RollBack { to, failed: false },
        Some(_) => Course::Refuse(Refusal::UnprovenTarget { wanted: to }),
        None => {
            let known = history.iter().map(|release| release.revision).collect();
            Course::Refuse(Refusal::NoSuchRevision { wanted: to, known })
        }
    }
}

/// The deployed revision once more, if it holds what is wanted.
fn again_or_anew(known: &Revisions, situation: &Situation<'_>) -> Course {
    match known.deployed().and_then(|deployed| deployed.own.as_ref()) {
        Some(own) if own.digest == situation.wanted || is_held(own, situation) => Course::Again,
        _ => Course::Deploy,
    }
}

fn ours(
    latest: &Summary,
    own: &Own,
    known: &Revisions,
    history: Option<&History>,
    situation: &Situation<'_>,
) -> Course {
    if let Request::Revision(to) = situation.request
        && own.request != Some(to)
        && was_ever_deployed(latest, known, history)
    {
        let Some(history) = history else { return Course::Ask };
        return rolled_back(to, history);
    }
    let is_wanted = own.digest == situation.wanted || is_held(own, situation);
    match latest.status {
        Status::Deployed if !is_wanted => Course::Deploy,
        Status::Deployed => Course::Keep,
        Status::Superseded | Status::Uninstalled => Course::Deploy,
        _ if !is_wanted => again_or_anew(known, situation),
        _ => unfinished(latest, own, history, situation),
    }
}

/// The latest revision holds what is wanted, and did not finish.
fn unfinished(latest: &Summary, own: &Own, history: Option<&History>, situation: &Situation<'_>) -> Course {
    let Some(trouble) = own.trouble.as_ref() else { return Course::Resume };
    let is_asked_anew = trouble.asked != situation.asked;
    if !trouble.is_late && (is_asked_anew || trouble.attempts <= situation.retries) {
        return Course::Resume;
    }
    // What was gone back to is not gone back from: that would never end.
    if situation.rolls_back && own.hold.is_none() {
        let Some(history) = history else { return Course::Ask };
        if let Some(good) = history.good_before(latest.revision, &own.digest) {
            return Course::RollBack { to: good.revision, failed: true };
        }
    }
    match trouble.is_late {
        true => Course::Keep,
        false => Course::Stop(trouble.clone()),
    }
}

/// Whether a revision stays although the custom resource says something else.
pub fn is_held(own: &Own, situation: &Situation<'_>) -> bool {
    own.hold.as_ref().is_some_and(|hold| {
        let goes_on = match situation.request {
            Request::Nothing => hold.by != HeldBy::Request,
            // It ends what was held when it was asked for, and nothing that came later.
            Request::Spec => own.request == situation.request.answer(),
            Request::Revision(_) | Request::Unreadable => true,
        };
        goes_on && hold.digest == situation.wanted
    })
}

/// Before the first install is done there is nothing to go back to.
fn was_ever_deployed(latest: &Summary, known: &Revisions, history: Option<&History>) -> bool {
    let is = |status: Status| matches!(status, Status::Deployed | Status::Superseded);
    latest.revision > 1
        || known.deployed().is_some()
        || history.is_some_and(|history| history.iter().any(|release| is(release.status)))
}

#[cfg(test)]
mod tests;
