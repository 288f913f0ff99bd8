//! The schema of a subchart below that of its parent.

use serde_json::{Value, json};

use super::*;
use crate::scaffold::values::{Subchart, comments};

fn with_subchart(is_conditional: bool, parent: Option<Value>, schema: Value) -> Made {
    with_subchart_of(false, is_conditional, parent, schema)
}

fn with_subchart_of(is_in_values: bool, is_conditional: bool, parent: Option<Value>, schema: Value) -> Made {
    let sub = ChartValues::from_text("db", "# How large.\nsize: 1\n", Some(schema)).unwrap();
    let mut chart = ChartValues::from_text("app", "", parent).unwrap();
    chart.defaults = json!({"db": {"size": 1, "global": {}}});
    chart.fields = comments::read("db: {size: 1}\n", &chart.defaults);
    chart.subcharts.push(Subchart { key: "db".into(), is_conditional, is_in_values, chart: sub });
    let Definition { text, notes } = definition(&api(), &chart, &Options::default()).unwrap();
    Made { definition: crate::yaml::parse(&text).unwrap(), notes }
}

#[test]
fn a_subcharts_schema_holds_under_its_key_unless_it_can_be_switched_off() {
    let schema = json!({"type": "object", "additionalProperties": false, "required": ["global", "size", "name"], "properties": {"size": {"type": "integer"}, "name": {"type": "string"}, "global": {"type": "object", "required": ["zone"]}}});
    let made = with_subchart(false, None, schema.clone());
    let db = &made.spec()["properties"]["db"];
    assert_eq!((&db["type"], &db["required"], db.get("nullable")), (&json!("object"), &json!(["name"]), None));
    assert_eq!(db["properties"]["size"]["type"], "integer");
    assert_eq!((db["properties"]["global"].get("type"), db["properties"]["global"].get("required")), (None, None));
    let made = with_subchart(true, None, schema.clone());
    let db = &made.spec()["properties"]["db"];
    assert_eq!((&db["type"], db.get("required"), db["properties"]["size"].get("type")), (&json!("object"), None, None));
    assert_eq!(made.notes_on("spec.db"), 1);
    let parent = json!({"properties": {"db": {"properties": {"size": {"minimum": 2}}}}});
    let made = with_subchart(false, Some(parent), schema);
    let size = &made.spec()["properties"]["db"]["properties"]["size"];
    assert_eq!((&size["type"], &size["minimum"]), (&json!("integer"), &json!(2)));
}

#[test]
fn a_null_takes_away_what_the_parents_values_have_for_a_subchart() {
    for is_in_values in [true, false] {
        let made = with_subchart_of(is_in_values, false, None, json!({"type": "object"}));
        assert_eq!(made.spec()["properties"]["db"].get("nullable").is_some(), is_in_values);
    }
}

#[test]
fn beside_a_subchart_fields_of_any_name_stay_open() {
    let any = json!({"type": "object", "additionalProperties": {"type": "object"}});
    let made = with_subchart(false, Some(any.clone()), json!({}));
    assert_eq!(made.spec()["x-kubernetes-preserve-unknown-fields"], true);
    assert_eq!((made.spec().get("additionalProperties"), made.notes_on("spec")), (None, 1));
    let db = &with_subchart(false, None, any).spec()["properties"]["db"].clone();
    assert_eq!((db.get("additionalProperties"), &db["x-kubernetes-preserve-unknown-fields"]), (None, &json!(true)));
}

#[test]
fn nothing_is_asked_of_what_helm_puts_into_a_subchart() {
    let asked = json!({"properties": {"global": {"required": ["zone"], "properties": {"zone": {"maxLength": 1}}}}});
    let either = json!({"anyOf": [asked, {"required": ["port"]}]});
    let parent = json!({"properties": {"db": {"allOf": [asked, either]}}});
    let made = with_subchart(false, Some(parent), either);
    let db = &made.spec()["properties"]["db"];
    assert_eq!((db.get("anyOf"), db.get("allOf")), (None, None));
    assert_eq!(db["properties"]["global"].get("required"), None);
    assert_eq!(db["properties"]["global"]["properties"]["zone"], open());
    assert_eq!(made.notes_on("spec.db.global"), 1);
}
