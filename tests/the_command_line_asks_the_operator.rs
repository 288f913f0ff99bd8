//! `rollback` and `adopt`: a person's wish is written on the custom resource, and the operator does the work.

use kube::ResourceExt;
use serde_json::{Value, json};

use crate::harness::{Project, config};

async fn colour(project: &Project) -> Value {
    project.get("v1", "ConfigMap", "web").await.unwrap().data["data"]["colour"].clone()
}

async fn deploy(project: &Project, colour: &str) {
    project.apply("web", json!({"objects": [config("web", colour)]})).await;
    project.deployed("web").await;
}

#[tokio::test]
async fn rollback_goes_back_and_says_so_and_the_spec_can_decide_again() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    deploy(&project, "blue").await;
    deploy(&project, "green").await;
    let web = project.named("web");
    let shown = format!("App {}/web", project.namespace);
    let said = project.cli(&["rollback", &web]).good();
    assert!(said.starts_with(&format!("{shown}: went back to revision 1, as revision 3; it stays until")), "{said}");
    assert_eq!(colour(&project).await, "blue");
    assert!(project.cli(&["history", &web]).good().contains("at 1, by request"));
    let held = project.cli(&["history", &web, "-o", "json"]).json();
    assert_eq!((&held[2]["held"]["to"], &held[2]["held"]["by"]), (&json!(1), &json!("request")));
    let diff = project.cli(&["diff", &web]);
    assert_eq!((diff.code, diff.out.as_str()), (0, ""), "a held revision is at rest: {diff:?}");
    assert!(diff.err.starts_with("note: revision 3 is held"), "{diff:?}");
    let said = project.cli(&["rollback", &web, "1"]).good();
    assert_eq!(said, format!("{shown}: revision 1 is held already, as revision 3\n"));

    // An edit of the spec ends the hold. The same wish can be made once more.
    deploy(&project, "red").await;
    assert_eq!(colour(&project).await, "red");
    let data = project.cli(&["rollback", &web, "1", "-o", "json"]).json();
    assert_eq!((&data["revision"], &data["heldAt"]), (&json!(5), &json!(1)));
    assert_eq!(colour(&project).await, "blue");

    let said = project.cli(&["rollback", &web, "--resume"]).good();
    assert_eq!(said, format!("{shown}: the spec decides again, as revision 6\n"));
    assert_eq!(colour(&project).await, "red");
    let said = project.cli(&["rollback", &web, "--resume"]).good();
    assert_eq!(said, format!("{shown}: no revision is held: the spec decides already\n"));
}

#[tokio::test]
async fn a_rollback_that_fails_says_why() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue"), config("old", "blue")]})).await;
    project.deployed("web").await;
    deploy(&project, "green").await;
    project.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "old", "namespace": project.namespace}})).await;
    let complaint = project.cli(&["rollback", &project.named("web")]).complaint(1);
    assert!(complaint.contains("revision 1 did not come back") && complaint.contains("ConfigMap"), "{complaint}");
    assert_eq!(colour(&project).await, "green");
}

#[tokio::test]
async fn a_rollback_needs_a_revision_and_an_operator() {
    let project = Project::of_objects().await;
    let operator = project.run();
    deploy(&project, "blue").await;
    let web = project.named("web");
    let cases = [
        (vec!["rollback", &web], 1, "there is no revision before 1 to go back to"),
        (vec!["rollback", &web, "7"], 1, "there is no revision 7; there are 1"),
        (vec!["rollback", &web, "first"], 2, "\"first\" is no revision; write a number"),
        (vec!["rollback", &web, "1", "--resume"], 2, "--resume takes no revision"),
    ];
    for (arguments, code, expected) in cases {
        let complaint = project.cli(&arguments).complaint(code);
        assert!(complaint.contains(expected), "{complaint:?} should contain {expected:?}");
    }
    deploy(&project, "green").await;
    drop(operator);
    let complaint = project.cli(&["rollback", &web, "--timeout", "1s"]).complaint(1);
    assert!(complaint.contains("did not answer within 1 s; does it run?"), "{complaint}");
    assert!(project.cli(&["rollback", &web, "--no-wait"]).good().contains("asked to go back to revision 1"));
    let cr = project.crs().get("web").await.unwrap();
    assert_eq!(cr.annotations()["chartwright.dev/rollback-to"], "1");
    let diff = project.cli(&["diff", &web]);
    assert!(
        diff.code == 1 && diff.out.contains("-  colour: green\n+  colour: blue\n"),
        "what the wish leads to: {diff:?}"
    );
}

