//! What a person sees who starts the operator wrongly: exit code 1, or 2 for usage, and one line that names the file or
//! tool and the remedy.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::{chartwright, tool};

/// A directory with a good watches.yaml and chart.
fn good_project() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "charts/a/Chart.yaml", "apiVersion: v2\nname: a\nversion: 0.1.0\n");
    write(dir.path(), "watches.yaml", "- {group: g.io, version: v1, kind: A, chart: charts/a}\n");
    dir
}

fn write(dir: &Path, path: &str, text: &str) {
    let path = dir.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn run_in(dir: &Path) -> Command {
    let mut command = chartwright();
    command
        .args(["run", "--metrics-bind-address=0", "--health-probe-bind-address=0"])
        .current_dir(dir)
        .env("CHARTWRIGHT_HELM", tool("helm4"))
        .env("RUST_BACKTRACE", "1");
    command
}

/// The one error on standard error, as a line of the log, and that the exit code is right.
fn complaint(mut command: Command, code: i32) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    let mut errors = errors(&stderr);
    assert_eq!(errors.len(), 1, "{stderr}");
    errors.remove(0)
}

/// What is told as an error, to people or to programs.
fn errors(stderr: &str) -> Vec<String> {
    let error = |line: &str| match serde_json::from_str::<Value>(line) {
        Ok(line) => (line["level"] == "error").then(|| line["msg"].as_str().unwrap_or_default().to_owned()),
        Err(_) => Some(line.strip_prefix("error: ").unwrap_or_else(|| panic!("{line}")).to_owned()),
    };
    stderr.lines().filter_map(error).collect()
}

#[test]
fn people_and_programs_are_told_once_each_in_their_way_at_every_level() {
    let dir = tempfile::tempdir().unwrap();
    for (flags, start) in [
        (["--zap-encoder=json", "--zap-log-level=panic"], "{"),
        (["--zap-encoder=console", "--zap-log-level=panic"], "error: "),
        (["--zap-encoder=console", "--zap-log-level=info"], "error: "),
    ] {
        let output = run_in(dir.path()).args(flags).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let told: Vec<&str> = stderr.lines().filter(|line| line.contains("watches.yaml")).collect();
        assert!(told.len() == 1 && told[0].starts_with(start), "{stderr}");
    }
}

#[test]
fn where_there_is_no_project_ports_are_not_what_is_wrong() {
    let (dir, taken) = (tempfile::tempdir().unwrap(), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let mut command = run_in(dir.path());
    command.arg(format!("--metrics-bind-address={}", taken.local_addr().unwrap()));
    assert_says(&complaint(command, 1), &["./watches.yaml", "--watches-file"]);
}

fn assert_says(line: &str, parts: &[&str]) {
    for part in parts {
        assert!(line.contains(part), "{line:?} should contain {part:?}");
    }
}

#[test]
fn a_missing_watches_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    assert_says(&complaint(run_in(dir.path()), 1), &["./watches.yaml", "--watches-file"]);
}

#[test]
fn a_bad_watches_file_is_named_with_entry_and_field() {
    let dir = good_project();
    write(dir.path(), "watches.yaml", "- {group: g.io, kind: A, chart: charts/a}\n");
    assert_says(&complaint(run_in(dir.path()), 1), &["watches.yaml", "entry 1", "`version` is missing"]);
    write(dir.path(), "watches.yaml", "group: g.io\n");
    assert_says(&complaint(run_in(dir.path()), 1), &["watches.yaml", "not a list"]);
}

#[test]
fn a_missing_chart_directory_is_named() {
    let dir = good_project();
    write(dir.path(), "watches.yaml", "- {group: g.io, version: v1, kind: A, chart: charts/b}\n");
    assert_says(
        &complaint(run_in(dir.path()), 1),
        &["watches.yaml", "entry 1", "charts/b does not exist", "correct the path"],
    );
}

#[test]
fn an_election_without_a_namespace_asks_for_one() {
    let dir = good_project();
    let mut outside = run_in(dir.path());
    outside.arg("--leader-elect");
    assert_says(&complaint(outside, 1), &["leader election", "not a pod", "--leader-election-namespace"]);
}

#[test]
fn an_election_that_two_could_win_is_refused() {
    let dir = good_project();
    let mut command = run_in(dir.path());
    command.args(["--leader-elect", "--leader-election-namespace=a", "--leader-elect-renew-deadline=15s"]);
    assert_says(&complaint(command, 1), &["15s", "two at once"]);
}

#[test]
fn a_missing_helm_is_named() {
    let dir = good_project();
    let mut by_path = run_in(dir.path());
    by_path.env_remove("CHARTWRIGHT_HELM").env("PATH", dir.path());
    assert_says(&complaint(by_path, 1), &["no `helm` on PATH", "install helm", "--helm"]);
    let mut by_flag = run_in(dir.path());
    by_flag.args(["--helm", "no-such-helm"]);
    assert_says(&complaint(by_flag, 1), &["no-such-helm", "install helm", "--helm"]);
}

#[test]
fn a_program_that_is_not_helm_is_named() {
    let dir = good_project();
    let mut command = run_in(dir.path());
    command.args(["--helm", "/bin/true"]);
    assert_says(&complaint(command, 1), &["/bin/true is not helm 3 or 4"]);
}

#[test]
fn an_unreachable_cluster_is_named_with_its_kubeconfig() {
    let dir = good_project();
    let kubeconfig = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}], "users": [{"name": "u", "user": {}}]}"#;
    write(dir.path(), "kubeconfig", kubeconfig);
    let mut command = run_in(dir.path());
    command.env("KUBECONFIG", dir.path().join("kubeconfig"));
    assert_says(&complaint(command, 1), &["http://127.0.0.1:9", "start the cluster", "/kubeconfig"]);
}

#[test]
fn a_malformed_kubeconfig_is_named() {
    let dir = good_project();
    write(dir.path(), "kubeconfig", "clusters: [");
    let mut command = run_in(dir.path());
    command.env("KUBECONFIG", dir.path().join("kubeconfig"));
    assert_says(&complaint(command, 1), &["/kubeconfig", "correct the file"]);
}

#[test]
fn no_cluster_at_all_is_told() {
    let dir = good_project();
    assert_says(&complaint(run_in(dir.path()), 1), &["no cluster", "set KUBECONFIG"]);
}

#[test]
fn a_flag_that_cannot_be_meant_is_named() {
    let dir = good_project();
    let with = |flag: &str| {
        let mut command = run_in(dir.path());
        command.arg(flag);
        complaint(command, 2)
    };
    // The reader of arguments adds a word about --help.
    let misused = |flag: &str| {
        let output = run_in(dir.path()).arg(flag).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert_says(&misused("--zap-log-level=loud"), &["'loud'", "--zap-log-level", "write debug, info, error or panic"]);
    assert_says(&misused("--zap-encoder=xml"), &["'xml'", "--zap-encoder", "write json or console"]);
    assert_says(&with("--metrics-require-rbac"), &["--metrics-secure is required"]);
    let mut command = run_in(dir.path());
    command.env("WATCH_NAMESPACE", "a,B");
    assert_says(&complaint(command, 2), &["WATCH_NAMESPACE", "`B`", "as in a,b"]);
}

#[test]
fn wrong_usage_ends_with_code_2() {
    let mut command = chartwright();
    let output = command.args(["run", "--watches-fil", "x"]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("--watches-file"), "{stderr}");
}
