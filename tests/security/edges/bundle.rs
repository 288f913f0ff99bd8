//! A support bundle holds no secret, whatever a release record says about where its objects come from.

use serde_json::json;

use crate::harness::forging::as_crds;
use crate::harness::{Project, config};

const IN_SECRET: &str = "first-hidden-4";
const IN_POD: &str = "second-hidden-7";

#[tokio::test]
async fn a_support_bundle_masks_what_a_record_says_to_be_of_crds() {
    let project = Project::of_objects().await;
    let operator = project.run();
    let note = format!("{IN_SECRET} and {IN_POD}");
    project.apply("web", json!({"objects": [config("web", "blue")], "note": note})).await;
    project.deployed("web").await;
    // It would render the chart again, and the record is to stay as it is forged.
    drop(operator);
    let resource = format!("resources/{}/App.{}/web/resource.yaml", project.namespace, project.resource.group);
    assert!(project.support_bundle()[&resource].contains(&note), "nothing says yet that these are secrets");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"},
        "stringData": {"key": IN_SECRET}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "web", "image": "i", "env": [{"name": "A_TOKEN", "value": IN_POD}]}]}});
    let manifest = [secret, pod].map(|object| format!("---\n{}", as_crds(&object))).concat();
    project.forge("web", 1, |release| release.manifest = manifest.as_str().into()).await;
    let files = project.support_bundle();
    assert!(files[&resource].contains("note: '*** and ***'"), "{}", files[&resource]);
    for (path, text) in &files {
        assert!(!text.contains(IN_SECRET) && !text.contains(IN_POD), "{path}:\n{text}");
    }
}
