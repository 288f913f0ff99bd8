use std::collections::{HashMap, HashSet};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use Urgency::*;

fn place(name: &str) -> Place {
    Place::new(Some("a"), name)
}

fn line(names: &[&str]) -> Line {
    with_limits(names, Limits::default())
}

fn with_limits(names: &[&str], limits: Limits) -> Line {
    let mut line = Line::new(limits);
    for name in names {
        line.know(place(name));
    }
    line
}

fn taken(line: &mut Line, now: Instant) -> Option<(String, Urgency)> {
    match line.take(now) {
        Take::Now { place, urgency, .. } => Some((place.name.to_string(), urgency)),
        _ => None,
    }
}

fn some(name: &str, urgency: Urgency) -> Option<(String, Urgency)> {
    Some((name.to_owned(), urgency))
}

#[test]
fn who_is_told_twice_waits_once_with_the_more_urgent_wish() {
    let (mut line, now) = (line(&["a", "b"]), Instant::now());
    line.tell(&place("a"), Recheck);
    line.tell(&place("b"), Install);
    line.tell(&place("a"), Edit);
    line.tell(&place("a"), Install);
    assert_eq!(taken(&mut line, now), some("a", Edit));
    assert_eq!(taken(&mut line, now), some("b", Install));
    assert_eq!(line.take(now), Take::Nothing);
}

#[test]
fn what_is_told_during_a_run_is_due_after_it_once() {
    let (mut line, now) = (line(&["a"]), Instant::now());
    line.tell(&place("a"), Install);
    assert_eq!(taken(&mut line, now), some("a", Install));
    line.tell(&place("a"), Edit);
    line.tell(&place("a"), Recheck);
    line.tell_at(&place("a"), Recheck, now + Duration::from_secs(9));
    assert_eq!(line.take(now), Take::Nothing);
    line.finish(&place("a"));
    assert_eq!(taken(&mut line, now), some("a", Edit));
    line.finish(&place("a"));
    assert_eq!(line.take(now), Take::Nothing);
}

#[test]
fn the_earliest_time_counts() {
    let (mut line, now) = (line(&["a"]), Instant::now());
    let after = |seconds| now + Duration::from_secs(seconds);
    line.tell_at(&place("a"), Recheck, after(5));
    line.tell_at(&place("a"), Install, after(9));
    assert_eq!(line.take(now), Take::At(after(5)));
    line.tell_at(&place("a"), Recheck, after(3));
    assert_eq!(line.take(after(2)), Take::At(after(3)));
    assert_eq!(taken(&mut line, after(3)), some("a", Install));
    line.finish(&place("a"));
    assert_eq!(line.take(after(20)), Take::Nothing);
}

