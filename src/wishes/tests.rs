use super::*;

/// A watch that differs from the defaults in everything.
fn watch() -> Watch {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("Chart.yaml"), "apiVersion: v2\nname: a\nversion: 1.0.0\n").unwrap();
    Watch {
        gvk: kube::core::GroupVersionKind::gvk("g.io", "v1", "A"),
        chart: crate::chart::Chart::load(dir.path()).unwrap(),
        watch_dependents: true,
        overrides: crate::values::Overrides::default(),
        values_from: vec![],
        values_from_annotation: None,
        generate: vec![crate::generate::tests::text("password", "auth.password")],
        selector: None,
        reconcile_period: None,
        lookup: Default::default(),
        allow: None,
        adopt: Adopt::Objects,
        service_account: None,
        max_concurrent: None,
        release_namespace: None,
        release_name: crate::release::NameTemplate::default(),
        prune: crate::watches::Prune::Safe,
        crds: crate::watches::Crds::Create,
        allow_empty: false,
        ignore: vec![],
        max_history: 4,
        on_failure: OnFailure::Rollback,
        retries: 7,
        progress_deadline: Some(Duration::from_secs(540)),
        hook_timeout: Some(Duration::from_secs(11)),
    }
}

fn wishes(annotations: &[(&'static str, &'static str)]) -> Wishes {
    let annotations: BTreeMap<&str, &str> = annotations.iter().copied().collect();
    Wishes::of(|key| annotations.get(key).copied(), &watch())
}

/// The one problem of one annotation.
fn problem(key: &'static str, value: &'static str) -> String {
    let mut wishes = wishes(&[(key, value)]);
    assert_eq!(wishes.problems.len(), 1, "{key}: {value}: {:?}", wishes.problems);
    wishes.problems.remove(0)
}

#[test]
fn without_annotations_the_watch_decides() {
    let expected = Wishes {
        max_history: 4,
        on_failure: OnFailure::Rollback,
        retries: 7,
        progress_deadline: Some(Duration::from_secs(540)),
        rollback_to: RollbackTo::Unset,
        adopt: Adoption::NotAsked,
        render_anew: false,
        rotation: Rotation::default(),
        replace: false,
        replace_going_back: false,
        pause: Pause::None,
        period: None,
        requested_at: None,
        descriptions: Descriptions::default(),
        uninstall_wait: false,
        deletion: Deletion::Uninstall,
        delete_adopted: false,
        hooks: HookWishes { timeout: Some(Duration::from_secs(11)), ..HookWishes::default() },
        problems: vec![],
    };
    assert_eq!(wishes(&[]), expected);
}

#[test]
fn the_watchs_max_history_is_a_ceiling() {
    let kept = |asked: &'static str, ceiling: usize| {
        let watch = Watch { max_history: ceiling, ..watch() };
        let wishes = Wishes::of(|key| (key == MAX_HISTORY).then_some(asked), &watch);
        (wishes.max_history, wishes.problems.len())
    };
    assert_eq!([kept("1", 4), kept("4", 4)], [(1, 0), (4, 0)]);
    for asked in ["0", "5", "00", "4294967296"] {
        assert_eq!(kept(asked, 4), (4, 1), "{asked}");
    }
    assert_eq!([kept("0", 0), kept("1000", 0)], [(0, 0), (1000, 0)], "the watch keeps all");
    let told = problem(MAX_HISTORY, "9");
    assert!(told.contains("maxHistory") && told.contains("from 1 to 4"), "{told}");
}

