//! One more API of a project: its chart, its watch, its CRD, a sample, and the roles.
//!
//! A kind that is there in another version gets one more. Both are served, one is stored, and one watch is enough: the API server
//! shows every object in every version.

use std::path::{Path, PathBuf};

use super::api::{self, Api};
use super::draft::{self, Draft};
use super::entries;
use super::error::ScaffoldError;
use super::generated::{self, Options};
use super::layout::{self, DEFINITIONS, KIND_ROLES, SAMPLES};
use super::naming;
use super::project::{Origin, Project, Resource};
use super::rbac::Surveys;
use super::rbac::renders::NOT_RENDERED;
use super::sample;
use super::source::fetching::Fetching;
use super::source::{self, Ready, Source, Wanted};
use super::values::ChartValues;
use crate::chart::Chart;
use crate::discovery::Capabilities;
use crate::manifest;
use crate::reach::trial::SOME_NAMESPACE;
use crate::render::{Helm, RenderError, Request, complaint};
use crate::values::{Overrides, Values};
use crate::yaml;

/// An API that a person asks for.
#[derive(Clone, Debug)]
pub struct NewApi {
    /// Without the domain.
    pub group: String,
    pub version: String,
    /// None is called like the chart.
    pub kind: Option<String>,
    /// None is as in its other versions, or derived from the kind.
    pub plural: Option<String>,
    /// None is as in its other versions, or namespaced.
    pub is_namespaced: Option<bool>,
    /// None is a starter chart, or the one that the kind has.
    pub chart: Option<Wanted>,
    pub options: Options,
    /// Whether a chart that is there may be replaced.
    pub is_forced: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct Created {
    pub api: Api,
    /// Name and version of the chart.
    pub chart: (String, String),
    pub is_new_version: bool,
    /// The paths of the definition, of the sample, and of the list of all values.
    pub definition: String,
    pub sample: String,
    pub values: String,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// The project that a draft is of.
pub fn project(draft: &Draft) -> Result<Project, ScaffoldError> {
    let text = draft.read(layout::PROJECT)?;
    Project::parse(&text.ok_or_else(|| ScaffoldError::NoProject(draft.root().to_owned()))?)
}

/// The APIs of a project. PROJECT may leave a plural out also where it is not the usual one; the definition knows it.
pub fn resources(draft: &Draft, project: &Project) -> Result<Vec<Resource>, ScaffoldError> {
    let files = std::fs::read_dir(draft.root().join("config/crd/bases")).into_iter().flatten().flatten();
    let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
    let definitions: Vec<_> = texts.flat_map(|text| yaml::documents(&text).unwrap_or_default()).collect();
    let mut resources = project.resources()?;
    for Resource { api, .. } in resources.iter_mut().filter(|one| one.api.plural == api::plural(&one.api.singular)) {
        let mut names = definitions
            .iter()
            .filter(|definition| definition["spec"]["group"] == api.group.as_str())
            .map(|definition| &definition["spec"]["names"]);
        let name = names.find(|names| names["kind"] == api.kind.as_str()).and_then(|names| names["plural"].as_str());
        if let Some(plural) = name.filter(|plural| api::is_label(plural)) {
            api.plural = plural.to_owned();
        }
    }
    Ok(resources)
}

/// The chart of a kind that is there, as watches.yaml says, and whether that gives values too.
fn chart_of(draft: &Draft, api: &Api) -> Result<(Chart, bool), ScaffoldError> {
    let entries = entries::read(&draft.read(layout::WATCHES)?.unwrap_or_default());
    let entry = entries.iter().find(|entry| entry.is_of(&api.group, &api.kind));
    let entry = entry.ok_or_else(|| ScaffoldError::NotWatched { kind: api.kind.clone(), group: api.group.clone() })?;
    Ok((Chart::load(&draft.root().join(&entry.chart))?, entry.has_other_values))
}

pub fn is_same_kind(one: &Api, other: &Api) -> bool {
    one.group == other.group && one.kind == other.kind
}

/// Puts an API into a draft.
pub async fn create(
    draft: &mut Draft,
    wanted: &NewApi,
    fetching: &Fetching<'_>,
    progress: &dyn Fn(&str),
) -> Result<Created, ScaffoldError> {
    let project = project(draft)?;
    let group = project.full_group(&wanted.group);
    // What is wrong with the names is told before anything is fetched.
    Api::new(&group, &wanted.version, wanted.kind.as_deref().unwrap_or("Kind"), true)?;
    if wanted.plural.as_ref().is_some_and(|plural| !api::is_label(plural)) {
        return Err(ScaffoldError::Plural(wanted.plural.clone().unwrap_or_default()));
    }
    let resources = resources(draft, &project)?;
    if let Some(kind) = &wanted.kind {
        let same = |resource: &&Resource| resource.api.group == group && resource.api.kind == *kind;
        let versions: Vec<&Resource> = resources.iter().filter(same).collect();
        if let Some(present) = versions.first() {
            return add_version(draft, wanted, project.clone(), present, &versions, fetching.helm).await;
        }
    }
    add_kind(draft, wanted, project, &resources, fetching, progress).await
}

async fn add_kind(
    draft: &mut Draft,
    wanted: &NewApi,
    mut project: Project,
    resources: &[Resource],
    fetching: &Fetching<'_>,
    progress: &dyn Fn(&str),
) -> Result<Created, ScaffoldError> {
    let source = match (&wanted.chart, &wanted.kind) {
        (Some(chart), _) => chart.clone(),
        (None, Some(kind)) => Wanted { source: Source::Starter(naming::chart_of_kind(kind)), version: None },
        (None, None) => return Err(ScaffoldError::NeitherKindNorChart),
    };
    let Ready { chart, files } = source::obtain(&source, fetching, progress).await?;
    let api = named(wanted, &project, &chart)?;
    if let Some(taken) = resources.iter().find(|resource| resource.api.singular == api.singular) {
        return Err(match is_same_kind(&taken.api, &api) {
            true if taken.api.version == api.version => ScaffoldError::Exists(api.to_string()),
            true => ScaffoldError::ChartOfVersion(api.kind),
            false => ScaffoldError::KindTaken { kind: taken.api.kind.clone(), group: taken.api.group.clone() },
        });
    }
    if let Some(taken) = resources.iter().find(|resource| resource.api.definition() == api.definition()) {
        return Err(ScaffoldError::PluralTaken { plural: api.plural, kind: taken.api.kind.clone() });
    }
    progress(&format!("rendering {} {}", chart.name, chart.version));
    let mut notes: Vec<String> = render(&chart, fetching.helm).await?.into_iter().collect();

    let place = format!("{}/{}", layout::CHARTS, chart.name);
    let is_made = put_chart(draft, &place, files, &source, wanted.is_forced)?;
    let watches = draft.read(layout::WATCHES)?.unwrap_or_default();
    let marker = "+kubebuilder:scaffold:watch";
    let missing = ScaffoldError::NoMarker { file: layout::WATCHES.into(), marker, place: "of the file" };
    draft.edit(layout::WATCHES, entries::add(&watches, &api, &place).ok_or(missing)?);

    let file = layout::definition(&api);
    let path = format!("config/crd/{file}");
    let definition = generated::definition(&api, &chart, wanted.options).map_err(wrong(&path))?;
    draft.make(path.as_str(), definition.text);
    draft.enter(&DEFINITIONS, &file)?;
    let (sample, values) = put_sample(draft, &wanted.group, &api, &chart, &format!("{}-sample", api.singular))?;
    for (role, text) in generated::kind_roles(project.name(), &api) {
        let file = layout::kind_role(&api, role);
        draft.make(format!("config/rbac/{file}"), text);
        draft.enter(&KIND_ROLES, &file)?;
    }

    project.add(&Resource { group: wanted.group.clone(), api: api.clone() });
    let (name, version, digest) = (chart.name.clone(), chart.version.clone(), chart.digest.clone());
    // A chart that was there has no origin, or keeps the one that it has: it does not go with this API because of this command.
    if is_made {
        project.set_origin(&Origin { chart: name.clone(), source: source.shown(), version: version.clone(), digest });
    }
    draft.edit(layout::PROJECT, project.text()?);
    let mut surveys = Surveys::new(fetching.helm, progress);
    let of_role = renew_role(draft, project.name(), Some(&place), &mut surveys).await?;
    // That it does not render is said once.
    let is_said = !notes.is_empty();
    notes.extend(definition.notes);
    notes.extend(of_role.into_iter().filter(|note| !(is_said && note.contains(NOT_RENDERED))));
    Ok(Created { api, chart: (name, version), is_new_version: false, definition: path, sample, values, notes })
}

/// The chart, the watch and the roles stay as they are.
async fn add_version(
    draft: &mut Draft,
    wanted: &NewApi,
    mut project: Project,
    present: &Resource,
    versions: &[&Resource],
    helm: &Helm,
) -> Result<Created, ScaffoldError> {
    let api = Api { version: wanted.version.clone(), ..present.api.clone() };
    if versions.iter().any(|resource| resource.api.version == api.version) {
        return Err(ScaffoldError::Exists(api.to_string()));
    }
    if wanted.chart.is_some() {
        return Err(ScaffoldError::ChartOfVersion(api.kind));
    }
    if let Some(is_namespaced) = wanted.is_namespaced.filter(|wanted| *wanted != api.is_namespaced) {
        let word = |is_namespaced| if is_namespaced { "namespaced" } else { "cluster-scoped" };
        let (present, wanted) = (word(api.is_namespaced), word(is_namespaced));
        return Err(ScaffoldError::Scope { kind: api.kind, present, wanted });
    }
    if let Some(plural) = wanted.plural.clone().filter(|plural| *plural != api.plural) {
        return Err(ScaffoldError::OtherPlural { kind: api.kind, present: api.plural, wanted: plural });
    }
    let (chart, values_from) = chart_of(draft, &present.api)?;
    // Values that the watch gives may be what is missing.
    let mut notes: Vec<String> = render(&chart, helm).await?.into_iter().filter(|_| !values_from).collect();
    let options = Options { values_from, ..wanted.options };
    let path = format!("config/crd/{}", layout::definition(&api));
    let definition = match draft.read(&path)? {
        Some(definition) => generated::with_version(&definition, &api, &chart, options),
        None => generated::definition(&api, &chart, options),
    };
    let definition = definition.map_err(wrong(&path))?;
    notes.extend(definition.notes);
    draft.edit(&path, definition.text);
    draft.enter(&DEFINITIONS, &layout::definition(&api))?;
    // Under another name than the first version's: both may be applied together.
    let name = format!("{}-{}-sample", api.singular, api.version);
    let (sample, values) = put_sample(draft, &wanted.group, &api, &chart, &name)?;
    project.add(&Resource { group: wanted.group.clone(), api: api.clone() });
    draft.edit(layout::PROJECT, project.text()?);
    let chart = (chart.name.clone(), chart.version.clone());
    Ok(Created { api, chart, is_new_version: true, definition: path, sample, values, notes })
}

/// The API's names, now that the chart is known.
fn named(wanted: &NewApi, project: &Project, chart: &Chart) -> Result<Api, ScaffoldError> {
    let group = project.full_group(&wanted.group);
    let is_namespaced = wanted.is_namespaced.unwrap_or(true);
    let mut api = match &wanted.kind {
        Some(kind) => Api::new(&group, &wanted.version, kind, is_namespaced)?,
        None => {
            let kind = naming::kind_of_chart(&chart.name);
            let wrong = |error| ScaffoldError::KindOfChart { chart: chart.name.clone(), error };
            Api::new(&group, &wanted.version, &kind, is_namespaced).map_err(wrong)?
        }
    };
    if let Some(plural) = &wanted.plural {
        api.plural = plural.clone();
    }
    Ok(api)
}

/// The files of a chart. One that is there with other files in it is somebody's own. Returns whether it is made now: one that is there
/// as it shall be, or that was named where it is, was made by somebody else.
fn put_chart(
    draft: &mut Draft,
    place: &str,
    files: Vec<(PathBuf, Vec<u8>)>,
    source: &Wanted,
    is_forced: bool,
) -> Result<bool, ScaffoldError> {
    let dir = draft.root().join(place);
    let is_there = dir.join("Chart.yaml").is_file();
    let present = if is_there { crate::chart::files::list(&dir)? } else { vec![] };
    let is_wanted = |path: &Path| files.iter().any(|(wanted, _)| wanted == path);
    let others: Vec<_> = present.into_iter().map(|found| found.path).filter(|path| !is_wanted(path)).collect();
    let is_as_on_disk =
        |(path, content): &(PathBuf, Vec<u8>)| std::fs::read(dir.join(path)).is_ok_and(|it| it == *content);
    let is_same = is_there && others.is_empty() && files.iter().all(is_as_on_disk);
    let is_named_here = is_there && source.is_at(draft.root(), Path::new(place));
    let watches = entries::read(&draft.read(layout::WATCHES)?.unwrap_or_default());
    let user =
        watches.into_iter().find(|entry| draft::inside(Path::new(&entry.chart)).as_deref() == Some(Path::new(place)));
    // Not even by force: its definition and its sample would not fit it any more.
    if let Some(user) = user.filter(|_| is_there && !is_same && !is_named_here) {
        return Err(ScaffoldError::ChartTaken { place: place.into(), kind: user.kind });
    }
    if !others.is_empty() && !is_forced {
        return Err(ScaffoldError::Changed(others.iter().map(|path| Path::new(place).join(path)).collect()));
    }
    for path in others {
        draft.remove(Path::new(place).join(path));
    }
    for (path, content) in files {
        draft.make(Path::new(place).join(path), content);
    }
    Ok(!is_same && !is_named_here)
}

/// The sample that kustomize applies, and the list of all values. Returns their paths.
fn put_sample(
    draft: &mut Draft,
    group: &str,
    api: &Api,
    chart: &Chart,
    name: &str,
) -> Result<(String, String), ScaffoldError> {
    let file = layout::sample(group, api);
    let (path, list) = (format!("config/samples/{file}"), format!("{}/{file}", layout::FULL_SAMPLES));
    let values = ChartValues::of(chart).map_err(|error| wrong(&path)(error.to_string()))?;
    draft.make(path.as_str(), sample::short(api, name, &values, &format!("full/{file}")));
    draft.make(list.as_str(), sample::full(api, name, &values));
    draft.enter(&SAMPLES, &file)?;
    Ok((path, list))
}

/// config/rbac/role.yaml follows from all APIs. Returns what a person should know: of the chart at a place, and what is new.
pub async fn renew_role(
    draft: &mut Draft,
    project: &str,
    place: Option<&str>,
    surveys: &mut Surveys<'_>,
) -> Result<Vec<String>, ScaffoldError> {
    let is_absent = draft.read(layout::ROLE)?.is_none();
    let earlier = generated::role(draft.root(), project, surveys).await;
    let stage = draft.staged()?;
    let role = generated::role(stage.path(), project, surveys).await;
    match (earlier, role) {
        (Ok(earlier), role) => {
            let role = role.map_err(wrong(layout::ROLE))?;
            draft.renew(layout::ROLE, earlier.text, role.text);
            let is_of_place = |note: &str| place.is_some_and(|place| note.starts_with(&format!("{place}/")));
            let is_news = |note: &String| is_absent || is_of_place(note) || !earlier.notes.contains(note);
            Ok(role.notes.into_iter().filter(is_news).collect())
        }
        (Err(_), Ok(role)) if is_absent => {
            draft.edit(layout::ROLE, role.text);
            Ok(role.notes)
        }
        // A chart that is broken is no reason to refuse work on others, nor to delete its API.
        (Err(reason), _) => {
            let what = match draft.read(layout::ROLE)? {
                Some(_) => "is left as it is, since it cannot be told what it was made from",
                None => "cannot be made",
            };
            Ok(vec![format!("{} {what}: {reason}; regenerate it with `chartwright generate rbac`", layout::ROLE)])
        }
    }
}

fn wrong(path: &str) -> impl FnOnce(String) -> ScaffoldError {
    let file = path.into();
    move |reason| ScaffoldError::Generated { file, reason }
}

/// Renders with the default values. A chart that is wrong whatever the values is refused; one that only wants values is told about.
async fn render(chart: &Chart, helm: &Helm) -> Result<Option<String>, ScaffoldError> {
    let refused = |reason: String| ScaffoldError::Render { chart: chart.name.clone(), reason };
    let values = Values::new(None, &Overrides::default()).map_err(|error| refused(error.to_string()))?;
    let request = Request {
        chart,
        release: "release-name",
        namespace: SOME_NAMESPACE,
        values: &values,
        capabilities: &Capabilities::default(),
        is_upgrade: false,
        revision: 1,
        is_patient: false,
    };
    match helm.template(&request).await {
        Ok(text) => match manifest::read(&text) {
            Ok(_) => Ok(None),
            Err(error) => Err(ScaffoldError::not_objects(&chart.name, &error)),
        },
        Err(RenderError::Refused(reason)) if reason.contains(complaint::NOT_YAML) => Err(refused(reason)),
        Err(error @ (RenderError::Refused(_) | RenderError::Schema(_))) => {
            let fine =
                "; fine if the spec must set them: put them into the sample, then run `chartwright generate rbac`";
            let fine = if error.may_lack_values() { fine } else { "" };
            Ok(Some(format!("the chart {} does not render with its default values: {error}{fine}", chart.name)))
        }
        Err(RenderError::Chart(reason)) => Err(refused(reason)),
        Err(error) => Err(ScaffoldError::Helm(error)),
    }
}
