//! `chartwright init` and `create api`: two commands and a chart give an operator.

mod changes;
mod makefile;
mod refusals;
mod renders;
mod sources;
mod story;

use std::process::{Child, Stdio};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;

use crate::harness::site::Site;
use crate::harness::{client, create_namespace, tool, until};

/// The operator of a project, as `make run` starts it. It ends with this.
struct Running(Child);

impl Running {
    fn of(site: &Site) -> Self {
        let mut operator = lab::guard::command(env!("CARGO_BIN_EXE_chartwright")).unwrap();
        operator.args(["run", "--metrics-bind-address=0", "--health-probe-bind-address=0", "--helm"]);
        operator.arg(tool("helm4")).current_dir(site.root()).env_clear().env("POD_NAMESPACE", "default");
        operator.env("KUBECONFIG", crate::harness::control_plane().kubeconfig());
        let operator = operator.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Running(operator.spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Applies the sample to a namespace of its own and waits until it is ready.
async fn sample_is_ready(site: &Site, kind: &str) {
    let namespace = format!("{}-use", site.name);
    create_namespace(&client().await, &namespace).await;
    let applied = site.kubectl(&["apply", "-n", &namespace, "-k", "config/samples"]);
    assert_eq!(applied.code, 0, "{applied:?}");
    let resource = format!("{kind}.charts.{}/{kind}-sample", site.domain());
    let waited = site.kubectl(&["wait", "-n", &namespace, "--for=condition=Ready", "--timeout=90s", &resource]);
    assert_eq!(waited.code, 0, "{waited:?}");
}

#[tokio::test]
async fn two_commands_give_an_operator_whose_sample_gets_ready() {
    let site = Site::new();
    site.chartwright(&["init", "--domain", &site.domain()]).good();
    let said = site.chartwright(&["create", "api", "--kind", "Nginx"]).good();
    assert!(said.contains("make install run") && said.lines().count() < 12, "{said}");
    let installed = site.make(&["install"]);
    assert_eq!(installed.code, 0, "{installed:?}");
    assert!(site.make(&["-n", "run"]).good().contains(" run"));
    let _operator = Running::of(&site);
    sample_is_ready(&site, "nginx").await;
    let namespace = format!("{}-use", site.name);
    for object in ["deployment/nginx-sample", "service/nginx-sample", "serviceaccount/nginx-sample"] {
        assert_eq!(site.kubectl(&["get", "-n", &namespace, object]).code, 0, "{object}");
    }
    let removed = site.make(&["uninstall", "TIMEOUT=90s"]);
    assert_eq!(removed.code, 0, "{removed:?}");
    assert!(removed.out.contains(&namespace) && removed.out.contains("nginx-sample"), "{removed:?}");
    assert_ne!(
        site.kubectl(&["get", "-n", &namespace, "deployment/nginx-sample"]).code,
        0,
        "it went with its resource"
    );
}

#[tokio::test]
async fn one_file_installs_it_and_undeploy_leaves_nothing() {
    let site = Site::initialised();
    site.chartwright(&["create", "api", "--helm-chart", site.chart("paint", "").to_str().unwrap()]).good();
    let built = site.make(&["build-installer", "IMG=registry.example.com/shop:1"]).good();
    let words = "dist/install.yaml deploys the operator with the image registry.example.com/shop:1: ";
    assert!(built.starts_with(words) && built.lines().count() == 1, "{built}");
    let applied = site.kubectl(&["apply", "--server-side", "-f", "dist/install.yaml"]);
    assert_eq!(applied.code, 0, "{applied:?}");
    let system = format!("{}-system", site.name);
    let image =
        ["get", "deployment", "-n", &system, "-o", "jsonpath={.items[*].spec.template.spec.containers[*].image}"];
    assert_eq!(site.kubectl(&image).good(), "registry.example.com/shop:1");

    // kwok plays the pod; somebody has to do its work.
    let operator = Running::of(&site);
    sample_is_ready(&site, "paint").await;
    drop(operator);
    let stuck = site.make(&["undeploy", "TIMEOUT=2s"]);
    assert!(stuck.code != 0 && stuck.err.contains("start the operator (make run, or make deploy)"), "{stuck:?}");
    assert_eq!(site.kubectl(&image).good(), "registry.example.com/shop:1", "the operator stays until they are gone");

    let _operator = Running::of(&site);
    let removed = site.make(&["undeploy", "TIMEOUT=90s"]);
    assert_eq!(removed.code, 0, "{removed:?}");
    let left = site.kubectl(&["get", "crds,clusterroles,clusterrolebindings,namespaces", "-o", "name"]).good();
    let left: Vec<&str> = left.lines().filter(|line| line.contains(&site.name) && !line.ends_with("-use")).collect();
    let namespaces: kube::Api<Namespace> = kube::Api::all(client().await);
    until("its namespace is gone", async || {
        let all = namespaces.list(&ListParams::default()).await.ok()?;
        all.items.iter().all(|namespace| namespace.metadata.name.as_deref() != Some(system.as_str())).then_some(())
    })
    .await;
    assert!(left.iter().all(|line| line.ends_with(&system)), "{left:?}");
}

#[test]
fn the_starter_chart_is_good_for_both_helms() {
    let site = Site::initialised();
    site.chartwright(&["create", "api", "--kind", "Shop"]).good();
    for helm in ["helm3", "helm4"] {
        let mut command = std::process::Command::new(tool(helm));
        command.args([
            "lint",
            "--strict",
            "helm-charts/shop",
            "--set",
            "ingress.enabled=true,autoscaling.enabled=true",
        ]);
        let output = command.current_dir(site.root()).env_clear().env("HOME", site.beside("home")).output().unwrap();
        assert!(output.status.success(), "{helm}: {}", String::from_utf8_lossy(&output.stdout));
    }
    let valid = site.chartwright(&["validate"]).good();
    assert!(valid.starts_with("ok"), "{valid}");
}
