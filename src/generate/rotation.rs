//! Rotations: what the annotations of a custom resource ask for, and what was done. Pure.
//!
//! A rotation is asked for by any new text of an annotation. Which texts were answered is noted on the Secret, in the same write as the new
//! values, so neither a restart nor a crash rotates a value twice.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The texts of the annotations that ask for a rotation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotation {
    /// Of all values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<String>,
    /// Of single ones, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub each: BTreeMap<String, String>,
}

impl Rotation {
    /// Reads the note on a Secret. `asked` stands for a note that cannot be read: a value that is in use is not replaced for it.
    pub fn read(note: Option<&str>, asked: &Rotation) -> Self {
        match note.map(serde_json::from_str) {
            None => Rotation::default(),
            Some(Ok(rotation)) => rotation,
            Some(Err(_)) => asked.clone(),
        }
    }

    /// As it is noted. None where nothing was ever asked for.
    pub fn note(&self) -> Option<String> {
        (*self != Rotation::default()).then(|| serde_json::to_string(self).unwrap_or_default())
    }

    /// Whether this asks for the rotation of a value, after `done`.
    pub fn asks_for(&self, name: &str, done: &Rotation) -> bool {
        let is_new = |asked: Option<&String>, done: Option<&String>| asked.is_some() && asked != done;
        is_new(self.all.as_ref(), done.all.as_ref()) || is_new(self.each.get(name), done.each.get(name))
    }

    /// What is done once this was answered, too. An annotation that somebody removed stays answered.
    pub fn after(&self, done: Rotation) -> Rotation {
        let mut each = done.each;
        each.extend(self.each.clone());
        Rotation { all: self.all.clone().or(done.all), each }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rotation(all: Option<&str>, each: &[(&str, &str)]) -> Rotation {
        let each = each.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        Rotation { all: all.map(str::to_owned), each }
    }

    #[test]
    fn a_new_text_asks_once() {
        let asked = rotation(Some("1"), &[("a", "x")]);
        let done = Rotation::default();
        assert!(asked.asks_for("a", &done) && asked.asks_for("b", &done));
        let done = asked.after(done);
        assert!(!asked.asks_for("a", &done) && !asked.asks_for("b", &done));
        let more = rotation(Some("1"), &[("a", "y")]);
        assert!(more.asks_for("a", &done) && !more.asks_for("b", &done));
    }

    #[test]
    fn an_annotation_that_was_removed_asks_for_nothing_when_it_comes_back() {
        let asked = rotation(Some("1"), &[("a", "x")]);
        let done = Rotation::default().after(asked.after(Rotation::default()));
        assert!(!asked.asks_for("a", &done));
    }

    #[test]
    fn a_note_is_read_as_it_was_written_and_a_broken_one_rotates_nothing() {
        let asked = rotation(Some("1"), &[("a", "x")]);
        assert_eq!(Rotation::read(asked.note().as_deref(), &Rotation::default()), asked);
        assert_eq!((Rotation::default().note(), Rotation::read(None, &asked)), (None, Rotation::default()));
        assert!(!asked.asks_for("a", &Rotation::read(Some("{"), &asked)));
    }
}
