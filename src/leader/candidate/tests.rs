use super::*;

const PACE: Pace =
    Pace { lease: Duration::from_secs(15), renew_deadline: Duration::from_secs(10), retry: Duration::from_secs(2) };

fn at(seconds: f64) -> Moment {
    Moment::default() + Duration::from_secs(1000) + Duration::from_secs_f64(seconds)
}

/// What the clock on the wall says means nothing here.
const TODAY: Timestamp = Timestamp::UNIX_EPOCH;

fn candidate() -> Candidate {
    Candidate::new("me", PACE, at(0.0))
}

/// A Lease as somebody left it at its `version`th write.
fn lease(holder: &str, version: i64) -> Lease {
    let mut lease = Lease::default();
    lease.metadata.resource_version = Some(version.to_string());
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(15),
        renew_time: Some(MicroTime(Timestamp::from_second(version).unwrap())),
        lease_transitions: Some(3),
        ..Default::default()
    });
    lease
}

/// The Lease that it would write now.
fn claim(candidate: &Candidate, now: Moment) -> Lease {
    match candidate.next(now, TODAY) {
        Next::Claim(lease) => *lease,
        other => panic!("no claim: {other:?}"),
    }
}

/// When it would take the Lease, if it heard nothing more.
fn begins(candidate: &Candidate) -> Moment {
    candidate.busy_until.expect("somebody holds it")
}

fn leader(from: Moment) -> Candidate {
    let mut candidate = candidate();
    candidate.see(None, from);
    let mut claimed = claim(&candidate, from);
    claimed.metadata.resource_version = Some("1".to_owned());
    candidate.claimed(claimed, from, from);
    candidate
}

#[test]
fn it_looks_first_and_takes_a_lease_that_is_not_there() {
    let mut candidate = candidate();
    assert_eq!(candidate.next(at(0.0), TODAY), Next::Look);
    candidate.see(None, at(0.1));
    let lease = claim(&candidate, at(0.1));
    assert!(is_new(&lease));
    let spec = lease.spec.unwrap();
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_transitions), (Some("me"), Some(0)));
    assert_eq!(spec.lease_duration_seconds, Some(15));
}

#[test]
fn a_lease_that_does_not_change_is_taken_after_its_duration_by_our_own_clock() {
    let mut candidate = candidate();
    candidate.see(Some(lease("other", 1)), at(0.0));
    assert_eq!(begins(&candidate), at(15.0));
    candidate.see(Some(lease("other", 2)), at(14.9));
    // Seen again, it is as old as it was.
    candidate.see(Some(lease("other", 2)), at(20.0));
    assert_eq!(begins(&candidate), at(29.9));
    candidate.see(Some(lease("other", 2)), at(29.8));
    let taken = claim(&candidate, at(29.9));
    assert_eq!(taken.metadata.resource_version.as_deref(), Some("2"), "only if nobody wrote it meanwhile");
    assert_eq!(taken.spec.unwrap().lease_transitions, Some(4));
}

#[test]
fn nobody_is_judged_by_the_clock_on_their_wall() {
    for year in ["1970-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "9999-01-01T00:00:00Z"] {
        let mut candidate = candidate();
        let mut theirs = lease("other", 1);
        theirs.spec.as_mut().unwrap().renew_time = Some(MicroTime(year.parse().unwrap()));
        candidate.see(Some(theirs), at(0.0));
        assert_eq!(begins(&candidate), at(15.0), "{year}");
        candidate.look_at = None;
        assert_eq!(claim(&candidate, at(15.0)).spec.unwrap().holder_identity.as_deref(), Some("me"), "{year}");
    }
}

#[test]
fn the_holder_says_how_long_it_is_the_holder() {
    let mut candidate = candidate();
    let mut theirs = lease("other", 1);
    theirs.spec.as_mut().unwrap().lease_duration_seconds = Some(60);
    candidate.see(Some(theirs.clone()), at(0.0));
    assert_eq!(begins(&candidate), at(60.0));
    // Somebody edited it. The holder need not know.
    for shorter in [Some(1), Some(0), Some(-1), None] {
        theirs.spec.as_mut().unwrap().lease_duration_seconds = shorter;
        candidate.see(Some(theirs.clone()), at(10.0));
        assert_eq!(begins(&candidate), at(25.0), "{shorter:?}");
        candidate.see(Some(lease("other", 1)), at(0.0));
    }
}

