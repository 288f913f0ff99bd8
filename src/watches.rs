//! watches.yaml: which kind is made by which chart.
//!
//! The file is operator-sdk's: a list of entries, with the fields of both of its generations and eighteen of ours
//! (`releaseNamespace`, `releaseName`, `prune`, `crds`, `allowEmpty`, `ignoreFields`, `maxHistory`, `onFailure`, `retries`,
//! `progressDeadline`, `valuesFrom`, `valuesFromAnnotation`, `generate`, `lookup`, `hookTimeout`, `allow`, `adopt`,
//! `serviceAccountName`). It is
//! refused as a whole when any entry is wrong, since an operator that silently serves half of its
//! kinds is worse than one that does not start. Unknown fields are ignored, as there, but named in a warning.
//!
//! | module | what is in it |
//! |---|---|
//! | [`fields`] | one entry, field by field |
//! | [`adopt`] | whether existing objects may be adopted |
//! | [`expand`] | environment and templates in overrides |
//! | [`generate`] | values that the operator generates |
//! | [`ignore`] | fields that others may decide |
//! | [`values_from`] | ConfigMaps and Secrets that values come from |
//! | [`selector`] | a LabelSelector as text |
//! | [`duration`] | durations as Go writes them |
//! | [`lines`] | where things stand in the file |
//! | [`suggest`] | the nearest known name |

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::core::GroupVersionKind;
use serde_json::Value;

use crate::chart::Chart;
use crate::generate::Generator;
use crate::listeners::Ignore;
use crate::reach::Reach;
use crate::release::NameTemplate;
use crate::render::{Helm, RenderError};
use crate::values::Overrides;
use crate::values::from::Source;
use crate::wishes;
use crate::yaml::{self, YamlError};

pub mod adopt;
pub mod duration;
pub mod expand;
pub mod fields;
pub mod generate;
pub mod ignore;
pub mod lines;
pub mod selector;
pub mod suggest;
pub mod values_from;

pub use adopt::Adopt;
use expand::{ExpandError, Text};
use fields::{Fields, Problem};
use lines::Lines;

/// One entry: a kind, the chart that makes it, and how.
#[derive(Clone, Debug)]
pub struct Watch {
    pub gvk: GroupVersionKind,
    pub chart: Chart,
    pub watch_dependents: bool,
    /// Values that win over every spec.
    pub overrides: Overrides,
    /// Where values come from that every spec wins over.
    pub values_from: Vec<Source>,
    /// Whether a custom resource may name more of them; `None` is yes, but for cluster-scoped kinds.
    pub values_from_annotation: Option<bool>,
    /// Values that are generated once for each custom resource, and win over every spec.
    pub generate: Vec<Generator>,
    /// Which custom resources are served, as the parameter of a watch; `None` is all.
    pub selector: Option<String>,
    /// `None` and zero leave it to the flag.
    pub reconcile_period: Option<Duration>,
    pub lookup: Lookup,
    /// What its releases may write outside of their namespace; `None` is what the chart makes with its default values.
    pub allow: Option<Reach>,
    pub adopt: Adopt,
    /// The ServiceAccount of the release's namespace that objects are written as; `None` is the operator itself.
    pub service_account: Option<String>,
    /// At least 1.
    pub max_concurrent: Option<usize>,
    /// Where the releases of cluster-scoped resources live.
    pub release_namespace: Option<String>,
    /// What releases are called.
    pub release_name: NameTemplate,
    pub prune: Prune,
    pub crds: Crds,
    /// Whether a render without objects may remove everything.
    pub allow_empty: bool,
    /// Fields of objects that others may decide.
    pub ignore: Vec<Ignore>,
    /// How many revisions are kept; 0 is all of them.
    pub max_history: usize,
    pub on_failure: OnFailure,
    /// How often a revision is tried again before it counts as failed.
    pub retries: u32,
    /// How long a revision may take to become ready; `None` is any time.
    pub progress_deadline: Option<Duration>,
    /// How long each hook may take, where it says nothing itself; `None` is five minutes.
    pub hook_timeout: Option<Duration>,
}

/// What becomes of a revision that failed for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// It stays as far as it came, until the spec or the chart changes.
    #[default]
    Stop,
    /// The last good revision comes back.
    Rollback,
}

