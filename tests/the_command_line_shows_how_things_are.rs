//! `chartwright status` shows all custom resources, or one down to its pods; `chartwright support-bundle` packs it all, without secrets.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::command_line::{said, unpacked};
use crate::harness::{Project, chartwright, config, control_plane, tool, until};

fn deployment(name: &str, behaviour: &str) -> Value {
    let labels = json!({"app": name, "lab.chartwright.dev/behaviour": behaviour});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "i"}]}}}})
}

/// The rows of a table, as words.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[tokio::test]
async fn all_are_in_one_table_and_one_is_shown_down_to_its_pods() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue"), deployment("web", "")]})).await;
    project.apply("bad", json!({"objects": [deployment("bad", "pull-error")]})).await;
    project.label("web", "team", "shop").await;
    let web = project.named("web");

    // Waiting ends with the deployment, and says so by the exit code.
    assert!(project.cli(&["status", &web, "--wait=60s"]).good().contains("Ready      yes"));
    project.not_ready("bad", "Progressing").await;
    let late = project.cli(&["status", &project.named("bad"), "--wait=1s"]);
    assert_eq!(late.code, 1, "{late:?}");

    // A repair is counted, and nothing else is.
    project.configs().delete("web", &DeleteParams::default()).await.unwrap();
    project.told("web", "one repair", |status| (status["repairs"]["count"] == 1).then_some(())).await;

    let table = project.cli(&["status"]).good();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(words(lines[0]), ["KIND", "NAME", "RELEASE", "REVISION", "READY", "REPAIRS", "AGE", "LAST", "ERROR"]);
    let row = |name: &str| words(lines.iter().find(|line| words(line)[1] == name).unwrap());
    assert_eq!(row("web")[..6], ["App", "web", "web", "1", "True", "1"], "{table}");
    assert_eq!(row("bad")[..6], ["App", "bad", "bad", "1", "False", "0"], "{table}");
    assert!(table.contains("Progressing: Deployment"), "{table}");
    let one = project.cli(&["status", "-l", "team=shop", "--no-headers", "-o", "wide"]).good();
    assert!(one.lines().count() == 1 && one.contains("2/2"), "{one}");
    let data = project.cli(&["status", "-o", "json"]).json();
    assert_eq!(data.as_array().unwrap().len(), 2);
    assert_eq!((&data[1]["name"], &data[1]["ready"], &data[1]["repairs"]), (&json!("web"), &json!("True"), &json!(1)));

    let shown = project.cli(&["status", &project.named("bad")]).good();
    for part in [
        "Ready      no: Progressing",
        "revision 1: deployed",
        "└─ Deployment bad",
        "   └─ ReplicaSet bad-",
        "      └─ Pod bad-",
    ] {
        assert!(shown.contains(part), "{part:?} is missing:\n{shown}");
    }
    assert!(shown.contains("cannot pull image"), "the pod says why:\n{shown}");
    assert!(!shown.contains('\x1b'), "no colours in a pipe");
    assert!(project.cli(&["status", &web, "--color", "always"]).good().contains("\x1b[32mCurrent"));
    let data = project.cli(&["status", &project.named("bad"), "-o", "json"]).json();
    let pod = &data["objects"][0]["children"][0]["children"][0];
    assert_eq!((&pod["kind"], &pod["reason"]), (&json!("Pod"), &json!("ImagePullBackOff")), "{data:#}");
}

#[tokio::test]
async fn without_a_project_the_kinds_are_found_by_the_operators_mark() {
    let project = Project::of_objects().await;
    let operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.deployed("web").await;
    drop(operator);
    let elsewhere = tempfile::tempdir().unwrap();
    let mut command = chartwright();
    command.args(["status", "--namespace", &project.namespace, "--no-headers"]).current_dir(elsewhere.path());
    let table = said({
        command.env("KUBECONFIG", control_plane().kubeconfig());
        command
    });
    assert_eq!((table.code, words(&table.out)[..5].to_vec()), (0, vec!["App", "web", "web", "1", "True"]), "{table:?}");
}

#[tokio::test]
async fn who_watches_sees_a_line_for_each_change() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.deployed("web").await;
    let mut command = project.command_line(&["status", &project.named("web"), "--watch"]);
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = std::sync::Arc::new(std::sync::Mutex::new(vec![]));
    let (kept, out) = (lines.clone(), BufReader::new(process.stdout.take().unwrap()));
    let reader =
        std::thread::spawn(move || out.lines().map_while(Result::ok).for_each(|line| kept.lock().unwrap().push(line)));
    let has = async |what: &str| {
        until(&format!("{what} is printed"), async || {
            lines.lock().unwrap().iter().any(|it| it.contains(what)).then_some(())
        })
        .await;
    };
    has("ConfigMap").await;
    let before = lines.lock().unwrap().len();
    project.apply("web", json!({"objects": [config("web", "blue"), config("more", "red")]})).await;
    has("revision 2").await;
    has(&format!("ConfigMap {}/more Current", project.namespace)).await;
    assert!(lines.lock().unwrap().len() < before + 10, "{:?}", lines.lock().unwrap());
    project.delete("web").await;
    has("is gone").await;
    assert!(process.wait().unwrap().success());
    reader.join().unwrap();
}

