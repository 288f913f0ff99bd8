//! How the commands print data: as text for people, as JSON or YAML for scripts.

use std::io::{ErrorKind, IsTerminal, Write};

use anyhow::Context;
use serde_json::Value;

use crate::printable::{escaped, escaped_json, is_printable};

/// For scripts. Without one, the output is for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    Json,
    Yaml,
}

impl Format {
    pub fn text(self, value: &Value) -> anyhow::Result<String> {
        match self {
            Format::Json => Ok(escaped_json(&format!("{value:#}\n"))),
            Format::Yaml => yaml(value),
        }
    }
}

/// YAML whose strings are double-quoted where they hold characters that a terminal obeys: only there YAML has escapes.
pub fn yaml(value: &Value) -> anyhow::Result<String> {
    let mut quoted = Quoted::default();
    let value = quoted.without_unprintable(value);
    let mut text = serde_yaml::to_string(&value).context("cannot write this as YAML")?;
    for (number, original) in quoted.originals.iter().enumerate() {
        text = text.replace(&quoted.name(number), &escaped_json(&Value::from(original.as_str()).to_string()));
    }
    Ok(text)
}

/// Strings that YAML has to quote, with plain words in their places.
#[derive(Default)]
struct Quoted {
    originals: Vec<String>,
    /// Makes the words differ from all other text.
    salt: String,
}

impl Quoted {
    fn name(&self, number: usize) -> String {
        format!("quoted{}x{number}x", self.salt)
    }

    fn without_unprintable(&mut self, value: &Value) -> Value {
        if !has_unprintable(value) {
            return value.clone();
        }
        let text = value.to_string();
        while text.contains(&format!("quoted{}x", self.salt)) {
            self.salt.push('z');
        }
        self.replaced(value)
    }

    fn replaced(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.word(text).into(),
            Value::Array(list) => list.iter().map(|inner| self.replaced(inner)).collect(),
            Value::Object(map) => map.iter().map(|(key, inner)| (self.word(key), self.replaced(inner))).collect(),
            other => other.clone(),
        }
    }

    fn word(&mut self, text: &str) -> String {
        if is_printable(text) {
            return text.to_owned();
        }
        self.originals.push(text.to_owned());
        self.name(self.originals.len() - 1)
    }
}

fn has_unprintable(value: &Value) -> bool {
    match value {
        Value::String(text) => !is_printable(text),
        Value::Array(list) => list.iter().any(has_unprintable),
        Value::Object(map) => map.iter().any(|(key, inner)| !is_printable(key) || has_unprintable(inner)),
        _ => false,
    }
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}

impl Colour {
    pub fn is_on(self) -> bool {
        let is_unwanted = || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        match self {
            Colour::Auto => std::io::stdout().is_terminal() && !is_unwanted(),
            Colour::Always => true,
            Colour::Never => false,
        }
    }
}

/// The colours that commands use, and the only escape sequences that they write.
const COLOURS: [&str; 7] = ["\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m", "\x1b[2m"];
/// To the upper left, and nothing below.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Writes to standard output. Whoever reads it may stop in the middle, as `head` does.
///
/// Control characters are written out whoever reads: what a program takes now, a terminal may show later.
pub fn print(text: &str) -> anyhow::Result<()> {
    write(&escaped(text))
}

/// Writes text that may be coloured. Whoever paints it escapes what others wrote first.
pub fn print_coloured(text: &str) -> anyhow::Result<()> {
    write(&with_colours(text))
}

/// Writes to the terminal, in the place of what was there.
pub fn print_anew(text: &str) -> anyhow::Result<()> {
    write(&format!("{CLEAR}{}", with_colours(text)))
}

/// Tells a person something beside the output.
#[allow(clippy::print_stderr, reason = "the one place that writes to standard error")]
pub fn tell(text: &str) {
    eprintln!("{}", escaped(text));
}

/// Asks a person something, on the line where the answer is typed.
#[allow(clippy::print_stderr, reason = "a question has no end of line")]
pub fn ask(question: &str) {
    eprint!("{} ", escaped(question));
}

/// Replaces the last line of standard error, which has to be a terminal. Without a text the line is cleared.
#[allow(clippy::print_stderr, reason = "no end of line, so that the next text replaces this one")]
pub fn replace_line(text: &str) {
    // A line that wraps could not be replaced.
    const COLUMNS: usize = 79;
    let shown: String = escaped(text).chars().take(COLUMNS).collect();
    eprint!("\r\x1b[K{shown}");
}

fn with_colours(text: &str) -> String {
    let (mut shown, mut plain, mut rest) = (String::with_capacity(text.len()), 0, text);
    while let Some(at) = rest[plain..].find('\x1b').map(|at| plain + at) {
        match COLOURS.iter().find(|colour| rest[at..].starts_with(**colour)) {
            Some(colour) => {
                shown.push_str(&escaped(&rest[..at]));
                shown.push_str(colour);
                (rest, plain) = (&rest[at + colour.len()..], 0);
            }
            None => plain = at + 1,
        }
    }
    shown.push_str(&escaped(rest));
    shown
}

fn write(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("cannot write the output"),
        _ => Ok(()),
    }
}

/// Columns of text, as wide as their longest entry.
pub fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
    let heading: Vec<String> = heading.iter().map(|&name| name.to_owned()).collect();
    let lines: Vec<&Vec<String>> = std::iter::once(&heading).chain(rows).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("   ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn our_colours_are_the_only_escape_sequences() {
        let evil = "\x1b[31mfailed\x1b[0m: \x1b]0;title\x07 \x1b[2J\x1b \r\u{9b}8m \u{202e}ö\n";
        let shown = "\x1b[31mfailed\x1b[0m: \\u{1b}]0;title\\u{7} \\u{1b}[2J\\u{1b} \\r\\u{9b}8m \\u{202e}ö\n";
        assert_eq!(with_colours(evil), shown);
        assert_eq!(with_colours("plain\n"), "plain\n");
    }

    #[test]
    fn data_for_scripts_means_the_same_and_holds_no_control_characters() {
        let evil = "a: \x1b[2J\u{9b}\u{202e}\u{7f}\r\n- b\u{85}";
        let value = json!({"quotedx0x": evil, evil: [evil, "quotedx1x", "plain", "two\nlines"], "c": 1});
        let text = Format::Json.text(&value).unwrap();
        assert!(is_printable(&text), "{text:?}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        let text = Format::Yaml.text(&value).unwrap();
        assert!(is_printable(&text), "{text:?}");
        assert_eq!(crate::yaml::parse(&text).unwrap(), value);
        let plain = json!({"a": "two\nlines\n", "b": {"c": "ö"}});
        assert_eq!(Format::Yaml.text(&plain).unwrap(), serde_yaml::to_string(&plain).unwrap());
    }

    #[test]
    fn columns_are_as_wide_as_they_need_to_be() {
        let rows = [vec!["1".to_owned(), "ä b".to_owned()], vec!["10".to_owned(), String::new()]];
        assert_eq!(table(&["NO", "NAME"], &rows), "NO   NAME\n1    ä b\n10\n");
    }
}
