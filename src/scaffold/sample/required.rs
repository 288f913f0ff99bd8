//! What a spec must have and the chart's values do not give. A sample without it would be refused.
//!
//! Pure. The definition of the kind tells it: that is what the API server goes by.

use serde_json::Value;

use crate::scaffold::values::ChartValues;

/// Longer descriptions are cut: `kubectl explain` has them.
const LONGEST: usize = 100;
/// What a value that is made up cannot be known to fit.
const RULES: [&str; 13] = [
    "enum",
    "pattern",
    "format",
    "minLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "anyOf",
    "allOf",
    "oneOf",
    "not",
];

/// A field that somebody has to fill in.
#[derive(Debug, PartialEq)]
pub(super) struct Required {
    /// With dots.
    pub path: String,
    about: String,
    /// One that the definition takes; only at the top of the spec.
    pub value: Option<Value>,
}

impl Required {
    /// `name: ""  # required: Whose it is.`, or all of it as a comment.
    pub fn line(&self) -> String {
        let about = |mark: &str| if self.about.is_empty() { String::new() } else { format!("{mark} {}", self.about) };
        match &self.value {
            Some(value) => format!("  {}: {value}  # required{}\n", self.path, about(":")),
            None => self.comment(),
        }
    }

    pub fn comment(&self) -> String {
        let about = if self.about.is_empty() { String::new() } else { format!("; {}", self.about) };
        format!("  # {}: required{about}\n", self.path)
    }
}

/// `version` is that of the definition.
pub(super) fn required(version: &Value, chart: &ChartValues) -> Vec<Required> {
    let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let mut found = vec![];
    collect(spec, Some(&chart.defaults), "", &mut found);
    found
}

fn collect(schema: &Value, default: Option<&Value>, above: &str, found: &mut Vec<Required>) {
    let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let missing: Vec<&str> = names.filter(|name| default.is_none_or(|default| default.get(name).is_none())).collect();
    for name in &missing {
        let field = &schema["properties"][*name];
        let is_plain = above.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric());
        found.push(Required {
            path: format!("{above}{name}"),
            about: cut(field["description"].as_str().unwrap_or_default()),
            value: made_up(field).filter(|_| is_plain),
        });
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let default = default.and_then(|default| default.get(name));
        // What is in a map that need not be there is not needed.
        if default.is_some_and(Value::is_object) || missing.contains(&name.as_str()) {
            collect(field, default, &format!("{above}{name}."), found);
        }
    }
}

/// The emptiest value, where it is sure to fit.
fn made_up(schema: &Value) -> Option<Value> {
    if RULES.iter().any(|rule| !schema[*rule].is_null()) {
        return None;
    }
    match schema["type"].as_str()? {
        "string" => Some("".into()),
        "integer" | "number" => Some(0.into()),
        "boolean" => Some(false.into()),
        _ => None,
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text[..end].rsplit_once(' ').map_or(&text[..end], |(before, _)| before)),
    }
}
