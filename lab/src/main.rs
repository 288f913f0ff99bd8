//! The `lab` program: a real control plane on loopback, and the demo.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A real Kubernetes control plane on loopback, for trying Chartwright and testing it.
#[derive(Parser)]
#[command(name = "lab")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a control plane that stays until `lab down`
    Up,
    /// End it and remove its data
    Down,
    /// Say whether it is up and works
    Status,
    /// Print KUBECONFIG and PATH for `eval` in a shell
    Env,
    /// Show the operator at work, from nothing to a healed Service
    Demo,
    /// Walk through a real node (used by lab/node/inside.sh)
    #[command(hide = true)]
    Node,
    /// Hold a control plane together (used by the others)
    #[command(hide = true)]
    Supervise {
        dir: PathBuf,
        #[arg(long)]
        detached: bool,
    },
    /// Run a program that dies with its parent (used by the others)
    #[command(hide = true)]
    Guard {
        program: OsString,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Up => lab::person::up().map(|()| true),
        Command::Down => lab::person::down().map(|()| true),
        Command::Status => lab::person::status(),
        Command::Env => lab::person::env().map(|()| true),
        Command::Demo => lab::demo::run().map(|()| true),
        Command::Node => lab::node::run(),
        Command::Supervise { dir, detached } => supervise(dir, detached).map(|()| true),
        Command::Guard { program, args } => lab::guard::become_guarded(&program, &args).map(|()| true),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn supervise(dir: PathBuf, detached: bool) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(lab::supervise::run(&dir, detached));
    // A read of standard input cannot be cancelled, and must not keep the process alive.
    runtime.shutdown_background();
    result
}
