use super::*;
use crate::course::Refusal;
use crate::release::codec::tests::release;
use crate::release::{OwnerMark, Status, Trouble};

fn history(statuses: &[Status]) -> History {
    let numbered = statuses.iter().zip(1..);
    History::new(numbered.map(|(status, revision)| Release { revision, status: *status, ..release() }).collect())
}

/// The revision whose record is used and how, or why there is nothing to show.
fn routed(course: Course, history: &History) -> Result<Option<(u32, Manner)>, String> {
    let route = route(&course, history, "default/web", "app", |_| Course::Keep);
    route.map_err(|error| error.to_string()).map(|route| match route {
        Route::Record(record, manner) => Some((record.revision, manner)),
        Route::Render => None,
    })
}

#[test]
fn a_record_is_used_where_it_holds_what_is_wanted() {
    let history = history(&[Status::Superseded, Status::Deployed, Status::Failed]);
    let rollout = |is_lenient| Manner::Rollout { is_lenient };
    assert_eq!(routed(Course::Keep, &history), Ok(Some((3, Manner::Repair))));
    assert_eq!(routed(Course::Again, &history), Ok(Some((2, rollout(false)))));
    assert_eq!(routed(Course::RollBack { to: 1, failed: false }, &history), Ok(Some((1, rollout(true)))));
    assert_eq!(routed(Course::TakeCharge(Taking::ByHelm), &history), Ok(Some((3, Manner::InPlace))));
    for course in [Course::Deploy, Course::Reinstall] {
        assert_eq!(routed(course, &history), Ok(None));
    }
}

#[test]
fn what_is_taken_over_and_then_replaced_is_rendered() {
    let history = history(&[Status::Deployed]);
    let route = route(&Course::TakeCharge(Taking::Adopted), &history, "default/web", "app", |_| Course::Deploy);
    assert!(matches!(route, Ok(Route::Render)));
}

#[test]
fn where_nothing_is_done_a_sentence_says_why() {
    let history = history(&[Status::Deployed]);
    let trouble = Trouble {
        attempts: 4,
        reason: String::new(),
        message: "no room".into(),
        is_late: false,
        asked: Default::default(),
    };
    let owner = OwnerMark { group: "g.io".into(), kind: "App".into(), name: "shop".into(), ..OwnerMark::default() };
    let cases = [
        (Course::Stop(trouble), "default/web failed 4 times, and is not tried again"),
        (Course::Recover, "the record of the release default/web was deleted"),
        (
            Course::Refuse(Refusal::Owned(Some(Box::new(owner)))),
            "the release default/web exists and belongs to app.g.io/shop",
        ),
        (Course::Refuse(Refusal::OtherChart { theirs: "db".into() }), "from the chart db"),
        (
            Course::Refuse(Refusal::NoSuchRevision { wanted: 7, known: vec![1, 2] }),
            "no revision 7 to go back to, only 1, 2",
        ),
    ];
    for (course, expected) in cases {
        let sentence = routed(course, &history).unwrap_err();
        assert!(sentence.contains(expected), "{sentence:?} should contain {expected:?}");
    }
}
