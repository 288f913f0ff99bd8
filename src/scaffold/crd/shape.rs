//! The shape of a value, from what a schema says about it: its type, its fields, its items.
//!
//! Whatever cannot be said stays open, and a note tells where. A field that only stands below `anyOf` or `if` is part of the shape too,
//! since the API server wants to know every field that a condition names; but nothing is asked of it there.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::Options;
use super::document::{Document, Draft, Missing};
use super::inferred::inferred;
use super::place::{Given, Place};
use super::rules::{Conditions, is_anything, note};
use super::schema::{Rules, Schema};
use super::types::Types;
use super::wording::About;
use crate::scaffold::values::Field;

/// How deep values are followed: deeper than any chart's. Where references multiply, less deep, until it is not too much.
const DEEPEST: [usize; 6] = [40, 12, 8, 6, 4, 3];
const MOST_SHAPES: usize = 20_000;
/// Alternatives of alternatives that are looked through for names of fields.
const MOST_HINTS: usize = 400;

type Keywords = Map<String, Value>;

pub(super) struct Shapes<'d, 'a> {
    pub document: &'d Document<'a>,
    pub options: &'d Options,
    pub notes: &'d mut Vec<String>,
    /// What references led to on the way to here.
    above: Vec<&'a Value>,
    hinted_above: Vec<&'a Value>,
    deepest: usize,
    made: usize,
}

/// Schemas for one value: those that hold, and those that may.
#[derive(Clone, Debug, Default)]
struct Said<'a> {
    holds: Vec<&'a Value>,
    hints: Vec<&'a Value>,
}

/// The same, with references followed.
#[derive(Default)]
struct Found<'a> {
    maps: Vec<&'a Keywords>,
    hints: Vec<&'a Keywords>,
    is_never: bool,
}

impl<'d, 'a> Shapes<'d, 'a> {
    pub fn new(document: &'d Document<'a>, options: &'d Options, notes: &'d mut Vec<String>) -> Self {
        Shapes { document, options, notes, above: vec![], hinted_above: vec![], deepest: 0, made: 0 }
    }

    /// The whole of a chart's values.
    pub fn root(&mut self, given: Given<'_>, place: &Place<'_>, fields: &Field) -> Schema {
        let place = Place { given, ..place.clone() };
        let said = Said { holds: vec![self.document.root], hints: vec![] };
        let noted = self.notes.len();
        for deepest in DEEPEST {
            self.notes.truncate(noted);
            (self.above, self.deepest, self.made) = (vec![self.document.root], place.depth + deepest, 0);
            let schema = self.shape(&said, &place, Some(fields));
            if self.made <= MOST_SHAPES {
                if deepest < DEEPEST[0] {
                    note(
                        self.notes,
                        &place,
                        &format!("what is more than {deepest} levels deep is not checked: it is too much"),
                    );
                }
                return schema;
            }
        }
        note(self.notes, &place, "the schema is too large, and is not checked");
        Schema::open()
    }

    fn shape(&mut self, said: &Said<'a>, place: &Place<'_>, field: Option<&Field>) -> Schema {
        let marks = (self.above.len(), self.hinted_above.len());
        let found = self.found(said, place);
        self.made += 1;
        let schema = match place.depth > self.deepest || self.made > MOST_SHAPES {
            true => Schema::open(),
            false => self.shape_of(said, &found, place, field),
        };
        self.above.truncate(marks.0);
        self.hinted_above.truncate(marks.1);
        schema
    }

