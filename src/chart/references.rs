//! What a schema of values refers to.
//!
//! helm loads whatever `$ref` names, from the disk and from the network. A chart is what is in its directory; so a reference must be
//! a fragment (`#/$defs/port`), or one of the drafts that helm brings along.
//!
//! An `$id` in the schema makes no difference. Whether it counts as one depends on where it stands, on the draft, and on what stands
//! beside it; a reference to one that does not count is loaded. Pure.

use serde_json::Value;

/// Their values name a schema.
const REFERENCES: [&str; 4] = ["$ref", "$dynamicRef", "$recursiveRef", "$schema"];
/// Those that helm need not load, below json-schema.org.
const DRAFTS: [&str; 6] =
    ["schema", "draft-04/schema", "draft-06/schema", "draft-07/schema", "draft/2019-09/schema", "draft/2020-12/schema"];

/// A values.schema.json. helm passes over a byte order mark.
pub(crate) fn parsed(schema: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(schema.strip_prefix("\u{feff}".as_bytes()).unwrap_or(schema))
}

/// The first reference that leads out of a schema, or why nobody can tell.
pub(super) fn outside(schema: &[u8]) -> Result<Option<String>, String> {
    let schema = parsed(schema).map_err(|error| error.to_string())?;
    let mut references = vec![];
    texts_at(&schema, &REFERENCES, &mut references);
    let is_inside = |reference: &&str| {
        let (document, _) = reference.split_once('#').unwrap_or((reference, ""));
        document.is_empty() || is_draft(document)
    };
    Ok(references.into_iter().find(|reference| !is_inside(reference)).map(str::to_owned))
}

fn is_draft(document: &str) -> bool {
    let path =
        ["http://json-schema.org/", "https://json-schema.org/"].iter().find_map(|host| document.strip_prefix(host));
    path.is_some_and(|path| DRAFTS.contains(&path))
}

fn texts_at<'a>(value: &'a Value, keys: &[&str], found: &mut Vec<&'a str>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| texts_at(item, keys, found)),
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(text) if keys.contains(&key.as_str()) => found.push(text),
                    value => texts_at(value, keys, found),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const DRAFT: &str = "http://json-schema.org/draft-07/schema#";

    fn of(schema: Value) -> Option<String> {
        outside(schema.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn only_fragments_and_drafts_are_inside() {
        for inside in ["", "#", "#/$defs/a", "#a", DRAFT, "https://json-schema.org/draft/2020-12/schema"] {
            let schema = json!({
                "$schema": DRAFT,
                "$id": "https://example.com/values.schema.json",
                "$defs": {"a": {"$id": "https://example.com/port.json", "$anchor": "a"}},
                "properties": {"a": {"$ref": inside}},
            });
            assert_eq!(of(schema), None, "{inside}");
        }
        let near = ["https://json-schema.org/draft-07/schema/../x", "http://json-schema.org/draft/2020-12/x"];
        let plain = ["file:///etc/passwd", "https://example.com/a.json", "a.json", "a.json#/x", "/etc/passwd", "urn:x"];
        for out in plain.into_iter().chain(near) {
            let schema = json!({"$id": "a.json", "allOf": [{"properties": {"default": {"$ref": out}}}]});
            assert_eq!(of(schema).as_deref(), Some(out));
        }
        assert_eq!(of(json!({"$schema": "https://example.com/own"})).as_deref(), Some("https://example.com/own"));
        assert_eq!(of(json!({"properties": {"$ref": {"type": "string"}}})), None);
        assert!(outside(b"{").is_err());
    }

    #[test]
    fn an_id_makes_no_reference_harmless() {
        for out in ["file:///run/token", "http://127.0.0.1:9/x.json"] {
            let dressed = [
                json!({"properties": {"x": {"const": {"$id": out}}}, "allOf": [{"$ref": out}]}),
                json!({"enum": [{"id": out}], "allOf": [{"$ref": out}]}),
                // In draft 7, what stands beside a `$ref` does not count.
                json!({"$schema": DRAFT, "$id": out, "$ref": out}),
            ];
            for schema in dressed {
                assert_eq!(of(schema).as_deref(), Some(out));
            }
        }
    }
}