#[test]
fn every_annotation_is_heard() {
    let expected = Wishes {
        max_history: 2,
        on_failure: OnFailure::Stop,
        retries: 0,
        progress_deadline: Some(Duration::from_secs(90)),
        rollback_to: RollbackTo::Revision(3),
        adopt: Adoption::Asked,
        render_anew: false,
        rotation: Rotation { all: Some("1".into()), each: [("password".to_owned(), "2".to_owned())].into() },
        replace: true,
        replace_going_back: true,
        pause: Pause::Until("2030-01-31T08:00:00Z".parse().unwrap()),
        period: Some(Duration::from_secs(60)),
        requested_at: Some("now".into()),
        descriptions: Descriptions {
            install: Some("first".into()),
            upgrade: Some("next".into()),
            uninstall: Some("last".into()),
        },
        uninstall_wait: true,
        deletion: Deletion::Orphan,
        delete_adopted: true,
        hooks: HookWishes {
            timeout: Some(Duration::from_secs(7)),
            without_install: true,
            without_upgrade: true,
            without_rollback: true,
            without_uninstall: true,
        },
        problems: vec![],
    };
    let annotations = [
        ("chartwright.dev/max-history", "2"),
        ("chartwright.dev/rotate", "1"),
        ("chartwright.dev/rotate-password", "2"),
        ("chartwright.dev/on-failure", "stop"),
        ("chartwright.dev/retries", "0"),
        ("chartwright.dev/progress-deadline", "1m30s"),
        ("chartwright.dev/rollback-to", "3"),
        ("chartwright.dev/adopt", "true"),
        ("helm.sdk.operatorframework.io/upgrade-force", "T"),
        ("helm.sdk.operatorframework.io/rollback-force", "true"),
        ("chartwright.dev/paused", "2030-01-31T09:00:00+01:00"),
        ("chartwright.dev/requested-at", "now"),
        ("helm.sdk.operatorframework.io/reconcile-period", "1m"),
        ("helm.sdk.operatorframework.io/install-description", "first"),
        ("helm.sdk.operatorframework.io/upgrade-description", "next"),
        ("helm.sdk.operatorframework.io/uninstall-description", "last"),
        ("helm.sdk.operatorframework.io/uninstall-wait", "1"),
        ("chartwright.dev/deletion-policy", "orphan"),
        ("chartwright.dev/adopted-deletion-policy", "delete"),
        ("chartwright.dev/hook-timeout", "7s"),
        ("helm.sdk.operatorframework.io/install-disable-hooks", "true"),
        ("helm.sdk.operatorframework.io/upgrade-disable-hooks", "true"),
        ("helm.sdk.operatorframework.io/rollback-disable-hooks", "true"),
        ("helm.sdk.operatorframework.io/uninstall-disable-hooks", "true"),
    ];
    assert_eq!(wishes(&annotations), expected);
}

#[test]
fn what_cannot_be_read_is_told_and_the_watch_decides() {
    let annotations = [(MAX_HISTORY, "-1"), (ON_FAILURE, "Rollback!"), (RETRIES, "many"), (PROGRESS_DEADLINE, "90")];
    let found = wishes(&annotations);
    assert_eq!(found, Wishes { problems: found.problems.clone(), ..wishes(&[]) });
    assert_eq!(found.problems.len(), 4);
    assert_eq!(
        problem(MAX_HISTORY, "-1"),
        "the annotation chartwright.dev/max-history is \"-1\": write a whole number from 0 on, where 0 keeps all \
         revisions; until then the setting in watches.yaml counts"
    );
}

#[test]
fn every_slip_is_a_problem_that_says_what_to_write() {
    let cases = [
        (MAX_HISTORY, "", "write a whole number from 0 on"),
        (MAX_HISTORY, "+3", "write a whole number"),
        (MAX_HISTORY, "99999999999999999999", "write a whole number"),
        (ON_FAILURE, "undo", "is \"undo\": write `stop` or `rollback`; until then the setting in watches.yaml counts"),
        (RETRIES, "5000000000", "write a whole number from 0 on"),
        (PROGRESS_DEADLINE, "-5m", "write a duration such as `10m`, or `0` for none"),
        (ROLLBACK_TO, "0", "is \"0\": write the number of a revision, or `none`; until then nothing is rolled back"),
        (ADOPT, "yes", "chartwright.dev/adopt is \"yes\": write `true` or `false`; until then it counts as `false`"),
        (
            PAUSED,
            "tomorrow",
            "write `true`, `false`, or a time such as `2030-01-31T08:00:00Z`; until then nothing is paused",
        ),
        (PAUSED, "2030-01-31", "or a time"),
        (RECONCILE_PERIOD, "60", "write a duration such as `1m`, or `0` for never"),
        (ROLLBACK_FORCE, "maybe", "rollback-force is \"maybe\""),
        (UPGRADE_FORCE, "", "upgrade-force is \"\": write `true`"),
        (UNINSTALL_WAIT, "TRue", "uninstall-wait is \"TRue\""),
        (
            DELETION_POLICY,
            "orphn",
            "is \"orphn\": write `orphan` or `uninstall`; until then a deletion removes nothing",
        ),
    ];
    for (key, value, expected) in cases {
        let problem = problem(key, value);
        assert!(problem.contains(expected), "{problem:?} should contain {expected:?}");
    }
}

#[test]
fn booleans_are_gos() {
    for (text, expected) in [("true", true), ("True", true), ("t", true), ("0", false), ("FALSE", false), ("F", false)]
    {
        let wishes = wishes(&[(UPGRADE_FORCE, text)]);
        assert_eq!((wishes.replace, wishes.problems.len()), (expected, 0), "{text}");
    }
    for text in ["yes", "on", " true", "tRUE", ""] {
        assert!(!wishes(&[(UPGRADE_FORCE, text)]).replace, "{text:?}");
    }
}

