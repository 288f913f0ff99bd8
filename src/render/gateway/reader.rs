//! What is read of the cluster for a `lookup`, as far as the fence shows it.
//!
//! The API server's words are passed on as they are. What it refuses, or cannot say, is an error and never an empty answer: a
//! chart would take that for "there is none yet" and draw a new password.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::Error;
use kube::Resource;
use kube::api::DynamicObject;
use kube::core::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::fence::{Fence, Place};
use super::question::Wanted;
use crate::calls::Calls;
use crate::discovery::{Kind, Kinds};
use crate::object::ObjectKey;

/// Helm puts it on every object of a release, so a list need not hold any other.
const MANAGED_BY_HELM: &str = "?labelSelector=app.kubernetes.io%2Fmanaged-by%3DHelm";

/// Reads with the operator's rights, behind a fence.
pub struct Reader {
    pub calls: Calls,
    pub kinds: Arc<Kinds>,
    pub fence: Fence,
}

/// What a `lookup` gets.
#[derive(Debug, PartialEq)]
pub struct Shown {
    /// As JSON; None where there is nothing, or nothing that is shown.
    pub text: Option<String>,
    /// What is there and is not shown.
    pub refused: Option<Refused>,
}

/// An answer that the fence held back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refused {
    /// `Secret kube-system/token`, or `Secrets in kube-system`.
    pub what: String,
    /// The line in watches.yaml that would show it.
    pub allowed_by: &'static str,
}

#[derive(Deserialize)]
struct Head {
    metadata: ObjectMeta,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct List {
    api_version: String,
    kind: String,
    metadata: Box<RawValue>,
    items: Vec<Box<RawValue>>,
}

impl Reader {
    pub async fn read(&self, wanted: &Wanted) -> Result<Shown, Error> {
        let kind = self.kinds.by_plural(&wanted.group, &wanted.version, &wanted.plural);
        let fits = |kind: &&Kind| match wanted.name {
            Some(_) => kind.namespaced == wanted.namespace.is_some(),
            None => kind.namespaced || wanted.namespace.is_none(),
        };
        let Some(kind) = kind.filter(fits).filter(|_| !self.fence.is_shut()) else {
            return Ok(Shown { text: None, refused: None });
        };
        match &wanted.name {
            Some(name) => self.object(kind, &key(kind, wanted.namespace.as_deref(), name)).await,
            None => self.list(kind, wanted.namespace.as_deref()).await,
        }
    }

    async fn object(&self, kind: &Kind, key: &ObjectKey) -> Result<Shown, Error> {
        let Some(text) = self.calls.read(&path(kind, key)).await? else {
            return Ok(Shown { text: None, refused: None });
        };
        let Head { metadata } = parse(&text)?;
        if self.fence.shows(key, &metadata) {
            return Ok(Shown { text: Some(text), refused: None });
        }
        let what = match &key.namespace {
            Some(namespace) => format!("{} {namespace}/{}", key.kind, key.name),
            None => format!("{} {}", key.kind, key.name),
        };
        let place = key.namespace.as_deref().map_or(Place::Everywhere, Place::Namespace);
        Ok(Shown { text: None, refused: Some(Refused { what, allowed_by: self.fence.key_to(place) }) })
    }

    async fn list(&self, kind: &Kind, namespace: Option<&str>) -> Result<Shown, Error> {
        let place = namespace.map_or(Place::Everywhere, Place::Namespace);
        let all = DynamicObject::url_path(&kind.resource, namespace);
        if self.fence.is_open(place) {
            return Ok(Shown { text: self.calls.read(&all).await?, refused: None });
        }
        let Some(text) = self.calls.read(&format!("{all}{MANAGED_BY_HELM}")).await? else {
            return Ok(Shown { text: None, refused: None });
        };
        let mut list: List = parse(&text)?;
        let mut own = Own::default();
        for item in std::mem::take(&mut list.items) {
            self.add(kind, item, &mut own)?;
        }
        self.add_open_namespace(kind, place, &mut own).await?;
        self.add_recorded(kind, place, &mut own).await?;
        let refused = self.hidden(kind, namespace, &own).await?;
        list.items = own.into_items();
        Ok(Shown { text: Some(serde_json::to_string(&list).map_err(Error::SerdeError)?), refused })
    }

