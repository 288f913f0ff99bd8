//! `chartwright create`: one more part of an operator project.

pub mod api;

use clap::Subcommand;

/// Add something to an operator project
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, Subcommand)]
pub enum What {
    Api(Box<api::Args>),
}
