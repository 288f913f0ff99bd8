//! Our release records in the eyes of helm 3 and helm 4, and theirs in ours.

use std::process::{Command, Stdio};

use chartwright::calls::Calls;
use chartwright::object::ObjectId;
use chartwright::release::{Applied, HookPhase, HookRecord, HookRun, Own, Release, Status, Store, StoreError, Stored};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::{Project, control_plane, tool};

const BOTH: [&str; 2] = ["helm3", "helm4"];

const HOOK: &str = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate}\n";

/// What a helm program prints when it works in the project's namespace. It must succeed.
fn helm(program: &str, project: &Project, arguments: &[&str]) -> String {
    let output = Command::new(tool(program))
        .args(arguments)
        .args(["--namespace", &project.namespace])
        .env_clear()
        .env("KUBECONFIG", control_plane().kubeconfig())
        .env("HOME", project.dir())
        .current_dir(project.dir())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (said, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {said}{errors}");
    said
}

fn helm_json(program: &str, project: &Project, arguments: &[&str]) -> Value {
    serde_json::from_str(&helm(program, project, &[arguments, &["--output", "json"]].concat())).unwrap()
}

fn manifest(colour: &str) -> String {
    format!(
        "---\n# Source: app/templates/config.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: colours\ndata:\n  colour: {colour}\n"
    )
}

fn release(project: &Project, name: &str, revision: u32, status: Status) -> Release {
    let id = ObjectId {
        group: String::new(),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        namespace: Some(project.namespace.clone()),
        name: "colours".into(),
    };
    Release {
        name: name.into(),
        namespace: project.namespace.clone(),
        revision,
        status,
        // The version is a number in many a Chart.yaml.
        chart: json!({"apiVersion": "v2", "name": "app", "version": "0.1.0", "appVersion": 1.16}),
        defaults: json!({"shade": "dark"}).into(),
        config: json!({"colour": "green", "big": 5_000_000}).into(),
        manifest: manifest("green").into(),
        hooks: vec![],
        notes: "".into(),
        description: format!("This is {}", status.as_str()),
        first_deployed: "2026-11-16T12:00:00.123456789Z".parse().unwrap(),
        last_deployed: "2026-11-16T13:00:00Z".parse().unwrap(),
        own: Some(Own { digest: "d1".into(), objects: vec![Applied::new(id, None)], ..Default::default() }),
        claimed: None,
        proof: Default::default(),
        stored: Stored::default(),
    }
}

/// Where helm and we look for what is in the cluster.
fn colours(project: &Project) -> Api<ConfigMap> {
    Api::namespaced(project.client.clone(), &project.namespace)
}

async fn colour(project: &Project) -> Option<String> {
    colours(project).get_opt("colours").await.unwrap()?.data?.remove("colour")
}

/// Applies the manifest's object as the operator does.
async fn apply(project: &Project, release: &str, colour: &str) {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "colours",
            "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "annotations": {
                "meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": project.namespace,
            },
        },
        "data": {"colour": colour},
    });
    let params = PatchParams::apply("helm").force();
    colours(project).patch("colours", &params, &Patch::Apply(object)).await.unwrap();
}

/// Two revisions of `web`; `broken` failed; `starting` is not done.
async fn record_all(project: &Project, store: &Store) {
    let first = store.create(&release(project, "web", 1, Status::PendingInstall)).await.unwrap();
    let first = store.update(&first.with_status(Status::Deployed, "Install complete")).await.unwrap();
    let hook = HookRecord {
        name: "migrate".into(),
        kind: "Job".into(),
        path: "app/templates/job.yaml".into(),
        manifest: HOOK.into(),
        events: vec!["pre-upgrade".into()],
        weight: -5,
        delete_policies: vec!["before-hook-creation".into()],
        last_run: HookRun {
            started_at: Some("2026-11-16T12:59:00Z".parse().unwrap()),
            completed_at: None,
            phase: HookPhase::Running,
        },
        ..Default::default()
    };
    let second = release(project, "web", 2, Status::Deployed);
    let second = Release { hooks: vec![hook], notes: "Have fun with green.".into(), ..second };
    store.create(&second).await.unwrap();
    store.update(&first.with_status(Status::Superseded, "Upgraded")).await.unwrap();
    store.create(&release(project, "broken", 1, Status::Failed)).await.unwrap();
    store.create(&release(project, "starting", 1, Status::PendingInstall)).await.unwrap();
}

