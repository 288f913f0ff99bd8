//! What the operator keeps in its own namespace to know which records to believe.

use std::time::Duration;

use chartwright::calls::Calls;
use chartwright::release::{Release, Status, Store};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::{Operator, Project, config, stays, until};

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const KEY: &str = "chartwright-signing-key";
/// Longer than an operator takes to end by itself.
const PATIENCE: Duration = Duration::from_secs(20);

/// An operator with a namespace of its own.
struct Installed {
    project: Project,
    system: String,
}

impl Installed {
    async fn new() -> Self {
        let project = Project::of_objects().await;
        project.watch_with("allow: [cluster]");
        let system = project.another_namespace("system").await;
        Installed { project, system }
    }

    fn run(&self) -> Operator {
        self.project.launch().env("POD_NAMESPACE", &self.system).start()
    }

    fn secrets(&self) -> Api<DynamicObject> {
        self.project.objects("v1", "Secret", Some(&self.system))
    }

    async fn deploy(&self, name: &str, objects: &[Value]) {
        let objects: Vec<Value> = [config(name, "blue")].iter().chain(objects).cloned().collect();
        self.project.apply(name, json!({"objects": objects})).await;
        self.project.condition(name, "Ready", "True").await;
    }

    async fn entries(&self) -> usize {
        self.secrets().list(&ListParams::default().labels("chartwright.dev/ledger")).await.unwrap().items.len()
    }

    /// Deletes a custom resource whose author removes the finalizer first, while no operator runs.
    async fn delete_without_finalizer(&self, name: &str) {
        let none = json!({"metadata": {"finalizers": null}});
        self.project.crs().patch(name, &PatchParams::default(), &Patch::Merge(none)).await.unwrap();
        self.project.delete(name).await;
        self.project.gone(name).await;
    }

    async fn key(&self) -> Option<Value> {
        self.secrets().get_opt(KEY).await.unwrap().map(|secret| secret.data["data"].clone())
    }

    /// Makes a release's record one of an earlier version.
    async fn unsign(&self, release: &str, revision: u32) {
        let none = json!({
            "metadata": {"labels": {"chartwright.dev/signature-1": null, "chartwright.dev/signature-2": null}},
            "data": {"chartwright.sig": null},
        });
        let records = self.project.objects("v1", "Secret", Some(&self.project.namespace));
        let record = format!("sh.helm.release.v1.{release}.v{revision}");
        records.patch(&record, &PatchParams::default(), &Patch::Merge(none)).await.unwrap();
    }
}

#[tokio::test]
async fn a_custom_resource_deleted_without_its_finalizer_leaves_no_entry() {
    let installed = Installed::new().await;
    let role = format!("{}-left", installed.project.namespace);
    let outside = json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": role}, "rules": []});
    let operator = installed.run();
    installed.deploy("stays", &[]).await;
    installed.deploy("inside", &[]).await;
    installed.deploy("outside", &[outside]).await;
    assert_eq!(installed.entries().await, 3);
    drop(operator);
    installed.delete_without_finalizer("inside").await;
    installed.delete_without_finalizer("outside").await;
    let operator = installed.run();
    until("the entry is removed of which nothing is left", async || (installed.entries().await == 2).then_some(()))
        .await;
    until("the other is reported", async || operator.log().contains("ObjectsLeft").then_some(())).await;
    assert!(operator.log().contains(&role), "{}", operator.log());
    assert_eq!(installed.entries().await, 2, "nothing else tells whose the object is");
    drop(operator);
    installed.project.objects(RBAC, "ClusterRole", None).delete(&role, &DeleteParams::default()).await.unwrap();
    let _operator = installed.run();
    until("the entry is removed", async || (installed.entries().await == 1).then_some(())).await;
    installed.project.condition("stays", "Ready", "True").await;
}

#[tokio::test]
async fn the_signing_key_is_written_again_when_its_secret_is_deleted() {
    let installed = Installed::new().await;
    let operator = installed.run();
    installed.deploy("web", &[]).await;
    let key = installed.key().await;
    installed.secrets().delete(KEY, &DeleteParams::default()).await.unwrap();
    until("the Secret is there again", async || installed.key().await).await;
    assert_eq!(installed.key().await, key);
    until("it is reported", async || operator.log().contains("SigningKeyRestored").then_some(())).await;
    let emptied = json!({"data": null});
    installed.secrets().patch(KEY, &PatchParams::default(), &Patch::Merge(emptied)).await.unwrap();
    until("the key is there again", async || (installed.key().await == key).then_some(())).await;
}

