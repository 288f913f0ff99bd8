//! `chartwright generate`: files of a project, made anew from its charts.

pub mod crd;
pub mod rbac;

use std::process::ExitCode;

use super::output::{Colour, print, print_coloured, tell};
use super::scaffolding::written;
use crate::preview::unified::{coloured, of_texts};
use crate::scaffold::draft::Draft;

/// Regenerate project files from the charts, without a cluster
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

/// A file of the project, as it is and as it shall be.
struct File {
    name: String,
    before: String,
    after: String,
}

/// Shows what differs, and writes all of it or nothing. With `stale` nothing is written: that is said where something differs.
fn renew(draft: &mut Draft, files: Vec<File>, stale: Option<&str>) -> anyhow::Result<ExitCode> {
    let mut different = vec![];
    for File { name, before, after } in files {
        let shown = draft.root().join(&name).display().to_string();
        if before == after {
            tell(&format!("{shown} is as it should be"));
            continue;
        }
        let difference = difference(&name, &before, &after);
        if Colour::Auto.is_on() {
            print_coloured(&coloured(&difference))?
        } else {
            print(&difference)?
        }
        draft.edit(&name, after);
        different.push(shown);
    }
    if let Some(stale) = stale.filter(|_| !different.is_empty()) {
        tell(stale);
        return Ok(ExitCode::FAILURE);
    }
    written(draft, false)?;
    different.iter().for_each(|file| tell(&format!("{file} is written")));
    Ok(ExitCode::SUCCESS)
}

fn difference(path: &str, before: &str, after: &str) -> String {
    let from = if before.is_empty() { "/dev/null".to_owned() } else { format!("a/{path}") };
    of_texts((&from, before), (&format!("b/{path}"), after))
}
