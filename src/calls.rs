//! The calls that are made on objects. Each takes a slot, so that many custom resources at once do not flood the API
//! server, and has a time limit, so that none waits for ever.

use std::fmt::Debug;
use std::time::Duration;

use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, PartialObjectMeta, Patch, PatchParams, PostParams, Preconditions,
    PropagationPolicy,
};
use kube::core::{DynamicResourceScope, ObjectMeta};
use kube::discovery::ApiResource;
use kube::{Client, Error};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::discovery::Kind;
use crate::object::{Object, ObjectId};
use crate::plan::Planned;
use crate::queue::Urgency;
use crate::slots::Slots;
use crate::watching::Tolerant;

/// Helm 4 applies under this name too, so that its `rollback` and `upgrade` do not conflict with us.
pub const FIELD_MANAGER: &str = "helm";

const TIME_LIMIT: Duration = Duration::from_secs(30);

/// How many objects a page of a list has, and how many pages are read at once: each may be as large as so many objects.
const PAGE: u32 = 20;
static PAGES: Semaphore = Semaphore::const_new(2);

/// How many calls may be under way at once, for all custom resources together. More than there are processors, because a call
/// is mostly waiting; few enough that the API server does not answer all of them late.
const SLOTS: usize = 8;
/// So many more for edits and repairs alone, so that none waits for an install's calls.
const SLOTS_FOR_EDITS: usize = 8;

/// The calls of somebody. The more urgent ones go ahead.
#[derive(Clone)]
pub struct Calls {
    client: Client,
    /// In whose name objects are read and written, if it is not the operator's own.
    account: Option<Client>,
    slots: Slots,
    edits: Slots,
    urgency: Urgency,
}

/// What a server-side dry run found.
pub struct DryRun {
    /// The object as it would be.
    pub object: DynamicObject,
}

impl DryRun {
    /// A dry run of a new object is not stored, so it has no resource version.
    pub fn is_new(&self) -> bool {
        self.object.metadata.resource_version.as_deref().unwrap_or_default().is_empty()
    }
}

impl Calls {
    pub fn new(client: Client) -> Self {
        Calls {
            client,
            account: None,
            slots: Slots::new(SLOTS),
            edits: Slots::new(SLOTS_FOR_EDITS),
            urgency: Urgency::Edit,
        }
    }

    /// The same calls in the name of something that is so urgent.
    pub fn at(&self, urgency: Urgency) -> Self {
        Calls { urgency, ..self.clone() }
    }

    /// The pools of slots, each with how many are taken and how many wait.
    pub fn load(&self) -> [(&'static str, (usize, usize)); 2] {
        [("shared", self.slots.load()), ("edits", self.edits.load())]
    }

    /// The same calls, with objects read and written in the name of an account.
    pub fn acting_as(&self, account: Client) -> Self {
        Calls { account: Some(account), ..self.clone() }
    }

    /// The same calls in the operator's own name.
    pub fn own(&self) -> Self {
        Calls { account: None, ..self.clone() }
    }

    /// Whether objects are read and written in the name of an account.
    pub fn has_account(&self) -> bool {
        self.account.is_some()
    }

    /// The operator's own client.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The client that objects are read and written with.
    pub fn hands(&self) -> Client {
        self.account.as_ref().unwrap_or(&self.client).clone()
    }

    pub async fn dry_run(&self, planned: &Planned) -> Result<DryRun, Error> {
        let params = PatchParams { dry_run: true, ..PatchParams::apply(FIELD_MANAGER).force() };
        let object = self.patch(planned, params).await?;
        Ok(DryRun { object })
    }

    pub async fn apply(&self, planned: &Planned) -> Result<DynamicObject, Error> {
        self.patch(planned, PatchParams::apply(FIELD_MANAGER).force()).await
    }

    async fn patch(&self, planned: &Planned, params: PatchParams) -> Result<DynamicObject, Error> {
        let api: Api<DynamicObject> = self.api(&planned.kind, planned.object.namespace());
        let send =
            async |object: &Object| self.within(api.patch(object.name(), &params, &Patch::Apply(object.value()))).await;
        match send(&planned.object).await {
            Err(error) if is_young_owner(&error) => send(&planned.object.clone().without_blocking_owner()).await,
            answer => answer,
        }
    }

    pub async fn create(&self, planned: &Planned) -> Result<DynamicObject, Error> {
        let api: Api<DynamicObject> = self.api(&planned.kind, planned.object.namespace());
        let params = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..Default::default() };
        let send = async |object: &Object| self.within(api.create(&params, &object.to_dynamic())).await;
        match send(&planned.object).await {
            Err(error) if is_young_owner(&error) => send(&planned.object.clone().without_blocking_owner()).await,
            answer => answer,
        }
    }