#[tokio::test]
async fn objects_that_belong_to_nobody_are_shown_and_adopted() {
    let project = Project::of_objects().await;
    let operator = project.run();
    let loose = project.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"old": "stays"},
        "metadata": {"name": "web", "namespace": project.namespace}}));
    let uid = loose.await.uid();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.not_ready("web", "BelongsToAnother").await;
    let web = project.named("web");
    let name = format!("ConfigMap {}/web", project.namespace);
    let said = project.cli(&["adopt", &web, "--yes"]);
    assert!(said.code == 1 && said.err.contains("an administrator can set `adopt: objects`"), "{said:?}");
    drop(operator);
    project.watch_with("adopt: objects");
    let _operator = project.run();
    project
        .told("web", "the operator that adopts has looked at it", |status| {
            status.to_string().contains("or set the annotation").then_some(())
        })
        .await;
    let said = project.cli(&["adopt", &web]);
    assert_eq!((said.code, said.err.as_str()), (1, "add --yes to take this over\n"), "{said:?}");
    assert_eq!(said.out, format!("{name} exists and belongs to nobody\n"));
    let said = project.cli(&["adopt", &web, "--yes"]).good();
    assert!(said.ends_with(&format!("App {}/web: adopted, as revision 1\n", project.namespace)), "{said}");
    let adopted = project.get("v1", "ConfigMap", "web").await.unwrap();
    assert_eq!((adopted.uid(), adopted.owner_references().len()), (uid, 0));
    assert_eq!(adopted.data["data"], json!({"colour": "blue", "old": "stays"}));
    let cr = project.crs().get("web").await.unwrap();
    assert!(!cr.annotations().contains_key("chartwright.dev/adopt"), "the wish has done its work");
    let said = project.cli(&["adopt", &web, "--yes"]).good();
    assert!(said.starts_with("nothing to adopt"), "{said}");
}

#[tokio::test]
async fn a_release_of_helm_is_shown_and_adopted() {
    for helm in ["helm3", "helm4"] {
        let project = Project::new("App").await;
        project.watch_with("adopt: releases");
        project.template(
            "config.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {a: {{ .Values.a | quote }}}\n",
        );
        project.helm(helm, &["install", "web", "charts/app", "--set", "a=one"]);
        project.apply("web", json!({"a": "one"})).await;
        let web = project.named("web");
        let data = project.cli(&["adopt", &web, "-o", "json"]).json();
        assert_eq!(data["release"], json!({"name": format!("{}/web", project.namespace), "revision": 1}), "{helm}");
        assert_eq!(data["objects"], json!([]), "helm's marks say whose they are");
        let _operator = project.run();
        let said = project.cli(&["adopt", &web, "--yes"]).good();
        // The operator may have been faster.
        assert!(said.contains("adopted, as revision 1") || said.contains("nothing to adopt"), "{said}");
        project.deployed("web").await;
        let diff = project.cli(&["diff", &web]);
        assert_eq!((diff.code, diff.out.as_str()), (0, ""), "{helm}: {diff:?}");
    }
}

#[tokio::test]
async fn what_belongs_to_somebody_else_is_named_and_not_taken() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("shop", json!({"objects": [config("web", "blue")]})).await;
    project.deployed("shop").await;
    project.apply("web", json!({"objects": [config("web", "green")]})).await;
    project.not_ready("web", "BelongsToAnother").await;
    let said = project.cli(&["adopt", &project.named("web"), "--yes"]);
    assert_eq!((said.code, said.err.lines().count()), (1, 1), "{said:?}");
    let owner = format!("belongs to app.{}/shop and is not taken", project.resource.group);
    assert!(said.err.contains(&owner), "{said:?}");
}

#[tokio::test]
async fn a_wish_that_nobody_has_heard_can_be_taken_back() {
    let project = Project::of_objects().await;
    let operator = project.run();
    for colour in ["blue", "green"] {
        project.apply("web", json!({"objects": [config("web", colour)]})).await;
        project.deployed("web").await;
    }
    drop(operator);
    let web = project.named("web");
    project.cli(&["rollback", &web, "1", "--no-wait"]).good();
    let said = project.cli(&["rollback", &web, "--resume"]).good();
    assert!(said.contains("the wish to go back to revision 1 is taken back"), "{said}");
    let cr = project.crs().get("web").await.unwrap();
    assert!(!cr.annotations().contains_key("chartwright.dev/rollback-to"));
}

#[tokio::test]
async fn another_custom_resources_release_is_neither_shown_nor_rolled_back() {
    let project = Project::of_objects().await;
    let other = project.with_kind("Other").await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("of-app", "blue")], "password": "hunter2"})).await;
    project.condition("web", "Ready", "True").await;
    project
        .create(json!({"apiVersion": other.api_version, "kind": "Other",
            "metadata": {"name": "web", "namespace": project.namespace}, "spec": {"objects": []}}))
        .await;
    let others = format!("other.{}/web", project.resource.group);
    let owner = format!("belongs to app.{}/web", project.resource.group);
    for command in [&["history", &others][..], &["get", "values", &others], &["rollback", &others, "1"]] {
        let said = project.cli(command).complaint(1);
        assert!(said.contains(&owner) && !said.contains("hunter2"), "{command:?}: {said}");
    }
    let shown = project.cli(&["status", &others]).good();
    assert!(shown.contains(&owner), "{shown}");
    assert!(!shown.contains("ConfigMap of-app") && !shown.contains("revision 1"), "{shown}");
}
