use serde_json::json;

use super::*;

fn set(base: Value, text: &str) -> Result<Value, SetError> {
    let Value::Object(mut map) = base else { panic!("a base is an object") };
    set_into(&mut map, text, Typing::Typed).map(|()| Value::Object(map))
}

fn error(base: Value, text: &str) -> String {
    set(base, text).expect_err(text).to_string()
}

#[test]
fn every_vector_from_helm_holds() {
    let vectors: Value =
        serde_json::from_str(include_str!("../../../tests/data/set-vectors.json")).expect("the vectors are JSON");
    let cases = vectors["cases"].as_array().expect("cases are a list");
    assert!(cases.len() > 1000, "only {} vectors were read", cases.len());
    for case in cases {
        let on = case["on"].as_u64().unwrap_or(0) as usize;
        let mut map = vectors["bases"][on].as_object().expect("a base is an object").clone();
        let typing = if case["string"] == true { Typing::Strings } else { Typing::Typed };
        let outcome = set_into(&mut map, case["set"].as_str().expect("a text"), typing);
        match case.get("gives") {
            Some(gives) => {
                assert_eq!(outcome, Ok(()), "{case}");
                assert_eq!(Value::Object(map), *gives, "{case}");
            }
            None => assert!(outcome.is_err(), "{case} gave {}", Value::Object(map)),
        }
    }
}

#[test]
fn the_largest_index_is_helms() {
    let list = set(json!({}), "a[65536]=1").expect("65536 is allowed");
    assert_eq!(list["a"].as_array().map(Vec::len), Some(65537));
    assert_eq!(error(json!({}), "a[65537]=1"), "index 65537 is too large: Helm allows at most 65536");
    // Also where the element is there already.
    let long = json!({"a": vec![json!({}); 65538]});
    assert_eq!(error(long, "a[65537].x=1"), "index 65537 is too large: Helm allows at most 65536");
}

#[test]
fn a_path_cannot_exhaust_the_stack() {
    let deepest = format!("a{}=1", "[0]".repeat(MAX_STEPS - 1));
    assert!(set(json!({}), &deepest).is_ok());
    for step in ["[0]", "[0].a"] {
        let text = format!("a{}=1", step.repeat(100_000));
        assert_eq!(set(json!({}), &text), Err(SetError::TooLong));
    }
}

#[test]
fn an_open_index_is_an_error_as_in_helm_3() {
    assert_eq!(set(json!({}), "a[0"), Err(SetError::IndexNotClosed));
    assert_eq!(set(json!({}), "a=1,b[0]["), Err(SetError::IndexNotClosed));
}

#[test]
fn a_message_says_what_and_where_and_what_to_do() {
    let messages = [
        (json!({}), "a=1,b", "key `b` has no value: add `=` and one, or escape the comma before it (`\\,`)"),
        (json!({}), "a,b=1", "key `a` has no value before the comma: add `=` and one, or escape the comma (`\\,`)"),
        (json!({}), "a..b=1", "nothing would be set under `a`: a key after the dot is empty"),
        (
            json!({}),
            "a={x",
            "a list that starts with an opening brace must end with a closing one: add it, or escape the first one (`\\{`)",
        ),
        (
            json!({}),
            "a[x]=1",
            "`[x]` is not an index: write a number, or escape the bracket (`\\[`) if it belongs to the key",
        ),
        (json!({}), "a[-2]=1", "index -2 is negative: the first element is 0"),
        (json!({}), "a[0]b=1", "`b` follows an index: only `.`, `[` or `=` may"),
        (json!({"a": {"b.c": "text"}}), "a.b\\.c.d=1", "`a.b\\.c` is a string, and an object is needed there"),
        (json!({"a": [0, [null, 7]]}), "a[1][1][0]=1", "`a[1][1]` is a number, and a list is needed there"),
        (json!({"a": null}), "a[0]=1", "`a` is null, and a list is needed there"),
        (json!({"a": true}), "a.b.c=1", "`a` is a boolean, and an object is needed there"),
    ];
    for (base, text, message) in messages {
        assert_eq!(error(base, text), message, "setting {text:?}");
    }
}

#[test]
fn a_path_alone_is_read_strictly() {
    let key = |key: &str| Step::Key(key.into());
    assert_eq!(one_path("a.b[1].c"), Ok(vec![key("a"), key("b"), Step::Index(1), key("c")]));
    assert_eq!(one_path(r"a\.b\=c"), Ok(vec![key("a.b=c")]));
    for empty in ["", ".a", "a.", "a..b", "a[0].", "[0]"] {
        assert_eq!(one_path(empty), Err(SetError::EmptyKey), "{empty:?}");
    }
    assert_eq!(one_path("a=b"), Err(SetError::NotOnePath { text: "a=b".into() }));
    assert_eq!(one_path("a,b"), Err(SetError::NotOnePath { text: "a,b".into() }));
    assert_eq!(one_path("a[0]=b"), Err(SetError::NotOnePath { text: "a[0]=b".into() }));
    assert_eq!(one_path("a\\"), Ok(vec![key("a")]), "a lone backslash is dropped, as Helm drops it");
}

#[test]
fn what_is_shown_can_be_read_again() {
    for name in ["a", "a.b", "a,b", "a=b", "a[0]", r"a\b", r"\", "{x}", " ", "'", "\"", "é\n", "]"] {
        let path = [StepRef::Key(name), StepRef::Index(3), StepRef::Key(name)];
        let owned = vec![Step::Key(name.into()), Step::Index(3), Step::Key(name.into())];
        assert_eq!(one_path(&show(&path)), Ok(owned), "{name:?}");
    }
}
