//! `chartwright migrate`: a project of operator-sdk's helm plugin becomes one of Chartwright, with its own work left as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::harness::command_line::{Said, said};
use crate::harness::site::Site;
use crate::harness::{client, control_plane, copy_dir, copy_program, create_namespace, tool};

const AGES: [&str; 3] = ["1.0", "1.20", "1.42"];
/// What the migration may change.
const CHANGED: [&str; 5] = [
    "Dockerfile",
    "Makefile",
    "config/manager/manager.yaml",
    "config/rbac/leader_election_role.yaml",
    "config/rbac/role.yaml",
];

/// A project as an earlier operator-sdk made it, with names that are nobody else's.
fn old_project(age: &str) -> Site {
    let site = Site::new();
    let data = lab::checkout().join("tests/data/operator-sdk");
    copy_dir(&data.join(age), &site.root());
    copy_dir(&data.join("chart"), &site.root().join("helm-charts/shop"));
    // The definition's file keeps its name.
    for file in files(&site).into_iter().filter(|file| !file.ends_with("config/crd/kustomization.yaml")) {
        let text = std::fs::read_to_string(&file).unwrap();
        let own = text.replace(": shop-", &format!(": {}-", site.name)).replace("example.com", &site.domain());
        std::fs::write(file, own).unwrap();
    }
    site
}

fn files(site: &Site) -> Vec<PathBuf> {
    site.tree().into_keys().map(|path| site.root().join(path)).filter(|path| path.is_file()).collect()
}

fn differing(site: &Site, before: &BTreeMap<PathBuf, Vec<u8>>) -> BTreeSet<String> {
    let now = site.tree();
    assert_eq!(now.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>(), "no file comes or goes");
    now.iter().filter(|(path, text)| before[*path] != **text).map(|(path, _)| path.display().to_string()).collect()
}

#[test]
fn a_project_of_any_age_shows_what_would_change_and_then_changes() {
    for age in AGES {
        let site = old_project(age);
        let before = site.tree();
        let shown = site.chartwright(&["migrate"]);
        assert_eq!(shown.code, 0, "{age}: {shown:?}");
        assert_eq!(shown.err, "nothing was changed; make these changes with --yes\n");
        site.is_as(&before);
        for line in [
            &format!("-FROM quay.io/operator-framework/helm-operator:v{age}.0"),
            concat!("+FROM chartwright:", env!("CARGO_PKG_VERSION")),
            "-\t$(HELM_OPERATOR) run",
            "+\t$(CHARTWRIGHT) run",
            "+            memory: 1Gi",
            "+  - customresourcedefinitions",
        ] {
            assert!(shown.out.lines().any(|found| found == line), "{age}: {line:?} is not in {}", shown.out);
        }
        for file in CHANGED {
            let reason = shown.out.lines().find(|line| line.starts_with(&format!("# {file}: ")));
            assert!(reason.is_some_and(|line| line.len() > file.len() + 20), "{age}: {file}: {}", shown.out);
        }
        let dry = site.chartwright(&["migrate", "--dry-run"]);
        assert_eq!((dry.code, &dry.out, &dry.err), (0, &shown.out, &shown.err));

        let made = site.chartwright(&["migrate", "--yes"]).good();
        assert!(made.starts_with(&shown.out) && made.contains("5 files were changed\n"), "{made}");
        assert_eq!(differing(&site, &before), CHANGED.map(str::to_owned).into());

        let after = site.tree();
        let again = site.chartwright(&["migrate", "--yes"]).good();
        assert!(again.starts_with("nothing to do: "), "{age}: {again}");
        site.is_as(&after);
    }
}

/// Without the file that says which APIs there are: it is written anew, with the same in it.
fn tree_without_project(site: &Site) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut tree = site.tree();
    tree.remove(Path::new("PROJECT"));
    tree
}