#[tokio::test]
async fn an_operator_ends_when_its_signing_key_is_replaced() {
    let installed = Installed::new().await;
    let mut operator = installed.run();
    installed.deploy("web", &[]).await;
    let other = chartwright::release::proof::SigningKey::generate().unwrap();
    let other = json!({"data": {"ed25519.pkcs8": k8s_openapi::ByteString(other)}});
    installed.secrets().patch(KEY, &PatchParams::default(), &Patch::Merge(&other)).await.unwrap();
    assert_eq!(operator.exit_code(PATIENCE).await, Some(1));
    assert!(operator.log().contains("holds another key"), "{}", operator.log());
    assert_eq!(installed.key().await.as_ref(), Some(&other["data"]), "the Secret decides");
    let _operator = installed.run();
    installed.project.condition("web", "Ready", "True").await;
}

#[tokio::test]
async fn the_window_can_be_opened_for_one_release() {
    let installed = Installed::new().await;
    let project = &installed.project;
    let operator = installed.run();
    installed.deploy("web", &[]).await;
    installed.deploy("shop", &[]).await;
    drop(operator);
    for release in ["web", "shop"] {
        installed.unsign(release, 1).await;
    }
    installed.secrets().delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    let _operator = installed.run();
    for name in ["web", "shop"] {
        project.not_ready(name, "RecordUnproven").await;
    }
    let system = ["--operator-namespace", &installed.system];
    // The project's namespace is among the arguments of each command.
    let said = project.cli(&[&["trust", "open", "--release", "web", "--yes"], &system[..]].concat()).good();
    assert!(said.contains("/web") && !said.contains("/shop"), "only what it would sign is listed: {said}");
    project.condition("web", "Ready", "True").await;
    let signed = until("the count is written while the window is open", async || {
        let state = project.cli(&[&["trust", "status", "-o", "json"], &system[..]].concat()).json();
        (state["window"]["signed"] == 1).then_some(state)
    })
    .await;
    assert_eq!((&signed["open"], &signed["waiting"][0]["name"]), (&json!(true), &json!("shop")), "{signed}");
    stays(Duration::from_secs(2), "the other release waits", async || {
        project.not_ready("shop", "RecordUnproven").await["reason"].clone()
    })
    .await;
    let record = project.objects("v1", "Secret", Some(&project.namespace)).get("sh.helm.release.v1.shop.v1").await;
    assert!(!record.unwrap().labels().contains_key("chartwright.dev/signature-1"));
}

#[tokio::test]
async fn a_record_that_differs_from_the_chart_is_signed_only_as_recorded() {
    let installed = Installed::new().await;
    let project = &installed.project;
    let operator = installed.run();
    installed.deploy("web", &[]).await;
    installed.deploy("web", &[config("second", "blue")]).await;
    project.deployed("web").await;
    drop(operator);
    let change = |release: &mut Release| release.manifest = release.manifest.read().replace("blue", "green").into();
    project.forge("web", 2, change).await;
    // Beside the record that the administrator looks at, somebody plants another.
    let role = format!("{}-planted", project.namespace);
    let planted = json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": role}, "rules": []});
    let plant = |release: &mut Release| {
        release.manifest = format!("{}---\n{planted}\n", release.manifest.read()).into();
    };
    project.forge("web", 1, plant).await;
    for revision in [1, 2] {
        installed.unsign("web", revision).await;
    }
    installed.secrets().delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    let _operator = installed.run();
    let open = ["trust", "open", "--release", "web", "--yes", "--operator-namespace", &installed.system];
    project.not_ready("web", "RecordUnproven").await;
    project.cli(&open).good();
    project
        .told("web", "the refusal names the flag", |status| {
            let text = status.to_string();
            (text.contains("something else than the chart renders") && text.contains("--as-recorded")).then_some(())
        })
        .await;
    project.cli(&[&open[..], &["--as-recorded"]].concat()).good();
    project.condition("web", "Ready", "True").await;
    let records = project.objects("v1", "Secret", Some(&project.namespace));
    let record = async |revision| records.get(&format!("sh.helm.release.v1.web.v{revision}")).await.unwrap();
    assert!(record(2).await.labels().contains_key("chartwright.dev/signature-1"), "it is signed as it is");
    assert!(!record(1).await.labels().contains_key("chartwright.dev/signature-1"), "nobody looked at this one");
    // Nor is a copy of the planted one believed.
    let store = Store::new(Calls::new(project.client.clone()));
    let source = store.get(&project.namespace, "web", 1).await.unwrap();
    let copy = Release { revision: 3, status: Status::Deployed, stored: Default::default(), own: None, ..source };
    store.create(&copy).await.unwrap();
    until("the copy is reported", async || project.events("web", "RecordUnproven").await.pop()).await;
    assert!(project.find(RBAC, "ClusterRole", None, &role).await.is_none());
}

