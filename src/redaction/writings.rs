//! The ways in which a text is written by charts, by YAML and by error messages.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::Value;

use crate::yaml;

/// A word of fewer characters is seldom meant as base64.
const ENCODED: usize = 8;

/// The text itself and in other writings, without space around it.
pub(super) fn of(text: &str) -> Vec<String> {
    let whole = text.trim();
    let mut all = plain(whole);
    for text in [whole, text] {
        all.push(STANDARD_NO_PAD.encode(text));
        all.push(URL_SAFE_NO_PAD.encode(text));
    }
    if whole.lines().nth(1).is_some() {
        // What ends in a colon is the beginning of something, and no value.
        let lines = whole.lines().map(str::trim).filter(|line| !line.ends_with(':'));
        all.extend(lines.flat_map(plain));
    }
    all.extend(decoded(whole));
    all
}

fn plain(text: &str) -> Vec<String> {
    let (json, html) = (escaped(text), for_html(&escaped(text)));
    // JSON in a text that is JSON again, as in an annotation or in the patch of an error message.
    let twice = [escaped(&json), escaped(&html), for_html(&escaped(&json))];
    let mut all = vec![text.to_owned(), text.replace('\'', "''"), html, json];
    all.extend(twice);
    all.extend([percent(text, "%20"), percent(text, "+")]);
    all.sort_unstable();
    all.dedup();
    all
}

/// As between the quotes of JSON.
fn escaped(text: &str) -> String {
    let json = Value::from(text).to_string();
    json[1..json.len() - 1].to_owned()
}

/// As Go writes JSON.
fn for_html(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

fn percent(text: &str, space: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => encoded.push(byte.into()),
            b' ' => encoded.push_str(space),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// What a text says, if it is base64 of a text.
fn decoded(text: &str) -> Option<String> {
    let text = text.trim_end_matches('=');
    let bytes = STANDARD_NO_PAD.decode(text).ok().filter(|_| text.len() >= ENCODED)?;
    let inside = String::from_utf8(bytes).ok()?;
    let is_text = inside.chars().all(|c| !c.is_control() || c.is_whitespace());
    is_text.then(|| inside.trim().to_owned())
}

/// The values in a text of several lines that is YAML itself.
pub(super) fn inner(text: &str) -> Option<Value> {
    let text = text.trim();
    let may_be = text.starts_with(['{', '[']) || text.contains(": ") || text.contains(":\n");
    may_be.then(|| yaml::parse(text).ok()).flatten().filter(|value| value.is_object() || value.is_array())
}
