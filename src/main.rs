//! The `chartwright` program: parse, run, exit code.

#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;
use std::time::Duration;

use chartwright::cli::{self, Command};
use clap::Parser;
use tokio::runtime::{Builder, Runtime};

fn main() -> ExitCode {
    // clap ends with exit code 2 on wrong usage.
    let args = cli::Args::parse();
    let failure = args.command.failure();
    match execute(args.command) {
        Ok(code) => code,
        Err(error) => {
            cli::output::tell(&format!("error: {error:#}"));
            if error.is::<cli::Usage>() { ExitCode::from(2) } else { ExitCode::from(failure) }
        }
    }
}

fn execute(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(args) => {
            let runtime = runtime()?;
            let ended = runtime.block_on(cli::run::run(*args));
            // A name that is being looked up, for example, cannot be interrupted and must not hold up the end.
            runtime.shutdown_timeout(Duration::from_millis(500));
            return ended;
        }
        Command::Version => cli::output::print(concat!("chartwright ", env!("CARGO_PKG_VERSION"), "\n"))?,
        Command::Completion(args) => return cli::completion::run(&args),
        Command::Man(args) => return cli::man::run(&args),
        Command::Reference => cli::output::print(&cli::reference::page())?,
        Command::Init(args) => return in_runtime(cli::init::run(*args)),
        Command::Create(args) => match args.what {
            cli::create::What::Api(args) => return in_runtime(cli::create::api::run(*args)),
        },
        Command::Delete(args) => match args.what {
            cli::delete::What::Api(args) => return in_runtime(cli::delete::api::run(args)),
        },
        Command::Migrate(args) => return in_runtime(cli::migrate::run(args)),
        Command::Validate(args) => return in_runtime(cli::validate::run(args)),
        Command::Diff(args) => return in_runtime(cli::diff::run(args)),
        Command::Render(args) => return in_runtime(cli::render::run(args)),
        Command::History(args) => return in_runtime(cli::history::run(args)),
        Command::Rollback(args) => return in_runtime(cli::rollback::run(args)),
        Command::Adopt(args) => return in_runtime(cli::adopt::run(args)),
        Command::Trust(args) => return in_runtime(cli::trust::run(args)),
        Command::Test(args) => return in_runtime(cli::test::run(args)),
        Command::LogLevel(args) => return in_runtime(cli::log_level::run(args)),
        Command::Status(args) => return in_runtime(cli::status::run(args)),
        Command::SupportBundle(args) => return in_runtime(cli::support_bundle::run(args)),
        Command::Get(args) => return in_runtime(cli::get::run(args)),
        Command::Generate(args) => return in_runtime(cli::generate::run(args)),
    }
    Ok(ExitCode::SUCCESS)
}

fn in_runtime(command: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(command)
}

/// A reconcile is a deep story. Without optimisation its frames take more than the 2 MiB that a thread has otherwise.
fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().thread_stack_size(8 * 1024 * 1024).build()
}
