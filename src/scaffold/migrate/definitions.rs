//! Typed CRDs in the place of open ones.
//!
//! Names, versions, which of them are served and stored, and what a person added around the schema are kept. A definition whose spec has
//! fields already is somebody's work and stays.

use std::path::Path;

use serde_json::Value;

use super::Edited;
use crate::chart::Chart;
use crate::scaffold::api::Api;
use crate::scaffold::draft::Draft;
use crate::scaffold::entries::{self, Entry};
use crate::scaffold::error::ScaffoldError;
use crate::scaffold::generated::{self, Options};
use crate::scaffold::{layout, yaml_text};
use crate::yaml;

const PLACE: &str = "config/crd/bases";
const KIND: &str = "CustomResourceDefinition";

/// A definition in a file.
struct Definition {
    path: String,
    text: String,
    value: Value,
}

/// The files of all kinds that watches.yaml has a chart for, as they shall be.
pub fn typed(draft: &Draft, options: Options) -> Result<Vec<(String, Edited)>, ScaffoldError> {
    let definitions = definitions(draft)?;
    let mut all = vec![];
    for entry in entries(draft)? {
        let Some(definition) = definitions.iter().find(|definition| definition.is_of(&entry)) else { continue };
        let chart = Chart::load(&draft.root().join(&entry.chart))?;
        let edited = edit(definition, &chart, Options { values_from: entry.has_other_values, ..options })
            .map_err(|reason| ScaffoldError::Generated { file: definition.path.clone().into(), reason })?;
        all.push((definition.path.clone(), edited));
    }
    Ok(all)
}

fn entries(draft: &Draft) -> Result<Vec<Entry>, ScaffoldError> {
    Ok(entries::read(&draft.read(layout::WATCHES)?.unwrap_or_default()))
}

fn definitions(draft: &Draft) -> Result<Vec<Definition>, ScaffoldError> {
    let Ok(files) = std::fs::read_dir(draft.root().join(PLACE)) else { return Ok(vec![]) };
    let mut names: Vec<String> = files.flatten().filter_map(|file| file.file_name().into_string().ok()).collect();
    names.sort();
    let mut found = vec![];
    for name in names.into_iter().filter(|name| Path::new(name).extension().is_some_and(|end| end == "yaml")) {
        let path = format!("{PLACE}/{name}");
        let text = draft.read(&path)?.unwrap_or_default();
        let value = yaml::parse(&text).unwrap_or_default();
        if value["kind"] == KIND {
            found.push(Definition { path, text, value });
        }
    }
    Ok(found)
}

impl Definition {
    fn is_of(&self, entry: &Entry) -> bool {
        let spec = &self.value["spec"];
        spec["group"] == entry.group.as_str() && spec["names"]["kind"] == entry.kind.as_str()
    }

