//! Making text from a cluster fit for a status: one line, bounded, cut where a person loses least.

const ELLIPSIS: &str = "…";

/// Runs of white space and control characters become one space: registries and programs answer in several lines.
pub(super) fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// At most `limit` bytes, cut at the end.
pub(super) fn clip(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let mut end = limit.saturating_sub(ELLIPSIS.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{ELLIPSIS}", &text[..end])
}

/// At most `limit` bytes, cut at the front: in a chain of wrapped errors, and in a program's last words, the end tells.
pub(super) fn clip_front(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let mut start = text.len() - limit.saturating_sub(ELLIPSIS.len());
    while !text.is_char_boundary(start) {
        start += 1;
    }
    format!("{ELLIPSIS}{}", &text[start..])
}

/// `1 replica`, `2 replicas`.
pub(super) fn counted(n: i64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// `head: detail`, or only the head.
pub(super) fn with_detail(head: &str, detail: &str) -> String {
    if detail.is_empty() { head.to_owned() } else { format!("{head}: {detail}") }
}
