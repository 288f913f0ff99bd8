//! Durations as Go writes them: `1m30s`, `1.5h`, `250ms`, `0`.
//!
//! watches.yaml, annotations and flags of operator-sdk all use them. A negative one is refused: nobody can wait that long.

use std::time::Duration;

#[derive(Debug, thiserror::Error, PartialEq)]
pub enum DurationError {
    #[error("`{0}` is not a duration: write numbers with units, such as `30s`, `1m30s` or `2h`, or `0`")]
    Syntax(String),
    #[error("`{0}` has no unit: write for example `{0}s` or `{0}m`")]
    NoUnit(String),
    #[error("`{0}` is negative: write `0` to switch it off")]
    Negative(String),
    #[error("`{0}` is too long: the longest is about 292 years")]
    TooLong(String),
}

/// In nanoseconds.
const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads a duration.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let syntax = || DurationError::Syntax(text.to_owned());
    let too_long = || DurationError::TooLong(text.to_owned());
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned == "0" {
        return Ok(Duration::ZERO);
    }
    if unsigned.is_empty() {
        return Err(syntax());
    }
    let mut total: u128 = 0;
    let mut rest = unsigned;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, behind) = rest.split_at(number_end);
        let unit_end = behind.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(unit_end);
        if unit.is_empty() && !number.is_empty() {
            return Err(DurationError::NoUnit(text.to_owned()));
        }
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(syntax)?;
        let part = nanoseconds(number, *scale).ok_or_else(syntax)?;
        total = total.checked_add(part).ok_or_else(too_long)?;
        rest = behind;
    }
    if text.starts_with('-') && total > 0 {
        return Err(DurationError::Negative(text.to_owned()));
    }
    i64::try_from(total).map(|nanoseconds| Duration::from_nanos(nanoseconds.unsigned_abs())).map_err(|_| too_long())
}

/// What is finer than a nanosecond is dropped, as in Go. `None` where it is no number.
fn nanoseconds(number: &str, scale: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    // Numbers beyond this are too long in every unit; they saturate and are refused as such.
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().unwrap_or(u64::MAX) };
    let mut sum = u128::from(whole) * scale;
    let mut place = scale;
    for digit in fraction.bytes() {
        place /= 10;
        sum += u128::from(digit - b'0') * place;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_reads_is_read() {
        let cases = [
            ("0", 0),
            ("+0", 0),
            ("5s", 5_000_000_000),
            ("1m30s", 90_000_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("250ms", 250_000_000),
            ("3us", 3_000),
            ("3µs", 3_000),
            ("1h1m1s1ms1us1ns", 3_661_001_001_001),
            ("-0s", 0),
        ];
        for (text, nanoseconds) in cases {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanoseconds)), "{text}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for text in ["", "s", "1x", "1d", ".s", "1..5s", "1s ", " 1s", "1m:30s", "+", "--1s", "é"] {
            assert!(matches!(parse(text), Err(DurationError::Syntax(_))), "{text}");
        }
        assert!(matches!(parse("90"), Err(DurationError::NoUnit(_))));
        assert!(matches!(parse("1m30"), Err(DurationError::NoUnit(_))));
        assert!(matches!(parse("-1s"), Err(DurationError::Negative(_))));
        assert!(matches!(parse("9999999999999h"), Err(DurationError::TooLong(_))));
        assert!(matches!(parse("99999999999999999999999999h"), Err(DurationError::TooLong(_))));
    }
}
