//! Everything of a release that is in the cluster.

use std::collections::BTreeMap;

use chartwright::applyset;
use chartwright::plan::Owner;
use chartwright::release::{Release, Status, codec};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::chart::{NAME, far};
use crate::harness::Project;

/// By kind and place.
pub type State = BTreeMap<String, Value>;

/// The number of a last revision that may have any.
pub const LAST: u32 = 0;

pub struct Seen {
    cr: Option<DynamicObject>,
    objects: BTreeMap<String, DynamicObject>,
    /// Named by what is random.
    replica_sets: usize,
    records: BTreeMap<u32, Release>,
}

impl Seen {
    pub async fn of(project: &Project, shared: &Project) -> Seen {
        let here = Some(project.namespace.as_str());
        let mut objects = BTreeMap::new();
        for (version, kind) in
            [("v1", "ConfigMap"), ("v1", "Secret"), ("v1", "ServiceAccount"), ("apps/v1", "Deployment")]
        {
            objects.extend(list(project, version, kind, here).await);
        }
        objects.extend(list(project, "rbac.authorization.k8s.io/v1", "Role", here).await);
        let begins = format!("{}-", project.namespace);
        let mut elsewhere = list(project, "rbac.authorization.k8s.io/v1", "ClusterRole", None).await;
        elsewhere.extend(list(project, "v1", "ConfigMap", Some(&far(shared))).await);
        objects.extend(elsewhere.into_iter().filter(|(_, object)| object.name_any().starts_with(&begins)));
        objects.retain(|_, object| !is_furniture(object));
        Seen {
            cr: project.crs().get_opt(NAME).await.expect("the API server answers"),
            objects,
            replica_sets: list(project, "apps/v1", "ReplicaSet", here).await.len(),
            records: records(project).await,
        }
    }

    pub fn uids(&self) -> BTreeMap<String, String> {
        self.objects.iter().map(|(key, object)| (key.clone(), object.uid().unwrap_or_default())).collect()
    }

    pub fn manifests(&self) -> BTreeMap<u32, String> {
        self.records.iter().map(|(revision, record)| (*revision, record.manifest.read().into_owned())).collect()
    }

    pub fn status(&self, revision: u32) -> Option<Status> {
        self.records.get(&revision).map(|record| record.status)
    }

    /// Only the last revision, without its number and without what tells how many there were. Whatever else is recorded may
    /// have failed, but must be over.
    pub fn last(mut self) -> Self {
        self.records.retain(|_, record| record.status == Status::Deployed || record.status.is_pending());
        if let (1, Some((_, record))) = (self.records.len(), self.records.pop_last()) {
            self.records.insert(LAST, Release { revision: LAST, description: String::new(), ..record });
        }
        if let Some(deployment) = self.objects.get_mut("Deployment web") {
            deployment.metadata.generation = None;
            deployment.annotations_mut().remove("deployment.kubernetes.io/revision");
        }
        self.replica_sets = 0;
        for place in ["/status/deployedRelease/revision", "/status/conditions/1/reason"] {
            self.cr.as_mut().and_then(|cr| cr.data.pointer_mut(place)).map(Value::take);
        }
        self
    }

    /// Without what differs from run to run: names, times, and random values, each of which has the name of the revision
    /// that brought it.
    pub fn state(&self, project: &Project) -> State {
        let mut state = State::new();
        state.extend(self.objects.iter().map(|(key, object)| (key.clone(), content(object))));
        state
            .extend(self.records.values().map(|record| (format!("revision {}", record.revision), self.record(record))));
        state.extend(self.cr.as_ref().map(|cr| ("the custom resource".to_owned(), self.told(cr))));
        state.insert("replica sets".to_owned(), self.replica_sets.into());
        let mut text = serde_json::to_string(&state).expect("JSON");
        for (from, to) in self.names(project) {
            text = text.replace(&from, &to);
        }
        serde_json::from_str(&text).expect("JSON")
    }

