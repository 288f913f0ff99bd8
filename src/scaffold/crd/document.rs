//! A values.schema.json: its draft, its references, and the parts that hold for one value.

use serde_json::{Map, Value};

use super::types::Types;

/// Which words mean what. Later drafts compare as greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Draft {
    Four,
    Six,
    Seven,
    Y2019,
    Y2020,
}

impl Draft {
    /// A schema that names none is read as the latest, as helm does.
    fn of(schema: &Value) -> Draft {
        let name = schema["$schema"].as_str().unwrap_or_default();
        match name {
            name if name.contains("draft-04") => Draft::Four,
            name if name.contains("draft-06") => Draft::Six,
            name if name.contains("draft-07") => Draft::Seven,
            name if name.contains("2019-09") => Draft::Y2019,
            _ => Draft::Y2020,
        }
    }
}

pub(super) struct Document<'a> {
    pub root: &'a Value,
    pub draft: Draft,
    /// Parts with an address of their own: references below them are not relative to the root.
    has_parts_with_id: bool,
}

/// The parts of a schema that all hold for one value.
#[derive(Debug, Default)]
pub(super) struct Parts<'a> {
    pub maps: Vec<&'a Map<String, Value>>,
    /// Nothing is accepted.
    pub is_never: bool,
    /// What references led to.
    pub entered: Vec<&'a Value>,
    /// Why something is missing.
    pub missing: Vec<Missing>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// It refers to what it is a part of.
    Recursion(String),
    Unknown(String),
}

impl<'a> Document<'a> {
    pub fn new(root: &'a Value) -> Self {
        let draft = Draft::of(root);
        let has_parts_with_id = root.as_object().is_some_and(|map| {
            map.iter()
                .filter(|(key, _)| !matches!(key.as_str(), "$id" | "id" | "enum" | "const" | "default"))
                .any(|(_, part)| has_id(part, if draft == Draft::Four { "id" } else { "$id" }))
        });
        Document { root, draft, has_parts_with_id }
    }

    /// Follows references and `allOf`. `above` is what was entered on the way to here.
    pub fn parts(&self, schema: &'a Value, above: &[&'a Value]) -> Parts<'a> {
        let mut parts = Parts::default();
        self.gather(schema, above, &mut parts);
        parts
    }

    fn gather(&self, schema: &'a Value, above: &[&'a Value], parts: &mut Parts<'a>) {
        let map = match schema {
            Value::Bool(false) => return parts.is_never = true,
            Value::Object(map) => map,
            _ => return,
        };
        for word in ["$ref", "$dynamicRef", "$recursiveRef"] {
            let Some(reference) = map.get(word).and_then(Value::as_str) else { continue };
            match self.resolve(reference).filter(|_| word == "$ref") {
                None => parts.missing.push(Missing::Unknown(reference.to_owned())),
                Some(target) if is_in(above, target) || is_in(&parts.entered, target) => {
                    parts.missing.push(Missing::Recursion(reference.to_owned()));
                }
                Some(target) => {
                    parts.entered.push(target);
                    self.gather(target, above, parts);
                }
            }
        }
        // In older drafts, what stands beside a reference does not count.
        if self.draft <= Draft::Seven && map.contains_key("$ref") {
            return;
        }
        parts.maps.push(map);
        for part in map.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.gather(part, above, parts);
        }
    }

    fn resolve(&self, reference: &str) -> Option<&'a Value> {
        let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let own = self.root["$id"].as_str().or_else(|| self.root["id"].as_str());
        let is_own = document.is_empty() || own.is_some_and(|own| own.trim_end_matches('#') == document);
        match () {
            () if !is_own || self.has_parts_with_id => None,
            () if fragment.is_empty() => Some(self.root),
            () if fragment.starts_with('/') => self.root.pointer(&percent_decoded(fragment)),
            () => anchored(self.root, fragment),
        }
    }

    /// What a value may be, by all that is said about it.
    pub fn types(&self, schema: &'a Value, depth: usize) -> Types {
        const DEEPEST: usize = 6;
        if depth > DEEPEST {
            return Types::ALL;
        }
        let parts = self.parts(schema, &[]);
        if parts.is_never {
            return Types::NONE;
        }
        parts.maps.iter().fold(Types::ALL, |types, map| types & self.types_of_map(map, depth))
    }

    pub fn types_of_map(&self, map: &'a Map<String, Value>, depth: usize) -> Types {
        let mut types = own_types(map);
        if let Some(constant) = map.get("const").filter(|_| self.draft >= Draft::Six) {
            types = types & widened(Types::of_value(constant));
        }
        if let Some(list) = map.get("enum").and_then(Value::as_array) {
            let all = list.iter().fold(Types::NONE, |all, value| all | widened(Types::of_value(value)));
            types = types & all;
        }
        for word in ["anyOf", "oneOf"] {
            if let Some(branches) = map.get(word).and_then(Value::as_array) {
                let all = branches.iter().fold(Types::NONE, |all, branch| all | self.types(branch, depth + 1));
                types = types & all;
            }
        }
        types
    }
}

