//! Every word of JSON Schema, and what becomes of it.

use serde_json::{Value, json};

use super::*;

mod alternatives;
mod subcharts;

const DRAFT_4: &str = "http://json-schema.org/draft-04/schema#";
const DRAFT_7: &str = "http://json-schema.org/draft-07/schema#";

fn api() -> Api {
    Api::new("charts.example.com", "v1", "App", true).unwrap()
}

struct Made {
    /// The whole definition.
    definition: Value,
    notes: Vec<String>,
}

impl Made {
    fn spec(&self) -> &Value {
        &self.definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    }

    /// What is said about the value at `x`.
    fn x(&self) -> Value {
        let mut x = self.spec()["properties"]["x"].clone();
        x.as_object_mut().unwrap().remove("description");
        x
    }

    fn notes_on(&self, place: &str) -> usize {
        self.notes.iter().filter(|note| note.starts_with(&format!("{place}: "))).count()
    }
}

fn made(values: &str, schema: Option<Value>, options: &Options) -> Made {
    let chart = ChartValues::from_text("app", values, schema).unwrap();
    let Definition { text, notes } = definition(&api(), &chart, options).unwrap();
    let definition = crate::yaml::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    Made { definition, notes }
}

/// What becomes of a schema for the value `x`, by the latest draft.
fn of(schema: Value) -> Made {
    made("", Some(json!({"properties": {"x": schema}})), &Options::default())
}

fn by(draft: &str, schema: Value) -> Made {
    made("", Some(json!({"$schema": draft, "properties": {"x": schema}})), &Options::default())
}

fn open() -> Value {
    json!({"nullable": true, "x-kubernetes-preserve-unknown-fields": true})
}

/// A value of one type with more to say.
fn typed(name: &str, more: Value) -> Value {
    let mut schema = json!({"type": name, "nullable": true});
    schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    schema
}

#[test]
fn types_are_types_and_null_always_passes() {
    for name in ["string", "integer", "number", "boolean"] {
        assert_eq!(of(json!({"type": name})).x(), typed(name, json!({})));
        assert_eq!(of(json!({"type": [name, "null"]})).x(), typed(name, json!({})));
    }
    assert_eq!(
        of(json!({"type": "object"})).x(),
        typed("object", json!({"x-kubernetes-preserve-unknown-fields": true}))
    );
    assert_eq!(of(json!({"type": "array"})).x(), typed("array", json!({"items": open_item()})));
    assert_eq!(
        of(json!({"type": ["integer", "string"]})).x(),
        json!({"nullable": true, "x-kubernetes-int-or-string": true})
    );
    let several = of(json!({"type": ["boolean", "string"]}));
    assert_eq!((several.x(), several.notes_on("spec.x")), (open(), 1));
    for anything in [json!({}), json!(true)] {
        let made = of(anything);
        assert_eq!((made.x(), made.notes.len()), (open(), 0));
    }
    for nothing in [json!(false), json!({"type": "null"}), json!({"type": "string", "allOf": [{"type": "object"}]})] {
        assert_eq!(of(nothing).x()["not"], json!({}));
    }
}

fn open_item() -> Value {
    open()
}

#[test]
fn bounds_are_kept_in_every_drafts_writing() {
    let bounds = json!({"minimum": 1, "maximum": 5.5});
    assert_eq!(of(json!({"type": "number", "minimum": 1, "maximum": 5.5})).x(), typed("number", bounds));
    let exclusive = typed("integer", json!({"minimum": 1, "exclusiveMinimum": true}));
    assert_eq!(of(json!({"type": "integer", "exclusiveMinimum": 1})).x(), exclusive);
    assert_eq!(of(json!({"type": "integer", "exclusiveMinimum": 1, "minimum": 0})).x(), exclusive);
    assert_eq!(of(json!({"type": "integer", "exclusiveMinimum": 1, "minimum": 1})).x(), exclusive);
    let minimum = typed("integer", json!({"minimum": 2}));
    assert_eq!(of(json!({"type": "integer", "exclusiveMinimum": 1, "minimum": 2})).x(), minimum);
    assert_eq!(by(DRAFT_4, json!({"type": "integer", "exclusiveMinimum": true, "minimum": 1})).x(), exclusive);
    let maximum = typed("integer", json!({"maximum": 9, "exclusiveMaximum": true}));
    assert_eq!(of(json!({"type": "integer", "exclusiveMaximum": 9})).x(), maximum);
    assert_eq!(of(json!({"type": "integer", "multipleOf": 5})).x(), typed("integer", json!({"multipleOf": 5})));
    assert_eq!(of(json!({"type": "number", "multipleOf": 0.1})).notes_on("spec.x"), 1);
}