#[test]
fn a_project_of_any_age_gets_one_more_api_and_loses_it_again() {
    for age in AGES {
        let site = old_project(age);
        site.chartwright(&["migrate", "--yes"]).good();
        let before = tree_without_project(&site);
        let said = site.chartwright(&["create", "api", "--kind", "Door"]).good();
        assert!(said.contains("note: config/rbac/role.yaml was changed by somebody"), "{age}: {said}");
        let rights = site.kubectl(&["kustomize", "config/rbac"]).good();
        assert!(
            rights.contains("name: door-viewer-role\n") && rights.contains("name: manager-role\n"),
            "{age}: {rights}"
        );
        assert_eq!(site.read("watches.yaml").matches("chart: helm-charts/").count(), 2, "{age}");
        assert!(site.chartwright(&["validate"]).good().starts_with("ok"), "{age}");
        let project: Value = serde_yaml::from_str(&site.read("PROJECT")).unwrap();
        let shop = serde_json::json!({
            "api": {"crdVersion": "v1", "namespaced": true},
            "domain": site.domain(), "group": "charts", "kind": "Shop", "version": "v1",
        });
        assert_eq!((&project["version"], &project["resources"][0]), (&Value::from("3"), &shop), "{age}");

        site.chartwright(&["delete", "api", "--kind", "Door"]).good();
        assert_eq!(tree_without_project(&site), before, "{age}");
        site.chartwright(&["delete", "api", "--kind", "Shop", "--version", "v1"]).good();
        assert!(!site.read("watches.yaml").contains("kind: Shop"), "{age}");
    }
}

/// The diff is one for patch(1), reasons and notes included.
#[test]
fn the_diff_is_a_patch() {
    let (one, other) = (old_project("1.42"), old_project("1.42"));
    for file in files(&one) {
        let path = file.strip_prefix(one.root()).unwrap();
        other.file(path.to_str().unwrap(), &std::fs::read_to_string(&file).unwrap());
    }
    let patch = one.chartwright(&["migrate"]).out;
    let file = other.beside("moves.patch");
    std::fs::write(&file, patch).unwrap();
    let mut git = Command::new("git");
    git.arg("apply").arg(&file).current_dir(other.root());
    git.env("GIT_CEILING_DIRECTORIES", other.beside("")).env("HOME", other.beside("home"));
    said(git).good();
    one.chartwright(&["migrate", "--yes"]).good();
    for path in CHANGED {
        assert_eq!(one.read(path), other.read(path), "{path}");
    }
}

#[test]
fn scripts_get_the_changes_as_data() {
    let site = old_project("1.20");
    let before = site.tree();
    let data = site.chartwright(&["migrate", "-o", "json"]).json();
    site.is_as(&before);
    assert_eq!((&data["made"], &data["project"]), (&Value::from(false), &Value::from("shop")));
    let paths = data["changes"].as_array().unwrap().iter().map(|change| change["path"].as_str().unwrap().to_owned());
    assert_eq!(paths.collect::<BTreeSet<_>>(), CHANGED.map(str::to_owned).into());
    let image = "registry.example.com/chartwright:9";
    let data = site.chartwright(&["migrate", "-o", "json", "--yes", "--image", image]).json();
    assert_eq!(data["made"], true);
    assert!(site.read("Dockerfile").starts_with(&format!("FROM {image}\n")));
    let data = site.chartwright(&["migrate", "-o", "json", "--yes"]).json();
    assert_eq!((&data["made"], &data["changes"]), (&Value::from(false), &serde_json::json!([])));
}

#[test]
fn what_somebody_changed_is_left_and_named() {
    let site = old_project("1.42");
    let makefile =
        site.read("Makefile").replace("config/default | kubectl apply -f -", "config/ours | kubectl apply -f -");
    site.file("Makefile", &makefile);
    site.file("Dockerfile", "FROM registry.example.com/ours:1\nCOPY watches.yaml ./\n");
    let manager = site.read("config/manager/manager.yaml").replace("128Mi", "200Mi");
    site.file("config/manager/manager.yaml", &manager);
    let said = site.chartwright(&["migrate", "--yes"]).good();
    for words in [
        "note: Makefile: deploy was changed by somebody",
        "note: Makefile: kustomize is still downloaded, for deploy",
        "note: Dockerfile builds on registry.example.com/ours:1",
        "note: config/manager/manager.yaml limits memory to 200Mi",
    ] {
        assert!(said.contains(words), "{words:?} is not in {said}");
    }
    assert!(site.read("Makefile").contains("$(KUSTOMIZE) build config/ours | kubectl apply -f -"));
    assert_eq!(site.read("config/manager/manager.yaml"), manager);
}

