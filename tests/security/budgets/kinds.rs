//! Kinds that nobody serves, in what somebody else wrote.

use kube::api::{DeleteParams, ListParams};
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
    let away = format!("{}.example.org", project.namespace);
    let api = format!("v1.{away}");
    project
        .create(json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": api},
            "spec": {"group": away, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
                "service": {"name": "nowhere", "namespace": project.namespace}, "insecureSkipTLSVerify": true},
        }))
        .await;
    let services = project.objects("apiregistration.k8s.io/v1", "APIService", None);
    until("the API is away", async || {
        let service = services.get(&api).await.ok()?;
        let conditions = service.data["status"]["conditions"].as_array()?.clone();
        conditions.iter().any(|it| it["type"] == "Available" && it["status"] == "False").then_some(())
    })
    .await;
    let values = format!("objects=[{}]", config("web", "blue"));
    project.helm("helm4", &["install", "web", "charts/app", "--set-json", &values]);
    let unknown = |number| format!("---\napiVersion: g{number}.{GROUP}/v1\nkind: A\nmetadata: {{name: a}}\n");
    let manifest: String = (0..UNKNOWN).map(unknown).collect();
    let parts: String =
        (0..50).map(|it| format!("---\napiVersion: {away}/v1\nkind: Part{it}\nmetadata: {{name: a}}\n")).collect();
    project.forge("web", 1, |record| record.manifest = (manifest + &parts).into()).await;

    let gate = Troubled::start(project.client.clone(), Trouble::None).await;
    let operator = project.launch().behind(&gate).start();
    project.apply("web", objects("web", "blue")).await;
    until("the release is refused", async || {
        let status = project.status("web").await;
        let conditions = status["conditions"].as_array()?.clone();
        conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "False").then_some(())
    })
    .await;
    project.delete("web").await;
    project.gone("web").await;
    assert!(asked(&gate) <= 20, "{} questions about groups that nobody serves", asked(&gate));
    assert!(project.get("v1", "ConfigMap", "web").await.is_some(), "{}", operator.log());
    services.delete(&api, &DeleteParams::default()).await.expect("the APIService is deleted");
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
}
