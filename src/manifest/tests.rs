use proptest::prelude::*;

use super::*;
use crate::steps;

fn names(objects: &[Object]) -> Vec<String> {
    objects.iter().map(|object| format!("{}/{}", object.kind(), object.name())).collect()
}

#[test]
fn a_template_cannot_pass_for_the_contents_of_crds() {
    let text = "\
---
# Source: app/crds/w.yaml
{apiVersion: v1, kind: A, metadata: {name: a}}
---
# Source: app/templates/a.yaml
{apiVersion: v1, kind: B, metadata: {name: b}}
---
# Source: app/crds/w.yaml
{apiVersion: v1, kind: C, metadata: {name: c}}
";
    let rendered = read(text).unwrap();
    assert_eq!(
        (names(&rendered.crds), names(&rendered.objects)),
        (vec!["A/a".into()], vec!["B/b".into(), "C/c".into()])
    );
}

#[test]
fn a_record_has_no_crds_whatever_it_says() {
    let text = "# Source: app/crds/w.yaml\n{apiVersion: v1, kind: A, metadata: {name: a}}\n---\n# Source: app/charts/b/crds/w.yaml\n{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: B, metadata: {name: b}}]}\n";
    let (fresh, recorded) = (read(text).unwrap(), read_record(text).unwrap());
    assert_eq!((names(&fresh.crds), fresh.objects.len()), (vec!["A/a".into(), "B/b".into()], 0));
    assert_eq!((recorded.crds.len(), names(&recorded.objects)), (0, vec!["A/a".into(), "B/b".into()]));
}

#[test]
fn objects_hooks_and_crds_are_told_apart() {
    let text = "\
---
# Source: app/crds/w.yaml
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: w}
---
# Source: app/templates/deployment.yaml
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
---
# Source: app/templates/all.yaml
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: s}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}
---
# Source: app/templates/job.yaml
apiVersion: batch/v1
kind: Job
metadata: {name: j, annotations: {helm.sh/hook: 'Pre-Install, post-upgrade'}}
--- # nothing
# Source: app/templates/empty.yaml
# only a comment
";
    let rendered = read(text).unwrap();
    assert_eq!(names(&rendered.objects), ["ConfigMap/c", "Service/s", "Deployment/d"]);
    assert_eq!(names(&rendered.crds), ["CustomResourceDefinition/w"]);
    assert_eq!(rendered.hooks[0].events, ["pre-install", "post-upgrade"]);
    assert_eq!(rendered.hooks[0].file, "app/templates/job.yaml");
    let recorded = read_record(&rendered.manifest).unwrap();
    assert_eq!((recorded.objects, recorded.hooks, recorded.crds), (rendered.objects, vec![], vec![]));
}

#[test]
fn items_of_a_typed_list_may_leave_out_what_they_are() {
    let list = "apiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: a}\n- {apiVersion: v1, kind: Secret, metadata: {name: b}}\n";
    assert_eq!(names(&read(list).unwrap().objects), ["Secret/b", "ConfigMap/a"]);
    assert!(read("apiVersion: v1\nkind: List\nitems:\n- metadata: {name: a}\n").is_err());
}

#[test]
fn a_survey_names_the_files_and_bears_what_is_no_yaml() {
    let text = "\
---
# Source: app/crds/w.yaml
{apiVersion: v1, kind: A, metadata: {name: a}}
---
# Source: app/templates/a.yaml
}: {
---
# Source: app/templates/b.yaml
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: B, metadata: {name: b, annotations: {helm.sh/hook: test}}}
---
# Source: app/templates/c.yaml
{apiVersion: v1, kind: C, metadata: {name: c, annotations: {helm.sh/hook: 'pre-install, Test-Success'}}}
";
    let found: Vec<_> = survey(text).into_iter().map(|it| (it.file, it.is_of_crds, it.hook)).collect();
    let hook = Some(vec!["pre-install".to_owned(), "test".to_owned()]);
    let file = |name: &str| format!("app/{name}.yaml");
    let expected =
        [(file("crds/w"), true, None), (file("templates/b"), false, None), (file("templates/c"), false, hook)];
    assert_eq!(found, expected);
}

#[test]
fn a_document_without_a_file_is_an_ordinary_one_for_every_reader() {
    let text = "{apiVersion: v1, kind: A, metadata: {name: a}}\n";
    assert_eq!((read(text).unwrap().crds.len(), survey(text)[0].is_of_crds), (0, false));
}

