//! The rights that the operator needs for its charts, found without a cluster: least privilege, with a reason for each rule.
//!
//! ```text
//! chart ──▶ tree ──▶ branches ──▶ renders (helm) ──▶ findings ──▶ needs ──▶ text of role.yaml
//!              └───▶ scan ─────────────────────────────▲              ▲
//!                                            watches.yaml, the API ───┘
//! ```
//!
//! Every object kind that a chart can make is looked for: by renders over its values, and, as a net below, in the text of its
//! templates. What cannot be known is told in a note, never covered with a wildcard.
//!
//! | module | what is in it |
//! |---|---|
//! | [`tree`] | the text files of a chart and its subcharts |
//! | [`branches`] | which values a chart is rendered with |
//! | [`renders`] | the edge: helm, many times |
//! | [`scan`] | what stands in templates |
//! | [`findings`] | all that a chart can make |
//! | [`kinds`] | plurals and scopes without a cluster |
//! | [`grants`] | what a chart's own Roles ask of whoever makes them |
//! | [`needs`] | what the operator needs for what it found |
//! | [`rights`] | rights with their reasons, as data |
//! | [`text`] | the text of role.yaml, and what a person wrote into it |
//! | [`people`] | roles for whoever owns, edits or reads the custom resources |

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::chart::{Chart, ChartError};
use crate::generate::make;
use crate::reach::Reach;
use crate::render::{Helm, RenderError};
use crate::scaffold::api::{self, Api};
use crate::values::{Overrides, Placed};
use crate::watches::Watch;
use crate::yaml;

pub mod branches;
pub mod findings;
pub mod grants;
pub mod kinds;
pub mod needs;
pub mod people;
pub mod renders;
pub mod rights;
pub mod scan;
pub mod text;
pub mod tree;

use needs::Serving;
use renders::{Subject, Surveyed};
use rights::Needs;
use text::Style;

/// Where the role is in a project.
pub const ROLE: &str = "config/rbac/role.yaml";
/// Where its binding is.
pub const BINDING: &str = "config/rbac/role_binding.yaml";
/// How often a chart is rendered unless somebody says otherwise.
pub const MOST_RENDERS: usize = 200;

/// What a person may choose.
#[derive(Clone, Debug)]
pub struct Options {
    /// The project's name, for labels. None is what PROJECT or role.yaml says, or the directory.
    pub name: Option<String>,
    /// Kinds whose definition is not in config/crd/bases yet.
    pub apis: Vec<Api>,
    /// A Role for an operator that looks at namespaces that are named (WATCH_NAMESPACE).
    pub is_namespaced: bool,
    /// The right to `escalate` and `bind`, in place of every rule that the charts' own roles have.
    pub escalates: bool,
    pub most_renders: usize,
}

