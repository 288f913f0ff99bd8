//! Values of which one thing or another holds.

use super::{Case, PLAIN};

pub const BY_TYPE: Case = Case {
    kind: "Either",
    files: &[
        ("values.yaml", "mode: a\n"),
        (
            "values.schema.json",
            r#"{
              "properties": {
                "mode": {"oneOf": [{"type": "null"}, {"type": "string", "enum": ["a", "b"]}]},
                "size": {"anyOf": [{"type": "string", "minimum": 1}, {"type": "integer"}]},
                "near": {"oneOf": [{"type": "string", "required": ["a"]}, {"type": "object"}]},
                "port": {"anyOf": [{"type": "string", "pattern": "^[a-z]+$"}, {"type": "integer", "minimum": 1, "pattern": "^x"}]}
              }
            }"#,
        ),
    ],
    accepted: &[
        "{}",
        "{mode: null}",
        "{mode: b}",
        "{size: 0}",
        "{size: text}",
        "{near: {}}",
        "{near: text}",
        "{port: http}",
        "{port: 1}",
    ],
    refused: &["{mode: c}", "{mode: 1}", "{size: [1]}", "{port: 0}", "{port: HTTP}"],
    open: &["{near: 1}"],
    ..PLAIN
};

pub const NUMBERS: Case = Case {
    kind: "Numeric",
    files: &[
        ("values.yaml", "a: 1\n"),
        (
            "values.schema.json",
            r#"{
              "properties": {
                "share": {"type": "number", "not": {"enum": [0]}},
                "count": {"type": "integer", "not": {"enum": [0]}},
                "half": {"type": "number", "not": {"const": 0.5}},
                "any": {"not": {"enum": ["A"]}},
                "long": {"not": {"enum": ["AB"]}}
              }
            }"#,
        ),
    ],
    accepted: &["{}", "{share: 0.5}", "{count: 1}", "{half: 0}", "{any: 65}", "{long: 65}"],
    refused: &["{count: 0}", "{half: 0.5}", "{long: AB}"],
    open: &["{share: 0}", "{any: A}"],
    ..PLAIN
};
