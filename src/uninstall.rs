//! Taking a release away when its custom resource goes.
//!
//! It works from the release record. Where that is gone, as in a namespace that is being deleted, the objects of the release's namespace are found
//! by the ApplySet marks on the custom resource and on themselves, and those outside of it by the ledger. Neither the chart nor the spec is
//! needed.

use std::collections::BTreeSet;

use kube::core::ObjectMeta;

use crate::adoption;
use crate::applyset::{self, Contents};
use crate::calls::Calls;
use crate::discovery::absence::{Absence, Unavailable};
use crate::discovery::{Kind, Kinds};
use crate::error::{Category, of_kube, sentence};
use crate::manifest::order::uninstall_rank;
use crate::object::ObjectId;
use crate::ownership::{Claim, judge};
use crate::plan::{MANAGED_BY, Made, Owner, RELEASE_LABEL, RELEASE_NAMESPACE, members, unknown_kinds};
use crate::prune::{Occasion, PruneError, Pruned, Rules, disown, prune, set_free};
use crate::release::Applied;

#[derive(Debug, thiserror::Error)]
pub enum UninstallError {
    #[error(transparent)]
    Prune(#[from] PruneError),
    #[error("cannot look for objects of the kind {kind}: {}", sentence(error))]
    List { kind: String, error: kube::Error },
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl UninstallError {
    fn of_call(kind: &Kind, error: kube::Error) -> Self {
        match Unavailable::of_call(&kind.resource, error) {
            Ok(error) => UninstallError::Unavailable(error),
            Err(error) => UninstallError::List { kind: kind.resource.kind.clone(), error },
        }
    }

    pub fn category(&self) -> Category {
        match self {
            UninstallError::Prune(error) => error.category(),
            UninstallError::List { error, .. } => of_kube(error),
            UninstallError::Unavailable(error) => error.category(),
        }
    }
}

fn id_of(kind: &Kind, live: &ObjectMeta) -> ObjectId {
    ObjectId {
        group: kind.resource.group.clone(),
        version: kind.resource.version.clone(),
        kind: kind.resource.kind.clone(),
        namespace: live.namespace.clone(),
        name: live.name.clone().unwrap_or_default(),
    }
}

/// The release that goes.
pub struct Leaving<'a> {
    pub release: &'a str,
    pub namespace: &'a str,
    pub owner: &'a Owner,
    pub kinds: &'a Kinds,
    pub calls: &'a Calls,
    /// Whether helm wrote the newest revision with the content of one of ours: it takes our marks off the objects.
    pub helm_took_over: bool,
    /// What this operator knows that it made for the release. Outside of the release's namespace nothing else is removed.
    pub proven: Made,
    /// Whether what existed before the release goes with it.
    pub delete_adopted: bool,
    /// What the newest revision has in crds/: it stays, whatever made it.
    pub shipped: &'a [ObjectId],
}

impl Leaving<'_> {
    /// Removes objects in Helm's order.
    pub async fn remove(&self, mut objects: Vec<Applied>) -> Result<Pruned, UninstallError> {
        objects.sort_by(|a, b| uninstall_rank(&a.id.kind).cmp(&uninstall_rank(&b.id.kind)));
        Ok(prune(&objects, &self.rules(), self.kinds, self.calls).await?)
    }

    /// Takes our marks off objects that stay.
    pub async fn set_free(&self, objects: &[Applied]) -> Result<(), UninstallError> {
        Ok(set_free(objects, &self.rules(), self.kinds, self.calls).await?)
    }

    /// Takes this custom resource's owner reference off objects that are not its release's. The manifest may be anybody's: it only says which
    /// kinds to list.
    pub async fn disown(&self, manifest: &str) -> Result<(), UninstallError> {
        let mut absence = Absence::new(self.calls);
        for (group, kind) in unknown_kinds(manifest, self.kinds) {
            // With an owner reference that stays, the garbage collector would delete the object as soon as its API is back.
            absence.confirm(&group, &kind).await?;
        }
        let named: BTreeSet<_> = self.named_in(manifest).into_iter().map(|id| (id.group, id.kind)).collect();
        let kinds = named.iter().filter_map(|(group, kind)| self.kinds.any_version(group, kind));
        // A namespaced resource owns objects in its namespace only.
        let namespace = self.owner.namespace.as_deref();
        for kind in kinds.filter(|kind| kind.is_manageable && (kind.namespaced || namespace.is_none())) {
            let owned = |live: ObjectMeta| {
                let is_owned = live.owner_references.iter().flatten().any(|it| it.uid == self.owner.uid);
                is_owned.then(|| Applied::new(id_of(&kind, &live), live.uid))
            };
            for (namespace, selector) in self.places_of_owned(&kind) {
                let owned = self.calls.list(&kind, namespace, &selector, owned).await;
                let owned = owned.map_err(|error| UninstallError::of_call(&kind, error))?;
                disown(&owned, self.owner, self.kinds, self.calls).await?;
            }
        }
        Ok(())
    }

    /// Where objects may be that the custom resource owns, and by which label. In a namespace they are listed by none, since the garbage
    /// collector deletes objects that lost their labels, too. The whole cluster is listed by Helm's label only: the manifest chooses the kinds.
    fn places_of_owned(&self, kind: &Kind) -> Vec<(Option<&str>, String)> {
        let helms = || (None, format!("{MANAGED_BY}=Helm"));
        match &self.owner.namespace {
            Some(namespace) => vec![(Some(namespace), String::new())],
            None if kind.namespaced => vec![(Some(self.namespace), String::new()), helms()],
            None => vec![helms()],
        }
    }