    fn record(&self, record: &Release) -> Value {
        let Some(own) = &record.own else {
            return json!({"status": record.status.as_str(), "manifest": record.manifest, "by": "helm"});
        };
        let keys: BTreeMap<_, _> = self.uids().into_iter().map(|(key, uid)| (uid, key)).collect();
        let objects = own.objects.iter().map(|applied| {
            let which = applied.uid.as_ref().map(|uid| keys.get(uid).map_or("what is gone", String::as_str));
            json!([applied.id.to_string(), which, applied.mark.is_some(), applied.wants_replicas, applied.overruled])
        });
        json!({
            "status": record.status.as_str(),
            "description": record.description,
            "config": record.config.value(),
            "manifest": record.manifest,
            "digest": own.digest,
            "owner": own.owner,
            "objects": objects.collect::<Vec<_>>(),
            "kept": own.kept.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    }

    fn told(&self, cr: &DynamicObject) -> Value {
        let mut status = cr.data.get("status").cloned().unwrap_or_default();
        for condition in status["conditions"].as_array_mut().into_iter().flatten() {
            condition["lastTransitionTime"].take();
        }
        json!({"metadata": content(cr)["metadata"], "status": status})
    }

    /// What is replaced by what.
    fn names(&self, project: &Project) -> Vec<(String, String)> {
        let gvk = GroupVersionKind::gvk(&project.resource.group, &project.resource.version, &project.resource.kind);
        let namespace = Some(project.namespace.clone());
        let set = applyset::id(&Owner { gvk, namespace, name: NAME.to_owned(), uid: String::new() });
        let mut names = vec![(set, "{set}".to_owned())];
        names.extend(self.cr.as_ref().and_then(ResourceExt::uid).map(|uid| (uid, "{uid}".to_owned())));
        for (revision, record) in &self.records {
            let password = password(&record.manifest.read());
            names.push((hex(digest(&SHA256, password.as_bytes()).as_ref()), format!("{{checksum {revision}}}")));
            names.push((password, format!("{{random {revision}}}")));
            names.extend(
                record
                    .digest()
                    .or(record.digest_label())
                    .map(|digest| (digest.to_owned(), format!("{{digest {revision}}}"))),
            );
        }
        names.push((project.namespace.clone(), "{namespace}".to_owned()));
        names
    }
}

async fn list(
    project: &Project,
    version: &str,
    kind: &str,
    namespace: Option<&str>,
) -> BTreeMap<String, DynamicObject> {
    let params = match namespace {
        Some(_) => ListParams::default(),
        None => ListParams::default().labels("app.kubernetes.io/managed-by=Helm"),
    };
    let listed = project.objects(version, kind, namespace).list(&params).await.expect("the API server answers");
    let objects = listed.items.into_iter().map(|object| (format!("{kind} {}", object.name_any()), object));
    objects.map(|(key, object)| (key.replace(&project.namespace, "{namespace}"), object)).collect()
}

async fn records(project: &Project) -> BTreeMap<u32, Release> {
    let api: Api<Secret> = Api::namespaced(project.client.clone(), &project.namespace);
    let listed = api.list(&ListParams::default().labels("owner=helm")).await.expect("the API server answers");
    let records = listed.items.iter().map(|secret| codec::decode(secret).expect("a record"));
    records.map(|record| (record.revision, record)).collect()
}

/// What is in every namespace, and records, which are looked at by themselves.
fn is_furniture(object: &DynamicObject) -> bool {
    let name = object.name_any();
    let own = ["sh.helm.release.v1.", "chartwright-"];
    ["kube-root-ca.crt", "default"].contains(&name.as_str()) || own.iter().any(|prefix| name.starts_with(prefix))
}

/// Of an object: what somebody wanted, and who did.
fn content(object: &DynamicObject) -> Value {
    let mut data = object.data.clone();
    data.as_object_mut().map(|data| data.remove("status"));
    let metadata = &object.metadata;
    let entries = metadata.managed_fields.iter().flatten();
    let ours = entries.filter(|entry| ["helm", "chartwright"].contains(&entry.manager.as_deref().unwrap_or_default()));
    let written: BTreeMap<_, _> = ours
        .map(|entry| (json!([entry.manager, entry.operation, entry.subresource]).to_string(), &entry.fields_v1))
        .collect();
    json!({
        "data": data,
        "metadata": {
            "labels": metadata.labels,
            "annotations": metadata.annotations,
            "finalizers": metadata.finalizers,
            "owners": metadata.owner_references,
            "generation": metadata.generation,
            "goes": metadata.deletion_timestamp.is_some(),
        },
        "written": written,
    })
}

/// The random value of a revision, as it is written in its manifest.
fn password(manifest: &str) -> String {
    let found = manifest.split("password: \"").nth(1).and_then(|rest| rest.split('"').next());
    found.expect("a password in the manifest").to_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
