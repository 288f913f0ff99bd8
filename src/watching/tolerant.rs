//! Watches that one unreadable object does not stop.
//!
//! Whoever may write an object decides how deeply it nests, in a field of a free schema or in managedFields. A list with one that
//! nobody can read would never be complete, and everybody would wait for it. So each object is read for itself, when its turn comes
//! and apart from the threads that answer if it is large: of one that cannot be read, the metadata stands for it, it is counted, and
//! the log names it once.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Debug;
use std::marker::PhantomData;

use futures::stream::{Stream, StreamExt};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::Resource;
use kube::api::{Api, DynamicObject, PartialObjectMeta};
use kube::core::{ObjectMeta, PartialObjectMetaExt};
use kube::runtime::watcher::{self, Event};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Lists, PAGE_OF_TEXTS, begun};
use crate::aside;
use crate::telemetry::metrics;

/// After so many, further unreadable objects are only counted.
const MOST_NAMED: usize = 100;

/// What an object is where only its metadata could be read.
pub trait Salvage {
    fn salvaged(metadata: ObjectMeta) -> Self;
}

impl Salvage for DynamicObject {
    fn salvaged(metadata: ObjectMeta) -> Self {
        DynamicObject { types: None, metadata, data: Value::Null }
    }
}

impl<K> Salvage for PartialObjectMeta<K> {
    fn salvaged(metadata: ObjectMeta) -> Self {
        metadata.into_response_partial()
    }
}

impl Salvage for HorizontalPodAutoscaler {
    fn salvaged(metadata: ObjectMeta) -> Self {
        HorizontalPodAutoscaler { metadata, ..Default::default() }
    }
}

/// An object as it came, which nobody has read yet but for its metadata: as text it takes no more memory than on its way, while what
/// is read of managedFields takes ten times as much.
#[derive(Clone, Debug)]
pub struct Tolerant<K> {
    text: Box<RawValue>,
    /// Without managedFields.
    metadata: ObjectMeta,
    kind: PhantomData<K>,
}

/// kube reads a page in one go, so the metadata of an object cannot wait for a turn elsewhere. There are few objects in a page, none larger
/// than etcd takes, and others take over what this thread has to do while a large one is read.
impl<'de, K> Deserialize<'de> for Tolerant<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let read = || serde_json::from_str(text.get()).unwrap_or_default();
        let left: Left = aside::here(text.get().len(), read);
        Ok(Tolerant { text, metadata: left.metadata.into(), kind: PhantomData })
    }
}

impl<K: DeserializeOwned> Tolerant<K> {
    /// The metadata without managedFields, which can always be read.
    pub fn into_metadata(self) -> ObjectMeta {
        self.metadata
    }

    /// How long its text is.
    pub fn bytes(&self) -> usize {
        self.text.get().len()
    }

    /// The object without the lists of fields in managedFields, the part of a typed object that may nest.
    ///
    /// # Errors
    /// Where it nests too deeply elsewhere.
    pub fn without_fields(&self) -> Result<K, serde_json::Error> {
        serde_json::from_str(&without_fields(self.text.get()))
    }

    /// What a type names of the object. The rest is skipped, however deeply it nests.
    ///
    /// # Errors
    /// The object does not have the form of the type.
    pub fn read_as<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.text.get())
    }

    /// The object, or what is left of it.
    pub fn salvaged(self) -> K
    where
        K: Salvage,
    {
        self.read().0
    }

    /// The object, or what is left of it and why it cannot be read.
    fn read(self) -> (K, Option<String>)
    where
        K: Salvage,
    {
        match serde_json::from_str(self.text.get()) {
            Ok(object) => (object, None),
            Err(error) => (K::salvaged(self.metadata), Some(error.to_string())),
        }
    }
}

/// The text of an object with an empty list of fields for each manager.
fn without_fields(text: &str) -> String {
    #[derive(Deserialize)]
    struct Object<'a> {
        #[serde(borrow)]
        metadata: Managers<'a>,
    }

    #[derive(Deserialize)]
    struct Managers<'a> {
        #[serde(borrow, rename = "managedFields")]
        entries: Vec<Manager<'a>>,
    }

    #[derive(Deserialize)]
    struct Manager<'a> {
        #[serde(borrow, rename = "fieldsV1")]
        fields: Option<&'a RawValue>,
    }

    let entries = serde_json::from_str(text).map(|object: Object<'_>| object.metadata.entries).unwrap_or_default();
    let (mut short, mut end) = (String::new(), 0);
    for fields in entries.iter().filter_map(|entry| entry.fields) {
        // A part of the same text.
        let start = fields.get().as_ptr().addr() - text.as_ptr().addr();
        short.push_str(&text[end..start]);
        short.push_str("{}");
        end = start + fields.get().len();
    }
    short + &text[end..]
}

#[derive(Default, Deserialize)]
struct Left {
    #[serde(default)]
    metadata: Metadata,
}

/// Without managedFields, the part that may nest.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
    finalizers: Option<Vec<String>>,
}

