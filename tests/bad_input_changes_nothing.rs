//! Whatever is wrong with a spec, a chart or an object: it is told, the last good release stays, and nobody spins.

use std::process::{Command, Stdio};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::harness::{Project, asks_for_kinds, config, control_plane, tool, within};

/// Every way to go wrong, chosen by the spec.
const TEMPLATE: &str = r#"
{{ if .Values.refuse }}{{ fail .Values.refuse }}{{ end }}
{{ if .Values.nothing }}{{ .Values.absent.deeper }}{{ end }}
{{ range .Values.objects }}
---
{{ toYaml . }}
{{ end }}
---
{{ .Values.raw }}
"#;

const NOTES: &str = "{{ if .Values.warn }}{{ fail .Values.warn }}{{ end }}
{{ if .Values.notes }}{{ .Values.absent.deeper }}{{ end }}
";

const SCHEMA: &str = r#"{"properties": {"image": {"properties": {"port": {"type": "integer", "maximum": 65535}}}}}"#;

/// A bad edit of a good release.
struct Case {
    name: &'static str,
    /// Objects of the good release besides the ConfigMap.
    good: Vec<Value>,
    /// What the bad spec has besides the changed ConfigMap.
    bad: Value,
    reason: &'static str,
    mentions: &'static [&'static str],
}

fn case(name: &'static str, bad: Value, reason: &'static str, mentions: &'static [&'static str]) -> Case {
    Case { name, good: vec![], bad, reason, mentions }
}

/// A bad edit that adds an object.
fn with(name: &'static str, object: Value, reason: &'static str, mentions: &'static [&'static str]) -> Case {
    case(name, json!({"objects": [object]}), reason, mentions)
}

fn service(name: &str, port: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": port}]}})
}

fn deployment(name: &str, app: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": app}},
        "template": {"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }})
}

fn job(name: &str, image: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": image}]},
    }}})
}

fn cases() -> Vec<Case> {
    let text = |name: &str, data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
    let mut unknown_field = service("unknown-field", json!(80));
    unknown_field["spec"]["colour"] = "red".into();
    let mut wrong_type = deployment("wrong-type", "a");
    wrong_type["spec"]["replicas"] = "three".into();
    let mut bad_label = config("label-2", "red");
    bad_label["metadata"]["labels"] = json!({"a": "not a label value"});
    vec![
        case("refusal", json!({"refuse": "no luck"}), "RenderFailed", &["no luck", "objects.yaml"]),
        case("nil-pointer", json!({"nothing": true}), "RenderFailed", &["nil pointer", "absent"]),
        case("notes", json!({"notes": true}), "RenderFailed", &["app/templates/NOTES.txt:2:", "nil pointer"]),
        case("notes-refusal", json!({"warn": "no luck"}), "RenderFailed", &["app/templates/NOTES.txt: no luck"]),
        case("schema", json!({"image": {"port": "http"}}), "InvalidValues", &["image.port", "integer"]),
        case("schema-limit", json!({"image": {"port": 70000}}), "InvalidValues", &["image.port", "65"]),
        case("no-yaml", json!({"raw": "a: b: c"}), "RenderFailed", &["objects.yaml"]),
        case("no-object", json!({"raw": "just words"}), "RenderFailed", &["objects.yaml"]),
        case("control-characters", json!({"raw": "a: \u{0}\u{1}\u{1b}"}), "RenderFailed", &["objects.yaml"]),
        with("duplicate", config("duplicate", "red"), "InvalidManifest", &["ConfigMap", "duplicate", "twice"]),
        with("port", service("port", json!(99999)), "InvalidObject", &["Service", "port", "99999"]),
        with("wrong-type", wrong_type, "InvalidObject", &["Deployment", "replicas"]),
        with("unknown-field", unknown_field, "InvalidObject", &["Service", "colour"]),
        with("list", json!([config("list-2", "red")]), "RenderFailed", &["objects.yaml", "array"]),
        with("label", bad_label, "InvalidObject", &["ConfigMap", "not a label value"]),
        with("long-name", service(&"n".repeat(64), json!(80)), "InvalidObject", &["Service", "63"]),
        with("very-long-name", config(&"n".repeat(254), "red"), "InvalidObject", &["ConfigMap", "253"]),
        with("long-key", text("long-key-2", json!({"k".repeat(300): "v"})), "InvalidObject", &["ConfigMap", "253"]),
        with("big", text("big-2", json!({"all": "x".repeat(1_250_000)})), "InvalidObject", &["ConfigMap", "Too long"]),
        with(
            "unknown-kind",
            json!({"apiVersion": "zoo.io/v1", "kind": "Unicorn", "metadata": {"name": "u"}}),
            "UnknownKind",
            &["Unicorn", "zoo.io/v1"],
        ),
        with("no-namespace", within("not-there", config("c", "red")), "Missing", &["ConfigMap", "not-there"]),
        with("forbidden", within("kube-public", service("s", json!(80))), "Forbidden", &["Service", "kube-public"]),
        Case {
            good: vec![deployment("selector", "a")],
            ..with(
                "selector",
                deployment("selector", "b"),
                "ImmutableField",
                &["Deployment", "selector", "upgrade-force"],
            )
        },
        Case {
            good: vec![job("job-template", "a")],
            ..with("job-template", job("job-template", "b"), "ImmutableField", &["Job", "immutable", "upgrade-force"])
        },
        case("empty", json!({"objects": "none"}), "EmptyRender", &["no objects"]),
    ]
}

