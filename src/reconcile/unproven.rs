//! Releases whose records nothing vouches for, and what the ledger notes of those that the operator made itself.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::holds::held_sentence;
use super::journal;
use super::{ReconcileError, Standing, Subject};
use crate::children::Sight;
use crate::object::ObjectId;
use crate::plan::{self, Made, members};
use crate::queue::Urgency;
use crate::release::proof::content_hash;
use crate::release::{Applied, HeldBy, History, Hold, Own, Proof, Release, Status};
use crate::trust::Entry;
use crate::trust::ledger::{Observed, check_outside};

/// How soon a note that failed is repeated.
const NOTE_AGAIN: Duration = Duration::from_secs(10);

impl Subject<'_> {
    /// Notes a revision in the ledger, before anything of it is applied. `objects` are all that it or one before may have created.
    pub(super) async fn note<'i>(
        &self,
        release: &Release,
        objects: impl Iterator<Item = &'i ObjectId>,
        history: &History,
    ) -> Result<(), ReconcileError> {
        // What has expired must not count again if somebody writes it anew.
        let expired = history.clone().with(release.clone()).expired(self.wishes.max_history);
        let stays = |it: &&Release| it.status == Status::Deployed || !expired.contains(&it.revision);
        let oldest = history.iter().filter(|it| it.is_proven()).find(stays);
        self.put_note(release, objects, oldest.map_or(release.revision, |oldest| oldest.revision)).await
    }

    /// Notes a revision whose objects are known already.
    pub(super) async fn note_again(&self, release: &Release) -> Result<(), ReconcileError> {
        let kept = release.own.iter().flat_map(|own| &own.kept);
        let recorded = release.own.iter().flat_map(|own| &own.objects).map(|applied| &applied.id).chain(kept);
        let oldest = self.noted().await?.map_or(0, |noted| noted.oldest);
        self.put_note(release, recorded, oldest).await
    }

    async fn put_note<'i>(
        &self,
        release: &Release,
        objects: impl Iterator<Item = &'i ObjectId>,
        oldest: u32,
    ) -> Result<(), ReconcileError> {
        let (ledger, owner) = (&self.context.trust.ledger, self.owner_mark());
        let (before, outside) = (ledger.get(&owner).await?, ledger.outside(&owner).await?);
        let all: Vec<ObjectId> = objects.cloned().chain(outside).collect();
        let entry = self.entry(release, all.iter());
        let oldest = oldest.max(before.as_ref().map_or(0, |before| before.oldest));
        let is_same = |it: &Entry| it.revision == entry.revision && it.content == entry.content;
        let finished = before.is_some_and(|before| is_same(&before) && before.finished);
        Ok(ledger.put(&owner, Entry { oldest, finished, ..entry }).await?)
    }

    /// Notes that a revision is deployed, if that matters: an earlier state of its record must not run its hooks again. Nothing was pruned, so
    /// every object outside of the namespace stays noted.
    pub(super) async fn note_finished(&self, release: &Release) -> Result<(), ReconcileError> {
        let Some(noted) = self.noted().await? else { return Ok(()) };
        let outside = noted.outside.clone();
        self.put_finished(release, noted, outside.iter()).await
    }

    /// The same after a prune: what the revision dropped outside of the namespace is gone.
    pub(super) async fn note_pruned(&self, release: &Release) -> Result<(), ReconcileError> {
        let Some(noted) = self.noted().await? else { return Ok(()) };
        let own = || release.own.iter();
        let kept = own().flat_map(|own| &own.kept);
        let objects = own().flat_map(|own| &own.objects).map(|applied| &applied.id).chain(kept);
        self.put_finished(release, noted, objects).await
    }

    /// Has the next turn note that a revision is deployed. A restart forgets it: then the next revision notes it.
    pub(super) fn repeat_note(&self, revision: u32) {
        self.context.memory.with(&self.owner.uid, |memory| memory.unnoted = Some(revision));
        self.turn.again(NOTE_AGAIN, Urgency::Recheck);
    }

    /// Notes what an earlier turn could not note of the deployed revision.
    pub(super) async fn note_what_is_missing(&self, deployed: u32) {
        if self.context.memory.with(&self.owner.uid, |memory| memory.unnoted.take()) != Some(deployed) {
            return;
        }
        let noted = match self.release(deployed).await {
            Ok(release) if release.proof == Proof::Record && release.own.is_some() => self.note_pruned(&release).await,
            // Somebody rewrote the record since the watch saw it. Noting it would vouch for what they wrote.
            Ok(_) => return,
            Err(error) => Err(error),
        };
        if let Err(error) = noted {
            tracing::warn!(revision = deployed, "cannot note in the ledger that the revision is deployed: {error}");
            self.repeat_note(deployed);
        }
    }

    async fn put_finished<'i>(
        &self,
        release: &Release,
        noted: Entry,
        outside: impl Iterator<Item = &'i ObjectId>,
    ) -> Result<(), ReconcileError> {
        let entry = Entry { oldest: noted.oldest, finished: true, ..self.entry(release, outside) };
        if release.hooks.is_empty() && entry.outside == noted.outside {
            return Ok(());
        }
        Ok(self.context.trust.ledger.put(&self.owner_mark(), entry).await?)
    }

    fn entry<'i>(&self, release: &Release, objects: impl Iterator<Item = &'i ObjectId>) -> Entry {
        let own = release.own.as_ref();
        let mut outside: Vec<ObjectId> = objects.filter(|id| !self.is_inside(id)).cloned().collect();
        outside.sort();
        outside.dedup();
        let hold = own.and_then(|own| own.hold.as_ref());
        Entry {
            uid: self.owner.uid.clone(),
            namespace: self.namespace.clone(),
            release: self.release.clone(),
            revision: release.revision,
            content: content_hash(release),
            digest: own.map(|own| hold.map_or(&own.digest, |hold| &hold.digest)).cloned().unwrap_or_default(),
            rendered: hold.and(own).map(|own| own.digest.clone()),
            request: own.and_then(|own| own.request),
            outside,
            ..Entry::default()
        }
    }

    /// Refuses a revision with more objects outside of the namespace than can be noted, before anything is written.
    pub(super) fn check_noted(&self, objects: impl Iterator<Item = ObjectId>) -> Result<(), ReconcileError> {
        let outside: Vec<ObjectId> = objects.filter(|id| !self.is_inside(id)).collect();
        Ok(check_outside(&outside).map_err(Arc::new)?)
    }

    /// The objects that this operator knows it created for the release, by signed records and by the ledger.
    pub(super) async fn proven(&self, history: &History) -> Result<Made, ReconcileError> {
        let outside = self.context.trust.ledger.outside(&self.owner_mark()).await?;
        let kinds = self.context.kinds.kinds();
        let mut proven = plan::proven(history, &self.namespace, &kinds)?;
        proven.extend(outside.iter().map(|id| (id.key(), None)));
        Ok(proven)
    }

    /// What may be in the cluster by earlier revisions: by the records, and outside of the namespace by the ledger too.
    pub(super) async fn before(&self, history: &History) -> Result<Vec<Applied>, ReconcileError> {
        let kinds = self.context.kinds.kinds();
        let mut before = plan::before(history, &self.namespace, &kinds)?;
        // What an upgrade dropped and kept is not the release's any more.
        let known = before.iter().map(|applied| &applied.id).chain(history.kept());
        let known: HashSet<_> = known.map(ObjectId::key).collect();
        let outside = self.context.trust.ledger.outside(&self.owner_mark()).await?;
        before.extend(outside.into_iter().filter(|id| !known.contains(&id.key())).map(|id| Applied::new(id, None)));
        Ok(before)
    }

    pub(super) fn is_inside(&self, id: &ObjectId) -> bool {
        id.namespace.as_ref() == Some(&self.namespace)
    }

    /// A record whose signature covers what it says, but not how it is packed: `chartwright test` wrote its results into it. Without a new
    /// signature the watch would not know it.
    pub(super) async fn sealed_again(&self, latest: &Release) -> Result<Release, ReconcileError> {
        let seen = self.revisions()?;
        let is_unknown = seen.as_ref().and_then(|seen| seen.latest()).is_some_and(|seen| {
            seen.revision == latest.revision && seen.own.is_none() && latest.proof == Proof::Record
        });
        match is_unknown {
            true => Ok(self.store.update(latest).await?),
            false => Ok(latest.clone()),
        }
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
