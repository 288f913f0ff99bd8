//! Marks on objects are no evidence: an editor of the namespace removes them from the release's objects, or plants those of another.

use std::time::Duration;

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Map, Value, json};

use super::tenant::{RBAC, Tenant};
use crate::harness::{Project, stays, until};

/// What the release has where an editor may write.
const INSIDE: [(&str, &str); 2] = [("ConfigMap", "web"), ("Secret", "web-random")];

async fn patch(project: &Project, kind: &str, name: &str, patch: Value) {
    let api = project.objects("v1", kind, Some(&project.namespace));
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn marks(project: &Project, kind: &str, name: &str) -> Value {
    let live = project.get("v1", kind, name).await.unwrap();
    json!([live.uid(), live.labels(), live.annotations(), live.owner_references()])
}

/// Takes labels, annotations or owners off an object.
async fn remove_marks(project: &Project, kind: &str, name: &str, which: &[&str]) {
    let live = project.get("v1", kind, name).await.unwrap();
    let mut metadata = json!({});
    for which in which {
        let keys: Vec<&String> = match *which {
            "labels" => live.labels().keys().collect(),
            "annotations" => live.annotations().keys().collect(),
            _ => vec![],
        };
        let nothing: Map<String, Value> = keys.into_iter().map(|key| (key.clone(), Value::Null)).collect();
        metadata[*which] = if *which == "ownerReferences" { Value::Null } else { nothing.into() };
    }
    patch(project, kind, name, json!({"metadata": metadata})).await;
}

#[tokio::test]
async fn marks_that_somebody_removes_come_back() {
    let tenant = Tenant::new().await;
    let project = &tenant.project;
    let mut operator = Some(tenant.run());
    tenant.deploy("blue").await;
    let password = tenant.password().await;
    for (runs, which) in [true, false]
        .into_iter()
        .flat_map(|runs| ["labels", "annotations", "ownerReferences"].map(|which| (runs, which)))
    {
        for (kind, name) in INSIDE {
            let before = marks(project, kind, name).await;
            if !runs {
                operator = None;
            }
            remove_marks(project, kind, name, &[which]).await;
            assert_ne!(marks(project, kind, name).await, before);
            operator.get_or_insert_with(|| tenant.run());
            until(&format!("the {which} of {kind} {name} are there again, running: {runs}"), async || {
                (marks(project, kind, name).await == before).then_some(())
            })
            .await;
        }
    }
    assert_eq!(tenant.password().await, password);
}

#[tokio::test]
async fn an_object_without_any_mark_is_neither_lost_nor_replaced() {
    let tenant = Tenant::new().await;
    let project = &tenant.project;
    let _operator = tenant.run();
    tenant.deploy("blue").await;
    let identity = async || {
        let secret = project.get("v1", "Secret", "web-random").await.unwrap();
        (secret.uid(), secret.data["data"].clone(), secret.metadata.deletion_timestamp)
    };
    let before = identity().await;
    remove_marks(project, "Secret", "web-random", &["labels", "annotations", "ownerReferences"]).await;
    // It could be anybody's now, so the operator says so and leaves it alone.
    let told = project.not_ready("web", "BelongsToAnother").await;
    assert!(told["message"].as_str().unwrap().contains("web-random"), "{told}");
    project.apply("web", json!({"colour": "green"})).await;
    stays(Duration::from_secs(2), "the Secret stays", identity).await;
    project.delete("web").await;
    project.gone("web").await;
    stays(Duration::from_secs(2), "the Secret stays", identity).await;
    assert_eq!(identity().await, before);
    assert!(project.get("v1", "ConfigMap", "web").await.is_none(), "the rest goes");
}

#[tokio::test]
async fn owners_that_somebody_plants_on_an_object_lead_to_no_deletion_elsewhere() {
    let tenant = Tenant::new().await;
    let project = &tenant.project;
    let _operator = tenant.run();
    tenant.deploy("blue").await;
    // A release of the same name in another namespace.
    let next = project.another_namespace("next").await;
    let (api_version, kind) = (&project.resource.api_version, &project.resource.kind);
    let cr = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "web", "namespace": next}, "spec": {"colour": "red"}});
    project.create(cr).await;
    let role = format!("{next}-web");
    let theirs = async || {
        let found = [
            project.find("v1", "ConfigMap", Some(&next), "web").await,
            project.find("v1", "Secret", Some(&next), "web-random").await,
            project.find("v1", "Secret", Some(&next), "sh.helm.release.v1.web.v1").await,
            project.find(RBAC, "ClusterRole", None, &role).await,
        ];
        found.map(|object| object.and_then(|object| Some((object.uid()?, object.resource_version()?))))
    };
    until("the other release is ready", async || {
        let status = project.crs_in(&next).get("web").await.unwrap().data["status"].clone();
        let is_ready = |it: &Value| it["type"] == "Ready" && it["status"] == "True";
        status["conditions"].as_array()?.iter().any(is_ready).then_some(())
    })
    .await;
    let before = theirs().await;
    assert!(before.iter().all(Option::is_some), "{before:?}");
    // All marks of its ConfigMap, and owners in its namespace and in none.
    let live = project.find("v1", "ConfigMap", Some(&next), "web").await.unwrap();
    let cluster_role = project.find(RBAC, "ClusterRole", None, &role).await.unwrap();
    let mut owners = live.owner_references().to_vec();
    assert_eq!(owners[0].controller, Some(true));
    owners.push(
        serde_json::from_value(json!({"apiVersion": RBAC, "kind": "ClusterRole", "name": role,
        "uid": cluster_role.uid(), "blockOwnerDeletion": true}))
        .unwrap(),
    );
    let planted =
        json!({"metadata": {"labels": live.labels(), "annotations": live.annotations(), "ownerReferences": owners}});
    for (kind, name) in INSIDE {
        patch(project, kind, name, planted.clone()).await;
    }
    tenant.project.apply("web", json!({"colour": "green"})).await;
    stays(Duration::from_secs(4), "the other release stays as it is", theirs).await;
    // What is small has no ClusterRole: one of both is pruned.
    tenant.project.apply("web", json!({"colour": "small"})).await;
    stays(Duration::from_secs(3), "the other release stays as it is", theirs).await;
    for (kind, name) in INSIDE {
        if project.get("v1", kind, name).await.is_some() {
            patch(project, kind, name, planted.clone()).await;
        }
    }
    project.delete("web").await;
    project.gone("web").await;
    stays(Duration::from_secs(3), "the other release stays as it is", theirs).await;
    assert_eq!(theirs().await, before);
}
