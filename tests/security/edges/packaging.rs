//! What is shipped: images by digest, a network policy, metrics that can be verified, probes that name nothing.

use std::path::Path;
use std::process::Command;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::Api;
use serde_json::Value;

use crate::harness::asking::{get_by_tls, get_verified};
use crate::harness::gate::{Gate, Obstacle};
use crate::harness::{Project, client, tool, until};

const METRICS: [&str; 2] = ["--metrics-bind-address=127.0.0.1:0", "--metrics-secure=true"];
const NAME: &str = "chartwright-metrics-ca";

fn kustomized(directory: &Path) -> Vec<Value> {
    let output = Command::new(tool("kubectl")).arg("kustomize").arg(directory).output().unwrap();
    assert!(output.status.success(), "{}: {}", directory.display(), String::from_utf8_lossy(&output.stderr));
    chartwright::yaml::documents(&String::from_utf8(output.stdout).unwrap()).unwrap()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

#[test]
fn the_default_manifests_limit_who_reaches_the_pod() {
    let objects = kustomized(&lab::checkout().join("config/default"));
    let policies = of_kind(&objects, "NetworkPolicy");
    assert_eq!(policies.len(), 1);
    let (spec, deployment) = (&policies[0]["spec"], of_kind(&objects, "Deployment")[0]);
    assert_eq!(spec["policyTypes"], serde_json::json!(["Ingress"]), "the API server and DNS stay within reach");
    assert_eq!(spec["podSelector"]["matchLabels"], deployment["spec"]["selector"]["matchLabels"]);
    assert_eq!(policies[0]["metadata"]["namespace"], deployment["metadata"]["namespace"]);
    let ports: Vec<&Value> =
        spec["ingress"].as_array().unwrap().iter().flat_map(|rule| rule["ports"].as_array().unwrap()).collect();
    assert!(ports.iter().all(|port| port["port"] == 8443), "{ports:?}");
    assert!(spec["ingress"].as_array().unwrap().iter().all(|rule| rule["from"][0]["namespaceSelector"].is_object()));
}

#[test]
fn prometheus_verifies_the_operator() {
    let objects = kustomized(&lab::checkout().join("config/prometheus"));
    let monitors = of_kind(&objects, "ServiceMonitor");
    let tls = &monitors[0]["spec"]["endpoints"][0]["tlsConfig"];
    assert_eq!(tls["ca"]["configMap"], serde_json::json!({"name": NAME, "key": "ca.crt"}));
    assert_eq!(tls["serverName"], "chartwright-metrics");
    let text = serde_json::to_string(&objects).unwrap();
    assert!(!text.contains("insecureSkipVerify"), "{text}");
}

/// The scaffold's files are those of this repository, but for the names in them.
#[test]
fn a_new_project_is_packaged_in_the_same_way() {
    let root = lab::checkout();
    for file in [
        "default/kustomization.yaml",
        "network-policy/allow-metrics-traffic.yaml",
        "network-policy/kustomization.yaml",
        "prometheus/monitor.yaml",
        "rbac/leader_election_role.yaml",
    ] {
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        let template = read(&root.join("src/scaffold/templates/project/config").join(file));
        assert_eq!(template.replace("@project@", "chartwright"), read(&root.join("config").join(file)), "{file}");
    }
}

/// The images that a Dockerfile takes from a registry by anything but a digest. A variable is whoever builds it to decide.
fn unpinned(dockerfile: &str) -> Vec<&str> {
    let mut stages = vec!["scratch"];
    let mut found = vec![];
    for line in dockerfile.lines() {
        let words: Vec<&str> = line.split_whitespace().filter(|word| !word.starts_with("--")).collect();
        let [from, image, name @ ..] = words.as_slice() else { continue };
        if !from.eq_ignore_ascii_case("FROM") {
            continue;
        }
        let digest = image.split_once("@sha256:").map(|(_, digest)| digest);
        let is_pinned = digest.is_some_and(|it| it.len() == 64 && it.chars().all(|c| c.is_ascii_hexdigit()));
        if !is_pinned && !stages.contains(image) && !image.starts_with("${") {
            found.push(*image);
        }
        stages.extend(name.get(1));
    }
    found
}

#[test]
fn base_images_are_named_by_digest() {
    let root = lab::checkout();
    for path in ["Dockerfile", "src/scaffold/templates/project/Dockerfile"] {
        let text = std::fs::read_to_string(root.join(path)).unwrap();
        assert_eq!(unpinned(&text), Vec::<&str>::new(), "{path}");
    }
    let digest = "0".repeat(64);
    let text = format!(
        "FROM a:1 AS b\nfrom --platform=x c:2@sha256:{digest} as d\nFROM b\nFROM d\nFROM scratch\nFROM e@sha256:12\n"
    );
    assert_eq!(unpinned(&text), ["a:1", "e@sha256:12"]);
}

#[test]
fn advisories_that_cannot_be_checked_are_an_error() {
    // Neither cargo-deny nor a copy of the database.
    let empty = tempfile::tempdir().unwrap();
    let mut command = Command::new("bash");
    command.arg(lab::checkout().join("lab/deny.sh")).env_clear();
    command.env("PATH", "/usr/bin:/bin").env("HOME", empty.path()).env("CARGO_HOME", empty.path());
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.lines().count() == 1 && said.starts_with("deny: error: advisories cannot be checked"), "{said}");
}

