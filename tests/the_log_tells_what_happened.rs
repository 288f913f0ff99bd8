//! One line for each thing that happened, about whom, and nothing about a custom resource at rest; and the level can be changed while
//! the operator runs.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use kube::api::DeleteParams;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::harness::command_line::{Said, said};
use crate::harness::{Operator, Project, chartwright, config, until, until_calm};

/// Installs, upgrades, deletes an object, asks for something that is refused, and deletes all.
async fn a_life(project: &Project, operator: &Operator) {
    project.apply("web", json!({"objects": [config("web", "blue"), config("more", "blue")]})).await;
    project.condition("web", "Ready", "True").await;
    project.apply("web", json!({"objects": [config("web", "green")]})).await;
    until("it is upgraded", async || operator.log().contains("Upgraded to revision 2").then_some(())).await;
    project.condition("web", "Ready", "True").await;
    project.configs().delete("web", &DeleteParams::default()).await.unwrap();
    until("it is healed", async || operator.log().contains("Re-applied").then_some(())).await;
    project.condition("web", "Ready", "True").await;
    let mut wrong = config("web", "red");
    wrong["data"]["colour"] = json!(["no", "text"]);
    project.apply("web", json!({"objects": [wrong]})).await;
    project.not_ready("web", "InvalidObject").await;
    // What failed is looked at more than once.
    project.annotate("web", "example.com/a", "b").await;
    until_calm(Duration::from_secs(2), "it is calm", async || operator.log().len()).await;
    project.apply("web", json!({"objects": [config("web", "green")]})).await;
    project.condition("web", "Ready", "True").await;
    project.crs().delete("web", &DeleteParams::default()).await.unwrap();
    until("it is gone", async || project.crs().get_opt("web").await.unwrap().is_none().then_some(())).await;
    until("that is told", async || operator.log().contains("Uninstalled").then_some(())).await;
}

#[tokio::test]
async fn each_thing_that_happens_is_one_line_of_json() {
    let project = Project::of_objects().await;
    let operator = project.run();
    a_life(&project, &operator).await;
    let log = operator.log();
    println!("{log}");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    for line in &lines {
        for key in ["level", "ts", "logger", "msg"] {
            assert!(line[key].is_string(), "{line}");
        }
    }
    let about: Vec<&Value> = lines.iter().filter(|line| line["name"] == "web").collect();
    let reasons: Vec<&str> = about.iter().filter_map(|line| line["reason"].as_str()).collect();
    assert_eq!(reasons, ["Installed", "Pruned", "Upgraded", "Healed", "InvalidObject", "Uninstalled"]);
    for line in &about {
        assert_eq!((&line["kind"], &line["namespace"]), (&json!("App"), &json!(project.namespace)), "{line}");
        assert!(line["generation"].is_number(), "{line}");
    }
    let installed = about[0];
    assert_eq!((&installed["revision"], &installed["course"]), (&json!(1), &json!("deploy")), "{installed}");
    assert_eq!(installed["digest"].as_str().unwrap().len(), 12);
    for time in ["renderMs", "applyMs", "totalMs"] {
        assert!(installed[time].is_u64(), "{time}: {installed}");
    }
    let failed = about.iter().find(|line| line["level"] == "error").unwrap();
    assert!(failed["attempts"].is_u64() && failed["msg"].as_str().unwrap().contains("ConfigMap"), "{failed}");
}

#[tokio::test]
async fn each_thing_that_happens_is_one_line_of_text() {
    let project = Project::of_objects().await;
    let operator = project.launch().args(&["--zap-encoder=console", "--zap-time-encoding=rfc3339"]).start();
    a_life(&project, &operator).await;
    let log = operator.log();
    println!("{log}");
    let about = format!("App {}/web: ", project.namespace);
    let told: Vec<&str> = log.lines().filter_map(|line| line.split_once(&about)).map(|(_, told)| told).collect();
    assert!(told[0].starts_with("Installed revision 1 with 2 objects  generation=1 "), "{told:#?}");
    assert_eq!(told.len(), 6, "{told:#?}");
    assert!(log.lines().all(|line| line[..20].parse::<k8s_openapi::jiff::Timestamp>().is_ok()), "{log}");
}

/// Operators of other tests have directories of their own.
fn own_tmp(project: &Project) -> &'static str {
    let dir = project.dir().join("tmp");
    std::fs::create_dir_all(&dir).unwrap();
    Box::leak(dir.display().to_string().into_boxed_str())
}

fn log_level(tmp: &str, arguments: &[&str]) -> Said {
    let mut command: Command = chartwright();
    command.arg("log-level").args(arguments).env("TMPDIR", tmp);
    said(command)
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn workplaces(tmp: &str) -> Vec<PathBuf> {
    std::fs::read_dir(tmp).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[tokio::test]
async fn the_level_is_changed_while_the_operator_runs() {
    let project = Project::of_objects().await;
    let tmp = own_tmp(&project);
    assert!(log_level(tmp, &[]).complaint(1).contains("no operator runs here"));
    let operator = project.launch().env("TMPDIR", tmp).start();
    let says = async |words: &str| {
        until(words, async || operator.log().contains(words).then_some(())).await;
    };
    says("watching").await;
    assert_eq!(log_level(tmp, &[]).good(), "info\n");
    let place = workplaces(tmp).pop().unwrap();
    assert_eq!((mode(&place), mode(&place.join("control"))), (0o700, 0o600));
    assert!(!operator.log().contains("\"debug\""));
    assert_eq!(log_level(tmp, &["debug", "--for", "60s"]).good(), "debug\n");
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    says("looked at").await;
    assert_eq!(log_level(tmp, &["debug", "--for", "1s"]).good(), "debug\n");
    says("the log level is now info, as at the start").await;
    assert_eq!(log_level(tmp, &[]).good(), "info\n");
    let process = Pid::from_raw(operator.id().cast_signed()).unwrap();
    kill_process(process, Signal::USR1).unwrap();
    says("the log level is now debug").await;
    until("it counts", async || (log_level(tmp, &[]).good() == "debug\n").then_some(())).await;
    for _ in 0..2 {
        let before = log_level(tmp, &[]).good();
        kill_process(process, Signal::USR2).unwrap();
        until("it is less", async || (log_level(tmp, &[]).good() != before).then_some(())).await;
    }
    assert_eq!(log_level(tmp, &[]).good(), "warn\n");
    assert_eq!(log_level(tmp, &["default"]).good(), "info\n");
    let number = operator.id().to_string();
    assert_eq!(log_level(tmp, &["--pid", &number]).good(), "info\n");
    assert_eq!(log_level(tmp, &["loud"]).code, 2);
    let _other = project.launch().env("TMPDIR", tmp).start();
    until("both are there", async || (workplaces(tmp).len() == 2).then_some(())).await;
    until("both listen", async || log_level(tmp, &[]).err.contains("name one with --pid").then_some(())).await;
}
