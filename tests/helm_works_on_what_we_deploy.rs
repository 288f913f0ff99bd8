//! Everything that a person does with helm at night works on a release of the operator, with helm 3 and 4.

use kube::ResourceExt;
use serde_json::{Value, json};

use crate::harness::{Project, until};

#[tokio::test]
async fn every_command_works() {
    for helm in ["helm3", "helm4"] {
        let project = Project::new("App").await;
        project.template(
            "config.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {colour: '{{ .Values.colour }}'}\n",
        );
        project.template("NOTES.txt", "Have fun with {{ .Values.colour }}.");
        let hook = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hook, annotations: {helm.sh/hook: test}}\n";
        project.template("hook.yaml", hook);
        project.file("charts/app/values.yaml", "colour: red\nshade: dark\n");
        let operator = project.run();
        for colour in ["blue", "green"] {
            project.apply("web", json!({"colour": colour})).await;
            project.deployed("web").await;
            project.condition("web", "Ready", "True").await;
        }
        let say = |arguments: &[&str]| project.helm(helm, arguments);
        let read = |arguments: &[&str]| -> Value {
            serde_json::from_str(&say(&[arguments, &["--output", "json"]].concat())).unwrap()
        };
        let listed = read(&["list"]);
        assert_eq!(
            (&listed[0]["name"], &listed[0]["status"], &listed[0]["chart"]),
            (&json!("web"), &json!("deployed"), &json!("app-0.1.0"))
        );
        assert!(say(&["status", "web"]).contains("Have fun with green."), "{helm}");
        let history = read(&["history", "web"]);
        let row = |row: &Value| [row["status"].clone(), row["description"].clone()];
        let rows: Vec<_> = history.as_array().unwrap().iter().map(row).collect();
        assert_eq!(
            rows,
            [[json!("superseded"), json!("Install complete")], [json!("deployed"), json!("Upgrade complete")]]
        );
        assert_eq!(read(&["get", "values", "web"]), json!({"colour": "green"}), "{helm}");
        assert_eq!(read(&["get", "values", "web", "--revision", "1"]), json!({"colour": "blue"}), "{helm}");
        assert_eq!(read(&["get", "values", "web", "--all"])["shade"], "dark", "{helm} knows the chart's defaults");
        assert!(say(&["get", "manifest", "web"]).contains("colour: 'green'"), "{helm}");
        assert!(say(&["get", "hooks", "web"]).contains("name: hook"), "{helm}");
        assert!(say(&["get", "notes", "web"]).contains("Have fun with green."), "{helm}");
        let all = say(&["get", "all", "web"]);
        assert!(all.contains("colour: green") && all.contains("name: hook"), "{helm}: {all}");

        say(&["rollback", "web", "1"]);
        project.condition("web", "Held", "True").await;
        assert_eq!(project.get("v1", "ConfigMap", "web").await.unwrap().data["data"]["colour"], "blue", "{helm}");
        assert_eq!(read(&["get", "values", "web"]), json!({"colour": "blue"}), "{helm}");

        let old = project.get("v1", "ConfigMap", "web").await.unwrap().uid();
        say(&["uninstall", "web"]);
        until("the custom resource still wants it", async || {
            project
                .get("v1", "ConfigMap", "web")
                .await
                .filter(|it| it.uid() != old && it.data["data"]["colour"] == "green")
        })
        .await;
        drop(operator);
        say(&["uninstall", "web"]);
        assert!(project.get("v1", "ConfigMap", "web").await.is_none(), "{helm}");
    }
}
