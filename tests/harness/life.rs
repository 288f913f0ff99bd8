//! One release from its install to its end, looked at from outside: every object of every kind, the records, and helm.
//!
//! ```ignore
//! let mut life = Life::begin(&project, "web");
//! life.step(json!({"replicas": 2}), &["ConfigMap ./web", "ClusterRole {ns}-web"]).await;
//! life.restart().await;
//! life.end(&["PersistentVolumeClaim ./data-web-0 (made)"]).await;
//! ```
//! Objects are written as `<Kind> <namespace>/<name>`, with `.` for the project's namespace and none for cluster-scoped
//! ones. `(kept)` is left over from the release and not its own any more; `(made)` is made by another controller.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PartialObjectMeta};
use kube::core::ObjectMeta;
use kube::discovery::{ApiResource, Discovery, Scope, verbs};
use serde_json::{Value, json};

use super::{Operator, Project, until};

const LABEL: &str = "chartwright.dev/release";
const PRIMARY: &str = "operator-sdk/primary-resource";
const PRIMARY_TYPE: &str = "operator-sdk/primary-resource-type";

/// Every object that is there, by kind and place.
pub type Objects = BTreeMap<String, ObjectMeta>;

pub struct Life<'a> {
    pub project: &'a Project,
    pub name: String,
    pub revision: u32,
    operator: Option<Operator>,
    /// Namespaces of which every object counts, marked or not.
    places: Vec<String>,
    cr: Option<DynamicObject>,
    last: Objects,
}

impl<'a> Life<'a> {
    /// Starts the operator; the first step installs.
    pub fn begin(project: &'a Project, name: &str) -> Self {
        let operator = Some(talkative(project));
        let places = vec![project.namespace.clone()];
        Life { project, name: name.to_owned(), revision: 0, operator, places, cr: None, last: Objects::new() }
    }

    /// Looks at all of another namespace too.
    pub fn also_in(mut self, namespace: &str) -> Self {
        self.places.push(namespace.to_owned());
        self
    }

    /// Applies a spec, which must become the next revision, ready, with exactly these objects: those that were there before
    /// are still the same, and each is rightly tied to its custom resource.
    pub async fn step(&mut self, spec: Value, expected: &[&str]) {
        let cr = self.project.apply(&self.name, spec).await;
        self.next_revision(cr.metadata.generation, expected).await;
    }

    /// Waits for another revision that nobody asked for with the spec.
    pub async fn next_revision(&mut self, generation: Option<i64>, expected: &[&str]) {
        self.revision += 1;
        let cr = self.settled(generation).await;
        self.cr = Some(cr);
        self.check_records().await;
        let objects = self.objects().await;
        self.check_set(&objects, expected);
        for line in expected {
            self.check_ties(&objects, line);
        }
        for (id, before) in &self.last {
            let after = objects.get(id);
            assert!(after.is_none_or(|after| after.uid == before.uid), "{id} was made again");
        }
        self.last = objects;
    }

    /// Ends the operator without a warning and starts another: nothing may change by that.
    pub async fn restart(&mut self) {
        let (objects, records) = (self.objects().await, self.records().await);
        let before = self.project.crs().get(&self.name).await.expect("the custom resource");
        drop(self.operator.take());
        self.operator = Some(talkative(self.project));
        // The first look finds watches that know nothing yet; another follows when they do.
        until("the new operator looked twice", async || (self.looks() >= 2).then_some(())).await;
        self.settled(None).await;
        let after = self.objects().await;
        assert!(after.keys().eq(objects.keys()), "the restart left {:#?} of {:#?}", after.keys(), objects.keys());
        for (id, after) in after {
            assert_eq!(written(&after), written(&objects[&id]), "the restart changed {id}");
        }
        assert_eq!(self.records().await, records, "the restart changed the records");
        let after = self.project.crs().get(&self.name).await.expect("the custom resource");
        assert_eq!(after.data["status"], before.data["status"], "the restart changed the status");
        assert_eq!(after.resource_version(), before.resource_version(), "the restart wrote the custom resource");
    }

