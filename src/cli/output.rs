//! How the commands print data: as text for people, as JSON or YAML for scripts.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal, Write};

use anyhow::Context;
use serde_json::Value;

/// For scripts. Without one, the output is for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    Json,
    Yaml,
}

impl Format {
    pub fn text(self, value: &Value) -> anyhow::Result<String> {
        match self {
            Format::Json => Ok(format!("{value:#}\n")),
            Format::Yaml => yaml(value),
        }
    }
}

pub fn yaml(value: &Value) -> anyhow::Result<String> {
    serde_yaml::to_string(value).context("cannot write this as YAML")
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

/// The colours that are used here. They are all that a terminal is told beside text.
const COLOURS: [&str; 7] = ["\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m", "\x1b[2m"];
/// To the upper left, and nothing below.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Text as it may be shown on a terminal. Messages quote whoever wrote a spec, and a terminal does what control characters say.
pub fn for_terminal(text: &str) -> Cow<'_, str> {
    let is_harmless = |c: char| matches!(c, '\n' | '\t') || !(c.is_control() || is_reordering(c));
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(c) = rest.chars().next() {
        let colour = COLOURS.iter().find(|colour| rest.starts_with(**colour));
        let taken = match colour {
            Some(colour) => {
                shown.push_str(colour);
                colour.len()
            }
            None if is_harmless(c) => {
                shown.push(c);
                c.len_utf8()
            }
            None => {
                shown.extend(c.escape_default());
                c.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    Cow::Owned(shown)
}

/// What makes text read in another order than it is written.
fn is_reordering(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Writes to standard output. Whoever reads it may stop in the middle, as `head` does. What goes to a program goes as it is.
pub fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().is_terminal() {
        true => write(&for_terminal(text)),
        false => write(text),
    }
}

/// Writes to the terminal, in the place of what was there.
pub fn print_anew(text: &str) -> anyhow::Result<()> {
    write(&format!("{CLEAR}{}", for_terminal(text)))
}

/// Tells a person something beside the output.
pub fn tell(text: &str) {
    match std::io::stderr().is_terminal() {
        true => eprintln!("{}", for_terminal(text)),
        false => eprintln!("{text}"),
    }
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
    use super::*;

    #[test]
    fn foreign_words_cannot_speak_to_a_terminal() {
        let evil = "\x1b[31mfailed\x1b[0m: \x1b]0;title\x07 \x1b[2J \r\u{9b}8m \u{202e}ö\n";
        let shown = "\x1b[31mfailed\x1b[0m: \\u{1b}]0;title\\u{7} \\u{1b}[2J \\r\\u{9b}8m \\u{202e}ö\n";
        assert_eq!(for_terminal(evil), shown);
        assert!(matches!(for_terminal("a\tö\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn columns_are_as_wide_as_they_need_to_be() {
        let rows = [vec!["1".to_owned(), "ä b".to_owned()], vec!["10".to_owned(), String::new()]];
        assert_eq!(table(&["NO", "NAME"], &rows), "NO   NAME\n1    ä b\n10\n");
    }
}
