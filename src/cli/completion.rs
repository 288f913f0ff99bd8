//! Completions for shells, made from what `--help` is made of.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use super::output;

/// Generate shell completions
///
/// For bash, in the shell of now: `source <(chartwright completion bash)`. For all shells to come, write the output to where your shell
/// looks for completions:
///
///   bash   ~/.local/share/bash-completion/completions/chartwright
///   zsh    a file `_chartwright` in a directory of $fpath
///   fish   ~/.config/fish/completions/chartwright.fish
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    output::print(&script(args.shell))?;
    Ok(ExitCode::SUCCESS)
}

fn script(shell: Shell) -> String {
    // Into memory first: the generator panics when nobody reads any more.
    let mut script = vec![];
    clap_complete::generate(shell, &mut super::Args::command(), "chartwright", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_shell_gets_every_command() {
        for shell in Shell::value_variants() {
            let script = script(*shell);
            for command in super::super::Args::command().get_subcommands().filter(|command| !command.is_hide_set()) {
                assert!(script.contains(command.get_name()), "{shell}: no {}", command.get_name());
            }
        }
    }
}
