//! One API less: what [`super::create`] made, as far as nothing else needs it.
//!
//! The definition, the sample and the roles of a kind are the API and go with it; a definition that somebody has changed is left. A chart goes if no other kind uses it and if it is as
//! it was when it was fetched; otherwise somebody's work is in it. One that `create api` found where it is stays in any case.

use std::path::Path;

use super::api::Api;
use super::create::{is_same_kind, project, renew_role, resources};
use super::draft::Draft;
use super::entries;
use super::error::ScaffoldError;
use super::generated::{self, Options};
use super::layout::{self, DEFINITIONS, KIND_ROLES, SAMPLES};
use super::project::{Project, Resource};
use super::rbac::Surveys;
use super::source;
use crate::chart::{Chart, ChartError, files};

/// An API by its names. The group is without the domain.
#[derive(Clone, Debug)]
pub struct Named {
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// What came of it.
#[derive(Debug)]
pub struct Deleted {
    pub api: Api,
    /// Other versions of the kind that stay.
    pub others: Vec<String>,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// Takes an API out of a draft. By force, its definition goes also where somebody has changed it.
pub async fn delete(
    draft: &mut Draft,
    named: &Named,
    is_forced: bool,
    surveys: &mut Surveys<'_>,
) -> Result<Deleted, ScaffoldError> {
    let mut project = project(draft)?;
    let resources = resources(draft, &project)?;
    let group = project.full_group(&named.group);
    let wanted = Api::new(&group, &named.version, &named.kind, true)?;
    let is_meant = |one: &&Resource| is_same_kind(&one.api, &wanted) && one.api.version == wanted.version;
    let Some(resource) = resources.iter().find(is_meant) else {
        let present: Vec<String> = resources.iter().map(|resource| resource.api.to_string()).collect();
        let present = if present.is_empty() { "none".to_owned() } else { present.join("; ") };
        return Err(ScaffoldError::Unknown { missing: wanted.to_string(), present });
    };
    let rest: Vec<Resource> = resources.iter().filter(|one| *one != resource).cloned().collect();
    let of_kind: Vec<&Resource> = rest.iter().filter(|one| is_same_kind(&one.api, &resource.api)).collect();
    let others = of_kind.iter().map(|one| one.api.version.clone()).collect();

    let sample = layout::sample(&resource.group, &resource.api);
    remove_listed(draft, &SAMPLES, "config/samples", &sample)?;
    draft.remove(format!("{}/{sample}", layout::FULL_SAMPLES));
    let mut notes = vec![];
    match of_kind.first() {
        Some(other) => notes.extend(remove_version(draft, &resource.api, &other.api)?),
        None => notes.extend(remove_kind(draft, &mut project, &resource.api, is_forced)?),
    }
    project.remove(resource);
    draft.edit(layout::PROJECT, project.text()?);
    if of_kind.is_empty() {
        notes.extend(renew_role(draft, project.name(), None, surveys).await?);
    }
    Ok(Deleted { api: resource.api.clone(), others, notes })
}

fn remove_listed(draft: &mut Draft, register: &layout::Register, dir: &str, file: &str) -> Result<(), ScaffoldError> {
    draft.remove(format!("{dir}/{file}"));
    draft.leave(register, file)
}

/// The kind goes on in another version, which the watch may have to name.
fn remove_version(draft: &mut Draft, api: &Api, other: &Api) -> Result<Vec<String>, ScaffoldError> {
    let mut notes = vec![];
    let path = format!("config/crd/{}", layout::definition(api));
    if let Some(definition) = draft.read(&path)? {
        let wrong = |reason| ScaffoldError::Generated { file: path.clone().into(), reason };
        // The kind has another version, but perhaps not in this file: then a person has changed it, and it goes.
        match generated::without_version(&definition, &api.version).map_err(wrong)? {
            Some(rest) => {
                draft.edit(&path, rest.text);
                notes = rest.notes;
            }
            None => draft.remove(&path),
        }
    }
    let watches = draft.read(layout::WATCHES)?.unwrap_or_default();
    let is_watched =
        entries::read(&watches).iter().any(|one| one.is_of(&api.group, &api.kind) && one.version == api.version);
    if is_watched {
        let changed = entries::with_version(&watches, api, &other.version);
        draft.edit(layout::WATCHES, changed.ok_or_else(|| ScaffoldError::Entry(api.to_string()))?);
    }
    Ok(notes)
}

/// Returns what a person should know.
fn remove_kind(
    draft: &mut Draft,
    project: &mut Project,
    api: &Api,
    is_forced: bool,
) -> Result<Vec<String>, ScaffoldError> {
    let watches = draft.read(layout::WATCHES)?.unwrap_or_default();
    let entry = entries::read(&watches).into_iter().find(|one| one.is_of(&api.group, &api.kind));
    if let Some(entry) = &entry {
        let watched = Api { version: entry.version.clone(), ..api.clone() };
        let less = entries::remove(&watches, &watched);
        draft.edit(layout::WATCHES, less.ok_or_else(|| ScaffoldError::Entry(api.to_string()))?);
    }
    let mut notes = vec![];
    let definition = format!("config/crd/{}", layout::definition(api));
    let text = draft.read(&definition)?.unwrap_or_default();
    let chart = entry.map(|entry| entry.chart).unwrap_or_default();
    draft.leave(&DEFINITIONS, &layout::definition(api))?;
    match is_changed(&text, api, &draft.root().join(&chart)) && !is_forced {
        true => notes.push(format!(
            "{definition} is not what its chart gives, so somebody may have changed it, and is left; remove it by hand"
        )),
        false => draft.remove(definition),
    }
    for role in generated::ROLES {
        remove_listed(draft, &KIND_ROLES, "config/rbac", &layout::kind_role(api, role))?;
    }
    if let Some(name) = chart.strip_prefix(&format!("{}/", layout::CHARTS)) {
        notes.extend(remove_chart(draft, project, name)?);
    }
    Ok(notes)
}

/// Whether a definition is another than the chart gives, whatever the flags were. What a broken chart gave is not known.
fn is_changed(definition: &str, api: &Api, chart: &Path) -> bool {
    let Ok(chart) = Chart::load(chart) else { return false };
    let both = [false, true];
    let all = both.into_iter().flat_map(|strict_types| both.map(|values_from| Options { strict_types, values_from }));
    let given: Vec<String> = all.flat_map(|options| given(api, &chart, options)).collect();
    !given.is_empty() && !definition.is_empty() && given.iter().all(|given| given != definition)
}

/// The definition that a chart gives: made alone, or left by another version that came after it or before it. Such a one leaves traces.
fn given(api: &Api, chart: &Chart, options: Options) -> Vec<String> {
    let other = Api { version: "v1other".into(), ..api.clone() };
    let left = |first: &Api, second: &Api| {
        let made = generated::definition(first, chart, options).ok()?;
        let both = generated::with_version(&made.text, second, chart, options).ok()?;
        generated::without_version(&both.text, &other.version).ok()?
    };
    let alone = generated::definition(api, chart, options).ok();
    [alone, left(api, &other), left(&other, api)].into_iter().flatten().map(|given| given.text).collect()
}

fn remove_chart(draft: &mut Draft, project: &mut Project, name: &str) -> Result<Vec<String>, ScaffoldError> {
    let place = Path::new(layout::CHARTS).join(name);
    let watches = entries::read(&draft.read(layout::WATCHES)?.unwrap_or_default());
    if watches.iter().any(|entry| Path::new(&entry.chart) == place) {
        return Ok(vec![]);
    }
    let dir = draft.root().join(&place);
    let left = |why: &str| Ok(vec![format!("{} {why}, and is left; remove it by hand", place.display())]);
    // `create api` puts a chart into the directory of its name, and only such a one has an origin. Earlier releases wrote one also for a
    // chart that was there.
    let origin = project.origin(name).filter(|origin| !source::is_at(&origin.source, draft.root(), &place));
    match Chart::load(&dir) {
        Ok(_) if origin.is_none() => {
            project.forget_origin(name);
            left("was not made by `create api`")
        }
        Ok(chart) if origin.is_some_and(|origin| origin.digest == chart.digest) => {
            for found in files::list(&dir)? {
                draft.remove(place.join(found.path));
            }
            project.forget_origin(name);
            Ok(vec![])
        }
        Ok(_) => left("was changed since it was fetched"),
        Err(ChartError::Absent(_)) => {
            project.forget_origin(name);
            Ok(vec![])
        }
        Err(error) => left(&format!("cannot be read ({error})")),
    }
}