#[test]
fn texts_and_lists_have_their_lengths() {
    let lengths = json!({"minLength": 1, "maxLength": 5});
    assert_eq!(of(json!({"type": "string", "minLength": 1, "maxLength": 5.0})).x(), typed("string", lengths));
    let made = of(json!({"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}}));
    assert_eq!(made.x(), typed("array", json!({"minItems": 1, "maxItems": 2, "items": {"type": "string"}})));
}

#[test]
fn patterns_are_kept_where_kubernetes_can_read_them() {
    assert_eq!(of(json!({"type": "string", "pattern": "^a\\d$"})).x(), typed("string", json!({"pattern": "^a\\d$"})));
    for unknown in ["^(?!a)", "(?<=a)b", "(a)\\1", "a{2000}"] {
        let made = of(json!({"type": "string", "pattern": unknown}));
        assert_eq!((made.x(), made.notes_on("spec.x")), (typed("string", json!({})), 1), "{unknown}");
    }
    assert_eq!(of(json!({"type": "string", "pattern": "^[a-z*+]+$"})).x()["pattern"], "^[a-z*+]+$");
    assert!(rules::words::is_re2("\\\\1") && rules::words::is_re2("(?i)a{1,1000}") && rules::words::is_re2("(?P<n>a)"));
}

#[test]
fn formats_are_kept_where_both_sides_check_them() {
    assert_eq!(by(DRAFT_7, json!({"type": "string", "format": "ipv4"})).x()["format"], "ipv4");
    for stricter in ["hostname", "uri"] {
        let made = by(DRAFT_7, json!({"type": "string", "format": stricter}));
        assert_eq!((made.x(), made.notes_on("spec.x")), (typed("string", json!({})), 1), "{stricter}");
    }
    // helm does not check them from 2019-09 on.
    let latest = of(json!({"type": "string", "format": "ipv4"}));
    assert_eq!((latest.x(), latest.notes.len()), (typed("string", json!({})), 0));
}

#[test]
fn a_choice_lets_null_pass_and_is_told() {
    let made = of(json!({"description": "Which", "enum": ["a", "b", null]}));
    assert_eq!(made.x(), typed("string", json!({"anyOf": [{"enum": ["a", "b"]}]})));
    assert_eq!(made.spec()["properties"]["x"]["description"], "Which. One of a, b, null.");
    assert_eq!(of(json!({"const": 3})).x(), typed("integer", json!({"anyOf": [{"enum": [3]}]})));
    assert_eq!(by(DRAFT_4, json!({"const": 3})).x(), open(), "draft 4 does not know the word");
    let maps = of(json!({"enum": [{"a": 1}]}));
    assert_eq!((maps.x().get("anyOf"), maps.notes_on("spec.x")), (None, 1));
}

#[test]
fn fields_that_are_not_listed_stay_out_only_where_the_schema_says_so() {
    let closed = of(json!({"type": "object", "additionalProperties": false, "properties": {"a": {"type": "string"}}}));
    assert_eq!(closed.x(), typed("object", json!({"properties": {"a": typed("string", json!({}))}})));
    let free = of(json!({"type": "object", "properties": {"a": true}}));
    assert_eq!(free.x()["x-kubernetes-preserve-unknown-fields"], true);
    let map = of(json!({"type": "object", "additionalProperties": {"type": "string"}}));
    assert_eq!(map.x(), typed("object", json!({"additionalProperties": typed("string", json!({}))})));
    let both = of(json!({"type": "object", "properties": {"a": true}, "additionalProperties": {"type": "string"}}));
    assert_eq!((both.x().get("additionalProperties"), both.notes_on("spec.x")), (None, 1));
    let other =
        json!({"type": "object", "properties": {"a": {}}, "allOf": [{"additionalProperties": {"type": "string"}}]});
    assert_eq!(of(other).x()["properties"]["a"]["type"], "string", "it holds for fields that it does not list");
}

#[test]
fn patterns_of_names_become_values_of_any_name_or_stay_open() {
    let one =
        of(json!({"type": "object", "additionalProperties": false, "patternProperties": {"^a": {"type": "integer"}}}));
    assert_eq!(one.x()["additionalProperties"], typed("integer", json!({})));
    let open = of(json!({"type": "object", "patternProperties": {"^a": {"type": "integer"}}}));
    assert_eq!((open.x()["x-kubernetes-preserve-unknown-fields"].clone(), open.notes_on("spec.x")), (json!(true), 1));
    let two = json!({"^a": {"type": "integer"}, "^b": {"type": "string"}});
    let two = of(json!({"type": "object", "additionalProperties": false, "patternProperties": two}));
    assert_eq!(two.x().get("additionalProperties"), None);
}

#[test]
fn inside_of_lists_null_is_null() {
    let items = json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}, "b": {"type": ["string", "null"]}}});
    let made =
        made("x: [{a: 1}]", Some(json!({"properties": {"x": {"type": "array", "items": items}}})), &Options::default());
    assert_eq!(
        made.x()["items"],
        json!({
            "type": "object", "x-kubernetes-preserve-unknown-fields": true, "required": ["a"],
            "properties": {"a": {"type": "string"}, "b": {"type": "string", "nullable": true}},
        })
    );
}

