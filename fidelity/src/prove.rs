//! The story of one proof: the same release on both sides, compared after each phase.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::case::Case;
use crate::chart::{Input, Inputs, title};
use crate::chartwright::Chartwright;
use crate::compare::{Comparison, Scene, kept_otherwise, last_manifest};
use crate::helm::{Helm, is_hooks, lacks_dependencies};
use crate::plane::{Pair, Plane};
use crate::random::Random;
use crate::report::{Compared, PhaseReport, Report};
use crate::snapshot::{Ground, capabilities, settle};
use crate::{HelmVersion, Options, Outcome, Phase};

/// Names that both sides share.
const RELEASE: &str = "proof";

/// Proves a case with one version of helm. Whatever goes wrong is in the report.
pub async fn prove(case: &Case, version: HelmVersion, pair: &Pair, options: &Options) -> Report {
    let started = Instant::now();
    let mut report = Report {
        case: case.name.clone(),
        helm: version,
        chart: title(&case.chart),
        notes: vec![],
        phases: vec![],
        seconds: 0.0,
        error: None,
    };
    let namespace = pair.next_namespace();
    if let Err(error) = run(case, version, pair, options, &namespace, &mut report).await {
        report.error = Some(format!("{error:#}"));
    }
    report.seconds = started.elapsed().as_secs_f64();
    report
}

async fn run(
    case: &Case,
    version: HelmVersion,
    pair: &Pair,
    options: &Options,
    namespace: &str,
    report: &mut Report,
) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (helm_ground, our_ground) =
        tokio::try_join!(prepare(&pair.helm, case, namespace, options), prepare(&pair.ours, case, namespace, options))?;
    let helm = Helm {
        version,
        kubeconfig: pair.helm.kubeconfig(),
        namespace,
        release: RELEASE,
        home: subdirectory(&dir, "home")?,
    };
    let inputs = Inputs::make(case, &case.chart, &subdirectory(&dir, "helm")?, &helm).await?;
    let our_chart = case.our_chart.as_ref().unwrap_or(&case.chart);
    let our_inputs = Inputs::make(case, our_chart, &subdirectory(&dir, "ours")?, &helm).await?;
    let ours = Chartwright::new(&pair.ours, &options.operator, version, [namespace, RELEASE], &case.watch)?;
    let mut proof = Proof {
        options,
        pair,
        helm,
        ours,
        grounds: [&helm_ground, &our_ground],
        random: Random::default(),
        manifest: json!({}),
        report,
    };
    let result = proof.phases(&inputs, &our_inputs).await;
    drop(proof);
    let cleaned = tokio::try_join!(pair.helm.clean(&helm_ground, namespace), pair.ours.clean(&our_ground, namespace));
    result?;
    cleaned.context("the ground cannot be cleaned").map(|_| ())
}

fn subdirectory(dir: &TempDir, name: &str) -> Result<std::path::PathBuf> {
    let path = dir.path().join(name);
    std::fs::create_dir(&path)?;
    Ok(path)
}

/// The release's namespace and what the case wants there, and a look at the ground before anything else.
async fn prepare(plane: &Plane, case: &Case, namespace: &str, options: &Options) -> Result<Ground> {
    plane.create_namespace(namespace).await?;
    if let Some(setup) = &case.setup {
        plane.apply_file(setup, namespace).await?;
        settle(&plane.client, &Ground::look(&plane.client, &options.allowed).await?).await?;
    }
    Ground::look(&plane.client, &options.allowed).await
}

struct Proof<'a> {
    options: &'a Options,
    pair: &'a Pair,
    helm: Helm<'a>,
    ours: Chartwright<'a>,
    grounds: [&'a Ground; 2],
    random: Random,
    /// The chart's objects as helm rendered them last.
    manifest: Value,
    report: &'a mut Report,
}