#[test]
fn typed_definitions_come_on_request_with_the_names_that_were() {
    let site = old_project("1.42");
    let file = "config/crd/bases/charts.example.com_shops.yaml";
    let open = site.read(file);
    site.chartwright(&["migrate", "--yes"]).good();
    assert_eq!(site.read(file), open);
    let said = site.chartwright(&["migrate", "--yes", "--typed-crds"]).good();
    assert!(said.contains(&format!("# {file}: the fields of spec are those of the chart shop\n")), "{said}");
    let accepted =
        site.kubectl(&["apply", "--server-side", "--dry-run=server", "-k", "config/crd", "-o", "name"]).good();
    assert_eq!(
        accepted.trim(),
        format!("customresourcedefinition.apiextensions.k8s.io/shops.charts.{}", site.domain())
    );
    let again = site.chartwright(&["migrate", "--yes", "--typed-crds"]).good();
    assert!(again.starts_with("nothing to do: "), "{again}");
}

#[test]
fn what_is_no_project_of_the_helm_plugin_is_refused_and_stays() {
    let empty = Site::new();
    let complaint = empty.refused(1, &["migrate", "--yes"]);
    assert!(
        complaint.contains("no project of operator-sdk's helm plugin: there is no PROJECT file in "),
        "{complaint}"
    );
    let site = old_project("1.42");
    for (project, words) in [
        ("layout:\n- go.kubebuilder.io/v4\nversion: \"3\"\n", "PROJECT has the layout go.kubebuilder.io/v4"),
        ("version: \"2\"\n", "PROJECT has no layout"),
        ("a: b: c\n", "PROJECT cannot be read"),
    ] {
        site.file("PROJECT", project);
        let complaint = site.refused(1, &["migrate", "--yes"]);
        assert!(complaint.contains(words), "{complaint}");
    }
    let site = old_project("1.42");
    std::fs::write(site.root().join("Makefile"), b"run:\n\t\xff\n").unwrap();
    assert!(site.refused(1, &["migrate", "--yes"]).contains("Makefile is no text"));
}

/// The files come one after the other, and config/rbac is the last place.
#[test]
fn a_file_that_cannot_be_written_leaves_all_as_it_was() {
    let site = old_project("1.42");
    let before = site.tree();
    let program = site.beside("chartwright");
    copy_program(env!("CARGO_BIN_EXE_chartwright"), &program);
    let open = |path: PathBuf, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(site.beside("."), 0o755);
    for dir in [site.root(), site.root().join("config/manager")] {
        open(dir, 0o777);
    }
    open(site.root().join("config/rbac"), 0o555);
    let mut command = Command::new(&program);
    command.args(["migrate", "--yes"]).current_dir(site.root()).env_clear();
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    let said = said(command);
    assert_eq!(said.code, 1, "{said:?}");
    let complaint = "error: cannot write config/rbac/leader_election_role.yaml: Permission denied";
    assert!(said.err.starts_with(complaint) && said.err.ends_with("nothing was changed\n"), "{}", said.err);
    open(site.root().join("config/rbac"), 0o755);
    site.is_as(&before);
}

#[test]
fn of_an_early_project_only_the_base_image_changes() {
    let site = Site::new();
    site.file("watches.yaml", "- {group: a.example.com, version: v1, kind: Shop, chart: helm-charts/shop}\n");
    site.file(
        "build/Dockerfile",
        "FROM quay.io/operator-framework/helm-operator:v0.19.4\nCOPY watches.yaml ${HOME}/watches.yaml\n",
    );
    site.file("deploy/role.yaml", "kind: Role\n");
    let before = site.tree();
    let said = site.chartwright(&["migrate", "--yes"]).good();
    assert!(said.contains("note: this project is older than operator-sdk 1.0"), "{said}");
    assert_eq!(differing(&site, &before), BTreeSet::from(["build/Dockerfile".to_owned()]));
}

/// The operator, as the Deployment's pod would run: with its arguments, as its account.
struct Running(Child);

