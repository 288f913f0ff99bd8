//! Small charts, each with another way to say what its values are.
//!
//! | module | what is in it |
//! |---|---|
//! | [`alternatives`] | `anyOf`, `oneOf`, `not` |
//! | [`subcharts`] | charts in charts, `global`, libraries |

mod alternatives;
mod subcharts;

pub struct Case {
    pub kind: &'static str,
    pub files: &'static [(&'static str, &'static str)],
    pub is_strict: bool,
    /// Some charts cannot be installed without a value.
    pub takes_its_defaults: bool,
    /// helm and the API server take these.
    pub accepted: &'static [&'static str],
    /// Both refuse these. With strict types only the API server does.
    pub refused: &'static [&'static str],
    /// A CRD cannot say what is wrong with these.
    pub open: &'static [&'static str],
}

const PLAIN: Case =
    Case { kind: "", files: &[], is_strict: false, takes_its_defaults: true, accepted: &[], refused: &[], open: &[] };

const NO_SCHEMA: Case = Case {
    kind: "Bare",
    files: &[(
        "values.yaml",
        "# How many.\nsize: 1\nname: web\nservice:\n  # Where.\n  port: 80\n  annotations: {}\nhosts: []\non: true\nnothing:\ntext: |\n  a\n  b\n\"a.b/c\": 1\n",
    )],
    accepted: &[
        "{}",
        "{size: text, name: 1, service: text}",
        "{service: [1], hosts: {a: 1}}",
        "{service: {port: null, more: {a: [1]}}}",
        "{service: null, hosts: null, size: null, name: null}",
        "{unknown: {a: null}, global: {x: 1}}",
        "{size: 1.5, service: {annotations: {a: 1}}}",
        "{\"a.b/c\": [1, null]}",
    ],
    ..PLAIN
};

const STRICT: Case = Case {
    kind: "Strict",
    files: &[("values.yaml", "size: 1\nname: web\nservice: {port: 80}\nhosts: []\nwhat:\n")],
    is_strict: true,
    accepted: &[
        "{}",
        "{size: 2, name: a, service: {port: null, more: 1}, hosts: [1, {a: b}, null], what: 1}",
        "{service: null}",
    ],
    refused: &["{size: text}", "{service: text}", "{hosts: {a: 1}}", "{name: 1}"],
    ..PLAIN
};

