//! This repository is itself an operator project. Its files must be what the API server accepts.

use std::process::{Command, Output};

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::harness::{client, control_plane, create_namespace, tool, until};

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

/// What `kubectl kustomize` makes of a directory.
fn kustomized(directory: &str) -> Vec<Value> {
    let output = kubectl(&["kustomize", directory]);
    assert!(output.status.success(), "{directory}: {}", String::from_utf8_lossy(&output.stderr));
    chartwright::yaml::documents(&String::from_utf8(output.stdout).unwrap()).unwrap()
}

/// The operator's pod, as its Deployment makes it. Only the account is left out: it is not in the namespace of the test.
fn operators_pod() -> Value {
    let is_deployment = |object: &Value| object["kind"] == "Deployment";
    let deployment = kustomized("config/default").into_iter().find(is_deployment).unwrap();
    let mut spec = deployment["spec"]["template"]["spec"].clone();
    spec.as_object_mut().unwrap().remove("serviceAccountName");
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "operator"}, "spec": spec})
}

#[tokio::test]
async fn the_operators_pod_keeps_to_the_restricted_profile() {
    let client = client().await;
    let name = "restricted-pods";
    create_namespace(&client, name).await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let label = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    namespaces.patch(name, &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client, name);
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let tried = async |pod: Value| pods.create(&params, &serde_json::from_value(pod).unwrap()).await.map(|_| ());
    // The namespace's default account comes a moment after it.
    until("the API server takes the pod", async || match tried(operators_pod()).await {
        Ok(()) => Some(()),
        Err(error) if error.to_string().contains("serviceaccount") => None,
        Err(error) => panic!("{error}"),
    })
    .await;
    let mut weaker = operators_pod();
    weaker["spec"]["containers"][0]["securityContext"]["capabilities"] = json!({});
    let refused = tried(weaker).await.unwrap_err().to_string();
    assert!(refused.contains("unrestricted capabilities"), "{refused}");
}

/// What the profile does not ask for.
#[test]
fn the_operators_pod_writes_to_nothing_but_tmp() {
    let spec = &operators_pod()["spec"];
    let (container, volumes) = (&spec["containers"][0], spec["volumes"].as_array().unwrap());
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    for mount in container["volumeMounts"].as_array().unwrap() {
        let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap();
        let is_tmp = mount["mountPath"] == "/tmp" && volume.get("emptyDir").is_some();
        assert!(is_tmp || mount["readOnly"] == true, "{mount}");
    }
    assert!(spec["containers"].as_array().unwrap().len() == 1 && spec.get("hostNetwork").is_none(), "{spec}");
}

#[test]
fn the_network_policy_is_about_the_operators_pod() {
    let policy = &kustomized("config/network-policy")[0];
    let is_deployment = |object: &Value| object["kind"] == "Deployment";
    let deployment = kustomized("config/default").into_iter().find(is_deployment).unwrap();
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    for (key, value) in policy["spec"]["podSelector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(&labels[key], value);
    }
    assert_accepted(&["create", "--dry-run=client", "--validate=strict", "-k", "config/network-policy"]);
}

/// cargo wants to see every member of the workspace, also those that are not part of the image.
#[test]
fn the_image_is_built_from_all_members_and_runs_as_a_number() {
    let read = |path: &str| std::fs::read_to_string(lab::checkout().join(path)).unwrap();
    let dockerfile = read("Dockerfile");
    let manifest = read("Cargo.toml");
    let members = manifest.lines().find_map(|line| line.strip_prefix("members = ")).unwrap();
    for member in members.trim_matches(['[', ']']).split(',').map(|member| member.trim().trim_matches('"')) {
        for part in ["Cargo.toml", "src"] {
            assert!(dockerfile.contains(&format!("COPY {member}/{part} ./{member}/{part}\n")), "{member}/{part}");
        }
    }
    let users: Vec<&str> = dockerfile.lines().filter_map(|line| line.strip_prefix("USER ")).collect();
    assert_eq!(users, ["65532:65532"]);
}
