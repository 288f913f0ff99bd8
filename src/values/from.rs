//! Values that come from ConfigMaps and Secrets beside the custom resource.
//!
//! ```text
//! valuesFrom of the watch ─┐
//! the annotation ──────────┴▶ References ─▶ (read) ─▶ Contents ─merge─▶ a map, which the spec is put over
//! ```
//! Pure: whoever reads the objects is elsewhere. The texts are read as Helm reads values files, and merged as it merges several
//! `-f` files: maps entry by entry, everything else replaced by what comes later, and a null stays, to take a default away.
//!
//! It refuses what nobody can read, and a reference into another namespace: there is no way to write one. It never puts a value
//! into an error message.

mod annotation;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::set::{self, Assignment, MAX_INDEX, SetError, Step};
use crate::error::Category;
use crate::release::budget::{Exceeded, Meter, VALUES};
use crate::release::name::ObjectName;
use crate::sensitive::Sensitive;
use crate::yaml::{self, Problem, YamlError};

pub use annotation::{AnnotationError, parse as parse_annotation};

/// As in Flux.
pub const DEFAULT_KEY: &str = "values.yaml";

/// How many references one custom resource may have, those of its watch included.
pub const MAX_REFERENCES: usize = 64;

/// The kinds that hold values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SourceKind {
    ConfigMap,
    Secret,
}

impl SourceKind {
    pub fn as_str(self) -> &'static str {
        match self {
            SourceKind::ConfigMap => "ConfigMap",
            SourceKind::Secret => "Secret",
        }
    }
}

/// One entry of a watch's `valuesFrom`: the same for all custom resources, but for what the name says of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    pub kind: SourceKind,
    pub name: ObjectName,
    pub key: String,
    pub path: Option<TargetPath>,
    pub optional: bool,
}

impl Source {
    /// What it means for one custom resource.
    pub fn reference(&self, kind: &str, namespace: Option<&str>, name: &str) -> Reference {
        Reference {
            kind: self.kind,
            name: self.name.fill(kind, namespace, name),
            key: self.key.clone(),
            path: self.path.clone(),
            optional: self.optional,
        }
    }
}

/// One key of one object, in the namespace of the release.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    pub kind: SourceKind,
    pub name: String,
    pub key: String,
    /// The text is one value, and belongs here. Without it, the text is a file with values.
    pub path: Option<TargetPath>,
    /// The object need not be there. If it is, it has to be right.
    pub optional: bool,
}

/// `Secret db-values`, for messages.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.name)
    }
}

/// Where a text belongs among the values, in the grammar of `--set`.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetPath {
    text: String,
    steps: Vec<Step>,
}

