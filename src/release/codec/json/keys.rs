//! Keys that helm reads as others.
//!
//! Go matches the keys of JSON without regard to case, and the last one counts. This operator matches them exactly. A record with a key such as
//! `Manifest` beside `manifest` says one thing to helm and another to us.

use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

const RECORD: [&str; 8] = ["name", "info", "chart", "config", "manifest", "hooks", "version", "namespace"];
const CHART: [&str; 3] = ["metadata", "values", "templates"];
const HOOK: [&str; 9] =
    ["name", "kind", "path", "manifest", "events", "last_run", "weight", "delete_policies", "output_log_policies"];
const METADATA: [&str; 2] = ["name", "version"];

/// Whether helm reads a key as one of these, although it is none of them.
pub fn is_shadow(key: &str, known: &[&str]) -> bool {
    !known.contains(&key) && known.contains(&folded(key).as_str())
}

/// Whether a key of a record is such a one.
pub fn shadows_record(key: &str) -> bool {
    is_shadow(key, &RECORD)
}

/// As Go's `encoding/json` folds keys: two letters outside of ASCII are those of ASCII, too.
fn folded(key: &str) -> String {
    key.chars()
        .map(|letter| match letter {
            '\u{17f}' => 's',
            '\u{212a}' => 'k',
            other => other.to_ascii_lowercase(),
        })
        .collect()
}

/// Whether the JSON of a record has a key that helm reads as another.
pub struct Ambiguous(pub bool);

impl<'de> Deserialize<'de> for Ambiguous {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Keys(Level::Record)).map(Ambiguous)
    }
}

#[derive(Clone, Copy)]
enum Level {
    Record,
    Chart,
    Metadata,
    Hooks,
    Hook,
}

impl Level {
    fn known(self) -> &'static [&'static str] {
        match self {
            Level::Record => &RECORD,
            Level::Chart => &CHART,
            Level::Metadata => &METADATA,
            Level::Hooks => &[],
            Level::Hook => &HOOK,
        }
    }

    /// What is below a key, where that has keys that count.
    fn below(self, key: &str) -> Option<Self> {
        match (self, key) {
            (Level::Record, "chart") => Some(Level::Chart),
            (Level::Record, "hooks") => Some(Level::Hooks),
            (Level::Chart, "metadata") => Some(Level::Metadata),
            _ => None,
        }
    }
}

struct Keys(Level);

impl<'de> serde::de::DeserializeSeed<'de> for Keys {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Keys {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let mut found = false;
        while let Some(key) = map.next_key::<String>()? {
            found |= is_shadow(&key, self.0.known());
            match self.0.below(&key) {
                Some(level) => found |= map.next_value_seed(Keys(level))?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<bool, A::Error> {
        let mut found = false;
        while let Some(is_ambiguous) = items.next_element_seed(Keys(Level::Hook))? {
            found |= is_ambiguous;
        }
        Ok(found)
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_bool<E>(self, _: bool) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_i64<E>(self, _: i64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_u64<E>(self, _: u64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_f64<E>(self, _: f64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_str<E>(self, _: &str) -> Result<bool, E> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ambiguous(text: &str) -> bool {
        serde_json::from_str::<Ambiguous>(text).unwrap().0
    }

    #[test]
    fn a_key_that_helm_reads_as_another_is_found_at_each_level() {
        for text in [
            r#"{"manifest": "a", "Manifest": "b"}"#,
            r#"{"manifest": "a", "manife\u017ft": "b"}"#,
            r#"{"hoo\u212as": []}"#,
            r#"{"hooks": [{"manifest": "a"}, {"MANIFEST": "b"}]}"#,
            r#"{"chart": {"Metadata": {}}}"#,
            r#"{"chart": {"metadata": {"Name": "x"}}}"#,
        ] {
            assert!(is_ambiguous(text), "{text}");
        }
    }

    #[test]
    fn keys_that_helm_does_not_know_and_those_of_values_are_fine() {
        for text in [
            r#"{"manifest": "a", "apply_method": "ssa", "Later": 1}"#,
            r#"{"config": {"Name": 1, "Manifest": 2}, "hooks": null}"#,
            r#"{"chart": {"metadata": {"name": "x", "appVersion": "1"}, "files": [{"Name": "x"}]}}"#,
            "[]",
        ] {
            assert!(!is_ambiguous(text), "{text}");
        }
    }
}