impl Case {
    fn good(&self) -> Value {
        let objects = [&[config(self.name, "blue")], self.good.as_slice()].concat();
        json!({"objects": objects})
    }

    fn bad(&self) -> Value {
        let mut spec = self.bad.clone();
        let map = spec.as_object_mut().unwrap();
        let more = map.remove("objects").unwrap_or(json!([]));
        let Value::Array(more) = more else { return json!({"empty": true}) };
        map.insert("objects".into(), [&[config(self.name, "red")], more.as_slice()].concat().into());
        spec
    }

    async fn objects(&self, project: &Project) -> Vec<(Option<String>, Option<String>)> {
        let mut all = vec![];
        for object in self.good()["objects"].as_array().unwrap() {
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap();
            let found = project.get(text("/apiVersion"), text("/kind"), text("/metadata/name")).await;
            let found = found.unwrap_or_else(|| panic!("{}: {object} is gone", self.name));
            // The status of a workload may move on.
            let version = found.metadata.generation.map(|it| it.to_string()).or(found.resource_version());
            all.push((found.uid(), version));
        }
        all
    }

    async fn goes_wrong_and_changes_nothing(&self, project: &Project) {
        let name = self.name;
        project.apply(name, self.good()).await;
        project.deployed(name).await;
        let before = self.objects(project).await;
        project.apply(name, self.bad()).await;
        let ready = project.not_ready(name, self.reason).await;
        let message = ready["message"].as_str().unwrap();
        for part in self.mentions {
            assert!(message.contains(part), "{name}: no {part:?} in: {message}");
        }
        assert!(message.len() < 4096, "{name}: {} bytes are too many to read", message.len());
        let failed = project.condition(name, "ReleaseFailed", "True").await;
        assert_eq!(failed["reason"], "UpgradeError", "{name}");
        assert!(failed["message"].as_str().unwrap().contains(message), "{name}: {failed}");
        project.condition(name, "Deployed", "True").await;
        let status = project.status(name).await;
        assert_eq!(status["deployedRelease"]["revision"], 1, "{name}");
        assert_eq!(self.objects(project).await, before, "{name}: an object changed");
    }
}

