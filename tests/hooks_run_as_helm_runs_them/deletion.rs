//! Hooks before and after the deletion run, whatever became of the chart, and however the custom resource is deleted.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, PropagationPolicy};

use super::{colour, hook, let_pods_end, project};
use crate::harness::jobs::Jobs;
use crate::harness::until;

#[tokio::test]
async fn they_run_from_the_record_when_the_chart_is_gone() {
    let project = project(&[hook("before", "pre-delete", "", ""), hook("after", "post-delete", "", "")]).await;
    let jobs = Jobs::watch(&project).await;
    let operator = project.run();
    project.apply("web", colour("blue")).await;
    project.condition("web", "Ready", "True").await;
    drop(operator);
    project.template("hooks.yaml", "");
    project.template("config.yaml", "{{ fail \"this chart does not render any more\" }}");
    let _operator = project.run();
    project.delete("web").await;
    project.gone("web").await;
    assert_eq!(jobs.names(), ["before", "after"]);
    assert!(project.get("v1", "ConfigMap", "web").await.is_none());
}

#[tokio::test]
async fn what_they_leave_behind_is_named() {
    let hooks = [
        hook("stays", "pre-install", "", ""),
        hook("goes", "post-install", "helm.sh/hook-delete-policy: hook-succeeded", ""),
        hook("last", "post-delete", "", ""),
    ];
    let project = project(&hooks).await;
    let _operator = project.run();
    project.apply("web", colour("blue")).await;
    project.condition("web", "Ready", "True").await;
    project.delete("web").await;
    project.gone("web").await;
    let events = project.events("web", "HooksLeft").await;
    let [(1, note)] = events.as_slice() else { panic!("{events:?}") };
    let (ns, shown) = (&project.namespace, "Hook objects are left in place, as with helm uninstall");
    assert!(note.starts_with(&format!("{shown}: Job {ns}/last, Job {ns}/stays; delete them")), "{note}");
    for (name, is_there) in [("stays", true), ("last", true), ("goes", false)] {
        assert_eq!(project.get("batch/v1", "Job", name).await.is_some(), is_there, "{name}");
    }
}

#[tokio::test]
async fn foreground_deletion_does_not_overtake_them() {
    let project = project(&[hook("before", "pre-delete", "", "hang")]).await;
    let _operator = project.run();
    project.apply("web", colour("blue")).await;
    project.condition("web", "Ready", "True").await;
    assert!(project.get("v1", "ConfigMap", "web").await.unwrap().owner_references().is_empty());
    let foreground = DeleteParams { propagation_policy: Some(PropagationPolicy::Foreground), ..Default::default() };
    project.crs().delete("web", &foreground).await.unwrap();
    until("the hook runs", async || project.get("batch/v1", "Job", "before").await).await;
    let told = project.not_ready("web", "Uninstalling").await;
    assert!(told["message"].as_str().unwrap().contains("Waiting for the pre-delete hook Job"), "{told}");
    assert!(project.get("v1", "ConfigMap", "web").await.is_some(), "it is there until the hook has ended");
    let_pods_end(&project).await;
    project.gone("web").await;
    assert!(project.get("v1", "ConfigMap", "web").await.is_none());
}

#[tokio::test]
async fn one_that_fails_before_the_deletion_stops_it_until_somebody_decides() {
    let project = project(&[hook("before", "pre-delete", "", "fail")]).await;
    project.watch_with("retries: 0");
    let jobs = Jobs::watch(&project).await;
    let _operator = project.run();
    project.apply("web", colour("blue")).await;
    project.condition("web", "Ready", "True").await;
    project.delete("web").await;
    let told = project.not_ready("web", "RetriesExhausted").await;
    assert!(told["message"].as_str().unwrap().contains("uninstall-disable-hooks"), "{told}");
    assert!(project.get("v1", "ConfigMap", "web").await.is_some());
    project.annotate("web", "helm.sdk.operatorframework.io/uninstall-disable-hooks", "true").await;
    project.gone("web").await;
    assert_eq!(jobs.names(), ["before"]);
}

