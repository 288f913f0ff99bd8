//! A structural schema, as the API server accepts it.
//!
//! Its rules are in the types: what nests below `allOf`, `anyOf`, `oneOf` and `not` is a [`Rules`], which has no type, no description
//! and no default; everything else is a [`Schema`]. Keys are written in the order in which a person reads them.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_yaml::{Mapping, Value as Yaml};

use super::types::Types;

/// One value: its shape, and what it is checked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Schema {
    pub description: String,
    /// What it may be, as far as that is known. The API server is told only what it understands.
    pub types: Option<Types>,
    /// Fields that are not listed stay.
    pub is_open: bool,
    pub is_nullable: bool,
    pub properties: Vec<(String, Schema)>,
    /// What fields of any name have to be. Excludes `properties`.
    pub additional: Option<Box<Schema>>,
    pub items: Option<Box<Schema>>,
    pub rules: Rules,
}

/// What a value is checked for, beyond its shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rules {
    /// `pattern`, `minimum` and the like, as they are written.
    pub simple: BTreeMap<&'static str, Value>,
    pub properties: BTreeMap<String, Rules>,
    pub items: Option<Box<Rules>>,
    pub all_of: Vec<Rules>,
    pub any_of: Vec<Rules>,
    pub one_of: Vec<Rules>,
    pub not: Option<Box<Rules>>,
}

impl Schema {
    /// Takes anything.
    pub fn open() -> Self {
        Schema { is_open: true, is_nullable: true, ..Schema::default() }
    }

    pub fn property(&self, name: &str) -> Option<&Schema> {
        self.properties.iter().find(|(own, _)| own == name).map(|(_, schema)| schema)
    }

    /// The type that the API server is told.
    fn type_name(&self) -> Option<&'static str> {
        self.types.and_then(Types::name)
    }

    pub fn is_int_or_string(&self) -> bool {
        self.types.is_some_and(|types| types.without_null() == Types::INTEGER | Types::STRING)
    }

    pub fn yaml(&self) -> Yaml {
        let mut map = Mapping::new();
        let mut put = |key: &str, value: Yaml| drop(map.insert(key.into(), value));
        if !self.description.is_empty() {
            put("description", self.description.as_str().into());
        }
        let type_name = self.type_name();
        if let Some(name) = type_name {
            put("type", name.into());
        }
        if self.is_nullable {
            put("nullable", true.into());
        }
        if self.is_int_or_string() {
            put("x-kubernetes-int-or-string", true.into());
        } else if self.is_open || type_name.is_none() {
            put("x-kubernetes-preserve-unknown-fields", true.into());
        }
        self.rules.write(&mut map);
        if let Some(items) = &self.items {
            map.insert("items".into(), items.yaml());
        }
        if let Some(additional) = &self.additional {
            map.insert("additionalProperties".into(), additional.yaml());
        }
        if !self.properties.is_empty() {
            let properties = self.properties.iter().map(|(name, schema)| (name.as_str().into(), schema.yaml()));
            map.insert("properties".into(), Yaml::Mapping(properties.collect()));
        }
        Yaml::Mapping(map)
    }
}

impl Rules {
    pub fn simple(key: &'static str, value: impl Into<Value>) -> Self {
        Rules { simple: BTreeMap::from([(key, value.into())]), ..Rules::default() }
    }

    pub fn not(rules: Rules) -> Self {
        Rules { not: Some(Box::new(rules)), ..Rules::default() }
    }

    pub fn any_of(branches: Vec<Rules>) -> Self {
        Rules { any_of: branches, ..Rules::default() }
    }

    pub fn is_empty(&self) -> bool {
        *self == Rules::default()
    }

    /// Both must hold. What cannot stand side by side goes below `allOf`.
    pub fn and(&mut self, other: Rules) {
        if other.is_empty() {
            return;
        }
        let clashes = other.simple.keys().any(|key| self.simple.contains_key(key))
            || other.properties.keys().any(|key| self.properties.contains_key(key))
            || (self.items.is_some() && other.items.is_some())
            || (!self.any_of.is_empty() && !other.any_of.is_empty())
            || (!self.one_of.is_empty() && !other.one_of.is_empty())
            || (self.not.is_some() && other.not.is_some());
        if clashes {
            if !self.all_of.contains(&other) {
                self.all_of.push(other);
            }
            return;
        }
        self.simple.extend(other.simple);
        self.properties.extend(other.properties);
        self.items = self.items.take().or(other.items);
        self.all_of.extend(other.all_of);
        self.any_of.extend(other.any_of);
        self.one_of.extend(other.one_of);
        self.not = self.not.take().or(other.not);
    }