/// A project whose operator may read everything, write ConfigMaps everywhere, and do anything in its own namespace.
async fn project() -> Project {
    let project = Project::new("App").await.reaching_out();
    project.template("objects.yaml", TEMPLATE);
    project.template("NOTES.txt", NOTES);
    project.file("charts/app/values.schema.json", SCHEMA);
    let (user, namespace) = (project.user(), project.namespace.clone());
    let rule = |resources: &str, verbs: &[&str]| json!({"apiGroups": ["*"], "resources": [resources], "verbs": verbs});
    let rules = [rule("*", &["get", "list", "watch"]), rule("configmaps", &["*"])];
    let rbac = |kind: &str, name: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}});
    let bound = |kind: &str, to: &str| {
        let mut binding = rbac(kind, &user);
        binding["subjects"] = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]);
        binding["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": to});
        binding
    };
    let mut reader = rbac("ClusterRole", &user);
    reader["rules"] = json!(rules);
    project.create(reader).await;
    project.create(bound("ClusterRoleBinding", &user)).await;
    project.create(within(&namespace, bound("RoleBinding", "cluster-admin"))).await;
    project
}

/// Whether a path names this custom resource, its objects or its record.
fn is_about(call: &str, name: &str) -> bool {
    call.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '.')
        .any(|word| word == name || word.strip_prefix("sh.helm.release.v1.").is_some_and(|rest| rest.starts_with(name)))
}

#[tokio::test]
async fn a_bad_edit_is_told_and_changes_nothing_and_is_not_tried_again_and_again() {
    let project = project().await;
    let _operator = project.launch().limited().start();
    let cases = cases();
    join_all(cases.iter().map(|case| case.goes_wrong_and_changes_nothing(&project))).await;
    let since = Timestamp::now();
    tokio::time::sleep(Duration::from_secs(20)).await;
    let calls = project.calls_since(since);
    for Case { name, .. } in &cases {
        let about: Vec<_> = calls.iter().filter(|call| is_about(call, name)).collect();
        assert!(about.len() < 10, "{name}: {} calls in 20 s: {about:#?}", about.len());
    }
    let others = calls.iter().filter(|call| !cases.iter().any(|case| is_about(call, case.name)));
    // Other tests bring and take kinds all the time. Whoever tries again after that asks first which there are.
    let (kinds, others): (Vec<_>, Vec<_>) = others.partition(|call| asks_for_kinds(call));
    assert!(others.len() < 10, "{} calls about nothing in 20 s: {others:#?}", others.len());
    assert!(kinds.len() <= 3 * cases.len(), "kinds were asked for more than once a try: {kinds:#?}");
}

#[tokio::test]
async fn a_bad_first_spec_makes_nothing_and_works_once_it_is_mended() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue"), service("web", json!(0))]})).await;
    project.not_ready("web", "InvalidObject").await;
    let failed = project.condition("web", "ReleaseFailed", "True").await;
    assert_eq!(failed["reason"], "InstallError");
    assert!(project.get("v1", "ConfigMap", "web").await.is_none());
    assert!(project.get("v1", "Secret", "sh.helm.release.v1.web.v1").await.is_none());
    project.apply("web", json!({"objects": [config("web", "blue"), service("web", json!(80))]})).await;
    project.condition("web", "Ready", "True").await;
    project.condition("web", "ReleaseFailed", "False").await;
}

#[tokio::test]
async fn with_upgrade_force_what_cannot_be_changed_is_made_again() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [deployment("web", "a"), job("web", "a"), config("web", "blue")]})).await;
    project.condition("web", "Ready", "True").await;
    let uids = async || {
        let deployment = project.get("apps/v1", "Deployment", "web").await?.uid();
        let job = project.get("batch/v1", "Job", "web").await?.uid();
        Some((deployment, job, project.get("v1", "ConfigMap", "web").await?.uid()))
    };
    let before = uids().await.unwrap();
    project.apply("web", json!({"objects": [deployment("web", "b"), job("web", "b"), config("web", "red")]})).await;
    project.not_ready("web", "ImmutableField").await;
    assert_eq!(uids().await.unwrap(), before);
    project.annotate("web", "helm.sdk.operatorframework.io/upgrade-force", "true").await;
    project.deployed("web").await;
    project.condition("web", "Ready", "True").await;
    let after = uids().await.unwrap();
    assert!(after.0 != before.0 && after.1 != before.1, "they were not made again");
    assert_eq!(after.2, before.2, "the ConfigMap can be changed in place");
    let deployment = project.get("apps/v1", "Deployment", "web").await.unwrap();
    assert_eq!(deployment.data["spec"]["selector"]["matchLabels"]["app"], "b");
}

