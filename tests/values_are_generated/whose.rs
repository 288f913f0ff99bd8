//! Whose the Secret of generated values is: what belongs to somebody else is not used, and what is the custom resource's goes with it.

use kube::ResourceExt;
use kube::api::{DeleteParams, PropagationPolicy};
use serde_json::{Value, json};

use super::{TWO, change, data, edited, generated, project, stays_there};
use crate::harness::{Project, until, within};

async fn plant(project: &Project, metadata: Value, more: Value) -> kube::api::DynamicObject {
    let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
    secret["metadata"]["name"] = "web-generated".into();
    secret.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    project.create(within(&project.namespace, secret)).await
}

#[tokio::test]
async fn a_secret_that_somebody_else_created_is_not_used_without_consent() {
    let project = project(TWO).await;
    let theirs = json!({"stringData": {"password": "theirs"}});
    let before = plant(&project, json!({}), theirs.clone()).await;
    let operator = project.run();
    project.apply("web", json!({"colour": "blue"})).await;
    let told = project.not_ready("web", "BelongsToAnother").await;
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("web-generated") && message.contains("was not created by this operator"), "{message}");
    // The author's wish alone is not enough.
    project.annotate("web", "chartwright.dev/adopt", "true").await;
    let told = super::told_of(&project, "web", "InvalidAnnotation").await;
    assert!(told.contains("has no effect"), "{told}");
    let preview = project.cli(&["render", &project.named("web"), "--show-secrets"]);
    assert!(preview.code != 0 && !preview.out.contains("theirs"), "{preview:?}");
    let now = project.get("v1", "Secret", "web-generated").await.unwrap();
    assert_eq!(now.resource_version(), before.resource_version(), "nothing is lost");
    assert!(project.get("v1", "Secret", "web").await.is_none());
    // Without it, the operator goes on.
    super::remove(&project, "web-generated").await;
    project.condition("web", "Ready", "True").await;
    assert_ne!(generated(&project, "web").await.unwrap()["password"], "theirs");
    drop(operator);
}

#[tokio::test]
async fn with_consent_it_is_used_completed_and_left_behind() {
    let project = project(&format!("adopt: objects\n{TWO}")).await;
    let _operator = project.run();
    let before = plant(&project, json!({}), json!({"stringData": {"password": "theirs", "more": "theirs"}})).await;
    project.apply("web", json!({"colour": "blue"})).await;
    let told = project.not_ready("web", "BelongsToAnother").await;
    assert!(told["message"].as_str().unwrap().contains("chartwright.dev/adopt: \"true\""), "{told}");
    project.annotate("web", "chartwright.dev/adopt", "true").await;
    project.condition("web", "Ready", "True").await;
    let held = generated(&project, "web").await.unwrap();
    assert_eq!((&held["password"], &held["more"]), (&json!("theirs"), &json!("theirs")));
    assert_eq!(data(&project, "web").await, Some(json!({"password": "theirs", "root": held["root"]})));
    let now = project.get("v1", "Secret", "web-generated").await.unwrap();
    assert_eq!((now.uid(), now.owner_references().len()), (before.uid(), 0));
    assert!(now.annotations().contains_key("chartwright.dev/adopted"), "{:?}", now.annotations());
    edited(&project, "web", "green").await;
    project
        .crs()
        .delete("web", &DeleteParams { propagation_policy: Some(PropagationPolicy::Foreground), ..Default::default() })
        .await
        .unwrap();
    project.gone("web").await;
    stays_there(&project, &now).await;
    // A later custom resource of the same name takes it again.
    project.apply("web", json!({"colour": "blue"})).await;
    project.condition("web", "Ready", "True").await;
    assert_eq!(data(&project, "web").await.unwrap()["root"], held["root"]);
}