#[test]
fn lists_whose_items_differ_by_place_stay_open() {
    for (draft, schema) in [
        (DRAFT_7, json!({"type": "array", "items": [{"type": "string"}]})),
        ("", json!({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}})),
    ] {
        let made = by(draft, schema);
        assert_eq!((made.x(), made.notes_on("spec.x")), (typed("array", json!({"items": open_item()})), 1));
    }
}

#[test]
fn words_that_openapi_does_not_have_are_told() {
    for (word, value) in [
        ("uniqueItems", json!(true)),
        ("contains", json!({"type": "string"})),
        ("propertyNames", json!({"pattern": "a"})),
        ("unevaluatedProperties", json!(false)),
    ] {
        let mut schema = json!({});
        schema[word] = value;
        let made = of(schema);
        assert_eq!((made.x(), made.notes_on("spec.x")), (open(), 1), "{word}");
    }
    assert!(of(json!({"uniqueItems": false, "$comment": "x", "examples": [1], "default": 1})).notes.is_empty());
}

#[test]
fn what_a_default_gives_is_not_required() {
    let schema = json!({"required": ["a", "b", "c"], "properties": {"a": {"type": "object", "required": ["d", "e"]}}});
    let made = made("a: {d: 1}\nc:\n", Some(schema.clone()), &Options::default());
    assert_eq!(made.spec()["required"], json!(["b"]));
    assert_eq!(made.spec()["properties"]["a"]["required"], json!(["e"]));
    let root = &made.definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(root["required"], json!(["spec"]));
    let from = Options { values_from: true, ..Options::default() };
    let made = self::made("a: {d: 1}\n", Some(schema), &from);
    assert_eq!((made.spec().get("required"), made.spec()["properties"]["a"].get("required")), (None, None));
}

#[test]
fn the_number_of_fields_counts_defaults() {
    let schema = json!({"properties": {"x": {"type": "object", "minProperties": 2, "maxProperties": 3}}});
    let limits = |values: &str| {
        let x = made(values, Some(schema.clone()), &Options::default()).x();
        (x.get("minProperties").cloned(), x.get("maxProperties").cloned())
    };
    assert_eq!(limits(""), (Some(json!(2)), Some(json!(3))));
    assert_eq!(limits("x: {a: 1}"), (Some(json!(1)), Some(json!(4))));
    assert_eq!(limits("x: {a: 1, b: 2}"), (None, Some(json!(5))));
}

