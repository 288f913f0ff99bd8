//! Making text from a cluster fit for a status.

/// Longest reason of a condition that we write.
const WORD_LIMIT: usize = 64;

/// Runs of white space and control characters become one space: registries and programs answer in several lines.
pub(super) fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// A reason that may stand in a condition: others write what they like into theirs.
pub(super) fn word(reason: &str) -> Option<&str> {
    let is_word = reason.starts_with(|c: char| c.is_ascii_alphabetic())
        && reason.bytes().all(|b| b.is_ascii_alphanumeric())
        && reason.len() <= WORD_LIMIT;
    is_word.then_some(reason)
}

/// `1 replica`, `2 replicas`.
pub(super) fn counted(n: i64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// `head: detail`, or only the head.
pub(super) fn with_detail(head: &str, detail: &str) -> String {
    if detail.is_empty() { head.to_owned() } else { format!("{head}: {detail}") }
}