const DRAFT_7: Case = Case {
    kind: "Seven",
    files: &[
        ("values.yaml", "port: 80\nkind: ClusterIP\nname: web\nimage: {repository: nginx}\nlimits: {}\n"),
        (
            "values.schema.json",
            r##"{
              "$schema": "http://json-schema.org/draft-07/schema#",
              "definitions": {"port": {"type": "integer", "minimum": 1, "maximum": 65535}},
              "type": "object",
              "required": ["port", "image", "kind"],
              "additionalProperties": false,
              "properties": {
                "port": {"$ref": "#/definitions/port", "description": "ignored beside a reference"},
                "kind": {"enum": ["ClusterIP", "NodePort"]},
                "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
                "image": {"type": "object", "required": ["repository"], "minProperties": 1, "maxProperties": 2, "properties": {"repository": {"type": "string", "minLength": 1}}},
                "limits": {"type": "object", "additionalProperties": {"type": ["string", "integer"]}},
                "address": {"type": "string", "format": "ipv4"},
                "share": {"type": ["integer", "string", "null"], "minimum": 0, "pattern": "%$"},
                "env": {"type": "array", "uniqueItems": true, "maxItems": 2, "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "value": {"type": ["string", "null"]}}}},
                "level": {"const": 3},
                "ratio": {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
              }
            }"##,
        ),
    ],
    accepted: &[
        "{}",
        "{port: 8080, kind: NodePort, name: abc, image: {tag: x}, limits: {cpu: 1, memory: 1Gi}}",
        "{port: 3.0, ratio: 1, level: 3}",
        "{name: null, image: {repository: a}}",
        "{share: 5}",
        "{address: 10.0.0.1, share: 1}",
        "{share: 5%, env: [{name: a, value: null}, {name: b}]}",
        "{share: null, ratio: 0.5}",
        "{limits: null}",
    ],
    refused: &[
        "{port: 0}",
        "{port: text}",
        "{port: 1.5}",
        "{kind: Other}",
        "{name: ABC}",
        "{name: abcdef}",
        "{image: text}",
        "{image: {repository: ''}}",
        "{limits: {cpu: [1]}}",
        "{address: somewhere}",
        "{share: -1}",
        "{env: [{value: a}]}",
        "{env: [1]}",
        "{env: [{name: a}, {name: b}, {name: c}]}",
        "{unknown: 1}",
        "{level: 4}",
        "{ratio: 0}",
        "{image: {a: 1, b: 2, c: 3, d: 4}}",
    ],
    open: &["{kind: null}", "{limits: {cpu: null}}", "{env: [{name: a}, {name: a}]}", "{image: {a: 1, b: 2}}"],
    ..PLAIN
};

const DRAFT_4: Case = Case {
    kind: "Four",
    files: &[
        ("values.yaml", "size: 5\n"),
        (
            "values.schema.json",
            r##"{
              "$schema": "http://json-schema.org/draft-04/schema#",
              "id": "http://example.com/values",
              "type": "object",
              "properties": {
                "size": {"type": "integer", "minimum": 1, "exclusiveMinimum": true, "const": 7},
                "pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}], "additionalItems": false},
                "mail": {"type": "string", "format": "email"},
                "a": {"dependencies": {"b": ["c"]}, "type": "object"}
              }
            }"##,
        ),
    ],
    accepted: &[
        "{}",
        "{size: 2}",
        "{pair: [a, 1]}",
        "{mail: a@example.com}",
        "{a: {b: 1, c: 2}}",
        "{a: {c: 2}}",
        "{more: [1]}",
    ],
    refused: &["{size: 1}", "{a: {b: 1}}", "{pair: text}"],
    open: &["{mail: nobody}", "{pair: [1, a]}", "{pair: [a, 1, 2]}"],
    ..PLAIN
};

