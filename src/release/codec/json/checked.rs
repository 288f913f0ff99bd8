//! JSON that is looked at and not kept.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Any value that could become a `serde_json::Value`.
pub struct Any;

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyVisitor)
    }
}

struct AnyVisitor;

impl<'de> Visitor<'de> for AnyVisitor {
    type Value = Any;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Any, E> {
        Ok(Any)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Any, E> {
        Ok(Any)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Any, E> {
        Ok(Any)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Any, E> {
        Ok(Any)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Any, E> {
        Ok(Any)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Any, E> {
        Ok(Any)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Any, A::Error> {
        while elements.next_element::<Any>()?.is_some() {}
        Ok(Any)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Any, A::Error> {
        while members.next_entry::<Any, Any>()?.is_some() {}
        Ok(Any)
    }
}

/// Whether a value is a list with something in it.
#[derive(Default)]
pub struct NonEmpty(pub bool);

impl<'de> Deserialize<'de> for NonEmpty {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NonEmptyVisitor)
    }
}

struct NonEmptyVisitor;

impl<'de> Visitor<'de> for NonEmptyVisitor {
    type Value = NonEmpty;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<NonEmpty, E> {
        Ok(NonEmpty(false))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<NonEmpty, E> {
        Ok(NonEmpty(false))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<NonEmpty, E> {
        Ok(NonEmpty(false))
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<NonEmpty, E> {
        Ok(NonEmpty(false))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<NonEmpty, E> {
        Ok(NonEmpty(false))
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<NonEmpty, E> {
        Ok(NonEmpty(false))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<NonEmpty, A::Error> {
        let mut is_there = false;
        while elements.next_element::<IgnoredAny>()?.is_some() {
            is_there = true;
        }
        Ok(NonEmpty(is_there))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<NonEmpty, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(NonEmpty(false))
    }
}
