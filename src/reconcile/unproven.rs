//! Releases whose records nothing vouches for, and what the ledger notes of those that the operator made itself.

use std::collections::HashSet;
use std::sync::Arc;

use super::holds::held_sentence;
use super::journal;
use super::{ReconcileError, Standing, Subject};
use crate::children::Sight;
use crate::object::{ObjectId, ObjectKey};
use crate::plan::{self, members};
use crate::release::proof::content_hash;
use crate::release::{Applied, HeldBy, History, Hold, Own, Proof, Release};
use crate::trust::Entry;
use crate::trust::ledger::{Observed, check_outside};

impl Subject<'_> {
    /// Notes a revision that is recorded, before anything of it is applied. `objects` are all that it or one before may have made.
    pub(super) async fn note<'i>(
        &self,
        release: &Release,
        objects: impl Iterator<Item = &'i ObjectId>,
    ) -> Result<(), ReconcileError> {
        let own = release.own.as_ref();
        let mut outside: Vec<ObjectId> = objects.filter(|id| !self.is_inside(id)).cloned().collect();
        outside.sort();
        outside.dedup();
        let entry = Entry {
            uid: self.owner.uid.clone(),
            namespace: self.namespace.clone(),
            release: self.release.clone(),
            revision: release.revision,
            content: content_hash(release),
            digest: own
                .map(|own| own.hold.as_ref().map_or(&own.digest, |hold| &hold.digest))
                .cloned()
                .unwrap_or_default(),
            request: own.and_then(|own| own.request),
            outside,
            observed: None,
        };
        Ok(self.context.trust.ledger.put(&self.owner_mark(), entry).await?)
    }

    /// Refuses a revision with more objects outside of the namespace than can be noted, before anything is written.
    pub(super) fn check_noted(&self, objects: impl Iterator<Item = ObjectId>) -> Result<(), ReconcileError> {
        let outside: Vec<ObjectId> = objects.filter(|id| !self.is_inside(id)).collect();
        Ok(check_outside(&outside).map_err(Arc::new)?)
    }

    /// Notes a revision whose objects are known already.
    pub(super) async fn note_again(&self, release: &Release) -> Result<(), ReconcileError> {
        let noted = self.noted().await?.map(|entry| entry.outside).unwrap_or_default();
        let recorded = release.own.iter().flat_map(|own| &own.objects).map(|applied| &applied.id);
        self.note(release, noted.iter().chain(recorded)).await
    }

    /// The objects that this operator knows it made for the release, by signed records and by the ledger.
    pub(super) async fn proven(&self, history: &History) -> Result<HashSet<ObjectKey>, ReconcileError> {
        let noted = self.noted().await?.map(|entry| entry.outside).unwrap_or_default();
        let kinds = self.context.kinds.kinds();
        let mut proven = plan::proven(history, &self.namespace, &kinds)?;
        proven.extend(noted.iter().map(ObjectId::key));
        Ok(proven)
    }

    fn is_inside(&self, id: &ObjectId) -> bool {
        id.namespace.as_ref() == Some(&self.namespace)
    }

    /// A record whose signature covers what it says, but not how it is packed: `chartwright test` wrote its results into it. Without a new
    /// signature the watch would not know it.
    pub(super) async fn sealed_again(&self, latest: &Release) -> Result<Release, ReconcileError> {
        let seen = self.revisions();
        let is_unknown = seen.as_ref().and_then(|seen| seen.latest()).is_some_and(|seen| {
            seen.revision == latest.revision && seen.own.is_none() && latest.proof == Proof::Record
        });
        match is_unknown {
            true => Ok(self.store.update(latest).await?),
            false => Ok(latest.clone()),
        }
    }

    /// Signs the records of a release as they are. Nothing is applied.
    pub(super) async fn sign(&self, history: &History) -> Result<Release, ReconcileError> {
        let owner = self.owner_mark();
        let mut signed = None;
        for release in history.iter().filter(|release| release.proof != Proof::Record) {
            let claimed = release.claimed.as_deref().filter(|claimed| claimed.owner.is_same_resource(&owner));
            let Some(claimed) = claimed else { continue };
            let own = Own { owner: owner.clone(), ..claimed.clone() };
            signed = Some(self.store.update(&Release { own: Some(own), ..release.clone() }).await?);
        }
        let latest = signed.or_else(|| history.latest().cloned()).ok_or(ReconcileError::Unsettled)?;
        self.note_again(&latest).await?;
        self.context.trust.window.count();
        let message = format!(
            "Signed the records of the release {} up to revision {} as they are, since an administrator opened the window for it",
            self.release, latest.revision
        );
        self.warn("RecordSigned", &message).await;
        Ok(latest)
    }

    /// Leaves a revision alone that somebody else made above ours. Its objects are observed and not repaired.
    pub(super) async fn leave_unproven(
        &self,
        overrides: String,
        history: &History,
    ) -> Result<Standing, ReconcileError> {
        let Some(latest) = history.latest() else { return Err(ReconcileError::Unsettled) };
        journal::note_revision(latest.revision);
        let hold = Hold { to: None, digest: overrides.clone(), by: HeldBy::Helm, failed: None };
        let observed = Some(Observed { revision: latest.revision, digest: overrides });
        if let Some(entry) = self.noted().await?.filter(|entry| entry.observed != observed) {
            // Whoever writes records in a loop does not have the ledger written as fast.
            self.check_pace()?;
            self.context.trust.ledger.put(&self.owner_mark(), Entry { observed, ..entry }).await?;
            self.note_revision_made();
            let message = format!(
                "Somebody else made revision {} of the release {} ({}). This operator does not vouch for it: it takes nothing from its record and does not repair its objects; {}",
                latest.revision,
                self.release,
                latest.description,
                held_sentence(&hold)
            );
            self.warn("RecordUnproven", &message).await;
        }
        let seen = |applied: &Applied| matches!(self.context.children.sight(&applied.id.key()), Sight::Present(_));
        let objects = members(&latest.manifest.read(), &self.namespace, &self.context.kinds.kinds())?;
        let objects = objects.into_iter().filter(|applied| self.is_inside(&applied.id)).filter(seen).collect();
        let own = Own { objects, ..self.own(String::new()) };
        Ok(Standing { revision: latest.revision, own: Some(own), record: None, held: Some(hold) })
    }
}
