//! Text that cannot steer a terminal. Pure.
//!
//! Messages, logs and output quote what the author of a custom resource, a chart or a program wrote. A terminal obeys control
//! characters, and marks of direction make text read differently from what it says. This module writes both out as escapes,
//! whether or not a terminal reads the text now: `less -R`, `tail -f` and CI logs show it to one later.

use std::borrow::Cow;
use std::fmt::Write;

/// Control characters of ASCII and Latin-1, separators that begin a line, and marks that change the direction of writing.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether text can be shown as it is. Tabs and both kinds of line ends are fine.
pub fn is_printable(text: &str) -> bool {
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        if !is_layout(c, characters.peek()) && is_unprintable(c) {
            return false;
        }
    }
    true
}

/// A carriage return alone moves the cursor back over what was written; before a newline it is the end of a line.
fn is_layout(c: char, next: Option<&char>) -> bool {
    matches!(c, '\n' | '\t') || c == '\r' && next == Some(&'\n')
}

/// The text with every unprintable character as a Rust escape, `\u{1b}`.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if is_printable(text) {
        return Cow::Borrowed(text);
    }
    let (mut shown, mut characters) = (String::with_capacity(text.len()), text.chars().peekable());
    while let Some(c) = characters.next() {
        match !is_layout(c, characters.peek()) && is_unprintable(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// JSON text with every unprintable character as a JSON escape, `\u001b`. Such characters occur only inside of strings, so
/// the value stays the same.
pub fn escaped_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c != '\n' && is_unprintable(c) {
            // Writing to a string cannot fail.
            true => drop(write!(out, "\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn foreign_text_cannot_speak_to_a_terminal() {
        let evil = "\x1b[31mfailed: \x1b]0;title\x07 \r\u{9b}8m \u{202e}ö\u{7f}\u{2028}\n";
        let shown = "\\u{1b}[31mfailed: \\u{1b}]0;title\\u{7} \\r\\u{9b}8m \\u{202e}ö\\u{7f}\\u{2028}\n";
        assert_eq!(escaped(evil), shown);
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        assert!(matches!(escaped("a\tö\r\nb\n"), Cow::Borrowed(_)));
        assert_eq!(escaped("a\r"), "a\\r");
    }

    #[test]
    fn json_means_the_same_after_escaping() {
        let value = json!({"a\u{9b}": "\u{1b}\u{7f}\u{202e}\u{2028}\n\t\"\\ö", "b": [1, null]});
        for text in [value.to_string(), format!("{value:#}")] {
            let shown = escaped_json(&text);
            assert!(is_printable(&shown), "{shown:?}");
            assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
        }
    }
}
