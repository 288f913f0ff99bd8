//! The fields of one entry, as they are written.
//!
//! Pure. Each field is read by hand and not by a derived reader, so that a message can name it, its line, and what to write.
//! A field that is null counts as absent. Charts, templates and the environment are not touched here.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::core::GroupVersionKind;
use serde_json::{Map, Value};

use super::duration::{self, DurationError};
use super::selector::{self, SelectorError};
use super::{Adopt, Crds, Lookup, OnFailure, Prune, generate, ignore, suggest, values_from};
use crate::chart::ChartError;
use crate::generate::Generator;
use crate::listeners::Ignore;
use crate::namespaces::is_name;
use crate::reach::{Beyond, Reach};
use crate::release::NameTemplate;
use crate::release::name::NameError;
use crate::values::OverrideError;
use crate::values::from::Source;

const KNOWN: [&str; 28] = [
    "group",
    "version",
    "kind",
    "chart",
    "watchDependentResources",
    "overrideValues",
    "selector",
    "reconcilePeriod",
    "dryRunOption",
    "maxConcurrentReconciles",
    "releaseNamespace",
    "releaseName",
    "prune",
    "crds",
    "ignoreFields",
    "allowEmpty",
    "maxHistory",
    "onFailure",
    "retries",
    "progressDeadline",
    "valuesFrom",
    "valuesFromAnnotation",
    "generate",
    "lookup",
    "hookTimeout",
    "allow",
    "adopt",
    "serviceAccountName",
];

/// As in Helm.
const MAX_HISTORY: usize = 10;
const RETRIES: u32 = 3;

