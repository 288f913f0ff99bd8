//! What is read of the cluster for a `lookup`, as far as the fence shows it.
//!
//! The API server's words are passed on as they are. What it refuses, or cannot say, is an error and never an empty answer: a
//! chart would take that for "there is none yet" and draw a new password.
//!
//! A template can ask without end. So there are limits to how often a render may ask and how much it may get; lists are read page
//! by page, and what the fence hides is not kept.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::StatusCode;
use kube::Error;
use kube::Resource;
use kube::api::DynamicObject;
use kube::core::{ListMeta, ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::fence::{Fence, Place};
use super::question::Wanted;
use crate::calls::Calls;
use crate::discovery::{Kind, Kinds};
use crate::error::{Category, of_kube, sentence};
use crate::manifest::unseen::{self, Asked};
use crate::namespaces::{Namespaces, Scope};
use crate::object::ObjectKey;
use crate::sensitive::{Labels, Sensitive};

/// Helm puts it on every object of a release, so a list need not hold any other.
const MANAGED_BY_HELM: &str = "&labelSelector=app.kubernetes.io%2Fmanaged-by%3DHelm";

/// How much one render may have read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Objects in a page of a list.
    pub page: usize,
    /// Bytes that helm is told.
    pub bytes: usize,
    /// Questions to the API server.
    pub reads: usize,
}

impl Default for Limits {
    /// helm may look at each of thousands of rendered objects.
    fn default() -> Self {
        Limits { page: 250, bytes: 64 * 1024 * 1024, reads: 20_000 }
    }
}

/// Reads with the operator's rights, behind a fence. For one render.
pub struct Reader {
    calls: Calls,
    kinds: Arc<Kinds>,
    fence: Fence,
    /// Where they are named, nothing is listed across the cluster that has a namespace.
    namespaces: Namespaces,
    limits: Limits,
    /// How many bytes helm was told.
    told: AtomicUsize,
    /// How often the API server was asked.
    reads: AtomicUsize,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("{}", sentence(.0))]
    Cluster(Error),
    #[error("this is no path of an object or a list, so nobody can say what is there; check the names in the lookup")]
    NoQuestion,
    #[error("the API server cannot reach whoever serves this version; look at its APIService")]
    Silent,
    #[error("in one render, lookup may get {} MiB in all; have the chart ask for objects by name", .0 / 1024 / 1024)]
    TooMuch(usize),
    #[error("in one render, the cluster may be asked {0} times; look for a lookup in an endless loop")]
    TooOften(usize),
}

// Not a `#[from]`: that makes it the source as well, and whoever prints sources would print it again.
impl From<Error> for ReadError {
    fn from(error: Error) -> Self {
        ReadError::Cluster(error)
    }
}

impl ReadError {
    pub fn category(&self) -> Category {
        match self {
            ReadError::Cluster(error) => of_kube(error),
            ReadError::Silent => Category::Unreachable,
            // Another look at the cluster may end otherwise.
            ReadError::NoQuestion | ReadError::TooMuch(_) | ReadError::TooOften(_) => Category::Missing,
        }
    }

    /// As the API server would say it. Never 404, which is an answer.
    pub fn code(&self) -> StatusCode {
        let code = match self {
            ReadError::Cluster(Error::Api(status)) => StatusCode::from_u16(status.code).ok(),
            ReadError::NoQuestion | ReadError::TooMuch(_) | ReadError::TooOften(_) => Some(StatusCode::BAD_REQUEST),
            ReadError::Cluster(_) | ReadError::Silent => None,
        };
        let code = code.filter(|code| *code != StatusCode::NOT_FOUND && !code.is_success());
        code.unwrap_or(StatusCode::SERVICE_UNAVAILABLE)
    }
}

/// What a `lookup` gets.
#[derive(Debug, Default, PartialEq)]
pub struct Shown {
    /// As JSON; None where there is nothing, or nothing that is shown.
    pub text: Option<String>,
    /// What is there and is not shown.
    pub refused: Option<Refused>,
    /// What a list leaves out that no setting shows. Every namespace with a release has such objects, so nobody is warned of them.
    pub sensitive: BTreeSet<ObjectKey>,
}

/// An answer that the fence held back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refused {
    /// `Secret kube-system/token`, or `Secrets in kube-system`.
    pub what: String,
    /// The line in watches.yaml that would show it. None where nothing shows it.
    pub allowed_by: Option<&'static str>,
    pub asked: Asked,
}

#[derive(Deserialize)]
struct Head {
    metadata: ObjectMeta,
    /// Of a Secret.
    #[serde(rename = "type")]
    secret_type: Option<Value>,
}

