//! ConfigMaps and Secrets that values come from: reading them, and telling whoever refers to one when it changes.
//!
//! Both kinds are watched from the moment that somebody refers to one, metadata only. An object is read when a custom resource
//! needs it for the first time, or after the watch told of a change. What was read is kept, packed, as long as somebody
//! refers to it, and only the keys that are referred to. So a custom resource at rest costs no call, and one call per reference
//! after a restart.
//!
//! Only the namespace of the release is ever read: a reference cannot name another.

mod cycles;
mod table;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard};

use futures::{StreamExt, TryStreamExt, pin_mut};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, PartialObjectMeta};
use kube::core::{NamespaceResourceScope, ObjectMeta};
use kube::runtime::watcher;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::aside;
use crate::calls::Calls;
use crate::children::version;
use crate::custom_resource::{CustomResource, Place, SpecError};
use crate::discovery::Kind;
use crate::error::{Category, of_kube, sentence};
use crate::identity::Identity;
use crate::listeners::{Listeners, Parent};
use crate::namespaces::{Namespaces, Scope};
use crate::ownership::{self, Claim};
use crate::queue::Urgency;
use crate::release::budget::VALUES;
use crate::sensitive::{Labels, Sensitive};
use crate::unknown::{Known, UnknownField};
use crate::values::from::{self, Content, FromError, Reference, SourceKind};
use crate::values::{Values, ValuesError};
use crate::watches::Watch;
use crate::watching::{self, Tolerant, tolerant_events};
use table::{At, Keys, News, Table};

/// Each install writes several of these, and nobody may refer to one.
const WATCHED_SECRETS: &str = "type!=helm.sh/release.v1";