impl Proof<'_> {
    async fn phases(&mut self, inputs: &Inputs, ours: &Inputs) -> Result<()> {
        // The first renders, long before the second ones, so that also seconds tell them apart.
        let first = self.renders(inputs).await?;
        self.begin(Phase::Install);
        let started = Instant::now();
        let outcomes = tokio::try_join!(self.helm.install(&inputs.install), self.ours.install(&ours.install))?;
        let is_installed = outcomes == (Outcome::Done, Outcome::Done);
        self.learn(first, self.renders(inputs).await?);
        let installed = self.compare(Phase::Install, started, outcomes).await?;
        if is_installed {
            self.begin(Phase::Upgrade);
            let started = Instant::now();
            let outcomes = tokio::try_join!(self.helm.upgrade(&inputs.upgrade), self.ours.upgrade(&ours.upgrade))?;
            let upgraded = self.compare(Phase::Upgrade, started, outcomes).await?;
            if let (Some(installed), Some(upgraded)) = (&installed, &upgraded) {
                let [install, upgrade] = [installed, upgraded].map(|[helm, ours]| [&helm.objects, &ours.objects]);
                let kept = kept_otherwise(&self.random, install, upgrade);
                if let Some(phase) = self.report.phases.last_mut() {
                    phase.compared.differences.extend(kept);
                }
            }
        }
        self.begin(Phase::Uninstall);
        let started = Instant::now();
        let (helm, ours) = tokio::try_join!(self.helm.uninstall(), self.ours.uninstall())?;
        // What was never installed cannot be removed.
        let helm = match helm {
            Outcome::Refused(reason) if !is_installed && reason.contains("not found") => Outcome::Done,
            other => other,
        };
        self.compare(Phase::Uninstall, started, (helm, ours)).await?;
        Ok(())
    }

    fn begin(&self, phase: Phase) {
        let (case, helm) = (&self.report.case, self.report.helm.name());
        self.options.say(&format!("{case}, helm {helm}: {}", phase.name()));
    }

    /// What the chart renders for the install and for the upgrade. Nothing where helm refuses: the install will tell why.
    async fn renders(&self, inputs: &Inputs) -> Result<[Option<String>; 2]> {
        let client = &self.pair.helm.client;
        let version = client.apiserver_version().await.context("the API server tells no version")?.git_version;
        let apis = capabilities(client).await?;
        let render =
            async |input: &Input, upgrade: bool| match self.helm.template(input, upgrade, &version, &apis).await {
                Ok(text) => Ok(Some(text)),
                Err(error) if lacks_dependencies(&error.to_string()) => {
                    let chart = &self.report.chart;
                    bail!("{chart} lacks charts that it depends on; run `helm dependency build` on it first: {error}")
                }
                Err(_) => Ok(None),
            };
        Ok(tokio::try_join!(render(&inputs.install, false), render(&inputs.upgrade, true))?.into())
    }

    fn learn(&mut self, first: [Option<String>; 2], second: [Option<String>; 2]) {
        for (first, second) in first.into_iter().zip(second) {
            if let (Some(first), Some(second)) = (first, second) {
                self.random.learn(&first, &second);
            }
        }
    }

    /// Waits until both sides have settled and compares them. Gives what was seen, where it was compared.
    async fn compare(
        &mut self,
        phase: Phase,
        started: Instant,
        (helm, ours): (Outcome, Outcome),
    ) -> Result<Option<[Scene; 2]>> {
        let reason = |outcome: &Outcome| match outcome {
            Outcome::Done => None,
            Outcome::Refused(reason) => Some(reason.clone()),
        };
        let (helm_refuses, chartwright_refuses) = (reason(&helm), reason(&ours));
        // A side that refuses may have begun; only where hooks failed is it defined how far it got.
        let is_comparable = match (&helm_refuses, &chartwright_refuses) {
            (None, None) => true,
            (Some(helm), Some(_)) => is_hooks(helm),
            _ => false,
        };
        let mut compared = Compared::default();
        let mut seen = None;
        if is_comparable {
            let [helm, ours] = self.scenes(phase).await?;
            if let Some(manifest) = last_manifest(&helm.objects) {
                self.manifest = manifest.clone();
            }
            compared = Comparison {
                phase,
                version: self.report.helm,
                allowed: &self.options.allowed,
                random: &self.random,
                manifest: &self.manifest,
            }
            .of(&helm, &ours);
            seen = Some([helm, ours]);
        }
        let seconds = started.elapsed().as_secs_f64();
        self.report.phases.push(PhaseReport { phase, helm_refuses, chartwright_refuses, compared, seconds });
        Ok(seen)
    }

    async fn scenes(&mut self, phase: Phase) -> Result<[Scene; 2]> {
        let [helm_ground, our_ground] = self.grounds;
        let (helm, ours) =
            tokio::try_join!(settle(&self.pair.helm.client, helm_ground), settle(&self.pair.ours.client, our_ground))?;
        for (side, settled) in [("helm", &helm), ("Chartwright", &ours)] {
            if let Some(restless) = &settled.restless {
                let note = format!("{}: {restless} did not come to rest with {side}", phase.name());
                self.report.notes.push(note);
            }
        }
        if let Some(dir) = &self.options.dump {
            for (side, raw) in [("helm", &helm.raw), ("chartwright", &ours.raw)] {
                let name = format!("{}-{}-{}-{side}.json", self.report.case, self.report.helm.name(), phase.name());
                std::fs::write(dir.join(name), serde_json::to_string_pretty(raw)?)?;
            }
        }
        Ok([helm_ground.scene(&helm.raw, &self.random)?, our_ground.scene(&ours.raw, &self.random)?])
    }
}
