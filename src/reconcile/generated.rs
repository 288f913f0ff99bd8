//! Rendering over a release of which there is no record to believe, without new passwords.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use serde_json::Value;

use super::subject::Wish;
use super::{ReconcileError, Subject};
use crate::manifest::generated::{self, Generated, Second};
use crate::manifest::{Hook, Rendered};
use crate::object::{Object, ObjectId, ObjectKey};
use crate::ownership::{Claim, judge};
use crate::plan::is_kept;
use crate::reach;
use crate::release::{History, Own, Release, Status};

/// What an object of a render has in the cluster.
enum LivePart {
    /// It does not exist, or it is not the release's.
    Absent,
    Found(Value),
    /// It exists outside of the release's namespace, and nothing proves that the release made it.
    Outside,
}

impl Subject<'_> {
    /// Makes a first revision over objects that carry the release's marks already: the custom resource was restored or made again, and its
    /// records are gone.
    pub(super) async fn install_over(&self, wish: &Wish, history: &History) -> Result<Release, ReconcileError> {
        let upgrade_to = self.upgrade_to(history);
        let rendered = self.render(wish, upgrade_to).await?;
        // Where helm uninstalled the release and kept its records, only objects are left that Helm keeps.
        if !history.iter().any(Release::is_proven) {
            let message = "Objects of this release exist, and the operator has no proven record of it. It keeps the values in them that the chart generates";
            self.warn("RecordRebuilt", message).await;
        }
        if self.stands(&rendered.objects).await? {
            return self.upgrade_over(wish, history, None).await;
        }
        let all = rendered.objects.iter().map(|object| object.id().key()).collect();
        let rendered = self.keep_generated(wish, rendered, upgrade_to, &all).await?;
        let draft = self.draft(wish, &rendered, history);
        self.roll_out(draft, rendered, history).await
    }

    /// Makes a new revision over what exists of a release without a record to believe. `left` names its objects.
    ///
    /// It is an upgrade for the chart and its hooks: those of an install would run over existing data.
    pub(super) async fn upgrade_over(
        &self,
        wish: &Wish,
        history: &History,
        left: Option<Release>,
    ) -> Result<Release, ReconcileError> {
        let with = |left: &Option<Release>| left.iter().cloned().fold(history.clone(), History::with);
        let upgrade_to = Some(self.next_revision(&with(&left)));
        let rendered = self.render(wish, upgrade_to).await?;
        let rendered = self.keep_generated(wish, rendered, upgrade_to, &HashSet::new()).await?;
        let left = match left {
            Some(left) => Some(self.without_unproven(left, &rendered, history).await?),
            None => None,
        };
        let history = with(&left);
        let draft = self.draft(wish, &rendered, &history);
        let own = draft.own.map(|own| Own { is_rebuilt: true, ..own });
        let description = "Preparing upgrade".to_owned();
        let draft = Release { status: Status::PendingUpgrade, description, own, ..draft };
        self.roll_out(draft, rendered, &history).await
    }

    /// What is left of a release, without objects that the render lacks and that only their marks name: everybody in the namespace can
    /// write marks, so these objects are not pruned.
    async fn without_unproven(
        &self,
        mut left: Release,
        rendered: &Rendered,
        history: &History,
    ) -> Result<Release, ReconcileError> {
        let kinds = self.context.kinds.kinds();
        let mut known = self.proven(history).await?;
        known.extend(rendered.objects.iter().map(|object| (self.placed(object, &kinds), None)));
        let recorded = history.iter().filter_map(|release| release.own.as_ref()).flat_map(|own| &own.objects);
        known.extend(recorded.map(|applied| (applied.id.key(), None)));
        let objects =
            left.own.iter_mut().flat_map(|own| own.objects.extract_if(.., |it| !known.contains_key(&it.id.key())));
        let stay: Vec<String> = objects.map(|applied| applied.id.to_string()).collect();
        if !stay.is_empty() {
            let message = format!(
                "The chart does not render these objects, and no record proves that the release made them, so they stay: {}. Delete them if they are not needed",
                stay.join(", ")
            );
            self.warn("NotPruned", &message).await;
        }
        Ok(left)
    }

    /// Whether an object of the release exists that an uninstall would have removed.
    async fn stands(&self, objects: &[Object]) -> Result<bool, ReconcileError> {
        let noted = self.noted_outside().await?;
        for object in objects {
            if let LivePart::Found(live) = self.live_part(object, &noted).await?
                && !is_kept(|key| live["metadata"]["annotations"][key].as_str())
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A render with the generated values of the objects that exist: in the release's namespace, and with the release's marks. `new` are
    /// objects that the release did not have before, whose values may be generated now.
    pub(super) async fn keep_generated(
        &self,
        wish: &Wish,
        mut rendered: Rendered,
        upgrade_to: Option<u32>,
        new: &HashSet<ObjectKey>,
    ) -> Result<Rendered, ReconcileError> {
        self.keeps_generated.store(true, Ordering::Relaxed);
        // helm runs twice, and what follows may be refused.
        self.note_revision_made();
        let second = self.render(wish, upgrade_to).await?;
        let noted = self.noted_outside().await?;
        let generated = Second::of(&second.objects).differences(&rendered.objects);
        self.keep_in_hooks(&mut rendered.hooks, &second.hooks, &noted).await?;
        if generated.is_empty() {
            return Ok(rendered);
        }
        // What follows shows whether an object exists.
        let wanted: Vec<_> = rendered.objects.iter().map(Object::gvk).collect();
        let kinds = self.context.kinds.kinds_with(&wanted).await?;
        self.check_outside(reach::of_objects(&rendered.objects, &self.home(), &kinds)).await?;
        for Generated { at, key, fields, unkept } in &generated {
            let object = &mut rendered.objects[*at];
            let is_new = new.contains(key);
            let missing = match self.live_part(object, &noted).await? {
                LivePart::Found(live) => generated::keep(object, &live, fields),
                LivePart::Absent if is_new => vec![],
                LivePart::Absent | LivePart::Outside => fields.clone(),
            };
            let unkept = unkept.as_ref().filter(|_| !is_new).map(|field| match field.as_str() {
                "" => format!(
                    "the chart generates the name of {}, which tells of no object which one it was",
                    object.id()
                ),
                field => {
                    format!("the chart generates {field} of {}, which cannot be taken from an object", object.id())
                }
            });
            let missing = missing.first().map(|field| {
                format!("the chart generates {field} of {}, and no object of this release has it", object.id())
            });
            if let Some(why) = unkept.or(missing).filter(|_| !self.wishes.render_anew) {
                return Err(ReconcileError::RecordLost { release: self.release.clone(), why });
            }
        }
        rendered.manifest = printed(&rendered.objects)?;
        Ok(rendered)
    }

    /// The same for what hooks made. A hook that made nothing, or whose objects went when it ended, makes them as in any upgrade.
    async fn keep_in_hooks(
        &self,
        hooks: &mut [Hook],
        second: &[Hook],
        noted: &HashSet<ObjectKey>,
    ) -> Result<(), ReconcileError> {
        let second = Second::of(second.iter().flat_map(Hook::objects));
        for hook in hooks {
            let mut objects: Vec<Object> = hook.objects().cloned().collect();
            for Generated { at, fields, .. } in second.differences(&objects) {
                if let LivePart::Found(live) = self.live_part(&objects[at], noted).await? {
                    generated::keep(&mut objects[at], &live, &fields);
                }
            }
            if !hook.objects().eq(&objects) {
                hook.text = printed(&objects)?.trim_start_matches("---\n").trim_end().to_owned();
                let mut objects = objects.into_iter();
                hook.object = objects.next().unwrap_or_else(|| hook.object.clone());
                hook.others = objects.collect();
            }
        }
        Ok(())
    }

    /// The objects outside of the release's namespace that the ledger names.
    async fn noted_outside(&self) -> Result<HashSet<ObjectKey>, ReconcileError> {
        let outside = self.context.trust.ledger.outside(&self.owner_mark()).await?;
        Ok(outside.iter().map(ObjectId::key).collect())
    }

    /// An object as it is, if it carries the release's marks. Outside of the release's namespace it has to be among those that are noted, too.
    async fn live_part(&self, object: &Object, noted: &HashSet<ObjectKey>) -> Result<LivePart, ReconcileError> {
        let mut id = object.id();
        let kinds = self.context.kinds.kinds_with(&[object.gvk()]).await?;
        let Some(kind) = kinds.get(&object.gvk()) else { return Ok(LivePart::Absent) };
        if kind.namespaced {
            id.namespace.get_or_insert_with(|| self.namespace.clone());
        }
        let Some(live) = self.calls.get(kind, &id).await.map_err(ReconcileError::Look)? else {
            return Ok(LivePart::Absent);
        };
        if !self.is_inside(&id) && !noted.contains(&id.key()) {
            return Ok(LivePart::Outside);
        }
        // An object with Helm's marks alone is judged again before anything is applied.
        let claim = judge(&live.metadata, &self.release, &self.namespace, &self.owner);
        let is_of_release = matches!(claim, Claim::Ours | Claim::Helm);
        let live = is_of_release.then(|| serde_json::to_value(live).ok()).flatten();
        Ok(live.map_or(LivePart::Absent, LivePart::Found))
    }
}

/// A manifest of these objects.
fn printed(objects: &[Object]) -> Result<String, ReconcileError> {
    let mut manifest = String::new();
    for object in objects {
        let text = serde_yaml::to_string(object.value()).map_err(|_| ReconcileError::Unsettled)?;
        manifest.push_str(&format!("---\n{text}"));
    }
    Ok(manifest)
}
