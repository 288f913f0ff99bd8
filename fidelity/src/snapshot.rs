//! Everything in an API server, once it has settled.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use kube::Resource;
use kube::api::{DynamicObject, ListParams};
use kube::core::Request;
use kube::discovery::{ApiCapabilities, ApiResource, Discovery, verbs};
use serde_json::Value;

use crate::allowed::Allowed;
use crate::compare::Scene;
use crate::normal::{controller, normal, text, uid};
use crate::object::{Id, Objects};
use crate::plane::GROUP;
use crate::random::Random;

/// Lists at once.
const AT_ONCE: usize = 12;
const PAUSE: Duration = Duration::from_millis(250);
/// Something that never becomes ready has settled too, once nothing moves for so long.
const CALM: Duration = Duration::from_secs(6);
const PATIENCE: Duration = Duration::from_secs(60);

/// What was there before a proof.
#[derive(Debug, Default)]
pub struct Ground {
    /// UIDs with resource versions.
    versions: BTreeSet<(String, String)>,
    ids: BTreeSet<Id>,
    /// Namespaces of earlier proofs, on their way out.
    dying: BTreeSet<String>,
    /// Kinds that are not looked at.
    left_out: BTreeSet<String>,
}

/// An API server at rest.
pub struct Settled {
    pub raw: Vec<Value>,
    /// What is not as it should be, though nothing moves any more.
    pub restless: Option<String>,
}

impl Ground {
    pub async fn look(client: &Client, allowed: &Allowed) -> Result<Self> {
        let all = everything(client, &Ground::default()).await?;
        let dying = all.iter().filter(|object| object["kind"] == "Namespace" && is_going(object));
        let dying = dying.map(|object| text(object, "/metadata/name").to_owned()).collect();
        let kinds: BTreeSet<&str> = all.iter().map(|object| text(object, "/kind")).collect();
        let left_out = kinds.into_iter().filter(|kind| allowed.leaves_out(kind)).map(str::to_owned).collect();
        let ground = Ground { dying, left_out, ..Ground::default() };
        let there: Vec<&Value> = all.iter().filter(|object| !ground.ignores(object)).collect();
        let versions = there.iter().map(|object| version_of(object)).collect();
        Ok(Ground { versions, ids: there.into_iter().map(Id::of).collect(), ..ground })
    }

    /// Whether an object was there, just so.
    pub fn has(&self, object: &Value) -> bool {
        self.versions.contains(&version_of(object))
    }

    fn ignores(&self, object: &Value) -> bool {
        let namespace = match object["kind"] == "Namespace" {
            true => text(object, "/metadata/name"),
            false => text(object, "/metadata/namespace"),
        };
        self.dying.contains(namespace)
    }

    /// What the objects of an API server mean, compared with what was there before.
    pub fn scene(&self, raw: &[Value], random: &Random) -> Result<Scene> {
        let objects = normal(raw, random)?;
        let unchanged: Vec<Value> = raw.iter().filter(|object| self.has(object)).cloned().collect();
        let known: Objects = normal(&unchanged, random)?;
        let mut touched: BTreeSet<Id> = objects.keys().filter(|id| !known.contains_key(id)).cloned().collect();
        touched.extend(self.ids.iter().filter(|id| !objects.contains_key(id)).cloned());
        Ok(Scene { objects, touched })
    }
}

fn version_of(object: &Value) -> (String, String) {
    (uid(object).unwrap_or_default().to_owned(), text(object, "/metadata/resourceVersion").to_owned())
}

fn is_going(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

/// The kinds that can be listed, each in one version.
async fn kinds(client: &Client) -> Result<Vec<(ApiResource, ApiCapabilities)>> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await.context("discovery fails")?;
    let groups = discovery.groups().filter(|group| group.name() != GROUP);
    let kinds = groups.flat_map(|group| group.resources_by_stability());
    Ok(kinds.filter(|(_, capabilities)| capabilities.supports_operation(verbs::LIST)).collect())
}

/// The cluster's capabilities, as helm lists them: versions, and versions with kinds.
pub async fn capabilities(client: &Client) -> Result<Vec<String>> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await.context("discovery fails")?;
    let mut apis = BTreeSet::new();
    for group in discovery.groups() {
        for version in group.versions() {
            for (resource, _) in group.versioned_resources(version) {
                apis.insert(resource.api_version.clone());
                apis.insert(format!("{}/{}", resource.api_version, resource.kind));
            }
        }
    }
    Ok(apis.into_iter().collect())
}

