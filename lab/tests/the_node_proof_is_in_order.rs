//! What of the node proof can be seen without a node: its scripts parse, its chart renders, and a machine that cannot run it is told why.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails with the line that did")]

use std::path::PathBuf;
use std::process::{Command, Output};

use lab::{checkout, tools_dir};

fn run(program: impl Into<PathBuf>, args: &[&str]) -> Output {
    Command::new(program.into()).args(args).current_dir(checkout()).output().unwrap()
}

#[test]
fn its_scripts_parse() {
    let scripts = std::fs::read_dir(checkout().join("lab/node")).unwrap().map(|entry| entry.unwrap().path());
    let is_script =
        |path: &PathBuf| path.is_file() && std::fs::read(path).unwrap().starts_with(b"#!/usr/bin/env bash\n");
    let scripts: Vec<PathBuf> = scripts.filter(is_script).collect();
    assert!(scripts.len() >= 5, "{scripts:?}");
    for script in scripts {
        let output = run("bash", &["-n", script.to_str().unwrap()]);
        assert!(output.status.success(), "{}: {}", script.display(), String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn its_chart_renders_with_and_without_hooks() {
    for (enabled, jobs) in [("false", 0), ("true", 2)] {
        let set = format!("migration.enabled={enabled}");
        let output =
            run(tools_dir().join("helm"), &["template", "storefront-sample", "lab/node/storefront", "--set", &set]);
        let rendered = String::from_utf8(output.stdout).unwrap();
        assert_eq!(rendered.matches("\nkind: Job\n").count(), jobs, "{}", String::from_utf8_lossy(&output.stderr));
        let mounts = rendered.matches("- name: empty-dir\n              mountPath").count();
        assert_eq!(mounts, 5, "the same volume is mounted several times: {rendered}");
    }
}

#[test]
fn without_root_it_says_that_root_is_missing() {
    // Where this test may not take another id, or has no such program, nobody can be told.
    let output = Command::new("setpriv")
        .args(["--reuid=65532", "--clear-groups", "lab/node/proof.sh"])
        .current_dir(checkout())
        .output();
    let Some(output) = output.ok().filter(|output| !output.stderr.starts_with(b"setpriv")) else { return };
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert_eq!(said, "error: make node-proof needs root, for namespaces, mounts and cgroups\n");
}
