use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};
use serde_json::json;

use crate::harness::{Project, until};

const OBJECT: &str = "
apiVersion: v1
kind: ConfigMap
metadata:
  name: ordinary
---
apiVersion: batch/v1
kind: Job
metadata:
  name: migrate
  annotations: {helm.sh/hook: 'pre-install,pre-upgrade'}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: a, image: a}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: check
  annotations: {helm.sh/hook: test}
spec: {containers: [{name: a, image: a}]}
";

#[tokio::test]
async fn a_hook_is_not_applied_and_a_warning_names_it() {
    let project = Project::new("App").await;
    project.template("all.yaml", OBJECT);
    let _operator = project.run();
    project.apply("web", json!({})).await;
    project.condition("web", "Deployed", "True").await;
    assert!(project.get("v1", "ConfigMap", "ordinary").await.is_some());
    assert!(project.get("batch/v1", "Job", "migrate").await.is_none());
    assert!(project.get("v1", "Pod", "check").await.is_none());
    let events: Api<Event> = Api::namespaced(project.client.clone(), &project.namespace);
    let note = until("the warning is there", async || {
        let events = events.list(&ListParams::default()).await.unwrap();
        events.items.into_iter().find(|event| event.reason.as_deref() == Some("HooksNotRun"))?.note
    })
    .await;
    assert!(note.contains("migrate (pre-install, pre-upgrade)") && !note.contains("check"), "{note}");
}
