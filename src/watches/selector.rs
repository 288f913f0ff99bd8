//! A LabelSelector becomes the selector string of a watch: `app=web,tier in (a,b),!old`.
//!
//! Names and values are checked here: the API server would refuse the watch again and again, where nobody sees it.

use serde_json::{Map, Value};

use super::fields::kind;

#[derive(Debug, thiserror::Error, PartialEq)]
pub enum SelectorError {
    #[error("{place} must be {wanted}, but is {found}")]
    Type { place: String, wanted: &'static str, found: &'static str },
    #[error("`{0}` is not a label: letters, digits, `-`, `_` and `.`, at most 63, after an optional `domain/`")]
    Label(String),
    #[error("`{0}` is not a value of a label: letters, digits, `-`, `_` and `.`, at most 63")]
    LabelValue(String),
    #[error("matchExpressions[{index}]: `{operator}` is not an operator: use In, NotIn, Exists or DoesNotExist")]
    Operator { index: usize, operator: String },
    #[error("matchExpressions[{index}]: {operator} needs `values`")]
    NoValues { index: usize, operator: String },
    #[error("matchExpressions[{index}]: {operator} takes no `values`")]
    Values { index: usize, operator: String },
}

/// The selector, if it selects at all, and the names of fields that are not a selector's.
pub fn read(selector: &Value) -> Result<(Option<String>, Vec<String>), SelectorError> {
    let selector = object("it", selector)?;
    let mut terms = vec![];
    for (label, value) in optional_object("matchLabels", selector.get("matchLabels"))? {
        let value = text(&format!("matchLabels.{label}"), value)?;
        terms.push(format!("{}={}", checked_label(label)?, checked_value(value)?));
    }
    for (index, expression) in list("matchExpressions", selector.get("matchExpressions"))?.iter().enumerate() {
        terms.push(term(index, expression)?);
    }
    let unknown = selector.keys().filter(|key| !matches!(key.as_str(), "matchLabels" | "matchExpressions"));
    Ok(((!terms.is_empty()).then(|| terms.join(",")), unknown.cloned().collect()))
}

fn term(index: usize, expression: &Value) -> Result<String, SelectorError> {
    let place = |field: &str| format!("matchExpressions[{index}]{field}");
    let expression = object(&place(""), expression)?;
    let label = checked_label(text(&place(".key"), expression.get("key").unwrap_or(&Value::Null))?)?;
    let operator = text(&place(".operator"), expression.get("operator").unwrap_or(&Value::Null))?;
    let mut values = vec![];
    for value in list(&place(".values"), expression.get("values"))? {
        values.push(checked_value(text(&place(".values"), value)?)?);
    }
    let named = || operator.to_owned();
    match (operator, values.is_empty()) {
        ("In", false) => Ok(format!("{label} in ({})", values.join(","))),
        ("NotIn", false) => Ok(format!("{label} notin ({})", values.join(","))),
        ("In" | "NotIn", true) => Err(SelectorError::NoValues { index, operator: named() }),
        ("Exists", true) => Ok(label.to_owned()),
        ("DoesNotExist", true) => Ok(format!("!{label}")),
        ("Exists" | "DoesNotExist", false) => Err(SelectorError::Values { index, operator: named() }),
        _ => Err(SelectorError::Operator { index, operator: named() }),
    }
}

fn object<'a>(place: &str, value: &'a Value) -> Result<&'a Map<String, Value>, SelectorError> {
    value.as_object().ok_or_else(|| wrong(place, "a map", value))
}

fn optional_object<'a>(place: &str, value: Option<&'a Value>) -> Result<Vec<(&'a String, &'a Value)>, SelectorError> {
    match value {
        None | Some(Value::Null) => Ok(vec![]),
        Some(value) => Ok(object(place, value)?.iter().collect()),
    }
}

fn list<'a>(place: &str, value: Option<&'a Value>) -> Result<&'a [Value], SelectorError> {
    match value {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(value) => Err(wrong(place, "a list", value)),
    }
}

fn text<'a>(place: &str, value: &'a Value) -> Result<&'a str, SelectorError> {
    value.as_str().ok_or_else(|| wrong(place, "text (in quotes, where it looks like a number or a boolean)", value))
}

fn wrong(place: &str, wanted: &'static str, value: &Value) -> SelectorError {
    SelectorError::Type { place: place.to_owned(), wanted, found: kind(value) }
}

fn checked_label(label: &str) -> Result<&str, SelectorError> {
    let (domain, name) = label.rsplit_once('/').map_or((None, label), |(domain, name)| (Some(domain), name));
    let is_domain = |domain: &str| {
        let part = |part: &str| is_name(part) && !part.contains(|c: char| c == '_' || c.is_ascii_uppercase());
        domain.len() <= 253 && domain.split('.').all(part)
    };
    match is_name(name) && domain.is_none_or(is_domain) {
        true => Ok(label),
        false => Err(SelectorError::Label(label.to_owned())),
    }
}

fn checked_value(value: &str) -> Result<&str, SelectorError> {
    match value.is_empty() || is_name(value) {
        true => Ok(value),
        false => Err(SelectorError::LabelValue(value.to_owned())),
    }
}

fn is_name(name: &str) -> bool {
    let is_edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let is_inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let bytes = name.as_bytes();
    bytes.len() <= 63 && is_edge(bytes.first()) && is_edge(bytes.last()) && bytes.iter().all(is_inner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_and_expressions_become_one_string() {
        let selector = json!({
            "matchLabels": {"app": "web", "example.com/tier": ""},
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["x", "y"]},
                {"key": "b", "operator": "NotIn", "values": ["z"]},
                {"key": "c", "operator": "Exists"},
                {"key": "d", "operator": "DoesNotExist", "values": []},
            ],
        });
        let expected = "app=web,example.com/tier=,a in (x,y),b notin (z),c,!d";
        assert_eq!(read(&selector), Ok((Some(expected.to_owned()), vec![])));
    }

    #[test]
    fn an_empty_selector_selects_everything() {
        assert_eq!(read(&json!({})), Ok((None, vec![])));
        assert_eq!(
            read(&json!({"matchLabels": null, "matchLabel": {"a": "b"}})),
            Ok((None, vec!["matchLabel".into()]))
        );
    }

    #[test]
    fn what_the_api_server_would_refuse_is_refused() {
        let expression = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
        let cases = [
            (json!([]), "it must be a map, but is a list"),
            (expression("Equals", json!(["x"])), "`Equals` is not an operator: use In"),
            (expression("In", json!([])), "In needs `values`"),
            (expression("Exists", json!(["x"])), "Exists takes no `values`"),
            (json!({"matchLabels": {"a": true}}), "matchLabels.a must be text"),
            (json!({"matchLabels": {"a": "x,b=c"}}), "`x,b=c` is not a value of a label"),
            (json!({"matchLabels": {"a b": "x"}}), "`a b` is not a label"),
            (json!({"matchLabels": {"A.com/a": "x"}}), "`A.com/a` is not a label"),
            (json!({"matchExpressions": [{"operator": "Exists"}]}), "matchExpressions[0].key must be text"),
        ];
        for (selector, expected) in cases {
            let message = read(&selector).unwrap_err().to_string();
            assert!(message.contains(expected), "{message:?} should contain {expected:?}");
        }
    }
}