/// Every object of the API server, without what is furniture of a cluster.
pub async fn everything(client: &Client, ground: &Ground) -> Result<Vec<Value>> {
    let kinds = kinds(client).await?;
    let lists = kinds.into_iter().filter(|(kind, _)| !ground.left_out.contains(&kind.kind));
    let lists: Vec<Vec<Value>> =
        stream::iter(lists.map(|(kind, _)| list(client, kind))).buffer_unordered(AT_ONCE).try_collect().await?;
    let all: Vec<Value> = lists.into_iter().flatten().filter(|object| !is_furniture(object)).collect();
    let scheduled: BTreeSet<&str> = all.iter().filter(|object| is_made_by(object, "CronJob")).filter_map(uid).collect();
    let is_scheduled = |object: &Value| {
        let owner = controller(object).map(|owner| text(owner, "/uid")).unwrap_or_default();
        is_made_by(object, "CronJob") || scheduled.contains(owner)
    };
    let kept = all.iter().filter(|object| !is_scheduled(object) && !ground.ignores(object));
    Ok(kept.cloned().collect())
}

async fn list(client: &Client, kind: ApiResource) -> Result<Vec<Value>> {
    // Not as typed objects: all of it is compared, and this is done often.
    let request = Request::new(DynamicObject::url_path(&kind, None)).list(&ListParams::default())?;
    let list: Value = match client.request(request).await {
        Ok(list) => list,
        // A kind may have gone meanwhile, or its server may not run.
        Err(kube::Error::Api(status)) if [404, 405, 503].contains(&status.code) => return Ok(vec![]),
        Err(error) => return Err(error).with_context(|| format!("{} cannot be listed", kind.kind)),
    };
    let items = list["items"].as_array().into_iter().flatten().cloned();
    let named = items.map(|mut object| {
        (object["apiVersion"], object["kind"]) = (kind.api_version.clone().into(), kind.kind.clone().into());
        object
    });
    Ok(named.collect())
}

fn is_made_by(object: &Value, kind: &str) -> bool {
    controller(object).is_some_and(|owner| owner["kind"] == kind)
}

/// What the cluster makes for itself, in every namespace or for every Service and every CRD.
fn is_furniture(object: &Value) -> bool {
    let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
    let label = |key: &str| object.pointer(&format!("/metadata/labels/{key}")).is_some();
    match kind {
        "ConfigMap" => name == "kube-root-ca.crt" || name == "kube-apiserver-legacy-service-account-token-tracking",
        // The operator's key and ledger.
        "Secret" => text(object, "/type").starts_with("chartwright.dev/"),
        "Endpoints" => label("endpoints.kubernetes.io~1managed-by"),
        "EndpointSlice" => label("endpointslice.kubernetes.io~1managed-by"),
        "APIService" => label("kube-aggregator.kubernetes.io~1automanaged"),
        "CustomResourceDefinition" => name.ends_with(GROUP),
        _ => false,
    }
}

