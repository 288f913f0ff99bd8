//! The page that lists every command with all its flags, made from what `--help` is made of.
//!
//! It is part of the documents, so it must not depend on the machine or the environment.

use std::fmt::Write;

use clap::{Command, CommandFactory};

const HEAD: &str = "\
# Every command and flag

What `--help` says, command by command. [cli.md](cli.md) tells how to use them. This page is made by `make docs`; a test sees that it is not old.
";

/// The page, as Markdown.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    let mut root = settled(super::Args::command());
    root.build();
    describe(&root, &mut page);
    page
}

/// The commands without what depends on the environment, and without the generated `help` commands.
pub fn settled(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_args(|argument| argument.hide_env_values(true)).mut_subcommands(settled)
}

/// A heading and the help of a command and of those below it.
fn describe(command: &Command, page: &mut String) {
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    let help = command.clone().render_long_help().to_string();
    let help: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    // Writing to a String cannot fail.
    let _ = write!(page, "\n## {name}\n\n```text\n{}\n```\n", help.join("\n"));
    command.get_subcommands().filter(|below| !below.is_hide_set()).for_each(|below| describe(below, page));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_in_the_documents_is_what_the_commands_say() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/cli-reference.md");
        let written = std::fs::read_to_string(path).unwrap();
        assert!(written == page(), "docs/cli-reference.md is old: run make docs");
    }

    #[test]
    fn every_command_has_its_place() {
        let page = page();
        for command in super::super::Args::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            assert!(page.contains(&format!("\n## chartwright {}\n", command.get_name())), "{}", command.get_name());
        }
    }
}
