//! What a schema says beyond the shape of a value, as far as OpenAPI can say it.
//!
//! A translation may be loose or exact. A loose one accepts all that Helm accepts, and perhaps more: that is what a custom resource is
//! checked with. An exact one accepts the same; only that may stand below `not`, and only that makes `oneOf` of a `oneOf`.
//!
//! Nulls are special. To the API server, null has no parts: below a value that is null it looks at nothing but its type and its `enum`.
//! In a spec null takes a default away, so it has to pass; that is why a loose `enum` stands below an `anyOf` (below an `allOf`, `kubectl
//! explain` no longer sees the type).
//!
//! | module | what is in it |
//! |---|---|
//! | [`words`] | words that need no other |
//! | [`alternatives`] | `anyOf`, `oneOf`, `not`, `if`, dependencies |

use serde_json::{Map, Value};

use super::document::{Document, Draft, own_types};
use super::place::Place;
use super::schema::{Rules, Schema};
use super::types::Types;

mod alternatives;
pub(super) mod words;

use words::{about, bound, count, exclusive, is_re2, required, sized};

/// Formats that both sides check in the same way, or the API server in a more lenient one. It refuses some host names, mail addresses, URIs
/// and leap seconds that helm takes, and its durations are others.
const FORMATS: [&str; 4] = ["date", "ipv4", "ipv6", "uuid"];
/// Alternatives of alternatives; deeper ones are nobody's, or refer to themselves.
const DEEPEST: usize = 8;
/// More notes nobody reads.
const MOST_NOTES: usize = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Accepts at least what is accepted.
    Loose,
    /// Of use only where it is exact.
    Exact,
}

/// What came of a translation.
#[derive(Debug)]
pub(super) struct Told {
    pub rules: Rules,
    pub is_exact: bool,
    /// Accepts nothing, but null.
    pub is_never: bool,
}

impl Told {
    fn nothing() -> Self {
        Told { rules: Rules::default(), is_exact: true, is_never: false }
    }

    fn rules(rules: Rules) -> Self {
        Told { rules, ..Told::nothing() }
    }

    fn never() -> Self {
        Told { is_never: true, ..Told::nothing() }
    }

    fn inexact() -> Self {
        Told { is_exact: false, ..Told::nothing() }
    }

    fn and(&mut self, other: Told) {
        self.rules.and(other.rules);
        self.is_exact &= other.is_exact;
        self.is_never |= other.is_never;
    }

    fn is_always(&self) -> bool {
        self.is_exact && !self.is_never && self.rules.is_empty()
    }

    /// As one of several, or alone.
    fn written(self) -> Rules {
        if self.is_never { Rules::not(Rules::default()) } else { self.rules }
    }
}

/// Reads conditions, and notes what cannot be said.
pub(super) struct Conditions<'d, 'a> {
    document: &'d Document<'a>,
    notes: &'d mut Vec<String>,
    depth: usize,
}

/// A value that conditions are about.
struct Subject<'s, 'v> {
    /// Its shape, which is told already.
    shape: &'s Schema,
    types: Types,
    place: &'s Place<'v>,
    mode: Mode,
    /// Below `anyOf` and the like types and fields are conditions too.
    is_nested: bool,
}

impl<'d, 'a> Conditions<'d, 'a> {
    pub fn new(document: &'d Document<'a>, notes: &'d mut Vec<String>) -> Self {
        Conditions { document, notes, depth: 0 }
    }

    /// The conditions that stand directly in a schema whose shape is told.
    pub fn of_shape(&mut self, map: &'a Map<String, Value>, shape: &Schema, place: &Place<'_>) -> Rules {
        let types = shape.types.unwrap_or(Types::ALL);
        let subject = Subject { shape, types, place, mode: Mode::Loose, is_nested: false };
        self.of_map(map, &subject).written().on_shape()
    }

    fn nested(&mut self, schema: &'a Value, shape: &Schema, place: &Place<'_>, mode: Mode) -> Told {
        self.narrowed(schema, shape, shape.types.unwrap_or(Types::ALL), place, mode)
    }

    fn narrowed(&mut self, schema: &'a Value, shape: &Schema, types: Types, place: &Place<'_>, mode: Mode) -> Told {
        if self.depth == DEEPEST {
            return Told::inexact();
        }
        self.depth += 1;
        let told = self.within(schema, shape, types, place, mode);
        self.depth -= 1;
        told
    }

