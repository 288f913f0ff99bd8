//! Manual pages, made from what `--help` is made of.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;

use super::reference;

/// Write the manual pages
///
/// One page per command: chartwright.1, chartwright-diff.1 and so on. Read one with `man ./chartwright-diff.1`; for all users they belong into
/// a directory like /usr/local/share/man/man1.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory for the pages; it is made where it is missing
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let dir = &args.dir;
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make the directory {}", dir.display()))?;
    let command = reference::settled(super::Args::command());
    clap_mangen::generate_to(command, dir).with_context(|| format!("cannot write a page in {}", dir.display()))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let dir = tempfile::tempdir().unwrap();
        run(&Args { dir: dir.path().join("man1") }).unwrap();
        let page = |name: &str| std::fs::read_to_string(dir.path().join("man1").join(name)).unwrap();
        for command in super::super::Args::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let text = page(&format!("chartwright-{}.1", command.get_name()));
            assert!(text.starts_with(".ie") && text.contains("SYNOPSIS"), "{}: {text}", command.get_name());
        }
        assert!(page("chartwright.1").contains("watches.yaml"));
    }
}
