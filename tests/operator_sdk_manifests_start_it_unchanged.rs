//! The argument lists and environments that operator-sdk's scaffolds give their manager, as its releases wrote them.
//!
//! Only the ports are others: tests run side by side, and a port can be bound once. Where a manifest leaves an address to its
//! default, a flag with a free port is added for the same reason.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::json;

use crate::harness::{Project, config};

struct Scaffold {
    /// Of operator-sdk.
    of: &'static str,
    args: &'static [&'static str],
    /// `NAMESPACE` stands for what the downward API says.
    env: &'static [(&'static str, &'static str)],
}

const SCAFFOLDS: [Scaffold; 6] = [
    Scaffold {
        of: "0.19, which had no flags in its manifest",
        args: &[],
        env: &[("WATCH_NAMESPACE", "NAMESPACE"), ("POD_NAME", "memcached-0"), ("OPERATOR_NAME", "memcached-operator")],
    },
    Scaffold {
        of: "1.0 to 1.3, behind kube-rbac-proxy",
        args: &["--metrics-addr=127.0.0.1:8080", "--enable-leader-election", "--leader-election-id=memcached-operator"],
        env: &[],
    },
    Scaffold {
        of: "1.4 to 1.37, behind kube-rbac-proxy",
        args: &[
            "--health-probe-bind-address=:8081",
            "--metrics-bind-address=127.0.0.1:8080",
            "--leader-elect",
            "--leader-election-id=memcached-operator",
        ],
        env: &[],
    },
    Scaffold {
        of: "1.4 to 1.37, the manager alone",
        args: &["--leader-elect", "--leader-election-id=memcached-operator"],
        env: &[],
    },
    Scaffold {
        of: "1.38 and later, with its metrics patch",
        args: &[
            "--metrics-require-rbac",
            "--metrics-secure",
            "--metrics-bind-address=:8443",
            "--leader-elect",
            "--leader-election-id=memcached-operator",
            "--health-probe-bind-address=:8081",
        ],
        env: &[],
    },
    Scaffold {
        of: "1.38 and later, as a bundle that OLM installs for some namespaces",
        args: &[
            "--metrics-require-rbac",
            "--metrics-secure",
            "--metrics-bind-address=:8443",
            "--leader-elect",
            "--leader-election-id=memcached-operator",
            "--health-probe-bind-address=:8081",
        ],
        env: &[("WATCH_NAMESPACE", "NAMESPACE,NAMESPACE-b"), ("OPERATOR_CONDITION_NAME", "memcached-operator.v0.0.1")],
    },
];

/// The same address with a port that is free.
fn with_free_port(arg: &str) -> String {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    match arg.rsplit_once(':') {
        Some((before, digits)) if digits.parse::<u16>().is_ok() => format!("{before}:{port}"),
        _ => arg.to_owned(),
    }
}

fn args(scaffold: &Scaffold) -> Vec<String> {
    let mut args: Vec<String> = scaffold.args.iter().map(|arg| with_free_port(arg)).collect();
    let has = |args: &[String], names: &[&str]| args.iter().any(|arg| names.iter().any(|name| arg.starts_with(name)));
    if !has(&args, &["--metrics-addr=", "--metrics-bind-address="]) {
        args.push(with_free_port("--metrics-bind-address=:8080"));
    }
    if !has(&args, &["--health-probe-bind-address="]) {
        args.push(with_free_port("--health-probe-bind-address=:8081"));
    }
    args
}

/// What our own manifests give: the Deployment's arguments, behind those that a patch puts first.
fn ours() -> Vec<String> {
    let read = |path: &str| std::fs::read_to_string(lab::checkout().join(path)).unwrap();
    let flags = |text: &str, before: &str| {
        let flags =
            text.lines().filter_map(|line| line.trim().strip_prefix(before)).filter(|flag| flag.starts_with("--"));
        flags.map(with_free_port).collect::<Vec<_>>()
    };
    let patched = flags(&read("config/default/manager_metrics_patch.yaml"), "value: ");
    let args = flags(&read("config/manager/manager.yaml"), "- ");
    assert_eq!((patched.len(), args.len()), (3, 3));
    [patched, args].concat()
}

#[test]
fn the_image_starts_as_operator_sdks_does() {
    let dockerfile = std::fs::read_to_string(lab::checkout().join("Dockerfile")).unwrap();
    let entry: Vec<&str> =
        dockerfile.lines().filter(|line| line.starts_with("ENTRYPOINT") || line.starts_with("CMD")).collect();
    assert_eq!(entry, [r#"ENTRYPOINT ["/usr/local/bin/chartwright", "run", "--watches-file=./watches.yaml"]"#]);
}

#[tokio::test]
async fn our_own_manifests_start_it() {
    let project = Project::of_objects().await;
    let _operator = project
        .launch()
        .in_pod(&ours().iter().map(String::as_str).collect::<Vec<_>>())
        .env("POD_NAMESPACE", &project.namespace)
        .start();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.deployed("web").await;
}

#[tokio::test]
async fn every_scaffold_reconciles() {
    let project = Project::of_objects().await;
    project.another_namespace("b").await;
    for (number, scaffold) in SCAFFOLDS.iter().enumerate() {
        let args = args(scaffold);
        // Stands for the file in which a pod reads its namespace: here is none, and leader election wants to know it.
        let mut launch = project
            .launch()
            .in_pod(&args.iter().map(String::as_str).collect::<Vec<_>>())
            .env("POD_NAMESPACE", &project.namespace);
        for (name, value) in scaffold.env {
            launch = launch.env(name, &value.replace("NAMESPACE", &project.namespace));
        }
        let mut operator = launch.start();
        let name = format!("web-{number}");
        project.apply(&name, json!({"objects": [config(&name, "blue")]})).await;
        project.deployed(&name).await;
        assert!(project.get("v1", "ConfigMap", &name).await.is_some(), "{}", scaffold.of);
        // So that the next one need not wait for the Lease.
        operator.terminate();
        assert_eq!(operator.exit_code(Duration::from_secs(10)).await, Some(0), "{}", scaffold.of);
    }
}
