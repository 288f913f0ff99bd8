//! A definition that follows its chart: every version is made anew, and what a person chose stays.
//!
//! Names, labels, and which versions are served and stored stand in the definition. So does whether types are enforced and whether the kind
//! can be scaled, as far as the old fields tell it. That nothing is required does not: an entry with other values says so, or a person.

use serde_yaml::{Mapping, Value as Yaml};

use super::super::{CrdError, Definition, Options, version, written};
use super::{add_version, at, header, name_of, parsed, spec_of, versions};
use crate::scaffold::api::Api;
use crate::scaffold::values::ChartValues;
use crate::scaffold::yaml_text;

/// What is said of a version beside what its chart says.
const KEPT: [&str; 5] = ["served", "storage", "deprecated", "deprecationWarning", "selectableFields"];
const COLUMNS: &str = "additionalPrinterColumns";
/// The columns that are made from a chart.
const OUR_COLUMNS: [&str; 6] = ["Ready", "Reason", "Replicas", "Image", "Revision", "Age"];
/// How a field's description ends where no type is enforced.
const NOT_ENFORCED: &str = ", not enforced.";

/// The definition with all of its versions made anew. `chart_of` gives the chart of a version, and what is asked for.
///
/// # Errors
/// Where the text is no definition, or the new one would be larger than the API server takes.
pub fn renewed<'c>(
    existing: &str,
    chart_of: impl Fn(&str) -> (&'c ChartValues, Options),
) -> Result<Definition, CrdError> {
    let old = parsed(existing)?;
    let mut definition = old.clone();
    let olds = versions(&mut definition)?.clone();
    // The others come one by one, as they came first: each sees to it that those before it drop nothing.
    versions(&mut definition)?.truncate(1);
    let mut text = format!("{}{}", header(existing), yaml_text::text(&definition));
    let mut notes: Vec<String> = vec![];
    for old_version in &olds {
        let name = name_of(old_version).ok_or_else(|| CrdError::NoDefinition("a version has no name".into()))?;
        let api = api_of(&old, name);
        let (chart, wanted) = chart_of(name);
        let made = add_version(&text, &api, chart, &chosen(old_version, &api, chart, wanted))?;
        text = made.text;
        notes.extend(made.notes);
    }
    let mut new = parsed(&text)?;
    for version in versions(&mut new)? {
        let known = olds.iter().find(|old| name_of(old) == name_of(version));
        if let (Some(old), Some(version)) = (known, version.as_mapping_mut()) {
            take(version, &KEPT, old);
            if has_own_columns(old) {
                take(version, &[COLUMNS], old);
            }
        }
    }
    if let (Some(spec), Some(old)) = (new.get_mut("spec").and_then(Yaml::as_mapping_mut), old.get("spec")) {
        take(spec, &["conversion"], old);
    }
    let mut seen = std::collections::BTreeSet::new();
    notes.retain(|note| seen.insert(note.clone()));
    // Comments in between are lost only where something changes.
    let text = if new == old { existing.to_owned() } else { written(&header(existing), &new, &mut vec![])? };
    Ok(Definition { text, notes })
}

fn take(new: &mut Mapping, fields: &[&str], old: &Yaml) {
    for field in fields {
        if let Some(value) = old.get(*field) {
            new.insert((*field).into(), value.clone());
        }
    }
}

fn has_own_columns(version: &Yaml) -> bool {
    let columns = version.get(COLUMNS).and_then(Yaml::as_sequence).into_iter().flatten();
    columns.into_iter().any(|column| name_of(column).is_none_or(|name| !OUR_COLUMNS.contains(&name)))
}

fn api_of(definition: &Yaml, version: &str) -> Api {
    let text = |path: &[&str]| at(definition, path).unwrap_or_default().to_owned();
    let kind = text(&["spec", "names", "kind"]);
    let singular = at(definition, &["spec", "names", "singular"]);
    Api {
        group: text(&["spec", "group"]),
        version: version.to_owned(),
        singular: singular.map_or_else(|| kind.to_ascii_lowercase(), str::to_owned),
        kind,
        plural: text(&["spec", "names", "plural"]),
        is_namespaced: at(definition, &["spec", "scope"]) != Some("Cluster"),
    }
}

/// What is asked for, and what the old version tells was asked for.
fn chosen(old: &Yaml, api: &Api, chart: &ChartValues, wanted: Options) -> Options {
    let (mut old, (mut plain, _)) = (old.clone(), version(api, chart, &Options::default()));
    let path = plain.get("subresources").and_then(|all| all.get("scale")?.get("specReplicasPath")?.as_str());
    let path: Vec<String> = path.into_iter().flat_map(|path| path.split('.').skip(2)).map(str::to_owned).collect();
    let can_scale = old.get("subresources").is_some_and(|all| all.get("scale").is_some());
    let (Some(old), Some(plain)) = (spec_of(&mut old), spec_of(&mut plain)) else { return wanted };
    let has_number = !path.is_empty() && path.iter().try_fold(&*old, |schema, name| field(schema, name)).is_some();
    Options {
        strict_types: wanted.strict_types || !says_not_enforced(old) && enforces(old, plain),
        no_scale: wanted.no_scale || has_number && !can_scale,
        ..wanted
    }
}

