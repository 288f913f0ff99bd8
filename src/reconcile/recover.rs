//! The record of what is deployed went: somebody uninstalled the release, or lost the record.
//!
//! If none of its objects is left, it was uninstalled, and is installed again, since the custom resource still wants it. If they
//! are there, the chart is rendered over them, and values that it generates are kept. Where that cannot be done, nothing is.

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::core::{GroupVersionKind, ObjectMeta};
use serde_json::Value;

use super::subject::Wish;
use super::{ReconcileError, Subject};
use crate::children::ends_by_itself;
use crate::discovery::Kinds;
use crate::error::Category;
use crate::identity::moved;
use crate::object::ObjectId;
use crate::ownership::{Claim, judge};
use crate::plan::is_kept;
use crate::release::{Applied, History, Own, Proof, Release, Status, Stored, Text};
use crate::uninstall::Leaving;

/// What became of a release whose record went.
pub(super) enum Recovered {
    /// These objects are there, as a revision that did not finish.
    Left(Box<Release>),
    /// Nothing is left of it.
    Gone,
}

impl Subject<'_> {
    /// Finds out what is left of a release. Marks on objects are no evidence of who made them, since everybody in the namespace can write
    /// them: the objects found here tell what may be removed, and never what to apply.
    pub(super) async fn recover(&self, wish: &Wish, history: &History) -> Result<Recovered, ReconcileError> {
        let kinds = self.context.kinds.kinds();
        let found = self.leaving(&kinds, false).find(&self.contents()).await?;
        let live = self.whole(&found, &kinds).await?;
        self.check_not_moved(&kinds).await?;
        let noted = self.noted().await?;
        let outside = self.context.trust.ledger.outside(&self.owner_mark()).await?;
        let outside: Vec<Applied> = outside.into_iter().map(|id| Applied::new(id, None)).collect();
        let mut left_outside = self.whole(&outside, &kinds).await?;
        left_outside.retain(|(_, live)| {
            matches!(judge(&live.metadata, &self.release, &self.namespace, &self.owner), Claim::Ours | Claim::Helm)
        });
        let mut all = live.iter().chain(&left_outside);
        if let Some(going) = all.find(|(_, live)| live.metadata.deletion_timestamp.is_some()) {
            return Err(ReconcileError::StillGoing { id: Box::new(going.0.id.clone()) });
        }
        let kept = |live: &DynamicObject| is_kept(|key| live.annotations().get(key).map(String::as_str));
        if live.iter().chain(&left_outside).all(|(_, live)| kept(live)) {
            // Without a noted revision this is a first install that a crash cut short.
            if noted.is_some() || self.told_revision().is_some() {
                self.tell_uninstalled().await;
            }
            return Ok(Recovered::Gone);
        }
        let revision = noted.as_ref().map(|entry| entry.revision).max(history.latest().map(|latest| latest.revision));
        let objects: Vec<Applied> = live.into_iter().map(|(applied, _)| applied).chain(outside).collect();
        let message = format!(
            "The operator has no record of the release {} that it can vouch for. It renders the chart again over the {} objects that exist, and keeps the values in them that the chart generates",
            self.release,
            objects.len()
        );
        self.warn("RecordRebuilt", &message).await;
        let own = Own { objects, ..self.own(String::new()) };
        let left = self.record_of_what_is_left(revision.unwrap_or(1), own, wish, history);
        Ok(Recovered::Left(Box::new(left)))
    }

    /// The status of earlier versions does not say where the release of a cluster-scoped resource lives; its objects do. They only lead to a
    /// refusal. What the ledger notes says where the release lives.
    async fn check_not_moved(&self, kinds: &Kinds) -> Result<(), ReconcileError> {
        if self.owner.namespace.is_some() || self.noted().await?.is_some() {
            return Ok(());
        }
        match self.leaving(kinds, false).find_home(&self.contents()).await? {
            Some(home) => {
                let message = moved(&self.release, &home, &self.namespace);
                Err(ReconcileError::Refused { category: Category::InvalidNamespace, message })
            }
            None => Ok(()),
        }
    }

    /// Those that are still there, with all that they hold.
    async fn whole(&self, found: &[Applied], kinds: &Kinds) -> Result<Vec<(Applied, DynamicObject)>, ReconcileError> {
        let mut whole = vec![];
        for applied in found {
            let Some(kind) = kinds.any_version(&applied.id.group, &applied.id.kind) else { continue };
            if let Some(live) = self.calls.get(&kind, &applied.id).await.map_err(ReconcileError::Look)? {
                whole.push((applied.clone(), live));
            }
        }
        Ok(whole)
    }

    fn record_of_what_is_left(&self, revision: u32, own: Own, wish: &Wish, history: &History) -> Release {
        let now = Timestamp::now();
        Release {
            name: self.release.clone(),
            namespace: self.namespace.clone(),
            revision,
            status: Status::Failed,
            chart: wish.chart.metadata.clone(),
            defaults: wish.chart.defaults().into(),
            config: wish.values.json().into(),
            manifest: Text::default(),
            hooks: vec![],
            notes: Text::default(),
            description: "Its record was deleted".to_owned(),
            first_deployed: history.iter().next().map_or(now, |first| first.first_deployed),
            last_deployed: now,
            own: Some(own),
            claimed: None,
            proof: Proof::default(),
            stored: Stored::default(),
        }
    }

    /// The objects of the release as the status tells them, without those that end by themselves.
    fn told_objects(&self) -> impl Iterator<Item = ObjectId> {
        let objects = self.status().and_then(|status| status["objects"].as_array()).into_iter().flatten();
        let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        objects
            .map(move |entry| ObjectId {
                group: text(entry, "group"),
                version: String::new(),
                kind: text(entry, "kind"),
                namespace: entry["namespace"].as_str().map(str::to_owned),
                name: text(entry, "name"),
            })
            .filter(|id| !ends_by_itself(id))
    }

    pub(super) async fn tell_uninstalled(&self) {
        let mut message =
            "The release was uninstalled, but the custom resource still wants it: it is installed again. \
                           To remove it for good, delete the custom resource"
                .to_owned();
        let claims = self.claims_left().await;
        if !claims.is_empty() {
            message
                .push_str(&format!(". These volume claims were left behind and are used again: {}", claims.join(", ")));
        }
        self.warn("Uninstalled", &message).await;
    }

    /// Claims in the release's namespace that StatefulSets of the release made, or that carry the release's marks.
    async fn claims_left(&self) -> Vec<String> {
        // No label finds claims that StatefulSets made. It is only told: an install need not fail for it, nor read all claims of a namespace.
        const MOST: u32 = 500;
        let kinds = self.context.kinds.kinds();
        let claim = GroupVersionKind::gvk("", "v1", "PersistentVolumeClaim");
        let Some(kind) = kinds.get(&claim) else { return vec![] };
        let Ok(claims) = self.calls.some(kind, Some(&self.namespace), MOST).await else { return vec![] };
        let sets: Vec<String> =
            self.told_objects().filter(|id| id.kind == "StatefulSet").map(|id| format!("-{}-", id.name)).collect();
        let is_of_set = |name: &str| {
            let ordinal = |set: &String| name.rsplit_once(set.as_str()).map(|(_, ordinal)| ordinal);
            sets.iter().filter_map(ordinal).any(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let is_marked = |claim: &ObjectMeta| {
            claim.annotations.as_ref().and_then(|all| all.get(crate::plan::RELEASE_NAME)) == Some(&self.release)
        };
        let named = claims.into_iter().filter_map(|claim| {
            let is_marked = is_marked(&claim);
            claim.name.filter(|name| is_marked || is_of_set(name))
        });
        let mut left: Vec<String> = named.collect();
        left.sort();
        left
    }

    pub(super) fn leaving<'b>(&'b self, kinds: &'b Kinds, helm_took_over: bool) -> Leaving<'b> {
        Leaving {
            proven: Default::default(),
            release: &self.release,
            namespace: &self.namespace,
            owner: &self.owner,
            kinds,
            calls: &self.calls,
            helm_took_over,
            shipped: &[],
            delete_adopted: self.wishes.delete_adopted,
        }
    }
}
