//! A hook whose pod cannot start says why at once, and does not hold up a newer spec.

use std::time::Duration;

use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use super::{colour, colour_of, hook, project};
use crate::harness::jobs::Jobs;
use crate::harness::{Project, stays, until, until_within};

/// Far less than the five minutes that a hook has.
const SOON: Duration = Duration::from_secs(30);

/// A project with one hook, whose pod does what the spec says.
async fn with_hook(event: &str) -> Project {
    project(&[hook("migrate", event, "", "{{ .Values.behaviour }}")]).await
}

/// Applies a spec whose hook does this, and returns what the condition says of it.
async fn stuck(project: &Project, behaviour: &str, reason: &str) -> String {
    project.apply("web", json!({"colour": "red", "behaviour": behaviour})).await;
    project.not_ready("web", reason).await["message"].as_str().unwrap().to_owned()
}

/// The same for the hook of an upgrade.
async fn stuck_upgrade(project: &Project, behaviour: &str, reason: &str) -> String {
    project.apply("web", colour("blue")).await;
    project.condition("web", "Ready", "True").await;
    stuck(project, behaviour, reason).await
}

async fn is_soon(project: &Project, wanted: &str) {
    until_within(SOON, &format!("it is {wanted}"), async || {
        (colour_of(project, "web").await.as_deref() == Some(wanted)).then_some(())
    })
    .await;
}

/// Changes what the pod of the hook does.
async fn pod_does(project: &Project, behaviour: &str) {
    let pods = project.objects("v1", "Pod", Some(&project.namespace));
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        let patch = json!({"metadata": {"labels": {"lab.chartwright.dev/behaviour": behaviour}}});
        pods.patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}

