//! Nothing that one version takes is lost in another.
//!
//! The API server stores an object in one version and reads it in any, and each time drops the fields that the schema there does not
//! know. So what is closed in one version has to stay open where another one has more fields.

use serde_yaml::Value as Yaml;

const OPEN: &str = "x-kubernetes-preserve-unknown-fields";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// Opens a schema where it would drop what another one keeps. Returns where that was.
pub(super) fn keep(schema: &mut Yaml, other: &Yaml, at: &str) -> Vec<String> {
    let mut opened = vec![];
    open_for(schema, other, at, &mut opened);
    opened
}

fn open_for(schema: &mut Yaml, other: &Yaml, at: &str, opened: &mut Vec<String>) {
    if !may_be(other, "object") && !may_be(other, "array") {
        return;
    }
    if !is_open(schema) && drops(schema, other) {
        open(schema);
        opened.push(at.to_owned());
    }
    for (name, field) in fields_mut(schema) {
        if let Some(other) = field_of(other, &name) {
            open_for(field, &other, &format!("{at}.{name}"), opened);
        }
    }
    if let Some(values) = schema.get_mut("additionalProperties") {
        for other in all_fields(other) {
            open_for(values, &other, &format!("{at}.*"), opened);
        }
    }
    if let (Some(items), Some(other)) = (schema.get_mut("items"), items_of(other)) {
        open_for(items, &other, &format!("{at}[]"), opened);
    }
    opened.dedup();
}

/// Whether there are fields that only the other one keeps.
fn drops(schema: &Yaml, other: &Yaml) -> bool {
    let has_any = schema.get("additionalProperties").is_some();
    let is_known = |name: &String| schema.get("properties").is_some_and(|known| known.get(name).is_some());
    let is_unlimited = is_open(other) || other.get("additionalProperties").is_some();
    let has_more = !has_any && (is_unlimited || !names(other).iter().all(is_known));
    let has_items = items_of(other).is_some_and(|items| may_be(&items, "object") || may_be(&items, "array"));
    may_be(other, "object") && has_more || may_be(other, "array") && has_items && schema.get("items").is_none()
}

fn open(schema: &mut Yaml) {
    let is_map = schema.get("type").and_then(Yaml::as_str) == Some("object");
    let Some(schema) = schema.as_mapping_mut() else { return };
    // Only maps, and what has no type, can be open.
    if !is_map {
        schema.remove("type");
        schema.remove(INT_OR_STRING);
    }
    schema.insert(OPEN.into(), true.into());
}

fn is_open(schema: &Yaml) -> bool {
    schema.get(OPEN).and_then(Yaml::as_bool).unwrap_or_default()
}

fn may_be(schema: &Yaml, name: &str) -> bool {
    match schema.get("type").and_then(Yaml::as_str) {
        Some(own) => own == name,
        None => schema.get(INT_OR_STRING).is_none(),
    }
}

fn anything() -> Yaml {
    Yaml::Mapping([(OPEN.into(), true.into())].into_iter().collect())
}

fn names(schema: &Yaml) -> Vec<String> {
    let properties = schema.get("properties").and_then(Yaml::as_mapping);
    properties.into_iter().flatten().filter_map(|(name, _)| name.as_str()).map(str::to_owned).collect()
}

fn fields_mut(schema: &mut Yaml) -> Vec<(String, &mut Yaml)> {
    let properties = schema.get_mut("properties").and_then(Yaml::as_mapping_mut);
    properties.into_iter().flatten().filter_map(|(name, field)| Some((name.as_str()?.to_owned(), field))).collect()
}

/// What a field of this name may be; None where it is not kept.
fn field_of(schema: &Yaml, name: &str) -> Option<Yaml> {
    let listed = schema.get("properties").and_then(|properties| properties.get(name));
    let known = listed.or_else(|| schema.get("additionalProperties")).cloned();
    known.or_else(|| is_open(schema).then(anything))
}

/// What fields of any name may be.
fn all_fields(schema: &Yaml) -> Vec<Yaml> {
    let listed = schema.get("properties").and_then(Yaml::as_mapping).into_iter().flatten().map(|(_, field)| field);
    let mut all: Vec<Yaml> = listed.chain(schema.get("additionalProperties")).cloned().collect();
    all.extend(is_open(schema).then(anything));
    all
}

fn items_of(schema: &Yaml) -> Option<Yaml> {
    schema.get("items").cloned().or_else(|| (is_open(schema) && may_be(schema, "array")).then(anything))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(schema: &str, other: &str) -> (Yaml, Vec<String>) {
        let mut schema: Yaml = serde_yaml::from_str(schema).unwrap();
        let opened = keep(&mut schema, &serde_yaml::from_str(other).unwrap(), "spec");
        (schema, opened)
    }

    #[test]
    fn what_is_closed_opens_where_another_version_has_more() {
        for (schema, other, at) in [
            (
                "{type: object, properties: {a: {type: string}}}",
                "{type: object, properties: {b: {type: string}}}",
                "spec",
            ),
            ("{type: object}", "{type: object, x-kubernetes-preserve-unknown-fields: true}", "spec"),
            ("{type: object}", "{type: object, additionalProperties: {type: string}}", "spec"),
            (
                "{type: object, properties: {a: {type: array, items: {type: object}}}}",
                "{type: object, properties: {a: {type: array, items: {type: object, properties: {b: {}}}}}}",
                "spec.a[]",
            ),
            (
                "{type: object, additionalProperties: {type: object}}",
                "{type: object, properties: {a: {type: object, properties: {b: {}}}}}",
                "spec.*",
            ),
            (
                "{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}}",
                "{type: object, x-kubernetes-preserve-unknown-fields: true}",
                "spec.a",
            ),
        ] {
            assert_eq!(kept(schema, other).1, [at], "{schema} {other}");
        }
        let (text, _) = kept("{type: string, nullable: true}", "{type: object, properties: {b: {}}}");
        assert_eq!(
            serde_yaml::to_string(&text).unwrap(),
            "nullable: true\nx-kubernetes-preserve-unknown-fields: true\n"
        );
    }

    #[test]
    fn what_loses_nothing_stays_closed() {
        for (schema, other) in [
            (
                "{type: object, properties: {a: {type: string}, b: {}}}",
                "{type: object, properties: {a: {type: integer}}}",
            ),
            ("{type: object, additionalProperties: {type: string}}", "{type: object, properties: {a: {type: string}}}"),
            ("{type: string}", "{type: integer}"),
            ("{type: string}", "{x-kubernetes-int-or-string: true}"),
            ("{type: array, items: {type: string}}", "{type: array, items: {type: integer}}"),
        ] {
            let (after, opened) = kept(schema, other);
            assert_eq!((after, opened.len()), (serde_yaml::from_str::<Yaml>(schema).unwrap(), 0), "{schema}");
        }
    }
}
