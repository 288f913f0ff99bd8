//! helm's output becomes objects and hooks, in Helm's order.
//!
//! Pure; only [`read_aside`] waits its turn. It refuses output that is not a list of Kubernetes objects, and names the chart's file in which that stands.

pub mod generated;
pub mod order;

use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use crate::aside;
use crate::chart::notes;
use crate::error::Category;
use crate::object::{Object, ObjectError};
use crate::yaml::{self, Problem, YamlError};

/// More objects than any chart renders.
pub const MOST_OBJECTS: usize = 20_000;

/// Makes an object a hook.
pub const HOOK: &str = "helm.sh/hook";

/// What a chart rendered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rendered {
    /// The release's ordinary objects, in Helm's install order.
    pub objects: Vec<Object>,
    /// What runs at events of the release's life.
    pub hooks: Vec<Hook>,
    /// The contents of crds/.
    pub crds: Vec<Object>,
    /// What NOTES.txt says.
    pub notes: String,
    /// The text of the ordinary objects, as a release record holds it.
    pub manifest: String,
    /// What the chart asked the cluster for and was not shown, as it is told.
    pub unseen: Vec<String>,
}

/// An object that Helm runs at certain events instead of installing it.
#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    pub object: Object,
    /// More objects of the same hook, where it is a list.
    pub others: Vec<Object>,
    /// In Helm's words: `pre-install`, `test`.
    pub events: Vec<String>,
    /// The chart's file, and the text in it.
    pub file: String,
    pub text: String,
}

impl Hook {
    /// Its object, and the others where it is a list.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        std::iter::once(&self.object).chain(&self.others)
    }

    /// The same, to keep.
    pub fn into_objects(self) -> impl Iterator<Item = Object> {
        std::iter::once(self.object).chain(self.others)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("{file}: {error}")]
    Yaml { file: String, error: YamlError },
    #[error("{file}: this is no Kubernetes object: {error}")]
    Object { file: String, error: ObjectError },
    #[error("the chart renders more than this operator takes: {0}; let it render less, or split it")]
    TooMuch(Limit),
    #[error(
        "the manifest of a release record exceeds a limit of this operator: {0}; restore the record from a backup, or delete it if the release is not needed"
    )]
    RecordTooMuch(Limit),
}

/// What a manifest may hold at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Limit {
    #[error("more than {MOST_OBJECTS} objects")]
    Objects,
    #[error("more than {} values in all objects together", yaml::MAX_NODES)]
    Values,
}

impl ManifestError {
    pub fn category(&self) -> Category {
        match self {
            ManifestError::RecordTooMuch(_) => Category::RecordUnusable,
            _ => Category::InvalidManifest,
        }
    }
}

/// Reads what `helm template --include-crds` printed just now. Nothing that anybody stored is read so: its crds/ are believed.
pub fn read(text: &str) -> Result<Rendered, ManifestError> {
    // helm prints crds/ first. What says later that it is of crds/ was written by a template, and is no exception from anything.
    read_with(text, Crds::First).map_err(|limited| limited.or(ManifestError::TooMuch))
}

/// Reads the manifest of a release record, or that of one of its hooks. A record holds nothing of crds/, and others may write it:
/// whatever it says about where an object comes from, the object is an ordinary one, for which all limits hold.
pub fn read_record(text: &str) -> Result<Rendered, ManifestError> {
    aside::here(text.len(), || read_with(text, Crds::None)).map_err(|limited| limited.or(ManifestError::RecordTooMuch))
}

/// Why a text was not read.
enum Limited {
    Wrong(ManifestError),
    TooMuch(Limit),
}

impl Limited {
    fn or(self, too_much: fn(Limit) -> ManifestError) -> ManifestError {
        match self {
            Limited::Wrong(error) => error,
            Limited::TooMuch(limit) => too_much(limit),
        }
    }

    fn of(file: &str, error: YamlError) -> Self {
        match error.problem {
            Problem::TooManyNodes => Limited::TooMuch(Limit::Values),
            _ => Limited::Wrong(ManifestError::Yaml { file: file.to_owned(), error }),
        }
    }
}

/// Which documents may be of crds/.
#[derive(Clone, Copy, PartialEq)]
enum Crds {
    First,
    None,
}

fn read_with(text: &str, crds: Crds) -> Result<Rendered, Limited> {
    read_within(text, crds, Budget { objects: MOST_OBJECTS, nodes: yaml::MAX_NODES })
}

/// What is left of the limits.
#[derive(Clone, Copy)]
struct Budget {
    objects: usize,
    nodes: usize,
}

