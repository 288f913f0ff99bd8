//! Random forgeries of release records, under exactly the generated role and with a watch that allows the whole cluster.
//!
//! The forger has the ClusterRole `edit` in one namespace and nothing else. Whatever they write there, the operator writes and deletes nothing
//! outside of that namespace but what the chart renders, and inside of it no object that the chart cannot render.

mod disturbance;
mod mutation;
mod witness;

use std::collections::BTreeMap;
use std::time::Duration;

use chartwright::release::codec::decode;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::budgets::{MEMORY_LIMIT, PROBES, Pulse, peak_memory};
use crate::harness::chance::{self, Random};
use crate::harness::{Operator, Project, Scope, config, until, until_within, within};
use mutation::{Forgery, Targets, forge};
use witness::Witness;

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const RELEASES: usize = 4;
/// For an edit beside the forgeries. The build is not optimised, and other tests run.
const PATIENCE: Duration = Duration::from_secs(60);

/// It makes objects of the cluster, of another namespace and of its own, and has a hook.
const CHART: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}'}
data: {colour: '{{ .Values.colour }}'}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}', namespace: '{{ .Release.Namespace }}-next'}
data: {colour: '{{ .Values.colour }}'}
---
apiVersion: v1
kind: Secret
metadata: {name: '{{ .Release.Name }}-random'}
stringData: {password: '{{ randAlphaNum 12 }}'}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: '{{ .Release.Namespace }}-{{ .Release.Name }}'}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: '{{ .Release.Namespace }}-{{ .Release.Name }}'}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: '{{ .Release.Namespace }}-{{ .Release.Name }}'}
subjects: [{kind: ServiceAccount, name: agent, namespace: '{{ .Release.Namespace }}'}]
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: '{{ .Release.Name }}-hook'
  annotations: {helm.sh/hook: 'pre-install,pre-upgrade', helm.sh/hook-delete-policy: before-hook-creation}
";

struct Stage {
    project: Project,
    system: String,
    targets: Targets,
    editor: Client,
    random: Random,
    /// Every record that was ever seen and that can be read.
    known: Vec<Secret>,
}

impl Stage {
    async fn new(seed: u64) -> Self {
        let project = Project::new("Plat").await;
        project.template("all.yaml", CHART);
        project.watch_with("allow: [cluster, other-namespaces]");
        let sample = json!({"apiVersion": project.resource.api_version, "kind": "Plat", "metadata": {"name": "web"},
            "spec": {"colour": "blue"}});
        project.files_of_kind(&project.resource, Scope::Namespaced, &sample);
        let written = project.generate_rbac("helm4", &[]);
        assert_eq!(written.code, 0, "{written:?}");
        project.bind_role(&project.user()).await;
        let system = project.another_namespace("system").await;
        let neighbour = project.another_namespace("next").await;
        let targets =
            Targets { precious: precious(&project, &neighbour).await, neighbour, namespace: project.namespace.clone() };
        let editor = editor(&project).await;
        Stage { project, system, targets, editor, random: Random::new(seed), known: vec![] }
    }

    fn run(&self) -> Operator {
        self.project.launch().limited().env("POD_NAMESPACE", &self.system).args(&[PROBES]).start()
    }

    /// Several revisions of each release, so that there is something to replay.
    async fn deploy(&self) {
        for colour in ["blue", "green", "red"] {
            for name in names() {
                self.project.apply(&name, json!({"colour": colour})).await;
            }
            for name in names() {
                self.project.deployed(&name).await;
            }
        }
    }

