//! What is shipped: images by digest, a network policy, metrics that can be verified, probes that name nothing.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::Api;
use serde_json::{Value, json};

use crate::harness::asking::{get_by_tls, get_verified};
use crate::harness::command_line::{Said, said};
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
    assert_eq!(spec["policyTypes"], json!(["Ingress"]), "the API server and DNS stay within reach");
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
    assert_eq!(tls["ca"]["configMap"], json!({"name": NAME, "key": "ca.crt"}));
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

#[test]
fn the_default_manifests_restrict_the_pod() {
    let objects = kustomized(&lab::checkout().join("config/default"));
    let namespace = &of_kind(&objects, "Namespace")[0]["metadata"];
    assert_eq!(namespace["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
    let deployment = of_kind(&objects, "Deployment")[0];
    assert_eq!(deployment["metadata"]["namespace"], namespace["name"]);
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(
        (&pod["securityContext"]["runAsUser"], &pod["securityContext"]["runAsNonRoot"]),
        (&json!(65532), &json!(true))
    );
    let context = &pod["containers"][0]["securityContext"];
    assert_eq!(context["readOnlyRootFilesystem"], true);
    assert_eq!(
        (&context["capabilities"], &context["allowPrivilegeEscalation"]),
        (&json!({"drop": ["ALL"]}), &json!(false))
    );
}

/// The instructions of a Dockerfile, in words.
fn instructions(dockerfile: &str) -> Vec<Vec<String>> {
    let text: String =
        dockerfile.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    let lines = text.replace("\\\n", " ");
    lines
        .lines()
        .map(|line| line.split_whitespace().map(str::to_owned).collect())
        .filter(|it: &Vec<_>| !it.is_empty())
        .collect()
}

/// The images that a Dockerfile takes by anything but a digest, with the defaults of its arguments.
fn unpinned(dockerfile: &str) -> Vec<String> {
    let (mut stages, mut defaults) = (vec!["scratch".to_owned()], HashMap::new());
    let mut found = vec![];
    for words in instructions(dockerfile) {
        let is_flag = |word: &&String| word.starts_with("--");
        let from = words.iter().filter(is_flag).find_map(|flag| flag.strip_prefix("--from="));
        let arguments: Vec<&String> = words.iter().skip(1).filter(|word| !is_flag(word)).collect();
        let image = match words[0].to_ascii_uppercase().as_str() {
            "ARG" => {
                let default = arguments[0].split_once('=');
                defaults.extend(default.map(|(name, text)| (name.to_owned(), text.trim_matches('"').to_owned())));
                continue;
            }
            "FROM" => arguments[0].as_str(),
            "COPY" => from.unwrap_or("scratch"),
            _ => continue,
        };
        let argument = image.strip_prefix('$').map(|name| name.trim_matches(['{', '}']));
        let image = argument.map_or(image, |name| defaults.get(name).map_or(image, String::as_str)).to_owned();
        let digest = image.split_once("@sha256:").map(|(_, digest)| digest);
        let is_pinned = digest.is_some_and(|it| it.len() == 64 && it.chars().all(|c| c.is_ascii_hexdigit()));
        if !is_pinned && !stages.contains(&image) {
            found.push(image);
        }
        if words[0].eq_ignore_ascii_case("FROM") {
            stages.extend(arguments.get(2).map(|name| (*name).clone()));
        }
    }
    found
}

#[test]
fn base_images_are_named_by_digest() {
    let root = lab::checkout();
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "*Dockerfile*"]).current_dir(&root);
    let listed = String::from_utf8(git.output().unwrap().stdout).unwrap();
    let listed: Vec<&str> = listed.lines().filter(|path| !path.starts_with("tests/data/")).collect();
    let template = "src/scaffold/templates/project/Dockerfile";
    assert!(["Dockerfile", template].iter().all(|path| listed.contains(path)), "{listed:?}");
    for path in listed {
        let text = std::fs::read_to_string(root.join(path)).unwrap();
        // Whoever makes a project builds this image: nobody knows its digest before.
        let local: &[&str] = if path == template { &["chartwright:@version@"] } else { &[] };
        assert_eq!(unpinned(&text), local, "{path}");
    }
    let digest = "0".repeat(64);
    let text = format!(
        "ARG A=r/a:1\nARG B=b@sha256:{digest}\nARG C\nFROM a:1 AS b\nfrom --platform=x c:2@sha256:{digest} as d\nFROM b\nFROM d\n\
         FROM scratch\nFROM e@sha256:12\nFROM ${{A}}\nFROM $B\nFROM ${{C}}\nCOPY --from=d x y\nCOPY --from=f:1 \\\n  x y\nCOPY x y\n"
    );
    assert_eq!(unpinned(&text), ["a:1", "e@sha256:12", "r/a:1", "${C}", "f:1"]);
}

