//! Rendering over a release of which there is no record to believe, without new passwords.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use kube::api::DynamicObject;
use serde_json::Value;

use super::subject::Wish;
use super::{ReconcileError, Subject};
use crate::manifest::generated::{self, Generated};
use crate::manifest::{Hook, Rendered};
use crate::object::{Object, ObjectKey};
use crate::ownership::{Claim, judge};
use crate::plan::is_kept;
use crate::release::{History, Own, Release, Status};

impl Subject<'_> {
    /// Makes a first revision over objects that carry the release's marks already: the custom resource was restored or made again, and its
    /// records are gone.
    pub(super) async fn install_over(&self, wish: &Wish, history: &History) -> Result<Release, ReconcileError> {
        let upgrade_to = self.upgrade_to(history);
        let rendered = self.render(wish, upgrade_to).await?;
        let message = "Objects of this release exist, and the operator has no record of it. It keeps the values in them that the chart generates";
        self.warn("RecordRebuilt", message).await;
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
        for object in objects {
            let live = self.live_part(object).await?;
            let annotations = live.as_ref().map(|live| &live["metadata"]["annotations"]);
            if annotations.is_some_and(|all| !is_kept(|key| all[key].as_str())) {
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
        let second = self.render(wish, upgrade_to).await?;
        let generated = generated::differences(&rendered.objects, &second.objects);
        self.keep_in_hooks(&mut rendered.hooks, second.hooks).await?;
        if generated.is_empty() {
            return Ok(rendered);
        }
        for Generated { key, fields, unkept } in &generated {
            let Some(object) = rendered.objects.iter_mut().find(|object| object.id().key() == *key) else { continue };
            let is_new = new.contains(key);
            let missing = match self.live_part(object).await? {
                Some(live) => generated::keep(object, &live, fields),
                None if is_new => vec![],
                None => fields.clone(),
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
    async fn keep_in_hooks(&self, hooks: &mut [Hook], second: Vec<Hook>) -> Result<(), ReconcileError> {
        let second: Vec<Object> = second.into_iter().flat_map(Hook::into_objects).collect();
        for hook in hooks {
            let mut objects: Vec<Object> = hook.objects().cloned().collect();
            for Generated { key, fields, .. } in generated::differences(&objects, &second) {
                let Some(object) = objects.iter_mut().find(|object| object.id().key() == key) else { continue };
                if let Some(live) = self.live_part(object).await? {
                    generated::keep(object, &live, &fields);
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

    /// An object of the release's namespace as it is, if it carries the release's marks.
    async fn live_part(&self, object: &Object) -> Result<Option<Value>, ReconcileError> {
        let mut id = object.id();
        let kinds = self.context.kinds.kinds_with(&[object.gvk()]).await?;
        let Some(kind) = kinds.get(&object.gvk()).filter(|kind| kind.namespaced) else { return Ok(None) };
        let namespace = id.namespace.get_or_insert_with(|| self.namespace.clone());
        if *namespace != self.namespace {
            return Ok(None);
        }
        let live = self.calls.get(kind, &id).await.map_err(ReconcileError::Look)?;
        // An object with Helm's marks alone is judged again before anything is applied.
        let is_of_release = |live: &DynamicObject| {
            matches!(judge(&live.metadata, &self.release, &self.namespace, &self.owner), Claim::Ours | Claim::Helm)
        };
        let live = live.filter(is_of_release);
        Ok(live.and_then(|live| serde_json::to_value(live).ok()))
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