#[tokio::test]
async fn strange_text_arrives_as_it_was_written() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    let texts =
        ["\u{0}\u{1}\u{7}\u{1b}[31m", "\u{feff}\u{2028}", "{{ .Values }}", "--- \n...\n", "é\u{301}💥", " \t\n"];
    let data: Value = texts.iter().enumerate().map(|(number, text)| (format!("k{number}"), json!(text))).collect();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, "data": data});
    project.apply("web", json!({"objects": [object]})).await;
    project.condition("web", "Deployed", "True").await;
    assert_eq!(project.get("v1", "ConfigMap", "web").await.unwrap().data["data"], data);
}

/// What `kubectl create --raw` says to a custom resource that no client library would write.
fn create_raw(project: &Project, body: &str) {
    project.file("body.json", body);
    let path =
        format!("/apis/{}/namespaces/{}/{}", project.resource.api_version, project.namespace, project.resource.plural);
    let output = Command::new(tool("kubectl"))
        .args(["create", "--raw", &path, "-f"])
        .arg(project.dir().join("body.json"))
        .env_clear()
        .env("KUBECONFIG", control_plane().kubeconfig())
        .env("HOME", project.dir())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn body(project: &Project, name: &str, spec: &str) -> String {
    let (api_version, kind) = (&project.resource.api_version, &project.resource.kind);
    format!(r#"{{"apiVersion": "{api_version}", "kind": "{kind}", "metadata": {{"name": "{name}"}}, "spec": {spec}}}"#)
}

#[tokio::test]
async fn half_characters_deep_nesting_and_long_keys_stop_nobody() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    let half = serde_json::to_string(&json!({"objects": [config("half", "COLOUR")]})).unwrap();
    create_raw(&project, &body(&project, "half", &half.replace("COLOUR", r"\ud800")));
    let nested = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    let deep = format!(r#"{{"deep": {}, "objects": [{}]}}"#, nested(100), config("deep", "blue"));
    create_raw(&project, &body(&project, "deep", &deep));
    let long = format!(r#"{{"objects": [{}], "{}": 1}}"#, config("long", "blue"), "k".repeat(100_000));
    create_raw(&project, &body(&project, "long", &long));
    let refused = project.not_ready("long", "InvalidValues").await;
    assert!(refused["message"].as_str().unwrap().contains("a key in `spec` is too long"), "{refused}");
    for name in ["half", "deep"] {
        project.condition(name, "Deployed", "True").await;
    }
    assert_eq!(project.get("v1", "ConfigMap", "half").await.unwrap().data["data"]["colour"], "\u{fffd}");
}

/// Open: the client library reads a list only to a depth of 128, so after a start no resource of the kind is seen.
#[tokio::test]
async fn a_spec_that_is_nested_too_deeply_does_not_stop_the_others() {
    let project = Project::of_objects().await;
    let nested = format!("{}1{}", r#"{"a":"#.repeat(300), "}".repeat(300));
    create_raw(&project, &body(&project, "deep", &nested));
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.condition("web", "Ready", "True").await;
}

#[tokio::test]
async fn a_release_as_big_as_its_spec_still_has_a_status() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    let mut big = config("web", "blue");
    big["data"]["all"] = "x".repeat(900_000).into();
    project.apply("web", json!({"objects": [big]})).await;
    project.condition("web", "Ready", "True").await;
}
