//! The generated values of a release: reading and writing the Secret that holds them.
//!
//! The Secret is written before the first render that uses what is in it: a crash in between loses nothing. It is created where it is absent, and
//! an existing one gets only what it lacks or what is rotated, by a write that is refused if somebody else wrote it meanwhile. What the watch of
//! Secrets knows is enough at rest.

use std::collections::BTreeSet;
use std::time::SystemTime;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::Value;

use super::subject::CR_MANAGER;
use super::takeover::is_of_chart;
use super::{ReconcileError, Subject};
use crate::generate::pattern::Release;
use crate::generate::plan::{Fate, Plan};
use crate::generate::secret::{Holder, Seen, name_for};
use crate::generate::{self, GenerateError, Generator, Texts, make, placed, seed};
use crate::object::Object;
use crate::sources;
use crate::values::Placed;

/// How often a write is tried while others write the same Secret.
const TRIES: usize = 5;

impl Subject<'_> {
    fn generators(&self) -> &[Generator] {
        &self.context.watch.generate
    }

    /// The keys of the Secret that are wanted.
    pub(super) fn generated_keys(&self) -> BTreeSet<String> {
        generate::keys(self.generators())
    }

    /// The generated values, by what was seen of the Secret. Those that are missing are generated first.
    pub(super) async fn generated(&self, seen: &Seen) -> Result<Vec<Placed>, ReconcileError> {
        if self.generators().is_empty() {
            return Ok(vec![]);
        }
        let (holder, asked) = (self.holder(), &self.wishes.rotation);
        let held = holder.held(seen, asked).map_err(told)?;
        let plan = Plan::of(self.generators(), &held, asked, None);
        if plan.keeps_all(&held) && holder.is_tied(&seen.marks) {
            return Ok(placed(self.generators(), &held.texts));
        }
        let texts = Box::pin(self.write_generated()).await?;
        Ok(placed(self.generators(), &texts))
    }

    /// Brings the Secret to what is wanted. What the watch knows may be old, so it is read again.
    async fn write_generated(&self) -> Result<Texts, ReconcileError> {
        let (holder, asked, keys) = (self.holder(), &self.wishes.rotation, self.generated_keys());
        let calls = self.calls.own();
        for _ in 0..TRIES {
            let read = sources::read_generated(&calls, &self.namespace, &holder.name(), &keys).await;
            let (seen, live) = read.map_err(|error| told(error.into()))?;
            let held = holder.held(&seen, asked).map_err(told)?;
            let mut plan = Plan::of(self.generators(), &held, asked, None);
            let record = match plan.lacks() {
                true => self.recorded_values().await?,
                false => None,
            };
            if let Some((_, values)) = &record {
                plan = Plan::of(self.generators(), &held, asked, Some(values));
            }
            if live.is_some() && plan.keeps_all(&held) && holder.is_tied(&seen.marks) {
                return Ok(held.texts);
            }
            let release = Release { name: &self.release, namespace: &self.namespace };
            let new = make::carry_out(&plan, &held.texts, release, SystemTime::now()).map_err(told)?;
            if self.put_generated(&holder, live, &plan, &new).await? {
                self.tell_generated(&holder, &plan, record.map(|(revision, _)| revision)).await?;
                let mut texts = held.texts;
                texts.extend(new);
                return Ok(texts);
            }
        }
        Err(told(GenerateError::Contended { secret: holder.shown() }))
    }

    /// Creates the Secret, or changes the one that was read. False where somebody else was faster.
    async fn put_generated(
        &self,
        holder: &Holder<'_>,
        live: Option<Secret>,
        plan: &Plan<'_>,
        new: &Texts,
    ) -> Result<bool, ReconcileError> {
        let api: Api<Secret> = Api::namespaced(self.calls.client(), &self.namespace);
        let failed = |verb, error| told(GenerateError::Write { verb, secret: holder.shown(), error });
        let (verb, written) = match live {
            None => {
                let secret =
                    serde_json::from_value(holder.created(plan, new)).map_err(|_| ReconcileError::Unsettled)?;
                let params = PostParams { field_manager: Some(CR_MANAGER.into()), ..Default::default() };
                ("create", self.calls.within(api.create(&params, &secret)).await)
            }
            Some(live) => {
                let patch = holder.changed(&live.metadata, plan, new);
                ("patch", self.patch_generated(&api, &patch).await)
            }
        };
        match written {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(failed(verb, error)),
        }
    }

    async fn patch_generated(&self, api: &Api<Secret>, patch: &Value) -> Result<Secret, kube::Error> {
        let params = PatchParams { field_manager: Some(CR_MANAGER.into()), ..Default::default() };
        self.calls.within(api.patch(&name_for(&self.release), &params, &Patch::Merge(patch))).await
    }

    /// The values of a revision that was made before, with its number.
    async fn recorded_values(&self) -> Result<Option<(u32, Value)>, ReconcileError> {
        if self.revisions()?.is_some_and(|known| known.is_empty()) {
            return Ok(None);
        }
        let (chart, adopts) = (self.context.chart.current(), self.context.watch.adopt.allows_releases());
        Ok(seed::values(&self.history().await?, |release| adopts && is_of_chart(release, &chart)))
    }

    async fn tell_generated(
        &self,
        holder: &Holder<'_>,
        plan: &Plan<'_>,
        revision: Option<u32>,
    ) -> Result<(), ReconcileError> {
        let secret = holder.shown();
        let restored = plan.names(|fate| matches!(fate, Fate::Restore(_)));
        if let (false, Some(revision)) = (restored.is_empty(), revision) {
            let message = format!(
                "The Secret {secret} lacked {}; restored from the record of revision {revision}",
                restored.join(", ")
            );
            self.warn("ValuesRestored", &message).await;
        }
        let rotated = plan.names(|fate| *fate == Fate::Rotate);
        if !rotated.is_empty() {
            let message = format!("Rotated {} in the Secret {secret}", rotated.join(", "));
            self.tell("ValuesRotated", &message).await;
        }
        let new = plan.names(|fate| *fate == Fate::Generate);
        if new.is_empty() {
            return Ok(());
        }
        match self.stood().await? {
            false => tracing::info!(secret, "generated {}", new.join(", ")),
            true => {
                let message = format!(
                    "Generated {} in the Secret {secret}. The release existed before, and no record of it has these values: workloads that still use earlier ones must be changed",
                    new.join(", ")
                );
                self.warn("ValuesGenerated", &message).await;
            }
        }
        Ok(())
    }

    /// Whether there was a revision of the release at any time.
    async fn stood(&self) -> Result<bool, ReconcileError> {
        let is_recorded = self.revisions()?.is_some_and(|known| !known.is_empty());
        Ok(is_recorded || self.told_revision().is_some() || self.noted().await?.is_some())
    }

    /// Refuses objects that would be written over the generated values.
    pub(super) fn check_generated<'o>(&self, objects: impl Iterator<Item = &'o Object>) -> Result<(), ReconcileError> {
        match self.generators().is_empty() {
            true => Ok(()),
            false => self.holder().check(objects).map_err(told),
        }
    }

    /// Deletes the Secret with the release, unless it was there before or somebody wants to keep it.
    pub(super) async fn remove_generated(&self) -> Result<(), ReconcileError> {
        let Some(live) = self.live_generated().await? else { return Ok(()) };
        if !self.holder().goes_with_it(&live.metadata) {
            return Ok(());
        }
        let preconditions = Preconditions { uid: live.metadata.uid.clone(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..Default::default() };
        let api: Api<Secret> = Api::namespaced(self.calls.client(), &self.namespace);
        match self.calls.within(api.delete(&name_for(&self.release), &params)).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            Err(error) => Err(told(GenerateError::Write { verb: "delete", secret: self.holder().shown(), error })),
            Ok(_) => Ok(()),
        }
    }

    /// Leaves the Secret behind with the objects of the release.
    pub(super) async fn free_generated(&self) -> Result<(), ReconcileError> {
        let Some(live) = self.live_generated().await? else { return Ok(()) };
        if !self.holder().goes_with_it(&live.metadata) {
            return Ok(());
        }
        let api: Api<Secret> = Api::namespaced(self.calls.client(), &self.namespace);
        let freed = self.patch_generated(&api, &self.holder().freed(&live.metadata)).await;
        let failed = |error| told(GenerateError::Write { verb: "patch", secret: self.holder().shown(), error });
        freed.map(|_| ()).map_err(failed)
    }

    /// The Secret as it is. None where nothing is generated: an owner reference has the garbage collector remove what an earlier watch generated.
    async fn live_generated(&self) -> Result<Option<Secret>, ReconcileError> {
        if self.generators().is_empty() {
            return Ok(None);
        }
        let (calls, name, keys) = (self.calls.own(), name_for(&self.release), BTreeSet::new());
        let read = sources::read_generated(&calls, &self.namespace, &name, &keys).await;
        Ok(read.map_err(|error| told(error.into()))?.1)
    }
}

fn told(error: GenerateError) -> ReconcileError {
    ReconcileError::Wanted(error.into())
}
