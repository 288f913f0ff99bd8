//! helm's output becomes objects and hooks, in Helm's order.
//!
//! Pure; only [`read_aside`] waits its turn. It refuses output that is not a list of Kubernetes objects, and names the chart's file in which that stands.

pub mod generated;
mod lists;
pub mod order;
pub mod unseen;

use serde_json::Value;
use tokio::sync::Semaphore;

use crate::aside;
use crate::chart::notes;
use crate::error::Category;
use crate::object::{Object, ObjectError};
use crate::yaml::{self, Problem, YamlError};
use lists::{Items, items};
use unseen::Unseen;

/// More objects than any chart renders.
pub const MOST_OBJECTS: usize = 20_000;

/// Makes an object a hook.
pub const HOOK: &str = "helm.sh/hook";

/// What a chart rendered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rendered {
    /// The release's ordinary objects, in Helm's install order.
    pub objects: Vec<Object>,
    /// What runs at events of the release's life.
    pub hooks: Vec<Hook>,
    /// The contents of crds/.
    pub crds: Vec<Object>,
    /// What NOTES.txt says.
    pub notes: String,
    /// The text of the ordinary objects, as a release record holds it.
    pub manifest: String,
    /// What the chart asked the cluster for and was not shown.
    pub unseen: Unseen,
}

/// An object that Helm runs at certain events instead of installing it.
#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    pub object: Object,
    /// More objects of the same hook, where it is a list.
    pub others: Vec<Object>,
    /// In Helm's words: `pre-install`, `test`.
    pub events: Vec<String>,
    /// The chart's file, and the text in it.
    pub file: String,
    pub text: String,
}

impl Hook {
    /// Its object, and the others where it is a list.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        std::iter::once(&self.object).chain(&self.others)
    }

    /// The same, to keep.
    pub fn into_objects(self) -> impl Iterator<Item = Object> {
        std::iter::once(self.object).chain(self.others)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("{file}: {error}")]
    Yaml { file: String, error: YamlError },
    #[error("{file}: this is no Kubernetes object: {error}")]
    Object { file: String, error: ObjectError },
    #[error("the chart renders more than this operator takes: {0}; let it render less, or split it")]
    TooMuch(Limit),
    #[error(
        "the manifest of a release record exceeds a limit of this operator: {0}; restore the record from a backup, or delete it if the release is not needed"
    )]
    RecordTooMuch(Limit),
}

/// What a manifest may hold at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Limit {
    #[error("more than {MOST_OBJECTS} objects")]
    Objects,
    #[error("more than {} values in all objects together", yaml::MAX_NODES)]
    Values,
}

impl ManifestError {
    pub fn category(&self) -> Category {
        match self {
            ManifestError::RecordTooMuch(_) => Category::RecordUnusable,
            _ => Category::InvalidManifest,
        }
    }
}

/// Reads what `helm template --include-crds` printed just now. Nothing that anybody stored is read so: its crds/ are believed.
pub fn read(text: &str) -> Result<Rendered, ManifestError> {
    // helm prints crds/ first. What says later that it is of crds/ was written by a template, and is no exception from anything.
    read_with(text, Crds::First).map_err(|limited| limited.or(ManifestError::TooMuch))
}

/// Reads the manifest of a release record, or that of one of its hooks. A record holds nothing of crds/, and others may write it:
/// whatever it says about where an object comes from, the object is an ordinary one, for which all limits hold.
pub fn read_record(text: &str) -> Result<Rendered, ManifestError> {
    aside::here(text.len(), || read_with(text, Crds::None)).map_err(|limited| limited.or(ManifestError::RecordTooMuch))
}

/// Why a text was not read.
enum Limited {
    Wrong(ManifestError),
    TooMuch(Limit),
}

impl From<Limit> for Limited {
    fn from(limit: Limit) -> Self {
        Limited::TooMuch(limit)
    }
}

impl Limited {
    fn or(self, too_much: fn(Limit) -> ManifestError) -> ManifestError {
        match self {
            Limited::Wrong(error) => error,
            Limited::TooMuch(limit) => too_much(limit),
        }
    }

    fn of(file: &str, error: YamlError) -> Self {
        match error.problem {
            Problem::TooManyNodes => Limited::TooMuch(Limit::Values),
            _ => Limited::Wrong(ManifestError::Yaml { file: file.to_owned(), error }),
        }
    }
}

/// Which documents may be of crds/.
#[derive(Clone, Copy, PartialEq)]
enum Crds {
    First,
    None,
}

fn read_with(text: &str, crds: Crds) -> Result<Rendered, Limited> {
    read_within(text, crds, Budget::default())
}

/// What is left of the limits.
#[derive(Clone, Copy)]
struct Budget {
    objects: usize,
    nodes: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { objects: MOST_OBJECTS, nodes: yaml::MAX_NODES }
    }
}

impl Budget {
    /// Takes off values that are made of the text and do not stand in it, each with so many of these bytes.
    fn copy(&mut self, values: usize, bytes: usize) -> Result<(), Limit> {
        const VALUE: usize = 16;
        self.nodes = self.nodes.checked_sub(values + bytes / VALUE).ok_or(Limit::Values)?;
        Ok(())
    }
}

