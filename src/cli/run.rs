//! `chartwright run`: the operator.
//!
//! | module | what is in it |
//! |---|---|
//! | [`flags`] | what a person or a manifest says |
//! | [`endpoints`] | metrics and probes, open for as long as the process lives |
//! | [`ground`] | what is loaded once: helm, watches.yaml, who this process is in the Lease |
//! | [`session`] | from the connection to the API server until SIGTERM or the loss of the Lease |
//! | [`patience`] | how long to try again while the API server is away |

mod endpoints;
pub mod flags;
mod ground;
mod patience;
mod session;

use std::process::ExitCode;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::cli::Usage;
use crate::leader::election::Lost;
use crate::telemetry::logs::control::{self, Levels};
use crate::telemetry::logs::level::LAST;
use crate::watches::WatchesError;
use crate::{telemetry, watches};
use endpoints::Endpoints;
pub use flags::Args;
use ground::Ground;
use session::End;

/// Runs until SIGTERM or SIGINT. At a terminal, also until the Lease is lost or the API server cannot be reached at the start.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (args, warnings) = args.settled(std::env::var("OPERATOR_NAME").ok())?;
    let levels = telemetry::logs::start(&args.logs);
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    take_orders(levels);
    let is_json = telemetry::logs::is_json(&args.logs);
    let ended = work(args).await;
    // Whatever the end, it is told what led to it.
    telemetry::traces::flush().await;
    match ended {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // Whoever reads logs as data gets this as data too. It is the last word, so it is told at every level.
        Err(error) if is_json => {
            tracing::error!(target: LAST, "{error:#}");
            Ok(if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE })
        }
        Err(error) => Err(error),
    }
}

async fn work(args: Args) -> anyhow::Result<()> {
    // In a directory that is no project, ports are not what is wrong.
    if let Err(error @ WatchesError::Read { .. }) = watches::kinds(&args.project.watches_file) {
        return Err(error.into());
    }
    let endpoints = Endpoints::open(&args.metrics, &args.health).await?;
    let stop = CancellationToken::new();
    tokio::spawn(stop_on_signal(stop.clone())?);
    let Some(ground) = stop.run_until_cancelled(Ground::lay(args)).await else { return Ok(()) };
    let mut ground = ground?;
    loop {
        endpoints.disconnected(ground.lease());
        let lost = match session::run(&mut ground, &endpoints, &stop).await? {
            End::Stopped => return Ok(()),
            End::Lost(lost) => lost,
        };
        // At a terminal a person reads why it ended, and starts it again.
        if !ground.outlives_the_lease() {
            return Err(lost.into());
        }
        let Lost { lease, why } = lost;
        tracing::warn!(lease, "lost the Lease: {why}; all work has ended, and begins again when the Lease is acquired");
    }
}

/// Lets people change how much is told. An operator that cannot hear them works all the same.
fn take_orders(levels: Levels) {
    if let Err(error) = control::listen(levels.clone()) {
        tracing::warn!("the log level cannot be changed by `chartwright log-level`: {error}");
    }
    if let Err(error) = control::heed_signals(levels) {
        tracing::warn!("the log level cannot be changed by signals: {error}");
    }
}

/// The first signal lets what is being written end. The second ends at once.
fn stop_on_signal(stop: CancellationToken) -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut told = async move || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    Ok(async move {
        told().await;
        tracing::info!("stopping");
        stop.cancel();
        told().await;
        std::process::exit(1);
    })
}