impl Running {
    fn of(site: &Site, account: &str, arguments: &[String]) -> Self {
        let text = std::fs::read_to_string(control_plane().kubeconfig()).unwrap();
        let mut kubeconfig: Value = serde_yaml::from_str(&text).unwrap();
        kubeconfig["users"][0]["user"]["as"] = format!("system:serviceaccount:{}-system:{account}", site.name).into();
        let file = site.beside("kubeconfig");
        std::fs::write(&file, kubeconfig.to_string()).unwrap();
        let log = std::fs::File::create(site.beside("log")).unwrap();
        let mut operator = lab::guard::command(env!("CARGO_BIN_EXE_chartwright")).unwrap();
        operator.args(["run", "--health-probe-bind-address=0", "--helm"]).arg(tool("helm4")).args(arguments);
        operator.current_dir(site.root()).env_clear().env("KUBECONFIG", &file);
        operator.env("POD_NAMESPACE", format!("{}-system", site.name)).env("TMPDIR", site.beside("home"));
        let operator = operator.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
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

fn make(site: &Site, arguments: &[&str]) -> Said {
    let mut make = Command::new("make");
    let path = format!("{}:{}", lab::tools_dir().display(), std::env::var("PATH").unwrap());
    make.args(arguments).current_dir(site.root()).stdin(Stdio::null()).env_clear().env("PATH", path);
    make.env("KUBECONFIG", control_plane().kubeconfig()).env("HOME", site.beside("home"));
    make.env("CHARTWRIGHT", env!("CARGO_BIN_EXE_chartwright"));
    said(make)
}

/// The arguments of the manager, but for where metrics are served.
fn arguments(site: &Site) -> Vec<String> {
    let text = site.read("config/manager/manager.yaml");
    let flags = text.lines().filter_map(|line| line.trim().strip_prefix("- "));
    let mut flags: Vec<String> =
        flags.map(|flag| flag.trim_matches('"').to_owned()).filter(|flag| flag.starts_with("--")).collect();
    flags.push("--metrics-bind-address=0".to_owned());
    flags
}

/// `account` is without the project's name.
async fn reconciles(age: &str, account: &str) {
    let site = old_project(age);
    site.chartwright(&["migrate", "--yes"]).good();
    let dry = make(&site, &["-n", "run"]).good();
    assert!(dry.ends_with(&format!("{} run\n", env!("CARGO_BIN_EXE_chartwright"))), "{dry}");
    let image = "IMG=registry.example.com/shop:2";
    let deployed = make(&site, &["deploy", image]);
    assert_eq!(deployed.code, 0, "{age}: {deployed:?}");
    let system = format!("{}-system", site.name);
    let images =
        ["get", "deployment", "-n", &system, "-o", "jsonpath={.items[*].spec.template.spec.containers[*].image}"];
    assert_eq!(site.kubectl(&images).good(), "registry.example.com/shop:2");

    // The default account has its name from Kubernetes, the others have the project's in front.
    let account = if account == "default" { account.to_owned() } else { format!("{}-{account}", site.name) };
    let operator = Running::of(&site, &account, &arguments(&site));
    let namespace = format!("{}-use", site.name);
    create_namespace(&client().await, &namespace).await;
    let shop = format!(
        "apiVersion: charts.{}/v1\nkind: Shop\nmetadata:\n  name: corner\n  namespace: {namespace}\nspec:\n  colour: red\n",
        site.domain()
    );
    let file = site.file("corner.yaml", &shop);
    site.kubectl(&["apply", "-f", file.to_str().unwrap()]).good();
    let resource = format!("shops.charts.{}/corner", site.domain());
    let waited = site.kubectl(&["wait", "-n", &namespace, "--for=condition=Ready", "--timeout=60s", &resource]);
    let log = std::fs::read_to_string(site.beside("log")).unwrap();
    assert_eq!(waited.code, 0, "{age}: {waited:?}\n{log}");
    let colour = ["get", "configmap", "corner-door", "-n", &namespace, "-o", "jsonpath={.data.colour}"];
    assert_eq!(site.kubectl(&colour).good(), "red");
    assert!(!log.contains("is forbidden: User"), "{age}: {log}");
    site.kubectl(&["delete", "-n", &namespace, "--timeout=60s", &resource]).good();
    drop(operator);
    let removed = make(&site, &["undeploy", image]);
    assert_eq!(removed.code, 0, "{age}: {removed:?}");
}

#[tokio::test]
async fn the_operator_of_a_first_project_works_with_the_rights_it_has_then() {
    reconciles("1.0", "default").await;
}

#[tokio::test]
async fn the_operator_of_a_late_project_works_with_the_rights_it_has_then() {
    reconciles("1.42", "controller-manager").await;
}
