//! `.Release` and its number, as templates see them.

use serde_json::{Value, json};

use crate::harness::{Project, tool};

const SEEN: &str = r#"apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-{{ .Chart.Name }}}
data:
  revision: {{ printf "%d" .Release.Revision | quote }}
  release: {{ toJson .Release | quote }}
  template: {{ .Template.Name }}
  values: {{ toJson .Values | quote }}
  files: "{{ range $name, $_ := .Files }}{{ $name }} {{ end }}"
"#;

async fn project() -> Project {
    let project = Project::new("App").await;
    project.template("deep/down/seen.yaml", SEEN);
    project.template("NOTES.txt", "revision {{ .Release.Revision }} by {{ .Template.Name }}{{ .Values.absent }}");
    project.file(
        "charts/app/values.schema.json",
        r#"{"properties": {"colour": {}, "sub": {}, "global": {}}, "additionalProperties": false}"#,
    );
    project.file("charts/app/charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 0.1.0\n");
    project.file("charts/app/charts/sub/templates/a/b/c/seen.yaml", SEEN);
    project
}

async fn seen(project: &Project, chart: &str) -> Value {
    project.get("v1", "ConfigMap", &format!("web-{chart}")).await.unwrap().data["data"].clone()
}

/// What helm itself makes of the same chart and values.
fn by_helm(project: &Project, helm: &str, colours: &[&str]) {
    for (at, colour) in colours.iter().enumerate() {
        let verb = if at == 0 { "install" } else { "upgrade" };
        project.helm_in(
            helm,
            &format!("{}-helm", project.namespace),
            &[verb, "web", "charts/app", "--set", &format!("colour={colour}")],
        );
    }
}

async fn the_release_is_as_under(helm: &str) {
    let project = project().await;
    let namespace = project.another_namespace("helm").await;
    let _operator = project.launch().helm(tool(helm)).start();
    for (at, colour) in ["red", "green", "blue"].into_iter().enumerate() {
        project.apply("web", json!({"colour": colour})).await;
        project.deployed("web").await;
        let status = project.status("web").await;
        assert_eq!(status["deployedRelease"]["revision"], at + 1);
        let notes = project.helm(helm, &["get", "notes", "web"]);
        assert!(notes.contains(&format!("revision {} by app/templates/NOTES.txt\n", at + 1)), "{notes}");
    }
    by_helm(&project, helm, &["red", "green", "blue"]);
    for chart in ["app", "sub"] {
        let ours = seen(&project, chart).await;
        assert_eq!(ours["revision"], "3");
        let theirs = project.find("v1", "ConfigMap", Some(&namespace), &format!("web-{chart}")).await.unwrap();
        let theirs = theirs.data["data"].to_string().replace(&namespace, &project.namespace);
        assert_eq!(ours.to_string(), theirs);
    }
}

#[tokio::test]
async fn a_revision_has_its_number_under_helm_3() {
    the_release_is_as_under("helm3").await;
}

#[tokio::test]
async fn a_revision_has_its_number_under_helm_4() {
    the_release_is_as_under("helm4").await;
}

#[tokio::test]
async fn a_number_that_only_a_value_asks_for_is_true_too() {
    let project = Project::new("App").await;
    project.template(
        "a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {said: {{ tpl .Values.text . | quote }}}\n",
    );
    let _operator = project.run();
    for (text, said) in [("a", "a"), ("{{ .Release.Revision }}{{ .Release.IsUpgrade }}", "2true")] {
        project.apply("web", json!({"text": text})).await;
        project.deployed("web").await;
        assert_eq!(project.get("v1", "ConfigMap", "web").await.unwrap().data["data"]["said"], said);
    }
}

#[tokio::test]
async fn an_install_after_an_uninstall_is_an_install() {
    let project = project().await;
    let operator = project.run();
    for colour in ["red", "green"] {
        project.apply("web", json!({"colour": colour})).await;
        project.deployed("web").await;
    }
    drop(operator);
    project.helm("helm4", &["uninstall", "web", "--keep-history"]);
    let _operator = project.run();
    project.apply("web", json!({"colour": "blue"})).await;
    project.deployed("web").await;
    let release: Value = serde_json::from_str(seen(&project, "app").await["release"].as_str().unwrap()).unwrap();
    assert_eq!((&release["IsInstall"], &release["Revision"]), (&json!(true), &json!(1)));
}
