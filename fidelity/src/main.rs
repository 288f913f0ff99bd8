//! The `fidelity` program: proves charts and prints what was found.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use fidelity::case::{self, Case};
use fidelity::plane::Pair;
use fidelity::report::Report;
use fidelity::table::Summary;
use fidelity::{HelmVersion, Options, prove, table};

/// Proves that Chartwright deploys a chart as Helm does: install, upgrade and uninstall, compared field by field.
///
/// The exit code is 0 without a difference, 1 with one, and 2 where something could not be done.
#[derive(Parser)]
#[command(name = "fidelity")]
struct Args {
    /// The chart: a directory or a .tgz
    #[arg(long, value_name = "CHART", required_unless_present_any = ["case", "all"])]
    chart: Option<PathBuf>,
    /// Its values
    #[arg(long, value_name = "FILE", requires = "chart")]
    values: Option<PathBuf>,
    /// The values of the upgrade
    #[arg(long, value_name = "FILE", requires = "chart")]
    upgrade_values: Option<PathBuf>,
    /// The chart of the upgrade; without it and without values for it, the same chart in the next version
    #[arg(long, value_name = "CHART", requires = "chart")]
    upgrade_chart: Option<PathBuf>,
    /// A case of fidelity/cases, or several
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "chart")]
    case: Vec<String>,
    /// All of them
    #[arg(long, conflicts_with_all = ["chart", "case"])]
    all: bool,
    /// Where cases are
    #[arg(long, value_name = "DIRECTORY", default_value_os_t = case::directory(), hide_default_value = true)]
    cases: PathBuf,
    /// The helm to compare with, which also renders for Chartwright
    #[arg(long, value_enum, default_value = "both")]
    helm: Which,
    /// How the result is printed
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
    /// The operator; without it, the one that was built beside this program
    #[arg(long, value_name = "PROGRAM")]
    operator: Option<PathBuf>,
    /// Where both sides' objects are written after each phase, for a closer look
    #[arg(long, value_name = "DIRECTORY")]
    dump: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Which {
    #[value(name = "3")]
    Three,
    #[value(name = "4")]
    Four,
    Both,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Output {
    Text,
    Json,
}

impl Args {
    fn options(&self) -> Result<Options> {
        let operator = match &self.operator {
            Some(operator) => operator.clone(),
            None => std::env::current_exe()?.with_file_name("chartwright"),
        };
        let operator = operator.canonicalize().with_context(|| format!("there is no {}", operator.display()))?;
        if let Some(dir) = &self.dump {
            std::fs::create_dir_all(dir)?;
        }
        let progress = std::io::stderr().is_terminal();
        Ok(Options { progress, dump: self.dump.clone(), ..Options::new(operator)? })
    }

    fn cases(&self) -> Result<Vec<Case>> {
        if self.all {
            return Case::all(&self.cases);
        }
        let Some(chart) = &self.chart else {
            return self.case.iter().map(|name| Case::read(&self.cases.join(name))).collect();
        };
        let there = |path: &Path| path.canonicalize().with_context(|| format!("there is no {}", path.display()));
        let maybe = |path: &Option<PathBuf>| path.as_deref().map(there).transpose();
        let chart = there(chart)?;
        if chart.is_dir() && !chart.join("Chart.yaml").exists() {
            bail!("{} is no chart: it has no Chart.yaml", chart.display());
        }
        Ok(vec![Case {
            values: maybe(&self.values)?,
            upgrade_values: maybe(&self.upgrade_values)?,
            upgrade_chart: maybe(&self.upgrade_chart)?,
            ..Case::of_chart(&chart)
        }])
    }

    fn versions(&self) -> &'static [HelmVersion] {
        match self.helm {
            Which::Three => &[HelmVersion::Three],
            Which::Four => &[HelmVersion::Four],
            Which::Both => &HelmVersion::ALL,
        }
    }
}

/// Proves all that was asked for. Of many cases each has its line as soon as it is through.
async fn run(args: &Args) -> Result<Vec<Report>> {
    let (cases, options) = (args.cases()?, args.options()?);
    let summary = Summary::of(cases.iter().map(|case| case.name.as_str()));
    let tell = |line: String| {
        if args.output == Output::Text && args.chart.is_none() {
            print!("{line}");
        }
    };
    let pair = Pair::start().await?;
    let mut reports = vec![];
    tell(summary.head());
    for case in &cases {
        for version in args.versions() {
            let report = prove::prove(case, *version, &pair, &options).await;
            tell(summary.row(&report));
            reports.push(report);
        }
    }
    Ok(reports)
}

fn print(args: &Args, reports: &[Report]) -> Result<String> {
    Ok(match args.output {
        Output::Json => serde_json::to_string_pretty(reports)? + "\n",
        Output::Text if args.chart.is_some() => reports.iter().map(table::print).collect::<Vec<_>>().join("\n"),
        Output::Text => table::details(reports),
    })
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    lab::owner::exit_with_it();
    let result = run(&args).await.and_then(|reports| Ok((print(&args, &reports)?, reports)));
    match result {
        Ok((text, reports)) => {
            print!("{text}");
            match (reports.iter().any(|it| it.error.is_some()), reports.iter().all(Report::is_equal)) {
                (true, _) => ExitCode::from(2),
                (_, true) => ExitCode::SUCCESS,
                _ => ExitCode::FAILURE,
            }
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}