#[tokio::test]
async fn a_support_bundle_holds_everything_but_secrets() {
    let project = Project::of_objects().await;
    project.watch_with(
        "overrideValues: {image: override-me}\nvaluesFrom:\n- {kind: Secret, name: values, optional: true}",
    );
    let _operator = project.run();
    // What the chart gets, what it renders, what the log of a pod prints, and what a person wrote into a spec.
    let secret = |name: &str, key: &str, value: &str| {
        json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": project.namespace}, "stringData": {key: value}})
    };
    project.create(secret("values", "values.yaml", "database: {password: from-elsewhere-9}")).await;
    project.create(secret("printed", "line", "printed by a kwok pod")).await;
    let mut rendered = secret("login", "password", "rendered-secret-7");
    rendered["metadata"].as_object_mut().unwrap().remove("namespace");
    let twice = STANDARD.encode(STANDARD.encode("rendered-secret-7"));
    let told = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "told"},
        "data": {"url": "db://me:rendered-secret-7@host", "twice": twice}});
    // What a person wrote beside a name is told by the notes, and what another tool remembers is packed.
    project.template("NOTES.txt", "It is {{ (index .Values.extraEnv 0).value }}.");
    project
        .apply(
            "web",
            json!({"apiToken": "plain-token-5", "extraEnv": [{"name": "DB_PASSWORD", "value": "beside-a-name-8"}],
                "objects": [rendered, told, deployment("web", "")]}),
        )
        .await;
    project.annotate("web", "kapp.k14s.io/original", "remembered-6").await;
    project.condition("web", "Ready", "True").await;
    assert!(says(&project, "It is beside-a-name-8").await, "there is something to mask");

    let operator = format!("{}/web", project.namespace);
    let bundle = |more: &[&str]| {
        let mut command = chartwright();
        command.args(["support-bundle", "-o", "a.tgz", "--deployment", &operator]).args(more);
        // An administrator too, under a name by which the audit log tells the calls.
        command.env("KUBECONFIG", project.dir().join("kubeconfig")).env("CHARTWRIGHT_HELM", tool("helm4"));
        command.current_dir(project.dir());
        said(command)
    };
    let since = Timestamp::now();
    let said = bundle(&[]).good();
    let logs = until("the audit log tells of the logs", async || {
        let calls = project.calls_since(since).into_iter().filter(|call| call.contains("/log?"));
        Some(calls.collect::<Vec<_>>()).filter(|calls| !calls.is_empty())
    });
    for log in logs.await {
        assert!(log.contains("limitBytes=4194304"), "{log}");
    }
    for part in ["a.tgz holds:", "/web/history.yaml", "missing.txt says why", "look at it before you give it away"] {
        assert!(said.contains(part), "{part:?} is missing:\n{said}");
    }
    let path = project.dir().join("a.tgz");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(bundle(&[]).complaint(1).contains("--force"));
    bundle(&["--force"]).good();

    let files = unpacked(&std::fs::read(&path).unwrap());
    let at = |name: &str| format!("resources/{}/App.{}/web/{name}", project.namespace, project.resource.group);
    for name in [
        "versions.yaml",
        "watches.yaml",
        "charts/App.yaml",
        "status.txt",
        "operator/deployment.yaml",
        "operator/rights.yaml",
        "operator/leases.yaml",
        "missing.txt",
        &format!("events/{}.yaml", project.namespace),
        &at("resource.yaml"),
        &at("history.yaml"),
        &at("status.txt"),
        &at("tree.yaml"),
    ] {
        assert!(files.contains_key(name), "{name} is missing: {:?}\n{}", files.keys(), files["missing.txt"]);
    }
    let log = files.iter().find(|(path, _)| path.starts_with("operator/logs/")).expect("a log").1;
    assert!(log.contains("a line ***"), "{log}");
    for value in [
        "from-elsewhere-9",
        "rendered-secret-7",
        "printed by a kwok pod",
        "plain-token-5",
        "override-me",
        "beside-a-name-8",
        "remembered-6",
    ] {
        let once = STANDARD.encode(value);
        let forms = [value.to_owned(), once.trim_end_matches('=').to_owned(), STANDARD.encode(&once), hex(value)];
        for (path, text) in &files {
            for form in &forms {
                assert!(!text.contains(form.as_str()), "{path} has {value} as {form}:\n{text}");
            }
        }
    }
    assert!(files[&at("resource.yaml")].contains("db://me:***@host"), "{}", files[&at("resource.yaml")]);
    assert!(files[&at("tree.yaml")].contains("kind: Pod"));
}

/// Whether the status of `web` has these words.
async fn says(project: &Project, words: &str) -> bool {
    project.status("web").await.to_string().contains(words)
}

