//! The phases that are about one custom resource at a time: edits and repairs.

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::api::DeleteParams;
use serde_json::json;

use crate::board::{Kind, Place, version};
use crate::fleet::Fleet;
use crate::floor::Baseline;
use crate::phases::Scene;
use crate::report::{Edit, Heal};
use crate::stats::Latency;

/// What takes longer counts as never.
const ONE: Duration = Duration::from_secs(30);
/// A series ends early when so many in a row never happened: what is not repaired at all is known by then.
const IN_VAIN: usize = 3;
/// And when it took so long altogether.
const SERIES: Duration = Duration::from_secs(300);

impl Scene<'_> {
    /// Edits alone, then edits while others are installed.
    ///
    /// # Errors
    /// The API server refuses, or what was installed meanwhile does not go.
    pub async fn edit(&self, baseline: Baseline) -> Result<Edit> {
        self.options.say("edits");
        let alone = self.edits("alone").await?;
        if self.options.load == 0 {
            return Ok(Edit { alone, baseline, ..Edit::default() });
        }
        self.options.say("edits while others are installed");
        let enough = Cell::new(false);
        let edits = async {
            let is_busy = |board: &crate::board::Board| board.count(Kind::Web) >= self.options.n + self.options.load;
            self.watches.until(ONE, "the load", is_busy).await?;
            let latency = self.edits("under-load").await;
            enough.set(true);
            latency
        };
        let (under_load, load) = tokio::try_join!(edits, self.keep_installing(&enough))?;
        self.fleet.delete((0..load).map(|number| self.fleet.load(number))).await?;
        let n = self.options.n;
        let patience = self.options.patience() + Duration::from_secs(2) * u32::try_from(load)?;
        self.watches.until(patience, "the load to be gone", |board| board.has(n)).await?;
        Ok(Edit { alone, under_load, load, baseline })
    }

    /// Has as many custom resources installed at any time as the load asks for, and says how many it made.
    async fn keep_installing(&self, enough: &Cell<bool>) -> Result<usize> {
        let mut made = 0;
        while !enough.get() {
            let installed = self.watches.now().deployed.saturating_sub(self.options.n);
            let wanted = installed + self.options.load;
            self.fleet.create((made..wanted).map(|number| self.fleet.load(number))).await?;
            made = made.max(wanted);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(made)
    }

    async fn edits(&self, name: &str) -> Result<Latency> {
        self.series(self.options.edits, async |time| {
            let place = self.app(time);
            let tag = format!("{name}-{time}");
            let began = Instant::now();
            self.fleet.merge(Kind::Web, &place, &json!({"spec": {"image": {"tag": tag}}})).await?;
            let image = format!("nginx:{tag}");
            let object = Fleet::object(&place);
            let there = self.watches.until(ONE, "the edit", |board| {
                board.get(Kind::Deployment, &object).is_some_and(|seen| seen.field == image)
            });
            Ok(there.await.is_ok().then(|| began.elapsed()))
        })
        .await
    }

    /// # Errors
    /// The API server refuses.
    pub async fn heal(&self) -> Result<Heal> {
        let heals = self.options.heals;
        self.options.say("deleted Services");
        let deleted_service = self.series(heals, async |time| self.delete_service(time).await).await?;
        self.options.say("changed Services");
        let port = json!({"spec": {"ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 9999}]}});
        let edited_service = self.series(heals, async |time| self.change(Kind::Service, time, &port).await).await?;
        self.options.say("changed Deployments");
        let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "other:1"}]}}}});
        let edited_deployment =
            self.series(heals, async |time| self.change(Kind::Deployment, time, &image).await).await?;
        Ok(Heal { deleted_service, edited_service, edited_deployment })
    }

    async fn delete_service(&self, time: usize) -> Result<Option<Duration>> {
        let place = Fleet::object(&self.app(time));
        let uid = self.field(Kind::Service, &place, |seen| seen.uid.clone())?;
        let began = Instant::now();
        self.fleet.api(Kind::Service, &place.0).delete(&place.1, &DeleteParams::default()).await?;
        let back = self
            .watches
            .until(ONE, "the Service", |board| board.get(Kind::Service, &place).is_some_and(|seen| seen.uid != uid));
        Ok(back.await.is_ok().then(|| began.elapsed()))
    }

    /// Changes a field of ours and waits until it is as it was. What nobody repairs is put right by hand.
    async fn change(&self, kind: Kind, time: usize, patch: &serde_json::Value) -> Result<Option<Duration>> {
        let place = Fleet::object(&self.app(time));
        let was = self.field(kind, &place, |seen| seen.field.clone())?;
        let before = self.fleet.api(kind, &place.0).get(&place.1).await?;
        let began = Instant::now();
        let changed = version(&self.fleet.merge(kind, &place, patch).await?.metadata);
        let back = self.watches.until(ONE, "the repair", |board| {
            board.get(kind, &place).is_some_and(|seen| seen.version > changed && seen.field == was)
        });
        if back.await.is_ok() {
            return Ok(Some(began.elapsed()));
        }
        self.fleet.merge(kind, &place, &json!({"spec": before.data["spec"]})).await?;
        Ok(None)
    }

    fn field(&self, kind: Kind, place: &Place, read: impl Fn(&crate::board::Seen) -> String) -> Result<String> {
        let board = self.watches.now();
        board.get(kind, place).map(read).with_context(|| format!("there is no {kind:?} {}/{}", place.0, place.1))
    }

    /// Each time another, as long as there are enough.
    fn app(&self, time: usize) -> Place {
        self.fleet.app(time % self.options.n)
    }

    /// One after the other.
    async fn series(
        &self,
        times: usize,
        mut once: impl AsyncFnMut(usize) -> Result<Option<Duration>>,
    ) -> Result<Latency> {
        let began = Instant::now();
        let mut samples: Vec<Option<Duration>> = vec![];
        for time in 0..times {
            samples.push(once(time).await?);
            let in_vain = samples.iter().rev().take_while(|sample| sample.is_none()).count();
            if in_vain >= IN_VAIN || began.elapsed() > SERIES {
                break;
            }
        }
        Ok(Latency::of(&samples))
    }
}
