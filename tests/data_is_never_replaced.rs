use kube::ResourceExt;
use serde_json::{Value, json};

use crate::harness::{Project, config};

fn claim(size: &str, class: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": size}}}})
}

#[tokio::test]
async fn a_claim_is_not_deleted_to_be_changed_even_with_upgrade_force() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue"), claim("1Gi", "lab")]})).await;
    project.annotate("web", "helm.sdk.operatorframework.io/upgrade-force", "true").await;
    project.deployed("web").await;
    let before = project.get("v1", "PersistentVolumeClaim", "data").await.unwrap();
    project.apply("web", json!({"objects": [config("web", "green"), claim("1Gi", "other")]})).await;
    let told = project.not_ready("web", "ImmutableField").await;
    assert!(told["message"].as_str().unwrap().contains("data"), "{told}");
    let after = project.get("v1", "PersistentVolumeClaim", "data").await.unwrap();
    assert_eq!(after.uid(), before.uid());
    assert!(after.metadata.deletion_timestamp.is_none());
    assert_eq!(project.get("v1", "ConfigMap", "web").await.unwrap().data["data"]["colour"], "blue");
}
