use std::time::Duration;

use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;

use crate::harness::{Project, until};

const CONFIG: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  image: {{ .Values.image }}
  tag: {{ .Values.tag | quote }}
  replicas: {{ printf "%T %v" .Values.replicas .Values.replicas }}
"#;

async fn project() -> Project {
    let project = Project::new("App").await;
    project.template("config.yaml", CONFIG);
    project
}

#[tokio::test]
async fn overrides_win_are_expanded_and_typed_and_are_told() {
    let project = project().await;
    project.watch_with(
        r#"
overrideValues:
  image: '{{ ("$IMAGE" | split ":")._0 }}'
  tag: "'7'"
  replicas: 3
"#,
    );
    let _operator = project.launch().env("IMAGE", "registry.example.com/web:1.2").start();
    project.apply("web", json!({"image": "mine", "tag": "mine", "replicas": 1})).await;
    project.deployed("web").await;
    let config = project.get("v1", "ConfigMap", "web").await.unwrap();
    // Helm reads every number of a values file as a float; a text would print as `string 3`.
    let expected = json!({"image": "registry.example.com/web", "tag": "7", "replicas": "float64 3"});
    assert_eq!(config.data["data"], expected);
    let told = until("each override is told", async || {
        let told = project.events("web", "OverrideValuesInUse").await;
        (told.len() == 3).then_some(told)
    })
    .await;
    let about_the_tag = r#"Chart value "tag" overridden to "7" by operator's watches.yaml"#;
    assert!(told.iter().any(|(_, note)| note == about_the_tag), "{told:?}");
}

#[tokio::test]
async fn only_what_the_selector_matches_is_served() {
    let project = project().await;
    project.watch_with("selector: {matchLabels: {serve: 'yes'}}");
    let _operator = project.run();
    project.apply("left-alone", json!({})).await;
    project.apply("served", json!({})).await;
    project.label("served", "serve", "yes").await;
    project.deployed("served").await;
    assert!(project.status("left-alone").await.is_null());
    assert!(project.get("v1", "ConfigMap", "left-alone").await.is_none());
}

#[tokio::test]
async fn without_watches_a_deleted_object_comes_back_with_the_period() {
    let project = project().await;
    project.watch_with("watchDependentResources: false\nreconcilePeriod: 2s");
    let _operator = project.run();
    project.apply("web", json!({})).await;
    project.condition("web", "Ready", "True").await;
    let watches = project.calls_since(k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
    assert!(!watches.iter().any(|call| call.starts_with("watch") && call.contains("/configmaps")), "{watches:#?}");
    let before = project.get("v1", "ConfigMap", "web").await.unwrap().uid();
    project.configs().delete("web", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    until("the period brings it back", async || {
        project.get("v1", "ConfigMap", "web").await.filter(|config| config.uid() != before)
    })
    .await;
}
