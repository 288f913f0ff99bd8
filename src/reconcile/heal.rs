//! The repair of a deployed release: what somebody deleted or changed is applied again, and nothing else.

use std::collections::HashSet;
use std::time::Instant;

use super::rollout::fill_in;
use super::{ReconcileError, Subject};
use crate::apply;
use crate::children::ends_by_itself;
use crate::manifest;
use crate::object::ObjectKey;
use crate::plan::plan;
use crate::preflight::preflight;
use crate::release::{Applied, Own};

impl Subject<'_> {
    /// Applies again what somebody deleted or changed, and nothing else. Returns our part of the record after that. The
    /// record itself is read only where something is to be applied.
    pub(super) async fn heal(&self, revision: u32, own: &Own) -> Result<Own, ReconcileError> {
        let drifted = match self.context.watch.watch_dependents {
            true => self.drifted(&own.objects).await?,
            false => self.drifted_by_asking(&own.objects).await?,
        };
        let now = Instant::now();
        let wait = self.context.memory.with(&self.owner.uid, |memory| memory.heals.wait(now));
        if drifted.is_empty() || wait.is_some() {
            return Ok(own.clone());
        }
        let release = self.still_deployed(revision).await?;
        self.context.memory.with(&self.owner.uid, |memory| memory.heals.note(now));
        let rendered = manifest::read(&release.manifest)?;
        let wanted: Vec<_> = rendered.objects.iter().map(|object| object.gvk()).collect();
        let kinds = match drifted.iter().any(|key| key.kind == "CustomResourceDefinition") {
            // Its resources cannot be asked about until it is there again.
            true => self.context.kinds.refresh().await?,
            false => self.context.kinds.kinds_with(&wanted).await?,
        };
        let chart = release.chart["name"].as_str().unwrap_or_default().to_owned();
        let target = self.target(&chart);
        let mut plan = plan(rendered, &own.objects, &target, &kinds)?;
        plan.prune.clear();
        plan.apply.retain(|planned| drifted.contains(&planned.object.id().key()));
        let _claimed = self.context.claims.claim(drifted.into_iter().collect()).await;
        let known = self.recognised(&own.objects);
        let preflight = preflight(&plan, &target, &known, self.allowed(), &self.calls).await?;
        let mut progress = apply::apply(&plan, &preflight, &self.calls).await;
        self.learn(&progress);
        let mut healed = release.clone();
        if let Some(own) = &mut healed.own {
            fill_in(&mut own.objects, &progress.applied);
        }
        if healed != release {
            healed = self.store.update(&healed).await?;
        }
        match progress.stopped_by.take() {
            Some(error) => Err(error.into()),
            None => {
                let names: Vec<_> = progress.applied.iter().map(|applied| applied.id.to_string()).collect();
                let kind = &self.owner.gvk.kind;
                tracing::info!(
                    kind,
                    namespace = self.namespace,
                    name = self.release,
                    objects = names.join(", "),
                    "healed"
                );
                self.tell("Healed", &format!("Applied again what was changed or deleted: {}", names.join(", "))).await;
                Ok(healed.own.unwrap_or_else(|| own.clone()))
            }
        }
    }

    /// What the watches have seen to differ from the record.
    async fn drifted(&self, objects: &[Applied]) -> Result<HashSet<ObjectKey>, ReconcileError> {
        let ids = objects.iter().map(|applied| &applied.id);
        let kinds = self.context.kinds.kinds_of(ids.clone()).await?;
        let found: Vec<_> = ids.filter_map(|id| kinds.any_version(&id.group, &id.kind)).collect();
        self.context.children.watch(found.iter());
        let drifted = objects.iter().filter(|applied| self.context.children.has_drifted(applied));
        Ok(drifted.map(|applied| applied.id.key()).collect())
    }

    /// The same without watches: each object is asked for.
    async fn drifted_by_asking(&self, objects: &[Applied]) -> Result<HashSet<ObjectKey>, ReconcileError> {
        let kinds = self.context.kinds.kinds_of(objects.iter().map(|applied| &applied.id)).await?;
        let mut drifted = HashSet::new();
        for applied in objects {
            let Some(kind) = kinds.any_version(&applied.id.group, &applied.id.kind) else { continue };
            let live = self.calls.metadata(&kind, &applied.id).await.map_err(ReconcileError::Look)?;
            let is_as_applied = match live {
                None => ends_by_itself(&applied.id),
                Some(live) => live.uid == applied.uid && live.generation == applied.generation,
            };
            if !is_as_applied {
                drifted.insert(applied.id.key());
            }
        }
        Ok(drifted)
    }
}
