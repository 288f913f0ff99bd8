use super::*;

/// Texts of ours, and what Go's os.Expand made of them (go1.26, with a lookup that puts the name in angle brackets).
const FROM_GO: &[(&str, &str)] = &[
    ("", ""),
    ("$", "$"),
    ("$$", "<$>"),
    ("$$$", "<$>$"),
    ("$A", "<A>"),
    ("${A}", "<A>"),
    ("$A$B", "<A><B>"),
    ("a$A", "a<A>"),
    ("$Ab", "<Ab>"),
    ("${A}b", "<A>b"),
    ("$A-b", "<A>-b"),
    ("$1", "<1>"),
    ("$10", "<1>0"),
    ("${10}", "<10>"),
    ("${1}", "<1>"),
    ("$*", "<*>"),
    ("${*}", "<*>"),
    ("${**}", "<**>"),
    ("$#", "<#>"),
    ("$@", "<@>"),
    ("$!", "<!>"),
    ("$?", "<?>"),
    ("$-", "<->"),
    ("$0", "<0>"),
    ("${", ""),
    ("${}", ""),
    ("${}x", "x"),
    ("${A", "A"),
    ("${A$B}", "<A$B>"),
    ("$ A", "$ A"),
    ("$.A", "$.A"),
    ("$é", "$é"),
    ("${é}", "<é>"),
    ("${a b}", "<a b>"),
    ("${A:-x}", "<A:-x>"),
    ("$_", "<_>"),
    ("$_A", "<_A>"),
    ("$A_1", "<A_1>"),
    ("$A.b", "<A>.b"),
    ("$$A", "<$>A"),
    ("${$}", "<$>"),
    ("${$A}", "<$A>"),
    ("a$", "a$"),
    ("a$$", "a<$>"),
    ("$(A)", "$(A)"),
    ("$\\A", "$\\A"),
    ("\\$A", "\\<A>"),
    ("${{A}}", "<{A>}"),
    ("{{ \"$A\" }}", "{{ \"<A>\" }}"),
    ("$}", "$}"),
    ("${}}", "}"),
    ("${a}${b}", "<a><b>"),
    ("😀$A😀", "😀<A>😀"),
    ("$A😀", "<A>😀"),
    ("%A%", "%A%"),
    ("$a$", "<a>$"),
    ("${-}", "<->"),
    ("${-", "-"),
    ("${-a}", "<-a>"),
    ("${ }", "< >"),
    ("$\n", "$\n"),
];

#[test]
fn expands_what_go_expands() {
    for (text, expected) in FROM_GO {
        assert_eq!(expand(text, |name| Some(format!("<{name}>"))), *expected, "expanding {text:?}");
    }
}

#[test]
fn an_unset_variable_is_an_empty_text() {
    let lookup = |name: &str| (name == "IMAGE").then(|| "quay.io/x:1".to_string());
    assert_eq!(expand("$IMAGE $TAG|", lookup), "quay.io/x:1 |");
    assert_eq!(expand("a$$b", lookup), "ab", "the variable named $ is not set either");
}

#[test]
fn what_a_variable_holds_is_not_expanded_again() {
    assert_eq!(expand("$A", |_| Some("$A ${B}".into())), "$A ${B}");
}

#[test]
fn only_double_braces_ask_for_a_template() {
    assert!(needs_template(r#"{{ ("$IMAGE" | split ":")._0 }}"#));
    assert!(!needs_template("{a,b}"));
    assert!(!needs_template("}} {"));
}
