//! `overrideValues` of watches.yaml: values that the operator sets over every CR's spec.
//!
//! Each entry is one key and one value.
//!
//! **Keys** are paths of the `--set` grammar (`image.tag`, `args[0]`, `annotations.example\.com/a`). What Helm would silently
//! ignore, an empty key in the path, is an error here. Entries are applied in the order of their keys.
//!
//! **Values** may be written as YAML booleans, numbers and null, which are taken as they are, or as text. Text has been
//! expanded by the caller (see [`super::env`]) before it comes here, and is then read so:
//!
//! | text | value |
//! |---|---|
//! | in quotes, `'…'` or `"…"` | the text between them, as it is: no types, no escapes, no lists |
//! | `{a,b}` | a list, its items read as below; a comma in an item is `\,` |
//! | `true` `false` `null`, integers | typed, as by `--set` (`007`, `1.5` and what exceeds an int64 are strings) |
//! | anything else | a string, with a backslash taken off before each escaped character |
//!
//! Only the first and the last character decide whether text is quoted, so that `"$PASSWORD"` is safe whatever the variable
//! holds.
//!
//! **Commas.** operator-sdk pastes `key=value` together and parses the result, so a comma in a value ended it: the rest was
//! an error or, with a `=` in it, a second assignment. Here a value is a value: a comma is text, and `\,` still means a comma.
//! Whoever set two keys with one entry writes two entries.
//!
//! **Types.** operator-sdk made every override a string; the plugins that followed it, and `--set`, recognise types, and so do
//! we. Quotes give the string.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::ValuesError;
use super::set::{self, Assignment, SetError, Step};

/// Why `overrideValues` cannot be used. For the author of watches.yaml, at start.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum OverrideError {
    #[error("the key `{key}` of overrideValues cannot be read: {reason}")]
    Key { key: String, reason: SetError },
    #[error("the value of `{key}` in overrideValues cannot be read: {reason}")]
    Value { key: String, reason: SetError },
    #[error(
        "`{key}` in overrideValues is {found}: give text, a number, a boolean or null, one entry per place (`{key}.name`, `{key}[0]`), or a list as text in braces"
    )]
    NotScalar { key: String, found: &'static str },
}

/// Overrides that were read and are known to be well-formed. Whether they fit a spec shows when they meet it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides(Vec<Override>);

#[derive(Debug, Clone, PartialEq)]
struct Override {
    key: String,
    path: Vec<Step>,
    value: Value,
}

impl Overrides {
    /// Reads entries whose texts are expanded already.
    pub fn parse(entries: &BTreeMap<String, Value>) -> Result<Self, OverrideError> {
        entries.iter().map(|(key, value)| Override::parse(key, value)).collect::<Result<_, _>>().map(Overrides)
    }

    /// Keys as they were written and the values they set, in the order of application.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|entry| (entry.key.as_str(), &entry.value))
    }

    pub(super) fn apply(&self, dest: &mut Map<String, Value>) -> Result<(), ValuesError> {
        for Override { key, path, value } in &self.0 {
            let assignment = Assignment { path: path.clone(), value: Some(value.clone()), cut_short: false };
            set::assign(dest, assignment).map_err(|reason| ValuesError::Override { key: key.clone(), reason })?;
        }
        Ok(())
    }
}

impl Override {
    fn parse(key: &str, value: &Value) -> Result<Self, OverrideError> {
        let path = set::one_path(key).map_err(|reason| OverrideError::Key { key: key.into(), reason })?;
        let value = match value {
            Value::String(text) => {
                parse_text(text).map_err(|reason| OverrideError::Value { key: key.into(), reason })?
            }
            Value::Array(_) | Value::Object(_) => {
                return Err(OverrideError::NotScalar { key: key.into(), found: set::kind(value) });
            }
            scalar => scalar.clone(),
        };
        Ok(Override { key: key.into(), path, value })
    }
}

fn parse_text(text: &str) -> Result<Value, SetError> {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return Ok(Value::String(inner.into()));
        }
    }
    set::one_value(text)
}

#[cfg(test)]
mod tests;