#[tokio::test]
async fn one_that_fails_after_the_deletion_is_told_and_no_more() {
    let project = project(&[hook("after", "post-delete", "", "fail")]).await;
    let _operator = project.run();
    project.apply("web", colour("blue")).await;
    project.condition("web", "Ready", "True").await;
    project.delete("web").await;
    project.gone("web").await;
    assert!(project.events("web", "HookFailed").await.iter().any(|(_, note)| note.contains("post-delete")));
}

/// A Job that the cluster removes when it has ended: the operator holds it until it has seen the end.
fn brief(name: &str, events: &str, behaviour: &str) -> String {
    hook(name, events, "", behaviour).replace("backoffLimit: 0", "backoffLimit: 0\n  ttlSecondsAfterFinished: 0")
}

#[tokio::test]
async fn a_namespace_goes_though_a_hook_runs_that_removes_itself() {
    let project = project(&[brief("before", "pre-install", "hang")]).await;
    let _operator = project.run();
    project.apply("web", colour("blue")).await;
    project.not_ready("web", "RunningHooks").await;
    let namespaces: Api<Namespace> = Api::all(project.client.clone());
    namespaces.delete(&project.namespace, &DeleteParams::default()).await.unwrap();
    until("the namespace is gone", async || {
        namespaces.get_opt(&project.namespace).await.unwrap().is_none().then_some(())
    })
    .await;
}

#[tokio::test]
async fn nothing_holds_a_job_when_its_custom_resource_let_go_of_everything() {
    let project = project(&[brief("before", "post-install", "hang")]).await;
    let operator = project.run();
    project.apply("web", colour("blue")).await;
    project.not_ready("web", "RunningHooks").await;
    project.annotate("web", "chartwright.dev/deletion-policy", "orphan").await;
    project.delete("web").await;
    project.gone("web").await;
    drop(operator);
    let job = project.get("batch/v1", "Job", "before").await.unwrap();
    assert!(job.finalizers().is_empty(), "{:?}", job.finalizers());
}

#[tokio::test]
async fn nothing_holds_a_job_in_another_namespace_either() {
    let project = project(&[]).await;
    let there = project.another_namespace("b").await;
    let job = brief("before", "post-install", "hang")
        .replace("metadata:\n  name:", &format!("metadata:\n  namespace: {there}\n  name:"));
    project.template("hooks.yaml", &job);
    let names = format!("{},{there}", project.namespace);
    let operator = project.launch().env("WATCH_NAMESPACE", &names).start();
    project.apply("web", colour("blue")).await;
    project.not_ready("web", "RunningHooks").await;
    project.annotate("web", "chartwright.dev/deletion-policy", "orphan").await;
    project.delete("web").await;
    project.gone("web").await;
    drop(operator);
    let job = project.objects("batch/v1", "Job", Some(&there)).get("before").await.unwrap();
    assert!(job.finalizers().is_empty(), "{:?}", job.finalizers());
}

#[tokio::test]
async fn in_a_namespace_that_goes_they_are_skipped_with_an_event() {
    let project = project(&[hook("before", "pre-delete", "", "")]).await;
    let jobs = Jobs::watch(&project).await;
    let _operator = project.run();
    project.apply("web", colour("blue")).await;
    project.condition("web", "Ready", "True").await;
    let namespaces: Api<Namespace> = Api::all(project.client.clone());
    namespaces.delete(&project.namespace, &DeleteParams::default()).await.unwrap();
    until("the namespace is gone", async || {
        namespaces.get_opt(&project.namespace).await.unwrap().is_none().then_some(())
    })
    .await;
    assert!(jobs.names().is_empty());
    let events: Api<Event> = Api::namespaced(project.client.clone(), "default");
    let is_meant = |event: &Event| {
        let about = event.regarding.as_ref().and_then(|regarding| regarding.name.as_deref());
        about == Some(&project.namespace) && event.reason.as_deref() == Some("HooksSkipped")
    };
    let told = events.list(&Default::default()).await.unwrap().items.into_iter().find(is_meant).unwrap();
    // Where the record goes first, nobody can say whether it had hooks.
    let note = told.note.unwrap();
    assert!(note.starts_with("The pre-delete hooks of the App web ") && note.contains("not"), "{note}");
}
