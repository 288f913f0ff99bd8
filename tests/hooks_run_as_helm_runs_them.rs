//! Hooks of all events run once each, in Helm's order, and nobody waits for them but their own release.

mod crash;
mod deletion;
mod failure;
mod stuck;
mod tests;

use std::time::Duration;

use kube::ResourceExt;
use serde_json::{Value, json};

use crate::harness::jobs::Jobs;
use crate::harness::{Project, until, until_within};

/// A Job that is a hook. `behaviour` is what its pod does, if it does not just end.
pub fn hook(name: &str, events: &str, more: &str, behaviour: &str) -> String {
    format!(
        "---
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  annotations:
    helm.sh/hook: '{events}'
{}
spec:
  backoffLimit: 0
  template:
    metadata: {{labels: {{lab.chartwright.dev/behaviour: '{behaviour}'}}}}
    spec: {{restartPolicy: Never, containers: [{{name: main, image: registry.example.com/a}}]}}
",
        more.lines().map(|line| format!("    {line}\n")).collect::<String>()
    )
}

/// A project whose chart has a ConfigMap with a colour, and these hooks.
pub async fn project(hooks: &[String]) -> Project {
    let project = Project::new("App").await;
    project.template(
        "config.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\ndata: {colour: '{{ .Values.colour }}'}\n",
    );
    project.template("hooks.yaml", &hooks.concat());
    project
}

pub fn colour(colour: &str) -> Value {
    json!({"colour": colour})
}

/// Has pods that hang end after all.
pub async fn let_pods_end(project: &Project) {
    let pods = project.objects("v1", "Pod", Some(&project.namespace));
    for pod in pods.list(&Default::default()).await.unwrap() {
        let patch = json!({"metadata": {"labels": {"lab.chartwright.dev/behaviour": null}}});
        pods.patch(&pod.name_any(), &Default::default(), &kube::api::Patch::Merge(patch)).await.unwrap();
    }
}

