use super::*;

fn template(stderr: &str) -> String {
    match read(stderr, "app") {
        Complaint::Template(text) => text,
        other => panic!("{other:?}"),
    }
}

const HINT: &str = "\n\nUse --debug flag to render out invalid YAML\n";

#[test]
fn what_a_chart_refuses_is_its_place_and_its_words() {
    let stderr = format!("WARNING: x\nError: execution error at (app/templates/b.yaml:3:4): no{HINT}");
    assert_eq!(template(&stderr), "app/templates/b.yaml:3:4: no");
    let twice =
        "Error: INSTALLATION FAILED: execution error at (a/b.yaml:3:4): execution error at (a/c.yaml:1:1): two\nlines";
    assert_eq!(template(twice), "a/c.yaml:1:1: two\nlines");
}

#[test]
fn a_chain_of_includes_is_its_ends() {
    let three = "Error: template: app/templates/a.yaml:2:6: executing \"app/templates/a.yaml\" at <include \"x.one\" .>: \
        error calling include: template: app/templates/_h.tpl:1:24: executing \"x.one\" at <include \"x.two\" .>: error \
        calling include: template: app/templates/_h.tpl:2:31: executing \"x.two\" at <.Values.a.b.c>: nil pointer \
        evaluating interface {}.b";
    let four = "Error: app/templates/a.yaml:2:6\n  executing \"app/templates/a.yaml\" at <include \"x.one\" .>:\n    error \
        calling include:\napp/templates/_h.tpl:1:24\n  executing \"x.one\" at <include \"x.two\" .>:\n    error calling \
        include:\napp/templates/_h.tpl:2:31\n  executing \"x.two\" at <.Values.a.b.c>:\n    nil pointer evaluating \
        interface {}.b";
    for stderr in [three, four] {
        assert_eq!(
            template(&format!("{stderr}{HINT}")),
            "app/templates/_h.tpl:2:31 (included from app/templates/a.yaml:2:6): at <.Values.a.b.c>: nil pointer evaluating \
             interface {}.b"
        );
    }
}

#[test]
fn a_failure_of_the_notes_names_the_file_of_the_chart() {
    let three = "Error: template: app/templates/chartwright-notes.yaml:3:21: executing \
        \"app/templates/chartwright-notes.yaml\" at <include $name .>: error calling include: template: \
        app/templates/NOTES.txt:1:10: executing \"app/templates/NOTES.txt\" at <.Values.a.b>: nil pointer evaluating \
        interface {}.b";
    let four = "Error: app/templates/chartwright-notes.yaml:3:21\n  executing \"app/templates/chartwright-notes.yaml\" at \
        <include $name .>:\n    error calling include:\napp/templates/NOTES.txt:1:10\n  executing \
        \"app/templates/NOTES.txt\" at <.Values.a.b>:\n    nil pointer evaluating interface {}.b";
    for stderr in [three, four] {
        assert_eq!(
            template(&format!("{stderr}{HINT}")),
            "app/templates/NOTES.txt:1:10: at <.Values.a.b>: nil pointer evaluating interface {}.b"
        );
    }
    let failed = "Error: execution error at (app/templates/chartwright-notes.yaml:3:21): need a name";
    assert_eq!(template(failed), "app/templates/NOTES.txt: need a name");
}

#[test]
fn a_single_failure_keeps_its_cause() {
    let stderr = "Error: template: app/templates/a.yaml:1:3: executing \"app/templates/a.yaml\" at <index .Values.list 3>: \
        error calling index: index out of range: 3";
    assert_eq!(
        template(stderr),
        "app/templates/a.yaml:1:3: at <index .Values.list 3>: error calling index: index out of range: 3"
    );
}

#[test]
fn text_for_tpl_is_told_from_the_charts_own() {
    let start = "Error: template: app/templates/a.yaml:2:6: executing \"app/templates/a.yaml\" at <tpl .Values.t .>: error \
        calling tpl: ";
    let ran = "error during tpl function execution for \"{{ .Values.a.b }}\": template: gotpl:1:10: executing \"gotpl\" at \
        <.Values.a.b>: nil pointer evaluating interface {}.b";
    assert_eq!(
        template(&format!("{start}{ran}")),
        "app/templates/a.yaml:2:6: in text that is given to `tpl`, at <.Values.a.b>: nil pointer evaluating interface {}.b"
    );
    let parsed = "cannot parse template \"{{ f }}\": template: gotpl:1: function \"f\" not defined";
    assert_eq!(
        template(&format!("{start}{parsed}")),
        "app/templates/a.yaml:2:6: at <tpl .Values.t .>: the text that is given to `tpl` is no template: function \"f\" not \
         defined"
    );
}

#[test]
fn output_that_is_not_yaml_names_file_and_line() {
    let stderr = "Error: YAML parse error on app/templates/a.yaml: error converting YAML to JSON: yaml: line 4: did not find \
        expected key";
    assert_eq!(template(stderr), "app/templates/a.yaml: its output is not YAML: line 4: did not find expected key");
}

#[test]
fn a_chart_that_helm_cannot_read_is_told_from_one_that_refuses() {
    let chart = |stderr: &str| match read(stderr, "app") {
        Complaint::Chart(text) => text,
        other => panic!("{other:?}"),
    };
    let stderr = format!("Error: parse error at (app/templates/a.yaml:2): function \"f\" not defined{HINT}");
    assert_eq!(chart(&stderr), "app/templates/a.yaml:2: function \"f\" not defined");
    let values = "Error: cannot load values.yaml: error converting YAML to JSON: yaml: line 1: did not find";
    assert!(chart(values).starts_with("cannot load values.yaml"));
    let missing = "Error: An error occurred while checking for chart dependencies. You may need to run `helm dependency build` \
        to fetch missing dependencies: found in Chart.yaml, but missing in charts/ directory: foo";
    assert!(chart(missing).ends_with("charts/ directory: foo"));
}

#[test]
fn logs_before_the_error_are_noise() {
    let stderr =
        "coalesce.go:237: warning: cannot overwrite table\nlevel=WARN msg=\"found symbolic link\"\nError: something";
    assert_eq!(template(stderr), "something");
    assert_eq!(template("strange\n"), "strange");
    assert_eq!(template(""), "helm failed and did not say why");
}

#[test]
fn a_long_complaint_is_cut_between_characters() {
    let text = template(&format!("Error: {}", "é".repeat(3000)));
    assert!(text.len() <= LONGEST && text.ends_with("é…"), "{}", text.len());
}

#[test]
fn a_kind_that_nobody_knows_is_named() {
    let stderr = "Error: unable to build kubernetes objects from release manifest: resource mapping not found for name: \"web\" namespace: \"\" from \"\": no matches for kind \"Thing\" in version \"g.io/v1\"\nensure CRDs are installed first\n";
    let expected = Complaint::UnknownKind { kind: "Thing".into(), api_version: "g.io/v1".into() };
    assert_eq!(read(stderr, "app"), expected);
    let printed = "Error: execution error at (app/templates/a.yaml:1:4): no matches for kind \"A\" in version \"v1\"\n";
    assert!(matches!(read(printed, "app"), Complaint::Template(_)), "a chart may say so too");
}
