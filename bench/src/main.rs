//! The `bench` program: measures the operator and prints the figures.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bench::Options;
use bench::report::Reports;
use clap::{Parser, ValueEnum};
use lab::ControlPlane;

/// What the operator costs and how fast it is, measured on a control plane of its own.
#[derive(Parser)]
#[command(name = "bench")]
struct Args {
    /// Custom resources; with several numbers, a run for each and the growth of memory between them
    #[arg(short, value_name = "N[,N]", value_delimiter = ',', default_value = "1000")]
    n: Vec<usize>,
    /// How the figures are printed
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
    /// Namespaces that the custom resources are spread over
    #[arg(long, default_value_t = 10)]
    namespaces: usize,
    /// The operator to measure; without it, the one that was built beside this program
    #[arg(long, value_name = "PROGRAM")]
    operator: Option<PathBuf>,
    /// The helm that the operator runs; without it, the lab's
    #[arg(long, value_name = "PROGRAM")]
    helm: Option<PathBuf>,
    /// Leave out the floor and the baseline of edits
    #[arg(long)]
    no_floor: bool,
    /// helm processes at once in the floor, as many as the operator has; without it, one per core and two at least
    #[arg(long, value_name = "COUNT")]
    helm_parallelism: Option<usize>,
    /// API calls at once in the floor, as many as the operator has
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    api_parallelism: usize,
    /// How long the operator is watched at rest
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    rest: u64,
    /// Edits, alone and under load; 0 leaves them out
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    edits: usize,
    /// Custom resources that are being installed at any time during edits under load; 0 leaves those out
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    load: usize,
    /// Repairs of each sort; 0 leaves them out
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    heals: usize,
    /// How long calls are counted after a restart
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    restart: u64,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Output {
    Text,
    Json,
}

impl Args {
    fn options(&self, n: usize) -> Result<Options> {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let operator = match &self.operator {
            Some(operator) => operator.clone(),
            None => std::env::current_exe()?.with_file_name("chartwright"),
        };
        if n == 0 {
            bail!("0 custom resources are nothing to measure");
        }
        Ok(Options {
            n,
            namespaces: self.namespaces.max(1),
            operator: operator.canonicalize().with_context(|| format!("there is no {}", operator.display()))?,
            helm: self.helm.clone().unwrap_or_else(|| lab::tools_dir().join("helm")),
            floor: !self.no_floor,
            helm_parallelism: self.helm_parallelism.unwrap_or(cores.max(2)).max(1),
            api_parallelism: self.api_parallelism.max(1),
            rest: Duration::from_secs(self.rest),
            edits: self.edits,
            load: self.load,
            heals: self.heals,
            restart: Duration::from_secs(self.restart),
            progress: std::io::stderr().is_terminal(),
        })
    }
}

/// Each run has a control plane of its own, so that a later one starts like the first.
async fn run(args: &Args) -> Result<Reports> {
    let mut runs = vec![];
    for n in &args.n {
        let options = args.options(*n)?;
        let control_plane = ControlPlane::start()?;
        runs.push(bench::run(&options, &control_plane).await?);
    }
    Ok(Reports::new(runs))
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    lab::owner::exit_with_it();
    let printed = run(&args).await.and_then(|reports| match args.output {
        Output::Text => Ok(bench::table::print(&reports)),
        Output::Json => Ok(serde_json::to_string_pretty(&bench::table::json(&reports))? + "\n"),
    });
    match printed {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
