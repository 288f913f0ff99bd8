//! The kinds that the API server knows, asked for once and again when one is missing.
//!
//! For a render they must be those of now. Where [`crate::definitions`] tells when a kind comes or goes, they are asked for
//! after such news, otherwise when they are old.
//!
//! | module | what is in it |
//! |---|---|
//! | [`absence`] | whether a kind that is not listed is gone, or only away |
//! | [`catalog`] | what the API server said, as it said it |

use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use kube::Client;
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::Value;

use crate::calls::Calls;
use crate::definitions::{Definitions, Known};
use crate::error::{Category, is_away, of_kube, sentence};
use crate::object::ObjectId;

pub mod absence;
pub mod catalog;

pub use catalog::Catalog;

/// What the API server offers, in the shape that `helm template` takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Capabilities {
    pub kube_version: String,
    /// `apps/v1` and `apps/v1/Deployment`, as a real install lists them.
    pub api_versions: Vec<String>,
}

/// A kind and how it is reached.
#[derive(Clone, Debug)]
pub struct Kind {
    pub resource: ApiResource,
    pub namespaced: bool,
    pub has_status: bool,
    /// Whether its objects can be read, changed and deleted. Others, such as a Binding, are requests rather than objects.
    pub is_manageable: bool,
}

/// One answer of the API server.
#[derive(Debug, Default)]
pub struct Kinds {
    known: HashMap<GroupVersionKind, Kind>,
    pub capabilities: Capabilities,
    pub catalog: Catalog,
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

    /// The kind that is reached under this path.
    pub fn by_plural(&self, group: &str, version: &str, plural: &str) -> Option<&Kind> {
        let is_meant = |kind: &&Kind| {
            let ApiResource { group: of, version: at, plural: name, .. } = &kind.resource;
            (of.as_str(), at.as_str(), name.as_str()) == (group, version, plural)
        };
        self.known.values().find(is_meant)
    }

    /// For tests of the pure stages.
    pub fn of(kinds: impl IntoIterator<Item = (GroupVersionKind, Kind)>) -> Self {
        Kinds { known: kinds.into_iter().collect(), ..Kinds::default() }
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
    /// Whether trying again may help, without anybody's doing.
    pub fn is_away(&self) -> bool {
        is_away(&self.0)
    }

    pub fn category(&self) -> Category {
        of_kube(&self.0)
    }
}

/// The last answer, shared by all.
pub struct Cache {
    calls: Calls,
    last: RwLock<Answer>,
    /// Only one asks; the others wait for its answer.
    asking: tokio::sync::Mutex<()>,
    news: Option<Definitions>,
}

#[derive(Clone)]
struct Answer {
    /// When it was asked for.
    at: Instant,
    kinds: Arc<Kinds>,
    /// The definitions that were known when it was asked for.
    definitions: Known,
}

/// A kind that was missing a moment ago is not asked for again at once.
const FRESH: Duration = Duration::from_secs(1);
/// How old the capabilities of a render may be, where nobody tells of new kinds.
const FRESH_FOR_RENDER: Duration = Duration::from_secs(30);
/// How old they may be otherwise. Kinds of other API servers come without a definition.
const FRESH_WITHOUT_NEWS: Duration = Duration::from_secs(300);
/// Discovery learns of a definition a little later than whoever watches it.
const SETTLED: Duration = Duration::from_secs(3);

impl Cache {
    pub async fn new(calls: Calls) -> Result<Self, DiscoveryError> {
        let at = Instant::now();
        let kinds = Arc::new(calls.within(discover(calls.client())).await?);
        let last = RwLock::new(Answer { at, kinds, definitions: Known::default() });
        Ok(Cache { calls, last, asking: Default::default(), news: None })
    }

    /// The same, told of kinds that come and go.
    pub fn with_news(self, news: Definitions) -> Self {
        Cache { news: Some(news), ..self }
    }

    pub fn kinds(&self) -> Arc<Kinds> {
        self.last().kinds
    }

    fn last(&self) -> Answer {
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
        self.unless(|last| self.is_good_for_render(last)).await
    }

    fn is_good_for_render(&self, last: &Answer) -> bool {
        let age = last.at.elapsed();
        match self.definitions().filter(Known::is_complete) {
            None => age < FRESH_FOR_RENDER,
            Some(now) if last.definitions == now => age < FRESH_WITHOUT_NEWS,
            // Asked for after the news, but perhaps too early.
            Some(now) => age < FRESH && now.is_older_than(age),
        }
    }

    /// What the API server knows right now.
    pub async fn refresh(&self) -> Result<Arc<Kinds>, DiscoveryError> {
        self.younger_than(Duration::ZERO).await
    }

    async fn younger_than(&self, age: Duration) -> Result<Arc<Kinds>, DiscoveryError> {
        self.unless(|last| last.at.elapsed() < age).await
    }

    /// Asks, unless the last answer is good enough.
    async fn unless(&self, is_good: impl Fn(&Answer) -> bool) -> Result<Arc<Kinds>, DiscoveryError> {
        let _one = self.asking.lock().await;
        let last = self.last();
        if is_good(&last) {
            return Ok(last.kinds);
        }
        // Before the question, so that news which comes with the answer leads to another.
        let (at, definitions) = (Instant::now(), self.settled_definitions());
        let kinds = Arc::new(self.calls.within(discover(self.calls.client())).await?);
        let answer = Answer { at, kinds: kinds.clone(), definitions };
        *self.last.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = answer;
        Ok(kinds)
    }

    fn definitions(&self) -> Option<Known> {
        self.news.as_ref().map(|news| news.borrow().clone())
    }

    /// Nothing while they are so new that discovery may not know them: then the next render asks again.
    fn settled_definitions(&self) -> Known {
        self.definitions().filter(|known| known.is_older_than(SETTLED)).unwrap_or_default()
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
        (gvk, Kind { resource, namespaced, has_status: false, is_manageable: true })
    });
    kinds.collect()
}

async fn discover(client: Client) -> Result<Kinds, kube::Error> {
    let (version, groups, core) = (
        client.apiserver_version().await?,
        client.list_api_groups_aggregated().await?,
        client.list_core_api_versions_aggregated().await?,
    );
    let catalog = Catalog { version, core, groups };
    let capabilities =
        Capabilities { kube_version: catalog.version.git_version.clone(), api_versions: catalog.api_versions() };
    Ok(Kinds { known: catalog.kinds().collect(), capabilities, catalog })
}
