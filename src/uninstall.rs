//! Taking a release away when its custom resource goes.
//!
//! It works from the release record. Where that is gone, as in a namespace that is being deleted, the objects are found by
//! the ApplySet marks on the custom resource and on themselves. Neither the chart nor the spec is needed.

use crate::applyset::{self, Contents};
use crate::calls::Calls;
use crate::discovery::{Kind, Kinds};
use crate::error::{Category, of_kube, sentence};
use crate::manifest::order::uninstall_rank;
use crate::object::ObjectId;
use crate::ownership::{Claim, judge};
use crate::plan::{Owner, RELEASE_LABEL};
use crate::prune::{Occasion, PruneError, Pruned, Rules, disown, prune, set_free};
use crate::release::Applied;

#[derive(Debug, thiserror::Error)]
pub enum UninstallError {
    #[error(transparent)]
    Prune(#[from] PruneError),
    #[error("cannot look for objects of the kind {kind}: {}", sentence(error))]
    List { kind: String, error: kube::Error },
}

impl UninstallError {
    pub fn category(&self) -> Category {
        match self {
            UninstallError::Prune(error) => error.category(),
            UninstallError::List { error, .. } => of_kube(error),
        }
    }
}

/// The release that goes.
pub struct Leaving<'a> {
    pub release: &'a str,
    pub namespace: &'a str,
    pub owner: &'a Owner,
    pub kinds: &'a Kinds,
    pub calls: &'a Calls,
    /// Whether helm wrote the newest revision: it takes our marks off the objects.
    pub helm_took_over: bool,
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

    /// Takes this custom resource's owner reference off objects that are not its release's.
    pub async fn disown(&self, objects: &[Applied]) -> Result<(), UninstallError> {
        Ok(disown(objects, self.owner, self.kinds, self.calls).await?)
    }

    fn rules(&self) -> Rules<'_> {
        Rules {
            release: self.release,
            namespace: self.namespace,
            owner: self.owner,
            occasion: Occasion::Uninstall,
            applied: Default::default(),
            helm_marks_suffice: self.helm_took_over,
            shipped: self.shipped,
        }
    }

    /// The objects that carry this release's marks, as far as the custom resource says where to look.
    pub async fn find(&self, contents: &Contents) -> Result<Vec<Applied>, UninstallError> {
        let selector = format!("{}={},{RELEASE_LABEL}={}", applyset::PART_OF, applyset::id(self.owner), self.release);
        let mut found = vec![];
        for group_kind in &contents.group_kinds {
            let (kind, group) = group_kind.split_once('.').unwrap_or((group_kind, ""));
            // Gone with its CRD.
            let Some(kind) = self.kinds.any_version(group, kind) else { continue };
            for namespace in self.places(&kind, contents) {
                let listed = self.calls.list(&kind, namespace, &selector).await;
                let listed =
                    listed.map_err(|error| UninstallError::List { kind: kind.resource.kind.clone(), error })?;
                // Controllers copy labels to what they make: an EndpointSlice carries those of its Service.
                let ours = |live: &&_| judge(live, self.release, self.namespace, self.owner) == Claim::Ours;
                found.extend(listed.iter().filter(ours).map(|live| {
                    let id = ObjectId {
                        group: kind.resource.group.clone(),
                        version: kind.resource.version.clone(),
                        kind: kind.resource.kind.clone(),
                        namespace: live.namespace.clone(),
                        name: live.name.clone().unwrap_or_default(),
                    };
                    Applied::new(id, live.uid.clone())
                }));
            }
        }
        Ok(found)
    }

    fn places<'a>(&'a self, kind: &Kind, contents: &'a Contents) -> Vec<Option<&'a str>> {
        if !kind.namespaced {
            return vec![None];
        }
        let own = self.owner.namespace.as_deref().unwrap_or(self.namespace);
        std::iter::once(own).chain(contents.namespaces.iter().map(String::as_str)).map(Some).collect()
    }

    /// Those that are still there.
    pub async fn remaining(&self, objects: &[Applied]) -> Result<Vec<ObjectId>, UninstallError> {
        let mut remaining = vec![];
        for applied in objects {
            let Some(kind) = self.kinds.any_version(&applied.id.group, &applied.id.kind) else { continue };
            let live = self.calls.metadata(&kind, &applied.id).await;
            let live = live.map_err(|error| UninstallError::List { kind: applied.id.kind.clone(), error })?;
            if live.is_some_and(|live| applied.uid.is_none() || live.uid == applied.uid) {
                remaining.push(applied.id.clone());
            }
        }
        Ok(remaining)
    }
}