#[tokio::test]
async fn records_tokens_and_objects_of_others_are_never_used() {
    let project = project(&format!("adopt: releases\n{TWO}")).await;
    let _operator = project.run();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    project.create(within(&project.namespace, account)).await;
    let other = json!({"apiVersion": "x.io/v1", "kind": "Other", "name": "other", "uid": "u", "controller": true});
    let helms = json!({"meta.helm.sh/release-name": "other", "meta.helm.sh/release-namespace": project.namespace});
    let data = json!({"stringData": {"password": "stolen", "root": "stolen"}});
    let typed = |kind: &str| json!({"type": kind, "stringData": {"password": "stolen", "root": "stolen"}});
    let cases = [
        (json!({}), typed("helm.sh/release.v1"), "a Helm release record"),
        (json!({"labels": {"owner": "helm"}}), data.clone(), "a Helm release record"),
        (json!({}), typed("bootstrap.kubernetes.io/token"), "a token"),
        (json!({}), typed("chartwright.dev/signing-key"), "a Secret of the operator itself"),
        (json!({"ownerReferences": [other]}), data.clone(), "belongs to Other other"),
        (
            json!({"labels": {"app.kubernetes.io/managed-by": "Helm"}, "annotations": helms}),
            data.clone(),
            "belongs to a release",
        ),
        (
            json!({"annotations": {"chartwright.dev/generated-for": "App.x shop/other"}}),
            data,
            "belongs to App.x shop/other",
        ),
    ];
    for (metadata, more, expected) in cases {
        plant(&project, metadata, more).await;
        project.apply("web", json!({"colour": "blue"})).await;
        project.annotate("web", "chartwright.dev/adopt", "true").await;
        let told = project
            .told("web", expected, |status| {
                let text = status.to_string();
                (text.contains(expected) && text.contains("BelongsToAnother")).then_some(text)
            })
            .await;
        assert!(!told.contains("stolen"), "{told}");
        assert!(project.get("v1", "Secret", "web").await.is_none(), "{expected}");
        project.delete("web").await;
        project.gone("web").await;
        assert!(project.get("v1", "Secret", "web-generated").await.is_some(), "{expected}: it stays");
        super::remove(&project, "web-generated").await;
    }
}

#[tokio::test]
async fn a_chart_cannot_write_the_secret() {
    let project = Project::of_objects().await;
    project.watch_with("generate: [{name: password, text: {}, targetPath: auth.password}]");
    let _operator = project.run();
    let config = crate::harness::config("web", "blue");
    project.apply("web", json!({"objects": [config]})).await;
    project.condition("web", "Ready", "True").await;
    let before = generated(&project, "web").await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web-generated"}, "stringData": {"password": "x"}});
    let hook = crate::harness::annotated(secret.clone(), json!({"helm.sh/hook": "pre-upgrade"}));
    for object in [secret, hook] {
        project.apply("web", json!({"objects": [config, object]})).await;
        let told = project.not_ready("web", "NotAllowed").await;
        assert!(told["message"].as_str().unwrap().contains("keeps the generated values"), "{told}");
        let diff = project.cli(&["diff", &project.named("web")]);
        assert!(diff.code == 2 && diff.err.contains("keeps the generated values"), "{diff:?}");
        assert_eq!(generated(&project, "web").await, before);
        project.apply("web", json!({"objects": [config]})).await;
        project.condition("web", "Ready", "True").await;
    }
}

#[tokio::test]
async fn it_goes_with_the_custom_resource_unless_somebody_keeps_it() {
    let project = project(TWO).await;
    let _operator = project.run();
    for name in ["web", "kept", "free"] {
        project.apply(name, json!({"colour": "blue"})).await;
        project.condition(name, "Ready", "True").await;
    }
    let kept = generated(&project, "kept").await;
    change(&project, "kept-generated", json!({"metadata": {"annotations": {"helm.sh/resource-policy": "keep"}}})).await;
    until("it is not owned any more", async || {
        let secret = project.get("v1", "Secret", "kept-generated").await?;
        secret.owner_references().is_empty().then_some(())
    })
    .await;
    let free = project.get("v1", "Secret", "free-generated").await.unwrap();
    project.annotate("free", "chartwright.dev/deletion-policy", "orphan").await;
    for name in ["web", "kept", "free"] {
        project.delete(name).await;
        project.gone(name).await;
    }
    assert!(
        project.get("v1", "Secret", "web-generated").await.is_none(),
        "it is deleted before the custom resource goes"
    );
    assert_eq!(generated(&project, "kept").await, kept);
    stays_there(&project, &free).await;
    // What was kept is used again: a claim that stayed has the same password in it.
    project.apply("kept", json!({"colour": "blue"})).await;
    project.condition("kept", "Ready", "True").await;
    assert_eq!((generated(&project, "kept").await, data(&project, "kept").await), (kept.clone(), kept));
}

#[tokio::test]
async fn another_release_may_take_its_values_from_it_and_it_may_not_itself() {
    let project = project(TWO).await;
    let _operator = project.run();
    project.apply("web", json!({"colour": "blue"})).await;
    project.condition("web", "Ready", "True").await;
    let values = generated(&project, "web").await.unwrap();
    project.apply("client", json!({})).await;
    project.annotate("client", "chartwright.dev/values-from", "secret/web-generated:password@colour").await;
    super::coloured(&project, "client", values["password"].as_str().unwrap()).await;
    project.annotate("web", "chartwright.dev/values-from", "secret/web-generated:password@colour").await;
    let told = project.not_ready("web", "InvalidValues").await;
    assert!(told["message"].as_str().unwrap().contains("belongs to this release itself"), "{told}");
}
