//! What helm is given is private, and what a killed operator leaves behind goes with the next start; helm itself gets nothing of
//! the operator's.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::json;

use crate::harness::strange_helm::{own_sleep, strange_helm};
use crate::harness::{Project, config, until};

/// All below a directory.
fn all_in(dir: &str) -> Vec<PathBuf> {
    let mut found = vec![];
    let mut open = vec![PathBuf::from(dir)];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found
}

fn own_tmp(project: &Project) -> &'static str {
    let dir = project.dir().join("tmp");
    std::fs::create_dir_all(&dir).unwrap();
    Box::leak(dir.display().to_string().into_boxed_str())
}

#[tokio::test]
async fn the_next_operator_removes_them_and_nothing_of_one_that_lives() {
    let (project, other) = (Project::of_objects().await, Project::of_objects().await);
    let tmp = own_tmp(&project);
    let living = other.launch().env("TMPDIR", tmp).start();
    until("it works", async || living.log().contains("watching").then_some(())).await;
    // A render may just be under way; what it needs goes with it.
    let is_of_a_render = |path: &PathBuf| path.display().to_string().contains("/helm-");
    let of_living: Vec<PathBuf> = all_in(tmp).into_iter().filter(|path| !is_of_a_render(path)).collect();
    let helm = strange_helm(&project, &format!("sleep {}", own_sleep()));
    let killed = project.launch().helm(helm).env("TMPDIR", tmp).start();
    project.apply("web", json!({"password": "hunter2", "objects": []})).await;
    let values = until("helm has values", async || {
        all_in(tmp).into_iter().find(|path| path.file_name().is_some_and(|name| name == "values.json"))
    })
    .await;
    for path in values.ancestors().take_while(|path| *path != std::path::Path::new(tmp)) {
        let mode = std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    }
    // Killed, as by the kernel.
    drop(killed);
    assert!(values.exists());
    let next = project.launch().env("TMPDIR", tmp).start();
    until("they are gone", async || (!values.exists()).then_some(())).await;
    until("that is told", async || next.log().contains("had left behind").then_some(())).await;
    assert!(of_living.iter().all(|path| path.exists()), "what lives was removed: {of_living:?}");
    other.apply("web", json!({"objects": [config("web", "blue")]})).await;
    other.condition("web", "Ready", "True").await;
    // Who ends in peace leaves nothing.
    let mut living = living;
    living.terminate();
    living.exit_code(std::time::Duration::from_secs(10)).await;
    assert!(of_living.iter().all(|path| !path.exists()), "{:?}", all_in(tmp));
}

#[tokio::test]
async fn helm_gets_no_credentials_no_environment_and_no_open_files() {
    let project = Project::of_objects().await;
    let (environment, files) = (project.dir().join("environment"), project.dir().join("files"));
    let dump = format!("env > {}\nls -l /proc/self/fd > {}", environment.display(), files.display());
    let helm = strange_helm(&project, &dump);
    let _operator = project.launch().helm(helm).env("AWS_SECRET_ACCESS_KEY", "hunter2").start();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.condition("web", "Ready", "True").await;
    let environment = std::fs::read_to_string(environment).unwrap();
    for hidden in ["hunter2", "KUBECONFIG", "PROXY", "POD_NAMESPACE", "TOKEN", "SERVICE_HOST"] {
        assert!(!environment.contains(hidden), "{environment}");
    }
    let files = std::fs::read_to_string(files).unwrap();
    let own = project.dir().display().to_string();
    let is_given =
        |to: &str| to.starts_with("pipe:") || to == "/dev/null" || to.starts_with("/proc/") || to.starts_with(&own);
    let opened: Vec<&str> = files.lines().filter_map(|line| line.split_once(" -> ")).map(|(_, to)| to).collect();
    assert!(!opened.is_empty() && opened.iter().all(|to| is_given(to)), "{files}");
}

#[tokio::test]
async fn a_chart_that_eats_memory_fails_and_nothing_else() {
    let project = Project::of_objects().await;
    project.template("eat.yaml", "{{ if .Values.hungry }}a: {{ len (until 2000000000) }}{{ end }}");
    let _operator = project.run();
    project.apply("hungry", json!({"hungry": true, "objects": []})).await;
    let told = project.not_ready("hungry", "RenderFailed").await;
    assert!(told["message"].as_str().unwrap().contains("MiB of memory"), "{told}");
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.condition("web", "Ready", "True").await;
}
