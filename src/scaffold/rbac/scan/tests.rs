use super::*;

fn scanned(text: &str) -> Scan {
    scan(&Tree::of([("templates/a.yaml", text)]))
}

fn kinds(text: &str) -> Vec<(String, Vec<String>)> {
    scanned(text).mentions.into_iter().map(|it| (it.kind, it.api_versions)).collect()
}

fn kind(name: &str, api_versions: &[&str]) -> (String, Vec<String>) {
    (name.to_owned(), api_versions.iter().map(|it| (*it).to_owned()).collect())
}

#[test]
fn kinds_are_found_with_the_api_versions_beside_them() {
    let text = "{{- if .Values.a }}\napiVersion: apps/v1\nkind: Deployment # the pods\nspec:\n  kind: Other\n{{- end }}\n---\n\
                {{- if x }}\napiVersion: a/v1\n{{- else }}\napiVersion: \"b/v1\"\n{{- end }}\n{{- if y }}kind: Gear\n{{- end }}\n";
    assert_eq!(kinds(text), [kind("Deployment", &["apps/v1"]), kind("Gear", &["a/v1", "b/v1"])]);
}

#[test]
fn an_api_version_may_come_from_a_helper() {
    let text = "apiVersion: {{ include \"common.ingress\" . }}\nkind: Ingress\n";
    assert_eq!(kinds(text), [kind("Ingress", &[])]);
    let unclear = scanned("apiVersion: apps/v1\nkind: {{ .Values.kind }}\n");
    assert_eq!((unclear.unclear_kinds.len(), unclear.mentions.len(), unclear.without_kind.len()), (1, 0, 0));
}

#[test]
fn what_refers_to_a_kind_is_none() {
    let text = "apiVersion: v1\nkind: A\nspec:\n  claims:\n  - apiVersion: v1\n    kind: B\n  ref: {kind: C}\n---\nroleRef:\n  kind: D\nkind: E\n";
    assert_eq!(kinds(text), [kind("A", &["v1"])]);
    assert_eq!(kinds("{{- /*\napiVersion: v1\nkind: A\n*/ -}}\n"), []);
}

#[test]
fn a_definition_counts_where_it_is_used() {
    let library = "{{ define \"lib.a\" }}\napiVersion: v1\nkind: A\n{{ end }}\n{{ define \"lib.b\" }}\napiVersion: v1\nkind: B\n{{ end }}\n";
    let found = |template: &str| {
        let tree = Tree::of([("templates/a.yaml", template), ("charts/lib/templates/_l.tpl", library)]);
        scan(&tree).mentions.into_iter().map(|it| it.kind).collect::<Vec<_>>()
    };
    assert_eq!(found("{{ include \"lib.b\" . }}{{ include (print $.Template.BasePath \"/c.yaml\") . }}"), ["B"]);
    assert_eq!(found("{{ include (printf \"lib.%s\" .Values.a) . }}"), ["A", "B"]);
}

#[test]
fn items_of_lists_count_and_tests_do_not() {
    let list = "apiVersion: v1\nkind: List\nitems:\n  - apiVersion: v1\n    kind: A\n    spec:\n      kind: B\n";
    assert_eq!(kinds(list), [kind("A", &["v1", "v1"])]);
    let hook = |events: &str| {
        format!("apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    \"helm.sh/hook\": {events}\n")
    };
    assert_eq!(kinds(&hook("test")), []);
    assert!(scanned(&hook("test {{ x }}")).without_kind.is_empty(), "it is known what it makes");
    assert_eq!(kinds(&hook("\"test, pre-install\"")).len(), 1);
    assert!(scanned(&hook("pre-install")).mentions[0].is_hook);
}

#[test]
fn questions_to_the_cluster_are_found() {
    let text = "{{ $a := lookup \"v1\" \"Secret\" .Release.Namespace (printf \"%s-x\" .x) }}\n{{ range (lookup \"apps/v1\" \"Deployment\" \"\" \"\").items }}{{ end }}\n{{ lookup .a .b }} a lookup \"in\" \"words\"";
    let scan = scanned(text);
    let found: Vec<_> = scan.lookups.iter().map(|it| (it.kind.as_str(), it.is_list)).collect();
    assert_eq!(found, [("Secret", false), ("Deployment", true)]);
    assert_eq!(scan.unclear_lookups, ["templates/a.yaml"]);
}

#[test]
fn a_question_whose_name_may_be_empty_is_one_for_all() {
    let is_list = |name: &str| scanned(&format!("{{{{ lookup \"v1\" \"Secret\" \"a\" {name} }}}}")).lookups[0].is_list;
    for name in [".Values.name", "$name", "(include \"a.name\" .)", "(printf \"%s%s\" .a .b)", "\"\"", "(print .a)", ""]
    {
        assert!(is_list(name), "{name}");
    }
    for name in [
        "\"a\"",
        ".Release.Name",
        "$.Release.Name",
        "(printf \"%s-db\" .a)",
        "(printf \"db-%s\" .a)",
        "(print .a \"-db\")",
    ] {
        assert!(!is_list(name), "{name}");
    }
}

#[test]
fn values_are_compared_with_texts() {
    let tree = Tree::of([
        ("Chart.yaml", "name: app"),
        ("charts/db/Chart.yaml", "name: db"),
        ("charts/db/templates/_a.tpl", "{{ if and (eq .Values.mode \"a\") (ne \"b\" $.Values.global.x) }}{{ end }}"),
    ]);
    let found: Vec<_> = scan(&tree).comparisons.into_iter().map(|it| (it.path.join("."), it.text)).collect();
    assert_eq!(found, [("db.mode".into(), "a".into()), ("global.x".into(), "b".into())]);
}

#[test]
fn rules_that_are_values_are_told() {
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  labels: {{ toYaml .Values.labels }}\nrules:\n";
    assert!(scanned(&format!("{role}- apiGroups: ['']\n")).open_rules.is_empty());
    assert_eq!(scanned(&format!("{role}{{{{- toYaml .Values.rules | nindent 2 }}}}\n")).open_rules.len(), 1);
}

#[test]
fn a_template_that_names_no_kind_is_told() {
    assert_eq!(scanned("{{ range .Values.extra }}\n---\n{{ toYaml . }}\n{{ end }}").without_kind.len(), 1);
    let helper = Tree::of([("templates/_a.tpl", "{{ define \"a\" }}{{ end }}")]);
    assert!(scan(&helper).without_kind.is_empty());
}
