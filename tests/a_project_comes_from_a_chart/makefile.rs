//! The targets of a project's Makefile.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::harness::command_line::said;
use crate::harness::site::Site;

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
        let words = "error: there is no API yet: chartwright create api --helm-chart CHART\nmake: ";
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
                   operator-sdk bundle bundle-build bundle-push opm catalog-build catalog-push build-installer kind-load docker-build-base";
    for target in targets.split_whitespace() {
        let dry = site.make(&["-n", target, "IMG=registry.example.com/shop:1", "CHARTWRIGHT_SOURCE=../chartwright"]);
        assert_eq!(dry.code, 0, "{target}: {dry:?}");
    }
    let image = site.make(&["-n", "docker-build", "IMG=registry.example.com/shop:1", "BASE_IMG=base:2"]).good();
    assert!(
        image.ends_with("\ndocker build --build-arg BASE_IMAGE=base:2 -t registry.example.com/shop:1 .\n"),
        "{image}"
    );
    let loaded = site.make(&["-n", "kind-load", "IMG=shop:1", "KIND_CLUSTER=two"]).good();
    assert_eq!(loaded.trim(), "kind load docker-image shop:1 --name two");
    let help = site.make(&["help"]).good();
    assert!(help.contains("build-installer") && help.contains("undeploy"), "{help}");
    for (target, words) in [("bundle", "chartwright has no command `bundle`"), ("bundle-build", "make bundle")] {
        let refused = site.make(&[target]);
        assert!(refused.code != 0 && refused.err.contains(words), "{target}: {refused:?}");
    }
}

/// This repository is an operator project too, but for how its image and its program are built.
#[test]
fn shared_targets_run_the_same_commands_in_this_repository() {
    let site = Site::initialised();
    site.chartwright(&["create", "api", "--kind", "Shop"]).good();
    let shared = ["install", "uninstall", "deploy", "undeploy", "build-installer", "kind-load", "docker-build-base"];
    for target in shared {
        for image in ["IMG=controller:latest", "IMG=registry.example.com/shop:1"] {
            let arguments =
                ["-n", target, image, "BASE_IMG=base:1", "CHARTWRIGHT_SOURCE=.", "KUBECTL=kubectl", "TIMEOUT=5s"];
            let mut here = Command::new("make");
            here.args(arguments).args(["NEEDED_TOOLS="]).current_dir(lab::checkout()).env_clear();
            here.env("PATH", std::env::var_os("PATH").unwrap_or_default());
            assert_eq!(said(here).good(), site.make(&arguments).good(), "{target} {image}");
        }
    }
}

#[test]
fn deploy_says_what_it_does_in_one_sentence() {
    let site = Site::initialised();
    site.chartwright(&["create", "api", "--kind", "Shop"]).good();
    for (image, words) in [
        ("IMG=registry.example.com/shop:1", "Deploying the operator with the image registry.example.com/shop:1\n"),
        ("IMG=controller:latest", "Deploying the operator with the image that config/manager names\n"),
    ] {
        let deployed = site.make(&["deploy", image]).good();
        let rest = deployed.strip_prefix(words).unwrap_or_else(|| panic!("{deployed}"));
        assert!(rest.lines().all(|line| line.ends_with(" serverside-applied")), "{deployed}");
    }
    let removed = site.make(&["undeploy"]);
    assert_eq!(removed.code, 0, "{removed:?}");
}

/// A container tool that logs its calls. `script` decides how they end.
fn container_tool(site: &Site, script: &str) -> String {
    let (calls, tool) = (site.beside("calls"), site.beside("docker"));
    std::fs::write(&tool, format!("#!/bin/sh\necho \"$*\" >> {}\n{script}\n", calls.display())).unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("CONTAINER_TOOL={}", tool.display())
}

#[test]
fn a_missing_base_image_is_explained_with_its_remedy() {
    let site = Site::initialised();
    let calls = || {
        let calls = std::fs::read_to_string(site.beside("calls")).unwrap_or_default();
        // Nobody may have called it.
        let _ = std::fs::remove_file(site.beside("calls"));
        calls
    };
    let version = env!("CARGO_PKG_VERSION");
    let missing = container_tool(&site, "[ \"$1\" != inspect ]");
    for base in [format!("chartwright:{version}"), "localhost/chartwright:1".to_owned()] {
        let refused = site.make(&["docker-build", &missing, &format!("BASE_IMG={base}")]);
        let words =
            format!("error: the base image {base} is not on this machine; build it with `make docker-build-base ");
        assert!(refused.code != 0 && refused.err.starts_with(&words), "{refused:?}");
        assert!(!calls().contains("build "), "nothing is built");
    }
    // One of a registry is pulled, and one that is there is used.
    site.make(&["docker-build", &missing, "BASE_IMG=registry.example.com/chartwright:1"]).good();
    assert_eq!(calls(), "build --build-arg BASE_IMAGE=registry.example.com/chartwright:1 -t controller:latest .\n");
    site.make(&["docker-build", &container_tool(&site, "")]).good();
    let inspected = format!("inspect --type image chartwright:{version}\n");
    assert!(calls().starts_with(&inspected));
    // A tool that does not work says so itself.
    let broken = site.make(&["docker-build", &container_tool(&site, "echo 'no daemon' >&2; exit 1")]);
    assert!(broken.code != 0 && broken.err.starts_with("no daemon\nmake: "), "{broken:?}");

    calls();
    let tool = container_tool(&site, "");
    let unnamed = site.make(&["docker-build-base", &tool]);
    assert!(unnamed.code != 0 && unnamed.err.contains("CHARTWRIGHT_SOURCE=../chartwright"), "{unnamed:?}");
    site.make(&["docker-build-base", &tool, "CHARTWRIGHT_SOURCE=../chartwright"]).good();
    assert_eq!(calls(), format!("build --target operator -t chartwright:{version} ../chartwright\n"));
}

#[test]
fn no_image_is_pushed_that_is_built_on_a_tag_of_a_registry() {
    let site = Site::initialised();
    let (calls, tool) = (site.beside("calls"), container_tool(&site, ""));
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
    let verbs: Vec<&str> = called.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(verbs.join(" "), format!("{}build", "push buildx buildx buildx ".repeat(3)));
}
