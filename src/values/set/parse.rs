//! Text becomes assignments. What is already in the values plays no part here; that is [`super::assign`].

use std::iter::Peekable;
use std::str::Chars;

use serde_json::Value;

use super::{Assignment, MAX_DOTS, MAX_STEPS, SetError, Step, Typing};

/// Ends a key.
const AFTER_KEY: &[char] = &['=', '[', ',', '.'];
/// Ends the nothing that must follow an index. A comma is not among them, as in Helm.
const AFTER_INDEX: &[char] = &['=', '[', '.'];

pub(super) struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    typing: Typing,
}

/// Where a path stopped.
enum End {
    /// At the `=` after a key.
    KeyEquals,
    /// At the `=` after an index.
    IndexEquals,
    /// The text ran out.
    Text,
}

/// Reads a path that stands alone, without `=`: the key of an override. Stricter than `--set`, where a path with an empty
/// key is accepted and then ignored.
pub(in crate::values) fn one_path(text: &str) -> Result<Vec<Step>, SetError> {
    let mut path = Vec::new();
    match Parser::new(text, Typing::Typed).path(&mut path) {
        Ok(End::Text) if path.contains(&Step::Key(String::new())) => Err(SetError::EmptyKey),
        Ok(End::Text) => Ok(path),
        Ok(End::KeyEquals | End::IndexEquals) | Err(SetError::Comma { .. }) => {
            Err(SetError::NotOnePath { text: text.into() })
        }
        Err(other) => Err(other),
    }
}

/// Reads a typed value that stands alone: the text of an override. Nothing can follow it, so a comma outside a list is text.
pub(in crate::values) fn one_value(text: &str) -> Result<Value, SetError> {
    let mut parser = Parser::new(text, Typing::Typed);
    if parser.rest.next_if_eq(&'{').is_none() {
        let (value, _) = parser.until(&[]);
        return Ok(parser.typed(value));
    }
    let list = parser.list()?;
    if parser.rest.next().is_some() {
        return Err(SetError::AfterList);
    }
    Ok(list)
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str, typing: Typing) -> Self {
        Parser { rest: text.chars().peekable(), typing }
    }

    /// The next assignment, or None where nothing is left.
    pub(super) fn next_assignment(&mut self) -> Result<Option<Assignment>, SetError> {
        if self.rest.peek().is_none() {
            return Ok(None);
        }
        let mut path = Vec::new();
        let end = self.path(&mut path)?;
        let nothing_left = self.rest.peek().is_none();
        let (value, cut_short) = match end {
            // After a dot or an index, Helm takes the end of the text for the end of its work.
            End::Text => match path.last() {
                Some(Step::Key(key)) if !key.is_empty() => return Err(SetError::NoValue { key: key.clone() }),
                _ => (None, true),
            },
            End::KeyEquals => (Some(self.value()?), nothing_left),
            End::IndexEquals => (Some(self.value()?), false),
        };
        Ok(Some(Assignment { path, value, cut_short }))
    }

    fn path(&mut self, path: &mut Vec<Step>) -> Result<End, SetError> {
        let mut dots = 0;
        loop {
            let (key, stop) = self.until(AFTER_KEY);
            if stop == Some(',') {
                return Err(SetError::Comma { key });
            }
            push(path, Step::Key(key))?;
            match stop {
                None => return Ok(End::Text),
                Some('=') => return Ok(End::KeyEquals),
                Some('[') => {
                    if let Some(end) = self.indices(path)? {
                        return Ok(end);
                    }
                }
                // Only a dot is left.
                Some(_) => {
                    dots += 1;
                    if dots > MAX_DOTS {
                        return Err(SetError::TooDeep);
                    }
                }
            }
        }
    }

    /// Reads on after `[`. None means that a dot came and a key follows.
    fn indices(&mut self, path: &mut Vec<Step>) -> Result<Option<End>, SetError> {
        loop {
            push(path, Step::Index(self.index()?))?;
            let (text, stop) = self.until(AFTER_INDEX);
            if !text.is_empty() {
                return Err(SetError::AfterIndex { text });
            }
            match stop {
                None => return Ok(Some(End::Text)),
                Some('=') => return Ok(Some(End::IndexEquals)),
                Some('[') => {}
                Some(_) => return Ok(None),
            }
        }
    }

    fn index(&mut self) -> Result<usize, SetError> {
        let (text, stop) = self.until(&[']']);
        if stop.is_none() {
            return Err(SetError::IndexNotClosed);
        }
        // Signed, as Go's Atoi: `+1` and `-0` are indices.
        let index: i64 = text.parse().map_err(|_| SetError::BadIndex { text })?;
        usize::try_from(index).map_err(|_| SetError::NegativeIndex { index })
    }

    /// Reads on after `=`, over the comma that ends the value.
    fn value(&mut self) -> Result<Value, SetError> {
        if self.rest.next_if_eq(&'{').is_none() {
            let (value, _) = self.until(&[',']);
            return Ok(self.typed(value));
        }
        let list = self.list()?;
        // Without a comma the next key begins right here, as in Helm.
        self.rest.next_if_eq(&',');
        Ok(list)
    }

    /// Reads on after `{`, over the `}`.
    fn list(&mut self) -> Result<Value, SetError> {
        let mut list = Vec::new();
        loop {
            let (item, stop) = self.until(&[',', '}']);
            if stop.is_none() {
                return Err(SetError::ListNotClosed);
            }
            list.push(self.typed(item));
            if stop == Some('}') {
                return Ok(Value::Array(list));
            }
        }
    }

    /// Reads up to and over one of `stops`, taking escapes off. A lone backslash at the end of the text is dropped.
    fn until(&mut self, stops: &[char]) -> (String, Option<char>) {
        let mut text = String::new();
        while let Some(c) = self.rest.next() {
            if stops.contains(&c) {
                return (text, Some(c));
            }
            let literal = if c == '\\' { self.rest.next() } else { Some(c) };
            text.extend(literal);
        }
        (text, None)
    }

    fn typed(&self, text: String) -> Value {
        if self.typing == Typing::Strings {
            return Value::String(text);
        }
        // Go compares by Unicode's folding, where the long s is an s. No other letter of the three words has such a twin.
        match text.replace('ſ', "s").to_ascii_lowercase().as_str() {
            "true" => return Value::Bool(true),
            "false" => return Value::Bool(false),
            "null" => return Value::Null,
            "0" => return Value::from(0),
            _ => {}
        }
        match text.parse::<i64>() {
            Ok(integer) if !text.starts_with('0') => Value::from(integer),
            _ => Value::String(text),
        }
    }
}

fn push(path: &mut Vec<Step>, step: Step) -> Result<(), SetError> {
    if path.len() == MAX_STEPS {
        return Err(SetError::TooLong);
    }
    path.push(step);
    Ok(())
}
