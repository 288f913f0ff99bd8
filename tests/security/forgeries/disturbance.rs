//! What happens beside the forgeries: edits, deletions, forged statuses, and records that change while the operator reads them.

use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Stage, disposable, names};
use crate::harness::until_within;

impl Stage {
    /// Returns what was done, in words.
    pub async fn disturb(&mut self, round: usize) -> &'static str {
        let name = self.random.pick(&names()).clone();
        match self.random.below(7) {
            0 => {
                self.edit(&name, &format!("edit-{round}")).await;
                "spec edited"
            }
            1 => {
                let _ = self.project.configs().delete(&name, &DeleteParams::default()).await;
                "object deleted"
            }
            2 | 3 => {
                self.forge_status(&name).await;
                "status forged"
            }
            4 => {
                self.delete_or_create().await;
                "custom resource deleted or created"
            }
            5 => {
                self.alternate(&name, round).await;
                "record changed back and forth during an upgrade"
            }
            _ => "nothing else",
        }
    }

    /// A custom resource that is being deleted takes no edit.
    pub async fn edit(&self, name: &str, colour: &str) {
        let patch = Patch::Merge(json!({"spec": {"colour": colour}}));
        let _ = self.project.crs().patch(name, &PatchParams::default(), &patch).await;
    }

    /// Whoever may write a status claims another release, namespace, revision or digest.
    async fn forge_status(&mut self, name: &str) {
        let status = self.status(name).await;
        let other = names()[self.random.below(names().len())].clone();
        let theirs = self.status(&other).await["deployedRelease"]["digest"].clone();
        let objects: Vec<Value> = self.targets.precious.iter().map(|(id, uid)| json!({"id": id, "uid": uid})).collect();
        let forged = match self.random.below(7) {
            0 => json!({"deployedRelease": {"name": other}}),
            1 => json!({"deployedRelease": {"namespace": self.targets.neighbour}}),
            2 => {
                json!({"deployedRelease": {"revision": *self.random.pick(&[0_u64, 1, 999_999_999, u64::from(u32::MAX)])}})
            }
            3 => json!({"deployedRelease": {"digest": theirs}}),
            4 => json!({"deployedRelease": {"hold": {"to": 1, "by": "Helm", "digest": theirs}}}),
            5 => {
                json!({"deployedRelease": {"objects": objects, "manifest": "kind: ClusterRoleBinding"}, "objects": objects})
            }
            _ => status.as_object().into_iter().flatten().map(|(key, _)| (key.clone(), Value::Null)).collect(),
        };
        let patch = Patch::Merge(json!({"status": forged}));
        // The custom resource may be missing, and a typed status may refuse what is forged.
        let _ = self.project.crs().patch_status(name, &PatchParams::default(), &patch).await;
    }

    /// Null where there is no such custom resource or it has none.
    async fn status(&self, name: &str) -> Value {
        let found = self.project.crs().get_opt(name).await.expect("the API server answers");
        found.map(|cr| cr.data["status"].clone()).unwrap_or_default()
    }

    /// Only this release is ever removed, so that a deletion outside of the namespace can be judged.
    async fn delete_or_create(&self) {
        let (crs, name) = (self.project.crs(), disposable());
        match crs.get_opt(&name).await.expect("the API server answers") {
            None => drop(self.project.apply(&name, json!({"colour": "again"})).await),
            Some(_) => drop(crs.delete(&name, &DeleteParams::default()).await),
        }
    }

    /// An upgrade, while each of its reads may see another version of the newest record.
    async fn alternate(&mut self, name: &str, round: usize) {
        let Some(newest) = self.records(name).await.into_iter().max_by_key(ResourceExt::creation_timestamp) else {
            return;
        };
        let foreign = self.random.pick(&self.known).clone();
        self.edit(name, &format!("alternating-{round}")).await;
        let secrets = self.secrets();
        for turn in 0..8 {
            let source = if turn % 2 == 0 { &foreign } else { &newest };
            let mut written = newest.clone();
            written.metadata.resource_version = None;
            written.metadata.uid = None;
            written.metadata.labels = source.metadata.labels.clone();
            written.data = source.data.clone();
            if secrets.replace(&newest.name_any(), &PostParams::default(), &written).await.is_err() {
                let _ = secrets.create(&PostParams::default(), &written).await;
            }
        }
    }

    /// The release that is deleted now and then exists.
    pub async fn restore(&self) {
        let (crs, name) = (self.project.crs(), disposable());
        let is_leaving = crs
            .get_opt(&name)
            .await
            .expect("the API server answers")
            .is_some_and(|cr| cr.metadata.deletion_timestamp.is_some());
        if is_leaving {
            // As a person does: what cannot be read as the release's record goes.
            self.delete_records(&name).await;
            until_within(super::PATIENCE, "the deleted custom resource is gone", async || {
                crs.get_opt(&name).await.ok()?.is_none().then_some(())
            })
            .await;
        }
        self.project.apply(&name, json!({"colour": "again"})).await;
    }
}
