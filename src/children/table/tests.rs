use super::*;
use crate::drift::Hash;

fn place(name: &str) -> Place {
    Place::new(Some("default"), name)
}

fn seen(version: u64, hash: u64) -> Seen {
    let mark = Mark { at: 0, hash: Hash(hash), rules: Hash(0), replicas: false };
    Seen::new("u", version, Some(mark), None, Some(Parent::of_test("cr")))
}

fn synced() -> Table {
    let mut table = Table::default();
    table.note(Change::ListStarts);
    table.note(Change::Listed(place("a"), seen(5, 1)));
    assert_eq!(table.note(Change::ListEnds), News { is_synced: true, ..News::default() });
    table
}

#[test]
fn a_change_of_the_mark_is_news_and_any_other_write_is_not() {
    let mut table = synced();
    assert!(table.note(Change::There(place("a"), seen(6, 1))).parents.is_empty());
    assert_eq!(table.note(Change::There(place("a"), seen(7, 2))).parents, [Parent::of_test("cr")]);
}

#[test]
fn what_an_apply_was_answered_is_no_news_when_the_watch_tells_it() {
    let mut table = synced();
    table.learn(place("a"), seen(8, 3));
    assert!(table.note(Change::There(place("a"), seen(8, 3))).parents.is_empty());
}

#[test]
fn how_many_pods_there_are_is_known_also_after_an_apply() {
    let mut table = synced();
    let scale = Some(Box::new(Scale { replicas: 2, selector: "a=b".into() }));
    table.note(Change::There(place("a"), Seen { scale: scale.clone(), ..seen(6, 1) }));
    table.learn(place("a"), seen(8, 3));
    assert_eq!(table.get(&place("a")).unwrap().scale, scale);
    table.learn(place("a"), Seen { uid: "other".into(), ..seen(9, 3) });
    assert_eq!(table.get(&place("a")).unwrap().scale, None);
}

#[test]
fn an_answer_that_is_older_than_what_the_watch_told_is_not_believed() {
    let mut table = synced();
    table.note(Change::Gone(place("a"), 9));
    table.learn(place("a"), seen(8, 3));
    assert!(table.get(&place("a")).is_none());
}

#[test]
fn somebody_who_takes_the_owner_away_is_noticed_by_the_owner() {
    let mut table = synced();
    let loose = Seen { parent: None, ..seen(6, 9) };
    assert_eq!(table.note(Change::There(place("a"), loose)).parents, [Parent::of_test("cr")]);
}

#[test]
fn what_went_while_nobody_watched_is_noticed_in_the_next_list() {
    let mut table = synced();
    table.note(Change::ListStarts);
    table.note(Change::Listed(place("b"), seen(20, 1)));
    let news = table.note(Change::ListEnds);
    assert_eq!((news.parents.len(), news.is_synced), (2, false), "one went and one came");
    assert!(table.get(&place("a")).is_none() && table.get(&place("b")).is_some());
}

#[test]
fn what_is_deleted_before_it_finished_was_cut_short() {
    let mut table = synced();
    table.note(Change::There(place("a"), Seen { life: Life::Finished, ..seen(6, 1) }));
    table.note(Change::Gone(place("a"), 7));
    assert!(!table.was_cut_short(&place("a")));
    table.note(Change::There(place("a"), Seen { life: Life::Running, ..seen(8, 1) }));
    table.note(Change::There(place("a"), Seen { life: Life::CutShort, ..seen(9, 1) }));
    // A pod that is told to end reports its end.
    table.note(Change::There(place("a"), Seen { life: Life::Finished, ..seen(10, 1) }));
    table.note(Change::Gone(place("a"), 11));
    assert!(table.was_cut_short(&place("a")));
    table.forget(&Parent::of_test("cr"));
    assert!(!table.was_cut_short(&place("a")));
}

#[test]
fn the_newest_of_all_is_missed_too_when_it_is_not_in_the_next_list() {
    let mut table = synced();
    table.note(Change::ListStarts);
    assert_eq!(table.note(Change::ListEnds).parents, [Parent::of_test("cr")]);
    assert!(table.get(&place("a")).is_none());
}

#[test]
fn what_is_applied_while_a_list_comes_in_stays() {
    let mut table = synced();
    table.note(Change::ListStarts);
    table.note(Change::Listed(place("a"), seen(5, 1)));
    table.learn(place("a"), seen(7, 2));
    table.learn(place("b"), seen(8, 1));
    assert!(table.note(Change::ListEnds).parents.is_empty());
    let applied = |seen| Seen { is_recorded: true, ..seen };
    assert_eq!(table.get(&place("a")), Some(&applied(seen(7, 2))));
    assert_eq!(table.get(&place("b")), Some(&applied(seen(8, 1))));
}

#[test]
fn what_was_applied_and_is_not_in_a_newer_list_is_gone() {
    let mut table = synced();
    table.note(Change::ListStarts);
    table.learn(place("a"), seen(7, 2));
    table.learn(place("b"), seen(8, 1));
    table.note(Change::Listed(place("c"), seen(9, 1)));
    let news = table.note(Change::ListEnds);
    assert!(table.get(&place("a")).is_none() && table.get(&place("b")).is_none(), "they went before the list was made");
    assert_eq!(news.parents.len(), 3, "two went and one came");
}

