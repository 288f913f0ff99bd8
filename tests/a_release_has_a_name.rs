//! A release has the name of its custom resource, or the one that the watch gives it, and keeps it.

use std::time::Duration;

use chartwright::calls::Calls;
use chartwright::release::{Status, Store};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::harness::{Project, config, until, until_within};

async fn releases(project: &Project) -> Vec<(String, String)> {
    let secrets = project.objects("v1", "Secret", Some(&project.namespace));
    let listed = secrets.list(&ListParams::default().labels("owner=helm")).await.unwrap();
    let mut names: Vec<_> =
        listed.items.iter().map(|it| (it.labels()["name"].clone(), it.labels()["status"].clone())).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_name_that_is_too_long_for_helm_is_cut_and_stays_apart_from_others() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    let long = "a-custom-resource-with-a-name-that-is-far-too-long-for-helm";
    let names = [format!("{long}-1"), format!("{long}-2")];
    for name in &names {
        project.apply(name, json!({"objects": [config(&name[name.len() - 6..], "blue")]})).await;
    }
    for name in &names {
        project.condition(name, "Ready", "True").await;
        let release = project.status(name).await["deployedRelease"]["name"].as_str().unwrap().to_owned();
        assert!(release.len() <= 53 && release.starts_with("a-custom-resource-with-a-name"), "{release}");
        for helm in ["helm3", "helm4"] {
            assert!(project.helm(helm, &["status", &release]).contains("STATUS: deployed"), "{helm}");
        }
    }
    let made = releases(&project).await;
    assert_eq!(made.len(), 2, "{made:?}");
    // helm's work on it is seen under its short name too.
    project.apply(&names[0], json!({"objects": [config("lm-1", "green")]})).await;
    project.deployed(&names[0]).await;
    let release = project.status(&names[0]).await["deployedRelease"]["name"].as_str().unwrap().to_owned();
    project.helm("helm4", &["rollback", &release, "1"]);
    until_within(Duration::from_secs(2), "it is held", async || {
        let status = project.status(&names[0]).await;
        status["conditions"].as_array()?.iter().any(|it| it["type"] == "Held").then_some(())
    })
    .await;
    for name in &names {
        project.delete(name).await;
        project.gone(name).await;
    }
    assert!(releases(&project).await.is_empty());
    assert!(
        project
            .configs()
            .list(&Default::default())
            .await
            .unwrap()
            .items
            .iter()
            .all(|it| !it.name_any().starts_with("lm-"))
    );
}

#[tokio::test]
async fn a_template_lets_two_kinds_have_custom_resources_of_one_name() {
    let project = Project::of_objects().await;
    let other = project.with_kind("Other").await;
    let entry = |kind: &str| {
        format!("- group: {}\n  version: v1\n  kind: {kind}\n  chart: charts/app\n", project.resource.group)
    };
    let template = "  releaseName: '{{ .kind }}-{{ .metadata.name }}'\n";
    project.file("watches.yaml", &format!("{}{}{template}", entry("App"), entry("Other")));
    let operator = project.run();
    project.apply("web", json!({"objects": [config("of-app", "blue")]})).await;
    project.condition("web", "Ready", "True").await;
    let cr = json!({"apiVersion": other.api_version, "kind": "Other",
        "metadata": {"name": "web", "namespace": project.namespace}, "spec": {"objects": [config("of-other", "red")]}});
    project.create(cr).await;
    until("both are deployed", async || {
        let deployed = |name: &str| (name.to_owned(), "deployed".to_owned());
        (releases(&project).await == [deployed("other-web"), deployed("web")]).then_some(())
    })
    .await;
    assert!(project.get("v1", "ConfigMap", "of-other").await.is_some());

    // Another template is for those that come; who has a release keeps it.
    drop(operator);
    project.file(
        "watches.yaml",
        &format!("{}  releaseName: 'x-{{{{ .metadata.name }}}}'\n{}{template}", entry("App"), entry("Other")),
    );
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("of-app", "green")]})).await;
    project.deployed("web").await;
    project.apply("late", json!({"objects": [config("late", "green")]})).await;
    project.deployed("late").await;
    let names: Vec<String> = releases(&project).await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["other-web", "web", "web", "x-late"]);
}

#[tokio::test]
async fn a_chart_of_another_name_is_an_upgrade_of_what_is_ours() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.condition("web", "Ready", "True").await;
    let uid = project.get("v1", "ConfigMap", "web").await.unwrap().uid();
    project.file("charts/app/Chart.yaml", "apiVersion: v2\nname: renamed\nversion: 3.0.0\n");
    let history = until("the second revision is deployed", async || {
        let store = Store::new(Calls::new(project.client.clone()));
        let history = store.history(&project.namespace, "web").await.unwrap();
        let is_superseded = history.get(1)?.status == Status::Superseded;
        (history.deployed()?.revision == 2 && is_superseded).then_some(history)
    })
    .await;
    assert_eq!(history.deployed().unwrap().chart_name(), "renamed");
    let config = project.get("v1", "ConfigMap", "web").await.unwrap();
    assert_eq!((config.uid(), config.labels()["helm.sdk.operatorframework.io/chart"].as_str()), (uid, "renamed"));
}

#[tokio::test]
async fn the_way_out_of_a_clash_is_told() {
    let project = Project::of_objects().await;
    let other = project.with_kind("Other").await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("of-app", "blue")]})).await;
    project.condition("web", "Ready", "True").await;
    let cr = json!({"apiVersion": other.api_version, "kind": "Other",
        "metadata": {"name": "web", "namespace": project.namespace}, "spec": {"objects": []}});
    project.create(cr).await;
    let others = project.objects(&other.api_version, "Other", Some(&project.namespace));
    let ready = until("it says why not", async || {
        let status: Value = others.get("web").await.unwrap().data.get("status").cloned()?;
        status["conditions"].as_array()?.iter().find(|it| it["type"] == "Ready").cloned()
    })
    .await;
    let message = ready["message"].as_str().unwrap();
    let owner = format!("belongs to app.{}/web", project.resource.group);
    assert!(message.contains(&owner) && message.contains("`releaseName`"), "{message}");
}
