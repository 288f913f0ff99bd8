//! What a scalar's text means by YAML 1.1's rules as go-yaml v2 has them, and how it is written in JSON.

use serde_json::{Number, Value};

use super::Problem;

/// A scalar by its type. Map keys need the type: the key `1e6` is `1e+06`, while the value `1e6` is 1000000.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// Only for what no `i64` holds.
    Uint(u64),
    Float(f64),
    Text(String),
}

/// Resolves a plain scalar without a tag.
pub(super) fn plain(text: String) -> Scalar {
    // The first character tells what it might be; most texts are told apart by it alone.
    let found = match text.bytes().next() {
        None | Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~') => word(&text),
        Some(b'.') => word(&text).or_else(|| fraction(&text)),
        Some(b'+' | b'-') => word(&text).or_else(|| number(&text)),
        Some(b'0'..=b'9') => number(&text),
        _ => None,
    };
    found.unwrap_or(Scalar::Text(text))
}

fn word(text: &str) -> Option<Scalar> {
    Some(match text {
        "" | "~" | "null" | "Null" | "NULL" => Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" => Scalar::Bool(true),
        "true" | "True" | "TRUE" | "on" | "On" | "ON" => Scalar::Bool(true),
        "n" | "N" | "no" | "No" | "NO" => Scalar::Bool(false),
        "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Scalar::Bool(false),
        ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
        _ => return None,
    })
}

/// A number that starts with a digit or a sign. Dates and `12:30:45` are none, and so stay text.
fn number(text: &str) -> Option<Scalar> {
    let text = text.replace('_', "");
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text.as_str()),
    };
    if let Some(integer) = magnitude(digits).and_then(|value| integer(negative, value)) {
        // A sign is part of a signed integer only, as in Go: +18446744073709551615 goes on to be a float.
        if digits.len() == text.len() || !matches!(integer, Scalar::Uint(_)) {
            return Some(integer);
        }
    }
    if is_decimal(digits) {
        return finite(&text);
    }
    signed_binary(&text)
}

/// An unsigned integer in the base that its prefix names: `0b`, `0o`, `0x`, or `0` for octal.
fn magnitude(digits: &str) -> Option<u64> {
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'b' | b'B', _, ..] => (2, &digits[2..]),
        [b'0', b'o' | b'O', _, ..] => (8, &digits[2..]),
        [b'0', b'x' | b'X', _, ..] => (16, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    // Rust's own parser would take another sign here.
    let starts_with_digit = digits.starts_with(|c: char| c.is_ascii_alphanumeric());
    starts_with_digit.then(|| u64::from_str_radix(digits, base).ok()).flatten()
}

fn integer(negative: bool, magnitude: u64) -> Option<Scalar> {
    if negative {
        return 0i64.checked_sub_unsigned(magnitude).map(Scalar::Int);
    }
    Some(i64::try_from(magnitude).map_or(Scalar::Uint(magnitude), Scalar::Int))
}

/// `0b-101`: go-yaml takes a sign behind this prefix too.
fn signed_binary(text: &str) -> Option<Scalar> {
    let digits = text.strip_prefix("0b")?;
    i64::from_str_radix(digits, 2).ok().map(Scalar::Int)
}

/// Digits with an optional fraction and exponent. `08` is one, since it is no octal number.
fn is_decimal(digits: &str) -> bool {
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (digits, None),
    };
    let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let mantissa_fits = match mantissa.split_once('.') {
        Some((whole, fraction)) => all_digits(whole) && all_digits(fraction) && mantissa.len() > 1,
        None => all_digits(mantissa) && !mantissa.is_empty(),
    };
    let exponent_fits = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        all_digits(digits) && !digits.is_empty()
    });
    mantissa_fits && exponent_fits
}

/// A number that starts with a point. Go's own rules apply here: an underscore has to stand between two digits.
fn fraction(text: &str) -> Option<Scalar> {
    let bytes = text.as_bytes();
    let separates = |at: usize| {
        let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        is_digit(at - 1) && is_digit(at + 1)
    };
    let digits = text.replace('_', "");
    let fits = is_decimal(&digits) && text.match_indices('_').all(|(at, _)| separates(at));
    fits.then(|| finite(&digits)).flatten()
}

/// What is too large for a float stays text.
fn finite(text: &str) -> Option<Scalar> {
    let value: f64 = text.parse().ok()?;
    value.is_finite().then_some(Scalar::Float(value))
}

impl Scalar {
    /// The scalar as a JSON value.
    pub(super) fn into_value(self) -> Result<Value, Problem> {
        Ok(match self {
            Scalar::Null => Value::Null,
            Scalar::Bool(value) => Value::Bool(value),
            Scalar::Int(value) => Value::from(value),
            Scalar::Uint(value) => Value::from(value),
            Scalar::Float(value) => Value::Number(json_number(value)?),
            Scalar::Text(text) => Value::String(text),
        })
    }

    /// The scalar as a key of a JSON object.
    pub(super) fn into_key(self) -> Result<String, Problem> {
        Ok(match self {
            Scalar::Null => return Err(Problem::NullAsKey),
            Scalar::Uint(value) => return Err(Problem::LargeKey(value)),
            Scalar::Bool(value) => value.to_string(),
            Scalar::Int(value) => value.to_string(),
            Scalar::Float(value) => float_key(value),
            Scalar::Text(text) => text,
        })
    }
}

/// Go writes 1000.0 as `1000`, which the API server takes for an integer.
fn json_number(value: f64) -> Result<Number, Problem> {
    let shortest = value.to_string();
    if let Ok(integer) = shortest.parse::<i64>() {
        return Ok(integer.into());
    }
    if let Ok(integer) = shortest.parse::<u64>() {
        return Ok(integer.into());
    }
    Number::from_f64(value).ok_or(Problem::NotFinite)
}

/// Keys are written with single precision, and with an exponent from 10^6 and below 10^-4.
fn float_key(value: f64) -> String {
    let value = value as f32;
    if value.is_nan() {
        return ".nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
        _ => value.to_string(),
    }
}