#[test]
fn an_empty_list_is_recorded_and_nothing_else() {
    let rendered = read("---\napiVersion: v1\nkind: List\nitems: []\n---\n# nothing\n").unwrap();
    assert_eq!((rendered.objects.len(), rendered.manifest.matches("kind: List").count()), (0, 1));
}

#[test]
fn a_list_is_a_hook_as_a_whole_or_not_at_all() {
    let list = |annotations: &str| {
        format!(
            "---\n# Source: app/templates/all.yaml\napiVersion: v1\nkind: List\nmetadata: {{annotations: {{{annotations}}}}}\nitems:\n- {{apiVersion: v1, kind: ConfigMap, metadata: {{name: a, annotations: {{helm.sh/hook: test}}}}}}\n- {{apiVersion: v1, kind: Secret, metadata: {{name: b}}}}\n"
        )
    };
    let ordinary = read(&list("")).unwrap();
    assert_eq!(names(&ordinary.objects), ["Secret/b", "ConfigMap/a"]);
    let hooks = read(&list("helm.sh/hook: pre-install, helm.sh/hook-weight: '3'")).unwrap().hooks;
    assert_eq!((hooks.len(), hooks[0].object.name(), hooks[0].others[0].name()), (1, "a", "b"));
    let again = read_record(&hooks[0].text).unwrap().hooks;
    assert_eq!(again[0].events, ["pre-install"], "a record of it can be read again");
    assert_eq!(again[0].others[0].annotation("helm.sh/hook-weight"), Some("3"));
}

#[test]
fn notes_are_neither_an_object_nor_in_the_manifest() {
    let text = "---\n# Source: app/templates/chartwright-notes.yaml\nchartwrightNotes: \"SGkKLS0tCg==\"\n";
    assert_eq!(read(text).unwrap(), Rendered { notes: "Hi\n---\n".into(), ..Default::default() });
}

#[test]
fn an_error_names_the_charts_file() {
    let error = read("---\n# Source: app/templates/a.yaml\nkind: A\n").unwrap_err();
    assert_eq!(error.to_string(), "app/templates/a.yaml: this is no Kubernetes object: it has no apiVersion");
}

#[test]
fn a_manifest_has_so_many_objects_and_values_and_no_more() {
    const ONE: &str = "{apiVersion: v1, kind: A, metadata: {name: a}}";
    let objects = |count: usize| format!("---\n{ONE}\n").repeat(count);
    let list = |count| format!("kind: List\napiVersion: v1\nitems: [{}]", vec![ONE; count].join(","));
    let limit = |text: &str| limit(text, 3, 50);
    assert_eq!((limit(&objects(3)), limit(&list(3))), (None, None));
    assert_eq!((limit(&objects(4)), limit(&list(4))), (Some(Limit::Objects), Some(Limit::Objects)));
    let values =
        |count| format!("{{apiVersion: v1, kind: A, metadata: {{name: a}}, data: [{}]}}", vec!["1"; count].join(","));
    assert_eq!((limit(&values(35)), limit(&values(50))), (None, Some(Limit::Values)));
    assert_eq!(limit(&[values(20), values(20)].join("\n---\n")), Some(Limit::Values), "all together count");
}

#[test]
fn whose_fault_too_much_is_depends_on_who_wrote_it() {
    let text = "---\n{apiVersion: v1, kind: A, metadata: {name: a}}\n".repeat(MOST_OBJECTS + 1);
    let (recorded, fresh) = (read_record(&text).unwrap_err(), read(&text).unwrap_err());
    assert_eq!((recorded.category(), fresh.category()), (Category::RecordUnusable, Category::InvalidManifest));
    assert!(recorded.to_string().contains("more than 20000 objects; restore the record"), "{recorded}");
    assert!(fresh.to_string().contains("more than 20000 objects; let it render less"), "{fresh}");
}

#[test]
fn crd_files_are_known_by_their_directory() {
    assert!(is_crd_file("app/crds/w.yaml"));
    assert!(is_crd_file("app/charts/sub/crds/w.yaml"));
    assert!(!is_crd_file("app/templates/crds/w.yaml"));
    assert!(!is_crd_file("crds/templates/w.yaml"));
}

