//! The CustomResourceDefinition of a kind, typed by what its chart says about its values.
//!
//! Two promises hold. What `helm install` accepts is never refused. And where the chart has a values.schema.json, what that refuses is
//! refused, as far as a structural schema can say it; the rest stays open, and a note tells where. There is no `default:` in the schema:
//! the chart applies its defaults, and one that the API server writes into a spec would stay there when the chart gets another.
//!
//! Pure: what a chart says comes in, text comes out. Whether the API server accepts it is not asked here; tests do.
//!
//! | module | what is in it |
//! |---|---|
//! | [`spec`] | the schema of the spec, subcharts included |
//! | [`document`] | a values.schema.json: draft, references |
//! | [`shape`] | types, fields and items from a schema |
//! | [`rules`] | conditions: bounds, patterns, alternatives |
//! | [`place`] | what the defaults already give |
//! | [`inferred`] | the shape of values without a schema |
//! | [`schema`] | a structural schema and its YAML |
//! | [`types`] | sets of JSON types |
//! | [`wording`] | descriptions |
//! | [`scale`] | the number of replicas |
//! | [`columns`] | what `kubectl get` shows |
//! | [`versions`] | several versions in one definition |
//! | [`size`] | keeping it below the API server's limits |

use serde_yaml::{Mapping, Value as Yaml};

use super::api::Api;
use super::values::ChartValues;
use super::yaml_text;

mod columns;
mod document;
mod inferred;
mod place;
mod rules;
mod scale;
mod schema;
mod shape;
mod size;
mod spec;
#[cfg(test)]
mod tests;
mod types;
mod versions;
mod wording;

pub use versions::{add_version, remove_version, renewed, version_names};

const HEADER: &str = include_str!("crd/header.txt");
/// What the header of every definition of ours says.
pub const MADE: &str = "Made by `chartwright generate crd`";
const STATUS: &str = include_str!("crd/status.yaml");
/// What `kubectl apply` keeps in an annotation, unless it applies server-side.
const MOST_FOR_AN_ANNOTATION: usize = 262_144;

/// What a person may choose.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The types of the defaults are enforced where no schema says anything.
    pub strict_types: bool,
    /// Values may also come from ConfigMaps and Secrets, so nothing has to be in the spec.
    pub values_from: bool,
    /// No scale subresource, although the chart has a number of replicas.
    pub no_scale: bool,
    pub short_names: Vec<String>,
}

/// A definition as a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    pub text: String,
    /// What could not be said, and where.
    pub notes: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    #[error("the file is no CustomResourceDefinition: {0}")]
    NoDefinition(String),
    #[error("the CustomResourceDefinition is not that of {wanted}")]
    OtherKind { wanted: String },
    #[error("the CustomResourceDefinition has no version {0}")]
    NoVersion(String),
    #[error("the CustomResourceDefinition cannot be written: {0}")]
    Write(String),
    #[error(
        "the CustomResourceDefinition would have {bytes} bytes, more than the API server takes; make the chart's values.schema.json smaller"
    )]
    TooLarge { bytes: usize },
}

/// The definition of a kind with one version.
///
/// # Errors
/// Where it would be larger than the API server takes.
pub fn definition(api: &Api, chart: &ChartValues, options: &Options) -> Result<Definition, CrdError> {
    let (version, mut notes) = version(api, chart, options);
    let mut names = mapping([
        ("kind", api.kind.as_str().into()),
        ("listKind", format!("{}List", api.kind).into()),
        ("plural", api.plural.as_str().into()),
        ("singular", api.singular.as_str().into()),
    ]);
    if !options.short_names.is_empty() {
        let short = options.short_names.iter().map(|name| name.as_str().into());
        names.insert("shortNames".into(), Yaml::Sequence(short.collect()));
    }
    names.insert("categories".into(), Yaml::Sequence(vec!["chartwright".into()]));
    let spec = mapping([
        ("group", api.group.as_str().into()),
        ("names", names.into()),
        ("scope", if api.is_namespaced { "Namespaced" } else { "Cluster" }.into()),
        ("versions", Yaml::Sequence(vec![version])),
    ]);
    let definition = mapping([
        ("apiVersion", "apiextensions.k8s.io/v1".into()),
        ("kind", "CustomResourceDefinition".into()),
        ("metadata", mapping([("name", api.definition().into())]).into()),
        ("spec", spec.into()),
    ]);
    let text = written(HEADER, &definition.into(), &mut notes)?;
    Ok(Definition { text, notes })
}

