//! The phases that are about all custom resources at once, and what each costs.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use k8s_openapi::jiff::Timestamp;
use lab::ControlPlane;
use serde_json::json;

use crate::audit::Audit;
use crate::board::{Kind, Watches};
use crate::fleet::Fleet;
use crate::operator::{Launch, Operator};
use crate::report::{Cost, Delete, Install, Memory, Restart};
use crate::stats::{round, seconds};
use crate::tree::HelmRuns;
use crate::{Options, process};

/// The operator is at rest when it wrote nothing for so long.
const QUIET: Duration = Duration::from_secs(5);
/// An operator that never rests is measured nevertheless.
const SETTLING: Duration = Duration::from_secs(120);
/// How soon an edit right after a start must be there.
const SERVED: Duration = Duration::from_secs(120);

/// What every phase works with.
pub struct Scene<'a> {
    pub options: &'a Options,
    pub fleet: &'a Fleet,
    pub watches: &'a Watches,
}

/// Reads what a phase cost.
pub struct Meter {
    audit: Audit,
    api_server: u32,
}

/// The readings at the begin of a phase.
pub struct Reading {
    at: Timestamp,
    clock: Instant,
    operator_cpu: f64,
    api_server_cpu: f64,
    helm: HelmRuns,
}

impl Meter {
    /// # Errors
    /// There is no API server, or no audit log.
    pub fn new(control_plane: &ControlPlane, user: &str) -> Result<Self> {
        let log = control_plane.audit_log();
        let argument = format!("--audit-log-path={}", log.display());
        let api_server = process::find("kube-apiserver", &argument).context("no kube-apiserver is running")?;
        Ok(Meter { audit: Audit::open(&log, user)?, api_server })
    }

    fn begin(&self, operator: &Operator) -> Result<Reading> {
        Ok(Reading {
            at: Timestamp::now(),
            clock: Instant::now(),
            operator_cpu: process::cpu_seconds(operator.pid())?,
            api_server_cpu: process::cpu_seconds(self.api_server)?,
            helm: operator.tree.helm(),
        })
    }

    fn end(&mut self, operator: &Operator, begin: &Reading) -> Result<Cost> {
        let (now, elapsed) = (Timestamp::now(), begin.clock.elapsed());
        let operator_cpu = process::cpu_seconds(operator.pid())? - begin.operator_cpu;
        let api_server_cpu = process::cpu_seconds(self.api_server)? - begin.api_server_cpu;
        let helm = operator.tree.helm() - begin.helm;
        self.audit.read()?;
        Ok(Cost {
            seconds: seconds(elapsed),
            operator_cpu_seconds: round(operator_cpu),
            api_server_cpu_seconds: round(api_server_cpu),
            helm,
            api: self.audit.tally(begin.at, now),
        })
    }
}

/// # Errors
/// The operator is gone.
pub fn memory(operator: &Operator) -> Result<Memory> {
    let read = |field| process::memory_kib(operator.pid(), field).context("the operator is gone");
    Ok(Memory { rss_kib: read("VmRSS")?, anonymous_kib: read("RssAnon")? })
}

