//! Helm's `--set` grammar: `a.b[0].c=v,d={x,y}`.
//!
//! [`set_into`] does what Helm's `--set` and `--set-string` do, to the last oddity: charts and scripts depend on them, and
//! what [`super::exact`] hands to Helm is checked against this reader. It refuses what Helm refuses. It does not know files
//! (`--set-file`) or JSON (`--set-json`).
//!
//! | text | meaning |
//! |---|---|
//! | `a.b=v` | key `b` in the object `a`, made if absent |
//! | `a[2]=v`, `a[0][1].b=v` | an element; a list that is too short is filled with null |
//! | `a=1,b=2` | two assignments |
//! | `a={x,y}` | a list; `{}` is a list of one empty string |
//! | `\,` `\.` `\=` `\[` `\\` | the character itself, as is any character after a backslash |
//! | `true` `false` `null` in any case | a boolean, a null |
//! | `0`, or an int64 that does not start with a zero; `+` and `-` may come first | an integer |
//! | anything else | a string, spaces and all; floats too |
//!
//! Oddities kept, each covered by a vector: an empty key is never written (`=1` does nothing); `a.` and `a[0]` at the end
//! of the text are no error; `a[0].b=` at the end of the text forgets the element; a list element that is no object gives way
//! to one, while an object's entry that is none is an error, null included; `falſe` is false.
//!
//! Differences: an index that is not closed (`a[0`) is an error here and in Helm 3, while Helm 4 ignores the rest of the
//! text; and a path has at most [`MAX_STEPS`] steps, so that nobody can exhaust the stack with `a[0][0][0]…`.

use serde_json::{Map, Value};

mod assign;
mod parse;

pub(super) use assign::assign;
pub(super) use parse::{one_path, one_value};

/// Helm's limit for an index, itself allowed.
pub const MAX_INDEX: usize = 65536;
/// Helm's limit for the dots between two keys of a path. The dot after an index is not counted.
pub const MAX_DOTS: usize = 30;
/// Our own limit; see the module's differences.
pub const MAX_STEPS: usize = 256;

/// What the text after `=` becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Typing {
    /// `--set`: booleans, null and integers are recognised.
    Typed,
    /// `--set-string`: always a string.
    Strings,
}

/// Why a text cannot be set. What was read as a key is named, what was read as a value never is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    #[error("key `{key}` has no value: add `=` and one, or escape the comma before it (`\\,`)")]
    NoValue { key: String },
    #[error("key `{key}` has no value before the comma: add `=` and one, or escape the comma (`\\,`)")]
    Comma { key: String },
    #[error("nothing would be set under `{key}`: a key after the dot is empty")]
    NothingUnder { key: String },
    #[error(
        "a list that starts with an opening brace must end with a closing one: add it, or escape the first one (`\\{{`)"
    )]
    ListNotClosed,
    #[error(
        "there is text after the closing brace of a list: escape the opening brace (`\\{{`) or quote the value if it is meant as text"
    )]
    AfterList,
    #[error("an index is not closed: add `]`, or escape the bracket (`\\[`) if it belongs to the key")]
    IndexNotClosed,
    #[error("`[{text}]` is not an index: write a number, or escape the bracket (`\\[`) if it belongs to the key")]
    BadIndex { text: String },
    #[error("index {index} is negative: the first element is 0")]
    NegativeIndex { index: i64 },
    #[error("index {index} is too large: Helm allows at most {MAX_INDEX}")]
    IndexTooLarge { index: usize },
    #[error("`{text}` follows an index: only `.`, `[` or `=` may")]
    AfterIndex { text: String },
    #[error("the path is too deep: Helm allows at most {MAX_DOTS} dots between keys")]
    TooDeep,
    #[error("the path is too long: at most {MAX_STEPS} keys and indices are allowed")]
    TooLong,
    #[error("a path holds an empty key, which Helm never sets: look for two dots in a row, or one at an end")]
    EmptyKey,
    #[error("`{text}` is not a single path: escape `=` and `,` that belong to a key (`\\=`, `\\,`)")]
    NotOnePath { text: String },
    #[error("`{at}` is {found}, and {wanted} is needed there")]
    Conflict { at: String, found: &'static str, wanted: &'static str },
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// A step that belongs to someone else: a walk over values makes paths without copying keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepRef<'a> {
    Key(&'a str),
    Index(usize),
}

/// A path as a JSON pointer.
pub(super) fn pointer(path: &[Step]) -> String {
    let step = |step: &Step| match step {
        Step::Key(key) => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
        Step::Index(index) => format!("/{index}"),
    };
    path.iter().map(step).collect()
}

impl Step {
    fn by_ref(&self) -> StepRef<'_> {
        match self {
            Step::Key(key) => StepRef::Key(key),
            Step::Index(index) => StepRef::Index(*index),
        }
    }
}

/// `path=value`, read.
#[derive(Debug, PartialEq)]
pub(super) struct Assignment {
    /// Starts with a key.
    pub path: Vec<Step>,
    /// None where the text ended before `=`.
    pub value: Option<Value>,
    /// The text ended where Helm still expected something. Helm then drops what it was about to put into a list.
    pub cut_short: bool,
}

/// Reads `text` and writes its assignments into `dest`, one after the other.
///
/// # Errors
/// The first thing that Helm would refuse. Assignments before it are already in `dest`, as with Helm: throw it away.
pub fn set_into(dest: &mut Map<String, Value>, text: &str, typing: Typing) -> Result<(), SetError> {
    let mut parser = parse::Parser::new(text, typing);
    while let Some(assignment) = parser.next_assignment()? {
        assign(dest, assignment)?;
    }
    Ok(())
}

/// A path in this grammar, with everything escaped that has a meaning in it.
pub(super) fn show(path: &[StepRef<'_>]) -> String {
    let mut text = String::new();
    for step in path {
        push_step(&mut text, *step);
    }
    text
}

/// Appends one step to a path that is being written.
pub(super) fn push_step(text: &mut String, step: StepRef<'_>) {
    match step {
        StepRef::Index(index) => text.push_str(&format!("[{index}]")),
        StepRef::Key(key) => {
            if !text.is_empty() {
                text.push('.');
            }
            if key.is_empty() {
                // For people only: the grammar cannot say it, and nobody would see it.
                text.push_str("\"\"");
            }
            for c in key.chars() {
                if matches!(c, '=' | '[' | ',' | '.' | '\\') {
                    text.push('\\');
                }
                text.push(c);
            }
        }
    }
}

/// A path for a message: whoever writes a CR decides how long its keys are.
pub(super) fn abbreviate(path: &str) -> String {
    const CHARACTERS: usize = 200;
    match path.char_indices().nth(CHARACTERS) {
        Some((end, _)) => format!("{}…", &path[..end]),
        None => path.into(),
    }
}

/// What a value is, for a sentence.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