#[tokio::test]
async fn forged_revisions_have_the_ledger_written_at_a_limited_pace() {
    let installed = Installed::new().await;
    let project = &installed.project;
    let _operator = installed.run();
    installed.deploy("web", &[]).await;
    let store = Store::new(Calls::new(project.client.clone()));
    let source = store.get(&project.namespace, "web", 1).await.unwrap();
    for revision in 2..30 {
        let forged = Release {
            revision,
            stored: Default::default(),
            own: None,
            config: json!({"n": revision}).into(),
            ..source.clone()
        };
        store.create(&forged).await.unwrap();
        let is_limited = until("it is looked at", async || {
            let ready = project.status("web").await["conditions"].clone();
            if ready.as_array()?.iter().any(|condition| condition["reason"] == "TooManyRevisions") {
                return Some(true);
            }
            let told = project.events("web", "RecordUnproven").await;
            told.iter().any(|(_, note)| note.contains(&format!("revision {revision} "))).then_some(false)
        })
        .await;
        if is_limited {
            return assert!(revision > 5, "a person's upgrades are not slowed down");
        }
    }
    panic!("each of them had the ledger written");
}

/// What helm would write for a rollback to a signed revision.
fn copied(source: &Release, revision: u32) -> Release {
    Release { revision, status: Status::Deployed, stored: Default::default(), own: None, ..source.clone() }
}

#[tokio::test]
async fn copies_of_a_signed_revision_are_taken_over_at_a_limited_pace() {
    let installed = Installed::new().await;
    let project = &installed.project;
    let _operator = installed.run();
    installed.deploy("web", &[]).await;
    let store = Store::new(Calls::new(project.client.clone()));
    let source = store.get(&project.namespace, "web", 1).await.unwrap();
    for revision in 2..30 {
        store.create(&copied(&source, revision)).await.unwrap();
        let is_limited = until("it is looked at", async || {
            let ready = project.status("web").await["conditions"].clone();
            if ready.as_array()?.iter().any(|condition| condition["reason"] == "TooManyRevisions") {
                return Some(true);
            }
            let record = store.get(&project.namespace, "web", revision).await.ok()?;
            record.own.is_some().then_some(false)
        })
        .await;
        if is_limited {
            return assert!(revision > 5, "a person's rollbacks are not slowed down");
        }
    }
    panic!("each of them was taken over");
}

#[tokio::test]
async fn a_copy_far_above_the_newest_revision_is_refused() {
    let installed = Installed::new().await;
    let project = &installed.project;
    let _operator = installed.run();
    installed.deploy("web", &[]).await;
    let store = Store::new(Calls::new(project.client.clone()));
    let source = store.get(&project.namespace, "web", 1).await.unwrap();
    store.create(&copied(&source, 5000)).await.unwrap();
    let told = project.not_ready("web", "RecordUnusable").await;
    assert!(told["message"].as_str().unwrap().contains("5000"), "{told}");
    let records = project.objects("v1", "Secret", Some(&project.namespace));
    records.delete("sh.helm.release.v1.web.v5000", &DeleteParams::default()).await.unwrap();
    project.condition("web", "Ready", "True").await;
}

#[tokio::test]
async fn without_the_ledger_a_hold_is_signed_only_as_recorded() {
    let installed = Installed::new().await;
    let project = &installed.project;
    let operator = installed.run();
    installed.deploy("web", &[]).await;
    installed.deploy("web", &[config("second", "blue")]).await;
    project.deployed("web").await;
    project.helm("helm4", &["rollback", "web", "1"]);
    project.condition("web", "Held", "True").await;
    project.condition("web", "Ready", "True").await;
    drop(operator);
    let all = ListParams::default().labels("chartwright.dev/ledger");
    installed.secrets().delete_collection(&DeleteParams::default(), &all).await.unwrap();
    let _operator = installed.run();
    project.not_ready("web", "RecordUnproven").await;
    let open = ["trust", "open", "--release", "web", "--yes", "--operator-namespace", &installed.system];
    project.cli(&open).good();
    let names_hold = |status: &Value| status.to_string().contains("says that this revision is held").then_some(());
    project.told("web", "the refusal says why", names_hold).await;
    project.cli(&[&open[..], &["--as-recorded"]].concat()).good();
    project.condition("web", "Ready", "True").await;
    project.condition("web", "Held", "True").await;
}