    fn found(&mut self, said: &Said<'a>, place: &Place<'_>) -> Found<'a> {
        let mut found = Found::default();
        for schema in &said.holds {
            // The root is above itself.
            let is_root = std::ptr::eq(*schema, self.document.root);
            let above = if is_root { &[][..] } else { &self.above[..] };
            let parts = self.document.parts(schema, above);
            for missing in &parts.missing {
                note(self.notes, place, &words(missing));
            }
            found.is_never |= parts.is_never;
            self.above.extend(parts.entered);
            found.maps.extend(parts.maps);
        }
        let mut open: Vec<&'a Value> = said.hints.clone();
        open.extend(found.maps.iter().flat_map(|map| alternatives(map)));
        let mut looked = 0;
        while let Some(hint) = open.pop() {
            looked += 1;
            if looked > MOST_HINTS {
                break;
            }
            let parts = self.document.parts(hint, &self.hinted_above);
            self.hinted_above.extend(parts.entered);
            open.extend(parts.maps.iter().flat_map(|map| alternatives(map)));
            found.hints.extend(parts.maps);
        }
        found
    }

    fn shape_of(&mut self, said: &Said<'a>, found: &Found<'a>, place: &Place<'_>, field: Option<&Field>) -> Schema {
        let types = said.holds.iter().fold(Types::ALL, |types, schema| types & self.document.types(schema, 0));
        if found.is_never || types.without_null().is_none() {
            let rules = Rules::not(Rules::default());
            return Schema { description: "Not accepted by the chart.".into(), rules, ..Schema::open() };
        }
        let mut schema = Schema {
            types: (types != Types::ALL).then_some(types),
            is_nullable: !place.is_in_list || types.has(Types::NULL),
            ..Schema::default()
        };
        if types.has(Types::OBJECT) {
            self.fields(&mut schema, found, place, field);
        }
        if types.has(Types::ARRAY) {
            self.items(&mut schema, found, place);
        }
        self.mind_types(&schema, place);
        for map in &found.maps {
            let rules = Conditions::new(self.document, self.notes).of_shape(map, &schema, place);
            schema.rules.and(rules);
        }
        schema.description = description(found, &schema, place, field);
        schema
    }

    /// Several types cannot be said, but for a number or a text.
    fn mind_types(&mut self, schema: &Schema, place: &Place<'_>) {
        let types = schema.types.unwrap_or(Types::ALL);
        let is_closed = types.has(Types::OBJECT) && !schema.is_open && schema.additional.is_none();
        if is_closed && types.name().is_none() && !place.is_chart {
            note(self.notes, place, "that it has no other fields is not checked, since it need not be a map");
        }
        if schema.types.is_some() && types.name().is_none() && !schema.is_int_or_string() {
            note(self.notes, place, &format!("that it is {} is not checked", types.words()));
        }
    }

    fn fields(&mut self, schema: &mut Schema, found: &Found<'a>, place: &Place<'_>, field: Option<&Field>) {
        let names = names(found);
        let (mut is_closed, mut of_any) = (false, vec![]);
        for map in &found.maps {
            match self.others(map, place) {
                Others::Free => {}
                Others::None => is_closed = true,
                Others::Like(schemas) => of_any.push(schemas),
            }
        }
        let covers_all = is_closed || !of_any.is_empty();
        for name in ordered(names, field) {
            let child = self.said_of(found, &name);
            let inner = field.and_then(|field| field.get(&name));
            let shape = self.shape(&child, &place.field(&name), inner);
            schema.properties.push((name, shape));
        }
        if !covers_all {
            self.add_inferred(schema, place, field);
        }
        schema.is_open = !is_closed;
        if of_any.is_empty() {
            return;
        }
        if schema.properties.is_empty() {
            let said = Said { holds: of_any, hints: vec![] };
            schema.additional = Some(Box::new(self.shape(&said, &place.any_field(), None)));
            schema.is_open = false;
        } else {
            schema.is_open = true;
            note(self.notes, place, "what fields of other names have to be is not checked");
        }
    }

    /// What the values have and the schema does not speak of.
    fn add_inferred(&mut self, schema: &mut Schema, place: &Place<'_>, field: Option<&Field>) {
        for (name, field) in field.into_iter().flat_map(|field| &field.fields) {
            if !field.is_hidden && schema.property(name).is_none() {
                let default = place.given.field(name).value();
                schema.properties.push((name.clone(), inferred(default, Some(field), self.options)));
            }
        }
    }

    /// What a schema says about fields that it does not list.
    fn others(&mut self, map: &'a Keywords, place: &Place<'_>) -> Others<'a> {
        let patterns = map.get("patternProperties").and_then(Value::as_object).filter(|patterns| !patterns.is_empty());
        let rest = map.get("additionalProperties").unwrap_or(&Value::Bool(true));
        match (patterns, rest) {
            (None, Value::Bool(false)) => Others::None,
            (None, rest) if is_anything(rest) => Others::Free,
            (None, rest) => Others::Like(rest),
            (Some(patterns), Value::Bool(false)) if patterns.len() == 1 => {
                note(self.notes, place, "the pattern of `patternProperties` is not checked, only the values");
                patterns.values().next().filter(|schema| !is_anything(schema)).map_or(Others::Free, Others::Like)
            }
            (Some(_), _) => {
                note(self.notes, place, "`patternProperties` cannot be said in a CRD and is not checked");
                Others::Free
            }
        }
    }

    fn said_of(&self, found: &Found<'a>, name: &str) -> Said<'a> {
        let mut said = Said::default();
        for map in &found.maps {
            let own = map.get("properties").and_then(|properties| properties.get(name));
            let has_patterns = map.contains_key("patternProperties");
            let rest = map.get("additionalProperties").filter(|rest| rest.is_object() && !has_patterns);
            said.holds.extend(own.or(rest));
        }
        let hinted = |map: &&'a Keywords| map.get("properties").and_then(|properties| properties.get(name));
        said.hints.extend(found.hints.iter().filter_map(hinted));
        said
    }

    fn items(&mut self, schema: &mut Schema, found: &Found<'a>, place: &Place<'_>) {
        let mut said = Said::default();
        let mut is_tuple = false;
        for map in &found.maps {
            match map.get("items") {
                Some(Value::Array(_)) => is_tuple = true,
                // With `prefixItems`, it speaks of the rest only.
                Some(_) if self.document.draft >= Draft::Y2020 && map.contains_key("prefixItems") => is_tuple = true,
                Some(items) => said.holds.push(items),
                None => is_tuple |= self.document.draft >= Draft::Y2020 && map.contains_key("prefixItems"),
            }
        }
        let hinted = |map: &&'a Keywords| map.get("items").filter(|items| !items.is_array());
        said.hints.extend(found.hints.iter().filter_map(hinted));
        if is_tuple {
            note(self.notes, place, "items that differ by their place in the list are not checked");
        }
        let is_list = schema.types.is_some_and(|types| types.without_null() == Types::ARRAY);
        if is_list || !said.holds.is_empty() || !said.hints.is_empty() {
            schema.items = Some(Box::new(self.shape(&said, &place.item(), None)));
        }
    }
}