    pub async fn get(&self, kind: &Kind, id: &ObjectId) -> Result<Option<DynamicObject>, Error> {
        let api: Api<DynamicObject> = self.api(kind, id.namespace.as_deref());
        absent_if_not_found(self.within(api.get(&id.name)).await)
    }

    pub async fn metadata(&self, kind: &Kind, id: &ObjectId) -> Result<Option<ObjectMeta>, Error> {
        let api: Api<Tolerant<PartialObjectMeta<DynamicObject>>> = self.api(kind, id.namespace.as_deref());
        Ok(absent_if_not_found(self.within(api.get(&id.name)).await)?.map(|object| object.salvaged().metadata))
    }

    /// What `read` takes of the metadata of everything with a label, in one namespace or in all. Others may have put the label on any
    /// number of objects, and written into them what nobody can read; managedFields are left out.
    pub async fn list<T>(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &str,
        read: impl Fn(ObjectMeta) -> Option<T>,
    ) -> Result<Vec<T>, Error> {
        let api: Api<Tolerant<PartialObjectMeta<DynamicObject>>> = self.api(kind, namespace);
        let mut params = ListParams::default().labels(selector).limit(PAGE);
        let mut found = vec![];
        loop {
            let _turn = PAGES.acquire().await;
            let Some(page) = absent_if_not_found(self.within(api.list(&params)).await)? else { return Ok(found) };
            found.extend(page.items.into_iter().map(Tolerant::into_metadata).filter_map(&read));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(found),
            }
        }
    }

    /// What the API server says under a path, as it says it; None where there is nothing.
    pub async fn read(&self, path: &str) -> Result<Option<String>, Error> {
        let request = http::Request::get(path).body(vec![]).map_err(Error::HttpError)?;
        absent_if_not_found(self.within(self.hands().request_text(request)).await)
    }

    /// Metadata of some objects of a kind, at most so many.
    pub async fn some(&self, kind: &Kind, namespace: Option<&str>, most: u32) -> Result<Vec<ObjectMeta>, Error> {
        let api: Api<Tolerant<PartialObjectMeta<DynamicObject>>> = self.api(kind, namespace);
        let list = absent_if_not_found(self.within(api.list(&ListParams::default().limit(most))).await)?;
        Ok(list.into_iter().flat_map(|list| list.items).map(Tolerant::into_metadata).collect())
    }

    /// Deletes this very object and no other that took its name. Already gone is as good.
    pub async fn delete(&self, kind: &Kind, id: &ObjectId, uid: &str) -> Result<(), Error> {
        self.delete_by(kind, id, uid, PropagationPolicy::Background).await
    }

    /// The same, and says what becomes of the object's dependents.
    pub async fn delete_by(
        &self,
        kind: &Kind,
        id: &ObjectId,
        uid: &str,
        policy: PropagationPolicy,
    ) -> Result<(), Error> {
        let api: Api<DynamicObject> = self.api(kind, id.namespace.as_deref());
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(uid.to_owned()), ..Default::default() }),
            propagation_policy: Some(policy),
            ..Default::default()
        };
        match self.within(api.delete(&id.name, &params)).await {
            Err(Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
            deleted => deleted.map(|_| ()),
        }
    }

    /// Deletes this very object if it is still of this version, and its dependents after it. Whether it was deleted by this.
    pub async fn delete_unchanged(&self, kind: &Kind, id: &ObjectId, known: &ObjectMeta) -> Result<bool, Error> {
        let api: Api<DynamicObject> = self.api(kind, id.namespace.as_deref());
        let preconditions = Preconditions { uid: known.uid.clone(), resource_version: known.resource_version.clone() };
        let params = DeleteParams {
            preconditions: Some(preconditions),
            propagation_policy: Some(PropagationPolicy::Background),
            ..Default::default()
        };
        match self.within(api.delete(&id.name, &params)).await {
            Err(Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(false),
            deleted => deleted.map(|_| true),
        }
    }

    /// Changes metadata of an object that is not the release's any more.
    pub async fn merge(&self, kind: &Kind, id: &ObjectId, patch: &Value) -> Result<(), Error> {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..Default::default() };
        // Nobody reads the answer, so it need not be readable.
        self.merge_with::<Tolerant<DynamicObject>>(params, kind, id, patch).await.map(|_| ())
    }

    /// A merge patch under a name of its own.
    pub async fn merge_as(
        &self,
        manager: &str,
        kind: &Kind,
        id: &ObjectId,
        patch: &Value,
    ) -> Result<DynamicObject, Error> {
        let params = PatchParams { field_manager: Some(manager.into()), ..Default::default() };
        self.merge_with(params, kind, id, patch).await
    }

    /// What a merge patch would make of an object.
    pub async fn dry_merge(
        &self,
        manager: &str,
        kind: &Kind,
        id: &ObjectId,
        patch: &Value,
    ) -> Result<DynamicObject, Error> {
        let params = PatchParams { field_manager: Some(manager.into()), dry_run: true, ..Default::default() };
        self.merge_with(params, kind, id, patch).await
    }

    async fn merge_with<K>(&self, params: PatchParams, kind: &Kind, id: &ObjectId, patch: &Value) -> Result<K, Error>
    where
        K: kube::Resource<DynamicType = ApiResource, Scope = DynamicResourceScope> + Clone + DeserializeOwned + Debug,
    {
        let api: Api<K> = self.api(kind, id.namespace.as_deref());
        self.within(api.patch(&id.name, &params, &Patch::Merge(patch))).await
    }

    /// One call, with a slot and a time limit.
    pub async fn within<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let own = (self.urgency == Urgency::Edit).then(|| self.edits.try_acquire()).flatten();
        let _slot = match own {
            Some(own) => own,
            None => self.slots.acquire(self.urgency).await,
        };
        match tokio::time::timeout(TIME_LIMIT, call).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::Service("the API server did not answer within 30 s".into())),
        }
    }

    fn api<K>(&self, kind: &Kind, namespace: Option<&str>) -> Api<K>
    where
        K: kube::Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
    {
        match namespace.filter(|_| kind.namespaced) {
            Some(namespace) => Api::namespaced_with(self.hands(), namespace, &kind.resource),
            None => Api::all_with(self.hands(), &kind.resource),
        }
    }
}

/// Whether an object was refused because the check of owner references has not heard of the owner's kind yet.
///
/// It hears of a new kind up to half a minute after everybody else (seen), and asks only about owners whose deletion is blocked. Nobody
/// should wait so long for the first resource of a kind: the object is made without that mark, and the next apply brings it.
fn is_young_owner(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 403 && status.message.contains("cannot find RESTMapping"))
}

/// A kind whose CRD went is answered with 404 too, but without the reason that kube's own `get_opt` looks for.
fn absent_if_not_found<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Err(Error::Api(status)) if status.code == 404 => Ok(None),
        answer => answer.map(Some),
    }
}
