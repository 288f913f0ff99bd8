use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::json;

use crate::harness::{Project, config, until};

#[tokio::test]
async fn it_is_told_and_the_way_out_that_is_told_works() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.deployed("web").await;
    project.apply("web", json!({"objects": [config("web", "green")]})).await;
    project.deployed("web").await;
    let uid = project.get("v1", "ConfigMap", "web").await.unwrap().uid();
    project.helm("helm4", &["rollback", "web", "1"]);
    // Whatever touches the custom resource has it looked at.
    project.annotate("web", "touched", "1").await;
    let told = project.not_ready("web", "BelongsToAnother").await;
    let message = told["message"].as_str().unwrap();
    let way_out = format!("kubectl -n {} delete secret -l owner=helm,name=web", project.namespace);
    assert!(message.contains("revision 3 was written by helm") && message.contains(&way_out), "{message}");
    assert_eq!(project.get("v1", "ConfigMap", "web").await.unwrap().data["data"]["colour"], "blue");

    let records: Api<Secret> = Api::namespaced(project.client.clone(), &project.namespace);
    let selected = ListParams::default().labels("owner=helm,name=web");
    records.delete_collection(&DeleteParams::default(), &selected).await.unwrap();
    project.annotate("web", "touched", "2").await;
    project.condition("web", "Ready", "True").await;
    until("the custom resource is in charge again", async || {
        let config = project.get("v1", "ConfigMap", "web").await?;
        (config.data["data"]["colour"] == "green").then_some(config)
    })
    .await;
    let config = project.get("v1", "ConfigMap", "web").await.unwrap();
    assert_eq!(config.uid(), uid);
    assert_eq!(config.owner_references().len(), 1);
}