impl TargetPath {
    pub fn parse(text: &str) -> Result<Self, SetError> {
        Ok(TargetPath { text: text.to_owned(), steps: set::one_path(text)? })
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The same place as a JSON pointer.
    pub fn pointer(&self) -> String {
        set::pointer(&self.steps)
    }

    /// The most items that a value at this place adds: a list that is too short is filled up.
    fn items(&self) -> usize {
        let items = |step: &Step| match step {
            Step::Key(_) => 1,
            Step::Index(index) => 1 + index.min(&MAX_INDEX),
        };
        self.steps.iter().map(items).sum()
    }
}

/// As it was written.
impl fmt::Display for TargetPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether a text can be the key of a ConfigMap or a Secret.
pub fn is_key(text: &str) -> bool {
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    !text.is_empty() && text.len() <= 253 && text.bytes().all(is_allowed)
}

/// What a reference leads to. It is never shown: it may be a secret.
#[derive(Clone, PartialEq)]
pub enum Content {
    /// Several references may share it.
    Text(Arc<str>),
    /// The key holds bytes that are no text.
    Binary,
    NoKey,
    NoObject,
    /// It was not read: what other references lead to is as much as one release may have.
    TooMuch,
    /// A record, a token or a Secret of the operator.
    Sensitive(Sensitive),
    /// The release made the object itself.
    OfRelease,
    /// Another release makes the object, and its values depend on this release. With the way, in words.
    OfCycle(String),
}

/// Why there are no values. For whoever wrote the reference, or what it refers to.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FromError {
    #[error(
        "values come from the {what} in the namespace {namespace}, which is not there: create it, or mark the reference as optional"
    )]
    NoObject { what: String, namespace: String },
    #[error(
        "values come from the {what} in the namespace {namespace}, which has no key {key:?}: add it, or name another key"
    )]
    NoKey { what: String, namespace: String, key: String },
    #[error("the {what} is {}, which never holds values: refer to another object", found.as_str())]
    Sensitive { what: String, found: Sensitive },
    #[error(
        "values come from the {what} in the namespace {namespace}, which belongs to this release itself: each revision could be the reason for another; refer to an object that the chart does not make"
    )]
    OfRelease { what: String, namespace: String },
    #[error(
        "the values depend on themselves, so each revision could be the reason for another, without end: {way}; take one of these references away, or refer to an object that none of these releases makes"
    )]
    OfCycle { way: String },
    #[error("{key:?} of the {what} is not text, but chart values are")]
    Binary { what: String, key: String },
    #[error("{key:?} of the {what} is not a file with values: line {line}, column {column}: {why}")]
    NotYaml { what: String, key: String, line: usize, column: usize, why: String },
    #[error(
        "{key:?} of the {what} is {found}, but chart values are an object: write `key: value` entries, or give a target path for the text"
    )]
    NotObject { what: String, key: String, found: &'static str },
    #[error(
        "the values that come from ConfigMaps and Secrets are too large, with {key:?} of the {what}: {exceeded}; refer to less"
    )]
    TooMuch { what: String, key: String, exceeded: Exceeded },
    #[error("{key:?} of the {what} cannot be put at `{path}`: {reason}")]
    Path { what: String, key: String, path: String, reason: Box<SetError> },
}

impl FromError {
    pub fn category(&self) -> Category {
        match self {
            FromError::NoObject { .. } | FromError::NoKey { .. } => Category::ValuesMissing,
            _ => Category::InvalidValues,
        }
    }
}

/// Values that were referred to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sourced {
    pub all: Map<String, Value>,
    /// The files among them that Secrets hold. What a target path gets is text, and needs no care beside that of all texts.
    pub of_secrets: Map<String, Value>,
}

/// All values that were referred to, the later over the earlier. `contents` are those of the references, one by one.
pub fn merge(references: &[Reference], contents: &[Content], namespace: &str) -> Result<Sourced, FromError> {
    let mut merged = Sourced::default();
    let mut meter = Meter::new(&VALUES);
    for (reference, content) in references.iter().zip(contents) {
        let (what, key) = (reference.to_string(), reference.key.clone());
        let namespace = namespace.to_owned();
        let text = match content {
            Content::Text(text) => text,
            Content::NoObject if reference.optional => continue,
            Content::NoObject => return Err(FromError::NoObject { what, namespace }),
            Content::NoKey => return Err(FromError::NoKey { what, namespace, key }),
            Content::TooMuch => {
                return Err(FromError::TooMuch { what, key, exceeded: Exceeded::Bytes(VALUES.bytes) });
            }
            Content::Binary => return Err(FromError::Binary { what, key }),
            Content::OfCycle(way) => return Err(FromError::OfCycle { way: way.clone() }),
            Content::OfRelease => return Err(FromError::OfRelease { what, namespace }),
            Content::Sensitive(found) => return Err(FromError::Sensitive { what, found: *found }),
        };
        let too_much = |exceeded| FromError::TooMuch { what: what.clone(), key: key.clone(), exceeded };
        match &reference.path {
            Some(path) => {
                meter.count_items(path.items()).map_err(too_much)?;
                meter.count(&written(&**text)).map_err(too_much)?;
                place(&mut merged.all, path, text, what, key)?;
            }
            None => {
                let values = values(text, what.clone(), key.clone())?;
                // A short text may hold much: an alias repeats what its anchor has.
                meter.count(&written(&values)).map_err(too_much)?;
                if reference.kind == SourceKind::Secret {
                    put_over(&mut merged.of_secrets, values.clone());
                }
                put_over(&mut merged.all, values);
            }
        }
    }
    Ok(merged)
}

/// As it counts for the limits.
fn written(values: &(impl Serialize + ?Sized)) -> Vec<u8> {
    serde_json::to_vec(values).unwrap_or_default()
}

