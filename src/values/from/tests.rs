use serde_json::json;

use super::super::{Overrides, Reason, Values, ValuesError};
use super::*;

fn references(text: &str) -> Vec<Reference> {
    parse_annotation(text, MAX_REFERENCES).unwrap()
}

fn merged(references: &[Reference], texts: &[&str]) -> Result<Sourced, FromError> {
    let contents: Vec<Content> = texts.iter().map(|text| Content::Text((*text).into())).collect();
    merge(references, &contents, "shop")
}

fn files(texts: &[&str]) -> Value {
    let names: Vec<String> = (0..texts.len()).map(|number| format!("secret/s{number}")).collect();
    Value::Object(merged(&references(&names.join(",")), texts).unwrap().all)
}

fn over(sources: &str, spec: Value, overrides: Value) -> Result<Values, ValuesError> {
    let sources = merged(&references("secret/s"), &[sources]).unwrap();
    let overrides = overrides.as_object().unwrap().clone().into_iter().collect();
    Values::merged(sources, Some(spec), &[], &Overrides::parse(&overrides).unwrap())
}

#[test]
fn an_annotation_is_read_item_by_item() {
    let all = references("secret/db, configmap/common:prod.yaml,\n Secret/token:password@auth.keys[0]?, secret/extra?");
    let shown: Vec<_> = all.iter().map(|it| (it.to_string(), it.key.as_str(), it.optional)).collect();
    let expected = [
        ("Secret db", "values.yaml", false),
        ("ConfigMap common", "prod.yaml", false),
        ("Secret token", "password", true),
        ("Secret extra", "values.yaml", true),
    ];
    assert_eq!(shown, expected.map(|(what, key, optional)| (what.to_owned(), key, optional)));
    assert_eq!(all[2].path.as_ref().unwrap().text, "auth.keys[0]");
    assert_eq!(references(" "), []);
}

#[test]
fn what_cannot_be_read_is_refused_with_the_reason() {
    for (text, why) in [
        ("db", "`db` cannot be read, since there is no kind"),
        ("secret/a,", "`` cannot be read"),
        ("pod/a", "\"pod\" is neither `secret` nor `configmap`"),
        ("secret/", "\"\" is not the name"),
        ("secret/A", "\"A\" is not the name"),
        ("secret/other/db", "it names a namespace"),
        ("secret/a:", "\"\" is not a key"),
        ("secret/a:b c", "\"b c\" is not a key"),
        ("secret/a:b:c", "\"b:c\" is not a key"),
        ("secret/a@", "empty key"),
        ("secret/a@b..c", "empty key"),
        ("secret/a ?", "\"a \" is not the name"),
    ] {
        let message = parse_annotation(text, MAX_REFERENCES).unwrap_err().to_string();
        assert!(message.contains(why) && message.contains("write a list such as"), "{text}: {message}");
    }
}

#[test]
fn later_files_win_entry_by_entry_and_null_stays() {
    let first = "a: {p: 1, q: 2}\nlist: [1, 2]\ngone: {deep: 1}\nback: null\n";
    let second = "a: {q: 3, r: null}\nlist: [3]\ngone: null\nback: {b: 1}\n";
    let expected = json!({"a": {"p": 1, "q": 3, "r": null}, "list": [3], "gone": null, "back": {"b": 1}});
    assert_eq!(files(&[first, second]), expected);
    assert_eq!(files(&["", "# nothing\n", "a: 1"]), json!({"a": 1}));
    assert_eq!(
        files(&["mode: 0644\non: yes\nbig: 12345678901"]),
        json!({"mode": 420, "true": true, "big": 12345678901_u64})
    );
}

#[test]
fn a_target_path_takes_the_whole_text() {
    let all = references("secret/a, secret/b:password@auth.users[1].password");
    let value = merged(&all, &["auth: {name: x}", "true\n"]).unwrap();
    assert_eq!(Value::Object(value.all), json!({"auth": {"name": "x", "users": [null, {"password": "true\n"}]}}));
    let error = merged(&all, &["auth: hunter2", "hunter3"]).unwrap_err();
    assert_eq!(error.category(), Category::InvalidValues);
    let message = error.to_string();
    assert!(message.contains("\"password\" of the Secret b cannot be put at `auth.users[1].password`"), "{message}");
    assert!(!message.contains("hunter"), "{message}");
}

