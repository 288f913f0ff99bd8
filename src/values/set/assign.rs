//! One assignment meets the values that are already there.
//!
//! The rules look arbitrary because they are Helm's, which writes while it reads: whether a new element survives depends on
//! whether the text went on after it (`cut_short`).

use serde_json::{Map, Value};

use super::{Assignment, MAX_INDEX, SetError, Step, StepRef, kind, show};

/// Writes one assignment into `dest`.
pub(in crate::values) fn assign(dest: &mut Map<String, Value>, assignment: Assignment) -> Result<(), SetError> {
    let Assignment { path, value, cut_short } = assignment;
    match path.split_first() {
        Some((Step::Key(key), rest)) => Writer { path: &path, value, cut_short }.entry(dest, key, rest),
        // A path starts with a key; see Assignment.
        _ => Ok(()),
    }
}

struct Writer<'a> {
    path: &'a [Step],
    value: Option<Value>,
    cut_short: bool,
}

impl Writer<'_> {
    fn entry(&mut self, map: &mut Map<String, Value>, key: &str, rest: &[Step]) -> Result<(), SetError> {
        match rest.split_first() {
            None => {
                if let Some(value) = self.value.take() {
                    insert(map, key, value);
                }
                Ok(())
            }
            Some((Step::Index(index), rest)) => self.entry_list(map, key, *index, rest),
            Some((Step::Key(next), after)) => self.entry_object(map, key, next, after),
        }
    }

    fn entry_list(&mut self, map: &mut Map<String, Value>, key: &str, i: usize, rest: &[Step]) -> Result<(), SetError> {
        match map.get_mut(key) {
            None => {
                let mut list = Vec::new();
                self.element(&mut list, i, rest)?;
                insert(map, key, Value::Array(list));
                Ok(())
            }
            Some(Value::Array(list)) => {
                let before = list.len();
                self.element(list, i, rest)?;
                if key.is_empty() {
                    // Helm writes into the elements that are there, then fails to put a longer list back.
                    list.truncate(before);
                }
                Ok(())
            }
            Some(other) => Err(self.conflict(other, "a list", rest.len() + 1)),
        }
    }

    fn entry_object(
        &mut self,
        map: &mut Map<String, Value>,
        key: &str,
        next: &str,
        rest: &[Step],
    ) -> Result<(), SetError> {
        let empty = match map.get_mut(key) {
            None => {
                let mut inner = Map::new();
                self.entry(&mut inner, next, rest)?;
                let empty = inner.is_empty();
                if !empty {
                    insert(map, key, Value::Object(inner));
                }
                empty
            }
            Some(Value::Object(inner)) => {
                self.entry(inner, next, rest)?;
                inner.is_empty()
            }
            Some(other) => return Err(self.conflict(other, "an object", rest.len() + 1)),
        };
        if empty && !self.cut_short { Err(SetError::NothingUnder { key: key.into() }) } else { Ok(()) }
    }

    fn element(&mut self, list: &mut Vec<Value>, i: usize, rest: &[Step]) -> Result<(), SetError> {
        match rest.split_first() {
            None => match self.value.take() {
                Some(value) => put(list, i, value),
                None => Ok(()),
            },
            Some((Step::Index(next), after)) => match list.get_mut(i) {
                Some(Value::Array(inner)) => {
                    self.element(inner, *next, after)?;
                    self.check(i)
                }
                None | Some(Value::Null) => {
                    let mut inner = Vec::new();
                    self.element(&mut inner, *next, after)?;
                    if self.cut_short { Ok(()) } else { put(list, i, Value::Array(inner)) }
                }
                Some(other) => Err(self.conflict(other, "a list", rest.len())),
            },
            Some((Step::Key(next), after)) => self.element_object(list, i, next, after),
        }
    }

    fn element_object(&mut self, list: &mut Vec<Value>, i: usize, next: &str, rest: &[Step]) -> Result<(), SetError> {
        let Some(slot) = list.get_mut(i) else {
            let mut inner = Map::new();
            self.entry(&mut inner, next, rest)?;
            return if self.cut_short { Ok(()) } else { put(list, i, Value::Object(inner)) };
        };
        // Whatever else the element was gives way, unlike in an object.
        if !slot.is_object() {
            *slot = Value::Object(Map::new());
        }
        if let Value::Object(inner) = slot {
            self.entry(inner, next, rest)?;
        }
        self.check(i)
    }

    /// Helm checks an index when it writes, also over an element that exists.
    fn check(&self, index: usize) -> Result<(), SetError> {
        if index > MAX_INDEX && !self.cut_short { Err(SetError::IndexTooLarge { index }) } else { Ok(()) }
    }

    /// `left` is the number of steps after the place where the values are not what the path needs.
    fn conflict(&self, found: &Value, wanted: &'static str, left: usize) -> SetError {
        let steps: Vec<StepRef<'_>> = self.path[..self.path.len() - left].iter().map(Step::by_ref).collect();
        SetError::Conflict { at: show(&steps), found: kind(found), wanted }
    }
}

/// Helm never writes an empty key, and does not complain.
fn insert(map: &mut Map<String, Value>, key: &str, value: Value) {
    if !key.is_empty() {
        map.insert(key.into(), value);
    }
}

fn put(list: &mut Vec<Value>, index: usize, value: Value) -> Result<(), SetError> {
    if index > MAX_INDEX {
        return Err(SetError::IndexTooLarge { index });
    }
    if list.len() <= index {
        list.resize(index + 1, Value::Null);
    }
    list[index] = value;
    Ok(())
}
