//! What a person sees who starts the operator wrongly: exit code 1, or 2 for usage, and one line that names the file or
//! tool and the remedy.

use std::path::Path;
use std::process::Command;

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

/// The one line on standard error, and that the exit code is right.
fn complaint(mut command: Command, code: i32) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = stderr.lines().filter(|line| !line.starts_with('{')).collect();
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert_eq!(lines.len(), 1, "{stderr}");
    assert!(lines[0].starts_with("error: "), "{stderr}");
    lines[0].to_owned()
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