impl From<Metadata> for ObjectMeta {
    fn from(left: Metadata) -> Self {
        ObjectMeta {
            name: left.name,
            namespace: left.namespace,
            uid: left.uid,
            resource_version: left.resource_version,
            generation: left.generation,
            creation_timestamp: left.creation_timestamp,
            deletion_timestamp: left.deletion_timestamp,
            labels: left.labels,
            annotations: left.annotations,
            owner_references: left.owner_references,
            finalizers: left.finalizers,
            ..ObjectMeta::default()
        }
    }
}

impl<K: Resource> Resource for Tolerant<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dynamic)
    }

    fn group(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dynamic)
    }

    fn version(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dynamic)
    }

    fn api_version(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::api_version(dynamic)
    }

    fn plural(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dynamic)
    }

    fn metadata_api() -> bool {
        K::metadata_api()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The events of everything that the selectors match, without end, as [`super::events_with`] gives them.
pub fn tolerant_events<K>(
    api: Api<Tolerant<K>>,
    labels: Option<&str>,
    fields: Option<&str>,
) -> impl Stream<Item = Result<Event<K>, watcher::Error>> + use<K>
where
    K: Resource + Salvage + Clone + DeserializeOwned + Debug + Send + 'static,
{
    tolerant_events_as(api, labels, fields, |object| object)
}

/// The same, with what `note` makes of each object. It is done where the object is read: apart, if it is large.
pub fn tolerant_events_as<K, T, F>(
    api: Api<Tolerant<K>>,
    labels: Option<&str>,
    fields: Option<&str>,
    note: F,
) -> impl Stream<Item = Result<Event<T>, watcher::Error>> + use<K, T, F>
where
    K: Resource + Salvage + Clone + DeserializeOwned + Debug + Send + 'static,
    T: Send + 'static,
    F: Fn(K) -> T + Clone + Send + 'static,
{
    let mut named = Named { resource: super::running::resource(api.resource_url()), seen: HashSet::new() };
    let (labels, fields) = (labels.map(str::to_owned), fields.map(str::to_owned));
    let events = begun(api, labels, fields, Lists::Streamed, (PAGE_OF_TEXTS, super::PAGE_PATIENCE));
    let events = events.then(move |event| {
        let note = note.clone();
        async move {
            match event {
                Ok(event) => Ok(read_event(event, note).await),
                Err(error) => Err(error),
            }
        }
    });
    events.map(move |event| event.map(|event| named.told(event)))
}

async fn read_event<K, T, F>(event: Event<Tolerant<K>>, note: F) -> Event<Noted<T>>
where
    K: Resource + Salvage + DeserializeOwned + Send + 'static,
    T: Send + 'static,
    F: Fn(K) -> T + Send + 'static,
{
    let read = |object: Tolerant<K>| {
        aside::run_if_long(object.bytes(), move || {
            let (object, unreadable) = object.read();
            let unreadable = unreadable.map(|why| Unreadable::of(object.meta(), why));
            Noted { it: note(object), unreadable }
        })
    };
    match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::InitApply(object) => Event::InitApply(read(object).await),
        Event::Apply(object) => Event::Apply(read(object).await),
        Event::Delete(object) => Event::Delete(read(object).await),
    }
}

struct Noted<T> {
    it: T,
    unreadable: Option<Unreadable>,
}

/// An object that cannot be read.
struct Unreadable {
    namespace: Option<String>,
    name: String,
    uid: String,
    why: String,
}

impl Unreadable {
    fn of(metadata: &ObjectMeta, why: String) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (name, uid) = (text(&metadata.name), text(&metadata.uid));
        Unreadable { namespace: metadata.namespace.clone(), name, uid, why }
    }
}

/// What was named in the log.
struct Named {
    resource: String,
    seen: HashSet<String>,
}

impl Named {
    fn told<T>(&mut self, event: Event<Noted<T>>) -> Event<T> {
        match event {
            Event::Init => Event::Init,
            Event::InitDone => Event::InitDone,
            Event::InitApply(noted) => Event::InitApply(self.name(noted)),
            Event::Apply(noted) => Event::Apply(self.name(noted)),
            Event::Delete(noted) => Event::Delete(noted.it),
        }
    }