/// Why the values of a custom resource are not known.
#[derive(Debug, thiserror::Error)]
pub enum WantedError {
    #[error(transparent)]
    Values(#[from] ValuesError),
    #[error("the spec cannot be read: {0}")]
    Spec(SpecError),
    #[error("{0}")]
    Annotation(String),
    #[error(transparent)]
    From(Box<FromError>),
    #[error(transparent)]
    Read(Box<ReadError>),
}

impl From<FromError> for WantedError {
    fn from(error: FromError) -> Self {
        WantedError::From(Box::new(error))
    }
}

impl From<ReadError> for WantedError {
    fn from(error: ReadError) -> Self {
        WantedError::Read(Box::new(error))
    }
}

impl WantedError {
    pub fn category(&self) -> Category {
        match self {
            WantedError::Values(_) | WantedError::Spec(_) => Category::InvalidValues,
            WantedError::Annotation(_) => Category::InvalidAnnotation,
            WantedError::From(error) => error.category(),
            WantedError::Read(error) => of_kube(&error.error),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot read the {what} in the namespace {namespace}, which values come from: {}", sentence(error))]
pub struct ReadError {
    what: String,
    namespace: String,
    error: kube::Error,
}

/// The values that a custom resource asks for, and the fields of its spec that the chart does not know. `read` gets what it refers to; a
/// reconcile and a preview of it differ in that alone.
pub async fn values_of(
    cr: &CustomResource,
    watch: &Watch,
    identity: &Identity,
    known: Option<Arc<Known>>,
    read: impl AsyncFnOnce(&[Reference]) -> Result<Vec<Content>, ReadError>,
) -> Result<(Values, Vec<UnknownField>), WantedError> {
    let references = identity.references(cr, watch).map_err(WantedError::Annotation)?;
    let contents = read(&references).await?;
    let spec = cr.spec();
    // A short text of a source may hold much.
    let is_short = references.is_empty() && spec.length() < aside::LONG;
    let (namespace, overrides) = (identity.namespace.clone(), watch.overrides.clone());
    let work = move || {
        let spec = spec.read().map_err(WantedError::Spec)?;
        let unknown = known.zip(spec.as_ref()).map(|(known, spec)| known.unknown(spec)).unwrap_or_default();
        let sources = from::merge(&references, &contents, &namespace)?;
        Ok((Values::merged(sources, spec, &overrides)?, unknown))
    };
    match is_short {
        true => work(),
        false => aside::run(work).await,
    }
}

/// Reads what is there right now, for whoever asks only once.
pub async fn read_once(
    calls: &Calls,
    identity: &Identity,
    references: &[Reference],
) -> Result<Vec<Content>, ReadError> {
    let mut gathered = Gathered::default();
    for (reference, keys) in by_object(references) {
        if gathered.is_full() {
            break;
        }
        gathered.add(reference, Keys::of(&fetch(calls, &identity.namespace, reference).await?, &keys));
    }
    Ok(gathered.contents(identity, references))
}

/// The objects that references lead to, each once and in their order, with the keys that are wanted of it.
fn by_object(references: &[Reference]) -> Vec<(&Reference, Vec<&str>)> {
    let mut objects: Vec<(&Reference, Vec<&str>)> = vec![];
    let mut places = HashMap::new();
    for reference in references {
        let place = *places.entry((reference.kind, &reference.name)).or_insert_with(|| {
            objects.push((reference, vec![]));
            objects.len() - 1
        });
        let keys = &mut objects[place].1;
        if !keys.contains(&reference.key.as_str()) {
            keys.push(&reference.key);
        }
    }
    objects
}

/// Objects that were read for one custom resource. Once they hold more than its values may, no more are read.
#[derive(Default)]
struct Gathered<'a> {
    objects: HashMap<(SourceKind, &'a str), Keys>,
    bytes: usize,
}

impl<'a> Gathered<'a> {
    fn is_full(&self) -> bool {
        self.bytes as u64 > VALUES.bytes
    }

    fn add(&mut self, reference: &'a Reference, read: Keys) {
        self.bytes += read.bytes();
        self.objects.insert((reference.kind, &reference.name), read);
    }

    /// What each reference leads to. References to the same text share it.
    fn contents(&self, identity: &Identity, references: &[Reference]) -> Vec<Content> {
        let content = |reference: &Reference| match self.objects.get(&(reference.kind, reference.name.as_str())) {
            None => Content::TooMuch,
            Some(Keys { marks, contents }) => {
                let content = contents.get(&reference.key).cloned().unwrap_or(Content::NoKey);
                not_its_own(identity, marks, content)
            }
        };
        references.iter().map(content).collect()
    }
}

/// What the release makes itself would change with every revision, and be another's reason for the next.
fn not_its_own(identity: &Identity, marks: &ObjectMeta, content: Content) -> Content {
    match ownership::judge(marks, &identity.release, &identity.namespace, &identity.owner) {
        Claim::Ours | Claim::Helm => Content::OfRelease,
        Claim::Foreign(_) | Claim::Loose => content,
    }
}

/// What the API server has under a name.
struct Found {
    /// 0 where nothing is there.
    version: u64,
    /// By which it is told whose it is.
    marks: ObjectMeta,
    /// The custom resource whose release makes it, where that is one of this operator.
    maker: Option<Parent>,
    object: Option<Held>,
}

struct Held {
    /// A custom resource must not be a way to read it.
    sensitive: Option<Sensitive>,
    data: BTreeMap<String, Vec<u8>>,
}

impl Found {
    fn nothing() -> Self {
        Found { version: 0, marks: ObjectMeta::default(), maker: None, object: None }
    }

    fn content(&self, key: &str) -> Content {
        match &self.object {
            None => Content::NoObject,
            Some(Held { sensitive: Some(what), .. }) => Content::Sensitive(*what),
            Some(Held { data, .. }) => match data.get(key).map(|bytes| std::str::from_utf8(bytes)) {
                None => Content::NoKey,
                Some(Err(_)) => Content::Binary,
                Some(Ok(text)) => Content::Text(text.into()),
            },
        }
    }
}

async fn fetch(calls: &Calls, namespace: &str, reference: &Reference) -> Result<Found, ReadError> {
    let failed = |error| ReadError { what: reference.to_string(), namespace: namespace.to_owned(), error };
    let (metadata, kind, data) = match reference.kind {
        SourceKind::Secret => {
            let Some(secret) = get::<Secret>(calls, namespace, &reference.name).await.map_err(failed)? else {
                return Ok(Found::nothing());
            };
            let data = secret.data.unwrap_or_default().into_iter().map(|(key, bytes)| (key, bytes.0));
            (secret.metadata, secret.type_, data.collect())
        }
        SourceKind::ConfigMap => {
            let Some(map) = get::<ConfigMap>(calls, namespace, &reference.name).await.map_err(failed)? else {
                return Ok(Found::nothing());
            };
            let texts = map.data.unwrap_or_default().into_iter().map(|(key, text)| (key, text.into_bytes()));
            let bytes = map.binary_data.unwrap_or_default().into_iter().map(|(key, bytes)| (key, bytes.0));
            (map.metadata, None, texts.chain(bytes).collect())
        }
    };
    let labels = metadata.labels.as_ref().map_or(Labels::None, Labels::Map);
    let name = metadata.name.as_deref().unwrap_or_default();
    let sensitive = Sensitive::of("", reference.kind.as_str(), kind.as_deref(), name, &labels);
    let (version, marks) = (version(&metadata), ownership::marks(&metadata));
    Ok(Found { version, marks, maker: None, object: Some(Held { sensitive, data }) })
}

async fn get<K>(calls: &Calls, namespace: &str, name: &str) -> Result<Option<K>, kube::Error>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let api: Api<K> = Api::namespaced(calls.client(), namespace);
    calls.within(api.get_opt(name)).await
}

/// Everything that custom resources refer to.
pub struct Sources {
    client: Client,
    shared: Arc<Shared>,
    namespaces: Namespaces,
    started: Mutex<HashSet<(SourceKind, Scope)>>,
    stop: CancellationToken,
}

struct Shared {
    tables: Mutex<HashMap<Scope, Table>>,
    /// Custom resources whose values depend on themselves, each with the others on its cycle.
    cycles: Mutex<HashMap<Parent, Vec<Parent>>>,
    listeners: Arc<Listeners>,
}

impl Sources {
    pub fn new(client: Client, listeners: Arc<Listeners>, namespaces: Namespaces, stop: CancellationToken) -> Self {
        let shared = Arc::new(Shared { tables: Mutex::default(), cycles: Mutex::default(), listeners });
        Sources { client, shared, namespaces, started: Mutex::default(), stop }
    }

    /// What a custom resource refers to. From now on it is told when that changes, and no longer when something else does.
    pub async fn read(
        &self,
        (kind, place): (&Kind, &Place),
        calls: &Calls,
        identity: &Identity,
        references: &[Reference],
    ) -> Result<Vec<Content>, ReadError> {
        let at = |it: &Reference| (it.kind, Place::new(Some(&identity.namespace), &it.name));
        let reader = self.shared.listeners.parent_of(kind, place);
        let scope = self.namespaces.scope_of(Some(&identity.namespace));
        if let Some(reader) = &reader {
            self.shared.with(&scope, |table| table.refer(reader, references.iter().map(at).collect()));
        }
        // All keys of an object are from one version of it.
        let mut gathered = Gathered::default();
        for (reference, keys) in by_object(references) {
            if gathered.is_full() {
                break;
            }
            let fetch = fetch(calls, &identity.namespace, reference);
            gathered.add(reference, self.object(&at(reference), &keys, reader.as_ref(), fetch).await?);
        }
        let mut contents = gathered.contents(identity, references);
        if let Some((at, way)) = reader.as_ref().and_then(|reader| self.shared.cycle_of(reader)) {
            let is_first = |it: &Reference| it.kind == at.0 && *it.name == *at.1.name;
            let found = references.iter().zip(&mut contents).find(|(reference, _)| is_first(reference));
            // An object that the release makes itself is told as that.
            if let Some((_, content)) = found.filter(|(_, content)| **content != Content::OfRelease) {
                *content = Content::OfCycle(way);
            }
        }
        Ok(contents)
    }

    /// What an object holds under these keys. It is fetched unless all of them are known.
    async fn object(
        &self,
        at: &At,
        keys: &[&str],
        reader: Option<&Parent>,
        fetch: impl Future<Output = Result<Found, ReadError>>,
    ) -> Result<Keys, ReadError> {
        let scope = self.namespaces.scope_of(at.1.namespace.as_deref());
        self.watch(at.0, &scope);
        let (known, told) = self.shared.with(&scope, |table| (table.keys(at, keys), table.told(at)));
        if let Some(known) = known {
            return Ok(known);
        }
        let mut found = fetch.await?;
        // Where it lies is part of who owns it.
        let placed = ObjectMeta { namespace: at.1.namespace.as_deref().map(str::to_owned), ..found.marks.clone() };
        found.maker = self.shared.listeners.parent(&placed);
        let stale = self.shared.with(&scope, |table| table.learn(at, keys, &found, told, reader));
        self.shared.wake(&stale);
        Ok(Keys::of(&found, keys))
    }

    /// The kinds that a custom resource refers to and that cannot be watched: a change of them goes unnoticed.
    pub fn unwatched(&self, kind: &Kind, place: &Place) -> Vec<SourceKind> {
        let reader = self.shared.listeners.parent_of(kind, place);
        let Some(reader) = reader else { return vec![] };
        let mut kinds: Vec<_> = self.shared.all().values().flat_map(|table| table.blind_to(&reader)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// Has everything that a custom resource refers to read again.
    pub fn distrust(&self, kind: &Kind, place: &Place) {
        if let Some(reader) = self.shared.listeners.parent_of(kind, place) {
            self.shared.all().values_mut().for_each(|table| table.distrust(&reader));
        }
    }

    /// Drops what only a custom resource that is gone referred to.
    pub fn forget(&self, kind: &Kind, place: &Place) {
        if let Some(reader) = self.shared.listeners.parent_of(kind, place) {
            self.shared.all().values_mut().for_each(|table| table.refer(&reader, HashSet::new()));
            self.shared.note_cycle(&reader, vec![]);
        }
    }

    fn watch(&self, kind: SourceKind, scope: &Scope) {
        let mut started = self.started.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !started.insert((kind, scope.clone())) {
            return;
        }
        let (shared, stop) = (self.shared.clone(), self.stop.clone());
        let watched = (kind, scope.clone());
        match kind {
            SourceKind::Secret => {
                let api: Api<Tolerant<PartialObjectMeta<Secret>>> = watching::api(self.client.clone(), scope);
                tokio::spawn(follow(api, watched, Some(WATCHED_SECRETS), shared, stop));
            }
            SourceKind::ConfigMap => {
                let api: Api<Tolerant<PartialObjectMeta<ConfigMap>>> = watching::api(self.client.clone(), scope);
                tokio::spawn(follow(api, watched, None, shared, stop));
            }
        }
    }
}

async fn follow<K>(
    api: Api<Tolerant<PartialObjectMeta<K>>>,
    (kind, scope): (SourceKind, Scope),
    fields: Option<&'static str>,
    shared: Arc<Shared>,
    stop: CancellationToken,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + 'static,
{
    let events = tolerant_events(api, None, fields).take_until(stop.cancelled());
    pin_mut!(events);
    loop {
        match events.try_next().await {
            Ok(Some(event)) => shared.note(kind, &scope, event),
            Ok(None) => break,
            Err(error) => {
                if matches!(watching::code(&error), Some(403 | 404)) {
                    let readers = shared.with(&scope, |table| table.is_refused(kind));
                    shared.wake(&readers);
                }
                let (kind, namespace, words) = (kind.as_str(), scope.as_deref(), watching::words(&error));
                tracing::warn!(
                    kind,
                    namespace,
                    "values come from objects of this kind, and the watch of it broke; trying again: {words}"
                );
            }
        }
    }
}

impl Shared {
    fn note<K>(&self, kind: SourceKind, scope: &Scope, event: watcher::Event<PartialObjectMeta<K>>) {
        let seen = |object: PartialObjectMeta<K>| (kind, place(&object.metadata), version(&object.metadata));
        let news = match event {
            watcher::Event::Init => News::ListStarts(kind),
            watcher::Event::InitApply(object) => {
                let (kind, place, version) = seen(object);
                News::Listed((kind, place), version)
            }
            watcher::Event::InitDone => News::ListEnds(kind),
            watcher::Event::Apply(object) | watcher::Event::Delete(object) => {
                let (kind, place, version) = seen(object);
                News::Changed((kind, place), version)
            }
        };
        let readers: Vec<Parent> = self.with(scope, |table| table.note(news));
        self.wake(&readers);
    }

    fn wake(&self, readers: &[Parent]) {
        readers.iter().for_each(|reader| self.listeners.wake(reader, Urgency::Edit));
    }

    fn with<T>(&self, scope: &Scope, work: impl FnOnce(&mut Table) -> T) -> T {
        work(self.all().entry(scope.clone()).or_default())
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Scope, Table>> {
        // A poisoned lock still holds what was read.
        self.tables.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn place(metadata: &ObjectMeta) -> Place {
    Place::new(metadata.namespace.as_deref(), metadata.name.as_deref().unwrap_or_default())
}
