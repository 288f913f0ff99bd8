//! Which way a release goes next, by its records and by what its custom resource asks for.
//!
//! Pure. It reads no manifest and makes no plan: it only says which of the ways below is the right one. What the watch
//! knows of the records is enough for most; where it is not, the answer is [`Course::Ask`].
//!
//! A record of another tool, one that went or one that did not finish never leads to an uninstall: what is unclear is
//! refused, waited for, or taken over in place.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::drift::Hash;
use crate::release::{HeldBy, History, Own, OwnerMark, Release, Revisions, Status, Summary, Trouble};

/// helm gives up after five minutes, if nobody tells it otherwise. What is older is not going on any more.
const IN_FLIGHT: SignedDuration = SignedDuration::from_mins(10);

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
    /// Nothing was ever written for this custom resource.
    pub is_new: bool,
    /// The custom resource's status tells of a deployed release of this name.
    pub was_deployed: bool,
    /// The custom resource says what its release contains, so a release of this name is its own.
    pub was_ours: bool,
    pub now: Timestamp,
}

/// What the custom resource says about going back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Request {
    #[default]
    Nothing,
    /// No revision is held: the spec decides.
    Spec,
    Revision(u32),
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

/// Why a revision is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// helm or operator-sdk installed it.
    Adopted,
    /// A person rolled our release back, or upgraded it, with helm.
    ByHelm,
    /// The custom resource was restored or made again, and has another UID.
    NewLife,
}

/// Why nothing is done.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// Another custom resource has the release.
    Owned(Box<OwnerMark>),
    /// Another tool made it from another chart.
    OtherChart { theirs: String },
    /// There is no such revision to go back to.
    NoSuchRevision { wanted: u32, known: Vec<u32> },
}

/// Decides. `history` is None until somebody read it; `known` is then what the watch says.
pub fn decide(known: &Revisions, history: Option<&History>, situation: &Situation<'_>) -> Course {
    let Some(latest) = known.latest() else {
        return match history {
            None if situation.is_new => Course::Deploy,
            None => Course::Ask,
            Some(_) if situation.was_deployed => Course::Recover,
            Some(_) => Course::Deploy,
        };
    };
    match (&latest.own, history) {
        (Some(own), _) if own.owner.is_same_resource(situation.owner) => ours(latest, own, known, history, situation),
        (Some(own), _) => Course::Refuse(Refusal::Owned(Box::new(own.owner.clone()))),
        (None, None) => Course::Ask,
        (None, Some(history)) => theirs(history, situation),
    }
}

/// The latest revision is another tool's.
fn theirs(history: &History, situation: &Situation<'_>) -> Course {
    let Some(latest) = history.latest() else { return Course::Ask };
    let is_same =
        |release: &Release| release.own.as_ref().is_some_and(|own| own.owner.is_same_resource(situation.owner));
    let was_ours = situation.was_ours || history.iter().any(is_same);
    let chart = latest.chart_name();
    if !was_ours && chart != situation.chart {
        return Course::Refuse(Refusal::OtherChart { theirs: chart.to_owned() });
    }
    let is_at_work = latest.status.is_pending() || latest.status == Status::Uninstalling;
    let age = situation.now.duration_since(latest.last_deployed);
    match latest.status {
        status if is_at_work && age < IN_FLIGHT => {
            Course::Wait { revision: latest.revision, status, is_new: age < A_MOMENT }
        }
        Status::Deployed if was_ours => Course::TakeCharge(Taking::ByHelm),
        Status::Deployed => Course::TakeCharge(Taking::Adopted),
        Status::Uninstalled => Course::Reinstall,
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
        return match history.get(to) {
            Some(_) => Course::RollBack { to, failed: false },
            None => {
                let known = history.iter().map(|release| release.revision).collect();
                Course::Refuse(Refusal::NoSuchRevision { wanted: to, known })
            }
        };
    }
    let is_wanted = own.digest == situation.wanted || is_held(own, situation);
    match latest.status {
        Status::Superseded | Status::Uninstalled if situation.was_deployed => match history {
            None => Course::Ask,
            Some(_) => Course::Recover,
        },
        Status::Deployed if !is_wanted => Course::Deploy,
        Status::Deployed if own.owner.uid != situation.owner.uid => match history {
            None => Course::Ask,
            Some(_) => Course::TakeCharge(Taking::NewLife),
        },
        Status::Deployed => Course::Keep,
        Status::Superseded | Status::Uninstalled => Course::Deploy,
        _ if !is_wanted => match known.deployed().and_then(|deployed| deployed.own.as_ref()) {
            Some(own) if own.digest == situation.wanted => Course::Again,
            _ => Course::Deploy,
        },
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
        let is_asked = match situation.request {
            Request::Spec => false,
            Request::Nothing => hold.by != HeldBy::Request,
            Request::Revision(_) => true,
        };
        is_asked && hold.digest == situation.wanted
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
