//! `.Capabilities` are what `helm install` would see.

use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};

use crate::harness::strange_helm::strange_helm;
use crate::harness::{Project, Scope, install_crd, uninstall_crd};

const BOTH: [&str; 2] = ["helm3", "helm4"];

const PRINT: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data:
  version: {{ printf "%v %s %s %s" .Capabilities.KubeVersion .Capabilities.KubeVersion.Version .Capabilities.KubeVersion.Major .Capabilities.KubeVersion.Minor | quote }}
  {{- range list "v1" "v1/Secret" "apps/v1" "apps/v1/Deployment" "apps/v1/Scale" "apps/v1beta1" "policy/v1" "policy/v1beta1" "policy/v1beta1/PodSecurityPolicy" "monitoring.coreos.com/v1" }}
  {{ replace "/" "_" . }}: {{ $.Capabilities.APIVersions.Has . | quote }}
  {{- end }}
  all: {{ .Capabilities.APIVersions | sortAlpha | join " " }}
"#;

/// Without the kinds of tests that run at the same time.
fn steady(mut data: Value) -> Value {
    let all = data["all"].as_str().unwrap().split(' ');
    let is_steady = |name: &&str| {
        let group = name.split_once('/').map_or("", |(group, _)| group);
        !group.contains('.') || group.ends_with(".k8s.io")
    };
    data["all"] = all.filter(is_steady).collect::<Vec<_>>().join(" ").into();
    data
}

#[tokio::test]
async fn a_chart_sees_what_it_sees_in_a_real_install() {
    for helm in BOTH {
        let project = Project::new("App").await;
        project.template("print.yaml", PRINT);
        let elsewhere = project.another_namespace("real").await;
        project.helm_in(helm, &elsewhere, &["install", "web", "charts/app"]);
        let real = project.find("v1", "ConfigMap", Some(&elsewhere), "web").await.unwrap().data["data"].clone();
        let _operator = project.run_with(helm);
        for round in 1..=2 {
            project.apply("web", json!({"round": round})).await;
            project.deployed("web").await;
            let ours = project.get("v1", "ConfigMap", "web").await.unwrap().data["data"].clone();
            assert_eq!(steady(ours), steady(real.clone()), "{helm}, round {round}");
        }
        assert_eq!((&real["policy_v1beta1"], &real["apps_v1_Scale"]), (&json!("false"), &json!("true")), "{helm}");
        assert_eq!(project.events("web", "LookupRefused").await, []);
    }
}

#[tokio::test]
async fn a_kind_that_appears_is_seen_by_the_next_render() {
    for helm in BOTH {
        let project = Project::new("App").await;
        let group = format!("late.{}", project.resource.group);
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&group, "v1", "Late"));
        const HAS: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data:
  has: {{ and (.Capabilities.APIVersions.Has (printf "%s/v1" .Values.group)) (.Capabilities.APIVersions.Has (printf "%s/v1/Late" .Values.group)) | quote }}
"#;
        project.template("has.yaml", HAS);
        let _operator = project.run_with(helm);
        let mut round = 0;
        let mut has = async || {
            round += 1;
            project.apply("web", json!({"group": group, "round": round})).await;
            project.deployed("web").await;
            project.get("v1", "ConfigMap", "web").await.unwrap().data["data"]["has"].clone()
        };
        assert_eq!(has().await, "false", "{helm}");
        install_crd(&project.client, &resource, Scope::Namespaced).await;
        assert_eq!(has().await, "true", "{helm}");
    }
}

#[tokio::test]
async fn a_chart_that_brings_its_kind_sees_and_uses_it_in_the_first_render() {
    for helm in BOTH {
        let project = Project::new("App").await;
        let group = format!("brought.{}", project.resource.group);
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("widgets.{group}")},
            "spec": {"group": group, "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"}, "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
        });
        project.file("charts/app/crds/widget.yaml", &format!("---\n{crd}\n"));
        let widget = format!(
            "apiVersion: {group}/v1\nkind: Widget\nmetadata: {{name: {{{{ .Release.Name }}}}}}\nhas: {{{{ .Capabilities.APIVersions.Has \"{group}/v1/Widget\" }}}}\nfound: {{{{ lookup \"{group}/v1\" \"Widget\" .Release.Namespace .Release.Name | len }}}}\n"
        );
        project.template("widget.yaml", &widget);
        let _operator = project.run_with(helm);
        project.apply("web", json!({})).await;
        project.deployed("web").await;
        let widget = project.get(&format!("{group}/v1"), "Widget", "web").await.unwrap();
        assert_eq!((&widget.data["has"], &widget.data["found"]), (&json!(true), &json!(0)), "{helm}");
    }
}

#[tokio::test]
async fn a_kind_that_nobody_brings_is_named_and_waited_for() {
    for helm in BOTH {
        let project = Project::new("App").await;
        let group = format!("missing.{}", project.resource.group);
        let template = format!(
            "{{{{ $_ := .Capabilities.APIVersions }}}}\napiVersion: {group}/v1\nkind: Thing\nmetadata: {{name: {{{{ .Release.Name }}}}}}\n"
        );
        project.template("thing.yaml", &template);
        let _operator = project.run_with(helm);
        project.apply("web", json!({})).await;
        let failed = project.not_ready("web", "UnknownKind").await;
        let message = failed["message"].as_str().unwrap();
        assert!(message.contains("Thing") && message.contains(&group), "{helm}: {message}");
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&group, "v1", "Thing"));
        install_crd(&project.client, &resource, Scope::Namespaced).await;
        project.deployed("web").await;
        uninstall_crd(&project.client, &resource).await;
    }
}

/// Not the render, but our preflight says whose an object is: it knows more about it.
#[tokio::test]
async fn objects_that_exist_do_not_end_the_render() {
    for (helm, fence) in BOTH.into_iter().flat_map(|helm| ["release", "cluster"].map(|fence| (helm, fence))) {
        let project = Project::new("App").await;
        project.template("print.yaml", PRINT);
        project.watch_with(&format!("lookup: {fence}\nadopt: objects"));
        project
            .create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": project.namespace}}))
            .await;
        let _operator = project.run_with(helm);
        project.apply("web", json!({})).await;
        project.not_ready("web", "BelongsToAnother").await;
        project.annotate("web", "chartwright.dev/adopt", "true").await;
        project.deployed("web").await;
        assert_eq!(project.events("web", "LookupRefused").await, [], "{helm}, {fence}");
    }
}

/// The way through the gateway takes longer, so only those go it who ask.
#[tokio::test]
async fn a_chart_that_does_not_ask_is_rendered_without_a_gateway() {
    let project = Project::new("App").await;
    let config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\n";
    let version =
        "data: {v: '{{ .Capabilities.KubeVersion.Version }}', t: '{{ tpl (.Values.text | default \"\") . }}'}\n";
    project.template("config.yaml", &format!("{config}{version}"));
    let arguments = project.dir().join("arguments");
    let helm = strange_helm(&project, &format!("echo \"$@\" > {}", arguments.display()));
    let _operator = project.launch().helm(helm).start();
    project.apply("web", json!({})).await;
    project.deployed("web").await;
    assert!(!std::fs::read_to_string(&arguments).unwrap().contains("--kubeconfig"));
    // A value may ask too.
    project.apply("web", json!({"text": "{{ .Capabilities.APIVersions.Has \"policy/v1beta1\" }}"})).await;
    project.deployed("web").await;
    assert!(std::fs::read_to_string(&arguments).unwrap().contains("--kubeconfig"));
    assert_eq!(project.get("v1", "ConfigMap", "web").await.unwrap().data["data"]["t"], "false");
}