pub async fn colour_of(project: &Project, name: &str) -> Option<String> {
    let config = project.get("v1", "ConfigMap", name).await?;
    config.data["data"]["colour"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn each_event_runs_its_hooks_by_weight_and_name() {
    for helm in ["helm3", "helm4"] {
        let project = project(&[
            hook("second", "pre-install,pre-upgrade", "", ""),
            hook("third", "Pre-Install", "helm.sh/hook-weight: '0'", ""),
            hook("first", "pre-install", "helm.sh/hook-weight: '-5'", ""),
            hook("installed", "post-install", "", ""),
            hook("upgraded", "post-upgrade", "", ""),
            hook("before-rollback", "pre-rollback", "", ""),
            hook("after-rollback", "post-rollback", "", ""),
            hook("before-delete", "pre-delete", "", ""),
            hook("after-delete", "post-delete", "", ""),
            hook("check", "test", "", ""),
        ])
        .await;
        let jobs = Jobs::watch(&project).await;
        let _operator = project.run_with(helm);
        project.apply("web", colour("blue")).await;
        project.condition("web", "Ready", "True").await;
        assert_eq!(jobs.names(), ["first", "second", "third", "installed"], "{helm}");
        let history = project.helm(helm, &["status", "web", "-o", "json"]);
        let status: Value = serde_json::from_str(&history).unwrap();
        let phases: Vec<&str> =
            status["hooks"].as_array().unwrap().iter().filter_map(|it| it["last_run"]["phase"].as_str()).collect();
        assert_eq!(phases.iter().filter(|phase| **phase == "Succeeded").count(), 4, "{helm}: {phases:?}");

        project.apply("web", colour("green")).await;
        until("it is green and ready", async || {
            let is_ready = project.status("web").await["deployedRelease"]["revision"] == 2;
            (is_ready && colour_of(&project, "web").await.as_deref() == Some("green")).then_some(())
        })
        .await;
        assert_eq!(jobs.names()[4..], ["second", "upgraded"], "{helm}");

        project.annotate("web", "chartwright.dev/rollback-to", "1").await;
        project.condition("web", "Held", "True").await;
        assert_eq!(colour_of(&project, "web").await.as_deref(), Some("blue"));
        assert_eq!(jobs.names()[6..], ["before-rollback", "after-rollback"], "{helm}");

        project.delete("web").await;
        project.gone("web").await;
        assert_eq!(jobs.names()[8..], ["before-delete", "after-delete"], "{helm}");
        assert!(project.get("v1", "ConfigMap", "web").await.is_none());
        assert!(project.get("batch/v1", "Job", "after-delete").await.is_some(), "as in Helm, hooks stay");
        assert_eq!(project.helm(helm, &["list", "--short"]), "", "{helm}");
    }
}

#[tokio::test]
async fn what_a_hook_brings_is_there_before_the_rest() {
    let config = |name: &str, events: &str, more: &str| {
        format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  annotations: {{helm.sh/hook: '{events}'{more}}}\n"
        )
    };
    let project = project(&[
        config("settings", "pre-install,pre-upgrade", ", helm.sh/hook-weight: '-1'"),
        config("brief", "pre-install", ", helm.sh/hook-delete-policy: hook-succeeded"),
        "---\napiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: runner\n  annotations: {helm.sh/hook: pre-install}\n"
            .to_owned(),
        "---\napiVersion: v1\nkind: Pod\nmetadata: {name: bare}\nspec: {serviceAccountName: runner, restartPolicy: Never, containers: [{name: a, image: a}]}\n"
            .to_owned(),
    ])
    .await;
    let _operator = project.run();
    project.apply("web", colour("blue")).await;
    project.deployed("web").await;
    until("the pod is there", async || project.get("v1", "Pod", "bare").await).await;
    let settings = project.get("v1", "ConfigMap", "settings").await.unwrap();
    assert!(settings.owner_references().is_empty(), "as in Helm, nobody owns a hook");
    assert!(settings.annotations()["chartwright.dev/hook-run"].starts_with("1.pre-install."));
    assert!(project.get("v1", "ConfigMap", "brief").await.is_none(), "hook-succeeded");
    project.apply("web", colour("red")).await;
    until("it was made anew", async || {
        let settings = project.get("v1", "ConfigMap", "settings").await?;
        settings.annotations()["chartwright.dev/hook-run"].starts_with("2.pre-upgrade.").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_job_that_removes_itself_runs_once() {
    let mut job = hook("brief", "pre-install", "", "");
    job = job.replace("backoffLimit: 0", "backoffLimit: 0\n  ttlSecondsAfterFinished: 0");
    let project = project(&[job]).await;
    let jobs = Jobs::watch(&project).await;
    let _operator = project.run();
    project.apply("web", colour("blue")).await;
    project.condition("web", "Ready", "True").await;
    until("it removed itself", async || project.get("batch/v1", "Job", "brief").await.is_none().then_some(())).await;
    assert_eq!(jobs.names(), ["brief"]);
}

#[tokio::test]
async fn what_is_newer_waits_for_a_hook_that_runs_and_goes_ahead_of_the_next() {
    let slow = hook("slow", "pre-upgrade", "helm.sh/hook-weight: '-1'", "{{ .Values.behaviour }}");
    let next = hook("next", "pre-upgrade", "", "");
    let project = project(&[slow, next]).await;
    let jobs = Jobs::watch(&project).await;
    let _operator = project.run();
    project.apply("web", colour("blue")).await;
    project.condition("web", "Ready", "True").await;
    project.apply("web", json!({"colour": "red", "behaviour": "hang"})).await;
    let waiting = project.not_ready("web", "RunningHooks").await;
    let message = waiting["message"].as_str().unwrap();
    assert!(message.contains("waiting for the pre-upgrade hook Job") && message.contains("slow"), "{message}");
    assert_eq!(colour_of(&project, "web").await.as_deref(), Some("blue"), "nothing is applied before its hooks");

    project.apply("web", json!({"colour": "green"})).await;
    project
        .told("web", "the newer spec waits", |status| {
            let conditions = status["conditions"].as_array()?;
            let ready = conditions.iter().find(|condition| condition["type"] == "Ready")?;
            ready["message"]
                .as_str()?
                .contains("a newer spec is queued until it ends; to skip the wait: kubectl delete job slow -n ")
                .then_some(())
        })
        .await;
    let_pods_end(&project).await;
    until("the newest spec is there", async || {
        (colour_of(&project, "web").await.as_deref() == Some("green")).then_some(())
    })
    .await;
    assert_eq!(jobs.runs(), ["2.pre-upgrade.0.1 slow", "3.pre-upgrade.0.1 slow", "3.pre-upgrade.1.1 next"]);
}

#[tokio::test]
async fn hooks_can_be_switched_off() {
    let project = project(&[
        hook("installs", "pre-install,post-install", "", ""),
        hook("upgrades", "pre-upgrade", "", ""),
        hook("deletes", "pre-delete,post-delete", "", ""),
    ])
    .await;
    let jobs = Jobs::watch(&project).await;
    project.apply("web", colour("blue")).await;
    for verb in ["install", "upgrade", "uninstall"] {
        project.annotate("web", &format!("helm.sdk.operatorframework.io/{verb}-disable-hooks"), "true").await;
    }
    let _operator = project.run();
    project.condition("web", "Ready", "True").await;
    project.apply("web", colour("red")).await;
    until("it is red", async || (colour_of(&project, "web").await.as_deref() == Some("red")).then_some(())).await;
    project.delete("web").await;
    project.gone("web").await;
    assert!(jobs.names().is_empty(), "{:?}", jobs.names());
}

/// Hooks that never end take no place: `count` of them, and one more custom resource that is not delayed.
async fn hanging_hooks_delay_nobody(count: usize) {
    let project = project(&["{{ if .Values.behaviour }}\n".to_owned()
        + &hook("{{ .Release.Name }}-hook", "pre-install", "", "{{ .Values.behaviour }}")
        + "{{ end }}\n"])
    .await;
    let _operator = project.run();
    let crs: Vec<String> = (0..count).map(|n| format!("hanging-{n}")).collect();
    futures::future::join_all(crs.iter().map(|cr| project.apply(cr, json!({"colour": "red", "behaviour": "hang"}))))
        .await;
    for cr in &crs {
        until_within(Duration::from_secs(180), &format!("{cr} waits for its hook"), async || {
            let status = project.status(cr).await;
            let ready = status["conditions"].as_array()?.iter().find(|it| it["type"] == "Ready")?.clone();
            (ready["reason"] == "RunningHooks").then_some(())
        })
        .await;
    }
    let begun = std::time::Instant::now();
    project.apply("last", colour("blue")).await;
    project.condition("last", "Ready", "True").await;
    let took = begun.elapsed();
    println!("{count} hooks hang; the next custom resource was ready after {} ms", took.as_millis());
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(project.get("v1", "ConfigMap", "hanging-0").await.is_none());
}

#[tokio::test]
async fn ten_hooks_that_hang_do_not_delay_the_next_custom_resource() {
    hanging_hooks_delay_nobody(10).await;
}

#[tokio::test]
#[ignore = "takes a minute; make hooks-proof runs it"]
async fn a_hundred_hooks_that_hang_do_not_delay_the_next_custom_resource() {
    hanging_hooks_delay_nobody(100).await;
}

#[tokio::test]
async fn an_object_of_somebody_else_is_not_deleted_for_a_hook_of_its_name() {
    let project = project(&[
        "---\napiVersion: v1\nkind: Secret\nmetadata: {name: precious, annotations: {helm.sh/hook: pre-install}}\n"
            .to_owned(),
    ])
    .await;
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "precious", "namespace": project.namespace}});
    let uid = project.create(secret).await.uid();
    let _operator = project.run();
    project.apply("web", colour("blue")).await;
    let told = project.not_ready("web", "BelongsToAnother").await;
    assert!(told["message"].as_str().unwrap().contains("no hook of this release"), "{told}");
    assert_eq!(project.get("v1", "Secret", "precious").await.unwrap().uid(), uid);
    // What helm left of a hook is another matter.
    let mark = json!({"metadata": {"annotations": {"helm.sh/hook": "pre-install"}}});
    let secrets = project.objects("v1", "Secret", Some(&project.namespace));
    secrets.patch("precious", &Default::default(), &kube::api::Patch::Merge(mark)).await.unwrap();
    project.annotate("web", "try", "again").await;
    project.condition("web", "Ready", "True").await;
    assert_ne!(project.get("v1", "Secret", "precious").await.unwrap().uid(), uid);
}

#[tokio::test]
async fn a_custom_resource_of_a_name_that_was_used_before_has_its_hooks_run() {
    let project = project(&[hook("before", "pre-install", "", ""), hook("leaving", "pre-delete", "", "")]).await;
    let jobs = Jobs::watch(&project).await;
    let _operator = project.run();
    for _ in 0..2 {
        project.apply("web", colour("blue")).await;
        project.condition("web", "Ready", "True").await;
        project.delete("web").await;
        project.gone("web").await;
    }
    assert_eq!(jobs.names(), ["before", "leaving", "before", "leaving"]);
}

#[tokio::test]
async fn a_list_that_is_a_hook_is_made_as_a_whole_before_it_is_waited_for() {
    let list = "---
apiVersion: v1
kind: List
metadata: {annotations: {helm.sh/hook: pre-install}}
items:
- apiVersion: batch/v1
  kind: Job
  metadata: {name: a}
  spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: registry.example.com/a}]}}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: z}}
";
    let project = project(&[list.to_owned()]).await;
    let jobs = Jobs::watch(&project).await;
    let _operator = project.run();
    project.apply("web", colour("blue")).await;
    project.condition("web", "Ready", "True").await;
    assert_eq!(jobs.names(), ["a"]);
    let events = project.events("web", "HookSucceeded").await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(project.get("v1", "ConfigMap", "z").await.unwrap().owner_references().is_empty());
}

#[tokio::test]
async fn without_watches_hooks_are_asked_about() {
    let project = project(&[hook("before", "pre-install", "", ""), hook("after", "post-install", "", "")]).await;
    project.watch_with("watchDependentResources: false");
    let jobs = Jobs::watch(&project).await;
    let _operator = project.run();
    project.apply("web", colour("blue")).await;
    project.condition("web", "Ready", "True").await;
    assert_eq!(jobs.names(), ["before", "after"]);
}
