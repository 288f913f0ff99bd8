//! Watches that one unreadable object does not stop.
//!
//! Whoever may write an object decides how deeply it nests, in a field of a free schema or in managedFields. A list with one that
//! nobody can read would never be complete, and everybody would wait for it. So each object is read for itself: of one that
//! cannot be read, the metadata stands for it, it is counted, and the log names it once.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Debug;

use futures::future::ready;
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

use super::{Lists, begun};
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

/// An object, or what is left of it.
#[derive(Clone, Debug)]
pub struct Tolerant<K> {
    object: K,
    unreadable: Option<String>,
}

impl<'de, K: Salvage + DeserializeOwned> Deserialize<'de> for Tolerant<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Ok(match serde_json::from_str(text.get()) {
            Ok(object) => Tolerant { object, unreadable: None },
            Err(error) => {
                let left: Left = serde_json::from_str(text.get()).unwrap_or_default();
                Tolerant { object: K::salvaged(left.metadata.into()), unreadable: Some(error.to_string()) }
            }
        })
    }
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
        self.object.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.object.meta_mut()
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
    let mut named = Named { resource: super::running::resource(api.resource_url()), seen: HashSet::new() };
    let (labels, fields) = (labels.map(str::to_owned), fields.map(str::to_owned));
    let events = begun(api, labels, fields, Lists::Streamed, super::PAGE_PATIENCE);
    events.filter_map(move |event| ready(Some(event.map(|event| named.read(event)))))
}

/// What was named in the log.
struct Named {
    resource: String,
    seen: HashSet<String>,
}

impl Named {
    fn read<K: Resource>(&mut self, event: Event<Tolerant<K>>) -> Event<K> {
        match event {
            Event::Init => Event::Init,
            Event::InitDone => Event::InitDone,
            Event::InitApply(object) => Event::InitApply(self.told(object)),
            Event::Apply(object) => Event::Apply(self.told(object)),
            Event::Delete(object) => Event::Delete(object.object),
        }
    }

    fn told<K: Resource>(&mut self, Tolerant { object, unreadable }: Tolerant<K>) -> K {
        let Some(why) = unreadable else { return object };
        metrics::unreadable(&self.resource);
        let metadata = object.meta();
        let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref().unwrap_or_default());
        let is_first = self.seen.len() < MOST_NAMED && self.seen.insert(metadata.uid.clone().unwrap_or_default());
        if is_first {
            tracing::warn!(
                resource = self.resource,
                namespace,
                name,
                "this object cannot be read, so only its metadata is known; correct or delete it: {why}"
            );
        }
        object
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
        assert_eq!((read.object.metadata.name.as_deref(), read.unreadable.is_some()), (Some("a"), true));
        let read: Tolerant<DynamicObject> = serde_json::from_str(r#"{"metadata": 1, "a": [[]]}"#).unwrap();
        assert!(read.unreadable.is_some());
    }
}
