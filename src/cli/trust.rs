//! `chartwright trust`: have the operator sign release records that it did not sign.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::Subcommand;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::access::Access;
use super::asking;
use super::output;
use crate::trust::window::{self, LONGEST, State};
use crate::watches::duration as durations;

/// Have the operator sign release records that nothing vouches for
///
/// The operator signs each release record that it writes, and takes content from no other. Records of an earlier version, and all records after the
/// operator's key or ledger was lost, have no signature that it can verify. Their custom resources say so (reason RecordUnproven) and are left
/// alone. While the window is open, the operator signs such records as they are, without changing any object. Look at the
/// records first (`chartwright status`, `chartwright get manifest`): whoever may write Secrets in a namespace may have written them.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Open the window: unsigned records are signed until it closes
    Open {
        /// How long the window stays open
        #[arg(long = "for", default_value = "15m", value_name = "DURATION", value_parser = length)]
        length: Duration,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        operator: Operator,
    },
    /// Close the window now
    Close {
        #[command(flatten)]
        operator: Operator,
    },
    /// Show whether the window is open, and how many releases were signed
    Status {
        /// text or json
        #[arg(short, long, default_value = "text", value_name = "FORMAT", value_parser = ["text", "json"])]
        output: String,
        #[command(flatten)]
        operator: Operator,
    },
}

/// Which operator is meant.
#[derive(Debug, clap::Args)]
pub struct Operator {
    /// The namespace that the operator runs in
    #[arg(long, value_name = "NAME", env = "CHARTWRIGHT_OPERATOR_NAMESPACE", help_heading = "Cluster")]
    pub operator_namespace: String,
    #[command(flatten)]
    pub access: Access,
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.what {
        What::Open { length, yes, operator } => open(length, yes, &operator).await?,
        What::Close { operator } => close(&operator).await?,
        What::Status { output, operator } => show(&output, &operator).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn open(length: Duration, yes: bool, operator: &Operator) -> anyhow::Result<()> {
    let (session, namespace) = (operator.access.connect().await?, &operator.operator_namespace);
    let question = format!(
        "The operator in the namespace {namespace} will sign every unsigned release record that names one of its custom resources, as it is. Go on?"
    );
    if !yes && asking::is_agreed(&question)? != Some(true) {
        bail!("nothing was changed; to go on without a question, use --yes");
    }
    let state = State::new(Timestamp::now(), length);
    window::write(session.calls.client(), namespace, &state).await?;
    output::print(&format!("the window is open until {}; see `chartwright trust status`\n", state.until))
}

async fn close(operator: &Operator) -> anyhow::Result<()> {
    let (session, namespace) = (operator.access.connect().await?, &operator.operator_namespace);
    let Some(state) = window::state(session.calls.client(), namespace).await? else {
        bail!("the window was never opened in the namespace {namespace}");
    };
    let now = Timestamp::now();
    if state.is_open(now) {
        window::write(session.calls.client(), namespace, &State { until: now, ..state }).await?;
    }
    output::print("the window is closed\n")
}

async fn show(format: &str, operator: &Operator) -> anyhow::Result<()> {
    let (session, namespace) = (operator.access.connect().await?, &operator.operator_namespace);
    let state = window::state(session.calls.client(), namespace).await?;
    let is_open = state.as_ref().is_some_and(|state| state.is_open(Timestamp::now()));
    if format == "json" {
        return output::print(&format!("{:#}\n", json!({"open": is_open, "window": state})));
    }
    let text = match state {
        None => "never opened".to_owned(),
        Some(state) if is_open => format!("open since {}, until {}", state.opened_at, state.until),
        Some(State { closed_at: Some(closed), opened_at, signed, .. }) => {
            format!("closed at {closed}, opened at {opened_at}, releases signed: {signed}")
        }
        Some(state) => format!("closed at {} (the operator has not confirmed it yet)", state.until),
    };
    output::print(&format!("{text}\n"))
}

fn length(text: &str) -> Result<Duration, String> {
    let length = durations::parse(text).map_err(|error| error.to_string())?;
    match length.is_zero() || length > LONGEST {
        true => Err(format!("between 1s and {} h", LONGEST.as_secs() / 3600)),
        false => Ok(length),
    }
}