impl Head {
    /// Whether no setting shows it: records, tokens and the operator's own Secrets.
    fn is_sensitive(&self, key: &ObjectKey) -> bool {
        let secret_type = self.secret_type.as_ref().and_then(Value::as_str);
        let labels = self.metadata.labels.as_ref().map_or(Labels::None, Labels::Map);
        Sensitive::of(&key.group, &key.kind, secret_type, &key.name, &labels).is_some()
    }
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct List {
    api_version: String,
    kind: String,
    metadata: ListMeta,
    items: Vec<Box<RawValue>>,
}

impl Reader {
    pub fn new(calls: Calls, kinds: Arc<Kinds>, fence: Fence) -> Self {
        let (told, reads) = (AtomicUsize::default(), AtomicUsize::default());
        Reader { calls, kinds, fence, namespaces: Namespaces::default(), limits: Limits::default(), told, reads }
    }

    /// To whom the whole cluster is these namespaces.
    pub fn among(self, namespaces: Namespaces) -> Self {
        Reader { namespaces, ..self }
    }

    pub fn within(self, limits: Limits) -> Self {
        Reader { limits, ..self }
    }

    pub async fn read(&self, wanted: &Wanted) -> Result<Shown, ReadError> {
        if self.fence.is_shut() {
            return Ok(Shown::default());
        }
        let Wanted { group, version, plural, .. } = wanted;
        let fits = |kind: &&Kind| match wanted.name {
            Some(_) => kind.namespaced == wanted.namespace.is_some(),
            None => kind.namespaced || wanted.namespace.is_none(),
        };
        let Some(kind) = self.kinds.by_plural(group, version, plural).filter(fits) else {
            return match self.kinds.catalog.is_silent(group, version) {
                true => Err(ReadError::Silent),
                false => Ok(Shown::default()),
            };
        };
        match &wanted.name {
            Some(name) => self.object(kind, &key(kind, wanted.namespace.as_deref(), name)).await,
            None => self.list(kind, wanted.namespace.as_deref()).await,
        }
    }

    /// One question to the API server.
    async fn ask(&self, path: &str) -> Result<Option<String>, ReadError> {
        if self.reads.fetch_add(1, Ordering::Relaxed) >= self.limits.reads {
            return Err(ReadError::TooOften(self.limits.reads));
        }
        Ok(self.calls.read(path).await?)
    }

    /// Counts what is told.
    fn tell(&self, text: &str) -> Result<(), ReadError> {
        match self.told.fetch_add(text.len(), Ordering::Relaxed) + text.len() > self.limits.bytes {
            true => Err(ReadError::TooMuch(self.limits.bytes)),
            false => Ok(()),
        }
    }

    async fn object(&self, kind: &Kind, key: &ObjectKey) -> Result<Shown, ReadError> {
        let Some(text) = self.ask(&path(kind, key)).await? else {
            return Ok(Shown::default());
        };
        let head: Head = parse(&text)?;
        let is_sensitive = head.is_sensitive(key);
        if !is_sensitive && self.fence.shows(key, &head.metadata) {
            self.tell(&text)?;
            return Ok(Shown { text: Some(text), ..Shown::default() });
        }
        let what = match &key.namespace {
            Some(namespace) => format!("{} {namespace}/{}", key.kind, key.name),
            None => format!("{} {}", key.kind, key.name),
        };
        let place = key.namespace.as_deref().map_or(Place::Everywhere, Place::Namespace);
        Ok(Shown {
            text: None,
            refused: Some(Refused {
                what,
                allowed_by: Some(self.fence.key_to(place)).filter(|_| !is_sensitive),
                asked: Asked::Object(key.clone()),
            }),
            ..Shown::default()
        })
    }

    async fn list(&self, kind: &Kind, namespace: Option<&str>) -> Result<Shown, ReadError> {
        let place = namespace.map_or(Place::Everywhere, Place::Namespace);
        let is_open = self.fence.is_open(place);
        let selector = if is_open { "" } else { MANAGED_BY_HELM };
        let (mut own, mut last) = (Own::default(), None);
        let scopes = self.scopes(kind, namespace);
        for scope in &scopes {
            last = self.add_pages(kind, scope.as_deref(), selector, &mut own).await?.or(last);
        }
        let Some(mut list) = last else {
            return Ok(Shown::default());
        };
        let mut refused = None;
        if !is_open {
            self.add_open_namespace(kind, place, &mut own).await?;
            self.add_recorded(kind, place, &mut own).await?;
            refused = self.hidden(kind, namespace, &own).await?;
        }
        if !is_open || scopes.len() > 1 {
            own.sort();
        }
        list.metadata = ListMeta { resource_version: list.metadata.resource_version, ..ListMeta::default() };
        let sensitive = std::mem::take(&mut own.sensitive);
        list.items = own.into_items();
        let text = serde_json::to_string(&list).map_err(Error::SerdeError)?;
        Ok(Shown { text: Some(text), refused, sensitive })
    }