#[tokio::test]
async fn it_is_named_at_once_and_reported_once() {
    for (behaviour, reason, cause) in [
        ("pull-error", "ImagePullBackOff", "cannot pull image \"registry.example.com/a\" (container \"main\" of pod "),
        ("config-error", "CreateContainerConfigError", "cannot start: secret \"db\" not found (container \"main\" of "),
    ] {
        let project = with_hook("pre-install").await;
        let operator = project.run();
        let message = stuck(&project, behaviour, reason).await;
        assert!(message.starts_with(cause), "{message}");
        let waits = format!("waiting for the pre-install hook Job {}/migrate", project.namespace);
        let remedy = format!("kubectl delete job migrate -n {}", project.namespace);
        assert!(message.contains(&waits) && message.ends_with(&remedy), "{message}");
        project.condition("web", "Reconciling", "True").await;
        for number in 0..3 {
            project.annotate("web", "example.com/look", &number.to_string()).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let events = project.events("web", reason).await;
        let [(1, note)] = events.as_slice() else { panic!("not one event: {events:?}") };
        assert!(note.starts_with(cause) && note.contains("pre-install hook Job"), "{note}");
        assert_eq!(operator.log().lines().filter(|line| line.contains(reason)).count(), 1, "{}", operator.log());
    }
}

#[tokio::test]
async fn what_keeps_its_pod_from_being_scheduled_or_created_is_named() {
    let homeless = hook("migrate", "pre-install", "", "")
        .replace("restartPolicy: Never", "restartPolicy: Never, nodeSelector: {kubernetes.io/hostname: none}");
    let project = project(&[homeless]).await;
    let _operator = project.run();
    let message = stuck(&project, "", "Unschedulable").await;
    assert!(message.starts_with("cannot be scheduled: 0/"), "{message}");

    let project = with_hook("pre-install").await;
    let _operator = project.run();
    project.forbid_pods().await;
    let message = stuck(&project, "", "FailedCreate").await;
    assert!(message.starts_with("pods \"migrate-") && message.contains("exceeded quota"), "{message}");
}

#[tokio::test]
async fn a_newer_spec_ends_it() {
    let project = with_hook("pre-upgrade").await;
    let jobs = Jobs::watch(&project).await;
    let _operator = project.run();
    let message = stuck_upgrade(&project, "pull-error", "ImagePullBackOff").await;
    assert!(message.contains("a newer spec replaces it"), "{message}");
    let before = project.get("batch/v1", "Job", "migrate").await.unwrap().uid();
    project.apply("web", colour("green")).await;
    is_soon(&project, "green").await;
    project.condition("web", "Ready", "True").await;
    assert_eq!(jobs.runs(), ["2.pre-upgrade.0.1 migrate", "3.pre-upgrade.0.1 migrate"]);
    assert_ne!(project.get("batch/v1", "Job", "migrate").await.unwrap().uid(), before);
    let events = project.events("web", "HookCanceled").await;
    let [(1, note)] = events.as_slice() else { panic!("not one event: {events:?}") };
    assert!(note.contains("whose pod never started") && note.contains("cannot pull image"), "{note}");
    let pods = project.objects("v1", "Pod", Some(&project.namespace));
    until("its pod is gone", async || {
        let left = pods.list(&ListParams::default()).await.unwrap().items;
        left.iter()
            .all(|pod| pod.owner_references().iter().all(|owner| Some(&owner.uid) != before.as_ref()))
            .then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_deletion_ends_it_and_so_do_hooks_that_are_switched_off() {
    let project = with_hook("pre-install").await;
    let _operator = project.run();
    stuck(&project, "pull-error", "ImagePullBackOff").await;
    project.delete("web").await;
    until_within(SOON, "it is gone", async || project.crs().get_opt("web").await.unwrap().is_none().then_some(()))
        .await;

    stuck(&project, "config-error", "CreateContainerConfigError").await;
    project.annotate("web", "helm.sdk.operatorframework.io/install-disable-hooks", "true").await;
    is_soon(&project, "red").await;
    project.condition("web", "Ready", "True").await;
    assert!(project.get("batch/v1", "Job", "migrate").await.is_none());
}

#[tokio::test]
async fn one_that_started_after_all_is_waited_for() {
    let project = with_hook("pre-upgrade").await;
    let jobs = Jobs::watch(&project).await;
    let _operator = project.run();
    stuck_upgrade(&project, "pull-error", "ImagePullBackOff").await;
    // Somebody pushes the image.
    pod_does(&project, "hang").await;
    let pods = project.objects("v1", "Pod", Some(&project.namespace));
    until("its pod runs", async || {
        let all = pods.list(&ListParams::default()).await.unwrap().items;
        all.iter().any(|pod| pod.data.pointer("/status/phase") == Some(&json!("Running"))).then_some(())
    })
    .await;
    project.apply("web", colour("green")).await;
    project
        .told("web", "the newer spec waits", |status| {
            let ready = status["conditions"].as_array()?.iter().find(|it| it["type"] == "Ready")?;
            let is_told = ready["message"].as_str()?.contains("a newer spec is queued until it ends");
            (is_told && ready["reason"] == "RunningHooks").then_some(())
        })
        .await;
    stays(Duration::from_secs(6), "its Job stays", async || {
        assert_eq!(colour_of(&project, "web").await.as_deref(), Some("blue"));
        project.get("batch/v1", "Job", "migrate").await.unwrap().uid()
    })
    .await;
    pod_does(&project, "").await;
    is_soon(&project, "green").await;
    assert_eq!(jobs.runs(), ["2.pre-upgrade.0.1 migrate", "3.pre-upgrade.0.1 migrate"]);
}

#[tokio::test]
async fn one_that_crashes_is_named_and_the_message_says_how_to_skip_the_wait() {
    let project = with_hook("pre-upgrade").await;
    let _operator = project.run();
    let message = stuck_upgrade(&project, "crash", "CrashLoopBackOff").await;
    assert!(message.starts_with("exit code 1 (Error) (container \"main\" of pod "), "{message}");
    project.apply("web", colour("green")).await;
    let skip = format!(
        "a newer spec is queued until it ends; to skip the wait: kubectl delete job migrate -n {}",
        project.namespace
    );
    project
        .told("web", "how to skip the wait", |status| {
            let ready = status["conditions"].as_array()?.iter().find(|it| it["type"] == "Ready")?;
            (ready["message"].as_str()?.ends_with(&skip) && ready["reason"] == "CrashLoopBackOff").then_some(())
        })
        .await;
    assert_eq!(colour_of(&project, "web").await.as_deref(), Some("blue"));
    let jobs = project.objects("batch/v1", "Job", Some(&project.namespace));
    jobs.delete("migrate", &DeleteParams::background()).await.unwrap();
    is_soon(&project, "green").await;
}
