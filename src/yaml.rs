//! YAML as Kubernetes reads it: rendered manifests to JSON, exactly as `sigs.k8s.io/yaml`'s `YAMLToJSON` does.
//!
//! Helm, kubectl and the API server all read manifests through that library, which speaks YAML 1.1: `0644` is 420,
//! `yes` and `on` are true (as map keys too), the last of two equal keys wins, `<<` merges. Charts rely on it. A reader
//! with other rules would send the API server something else than Helm does. So this one has the same rules down to the
//! odd ones, and a file of answers from the real library, `tests/data/yaml-vectors.json`, holds it to that. The scanner
//! is our own for the same reason: the ports of libyaml follow its newer versions, which refuse `"it\'s"` and `{a:}`
//! and take `"\/"` (and `libyaml-safer` panics on `[!a,b]`).
//!
//! It does not write YAML, keeps no comments, positions or order of keys, and is not for our own configuration.
//!
//! ```text
//! text ──scanner──▶ tokens ──compose──▶ nodes ──resolve──▶ JSON
//! ```
//!
//! Numbers come out as JSON has them after Go wrote them: `1e3` and `1000.0` are the integer 1000, because `1000.0`
//! would not be accepted for an integer field.
//!
//! # Deliberate differences
//! Mostly refusals of what the library lets pass:
//! - The whole text is read. The library stops after the first document and does not look at the rest; [`parse`]
//!   refuses a second document, and errors behind the first count.
//! - Nesting ends at [`MAX_DEPTH`], also when reached through aliases, and what anchors and aliases copy at
//!   [`MAX_COPIED`] bytes. The library allows 10,000 levels, and limits aliases by their share of all nodes instead, so
//!   it refuses some small bombs that fit here.
//! - What JSON cannot hold (`.nan`, `.inf`, null or a number from 2^63 as a key) is refused even where a later
//!   duplicate key would hide it.
//! - Keys that become equal only as text (`1` and `"1"`): the last one wins. The library picks one at random.
//! - A byte order mark counts only at the start of the text. Elsewhere the library's answer depends on its buffers.

mod collections;
mod compose;
mod cursor;
mod node;
mod properties;
mod resolve;
mod scalars;
mod scanner;
mod tags;
#[cfg(test)]
mod tests;
mod token;

use serde_json::Value;

use compose::Composer;
use cursor::Mark;

/// How deep lists and maps may be nested.
///
/// The deepest real objects are CRD schemas; the deepest that we found has 35 levels. What we send comes back from the
/// API server, wrapped in lists and mirrored inside managedFields, and `serde_json` reads 127 levels: with a higher
/// limit we could send what we cannot read.
pub const MAX_DEPTH: usize = 100;

/// How much anchors and aliases may copy, in bytes of text plus 16 for each node.
///
/// The API server takes no request above 3 MiB, so an object that needs more could not be applied anyway.
pub const MAX_COPIED: usize = 4 << 20;

/// How many values a text may hold. Each takes far more memory than its text, and a manifest that fits a release record has
/// fewer.
pub const MAX_NODES: usize = 1_000_000;

/// What a copied node counts for beside its text, so that a bomb of empty nodes is stopped too.
const NODE_BYTES: usize = 16;

/// Reads one document; `Null` for an empty or comment-only one.
///
/// # Errors
/// Where the text is not YAML, has more than one document, or holds what JSON cannot.
pub fn parse(text: &str) -> Result<Value, YamlError> {
    parse_within(text, &mut { MAX_NODES })
}

/// The same for one of several texts that may hold so many values together. What this one holds is taken off.
pub fn parse_within(text: &str, nodes: &mut usize) -> Result<Value, YamlError> {
    let mut composer = Composer::new(text, *nodes)?;
    let Some(document) = composer.document()? else {
        return Ok(Value::Null);
    };
    if let Some(mark) = composer.next_document()? {
        return Err(YamlError::at(mark, Problem::SecondDocument));
    }
    *nodes = composer.nodes_left();
    Ok(document)
}

/// Reads all documents of a stream. A stream without any, such as an empty text, gives an empty list.
///
/// # Errors
/// As [`parse`], but for the number of documents. One bad document fails the whole stream.
pub fn documents(text: &str) -> Result<Vec<Value>, YamlError> {
    let mut composer = Composer::new(text, MAX_NODES)?;
    let mut documents = Vec::new();
    while let Some(document) = composer.document()? {
        documents.push(document);
    }
    Ok(documents)
}

/// Why a text could not be read, and where. Lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct YamlError {
    pub line: usize,
    pub column: usize,
    pub problem: Problem,
}

impl YamlError {
    fn at(mark: Mark, problem: Problem) -> Self {
        YamlError { line: mark.line + 1, column: mark.column + 1, problem }
    }

    fn syntax(mark: Mark, message: &'static str) -> Self {
        Self::at(mark, Problem::Syntax(message))
    }
}

/// What is wrong, in words for the person who wrote the chart. It never quotes a value: that may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("{0}")]
    Syntax(&'static str),
    #[error("the character U+{:04X} is not allowed in YAML; write it as an escape inside double quotes", *.0 as u32)]
    ForbiddenCharacter(char),
    #[error("the text asks for YAML {major}.{minor}, but Kubernetes reads only 1.1")]
    Version { major: u8, minor: u8 },
    #[error("the tag handle {0} is not declared")]
    UnknownTagHandle(String),
    #[error("a second document starts here; only one is expected")]
    SecondDocument,
    #[error("lists and maps are nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    #[error("anchors and aliases copy more than {} MiB", MAX_COPIED >> 20)]
    TooMuchCopied,
    #[error("the text holds more than {MAX_NODES} values")]
    TooManyNodes,
    #[error("the alias *{0} has no anchor &{0} before it")]
    UnknownAlias(String),
    #[error("the alias *{0} stands inside its own anchor &{0}")]
    AliasInsideItself(String),
    #[error("a merge key (<<) needs a map or a list of maps")]
    BadMerge,
    #[error("a list or map cannot be a map key (is this a template that was not rendered?)")]
    CollectionAsKey,
    #[error("null cannot be a map key; put it in quotes to use it as text")]
    NullAsKey,
    #[error("the number {0} is too large for a map key; put it in quotes to use it as text")]
    LargeKey(u64),
    #[error("infinity and not-a-number have no form in JSON; put the value in quotes to use it as text")]
    NotFinite,
    #[error("the tag asks for {0}, which this value is not")]
    TagMismatch(&'static str),
    #[error("!!binary needs base64")]
    NotBase64,
}
