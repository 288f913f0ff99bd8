//! Integers that a float would spoil, as arguments for Helm's `--set`.
//!
//! Helm prints a float64 with an exponent from 10^6 on, and cannot hold every integer above 2^53. So each integer of that
//! magnitude is assigned again by its path, beside the values file. An assignment replaces that one entry or element; its
//! neighbours, nulls among them, stay.
//!
//! Assignments are joined by commas into arguments of at most [`ARGUMENT_BYTES`] (Linux takes 128 KiB in one argument), up
//! to [`TOTAL_BYTES`] in all (it takes 2 MiB with the environment). What is over that, and what the grammar has no words
//! for, is left to the file and counted by [`Reason`]. So is everything that the spec itself does not hold: everybody on a
//! machine can list arguments, and Secrets, ConfigMaps and the environment behind `overrideValues` may hold what not everybody
//! may read. This module does not drop anything silently and does not change a type: an integer that `--set` would turn into a
//! string is left alone.

use std::fmt;

use serde_json::{Number, Value};

use super::set::{MAX_DOTS, MAX_INDEX, StepRef, abbreviate, push_step};

/// From here on Helm prints floats with an exponent.
const MAGNITUDE: u64 = 1_000_000;
/// The longest single argument.
pub const ARGUMENT_BYTES: usize = 64 * 1024;
/// All arguments together. A list of 40,000 integers fits.
pub const TOTAL_BYTES: usize = 1024 * 1024;

/// Integers that only the values file carries, all for the same reason. Counted and not listed, because whoever writes a CR
/// decides how many there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    pub reason: Reason,
    pub count: usize,
    /// Where the first one is, in the `--set` grammar as far as that can say it, and abbreviated where it is long.
    pub first: String,
}

/// Why `--set` cannot carry an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Helm would make it a string.
    BeyondInt64,
    /// Helm never sets an empty key.
    EmptyKey,
    /// The arguments of a process cannot contain NUL.
    NulInKey,
    /// Above Helm's largest index.
    IndexTooLarge,
    /// Under more keys than Helm follows.
    TooDeep,
    /// The path alone fills an argument.
    PathTooLong,
    /// The arguments were full before its turn.
    TooMany,
    /// Whoever lists processes reads arguments.
    FromSecret,
    /// From a ConfigMap or from `overrideValues`, which may expand the environment.
    NotOfSpec,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::BeyondInt64 => "larger than an int64",
            Reason::EmptyKey => "under an empty key",
            Reason::NulInKey => "under a key that contains a NUL character",
            Reason::IndexTooLarge => "behind element 65536 of a list, the last one that Helm can set",
            Reason::TooDeep => "nested deeper than Helm can set",
            Reason::PathTooLong => "under a path that is longer than an argument may be",
            Reason::TooMany => "more than fit on a command line",
            Reason::FromSecret => "from a Secret, whose values stay off command lines",
            Reason::NotOfSpec => "from a ConfigMap or overrideValues, whose values stay off command lines",
        })
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LeftOut { reason, count, first } = self;
        write!(
            f,
            "large integers reach the chart as floats, which templates print with an exponent: {count} {reason}, the first \
             at `{first}`; write them as text, in quotes, if the chart prints them"
        )
    }
}

/// What the integers of some values became.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Exact {
    pub arguments: Vec<String>,
    pub left_out: Vec<LeftOut>,
    total: usize,
}

/// The way to a value, kept while walking.
#[derive(Clone, Copy, Default)]
struct Way {
    dots: usize,
    /// The last step was a key, so another key costs a dot that counts.
    after_key: bool,
    /// The first step that cannot be said decides for everything below it.
    blocked: Option<Reason>,
}

impl Way {
    fn step(self, step: StepRef<'_>) -> Way {
        let dots = self.dots + usize::from(self.after_key && matches!(step, StepRef::Key(_)));
        let blocked = match step {
            StepRef::Key("") => Some(Reason::EmptyKey),
            StepRef::Key(key) if key.contains('\0') => Some(Reason::NulInKey),
            StepRef::Index(index) if index > MAX_INDEX => Some(Reason::IndexTooLarge),
            _ if dots > MAX_DOTS => Some(Reason::TooDeep),
            _ => None,
        };
        Way { dots, after_key: matches!(step, StepRef::Key(_)), blocked: self.blocked.or(blocked) }
    }
}

