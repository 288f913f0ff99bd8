use proptest::prelude::*;
use serde_json::json;

use super::*;

fn hook(name: &str, weight: i64, events: &[&str]) -> HookRecord {
    let events = events.iter().map(|event| (*event).to_owned()).collect();
    HookRecord { name: name.into(), kind: "Job".into(), weight, events, ..HookRecord::default() }
}

fn mark(event: Event, hook: usize, attempt: u32, phase: HookPhase) -> Mark {
    Mark { event, hook, attempt, phase, since: 100 }
}

fn now() -> Timestamp {
    Timestamp::from_second(100).unwrap()
}

#[test]
fn hooks_run_by_weight_then_by_name_then_as_they_are_listed() {
    let hooks = [
        hook("b", 0, &["pre-install"]),
        hook("z", -5, &["pre-install", "post-upgrade"]),
        hook("a", 0, &["pre-install"]),
        hook("a", 0, &["pre-install"]),
        hook("c", 0, &["post-install"]),
    ];
    assert_eq!(at(Event::PreInstall, &hooks), [1, 2, 3, 0]);
    assert_eq!(at(Event::PostUpgrade, &hooks), [1]);
    assert!(!has(Event::PreDelete, &hooks));
}

#[test]
fn what_comes_next_follows_from_what_was_begun() {
    let hooks = [hook("a", 0, &["pre-install", "post-install"]), hook("b", 1, &["pre-install"])];
    let step = |event, marks: &[Mark]| next(event, &hooks, marks, now());
    let begun = |hook, attempt| mark(Event::PreInstall, hook, attempt, HookPhase::Running);
    let succeeded = |hook| mark(Event::PreInstall, hook, 1, HookPhase::Succeeded);
    assert_eq!(step(Event::PreInstall, &[]), Step::Begin(begun(0, 1)));
    assert_eq!(step(Event::PreInstall, &[begun(0, 1)]), Step::Look(begun(0, 1)));
    assert_eq!(step(Event::PreInstall, &[succeeded(0)]), Step::Begin(begun(1, 1)));
    let failed = mark(Event::PreInstall, 1, 1, HookPhase::Failed);
    assert_eq!(step(Event::PreInstall, &[succeeded(0), failed]), Step::Begin(begun(1, 2)), "only the one that failed");
    assert_eq!(step(Event::PreInstall, &[succeeded(0), succeeded(1)]), Step::Done);
    let other = mark(Event::PostInstall, 0, 1, HookPhase::Running);
    assert_eq!(step(Event::PostInstall, &[succeeded(0), succeeded(1)]), Step::Begin(other), "once per event");
    assert_eq!(step(Event::PreDelete, &[]), Step::Done);
}

#[test]
fn a_mark_takes_the_place_of_the_one_before() {
    let mut marks = vec![mark(Event::PreInstall, 0, 1, HookPhase::Running)];
    assert_eq!(running(&marks).map(|mark| mark.hook), Some(0));
    note(&mut marks, mark(Event::PreInstall, 0, 1, HookPhase::Succeeded));
    note(&mut marks, mark(Event::PostInstall, 0, 1, HookPhase::Running));
    assert_eq!(marks.len(), 2);
    assert_eq!(running(&marks).map(|mark| mark.run(7, "uid")).as_deref(), Some("7.post-install.0.1.uid"));
    assert!(is_same_but_for_attempt("7.post-install.0.1.uid", "7.post-install.0.2.uid"));
    for other in
        ["8.post-install.0.1.uid", "7.pre-install.0.1.uid", "7.post-install.1.1.uid", "7.post-install.0.1.other"]
    {
        assert!(!is_same_but_for_attempt("7.post-install.0.1.uid", other), "{other}");
    }
}

#[test]
fn policies_are_as_in_helm() {
    let with = |policies: &[&str]| HookRecord {
        delete_policies: policies.iter().map(|policy| (*policy).to_owned()).collect(),
        ..hook("a", 0, &[])
    };
    assert!(Policy::BeforeCreation.deletes(&with(&[])) && !Policy::Succeeded.deletes(&with(&[])));
    let succeeded = with(&["hook-succeeded"]);
    assert!(!Policy::BeforeCreation.deletes(&succeeded) && Policy::Succeeded.deletes(&succeeded));
    let crd = HookRecord { kind: "CustomResourceDefinition".into(), ..with(&["hook-succeeded"]) };
    assert!(!Policy::Succeeded.deletes(&crd), "never");
    assert!(!Policy::Failed.tells_logs(&with(&["hook-failed"])), "one policy is not the other");
}