impl OnFailure {
    /// As it is written in watches.yaml and in the annotation.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "stop" => Some(OnFailure::Stop),
            "rollback" => Some(OnFailure::Rollback),
            _ => None,
        }
    }
}

/// What a chart's `lookup` may read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lookup {
    /// Nothing.
    None,
    /// Objects of the release.
    #[default]
    Release,
    /// Everything in the release's namespace.
    Namespace,
    /// Whatever the operator may.
    Cluster,
}

impl Lookup {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "none" => Some(Lookup::None),
            "release" => Some(Lookup::Release),
            "namespace" => Some(Lookup::Namespace),
            "cluster" => Some(Lookup::Cluster),
            _ => None,
        }
    }

    /// As it is written in watches.yaml.
    pub fn as_str(self) -> &'static str {
        match self {
            Lookup::None => "none",
            Lookup::Release => "release",
            Lookup::Namespace => "namespace",
            Lookup::Cluster => "cluster",
        }
    }
}

/// What an upgrade removes of the objects that a chart no longer renders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prune {
    /// Not namespaces, CRDs and claims, which take data with them.
    #[default]
    Safe,
    /// As Helm does.
    All,
}

/// What becomes of the contents of a chart's crds/. Nothing of it is ever deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Crds {
    /// What is not there is created, what is there is not touched. So it is in Helm.
    #[default]
    Create,
    /// What is there is changed as well.
    CreateReplace,
    /// Somebody else sees to it.
    Skip,
}