    fn within(&mut self, schema: &'a Value, shape: &Schema, types: Types, place: &Place<'_>, mode: Mode) -> Told {
        let parts = self.document.parts(schema, &[]);
        if parts.is_never {
            return Told::never();
        }
        let mut told = Told { is_exact: parts.missing.is_empty(), ..Told::nothing() };
        let mut subject = Subject { shape, types, place, mode, is_nested: true };
        for map in parts.maps {
            told.and(self.of_type(map, &subject));
            subject.types = subject.types & (own_types(map) | Types::NULL);
            told.and(self.of_map(map, &subject));
        }
        told
    }

    /// `type` cannot be said below `anyOf`. It need not be where the shape says it, or where no value could fit.
    fn of_type(&mut self, map: &'a Map<String, Value>, subject: &Subject<'_, '_>) -> Told {
        let (own, known) = (own_types(map).without_null(), subject.types.without_null());
        match () {
            () if (own & known).is_none() => Told::never(),
            () if own.has(known) => Told::nothing(),
            () => {
                self.note(subject, "which type it has to be in which of several alternatives is not checked");
                Told::inexact()
            }
        }
    }

    fn of_map(&mut self, map: &'a Map<String, Value>, subject: &Subject<'_, '_>) -> Told {
        let mut told = Told::nothing();
        for (word, value) in map {
            let part = self.of_word(word, value, map, subject);
            told.and(part);
        }
        told
    }

    fn of_word(
        &mut self,
        word: &str,
        value: &'a Value,
        map: &'a Map<String, Value>,
        subject: &Subject<'_, '_>,
    ) -> Told {
        let draft = self.document.draft;
        // Where types are told apart, this would be asked of others.
        if (about(word) & subject.types).without_null().is_none() {
            return Told::nothing();
        }
        match word {
            "minLength" | "maxLength" | "minItems" | "maxItems" => count(word, value),
            "minProperties" | "maxProperties" => sized(word, value, subject),
            "minimum" | "maximum" => bound(word, value, map, draft),
            "exclusiveMinimum" | "exclusiveMaximum" if draft >= Draft::Six => exclusive(word, value, map),
            "multipleOf" => self.multiple(value, subject),
            "pattern" => self.pattern(value, subject),
            "format" => self.format(value, subject),
            "enum" => self.choice(value.as_array().map_or(&[], Vec::as_slice), subject),
            "const" if draft >= Draft::Six => self.choice(std::slice::from_ref(value), subject),
            "required" => required(value, subject),
            "properties" if subject.is_nested => self.properties(value, subject),
            "items" if subject.is_nested => self.items(value, subject),
            "anyOf" => self.any_of(value, subject),
            "oneOf" => self.one_of(value, subject),
            "not" => self.not(value, subject),
            "if" if draft >= Draft::Seven => self.conditional(value, map, subject),
            "dependentRequired" | "dependentSchemas" if draft >= Draft::Y2019 => self.dependent(value, subject),
            "dependencies" if draft <= Draft::Seven => self.dependent(value, subject),
            word => self.unsaid(word, value, subject),
        }
    }

    /// Words that OpenAPI does not have.
    fn unsaid(&mut self, word: &str, value: &'a Value, subject: &Subject<'_, '_>) -> Told {
        let draft = self.document.draft;
        let says_something = match word {
            "uniqueItems" => value == &Value::Bool(true),
            "additionalProperties" => subject.is_nested && !is_anything(value),
            "patternProperties" => subject.is_nested,
            "contains" | "propertyNames" => draft >= Draft::Six && !is_anything(value),
            "unevaluatedProperties" | "unevaluatedItems" => draft >= Draft::Y2019 && !is_anything(value),
            "prefixItems" => subject.is_nested && draft >= Draft::Y2020,
            "additionalItems" => draft <= Draft::Y2019 && !is_anything(value),
            _ => false,
        };
        if !says_something {
            return Told::nothing();
        }
        self.note(subject, &format!("`{word}` cannot be said in a CRD and is not checked"));
        Told::inexact()
    }

    fn note(&mut self, subject: &Subject<'_, '_>, text: &str) {
        if subject.mode == Mode::Loose {
            note(self.notes, subject.place, text);
        }
    }

    fn multiple(&mut self, value: &Value, subject: &Subject<'_, '_>) -> Told {
        match value.as_f64() {
            Some(factor) if factor.fract() == 0.0 && factor > 0.0 => {
                Told::rules(Rules::simple("multipleOf", value.clone()))
            }
            _ => {
                self.note(subject, "`multipleOf` of a fraction is not checked, since rounding differs");
                Told::inexact()
            }
        }
    }