    /// The records of a release, as the editor sees them.
    async fn records(&self, release: &str) -> Vec<Secret> {
        let params = ListParams::default().labels(&format!("owner=helm,name={release}"));
        self.secrets().list(&params).await.expect("the editor may list Secrets").items
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.editor.clone(), &self.project.namespace)
    }

    async fn delete_records(&self, release: &str) {
        let all = ListParams::default().labels(&format!("owner=helm,name={release}"));
        self.secrets().delete_collection(&DeleteParams::default(), &all).await.expect("the editor may delete them");
        for record in self.records(release).await {
            self.let_go(&record.name_any()).await;
        }
    }

    /// Takes a finalizer off that a forgery put on. The Secret may be gone already.
    async fn let_go(&self, name: &str) {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let _ = self.secrets().patch(name, &PatchParams::default(), &patch).await;
    }

    /// One forgery. Returns what was done, in words.
    async fn forge(&mut self, release: &str) -> String {
        let present = self.records(release).await;
        for secret in &present {
            if decode(secret).is_ok() && !self.known.iter().any(|it| it.data == secret.data) {
                self.known.push(secret.clone());
            }
        }
        let (steps, words) = forge(&mut self.random, &self.targets, release, &present, &self.known);
        let secrets = self.secrets();
        for step in steps {
            let done = match step {
                Forgery::Create(secret) => secrets.create(&PostParams::default(), &secret).await.map(drop),
                Forgery::Delete(name) => secrets.delete(&name, &DeleteParams::default()).await.map(drop),
                Forgery::Replace(secret) => {
                    let name = secret.name_any();
                    // The type of a Secret and an owner reference cannot be told from the outside: it is made again.
                    let _ = secrets.delete(&name, &DeleteParams::default()).await;
                    self.let_go(&name).await;
                    secrets.create(&PostParams::default(), &secret).await.map(drop)
                }
            };
            // The operator may have written or removed a record in between.
            if let Err(error) = done
                && !matches!(&error, kube::Error::Api(status) if [404, 409].contains(&status.code))
            {
                panic!("{release}: {words}: {error}");
            }
        }
        words
    }

    /// An edit of a custom resource that nobody attacks is deployed.
    async fn others_work(&self, round: usize) {
        let colour = format!("round-{round}");
        self.project.apply("bystander", json!({"colour": colour})).await;
        until_within(PATIENCE, "a custom resource that nobody attacks is served", async || {
            let found = self.project.get("v1", "ConfigMap", "bystander").await?;
            (found.data["data"]["colour"] == colour.as_str()).then_some(())
        })
        .await;
    }

    /// Without forged records, a release follows its custom resource again. Returns how many did so before anybody tidied up.
    async fn recover(&self) -> usize {
        let mut by_themselves = 0;
        self.restore().await;
        for name in names() {
            self.project.apply(&name, json!({"colour": "final"})).await;
        }
        for name in names() {
            let is_final = async || {
                let found = self.project.get("v1", "ConfigMap", &name).await;
                found.is_some_and(|found| found.data["data"]["colour"] == "final")
            };
            let decided = until("the operator answers the edit", async || {
                let status = self.project.status(&name).await;
                let generation = self.project.crs().get(&name).await.ok()?.metadata.generation;
                (status["observedGeneration"] == json!(generation)).then_some(())
            });
            decided.await;
            if is_final().await {
                by_themselves += 1;
                continue;
            }
            self.delete_records(&name).await;
            until("the chart decides again", async || is_final().await.then_some(())).await;
        }
        by_themselves
    }
}

fn names() -> Vec<String> {
    (0..RELEASES).map(|number| format!("web-{number}")).collect()
}

/// The release whose custom resource is deleted now and then.
fn disposable() -> String {
    format!("web-{}", RELEASES - 1)
}