    fn name<T>(&mut self, noted: Noted<T>) -> T {
        let Some(Unreadable { namespace, name, uid, why }) = noted.unreadable else { return noted.it };
        metrics::unreadable(&self.resource);
        if self.seen.len() < MOST_NAMED && self.seen.insert(uid) {
            tracing::warn!(
                resource = self.resource,
                namespace,
                name,
                "this object cannot be read, so only its metadata is known; correct or delete it: {why}"
            );
        }
        noted.it
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Client;
    use kube::client::Body;

    use super::*;

    fn nested(levels: usize) -> String {
        format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels))
    }

    /// An API server without streamed lists.
    fn api<K: Resource<DynamicType = ()>>(list: String) -> Api<Tolerant<K>> {
        let service = tower::service_fn(move |request: Request<Body>| {
            let list = list.clone();
            async move {
                let (code, body) = match request.uri().query().unwrap_or_default().contains("watch=true") {
                    true => (400, vec![]),
                    false => (200, list.into_bytes()),
                };
                Ok::<_, std::io::Error>(Response::builder().status(code).body(Body::from(body)).unwrap())
            }
        });
        Api::all(Client::new(service, "default"))
    }

    async fn listed<K>(list: &str) -> Vec<K>
    where
        K: Resource<DynamicType = ()> + Salvage + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let events = tolerant_events(api::<K>(list.to_owned()), None, None);
        futures::pin_mut!(events);
        let mut found = vec![];
        loop {
            match events.next().await {
                Some(Ok(Event::InitApply(object))) => found.push(object),
                Some(Ok(Event::InitDone)) => return found,
                Some(Ok(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    #[tokio::test]
    async fn one_object_that_cannot_be_read_leaves_the_list_readable() {
        let managed = |name: &str, levels: usize| {
            let fields = nested(levels);
            format!(
                r#"{{"metadata": {{"name": "{name}", "uid": "{name}", "resourceVersion": "1", "labels": {{"a": "b"}}, "managedFields": [{{"manager": "m", "fieldsV1": {fields}}}]}}, "spec": {{"scaleTargetRef": {{"kind": "A", "name": "{name}"}}, "maxReplicas": 1}}}}"#
            )
        };
        let list = format!(
            r#"{{"apiVersion": "v1", "kind": "List", "metadata": {{"resourceVersion": "2"}}, "items": [{}, {}, {}]}}"#,
            managed("good", 1),
            managed("poison", 200),
            managed("fine", 1)
        );
        let metas = listed::<PartialObjectMeta<ConfigMap>>(&list).await;
        let seen: Vec<_> =
            metas.iter().map(|it| (it.metadata.name.as_deref(), it.metadata.managed_fields.is_some())).collect();
        assert_eq!(seen, [(Some("good"), true), (Some("poison"), false), (Some("fine"), true)]);
        assert!(metas.iter().all(|it| it.metadata.labels.is_some()));
        let scalers = listed::<HorizontalPodAutoscaler>(&list).await;
        let targets: Vec<_> = scalers.into_iter().map(|it| it.spec.unwrap_or_default().scale_target_ref.name).collect();
        assert_eq!(targets, ["good", "", "fine"]);
    }

    #[test]
    fn of_an_object_that_nests_too_deeply_the_metadata_is_known() {
        let text = format!(
            r#"{{"apiVersion": "g.io/v1", "kind": "A", "metadata": {{"name": "a"}}, "spec": {}}}"#,
            nested(200)
        );
        let read: Tolerant<DynamicObject> = serde_json::from_str(&text).unwrap();
        let (object, unreadable) = read.read();
        assert_eq!((object.metadata.name.as_deref(), unreadable.is_some()), (Some("a"), true));
        let read: Tolerant<DynamicObject> = serde_json::from_str(r#"{"metadata": 1, "a": [[]]}"#).unwrap();
        assert!(read.read().1.is_some());
    }

    #[test]
    fn a_typed_object_is_whole_but_for_the_lists_of_fields() {
        let deep = nested(200);
        let text = format!(
            r#"{{"metadata": {{"name": "a", "managedFields": [{{"manager": "ä", "fieldsV1": {deep}}}, {{"manager": "b"}}, {{"manager": "c", "fieldsV1": {{"f:a": {{}}}}}}]}}, "data": {{"k": "v"}}}}"#
        );
        let read: Tolerant<ConfigMap> = serde_json::from_str(&text).unwrap();
        let config = read.without_fields().unwrap();
        assert_eq!(config.data.unwrap()["k"], "v");
        let managers = config.metadata.managed_fields.unwrap();
        let managers: Vec<_> = managers.iter().filter_map(|entry| entry.manager.as_deref()).collect();
        assert_eq!(managers, ["ä", "b", "c"]);
        let plain: Tolerant<ConfigMap> = serde_json::from_str(r#"{"metadata": {"name": "a"}}"#).unwrap();
        assert_eq!(plain.without_fields().unwrap().metadata.name.as_deref(), Some("a"));
    }

    #[test]
    fn the_objects_of_a_page_are_held_as_text() {
        let fields: String = (0..10_000).map(|number| format!("\"f:{number}\": {{}},")).collect();
        let object = format!(
            r#"{{"metadata": {{"name": "a", "managedFields": [{{"fieldsV1": {{{}}}}}]}}}}"#,
            fields.trim_end_matches(',')
        );
        let read: Tolerant<PartialObjectMeta<ConfigMap>> = serde_json::from_str(&object).unwrap();
        assert_eq!((read.meta().managed_fields.is_some(), read.text.get().len()), (false, object.len()));
        assert!(read.salvaged().metadata.managed_fields.is_some());
    }
}
