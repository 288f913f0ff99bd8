//! Samples of a custom resource: a short one to apply, and the list of all values of the chart, with every comment.
//!
//! A field that a custom resource sets keeps its value when a newer chart changes the default, image tags included. So the short one sets
//! only what the definition requires and a handful of fields.
//!
//! In the list, the text of values.yaml is moved to the right, below `spec:`. It must mean the same there; where it would not, the values
//! are written again, without comments.
//!
//! | module | what is in it |
//! |---|---|
//! | [`chosen`] | the fields of the short one |
//! | [`required`] | what the definition requires and the chart has no default for |

use serde_json::{Map, Value};

use super::api::Api;
use super::crd::{self, Options};
use super::values::ChartValues;
use super::yaml_text::text;
use crate::yaml;

mod chosen;
mod required;

use required::Required;

/// How a list of values that we wrote begins.
pub const FULL: &str =
    "# All values of the chart with their defaults, for reference. `kubectl apply -k config/samples` does not apply them.
";
const COPY_FEW: &str =
    "# Copy only the fields that you change: a field that is set keeps its value when a newer chart changes the default.
";
const SHORT: &str = "# Fields that are not set have the chart's defaults, also those of a newer chart.
";

/// The text of a custom resource of this name whose spec is all values of a chart, with what its definition requires and they do not have:
/// as a value where one can be made up, as a comment where not.
pub fn full(api: &Api, name: &str, chart: &ChartValues) -> String {
    let required = required::required(&definition(api, chart), chart);
    format!("{FULL}{COPY_FEW}{}", with_required(api, name, &chart.text, &required))
}

/// The same with a handful of values. `list` is where the full list is, as seen from the sample.
pub fn short(api: &Api, name: &str, chart: &ChartValues, list: &str) -> String {
    let version = definition(api, chart);
    let chosen = serde_yaml::to_value(chosen::chosen(&version, chart)).unwrap_or_default();
    let required = required::required(&version, chart);
    format!(
        "{SHORT}# All of them: {list}
{}",
        with_required(api, name, &text(&chosen), &required)
    )
}

/// The version of the kind's definition. Null where the chart gives none: the command that writes the definition says why.
fn definition(api: &Api, chart: &ChartValues) -> Value {
    let made = crd::definition(api, chart, &Options::default());
    let text = made.map(|made| made.text).unwrap_or_default();
    yaml::parse(&text).unwrap_or_default().pointer("/spec/versions/0").cloned().unwrap_or_default()
}

fn with_required(api: &Api, name: &str, values_yaml: &str, required: &[Required]) -> String {
    let head = format!("apiVersion: {}\nkind: {}\nmetadata:\n  name: {name}\n", api.api_version(), api.kind);
    let values = yaml::parse(values_yaml).unwrap_or_default();
    let mut wanted = if values.is_null() { Value::Object(Map::new()) } else { values.clone() };
    if let Value::Object(wanted) = &mut wanted {
        wanted.extend(required.iter().filter_map(|one| Some((one.path.clone(), one.value.clone()?))));
    }
    let is_empty = wanted.as_object().is_some_and(Map::is_empty);
    let spec = if is_empty { "spec: {}\n" } else { "spec:\n" };
    let lines: String = required.iter().map(Required::line).collect();
    let moved = format!("{head}{spec}{lines}{}", indented(values_yaml, &values));
    match yaml::parse(&moved) {
        Ok(resource) if resource["spec"] == wanted => moved,
        _ => {
            let comments: String = required.iter().map(Required::comment).collect();
            let anew = written_anew(&wanted);
            let (first, rest) = anew.split_once('\n').unwrap_or((&anew, ""));
            format!("{head}{first}\n{comments}{rest}")
        }
    }
}

/// The lines below `spec`.
fn indented(text: &str, values: &Value) -> String {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let mut is_begun = false;
    let mut lines = vec![];
    for line in text.lines() {
        // Marks around a document have no place inside of another.
        if !is_begun && (line.starts_with('%') || line.trim_end() == "---") {
            continue;
        }
        is_begun |= !line.trim().is_empty() && !line.starts_with('#');
        if line.trim_end() == "..." {
            break;
        }
        lines.push(if line.is_empty() { String::new() } else { format!("  {line}") });
    }
    while lines.first().is_some_and(String::is_empty) {
        lines.remove(0);
    }
    let is_empty = values.is_null() || values.as_object().is_some_and(serde_json::Map::is_empty);
    let only_comments =
        lines.iter().filter(|line| !is_empty || line.trim().is_empty() || line.trim_start().starts_with('#'));
    only_comments.map(|line| format!("{line}\n")).collect()
}