/// A kubeconfig of somebody who may read custom resources and objects in the project's namespace, and nothing else: no Secrets, no
/// watches.
async fn of_a_reader(project: &Project) -> PathBuf {
    let name = format!("reader-of-{}", project.namespace);
    let rule = |group: &str, resources: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": ["get", "list"]});
    let rules = [
        rule(&project.resource.group, &["*"]),
        rule("", &["configmaps", "pods", "pods/log"]),
        rule("apps", &["*"]),
        rule("events.k8s.io", &["*"]),
    ];
    let rbac = "rbac.authorization.k8s.io";
    let metadata = json!({"name": "reader", "namespace": project.namespace});
    let version = format!("{rbac}/v1");
    project.create(json!({"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": rules})).await;
    project
        .create(json!({"apiVersion": version, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "reader"},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": name}]}))
        .await;
    let text = std::fs::read_to_string(project.plane().kubeconfig()).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    let user = &mut config["users"][0]["user"];
    (user["as"], user["as-groups"]) = (name.into(), json!(["system:authenticated"]));
    let path = project.dir().join("reader");
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

#[tokio::test]
async fn who_may_not_read_secrets_gives_none_away() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.template("NOTES.txt", "your password is {{ .Values.word }}");
    project
        .apply("web", json!({"word": "noted-secret-3", "objects": [config("web", "blue"), deployment("web", "")]}))
        .await;
    project.condition("web", "Ready", "True").await;
    assert!(says(&project, "your password is noted-secret-3").await, "there is something to give away");
    project.annotate("web", "chartwright.dev/note", "noted-secret-3").await;
    let reader = of_a_reader(&project).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let call = |arguments: &[&str]| {
        let mut command = chartwright();
        command.args(arguments).args(["--namespace", &project.namespace]).current_dir(elsewhere.path());
        command.env("KUBECONFIG", &reader).env("CHARTWRIGHT_HELM", tool("helm4"));
        said(command)
    };

    // Rights in one namespace are enough to find what is in it.
    let table = call(&["status", "--no-headers"]);
    assert_eq!((table.code, words(&table.out)[..2].to_vec()), (0, vec!["App", "web"]), "{table:?}");

    let operator = format!("{}/web", project.namespace);
    let said = call(&["support-bundle", "-o", "a.tgz", "--deployment", &operator]);
    assert_eq!(said.code, 0, "{said:?}");
    let files = unpacked(&std::fs::read(elsewhere.path().join("a.tgz")).unwrap());
    for (path, text) in &files {
        assert!(!text.contains("noted-secret-3"), "{path}:\n{text}");
    }
    let at = |name: &str| format!("resources/{}/App.{}/web/{name}", project.namespace, project.resource.group);
    assert!(files[&at("resource.yaml")].contains("type: Deployed"), "{}", files[&at("resource.yaml")]);
    assert!(files[&at("tree.yaml")].contains("kind: ConfigMap"), "{}", files[&at("tree.yaml")]);
    assert!(files["status.txt"].contains("web"));
    assert!(
        !files.keys().any(|path| path.starts_with("events/") || path.starts_with("operator/logs/")),
        "{:?}",
        files.keys()
    );
    assert!(files["missing.txt"].contains("not all Secrets could be read"), "{}", files["missing.txt"]);
}

#[tokio::test]
async fn who_may_not_watch_sees_all_the_same_when_it_is_ready() {
    let project = Project::of_objects().await;
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    let reader = of_a_reader(&project).await;
    let mut command = project.command_line(&["status", &project.named("web"), "--wait=60s"]);
    command.env("KUBECONFIG", &reader).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut waiting = command.spawn().unwrap();
    let mut notes = BufReader::new(waiting.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(notes.any(|note| note.contains("cannot be watched now")), "it waits, and has nobody to tell it");
    let _operator = project.run();
    let rest = std::thread::spawn(move || notes.count());
    assert!(waiting.wait().unwrap().success());
    rest.join().unwrap();
}

#[tokio::test]
async fn a_record_that_cannot_be_read_makes_a_bundle_silent() {
    let project = Project::of_objects().await;
    let operator = project.run();
    project.apply("web", json!({"objects": [deployment("web", "")]})).await;
    project.condition("web", "Ready", "True").await;
    drop(operator);
    let record = "sh.helm.release.v1.web.v1";
    let broken = Patch::Merge(json!({"data": {"release": STANDARD.encode("no record")}}));
    let secrets = project.objects("v1", "Secret", Some(&project.namespace));
    secrets.patch(record, &PatchParams::default(), &broken).await.unwrap();
    let mut command = chartwright();
    command.args(["support-bundle", "-o", "a.tgz", "--deployment", &format!("{}/web", project.namespace)]);
    command.env("KUBECONFIG", control_plane().kubeconfig()).env("CHARTWRIGHT_HELM", tool("helm4"));
    command.current_dir(project.dir());
    said(command).good();
    let files = unpacked(&std::fs::read(project.dir().join("a.tgz")).unwrap());
    assert!(files["missing.txt"].contains("web/history.yaml"), "{}", files["missing.txt"]);
    assert!(files["missing.txt"].contains("not all records of releases"), "{}", files["missing.txt"]);
    let is_told = |path: &String| path.starts_with("events/") || path.starts_with("operator/logs/");
    assert!(!files.keys().any(is_told), "{:?}", files.keys());
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}