#[test]
fn the_lease_of_an_earlier_process_with_this_identity_is_taken_when_nothing_of_it_can_arrive() {
    let mut candidate = Candidate::new("me", PACE, at(0.0)).not_before(at(1.5));
    candidate.see(Some(lease("me", 1)), at(0.1));
    assert!(candidate.is_heir());
    assert_eq!(candidate.next(at(0.1), TODAY), Next::Wait(at(1.5)));
    let taken = claim(&candidate, at(1.5));
    assert_eq!(taken.metadata.resource_version.as_deref(), Some("1"));
    assert_eq!(taken.spec.as_ref().unwrap().lease_transitions, Some(3), "the holder is the same");
    candidate.claimed(taken, at(1.5), at(1.6));
    assert!(candidate.is_holder() && !candidate.is_heir());
    // Somebody else took it before.
    let mut candidate = Candidate::new("me", PACE, at(0.0)).not_before(at(1.5));
    candidate.see(Some(lease("other", 2)), at(0.1));
    assert!(!candidate.is_heir());
    assert_eq!(begins(&candidate), at(15.1));
}

#[test]
fn who_touches_the_metadata_makes_nobody_wait() {
    let mut candidate = candidate();
    candidate.see(Some(lease("other", 1)), at(0.0));
    let mut labelled = lease("other", 1);
    labelled.metadata.resource_version = Some("7".to_owned());
    labelled.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    candidate.see(Some(labelled.clone()), at(14.0));
    let taken = claim(&candidate, at(15.0));
    assert_eq!(taken.metadata, labelled.metadata, "what others wrote stays");
}

#[test]
fn a_released_lease_is_taken_at_once_and_a_deleted_one_is_not() {
    let mut candidate = candidate();
    candidate.see(Some(lease("other", 1)), at(0.0));
    candidate.hear(Some(lease("", 2)), at(1.0));
    assert_eq!(claim(&candidate, at(1.0)).spec.unwrap().lease_transitions, Some(4));
    candidate.hear(Some(lease("other", 3)), at(2.0));
    candidate.hear(None, at(3.0));
    assert_eq!(begins(&candidate), at(17.0), "its holder may not know yet");
    candidate.look_at = None;
    assert!(is_new(&claim(&candidate, at(17.0))));
}

#[test]
fn a_holder_counts_from_before_the_request_and_stops_before_anybody_may_begin() {
    let mut candidate = leader(at(0.0));
    assert_eq!(candidate.deadline(), Some(at(13.5)));
    assert_eq!(candidate.next(at(1.0), TODAY), Next::Wait(at(2.0)));
    let renewal = claim(&candidate, at(2.0));
    assert_eq!(renewal.spec.as_ref().unwrap().lease_transitions, Some(0));
    // The answer took three seconds.
    candidate.claimed(renewal, at(2.0), at(5.0));
    assert_eq!(candidate.deadline(), Some(at(15.5)));
}

#[test]
fn a_renewal_that_is_answered_when_the_time_was_over_comes_too_late() {
    let mut in_time = leader(at(0.0));
    let renewal = claim(&in_time, at(9.9));
    in_time.claimed(renewal.clone(), at(9.9), at(13.4));
    assert_eq!(in_time.deadline(), Some(at(23.4)));
    assert!(!matches!(in_time.next(at(13.4), TODAY), Next::Lost(_)));
    let mut late = leader(at(0.0));
    late.claimed(renewal, at(9.9), at(13.5));
    assert_eq!(late.deadline(), Some(at(13.5)), "nothing is written by it");
    assert!(matches!(late.next(at(13.5), TODAY), Next::Lost(Loss::Late { .. })));
}