    fn add(&self, kind: &Kind, item: Box<RawValue>, own: &mut Own) -> Result<(), Error> {
        let Head { metadata } = parse(item.get())?;
        let key = key_of(kind, &metadata);
        if self.fence.shows(&key, &metadata) {
            own.add(key, item);
        }
        Ok(())
    }

    /// A list of the whole cluster holds one namespace in full.
    async fn add_open_namespace(&self, kind: &Kind, place: Place<'_>, own: &mut Own) -> Result<(), Error> {
        let Some(namespace) = self.fence.open_namespace().filter(|_| place == Place::Everywhere && kind.namespaced)
        else {
            return Ok(());
        };
        let path = DynamicObject::url_path(&kind.resource, Some(namespace));
        let list: Option<List> = self.calls.read(&path).await?.map(|text| parse(&text)).transpose()?;
        for item in list.into_iter().flat_map(|list| list.items) {
            self.add(kind, item, own)?;
        }
        Ok(())
    }

    /// What only the record knows to be ours.
    async fn add_recorded(&self, kind: &Kind, place: Place<'_>, own: &mut Own) -> Result<(), Error> {
        let recorded = self.fence.recorded(&kind.resource.group, &kind.resource.kind, place);
        for key in recorded.into_iter().filter(|key| key.namespace.is_some() == kind.namespaced) {
            if own.has(&key) {
                continue;
            }
            if let Some(text) = self.calls.read(&path(kind, &key)).await? {
                self.add(kind, RawValue::from_string(text).map_err(Error::SerdeError)?, own)?;
            }
        }
        Ok(())
    }

    /// Whether there is more than is shown. Among one more than that, one must be foreign.
    async fn hidden(&self, kind: &Kind, namespace: Option<&str>, own: &Own) -> Result<Option<Refused>, Error> {
        let most = u32::try_from(own.keys.len()).unwrap_or(u32::MAX).saturating_add(1);
        let some = self.calls.some(kind, namespace, most).await?;
        if some.iter().all(|metadata| own.has(&key_of(kind, metadata))) {
            return Ok(None);
        }
        let plural = &kind.resource.plural;
        let what = match namespace {
            Some(namespace) => format!("all {plural} in {namespace}"),
            None => format!("all {plural} of the cluster"),
        };
        let place = namespace.map_or(Place::Everywhere, Place::Namespace);
        Ok(Some(Refused { what, allowed_by: self.fence.key_to(place) }))
    }
}

/// What a list shows.
#[derive(Default)]
struct Own {
    keys: BTreeSet<ObjectKey>,
    items: Vec<(ObjectKey, Box<RawValue>)>,
}

impl Own {
    fn has(&self, key: &ObjectKey) -> bool {
        self.keys.contains(key)
    }

    fn add(&mut self, key: ObjectKey, item: Box<RawValue>) {
        if self.keys.insert(key.clone()) {
            self.items.push((key, item));
        }
    }

    /// In the order of the API server.
    fn into_items(mut self) -> Vec<Box<RawValue>> {
        self.items.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.items.into_iter().map(|(_, item)| item).collect()
    }
}

fn key(kind: &Kind, namespace: Option<&str>, name: &str) -> ObjectKey {
    ObjectKey {
        group: kind.resource.group.clone(),
        kind: kind.resource.kind.clone(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    }
}

fn key_of(kind: &Kind, metadata: &ObjectMeta) -> ObjectKey {
    key(kind, metadata.namespace.as_deref(), metadata.name.as_deref().unwrap_or_default())
}

fn path(kind: &Kind, key: &ObjectKey) -> String {
    format!("{}/{}", DynamicObject::url_path(&kind.resource, key.namespace.as_deref()), key.name)
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(Error::SerdeError)
}