impl Options {
    /// As they were when the text of a role was made. One of somebody else says nothing.
    pub fn of_role(text: &str) -> Self {
        let flags = text::flags_of(text);
        let is_given = |flag: &str| flags.contains(&flag);
        let most_renders = flags.iter().find_map(|flag| flag.strip_prefix("--max-renders=")?.parse().ok());
        Options {
            is_namespaced: is_given("--namespaced"),
            escalates: is_given("--escalate"),
            most_renders: most_renders.unwrap_or(MOST_RENDERS),
            ..Options::default()
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options { name: None, apis: vec![], is_namespaced: false, escalates: false, most_renders: MOST_RENDERS }
    }
}

/// What came out. Nothing is written yet.
#[derive(Clone, Debug)]
pub struct Generated {
    /// Paths from the project's directory, and texts. The first is the role.
    pub files: Vec<(PathBuf, String)>,
    /// What a person should know, a sentence each.
    pub notes: Vec<String>,
}

/// What charts can make, for as long as somebody asks: each is rendered once, in however many projects it is.
#[derive(Debug, Default)]
pub struct Surveys(Vec<(Asked, Surveyed)>);

/// All that a survey follows from.
#[derive(Debug, PartialEq)]
struct Asked {
    chart: String,
    overrides: Overrides,
    generated: Vec<Placed>,
    specs: Vec<Value>,
    most_renders: usize,
}

impl Surveys {
    async fn of(&mut self, subject: Subject<'_>) -> Result<Surveyed, RbacError> {
        let Subject { chart: Chart { digest, .. }, overrides, generated, specs, most_renders, .. } = &subject;
        let (chart, overrides, specs) = (digest.clone(), (*overrides).clone(), specs.clone());
        let asked = Asked { chart, overrides, generated: generated.clone(), specs, most_renders: *most_renders };
        if let Some((_, known)) = self.0.iter().find(|(known, _)| *known == asked) {
            return Ok(known.clone());
        }
        let found = subject.survey().await?;
        self.0.push((asked, found.clone()));
        Ok(found)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum RbacError {
    #[error(transparent)]
    Helm(#[from] RenderError),
    #[error(transparent)]
    Chart(#[from] ChartError),
    #[error("cannot read {path}: {error}")]
    Read { path: PathBuf, error: std::io::Error },
}

/// The role of an operator with these watches. What a person added to the project's role is kept.
///
/// # Errors
/// helm cannot be run, or a file of the project cannot be read. A chart that does not render is none: a note tells of it.
pub async fn generate(
    project: &Path,
    watches: &[Watch],
    helm: &Helm,
    options: &Options,
    surveys: &mut Surveys,
) -> Result<Generated, RbacError> {
    let mut all = vec![];
    let definitions = documents_in(&project.join("config/crd/bases"))?;
    let samples = documents_in(&project.join("config/samples"))?;
    for watch in watches {
        let (chart, overrides, specs) = (&watch.chart, &watch.overrides, specs_for(watch, &samples));
        let generated = make::stand_ins(&watch.generate);
        let subject = Subject { chart, overrides, generated, helm, specs, most_renders: options.most_renders };
        let mut found = surveys.of(subject).await?;
        // A chart may make custom resources of the project itself.
        definitions.iter().for_each(|definition| found.findings.kinds.learn(definition));
        let (api, note) = api_of(watch, &options.apis, &definitions);
        let (is_namespaced, escalates) = (options.is_namespaced, options.escalates);
        let serving = Serving { is_namespaced, escalates, ..Serving::by(watch, &api, reach(watch, &found)) };
        let mut needs = Needs::of(&found.findings, &serving).in_directory(&chart_path(watch, project));
        needs.notes.extend(note);
        all.push(needs);
    }
    written(project, &Needs::joined(all, options.is_namespaced), options)
}

/// The role of an operator that has no watches yet.
///
/// # Errors
/// A file of the project cannot be read.
pub fn without_charts(project: &Path, options: &Options) -> Result<Generated, RbacError> {
    written(project, &Needs::joined(vec![], options.is_namespaced), options)
}

fn written(project: &Path, needs: &Needs, options: &Options) -> Result<Generated, RbacError> {
    let before = read(&project.join(ROLE))?.unwrap_or_default();
    let name = match &options.name {
        Some(name) => name.clone(),
        None => project_name(project, &before)?,
    };
    let flags = [(" --namespaced", options.is_namespaced), (" --escalate", options.escalates)];
    let mut flags: String = flags.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| *flag).collect();
    if options.most_renders != MOST_RENDERS {
        flags.push_str(&format!(" --max-renders={}", options.most_renders));
    }
    let is_namespaced = options.is_namespaced;
    let style = Style { name: &name, flags: &flags, is_namespaced, by_hand: text::by_hand(&before) };
    let mut files = vec![(PathBuf::from(ROLE), text::role(needs, &style))];
    if is_namespaced {
        files.push((PathBuf::from(BINDING), text::bindings(&name)));
    }
    Ok(Generated { files, notes: needs.notes.clone() })
}

/// What releases may write outside of their namespace.
fn reach(watch: &Watch, found: &Surveyed) -> Reach {
    let by_default =
        || found.by_default.allowance(&watch.gvk, &[], |gvk| found.findings.kinds.is_namespaced(gvk)).reach;
    watch.allow.unwrap_or_else(by_default)
}

/// The chart's directory as a person writes it.
fn chart_path(watch: &Watch, project: &Path) -> String {
    let origin = &watch.chart.origin;
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (chart, project) = (whole(origin), whole(project));
    chart.strip_prefix(project).unwrap_or(origin).display().to_string()
}

/// The kind of a watch, and what to say where nobody knows its plural.
fn api_of(watch: &Watch, given: &[Api], definitions: &[Value]) -> (Api, Option<String>) {
    let gvk = &watch.gvk;
    let is_meant = |group: &str, kind: &str| group == gvk.group && kind == gvk.kind;
    if let Some(api) = given.iter().find(|api| is_meant(&api.group, &api.kind)) {
        return (api.clone(), None);
    }
    let text = |crd: &Value, pointer: &str| crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let named = |crd: &&Value| is_meant(&text(crd, "/spec/group"), &text(crd, "/spec/names/kind"));
    let singular = gvk.kind.to_ascii_lowercase();
    let api = |plural: String, is_namespaced: bool| Api {
        group: gvk.group.clone(),
        version: gvk.version.clone(),
        kind: gvk.kind.clone(),
        plural,
        singular: singular.clone(),
        is_namespaced,
    };
    if let Some(crd) = definitions.iter().find(named) {
        return (api(text(crd, "/spec/names/plural"), text(crd, "/spec/scope") != "Cluster"), None);
    }
    let plural = api::plural(&singular);
    let note = format!("config/crd/bases has no definition of {}; `{plural}`, with a namespace, is believed", gvk.kind);
    (api(plural, true), Some(note))
}

/// What samples of a kind say.
fn specs_for(watch: &Watch, samples: &[Value]) -> Vec<Value> {
    let is_meant = |sample: &&Value| {
        let group = sample["apiVersion"].as_str().and_then(|it| it.split_once('/')).map_or("", |(group, _)| group);
        sample["kind"] == watch.gvk.kind.as_str() && group == watch.gvk.group && sample["spec"].is_object()
    };
    samples.iter().filter(is_meant).map(|sample| sample["spec"].clone()).collect()
}

/// Every document of the YAML files in a directory. What is no YAML is not what is looked for.
fn documents_in(dir: &Path) -> Result<Vec<Value>, RbacError> {
    let unreadable = |error| RbacError::Read { path: dir.to_owned(), error };
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
        entries => entries.map_err(unreadable)?,
    };
    let mut paths = vec![];
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|it| it == "yaml" || it == "yml") {
            paths.push(path);
        }
    }
    paths.sort();
    let mut documents = vec![];
    for path in paths {
        let text = read(&path)?.unwrap_or_default();
        documents.extend(yaml::documents(&text).unwrap_or_default());
    }
    Ok(documents)
}

/// A file's text; None where there is none.
pub(super) fn read(path: &Path) -> Result<Option<String>, RbacError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(RbacError::Read { path: path.to_owned(), error }),
    }
}

fn project_name(project: &Path, role: &str) -> Result<String, RbacError> {
    let file = read(&project.join("PROJECT"))?.unwrap_or_default();
    let told = yaml::parse(&file).ok().and_then(|file| file["projectName"].as_str().map(str::to_owned));
    let directory = || project.canonicalize().ok()?.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = told.or_else(|| text::name_of(role).map(str::to_owned)).or_else(directory);
    Ok(name.unwrap_or_else(|| "operator".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_made_anew_as_it_was_made() {
        let role =
            "# Written by `chartwright generate rbac --namespaced --max-renders=7`, from the charts.\nrules: []\n";
        let options = Options::of_role(role);
        assert_eq!((options.is_namespaced, options.escalates, options.most_renders), (true, false, 7));
        assert_eq!(Options::of_role("rules: []\n").most_renders, MOST_RENDERS);
    }
}