/// What is wrong with an entry.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("it must be a map with version, kind and chart, but is {0}")]
    NotAMap(&'static str),
    #[error("`{0}` is missing; every entry needs version, kind and chart")]
    Missing(&'static str),
    #[error("`{field}` must be {wanted}, but is {found}")]
    Type { field: &'static str, wanted: &'static str, found: &'static str },
    #[error("`{field}`: {error}")]
    Duration { field: &'static str, error: DurationError },
    #[error("`selector`: {0}")]
    Selector(#[from] SelectorError),
    #[error("`dryRunOption`: `{0}` is not known: write `server`, or leave the field out")]
    DryRun(String),
    #[error("`lookup`: `{0}` is not known: write `release`, `namespace`, `cluster` or `none`")]
    Lookup(String),
    #[error(
        "`lookup: {0}` and `dryRunOption: server` say different things; leave `dryRunOption` out, or write `lookup: cluster`"
    )]
    TwoLookups(&'static str),
    #[error(
        "`allow`: `{0}` is not known: write a list of `other-namespaces`, `cluster`, `operator-namespace` and `watched-kinds`, or `[]` for none of them"
    )]
    Allow(String),
    #[error("`adopt`: `{0}` is not known: write `none`, `objects` or `releases`")]
    Adopt(String),
    #[error("`serviceAccountName`: `{0}` is not the name of a ServiceAccount: small letters, digits, `-` and `.`")]
    ServiceAccountName(String),
    #[error("`{written}` is not known, and to ignore it would give more rights than are meant; write `{meant}`")]
    Fence { written: String, meant: &'static str },
    #[error("`{0}` says nothing; write what is meant, or leave the field out")]
    EmptyFence(&'static str),
    #[error("`prune`: `{0}` is not known: write `safe` or `all`")]
    Prune(String),
    #[error("`crds`: `{0}` is not known: write `Create`, `CreateReplace` or `Skip`")]
    Crds(String),
    #[error("`releaseNamespace`: `{0}` is not the name of a namespace: small letters, digits and `-`, at most 63")]
    ReleaseNamespace(String),
    #[error("`releaseName`: {0}")]
    ReleaseName(#[from] NameError),
    #[error("`onFailure`: `{0}` is not known: write `stop` or `rollback`")]
    OnFailure(String),
    #[error("`{field}`: `{found}` is not a whole number from {least} on{hint}")]
    Number { field: &'static str, found: String, least: u32, hint: &'static str },
    #[error("`chart`: {0}")]
    Chart(#[from] ChartError),
    #[error("`overrideValues`: {0}")]
    Override(#[from] OverrideError),
    #[error("`overrideValues`: `{key}` does not expand: {reason}")]
    Template { key: String, reason: String },
    #[error("`ignoreFields`: {0}")]
    IgnoreFields(String),
    #[error("`valuesFrom`: {0}")]
    ValuesFrom(String),
    #[error("`generate`: {0}")]
    Generate(String),
    #[error("{gvk} is already in entry {first}; one kind has one chart")]
    Duplicate { gvk: String, first: usize },
}

impl Problem {
    /// The way from the entry to where this stands.
    pub fn way(&self) -> Vec<&str> {
        match self {
            Problem::NotAMap(_) | Problem::Missing(_) => vec![],
            Problem::Type { field, .. } | Problem::Duration { field, .. } | Problem::Number { field, .. } => {
                vec![field]
            }
            Problem::Selector(_) => vec!["selector"],
            Problem::DryRun(_) => vec!["dryRunOption"],
            Problem::Lookup(_) | Problem::TwoLookups(_) => vec!["lookup"],
            Problem::Allow(_) => vec!["allow"],
            Problem::Adopt(_) => vec!["adopt"],
            Problem::ServiceAccountName(_) => vec!["serviceAccountName"],
            Problem::Fence { written, .. } => vec![written],
            Problem::EmptyFence(field) => vec![field],
            Problem::Prune(_) => vec!["prune"],
            Problem::Crds(_) => vec!["crds"],
            Problem::ReleaseNamespace(_) => vec!["releaseNamespace"],
            Problem::IgnoreFields(_) => vec!["ignoreFields"],
            Problem::ValuesFrom(_) => vec!["valuesFrom"],
            Problem::Generate(_) => vec!["generate"],
            Problem::ReleaseName(_) => vec!["releaseName"],
            Problem::OnFailure(_) => vec!["onFailure"],
            Problem::Chart(_) => vec!["chart"],
            Problem::Override(
                OverrideError::Key { key, .. }
                | OverrideError::Value { key, .. }
                | OverrideError::NotScalar { key, .. },
            )
            | Problem::Template { key, .. } => vec!["overrideValues", key],
            Problem::Duplicate { .. } => vec!["kind"],
        }
    }
}

/// An entry whose fields are well-formed.
#[derive(Debug)]
pub struct Fields {
    pub gvk: GroupVersionKind,
    pub chart: String,
    pub watch_dependents: bool,
    /// Not expanded yet.
    pub overrides: BTreeMap<String, Value>,
    pub values_from: Vec<Source>,
    pub values_from_annotation: Option<bool>,
    pub generate: Vec<Generator>,
    pub selector: Option<String>,
    pub reconcile_period: Option<Duration>,
    pub lookup: Lookup,
    pub allow: Option<Reach>,
    pub adopt: Adopt,
    pub service_account: Option<String>,
    pub max_concurrent: Option<usize>,
    pub release_namespace: Option<String>,
    pub release_name: NameTemplate,
    pub prune: Prune,
    pub crds: Crds,
    pub allow_empty: bool,
    pub ignore: Vec<Ignore>,
    pub max_history: usize,
    pub on_failure: OnFailure,
    pub retries: u32,
    pub progress_deadline: Option<Duration>,
    pub hook_timeout: Option<Duration>,
    /// Names without a meaning: where they stand, and a sentence about each.
    pub unknown: Vec<(Vec<String>, String)>,
}

impl Fields {
    pub fn read(entry: &Value) -> Result<Self, Problem> {
        let map = entry.as_object().ok_or(Problem::NotAMap(kind(entry)))?;
        check_fences(map)?;
        let (selector, unknown_in_selector) = match get(map, "selector") {
            Some(value) => selector::read(value)?,
            None => (None, vec![]),
        };
        Ok(Fields {
            gvk: GroupVersionKind::gvk(
                text(map, "group")?.unwrap_or_default(),
                required(map, "version")?,
                required(map, "kind")?,
            ),
            chart: required(map, "chart")?.to_owned(),
            watch_dependents: boolean(map, "watchDependentResources")?.unwrap_or(true),
            overrides: overrides(map)?,
            values_from: get(map, "valuesFrom").map(values_from::read).transpose()?.unwrap_or_default(),
            values_from_annotation: boolean(map, "valuesFromAnnotation")?,
            generate: get(map, "generate").map(generate::read).transpose()?.unwrap_or_default(),
            selector,
            reconcile_period: duration(map, "reconcilePeriod")?,
            lookup: lookup(map)?,
            allow: allow(map)?,
            adopt: adopt(map)?,
            service_account: service_account(map)?,
            max_concurrent: number(map, "maxConcurrentReconciles", 1, "")?,
            release_namespace: release_namespace(map)?,
            release_name: release_name(map)?,
            prune: prune(map)?,
            crds: crds(map)?,
            allow_empty: boolean(map, "allowEmpty")?.unwrap_or(false),
            ignore: get(map, "ignoreFields").map(ignore::read).transpose()?.unwrap_or_default(),
            max_history: number(map, "maxHistory", 0, "; 0 keeps all revisions")?.unwrap_or(MAX_HISTORY),
            on_failure: on_failure(map)?,
            retries: number(map, "retries", 0, "; 0 is one try and no more")?.unwrap_or(RETRIES),
            progress_deadline: duration(map, "progressDeadline")?.filter(|deadline| !deadline.is_zero()),
            hook_timeout: duration(map, "hookTimeout")?.filter(|limit| !limit.is_zero()),
            unknown: unknown(map, &unknown_in_selector),
        })
    }
}

/// `apps.example.com/v1 Web`, as far as an entry says so.
pub fn label(entry: &Value) -> Option<String> {
    let field = |name| entry.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let gvk = GroupVersionKind::gvk(field("group").unwrap_or_default(), field("version")?, field("kind")?);
    Some(super::shown(&gvk))
}

/// What a person calls a value of this type.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "empty",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

fn get<'a>(map: &'a Map<String, Value>, field: &str) -> Option<&'a Value> {
    map.get(field).filter(|value| !value.is_null())
}

fn text<'a>(map: &'a Map<String, Value>, field: &'static str) -> Result<Option<&'a str>, Problem> {
    let wrong = |value| Problem::Type { field, wanted: "text (write it in quotes)", found: kind(value) };
    get(map, field).map(|value| value.as_str().ok_or_else(|| wrong(value))).transpose()
}

fn required<'a>(map: &'a Map<String, Value>, field: &'static str) -> Result<&'a str, Problem> {
    text(map, field)?.filter(|text| !text.is_empty()).ok_or(Problem::Missing(field))
}

fn boolean(map: &Map<String, Value>, field: &'static str) -> Result<Option<bool>, Problem> {
    let wrong = |value| Problem::Type { field, wanted: "true or false", found: kind(value) };
    get(map, field).map(|value| value.as_bool().ok_or_else(|| wrong(value))).transpose()
}

fn overrides(map: &Map<String, Value>) -> Result<BTreeMap<String, Value>, Problem> {
    match get(map, "overrideValues") {
        None => Ok(BTreeMap::new()),
        Some(Value::Object(overrides)) => Ok(overrides.clone().into_iter().collect()),
        Some(other) => {
            Err(Problem::Type { field: "overrideValues", wanted: "a map of keys and values", found: kind(other) })
        }
    }
}

/// Go reads text only. A bare `0` can mean only one thing, so it is taken as well.
fn duration(map: &Map<String, Value>, field: &'static str) -> Result<Option<Duration>, Problem> {
    let parsed = match get(map, field) {
        None => return Ok(None),
        Some(Value::String(text)) => duration::parse(text),
        Some(Value::Number(number)) => duration::parse(&number.to_string()),
        Some(other) => {
            let wanted = "a duration such as `1m30s`";
            return Err(Problem::Type { field, wanted, found: kind(other) });
        }
    };
    parsed.map(Some).map_err(|error| Problem::Duration { field, error })
}

/// `dryRunOption: server` is how operator-sdk says it.
fn lookup(map: &Map<String, Value>) -> Result<Lookup, Problem> {
    let everything = match text(map, "dryRunOption")? {
        None | Some("" | "client" | "none") => None,
        Some("server") => Some(Lookup::Cluster),
        Some(other) => return Err(Problem::DryRun(other.to_owned())),
    };
    let said = match text(map, "lookup")? {
        None | Some("") => None,
        Some(text) => Some(Lookup::parse(text).ok_or_else(|| Problem::Lookup(text.to_owned()))?),
    };
    match (said, everything) {
        (Some(said), Some(everything)) if said != everything => Err(Problem::TwoLookups(said.as_str())),
        _ => Ok(said.or(everything).unwrap_or_default()),
    }
}

fn allow(map: &Map<String, Value>) -> Result<Option<Reach>, Problem> {
    let items = match get(map, "allow") {
        None => return Ok(None),
        Some(Value::Array(items)) => items,
        Some(other) => {
            let wanted = "a list of `other-namespaces`, `cluster`, `operator-namespace` and `watched-kinds`, or `[]` for none of them";
            return Err(Problem::Type { field: "allow", wanted, found: kind(other) });
        }
    };
    let read = |item: &Value| {
        let written = item.as_str().map_or_else(|| item.to_string(), str::to_owned);
        Beyond::parse(&written).ok_or(Problem::Allow(written))
    };
    items.iter().map(read).collect::<Result<Reach, _>>().map(Some)
}

fn adopt(map: &Map<String, Value>) -> Result<Adopt, Problem> {
    match text(map, "adopt")? {
        None | Some("") => Ok(Adopt::default()),
        Some(text) => Adopt::parse(text).ok_or_else(|| Problem::Adopt(text.to_owned())),
    }
}

/// Whoever writes one of these wants fewer rights. So a name that is nearly one, or that others have for one, is refused instead
/// of ignored, and so is one that says nothing.
fn check_fences(map: &Map<String, Value>) -> Result<(), Problem> {
    const FENCES: [&str; 2] = ["allow", "serviceAccountName"];
    for key in map.keys().filter(|key| !KNOWN.contains(&key.as_str())) {
        let meant = match key.as_str() {
            "serviceAccount" | "impersonate" => Some("serviceAccountName"),
            other => suggest::nearest(other, KNOWN),
        };
        if let Some(meant) = FENCES.into_iter().find(|fence| meant == Some(fence)) {
            return Err(Problem::Fence { written: key.clone(), meant });
        }
    }
    match FENCES.into_iter().find(|fence| map.get(*fence).is_some_and(Value::is_null)) {
        Some(fence) => Err(Problem::EmptyFence(fence)),
        None => Ok(()),
    }
}

fn service_account(map: &Map<String, Value>) -> Result<Option<String>, Problem> {
    let Some(name) = text(map, "serviceAccountName")? else { return Ok(None) };
    let is_plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.');
    match is_plain && !name.is_empty() && name.len() <= 253 {
        true => Ok(Some(name.to_owned())),
        false => Err(Problem::ServiceAccountName(name.to_owned())),
    }
}

fn number<T: TryFrom<u64>>(
    map: &Map<String, Value>,
    field: &'static str,
    least: u32,
    hint: &'static str,
) -> Result<Option<T>, Problem> {
    let Some(value) = get(map, field) else { return Ok(None) };
    let number = value.as_u64().filter(|number| *number >= u64::from(least)).and_then(|number| number.try_into().ok());
    number.map(Some).ok_or_else(|| Problem::Number { field, found: value.to_string(), least, hint })
}

fn release_namespace(map: &Map<String, Value>) -> Result<Option<String>, Problem> {
    let Some(name) = text(map, "releaseNamespace")?.filter(|name| !name.is_empty()) else { return Ok(None) };
    match is_name(name) {
        true => Ok(Some(name.to_owned())),
        false => Err(Problem::ReleaseNamespace(name.to_owned())),
    }
}

fn release_name(map: &Map<String, Value>) -> Result<NameTemplate, Problem> {
    match text(map, "releaseName")? {
        None | Some("") => Ok(NameTemplate::default()),
        Some(template) => Ok(NameTemplate::parse(template)?),
    }
}

fn on_failure(map: &Map<String, Value>) -> Result<OnFailure, Problem> {
    match text(map, "onFailure")? {
        None | Some("") => Ok(OnFailure::default()),
        Some(text) => OnFailure::parse(text).ok_or_else(|| Problem::OnFailure(text.to_owned())),
    }
}

fn prune(map: &Map<String, Value>) -> Result<Prune, Problem> {
    match text(map, "prune")? {
        None | Some("" | "safe") => Ok(Prune::Safe),
        Some("all") => Ok(Prune::All),
        Some(other) => Err(Problem::Prune(other.to_owned())),
    }
}

fn crds(map: &Map<String, Value>) -> Result<Crds, Problem> {
    match text(map, "crds")? {
        None | Some("") => Ok(Crds::default()),
        Some(text) => Crds::parse(text).ok_or_else(|| Problem::Crds(text.to_owned())),
    }
}

fn unknown(map: &Map<String, Value>, in_selector: &[String]) -> Vec<(Vec<String>, String)> {
    let own = map.keys().filter(|key| !KNOWN.contains(&key.as_str()));
    let own = own.map(|key| (vec![key.clone()], sentence(key, key, "", &KNOWN)));
    let below = in_selector.iter().map(|key| {
        let way = vec!["selector".to_owned(), key.clone()];
        (way, sentence(&format!("selector.{key}"), key, "selector.", &["matchLabels", "matchExpressions"]))
    });
    own.chain(below).collect()
}

fn sentence(shown: &str, key: &str, prefix: &str, known: &[&str]) -> String {
    let meant = suggest::nearest(key, known.iter().copied());
    let meant = meant.map(|name| format!("; did you mean `{prefix}{name}`?")).unwrap_or_default();
    format!("`{shown}` is not a known field and is ignored{meant}")
}