impl Crds {
    /// As it is written in watches.yaml, in whatever case.
    pub fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "create" => Some(Crds::Create),
            "createreplace" => Some(Crds::CreateReplace),
            "skip" => Some(Crds::Skip),
            _ => None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum WatchesError {
    #[error("cannot read {path}: {error}; name the file with --watches-file")]
    Read { path: PathBuf, error: std::io::Error },
    #[error("{path} is not a list of watches: {error}")]
    Syntax { path: PathBuf, error: YamlError },
    #[error("{path} is not a list of watches: it is {found}; begin each entry with `- `")]
    NotAList { path: PathBuf, found: &'static str },
    #[error("{path} has no entries; add one with group, version, kind and chart")]
    Empty { path: PathBuf },
    #[error("{place}: {problem}")]
    Entry { place: String, problem: Box<Problem> },
    #[error("{path}: `overrideValues`: {error}")]
    Helm { path: PathBuf, error: RenderError },
}

/// What was read, and what a person should know about it.
#[derive(Debug)]
pub struct Watches {
    pub entries: Vec<Watch>,
    pub warnings: Vec<String>,
}

/// As [`Watches`], but with every entry's own error.
#[derive(Debug)]
pub struct Checked {
    pub entries: Vec<Result<Watch, WatchesError>>,
    pub warnings: Vec<String>,
}

/// Loads a watches file. Chart paths are relative to `base`, which is the working directory for the operator. helm runs only
/// where an override is a template.
pub async fn load(path: &Path, base: &Path, helm: &Helm) -> Result<Watches, WatchesError> {
    let Checked { entries, warnings } = check(path, base, helm).await?;
    Ok(Watches { entries: entries.into_iter().collect::<Result<_, _>>()?, warnings })
}

/// Loads the entry of one kind, in whichever version. What is wrong with others does not matter.
pub async fn load_one(path: &Path, base: &Path, helm: &Helm, group: &str, kind: &str) -> Result<Watches, WatchesError> {
    let is_meant = |gvk: &GroupVersionKind| gvk.group == group && gvk.kind == kind;
    let Checked { entries, warnings } =
        check_some(path, base, helm, |draft| draft.gvk.as_ref().is_some_and(is_meant)).await?;
    Ok(Watches { entries: entries.into_iter().collect::<Result<_, _>>()?, warnings })
}

/// The kinds of a watches file, whatever else is in it. Nothing is loaded.
pub fn kinds(path: &Path) -> Result<Vec<GroupVersionKind>, WatchesError> {
    let text = std::fs::read_to_string(path).map_err(|error| WatchesError::Read { path: path.to_owned(), error })?;
    let entries = yaml::parse(&text).map_err(|error| WatchesError::Syntax { path: path.to_owned(), error })?;
    let entries = match &entries {
        Value::Array(entries) => entries,
        other => return Err(WatchesError::NotAList { path: path.to_owned(), found: fields::kind(other) }),
    };
    let kind = |entry: &Value| {
        let text = |key: &str| entry[key].as_str();
        Some(GroupVersionKind::gvk(text("group")?, text("version")?, text("kind")?))
    };
    Ok(entries.iter().filter_map(kind).collect())
}

/// Loads a watches file and goes on after an entry that is wrong.
pub async fn check(path: &Path, base: &Path, helm: &Helm) -> Result<Checked, WatchesError> {
    check_some(path, base, helm, |_| true).await
}

/// The same for some entries. One whose kind cannot be read has none.
async fn check_some(
    path: &Path,
    base: &Path,
    helm: &Helm,
    is_meant: impl Fn(&Draft) -> bool,
) -> Result<Checked, WatchesError> {
    let text = std::fs::read_to_string(path).map_err(|error| WatchesError::Read { path: path.to_owned(), error })?;
    let unset = RefCell::new(BTreeSet::new());
    let environment = |name: &str| {
        let value = std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        if value.is_none() {
            unset.borrow_mut().insert(name.to_owned());
        }
        value
    };
    let file = File { path, base, lines: Lines::of(&text) };
    let mut drafts = file.drafts(&text, &environment)?;
    drafts.retain(is_meant);
    let unset = unset.into_inner();
    let mut checked = file.finish(drafts, async |texts: &[Text]| expand::evaluate(texts, helm).await).await?;
    let warning = |name| format!("{}: `overrideValues`: ${name} is not set and counts as empty", path.display());
    checked.warnings.extend(unset.into_iter().map(warning));
    Ok(checked)
}

/// The file that is being read.
struct File<'a> {
    path: &'a Path,
    base: &'a Path,
    lines: Lines,
}

/// An entry on its way.
struct Draft {
    /// Its place in the file.
    index: usize,
    gvk: Option<GroupVersionKind>,
    /// For messages: `apps.example.com/v1 Web`.
    label: Option<String>,
    state: Result<(Fields, BTreeMap<String, Text>), Problem>,
}

impl File<'_> {
    /// Everything up to templates.
    fn drafts(&self, text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Vec<Draft>, WatchesError> {
        let path = || self.path.to_owned();
        let entries = match yaml::parse(text).map_err(|error| WatchesError::Syntax { path: path(), error })? {
            Value::Array(entries) if !entries.is_empty() => entries,
            Value::Array(_) | Value::Null => return Err(WatchesError::Empty { path: path() }),
            other => return Err(WatchesError::NotAList { path: path(), found: fields::kind(&other) }),
        };
        let mut kinds: Vec<Option<GroupVersionKind>> = vec![];
        let mut drafts = vec![];
        for entry in &entries {
            let mut state = Fields::read(entry);
            let gvk = state.as_ref().ok().map(|fields| fields.gvk.clone());
            if let (Some(gvk), Some(first)) = (&gvk, kinds.iter().position(|known| known.is_some() && *known == gvk)) {
                state = Err(Problem::Duplicate { gvk: shown(gvk), first: first + 1 });
            }
            kinds.push(gvk.clone());
            let state = state.map(|fields| {
                let texts = fields.overrides.iter().filter_map(|(key, value)| Some((key, value.as_str()?)));
                let texts = texts.map(|(key, text)| (key.clone(), Text::expand(text, env))).collect();
                (fields, texts)
            });
            drafts.push(Draft { index: drafts.len(), gvk, label: fields::label(entry), state });
        }
        Ok(drafts)
    }

    /// Evaluates the templates of all entries at once, then makes watches of them.
    async fn finish(
        &self,
        mut drafts: Vec<Draft>,
        evaluate: impl AsyncFn(&[Text]) -> Result<Vec<String>, ExpandError>,
    ) -> Result<Checked, WatchesError> {
        loop {
            let (places, texts): (Vec<(usize, String)>, Vec<Text>) = templates(&drafts).into_iter().unzip();
            if texts.is_empty() {
                break;
            }
            match evaluate(&texts).await {
                Ok(results) => {
                    store(&mut drafts, places.into_iter().zip(results));
                    break;
                }
                Err(ExpandError::Helm(error)) => {
                    return Err(WatchesError::Helm { path: self.path.to_owned(), error });
                }
                // The others get their chance without it.
                Err(ExpandError::Text { index, reason }) => {
                    let (entry, key) = places[index].clone();
                    drafts[entry].state = Err(Problem::Template { key, reason });
                }
            }
        }
        let mut checked = Checked { entries: vec![], warnings: vec![] };
        for draft in drafts {
            let place = |way: &[&str]| self.place(draft.index, draft.label.as_deref(), way);
            let watch = draft.state.and_then(|(fields, texts)| {
                for (way, sentence) in &fields.unknown {
                    let way: Vec<&str> = way.iter().map(String::as_str).collect();
                    checked.warnings.push(format!("{}: {sentence}", place(&way)));
                }
                if fields.reconcile_period.is_some_and(wishes::is_too_short) {
                    checked.warnings.push(format!("{}: {}", place(&["reconcilePeriod"]), wishes::TOO_SHORT));
                }
                self.watch(fields, texts)
            });
            let failed = |problem: Problem| {
                let place = place(&problem.way());
                WatchesError::Entry { place, problem: Box::new(problem) }
            };
            checked.entries.push(watch.map_err(failed));
        }
        Ok(checked)
    }

    fn watch(&self, fields: Fields, texts: BTreeMap<String, Text>) -> Result<Watch, Problem> {
        let mut overrides = fields.overrides;
        overrides.extend(texts.into_iter().map(|(key, text)| (key, Value::String(text.text))));
        Ok(Watch {
            overrides: Overrides::parse(&overrides)?,
            chart: Chart::load(&self.base.join(&fields.chart))?,
            gvk: fields.gvk,
            watch_dependents: fields.watch_dependents,
            values_from: fields.values_from,
            values_from_annotation: fields.values_from_annotation,
            generate: fields.generate,
            selector: fields.selector,
            reconcile_period: fields.reconcile_period,
            lookup: fields.lookup,
            allow: fields.allow,
            adopt: fields.adopt,
            service_account: fields.service_account,
            max_concurrent: fields.max_concurrent,
            release_namespace: fields.release_namespace,
            release_name: fields.release_name,
            prune: fields.prune,
            crds: fields.crds,
            allow_empty: fields.allow_empty,
            ignore: fields.ignore,
            max_history: fields.max_history,
            on_failure: fields.on_failure,
            retries: fields.retries,
            progress_deadline: fields.progress_deadline,
            hook_timeout: fields.hook_timeout,
        })
    }

    /// `watches.yaml:7: entry 2 (apps.example.com/v1 Web)`
    fn place(&self, index: usize, label: Option<&str>, way: &[&str]) -> String {
        let item = index.to_string();
        let way: Vec<&str> = [item.as_str()].into_iter().chain(way.iter().copied()).collect();
        let label = label.map(|label| format!(" ({label})")).unwrap_or_default();
        format!("{}:{}: entry {}{label}", self.path.display(), self.lines.line(&way), index + 1)
    }
}

/// The texts that are templates, with entry and key.
fn templates(drafts: &[Draft]) -> Vec<((usize, String), Text)> {
    let good = drafts.iter().enumerate().filter_map(|(entry, draft)| Some((entry, draft.state.as_ref().ok()?)));
    let texts = good.flat_map(|(entry, (_, texts))| texts.iter().map(move |(key, text)| ((entry, key.clone()), text)));
    texts.filter(|(_, text)| text.needs_template()).map(|(place, text)| (place, text.clone())).collect()
}

fn store(drafts: &mut [Draft], results: impl Iterator<Item = ((usize, String), String)>) {
    for ((entry, key), result) in results {
        if let Ok((_, texts)) = &mut drafts[entry].state
            && let Some(text) = texts.get_mut(&key)
        {
            text.text = result;
        }
    }
}

fn shown(gvk: &GroupVersionKind) -> String {
    format!("{} {}", gvk.api_version(), gvk.kind)
}

#[cfg(test)]
mod tests;
