//! The tests of a chart run with `chartwright test` and with `helm test`, and the operator does not mind.

use std::time::Duration;

use serde_json::{Value, json};

use super::{colour, project};
use crate::harness::{stays, until};

fn test_pod(name: &str, more: &str, behaviour: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: Pod
metadata:
  name: '{{{{ .Release.Name }}}}-{name}'
  labels: {{lab.chartwright.dev/behaviour: '{behaviour}'}}
  annotations: {{helm.sh/hook: test{more}}}
spec: {{restartPolicy: Never, containers: [{{name: main, image: registry.example.com/a}}]}}
"
    )
}

#[tokio::test]
async fn they_succeed_with_either_program() {
    let project = project(&[
        test_pod("second", "", ""),
        test_pod("first", ", helm.sh/hook-weight: '-1', helm.sh/hook-delete-policy: hook-succeeded", ""),
    ])
    .await;
    let _operator = project.run();
    project.apply("web", colour("blue")).await;
    project.condition("web", "Ready", "True").await;
    assert!(project.get("v1", "Pod", "web-second").await.is_none(), "no install runs a test");

    let said = project.cli(&["test", &project.named("web"), "--logs"]).good();
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[1].starts_with("Pod web-first") && lines[1].contains("Succeeded"), "{said}");
    assert!(lines[2].starts_with("Pod web-second") && lines[2].contains("Succeeded"), "{said}");
    assert!(said.contains("web-second | "), "{said}");
    assert!(project.get("v1", "Pod", "web-first").await.is_none(), "hook-succeeded");
    let status: Value = serde_json::from_str(&project.helm("helm4", &["status", "web", "-o", "json"])).unwrap();
    assert_eq!(status["hooks"][0]["last_run"]["phase"], "Succeeded", "{status}");

    for helm in ["helm3", "helm4"] {
        let said = project.helm(helm, &["test", "web"]);
        assert!(said.contains("Succeeded"), "{helm}: {said}");
    }
    // helm has written the record anew without our part: it is ours again, and nothing is held.
    until("the record is ours again", async || {
        let record = project.get("v1", "Secret", "sh.helm.release.v1.web.v1").await?;
        record.data["data"].get("chartwright").map(|_| ())
    })
    .await;
    stays(Duration::from_secs(2), "nothing is held", async || {
        let status = project.status("web").await;
        let conditions = status["conditions"].as_array().unwrap().clone();
        let is_held = conditions.iter().any(|condition| condition["type"] == "Held");
        assert!(!is_held && status["deployedRelease"]["revision"] == 1, "{status}");
    })
    .await;
}

#[tokio::test]
async fn one_that_fails_says_why() {
    let project = project(&[test_pod("bad", "", "fail"), test_pod("never", ", helm.sh/hook-weight: '1'", "")]).await;
    let _operator = project.run();
    project.apply("web", colour("blue")).await;
    project.condition("web", "Ready", "True").await;
    let said = project.cli(&["test", &project.named("web"), "-o", "json"]);
    assert_eq!(said.code, 1, "{said:?}");
    let said = said.json();
    assert_eq!(said["tests"].as_array().unwrap().len(), 1, "it ends at the first that fails");
    assert_eq!(said["tests"][0]["phase"], json!("Failed"));
    assert!(said["tests"][0]["message"].as_str().unwrap().contains("exit code 1"), "{said}");
    let complaint = project.cli(&["test", &project.named("web"), "--only", "nobody"]).complaint(1);
    assert!(complaint.contains("the chart has no test \"nobody\"; it has web-bad, web-never"), "{complaint}");
}

#[tokio::test]
async fn a_chart_without_tests_says_so() {
    let project = project(&[]).await;
    let _operator = project.run();
    project.apply("web", colour("blue")).await;
    project.condition("web", "Ready", "True").await;
    assert!(project.cli(&["test", &project.named("web")]).good().contains("the chart has no tests"));
}