/// A constant 1.5 is a number, of which there are others.
fn widened(types: Types) -> Types {
    if Types::NUMBER.has(types) && !Types::INTEGER.has(types) { Types::NUMBER } else { types }
}

/// What `type` says.
pub(super) fn own_types(map: &Map<String, Value>) -> Types {
    match map.get("type") {
        Some(Value::String(name)) => Types::of_name(name),
        Some(Value::Array(names)) => {
            let names = names.iter().filter_map(Value::as_str);
            names.fold(Types::NONE, |all, name| all | Types::of_name(name))
        }
        _ => Types::ALL,
    }
}

fn is_in(list: &[&Value], value: &Value) -> bool {
    list.iter().any(|one| std::ptr::eq(*one, value))
}

fn has_id(value: &Value, word: &str) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| has_id(item, word)),
        Value::Object(map) => map.iter().any(|(key, value)| match value {
            // A property may be called so.
            Value::String(id) => key == word && !id.starts_with('#'),
            value => !matches!(key.as_str(), "enum" | "const" | "default" | "examples") && has_id(value, word),
        }),
        _ => false,
    }
}

fn anchored<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Array(items) => items.iter().find_map(|item| anchored(item, name)),
        Value::Object(map) => {
            let is_named = |word: &str| map.get(word).and_then(Value::as_str);
            let by_id =
                ["$id", "id"].iter().any(|word| is_named(word).and_then(|id| id.strip_prefix('#')) == Some(name));
            let by_anchor = ["$anchor", "$dynamicAnchor"].iter().any(|word| is_named(word) == Some(name));
            match by_id || by_anchor {
                true => Some(value),
                false => map.values().find_map(|value| anchored(value, name)),
            }
        }
        _ => None,
    }
}

fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match (bytes[at], hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                at += 3;
            }
            (byte, _) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_followed_inside_of_the_document() {
        let root = json!({
            "$id": "https://example.com/values.json",
            "definitions": {"a b": {"type": "string"}, "c/d": {"type": "integer"}, "e": {"$anchor": "here", "type": "boolean"}},
        });
        let document = Document::new(&root);
        let types = |reference: &str| {
            let schema = json!({"$ref": reference});
            let schema: &'static Value = Box::leak(Box::new(schema));
            let root: &'static Value = Box::leak(Box::new(root.clone()));
            Document::new(root).types(schema, 0)
        };
        assert_eq!(document.draft, Draft::Y2020);
        assert_eq!(types("#/definitions/a%20b"), Types::STRING);
        assert_eq!(types("#/definitions/c~1d"), Types::INTEGER);
        assert_eq!(types("#here"), Types::BOOLEAN);
        assert_eq!(types("https://example.com/values.json#/definitions/e"), Types::BOOLEAN);
        assert_eq!(types("#/nowhere"), Types::ALL);
        assert_eq!(types("other.json"), Types::ALL);
    }

    #[test]
    fn beside_a_reference_nothing_counts_in_older_drafts() {
        let check = |draft: &str, expected: usize| {
            let root = json!({
                "$schema": draft,
                "definitions": {"a": {"type": "string"}},
                "properties": {"x": {"$ref": "#/definitions/a", "minLength": 1}},
            });
            let document = Document::new(&root);
            assert_eq!(document.parts(&root["properties"]["x"], &[]).maps.len(), expected, "{draft}");
        };
        check("http://json-schema.org/draft-04/schema#", 1);
        check("http://json-schema.org/draft-07/schema#", 1);
        check("https://json-schema.org/draft/2019-09/schema", 2);
    }

    #[test]
    fn a_loop_of_references_ends() {
        let root = json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"});
        let parts = Document::new(&root).parts(&root, &[&root]);
        assert_eq!(parts.missing, [Missing::Recursion("#/$defs/a".into())]);
    }

    #[test]
    fn a_part_with_an_address_of_its_own_makes_references_unknown() {
        let root = json!({"$defs": {"a": {"$id": "https://example.com/a", "type": "string"}}, "properties": {"$id": {"type": "string"}}});
        let schema = json!({"$ref": "#/$defs/a"});
        let parts = Document::new(&root).parts(&schema, &[]);
        assert_eq!(parts.missing, [Missing::Unknown("#/$defs/a".into())]);
    }

    #[test]
    fn types_are_narrowed_by_all_that_is_said() {
        let root = json!({});
        let document = Document::new(&root);
        for (schema, types) in [
            (json!({"type": ["string", "null"]}), Types::STRING | Types::NULL),
            (json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}), Types::STRING | Types::INTEGER),
            (json!({"type": "number", "allOf": [{"type": ["integer", "string"]}]}), Types::INTEGER),
            (json!({"enum": ["a", true]}), Types::STRING | Types::BOOLEAN),
            (json!({"const": 1.5}), Types::NUMBER),
            (json!(false), Types::NONE),
            (json!(true), Types::ALL),
        ] {
            let schema: &'static Value = Box::leak(Box::new(schema));
            let root: &'static Value = Box::leak(Box::new(root.clone()));
            assert_eq!(Document::new(root).types(schema, 0), types, "{schema}");
        }
        assert_eq!(document.draft, Draft::Y2020);
    }
}