/// Objects outside of the namespace that others made. Some carry Helm's marks of a release of the namespace, as a person's `helm install` leaves them.
async fn precious(project: &Project, neighbour: &str) -> Vec<(chartwright::object::ObjectId, String)> {
    let marked = |mut object: Value| {
        object["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
        object["metadata"]["annotations"] =
            json!({"meta.helm.sh/release-name": "web-0", "meta.helm.sh/release-namespace": project.namespace});
        object
    };
    let role = |name: &str| {
        let name = format!("{}-{name}", project.namespace);
        json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": []})
    };
    let objects = [
        within(neighbour, config("precious", "theirs")),
        marked(within(neighbour, config("precious-marked", "theirs"))),
        role("precious"),
        marked(role("precious-marked")),
    ];
    let mut made = vec![];
    for object in objects {
        let id = chartwright::object::Object::new(object.clone()).expect("an object").id();
        let uid = project.create(object).await.uid().expect("a UID");
        made.push((id, uid));
    }
    made
}

/// Somebody with the ClusterRole `edit` in the project's namespace, and nothing else.
async fn editor(project: &Project) -> Client {
    let name = format!("editor-of-{}", project.namespace);
    let subjects = json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}]);
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"});
    project
        .create(json!({"apiVersion": RBAC, "kind": "RoleBinding", "roleRef": role, "subjects": subjects,
            "metadata": {"name": "editor", "namespace": project.namespace}}))
        .await;
    let kubeconfig = kube::config::Kubeconfig::read_from(project.plane().kubeconfig()).expect("a kubeconfig");
    let mut config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.expect("a configuration");
    config.auth_info.impersonate = Some(name);
    config.auth_info.impersonate_groups = Some(vec!["system:authenticated".into()]);
    let client = Client::try_from(config).expect("a client");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &project.namespace);
    until("the role is bound", async || secrets.list(&ListParams::default().limit(1)).await.ok().map(drop)).await;
    let outside: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
    assert!(outside.list(&ListParams::default().limit(1)).await.is_err(), "an editor has no rights elsewhere");
    client
}

async fn attack(count: usize, seed: u64) {
    println!("{count} forgeries, SEED={seed}");
    let mut stage = Stage::new(seed).await;
    let since = Timestamp::now();
    let mut operator = stage.run();
    stage.deploy().await;
    stage.others_work(0).await;
    let witness = Witness::of(&stage.project, &stage.targets).await;
    let (mut done, mut round, mut kinds) = (0, 0, BTreeMap::<String, usize>::new());
    let (mut peak, mut longest) = (0, 0);
    let mut pulse = Pulse::of(&operator).await;
    while done < count {
        round += 1;
        for name in names() {
            let words = stage.forge(&name).await;
            for word in words.split(", ") {
                *kinds.entry(word.to_owned()).or_default() += 1;
            }
            done += 1;
        }
        *kinds.entry(stage.disturb(round).await.to_owned()).or_default() += 1;
        stage.others_work(round).await;
        witness.check(seed, round);
        if round % 10 == 0 {
            peak = peak.max(peak_memory(&operator));
            longest = longest.max(pulse.check());
            drop(operator);
            operator = stage.run();
            pulse = Pulse::of(&operator).await;
        }
    }
    let by_themselves = stage.recover().await;
    witness.check(seed, round);
    assert!(operator.runs(), "it ended; SEED={seed}");
    peak = peak.max(peak_memory(&operator));
    longest = longest.max(pulse.check());
    assert!(peak < MEMORY_LIMIT / 2, "{} MiB; SEED={seed}", peak / 1024);
    let (writes, unexpected) = witness::writes(&stage.project, &stage.system, since);
    assert!(unexpected.is_empty(), "SEED={seed}: {unexpected:#?}");
    for (id, uid) in &stage.targets.precious {
        let found = stage.project.find(&version(id), &id.kind, id.namespace.as_deref(), &id.name).await;
        assert_eq!(found.and_then(|found: DynamicObject| found.uid()).as_ref(), Some(uid), "{id:?}; SEED={seed}");
    }
    println!(
        "{done} forgeries in {round} rounds: {writes} writes of the operator, none of them unexpected; {by_themselves} of {RELEASES} releases followed their custom resource before anybody deleted the forged records; at most {} MiB; /healthz within {longest} ms",
        peak / 1024
    );
    for (kind, count) in kinds {
        println!("{count:>6}  {kind}");
    }
}

fn version(id: &chartwright::object::ObjectId) -> String {
    mutation::api_version_of(id)
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_records_lead_to_nothing_that_the_chart_cannot_render() {
    attack(24, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "two hundred forgeries take minutes: make forgery-proof"]
async fn two_hundred_forged_records_lead_to_nothing_that_the_chart_cannot_render() {
    attack(200, chance::seed()).await;
}
