//! Kinds that nobody serves, in what somebody else wrote.

use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use super::objects;
use crate::harness::trouble::{Trouble, Troubled};
use crate::harness::{Project, config, until};

const UNKNOWN: usize = 2000;
const GROUP: &str = "nobody.example.net";

fn asked(gate: &Troubled) -> usize {
    gate.counts().calls.iter().filter(|call| call.contains(GROUP)).count()
}

#[tokio::test]
async fn unknown_kinds_of_a_foreign_release_lead_to_few_questions_and_stop_no_deletion() {
    let project = Project::of_objects().await;
    let values = format!("objects=[{}]", config("web", "blue"));
    project.helm("helm4", &["install", "web", "charts/app", "--set-json", &values]);
    let unknown = |number| format!("---\napiVersion: g{number}.{GROUP}/v1\nkind: A\nmetadata: {{name: a}}\n");
    let manifest: String = (0..UNKNOWN).map(unknown).collect();
    project.forge("web", 1, |record| record.manifest = manifest.into()).await;

    let gate = Troubled::start(project.client.clone(), Trouble::None).await;
    let operator = project.launch().behind(&gate).start();
    project.apply("web", objects("web", "blue")).await;
    until("the release is refused", async || {
        let status = project.status("web").await;
        let conditions = status["conditions"].as_array()?.clone();
        conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "False").then_some(())
    })
    .await;
    // Whoever may write the custom resource may set the finalizer, so that the operator looks for what it owns.
    let finalizer = json!({"metadata": {"finalizers": ["helm.sdk.operatorframework.io/uninstall-release"]}});
    project.crs().patch("web", &PatchParams::default(), &Patch::Merge(finalizer)).await.expect("a finalizer");
    project.delete("web").await;
    project.gone("web").await;
    assert!(asked(&gate) <= 20, "{} questions about groups that nobody serves", asked(&gate));
    assert!(project.get("v1", "ConfigMap", "web").await.is_some(), "{}", operator.log());
}

#[tokio::test]
async fn unknown_kinds_of_an_annotation_lead_to_few_questions() {
    let project = Project::of_objects().await;
    let operator = project.run();
    project.apply("web", objects("mine", "blue")).await;
    project.deployed("web").await;
    drop(operator);
    // Somebody removes the records, so that the marks on the custom resource are all that is left.
    let secrets = project.objects("v1", "Secret", Some(&project.namespace));
    for record in secrets.list(&ListParams::default().labels("owner=helm")).await.expect("records") {
        secrets.delete(&record.metadata.name.unwrap(), &DeleteParams::default()).await.expect("it is deleted");
    }
    let kinds: Vec<String> = (0..UNKNOWN).map(|number| format!("A.g{number}.{GROUP}")).collect();
    project
        .annotate("web", "applyset.kubernetes.io/contains-group-kinds", &format!("ConfigMap,{}", kinds.join(",")))
        .await;
    let gate = Troubled::start(project.client.clone(), Trouble::None).await;
    let _operator = project.launch().behind(&gate).start();
    project.delete("web").await;
    project.gone("web").await;
    assert!(asked(&gate) <= 20, "{} questions about groups that nobody serves", asked(&gate));
    assert!(project.get("v1", "ConfigMap", "mine").await.is_none(), "the release is removed all the same");
}