fn field<'y>(schema: &'y Yaml, name: &str) -> Option<&'y Yaml> {
    schema.get("properties")?.get(name)
}

fn fields(schema: &Yaml) -> impl Iterator<Item = (&str, &Yaml)> {
    let all = schema.get("properties").and_then(Yaml::as_mapping).into_iter().flatten();
    all.filter_map(|(name, field)| Some((name.as_str()?, field)))
}

fn is_not_enforced(schema: &Yaml) -> bool {
    schema.get("description").and_then(Yaml::as_str).is_some_and(|text| text.contains(NOT_ENFORCED))
}

fn says_not_enforced(schema: &Yaml) -> bool {
    is_not_enforced(schema) || fields(schema).any(|(_, field)| says_not_enforced(field))
}

/// Whether the old schema has a type where none follows from the chart, unless types are strict.
fn enforces(old: &Yaml, plain: &Yaml) -> bool {
    is_not_enforced(plain) && old.get("type").is_some()
        || fields(plain).any(|(name, plain)| field(old, name).is_some_and(|old| enforces(old, plain)))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::scaffold::crd::definition;
    use crate::yaml;

    fn chart(values: &str) -> ChartValues {
        ChartValues::from_text("shop", values, None).unwrap()
    }

    fn api(version: &str) -> Api {
        Api::new("example.com", version, "Shop", true).unwrap()
    }

    fn made(values: &str, options: &Options) -> String {
        definition(&api("v1"), &chart(values), options).unwrap().text
    }

    fn renew(existing: &str, values: &str) -> String {
        let chart = chart(values);
        renewed(existing, |_| (&chart, Options::default())).unwrap().text
    }

    const OLD: &str = "replicas: 1\ncolour: red\n";
    const NEW: &str = "replicas: 1\ncolour: red\nsize: 3\n";

    #[test]
    fn what_follows_from_the_chart_already_stays_as_it_is() {
        for options in [
            Options::default(),
            Options { strict_types: true, ..Options::default() },
            Options { no_scale: true, ..Options::default() },
            Options { short_names: vec!["sh".into()], ..Options::default() },
        ] {
            let one = made(OLD, &options);
            assert_eq!(renew(&one, OLD), one, "{options:?}");
            let two = add_version(&one, &api("v2"), &chart(OLD), &options).unwrap().text;
            assert_eq!(renew(&two, OLD), two, "{options:?}");
            let commented = one.replace("spec:\n  group", "spec:\n  # Ours.\n  group");
            assert_eq!(renew(&commented, OLD), commented);
        }
    }

    #[test]
    fn a_newer_chart_is_in_every_version_with_the_options_of_the_file() {
        for options in [
            Options::default(),
            Options { strict_types: true, ..Options::default() },
            Options { strict_types: true, no_scale: true, short_names: vec!["sh".into()], ..Options::default() },
        ] {
            let both =
                |values: &str| add_version(&made(values, &options), &api("v2"), &chart(values), &options).unwrap().text;
            assert_eq!(renew(&both(OLD), NEW), both(NEW), "{options:?}");
            assert_eq!(renew(&both(NEW), OLD), both(OLD), "{options:?}");
        }
    }

    #[test]
    fn what_a_person_said_beside_the_schema_is_kept() {
        let two = add_version(&made(OLD, &Options::default()), &api("v2"), &chart(OLD), &Options::default()).unwrap();
        let mut old = yaml::parse(&two.text).unwrap();
        old["metadata"]["labels"] = serde_json::json!({"team": "web"});
        old["spec"]["conversion"] = serde_json::json!({"strategy": "Webhook"});
        old["spec"]["versions"][0]["storage"] = false.into();
        old["spec"]["versions"][0]["deprecated"] = true.into();
        old["spec"]["versions"][1]["storage"] = true.into();
        let column = serde_json::json!({"name": "Colour", "type": "string", "jsonPath": ".spec.colour"});
        old["spec"]["versions"][1][COLUMNS] = serde_json::json!([column]);
        let new = yaml::parse(&renew(&serde_yaml::to_string(&old).unwrap(), NEW)).unwrap();
        let without_schemas = |definition: &Value| {
            let mut definition = definition.clone();
            for version in definition["spec"]["versions"].as_array_mut().unwrap() {
                let spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"].take();
                assert_eq!(spec["properties"]["size"].is_null(), spec["properties"].as_object().unwrap().len() == 2);
            }
            definition
        };
        assert_eq!(without_schemas(&new), without_schemas(&old));
        assert!(new["spec"]["versions"][0].to_string().contains("\"size\""));
    }
}