#[test]
fn any_number_of_installs_leaves_room_for_an_edit() {
    let names: Vec<String> = (0..100).map(|n| format!("i{n}")).collect();
    let mut line = line(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let now = Instant::now();
    line.tell_all(Install);
    let limit = Limits::default().per_urgency;
    for _ in 0..limit {
        assert!(taken(&mut line, now).is_some());
    }
    assert_eq!(line.take(now), Take::Nothing);
    line.know(place("e"));
    line.tell(&place("e"), Edit);
    assert_eq!(taken(&mut line, now), some("e", Edit));
}

#[test]
fn who_takes_long_makes_room_and_is_remembered() {
    let (mut line, now) =
        (with_limits(&["a", "b", "c"], Limits { per_urgency: 1, slow: 1, total: None }), Instant::now());
    line.tell_all(Install);
    let mut first = || taken(&mut line, now).map(|(name, _)| place(&name));
    let a = first().unwrap();
    assert_eq!(first(), None);
    line.is_slow(&a);
    let b = taken(&mut line, now).map(|(name, _)| place(&name)).unwrap();
    line.is_slow(&b);
    line.finish(&b);
    line.tell(&b, Edit);
    let c = taken(&mut line, now).map(|(name, _)| place(&name)).unwrap();
    assert!(c != a && c != b, "the only place for slow ones is taken");
    line.finish(&a);
    assert_eq!(line.take(now), Take::Now { place: b.clone(), urgency: Edit, slow: true });
    line.tell(&b, Edit);
    line.is_quick(&b);
    line.finish(&b);
    assert_eq!(line.take(now), Take::Now { place: b, urgency: Edit, slow: false });
}

#[test]
fn a_watch_may_limit_the_total() {
    let mut line = with_limits(&["a", "b"], Limits { total: Some(1), ..Limits::default() });
    let now = Instant::now();
    line.tell(&place("a"), Install);
    assert_eq!(taken(&mut line, now), some("a", Install));
    line.tell(&place("b"), Edit);
    assert_eq!(line.take(now), Take::Nothing);
    line.finish(&place("a"));
    assert_eq!(taken(&mut line, now), some("b", Edit));
}

#[test]
fn who_came_back_during_its_last_run_is_not_lost() {
    let (mut line, now) = (line(&["a"]), Instant::now());
    line.tell(&place("a"), Edit);
    assert_eq!(taken(&mut line, now), some("a", Edit));
    line.forget(&place("a"));
    line.tell(&place("a"), Edit);
    line.know(place("a"));
    line.tell(&place("a"), Install);
    line.finish(&place("a"));
    assert_eq!(taken(&mut line, now), some("a", Install));
}

#[derive(Clone, Debug)]
enum Step {
    Know(u8),
    Forget(u8),
    Tell(u8, usize),
    TellAt(u8, usize, u64),
    TellAll(usize),
    Take,
    Finish(u8),
    Slow(u8),
    Quick(u8),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let who = || 0u8..6;
    prop_oneof![
        2 => who().prop_map(Step::Know),
        1 => who().prop_map(Step::Forget),
        5 => (who(), 0usize..3).prop_map(|(who, urgency)| Step::Tell(who, urgency)),
        3 => (who(), 0usize..3, 0u64..20).prop_map(|(who, urgency, at)| Step::TellAt(who, urgency, at)),
        1 => (0usize..3).prop_map(Step::TellAll),
        6 => Just(Step::Take),
        5 => who().prop_map(Step::Finish),
        1 => who().prop_map(Step::Slow),
        1 => who().prop_map(Step::Quick),
        1 => (0u64..10).prop_map(Step::Wait),
    ]
}

/// What a line promises, without its order: who wants a turn, how urgently, and from when on.
#[derive(Default)]
struct Promise {
    known: HashSet<Place>,
    wishes: HashMap<Place, (Urgency, Instant)>,
    running: HashSet<Place>,
}

impl Promise {
    fn wish(&mut self, place: &Place, urgency: Urgency, at: Instant) {
        if self.known.contains(place) {
            let wish = self.wishes.entry(place.clone()).or_insert((urgency, at));
            *wish = (wish.0.max(urgency), wish.1.min(at));
        }
    }

    fn taken(&mut self, place: Place, urgency: Urgency, now: Instant) {
        let (wished, at) = self.wishes.remove(&place).expect("only who wishes has a turn");
        assert_eq!(urgency, wished);
        assert!(at <= now, "too early");
        assert!(self.running.insert(place), "nothing runs twice at once");
    }
}

proptest! {
    #[test]
    fn nothing_is_lost_and_nothing_runs_twice_at_once(steps in prop::collection::vec(step(), 1..120)) {
        let start = Instant::now();
        let mut now = start;
        let mut line = Line::new(Limits { per_urgency: 2, slow: 1, total: None });
        let mut promise = Promise::default();
        let who = |who: u8| place(&who.to_string());
        for step in steps {
            match step {
                Step::Know(it) => {
                    line.know(who(it));
                    promise.known.insert(who(it));
                }
                Step::Forget(it) => {
                    line.forget(&who(it));
                    promise.known.remove(&who(it));
                    promise.wishes.remove(&who(it));
                }
                Step::Tell(it, urgency) => {
                    line.tell(&who(it), Urgency::ALL[urgency]);
                    promise.wish(&who(it), Urgency::ALL[urgency], start);
                }
                Step::TellAt(it, urgency, at) => {
                    let at = start + Duration::from_secs(at);
                    line.tell_at(&who(it), Urgency::ALL[urgency], at);
                    promise.wish(&who(it), Urgency::ALL[urgency], at);
                }
                Step::TellAll(urgency) => {
                    line.tell_all(Urgency::ALL[urgency]);
                    for place in promise.known.clone() {
                        promise.wish(&place, Urgency::ALL[urgency], start);
                    }
                }
                Step::Take => if let Take::Now { place, urgency, .. } = line.take(now) {
                    promise.taken(place, urgency, now);
                },
                Step::Finish(it) => if promise.running.remove(&who(it)) {
                    line.finish(&who(it));
                },
                Step::Slow(it) => line.is_slow(&who(it)),
                Step::Quick(it) => line.is_quick(&who(it)),
                Step::Wait(seconds) => now += Duration::from_secs(seconds),
            }
        }
        // In the end everybody who wishes has a turn.
        now = start + Duration::from_secs(1000);
        loop {
            for place in promise.running.drain() {
                line.finish(&place);
            }
            let Take::Now { place, urgency, .. } = line.take(now) else { break };
            promise.taken(place, urgency, now);
        }
        prop_assert!(promise.wishes.is_empty(), "lost: {:?}", promise.wishes);
        prop_assert_eq!((line.running, line.running_slow), ([0; 3], 0));
        prop_assert_eq!(line.known.len(), promise.known.len());
    }
}
