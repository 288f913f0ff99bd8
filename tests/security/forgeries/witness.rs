//! What the operator did while records were forged: by the audit log, and by what objects ever held.

use std::sync::{Arc, Mutex};

use futures::StreamExt;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::Value;

use super::{RBAC, Targets};
use crate::harness::Project;

/// Watches objects of the kinds that the chart makes, and those that a forgery adds, and remembers what they must never hold.
pub struct Witness {
    seen: Arc<Mutex<Vec<String>>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Witness {
    pub async fn of(project: &Project, targets: &Targets) -> Self {
        let seen = Arc::new(Mutex::new(vec![]));
        let watched = [
            project.objects(RBAC, "ClusterRole", None),
            project.objects(RBAC, "ClusterRoleBinding", None),
            project.objects(RBAC, "RoleBinding", Some(&project.namespace)),
            project.objects("v1", "ConfigMap", Some(&project.namespace)),
            project.objects("v1", "ConfigMap", Some(&targets.neighbour)),
        ];
        let watching = |api| tokio::spawn(watch(api, project.namespace.clone(), seen.clone()));
        let tasks = watched.into_iter().map(watching).collect();
        Witness { seen, tasks }
    }

    pub fn check(&self, seed: u64, round: usize) {
        let seen = self.seen.lock().expect("nobody panics with it");
        assert!(seen.is_empty(), "SEED={seed}, round {round}: {seen:#?}");
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

async fn watch(api: Api<DynamicObject>, namespace: String, seen: Arc<Mutex<Vec<String>>>) {
    let mut objects = watcher(api, watcher::Config::default()).applied_objects().boxed();
    while let Some(object) = objects.next().await {
        let Ok(object) = object else { continue };
        let (name, data) = (object.name_any(), &object.data);
        let is_ours = name.starts_with(&namespace) || object.namespace().is_some_and(|it| it.starts_with(&namespace));
        // The role that the operator itself has is called as the namespace.
        let is_operators = name == namespace || name == "editor";
        if is_ours && !is_operators && is_evil(&name, data) {
            seen.lock().expect("nobody panics with it").push(format!("{name}: {data}"));
        }
    }
}

fn is_evil(name: &str, data: &Value) -> bool {
    let has_rules = data["rules"].as_array().is_some_and(|rules| !rules.is_empty());
    let subjects = data["subjects"].as_array().into_iter().flatten();
    has_rules
        || name.contains("evil")
        || data["data"]["evil"].is_string()
        || data["roleRef"]["name"] == "cluster-admin"
        || subjects.into_iter().any(|subject| subject["name"] != "agent")
}

/// How often the operator wrote or deleted something since then, and what of it neither the chart nor the operator's own work explains.
pub fn writes(project: &Project, system: &str, since: Timestamp) -> (usize, Vec<String>) {
    let calls = project.audited_since(since).into_iter().filter(is_write);
    let (explained, unexpected): (Vec<Value>, Vec<Value>) = calls.partition(|call| is_explained(project, system, call));
    assert!(explained.len() > 50, "the audit log tells of {} writes only", explained.len());
    let words = |call: &Value| format!("{} {} {}", call["verb"], call["requestURI"], call["responseStatus"]["code"]);
    (explained.len() + unexpected.len(), unexpected.iter().map(words).collect())
}

fn is_write(call: &Value) -> bool {
    let verb = call["verb"].as_str().unwrap_or_default();
    let asks = call["requestURI"].as_str().unwrap_or_default();
    !["get", "list", "watch"].contains(&verb) && !asks.contains("dryRun=All")
}

fn is_explained(project: &Project, system: &str, call: &Value) -> bool {
    let text = |key: &str| call["objectRef"][key].as_str().unwrap_or_default();
    let (group, resource, namespace, name) = (text("apiGroup"), text("resource"), text("namespace"), text("name"));
    let verb = call["verb"].as_str().unwrap_or_default();
    let releases = super::names().into_iter().chain(["bystander".to_owned()]);
    let is_release = |form: &dyn Fn(&str) -> String| releases.clone().any(|release| form(&release) == name);
    let neighbour = format!("{}-next", project.namespace);
    let is_deletion = verb.starts_with("delete");
    match (group, resource, namespace) {
        // Its own work: rights, events, its key and ledger.
        ("authorization.k8s.io" | "authentication.k8s.io", _, _) => true,
        ("events.k8s.io" | "", "events", it) => it == project.namespace || it == system,
        ("", "secrets", it) if it == system => name.is_empty() || name.starts_with("chartwright-"),
        (group, _, it) if group == project.resource.group => it == project.namespace,
        // Inside of the namespace: what the chart renders, its hooks and Helm's records. A POST has its name in the body.
        ("", "configmaps", it) if it == project.namespace => {
            is_release(&|it| it.to_owned()) || is_release(&|it| format!("{it}-hook")) || verb == "create"
        }
        ("", "secrets", it) if it == project.namespace => {
            name.starts_with("sh.helm.release.v1.") || is_release(&|it| format!("{it}-random")) || verb == "create"
        }
        // Outside: what the chart renders, deleted only with its custom resource.
        ("", "configmaps", it) if it == neighbour => {
            is_release(&|it| it.to_owned()) && (!is_deletion || name == super::disposable())
        }
        ("rbac.authorization.k8s.io", "clusterroles" | "clusterrolebindings", "") => {
            let prefixed = |it: &str| format!("{}-{it}", project.namespace);
            is_release(&prefixed) && (!is_deletion || name == prefixed(&super::disposable()))
        }
        _ => false,
    }
}