fn read_within(text: &str, crds: Crds, mut left: Budget) -> Result<Rendered, Limited> {
    let mut rendered = Rendered::default();
    for Sourced { file, is_crd, document } in sourced(text, crds) {
        if let Some(text) = notes::read(file, document) {
            rendered.notes = text;
            continue;
        }
        let value = yaml::parse_within(document, &mut left.nodes).map_err(|error| Limited::of(file, error))?;
        let Items { all, is_list, may_be_hooks } = items(value, &mut left)?;
        left.objects = left.objects.checked_sub(all.len()).ok_or(Limit::Objects)?;
        // Nothing comes of an empty list, but Helm has it in its record.
        let mut is_ordinary = all.is_empty() && is_list && !may_be_hooks && !is_crd;
        let hooks_before = rendered.hooks.len();
        for item in all {
            let object = Object::new(item)
                .map_err(|error| Limited::Wrong(ManifestError::Object { file: file.to_owned(), error }))?;
            match rendered.hooks.get_mut(hooks_before) {
                Some(list) => list.others.push(object),
                None if is_crd => rendered.crds.push(object),
                None => {
                    is_ordinary |= sort_in(&mut rendered, object, file, may_be_hooks.then_some(document), &mut left)?
                }
            }
        }
        if is_ordinary {
            rendered.manifest.push_str(&format!("---\n{}\n", document.trim_matches('\n')));
        }
    }
    rendered.objects.sort_by(|a, b| {
        #[cfg(test)]
        crate::steps::count();
        order::install_rank(a.kind()).cmp(&order::install_rank(b.kind()))
    });
    Ok(rendered)
}

/// An object as helm printed it, and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Printed {
    /// The chart's file, as helm names it: `nginx/templates/service.yaml`.
    pub file: String,
    pub is_of_crds: bool,
    /// The events at which it runs; None where it is no hook.
    pub hook: Option<Vec<String>>,
    pub object: Value,
}

/// Everything that can be read of what `helm template --include-crds` printed, with the files. For whoever looks at many renders:
/// one document that is no YAML does not hide the others.
pub fn survey(text: &str) -> Vec<Printed> {
    let mut found = vec![];
    for Sourced { file, is_crd, document } in sourced(text, Crds::First) {
        let Ok(value) = yaml::parse(document) else { continue };
        let Ok(Items { all, may_be_hooks, .. }) = items(value, &mut Budget::default()) else { continue };
        for object in all {
            let annotation = object.pointer("/metadata/annotations").and_then(|all| all.get(HOOK)?.as_str());
            let hook = annotation.filter(|_| may_be_hooks).map(events);
            found.push(Printed { file: file.to_owned(), is_of_crds: is_crd, hook, object });
        }
    }
    found
}

/// A document, and where it comes from.
struct Sourced<'a> {
    file: &'a str,
    is_crd: bool,
    document: &'a str,
}

/// The documents of a text. One that names no file is of the same as the one before.
fn sourced(text: &str, crds: Crds) -> impl Iterator<Item = Sourced<'_>> {
    let (mut file, mut is_past_crds) = ("the chart's output", crds == Crds::None);
    documents(text).into_iter().map(move |document| {
        if let Some(named) = source(document) {
            file = named;
            is_past_crds |= !is_crd_file(file);
        }
        Sourced { file, is_crd: is_crd_file(file) && !is_past_crds, document }
    })
}

/// The same, apart from all else where there is much to read: it takes long, and more memory than the text by far. So one at a time.
pub async fn read_aside(text: String) -> Result<Rendered, ManifestError> {
    const MUCH: usize = 512 * 1024;
    static ONE_AT_A_TIME: Semaphore = Semaphore::const_new(1);
    if text.len() < MUCH {
        return read(&text);
    }
    let turn = ONE_AT_A_TIME.acquire().await;
    let reading = tokio::task::spawn_blocking(move || {
        // Also where nobody waits for it any more.
        let _turn = turn;
        read(&text)
    });
    reading.await.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()))
}

/// Puts an object where it belongs; true for an ordinary one. `text` is what a hook's record holds, if it may be one.
fn sort_in(
    rendered: &mut Rendered,
    object: Object,
    file: &str,
    text: Option<&str>,
    left: &mut Budget,
) -> Result<bool, Limit> {
    if let (Some(events), Some(text)) = (object.annotation(HOOK), text) {
        // A text of nothing but commas becomes a list that is twenty times as large.
        left.copy(events.split(',').count(), 0)?;
        let events = self::events(events);
        let (file, text) = (file.to_owned(), text.trim_matches('\n').to_owned());
        rendered.hooks.push(Hook { events, object, others: vec![], file, text });
    } else {
        rendered.objects.push(object);
        return Ok(true);
    }
    Ok(false)
}

/// What the annotation of a hook says, in Helm's words of today.
fn events(annotation: &str) -> Vec<String> {
    let event = |event: &str| match event.trim().to_ascii_lowercase().as_str() {
        "test-success" => "test".to_owned(),
        event => event.to_owned(),
    };
    annotation.split(',').map(event).collect()
}

/// Splits at lines that start a document, as Helm does before it prints them.
fn documents(text: &str) -> Vec<&str> {
    let mut documents = vec![];
    let mut start = 0;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        if is_separator(line) {
            documents.push(&text[start..offset]);
            start = offset + line.len();
        }
        offset += line.len();
    }
    documents.push(&text[start..]);
    documents
}

fn is_separator(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.trim().is_empty() || rest.trim_start().starts_with('#'))
}

/// The chart's file, which helm names in a comment above each document.
fn source(document: &str) -> Option<&str> {
    document.lines().find_map(|line| line.strip_prefix("# Source: ")).map(str::trim)
}

/// `nginx/crds/widgets.yaml`, also of a subchart: `app/charts/nginx/crds/widgets.yaml`.
fn is_crd_file(file: &str) -> bool {
    let mut parts = file.split('/').skip(1);
    loop {
        match parts.next() {
            Some("crds") => return true,
            Some("charts") => {
                parts.next();
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests;
