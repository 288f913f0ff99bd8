//! A hook that fails stops its release, and says why.

use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::{colour, colour_of, hook, project};
use crate::harness::jobs::Jobs;
use crate::harness::{Project, until};

#[tokio::test]
async fn a_hook_that_fails_says_why_and_nothing_is_applied() {
    let fails = hook("migrate", "pre-upgrade", "", "{{ .Values.behaviour }}");
    let earlier =
        hook("earlier", "pre-upgrade", "helm.sh/hook-weight: '-1'\nhelm.sh/hook-delete-policy: hook-succeeded", "");
    let project = project(&[fails, earlier]).await;
    project.watch_with("retries: 1");
    let jobs = Jobs::watch(&project).await;
    let _operator = project.run();
    project.apply("web", colour("blue")).await;
    project.condition("web", "Ready", "True").await;
    project.apply("web", json!({"colour": "red", "behaviour": "fail"})).await;
    let told = project.not_ready("web", "HookFailed").await;
    let message = told["message"].as_str().unwrap();
    let cause = "failed: exit code 1 (Error) (container \"main\" of pod migrate-";
    for words in ["the pre-upgrade hook Job", "migrate", "BackoffLimitExceeded", cause] {
        assert!(message.contains(words), "{words}: {message}");
    }
    until("an event tells it", async || {
        let events = project.events("web", "HookFailed").await;
        events.iter().any(|(_, note)| note.contains("exit code 1")).then_some(())
    })
    .await;
    assert_eq!(colour_of(&project, "web").await.as_deref(), Some("blue"), "the last good revision stays");
    assert_eq!(jobs.names(), ["earlier", "migrate"]);
    until("what succeeded is removed", async || {
        project.get("batch/v1", "Job", "earlier").await.is_none().then_some(())
    })
    .await;
    assert!(project.get("batch/v1", "Job", "migrate").await.is_some(), "what failed is there to look at");
    let history = project.helm("helm4", &["history", "web", "-o", "json"]);
    assert!(history.contains("\"failed\""), "{history}");

    // Another spec goes its way.
    project.apply("web", colour("green")).await;
    project.condition("web", "Ready", "True").await;
    assert_eq!(colour_of(&project, "web").await.as_deref(), Some("green"));
}

#[tokio::test]
async fn only_the_hook_that_failed_runs_again_with_its_revision() {
    let good = hook("good", "pre-install", "helm.sh/hook-weight: '-1'", "");
    let bad = hook("bad", "pre-install", "helm.sh/hook-delete-policy: hook-succeeded", "fail");
    let project = project(&[good, bad]).await;
    project.watch_with("retries: 0");
    let jobs = Jobs::watch(&project).await;
    let _operator = project.run();
    project.apply("web", colour("blue")).await;
    project.not_ready("web", "RetriesExhausted").await;
    assert_eq!(jobs.names(), ["good", "bad"]);
    project.annotate("web", "try", "again").await;
    until("it is tried again", async || (jobs.names().len() == 3).then_some(())).await;
    assert_eq!(jobs.runs(), ["1.pre-install.0.1 good", "1.pre-install.1.1 bad", "1.pre-install.1.2 bad"]);
}

#[tokio::test]
async fn a_hook_has_a_time_limit() {
    let hangs = hook(
        "hangs",
        "pre-install",
        "chartwright.dev/hook-timeout: 2s\nhelm.sh/hook-delete-policy: hook-failed",
        "hang",
    );
    let project = project(&[hangs]).await;
    project.watch_with("retries: 1");
    let _operator = project.run();
    project.apply("web", colour("blue")).await;
    let told = project.not_ready("web", "HookFailed").await;
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("did not end within 2 s") && message.contains("it is still running"), "{message}");
    until("it is removed", async || project.get("batch/v1", "Job", "hangs").await.is_none().then_some(())).await;
    assert!(project.get("v1", "ConfigMap", "web").await.is_none());
}

#[tokio::test]
async fn a_hook_after_the_upgrade_that_fails_brings_the_last_good_revision_back() {
    let after = hook("after", "post-upgrade", "", "{{ .Values.behaviour }}");
    let back = hook("back", "post-rollback", "", "");
    let project = project(&[after, back]).await;
    project.watch_with("retries: 0\nonFailure: rollback");
    let jobs = Jobs::watch(&project).await;
    let _operator = project.run();
    project.apply("web", colour("blue")).await;
    project.condition("web", "Ready", "True").await;
    project.apply("web", json!({"colour": "red", "behaviour": "fail"})).await;
    project.condition("web", "Held", "True").await;
    assert_eq!(colour_of(&project, "web").await.as_deref(), Some("blue"));
    assert_eq!(jobs.names(), ["after", "back"]);
}

const PRINTED: &str = "a line printed by a kwok pod";

/// What the operator asked of logs.
fn log_reads(project: &Project, since: Timestamp) -> Vec<String> {
    project.calls_since(since).into_iter().filter(|call| call.contains("/log?")).collect()
}

#[tokio::test]
async fn logs_are_read_only_where_the_watch_asks_and_only_the_operators_log_has_them() {
    for (field, is_on) in [("retries: 0", false), ("retries: 0\nlogTail: 5", true)] {
        let asks = "helm.sh/hook-output-log-policy: hook-succeeded,hook-failed";
        let project =
            project(&[hook("good", "pre-install", asks, ""), hook("bad", "post-install", asks, "fail")]).await;
        project.watch_with(field);
        let (operator, since) = (project.run(), Timestamp::now());
        project.apply("web", colour("blue")).await;
        project.not_ready("web", "RetriesExhausted").await;
        let log = operator.log();
        let lines = log.lines().filter(|line| line.contains("HookLog") && line.contains(&format!("| {PRINTED}")));
        assert_eq!(lines.count(), if is_on { 2 } else { 0 }, "{field}: {log}");
        let reads = log_reads(&project, since);
        assert_eq!(!reads.is_empty(), is_on, "{field}: {reads:?}");
        assert!(reads.iter().all(|read| read.contains("tailLines=5")), "{reads:?}");
        assert!(!project.status("web").await.to_string().contains(PRINTED), "{field}");
        for reason in ["HookFailed", "RetriesExhausted"] {
            let events = project.events("web", reason).await;
            assert!(!format!("{events:?}").contains(PRINTED), "{events:?}");
        }
        // A person has rights of their own.
        let web = project.named("web");
        assert!(!project.cli(&["status", &web]).good().contains(PRINTED), "nobody asked for logs");
        let shown = project.cli(&["status", &web, "--logs"]).good();
        assert!(shown.contains(&format!("/main | {PRINTED}")), "{shown}");
    }
}

#[tokio::test]
async fn a_command_that_is_missing_is_named() {
    let project = project(&[hook("migrate", "pre-install", "", "start-error")]).await;
    project.watch_with("retries: 0");
    let _operator = project.run();
    project.apply("web", colour("blue")).await;
    let told = project.not_ready("web", "RetriesExhausted").await;
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("exec: \"sh\": executable file not found in $PATH"), "{message}");
}