const DRAFT_2020: Case = Case {
    kind: "Latest",
    files: &[
        ("values.yaml", "mode: plain\nauth: {user: me}\n"),
        (
            "values.schema.json",
            r##"{
              "$schema": "https://json-schema.org/draft/2020-12/schema",
              "$defs": {
                "size": {"$anchor": "size", "type": "integer", "minimum": 1},
                "tree": {"type": "object", "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
              },
              "properties": {
                "mode": {"type": "string"},
                "auth": {"type": "object", "oneOf": [{"required": ["user"]}, {"required": ["token"]}], "properties": {"user": {"type": "string"}, "token": {"type": "string"}}},
                "login": {"type": "object", "oneOf": [{"required": ["user"]}, {"required": ["token"]}]},
                "storage": {"$ref": "#size", "maximum": 9},
                "tree": {"$ref": "#/$defs/tree"},
                "address": {"type": "string", "format": "ipv4"},
                "either": {"anyOf": [{"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "minLength": 2}}}, {"type": "string", "pattern": "^a"}]},
                "never": false,
                "tags": {"type": "array", "contains": {"const": "x"}, "prefixItems": [{"type": "string"}]},
                "tls": {"type": "object", "if": {"required": ["secret"]}, "then": {"required": ["host"]}, "else": {"required": ["plain"]}},
                "word": {"type": "string", "not": {"enum": ["admin", "root"]}},
                "labels": {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}, "patternProperties": {"^a": {"type": "string"}}, "additionalProperties": {"type": "integer"}},
                "dual": {"type": "object", "dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"properties": {"d": {"minimum": 3}}}}}
              }
            }"##,
        ),
    ],
    accepted: &[
        "{}",
        "{mode: other, auth: {user: null, token: x}}",
        "{login: {user: a}, storage: 9}",
        "{tree: {name: a, children: [{name: b, children: [{name: c}]}]}}",
        "{address: not an address}",
        "{either: abc}",
        "{either: {name: ab, more: 1}}",
        "{tags: [x, 1]}",
        "{tls: {secret: a, host: b}}",
        "{tls: {plain: true}}",
        "{word: user}",
        "{labels: {abc: x, b: 1}}",
        "{dual: {a: 1, b: 2, c: 1, d: 3}}",
        "{dual: {d: 1}}",
        "{more: {a: null}}",
    ],
    refused: &[
        "{mode: 1}",
        "{login: {user: a, token: b}}",
        "{login: {}}",
        "{storage: 10}",
        "{storage: 0}",
        "{tree: {name: 1}}",
        "{either: {name: a}}",
        "{either: bc}",
        "{either: {}}",
        "{never: 1}",
        "{tls: {secret: a}}",
        "{tls: {}}",
        "{word: root}",
        "{dual: {a: 1}}",
        "{dual: {c: 1, d: 1}}",
    ],
    open: &[
        "{auth: {token: x}}",
        "{tree: {children: [{name: 1}]}}",
        "{either: 5}",
        "{tags: [y]}",
        "{labels: {b: text}}",
        "{labels: {A: 1}}",
    ],
    ..PLAIN
};

const DRAFT_2019: Case = Case {
    kind: "Earlier",
    files: &[
        ("values.yaml", "a: 1\n"),
        (
            "values.schema.json",
            r##"{
              "$schema": "https://json-schema.org/draft/2019-09/schema",
              "$defs": {"base": {"type": "object", "properties": {"a": {"type": "integer"}}}},
              "allOf": [{"$ref": "#/$defs/base"}, {"properties": {"b": {"type": "string", "minLength": 2}}}],
              "unevaluatedProperties": false
            }"##,
        ),
    ],
    accepted: &["{}", "{a: 2, b: ab}", "{a: null}"],
    refused: &["{a: text}", "{b: x}"],
    open: &["{c: 1}"],
    ..PLAIN
};

const DRAFT_6: Case = Case {
    kind: "Six",
    files: &[
        ("values.yaml", "items: [1]\n"),
        (
            "values.schema.json",
            r#"{"$schema": "http://json-schema.org/draft-06/schema#", "properties": {"items": {"type": "array", "items": {"const": 1}, "minItems": 1}, "x": {"if": {"const": 1}, "then": false}}}"#,
        ),
    ],
    accepted: &["{}", "{items: [1, 1]}", "{x: 1}", "{items: null}"],
    refused: &["{items: []}", "{items: [2]}", "{items: x}"],
    ..PLAIN
};

const REQUIRED: Case = Case {
    kind: "Needy",
    files: &[
        ("values.yaml", "db: {host: localhost}\n"),
        (
            "values.schema.json",
            r#"{"required": ["password", "db"], "properties": {"password": {"type": "string"}, "db": {"type": "object", "required": ["host", "name"], "properties": {"host": {"type": "string"}}}}}"#,
        ),
    ],
    takes_its_defaults: false,
    accepted: &["{password: x, db: {name: a}}", "{password: x, db: {name: a, host: b}}"],
    refused: &["{}", "{password: x, db: {}}", "{db: {name: a}}"],
    open: &["{password: x, db: {name: a, host: null}}"],
    ..PLAIN
};

const PARTIAL: Case = Case {
    kind: "Partial",
    files: &[
        (
            "values.yaml",
            "# Known.\nknown: {a: 1, b: 2}\n# Unknown to the schema.\nunknown: {c: [1]}\nreplicaCount: 1\n",
        ),
        ("values.schema.json", r#"{"properties": {"known": {"properties": {"a": {"type": "integer"}}}}}"#),
    ],
    accepted: &[
        "{}",
        "{known: {a: 2, b: text, z: 1}}",
        "{known: text}",
        "{unknown: 1, replicaCount: 4}",
        "{unknown: {c: {d: 1}}}",
        "{replicaCount: null}",
    ],
    refused: &["{known: {a: x}}"],
    ..PLAIN
};

const CLOSED_TOP: Case = Case {
    kind: "Closed",
    files: &[
        ("values.yaml", "a: {b: 1}\n"),
        (
            "values.schema.json",
            r#"{"additionalProperties": false, "properties": {"a": {"type": "object", "additionalProperties": false, "properties": {"b": {"type": ["integer", "boolean"]}}}}}"#,
        ),
    ],
    accepted: &["{}", "{a: {b: 2}}", "{a: {b: true}}", "{a: {b: null}}", "{a: {}}"],
    refused: &["{global: {x: 1}}", "{c: 1}", "{a: {c: 1}}"],
    open: &["{a: {b: text}}"],
    ..PLAIN
};

const COMMENTED: Case = Case {
    kind: "Commented",
    files: &[(
        "values.yaml",
        "## @section Common\n## @param image.tag [string, nullable] Which\nimage:\n  tag: \"\"\n# -- (int) How many\n# @default -- one\nreplicas: 1\n# -- Hidden\n# @ignored\nold: x\n## @extra more.name Also\nmore: {}\nanchor: &a {x: 1}\nagain:\n  <<: *a\n  y: 2\n\"yes\": on\n",
    )],
    accepted: &[
        "{}",
        "{image: {tag: 1.10}, replicas: 0, old: [1], more: {name: {a: 1}}}",
        "{again: 1, \"yes\": null, replicas: 3.0}",
    ],
    ..PLAIN
};

const STRANGE: Case = Case {
    kind: "Strange",
    files: &[
        ("values.yaml", "metadata: {name: a}\nkind: x\napiVersion: 1\nspec: {metadata: {a: 1}}\n"),
        (
            "values.schema.json",
            r#"{"properties": {"metadata": {"anyOf": [{"required": ["name"]}, {"required": ["id"]}]}, "status": {"type": "integer"}}, "anyOf": [{"properties": {"metadata": {"type": "object"}, "kind": {"minLength": 1}}}, {"required": ["other"]}]}"#,
        ),
    ],
    accepted: &[
        "{}",
        "{metadata: {name: b, id: 1}, kind: y}",
        "{other: 1, metadata: {id: 1}}",
        "{spec: {metadata: 5}, apiVersion: x}",
    ],
    refused: &["{status: text}"],
    open: &["{metadata: text}"],
    ..PLAIN
};

const LENIENT: Case = Case {
    kind: "Lenient",
    files: &[
        ("values.yaml", "a: {b: 1}\n"),
        // With a byte order mark.
        (
            "values.schema.json",
            "\u{feff}{\"$schema\": \"http://json-schema.org/draft-07/schema#\", \"properties\": {\"a\": {\"properties\": {\"b\": {\"type\": \"integer\"}}, \"additionalProperties\": false}, \"home\": {\"type\": \"string\", \"format\": \"uri\"}, \"name\": {\"type\": \"string\", \"pattern\": \"^[a-z*+]+$\"}}}",
        ),
    ],
    accepted: &["{}", "{a: text}", "{a: {b: 2}}", "{home: 'http://example.com#frag'}", "{name: a*+}"],
    refused: &["{a: {b: x}}", "{name: A}"],
    open: &["{a: {c: 1}}"],
    ..PLAIN
};

pub const CASES: &[Case] = &[
    NO_SCHEMA,
    STRICT,
    DRAFT_7,
    DRAFT_4,
    DRAFT_2020,
    DRAFT_2019,
    DRAFT_6,
    REQUIRED,
    PARTIAL,
    CLOSED_TOP,
    COMMENTED,
    STRANGE,
    LENIENT,
    alternatives::BY_TYPE,
    alternatives::NUMBERS,
    subcharts::SUBCHARTS,
    subcharts::GLOBALS,
    subcharts::UMBRELLA,
    subcharts::HIDDEN,
    subcharts::LIBRARY,
];
