//! Where the lines of a target are in a Makefile.

use std::ops::Range;

/// Where the one rule of a target begins. None where there is none, or more than one.
pub fn head(lines: &[String], target: &str) -> Option<usize> {
    let mut heads = (0..lines.len()).filter(|&at| target_of(&lines[at]) == Some(target));
    heads.next().filter(|_| heads.next().is_none())
}

/// The target of a rule, where a line is the head of one.
pub fn target_of(line: &str) -> Option<&str> {
    let (target, rest) = line.split_once(':')?;
    let is_name = |target: &str| {
        !target.is_empty() && target.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'))
    };
    (is_name(target) && !rest.starts_with('=') && !rest.starts_with(":=") && target != ".PHONY").then_some(target)
}

/// What a rule's head asks to be made before, without the comment that `make help` shows.
pub fn prerequisites(head: &str) -> Vec<&str> {
    let (_, rest) = head.split_once(':').unwrap_or_default();
    rest.split('#').next().unwrap_or_default().split_whitespace().collect()
}

/// The same head without one of its prerequisites.
pub fn without(head: &str, prerequisite: &str) -> String {
    let Some((target, rest)) = head.split_once(':') else { return head.to_owned() };
    let (names, comment) = rest.split_at(rest.find(['#', '\n', '\r']).unwrap_or(rest.len()));
    let kept: String =
        names.split_whitespace().filter(|name| *name != prerequisite).map(|name| format!(" {name}")).collect();
    let space = if comment.starts_with('#') { " " } else { "" };
    format!("{target}:{kept}{space}{comment}")
}

/// The lines of the recipe below a head.
pub fn recipe(lines: &[String], head: usize) -> Range<usize> {
    let count = lines[head + 1..].iter().take_while(|line| line.starts_with('\t')).count();
    head + 1..head + 1 + count
}

/// Where a rule's lines begin: comments and `.PHONY` right above its head are part of it.
pub fn start(lines: &[String], target: &str) -> Option<usize> {
    let head = head(lines, target)?;
    let is_part = |line: &String| (line.starts_with('#') && !line.starts_with("##@")) || is_phony(line, target);
    Some(head - lines[..head].iter().rev().take_while(|line| is_part(line)).count())
}

pub fn is_phony(line: &str, target: &str) -> bool {
    line.strip_prefix(".PHONY:").is_some_and(|names| names.trim() == target)
}
