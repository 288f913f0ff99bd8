//! The `chartwright` program: parse, run, exit code.

use std::process::ExitCode;
use std::time::Duration;

use chartwright::cli::{self, Command};
use clap::Parser;

fn main() -> ExitCode {
    // clap ends with exit code 2 on wrong usage.
    let args = cli::Args::parse();
    let failure = args.command.failure();
    match execute(args.command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            if error.is::<cli::Usage>() { ExitCode::from(2) } else { ExitCode::from(failure) }
        }
    }
}

fn execute(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(args) => {
            let runtime = tokio::runtime::Runtime::new()?;
            let ended = runtime.block_on(cli::run::run(args));
            // A name that is being looked up, for example, cannot be interrupted and must not hold up the end.
            runtime.shutdown_timeout(Duration::from_millis(500));
            ended?;
        }
        Command::Version => println!("chartwright {}", env!("CARGO_PKG_VERSION")),
        Command::Validate(args) => return in_runtime(cli::validate::run(args)),
        Command::Diff(args) => return in_runtime(cli::diff::run(args)),
        Command::Render(args) => return in_runtime(cli::render::run(args)),
        Command::History(args) => return in_runtime(cli::history::run(args)),
        Command::Rollback(args) => return in_runtime(cli::rollback::run(args)),
        Command::Adopt(args) => return in_runtime(cli::adopt::run(args)),
        Command::Test(args) => return in_runtime(cli::test::run(args)),
        Command::Get(args) => return in_runtime(cli::get::run(args)),
    }
    Ok(ExitCode::SUCCESS)
}

fn in_runtime(command: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    tokio::runtime::Runtime::new()?.block_on(command)
}
