//! Scalars with an explicit tag: `!!str 123`, `!!int "3"`, `!!binary aGk=`.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};

use super::Problem;
use super::resolve::{self, Scalar};

/// The prefix that `!!` stands for.
pub(super) const PREFIX: &str = "tag:yaml.org,2002:";

/// The tag that makes a `<<` in any form a merge key.
pub(super) const MERGE: &str = "tag:yaml.org,2002:merge";

/// Resolves a scalar of any style with a tag. A tag that means nothing to us leaves the text as it is.
pub(super) fn resolve(tag: &str, text: String) -> Result<Scalar, Problem> {
    let name = tag.strip_prefix(PREFIX).unwrap_or_default();
    let wanted = match name {
        "bool" => "a boolean",
        "null" => "null",
        "int" => "an integer",
        "float" => "a number",
        "timestamp" => "a timestamp",
        "binary" => return binary(&text),
        _ => return Ok(Scalar::Text(text)),
    };
    match (name, resolve::plain(text)) {
        ("bool", scalar @ Scalar::Bool(_))
        | ("null", scalar @ Scalar::Null)
        | ("int", scalar @ (Scalar::Int(_) | Scalar::Uint(_)))
        | ("float", scalar @ Scalar::Float(_)) => Ok(scalar),
        ("float", Scalar::Int(value)) => Ok(Scalar::Float(value as f64)),
        // Go knows it for a date and then keeps the text.
        ("timestamp", Scalar::Text(text)) if is_timestamp(&text) => Ok(Scalar::Text(text)),
        _ => Err(Problem::TagMismatch(wanted)),
    }
}

/// Base64 may be broken into lines, and the bits that its last digit leaves over do not count.
fn binary(text: &str) -> Result<Scalar, Problem> {
    const BASE64: GeneralPurpose =
        GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));
    let digits = text.replace(['\r', '\n'], "");
    let bytes = BASE64.decode(digits).map_err(|_| Problem::NotBase64)?;
    Ok(Scalar::Text(lossy(&bytes)))
}

/// Go's JSON writes a replacement for each byte that is no UTF-8; Rust's own conversion writes fewer.
fn lossy(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// A date, alone or with a time: `T` and a zone, or spaces and none.
fn is_timestamp(text: &str) -> bool {
    let Some((year, month, day, rest)) = date(text) else {
        return false;
    };
    let time_fits = if rest.is_empty() {
        true
    } else if let Some(rest) = rest.strip_prefix(['T', 't']) {
        time(rest).is_some_and(is_zone)
    } else {
        rest.starts_with(' ') && time(rest.trim_start_matches(' ')) == Some("")
    };
    time_fits && (1..=days_in(month, year)).contains(&day)
}

/// Reads year, month and day, and returns what follows them too.
fn date(text: &str) -> Option<(u32, u32, u32, &str)> {
    let (year, rest) = text.split_once('-')?;
    if year.len() != 4 || !year.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (month, rest) = small_number(rest)?;
    let (day, rest) = small_number(rest.strip_prefix('-')?)?;
    Some((year.parse().ok()?, month, day, rest))
}

fn days_in(month: u32, year: u32) -> u32 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    }
}

/// Reads a time with an optional fraction of a second, and returns what follows it.
fn time(text: &str) -> Option<&str> {
    let (hour, rest) = small_number(text)?;
    let (minute, rest) = small_number(rest.strip_prefix(':')?)?;
    let (second, rest) = small_number(rest.strip_prefix(':')?)?;
    let rest = match rest.strip_prefix(['.', ',']) {
        Some(digits) if digits.starts_with(|c: char| c.is_ascii_digit()) => {
            digits.trim_start_matches(|c: char| c.is_ascii_digit())
        }
        _ => rest,
    };
    (hour < 24 && minute < 60 && second < 60).then_some(rest)
}

/// `Z` or an offset such as `+05:30`.
fn is_zone(text: &str) -> bool {
    let two_digits = |text: &str| match small_number(text) {
        Some((number, "")) if text.len() == 2 => Some(number),
        _ => None,
    };
    let offset = text.strip_prefix(['+', '-']).and_then(|offset| {
        let (hours, minutes) = offset.split_once(':')?;
        Some((two_digits(hours)?, two_digits(minutes)?))
    });
    text == "Z" || matches!(offset, Some((0..=24, 0..=60)))
}

/// Reads one or two digits.
fn small_number(text: &str) -> Option<(u32, &str)> {
    let digits = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(digits);
    Some((digits.parse().ok()?, rest))
}
