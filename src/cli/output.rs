//! How the commands print data: as text for people, as JSON or YAML for scripts.

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

/// Writes to standard output. Whoever reads it may stop in the middle, as `head` does.
pub fn print(text: &str) -> anyhow::Result<()> {
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
    fn columns_are_as_wide_as_they_need_to_be() {
        let rows = [vec!["1".to_owned(), "ä b".to_owned()], vec!["10".to_owned(), String::new()]];
        assert_eq!(table(&["NO", "NAME"], &rows), "NO   NAME\n1    ä b\n10\n");
    }
}
