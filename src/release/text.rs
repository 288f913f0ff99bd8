//! Long texts of a record, held packed: a history has many of them and most are never looked at.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::aside;
use crate::packed::Packed;

/// What is shorter stays as it is.
const PACKED_FROM: usize = 16 * 1024;

/// A text. Clones share it.
#[derive(Clone, PartialEq, Eq)]
pub struct Text(Held);

#[derive(Clone, PartialEq, Eq)]
enum Held {
    Plain(Arc<str>),
    Packed(Arc<Packed>, Length),
}

/// How much there is to read in a text.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Length {
    bytes: usize,
    /// The values that there may be in it, if it is YAML.
    values: usize,
}

impl Length {
    fn of(text: &str) -> Self {
        let may_end_one = |byte: &&u8| matches!(byte, b'\n' | b',' | b':' | b'[' | b'{');
        Length { bytes: text.len(), values: text.as_bytes().iter().filter(may_end_one).count() }
    }

    fn memory(self) -> usize {
        // A value in a list or a map, with its key.
        const VALUE: usize = 64;
        2 * self.bytes + VALUE * self.values
    }
}

impl Text {
    /// Unpacks it where that is necessary.
    pub fn read(&self) -> Cow<'_, str> {
        match &self.0 {
            Held::Plain(text) => Cow::Borrowed(text),
            // It was packed from a text.
            Held::Packed(packed, length) => {
                let bytes = aside::here(length.bytes, || packed.bytes());
                Cow::Owned(String::from_utf8(bytes).unwrap_or_default())
            }
        }
    }

    /// In bytes, as a text.
    pub fn len(&self) -> usize {
        match &self.0 {
            Held::Plain(text) => text.len(),
            Held::Packed(_, length) => length.bytes,
        }
    }

    /// How much memory the values in it may take.
    pub fn read_len(&self) -> usize {
        match &self.0 {
            Held::Plain(text) => Length::of(text).memory(),
            Held::Packed(_, length) => length.memory(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// In bytes, as it is held.
    pub fn held_len(&self) -> usize {
        match &self.0 {
            Held::Plain(text) => text.len(),
            Held::Packed(packed, _) => packed.size(),
        }
    }
}

impl Default for Text {
    fn default() -> Self {
        Text::from("")
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Text(match text.len() < PACKED_FROM {
            true => Held::Plain(text.into()),
            false => Held::Packed(Arc::new(Packed::new(text.as_bytes())), Length::of(text)),
        })
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Text::from(text.as_str())
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.len() == other.len() && self.read() == other
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.read(), f)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.read())
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text::from(text))
            }
        }
        deserializer.deserialize_str(Reader)
    }
}

/// A JSON value, held as its text.
#[derive(Clone)]
pub struct Json(Text);

impl Json {
    /// Of a text that is known to be JSON.
    pub(super) fn of_text(text: &str) -> Self {
        Json(Text::from(text))
    }

    pub fn value(&self) -> Value {
        aside::here(self.0.len(), || serde_json::from_str(&self.0.read()).unwrap_or_default())
    }

    /// In bytes, as a text.
    pub fn text_len(&self) -> usize {
        self.0.len()
    }

    pub fn held_len(&self) -> usize {
        self.0.held_len()
    }
}

/// An empty map.
impl Default for Json {
    fn default() -> Self {
        Json::from(Value::Object(Map::new()))
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Json(Text::from(value.to_string()))
    }
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Self {
        Json(Text::from(value.to_string()))
    }
}

/// As values: the order of keys means nothing.
impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.value() == other.value()
    }
}

impl PartialEq<Value> for Json {
    fn eq(&self, other: &Value) -> bool {
        self.value() == *other
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_read_as_it_was_and_a_long_one_takes_little() {
        for text in ["", "short", &"long ".repeat(10_000)] {
            let held = Text::from(text);
            assert_eq!((held.read().as_ref(), held.len()), (text, text.len()));
            assert!(held.held_len() <= 1_000, "{}", held.held_len());
            assert!(held == Text::from(text.to_owned()) && held == *text && held != *"other");
            assert_eq!(serde_json::from_value::<Text>(json!(held)).unwrap(), held);
        }
    }

    #[test]
    fn json_is_compared_as_a_value() {
        assert_eq!(Json::of_text(r#"{"b": 1, "a": 2}"#), Json::from(json!({"a": 2, "b": 1})));
        assert_ne!(Json::of_text("{}"), Json::from(json!({"a": 2})));
        assert_eq!(Json::default(), json!({}));
    }
}
