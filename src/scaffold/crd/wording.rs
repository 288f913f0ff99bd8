//! What a field's description says, so that `kubectl explain` reads well.

use serde_json::Value;

use super::types::Types;
use crate::scaffold::values::Field;

/// Longer ones are cut. A person does not read more, and a CRD must fit the API server.
pub(super) const LONGEST: usize = 700;
/// A default that takes more room is not shown.
const LONGEST_DEFAULT: usize = 100;

/// All that there is to say about a value.
#[derive(Debug, Default)]
pub(super) struct About<'v> {
    /// What the schema says about it.
    pub schema: &'v str,
    pub field: Option<&'v Field>,
    /// What it may be, where the API server is not told.
    pub one_of: &'v [Value],
    pub types: Option<Types>,
    pub default: Option<&'v Value>,
}

impl About<'_> {
    pub fn description(&self) -> String {
        let comment = self.field.map_or("", |field| &field.description);
        let text = if self.schema.trim().is_empty() { comment } else { self.schema };
        let mut sentences = vec![cut(&joined(text))];
        if !self.one_of.is_empty() {
            let words: Vec<String> = self.one_of.iter().map(written).collect();
            sentences.push(format!("One of {}.", words.join(", ")));
        }
        let said = self.field.and_then(|field| field.type_name.clone());
        let types = said.or_else(|| self.types.map(Types::words).filter(|words| !words.is_empty()));
        if let Some(types) = types.filter(|_| self.types.is_some()) {
            sentences.push(format!("Type: {types}, not enforced."));
        }
        if let Some(default) = self.default_words() {
            sentences.push(format!("Default: {default}."));
        }
        let ended = |text: String| match text.chars().last() {
            None | Some('.' | '!' | '?' | ':' | '…') => text,
            Some(_) => format!("{text}."),
        };
        let several = sentences.iter().filter(|sentence| !sentence.is_empty()).count() > 1;
        let sentences = sentences.into_iter().filter(|sentence| !sentence.is_empty());
        sentences.map(|text| if several { ended(text) } else { text }).collect::<Vec<_>>().join(" ")
    }

    fn default_words(&self) -> Option<String> {
        if let Some(said) = self.field.and_then(|field| field.default.as_deref()).filter(|said| !said.is_empty()) {
            return Some(said.trim_end_matches('.').to_owned()).filter(|said| said.len() <= LONGEST_DEFAULT);
        }
        match self.default? {
            Value::Null => None,
            Value::Object(map) if !map.is_empty() => None,
            value => Some(written(value)).filter(|text| text.len() <= LONGEST_DEFAULT && !text.contains('\n')),
        }
    }
}

/// As a person writes it in YAML, near enough.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) if !text.is_empty() && text.trim() == text && !text.ends_with(['.', ',']) => text.clone(),
        Value::Number(number) => match number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 1e15) {
            Some(number) => format!("{number:.0}"),
            None => number.to_string(),
        },
        value => value.to_string(),
    }
}

/// One line, without control characters.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(super) fn cut(text: &str) -> String {
    cut_at(text, LONGEST)
}

pub(super) fn cut_at(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    if longest == 0 {
        return String::new();
    }
    let short: String = text.chars().take(longest.saturating_sub(1)).collect();
    let end = short.rfind(' ').unwrap_or(short.len());
    format!("{}…", short[..end].trim_end_matches([',', ';', ' ']))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_description_names_what_is_not_seen_elsewhere() {
        let field = Field { description: "The\nport".into(), ..Field::default() };
        let port = json!(80.0);
        let about =
            About { field: Some(&field), default: Some(&port), types: Some(Types::INTEGER), ..About::default() };
        assert_eq!(about.description(), "The port. Type: integer, not enforced. Default: 80.");
        let values = [json!("A"), json!("B")];
        let about = About { schema: "Which.", field: Some(&field), one_of: &values, ..About::default() };
        assert_eq!(about.description(), "Which. One of A, B.");
        let empty = json!("");
        assert_eq!(About { default: Some(&empty), ..About::default() }.description(), "Default: \"\".");
        let map = json!({"a": 1});
        assert_eq!(About { schema: "x", default: Some(&map), ..About::default() }.description(), "x");
        let said =
            Field { default: Some("the release's name".into()), type_name: Some("tpl".into()), ..Field::default() };
        let about = About { field: Some(&said), default: Some(&empty), types: Some(Types::STRING), ..About::default() };
        assert_eq!(about.description(), "Type: tpl, not enforced. Default: the release's name.");
    }

    #[test]
    fn a_long_description_is_cut_between_words() {
        let text = "word ".repeat(1000);
        let short = cut(&text);
        assert!(short.chars().count() <= LONGEST && short.ends_with("word…"), "{short}");
    }
}
