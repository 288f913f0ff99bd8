//! The story of one proof: the same release on both sides, compared after each phase.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::case::{Case, Refusal};
use crate::chart::{Input, Inputs, title};
use crate::chartwright::Chartwright;
use crate::compare::{Comparison, Scene, kept_otherwise};
use crate::helm::{Helm, has_not_begun, is_hooks, lacks_dependencies};
use crate::plane::{Pair, Plane};
use crate::random::Random;
use crate::rendered::Rendered;
use crate::report::{Compared, PhaseReport, Report};
use crate::runs::{self, Runs};
use crate::snapshot::{Ground, capabilities, settle};
use crate::{HelmVersion, Options, Outcome, Phase};

/// Names that both sides share.
const RELEASE: &str = "proof";
/// Long enough for another second on a clock.
const A_TICK: Duration = Duration::from_millis(1100);

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
        rendered: Rendered::default(),
        refusal: case.refusal,
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
    rendered: Rendered,
    refusal: Refusal,
    report: &'a mut Report,
}

/// A phase that both sides have begun.
struct UnderWay {
    phase: Phase,
    started: Instant,
    /// helm's, and ours.
    runs: [Runs; 2],
}

impl Proof<'_> {
    async fn phases(&mut self, inputs: &Inputs, ours: &Inputs) -> Result<()> {
        // The first renders, a while before the second ones, so that also seconds tell them apart.
        let before = self.cluster().await?;
        let first = self.renders(inputs, &before).await?;
        let mut rendered_at = Instant::now();
        let begun = self.begin(Phase::Install).await?;
        let outcomes = tokio::try_join!(self.helm.install(&inputs.install), self.ours.install(&ours.install))?;
        let is_installed = outcomes == (Outcome::Done, Outcome::Done);
        let after = self.cluster().await?;
        let first = match before == after {
            true => first,
            // The install brought kinds, and the chart may ask for them. What that changes is not random.
            false => {
                let first = self.renders(inputs, &after).await?;
                rendered_at = Instant::now();
                first
            }
        };
        tokio::time::sleep_until((rendered_at + A_TICK).into()).await;
        self.learn(first, self.renders(inputs, &after).await?);
        let installed = self.compare(begun, outcomes).await?;
        if is_installed {
            let begun = self.begin(Phase::Upgrade).await?;
            let outcomes = tokio::try_join!(self.helm.upgrade(&inputs.upgrade), self.ours.upgrade(&ours.upgrade))?;
            let upgraded = self.compare(begun, outcomes).await?;
            if let (Some(installed), Some(upgraded)) = (&installed, &upgraded) {
                let [install, upgrade] = [installed, upgraded].map(|[helm, ours]| [&helm.objects, &ours.objects]);
                let kept = kept_otherwise(&self.random, install, upgrade);
                if let Some(phase) = self.report.phases.last_mut() {
                    phase.compared.differences.extend(kept);
                }
            }
        }
        let begun = self.begin(Phase::Uninstall).await?;
        let (helm, ours) = tokio::try_join!(self.helm.uninstall(), self.ours.uninstall())?;
        // What was never installed cannot be removed.
        let helm = match helm {
            Outcome::Refused(reason) if !is_installed && reason.contains("not found") => Outcome::Done,
            other => other,
        };
        self.compare(begun, (helm, ours)).await?;
        Ok(())
    }

    async fn begin(&self, phase: Phase) -> Result<UnderWay> {
        let (case, helm) = (&self.report.case, self.report.helm.name());
        self.options.say(&format!("{case}, helm {helm}: {}", phase.name()));
        let runs = tokio::try_join!(Runs::watch(&self.pair.helm.client), Runs::watch(&self.pair.ours.client))?;
        Ok(UnderWay { phase, started: Instant::now(), runs: runs.into() })
    }

    /// The version of helm's cluster and what it knows: what a render depends on besides its input.
    async fn cluster(&self) -> Result<(String, Vec<String>)> {
        let client = &self.pair.helm.client;
        let version = client.apiserver_version().await.context("the API server tells no version")?.git_version;
        Ok((version, capabilities(client).await?))
    }

    /// What the chart renders for the install and for the upgrade. Nothing where helm refuses: the install will tell why.
    async fn renders(&self, inputs: &Inputs, (version, apis): &(String, Vec<String>)) -> Result<[Option<String>; 2]> {
        let render = async |input: &Input, upgrade: bool| match self.helm.template(input, upgrade, version, apis).await
        {
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
                self.random.learn(&first, &second, self.helm.namespace);
            }
        }
    }

    /// Waits until both sides have settled and compares them. Gives what was seen, where it was compared.
    async fn compare(&mut self, begun: UnderWay, (helm, ours): (Outcome, Outcome)) -> Result<Option<[Scene; 2]>> {
        let phase = begun.phase;
        let reason = |outcome: &Outcome| match outcome {
            Outcome::Done => None,
            Outcome::Refused(reason) => Some(reason.clone()),
        };
        let (helm_refuses, chartwright_refuses) = (reason(&helm), reason(&ours));
        // A side that refuses may have begun; only where hooks failed or it did not begin is it defined how far it got.
        let is_comparable = match (&helm_refuses, &chartwright_refuses) {
            (None, None) => true,
            (Some(helm), Some(_)) => is_hooks(helm) || has_not_begun(helm),
            _ => false,
        };
        let mut compared = Compared::default();
        let mut seen = None;
        if is_comparable {
            let [helm, ours] = self.scenes(&begun).await?;
            self.rendered.remember(&helm.objects);
            compared = Comparison {
                phase,
                version: self.report.helm,
                allowed: &self.options.allowed,
                random: &self.random,
                rendered: &self.rendered,
            }
            .of(&helm, &ours);
            seen = Some([helm, ours]);
        }
        let seconds = begun.started.elapsed().as_secs_f64();
        let both_refuse = helm_refuses.is_some() && chartwright_refuses.is_some();
        let is_expected = self.refusal.expects(phase, both_refuse);
        let report = PhaseReport { phase, helm_refuses, chartwright_refuses, is_expected, compared, seconds };
        self.report.phases.push(report);
        Ok(seen)
    }

    async fn scenes(&mut self, begun: &UnderWay) -> Result<[Scene; 2]> {
        let (phase, [helm_ground, our_ground]) = (begun.phase, self.grounds);
        let (helm, ours) =
            tokio::try_join!(settle(&self.pair.helm.client, helm_ground), settle(&self.pair.ours.client, our_ground))?;
        for (side, settled) in [("helm", &helm), ("Chartwright", &ours)] {
            if let Some(restless) = &settled.restless {
                let note = format!("{}: {restless} is not at rest with {side}, and does not move", phase.name());
                self.report.notes.push(note);
            }
        }
        if let Some(dir) = &self.options.dump {
            for (side, raw) in [("helm", &helm.raw), ("chartwright", &ours.raw)] {
                let name = format!("{}-{}-{}-{side}.json", self.report.case, self.report.helm.name(), phase.name());
                std::fs::write(dir.join(name), serde_json::to_string_pretty(raw)?)?;
            }
        }
        let mut helm = helm_ground.scene(&helm.raw, &self.random)?;
        let mut ours = our_ground.scene(&ours.raw, &self.random)?;
        let [helm_runs, our_runs] = [begun.runs[0].made()?, begun.runs[1].made()?];
        runs::add([&mut helm, &mut ours], [&helm_runs, &our_runs], &self.random);
        Ok([helm, ours])
    }
}
