//! Which value is the number of pods.

use serde_json::{Value, json};

use super::schema::Schema;
use super::types::Types;

/// The path below `spec` of the chart's one number of replicas, if it has one: `replicaCount` or `replicas` at the top, or the only one
/// anywhere.
pub(super) fn replicas_path(spec: &Schema, defaults: &Value) -> Option<Vec<String>> {
    let mut found = vec![];
    collect(spec, Some(defaults), &mut vec![], &mut found);
    let at_top: Vec<&Vec<String>> = found.iter().filter(|path| path.len() == 1).collect();
    match (at_top.as_slice(), found.as_slice()) {
        ([one], _) => Some((*one).clone()),
        ([], [one]) => Some(one.clone()),
        _ => None,
    }
}

fn collect(schema: &Schema, default: Option<&Value>, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    for (name, schema) in &schema.properties {
        // The API server's paths have dots and no quotes.
        if name.is_empty() || name.contains(['.', '[', '"', '\'', '/']) {
            continue;
        }
        let default = default.and_then(|default| default.get(name));
        path.push(name.clone());
        if matches!(name.as_str(), "replicaCount" | "replicas") && is_count(schema, default) {
            found.push(path.clone());
        }
        collect(schema, default, path, found);
        path.pop();
    }
}

fn is_count(schema: &Schema, default: Option<&Value>) -> bool {
    let is_number = |value: &Value| Types::of_value(value) == Types::INTEGER;
    match schema.types.map(Types::without_null) {
        Some(types) => types == Types::INTEGER || types == Types::NUMBER && default.is_some_and(is_number),
        None => default.is_some_and(is_number),
    }
}

/// The API server itself refuses anything but a number from 0 there, also null. So the schema says so.
pub(super) fn make_scalable(spec: &mut Schema, path: &[String]) {
    let Some((first, rest)) = path.split_first() else { return };
    let Some((_, schema)) = spec.properties.iter_mut().find(|(name, _)| name == first) else { return };
    if !rest.is_empty() {
        return make_scalable(schema, rest);
    }
    schema.types = Some(Types::INTEGER);
    schema.is_open = false;
    schema.is_nullable = false;
    schema.properties.clear();
    let is_positive = schema.rules.simple.get("minimum").and_then(Value::as_f64).is_some_and(|least| least >= 0.0);
    if !is_positive {
        schema.rules.simple.remove("exclusiveMinimum");
        schema.rules.simple.insert("minimum", json!(0));
    }
    schema.description =
        schema.description.replace("Type: integer, not enforced. ", "").replace("Type: integer, not enforced.", "");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaffold::crd::Options;
    use crate::scaffold::crd::inferred::inferred;
    use crate::scaffold::values::comments;

    fn path(text: &str) -> Option<String> {
        let values = crate::yaml::parse(text).unwrap();
        let spec = inferred(Some(&values), Some(&comments::read(text, &values)), &Options::default());
        replicas_path(&spec, &values).map(|path| path.join("."))
    }

    #[test]
    fn the_number_at_the_top_or_the_only_one_counts() {
        assert_eq!(path("replicaCount: 1\ndb: {replicas: 2}").as_deref(), Some("replicaCount"));
        assert_eq!(path("replicas: 1").as_deref(), Some("replicas"));
        assert_eq!(path("web: {replicaCount: 1}\nautoscaling: {minReplicas: 1}").as_deref(), Some("web.replicaCount"));
        for none in [
            "a: 1",
            "web: {replicas: 1}\ndb: {replicas: 1}",
            "replicaCount: 1\nreplicas: 1",
            "replicaCount: \"1\"",
            "replicas:\n",
        ] {
            assert_eq!(path(none), None, "{none}");
        }
    }
}
