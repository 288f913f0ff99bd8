//! `chartwright delete`: one part less of an operator project.

pub mod api;

use clap::Subcommand;

/// Remove something from an operator project
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, Subcommand)]
pub enum What {
    Api(api::Args),
}
