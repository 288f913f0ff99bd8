//! helm has limits of time and output. Who exceeds them is told so; the others are deployed meanwhile.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::harness::strange_helm::THE_RELEASE;
use crate::harness::{Operator, Project, config, tool, until};

/// A helm that does as it should, except for releases with certain names.
fn with_strange_helm(project: &Project, marker: &str, limit: &'static str) -> Operator {
    let real = tool("helm4").display().to_string();
    let script = format!(
        r#"#!/bin/sh
PATH=/usr/bin:/bin
{THE_RELEASE}
if [ "$1" = template ]; then
  case "$release" in
    sleeps*) sleep {marker} & wait ;;
    floods*) yes | head -c 104857600; exit 0 ;;
  esac
fi
exec {real} "$@"
"#
    );
    project.file("strange-helm", &script);
    let path = project.dir().join("strange-helm");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    project.launch().helm(path).args(&["--render-timeout", limit]).start()
}

/// Whether any process has this argument.
fn is_running(marker: &str) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut commands = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    commands.any(|command| command.split(|byte| *byte == 0).any(|argument| argument == marker.as_bytes()))
}

#[tokio::test]
async fn a_helm_that_never_ends_is_stopped_and_others_are_deployed_meanwhile() {
    let project = Project::of_objects().await;
    // Differs from what every other test waits for.
    let marker = format!("9{}", std::process::id());
    let operator = with_strange_helm(&project, &marker, "2s");
    // More than there are places for helm.
    let hanging = ["sleeps-1", "sleeps-2", "sleeps-3", "sleeps-4"];
    for name in hanging {
        project.apply(name, json!({"objects": [config(name, "blue")]})).await;
    }
    until("a helm hangs", async || is_running(&marker).then_some(())).await;
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.condition("web", "Ready", "True").await;
    for name in hanging {
        let told = project.not_ready(name, "HelmFailed").await;
        assert!(told["message"].as_str().unwrap().contains("within 2 s"), "{told}");
        assert!(project.get("v1", "ConfigMap", name).await.is_none());
    }
    for name in hanging {
        project.delete(name).await;
        project.gone(name).await;
    }
    until("no helper of a stopped helm is left", async || (!is_running(&marker)).then_some(())).await;
    drop(operator);
}

#[tokio::test]
async fn a_helm_that_prints_without_end_is_stopped() {
    let project = Project::of_objects().await;
    let _operator = with_strange_helm(&project, "1", "60s");
    project.apply("floods", json!({"objects": [config("floods", "blue")]})).await;
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    let told = project.told("floods", "a failure", |status| {
        status["conditions"].as_array()?.iter().find(|it| it["type"] == "Ready").cloned()
    });
    let told = told.await;
    assert_eq!(told["reason"], "RenderFailed", "{told}");
    assert!(told["message"].as_str().unwrap().contains("MiB and was stopped"), "{told}");
    project.condition("web", "Ready", "True").await;
}
