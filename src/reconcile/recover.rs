//! The record of what is deployed went: somebody uninstalled the release, or lost the record.
//!
//! If none of its objects is left, it was uninstalled, and is installed again, since the custom resource still wants it. If they
//! are there, a record is made anew from them, without a render: random values stay. Where that cannot be done, nothing is.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams, PartialObjectMeta};
use serde_json::Value;

use super::subject::Wish;
use super::{ReconcileError, Subject};
use crate::children::ends_by_itself;
use crate::discovery::Kinds;
use crate::drift::{extract, fields};
use crate::manifest::order::install_rank;
use crate::object::{Object, ObjectId};
use crate::plan::{is_kept, unmarked};
use crate::release::{Applied, History, Hold, Own, Release, Status, Stored};
use crate::uninstall::Leaving;

/// What became of a release whose record went.
pub(super) enum Recovered {
    /// It is recorded again.
    Rebuilt(Box<Release>),
    /// Nothing is left of it, or it may be made anew over what is left: then these are the objects, as a revision that did not
    /// finish.
    Gone(Option<Box<Release>>),
}

impl Subject<'_> {
    pub(super) async fn recover(&self, wish: &Wish, history: &History) -> Result<Recovered, ReconcileError> {
        let contents = self.contents();
        let kinds = self.context.kinds.kinds();
        let found = self.leaving(&kinds, false).find(&contents).await?;
        let live = self.whole(&found, &kinds).await?;
        if let Some(going) = live.iter().find(|(_, live)| live.metadata.deletion_timestamp.is_some()) {
            return Err(ReconcileError::StillGoing { id: Box::new(going.0.id.clone()) });
        }
        let kept = |live: &DynamicObject| is_kept(|key| live.annotations().get(key).map(String::as_str));
        if live.iter().all(|(_, live)| kept(live)) {
            // Without a told revision this is a first install that a crash cut short.
            if self.told_revision().is_some() {
                self.tell_uninstalled().await;
            }
            return Ok(Recovered::Gone(None));
        }
        let mut left = live;
        left.sort_by(|(a, _), (b, _)| install_rank(&a.id.kind).cmp(&install_rank(&b.id.kind)));
        match self.rebuilt(&left, wish, history) {
            Ok(release) => {
                let release = self.store.create(&release).await?;
                let message = format!(
                    "The record of revision {} went, so it was made anew from the {} objects that are there; hooks of its chart are not known until the next revision",
                    release.revision,
                    left.len()
                );
                self.warn("RecordRebuilt", &message).await;
                Ok(Recovered::Rebuilt(Box::new(release)))
            }
            Err(_) if self.wishes.render_anew => {
                let objects = left.into_iter().map(|(applied, _)| applied).collect();
                let own = Own { objects, ..self.own(String::new()) };
                let left = self.record_of_what_is_there(String::new(), own, wish, history);
                Ok(Recovered::Gone(Some(Box::new(left.with_status(Status::Failed, "Its record went")))))
            }
            Err(why) => Err(ReconcileError::RecordLost { release: self.release.clone(), why }),
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

    /// A record of what is there, as far as all of it is there.
    fn rebuilt(&self, left: &[(Applied, DynamicObject)], wish: &Wish, history: &History) -> Result<Release, String> {
        let digest = self.status().and_then(|status| status.pointer("/deployedRelease/digest")?.as_str());
        let digest = digest.ok_or("the status does not tell what they were made from")?;
        if let Some(missing) =
            self.told_objects().find(|told| !left.iter().any(|(applied, _)| is_meant(told, &applied.id)))
        {
            return Err(format!("{missing} is gone too"));
        }
        let (mut manifest, mut objects) = (String::new(), vec![]);
        for (applied, live) in left {
            let object = applied_once(&applied.id, live)?;
            let text = serde_yaml::to_string(object.value()).map_err(|error| format!("{}: {error}", applied.id))?;
            manifest.push_str(&format!("---\n{text}"));
            let mark = self.context.children.mark(&applied.id.key(), &live.metadata);
            let wants_replicas = object.value().pointer("/spec/replicas").is_some();
            objects.push(Applied { mark, wants_replicas, ..applied.clone() });
        }
        let own = Own { objects, hold: self.told_hold(), ..self.own(digest.to_owned()) };
        Ok(self.record_of_what_is_there(manifest, own, wish, history))
    }

    fn record_of_what_is_there(&self, manifest: String, own: Own, wish: &Wish, history: &History) -> Release {
        let now = Timestamp::now();
        let own = Own { sourced: wish.values.sourced().to_vec(), ..own };
        Release {
            name: self.release.clone(),
            namespace: self.namespace.clone(),
            revision: self.told_revision().unwrap_or(1).max(history.next_revision()),
            status: Status::Deployed,
            chart: wish.chart.metadata.clone(),
            defaults: wish.chart.defaults(),
            config: wish.values.json().clone(),
            manifest,
            hooks: vec![],
            notes: String::new(),
            description: "Recorded anew from the objects that were there".to_owned(),
            first_deployed: history.iter().next().map_or(now, |first| first.first_deployed),
            last_deployed: now,
            own: Some(own),
            stored: Stored::default(),
        }
    }

    /// The hold that the status tells of.
    fn told_hold(&self) -> Option<Hold> {
        let told = self.status()?.pointer("/deployedRelease/hold")?;
        serde_json::from_value(told.clone()).ok()
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
        let api: Api<PartialObjectMeta<PersistentVolumeClaim>> = Api::namespaced(self.calls.hands(), &self.namespace);
        // It is only told; an install need not fail for it.
        let Ok(list) = self.calls.within(api.list(&ListParams::default())).await else { return vec![] };
        let sets: Vec<String> =
            self.told_objects().filter(|id| id.kind == "StatefulSet").map(|id| format!("-{}-", id.name)).collect();
        let is_of_set = |name: &str| {
            let ordinal = |set: &String| name.rsplit_once(set.as_str()).map(|(_, ordinal)| ordinal);
            sets.iter().filter_map(ordinal).any(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let is_marked = |claim: &PartialObjectMeta<PersistentVolumeClaim>| {
            claim.annotations().get(crate::plan::RELEASE_NAME) == Some(&self.release)
        };
        let mut left: Vec<String> = list
            .items
            .iter()
            .filter(|claim| is_marked(claim) || is_of_set(&claim.name_any()))
            .map(ResourceExt::name_any)
            .collect();
        left.sort();
        left
    }

    pub(super) fn leaving<'b>(&'b self, kinds: &'b Kinds, helm_took_over: bool) -> Leaving<'b> {
        Leaving {
            release: &self.release,
            namespace: &self.namespace,
            owner: &self.owner,
            kinds,
            calls: &self.calls,
            helm_took_over,
            shipped: &[],
        }
    }
}

fn is_meant(told: &ObjectId, id: &ObjectId) -> bool {
    (&told.group, &told.kind, &told.namespace, &told.name) == (&id.group, &id.kind, &id.namespace, &id.name)
}

/// What we applied of an object, as the chart had it.
fn applied_once(id: &ObjectId, live: &DynamicObject) -> Result<Object, String> {
    let entry = fields::ours(&live.metadata).and_then(|entry| entry.fields_v1.as_ref());
    let entry = entry.ok_or_else(|| format!("{id} does not tell which of its fields are ours"))?;
    let value = serde_json::to_value(live).map_err(|error| format!("{id}: {error}"))?;
    Object::new(unmarked(extract(&value, &entry.0))).map_err(|error| format!("{id}: {error}"))
}