    /// The lists that together are what is asked for.
    fn scopes(&self, kind: &Kind, namespace: Option<&str>) -> Vec<Scope> {
        match namespace {
            None if kind.namespaced => self.namespaces.scopes(),
            namespace => vec![namespace.map(Arc::from)],
        }
    }

    /// Reads a list page by page, and keeps what is shown. Gives the last page without its items; None where there is no such
    /// list.
    async fn add_pages(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &str,
        own: &mut Own,
    ) -> Result<Option<List>, ReadError> {
        let path = format!("{}?limit={}", DynamicObject::url_path(&kind.resource, namespace), self.limits.page);
        let mut next = String::new();
        loop {
            let Some(text) = self.ask(&format!("{path}{selector}{next}")).await? else {
                return Ok(None);
            };
            let mut page: List = parse(&text)?;
            for item in std::mem::take(&mut page.items) {
                self.add(kind, item, own)?;
            }
            match page.metadata.continue_.as_deref().unwrap_or_default() {
                "" => return Ok(Some(page)),
                token => next = format!("&continue={}", encoded(token)),
            }
        }
    }

    fn add(&self, kind: &Kind, item: Box<RawValue>, own: &mut Own) -> Result<(), ReadError> {
        let head: Head = parse(item.get())?;
        let key = key_of(kind, &head.metadata);
        if !self.fence.shows(&key, &head.metadata) {
            return Ok(());
        }
        if head.is_sensitive(&key) {
            own.sensitive.insert(key);
            return Ok(());
        }
        self.tell(item.get())?;
        own.add(key, item);
        Ok(())
    }

    /// A list of the whole cluster holds one namespace in full.
    async fn add_open_namespace(&self, kind: &Kind, place: Place<'_>, own: &mut Own) -> Result<(), ReadError> {
        let namespace = self.fence.open_namespace().filter(|_| place == Place::Everywhere && kind.namespaced);
        if let Some(namespace) = namespace {
            self.add_pages(kind, Some(namespace), "", own).await?;
        }
        Ok(())
    }

    /// What a list by Helm's label may lack.
    async fn add_recorded(&self, kind: &Kind, place: Place<'_>, own: &mut Own) -> Result<(), ReadError> {
        let recorded = self.fence.recorded(&kind.resource.group, &kind.resource.kind, place);
        for key in recorded.into_iter().filter(|key| key.namespace.is_some() == kind.namespaced) {
            if own.has(&key) {
                continue;
            }
            if let Some(text) = self.ask(&path(kind, &key)).await? {
                self.add(kind, RawValue::from_string(text).map_err(Error::SerdeError)?, own)?;
            }
        }
        Ok(())
    }

    /// Whether there is more than is shown. Among one more than that, one must be foreign.
    async fn hidden(&self, kind: &Kind, namespace: Option<&str>, own: &Own) -> Result<Option<Refused>, ReadError> {
        let most = u32::try_from(own.keys.len()).unwrap_or(u32::MAX).saturating_add(1);
        let mut is_more = false;
        for scope in self.scopes(kind, namespace) {
            let some = self.calls.some(kind, scope.as_deref(), most).await?;
            is_more |= !some.iter().all(|metadata| own.has(&key_of(kind, metadata)));
        }
        if !is_more {
            return Ok(None);
        }
        let plural = &kind.resource.plural;
        let what = match namespace {
            Some(namespace) => format!("all {plural} in {namespace}"),
            None if kind.namespaced && !self.namespaces.is_all() => {
                format!("all {plural} in {}", self.namespaces.shown())
            }
            None => format!("all {plural} of the cluster"),
        };
        let place = namespace.map_or(Place::Everywhere, Place::Namespace);
        let (group, kind) = (kind.resource.group.clone(), kind.resource.kind.clone());
        let list = unseen::List { group, kind, namespace: namespace.map(str::to_owned) };
        let asked = Asked::List(list, own.keys.clone());
        Ok(Some(Refused { what, allowed_by: Some(self.fence.key_to(place)), asked }))
    }
}

/// What a list shows.
#[derive(Default)]
struct Own {
    keys: BTreeSet<ObjectKey>,
    /// What the fence would show, and what no setting does.
    sensitive: BTreeSet<ObjectKey>,
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
    fn sort(&mut self) {
        let place = |key: &ObjectKey| format!("{}/{}", key.namespace.as_deref().unwrap_or_default(), key.name);
        self.items.sort_by_cached_key(|(key, _)| place(key));
    }

    fn into_items(self) -> Vec<Box<RawValue>> {
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

/// For a query.
fn encoded(token: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    token
        .bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(Error::SerdeError)
}
