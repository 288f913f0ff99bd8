//! The command line: one file per command.

mod access;
pub mod adopt;
mod asking;
pub mod completion;
mod consent;
pub mod create;
pub mod delete;
pub mod diff;
pub mod generate;
pub mod get;
pub mod history;
pub mod init;
pub mod log_level;
pub mod man;
pub mod migrate;
mod named;
pub mod output;
mod progress;
pub mod reference;
pub mod render;
pub mod rollback;
pub mod run;
mod scaffolding;
pub mod status;
pub mod support_bundle;
pub mod test;
pub mod trust;
pub mod validate;
mod waiting;
mod wanted;

use std::path::PathBuf;

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
    Run(Box<run::Args>),
    Init(Box<init::Args>),
    Create(create::Args),
    Delete(delete::Args),
    Migrate(migrate::Args),
    Diff(diff::Args),
    Render(render::Args),
    Status(status::Args),
    History(history::Args),
    Get(get::Args),
    Rollback(rollback::Args),
    Adopt(adopt::Args),
    Test(test::Args),
    Trust(trust::Args),
    LogLevel(log_level::Args),
    SupportBundle(support_bundle::Args),
    /// Check a watches file and its charts, without a cluster
    Validate(validate::Args),
    Generate(generate::Args),
    Completion(completion::Args),
    Man(man::Args),
    /// Print the page of the documents that lists every command
    #[command(hide = true)]
    Reference,
    /// Print the version
    Version,
}

/// What a person wrote makes no sense. The exit code is 2, as clap's own.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(String);

/// Where an operator project is, and what renders it.
#[derive(Debug, clap::Args)]
pub struct Project {
    /// The file that maps kinds to charts
    #[arg(long, default_value = "./watches.yaml", value_name = "FILE")]
    pub watches_file: PathBuf,
    /// The helm program, version 3 or 4 [default: `helm` on PATH]
    #[arg(long, value_name = "PATH", env = "CHARTWRIGHT_HELM")]
    pub helm: Option<PathBuf>,
}

impl Command {
    /// The exit code of an error.
    pub fn failure(&self) -> u8 {
        match self {
            // As with diff(1), 1 says that something differs.
            Command::Diff(_) => 2,
            _ => 1,
        }
    }
}
