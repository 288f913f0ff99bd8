use serde_json::json;

use super::*;
use crate::release::{Hold, Release, codec};
use Status::*;

fn mark(kind: &str, uid: &str) -> OwnerMark {
    OwnerMark { group: "g".into(), kind: kind.into(), namespace: Some("n".into()), name: "web".into(), uid: uid.into() }
}

/// A revision of the custom resource App web, from an input.
fn own(revision: u32, status: Status, digest: &str) -> Release {
    let own = Own { digest: digest.into(), owner: mark("App", "u"), ..Own::default() };
    Release { revision, status, own: Some(own), chart: json!({"name": "app"}), ..codec::tests::release() }
}

/// A revision that helm wrote over ours: our data is gone, our label is not.
fn over_ours(revision: u32, status: Status) -> Release {
    let release = own(revision, status, "old");
    let secret = codec::encode(&release, Timestamp::now()).unwrap();
    Release { own: None, proof: Proof::Content, ..codec::decode(&secret).unwrap() }
}

fn helms(revision: u32, status: Status) -> Release {
    let proof = Proof::Missing(Doubt::Unsigned);
    Release { own: None, proof, stored: Default::default(), ..own(revision, status, "") }
}

/// A record that says it is ours, and that nothing vouches for.
fn unproven(release: Release, doubt: Doubt) -> Release {
    Release { claimed: release.own.clone().map(Box::new), own: None, proof: Proof::Missing(doubt), ..release }
}

/// The ledger knows this revision.
fn noted(revision: u32) -> Noted {
    Noted::Entry(Box::new(Entry { revision, digest: "new".into(), ..Entry::default() }))
}

fn with(mut release: Release, change: impl FnOnce(&mut Own)) -> Release {
    change(release.own.as_mut().unwrap());
    release
}

fn held(revision: u32, by: HeldBy) -> Release {
    let hold = Hold { to: Some(1), digest: "new".into(), by, failed: None };
    with(own(revision, Deployed, "old"), |own| own.hold = Some(hold))
}

fn failed(revision: u32, attempts: u32, is_late: bool) -> Release {
    let trouble = Trouble { attempts, reason: "ApplyFailed".into(), message: "no".into(), asked: Hash(0), is_late };
    with(own(revision, Failed, "new"), |own| own.trouble = Some(trouble))
}

