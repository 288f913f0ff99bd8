//! Documents, markers and directives.

use super::*;

#[test]
fn nothing_is_null_and_no_document() {
    for text in ["", "\n", "# comment", "  \n# c\n"] {
        assert_eq!(read(text), Value::Null, "{text:?}");
        assert_eq!(super::documents(text).unwrap(), Vec::<Value>::new(), "{text:?}");
    }
}

#[test]
fn markers_separate_documents() {
    let text = "a: 1\n---\n--- text\n--- |\n  b\n...\n# c\n---\n{c: 2}\n...\n...\n";
    let expected = [json!({"a": 1}), json!(null), json!("text"), json!("b\n"), json!({"c": 2})];
    assert_eq!(super::documents(text).unwrap(), expected);
}

#[test]
fn parse_takes_one_document_only() {
    assert_eq!(read("---\na: 1\n...\n# end\n"), json!({"a": 1}));
    let error = parse("a: 1\n---\nb: 2\n").unwrap_err();
    assert_eq!((error.line, error.problem), (2, Problem::SecondDocument));
    assert!(parse("{a: 1}\nb: [").is_err());
}

#[test]
fn anchors_and_tag_handles_end_with_their_document() {
    assert!(super::documents("&a 1\n---\n*a").is_err());
    assert!(super::documents("%TAG !e! x\n---\n!e!a b\n---\n!e!a b").is_err());
}

#[test]
fn directives_are_those_of_yaml_1_1() {
    assert_eq!(read("%YAML 1.1\n---\na: yes"), json!({"a": true}));
    assert_eq!(read("%TAG !e! tag:yaml.org,2002:\n---\n!e!int '3'"), json!(3));
    assert_eq!(problem("%YAML 1.2\n---\na"), Problem::Version { major: 1, minor: 2 });
    assert_eq!(problem("!e!a b"), Problem::UnknownTagHandle("!e!".into()));
}