/// A value, and what the spec and Secrets hold in its place.
#[derive(Clone, Copy)]
struct Place<'a> {
    value: &'a Value,
    spec: Option<&'a Value>,
    secret: Option<&'a Value>,
}

impl<'a> Place<'a> {
    fn at(self, value: &'a Value, step: StepRef<'_>) -> Self {
        let inside = |outer: Option<&'a Value>| match step {
            StepRef::Key(key) => outer?.get(key),
            StepRef::Index(index) => outer?.get(index),
        };
        Place { value, spec: inside(self.spec), secret: inside(self.secret) }
    }
}

impl Exact {
    /// Only integers of `spec` become arguments: those that are the same in the same place there. One that is also in the same
    /// place of `of_secrets`, the values that Secrets hold, is left to the file.
    pub(super) fn of(values: &Value, spec: &Value, of_secrets: &Value) -> Exact {
        let mut exact = Exact::default();
        let place = Place { value: values, spec: Some(spec), secret: Some(of_secrets) };
        exact.walk(place, &mut String::new(), Way::default());
        exact
    }

    /// `path` is the way as text; it is the same again when this returns.
    fn walk(&mut self, place: Place<'_>, path: &mut String, way: Way) {
        match place.value {
            Value::Number(number) if is_large_integer(number) => match Some(place.value) {
                value if value == place.secret => self.leave_out(Reason::FromSecret, path),
                value if value != place.spec => self.leave_out(Reason::NotOfSpec, path),
                _ => self.integer(number, path, way),
            },
            Value::Array(list) => {
                for (index, inner) in list.iter().enumerate() {
                    self.descend(place, inner, path, way, StepRef::Index(index));
                }
            }
            Value::Object(map) => {
                for (key, inner) in map {
                    self.descend(place, inner, path, way, StepRef::Key(key));
                }
            }
            _ => {}
        }
    }

    fn descend(&mut self, place: Place<'_>, inner: &Value, path: &mut String, way: Way, step: StepRef<'_>) {
        let before = path.len();
        push_step(path, step);
        self.walk(place.at(inner, step), path, way.step(step));
        path.truncate(before);
    }

    fn integer(&mut self, number: &Number, path: &str, way: Way) {
        let outcome = match way.blocked {
            Some(reason) => Err(reason),
            None if !number.is_i64() => Err(Reason::BeyondInt64),
            None => self.add(path, &number.to_string()),
        };
        if let Err(reason) = outcome {
            self.leave_out(reason, path);
        }
    }

    /// Sizes are checked before anything is copied: a path can be long and its integers many.
    fn add(&mut self, path: &str, number: &str) -> Result<(), Reason> {
        let size = path.len() + "=,".len() + number.len();
        if size > ARGUMENT_BYTES {
            return Err(Reason::PathTooLong);
        }
        if self.total + size > TOTAL_BYTES {
            return Err(Reason::TooMany);
        }
        self.total += size;
        match self.arguments.last_mut() {
            Some(last) if last.len() + size <= ARGUMENT_BYTES => last.push_str(&format!(",{path}={number}")),
            _ => self.arguments.push(format!("{path}={number}")),
        }
        Ok(())
    }

    fn leave_out(&mut self, reason: Reason, path: &str) {
        match self.left_out.iter_mut().find(|entry| entry.reason == reason) {
            Some(entry) => entry.count += 1,
            None => self.left_out.push(LeftOut { reason, count: 1, first: abbreviate(path) }),
        }
    }
}

/// A number with a fraction or exponent was a float before Helm saw it, whatever its value.
fn is_large_integer(number: &Number) -> bool {
    match (number.as_i64(), number.as_u64()) {
        (Some(integer), _) => integer.unsigned_abs() >= MAGNITUDE,
        (None, beyond) => beyond.is_some(),
    }
}

#[cfg(test)]
mod tests;