    fn versions(&self) -> &[Value] {
        self.value["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    fn api(&self, version: &str) -> Api {
        let spec = &self.value["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, plural) = (text(&spec["names"]["kind"]), text(&spec["names"]["plural"]));
        let singular = spec["names"]["singular"].as_str().map_or_else(|| kind.to_ascii_lowercase(), str::to_owned);
        let is_namespaced = spec["scope"] != "Cluster";
        Api { group: text(&spec["group"]), version: version.to_owned(), kind, plural, singular, is_namespaced }
    }
}

fn edit(definition: &Definition, chart: &Chart, options: Options) -> Result<Edited, String> {
    let mut edited = Edited { text: definition.text.clone(), ..Edited::default() };
    let path = &definition.path;
    if definition.value["apiVersion"] != "apiextensions.k8s.io/v1" {
        edited.notes.push(format!(
            "{path} is no apiextensions.k8s.io/v1, and is left as it is; bring it to that version first"
        ));
        return Ok(edited);
    }
    let versions = definition.versions();
    let (stored, others): (Vec<&Value>, Vec<&Value>) = versions.iter().partition(|version| version["storage"] == true);
    let [stored] = stored.as_slice() else { return Err("it has not one version that is stored".to_owned()) };
    let name = |version: &Value| version["name"].as_str().unwrap_or_default().to_owned();
    let mut typed = generated::definition(&definition.api(&name(stored)), chart, options)?;
    for other in others {
        typed = generated::with_version(&typed.text, &definition.api(&name(other)), chart, options)?;
    }
    let text = kept(&typed.text, &definition.value)?;
    if text == definition.text {
        return Ok(edited);
    }
    if !versions.iter().all(is_open) {
        edited.notes.push(format!("{path} has fields below spec already, and is left as it is"));
        return Ok(edited);
    }
    edited.text = text;
    edited.notes.extend(typed.notes);
    edited.why.push(format!("the fields of spec are those of the chart {}", chart.name));
    Ok(edited)
}

/// Whether a version takes any spec.
fn is_open(version: &Value) -> bool {
    let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["properties"].is_null()
}

/// The new definition with what was said of the old one beside its schema.
fn kept(text: &str, old: &Value) -> Result<String, String> {
    let mut new = yaml::parse(text).map_err(|error| error.to_string())?;
    let before = new.clone();
    for field in ["annotations", "labels"] {
        join(&mut new["metadata"], field, &old["metadata"][field]);
    }
    for field in ["shortNames", "categories", "listKind"] {
        take(&mut new["spec"]["names"], field, &old["spec"]["names"][field]);
    }
    for field in ["conversion", "preserveUnknownFields"] {
        take(&mut new["spec"], field, &old["spec"][field]);
    }
    let versions = old["spec"]["versions"].as_array().into_iter().flatten();
    for version in versions {
        let found =
            new["spec"]["versions"].as_array_mut().into_iter().flatten().find(|new| new["name"] == version["name"]);
        let Some(found) = found else { continue };
        for field in
            ["served", "storage", "deprecated", "deprecationWarning", "additionalPrinterColumns", "selectableFields"]
        {
            take(found, field, &version[field]);
        }
    }
    if new == before {
        return Ok(text.to_owned());
    }
    let head: String = text.split_inclusive('\n').take_while(|line| line.starts_with('#')).collect();
    let body = serde_yaml::to_value(&new).map_err(|error| error.to_string())?;
    Ok(format!("{head}{}", yaml_text::text(&body)))
}

fn take(new: &mut Value, field: &str, old: &Value) {
    if !old.is_null() {
        new[field] = old.clone();
    }
}

/// Both, where the old one counts.
fn join(new: &mut Value, field: &str, old: &Value) {
    let Some(old) = old.as_object() else { return };
    if new[field].is_null() {
        new[field] = Value::Object(Default::default());
    }
    for (name, value) in old {
        new[field][name] = value.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: shopz.example.com\n  labels: {team: web}\nspec:\n  group: example.com\n  names: {kind: Shop, listKind: ShopList, plural: shopz, singular: shop, shortNames: [sh]}\n  scope: Cluster\n  versions:\n  - name: v1\n    served: true\n    storage: false\n    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}\n  - name: v2\n    served: true\n    storage: true\n    additionalPrinterColumns: [{name: Age, type: date, jsonPath: .metadata.creationTimestamp}]\n    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}\n";

    fn project(definition: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let file = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        file(
            "watches.yaml",
            "- {group: example.com, version: v2, kind: Shop, chart: helm-charts/shop}\n- {group: other.example.com, version: v2, kind: Shop, chart: helm-charts/none}\n",
        );
        file("helm-charts/shop/Chart.yaml", "apiVersion: v2\nname: shop\nversion: 0.1.0\n");
        file("helm-charts/shop/values.yaml", "colour: red\n");
        file("config/crd/bases/x.yaml", definition);
        file("config/crd/bases/README.md", "no definition");
        dir
    }

    fn typed(definition: &str) -> (String, Edited) {
        let dir = project(definition);
        let mut all = super::typed(&Draft::of(dir.path()), Options::default()).unwrap();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn names_versions_and_what_a_person_added_are_kept() {
        let (path, edited) = typed(OPEN);
        assert_eq!((path.as_str(), edited.notes.len(), edited.why.len()), ("config/crd/bases/x.yaml", 0, 1));
        let (old, new) = (yaml::parse(OPEN).unwrap(), yaml::parse(&edited.text).unwrap());
        assert_eq!(new["metadata"]["name"], "shopz.example.com");
        assert_eq!(new["metadata"]["labels"]["team"], "web");
        assert_eq!(new["spec"]["scope"], old["spec"]["scope"]);
        for (field, name) in old["spec"]["names"].as_object().unwrap() {
            assert_eq!(new["spec"]["names"][field], *name);
        }
        let flags = |crd: &Value| {
            let versions = crd["spec"]["versions"].as_array().unwrap();
            let mut flags: Vec<String> =
                versions.iter().map(|one| format!("{} {} {}", one["name"], one["served"], one["storage"])).collect();
            flags.sort();
            flags
        };
        assert_eq!(flags(&new), flags(&old));
        assert!(edited.text.contains("creationTimestamp"));
    }

    #[test]
    fn a_definition_with_fields_stays() {
        let own = OPEN.replace(
            "{type: object, x-kubernetes-preserve-unknown-fields: true}",
            "{type: object, properties: {size: {type: integer}}}",
        );
        let (_, edited) = typed(&own);
        assert_eq!((edited.text, edited.notes.len(), edited.why.len()), (own, 1, 0));
    }

    #[test]
    fn what_a_watch_gives_is_not_required() {
        let required = |more: &str| {
            let dir = project(OPEN);
            let file = |path: &str, text: &str| std::fs::write(dir.path().join(path), text).unwrap();
            file("helm-charts/shop/values.schema.json", r#"{"required": ["password"]}"#);
            file(
                "watches.yaml",
                &format!("- {{group: example.com, version: v2, kind: Shop, chart: helm-charts/shop{more}}}\n"),
            );
            let text = super::typed(&Draft::of(dir.path()), Options::default()).unwrap().remove(0).1.text;
            text.contains("- password")
        };
        assert!(required("") && required(", overrideValues: {}, valuesFrom: []"));
        assert!(!required(", overrideValues: {password: x}"));
        assert!(!required(", valuesFrom: [{kind: Secret, name: a}]"));
    }

    #[test]
    fn an_old_kind_of_definition_stays() {
        let old = OPEN.replace("apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1");
        assert_eq!(typed(&old).1.notes.len(), 1);
    }
}