    fn pattern(&mut self, value: &Value, subject: &Subject<'_, '_>) -> Told {
        match value.as_str() {
            Some(pattern) if is_re2(pattern) => Told::rules(Rules::simple("pattern", pattern)),
            _ => {
                self.note(
                    subject,
                    "`pattern` uses what Kubernetes' regular expressions do not have, and is not checked",
                );
                Told::inexact()
            }
        }
    }

    /// helm checks formats only up to draft 7.
    fn format(&mut self, value: &Value, subject: &Subject<'_, '_>) -> Told {
        let name = value.as_str().unwrap_or_default();
        if self.document.draft > Draft::Seven {
            return Told::nothing();
        }
        let is_text = subject.shape.types.map(Types::without_null) == Some(Types::STRING);
        match FORMATS.contains(&name) && is_text && !subject.is_nested {
            true => Told { is_exact: false, ..Told::rules(Rules::simple("format", name)) },
            false => {
                self.note(subject, &format!("the format `{name}` is not checked"));
                Told::inexact()
            }
        }
    }

    fn choice(&mut self, values: &[Value], subject: &Subject<'_, '_>) -> Told {
        if values.iter().any(|value| value.is_object() || value.is_array()) {
            self.note(subject, "`enum` or `const` with lists or maps is not checked");
            return Told::inexact();
        }
        let has_null = values.contains(&Value::Null);
        let some: Vec<Value> = values.iter().filter(|value| !value.is_null()).cloned().collect();
        if some.is_empty() {
            return Told { is_exact: !has_null, ..Told::never() };
        }
        let rules = Rules::simple("enum", some);
        match subject.mode {
            Mode::Exact => Told { is_exact: !has_null && !is_mistaken(values, subject.types), ..Told::rules(rules) },
            Mode::Loose => Told::rules(Rules::any_of(vec![rules])),
        }
    }

    fn properties(&mut self, value: &'a Value, subject: &Subject<'_, '_>) -> Told {
        let mut told = Told::nothing();
        for (name, schema) in value.as_object().into_iter().flatten() {
            // The API server wants no word on `metadata` there.
            let Some(shape) = subject.shape.property(name).filter(|_| name != "metadata") else {
                told.is_exact &= is_anything(schema);
                continue;
            };
            let place = subject.place.field(name);
            if place.is_global {
                told.is_exact &= is_anything(schema);
                continue;
            }
            let part = self.nested(schema, shape, &place, subject.mode);
            let allows_null = shape.types.is_none_or(|types| types.has(Types::NULL));
            told.is_exact &= part.is_always()
                || (part.is_exact && !part.is_never && !subject.place.given.may_have(name) && !allows_null);
            let rules = part.written();
            if !rules.is_empty() {
                told.rules.properties.insert(name.clone(), rules);
            }
        }
        told
    }

    fn items(&mut self, value: &'a Value, subject: &Subject<'_, '_>) -> Told {
        let Some(shape) = subject.shape.items.as_deref().filter(|_| !value.is_array()) else {
            return if is_anything(value) { Told::nothing() } else { Told::inexact() };
        };
        let part = self.nested(value, shape, &subject.place.item(), subject.mode);
        let is_exact = part.is_exact && !part.is_never;
        let rules = part.written();
        let items = (!rules.is_empty()).then(|| Box::new(rules));
        Told { is_exact, ..Told::rules(Rules { items, ..Rules::default() }) }
    }
}

pub(super) fn note(notes: &mut Vec<String>, place: &Place<'_>, text: &str) {
    let note = format!("{}: {text}", place.at);
    if notes.len() < MOST_NOTES && !notes.contains(&note) {
        notes.push(note);
    }
}

/// The API server converts a value to the type of a choice before it compares them: 0.5 becomes 0, and 65 becomes "A".
fn is_mistaken(values: &[Value], types: Types) -> bool {
    let is_integer = |value: &Value| Types::of_value(value) == Types::INTEGER;
    let is_letter = |value: &Value| value.as_str().is_some_and(|text| text.chars().count() == 1);
    let may_be = |one: Types| !(types & one).is_none();
    may_be(Types::FRACTION) && values.iter().any(is_integer) || may_be(Types::INTEGER) && values.iter().any(is_letter)
}

/// `true` or `{}`.
pub(super) fn is_anything(schema: &Value) -> bool {
    matches!(schema, Value::Bool(true)) || schema.as_object().is_some_and(Map::is_empty)
}
