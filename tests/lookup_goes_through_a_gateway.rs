//! What a chart's `lookup` finds.

mod edge;
mod fenced;

use kube::api::{ApiResource, Patch};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use crate::harness::proxy::{Line, Proxy};
use crate::harness::strange_helm::strange_helm;
use crate::harness::{Project, Scope, config, install_crd, tool, uninstall_crd, until, within};

const BOTH: [&str; 2] = ["helm3", "helm4"];

/// A password that is drawn once: whoever has a Secret already keeps it.
const PASSWORD: &str = r#"
{{- $name := printf "%s-auth" .Release.Name }}
{{- $secret := lookup "v1" "Secret" .Release.Namespace $name }}
apiVersion: v1
kind: Secret
metadata:
  name: {{ $name }}
  annotations: {{ toYaml .Values.annotations | nindent 4 }}
data:
  password: {{ if $secret }}{{ $secret.data.password }}{{ else }}{{ randAlphaNum 20 | b64enc }}{{ end }}
  round: {{ .Values.round | toString | b64enc }}
"#;

async fn project() -> Project {
    let project = Project::new("App").await;
    project.template("secret.yaml", PASSWORD);
    project
}

async fn password(project: &Project) -> Option<Value> {
    Some(project.get("v1", "Secret", "web-auth").await?.data["data"]["password"].clone())
}

#[tokio::test]
async fn what_the_chart_was_not_shown_is_not_adopted_over() {
    let project = project().await;
    project.watch_with("adopt: objects");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "data": {"password": "bWluZQ=="},
        "metadata": {"name": "web-auth", "namespace": project.namespace}});
    project.create(secret).await;
    let operator = project.run();
    project.apply("web", json!({"round": 0})).await;
    project.not_ready("web", "BelongsToAnother").await;
    project.annotate("web", "chartwright.dev/adopt", "true").await;
    project
        .told("web", "the adoption is refused", |status| {
            status.to_string().contains("the chart asked for it with `lookup` and was not shown it").then_some(())
        })
        .await;
    assert_eq!(password(&project).await.unwrap(), "bWluZQ==");
    drop(operator);
    project.watch_with("lookup: namespace\nadopt: objects");
    let _operator = project.run();
    project.condition("web", "Ready", "True").await;
    assert_eq!(password(&project).await.unwrap(), "bWluZQ==", "it was seen, and is used");
}

#[tokio::test]
async fn a_password_stays_the_same_through_ten_upgrades() {
    for helm in BOTH {
        let project = project().await;
        project.template("NOTES.txt", "The password is in a Secret.\n---\nof {{ .Release.Name }}\n");
        let _operator = project.run_with(helm);
        project.apply("web", json!({"round": 0})).await;
        project.deployed("web").await;
        let first = password(&project).await.unwrap();
        for round in 1..=10 {
            project.apply("web", json!({"round": round})).await;
            project.deployed("web").await;
            assert_eq!(password(&project).await.unwrap(), first, "{helm}, upgrade {round}");
        }
        assert_eq!(project.status("web").await["deployedRelease"]["revision"], 11, "{helm}");
        assert!(project.helm(helm, &["get", "notes", "web"]).contains("---\nof web"), "{helm}");
        assert!(!project.helm(helm, &["get", "hooks", "web"]).contains("chartwrightNotes"), "{helm}");
        assert_eq!(project.events("web", "LookupRefused").await, []);
    }
}

#[tokio::test]
async fn a_kept_secret_is_found_again_by_a_custom_resource_that_is_made_again() {
    for helm in BOTH {
        let project = project().await;
        let _operator = project.run_with(helm);
        let spec = json!({"round": 1, "annotations": {"helm.sh/resource-policy": "keep"}});
        project.apply("web", spec.clone()).await;
        project.deployed("web").await;
        let first = password(&project).await.unwrap();
        project.delete("web").await;
        project.gone("web").await;
        assert_eq!(password(&project).await.as_ref(), Some(&first), "{helm}: it is kept");
        project.apply("web", spec).await;
        project.deployed("web").await;
        assert_eq!(password(&project).await.unwrap(), first, "{helm}");
    }
}

#[tokio::test]
async fn the_command_line_finds_what_the_operator_finds() {
    let project = project().await;
    let _operator = project.run();
    project.apply("web", json!({"round": 1})).await;
    project.deployed("web").await;
    let cr = json!({"apiVersion": project.resource.api_version, "kind": project.resource.kind,
        "metadata": {"name": "web", "namespace": project.namespace}, "spec": {"round": 2}});
    project.file("next.yaml", &cr.to_string());
    let rendered = project.cli(&["render", "-f", "next.yaml", "-o", "json"]).json();
    assert_eq!(rendered["items"][0]["data"]["password"], password(&project).await.unwrap());
    assert_eq!(rendered["items"][0]["data"]["round"], "Mg==");
}