#[test]
fn counts_that_the_api_server_cannot_read_are_left_out() {
    let words = ["maxProperties", "minProperties", "maxItems", "minLength"];
    let schema = |count: u64| {
        let x: serde_json::Map<String, Value> = words.iter().map(|word| ((*word).to_owned(), count.into())).collect();
        of(x.into()).x()
    };
    assert_eq!(schema(u64::MAX), open());
    assert_eq!(schema(9)["maxProperties"], 9);
}

#[test]
fn references_are_written_out_and_circles_are_cut() {
    let schema = json!({
        "$defs": {"port": {"type": "integer", "maximum": 9}, "tree": {"type": "object", "properties": {"sub": {"$ref": "#/$defs/tree"}}}},
        "properties": {"x": {"$ref": "#/$defs/port", "minimum": 1}, "tree": {"$ref": "#/$defs/tree"}, "all": {"$ref": "#"}},
    });
    let made = made("", Some(schema), &Options::default());
    assert_eq!(made.x(), typed("integer", json!({"minimum": 1, "maximum": 9})));
    let sub = &made.spec()["properties"]["tree"]["properties"]["sub"];
    assert_eq!(sub, &typed("object", json!({"x-kubernetes-preserve-unknown-fields": true})));
    assert_eq!((made.notes_on("spec.tree.sub"), made.notes_on("spec.all")), (1, 1));
}

#[test]
fn references_that_multiply_or_go_in_circles_end() {
    let mut schema = json!({"$defs": {}, "$ref": "#/$defs/d0"});
    for level in 0..14 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        schema["$defs"][format!("d{level}")] =
            json!({"type": "object", "properties": {"a": next, "b": next, "c": next, "d": next}});
    }
    let made = self::made("", Some(schema), &Options::default());
    assert!(made.notes_on("spec") > 0, "{:?}", made.notes);
    let circle = json!({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"not": {"$ref": "#/$defs/a"}}, {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}}]}}, "properties": {"x": {"$ref": "#/$defs/a"}}});
    self::made("", Some(circle), &Options::default());
}

#[test]
fn all_of_is_merged() {
    let made =
        of(json!({"allOf": [{"type": "string", "pattern": "a"}, {"pattern": "b", "minLength": 1}, {"title": "Both"}]}));
    assert_eq!(made.spec()["properties"]["x"]["description"], "Both");
    assert_eq!(made.x(), typed("string", json!({"pattern": "a", "allOf": [{"pattern": "b", "minLength": 1}]})));
}

