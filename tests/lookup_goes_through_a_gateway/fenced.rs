//! What `lookup` does not find, and where the fence is.

use serde_json::{Value, json};

use super::BOTH;
use crate::harness::{Project, chartwright, tool, until};

/// What nobody may read, in base64.
const TREASURE: &str = "dHJlYXN1cmU=";

fn secret(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "data": {"key": TREASURE}})
}

/// A chart that uses `lookup` itself, and gives a value to `tpl`.
const TPL: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data:
  own: {{ lookup "v1" "ConfigMap" .Release.Namespace .Release.Name | toJson | quote }}
  said: {{ tpl .Values.text . | quote }}
"#;

#[tokio::test]
async fn template_code_in_a_value_reads_nothing_of_others() {
    for helm in BOTH {
        let project = Project::new("App").await;
        project.template("tpl.yaml", TPL);
        let (here, there) = (project.namespace.clone(), project.another_namespace("victim").await);
        project.create(secret(&here, "neighbour")).await;
        project.create(secret(&there, "victim")).await;
        // Their metadata names a release of the same name, elsewhere.
        let mut twin = secret(&there, "twin");
        twin["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
        twin["metadata"]["annotations"] =
            json!({"meta.helm.sh/release-name": "attack-6", "meta.helm.sh/release-namespace": there});
        project.create(twin).await;
        let _operator = project.run_with(helm);
        let attacks = [
            r#"{{ lookup "v1" "Secret" "kube-system" "" | toJson }}"#.to_owned(),
            format!(r#"{{{{ lookup "v1" "Secret" "{there}" "" | toJson }}}}"#),
            format!(r#"{{{{ lookup "v1" "Secret" "{there}" "victim" | toJson }}}}"#),
            format!(r#"{{{{ lookup "v1" "Secret" "{here}" "neighbour" | toJson }}}}"#),
            format!(r#"{{{{ lookup "v1" "Secret" "{here}" "" | toJson }}}}"#),
            r#"{{ lookup "v1" "Secret" "" "" | toJson }}"#.to_owned(),
            format!(r#"{{{{ lookup "v1" "Secret" "{there}" "twin" | toJson }}}}"#),
            r#"{{ lookup "v1" "Namespace" "" "kube-system" | toJson }}"#.to_owned(),
        ];
        for (number, text) in attacks.iter().enumerate() {
            let name = format!("attack-{number}");
            project.apply(&name, json!({"text": text})).await;
            project.deployed(&name).await;
            let said = project.get("v1", "ConfigMap", &name).await.unwrap().data["data"]["said"].clone();
            let said: Value = serde_json::from_str(said.as_str().unwrap()).unwrap();
            let is_empty = said == json!({}) || said["items"] == json!([]);
            assert!(is_empty, "{helm}: {text} sees {said}");
        }
        let told = project.events("attack-2", "LookupRefused").await;
        assert!(told[0].1.contains(&format!("Secret {there}/victim")), "{helm}: {told:?}");
        assert!(told[0].1.contains("`lookup: cluster` in watches.yaml"), "{helm}: {told:?}");
        // Paths that mean something else.
        let paths = [
            (format!(r#"{{{{ lookup "v1" "Secret" "{there}/secrets/victim" "" | toJson }}}}"#), "may not contain '/'"),
            (
                format!(r#"{{{{ lookup "v1" "Secret" "{here}" "../../{there}/secrets/victim" | toJson }}}}"#),
                "may not contain '/'",
            ),
            (format!(r#"{{{{ lookup "v1" "Nothing" "{there}" "secrets" | toJson }}}}"#), r#""{}""#),
            (
                format!(r#"{{{{ lookup "v1/namespaces/{there}/secrets" "Secret" "" "" | toJson }}}}"#),
                "groupVersion shouldn't be empty",
            ),
        ];
        for (number, (text, expected)) in paths.iter().enumerate() {
            let name = format!("path-{number}");
            project.apply(&name, json!({"text": text})).await;
            let told = |status: &Value| status["observedGeneration"].is_i64().then(|| status["conditions"].clone());
            let conditions = project.told(&name, "it is told", told).await;
            let shown = match project.get("v1", "ConfigMap", &name).await {
                Some(config) => config.data["data"]["said"].to_string(),
                None => conditions.to_string(),
            };
            assert!(shown.contains(expected) && !shown.contains(TREASURE), "{helm}: {text} sees {shown}");
        }
    }
}

/// Whoever may write Secrets beside a release can have its record say anything: that a hook of it made an object elsewhere.
#[tokio::test]
async fn a_record_that_names_an_object_of_others_does_not_show_it() {
    const SAID: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata:\n  said: {{ tpl .Values.text . | quote }}\n";
    const HOOK: &str = r#"
{{- if .Values.hook }}
apiVersion: v1
kind: Secret
metadata:
  name: {{ .Release.Name }}
  namespace: {{ .Values.hook }}
  annotations: {helm.sh/hook: pre-install, helm.sh/hook-delete-policy: hook-failed}
{{- end }}
"#;
    for helm in BOTH {
        let project = Project::new("App").await;
        project.watch_with("adopt: releases");
        project.template("tpl.yaml", SAID);
        project.template("hook.yaml", HOOK);
        let there = project.another_namespace("victim").await;
        let hook = format!("hook={there}");
        let install = |name| ["install", name, "charts/app", "--set", "text=none", "--set", &hook];
        // This hook ran, and its object was replaced by somebody else's.
        project.helm(helm, &install("ran"));
        let secrets = project.objects("v1", "Secret", Some(&there));
        secrets.delete("ran", &Default::default()).await.unwrap();
        project.create(secret(&there, "ran")).await;
        // This one failed, since the object is there.
        project.create(secret(&there, "failed")).await;
        let creates: &[&str] = if helm == "helm4" { &["--server-side=false"] } else { &[] };
        project.helm_fails(helm, &[&install("failed")[..], creates].concat());
        let _operator = project.run_with(helm);
        for name in ["ran", "failed"] {
            let one = format!(r#"(lookup "v1" "Secret" "{there}" "{name}")"#);
            let all = format!(r#"(lookup "v1" "Secret" "{there}" "").items"#);
            project.apply(name, json!({"text": format!("{{{{ list {one} {all} | toJson }}}}")})).await;
            project.deployed(name).await;
            let said = project.get("v1", "ConfigMap", name).await.unwrap().data["data"]["said"].clone();
            assert_eq!(said, "[{},[]]", "{helm}: {name}");
            let told = project.events(name, "LookupRefused").await;
            assert!(told.iter().any(|(_, told)| told.contains(&format!("Secret {there}/{name}"))), "{helm}: {told:?}");
        }
    }
}

#[tokio::test]
async fn a_list_holds_what_is_of_the_release() {
    const LIST: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-seen}
data:
  names: {{ range (lookup "v1" "ConfigMap" .Release.Namespace "").items }}{{ .metadata.name }} {{ end }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-{{ .Values.round }}}
"#;
    for helm in BOTH {
        let project = Project::new("App").await;
        project.template("list.yaml", LIST);
        let _operator = project.run_with(helm);
        project
            .create(json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "foreign", "namespace": project.namespace}}))
            .await;
        for round in 1..=2 {
            project.apply("web", json!({"round": round})).await;
            project.deployed("web").await;
        }
        let seen = project.get("v1", "ConfigMap", "web-seen").await.unwrap();
        assert_eq!(seen.data["data"]["names"], "web-1 web-seen", "{helm}");
        let told = until("the refusal is told", async || project.events("web", "LookupRefused").await.pop()).await;
        assert!(told.1.contains(&format!("all configmaps in {}", project.namespace)), "{told:?}");
    }
}

#[tokio::test]
async fn the_fence_is_where_the_watch_says() {
    const SEEN: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data:
  neighbour: {{ dig "data" "key" "nothing" (lookup "v1" "Secret" .Release.Namespace "neighbour") }}
  elsewhere: {{ dig "data" "key" "nothing" (lookup "v1" "Secret" .Values.elsewhere "victim") }}
  namespace: {{ dig "metadata" "name" "nothing" (lookup "v1" "Namespace" "" "kube-system") }}
  count: {{ len (dig "items" list (lookup "v1" "Secret" .Release.Namespace "")) | quote }}
"#;
    let fences = [
        ("lookup: none", ["nothing", "nothing", "nothing"]),
        ("lookup: release", ["nothing", "nothing", "nothing"]),
        ("lookup: namespace", [TREASURE, "nothing", "nothing"]),
        ("lookup: cluster", [TREASURE, TREASURE, "kube-system"]),
        ("dryRunOption: server", [TREASURE, TREASURE, "kube-system"]),
    ];
    for helm in BOTH {
        for (fence, expected) in fences {
            let project = Project::new("App").await;
            project.template("seen.yaml", SEEN);
            project.watch_with(fence);
            let elsewhere = project.another_namespace("victim").await;
            project.create(secret(&project.namespace, "neighbour")).await;
            project.create(secret(&elsewhere, "victim")).await;
            let _operator = project.run_with(helm);
            project.apply("web", json!({"elsewhere": elsewhere})).await;
            project.deployed("web").await;
            let data = project.get("v1", "ConfigMap", "web").await.unwrap().data["data"].clone();
            let seen = ["neighbour", "elsewhere", "namespace"].map(|key| data[key].as_str().unwrap_or_default());
            assert_eq!(seen, expected, "{helm}, {fence}");
            let refused = project.events("web", "LookupRefused").await.len();
            let expected = match fence {
                "lookup: release" => 4,
                "lookup: namespace" => 2,
                _ => 0,
            };
            assert_eq!(refused, expected, "{helm}, {fence}");
        }
    }
}

/// Whoever widens the fence after a refusal wants the chart to see more.
#[tokio::test]
async fn a_wider_fence_renders_anew() {
    let project = Project::new("App").await;
    project.template(
        "tpl.yaml",
        &TPL.replace("tpl .Values.text .", r#"lookup "v1" "Secret" .Release.Namespace "neighbour" | toJson"#),
    );
    project.create(secret(&project.namespace, "neighbour")).await;
    let operator = project.run();
    project.apply("web", json!({})).await;
    project.deployed("web").await;
    drop(operator);
    project.watch_with("lookup: namespace");
    let _operator = project.run();
    until("the chart sees it", async || {
        let data = project.get("v1", "ConfigMap", "web").await?.data["data"]["said"].to_string();
        data.contains(TREASURE).then_some(())
    })
    .await;
}

#[tokio::test]
async fn two_fences_that_differ_are_refused() {
    let project = Project::new("App").await;
    project.watch_with("lookup: release\ndryRunOption: server");
    let mut validate = chartwright();
    validate.arg("validate").env("CHARTWRIGHT_HELM", tool("helm4")).current_dir(project.dir());
    let said = validate.output().unwrap();
    let lines = String::from_utf8_lossy(&said.stdout);
    assert!(lines.contains("`lookup: release` and `dryRunOption: server` say different things"), "{lines}");
    assert_eq!(said.status.code(), Some(1));
}