/// The line breaks while helm runs: an empty answer would have it draw a new password.
#[tokio::test]
async fn a_lookup_without_a_connection_fails_the_render_and_the_password_stays() {
    let project = project().await;
    let here = project.dir().display();
    let wait = format!("touch {here}/rendering; while [ -f {here}/hold ]; do sleep 0.05; done");
    let helm = strange_helm(&project, &wait);
    let proxy = Proxy::start().await;
    let operator = project.launch().helm(helm).through(&proxy).start();
    project.apply("web", json!({"round": 1})).await;
    project.deployed("web").await;
    let first = password(&project).await.unwrap();
    std::fs::remove_file(project.dir().join("rendering")).unwrap();
    project.file("hold", "");
    project.apply("web", json!({"round": 2})).await;
    until("helm runs", async || project.dir().join("rendering").exists().then_some(())).await;
    proxy.set(Line::Cut);
    std::fs::remove_file(project.dir().join("hold")).unwrap();
    until("the render fails", async || operator.log().contains("\"reason\":\"Unreachable\"").then_some(())).await;
    proxy.set(Line::Open);
    project.deployed("web").await;
    assert_eq!(password(&project).await.unwrap(), first);
}

#[tokio::test]
async fn a_lookup_that_the_operator_may_not_make_fails_the_render() {
    const ASK: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {found: {{ lookup "v1" "ServiceAccount" .Release.Namespace "default" | toJson | quote }}}
"#;
    for helm in BOTH {
        let project = Project::new("App").await;
        project.template("ask.yaml", ASK);
        give_rights(&project, &["configmaps", "secrets", "events"]).await;
        let _operator = project.launch().helm(tool(helm)).limited().start();
        project.apply("web", json!({})).await;
        let failed = project.not_ready("web", "Forbidden").await;
        let message = failed["message"].as_str().unwrap();
        assert!(message.contains("lookup of serviceaccounts \"default\""), "{helm}: {message}");
        assert!(project.get("v1", "ConfigMap", "web").await.is_none(), "{helm}");
    }
}

/// A chart that wants something to be there first, or to be otherwise, is tried again without a change of the spec.
#[tokio::test]
async fn a_chart_that_misses_an_object_renders_when_it_has_come() {
    let project = Project::new("App").await;
    project.watch_with("lookup: namespace");
    const NEEDS: &str = r#"
{{- $config := lookup "v1" "ConfigMap" .Release.Namespace .Values.wanted }}
{{- if not $config }}{{ fail "first make the ConfigMap" }}{{ end }}
{{- if eq $config.data.colour "red" }}{{ fail "the colour must not be red" }}{{ end }}
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {colour: {{ $config.data.colour }}}
"#;
    project.template("needs.yaml", NEEDS);
    let config = |name, colour| within(&project.namespace, config(name, colour));
    project.create(config("wrong", "red")).await;
    let _operator = project.run();
    for (name, wanted, told) in
        [("one", "absent", "first make the ConfigMap"), ("two", "wrong", "the colour must not be red")]
    {
        project.apply(name, json!({"wanted": wanted})).await;
        let failed = project.not_ready(name, "Missing").await;
        assert!(failed["message"].as_str().unwrap().contains(told), "{failed}");
    }
    project.create(config("absent", "blue")).await;
    let blue = Patch::Merge(json!({"data": {"colour": "blue"}}));
    project.configs().patch("wrong", &Default::default(), &blue).await.unwrap();
    for name in ["one", "two"] {
        project.deployed(name).await;
        assert_eq!(project.get("v1", "ConfigMap", name).await.unwrap().data["data"]["colour"], "blue");
    }
}

/// A lookup of a kind that is not there fails the render, as in a real install, until it is there.
#[tokio::test]
async fn a_chart_that_looks_for_a_kind_renders_when_it_has_come() {
    for helm in BOTH {
        let project = Project::new("App").await;
        let group = format!("later.{}", project.resource.group);
        let later = ApiResource::from_gvk(&GroupVersionKind::gvk(&group, "v1", "Later"));
        let ask = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {found: {{ lookup "API" "Later" .Release.Namespace "a" | toJson | quote }}}
"#;
        project.template("ask.yaml", &ask.replace("API", &later.api_version));
        let _operator = project.run_with(helm);
        project.apply("web", json!({})).await;
        project.not_ready("web", "Missing").await;
        install_crd(&project.client, &later, Scope::Namespaced).await;
        project.deployed("web").await;
        assert_eq!(project.get("v1", "ConfigMap", "web").await.unwrap().data["data"]["found"], "{}", "{helm}");
        uninstall_crd(&project.client, &later).await;
    }
}

/// Rights to serve the project's kind, and on these resources of the core group.
async fn give_rights(project: &Project, resources: &[&str]) {
    let name = project.user();
    let of = |groups: &[&str], resources: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": ["*"]});
    let own = ["apiextensions.k8s.io", "events.k8s.io", "autoscaling", &project.resource.group];
    let rbac =
        |kind: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}});
    let mut role = rbac("ClusterRole");
    role["rules"] = json!([of(&own, &["*"]), of(&[""], resources)]);
    project.create(role).await;
    let mut binding = rbac("ClusterRoleBinding");
    binding["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
    binding["subjects"] = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}]);
    project.create(binding).await;
}
