//! The kinds that a chart brings in `crds/`, its own and those of its subcharts.
//!
//! Helm installs them before it renders, so a chart may ask for them and use them. What is no CustomResourceDefinition, or
//! cannot be read, is left out: helm or the API server will complain about it.

use std::io::Read;
use std::path::{Component, Path};

use serde_json::Value;

use super::{MOST_FILE_BYTES, archive, files};
use crate::yaml;

/// One version of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brought {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub is_namespaced: bool,
    pub has_status: bool,
    pub has_scale: bool,
}

/// Reads the copy of a chart.
pub(super) fn read(chart: &Path) -> Vec<Brought> {
    let mut brought = vec![];
    for found in files::list(chart).unwrap_or_default() {
        if let Some(content) = may_hold_kinds(&found.path).then(|| std::fs::read(&found.file).ok()).flatten() {
            in_file(&found.path, &content, &mut brought);
        }
    }
    brought
}

/// Only these are read: a chart may have many large files.
fn may_hold_kinds(path: &Path) -> bool {
    is_packed(path) || is_crd_file(path)
}

fn in_file(path: &Path, content: &[u8], brought: &mut Vec<Brought>) {
    if is_packed(path) {
        let _ = archive::each_file(content, |path, _, entry| {
            let mut content = vec![];
            entry.take(MOST_FILE_BYTES).read_to_end(&mut content).map_err(|_| ())?;
            // Below the one directory of a packed chart.
            let below: std::path::PathBuf = path.components().skip(1).collect();
            in_file(&below, &content, brought);
            Ok::<(), ()>(())
        });
    } else if is_crd_file(path) {
        let documents = std::str::from_utf8(content).ok().and_then(|text| yaml::documents(text).ok());
        brought.extend(documents.into_iter().flatten().flat_map(|document| kinds(&document)));
    }
}

fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "tgz")
        && path.parent().is_some_and(|parent| parent.ends_with("charts"))
}

/// `crds/a.yaml`, also of a subchart: `charts/sub/crds/a.yaml`.
fn is_crd_file(path: &Path) -> bool {
    let is_manifest = path.extension().is_some_and(|it| it == "yaml" || it == "yml" || it == "json");
    let mut parts = path.components();
    loop {
        match parts.next() {
            Some(Component::Normal(name)) if name == "crds" => return is_manifest,
            Some(Component::Normal(name)) if name == "charts" => parts.next(),
            _ => return false,
        };
    }
}

/// The served versions of a definition.
fn kinds(definition: &Value) -> Vec<Brought> {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| value.as_array().into_iter().flatten().map(text).collect();
    let names = &spec["names"];
    let versions = spec["versions"].as_array().into_iter().flatten().filter(|version| version["served"] == true);
    let kinds = versions.map(|version| Brought {
        group: text(&spec["group"]),
        version: text(&version["name"]),
        kind: text(&names["kind"]),
        plural: text(&names["plural"]),
        singular: names["singular"].as_str().map_or_else(|| text(&names["kind"]).to_lowercase(), str::to_owned),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        is_namespaced: spec["scope"] == "Namespaced",
        has_status: version["subresources"]["status"].is_object(),
        has_scale: version["subresources"]["scale"].is_object(),
    });
    let is_whole = |it: &Brought| [&it.group, &it.version, &it.kind, &it.plural].iter().all(|text| !text.is_empty());
    match definition["kind"] == "CustomResourceDefinition" {
        true => kinds.filter(is_whole).collect(),
        false => vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRD: &str = "\
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, shortNames: [w]}
  versions:
  - {name: v1, served: true, storage: true, subresources: {status: {}}}
  - {name: v1alpha1, served: false}
---
# nothing
";

    #[test]
    fn served_versions_are_brought() {
        let mut brought = vec![];
        in_file(Path::new("charts/sub/crds/deep/w.yaml"), CRD.as_bytes(), &mut brought);
        let [widget] = brought.as_slice() else { panic!("{brought:?}") };
        assert_eq!((widget.version.as_str(), widget.singular.as_str(), widget.has_status), ("v1", "widget", true));
        assert_eq!(widget.short_names, ["w"]);
    }

    #[test]
    fn only_files_of_crds_count() {
        for path in ["templates/crds/w.yaml", "crds/README.md", "w.yaml", "charts/crds/templates/w.yaml"] {
            let mut brought = vec![];
            in_file(Path::new(path), CRD.as_bytes(), &mut brought);
            assert_eq!(brought, [], "{path}");
        }
    }
}