fn written_anew(values: &Value) -> String {
    let empty = || "spec: {}\n".to_owned();
    match values.as_object().filter(|map| !map.is_empty()) {
        Some(_) => {
            serde_yaml::to_value(serde_json::json!({"spec": values})).map_or_else(|_| empty(), |spec| text(&spec))
        }
        None => empty(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn of(values: &str) -> (String, Value) {
        let api = Api::new("charts.example.com", "v1", "App", true).unwrap();
        let text = with_required(&api, "app-sample", values, &[]);
        let parsed = yaml::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!((&parsed["kind"], &parsed["metadata"]["name"]), (&json!("App"), &json!("app-sample")));
        (text, parsed["spec"].clone())
    }

    #[test]
    fn the_values_keep_their_comments() {
        let (text, spec) = of(
            "# One.\na: 1 # beside\n\n# Two.\nb:\n  # Three.\n  c: |\n    text\n\n      # no comment\n    end\n# Last.\n",
        );
        assert!(
            text.starts_with("apiVersion: charts.example.com/v1\nkind: App\nmetadata:\n  name: app-sample\nspec:\n"),
            "{text}"
        );
        for comment in ["  # One.\n", "a: 1 # beside\n\n", "    # Three.\n", "  # Last.\n"] {
            assert!(text.contains(comment), "{comment}: {text}");
        }
        assert_eq!(spec, json!({"a": 1, "b": {"c": "text\n\n  # no comment\nend\n"}}));
    }

    #[test]
    fn odd_files_mean_the_same() {
        for values in [
            "---\na: 1\n",
            "# c\n---\n# d\na: 1\n...\n",
            "\u{feff}a: 1\r\nb: |\r\n  x\r\n  y\r\n",
            "a: |2\n    x\n   y\nb: >-\n  folded\n  text\n\n  more\n",
            "a: |+\n  keep\n\n\n",
            "a: \"two\n  lines\"\nb: plain\n  goes on\n",
            "a: &x {b: 1}\nc: *x\nd:\n  <<: *x\n  e: 2\n",
            "{a: 1, b: [1, 2]}\n",
            "a:\n- 1\n- b: 2\n  c: |\n    x\n",
            "a: [\n1,\n2\n]\n",
            "a: 'it''s'\nb: 0644\nc: yes\nd: 12345678901234567890\n",
            "--- {a: 1}\n",
            "a: 1\n# end without newline",
            "\n\n\na: 1",
            "a: |\n  one\n   \n  two\n",
        ] {
            assert_eq!(of(values).1, yaml::parse(values).unwrap(), "{values:?}");
        }
    }

    #[test]
    fn a_file_without_values_is_an_empty_spec() {
        for values in ["", "\n", "{}\n", "---\n", "~", "null\n"] {
            assert_eq!(of(values).1, json!({}), "{values:?}");
        }
        let (text, spec) = of("# Nothing yet.\n\n# replicas: 1\n");
        assert_eq!(spec, json!({}));
        assert!(text.ends_with("spec: {}\n  # Nothing yet.\n\n  # replicas: 1\n"), "{text}");
    }

    #[test]
    fn what_is_required_and_has_no_default_is_there_to_be_filled_in() {
        let api = Api::new("charts.example.com", "v1", "App", true).unwrap();
        let schema = json!({
            "required": ["adminEmail", "plan", "token", "colour"],
            "properties": {
                "adminEmail": {"type": "string", "description": "Who gets mail."},
                "plan": {"enum": ["small", "large"]},
                "token": {"type": "string", "minLength": 8},
                "db": {"type": "object", "required": ["password"], "properties": {"password": {"type": "string"}}},
                "cache": {"type": "object", "required": ["size"]},
            },
        });
        let of = |values: &str| {
            let chart = ChartValues::from_text("app", values, Some(schema.clone())).unwrap();
            full(&api, "app-sample", &chart)
        };
        let text = of("# Ours.\ncolour: red\ndb: {host: a}\n");
        let lines = [
            "  adminEmail: \"\"  # required: Who gets mail.\n",
            "  # plan: required; One of small, large.\n",
            "  # token: required\n",
        ];
        for line in lines.into_iter().chain(["  # db.password: required\n", "  # Ours.\n  colour: red\n"]) {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains("size") && !text.contains("colour: required"), "{text}");
        let spec = json!({"adminEmail": "", "colour": "red", "db": {"host": "a"}});
        assert_eq!(yaml::parse(&text).unwrap()["spec"], spec);
        // Nothing can stand above a map in braces.
        let text = of("{colour: red, db: {host: a}}\n");
        assert_eq!(yaml::parse(&text).unwrap()["spec"], spec);
        assert!(text.contains("spec:\n  # adminEmail: required; Who gets mail.\n"), "{text}");
        assert_eq!(yaml::parse(&of("")).unwrap()["spec"], json!({"adminEmail": ""}));
    }

    fn short_of(values: &str, schema: Option<Value>) -> (String, Value) {
        let api = Api::new("charts.example.com", "v1", "App", true).unwrap();
        let chart = ChartValues::from_text("app", values, schema).unwrap();
        let text = short(&api, "app-sample", &chart, "full/app.yaml");
        let spec = yaml::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"))["spec"].take();
        (text, spec)
    }

    #[test]
    fn the_short_sample_pins_no_defaults_of_a_large_chart() {
        let values = "image: {repository: nginx, tag: 1.29.1}
replicaCount: 2
a: 1
b: 2
c: {d: 3, e: {f: 4}, g: 5}
";
        let (text, spec) = short_of(values, None);
        assert_eq!(spec, json!({"replicaCount": 2}));
        let head = "# Fields that are not set have the chart's defaults, also those of a newer chart.
# All of them: full/app.yaml
apiVersion: ";
        assert!(text.starts_with(head), "{text}");
        assert_eq!(short_of(&values.replace("replicaCount", "count"), None).1, json!({}));
        let nested = values.replace("replicaCount: 2", "web: {replicas: 3}");
        assert_eq!(short_of(&nested, None).1, json!({"web": {"replicas": 3}}));
    }

    #[test]
    fn the_short_sample_has_all_values_of_a_small_chart_but_for_its_image() {
        let values = "colour: blue
service: {port: 80, type: ClusterIP}
image: {tag: 1.29.1}
list: []
";
        let expected = json!({"colour": "blue", "service": {"port": 80, "type": "ClusterIP"}, "list": []});
        assert_eq!(short_of(values, None).1, expected);
        assert_eq!(short_of("", None).1, json!({}));
    }

    #[test]
    fn the_short_sample_has_what_is_required() {
        let schema = json!({
            "required": ["adminEmail", "plan"],
            "properties": {"adminEmail": {"type": "string"}, "plan": {"enum": ["small", "large"]}},
        });
        let values: String = (0..9)
            .map(|number| {
                format!(
                    "v{number}: 1
"
                )
            })
            .collect();
        let (text, spec) = short_of(&values, Some(schema));
        assert_eq!(spec, json!({"adminEmail": ""}));
        assert!(
            text.contains(
                "  # plan: required; One of small, large.
"
            ),
            "{text}"
        );
    }

    fn values() -> impl Strategy<Value = Value> {
        let texts = prop_oneof!["[a-z]{0,6}", "[ -~\n]{0,20}", Just("yes".to_owned()), Just("# no".to_owned())];
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Into::into),
            any::<i32>().prop_map(Into::into),
            texts.prop_map(Into::into)
        ];
        let inner = leaf.prop_recursive(3, 20, 4, |inner| {
            let map = prop::collection::btree_map("[a-z]{1,4}", inner.clone(), 0..4);
            prop_oneof![
                prop::collection::vec(inner, 0..3).prop_map(Into::into),
                map.prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        });
        prop::collection::btree_map("[a-z]{1,4}", inner, 0..5).prop_map(|map| Value::Object(map.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn whatever_the_values_are_the_spec_is_the_same(values in values()) {
            let text = serde_yaml::to_string(&values).unwrap();
            prop_assert_eq!(of(&text).1, yaml::parse(&text).unwrap());
        }
    }
}