/// Waits until nothing moves any more.
///
/// # Errors
/// The API server does not answer, or something moves for too long.
pub async fn settle(client: &Client, ground: &Ground) -> Result<Settled> {
    let started = Instant::now();
    let mut calm_since = Instant::now();
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    loop {
        let raw = everything(client, ground).await?;
        let versions: BTreeMap<String, String> = raw.iter().map(version_of).collect();
        let is_same = versions == last;
        if !is_same {
            (calm_since, last) = (Instant::now(), versions);
        }
        let restless = restless(&raw);
        if is_same && restless.is_none() {
            return Ok(Settled { raw, restless: None });
        }
        if is_same && calm_since.elapsed() > CALM {
            return Ok(Settled { raw, restless });
        }
        if started.elapsed() > PATIENCE {
            bail!("it does not settle: {} moves", restless.unwrap_or_else(|| "something".to_owned()));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// An object on which a controller of the cluster still has something to do.
fn restless(raw: &[Value]) -> Option<String> {
    let uids: BTreeSet<&str> = raw.iter().filter_map(uid).collect();
    let moving = raw.iter().find(|object| {
        let orphan = || {
            let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
            let mut of_others = owners.filter(|owner| !text(owner, "/apiVersion").starts_with(GROUP));
            of_others.any(|owner| !uids.contains(text(owner, "/uid")) && owner["kind"] != "Node")
        };
        is_going(object) || is_at_work(object) || orphan()
    });
    moving.map(|object| Id::of(object).to_string())
}

fn is_at_work(object: &Value) -> bool {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    let observed = || number("/status/observedGeneration") >= number("/metadata/generation");
    let wanted = number("/spec/replicas").unwrap_or(1);
    let all = |field: &str| number(&format!("/status/{field}")).unwrap_or_default() == wanted;
    match text(object, "/kind") {
        "Deployment" => !observed() || !["replicas", "updatedReplicas", "availableReplicas"].into_iter().all(all),
        "StatefulSet" => {
            let same_revision = text(object, "/status/currentRevision") == text(object, "/status/updateRevision");
            !observed() || !all("replicas") || !all("readyReplicas") || !same_revision
        }
        "DaemonSet" => {
            let scheduled = number("/status/desiredNumberScheduled");
            !observed() || number("/status/updatedNumberScheduled").or(Some(0)) != scheduled
        }
        "ReplicaSet" => !observed() || !all("replicas"),
        "Job" => {
            let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
            let is_over =
                |it: &Value| ["Complete", "Failed", "Suspended"].contains(&text(it, "/type")) && it["status"] == "True";
            !conditions.into_iter().any(is_over)
        }
        "HorizontalPodAutoscaler" => {
            let least = number("/spec/minReplicas").unwrap_or(1);
            number("/status/currentReplicas").unwrap_or_default() < least
        }
        "Pod" => text(object, "/status/phase") == "Pending" || text(object, "/status/phase").is_empty(),
        "PersistentVolumeClaim" => text(object, "/status/phase") == "Pending",
        "PersistentVolume" => ["Available", "Pending", ""].contains(&text(object, "/status/phase")),
        "CustomResourceDefinition" => object.pointer("/status/conditions").is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(kind: &str, name: &str, version: &str) -> Value {
        json!({"kind": kind, "metadata": {"name": name, "uid": format!("uid-of-{name}"), "resourceVersion": version}})
    }

    #[test]
    fn what_came_changed_or_went_is_touched() {
        let before =
            [object("ConfigMap", "same", "1"), object("ConfigMap", "edited", "1"), object("ConfigMap", "gone", "1")];
        let mut ground = Ground::default();
        for object in &before {
            ground.versions.insert(version_of(object));
            ground.ids.insert(Id::of(object));
        }
        let after =
            [object("ConfigMap", "same", "1"), object("ConfigMap", "edited", "2"), object("ConfigMap", "new", "3")];
        let scene = ground.scene(&after, &Random::default()).unwrap();
        let touched: Vec<&str> = scene.touched.iter().map(|id| id.name.as_str()).collect();
        assert_eq!(touched, ["edited", "gone", "new"]);
        assert_eq!(scene.objects.len(), 3);
    }

    #[test]
    fn a_rollout_an_orphan_and_what_is_going_keep_it_from_rest() {
        let mut deployment = object("Deployment", "web", "1");
        deployment["metadata"]["generation"] = json!(2);
        deployment["spec"] = json!({"replicas": 1});
        deployment["status"] =
            json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1});
        assert!(restless(&[deployment.clone()]).is_some());
        deployment["status"]["observedGeneration"] = json!(2);
        assert_eq!(restless(&[deployment.clone()]), None);
        let mut set = object("ConfigMap", "owned", "1");
        set["metadata"]["ownerReferences"] = json!([{"kind": "Deployment", "name": "web", "uid": "uid-of-web"}]);
        assert_eq!(restless(&[deployment, set.clone()]), None);
        assert_eq!(restless(&[set]).as_deref(), Some("ConfigMap owned"));
        let mut going = object("ConfigMap", "going", "1");
        going["metadata"]["deletionTimestamp"] = json!("now");
        assert!(restless(&[going]).is_some());
    }

    #[test]
    fn furniture_is_told_from_what_a_chart_makes() {
        let mut slice = object("EndpointSlice", "web", "1");
        assert!(!is_furniture(&slice), "a chart may bring its own");
        slice["metadata"]["labels"] = json!({"endpointslice.kubernetes.io/managed-by": "controller"});
        assert!(is_furniture(&slice));
        assert!(is_furniture(&object("ConfigMap", "kube-root-ca.crt", "1")));
    }
}
