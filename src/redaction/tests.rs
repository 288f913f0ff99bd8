use super::*;
use serde_json::json;

fn knowing(values: &Value) -> Redactor {
    let mut redactor = Redactor::default();
    redactor.learn(values, [&String::new()]);
    redactor
}

fn shown(hidden: &str, text: &str) -> String {
    knowing(&json!([hidden])).text(text).into_owned()
}

#[test]
fn a_text_is_found_in_every_writing() {
    for (hidden, text, expected) in [
        ("hunter2", "the password hunter2 is wrong", "the password *** is wrong"),
        ("hunter2", "postgres://u:hunter2@db,hunter2", "postgres://u:***@db,***"),
        ("hunter2\n", "a: hunter2", "a: ***"),
        ("hunter2", "data: aHVudGVyMg==", "data: ***=="),
        ("aHVudGVyMg==", "it is hunter2", "it is ***"),
        ("hunter2\n", "data: aHVudGVyMgo=", "data: ***="),
        ("a\"b\\c", r#"Invalid value: "a\"b\\c""#, r#"Invalid value: "***""#),
        ("it's me", "a: 'it''s me'", "a: '***'"),
        ("a<b>&c", r#"{"a":"a\u003cb\u003e\u0026c"}"#, r#"{"a":"***"}"#),
        ("p@ss word/1", "https://u:p%40ss%20word%2F1@h", "https://u:***@h"),
        ("correct horse battery", "a: correct\n    horse battery\nb", "a: ***\nb"),
        ("BEGIN\nfirst line\nlast one\nEND.", "x: |\n  BEGIN\n  first line\n  last one\n  END.", "x: |\n  ***"),
        ("BEGIN\nfirst line\nlast one\nEND.", "+ first line\n- last one", "+ ***\n- ***"),
        ("user: me\npassword: hunter2\n", "login failed for hunter2", "login failed for ***"),
        ("größer", "die größere", "die ***e"),
    ] {
        assert_eq!(shown(hidden, text), expected, "{hidden:?}");
    }
}

#[test]
fn json_inside_of_json_is_found() {
    assert_eq!(shown(r#"a"b<c"#, r#"{"a":"{\"b\":\"a\\\"b<c\"}"}"#), r#"{"a":"{\"b\":\"***\"}"}"#);
    assert_eq!(shown(r#"a"b<c"#, r#"{"a":"{\"b\":\"a\\\"b\\u003cc\"}"}"#), r#"{"a":"{\"b\":\"***\"}"}"#);
}

#[test]
fn nothing_is_left_of_texts_that_overlap() {
    let redactor = knowing(&json!(["abcd", "cdefghij", "ghij and more"]));
    assert_eq!(redactor.text("x abcdefghij y"), "x *** y");
    assert_eq!(redactor.text("abcdefghij\n  and more."), "***.");
    assert_eq!(redactor.text("abcdabcd"), "******");
}

#[test]
fn nothing_is_worked_out_before_something_is_shown_and_many_lines_are_found_all_the_same() {
    let lines: Vec<String> = (0..3000).map(|n| format!("setting-{n}: \"the value {n} & more\"")).collect();
    let redactor = knowing(&json!({ "file": lines.join("\n"), "each": lines }));
    assert_eq!(redactor.text(""), "");
    assert!(!redactor.is_empty() && redactor.wanted.get().is_none());
    let text = format!("{} and {}", lines[2999], "nothing else ".repeat(1000));
    assert!(redactor.text(&text).starts_with("*** and nothing else"));
    assert!(redactor.wanted.get().is_some_and(|wanted| wanted.texts.texts().len() > 3000));
}

#[test]
fn what_is_known_is_told_apart() {
    let known = |values: Value| knowing(&values).knowledge();
    assert_eq!(known(json!(["hunter2", 5432])), known(json!({"a": 5432, "b": "hunter2"})));
    assert_ne!(known(json!(["hunter2"])), known(json!(["hunter3"])));
    assert_ne!(known(json!(["5432"])), known(json!([5432])));
}

#[test]
fn what_is_learned_later_is_found_too() {
    let mut redactor = knowing(&json!(["hunter2"]));
    assert_eq!(redactor.text("hunter2 and xyzzy"), "*** and xyzzy");
    redactor.learn(&json!("xyzzy"), [&String::new()]);
    assert_eq!(redactor.text("hunter2 and xyzzy"), "*** and ***");
}

#[test]
fn the_name_of_an_object_stays_in_every_version_of_it() {
    let redactor = knowing(&json!(["hunter2", "Secret"]));
    let object = |label: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hunter2", "namespace": "hunter2", "labels": {"name": label}}});
    let mut one = object("hunter2");
    assert!(redactor.object(&mut one));
    assert_eq!(one, object("***"));
    assert!(!redactor.object(&mut object("other")));
    let (mut before, mut after) = (object("hunter2"), object("new"));
    redactor.versions(Some(&mut before), Some(&mut after));
    assert_eq!((before, after), (object("***"), object("new")));
}

#[test]
fn a_longer_text_goes_before_a_shorter_one() {
    let redactor = knowing(&json!(["hunter", "hunter2"]));
    assert_eq!(redactor.text("hunter2 hunter1"), "*** ***1");
}

#[test]
fn what_is_short_is_masked_only_as_a_whole() {
    assert_eq!(shown("ab", "tab \"ab\" ab 'ab' `ab` 'ab\""), "tab \"***\" ab '***' `***` 'ab\"");
    assert_eq!(shown("ab", "ab"), "***");
    assert_eq!(shown("true", "true"), "true");
    assert_eq!(shown(" ", "a b"), "a b");
    assert_eq!(shown("", "a b"), "a b");
}

#[test]
fn a_number_is_masked_but_not_inside_of_another() {
    let redactor = knowing(&json!({"port": 5432, "pin": "9876", "replicas": 3, "on": true}));
    assert_eq!(redactor.text("5432, 15432, db:5432/x 3 9876 98765"), "***, 15432, db:***/x 3 *** 98765");
    let mut object = json!({"port": 5432, "replicas": 3, "on": true, "text": "5432"});
    assert!(redactor.object(&mut object));
    assert_eq!(object, json!({"port": "***", "replicas": 3, "on": true, "text": "***"}));
}

#[test]
fn an_object_keeps_its_kind_and_loses_values_and_keys() {
    let redactor = knowing(&json!(["hunter2", "Secret", "v1/x", "ab"]));
    let mut object =
        json!({"apiVersion": "v1/x", "kind": "Secret", "data": {"hunter2": "ab", "c": ["x hunter2"], "d": "abc"}});
    assert!(redactor.object(&mut object));
    let expected = json!({"apiVersion": "v1/x", "kind": "Secret", "data": {"***": "***", "c": ["x ***"], "d": "abc"}});
    assert_eq!(object, expected);
    assert!(!redactor.object(&mut json!({"a": ["b", 1, null]})));
}

#[test]
fn that_a_value_becomes_another_shows() {
    let redactor = knowing(&json!(["hunter2", "hunter3"]));
    let mut before = json!({"a": "hunter2", "b": "x hunter2", "same": "hunter2", "gone": "hunter2", "list": ["hunter2", "hunter2"], "plain": 1});
    let mut after =
        json!({"a": "hunter3", "b": "y hunter3", "same": "hunter2", "new": "hunter3", "list": ["hunter3"], "plain": 2});
    redactor.versions(Some(&mut before), Some(&mut after));
    assert_eq!(
        before,
        json!({"a": "***", "b": "x ***", "same": "***", "gone": "***", "list": ["***", "***"], "plain": 1})
    );
    let expected =
        json!({"a": "*** (changed)", "b": "y ***", "same": "***", "new": "***", "list": ["*** (changed)"], "plain": 2});
    assert_eq!(after, expected);
}

#[test]
fn a_status_keeps_the_names_of_its_objects() {
    let mut status = json!({"conditions": [{"type": "Ready", "message": "hunter2"}], "objects": [{"name": "hunter2", "message": "hunter2"}]});
    knowing(&json!("hunter2")).status(&mut status);
    let expected = json!({"conditions": [{"type": "Ready", "message": "***"}], "objects": [{"name": "hunter2", "message": "***"}]});
    assert_eq!(status, expected);
}

#[test]
fn nothing_known_changes_nothing_and_nothing_is_told_of_what_is_known() {
    let mut object = json!({"a": "hunter2"});
    assert!(!Redactor::default().object(&mut object));
    assert_eq!(Redactor::default().text("hunter2"), "hunter2");
    assert_eq!(format!("{:?}", knowing(&object)), "Redactor(1 texts)");
}

#[test]
fn a_cut_leaves_neither_beginning_nor_end() {
    for (text, expected) in [
        ("wrong: correct horse ba…", "wrong: ***…"),
        ("wrong: correct ho … tery staple at x", "wrong: *** … *** at x"),
        ("wrong: cor… is short", "wrong: cor… is short"),
        ("wrong: correct ho", "wrong: correct ho"),
    ] {
        assert_eq!(shown("correct horse battery staple", text), expected);
    }
}

#[test]
fn a_long_text_is_found_as_a_whole_and_where_it_was_cut() {
    let long: String = (0..2_000).map(|number| format!("{number} größe,")).collect();
    assert_eq!(shown(&long, &format!("it is {long} and more")), "it is *** and more");
    let redactor = knowing(&json!([long]));
    let cuts = (1_000..1_040).chain(5_000..5_040);
    for (cut, (begin, end)) in cuts.filter_map(|cut| Some((cut, long.split_at_checked(cut)?))) {
        if begin.ends_with(' ') || end.starts_with(' ') {
            continue;
        }
        assert_eq!(redactor.text(&format!("it is {begin}…")), "it is ***…", "{cut}");
        assert_eq!(redactor.text(&format!("…{end} it is")), "…*** it is", "{cut}");
    }
}

#[test]
fn the_same_letter_again_and_again_takes_no_time() {
    let letters = "a".repeat(300_000);
    assert_eq!(shown(&letters, &format!("x{letters}x")), "x***x");
}

#[test]
fn yaml_in_yaml_is_looked_through_so_deep_and_no_deeper() {
    let nested =
        |levels: usize| (0..levels).fold("password: hunter2".to_owned(), |inner, _| json!({ "a": inner }).to_string());
    assert_eq!(shown(&nested(NESTED - 1), "it is hunter2"), "it is ***");
    assert_eq!(shown(&nested(NESTED), "it is hunter2"), "it is hunter2");
}
