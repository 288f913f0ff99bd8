//! `chartwright run`: the operator.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::Project;
use crate::calls::Calls;
use crate::children::Children;
use crate::claims::Claims;
use crate::controller::{self, Operator};
use crate::discovery::Cache;
use crate::listeners::Listeners;
use crate::release::Records;
use crate::render::Helm;
use crate::render::lanes::Lanes;
use crate::scalers::Scalers;
use crate::watches::Watch;
use crate::{cluster, definitions, telemetry, watches};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub project: Project,
    /// How long helm may take for one render, as in 90s or 1m30s
    #[arg(long, value_name = "DURATION", env = "CHARTWRIGHT_RENDER_TIMEOUT", default_value = "60s", value_parser = duration)]
    pub render_timeout: Duration,
}

fn duration(text: &str) -> Result<Duration, String> {
    match watches::duration::parse(text) {
        Ok(duration) if duration.is_zero() => Err("helm needs some time".to_owned()),
        parsed => parsed.map_err(|error| error.to_string()),
    }
}

/// A pod is killed 30 seconds after it was told to end, and some set less.
const LAST_MOMENT: Duration = Duration::from_secs(8);

/// Runs until SIGTERM or SIGINT.
pub async fn run(args: Args) -> anyhow::Result<()> {
    telemetry::logs::start();
    let stop = CancellationToken::new();
    tokio::spawn(stop_on_signal(stop.clone())?);
    let Some(prepared) = stop.run_until_cancelled(prepare(args, &stop)).await else { return Ok(()) };
    let (watches, operator) = prepared?;
    let last_moment = async {
        stop.cancelled().await;
        tokio::time::sleep(LAST_MOMENT).await;
    };
    tokio::select! {
        () = controller::run(watches, operator, stop.clone()) => tracing::info!("stopped"),
        () = last_moment => tracing::warn!("stopped, although not everything had ended"),
    }
    Ok(())
}

async fn prepare(args: Args, stop: &CancellationToken) -> anyhow::Result<(Vec<Watch>, Operator)> {
    let here = std::env::current_dir().context("cannot find the working directory")?;
    let mut helm = Helm::find(args.project.helm.as_deref()).await?;
    helm.limits.time = args.render_timeout;
    let watches = watches::load(&args.project.watches_file, &here, &helm).await?;
    for warning in &watches.warnings {
        tracing::warn!("{warning}");
    }
    let cluster = cluster::connect().await?;
    tracing::info!(helm = helm.version, kubernetes = cluster.version, kinds = watches.entries.len(), "starting");
    let calls = Calls::new(cluster.client.clone());
    let definitions = definitions::follow(cluster.client.clone());
    let kinds = Arc::new(Cache::new(calls.clone()).await?.with_news(definitions.clone()));
    let listeners = Arc::new(Listeners::default());
    let operator = Operator {
        children: Arc::new(Children::new(cluster.client.clone(), listeners.clone(), stop.clone())),
        scalers: Arc::new(Scalers::new(cluster.client.clone(), stop.clone())),
        listeners,
        helm,
        lanes: Lanes::new(std::thread::available_parallelism().map_or(2, usize::from)),
        calls,
        claims: Claims::default(),
        definitions,
        client: cluster.client,
        kinds,
        records: Records::default(),
        default_namespace: std::env::var("POD_NAMESPACE").unwrap_or(cluster.namespace),
    };
    Ok((watches.entries, operator))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, millis) in [("2s", 2_000), ("90s", 90_000), ("1m30s", 90_000), ("500ms", 500), ("1h", 3_600_000)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "0", "2", "s", "1x", "1m30", "-1s", "99999999999999999999", "18446744073709551615h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
