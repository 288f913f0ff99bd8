//! What helm rendered in a proof, revision by revision: what the chart sets, set once, and never had. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::object::{Id, Objects, RECORD, at, find};

/// The objects of each revision, as helm's records have them.
#[derive(Debug, Default)]
pub struct Rendered {
    revisions: BTreeMap<u64, Objects>,
}

impl Rendered {
    /// Takes over all records that are there. Those that are gone stay known.
    pub fn remember(&mut self, objects: &Objects) {
        for record in objects.iter().filter(|(id, _)| id.kind == RECORD).map(|(_, record)| record) {
            let manifest = record["manifest"].as_object().into_iter().flatten();
            let manifest = manifest.filter_map(|(key, object)| Some((Id::parse(key)?, object.clone()))).collect();
            self.revisions.extend(record["version"].as_u64().map(|version| (version, manifest)));
        }
    }

    /// An object as it was rendered last.
    pub fn last(&self, id: &Id) -> Option<&Value> {
        find(self.revisions.values().next_back()?, id)
    }

    /// An object in each of the renders before the last one that had it.
    fn earlier(&self, id: &Id) -> impl Iterator<Item = &Value> {
        self.revisions.values().rev().skip(1).filter_map(move |objects| find(objects, id))
    }

    /// Whether the last render lacks an object that an earlier one had.
    pub fn has_dropped(&self, id: &Id) -> bool {
        self.last(id).is_none() && self.earlier(id).next().is_some()
    }

    /// Whether the last render has an object, and lacks a text in its stringData that an earlier one had.
    pub fn has_dropped_text(&self, id: &Id, path: &[String]) -> bool {
        let is_gone = self.last(id).is_some_and(|object| !sets(object, path));
        is_gone && self.earlier(id).any(|object| text(object, path).is_some())
    }

    /// Whether the last render sets a field.
    pub fn sets(&self, id: &Id, path: &[String]) -> bool {
        self.last(id).is_some_and(|object| sets(object, path))
    }

    /// Whether the last render sets a field to null: that of the object, of its pods, or of what a revision holds of it. What
    /// containers request is theirs as well, which the API server takes from their limits.
    pub fn is_null(&self, id: &Id, path: &[String]) -> bool {
        let limits = |part: &String| if part == "requests" { "limits".to_owned() } else { part.clone() };
        self.is_null_at(id, path) || self.is_null_at(id, &path.iter().map(limits).collect::<Vec<_>>())
    }

    fn is_null_at(&self, id: &Id, path: &[String]) -> bool {
        let Some(object) = self.last(id) else { return false };
        let is_null = |value: Option<&Value>| value.is_some_and(Value::is_null);
        let of_a_revision = path.split_first().filter(|(first, _)| *first == "data").map(|(_, rest)| rest);
        is_null(at(object, path))
            || is_null(text(object, path))
            || is_null(object.pointer("/spec/template").and_then(|template| at(template, path)))
            || is_null(of_a_revision.and_then(|path| at(object, path)))
    }
}

/// Whether an object sets a field. What it writes as stringData is read as data.
fn sets(object: &Value, path: &[String]) -> bool {
    at(object, path).is_some() || text(object, path).is_some()
}

fn text<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    if first == "data" { at(object.get("stringData")?, rest) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::segments;
    use serde_json::json;

    fn rendered(revisions: &[Value]) -> Rendered {
        let mut rendered = Rendered::default();
        for (number, manifest) in revisions.iter().enumerate() {
            let id = Id::parse(&format!("{RECORD} a/web.v{number}")).unwrap();
            rendered.remember(&Objects::from([(id, json!({"version": number, "manifest": manifest}))]));
        }
        rendered
    }

    fn secret() -> Id {
        Id::parse("Secret a/s").unwrap()
    }

    #[test]
    fn text_that_a_chart_sets_is_data() {
        let rendered = rendered(&[json!({"Secret a/s": {"data": {"a": 1}, "stringData": {"b": 1}}})]);
        let is_set = |path: &str| rendered.sets(&secret(), &segments(path));
        assert_eq!(["/data/a", "/data/b", "/data/c"].map(is_set), [true, true, false]);
    }

    #[test]
    fn a_text_is_dropped_only_by_an_object_that_stays() {
        let first = json!({"Secret a/s": {"data": {"bytes": 1}, "stringData": {"text": 1}}});
        let path = |path: &str| segments(path);
        let stays = rendered(&[first.clone(), json!({"Secret a/s": {"data": {}}})]);
        assert!(stays.has_dropped_text(&secret(), &path("/data/text")));
        assert!(!stays.has_dropped_text(&secret(), &path("/data/bytes")), "it was no text");
        assert!(!stays.has_dropped_text(&secret(), &path("/data/other")), "it never was there");
        assert!(!stays.has_dropped(&secret()));
        let goes = rendered(&[first.clone(), json!({})]);
        assert!(!goes.has_dropped_text(&secret(), &path("/data/text")), "the whole Secret is gone, or kept as it is");
        assert!(goes.has_dropped(&secret()));
        assert!(!rendered(&[json!({}), json!({})]).has_dropped(&secret()), "it never was there");
        assert!(!rendered(&[first.clone(), first]).has_dropped_text(&secret(), &path("/data/text")));
    }

    #[test]
    fn a_null_counts_where_it_is() {
        let spec = json!({"resources": {"limits": {"cpu": null}}});
        let pods = json!({"metadata": {"labels": {"none": null, "some": "x"}}, "spec": spec});
        let rendered = rendered(&[json!({"Secret a/s": {"spec": {"template": pods}, "stringData": {"empty": null}}})]);
        let is_null = |path: &str| rendered.is_null(&secret(), &segments(path));
        assert!(is_null("/spec/template/metadata/labels/none"));
        assert!(is_null("/metadata/labels/none"), "of its pods");
        assert!(is_null("/data/spec/template/metadata/labels/none"), "of a revision");
        assert!(is_null("/data/empty"));
        assert!(is_null("/spec/resources/limits/cpu") && is_null("/spec/resources/requests/cpu"));
        assert!(!is_null("/metadata/labels/some") && !is_null("/metadata/annotations/none"));
    }
}