#[test]
fn an_adoption_takes_effect_only_where_the_watch_allows_it() {
    let adopt = |consent: Adopt, asked: &'static str| {
        let wishes = Wishes::of(
            |key| (key == ADOPT && !asked.is_empty()).then_some(asked),
            &Watch { adopt: consent, ..watch() },
        );
        (wishes.adopt, wishes.problems.len())
    };
    for consent in [Adopt::Objects, Adopt::Releases] {
        assert_eq!(adopt(consent, "true"), (Adoption::Asked, 0));
        assert_eq!(adopt(consent, "false"), (Adoption::NotAsked, 0));
        assert_eq!(adopt(consent, ""), (Adoption::NotAsked, 0));
        assert_eq!(adopt(consent, "yes"), (Adoption::NotAsked, 1));
    }
    assert_eq!(adopt(Adopt::None, "true"), (Adoption::NotAllowed, 1), "the author reads why");
    assert_eq!(adopt(Adopt::None, "false"), (Adoption::NotAllowed, 0));
    assert_eq!(adopt(Adopt::None, ""), (Adoption::NotAllowed, 0));
}

#[test]
fn a_deadline_of_zero_takes_the_watchs_away() {
    for zero in ["0", "0s"] {
        assert_eq!(wishes(&[(PROGRESS_DEADLINE, zero)]).progress_deadline, None, "{zero}");
    }
}

#[test]
fn a_rollback_names_a_revision_or_none() {
    let of = |text| wishes(&[(ROLLBACK_TO, text)]).rollback_to;
    assert_eq!(of("none"), RollbackTo::Spec);
    assert_eq!(of("12"), RollbackTo::Revision(12));
    for wrong in ["", "0", "-1", "last", "v3", "1.0", "99999999999"] {
        assert_eq!(of(wrong), RollbackTo::Wrong(wrong.into()));
    }
}

#[test]
fn a_misspelt_policy_is_never_an_uninstall() {
    let of = |text| wishes(&[(DELETION_POLICY, text)]).deletion;
    for text in ["orphan", " Orphan ", "ORPHAN\n"] {
        assert_eq!(of(text), Deletion::Orphan, "{text:?}");
    }
    assert_eq!(of(" Uninstall"), Deletion::Uninstall);
    for wrong in ["", "orphans", "keep", "true", "delete"] {
        assert_eq!(of(wrong), Deletion::Unknown(wrong.into()));
    }
}

#[test]
fn a_pause_ends_at_its_time() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let pause = |text| wishes(&[(PAUSED, text)]).pause;
    assert_eq!(pause("true").left(at(0)), Some(Duration::MAX));
    assert_eq!(pause("false").left(at(0)), None);
    let until = pause("1970-01-01T00:01:40Z");
    assert_eq!(until.left(at(40)), Some(Duration::from_secs(60)));
    assert_eq!((until.left(at(100)), until.left(at(101))), (None, None));
}

#[test]
fn the_period_is_a_duration_and_zero_is_never() {
    let of = |text: &str| period(&BTreeMap::from([(RECONCILE_PERIOD.to_owned(), text.to_owned())]));
    assert_eq!(of("1m30s"), Some(Duration::from_secs(90)));
    assert_eq!(of("0"), Some(Duration::ZERO));
    assert_eq!((of("often"), period(&BTreeMap::new())), (None, None));
}

#[test]
fn a_misspelt_name_is_a_problem_among_the_others() {
    let annotations = BTreeMap::from([("chartwright.dev/pasued".to_owned(), "true".to_owned())]);
    let wishes = Wishes::of_all(&annotations, &watch());
    assert_eq!(wishes.pause, Pause::None);
    assert!(wishes.problems[0].contains("did you mean chartwright.dev/paused"), "{:?}", wishes.problems);
}

#[test]
fn a_period_that_nobody_can_keep_is_a_second_and_told() {
    for (text, period) in [("1ns", 1), ("999ms", 1), ("1s", 1), ("2s", 2), ("0", 0)] {
        let found = wishes(&[(RECONCILE_PERIOD, text)]);
        assert_eq!(found.period, Some(Duration::from_secs(period)), "{text}");
        assert_eq!(found.problems.len(), usize::from(text == "1ns" || text == "999ms"), "{text}: {:?}", found.problems);
    }
    assert!(problem(RECONCILE_PERIOD, "1ns").contains("is \"1ns\": a period of less than a second counts as `1s`"));
}

#[test]
fn rotations_are_asked_for_all_values_or_for_one() {
    let of = |annotations: &[(&str, &str)]| {
        let all = annotations.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
        Wishes::of_all(&all, &watch())
    };
    let wishes = of(&[(ROTATE, "1"), ("chartwright.dev/rotate-password", "2")]);
    assert_eq!((wishes.rotation.all.as_deref(), wishes.problems.len()), (Some("1"), 0));
    assert_eq!(wishes.rotation.each, [("password".to_owned(), "2".to_owned())].into());
    let wrong = of(&[("chartwright.dev/rotate-pasword", "2")]);
    assert_eq!(wrong.rotation, Rotation::default());
    assert_eq!(
        wrong.problems,
        [
            "the annotation chartwright.dev/rotate-pasword names no generated value and is ignored; watches.yaml generates password"
        ]
    );
}