#[test]
fn the_image_holds_the_program_helm_and_the_charts_alone() {
    let text = std::fs::read_to_string(lab::checkout().join("Dockerfile")).unwrap();
    let (mut bare, mut is_bare) = (vec!["scratch".to_owned()], false);
    for words in instructions(&text) {
        let line = words.join(" ");
        match words[0].as_str() {
            "FROM" => {
                is_bare = bare.contains(&words[1]);
                bare.extend(words.get(3).filter(|_| is_bare).cloned());
            }
            "COPY" if is_bare => {
                let is_meant = [
                    "COPY dist/root /",
                    "COPY dist/chartwright dist/helm /usr/local/bin/",
                    "COPY --from=helm /root-tree /",
                    "COPY --from=chartwright /src/target/release/chartwright /usr/local/bin/",
                    "COPY --from=helm /out/helm /usr/local/bin/",
                    "COPY watches.yaml ./",
                    "COPY helm-charts ./helm-charts",
                ];
                assert!(is_meant.contains(&line.as_str()), "{line}");
            }
            instruction if is_bare => {
                assert!(["ENV", "WORKDIR", "USER", "ENTRYPOINT"].contains(&instruction), "{line}");
            }
            _ => {}
        }
    }
    assert!(is_bare, "the last stage, which is the image, begins with nothing");
}

#[test]
fn no_code_may_be_unsafe() {
    let read = |path: &str| std::fs::read_to_string(lab::checkout().join(path)).unwrap();
    let workspace = read("Cargo.toml");
    assert!(workspace.contains("[workspace.lints.rust]\nunsafe_code = \"forbid\"\n"));
    let members = workspace.lines().find_map(|line| line.strip_prefix("members = ")).unwrap();
    let members = members.split('"').skip(1).step_by(2).map(|member| format!("{member}/Cargo.toml"));
    for manifest in members.chain(["Cargo.toml".to_owned()]) {
        assert!(read(&manifest).contains("[lints]\nworkspace = true\n"), "{manifest}");
    }
}

/// A machine without the advisory database, which nobody can fetch there.
struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    /// Its cargo notes how it is called.
    fn with_cargo_deny() -> Self {
        let machine = Machine::without_cargo_deny();
        let log = machine.dir.path().join("calls");
        let script = format!(
            "#!/bin/sh\necho \"$*\" >> {}\ncase \"$*\" in *'fetch db') echo 'no route to host' >&2; exit 1;; esac\n",
            log.display()
        );
        machine.file("bin/cargo", &script);
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(machine.dir.path().join("bin/cargo"), executable).unwrap();
        machine
    }

    fn without_cargo_deny() -> Self {
        Machine { dir: tempfile::tempdir().unwrap() }
    }

    fn file(&self, path: &str, text: &str) -> std::fs::File {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::File::options().write(true).open(path).unwrap()
    }

    /// A copy of the database that was fetched so many days ago.
    fn with_copy_of(self, days: u64) -> Self {
        let fetched = self.file("cargo/advisory-dbs/github.com-0/.git/FETCH_HEAD", "");
        // An hour for the days that a run of this test goes over.
        let age = Duration::from_secs(days * 24 * 60 * 60 + 60 * 60);
        fetched.set_modified(SystemTime::now() - age).unwrap();
        self
    }

    fn deny(&self) -> Said {
        let (home, script) = (self.dir.path(), lab::checkout().join("lab/deny.sh"));
        let mut command = Command::new("bash");
        command.arg(script).env_clear().env("HOME", home).env("CARGO_HOME", home.join("cargo"));
        command.env("PATH", format!("{}:/usr/bin:/bin", home.join("bin").display()));
        said(command)
    }

    fn calls(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("calls")).unwrap()
    }
}

#[test]
fn advisories_that_cannot_be_checked_are_an_error() {
    for (machine, why) in [
        (Machine::without_cargo_deny(), "without cargo-deny"),
        (Machine::with_cargo_deny(), "there is no copy of it: no route to host"),
    ] {
        let said = machine.deny();
        assert_eq!(said.code, 1, "{said:?}");
        assert!(
            said.err.lines().count() == 1 && said.err.starts_with("deny: error: advisories cannot be checked"),
            "{said:?}"
        );
        assert!(said.err.contains(why), "{said:?}");
    }
}

#[test]
fn an_old_copy_of_the_advisories_is_an_error() {
    let machine = Machine::with_cargo_deny().with_copy_of(15);
    let said = machine.deny();
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.err.lines().count() == 1 && said.err.contains("its copy is 15 days old: no route to host"),
        "{said:?}"
    );
    assert!(!machine.calls().contains("advisories"), "{}", machine.calls());
}

#[test]
fn a_young_copy_of_the_advisories_is_used() {
    let machine = Machine::with_cargo_deny().with_copy_of(14);
    let said = machine.deny().good();
    assert!(said.contains("using its copy, which is 14 days old"), "{said}");
    let calls = machine.calls();
    assert!(calls.ends_with("deny --all-features check --disable-fetch advisories\n"), "{calls}");
    assert!(calls.contains("bans licenses sources"), "the rest is checked as well: {calls}");
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
