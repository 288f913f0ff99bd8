//! Entries of the ledger whose custom resource is gone without an uninstall: its finalizer was removed.
//!
//! The API server is asked before one is removed: the watch may not cover the custom resource any more. An entry that names objects outside of the
//! release's namespace stays as long as they do, since nothing else tells whose they are.

use std::sync::Arc;

use kube::Error;
use kube::api::{Api, DynamicObject, PartialObjectMeta};

use super::Life;
use crate::applyset;
use crate::custom_resource::Place;
use crate::error::sentence;
use crate::namespaces::{Scope, covers};
use crate::object::ObjectId;
use crate::queue::Urgency;
use crate::release::OwnerMark;
use crate::watching::{self, Tolerant};

impl Life {
    /// Looks at each entry of this kind whose custom resource was not in a whole list.
    pub(super) async fn collect_missing(self: Arc<Self>, scope: Scope) {
        let resource = &self.context.primary.resource;
        let owners = match self.context.trust.ledger.owners().await {
            Ok(owners) => owners,
            Err(error) => return tracing::warn!("cannot look for entries of the ledger that nobody needs: {error}"),
        };
        let is_ours = |owner: &&OwnerMark| {
            owner.group == resource.group && owner.kind == resource.kind && covers(&scope, owner.namespace.as_deref())
        };
        for owner in owners.iter().filter(is_ours).filter(|owner| !self.is_listed(owner)) {
            self.collect(owner).await;
        }
    }

    /// Looks at the entry of a custom resource that went.
    pub(super) async fn collect_gone(self: Arc<Self>, place: Place, uid: String) {
        let resource = &self.context.primary.resource;
        let owner = OwnerMark {
            group: resource.group.clone(),
            kind: resource.kind.clone(),
            namespace: place.namespace.as_deref().map(str::to_owned),
            name: place.name.to_string(),
            uid,
        };
        self.collect(&owner).await;
    }

    fn is_listed(&self, owner: &OwnerMark) -> bool {
        let place = Place::new(owner.namespace.as_deref(), &owner.name);
        self.resources.get(&place).is_some_and(|cr| cr.metadata.uid.as_deref() == Some(owner.uid.as_str()))
    }

    async fn collect(&self, owner: &OwnerMark) {
        let ledger = &self.context.trust.ledger;
        let Ok(Some(entry)) = ledger.get(owner).await else { return };
        let (kind, namespace, name) = (&owner.kind, owner.namespace.as_deref(), &owner.name);
        let left = match self.is_there(owner).await {
            Ok(true) => return,
            Ok(false) => self.first_left(owner, &entry.outside).await,
            Err(error) => Err(error),
        };
        match left {
            Ok(None) => match ledger.remove(owner).await {
                Ok(()) => {
                    tracing::info!(kind, namespace, name, "removed the ledger's entry: the custom resource is gone")
                }
                Err(error) => tracing::warn!(kind, namespace, name, "cannot remove an entry of the ledger: {error}"),
            },
            Ok(Some(id)) => tracing::warn!(
                reason = "ObjectsLeft",
                kind,
                namespace,
                name,
                secret = ledger.secret_of(owner),
                "the custom resource was deleted without its finalizer, and objects of its release outside of the namespace are left, {id} first; delete the objects that the Secret lists, and the operator removes the Secret"
            ),
            // The next list has it looked at again.
            Err(error) => {
                tracing::warn!(
                    kind,
                    namespace,
                    name,
                    "cannot look whether an entry of the ledger is needed: {}",
                    sentence(&error)
                );
            }
        }
    }

    async fn is_there(&self, owner: &OwnerMark) -> Result<bool, Error> {
        let context = &self.context;
        let scope = owner.namespace.as_deref().map(Arc::from);
        let api: Api<Tolerant<PartialObjectMeta<DynamicObject>>> =
            watching::api_with(context.client.clone(), &scope, &context.primary.resource);
        let found = context.calls.at(Urgency::Recheck).within(api.get_opt(&owner.name)).await?;
        Ok(found.is_some_and(|found| found.into_metadata().uid.as_deref() == Some(owner.uid.as_str())))
    }

    /// The first of these objects that is there and carries the marks of this custom resource.
    async fn first_left<'i>(&self, owner: &OwnerMark, ids: &'i [ObjectId]) -> Result<Option<&'i ObjectId>, Error> {
        let (calls, kinds) = (self.context.calls.at(Urgency::Recheck), self.context.kinds.kinds());
        for id in ids {
            let Some(kind) = kinds.any_version(&id.group, &id.kind) else { continue };
            let live = calls.metadata(&kind, id).await?;
            let part_of = live.and_then(|live| live.labels?.remove(applyset::PART_OF));
            if part_of.is_some_and(|part_of| part_of == owner.id()) {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }
}