#[test]
fn what_the_schema_does_not_speak_of_comes_from_the_values() {
    let schema = json!({"properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}});
    let text = "a:\n  # Listed.\n  b: x\n  # Not listed.\n  c: 1\n# Nor this.\nd: {e: true}\n";
    let made = made(text, Some(schema.clone()), &Options::default());
    let a = &made.spec()["properties"]["a"]["properties"];
    assert_eq!(a["b"]["description"], "Listed. Default: x.");
    assert_eq!(a["c"]["description"], "Not listed. Type: integer, not enforced. Default: 1.");
    assert_eq!(made.spec()["properties"]["d"]["properties"]["e"]["x-kubernetes-preserve-unknown-fields"], true);
    let strict = Options { strict_types: true, ..Options::default() };
    let made = self::made(text, Some(schema), &strict);
    assert_eq!(made.spec()["properties"]["d"]["properties"]["e"]["type"], "boolean");
}

#[test]
fn one_number_of_replicas_makes_a_kind_scalable() {
    let values = "# How many.\nreplicaCount: 1\nimage: {tag: a}\n";
    let made = self::made(values, None, &Options::default());
    let version = &made.definition["spec"]["versions"][0];
    assert_eq!(version["subresources"]["scale"]["specReplicasPath"], ".spec.replicaCount");
    assert_eq!(
        made.spec()["properties"]["replicaCount"],
        json!({"description": "How many. Default: 1.", "type": "integer", "minimum": 0})
    );
    assert_eq!(made.notes.iter().filter(|note| note.starts_with("spec.replicaCount backs the scale ")).count(), 1);
    let columns: Vec<&str> = version["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| column["name"].as_str().unwrap())
        .collect();
    assert_eq!(columns, ["Ready", "Reason", "Replicas", "Image", "Revision", "Age"]);
    let fixed = self::made(values, None, &Options { no_scale: true, ..Options::default() });
    assert_eq!(fixed.definition["spec"]["versions"][0]["subresources"], json!({"status": {}}));
}

#[test]
fn names_are_those_of_the_kind() {
    let options = Options { short_names: vec!["ap".into()], ..Options::default() };
    let made = made("", None, &options);
    let names = json!({"kind": "App", "listKind": "AppList", "plural": "apps", "singular": "app", "shortNames": ["ap"], "categories": ["chartwright"]});
    assert_eq!(made.definition["spec"]["names"], names);
    assert_eq!(made.definition["metadata"]["name"], "apps.charts.example.com");
    assert!(made.definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["conditions"].is_object());
}

#[test]
fn a_version_is_added_and_removed_and_one_is_stored() {
    let chart = ChartValues::from_text("app", "a: 1\n", None).unwrap();
    let options = Options::default();
    let first = definition(&api(), &chart, &options).unwrap().text;
    let second = Api { version: "v2".into(), ..api() };
    let both = add_version(&first, &second, &chart, &options).unwrap().text;
    assert!(both.starts_with(HEADER));
    let parsed = crate::yaml::parse(&both).unwrap();
    let stored: Vec<_> = parsed["spec"]["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|version| (version["name"].clone(), version["served"].clone(), version["storage"].clone()))
        .collect();
    assert_eq!(stored, [(json!("v1"), json!(true), json!(true)), (json!("v2"), json!(true), json!(false))]);
    assert_eq!(parsed["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(version_names(&both).unwrap(), ["v1", "v2"]);
    assert_eq!(add_version(&both, &second, &chart, &options).unwrap().text, both, "making it anew changes nothing");
    let left = remove_version(&both, "v1").unwrap().unwrap();
    assert_eq!(version_names(&left.text).unwrap(), ["v2"]);
    assert_eq!(
        (crate::yaml::parse(&left.text).unwrap()["spec"]["versions"][0]["storage"].clone(), left.notes.len()),
        (json!(true), 1)
    );
    assert_eq!(remove_version(&left.text, "v2").unwrap(), None);
    assert_eq!(remove_version(&both, "v3").unwrap_err().to_string(), "the CustomResourceDefinition has no version v3");
    let other = Api::new("charts.example.com", "v1", "Other", true).unwrap();
    assert!(add_version(&first, &other, &chart, &options).unwrap_err().to_string().contains("Other"));
    assert!(version_names("kind: ConfigMap").is_err() && version_names("{").is_err());
}

#[test]
fn words_that_yaml_reads_otherwise_are_in_quotes() {
    let made = made("\"on\": 1\n\"y\": 2\n\"0644\": 3\n\"null\": 4\n\"1\": yes\n", None, &Options::default());
    let names: Vec<&String> = made.spec()["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["0644", "1", "null", "on", "y"]);
}

#[test]
fn the_definition_of_this_repositorys_own_kind_is_what_is_generated() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let chart = ChartValues::read(&root.join("helm-charts/nginx")).unwrap();
    let api = Api::new("demo.chartwright.dev", "v1alpha1", "Nginx", true).unwrap();
    let made = definition(&api, &chart, &Options::default()).unwrap();
    let file = root.join("config/crd/bases/demo.chartwright.dev_nginxes.yaml");
    let kept = std::fs::read_to_string(file).unwrap();
    assert!(kept == made.text, "make it anew with `chartwright generate crd`, see docs/crds.md");
}
