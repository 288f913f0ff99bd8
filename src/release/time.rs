//! Time as Go writes it into JSON: RFC 3339 with nanoseconds. Helm 3 writes "" for no time, and Helm 4 nothing at all.

use k8s_openapi::jiff::Timestamp;

/// Go's zero time, 0001-01-01T00:00:00Z, in seconds. It means that there is no time.
const ZERO_SECONDS: i64 = -62_135_596_800;

/// "" and Go's zero time are no time.
pub fn parse(text: &str) -> Result<Option<Timestamp>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let time: Timestamp = text.parse().map_err(|_| format!("{text:?} is not a time"))?;
    Ok(Some(time).filter(|time| *time != zero()))
}

/// What stands for no time where one is required.
pub fn zero() -> Timestamp {
    // In range, since jiff goes back to the year -9999.
    Timestamp::from_second(ZERO_SECONDS).unwrap_or(Timestamp::UNIX_EPOCH)
}

pub fn print(time: Timestamp) -> String {
    match time == zero() {
        true => String::new(),
        false => time.to_string(),
    }
}

/// For serde's `with`.
pub mod optional {
    use k8s_openapi::jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&time.map(super::print).unwrap_or_default())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
        super::parse(&text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_that_go_writes_are_read() {
        let noon: Timestamp = "2026-11-16T12:00:00.123456789Z".parse().unwrap();
        assert_eq!(parse("2026-11-16T14:00:00.123456789+02:00"), Ok(Some(noon)));
        assert_eq!(parse(&print(noon)), Ok(Some(noon)));
        for nothing in ["", "0001-01-01T00:00:00Z", "0001-01-01T01:00:00+01:00"] {
            assert_eq!(parse(nothing), Ok(None));
        }
        assert_eq!(print(zero()), "");
        assert_eq!(parse("yesterday"), Err("\"yesterday\" is not a time".into()));
    }
}
