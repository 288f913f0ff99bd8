//! Where things stand in a YAML text, for messages that name a line.
//!
//! Only positions: what the text means is read elsewhere. What cannot be found (behind an alias, under a key that is no
//! scalar) has no line, and a message then names the line of what is around it.

use std::collections::HashMap;

use libyaml_safer::{EventData, Parser};

/// The line of each key and each list item, by the way to it.
#[derive(Debug, Default)]
pub struct Lines(HashMap<Vec<String>, usize>);

impl Lines {
    /// A text that is no YAML has no lines: whoever reads it says where it is wrong. Nor has one with tags, which
    /// nobody needs here and on some of which this parser panics.
    pub fn of(text: &str) -> Self {
        if text.contains('!') || crate::yaml::parse(text).is_err() {
            return Lines::default();
        }
        let mut reader = Reader::default();
        let mut input = text.as_bytes();
        let mut parser = Parser::new();
        parser.set_input_string(&mut input);
        for event in parser.map_while(Result::ok) {
            if !reader.take(event.data, event.start_mark.line as usize + 1) {
                break;
            }
        }
        Lines(reader.lines)
    }

    /// The line of the way, or of the nearest place above it.
    pub fn line(&self, way: &[&str]) -> usize {
        let known =
            |length: usize| self.0.get(&way[..length].iter().map(|step| (*step).to_owned()).collect::<Vec<_>>());
        (0..=way.len()).rev().find_map(known).copied().unwrap_or(1)
    }
}

enum Level {
    List(usize),
    /// With the key whose value comes next.
    Map(Option<String>),
}

#[derive(Default)]
struct Reader {
    lines: HashMap<Vec<String>, usize>,
    levels: Vec<Level>,
}

impl Reader {
    /// Whether to go on.
    fn take(&mut self, event: EventData, line: usize) -> bool {
        match event {
            EventData::Scalar { value, .. } => {
                if let Some(Level::Map(key @ None)) = self.levels.last_mut() {
                    *key = Some(value);
                    self.note(line);
                } else {
                    self.begin(line);
                    self.end();
                }
            }
            EventData::Alias { .. } => {
                self.begin(line);
                self.end();
            }
            EventData::SequenceStart { .. } | EventData::MappingStart { .. }
                if matches!(self.levels.last(), Some(Level::Map(None))) =>
            {
                return false;
            }
            EventData::SequenceStart { .. } => {
                self.begin(line);
                self.levels.push(Level::List(0));
            }
            EventData::MappingStart { .. } => {
                self.begin(line);
                self.levels.push(Level::Map(None));
            }
            EventData::SequenceEnd | EventData::MappingEnd => {
                self.levels.pop();
                self.end();
            }
            EventData::DocumentEnd { .. } => return false,
            _ => {}
        }
        true
    }

    /// A value begins. That of a key has the key's line already.
    fn begin(&mut self, line: usize) {
        if !matches!(self.levels.last(), Some(Level::Map(_))) {
            self.note(line);
        }
    }

    fn end(&mut self) {
        match self.levels.last_mut() {
            Some(Level::List(index)) => *index += 1,
            Some(Level::Map(key)) => *key = None,
            None => {}
        }
    }

    fn note(&mut self, line: usize) {
        let step = |level: &Level| match level {
            Level::List(index) => index.to_string(),
            Level::Map(key) => key.clone().unwrap_or_default(),
        };
        self.lines.insert(self.levels.iter().map(step).collect(), line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_items_have_their_lines() {
        let lines = Lines::of("# x\n- a: 1\n  b:\n    c: [1, 2]\n    d: |\n      x\n- {a: 2,\n   b: 3}\n");
        assert_eq!(lines.line(&[]), 2);
        assert_eq!(lines.line(&["0", "b", "d"]), 5);
        assert_eq!(lines.line(&["0", "b", "c", "1"]), 4);
        assert_eq!(lines.line(&["1"]), 7);
        assert_eq!(lines.line(&["1", "b"]), 8);
        assert_eq!(lines.line(&["1", "absent"]), 7);
    }

    #[test]
    fn text_that_is_no_yaml_or_has_tags_has_no_lines() {
        assert_eq!(Lines::of("a: 1\nb: [!a,b]").line(&["b"]), 1);
        assert_eq!(Lines::of("- a: 1\n- [").line(&["0"]), 1);
        assert_eq!(Lines::of("? [a]\n: 1\n").line(&["x"]), 1);
        assert_eq!(Lines::of("").line(&["0"]), 1);
    }
}