enum Others<'a> {
    /// Any name, any value.
    Free,
    None,
    Like(&'a Value),
}

/// Schemas of which some may hold for the same value.
fn alternatives(map: &Keywords) -> Vec<&Value> {
    let lists = ["anyOf", "oneOf"].iter().filter_map(|word| map.get(*word)?.as_array()).flatten();
    let single = ["not", "if", "then", "else"].iter().filter_map(|word| map.get(*word));
    let maps = ["dependencies", "dependentSchemas"].iter().filter_map(|word| map.get(*word)?.as_object());
    lists.chain(single).chain(maps.flat_map(Map::values)).filter(|schema| schema.is_object()).collect()
}

fn names(found: &Found<'_>) -> BTreeSet<String> {
    let maps = found.maps.iter().chain(&found.hints);
    let properties = maps.filter_map(|map| map.get("properties")?.as_object());
    properties.flat_map(|properties| properties.keys().cloned()).collect()
}

/// As in values.yaml; what is not there comes last.
fn ordered(names: BTreeSet<String>, field: Option<&Field>) -> Vec<String> {
    let in_file = field.into_iter().flat_map(|field| &field.fields).map(|(name, _)| name);
    let mut ordered: Vec<String> = in_file.filter(|name| names.contains(*name)).cloned().collect();
    ordered.extend(names.into_iter().filter(|name| field.is_none_or(|field| field.get(name).is_none())));
    ordered
}

fn description(found: &Found<'_>, schema: &Schema, place: &Place<'_>, field: Option<&Field>) -> String {
    let said = |word: &str| found.maps.iter().find_map(|map| map.get(word)?.as_str()).filter(|text| !text.is_empty());
    let choices = found.maps.iter().find_map(|map| match (map.get("enum"), map.get("const")) {
        (Some(Value::Array(list)), _) => Some(list.clone()),
        (_, Some(value)) => Some(vec![value.clone()]),
        _ => None,
    });
    let choices = choices.filter(|list| list.len() <= 20 && list.iter().all(|one| !one.is_object() && !one.is_array()));
    // The API server is told one type only, and to be one of two.
    let unsaid = schema.types.filter(|types| types.name().is_none() && !schema.is_int_or_string());
    About {
        schema: said("description").or_else(|| said("title")).unwrap_or_default(),
        field,
        one_of: choices.as_deref().unwrap_or_default(),
        types: unsaid,
        default: place.given.value(),
    }
    .description()
}

fn words(missing: &Missing) -> String {
    match missing {
        Missing::Recursion(reference) => format!("`{reference}` refers to itself, and is not checked from here on"),
        Missing::Unknown(reference) => format!("`{reference}` cannot be followed, and is not checked"),
    }
}
