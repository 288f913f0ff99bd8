//! This repository is itself an operator project. Its files must be what the API server accepts.

use std::process::{Command, Output};

use crate::harness::{control_plane, tool};

fn kubectl(args: &[&str]) -> Output {
    let mut command = Command::new(tool("kubectl"));
    command.args(args).env("KUBECONFIG", control_plane().kubeconfig()).current_dir(lab::checkout());
    command.output().unwrap()
}

fn assert_accepted(args: &[&str]) {
    let output = kubectl(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The demo shows the operator with this chart; here it is the manifests' turn.
#[test]
fn the_manifests_are_accepted_by_the_api_server() {
    assert_accepted(&["apply", "-k", "config/crd"]);
    assert_accepted(&["wait", "--for=condition=Established", "crd/nginxes.demo.chartwright.dev", "--timeout=30s"]);
    assert_accepted(&["create", "namespace", "chartwright-system"]);
    assert_accepted(&["apply", "--dry-run=server", "--validate=strict", "-k", "config/default"]);
    assert_accepted(&["apply", "--dry-run=server", "--validate=strict", "-k", "config/samples"]);
}