#[test]
fn a_holder_that_cannot_renew_gives_up() {
    let mut candidate = leader(at(0.0));
    candidate.failed(at(2.0), Duration::from_secs(20));
    assert_eq!(candidate.next(at(2.1), TODAY), Next::Wait(at(4.0)), "no pause is longer than it can afford");
    candidate.failed(at(9.0), Duration::ZERO);
    assert_eq!(candidate.next(at(9.5), TODAY), Next::Wait(at(10.0)));
    assert_eq!(candidate.next(at(10.0), TODAY), Next::Lost(Loss::Late { after: Duration::from_secs(10) }));
}

#[test]
fn a_holder_that_slept_has_lost_even_if_its_last_renewal_was_accepted() {
    let mut candidate = leader(at(0.0));
    let renewal = claim(&candidate, at(2.0));
    candidate.claimed(renewal, at(2.0), at(2.1));
    assert!(matches!(candidate.next(at(100.0), TODAY), Next::Lost(Loss::Late { .. })));
}

#[test]
fn a_holder_asks_before_it_believes_a_watch_that_may_be_behind() {
    let mut candidate = leader(at(0.0));
    candidate.hear(Some(lease("before", 0)), at(0.5));
    assert_eq!(candidate.next(at(0.5), TODAY), Next::Look);
    let mine = candidate.seen.clone();
    candidate.see(mine, at(0.6));
    assert_eq!(candidate.next(at(0.6), TODAY), Next::Wait(at(2.0)));
    candidate.hear(Some(lease("after", 9)), at(1.0));
    candidate.see(Some(lease("after", 9)), at(1.1));
    assert_eq!(candidate.next(at(1.1), TODAY), Next::Lost(Loss::Taken { holder: "after".to_owned() }));
}

#[test]
fn a_holder_makes_a_deleted_lease_anew_and_gives_up_an_emptied_one() {
    let mut candidate = leader(at(0.0));
    candidate.hear(None, at(0.5));
    candidate.see(None, at(0.6));
    assert!(is_new(&claim(&candidate, at(0.6))));
    candidate.see(Some(lease("", 9)), at(0.7));
    assert_eq!(candidate.next(at(0.7), TODAY), Next::Lost(Loss::Emptied));
}

#[test]
fn without_a_watch_it_asks_again_and_again() {
    let mut candidate = candidate();
    candidate.see(Some(lease("other", 1)), at(0.0));
    assert!(!candidate.poll(at(0.0)));
    assert!(candidate.poll(at(0.0)));
    assert_eq!(candidate.next(at(1.0), TODAY), Next::Wait(at(2.0)));
    assert_eq!(candidate.next(at(2.0), TODAY), Next::Look);
    candidate.see(None, at(2.0));
    assert_eq!(candidate.next(at(3.0), TODAY), Next::Wait(at(4.0)));
    candidate.failed(at(4.0), Duration::from_secs(20));
    assert_eq!(candidate.next(at(5.0), TODAY), Next::Wait(at(24.0)), "who may not even ask asks seldom");
}

#[test]
fn a_watch_that_tells_again_is_enough_and_a_silent_one_is_not_believed() {
    let mut candidate = candidate();
    candidate.see(Some(lease("other", 1)), at(0.0));
    candidate.poll(at(0.0));
    candidate.hear(Some(lease("other", 2)), at(1.0));
    assert_eq!(candidate.next(at(4.9), TODAY), Next::Wait(at(5.0)));
    assert_eq!(candidate.next(at(5.0), TODAY), Next::Look);
    candidate.see(Some(lease("", 3)), at(5.1));
    assert!(matches!(candidate.next(at(5.1), TODAY), Next::Claim(_)), "a release that nobody told of");
}

#[test]
fn only_the_holder_gives_the_lease_back() {
    assert!(candidate().release(TODAY).is_none());
    let leader = leader(at(0.0));
    let released = leader.release(TODAY).unwrap();
    assert_eq!(released.metadata.resource_version.as_deref(), Some("1"));
    let mut next = Candidate::new("next", PACE, at(0.0));
    next.see(Some(released), at(0.0));
    assert!(matches!(next.next(at(0.0), TODAY), Next::Claim(_)));
}
