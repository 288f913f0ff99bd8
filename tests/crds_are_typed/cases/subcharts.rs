//! Charts in charts.

use super::{Case, PLAIN};

pub const SUBCHARTS: Case = Case {
    kind: "Parent",
    files: &[
        (
            "Chart.yaml",
            "apiVersion: v2\nname: parent\nversion: 0.1.0\ndependencies:\n- {name: db, version: 0.1.0, repository: '', alias: store}\n- {name: cache, version: 0.1.0, repository: '', condition: cache.enabled}\n",
        ),
        ("values.yaml", "store: {size: 2}\ncache: {enabled: true, size: 1}\nglobal: {zone: a}\n"),
        ("values.schema.json", r#"{"properties": {"store": {"properties": {"size": {"maximum": 9}}}}}"#),
        ("charts/db/Chart.yaml", "apiVersion: v2\nname: db\nversion: 0.1.0\n"),
        ("charts/db/values.yaml", "# How large.\nsize: 1\nport: 5432\n"),
        (
            "charts/db/values.schema.json",
            r#"{"additionalProperties": false, "required": ["global", "size"], "properties": {"size": {"type": "integer"}, "port": {"type": "integer"}, "global": {"type": "object", "required": ["zone"], "properties": {"zone": {"type": "string"}}}}}"#,
        ),
        ("charts/cache/Chart.yaml", "apiVersion: v2\nname: cache\nversion: 0.1.0\n"),
        ("charts/cache/values.yaml", "size: 1\n"),
        ("charts/cache/values.schema.json", r#"{"properties": {"size": {"type": "integer"}}}"#),
    ],
    accepted: &[
        "{}",
        "{store: {size: 3}, global: {zone: b, more: 1}}",
        "{store: {port: null}, cache: {enabled: false, size: text}}",
        "{store: {global: {own: 1}}}",
        "{cache: {size: 2, more: 1}}",
        "{global: {zone: b}}",
    ],
    refused: &[
        "{store: text}",
        "{cache: [1]}",
        "{store: {size: text}}",
        "{store: {size: 10}}",
        "{store: {more: 1}}",
        "{store: {port: 1.5}}",
    ],
    open: &["{cache: {size: text}}", "{global: {zone: 1}}"],
    ..PLAIN
};

/// What helm puts into the `global` of a subchart decides there.
pub const GLOBALS: Case = Case {
    kind: "Globals",
    files: &[
        ("values.yaml", "global: {zone: a}\ndb: {size: 2}\n"),
        (
            "values.schema.json",
            r#"{
              "properties": {
                "db": {
                  "properties": {"global": {"type": "object", "required": ["zone"], "properties": {"zone": {"enum": ["a", "b"]}}}},
                  "anyOf": [{"properties": {"global": {"required": ["zone"]}}}, {"required": ["port"]}]
                }
              }
            }"#,
        ),
        ("charts/db/Chart.yaml", "apiVersion: v2\nname: db\nversion: 0.1.0\n"),
        ("charts/db/values.yaml", "size: 1\n"),
        (
            "charts/db/values.schema.json",
            r#"{"anyOf": [{"properties": {"global": {"required": ["zone"], "properties": {"zone": {"maxLength": 1}}}}}, {"required": ["port"]}]}"#,
        ),
        ("charts/own/Chart.yaml", "apiVersion: v2\nname: own\nversion: 0.1.0\n"),
    ],
    accepted: &["{}", "{db: {global: {own: 1}}}", "{db: {global: {zone: other}}}", "{db: null}", "{db: {size: 3}}"],
    refused: &["{db: text}"],
    // The API server drops it.
    open: &["{own: null}"],
    ..PLAIN
};

pub const UMBRELLA: Case = Case {
    kind: "Umbrella",
    files: &[
        ("values.yaml", "db: {size: 2}\n"),
        ("values.schema.json", r#"{"type": "object", "additionalProperties": {"type": "object"}}"#),
        ("charts/db/Chart.yaml", "apiVersion: v2\nname: db\nversion: 0.1.0\n"),
        ("charts/db/values.yaml", "size: 1\n"),
        ("charts/db/values.schema.json", r#"{"properties": {"size": {"type": "integer"}}}"#),
    ],
    accepted: &["{}", "{web: {a: 2}}", "{db: {size: 3}, global: {a: 1}}"],
    refused: &["{db: text}", "{db: {size: text}}"],
    open: &["{web: text}"],
    ..PLAIN
};

pub const HIDDEN: Case = Case {
    kind: "Hidden",
    files: &[
        (
            "Chart.yaml",
            "apiVersion: v2\nname: hidden\nversion: 0.1.0\ndependencies:\n- {name: db, version: 0.1.0, repository: ''}\n- {name: db, version: 0.1.0, repository: '', alias: spare, condition: spare.enabled}\n",
        ),
        ("values.yaml", "## @skip db\ndb: {}\n## @skip spare\nspare: {}\n"),
        ("charts/db/Chart.yaml", "apiVersion: v2\nname: db\nversion: 0.1.0\n"),
        (
            "charts/db/values.schema.json",
            r#"{"type": "object", "additionalProperties": {"type": ["object", "boolean"]}}"#,
        ),
    ],
    accepted: &["{}", "{db: {a: {b: 1}, global: {c: 1}}}", "{spare: {enabled: false, a: text}}"],
    refused: &["{db: text}"],
    open: &["{db: {a: text}}", "{spare: {a: text}}"],
    ..PLAIN
};

pub const LIBRARY: Case = Case {
    kind: "Shelf",
    files: &[
        (
            "Chart.yaml",
            "apiVersion: v2\nname: shelf\nversion: 0.1.0\ndependencies:\n- {name: lib, version: 0.1.0, repository: '', import-values: [data, {child: more, parent: deep.inside}]}\n",
        ),
        ("values.yaml", "a: 1\n"),
        (
            "values.schema.json",
            r#"{"required": ["user", "deep", "lib", "a"], "properties": {"deep": {"type": "object", "required": ["inside"]}}}"#,
        ),
        ("charts/lib/Chart.yaml", "apiVersion: v2\nname: lib\nversion: 0.1.0\ntype: library\n"),
        ("charts/lib/values.yaml", "exports: {data: {user: me}}\nmore: {x: 1}\n"),
    ],
    accepted: &["{}", "{deep: {other: 1}}", "{user: you}"],
    refused: &["{deep: text}"],
    ..PLAIN
};
