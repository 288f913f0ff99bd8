//! What a chart draws anew in each render: passwords, certificates, dates, and checksums over them. Pure.
//!
//! The chart is rendered twice from the same input. Where the two differ, values are compared by their shape.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::object::{Id, Path, find, unequal};
use crate::record::objects;

/// The fields of a chart's objects that differ from render to render.
#[derive(Debug, Default)]
pub struct Random {
    /// By rendered names.
    fields: BTreeMap<Id, Vec<Path>>,
    /// Objects whose names differ: the kind, and how all their names begin.
    names: Vec<(String, String)>,
}

impl Random {
    /// Adds what two renders of the same input tell. `namespace` is that of the release.
    pub fn learn(&mut self, first: &str, second: &str, namespace: &str) {
        let (first, second) = (objects(first, namespace), objects(second, namespace));
        let find = |all: &[(Id, Value)], id: &Id| all.iter().find(|it| it.0 == *id).map(|it| it.1.clone());
        for (id, object) in &first {
            let Some(other) = find(&second, id) else { continue };
            for found in unequal(Some(object), Some(&other)) {
                self.fields.entry(id.clone()).or_default().push(as_stored(found.path));
            }
        }
        let only = |here: &[(Id, Value)], there: &[(Id, Value)]| -> Vec<Id> {
            here.iter().map(|it| &it.0).filter(|id| find(there, id).is_none()).cloned().collect()
        };
        for (one, other) in only(&first, &second).iter().zip(only(&second, &first)) {
            let common = one.name.chars().zip(other.name.chars()).take_while(|(a, b)| a == b);
            let common: String = common.map(|it| it.0).collect();
            let drawn = |id: &Id| Id { name: format!("{common}{DRAWN}"), ..id.clone() };
            if common.is_empty() || drawn(one) != drawn(&other) {
                continue;
            }
            let (first, second) = (find(&first, one), find(&second, &other));
            let fields = unequal(first.as_ref(), second.as_ref()).into_iter().map(|found| as_stored(found.path));
            self.fields.entry(drawn(one)).or_default().extend(fields);
            self.names.push((one.kind.clone(), common));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.names.is_empty()
    }

    /// The beginning of a name that is drawn anew in each render.
    pub fn name_of(&self, kind: &str, name: &str) -> Option<&str> {
        let found = self.names.iter().find(|it| it.0 == kind && name.starts_with(&it.1));
        found.map(|it| it.1.as_str())
    }

    /// Whether a field of an object is drawn anew. `root` is the object of the chart that the object was made from, by
    /// controllers of the cluster, or the object itself.
    pub fn has(&self, root: &Id, path: &[String]) -> bool {
        let name = match root.name.rsplit_once(DRAWN) {
            Some((begin, _)) => format!("{begin}{DRAWN}"),
            None => root.name.clone(),
        };
        find(&self.fields, &Id { name, ..root.clone() }).into_iter().flatten().any(|field| {
            let of_a_pod = in_template(field).is_some_and(|inner| path.starts_with(inner));
            let of_a_revision = path.first().is_some_and(|first| first == "data") && path[1..].starts_with(field);
            path.starts_with(field) || of_a_pod || of_a_revision
        })
    }
}

/// Ends the part of a name that stays; a number follows.
pub const DRAWN: &str = "#";

/// The path of a field inside of the template that pods are made from.
fn in_template(path: &[String]) -> Option<&[String]> {
    match path {
        [spec, template, inner @ ..] if spec == "spec" && template == "template" => Some(inner),
        _ => None,
    }
}

/// The API server moves what is in stringData.
pub fn as_stored(mut path: Path) -> Path {
    if path.first().is_some_and(|first| first == "stringData") {
        path[0] = "data".into();
    }
    path
}

/// Whether two values that chance made are of one shape.
pub fn same_shape(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::String(left), Value::String(right)) => match (plain(left), plain(right)) {
            (Some(left), Some(right)) => texts(&left, &right),
            _ => texts(left, right),
        },
        (Value::Array(left), Value::Array(right)) => left.len() == right.len(),
        (Value::Object(left), Value::Object(right)) => left.keys().eq(right.keys()),
        _ => std::mem::discriminant(left) == std::mem::discriminant(right),
    }
}

/// The text that is behind base64, as in a Secret.
fn plain(text: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(text).ok()?).ok()
}

fn texts(left: &str, right: &str) -> bool {
    match (headers(left), headers(right)) {
        (left, right) if !left.is_empty() || !right.is_empty() => left == right,
        // A date need not have one length, but its punctuation.
        _ => {
            left.chars().count() == right.chars().count()
                || skeleton(left) == skeleton(right) && skeleton(left).len() > 4
        }
    }
}

/// The first lines of PEM blocks.
fn headers(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| line.starts_with("-----BEGIN ")).collect()
}

/// A text with each run of letters and digits as one letter.
fn skeleton(text: &str) -> String {
    let mut skeleton = String::new();
    for c in text.chars() {
        let c = if c.is_alphanumeric() { 'w' } else { c };
        if c != 'w' || !skeleton.ends_with('w') {
            skeleton.push(c);
        }
    }
    skeleton
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::segments;
    use serde_json::json;

    fn render(password: &str, suffix: &str) -> String {
        format!(
            "kind: Secret\nmetadata: {{name: web}}\nstringData: {{password: {password}, user: app}}\n---\nkind: Deployment\n\
             metadata: {{name: web}}\nspec: {{template: {{metadata: {{annotations: {{sum: {password}}}}}}}}}\n---\n\
             kind: Job\nmetadata: {{name: job-{suffix}}}\n"
        )
    }

    #[test]
    fn two_renders_tell_what_is_random() {
        let mut random = Random::default();
        random.learn(&render("abc", "x1"), &render("def", "y2"), "n");
        let id = |key: &str| Id::parse(key).unwrap();
        assert!(random.has(&id("Secret n/web"), &segments("/data/password")));
        assert!(!random.has(&id("Secret n/web"), &segments("/data/user")));
        assert!(random.has(&id("Deployment n/web"), &segments("/spec/template/metadata/annotations/sum")));
        assert!(random.has(&id("Deployment n/web"), &segments("/metadata/annotations/sum")), "of its pods");
        assert!(
            random.has(&id("Deployment n/web"), &segments("/data/spec/template/metadata/annotations/sum")),
            "of a revision"
        );
        assert!(!random.has(&id("Deployment n/web"), &segments("/spec/replicas")));
        assert_eq!(random.name_of("Job", "job-zz"), Some("job-"));
        assert!(random.has(&id("Job n/job-#1"), &segments("/metadata/name")));
        let mut none = Random::default();
        none.learn(&render("abc", "x"), &render("abc", "x"), "n");
        assert!(none.is_empty());
    }

    #[test]
    fn shapes_are_lengths_headers_or_punctuation() {
        assert!(same_shape(&json!("abcd"), &json!("wxyz")));
        assert!(!same_shape(&json!("abcd"), &json!("wxyz1")));
        assert!(same_shape(&json!("2026-01-01 10:00:00.12"), &json!("2026-01-01 10:00:01.123")));
        let pem = |kind: &str, body: &str| STANDARD.encode(format!("-----BEGIN {kind}-----\n{body}\n-----END-----\n"));
        assert!(same_shape(&json!(pem("CERTIFICATE", "ab")), &json!(pem("CERTIFICATE", "abcdef"))));
        assert!(!same_shape(&json!(pem("CERTIFICATE", "ab")), &json!(pem("PRIVATE KEY", "ab"))));
        assert!(!same_shape(&json!(1), &json!("1")));
    }
}
