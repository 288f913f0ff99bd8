//! The kinds that the API server knows, asked for once and again when one is missing.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use kube::Client;
use kube::core::GroupVersionKind;
use kube::discovery::{ApiResource, Discovery, Scope};
use serde_json::Value;

use crate::calls::Calls;
use crate::error::{Category, of_kube, sentence};
use crate::object::{Object, ObjectId};

/// What the API server offers, in the shape that `helm template` takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Capabilities {
    pub kube_version: String,
    /// `apps/v1` and `apps/v1/Deployment`, as a real install lists them.
    pub api_versions: Vec<String>,
}

impl Capabilities {
    /// The same with what a chart's crds/ bring. None if all of it is known. Helm creates crds/ first, and asks then.
    pub fn with_crds(&self, crds: &[Object]) -> Option<Self> {
        let brought = crds.iter().flat_map(|crd| kinds_of_crd(crd.value()));
        let brought = brought.flat_map(|(gvk, _)| [gvk.api_version(), format!("{}/{}", gvk.api_version(), gvk.kind)]);
        let mut api_versions = self.api_versions.clone();
        api_versions.extend(brought);
        api_versions.sort();
        api_versions.dedup();
        let kube_version = self.kube_version.clone();
        (api_versions != self.api_versions).then_some(Capabilities { kube_version, api_versions })
    }
}

/// A kind and how it is reached.
#[derive(Clone, Debug)]
pub struct Kind {
    pub resource: ApiResource,
    pub namespaced: bool,
    pub has_status: bool,
}

/// One answer of the API server.
#[derive(Debug, Default)]
pub struct Kinds {
    known: HashMap<GroupVersionKind, Kind>,
    pub capabilities: Capabilities,
}

impl Kinds {
    pub fn get(&self, gvk: &GroupVersionKind) -> Option<&Kind> {
        self.known.get(gvk)
    }

    /// A kind in whichever version the API server has it.
    pub fn any_version(&self, group: &str, kind: &str) -> Option<Kind> {
        let mut found = self.known.iter().filter(|(gvk, _)| gvk.group == group && gvk.kind == kind).collect::<Vec<_>>();
        // Any will do, but the same one each time.
        found.sort_by(|(a, _), (b, _)| a.version.cmp(&b.version));
        found.first().map(|(_, kind)| (*kind).clone())
    }