/// One version, stored and served, and what could not be said.
fn version(api: &Api, chart: &ChartValues, options: &Options) -> (Yaml, Vec<String>) {
    let mut notes = vec![];
    let mut spec = spec::spec(chart, options, &mut notes);
    let replicas = scale::replicas_path(&spec, &chart.defaults).filter(|_| !options.no_scale);
    if let Some(path) = &replicas {
        scale::make_scalable(&mut spec, path);
        notes.push(format!(
            "spec.{} backs the scale subresource, so it must be an integer of at least 0; the API server drops null and refuses text",
            path.join(".")
        ));
    }
    size::fit(&mut spec, &mut notes);
    let mut subresources = mapping([("status", Yaml::Mapping(Mapping::new()))]);
    if let Some(path) = &replicas {
        let scale = mapping([
            ("specReplicasPath", format!(".spec.{}", path.join(".")).into()),
            ("statusReplicasPath", ".status.replicas".into()),
            ("labelSelectorPath", ".status.selector".into()),
        ]);
        subresources.insert("scale".into(), scale.into());
    }
    let version = mapping([
        ("name", api.version.as_str().into()),
        ("served", true.into()),
        ("storage", true.into()),
        ("subresources", subresources.into()),
        ("additionalPrinterColumns", columns::columns(&spec, &chart.defaults, replicas.is_some())),
        ("schema", mapping([("openAPIV3Schema", root(api, chart, &spec).into())]).into()),
    ]);
    (version.into(), notes)
}

/// The schema of the whole custom resource.
fn root(api: &Api, chart: &ChartValues, spec: &schema::Schema) -> Mapping {
    let about = match chart.description.trim() {
        "" => format!("{} is a release of the chart {}.", api.kind, chart.name),
        text => wording::cut(&format!("{} is a release of the chart {}. {text}", api.kind, chart.name)),
    };
    let text = |description: &str| mapping([("description", description.into()), ("type", "string".into())]);
    let needs_spec = spec.rules.simple.contains_key("required");
    let status: Yaml = serde_yaml::from_str(STATUS).unwrap_or_default();
    let properties = mapping([
        ("apiVersion", text("The version of this API.").into()),
        ("kind", text("The kind of this object.").into()),
        ("metadata", mapping([("type", "object".into())]).into()),
        ("spec", spec.yaml()),
        ("status", status),
    ]);
    let mut root = mapping([("description", about.into()), ("type", "object".into())]);
    if needs_spec {
        root.insert("required".into(), Yaml::Sequence(vec!["spec".into()]));
    }
    root.insert("properties".into(), properties.into());
    root
}

fn mapping<const N: usize>(entries: [(&str, Yaml); N]) -> Mapping {
    entries.into_iter().map(|(key, value)| (Yaml::from(key), value)).collect()
}

fn written(header: &str, definition: &Yaml, notes: &mut Vec<String>) -> Result<String, CrdError> {
    let text = yaml_text::text(definition);
    let bytes = serde_json::to_vec(definition).map_err(|error| CrdError::Write(error.to_string()))?.len();
    if bytes > size::MOST {
        return Err(CrdError::TooLarge { bytes });
    }
    if bytes > MOST_FOR_AN_ANNOTATION {
        notes.push(format!(
            "the definition has {bytes} bytes, too many for a plain `kubectl apply`; use `kubectl apply --server-side`"
        ));
    }
    Ok(format!("{header}{text}"))
}
