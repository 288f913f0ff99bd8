use serde_json::{Value, json};

use crate::harness::{Project, chartwright, config};

fn secret(password: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": {"password": password}})
}

#[tokio::test]
async fn our_revisions_are_shown_with_values_and_manifests() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    for colour in ["blue", "green"] {
        project.apply("web", json!({"objects": [config("web", colour), secret("hunter2")]})).await;
        project.deployed("web").await;
    }
    let web = project.named("web");

    let history = project.cli(&["history", &web]).good();
    let lines: Vec<&str> = history.lines().collect();
    let heading: Vec<&str> = lines[0].split("  ").map(str::trim).filter(|column| !column.is_empty()).collect();
    assert_eq!(heading, ["REVISION", "UPDATED", "STATUS", "CHART", "APP VERSION", "BY", "HELD", "DESCRIPTION"]);
    assert_eq!(lines.len(), 3, "{history}");
    for (line, parts) in [(lines[1], ["superseded", "Install complete"]), (lines[2], ["deployed", "Upgrade complete"])]
    {
        assert!(parts.iter().all(|part| line.contains(part)) && line.contains("app-0.1.0"), "{history}");
        assert!(line.contains("chartwright"), "{history}");
    }
    let data = project.cli(&["history", &web, "-o", "json"]).json();
    assert_eq!(data[1]["revision"], 2);
    assert_eq!(
        (&data[1]["by"], &data[1]["held"], &data[0]["status"]),
        (&json!("chartwright"), &json!(null), &json!("superseded"))
    );

    let values = |more: &[&str]| project.cli(&[&["get", "values", &web, "-o", "json"], more].concat()).json();
    assert_eq!(values(&[])["objects"][0]["data"]["colour"], "green", "the deployed revision");
    assert_eq!(values(&["--revision", "1"])["objects"][0]["data"]["colour"], "blue");
    assert!(project.cli(&["get", "values", &web]).good().starts_with("objects:\n"));

    let manifest = |more: &[&str]| project.cli(&[&["get", "manifest", &web], more].concat()).good();
    for format in ["yaml", "json"] {
        let shown = manifest(&["-o", format]);
        assert!(shown.contains("***") && !shown.contains("hunter2") && shown.contains("green"), "{shown}");
    }
    assert!(manifest(&["--show-secrets"]).contains("hunter2"));
    assert!(manifest(&["--revision", "1"]).contains("blue"));
    let list = project.cli(&["get", "manifest", &web, "-o", "json"]).json();
    assert_eq!((&list["kind"], list["items"].as_array().unwrap().len()), (&json!("List"), 2));
}

#[tokio::test]
async fn revisions_that_helm_made_are_shown_too() {
    for helm in ["helm3", "helm4"] {
        let project = Project::new("App").await;
        project.template(
            "config.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {a: {{ .Values.a | quote }}}\n",
        );
        project.helm(helm, &["install", "web", "charts/app", "--set", "a=one"]);
        project.helm(helm, &["upgrade", "web", "charts/app", "--set", "a=two"]);
        project.apply("web", json!({"a": "three"})).await;
        let web = project.named("web");
        let data = project.cli(&["history", &web, "-o", "json"]).json();
        let seen: Vec<_> =
            data.as_array().unwrap().iter().map(|it| (&it["revision"], &it["by"], &it["status"])).collect();
        let by = json!("helm");
        assert_eq!(seen, [(&json!(1), &by, &json!("superseded")), (&json!(2), &by, &json!("deployed"))], "{helm}");
        assert_eq!(project.cli(&["get", "values", &web, "--revision", "1"]).good(), "a: one\n");
        assert!(project.cli(&["get", "manifest", &web]).good().contains("two"), "{helm}");
    }
}

#[tokio::test]
async fn a_custom_resource_is_named_as_with_kubectl() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.deployed("web").await;
    let (plural, group) = (&project.resource.plural, &project.resource.group);
    for kind in [format!("{plural}.{group}"), format!("App.{group}"), format!("APPS.v1.{group}")] {
        let words = [format!("{kind}/web")];
        let two = [kind.clone(), "web".to_owned()];
        for words in [&words[..], &two[..]] {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            assert!(project.cli(&[&["history"], &words[..]].concat()).good().contains("deployed"), "{words:?}");
        }
    }
}

#[tokio::test]
async fn what_cannot_be_found_ends_in_one_line() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.deployed("web").await;
    let (web, wep, group) = (project.named("web"), project.named("wep"), &project.resource.group);
    let cases = [
        (vec!["history", "ingres/web"], 1, "knows no kind \"ingres\"; did you mean Ingress?"),
        (vec!["history", &wep], 1, "there is no App \"wep\" in the namespace"),
        (vec!["get", "values", &web, "--revision", "7"], 1, "there is no revision 7; there are 1"),
        (vec!["get", "manifest", &web, "--revision", "0"], 1, "there is no revision 0"),
        (vec!["history", "app"], 2, "which app? Write its name as well"),
        (vec!["diff", &wep], 2, "there is no App \"wep\""),
        (vec!["render", &wep], 1, "there is no App \"wep\""),
        (vec!["render", "deployment/web"], 1, "has no entry for Deployment.apps; it has App."),
        (vec!["diff", "-f", "none.yaml"], 2, "cannot read none.yaml"),
        (vec!["diff", &web, "--watches-file", "none.yaml"], 2, "cannot read none.yaml"),
    ];
    for (arguments, code, expected) in cases {
        let complaint = project.cli(&arguments).complaint(code);
        assert!(complaint.contains(expected), "{arguments:?}: {complaint:?} should contain {expected:?}");
    }
    // A custom resource without a release yet.
    project.crs().create(&Default::default(), &serde_json::from_value(json!({
        "apiVersion": project.resource.api_version, "kind": "App", "metadata": {"name": "new"}, "spec": {"objects": 3}})).unwrap())
        .await.unwrap();
    let complaint = project.cli(&["history", &project.named("new")]).complaint(1);
    assert!(complaint.contains(&format!("no release {}/new of the App", project.namespace)), "{complaint} {group}");
}

#[tokio::test]
async fn another_cluster_can_be_named() {
    let project = Project::new("App").await;
    project.apply("web", json!({})).await;
    let mut command = chartwright();
    let kubeconfig = crate::harness::control_plane().kubeconfig();
    command.args(["history", &project.named("web"), "-n", &project.namespace, "--kubeconfig"]).arg(kubeconfig);
    let complaint = crate::harness::command_line::said(command).complaint(1);
    assert!(complaint.contains("nothing was deployed yet"), "{complaint}");
    let mut wrong = project.command_line(&["history", &project.named("web"), "--context", "no-such"]);
    wrong.env("RUST_BACKTRACE", "1");
    let complaint = crate::harness::command_line::said(wrong).complaint(1);
    assert!(complaint.contains("cannot use the kubeconfig") && complaint.contains("no-such"), "{complaint}");
}