/// With everything read. The spec asks for the input `new`.
fn course(releases: &[Release], change: impl FnOnce(&mut Situation<'_>)) -> Course {
    let owner = mark("App", "u");
    let mut situation = Situation {
        owner: &owner,
        wanted: "new",
        chart: "app",
        request: Request::Nothing,
        retries: 3,
        asked: Hash(0),
        rolls_back: false,
        noted: Noted::Unknown,
        may_sign: false,
        adopts_releases: true,
        is_observed: true,
        is_new: false,
        told: None,
        has_contents: true,
        now: "2026-11-16T13:01:00Z".parse().unwrap(),
    };
    change(&mut situation);
    let history = History::new(releases.to_vec());
    decide(&Revisions::of(&history), Some(&history), &situation)
}

fn plain(releases: &[Release]) -> Course {
    course(releases, |_| {})
}

#[test]
fn without_records_it_depends_on_what_the_custom_resource_remembers() {
    assert_eq!(plain(&[]), Course::Recover, "objects may be there");
    assert_eq!(course(&[], |it| it.has_contents = false), Course::Deploy);
    assert_eq!(course(&[], |it| (it.told, it.has_contents) = (Some(3), false)), Course::Recover);
    let owner = mark("App", "u");
    let known = Revisions::default();
    let mut situation = Situation {
        owner: &owner,
        wanted: "new",
        chart: "app",
        request: Request::Nothing,
        retries: 3,
        asked: Hash(0),
        rolls_back: false,
        noted: Noted::Unknown,
        may_sign: false,
        adopts_releases: true,
        is_observed: true,
        is_new: true,
        told: None,
        has_contents: false,
        now: Timestamp::now(),
    };
    assert_eq!(decide(&known, None, &situation), Course::Deploy, "nothing need be asked for the first install");
    situation.is_new = false;
    assert_eq!(decide(&known, None, &situation), Course::Ask);
}

#[test]
fn what_is_deployed_from_the_wanted_input_is_kept() {
    assert_eq!(plain(&[own(1, Deployed, "new")]), Course::Keep);
    assert_eq!(plain(&[own(1, Deployed, "old")]), Course::Deploy);
    assert_eq!(course(&[own(1, Deployed, "new")], |it| it.chart = "renamed"), Course::Keep, "ours by its data");
}

#[test]
fn records_of_an_earlier_custom_resource_of_the_name_are_not_believed() {
    let earlier = with(own(1, Deployed, "new"), |own| own.owner = mark("App", "earlier"));
    assert_eq!(plain(std::slice::from_ref(&earlier)), Course::Recover);
    let read = unproven(earlier.clone(), Doubt::OtherOwner);
    assert_eq!(course(&[read], |it| it.noted = Noted::Nothing), Course::Recover);
    let other = with(earlier, |own| own.owner = mark("Other", "u"));
    assert!(matches!(plain(&[other]), Course::Refuse(Refusal::Owned(Some(owner))) if owner.kind == "Other"));
}

#[test]
fn a_release_of_another_tool_is_adopted_only_from_the_same_chart() {
    assert_eq!(plain(&[helms(4, Deployed)]), Course::TakeCharge(Taking::Adopted));
    let other = Release { chart: json!({"name": "shop"}), ..helms(4, Deployed) };
    let refusal = Refusal::OtherChart { theirs: "shop".into() };
    assert_eq!(plain(std::slice::from_ref(&other)), Course::Refuse(refusal), "annotations prove nothing");
    let without_consent = |it: &mut Situation<'_>| it.adopts_releases = false;
    let late = |it: &mut Situation<'_>| it.now = "2026-11-16T13:16:00Z".parse().unwrap();
    for status in [Deployed, Failed, Superseded, Unknown, PendingInstall, PendingUpgrade, PendingRollback, Uninstalling]
    {
        let release = |chart: &str| [Release { chart: json!({"name": chart}), ..helms(4, status) }];
        let refused = course(&release("app"), |it| (late(it), it.adopts_releases = false).1);
        assert_eq!(refused, Course::Refuse(Refusal::NotAdopted), "{status:?}");
        assert_eq!(course(&release("app"), late), Course::TakeCharge(Taking::Adopted), "{status:?}");
        let refusal = Refusal::OtherChart { theirs: "shop".into() };
        assert_eq!(course(&release("shop"), late), Course::Refuse(refusal), "{status:?}");
    }
    let gone = Release { chart: json!({"name": "shop"}), ..helms(4, Uninstalled) };
    assert_eq!(plain(std::slice::from_ref(&gone)), Course::Reinstall);
    assert!(matches!(course(&[gone], without_consent), Course::Refuse(Refusal::OtherChart { .. })));
    let over_deployed = course(&[helms(3, Deployed), helms(4, Uninstalled)], without_consent);
    assert_eq!(over_deployed, Course::Refuse(Refusal::NotAdopted), "the deployed one may still be there");
    assert_eq!(course(&[helms(4, Uninstalled)], without_consent), Course::Reinstall, "nothing is left of it");
}

#[test]
fn a_record_that_says_it_is_ours_is_refused_unless_the_administrator_has_it_signed() {
    for doubt in [Doubt::Unsigned, Doubt::Signature] {
        let claims = [unproven(own(3, Deployed, "new"), doubt)];
        let refusal = Refusal::Unproven { revision: 3, doubt: Some(doubt) };
        assert_eq!(course(&claims, |it| it.noted = Noted::Nothing), Course::Refuse(refusal));
        let opened = |it: &mut Situation<'_>| (it.noted, it.may_sign) = (Noted::Nothing, true);
        assert_eq!(course(&claims, opened), Course::Sign);
    }
}

#[test]
fn a_signed_revision_that_is_not_noted_is_refused_once_something_of_it_was_applied() {
    let deployed = [own(3, Deployed, "new")];
    let lost = |it: &mut Situation<'_>| it.noted = Noted::Nothing;
    assert_eq!(course(&deployed, lost), Course::Refuse(Refusal::Unproven { revision: 3, doubt: None }));
    assert_eq!(course(&deployed, |it| (it.noted, it.may_sign) = (Noted::Nothing, true)), Course::Sign);
    assert_eq!(course(&[own(1, PendingInstall, "new")], lost), Course::Resume, "a crash before it was noted");
}

#[test]
fn a_revision_that_the_ledger_knows_is_missed() {
    let at = |revision| move |it: &mut Situation<'_>| (it.noted, it.told) = (noted(revision), Some(1));
    let history = [own(4, Superseded, "old"), own(5, Deployed, "new")];
    assert_eq!(course(&history, at(5)), Course::Keep);
    assert_eq!(course(&history, at(4)), Course::Keep, "a crash before it was noted");
    assert_eq!(course(&history, at(6)), Course::Recover, "the newest was deleted");
    assert_eq!(course(&[own(4, Deployed, "new")], at(5)), Course::Recover, "an older one was written again");
    let tampered = [unproven(own(5, Deployed, "new"), Doubt::Signature)];
    assert_eq!(course(&tampered, at(5)), Course::Recover);
    assert_eq!(course(&history, |it| (it.noted, it.told) = (noted(5), Some(900))), Course::Keep, "a forged status");
}

#[test]
fn what_somebody_else_put_above_our_revisions_stays_and_is_not_believed() {
    let history = [over_ours(4, Superseded), helms(5, Deployed)];
    let seen = |it: &mut Situation<'_>| it.noted = noted(4);
    assert_eq!(course(&history, seen), Course::Observe { revision: 5, overrides: "new".into() });
    let changed = |it: &mut Situation<'_>| (it.noted, it.wanted, it.is_observed) = (noted(4), "newer", false);
    assert_eq!(course(&history, changed), Course::Deploy, "the spec changed since");
    let ended = |it: &mut Situation<'_>| (it.noted, it.request) = (noted(4), Request::Spec);
    assert_eq!(course(&history, ended), Course::Deploy);
    let back = |to| move |it: &mut Situation<'_>| (it.noted, it.request) = (noted(4), Request::Revision(to));
    assert_eq!(course(&history, back(4)), Course::RollBack { to: 4, failed: false });
    assert_eq!(course(&history, back(5)), Course::Refuse(Refusal::UnprovenTarget { wanted: 5 }));
}

#[test]
fn what_helm_wrote_over_another_custom_resources_release_is_still_its_own() {
    let others = with(own(1, Superseded, "old"), |own| own.owner = mark("Other", "v"));
    let refused = plain(&[others, helms(2, Deployed)]);
    assert!(matches!(refused, Course::Refuse(Refusal::Owned(Some(owner))) if owner.kind == "Other"));
    let owner = mark("Other", "v");
    let signed_for_another = Release { proof: Proof::Missing(Doubt::Signature), ..over_ours(1, Superseded) };
    let refused = course(&[signed_for_another, helms(2, Deployed)], |it| {
        // The same release in the eyes of another kind; nobody says any more whose it is, but the label does.
        it.owner = Box::leak(Box::new(owner));
    });
    assert_eq!(refused, Course::Refuse(Refusal::Owned(None)));
}

#[test]
fn helm_at_work_is_waited_for_but_not_for_ever() {
    let wait = |status| Course::Wait { revision: 2, status, is_new: false };
    for status in [PendingRollback, PendingUpgrade, Uninstalling] {
        assert_eq!(plain(&[own(1, Deployed, "new"), helms(2, status)]), wait(status));
        let later = |it: &mut Situation<'_>| it.now = "2026-11-16T13:16:00Z".parse().unwrap();
        assert_eq!(course(&[own(1, Deployed, "new"), helms(2, status)], later), Course::Again, "its render is right");
        assert_eq!(course(&[own(1, Deployed, "old"), helms(2, status)], later), Course::Deploy);
    }
    assert_eq!(plain(&[own(1, Superseded, "old"), helms(2, Uninstalled)]), Course::Reinstall);
    assert_eq!(plain(&[own(1, Superseded, "new"), helms(2, Failed)]), Course::Deploy);
    assert_eq!(plain(&[held(1, HeldBy::Helm), helms(2, Failed)]), Course::Again, "what was held is held again");
}

#[test]
fn a_persons_rollback_is_held_until_something_else_is_wanted() {
    let proof = Proof::CopyOf { revision: 1, digest: "old".into() };
    let copy = Release { proof, ..helms(3, Deployed) };
    let history = [own(1, Superseded, "old"), helms(2, Superseded), copy];
    assert_eq!(plain(&history), Course::TakeCharge(Taking::ByHelm));
    let taken = [own(1, Superseded, "old"), held(3, HeldBy::Helm)];
    assert_eq!(plain(&taken), Course::Keep);
    assert_eq!(course(&taken, |it| it.wanted = "newer"), Course::Deploy);
    assert_eq!(course(&taken, |it| it.wanted = "old"), Course::Keep, "the spec asks for just this");
    assert_eq!(course(&taken, |it| it.request = Request::Spec), Course::Deploy, "somebody ends the hold");
    assert_eq!(course(&taken, |it| it.request = Request::Unreadable), Course::Keep, "a slip ends nothing");
    let later = with(held(3, HeldBy::Helm), |own| own.request = Some(0));
    assert_eq!(course(&[later], |it| it.request = Request::Spec), Course::Keep, "that was asked for before");
}

#[test]
fn no_wish_makes_upgrades_and_rollbacks_go_round() {
    for request in [Request::Nothing, Request::Spec, Request::Revision(9), Request::Unreadable] {
        let back = with(held(3, HeldBy::Failure), |own| own.request = request.answer());
        let rolls_back = |it: &mut Situation<'_>| (it.rolls_back, it.request) = (true, request);
        let failed = with(failed(2, 4, false), |own| own.request = request.answer());
        let history = [own(1, Superseded, "old"), failed, back];
        assert_eq!(course(&history, rolls_back), Course::Keep, "{request:?}");
    }
}

#[test]
fn a_request_to_go_back_is_answered_once() {
    let two = [own(1, Superseded, "old"), own(2, Deployed, "new")];
    let asked = |revision| move |it: &mut Situation<'_>| it.request = Request::Revision(revision);
    assert_eq!(course(&two, asked(1)), Course::RollBack { to: 1, failed: false });
    let refusal = Refusal::NoSuchRevision { wanted: 7, known: vec![1, 2] };
    assert_eq!(course(&two, asked(7)), Course::Refuse(refusal));
    let answered = with(held(3, HeldBy::Request), |own| own.request = Some(1));
    assert_eq!(course(std::slice::from_ref(&answered), asked(1)), Course::Keep);
    assert_eq!(plain(std::slice::from_ref(&answered)), Course::Deploy, "without the annotation the spec decides");
    let newer = with(own(4, Deployed, "newer"), |own| own.request = Some(1));
    let later = course(&[answered, newer], |it| (it.request, it.wanted) = (Request::Revision(1), "newer"));
    assert_eq!(later, Course::Keep, "the spec has changed since");
    assert_eq!(course(&[own(1, PendingInstall, "new")], asked(1)), Course::Resume, "there is nothing to go back to");
}

#[test]
fn what_did_not_finish_is_resumed_until_it_failed_too_often() {
    let first = || own(1, Deployed, "old");
    assert_eq!(plain(&[first(), own(2, PendingUpgrade, "new")]), Course::Resume);
    assert_eq!(plain(&[first(), failed(2, 3, false)]), Course::Resume);
    assert!(matches!(plain(&[first(), failed(2, 4, false)]), Course::Stop(trouble) if trouble.attempts == 4));
    let rolls_back = |it: &mut Situation<'_>| it.rolls_back = true;
    assert_eq!(course(&[first(), failed(2, 4, false)], rolls_back), Course::RollBack { to: 1, failed: true });
    assert!(matches!(course(&[failed(1, 4, false)], rolls_back), Course::Stop(_)), "there is nothing before it");
    let more = |it: &mut Situation<'_>| it.retries = 9;
    assert_eq!(course(&[first(), failed(2, 4, false)], more), Course::Resume);
    let touched = |it: &mut Situation<'_>| it.asked = Hash(1);
    assert_eq!(course(&[first(), failed(2, 4, false)], touched), Course::Resume, "somebody asks for another try");
    let other = |it: &mut Situation<'_>| it.wanted = "newer";
    assert_eq!(course(&[first(), failed(2, 4, false)], other), Course::Deploy);
    let back = |it: &mut Situation<'_>| it.wanted = "old";
    assert_eq!(course(&[first(), failed(2, 4, false)], back), Course::Again);
}

#[test]
fn what_is_late_stays_or_is_rolled_back_but_never_in_a_circle() {
    let late = [own(1, Superseded, "old"), failed(2, 0, true)];
    assert_eq!(plain(&late), Course::Keep);
    let rolls_back = |it: &mut Situation<'_>| it.rolls_back = true;
    assert_eq!(course(&late, rolls_back), Course::RollBack { to: 1, failed: true });
    let hold = Hold { to: Some(1), digest: "new".into(), by: HeldBy::Failure, failed: Some("no".into()) };
    let back = with(failed(3, 0, true), |own| (own.digest, own.hold) = ("old".into(), Some(hold)));
    assert_eq!(course(&[late[0].clone(), late[1].clone(), back], rolls_back), Course::Keep);
}

#[test]
fn a_deployed_record_that_went_is_recovered() {
    let told = |revision| move |it: &mut Situation<'_>| it.told = Some(revision);
    assert_eq!(course(&[own(1, Superseded, "old")], told(2)), Course::Recover);
    assert_eq!(course(&[own(1, Superseded, "old"), own(2, Failed, "x")], told(3)), Course::Recover);
    assert_eq!(course(&[helms(1, Superseded)], told(2)), Course::Recover, "an adopted one below it");
    assert_eq!(course(&[own(1, Deployed, "new")], told(1)), Course::Keep);
    assert_eq!(course(&[own(1, Superseded, "old"), own(2, Deployed, "new")], told(1)), Course::Keep, "not told yet");
    let other = Release { chart: json!({"name": "shop"}), ..helms(1, Deployed) };
    assert!(matches!(course(&[other], told(3)), Course::Refuse(_)), "somebody took the name since");
}

#[test]
fn a_release_without_an_entry_is_signed_only_while_the_window_is_open() {
    let nothing = |it: &mut Situation<'_>| (it.noted, it.told) = (Noted::Nothing, Some(2));
    let opened = |it: &mut Situation<'_>| (it.noted, it.told, it.may_sign) = (Noted::Nothing, Some(2), true);
    for records in [[own(2, Deployed, "new")], [over_ours(2, Deployed)], [failed(2, 1, false)]] {
        assert_eq!(course(&records, nothing), Course::Refuse(Refusal::Unproven { revision: 2, doubt: None }));
        assert_eq!(course(&records, opened), Course::Sign);
    }
}

#[test]
fn a_finished_revision_is_not_brought_in_again() {
    let finished = |it: &mut Situation<'_>| {
        it.noted = Noted::Entry(Box::new(Entry { revision: 2, finished: true, ..Entry::default() }));
    };
    assert_eq!(course(&[own(2, PendingInstall, "new")], finished), Course::Recover);
    assert_eq!(course(&[failed(2, 1, false)], finished), Course::Recover);
    assert_eq!(course(&[own(2, Deployed, "new")], finished), Course::Keep);
    assert_eq!(course(&[own(3, PendingUpgrade, "new")], finished), Course::Resume, "it is a later one");
}

#[test]
fn what_helm_installs_after_an_uninstall_is_not_ours() {
    let entry = |it: &mut Situation<'_>| (it.noted, it.adopts_releases) = (noted(3), false);
    assert_eq!(course(&[helms(1, Deployed)], entry), Course::Refuse(Refusal::NotAdopted));
    let claimed = unproven(own(3, Deployed, "new"), Doubt::Signature);
    assert_eq!(course(&[claimed], entry), Course::Recover, "somebody wrote over a record of ours");
}