#[tokio::test]
async fn helm_lists_and_shows_what_we_recorded() {
    let project = Project::new("App").await;
    record_all(&project, &Store::new(Calls::new(project.client.clone()))).await;
    // Helm 4 lists everything and has no such flag.
    for (program, list) in [("helm3", &["list", "--all"][..]), ("helm4", &["list"])] {
        let listed = helm_json(program, &project, list);
        let row = |row: &Value| ["name", "revision", "status", "chart", "app_version"].map(|key| text(&row[key]));
        let rows: Vec<[String; 5]> = listed.as_array().unwrap().iter().map(row).collect();
        let wanted = [
            ["broken", "1", "failed", "app-0.1.0", "1.16"],
            ["starting", "1", "pending-install", "app-0.1.0", "1.16"],
            ["web", "2", "deployed", "app-0.1.0", "1.16"],
        ];
        assert_eq!(rows, wanted, "{program}");
    }
    for program in BOTH {
        let history = helm_json(program, &project, &["history", "web"]);
        let row = |row: &Value| ["revision", "status", "description"].map(|key| text(&row[key]));
        let rows: Vec<[String; 3]> = history.as_array().unwrap().iter().map(row).collect();
        assert_eq!(rows, [["1", "superseded", "Upgraded"], ["2", "deployed", "This is deployed"]], "{program}");
        let status = helm(program, &project, &["status", "web"]);
        for line in ["STATUS: deployed", "REVISION: 2", "Have fun with green."] {
            assert!(status.contains(line), "{program} says nothing of {line:?}: {status}");
        }
    }
}

#[tokio::test]
async fn helm_gets_every_part_of_our_record() {
    let project = Project::new("App").await;
    record_all(&project, &Store::new(Calls::new(project.client.clone()))).await;
    for program in BOTH {
        let get = |what: &str| helm(program, &project, &["get", what, "web"]);
        assert_eq!(helm_json(program, &project, &["get", "values", "web"])["colour"], "green");
        assert_eq!(helm_json(program, &project, &["get", "values", "web", "--all"])["shade"], "dark", "{program}");
        assert_eq!(get("manifest").trim(), manifest("green").trim(), "{program}");
        assert!(get("notes").contains("Have fun with green."), "{program}");
        assert!(get("hooks").contains(HOOK.trim()), "{program}");
        assert_eq!(helm_json(program, &project, &["get", "metadata", "web"])["appVersion"], "1.16", "{program}");
        let all = get("all");
        for part in ["colour: green", "name: migrate", "Have fun with green.", "REVISION: 2"] {
            assert!(all.contains(part), "{program} get all has no {part:?}: {all}");
        }
    }
}

#[tokio::test]
async fn helm_rolls_back_upgrades_and_uninstalls_our_release() {
    for program in BOTH {
        let project = Project::new("App").await;
        let store = Store::new(Calls::new(project.client.clone()));
        let first = Release { manifest: manifest("blue").into(), ..release(&project, "web", 1, Status::Superseded) };
        store.create(&first).await.unwrap();
        store.create(&release(&project, "web", 2, Status::Deployed)).await.unwrap();
        apply(&project, "web", "green").await;

        helm(program, &project, &["rollback", "web", "1"]);
        assert_eq!(colour(&project).await.as_deref(), Some("blue"), "{program}");
        let history = store.history(&project.namespace, "web").await.unwrap();
        let latest = history.latest().unwrap();
        assert_eq!((latest.revision, latest.status), (3, Status::Deployed), "{program}");
        assert_eq!(latest.manifest.read(), manifest("blue"), "{program}");
        assert!(!latest.is_ours(), "a person's rollback is told from our own work ({program})");
        assert_eq!(
            latest.belongs_to(&Default::default()),
            Some(true),
            "and our label still says whose it is ({program})"
        );
        let second = history.get(2).unwrap();
        assert_eq!(second.status, Status::Superseded, "{program}");
        assert!(!second.is_ours(), "{program} keeps no data key but its own, so only the manifest tells what it held");

        project.template("config.yaml", &manifest("{{ .Values.colour }}"));
        helm(program, &project, &["upgrade", "web", "charts/app", "--reuse-values"]);
        assert_eq!(colour(&project).await.as_deref(), Some("green"), "{program} took the recorded values");

        helm(program, &project, &["uninstall", "web"]);
        assert_eq!(colour(&project).await, None, "{program}");
        assert!(store.history(&project.namespace, "web").await.unwrap().is_empty(), "{program}");
    }
}