#[test]
fn unknown_kinds_come_last_and_equal_kinds_keep_their_order() {
    let object = |kind: &str, name: &str| format!("---\napiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}}}\n");
    let text = [object("Zebra", "z"), object("Ant", "a"), object("Service", "b"), object("Service", "a")].concat();
    assert_eq!(names(&read(&text).unwrap().objects), ["Service/b", "Service/a", "Ant/a", "Zebra/z"]);
}

/// The limit that a text exceeds where it may hold so many objects and values.
fn limit(text: &str, objects: usize, nodes: usize) -> Option<Limit> {
    match read_within(text, Crds::None, Budget { objects, nodes }) {
        Ok(_) => None,
        Err(Limited::TooMuch(limit)) => Some(limit),
        Err(Limited::Wrong(error)) => panic!("{error}"),
    }
}

#[test]
fn what_a_list_gives_to_its_items_counts() {
    let item = "{apiVersion: v1, kind: A, metadata: {name: a}}";
    let list = |items: usize, note: &str| {
        let annotations = format!("{{helm.sh/hook: test, helm.sh/hook-note: {note}}}");
        let items = vec![item; items].join(", ");
        format!("{{apiVersion: v1, kind: List, metadata: {{annotations: {annotations}}}, items: [{items}]}}")
    };
    let long = "x".repeat(1_600);
    assert_eq!((limit(&list(10, "x"), 20, 150), limit(&list(1, &long), 20, 150)), (None, None));
    assert_eq!(limit(&list(10, &long), 20, 150), Some(Limit::Values));
    let typed = |items: usize, version: &str| {
        format!("{{apiVersion: {version}, kind: AList, items: [{}]}}", vec!["{metadata: {name: a}}"; items].join(", "))
    };
    assert_eq!((limit(&typed(10, "v1"), 20, 150), limit(&typed(1, &long), 20, 150)), (None, None));
    assert_eq!(limit(&typed(10, &long), 20, 150), Some(Limit::Values));
    let hook = |events: &str| {
        format!("{{apiVersion: v1, kind: A, metadata: {{name: a, annotations: {{helm.sh/hook: '{events}'}}}}}}")
    };
    assert_eq!(limit(&hook("pre-install,post-install"), 20, 150), None);
    assert_eq!(limit(&hook(&",".repeat(200)), 20, 150), Some(Limit::Values));
}

#[test]
fn the_steps_grow_with_the_text() {
    let read = |text: String| steps::of(|| drop(read_record(&text).unwrap()));
    steps::assert_n_log_n("documents", |number| {
        let kinds = ["Deployment", "Service", "Unknown"];
        let object = |it: usize| format!("---\n{{apiVersion: v1, kind: {}, metadata: {{name: a}}}}\n", kinds[it % 3]);
        read((0..number).map(object).collect())
    });
    steps::assert_n_log_n("lists", |number| {
        let items = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}},".repeat(number);
        let annotations = "{helm.sh/hook: test, helm.sh/hook-weight: 1}";
        read(format!("{{apiVersion: v1, kind: List, metadata: {{annotations: {annotations}}}, items: [{items}]}}"))
    });
}

/// Objects, and lists of them in lists.
fn nested() -> impl Strategy<Value = String> {
    let object = "[a-c]".prop_map(|name| format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}}}"));
    object.prop_recursive(5, 64, 8, |inner| {
        let hook = proptest::option::of("[a-z]{1,8}");
        (proptest::collection::vec(inner, 0..8), hook, any::<bool>()).prop_map(|(items, hook, is_typed)| {
            let hook = hook.map(|weight| {
                format!(", metadata: {{annotations: {{helm.sh/hook: test, helm.sh/hook-weight: {weight:?}}}}}")
            });
            let kind = if is_typed { "ConfigMapList" } else { "List" };
            format!("{{apiVersion: v1, kind: {kind}{}, items: [{}]}}", hook.unwrap_or_default(), items.join(", "))
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn a_text_of_any_shape_takes_a_few_steps_for_each_value(documents in proptest::collection::vec(nested(), 0..8)) {
        let text = documents.join("\n---\n");
        let values = text.matches('{').count() + documents.len() + 1;
        let doublings = values.ilog2() as usize + 1;
        steps::assert_few("read_record", values * doublings, steps::of(|| drop(read_record(&text).unwrap())));
    }
}
