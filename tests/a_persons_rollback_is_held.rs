//! What a person does to a release with helm is told and held, until the spec or the chart says something new.

use std::time::Duration;

use chartwright::calls::Calls;
use chartwright::release::Store;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::harness::{Project, config, until, until_calm, until_within};

const BOTH: [&str; 2] = ["helm3", "helm4"];

/// Two revisions of one release, green after blue; each has a random value and an object of its own.
async fn two_revisions() -> Project {
    let project = Project::of_objects().await;
    let random =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: random}\nstringData: {password: '{{ randAlphaNum 12 }}'}\n";
    project.template("random.yaml", random);
    project
}

async fn deploy_both(project: &Project) {
    for colour in ["blue", "green"] {
        project.apply("web", json!({"objects": [config("web", colour), config(colour, colour)]})).await;
        project.deployed("web").await;
        project.condition("web", "Ready", "True").await;
    }
}

async fn colour(project: &Project) -> String {
    let config = project.get("v1", "ConfigMap", "web").await.unwrap();
    config.data["data"]["colour"].as_str().unwrap().to_owned()
}

async fn is_blue(project: &Project) {
    until("it is blue", async || (colour(project).await == "blue").then_some(())).await;
}

async fn password(project: &Project) -> Value {
    project.get("v1", "Secret", "random").await.unwrap().data["data"]["password"].clone()
}

async fn records(project: &Project) -> Vec<(String, String)> {
    let api = project.objects("v1", "Secret", Some(&project.namespace));
    let listed = api.list(&kube::api::ListParams::default().labels("owner=helm,name=web")).await.unwrap();
    let mut records: Vec<_> = listed
        .items
        .iter()
        .map(|secret| (secret.labels()["version"].clone(), secret.labels()["status"].clone()))
        .collect();
    records.sort_by_key(|(version, _)| version.parse::<u32>().unwrap());
    records
}

#[tokio::test]
async fn it_is_told_within_a_second_held_and_ends_with_the_next_spec() {
    for helm in BOTH {
        let project = two_revisions().await;
        let mut operator = project.run();
        project.apply("web", json!({"objects": [config("web", "blue"), config("blue", "blue")]})).await;
        project.deployed("web").await;
        let first = password(&project).await;
        deploy_both(&project).await;
        assert_ne!(password(&project).await, first, "an upgrade renders anew");

        project.helm(helm, &["rollback", "web", "1"]);
        let held = async || {
            let status = project.status("web").await;
            let held = status["conditions"].as_array()?.iter().find(|it| it["type"] == "Held")?.clone();
            (held["status"] == "True").then_some(held)
        };
        let told = until_within(Duration::from_secs(1), "the status tells of the rollback", held).await;
        assert_eq!(told["reason"], "RolledBackWithHelm", "{told}");
        assert!(told["message"].as_str().unwrap().contains("Revision 3 stays"), "{told}");
        let events = project.events("web", "Held").await;
        assert!(events[0].1.contains("Revision 3 (Rollback to 1) is held"), "{events:?}");
        let ready = project.condition("web", "Ready", "True").await;
        assert_eq!(ready["reason"], "Ready", "{helm}: what is held is looked after, and healthy");
        assert_eq!((colour(&project).await.as_str(), password(&project).await), ("blue", first.clone()), "{helm}");

        // Also after a restart, and what somebody changes is set back to what is held.
        drop(operator);
        operator = project.run();
        let patch = json!({"data": {"colour": "red"}});
        project.configs().patch("web", &Default::default(), &kube::api::Patch::Merge(patch)).await.unwrap();
        until("it is set back", async || (colour(&project).await == "blue").then_some(())).await;
        let web = project.get("v1", "ConfigMap", "web").await.unwrap();
        assert_eq!(web.owner_references().len(), 1, "{helm}: our owner reference is there again");
        until_calm(Duration::from_secs(2), "nothing is written any more", async || {
            (records(&project).await, project.crs().get("web").await.unwrap().resource_version())
        })
        .await;
        let expected = [("1", "superseded"), ("2", "superseded"), ("3", "deployed")];
        assert_eq!(records(&project).await, expected.map(|(a, b)| (a.to_owned(), b.to_owned())), "{helm}");

        project.apply("web", json!({"objects": [config("web", "black")]})).await;
        project.deployed("web").await;
        until("the spec decides again", async || (colour(&project).await == "black").then_some(())).await;
        project
            .told("web", "the hold is over", |status| {
                status["conditions"].as_array()?.iter().all(|it| it["type"] != "Held").then_some(())
            })
            .await;
        until("what was held goes", async || project.get("v1", "ConfigMap", "blue").await.is_none().then_some(()))
            .await;
        drop(operator);
    }
}

#[tokio::test]
async fn it_ends_when_the_chart_changes_and_when_somebody_says_so() {
    let project = two_revisions().await;
    let _operator = project.run();
    deploy_both(&project).await;
    project.helm("helm4", &["rollback", "web", "1"]);
    project.condition("web", "Held", "True").await;
    project.annotate("web", "chartwright.dev/rollback-to", "none").await;
    until("the spec decides again", async || (colour(&project).await == "green").then_some(())).await;

    // `none` ended what was held then, and nothing that comes later.
    until("that is noted", async || {
        let store = Store::new(Calls::new(project.client.clone()));
        let history = store.history(&project.namespace, "web").await.unwrap();
        (history.deployed()?.own.as_ref()?.request == Some(0)).then_some(())
    })
    .await;
    project.helm("helm3", &["rollback", "web", "1"]);
    project.condition("web", "Held", "True").await;
    is_blue(&project).await;
    project.file("charts/app/Chart.yaml", "apiVersion: v2\nname: app\nversion: 0.2.0\n");
    until("the new chart decides", async || (colour(&project).await == "green").then_some(())).await;
}

#[tokio::test]
async fn what_helm_did_while_the_operator_was_away_is_held_unless_the_spec_changed_too() {
    for changes_spec in [false, true] {
        let project = two_revisions().await;
        let operator = project.run();
        deploy_both(&project).await;
        drop(operator);
        project.helm("helm4", &["rollback", "web", "1"]);
        if changes_spec {
            project.apply("web", json!({"objects": [config("web", "black")]})).await;
        }
        let _operator = project.run();
        let expected = if changes_spec { "black" } else { "blue" };
        match changes_spec {
            true => project.deployed("web").await,
            false => drop(project.condition("web", "Held", "True").await),
        }
        until(expected, async || (colour(&project).await == expected).then_some(())).await;
        project.condition("web", "Ready", "True").await;
    }
}

#[tokio::test]
async fn a_custom_resource_that_is_held_can_be_deleted() {
    let project = two_revisions().await;
    let _operator = project.run();
    deploy_both(&project).await;
    project.helm("helm4", &["rollback", "web", "1"]);
    project.condition("web", "Held", "True").await;
    project.delete("web").await;
    project.gone("web").await;
    for name in ["web", "blue", "green"] {
        assert!(project.get("v1", "ConfigMap", name).await.is_none(), "{name}");
    }
    assert!(records(&project).await.is_empty());
}