    /// For tests of the pure stages.
    pub fn of(kinds: impl IntoIterator<Item = (GroupVersionKind, Kind)>) -> Self {
        Kinds { known: kinds.into_iter().collect(), capabilities: Capabilities::default() }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot ask the API server for its kinds: {}", sentence(.0))]
pub struct DiscoveryError(kube::Error);

// Not a `#[from]`: that makes it the source as well, and whoever prints sources would print it again.
impl From<kube::Error> for DiscoveryError {
    fn from(error: kube::Error) -> Self {
        DiscoveryError(error)
    }
}

impl DiscoveryError {
    pub fn category(&self) -> Category {
        of_kube(&self.0)
    }
}

/// The last answer, shared by all.
pub struct Cache {
    calls: Calls,
    last: RwLock<(Instant, Arc<Kinds>)>,
    /// Only one asks; the others wait for its answer.
    asking: tokio::sync::Mutex<()>,
}

/// A kind that was missing a moment ago is not asked for again at once.
const FRESH: Duration = Duration::from_secs(1);
/// How old the capabilities of a render may be.
const FRESH_FOR_RENDER: Duration = Duration::from_secs(30);

impl Cache {
    pub async fn new(calls: Calls) -> Result<Self, DiscoveryError> {
        let kinds = calls.within(discover(calls.client())).await?;
        Ok(Cache { calls, last: RwLock::new((Instant::now(), Arc::new(kinds))), asking: Default::default() })
    }

    pub fn kinds(&self) -> Arc<Kinds> {
        self.last().1
    }

    fn last(&self) -> (Instant, Arc<Kinds>) {
        // A poisoned lock still holds a whole answer: it is only ever replaced.
        self.last.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Kinds that know all of these, if the API server does: asks again when one is missing.
    pub async fn kinds_with(&self, wanted: &[GroupVersionKind]) -> Result<Arc<Kinds>, DiscoveryError> {
        let kinds = self.kinds();
        match wanted.iter().all(|gvk| kinds.get(gvk).is_some()) {
            true => Ok(kinds),
            false => self.younger_than(FRESH).await,
        }
    }

    /// Kinds that know all of these in any version: what was applied in a version that is gone can still be reached.
    pub async fn kinds_of<'a>(
        &self,
        ids: impl Iterator<Item = &'a ObjectId> + Clone,
    ) -> Result<Arc<Kinds>, DiscoveryError> {
        let kinds = self.kinds();
        match ids.clone().all(|id| kinds.any_version(&id.group, &id.kind).is_some()) {
            true => Ok(kinds),
            false => self.younger_than(FRESH).await,
        }
    }

    /// For a render: a chart may ask what the cluster offers now.
    pub async fn for_render(&self) -> Result<Arc<Kinds>, DiscoveryError> {
        self.younger_than(FRESH_FOR_RENDER).await
    }

    /// What the API server knows right now.
    pub async fn refresh(&self) -> Result<Arc<Kinds>, DiscoveryError> {
        self.younger_than(Duration::ZERO).await
    }

    async fn younger_than(&self, age: Duration) -> Result<Arc<Kinds>, DiscoveryError> {
        let _one = self.asking.lock().await;
        let (at, kinds) = self.last();
        if at.elapsed() < age {
            return Ok(kinds);
        }
        let fresh = Arc::new(self.calls.within(discover(self.calls.client())).await?);
        *self.last.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = (Instant::now(), fresh.clone());
        Ok(fresh)
    }
}

/// The kinds that a CRD will make known, so that its resources can be planned before it is there.
pub fn kinds_of_crd(crd: &Value) -> Vec<(GroupVersionKind, Kind)> {
    let text = |pointer: &str| crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, kind, plural) = (text("/spec/group"), text("/spec/names/kind"), text("/spec/names/plural"));
    let namespaced = text("/spec/scope") == "Namespaced";
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let versions = versions.filter(|version| version.get("served") != Some(&Value::Bool(false)));
    let kinds = versions.filter_map(|version| version.get("name")?.as_str()).map(|version| {
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
        (gvk, Kind { resource, namespaced, has_status: false })
    });
    kinds.collect()
}

async fn discover(client: Client) -> Result<Kinds, kube::Error> {
    let version = client.apiserver_version().await?;
    let discovery = Discovery::new(client.clone()).run_aggregated().await?;
    let mut kinds = Kinds::default();
    kinds.capabilities.kube_version = version.git_version;
    for group in discovery.groups() {
        for version in group.versions() {
            let mut resources = group.versioned_resources(version);
            resources.sort_by(|(a, _), (b, _)| a.kind.cmp(&b.kind));
            let Some((first, _)) = resources.first() else { continue };
            kinds.capabilities.api_versions.push(first.api_version.clone());
            for (resource, capabilities) in resources {
                kinds.capabilities.api_versions.push(format!("{}/{}", resource.api_version, resource.kind));
                let gvk = GroupVersionKind::gvk(&resource.group, &resource.version, &resource.kind);
                let namespaced = capabilities.scope == Scope::Namespaced;
                let has_status = capabilities.subresources.iter().any(|(sub, _)| sub.plural.ends_with("status"));
                kinds.known.insert(gvk, Kind { resource, namespaced, has_status });
            }
        }
    }
    kinds.capabilities.api_versions.sort();
    kinds.capabilities.api_versions.dedup();
    Ok(kinds)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_crds_bring_is_offered_unless_it_is_known() {
        let crd = Object::new(json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "ys.x.io"},
            "spec": {
                "group": "x.io", "scope": "Namespaced", "names": {"kind": "Y", "plural": "ys"},
                "versions": [{"name": "v1", "served": true}, {"name": "v1alpha1", "served": false}],
            },
        }));
        let crds = [crd.unwrap()];
        let before = Capabilities { kube_version: "v1.36.0".into(), api_versions: vec!["v1".into()] };
        let after = before.with_crds(&crds).unwrap();
        assert_eq!(after.api_versions, ["v1", "x.io/v1", "x.io/v1/Y"]);
        assert_eq!(after.with_crds(&crds), None);
    }
}
