//! The types of JSON that a value may have, as a set.

use std::ops::{BitAnd, BitOr};

use serde_json::Value;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Types(u8);

impl Types {
    pub const NONE: Types = Types(0);
    pub const NULL: Types = Types(1);
    pub const BOOLEAN: Types = Types(1 << 1);
    pub const OBJECT: Types = Types(1 << 2);
    pub const ARRAY: Types = Types(1 << 3);
    pub const STRING: Types = Types(1 << 4);
    pub const INTEGER: Types = Types(1 << 5);
    pub const FRACTION: Types = Types(1 << 6);
    pub const NUMBER: Types = Types(1 << 5 | 1 << 6);
    pub const ALL: Types = Types(127);

    pub fn of_name(name: &str) -> Types {
        match name {
            "null" => Types::NULL,
            "boolean" => Types::BOOLEAN,
            "object" => Types::OBJECT,
            "array" => Types::ARRAY,
            "string" => Types::STRING,
            "integer" => Types::INTEGER,
            "number" => Types::NUMBER,
            _ => Types::NONE,
        }
    }

    pub fn of_value(value: &Value) -> Types {
        match value {
            Value::Null => Types::NULL,
            Value::Bool(_) => Types::BOOLEAN,
            Value::Object(_) => Types::OBJECT,
            Value::Array(_) => Types::ARRAY,
            Value::String(_) => Types::STRING,
            // To JSON Schema, 3.0 is an integer.
            Value::Number(number) if number.as_f64().is_some_and(|number| number.fract() == 0.0) => Types::INTEGER,
            Value::Number(_) => Types::FRACTION,
        }
    }

    pub fn has(self, other: Types) -> bool {
        self.0 & other.0 == other.0
    }

    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    pub fn without_null(self) -> Types {
        Types(self.0 & !Types::NULL.0)
    }

    /// OpenAPI's name, where there is one for all of it.
    pub fn name(self) -> Option<&'static str> {
        match self.without_null() {
            Types::BOOLEAN => Some("boolean"),
            Types::OBJECT => Some("object"),
            Types::ARRAY => Some("array"),
            Types::STRING => Some("string"),
            Types::INTEGER => Some("integer"),
            Types::NUMBER | Types::FRACTION => Some("number"),
            _ => None,
        }
    }

    /// In words.
    pub fn words(self) -> String {
        let all = [Types::BOOLEAN, Types::OBJECT, Types::ARRAY, Types::STRING];
        let mut names: Vec<&str> = all.iter().filter(|one| self.has(**one)).filter_map(|one| one.name()).collect();
        match () {
            () if self.has(Types::FRACTION) => names.push("number"),
            () if self.has(Types::INTEGER) => names.push("integer"),
            () => {}
        }
        names.join(" or ")
    }
}

impl BitAnd for Types {
    type Output = Types;
    fn bitand(self, other: Types) -> Types {
        Types(self.0 & other.0)
    }
}

impl BitOr for Types {
    type Output = Types;
    fn bitor(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_may_be_an_integer_and_three_point_nought_is_one() {
        assert!(Types::NUMBER.has(Types::INTEGER) && !Types::INTEGER.has(Types::NUMBER));
        assert_eq!(Types::of_value(&json!(3.0)), Types::INTEGER);
        assert_eq!(Types::of_value(&json!(3.5)).name(), Some("number"));
        assert_eq!((Types::INTEGER | Types::NULL).name(), Some("integer"));
        assert_eq!((Types::INTEGER | Types::STRING).name(), None);
        assert_eq!((Types::NUMBER | Types::STRING | Types::NULL).words(), "string or number");
    }
}