#[test]
fn a_cluster_that_was_set_back_is_believed() {
    let mut table = synced();
    table.note(Change::ListStarts);
    table.note(Change::Listed(place("a"), seen(2, 9)));
    assert_eq!(table.note(Change::ListEnds).parents.len(), 2);
    assert_eq!(table.get(&place("a")), Some(&seen(2, 9)));
}

#[test]
fn the_end_of_an_earlier_one_is_not_the_end_of_its_successor() {
    let mut table = synced();
    table.learn(place("a"), seen(12, 1));
    assert!(table.note(Change::Gone(place("a"), 9)).parents.is_empty());
    assert!(table.get(&place("a")).is_some());
}

#[test]
fn who_claims_to_belong_to_another_namespace_is_not_believed_until_a_release_holds_it() {
    let mut table = synced();
    let (afar, parent) = (Place::new(Some("theirs"), "x"), Parent::of_test("cr"));
    let news = table.note(Change::There(afar.clone(), seen(6, 1)));
    assert_eq!((news.parents, news.claimed), (vec![], vec![parent.clone()]));
    table.is_held(&afar, "another", &parent);
    assert_eq!(table.note(Change::There(afar.clone(), seen(7, 2))).claimed, vec![parent.clone()]);
    table.is_held(&afar, "u", &parent);
    assert_eq!(table.note(Change::There(afar.clone(), seen(8, 3))).parents, vec![parent.clone()]);
    let turned = Seen { parent: Some(Parent::of_test("victim")), ..seen(9, 4) };
    let news = table.note(Change::There(afar.clone(), turned));
    assert_eq!((news.parents, news.claimed), (vec![parent.clone()], vec![Parent::of_test("victim")]));
    assert_eq!(table.note(Change::Gone(afar, 10)).claimed, [Parent::of_test("victim")]);
}

#[test]
fn what_is_applied_or_cluster_scoped_is_believed() {
    let mut table = synced();
    let afar = Place::new(Some("theirs"), "x");
    table.learn(afar.clone(), seen(6, 1));
    assert_eq!(table.note(Change::There(afar.clone(), seen(7, 2))).parents, [Parent::of_test("cr")]);
    table.note(Change::ListStarts);
    table.note(Change::Listed(afar, seen(8, 3)));
    assert!(table.note(Change::ListEnds).claimed.is_empty());
    let news = table.note(Change::There(Place::new(None, "role"), seen(9, 1)));
    assert_eq!((news.parents.len(), news.claimed.len()), (1, 0));
}

#[test]
fn what_lasts_is_just_gone() {
    let mut table = synced();
    table.note(Change::Gone(place("a"), 7));
    assert!(!table.was_cut_short(&place("a")));
}

#[test]
fn only_so_many_that_were_cut_short_are_remembered_and_none_that_others_only_claim() {
    let mut table = synced();
    let running = |version| Seen { life: Life::Running, ..seen(version, 1) };
    let cut = |table: &mut Table, place: Place, is_held: bool| {
        table.note(Change::There(place.clone(), running(10)));
        if is_held {
            table.is_held(&place, "u", &Parent::of_test("cr"));
        }
        table.note(Change::Gone(place.clone(), 11));
        table.was_cut_short(&place)
    };
    let afar = |name: &str| Place::new(Some("theirs"), name);
    assert_eq!((cut(&mut table, afar("x"), false), cut(&mut table, afar("y"), true)), (false, true));
    let many = (0..2 * CUT_SHORT_OF_CLAIMED).filter(|number| cut(&mut table, place(&format!("j{number}")), false));
    assert_eq!(many.count(), CUT_SHORT_OF_CLAIMED - 1);
    assert!(cut(&mut table, place("held"), true), "a release holds it");
}

#[test]
fn the_steps_grow_with_the_objects_of_a_list() {
    let list = |table: &mut Table, from: usize, number: usize, hash: u64| {
        table.note(Change::ListStarts);
        for it in from..from + number {
            table.note(Change::Listed(place(&format!("o{it}")), seen(20, hash)));
        }
        table.note(Change::ListEnds).parents.len()
    };
    crate::steps::assert_linear("a list", |number| {
        let mut table = synced();
        list(&mut table, 0, number, 1);
        (0..number).for_each(|it| table.learn(place(&format!("o{it}")), seen(21, 1)));
        // Half of them went, half of them changed, and as many are new.
        crate::steps::of(|| assert!(list(&mut table, number / 2, number, 2) >= number))
    });
    crate::steps::assert_linear("changes", |number| {
        let mut table = synced();
        crate::steps::of(|| {
            for it in 0..number {
                table.note(Change::There(place(&format!("o{it}")), seen(20, 1)));
                table.note(Change::Gone(place(&format!("o{it}")), 21));
            }
        })
    });
}
