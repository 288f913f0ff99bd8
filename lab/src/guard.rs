//! `lab guard PROGRAM ARGS…`: becomes the program, which is killed when the process that started it dies.
//!
//! Linux counts the thread that forked as the parent, so start guarded programs from a thread that lives as long as
//! they should. Elsewhere the program runs unguarded, and the supervisor is the only tie.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Replaces this process. Returns only on failure.
pub fn become_guarded(program: &OsString, args: &[OsString]) -> Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, getppid, set_parent_process_death_signal};
        let parent = getppid();
        set_parent_process_death_signal(Some(Signal::KILL)).context("cannot tie a process to its parent")?;
        // The parent may have died while the tie was made; then another has taken over.
        if getppid() != parent {
            bail!("the parent is gone already");
        }
    }
    Err(Command::new(program).args(args).exec()).with_context(|| format!("cannot run {}", program.display()))
}

/// A command that runs `program` guarded.
pub fn command(program: impl Into<OsString>) -> Result<Command> {
    let mut command = Command::new(lab_program()?);
    command.arg("guard").arg(program.into());
    Ok(command)
}

/// The `lab` program: this one, or the one that was built beside the running test.
pub fn lab_program() -> Result<PathBuf> {
    let me = std::env::current_exe().context("cannot find the running program")?;
    if me.file_name().is_some_and(|name| name == "lab") {
        return Ok(me);
    }
    let beside = me.ancestors().skip(1).take(2).map(|dir| dir.join("lab")).find(|path| path.is_file());
    beside.with_context(|| format!("no `lab` program beside {}: run `cargo build -p lab` first", me.display()))
}
