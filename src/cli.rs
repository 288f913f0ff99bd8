//! The command line: one file per command.

pub mod run;
pub mod validate;

use clap::{Parser, Subcommand};

/// Turns Helm charts into Kubernetes APIs.
///
/// A watches.yaml maps a kind to a chart. Each custom resource of that kind becomes a release of the chart, its spec the
/// chart's values.
#[derive(Debug, Parser)]
#[command(name = "chartwright", version, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the operator
    Run(run::Args),
    /// Check a watches file and its charts, without a cluster
    Validate(validate::Args),
    /// Print the version
    Version,
}