impl Scene<'_> {
    /// Starts the operator and waits until it follows the custom resources: its start is no part of the install.
    ///
    /// # Errors
    /// It does not get that far.
    pub async fn start(&self, launch: &Launch<'_>, meter: &mut Meter) -> Result<Operator> {
        let since = Timestamp::now();
        let operator = launch.start()?;
        let deadline = operator.started + SERVED;
        while !meter.audit.watches("webs", since) {
            if Instant::now() > deadline {
                bail!("the operator does not follow the custom resources:\n{}", operator.log_tail());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            meter.audit.read()?;
        }
        Ok(operator)
    }

    /// # Errors
    /// Not all were installed in time.
    pub async fn install(&self, operator: &Operator, meter: &mut Meter) -> Result<Install> {
        let n = self.options.n;
        self.options.say("install");
        let begin = meter.begin(operator)?;
        let creating = async {
            self.fleet.create((0..n).map(|number| self.fleet.app(number))).await?;
            anyhow::Ok(begin.clock.elapsed())
        };
        let deployed = async {
            let all = self.watches.until(self.options.patience(), "the install", |it| it.deployed == n);
            all.await?;
            anyhow::Ok(begin.clock.elapsed())
        };
        let (created, deployed) = tokio::try_join!(creating, deployed)?;
        self.watches.until(self.options.patience(), "all to be ready", |board| board.ready == n).await?;
        let ready = begin.clock.elapsed();
        let settled = self.settle(meter).await?;
        let last = settled.map(|at| at.duration_since(begin.at).unsigned_abs()).unwrap_or_default();
        let cost = meter.end(operator, &begin)?;
        // Deployed means that all objects exist; that is looked at, but not while the time runs.
        self.watches.follow_objects().await?;
        self.watches.until(SERVED, "all objects to be there", |board| board.has(n)).await?;
        Ok(Install {
            deployed_seconds: seconds(deployed),
            ready_seconds: seconds(ready),
            creating_seconds: seconds(created),
            settled_seconds: seconds(last),
            peak_operator_kib: process::memory_kib(operator.pid(), "VmHWM").unwrap_or_default(),
            peak_with_children_kib: operator.tree.peak_kib(),
            cost,
        })
    }

    /// Waits until the operator wrote nothing for a while, and says when its last write was.
    ///
    /// # Errors
    /// The audit log cannot be read.
    pub async fn settle(&self, meter: &mut Meter) -> Result<Option<Timestamp>> {
        self.options.say("waiting until the operator is at rest");
        let began = Instant::now();
        loop {
            meter.audit.read()?;
            let last = meter.audit.last_write();
            let quiet = last.map(|at| Timestamp::now().duration_since(at).unsigned_abs());
            if began.elapsed() > SETTLING || quiet.is_none_or(|quiet| quiet >= QUIET) {
                return Ok(last);
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// # Errors
    /// The operator is gone.
    pub async fn rest(&self, operator: &Operator, meter: &mut Meter) -> Result<Cost> {
        self.options.say("rest");
        let begin = meter.begin(operator)?;
        tokio::time::sleep(self.options.rest).await;
        meter.end(operator, &begin)
    }

    /// Ends the operator and starts it twice: once to count, once to see how soon an edit is served.
    ///
    /// # Errors
    /// It does not end or start, or the edit is never served.
    pub async fn restart(
        &self,
        operator: Operator,
        launch: &Launch<'_>,
        meter: &mut Meter,
    ) -> Result<(Restart, Operator)> {
        self.options.say("restart");
        let end = operator.end()?;
        let operator = launch.start()?;
        let begin = Reading { operator_cpu: 0.0, helm: HelmRuns::default(), ..meter.begin(&operator)? };
        tokio::time::sleep(self.options.restart).await;
        let cost = meter.end(&operator, &begin)?;
        operator.end()?;
        let operator = launch.start()?;
        let place = self.fleet.app(self.options.n / 2);
        self.fleet.merge(Kind::Web, &place, &json!({"spec": {"image": {"tag": "after-restart"}}})).await?;
        let object = Fleet::object(&place);
        let served = self.watches.until(SERVED, "the edit after a restart", |board| {
            board.get(Kind::Deployment, &object).is_some_and(|seen| seen.field.ends_with(":after-restart"))
        });
        let served = served.await.map(|()| seconds(operator.started.elapsed())).ok();
        if served.is_none() && process::cpu_seconds(operator.pid()).is_err() {
            bail!("the operator ended after a restart:\n{}", operator.log_tail());
        }
        self.settle(meter).await?;
        Ok((Restart { end_seconds: seconds(end), cost, edit_served_seconds: served }, operator))
    }

    /// # Errors
    /// Something is never gone.
    pub async fn delete(&self, operator: &Operator, meter: &mut Meter) -> Result<Delete> {
        self.options.say("delete");
        let begin = meter.begin(operator)?;
        self.fleet.delete((0..self.options.n).map(|number| self.fleet.app(number))).await?;
        self.watches.until(self.options.patience(), "everything to be gone", |board| board.has(0)).await?;
        let gone = begin.clock.elapsed();
        Ok(Delete { seconds: seconds(gone), cost: meter.end(operator, &begin)? })
    }
}