#[tokio::test]
async fn a_record_that_helm_wrote_is_read_and_stays_whole_when_we_supersede_it() {
    for program in BOTH {
        let project = Project::new("App").await;
        project.file("charts/app/values.yaml", "colour: red\nshade: dark\n");
        project.template("config.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: colours}\ndata: {a: b}\n");
        project.template("NOTES.txt", "Have fun with {{ .Values.colour }}.");
        let hook = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: h, annotations: {helm.sh/hook: post-install}}\n";
        project.template("hook.yaml", hook);
        helm(program, &project, &["install", "web", "charts/app", "--set", "colour=blue", "--labels", "team=a"]);

        let store = Store::new(Calls::new(project.client.clone()));
        let history = store.history(&project.namespace, "web").await.unwrap();
        assert_eq!((history.belongs_to(&Default::default()), history.next_revision()), (None, 2), "{program}");
        let theirs = history.deployed().unwrap();
        assert_eq!(
            (theirs.config.value(), theirs.notes.read().as_ref()),
            (json!({"colour": "blue"}), "Have fun with blue.")
        );
        assert_eq!(theirs.hooks[0].events, ["post-install"]);
        assert_eq!(theirs.hooks[0].last_run.phase, HookPhase::Succeeded);
        assert!(theirs.manifest.read().contains("name: colours"), "{:?}", theirs.manifest);

        store.update(&theirs.with_status(Status::Superseded, "Adopted")).await.unwrap();
        store.create(&release(&project, "web", 2, Status::Deployed)).await.unwrap();
        let listed = helm_json(program, &project, &["history", "web"]);
        assert_eq!((&listed[0]["status"], &listed[0]["description"]), (&json!("superseded"), &json!("Adopted")));
        let of_first = |what: &[&str]| helm(program, &project, &[what, &["web", "--revision", "1"]].concat());
        assert!(of_first(&["get", "values", "--all"]).contains("shade: dark"), "{program}: the chart is still inside");
        assert_eq!(of_first(&["get", "manifest"]).trim(), theirs.manifest.read().trim(), "{program}");
        let secret = secrets(&project).get("sh.helm.release.v1.web.v1").await.unwrap();
        assert_eq!(secret.metadata.labels.unwrap()["team"], "a", "{program}");
    }
}

#[tokio::test]
async fn records_that_changed_meanwhile_are_not_overwritten() {
    let project = Project::new("App").await;
    let store = Store::new(Calls::new(project.client.clone()));
    let created = store.create(&release(&project, "web", 1, Status::PendingInstall)).await.unwrap();
    let twice = store.create(&release(&project, "web", 1, Status::PendingInstall)).await;
    assert!(matches!(twice, Err(StoreError::Exists { .. })), "{twice:?}");

    let foreign = json!({"metadata": {"labels": {"team": "a"}}, "data": {"note": "aGk="}});
    secrets(&project).patch(&created.secret_name(), &PatchParams::default(), &Patch::Merge(foreign)).await.unwrap();
    let stale = store.update(&created.with_status(Status::Deployed, "")).await;
    assert!(matches!(stale, Err(StoreError::Changed { .. })), "{stale:?}");

    let history = store.history(&project.namespace, "web").await.unwrap();
    let updated = store.update(&history.latest().unwrap().with_status(Status::Deployed, "Done")).await.unwrap();
    let again = store.history(&project.namespace, "web").await.unwrap();
    assert_eq!(again.deployed(), Some(&updated), "what an update returns is what is there");
    let secret = secrets(&project).get(&created.secret_name()).await.unwrap();
    assert_eq!(secret.metadata.labels.unwrap()["team"], "a");
    assert!(secret.data.unwrap().contains_key("note"), "data of others stays");

    for _ in 0..2 {
        store.delete(&project.namespace, "web", 1).await.unwrap();
    }
    let gone = store.update(&updated).await;
    assert!(matches!(gone, Err(StoreError::Changed { .. })), "{gone:?}");
}

#[tokio::test]
async fn an_unreadable_record_is_not_an_absent_release() {
    let project = Project::new("App").await;
    let store = Store::new(Calls::new(project.client.clone()));
    for revision in [1, 2] {
        store.create(&release(&project, "web", revision, Status::Superseded)).await.unwrap();
    }
    let garbage = json!({"data": {"release": "Z2FyYmFnZQ=="}});
    let name = "sh.helm.release.v1.web.v1";
    secrets(&project).patch(name, &PatchParams::default(), &Patch::Merge(garbage)).await.unwrap();
    let message = store.history(&project.namespace, "web").await.unwrap_err().to_string();
    let wanted = format!("the release record in Secret {}/{name} cannot be read: ", project.namespace);
    assert!(message.starts_with(&wanted), "{message}");
}

fn secrets(project: &Project) -> Api<Secret> {
    Api::namespaced(project.client.clone(), &project.namespace)
}

/// helm 3 and 4 differ in whether a revision is a number or a text.
fn text(value: &Value) -> String {
    value.as_str().map(str::to_owned).unwrap_or_else(|| value.to_string())
}