fn place(
    dest: &mut Map<String, Value>,
    path: &TargetPath,
    text: &str,
    what: String,
    key: String,
) -> Result<(), FromError> {
    let value = Some(Value::String(text.to_owned()));
    let assignment = Assignment { path: path.steps.clone(), value, cut_short: false };
    set::assign(dest, assignment).map_err(|reason| FromError::Path {
        what,
        key,
        path: path.text.clone(),
        reason: Box::new(reason),
    })
}

fn values(text: &str, what: String, key: String) -> Result<Map<String, Value>, FromError> {
    match yaml::parse(text) {
        Ok(Value::Null) => Ok(Map::new()),
        Ok(Value::Object(map)) => Ok(map),
        Ok(other) => Err(FromError::NotObject { what, key, found: set::kind(&other) }),
        Err(YamlError { line, column, problem }) => {
            Err(FromError::NotYaml { what, key, line, column, why: discreet(&problem) })
        }
    }
}

/// The reader's words where they quote nothing: what stands behind a `*` may be the beginning of a password.
fn discreet(problem: &Problem) -> String {
    match problem {
        Problem::UnknownAlias(_) | Problem::AliasInsideItself(_) | Problem::UnknownTagHandle(_) => {
            "a text that begins with `*` or `!` has a meaning of its own in YAML; put it in quotes".to_owned()
        }
        Problem::LargeKey(_) => "a number is too large for a map key; put it in quotes".to_owned(),
        Problem::ForbiddenCharacter(_) => {
            "a character is not allowed in YAML; write it as an escape inside double quotes".to_owned()
        }
        other => other.to_string(),
    }
}

/// Puts later values over earlier ones, as Helm does with its files.
pub(super) fn put_over(earlier: &mut Map<String, Value>, later: Map<String, Value>) {
    for (key, value) in later {
        match (earlier.get_mut(&key), value) {
            (Some(Value::Object(below)), Value::Object(above)) => put_over(below, above),
            (_, value) => drop(earlier.insert(key, value)),
        }
    }
}

/// Where the texts and numbers of `values` are that came from `sources`, as JSON pointers: what the spec gives is not among them.
/// None where the pointers are longer together than anything that is meant: each repeats all keys above it.
pub(super) fn origins(sources: &Map<String, Value>, spec: &Map<String, Value>, values: &Value) -> Option<Vec<String>> {
    let mut origins = Origins { found: vec![], pointer: String::new(), room: VALUES.bytes as usize };
    origins.note_map(sources, Some(spec), Some(values))?;
    Some(origins.found)
}

struct Origins {
    found: Vec<String>,
    /// The way to the place that is looked at.
    pointer: String,
    room: usize,
}

impl Origins {
    fn note_map(
        &mut self,
        map: &Map<String, Value>,
        spec: Option<&Map<String, Value>>,
        values: Option<&Value>,
    ) -> Option<()> {
        map.iter().try_for_each(|(key, inner)| {
            let values = values.and_then(|values| values.get(key));
            self.descend(&key.replace('~', "~0").replace('/', "~1"), inner, spec.and_then(|spec| spec.get(key)), values)
        })
    }

    fn descend(&mut self, step: &str, source: &Value, spec: Option<&Value>, values: Option<&Value>) -> Option<()> {
        let before = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(step);
        self.note(source, spec, values)?;
        self.pointer.truncate(before);
        Some(())
    }

    fn note(&mut self, source: &Value, spec: Option<&Value>, values: Option<&Value>) -> Option<()> {
        match (source, spec) {
            (Value::Object(map), None) => self.note_map(map, None, values),
            (Value::Object(map), Some(Value::Object(spec))) => self.note_map(map, Some(spec), values),
            // The spec has something else there.
            (_, Some(_)) => Some(()),
            (Value::Array(list), None) => list.iter().enumerate().try_for_each(|(index, inner)| {
                self.descend(&index.to_string(), inner, None, values.and_then(|values| values.get(index)))
            }),
            // An override may have come over it.
            (Value::String(_) | Value::Number(_), None) if values == Some(source) => {
                self.room = self.room.checked_sub(self.pointer.len())?;
                self.found.push(self.pointer.clone());
                Some(())
            }
            _ => Some(()),
        }
    }
}