#[tokio::test]
async fn metrics_can_be_verified_and_replicas_share_a_certificate() {
    let project = Project::of_objects().await;
    let first = project.launch().args(&METRICS).start();
    let configs: Api<ConfigMap> = Api::namespaced(project.client.clone(), &project.namespace);
    let ca = until("the certificate is published", async || {
        configs.get_opt(NAME).await.unwrap().and_then(|config| config.data?.get("ca.crt").cloned())
    })
    .await;
    let address = first.address("metrics").await;
    let code = get_verified(&address, "/metrics", "chartwright-metrics", &ca).await.map(|it| it.code);
    assert_eq!(code, Some(200));
    assert!(get_verified(&address, "/metrics", "another.example", &ca).await.is_none(), "it is for one name");
    let secrets: Api<Secret> = Api::namespaced(project.client.clone(), &project.namespace);
    let secret = secrets.get(NAME).await.unwrap();
    assert_eq!(secret.type_.as_deref(), Some("kubernetes.io/tls"));
    assert!(!serde_json::to_string(&configs.get(NAME).await.unwrap()).unwrap().contains("PRIVATE"));
    drop(first);
    let second = project.launch().args(&METRICS).start();
    let address = second.address("metrics").await;
    until("the next one serves the same", async || {
        get_verified(&address, "/metrics", "chartwright-metrics", &ca).await.map(|_| ())
    })
    .await;
    assert!(!second.log().contains("PRIVATE"));
}

#[tokio::test]
async fn an_operator_without_the_right_serves_metrics_all_the_same() {
    let project = Project::of_objects().await;
    project.bind_secrets(&project.user()).await;
    let operator = project.launch().args(&METRICS).limited().start();
    let address = operator.address("metrics").await;
    until("it says so", async || operator.log().contains("a certificate that nobody can verify").then_some(())).await;
    assert_eq!(get_by_tls(&address, "/metrics", None).await.map(|it| it.code), Some(200));
}

#[tokio::test]
async fn probes_name_neither_kinds_nor_namespaces() {
    let project = Project::of_objects().await;
    let gate = Gate::start(client().await).await;
    gate.place(Obstacle::Wall("apps".to_owned()));
    let operator = project.launch().args(&["--health-probe-bind-address=127.0.0.1:0"]).before(&gate).start();
    until("the records are seen", async || {
        operator.probe("/readyz").await.body.contains("[+]records ok").then_some(())
    })
    .await;
    for path in ["/readyz", "/readyz?verbose", "/readyz/kinds", "/healthz?verbose", "/readyz?verbose&exclude=kinds"] {
        let said = operator.probe(path).await.body;
        for name in ["App", &project.namespace, &project.resource.group, &project.resource.plural] {
            assert!(!said.contains(name), "{path} names {name}: {said}");
        }
    }
    assert_eq!(operator.probe("/readyz").await.code, 500);
    assert!(operator.log().contains("App: its custom resources are not all seen yet"), "the log names it");
}