fn read_within(text: &str, crds: Crds, mut left: Budget) -> Result<Rendered, Limited> {
    let mut rendered = Rendered::default();
    for Sourced { file, is_crd, document } in sourced(text, crds) {
        if let Some(text) = notes::read(file, document) {
            rendered.notes = text;
            continue;
        }
        let value = yaml::parse_within(document, &mut left.nodes).map_err(|error| Limited::of(file, error))?;
        let Items { all, is_list, may_be_hooks } = items(value);
        left.objects = left.objects.checked_sub(all.len()).ok_or(Limited::TooMuch(Limit::Objects))?;
        // Nothing comes of an empty list, but Helm has it in its record.
        let mut is_ordinary = all.is_empty() && is_list && !may_be_hooks && !is_crd;
        let hooks_before = rendered.hooks.len();
        for item in all {
            let object = Object::new(item)
                .map_err(|error| Limited::Wrong(ManifestError::Object { file: file.to_owned(), error }))?;
            match rendered.hooks.get_mut(hooks_before) {
                Some(list) => list.others.push(object),
                None if is_crd => rendered.crds.push(object),
                None => is_ordinary |= sort_in(&mut rendered, object, file, may_be_hooks.then_some(document)),
            }
        }
        if is_ordinary {
            rendered.manifest.push_str(&format!("---\n{}\n", document.trim_matches('\n')));
        }
    }
    rendered.objects.sort_by(|a, b| order::install_rank(a.kind()).cmp(&order::install_rank(b.kind())));
    Ok(rendered)
}

/// An object as helm printed it, and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Printed {
    /// The chart's file, as helm names it: `nginx/templates/service.yaml`.
    pub file: String,
    pub is_of_crds: bool,
    /// The events at which it runs; None where it is no hook.
    pub hook: Option<Vec<String>>,
    pub object: Value,
}

/// Everything that can be read of what `helm template --include-crds` printed, with the files. For whoever looks at many renders:
/// one document that is no YAML does not hide the others.
pub fn survey(text: &str) -> Vec<Printed> {
    let mut found = vec![];
    for Sourced { file, is_crd, document } in sourced(text, Crds::First) {
        let Ok(value) = yaml::parse(document) else { continue };
        let Items { all, may_be_hooks, .. } = items(value);
        for object in all {
            let annotation = object.pointer("/metadata/annotations").and_then(|all| all.get(HOOK)?.as_str());
            let hook = annotation.filter(|_| may_be_hooks).map(events);
            found.push(Printed { file: file.to_owned(), is_of_crds: is_crd, hook, object });
        }
    }
    found
}

/// A document, and where it comes from.
struct Sourced<'a> {
    file: &'a str,
    is_crd: bool,
    document: &'a str,
}

/// The documents of a text. One that names no file is of the same as the one before.
fn sourced(text: &str, crds: Crds) -> impl Iterator<Item = Sourced<'_>> {
    let (mut file, mut is_past_crds) = ("the chart's output", crds == Crds::None);
    documents(text).into_iter().map(move |document| {
        if let Some(named) = source(document) {
            file = named;
            is_past_crds |= !is_crd_file(file);
        }
        Sourced { file, is_crd: is_crd_file(file) && !is_past_crds, document }
    })
}

/// What a document holds: an object, or those of a list.
struct Items {
    all: Vec<Value>,
    is_list: bool,
    /// Whether what they say about hooks means something.
    may_be_hooks: bool,
}

fn items(document: Value) -> Items {
    let of_list = list_hook(&document);
    let is_list = of_list.is_some();
    let mut all = flatten(document);
    let may_be_hooks = match of_list {
        None => true,
        Some(annotations) if annotations.contains_key(HOOK) => {
            all.iter_mut().for_each(|item| inherit(item, &annotations));
            true
        }
        Some(_) => false,
    };
    Items { all, is_list, may_be_hooks }
}

/// The same, apart from all else where there is much to read: it takes long, and more memory than the text by far. So one at a time.
pub async fn read_aside(text: String) -> Result<Rendered, ManifestError> {
    const MUCH: usize = 512 * 1024;
    static ONE_AT_A_TIME: Semaphore = Semaphore::const_new(1);
    if text.len() < MUCH {
        return read(&text);
    }
    let turn = ONE_AT_A_TIME.acquire().await;
    let reading = tokio::task::spawn_blocking(move || {
        // Also where nobody waits for it any more.
        let _turn = turn;
        read(&text)
    });
    reading.await.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()))
}

/// The hook annotations of a list, if the document is one. Helm looks at documents: what the items of a list say about hooks
/// means nothing to it, and a list that is a hook is one as a whole.
fn list_hook(document: &Value) -> Option<Map<String, Value>> {
    if !is_list(document) {
        return None;
    }
    let annotations = document.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten();
    Some(
        annotations.filter(|(key, _)| key.starts_with(HOOK)).map(|(key, value)| (key.clone(), value.clone())).collect(),
    )
}