#[test]
fn jobs_and_pods_end_and_everything_else_is_there_at_once() {
    let job = |kind: &str, status: &str| {
        json!({"apiVersion": "batch/v1", "kind": "Job", "status": {"conditions": [
            {"type": kind, "status": status, "reason": "BackoffLimitExceeded", "message": "too often"}]}})
    };
    assert_eq!(life(&job("Complete", "True")), Life::Succeeded);
    assert_eq!(life(&job("Complete", "False")), Life::Running);
    assert_eq!(life(&job("Failed", "True")), Life::Failed("BackoffLimitExceeded: too often".into()));
    assert_eq!(life(&job("FailureTarget", "True")), Life::Running, "its pods are still ending");
    let pod = |phase: &str| json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": phase}});
    assert_eq!(life(&pod("Running")), Life::Running);
    assert_eq!(life(&pod("Succeeded")), Life::Succeeded);
    assert_eq!(life(&pod("Failed")), Life::Failed("the pod failed".into()));
    assert_eq!(life(&json!({"apiVersion": "v1", "kind": "ConfigMap"})), Life::Succeeded);
}

#[test]
fn the_nearest_word_about_time_counts() {
    assert_eq!(limit(None, None), Duration::from_secs(300));
    assert_eq!(limit(None, Some(Duration::from_secs(7))), Duration::from_secs(7));
    assert_eq!(limit(Some("90s"), Some(Duration::from_secs(7))), Duration::from_secs(90));
    assert_eq!(limit(Some("soon"), None), Duration::from_secs(300), "what cannot be read counts as nothing");
    let mark = mark(Event::Test, 0, 1, HookPhase::Running);
    let at = |second| Timestamp::from_second(second).unwrap();
    let limit = Duration::from_secs(60);
    assert_eq!(mark.left(limit, None, at(130)), Some(Duration::from_secs(30)));
    assert_eq!(mark.left(limit, None, at(160)), None);
    assert_eq!(mark.left(limit, Some(at(120)), at(130)), Some(Duration::from_secs(50)), "its object is younger");
}

#[test]
fn a_wrong_clock_neither_ends_a_run_early_nor_lets_it_go_on_for_ever() {
    let limit = Duration::from_secs(60);
    let at = |second| Timestamp::from_second(second).unwrap();
    let begun = |since| Mark { event: Event::PreInstall, hook: 0, attempt: 1, phase: HookPhase::Running, since };
    // A replica whose clock was an hour off wrote the mark; the API server created the object at 1000.
    for since in [1000 - 3600, 1000 + 3600, i64::MIN, i64::MAX] {
        let left = |now| begun(since).left(limit, Some(at(1000)), at(now));
        assert_eq!(left(1030), Some(Duration::from_secs(30)), "{since}");
        assert_eq!(left(1060), None, "{since}");
    }
    // Nothing was created yet: such a run is given up and begun again, with the right time.
    assert_eq!(begun(1000 + 3600).left(limit, None, at(1000)), None);
    assert_eq!(begun(1002).left(limit, None, at(1000)), Some(Duration::from_secs(58)), "seconds do not matter");
}

#[test]
fn the_first_of_several_marks_of_a_hook_counts() {
    let hooks = [hook("a", 0, &["pre-install"])];
    let marks = [HookPhase::Succeeded, HookPhase::Failed].map(|phase| mark(Event::PreInstall, 0, 1, phase));
    assert_eq!(next(Event::PreInstall, &hooks, &marks, now()), Step::Done);
}

#[test]
fn the_steps_grow_with_the_hooks_and_with_their_marks() {
    crate::steps::assert_n_log_n("next", |number| {
        let hooks: Vec<_> = (0..number).map(|it| hook(&format!("h{it}"), 0, &["pre-install"])).collect();
        let marks: Vec<_> = (0..number).map(|it| mark(Event::PreInstall, it, 1, HookPhase::Succeeded)).collect();
        crate::steps::of(|| assert_eq!(next(Event::PreInstall, &hooks, &marks, now()), Step::Done))
    });
    crate::steps::assert_linear("note", |number| {
        let mut marks: Vec<_> = (0..number).map(|it| mark(Event::PreInstall, it, 1, HookPhase::Running)).collect();
        crate::steps::of(|| note(&mut marks, mark(Event::PreInstall, number, 1, HookPhase::Running)))
    });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn hooks_and_marks_of_any_shape_take_few_steps(
        hooks in proptest::collection::vec(("[a-c]", -2..2_i64), 0..40),
        marks in proptest::collection::vec((0..50_usize, any::<bool>(), any::<bool>()), 0..80),
    ) {
        let hooks: Vec<_> = hooks.iter().map(|(name, weight)| hook(name, *weight, &["pre-install"])).collect();
        let of = |(hook, is_here, has_ended): &(usize, bool, bool)| {
            let event = if *is_here { Event::PreInstall } else { Event::PostInstall };
            mark(event, *hook, 1, if *has_ended { HookPhase::Succeeded } else { HookPhase::Failed })
        };
        let marks: Vec<_> = marks.iter().map(of).collect();
        let number = 1 + hooks.len() + marks.len();
        let steps = crate::steps::of(|| next(Event::PreInstall, &hooks, &marks, now()));
        crate::steps::assert_few("next", number * (number.ilog2() as usize + 1), steps);
    }
}