    /// Beside a shape, `properties` and `items` are those of the shape. So conditions on them stand one level below.
    pub fn on_shape(mut self) -> Self {
        let inside =
            Rules { properties: std::mem::take(&mut self.properties), items: self.items.take(), ..Rules::default() };
        match () {
            () if inside.is_empty() => {}
            () if self.any_of.is_empty() => self.any_of.push(inside),
            () => self.all_of.push(inside),
        }
        self
    }

    /// Drops conditions that name what is inside of the value.
    pub fn forget_fields(&mut self) {
        if self.names_fields() {
            self.properties.clear();
            self.items = None;
            for branches in [&mut self.all_of, &mut self.any_of, &mut self.one_of] {
                if branches.iter().any(Rules::names_fields) {
                    branches.clear();
                }
            }
            self.not = self.not.take().filter(|not| !not.names_fields());
        }
    }

    fn names_fields(&self) -> bool {
        let branches = self.all_of.iter().chain(&self.any_of).chain(&self.one_of).chain(self.not.as_deref());
        !self.properties.is_empty() || self.items.is_some() || branches.into_iter().any(Rules::names_fields)
    }

    fn yaml(&self) -> Yaml {
        let mut map = Mapping::new();
        self.write(&mut map);
        if let Some(items) = &self.items {
            map.insert("items".into(), items.yaml());
        }
        if !self.properties.is_empty() {
            let properties = self.properties.iter().map(|(name, rules)| (name.as_str().into(), rules.yaml()));
            map.insert("properties".into(), Yaml::Mapping(properties.collect()));
        }
        Yaml::Mapping(map)
    }

    /// All but what has another meaning on a [`Schema`].
    fn write(&self, map: &mut Mapping) {
        for (key, value) in &self.simple {
            map.insert((*key).into(), yaml_of(value));
        }
        for (key, branches) in [("allOf", &self.all_of), ("anyOf", &self.any_of), ("oneOf", &self.one_of)] {
            if !branches.is_empty() {
                map.insert(key.into(), Yaml::Sequence(branches.iter().map(Rules::yaml).collect()));
            }
        }
        if let Some(not) = &self.not {
            map.insert("not".into(), not.yaml());
        }
    }
}

/// JSON as YAML.
pub(super) fn yaml_of(value: &Value) -> Yaml {
    match value {
        Value::Null => Yaml::Null,
        Value::Bool(is) => (*is).into(),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), _, _) => number.into(),
            (_, Some(number), _) => number.into(),
            // The API server refuses no number, but 1.0 for an integer reads badly.
            (_, _, Some(number)) if number.fract() == 0.0 && number.abs() < 1e15 => (number as i64).into(),
            (_, _, number) => number.unwrap_or_default().into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => Yaml::Sequence(items.iter().map(yaml_of).collect()),
        Value::Object(map) => {
            Yaml::Mapping(map.iter().map(|(key, value)| (key.as_str().into(), yaml_of(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_that_clash_stand_below_all_of() {
        let mut rules = Rules::simple("pattern", "a");
        rules.and(Rules::simple("minLength", 1));
        rules.and(Rules::simple("pattern", "b"));
        rules.and(Rules::simple("pattern", "b"));
        let schema = Schema { types: Some(Types::STRING), rules, ..Schema::default() };
        let yaml = serde_yaml::to_string(&schema.yaml()).unwrap();
        assert_eq!(yaml, "type: string\nminLength: 1\npattern: a\nallOf:\n- pattern: b\n");
    }

    #[test]
    fn several_types_are_none_but_for_a_number_or_text() {
        let written =
            |types| serde_yaml::to_string(&Schema { types: Some(types), ..Schema::default() }.yaml()).unwrap();
        assert_eq!(written(Types::INTEGER | Types::STRING), "x-kubernetes-int-or-string: true\n");
        assert_eq!(written(Types::BOOLEAN | Types::STRING), "x-kubernetes-preserve-unknown-fields: true\n");
        assert_eq!(written(Types::NUMBER), "type: number\n");
        assert_eq!(
            yaml_of(&json!([1.0, 1.5, u64::MAX, null])),
            serde_yaml::from_str::<Yaml>("[1, 1.5, 18446744073709551615, null]").unwrap()
        );
    }
}