/// Has an item say what its list says about hooks.
fn inherit(item: &mut Value, annotations: &Map<String, Value>) {
    let is_map = |value: Option<&Value>| value.is_none_or(Value::is_object);
    if !item.is_object() || !is_map(item.get("metadata")) {
        // Whoever reads it as an object complains.
        return;
    }
    let own = &mut item["metadata"]["annotations"];
    if !own.is_object() {
        *own = Value::Object(Map::new());
    }
    for (key, value) in annotations {
        own[key] = value.clone();
    }
}

/// Puts an object where it belongs; true for an ordinary one. `text` is what a hook's record holds, if it may be one.
fn sort_in(rendered: &mut Rendered, object: Object, file: &str, text: Option<&str>) -> bool {
    if let (Some(events), Some(text)) = (object.annotation(HOOK), text) {
        let events = self::events(events);
        let (file, text) = (file.to_owned(), text.trim_matches('\n').to_owned());
        rendered.hooks.push(Hook { events, object, others: vec![], file, text });
    } else {
        rendered.objects.push(object);
        return true;
    }
    false
}

/// What the annotation of a hook says, in Helm's words of today.
fn events(annotation: &str) -> Vec<String> {
    let event = |event: &str| match event.trim().to_ascii_lowercase().as_str() {
        "test-success" => "test".to_owned(),
        event => event.to_owned(),
    };
    annotation.split(',').map(event).collect()
}

/// Splits at lines that start a document, as Helm does before it prints them.
fn documents(text: &str) -> Vec<&str> {
    let mut documents = vec![];
    let mut start = 0;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        if is_separator(line) {
            documents.push(&text[start..offset]);
            start = offset + line.len();
        }
        offset += line.len();
    }
    documents.push(&text[start..]);
    documents
}

fn is_separator(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.trim().is_empty() || rest.trim_start().starts_with('#'))
}

/// The chart's file, which helm names in a comment above each document.
fn source(document: &str) -> Option<&str> {
    document.lines().find_map(|line| line.strip_prefix("# Source: ")).map(str::trim)
}

/// `nginx/crds/widgets.yaml`, also of a subchart: `app/charts/nginx/crds/widgets.yaml`.
fn is_crd_file(file: &str) -> bool {
    let mut parts = file.split('/').skip(1);
    loop {
        match parts.next() {
            Some("crds") => return true,
            Some("charts") => {
                parts.next();
            }
            _ => return false,
        }
    }
}

/// An empty document is nothing; a `List` is its items. In a `ConfigMapList`, an item may leave out what it is.
fn flatten(value: Value) -> Vec<Value> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let (api_version, kind) = (text("apiVersion"), text("kind").unwrap_or_default());
    let is_list = is_list(&value);
    match value {
        Value::Null => vec![],
        Value::Object(mut map) if is_list => match map.remove("items") {
            Some(Value::Array(items)) => {
                let item_kind = kind.strip_suffix("List").unwrap_or_default();
                items.into_iter().flat_map(|item| flatten(typed(item, api_version.as_deref(), item_kind))).collect()
            }
            _ => vec![],
        },
        other => vec![other],
    }
}

/// An item of a list, with the type that the list says unless it says one itself.
fn typed(mut item: Value, api_version: Option<&str>, kind: &str) -> Value {
    if let Some(map) = item.as_object_mut().filter(|map| !map.contains_key("apiVersion") && !map.contains_key("kind"))
        && let Some(api_version) = api_version.filter(|_| !kind.is_empty())
    {
        map.insert("apiVersion".to_owned(), api_version.into());
        map.insert("kind".to_owned(), kind.into());
    }
    item
}

fn is_list(value: &Value) -> bool {
    let is_named_so = value.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    is_named_so && value.get("items").is_some_and(|items| items.is_array() || items.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let budget = Budget { objects: 3, nodes: 50 };
        let limit = |text: &str| match read_within(text, Crds::None, budget) {
            Ok(_) => None,
            Err(Limited::TooMuch(limit)) => Some(limit),
            Err(Limited::Wrong(error)) => panic!("{error}"),
        };
        assert_eq!((limit(&objects(3)), limit(&list(3))), (None, None));
        assert_eq!((limit(&objects(4)), limit(&list(4))), (Some(Limit::Objects), Some(Limit::Objects)));
        let values = |count| {
            format!("{{apiVersion: v1, kind: A, metadata: {{name: a}}, data: [{}]}}", vec!["1"; count].join(","))
        };
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
        let object =
            |kind: &str, name: &str| format!("---\napiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}}}\n");
        let text = [object("Zebra", "z"), object("Ant", "a"), object("Service", "b"), object("Service", "a")].concat();
        assert_eq!(names(&read(&text).unwrap().objects), ["Service/b", "Service/a", "Ant/a", "Zebra/z"]);
    }
}
