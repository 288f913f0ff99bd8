//! `chartwright generate`: files of a project, made anew from its charts.

pub mod crd;
pub mod rbac;

use std::process::ExitCode;

/// Make files of a project anew from its charts, without a cluster
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, clap::Subcommand)]
pub enum What {
    Rbac(rbac::Args),
    Crd(crd::Args),
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.what {
        What::Rbac(args) => rbac::run(args).await,
        What::Crd(args) => crd::run(args),
    }
}
