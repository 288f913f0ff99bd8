//! helm's output becomes objects and hooks, in Helm's order.
//!
//! Pure. It refuses output that is not a list of Kubernetes objects, and names the chart's file in which that stands.

pub mod order;

use serde_json::Value;

use crate::error::Category;
use crate::object::{Object, ObjectError};
use crate::yaml::{self, YamlError};

const HOOK: &str = "helm.sh/hook";

/// What a chart rendered.
#[derive(Debug, Default, PartialEq)]
pub struct Rendered {
    /// The release's ordinary objects, in Helm's install order.
    pub objects: Vec<Object>,
    /// What runs at events of the release's life.
    pub hooks: Vec<Hook>,
    /// The contents of crds/.
    pub crds: Vec<Object>,
}

/// An object that Helm runs at certain events instead of installing it.
#[derive(Debug, PartialEq)]
pub struct Hook {
    pub object: Object,
    /// As in the annotation, in lower case: `pre-install`, `test`.
    pub events: Vec<String>,
}

impl Hook {
    /// Whether it takes part in install, upgrade, rollback or delete, and not only in `helm test`.
    pub fn is_lifecycle(&self) -> bool {
        self.events.iter().any(|event| !matches!(event.as_str(), "test" | "test-success"))
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("{file}: {error}")]
    Yaml { file: String, error: YamlError },
    #[error("{file}: this is no Kubernetes object: {error}")]
    Object { file: String, error: ObjectError },
}

impl ManifestError {
    pub fn category(&self) -> Category {
        Category::InvalidManifest
    }
}

/// Reads what `helm template --include-crds` printed.
pub fn read(text: &str) -> Result<Rendered, ManifestError> {
    let mut rendered = Rendered::default();
    let mut file = String::from("the chart's output");
    for document in documents(text) {
        if let Some(named) = source(document) {
            file = named.to_owned();
        }
        if crate::chart::notes::read(&file, document).is_some() {
            continue;
        }
        let value = yaml::parse(document).map_err(|error| ManifestError::Yaml { file: file.clone(), error })?;
        for item in flatten(value) {
            let object = Object::new(item).map_err(|error| ManifestError::Object { file: file.clone(), error })?;
            sort_in(&mut rendered, object, is_crd_file(&file));
        }
    }
    rendered.objects.sort_by(|a, b| order::install_rank(a.kind()).cmp(&order::install_rank(b.kind())));
    Ok(rendered)
}

fn sort_in(rendered: &mut Rendered, object: Object, from_crds: bool) {
    if from_crds {
        rendered.crds.push(object);
    } else if let Some(events) = object.annotation(HOOK) {
        let events = events.split(',').map(|event| event.trim().to_ascii_lowercase()).collect();
        rendered.hooks.push(Hook { object, events });
    } else {
        rendered.objects.push(object);
    }
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

/// An empty document is nothing; a `List` is its items.
fn flatten(value: Value) -> Vec<Value> {
    let is_list = value.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    match value {
        Value::Null => vec![],
        Value::Object(mut map)
            if is_list && map.get("items").is_some_and(|items| items.is_array() || items.is_null()) =>
        {
            match map.remove("items") {
                Some(Value::Array(items)) => items.into_iter().flat_map(flatten).collect(),
                _ => vec![],
            }
        }
        other => vec![other],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(objects: &[Object]) -> Vec<String> {
        objects.iter().map(|object| format!("{}/{}", object.kind(), object.name())).collect()
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
    }

    #[test]
    fn an_error_names_the_charts_file() {
        let error = read("---\n# Source: app/templates/a.yaml\nkind: A\n").unwrap_err();
        assert_eq!(error.to_string(), "app/templates/a.yaml: this is no Kubernetes object: it has no apiVersion");
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
