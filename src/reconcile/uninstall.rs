//! The way out of a custom resource that is being deleted.

use std::collections::HashSet;
use std::time::Duration;

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::subject::CR_MANAGER;
use super::{Next, ReconcileError, Subject};
use crate::error::Category;
use crate::hooks::Event;
use crate::identity::{FINALIZER, OLDER_FINALIZER};
use crate::object::{ObjectId, ObjectKey};
use crate::prune::Pruned;
use crate::release::{Applied, HeldBy, History, Own, Release, Status};
use crate::status::{Failure, Report, Stage};
use crate::uninstall::Leaving;
use crate::wishes::{DELETION_POLICY, Deletion};

const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How many objects of an unproven manifest an event names.
const MAX_NAMED: usize = 10;

impl Subject<'_> {
    /// Removes the release's objects and record, then lets the custom resource go.
    pub(super) async fn uninstall(&self) -> Result<Next, ReconcileError> {
        let ours = |finalizer: &String| finalizer == FINALIZER || finalizer == OLDER_FINALIZER;
        // The watch may be slower than whoever tells: what is done is not done again, with records that are gone.
        let (memory, uid) = (&self.context.memory, &self.owner.uid);
        let (is_parted, is_done) = memory.with(uid, |it| (it.is_without_release, it.is_let_go));
        if is_done || !self.cr.finalizers().iter().any(ours) {
            return Ok(Next::Rest);
        }
        let parted = match self.check_namespace() {
            Ok(()) if is_parted => Ok(vec![]),
            Ok(()) => self.part_from_release().await,
            Err(error) => Err(error),
        };
        match parted {
            Ok(waiting) if waiting.is_empty() => {
                self.let_go().await?;
                Ok(Next::Rest)
            }
            Err(ReconcileError::TooEarly(left)) => Ok(Next::Pause(left)),
            Err(ReconcileError::AtHook(waiting)) => {
                self.write_leaving(&capitalised(&waiting.to_string()), waiting.is_after_deletion()).await?;
                Ok(Next::Look(waiting.look))
            }
            Ok(waiting) => {
                tracing::debug!("waiting until {} objects are deleted, first: {}", waiting.len(), waiting[0]);
                let message = format!("Waiting until all resources are deleted. First: {}", waiting[0]);
                self.write_leaving(&message, true).await?;
                Ok(Next::Look(LOOK_AGAIN))
            }
            Err(error) => {
                self.pause_after(&error);
                self.warn_by_event("UninstallError", &error.to_string()).await;
                self.report_leaving(error.category(), error.to_string()).await?;
                Err(error)
            }
        }
    }

    /// Does with the release what the custom resource asks for. Returns what is still to be waited for.
    async fn part_from_release(&self) -> Result<Vec<String>, ReconcileError> {
        match &self.wishes.deletion {
            Deletion::Uninstall => self.remove_release().await,
            Deletion::Orphan => self.set_free().await,
            Deletion::Unknown(text) => Err(ReconcileError::Annotation(format!(
                "the annotation {DELETION_POLICY} is {text:?}, so nothing is removed: write `orphan` or `uninstall`"
            ))),
        }
    }

    /// Leaves objects and records to helm: nothing of ours stays on them, so the garbage collector does not come for them.
    async fn set_free(&self) -> Result<Vec<String>, ReconcileError> {
        let history = self.readable_history().await?;
        if self.somebody_else(&history).await?.is_some() {
            return self.leave_to_others_for_good(&history).await;
        }
        let recorded = history.objects_since_deployed();
        let kinds = self.context.kinds.kinds_of(recorded.iter().map(|applied| &applied.id)).await?;
        let leaving = Leaving { proven: self.proven(&history).await?, ..self.leaving(&kinds, true) };
        let objects = self.all_objects(&history, &leaving).await?;
        leaving.set_free(&objects).await?;
        self.let_go_of_jobs(&history).await?;
        for release in history.iter() {
            self.store.set_free(release).await?;
        }
        self.context.trust.ledger.remove(&self.owner_mark()).await?;
        let message = format!("The {} objects of release {} stay and are left to helm", objects.len(), self.release);
        self.tell("Orphaned", &message).await;
        Ok(vec![])
    }

    /// A release of somebody else stays. operator-sdk lets the custom resource own its objects and records: that has to end, or
    /// the garbage collector would come for them.
    async fn leave_to_others_for_good(&self, history: &History) -> Result<Vec<String>, ReconcileError> {
        let Some(latest) = history.latest() else { return Ok(vec![]) };
        let kinds = self.context.kinds.kinds();
        let leaving = self.leaving(&kinds, true);
        leaving.disown(&latest.manifest.read()).await?;
        for release in history.iter().filter(|release| release.is_owned_by(&self.owner.uid)) {
            self.store.disown(release).await?;
        }
        Ok(vec![])
    }

    /// Everything that may be the release's: as recorded, as helm recorded it, and as marked.
    async fn all_objects(&self, history: &History, leaving: &Leaving<'_>) -> Result<Vec<Applied>, ReconcileError> {
        let mut objects = history.objects_since_deployed();
        let mut known: HashSet<ObjectKey> = objects.iter().map(|applied| applied.id.key()).collect();
        let mut add =
            |more: Vec<Applied>| objects.extend(more.into_iter().filter(|found| known.insert(found.id.key())));
        // What an unproven manifest names is found by its marks, in the release's namespace.
        if let Some(latest) = history.latest().filter(|latest| latest.own.is_none() && latest.is_proven()) {
            add(leaving.members(&latest.manifest.read()).await?);
        }
        let outside = self.context.trust.ledger.outside(&self.owner_mark()).await?;
        add(outside.into_iter().map(|id| Applied::new(id, None)).collect());
        let is_told = |release: &Release| release.own.is_some();
        let goes = history.latest().filter(|latest| latest.status == Status::Uninstalling);
        if !history.deployed().is_some_and(is_told) && !goes.is_some_and(is_told) {
            // In a namespace that is being deleted the records go one by one, and the one that counts may be the first.
            add(leaving.find(&self.contents()).await?);
        }
        Ok(objects)
    }

    /// What is still to be waited for.
    async fn remove_release(&self) -> Result<Vec<String>, ReconcileError> {
        let history = self.readable_history().await?;
        if let Some(who) = self.somebody_else(&history).await? {
            self.warn("NotUninstalled", &format!("The release {} {who}, so its objects stay", self.release)).await;
            return self.leave_to_others_for_good(&history).await;
        }
        let history = self.run_delete_hooks(Event::PreDelete, history).await?;
        let recorded: Vec<Applied> = history.objects_since_deployed();
        let kinds = self.context.kinds.kinds_of(recorded.iter().map(|applied| &applied.id)).await?;
        let latest = history.latest();
        let shipped = latest.and_then(|latest| latest.own.as_ref()).map_or(&[][..], |own| &own.shipped);
        let proven = self.proven(&history).await?;
        let leaving = Leaving { shipped, proven, ..self.leaving(&kinds, latest.is_some_and(is_helms)) };
        let objects = match self.all_objects(&history, &leaving).await {
            Err(error) if self.may_leave_behind(&error).await? => recorded,
            objects => objects?,
        };
        let pruned = match leaving.remove(objects.clone()).await.map_err(ReconcileError::from) {
            Err(error) if self.may_leave_behind(&error).await? => self.remove_what_may_be(&leaving, &objects).await?,
            removed => removed?,
        };
        self.tell_left(&history, &leaving, pruned.unproven).await;
        if self.wishes.uninstall_wait {
            let deleted: HashSet<&ObjectId> = pruned.deleted.iter().collect();
            let going: Vec<_> = objects.into_iter().filter(|applied| deleted.contains(&applied.id)).collect();
            let remaining = leaving.remaining(&going).await?;
            if !remaining.is_empty() {
                return Ok(remaining.iter().map(ToString::to_string).collect());
            }
        }
        let history = self.run_delete_hooks(Event::PostDelete, history).await?;
        self.let_go_of_jobs(&history).await?;
        self.tell_hooks_left(&history).await?;
        let owner = self.owner_mark();
        let is_ours = |release: &&Release| release.is_proven() || release.claims_to_belong_to(&owner) == Some(true);
        for release in history.iter().filter(is_ours) {
            self.store.delete(&self.namespace, &self.release, release.revision).await?;
        }
        self.store.delete_all(&self.namespace, &self.release).await?;
        self.context.trust.ledger.remove(&owner).await?;
        tracing::info!(reason = "Uninstalled", totalMs = self.journal.total_ms(), "Uninstalled");
        if let Some(description) = &self.wishes.descriptions.uninstall {
            self.tell("Uninstalled", description).await;
        }
        Ok(vec![])
    }

    /// Names the objects outside of the namespace that stay. Those that only an unproven manifest names are not looked at: the answer would
    /// show its author what exists there.
    async fn tell_left(&self, history: &History, leaving: &Leaving<'_>, mut left: Vec<ObjectId>) {
        if let Some(latest) = history.latest().filter(|latest| !latest.is_proven()) {
            let named = leaving.named_in(&latest.manifest.read()).into_iter();
            let is_left = |id: &ObjectId| !self.is_inside(id) && !leaving.proven.contains_key(&id.key());
            left.extend(named.filter(is_left).take(MAX_NAMED));
        }
        if left.is_empty() {
            return;
        }
        let mut names: Vec<String> = left.iter().map(ToString::to_string).collect();
        names.sort();
        names.dedup();
        let message = format!(
            "These objects outside the namespace are left in place, because no proven record says that the release {} created them: {}",
            self.release,
            names.join(", ")
        );
        self.warn("ObjectsLeft", &message).await;
    }

    /// Whether an account may do no more because its namespace is being deleted: its rights may go before the objects do. What is in
    /// the namespace goes with it, and nobody can give the rights back.
    async fn may_leave_behind(&self, error: &ReconcileError) -> Result<bool, ReconcileError> {
        let is_refused = self.calls.has_account() && error.category() == Category::Forbidden;
        Ok(is_refused && self.is_namespace_going().await?)
    }

    /// Removes objects one by one, as far as the account still may, and tells what stays.
    async fn remove_what_may_be(&self, leaving: &Leaving<'_>, objects: &[Applied]) -> Result<Pruned, ReconcileError> {
        let (mut pruned, mut stays) = (Pruned::default(), vec![]);
        for applied in objects {
            match leaving.remove(vec![applied.clone()]).await {
                Ok(removed) => {
                    pruned.deleted.extend(removed.deleted);
                    pruned.unproven.extend(removed.unproven);
                }
                Err(error) if error.category() != Category::Forbidden => return Err(error.into()),
                Err(_) if applied.id.namespace.as_ref() == Some(&self.namespace) => {}
                Err(_) => stays.push(applied.id.to_string()),
            }
        }
        if !stays.is_empty() {
            let message = format!(
                "The namespace is being deleted, and its ServiceAccount may not remove these objects of the release {} any more, so they stay: {}",
                self.release,
                stays.join(", ")
            );
            tracing::warn!(namespace = self.namespace, name = self.owner.name, "{message}");
            self.context.events.about_namespace(&self.namespace, "ObjectsLeft", &message).await;
        }
        Ok(pruned)
    }

    /// A record that cannot be read must not keep a custom resource from going: its objects carry our marks.
    async fn readable_history(&self) -> Result<History, ReconcileError> {
        match self.history().await {
            Err(error) if error.category() == Category::RecordUnusable => {
                self.warn("RecordUnusable", &error.to_string()).await;
                Ok(History::default())
            }
            history => history,
        }
    }

    /// Whose the release of this name is, if it is not this custom resource's.
    async fn somebody_else(&self, history: &History) -> Result<Option<String>, ReconcileError> {
        let owner = self.owner_mark();
        if history.is_empty() || history.belongs_to(&owner) == Some(true) || self.noted().await?.is_some() {
            return Ok(None);
        }
        let claims = history.iter().rev().find_map(|release| release.claims_to_belong_to(&owner));
        let signed = history.iter().rev().find_map(|release| release.own.as_ref());
        let claimed = history.iter().rev().find_map(|release| release.claimed.as_deref());
        Ok(match (signed.or(claimed), claims) {
            (Some(own), _) if !own.owner.is_same_resource(&owner) => {
                Some(format!("belongs to {}", own.owner.resource_name()))
            }
            // What it says of itself is enough to remove what carries this custom resource's own marks.
            (_, Some(true)) => None,
            (_, Some(false)) => Some("belongs to another custom resource".to_owned()),
            (_, None) => Some("was made by another tool".to_owned()),
        })
    }

    async fn report_leaving(&self, category: Category, message: String) -> Result<(), ReconcileError> {
        let report = Report {
            generation: self.cr.metadata.generation.unwrap_or_default(),
            deployed: None,
            failure: Some(Failure { category, message, stage: Stage::Uninstall }),
            present: None,
            contested: vec![],
            unknown_fields: None,
            requested: None,
            repairs: None,
        };
        self.write_status(&report).await
    }

    async fn let_go(&self) -> Result<(), ReconcileError> {
        let rest: Vec<_> = self
            .cr
            .finalizers()
            .iter()
            .filter(|finalizer| *finalizer != FINALIZER && *finalizer != OLDER_FINALIZER)
            .collect();
        // Whoever changed the finalizers in between wins; we come again.
        let patch = json!({"metadata": {"finalizers": rest, "resourceVersion": self.cr.metadata.resource_version}});
        let params = PatchParams { field_manager: Some(CR_MANAGER.into()), ..Default::default() };
        let (api, patch) = (self.api(), Patch::Merge(patch));
        // Before it is sent: the news that the custom resource is gone clears this, and may come first.
        let (memory, uid) = (&self.context.memory, &self.owner.uid);
        memory.forget(uid);
        memory.with(uid, |it| (it.is_without_release, it.is_let_go) = (true, true));
        match self.calls.within(api.patch(&self.owner.name, &params, &patch)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                memory.forget(uid);
                Ok(())
            }
            Err(error) => {
                memory.with(uid, |it| it.is_let_go = false);
                Err(ReconcileError::Write(error))
            }
            Ok(_) => Ok(()),
        }
    }
}

/// A condition's message is a sentence.
fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Whether helm wrote a record last: it takes our marks off the objects, also where the record has our part by now.
fn is_helms(latest: &Release) -> bool {
    let is_held_for_helm = |own: &Own| own.hold.as_ref().is_some_and(|hold| hold.by == HeldBy::Helm);
    latest.is_proven()
        && latest.own.as_ref().is_none_or(|own| latest.status == Status::Uninstalling && is_held_for_helm(own))
}