#[test]
fn an_object_may_be_missing_only_if_it_is_optional_and_a_key_never() {
    let all = references("secret/a?");
    assert_eq!(merge(&all, &[Content::NoObject], "shop"), Ok(Sourced::default()));
    for (content, expected) in [
        (Content::NoKey, "has no key \"values.yaml\": add it"),
        (Content::Binary, "is not text"),
        (Content::OfRelease, "Secret a in the namespace shop, which belongs to this release itself"),
        (Content::Sensitive(Sensitive::Token), "which never holds values"),
    ] {
        let message = merge(&all, &[content], "shop").unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
    let error = merge(&references("configmap/a"), &[Content::NoObject], "shop").unwrap_err();
    assert_eq!(error.category(), Category::ValuesMissing);
    assert_eq!(
        error.to_string(),
        "values come from the ConfigMap a in the namespace shop, which is not there: create it, or mark the reference as optional"
    );
}

#[test]
fn no_message_quotes_a_value() {
    for text in
        ["hunter2", "[hunter2]", "password: *hunter2", "password: !hunter2!x y", "a: b: hunter2", "a: \"hunter2"]
    {
        let error = merged(&references("secret/a"), &[text]).unwrap_err();
        assert!(!error.to_string().contains("hunter"), "{error}");
        assert_eq!(error.category(), Category::InvalidValues);
    }
}

#[test]
fn the_spec_wins_over_the_sources_and_overrides_over_both() {
    let sources = "a: {p: s, q: s, r: s}\nlist: [s, s]\nport: 8080\nflag: true\n";
    let values =
        over(sources, json!({"a": {"q": "spec", "none": null}, "list": ["spec"]}), json!({"a.r": "o"})).unwrap();
    let expected =
        json!({"a": {"p": "s", "q": "spec", "r": "o", "none": null}, "list": ["spec"], "port": 8080, "flag": true});
    assert_eq!(values.json(), &expected);
    assert_eq!(values.sourced(), ["/a/p", "/port"]);
    let values = over("a: {x: 1}\nb~c/d: [[t]]", json!({"a": null}), json!({})).unwrap();
    assert_eq!(
        (values.json(), values.sourced()),
        (&json!({"a": null, "b~c/d": [["t"]]}), &["/b~0c~1d/0/0".to_owned()][..])
    );
}

#[test]
fn only_large_integers_of_the_spec_are_on_a_command_line() {
    let references = references("configmap/a, secret/b, configmap/c");
    let sources = merged(&references, &["a: 1000001\nl: [7]", "a: 1000002\nb: 1000003\nl: [1000004, 5]", "b: 1000005"]);
    let spec = json!({"c": 1000006});
    let values = Values::merged(sources.unwrap(), Some(spec), &[], &Overrides::default()).unwrap();
    assert_eq!(values.exact_integers(), ["c=1000006"]);
    let left_out: Vec<_> = values.left_out().iter().map(|it| (it.reason, it.count, it.first.as_str())).collect();
    assert_eq!(left_out, [(Reason::FromSecret, 2, "a"), (Reason::NotOfSpec, 1, "b")]);
}

#[test]
fn a_long_key_of_a_source_is_not_quoted() {
    let sources = format!("? {}\n: 1\n", "hunter2".repeat(200));
    let error = over(&sources, json!({}), json!({})).unwrap_err();
    assert_eq!(error, ValuesError::SourcedKeyTooLong);
    assert!(!error.to_string().contains("hunter"), "{error}");
}

#[test]
fn references_are_limited_before_any_of_them_is_read() {
    let many = |count: usize| (0..count).map(|number| format!("secret/s{number}?")).collect::<Vec<_>>().join(",");
    assert_eq!(parse_annotation(&many(64), 64).unwrap().len(), 64);
    assert_eq!(parse_annotation("", 0), Ok(vec![]));
    for (text, room) in [(many(65), 64), (many(25_000), 64), (many(3), 2), (",".repeat(64), 64)] {
        let error = parse_annotation(&text, room).unwrap_err();
        assert!(matches!(error, AnnotationError::TooMany { .. }), "{error}");
        assert!(error.to_string().contains("at most 64"), "{error}");
    }
}

#[test]
fn a_target_path_cannot_fill_the_memory_with_empty_elements() {
    let deep = format!("secret/a@a{}", "[65536]".repeat(255));
    let several = ["a", "b"].map(|key| format!("secret/a@{key}[65536]")).join(",");
    for text in [deep, several] {
        let all = references(&text);
        let error = merged(&all, &vec!["x"; all.len()]).unwrap_err();
        assert_eq!(error.category(), Category::InvalidValues);
        assert!(error.to_string().contains("more than 100000 items"), "{error}");
    }
    let sane: Vec<String> = (0..64).map(|number| format!("secret/a:k{number}@users[{number}].password")).collect();
    assert!(merged(&references(&sane.join(",")), &["x"; 64]).is_ok());
    assert!(merged(&references("secret/a@a[65536]"), &["x"]).is_ok());
}

#[test]
fn values_of_all_references_are_limited_together() {
    let paths: Vec<String> = (0..64).map(|number| format!("secret/a@p{number}")).collect();
    let large = "x".repeat(1024 * 1024);
    let error = merged(&references(&paths.join(",")), &[large.as_str(); 64]).unwrap_err();
    assert!(error.to_string().contains("more than 4 MiB"), "{error}");
    let list = format!("a: [{}]", vec!["{b: 1}"; 20_000].join(","));
    let names: Vec<String> = (0..4).map(|number| format!("configmap/c{number}")).collect();
    let error = merged(&references(&names.join(",")), &[list.as_str(); 4]).unwrap_err();
    assert!(error.to_string().contains("more than 100000 items"), "{error}");
    assert!(merged(&references("configmap/c"), &[&list]).is_ok());
    // A short text with much in it.
    let aliases =
        format!("a: &a {{b: 1}}\nc: &c [{}]\nd: [{}]\n", vec!["*a"; 1000].join(","), vec!["*c"; 100].join(","));
    let error = merged(&references("configmap/c"), &[&aliases]).unwrap_err();
    assert!(error.to_string().contains("more than 100000 items"), "{error}");
}

#[test]
fn what_was_not_read_is_an_error() {
    let error = merge(&references("secret/a?"), &[Content::TooMuch], "shop").unwrap_err();
    assert!(error.to_string().contains("more than 4 MiB"), "{error}");
}

#[test]
fn long_keys_above_many_values_are_refused() {
    let key = "k".repeat(900);
    let (open, close) = (format!("{{{key}: ").repeat(50), "}".repeat(50));
    let list = |elements: usize| format!("a: {open}[{}]{close}", vec!["1"; elements].join(","));
    assert_eq!(over(&list(1000), json!({}), json!({})).unwrap_err(), ValuesError::SourcedTooMuch);
    assert_eq!(over(&list(10), json!({}), json!({})).unwrap().sourced().len(), 10);
}
