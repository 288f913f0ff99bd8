//! Rendering over a release of which there is no record to believe, without new passwords.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use kube::api::DynamicObject;

use super::subject::Wish;
use super::{ReconcileError, Subject};
use crate::manifest::Rendered;
use crate::manifest::generated::{self, Generated};
use crate::object::{Object, ObjectKey};
use crate::ownership::{Claim, judge};
use crate::release::{History, Release};

impl Subject<'_> {
    /// Makes a first revision over objects that carry the release's marks already: the custom resource was restored or made again, and its
    /// records are gone.
    pub(super) async fn install_over(&self, wish: &Wish, history: &History) -> Result<Release, ReconcileError> {
        let upgrade_to = self.upgrade_to(history);
        let rendered = self.render(wish, upgrade_to).await?;
        let all = rendered.objects.iter().map(|object| object.id().key()).collect();
        let rendered = self.keep_generated(wish, rendered, upgrade_to, &all).await?;
        let message = "Objects of this release exist, and the operator has no record of it. It keeps the values in them that the chart generates";
        self.warn("RecordRebuilt", message).await;
        let draft = self.draft(wish, &rendered, history);
        self.roll_out(draft, rendered, history).await
    }

    /// Makes a new revision over what is left of a release. `left` names its objects.
    pub(super) async fn rebuild(
        &self,
        wish: &Wish,
        history: &History,
        left: Release,
    ) -> Result<Release, ReconcileError> {
        let upgrade_to = self.upgrade_to(history);
        let rendered = self.render(wish, upgrade_to).await?;
        let rendered = self.keep_generated(wish, rendered, upgrade_to, &HashSet::new()).await?;
        let history = history.clone().with(left);
        let draft = self.draft(wish, &rendered, &history);
        self.roll_out(draft, rendered, &history).await
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
        let generated = generated::fields(&rendered.objects, &second.objects);
        if generated.is_empty() {
            return Ok(rendered);
        }
        for Generated { key, fields } in &generated {
            let Some(object) = rendered.objects.iter_mut().find(|object| object.id().key() == *key) else { continue };
            let missing = match self.live_part(object).await? {
                Some(live) => generated::keep(object, &live, fields),
                None if new.contains(key) => vec![],
                None => fields.clone(),
            };
            if let Some(field) = missing.first().filter(|_| !self.wishes.render_anew) {
                let why =
                    format!("the chart generates {field} of {}, and no object of this release has it", object.id());
                return Err(ReconcileError::RecordLost { release: self.release.clone(), why });
            }
        }
        rendered.manifest = printed(&rendered.objects)?;
        Ok(rendered)
    }

    /// An object of the release's namespace as it is, if it carries the release's marks.
    async fn live_part(&self, object: &Object) -> Result<Option<serde_json::Value>, ReconcileError> {
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