    fn rules(&self) -> Rules<'_> {
        Rules {
            release: self.release,
            namespace: self.namespace,
            owner: self.owner,
            occasion: Occasion::Uninstall,
            applied: Default::default(),
            helm_marks_suffice: self.helm_took_over,
            proven: self.proven.clone(),
            shipped: self.shipped.iter().map(ObjectId::key).collect(),
            delete_adopted: self.delete_adopted,
        }
    }

    /// The objects of the release's namespace that carry its marks, of the kinds that the custom resource names. Marks prove nothing
    /// elsewhere: whoever may write an object there can put them on it.
    pub async fn find(&self, contents: &Contents) -> Result<Vec<Applied>, UninstallError> {
        let (mut found, mut absence) = (vec![], Absence::new(self.calls));
        for group_kind in &contents.group_kinds {
            let (kind, group) = group_kind.split_once('.').unwrap_or((group_kind, ""));
            let Some(kind) = self.kinds.any_version(group, kind) else {
                absence.confirm(group, kind).await?;
                continue;
            };
            if !kind.namespaced {
                continue;
            }
            let applied = |live: ObjectMeta| {
                let id = id_of(&kind, &live);
                let is_adopted = adoption::is_marked(&live);
                self.is_ours(&live).then(|| Applied { is_adopted, ..Applied::new(id, live.uid) })
            };
            let listed = self.calls.list(&kind, Some(self.namespace), &self.selector(), applied).await;
            found.extend(listed.map_err(|error| UninstallError::of_call(&kind, error))?);
        }
        Ok(found)
    }

    /// Where the release lives, if an object in one of these namespaces carries its marks and names another place than this.
    pub async fn find_home(&self, contents: &Contents) -> Result<Option<String>, UninstallError> {
        match self.find_home_in(&[None], contents).await {
            // Who may not look in all namespaces may in some.
            Err(error) if error.category() == Category::Forbidden => {
                let named: Vec<_> = contents.namespaces.iter().map(|namespace| Some(namespace.as_str())).collect();
                self.find_home_in(&named, contents).await
            }
            found => found,
        }
    }

    async fn find_home_in(
        &self,
        places: &[Option<&str>],
        contents: &Contents,
    ) -> Result<Option<String>, UninstallError> {
        const MOST_LISTS: usize = 32;
        // The author of a custom resource says which kinds and namespaces there are.
        let mut lists = vec![];
        for group_kind in &contents.group_kinds {
            let (kind, group) = group_kind.split_once('.').unwrap_or((group_kind, ""));
            if let Some(kind) = self.kinds.any_version(group, kind).filter(|kind| kind.namespaced) {
                lists.extend(places.iter().map(|place| (kind.clone(), *place)));
            }
        }
        for (kind, place) in lists.into_iter().take(MOST_LISTS) {
            let home = |live: ObjectMeta| {
                let is_named =
                    live.namespace.as_ref().is_some_and(|it| *it != self.namespace && contents.namespaces.contains(it));
                let home = live.annotations.as_ref()?.get(RELEASE_NAMESPACE).filter(|home| *home != self.namespace);
                home.filter(|_| is_named && self.is_ours(&live)).cloned()
            };
            let homes = self.calls.list(&kind, place, &self.selector(), home).await;
            let homes = homes.map_err(|error| UninstallError::of_call(&kind, error))?;
            if let Some(home) = homes.into_iter().next() {
                return Ok(Some(home));
            }
        }
        Ok(None)
    }

    fn selector(&self) -> String {
        format!("{}={},{RELEASE_LABEL}={}", applyset::PART_OF, applyset::id(self.owner), self.release)
    }

    /// Controllers copy labels to what they make: an EndpointSlice carries those of its Service.
    fn is_ours(&self, live: &ObjectMeta) -> bool {
        judge(live, self.release, self.namespace, self.owner) == Claim::Ours
    }

    /// The objects that a manifest names, which may be anybody's. Nothing is asked about them.
    pub fn named_in(&self, manifest: &str) -> Vec<ObjectId> {
        let members = members(manifest, self.namespace, self.kinds).unwrap_or_default();
        members.into_iter().map(|member| member.id).collect()
    }

    /// The objects of a manifest that helm recorded.
    pub async fn members(&self, manifest: &str) -> Result<Vec<Applied>, UninstallError> {
        let mut absence = Absence::new(self.calls);
        for (group, kind) in unknown_kinds(manifest, self.kinds) {
            absence.confirm(&group, &kind).await?;
        }
        Ok(members(manifest, self.namespace, self.kinds).unwrap_or_else(|error| {
            // It must not keep a custom resource from going. What carries the marks of the release is found without it.
            tracing::warn!(
                namespace = self.namespace,
                release = self.release,
                "a recorded manifest is not read: {error}"
            );
            vec![]
        }))
    }

    /// Those that are still there.
    pub async fn remaining(&self, objects: &[Applied]) -> Result<Vec<ObjectId>, UninstallError> {
        let (mut remaining, mut absence) = (vec![], Absence::new(self.calls));
        for applied in objects {
            let Some(kind) = self.kinds.any_version(&applied.id.group, &applied.id.kind) else {
                absence.confirm(&applied.id.group, &applied.id.kind).await?;
                continue;
            };
            let live = self.calls.metadata(&kind, &applied.id).await;
            let live = live.map_err(|error| UninstallError::of_call(&kind, error))?;
            if live.is_some_and(|live| applied.uid.is_none() || live.uid == applied.uid) {
                remaining.push(applied.id.clone());
            }
        }
        Ok(remaining)
    }
}
