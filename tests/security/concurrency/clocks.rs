//! Replicas whose clocks differ judge deadlines alike.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Operator, Project, stays, until_within};
use crate::hooks_run_as_helm_runs_them::{colour, hook, let_pods_end, project};

/// A library that shifts the clock of the process that loads it by ten minutes.
fn shifted_clock(project: &Project) -> PathBuf {
    const SOURCE: &str = "#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *time) {
    long result = syscall(SYS_clock_gettime, id, time);
    if (result == 0 && id == CLOCK_REALTIME) time->tv_sec += 600;
    return (int)result;
}
";
    project.file("clock.c", SOURCE);
    let library = project.dir().join("clock.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(project.dir().join("clock.c"));
    assert!(compiler.status().expect("a C compiler").success());
    library
}

/// An operator whose clock is ten minutes ahead.
fn ahead(project: &Project) -> Operator {
    let library = shifted_clock(project);
    project.launch().env("LD_PRELOAD", library.to_str().expect("a path")).start()
}

/// How Ready stands.
async fn reason(project: &Project) -> Value {
    let status = project.status("web").await;
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().find(|it| it["type"] == "Ready").map(|it| it["reason"].clone()).unwrap_or_default()
}

#[tokio::test]
async fn a_replica_whose_clock_is_ahead_does_not_fail_a_hook_that_runs() {
    let more = "helm.sh/hook-delete-policy: hook-failed\nchartwright.dev/hook-timeout: 4m";
    let project = project(&[hook("slow", "pre-install", more, "hang")]).await;
    let operator = project.run();
    project.apply("web", colour("blue")).await;
    project.not_ready("web", "RunningHooks").await;
    drop(operator);
    let _operator = ahead(&project);
    stays(Duration::from_secs(12), "the hook runs", async || reason(&project).await).await;
    assert!(project.get("batch/v1", "Job", "slow").await.is_some());
    let_pods_end(&project).await;
    project.condition("web", "Ready", "True").await;
}

#[tokio::test]
async fn a_hook_that_such_a_replica_began_does_not_run_for_ever() {
    let project = project(&[hook("slow", "pre-install", "chartwright.dev/hook-timeout: 8s", "hang")]).await;
    let operator = ahead(&project);
    project.apply("web", colour("blue")).await;
    project.not_ready("web", "RunningHooks").await;
    drop(operator);
    let _operator = project.run();
    until_within(Duration::from_secs(60), "the hook fails", async || {
        (reason(&project).await == "HookFailed").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_replica_whose_clock_is_ahead_does_not_end_a_progress_deadline() {
    let project = Project::of_objects().await;
    project.watch_with("progressDeadline: 5m");
    let pod = json!({"metadata": {"labels": {"app": "a", "lab.chartwright.dev/behaviour": "never-ready"}},
        "spec": {"containers": [{"name": "a", "image": "registry.example.com/a"}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template": pod}});
    let operator = project.run();
    project.apply("web", json!({"objects": [deployment]})).await;
    project.condition("web", "Deployed", "True").await;
    project.condition("web", "Ready", "False").await;
    drop(operator);
    let _operator = ahead(&project);
    stays(Duration::from_secs(12), "it is not late", async || reason(&project).await == "NotReadyInTime").await;
    assert_ne!(reason(&project).await, "NotReadyInTime");
}
