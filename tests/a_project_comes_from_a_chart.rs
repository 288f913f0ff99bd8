//! `chartwright init` and `create api`: two commands and a chart give an operator.

mod changes;
mod refusals;
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
    let built = site.make(&["build-installer", "IMG=registry.example.com/shop:1"]);
    assert_eq!(built.code, 0, "{built:?}");
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

#[tokio::test]
async fn make_uninstall_names_the_objects_of_hooks_that_stay() {
    let site = Site::initialised();
    let chart = site.chart("paint", "");
    let hook =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: brush\n  annotations: {helm.sh/hook: pre-install}\n";
    std::fs::write(chart.join("templates/hook.yaml"), hook).unwrap();
    site.chartwright(&["create", "api", "--helm-chart", chart.to_str().unwrap()]).good();
    let installed = site.make(&["install"]);
    assert_eq!(installed.code, 0, "{installed:?}");
    let _operator = Running::of(&site);
    sample_is_ready(&site, "paint").await;
    let removed = site.make(&["uninstall", "TIMEOUT=90s"]);
    assert_eq!(removed.code, 0, "{removed:?}");
    let named = format!(
        "These hook objects stay, as with helm uninstall. Delete them if they are not needed:\n  ConfigMap {}-use/brush\n",
        site.name
    );
    assert!(removed.out.contains(&named), "{removed:?}");
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

/// `kustomize edit set image` writes into config/manager, and so do people.
#[test]
fn the_image_of_the_command_line_takes_the_place_of_any_other() {
    let site = Site::initialised();
    site.chartwright(&["create", "api", "--kind", "Shop"]).good();
    let file = "config/manager/kustomization.yaml";
    let fresh = site.read(file);
    let images = |arguments: &[&str]| {
        let built = site.make(&[&["build-installer"], arguments].concat());
        assert_eq!(built.code, 0, "{built:?}");
        let lines = site.read("dist/install.yaml");
        let images = lines.lines().filter_map(|line| line.trim_start_matches([' ', '-']).strip_prefix("image: "));
        images.map(str::to_owned).collect::<Vec<_>>()
    };
    let wanted = "IMG=registry.example.com:5000/shop:2";
    let set = [
        "  newName: registry.example.com/shop\n  newTag: v1.0\n".to_owned(),
        format!("  newName: shop\n  digest: sha256:{}\n", "0".repeat(64)),
    ];
    assert_eq!((images(&[]), images(&[wanted])), (vec!["controller:latest".into()], vec![wanted[4..].to_owned()]));
    for image in set {
        site.file(file, &fresh.replace("  newName: controller\n  newTag: latest\n", &image));
        assert_eq!(images(&[wanted]), [&wanted[4..]], "{image}");
    }
    assert!(images(&[])[0].starts_with("shop@sha256:0"), "without IMG it is what config/manager names");

    let manager = site.read("config/manager/manager.yaml");
    let beside = "      - name: beside\n        image: beside:3\n      volumes:\n";
    site.file("config/manager/manager.yaml", &manager.replace("      volumes:\n", beside));
    assert_eq!(images(&[wanted]), [&wanted[4..], "beside:3"]);
    let renamed = site.read("config/manager/manager.yaml").replace("name: manager\n", "name: other\n");
    site.file("config/manager/manager.yaml", &renamed);
    let refused = site.make(&["build-installer", wanted]);
    assert!(refused.code != 0 && refused.err.contains("no container is called manager"), "{refused:?}");
}

#[test]
fn make_says_that_there_is_no_api_yet() {
    let site = Site::initialised();
    let before = site.tree();
    for target in ["install", "uninstall", "deploy", "undeploy", "build-installer"] {
        let refused = site.make(&[target]);
        let words = "error: there is no API yet: chartwright create api --kind NAME\nmake: ";
        assert!(refused.code != 0 && refused.err.starts_with(words), "{target}: {refused:?}");
        site.is_as(&before);
    }
    site.chartwright(&["create", "api", "--kind", "Shop"]).good();
    site.file("dist/install.yaml", "earlier\n");
    site.file("config/default/kustomization.yaml", "resources: [absent]\n");
    let before = site.tree();
    assert_ne!(site.make(&["build-installer"]).code, 0);
    site.is_as(&before);
}

/// What needs docker, kind or opm is only looked at.
#[test]
fn the_makefile_has_operator_sdks_targets_and_ours() {
    let site = Site::initialised();
    let targets = "all help run install uninstall deploy undeploy docker-build docker-push docker-buildx kustomize helm-operator \
                   operator-sdk bundle bundle-build bundle-push opm catalog-build catalog-push build-installer kind-load";
    for target in targets.split_whitespace() {
        let dry = site.make(&["-n", target, "IMG=registry.example.com/shop:1"]);
        assert_eq!(dry.code, 0, "{target}: {dry:?}");
    }
    let image = site.make(&["-n", "docker-build", "IMG=registry.example.com/shop:1", "BASE_IMG=base:2"]).good();
    assert_eq!(image.trim(), "docker build --build-arg BASE_IMAGE=base:2 -t registry.example.com/shop:1 .");
    let loaded = site.make(&["-n", "kind-load", "IMG=shop:1", "KIND_CLUSTER=two"]).good();
    assert_eq!(loaded.trim(), "kind load docker-image shop:1 --name two");
    let help = site.make(&["help"]).good();
    assert!(help.contains("build-installer") && help.contains("undeploy"), "{help}");
    for (target, words) in [("bundle", "chartwright has no command `bundle`"), ("bundle-build", "make bundle")] {
        let refused = site.make(&[target]);
        assert!(refused.code != 0 && refused.err.contains(words), "{target}: {refused:?}");
    }
}

#[test]
fn no_image_is_pushed_that_is_built_on_a_tag_of_a_registry() {
    let site = Site::initialised();
    let calls = site.beside("calls");
    let tool = site.beside("docker");
    std::fs::write(&tool, format!("#!/bin/sh\necho \"$1\" >> {}\n", calls.display())).unwrap();
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let tool = format!("CONTAINER_TOOL={}", tool.display());
    let make = |target: &str, base: &str| site.make(&[target, &tool, "IMG=registry.example.com/shop:1", base]);
    let digest = "0".repeat(64);
    for target in ["docker-push", "docker-buildx"] {
        for base in ["registry.example.com/chartwright:1", "localhost:5000/chartwright:1", "someone/chartwright"] {
            let refused = make(target, &format!("BASE_IMG={base}"));
            let words = format!(
                "error: BASE_IMG names an image of a registry without its digest: write BASE_IMG={base}@sha256:<digest>\nmake: "
            );
            assert!(refused.code != 0 && refused.err.starts_with(&words), "{target}: {refused:?}");
            assert!(!calls.exists(), "{target} of {base} is refused before anything is called");
        }
    }
    let pinned = format!("BASE_IMG=registry.example.com/chartwright:1@sha256:{digest}");
    for base in ["BASE_IMG=chartwright:1", "BASE_IMG=localhost/chartwright:1", &pinned] {
        make("docker-push", base).good();
        make("docker-buildx", base).good();
    }
    make("docker-build", "BASE_IMG=registry.example.com/chartwright:1").good();
    let called = std::fs::read_to_string(&calls).unwrap();
    assert_eq!(called, format!("{}build\n", "push\nbuildx\nbuildx\nbuildx\n".repeat(3)));
}
