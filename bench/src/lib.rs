//! What the operator costs and how fast it is, measured on a real control plane.
//!
//! ```text
//! floor ▶ install ▶ settle ▶ rest ▶ edit ▶ heal ▶ restart ▶ delete ▶ report
//! ```
//! One run goes through these phases once, with N custom resources of a chart like the one that `helm create` makes. The
//! benchmark never fails for a figure; it fails when a phase cannot be brought to its end.
//!
//! | module | what is in it |
//! |---|---|
//! | [`fleet`] | the custom resources, and what a person does to them |
//! | [`board`] | what is in the cluster, as watches tell it |
//! | [`operator`] | the operator as a process |
//! | [`tree`] | its memory and its helm processes |
//! | [`process`] | what the kernel knows of a process |
//! | [`audit`] | its calls, from the audit log |
//! | [`floor`] | the same work without an operator |
//! | [`phases`] | install, rest, restart, delete |
//! | [`latency`] | edit and heal |
//! | [`stats`] | many durations as a few figures |
//! | [`report`] | the figures |
//! | [`table`] | the figures for a person, beside their targets |

pub mod audit;
pub mod board;
pub mod fleet;
pub mod floor;
pub mod latency;
pub mod operator;
pub mod phases;
pub mod process;
pub mod report;
pub mod stats;
pub mod table;
pub mod tree;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use lab::ControlPlane;

use board::Watches;
use fleet::Fleet;
use operator::Launch;
use phases::Meter;
use report::Report;

/// The operator's name in the audit log.
const USER: &str = "operator-of-the-benchmark";

#[derive(Clone, Debug)]
pub struct Options {
    /// Custom resources.
    pub n: usize,
    /// Namespaces that they are spread over.
    pub namespaces: usize,
    /// The operator's program.
    pub operator: PathBuf,
    pub helm: PathBuf,
    /// Measure the floor, and the baseline of edits.
    pub floor: bool,
    pub helm_parallelism: usize,
    pub api_parallelism: usize,
    pub rest: Duration,
    /// Edits, alone and under load. 0 leaves the phase out.
    pub edits: usize,
    /// Custom resources that are being installed at any time while edits are made under load.
    pub load: usize,
    /// Deletions and changes to heal, of each sort. 0 leaves the phase out.
    pub heals: usize,
    /// How long to count after a restart.
    pub restart: Duration,
    /// Say on standard error what is being measured.
    pub progress: bool,
}

impl Options {
    fn say(&self, what: &str) {
        if self.progress {
            eprintln!("N={}: {what}", self.n);
        }
    }

    /// How long a phase with all custom resources may take.
    fn patience(&self) -> Duration {
        Duration::from_secs(120) + Duration::from_secs(2) * u32::try_from(self.n).unwrap_or(u32::MAX)
    }
}

/// One run on a control plane that nobody else uses under the same names.
///
/// # Errors
/// A phase cannot be brought to its end.
pub async fn run(options: &Options, control_plane: &ControlPlane) -> Result<Report> {
    let client = fleet::client(&control_plane.kubeconfig()).await?;
    let fleet = Fleet::new(client.clone(), options.namespaces);
    fleet.prepare().await?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut report = Report { n: options.n, namespaces: options.namespaces, cores, ..Report::default() };
    let mut baseline = Default::default();
    if options.floor {
        options.say("the floor: renders and applies without the operator");
        let (floor, measured) = floor::measure(&fleet, options).await?;
        (report.floor, baseline) = (Some(floor), measured);
    }
    let watches = Watches::open(&client, fleet::NAMESPACE).await?;
    let mut meter = Meter::new(control_plane, USER)?;
    let launch = Launch::new(options, &control_plane.kubeconfig(), USER)?;
    let scene = phases::Scene { options, fleet: &fleet, watches: &watches };
    let operator = scene.start(&launch, &mut meter).await?;
    let result = async {
        report.install = scene.install(&operator, &mut meter).await?;
        report.memory = phases::memory(&operator)?;
        report.rest = scene.rest(&operator, &mut meter).await?;
        if options.edits > 0 {
            report.edit = Some(scene.edit(baseline).await?);
        }
        if options.heals > 0 {
            report.heal = Some(scene.heal().await?);
        }
        scene.settle(&mut meter).await
    };
    result.await.with_context(|| format!("the end of the operator's log:\n{}", operator.log_tail()))?;
    let (restart, operator) = scene.restart(operator, &launch, &mut meter).await?;
    report.restart = restart;
    report.delete = scene.delete(&operator, &mut meter).await.with_context(|| operator.log_tail())?;
    operator.end()?;
    Ok(report)
}
