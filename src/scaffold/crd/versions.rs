//! Several versions of one kind in one definition.
//!
//! The API server stores one of them and serves all. Nothing converts: a custom resource means the same in each version, and only its
//! checks differ. So the version that is stored stays the one that was first, and none of them drops what the newest takes.
//!
//! | module | what is in it |
//! |---|---|
//! | [`kept`] | where a version has to stay open, so that another's fields are not lost |
//! | [`renewed`] | all versions of a definition, made anew from a newer chart |

use serde_yaml::{Mapping, Value as Yaml};

use super::{CrdError, Definition, Options, written};
use crate::scaffold::api::Api;
use crate::scaffold::values::ChartValues;

mod kept;
mod renewed;

pub use renewed::renewed;

/// Adds a version to a definition, or makes anew the one that is there. Comments above the definition stay; those inside do not.
///
/// # Errors
/// Where the text is no definition of this kind.
pub fn add_version(existing: &str, api: &Api, chart: &ChartValues, options: &Options) -> Result<Definition, CrdError> {
    let mut definition = parsed(existing)?;
    if at(&definition, &["spec", "group"]) != Some(api.group.as_str())
        || at(&definition, &["spec", "names", "kind"]) != Some(api.kind.as_str())
    {
        return Err(CrdError::OtherKind { wanted: api.to_string() });
    }
    let (mut version, mut notes) = super::version(api, chart, options);
    let versions = versions(&mut definition)?;
    if let Some(made) = spec_of(&mut version).cloned() {
        for other in versions.iter_mut().filter(|other| name_of(other) != Some(api.version.as_str())) {
            let name = name_of(other).unwrap_or_default().to_owned();
            let opened = spec_of(other).map(|spec| kept::keep(spec, &made, "spec")).unwrap_or_default();
            notes.extend(opened.iter().map(|at| {
                format!(
                    "{at} of {name} is open now: it would drop what {} has, since one of them is stored for both",
                    api.version
                )
            }));
        }
    }
    let known = versions.iter().position(|version| name_of(version) == Some(api.version.as_str()));
    match known {
        Some(place) => {
            for key in ["served", "storage"] {
                if let (Some(old), Some(new)) = (versions[place].get(key).cloned(), version.as_mapping_mut()) {
                    new.insert(key.into(), old);
                }
            }
            versions[place] = version;
        }
        None => {
            if let Some(new) = version.as_mapping_mut() {
                new.insert("storage".into(), false.into());
            }
            versions.push(version);
        }
    }
    let several = versions.len() > 1;
    if let Some(spec) = definition.get_mut("spec").and_then(Yaml::as_mapping_mut).filter(|_| several) {
        let strategy = Mapping::from_iter([("strategy".into(), "None".into())]);
        spec.insert("conversion".into(), Yaml::Mapping(strategy));
    }
    let text = written(&header(existing), &definition, &mut notes)?;
    Ok(Definition { text, notes })
}

/// What is left of a definition without a version. None where that was the last one.
///
/// # Errors
/// Where the text is no definition, or has no such version.
pub fn remove_version(existing: &str, version: &str) -> Result<Option<Definition>, CrdError> {
    let mut definition = parsed(existing)?;
    let mut notes = vec![];
    let versions = versions(&mut definition)?;
    let count = versions.len();
    let was_stored = versions.iter().any(|one| name_of(one) == Some(version) && is_stored(one));
    versions.retain(|one| name_of(one) != Some(version));
    match versions.len() {
        0 if count > 0 => return Ok(None),
        left if left == count => return Err(CrdError::NoVersion(version.to_owned())),
        _ => {}
    }
    if let Some(newest) = versions.last_mut().filter(|_| was_stored) {
        notes.push(format!(
            "{version} was the stored version; now it is {}. The API server takes this only when no object is stored as {version} any more",
            name_of(newest).unwrap_or_default()
        ));
        if let Some(newest) = newest.as_mapping_mut() {
            newest.insert("storage".into(), true.into());
        }
    }
    let text = written(&header(existing), &definition, &mut notes)?;
    Ok(Some(Definition { text, notes }))
}

/// The names of the versions, in the order of the definition.
///
/// # Errors
/// Where the text is no definition.
pub fn version_names(existing: &str) -> Result<Vec<String>, CrdError> {
    let mut definition = parsed(existing)?;
    Ok(versions(&mut definition)?.iter().filter_map(name_of).map(str::to_owned).collect())
}

fn parsed(text: &str) -> Result<Yaml, CrdError> {
    let definition: Yaml = serde_yaml::from_str(text).map_err(|error| CrdError::NoDefinition(error.to_string()))?;
    match at(&definition, &["kind"]) {
        Some("CustomResourceDefinition") => Ok(definition),
        _ => Err(CrdError::NoDefinition("its kind is another".into())),
    }
}

fn at<'y>(definition: &'y Yaml, path: &[&str]) -> Option<&'y str> {
    path.iter().try_fold(definition, |value, key| value.get(key))?.as_str()
}

fn versions(definition: &mut Yaml) -> Result<&mut Vec<Yaml>, CrdError> {
    let spec = definition.get_mut("spec").and_then(|spec| spec.get_mut("versions"));
    spec.and_then(Yaml::as_sequence_mut).ok_or_else(|| CrdError::NoDefinition("it has no versions".into()))
}

fn spec_of(version: &mut Yaml) -> Option<&mut Yaml> {
    ["schema", "openAPIV3Schema", "properties", "spec"].iter().try_fold(version, |value, key| value.get_mut(key))
}

fn name_of(version: &Yaml) -> Option<&str> {
    version.get("name")?.as_str()
}

fn is_stored(version: &Yaml) -> bool {
    version.get("storage").and_then(Yaml::as_bool).unwrap_or_default()
}

/// The comments above a definition.
fn header(text: &str) -> String {
    let lines = text.lines().take_while(|line| line.starts_with('#') || line.trim().is_empty());
    lines.map(|line| format!("{line}\n")).collect()
}