    /// Deletes the custom resource. Nothing may be left but this.
    pub async fn end(mut self, left: &[&str]) {
        self.check_helm();
        self.project.crs().delete(&self.name, &DeleteParams::default()).await.expect("it is deleted");
        until("the custom resource is gone", async || {
            self.project.crs().get_opt(&self.name).await.expect("an answer").is_none().then_some(())
        })
        .await;
        let wanted: Vec<String> = sorted(left.iter().map(|line| self.id_of(line)));
        let deadline = Instant::now() + Duration::from_secs(30);
        let objects = loop {
            let objects = self.everything(true).await;
            if objects.keys().eq(&wanted) {
                break objects;
            }
            assert!(Instant::now() < deadline, "left: {:#?}\nwanted: {wanted:#?}", objects.keys());
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        for line in left {
            self.check_ties(&objects, line);
        }
        assert_eq!(self.records().await, json!({}), "records are left");
        for program in ["helm3", "helm4"] {
            assert_eq!(self.helm(program, &["list"]), json!([]), "{program} still lists it");
        }
        self.operator.take();
    }

    /// The custom resource, once its status says that this revision of this generation is there and healthy.
    async fn settled(&self, generation: Option<i64>) -> DynamicObject {
        let what = format!("{} is ready at revision {}", self.name, self.revision);
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let cr = self.project.crs().get(&self.name).await.expect("the custom resource");
            let status = cr.data.get("status").cloned().unwrap_or_default();
            let is = |kind: &str| {
                let conditions = status["conditions"].as_array().into_iter().flatten();
                conditions.into_iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
            };
            let revision = &status["deployedRelease"]["revision"];
            let observed = generation.is_none_or(|generation| status["observedGeneration"] == generation);
            if observed && is("Deployed") && is("Ready") && *revision == self.revision {
                assert!(!is("ReleaseFailed") && !is("Irreconcilable") && !is("Stalled"), "{status:#}");
                return cr;
            }
            let overtaken = revision.as_u64().is_some_and(|revision| revision > self.revision.into());
            assert!(!overtaken, "there are more revisions than edits: {what}: {status:#}");
            assert!(Instant::now() < deadline, "it did not happen: {what}: {status:#}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The release's objects and whatever else is in its namespaces, without what controllers make from them.
    pub async fn objects(&self) -> Objects {
        self.everything(false).await
    }

    async fn everything(&self, with_what_controllers_made: bool) -> Objects {
        let discovery = Discovery::new(self.project.client.clone()).run_aggregated().await.expect("discovery");
        let is_own = |group: &str| !group.ends_with(".test.chartwright.dev");
        let groups = discovery.groups().filter(|group| is_own(group.name()));
        let kinds = groups.flat_map(|group| group.recommended_resources());
        let kinds = kinds.filter(|(kind, capabilities)| {
            let everywhere = ["Event", "Endpoints", "Lease", "Node", "ComponentStatus", "APIService", "PodMetrics"];
            capabilities.supports_operation(verbs::LIST) && !everywhere.contains(&kind.kind.as_str())
        });
        let lists = kinds.map(|(kind, capabilities)| self.list(kind, capabilities.scope == Scope::Namespaced));
        let lists: Vec<_> = stream::iter(lists.collect::<Vec<_>>()).buffer_unordered(8).collect().await;
        let mut objects = Objects::new();
        for (kind, metadata) in lists.into_iter().flatten() {
            let made = || {
                let owners = metadata.owner_references.iter().flatten();
                let controller = owners.into_iter().find(|owner| owner.controller == Some(true));
                controller.is_some_and(|owner| owner.kind != self.project.resource.kind)
            };
            if !is_furniture(&kind, &metadata) && (with_what_controllers_made || !made()) {
                objects.insert(self.id(&kind, &metadata), metadata);
            }
        }
        objects
    }

    /// Of one kind: what carries Helm's marks of this release anywhere, and everything in its namespaces.
    async fn list(&self, kind: ApiResource, namespaced: bool) -> Vec<(String, ObjectMeta)> {
        let client = &self.project.client;
        let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(client.clone(), &kind);
        let mut found = metadata(&api, &ListParams::default().labels("app.kubernetes.io/managed-by=Helm")).await;
        found.retain(|metadata| {
            let is =
                |key: &str, value: &str| metadata.annotations.iter().flatten().any(|(k, v)| k == key && v == value);
            is("meta.helm.sh/release-name", &self.name) && is("meta.helm.sh/release-namespace", &self.project.namespace)
        });
        if namespaced {
            for place in &self.places {
                let api: Api<PartialObjectMeta<DynamicObject>> = Api::namespaced_with(client.clone(), place, &kind);
                found.extend(metadata(&api, &ListParams::default()).await);
            }
        }
        found.into_iter().map(|metadata| (kind.kind.clone(), metadata)).collect()
    }

    fn id(&self, kind: &str, metadata: &ObjectMeta) -> String {
        let name = metadata.name.as_deref().unwrap_or_default();
        match metadata.namespace.as_deref() {
            None => format!("{kind} {name}"),
            Some(namespace) if namespace == self.project.namespace => format!("{kind} ./{name}"),
            Some(namespace) => format!("{kind} {namespace}/{name}"),
        }
    }

    /// A line of a list of expected objects, without its note.
    fn id_of(&self, line: &str) -> String {
        let id = line.split(" (").next().unwrap_or_default();
        id.replace("{ns}", &self.project.namespace)
    }

    fn check_set(&self, objects: &Objects, expected: &[&str]) {
        let wanted = sorted(expected.iter().map(|line| self.id_of(line)));
        let found: Vec<String> = objects.keys().cloned().collect();
        let missing: Vec<_> = wanted.iter().filter(|id| !found.contains(id)).collect();
        let extra: Vec<_> = found.iter().filter(|id| !wanted.contains(id)).collect();
        assert!(
            missing.is_empty() && extra.is_empty(),
            "revision {}: missing {missing:#?}, not expected {extra:#?}",
            self.revision
        );
    }

    /// Whether an object says whose it is, as its scope allows.
    fn check_ties(&self, objects: &Objects, line: &str) {
        let id = self.id_of(line);
        let metadata = &objects[&id];
        let label = |key: &str| metadata.labels.iter().flatten().find(|(k, _)| *k == key).map(|(_, v)| v.as_str());
        let note = |key: &str| metadata.annotations.iter().flatten().find(|(k, _)| *k == key).map(|(_, v)| v.as_str());
        let owners = metadata.owner_references.clone().unwrap_or_default();
        let primary = (note(PRIMARY), note(PRIMARY_TYPE));
        let helm = (note("meta.helm.sh/release-name"), note("meta.helm.sh/release-namespace"));
        let by_helm = (Some(self.name.as_str()), Some(self.project.namespace.as_str()));
        if line.ends_with("(made)") {
            assert_eq!((helm, label(LABEL), primary), ((None, None), None, (None, None)), "{id} is not ours");
            return;
        }
        assert_eq!(helm, by_helm, "{id}");
        assert_eq!(label("app.kubernetes.io/managed-by"), Some("Helm"), "{id}");
        if line.ends_with("(kept)") {
            assert!(owners.is_empty(), "{id} is kept but owned: {owners:?}");
            assert_eq!((label(LABEL), primary), (None, (None, None)), "{id} is kept but marked");
            return;
        }
        assert_eq!(label(LABEL), Some(self.name.as_str()), "{id}");
        let cr = self.cr.as_ref().expect("a step was made");
        let in_reach = cr.namespace().is_none() || cr.namespace() == metadata.namespace;
        if in_reach && note("helm.sh/resource-policy") != Some("keep") {
            let owner: Vec<_> = owners.iter().map(|o| (Some(&o.uid), o.controller, o.block_owner_deletion)).collect();
            assert_eq!(owner, [(cr.metadata.uid.as_ref(), Some(true), Some(true))], "{id}");
            assert_eq!(primary, (None, None), "{id}");
        } else {
            assert!(owners.is_empty(), "{id}: {owners:?}");
            let place = format!("{}/{}", cr.namespace().unwrap_or_default(), self.name);
            let kind = format!("{}.{}", self.project.resource.kind, self.project.resource.group);
            assert_eq!(primary, (Some(place.as_str()), Some(kind.as_str())), "{id}");
        }
    }

    /// Status and resource version by name of the record.
    async fn records(&self) -> Value {
        let api: Api<Secret> = Api::namespaced(self.project.client.clone(), &self.project.namespace);
        let list = api.list(&ListParams::default().labels(&format!("owner=helm,name={}", self.name))).await;
        let records = list.expect("the records").items.into_iter().map(|secret| {
            let version = secret.resource_version();
            (secret.name_any(), json!({"status": secret.labels()["status"], "at": version}))
        });
        Value::Object(records.collect())
    }

    /// The name and the status of each record: the last is deployed, all before are superseded.
    async fn check_records(&self) {
        let records = self.records().await;
        let found: BTreeMap<_, _> = records
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, record)| (name.as_str(), &record["status"]))
            .collect();
        let (superseded, deployed) = (json!("superseded"), json!("deployed"));
        let names: Vec<_> = (1..=self.revision).map(|n| format!("sh.helm.release.v1.{}.v{n}", self.name)).collect();
        let mut wanted: BTreeMap<_, _> = names.iter().map(|name| (name.as_str(), &superseded)).collect();
        wanted.insert(names.last().expect("a revision"), &deployed);
        assert_eq!(found, wanted);
    }

    /// helm 3 and helm 4 tell the same story.
    fn check_helm(&self) {
        for program in ["helm3", "helm4"] {
            let listed = self.helm(program, &["list"]);
            let rows: Vec<_> =
                listed.as_array().into_iter().flatten().map(|row| (&row["name"], &row["status"])).collect();
            assert_eq!(rows, [(&json!(self.name), &json!("deployed"))], "{program}");
            assert_eq!(text(&listed[0]["revision"]), self.revision.to_string(), "{program}");
            let history = self.helm(program, &["history", &self.name]);
            let rows = history.as_array().into_iter().flatten();
            let rows: Vec<_> = rows.map(|row| (text(&row["revision"]), text(&row["status"]))).collect();
            let status = |n: u32| if n == self.revision { "deployed" } else { "superseded" };
            let wanted: Vec<_> = (1..=self.revision).map(|n| (n.to_string(), status(n).to_owned())).collect();
            assert_eq!(rows, wanted, "{program}");
        }
    }

    fn helm(&self, program: &str, arguments: &[&str]) -> Value {
        let said = self.project.helm(program, &[arguments, &["--output", "json"]].concat());
        serde_json::from_str(&said).expect("JSON")
    }

    /// How often the running operator has looked at this release.
    fn looks(&self) -> usize {
        let log = self.operator.as_ref().map(Operator::log).unwrap_or_default();
        let name = format!("\"name\":\"{}\"", self.name);
        log.lines().filter(|line| line.contains("looked at") && line.contains(&name)).count()
    }
}

/// An operator that tells of every look.
fn talkative(project: &Project) -> Operator {
    project.launch().env("RUST_LOG", "info,chartwright=debug,kube_client=off,kube_runtime=off").start()
}

async fn metadata(api: &Api<PartialObjectMeta<DynamicObject>>, params: &ListParams) -> Vec<ObjectMeta> {
    match api.list(params).await {
        Ok(list) => list.items.into_iter().map(|object| object.metadata).collect(),
        // Kinds of other tests come and go; some kinds of the API server cannot be listed as metadata.
        Err(kube::Error::Api(status)) if [404, 405, 406].contains(&status.code) => vec![],
        Err(error) => panic!("{}: {error}", api.resource_url()),
    }
}

/// What is in every namespace, or is the release's record.
fn is_furniture(kind: &str, metadata: &ObjectMeta) -> bool {
    let name = metadata.name.as_deref().unwrap_or_default();
    matches!((kind, name), ("ConfigMap", "kube-root-ca.crt") | ("ServiceAccount", "default"))
        || (kind == "Secret" && (name.starts_with("sh.helm.release.v1.") || name.starts_with("chartwright-")))
}

/// What tells that somebody wrote an object. Where controllers report a status, their reports do not count.
fn written(metadata: &ObjectMeta) -> Value {
    let entries = metadata.managed_fields.iter().flatten();
    let (status, others): (Vec<_>, Vec<_>) = entries.partition(|entry| entry.subresource.as_deref() == Some("status"));
    let version = status.is_empty().then_some(&metadata.resource_version);
    json!([metadata.uid, metadata.generation, others, version])
}

fn sorted(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    lines
}

/// helm 3 and 4 differ in whether a revision is a number or a text.
fn text(value: &Value) -> String {
    value.as_str().map(str::to_owned).unwrap_or_else(|| value.to_string())
}
