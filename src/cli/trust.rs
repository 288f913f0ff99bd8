//! `chartwright trust`: have the operator sign release records that it did not sign.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::Subcommand;
use serde_json::{Value, json};

use super::access::{Access, Session, release_name};
use super::output::Format;
use super::status::look::{self, Which};
use super::status::{self, told::Told};
use super::{asking, output};
use crate::cluster::clock;
use crate::error::{Category, sentence};
use crate::trust::window::{self, LONGEST, Limits, State};
use crate::watches::duration as durations;

/// Have the operator sign release records that nothing vouches for
///
/// The operator signs each release record that it writes, and takes content from no other. Records of an earlier version, and all records after the
/// operator's key or ledger was lost, have no signature that it can verify. Their custom resources say so (reason RecordUnproven) and are left
/// alone. While the window is open, the operator signs such a record if it holds what the chart renders, without changing any object. If the spec or
/// the chart has changed since, it renders the chart again. To have the newest record of a release signed whatever it holds, pass --as-recorded.
/// Look at it first (`chartwright status`, `chartwright get manifest`): anyone who may write Secrets in the namespace may have written it.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

/// The names of releases are names of objects: a slash would never match one.
fn release(text: &str) -> Result<String, String> {
    match text.split_once('/') {
        Some((namespace, name)) => Err(format!("write --namespace {namespace} --release {name}")),
        None => Ok(text.to_owned()),
    }
}

#[derive(Debug, Subcommand)]
enum What {
    /// Open the window: unsigned records are signed until it closes
    ///
    /// The custom resources that wait for it are listed first. With --namespace and --release it opens for some of them only.
    Open {
        /// How long the window stays open
        #[arg(long = "for", default_value = "15m", value_name = "DURATION", value_parser = length)]
        length: Duration,
        #[command(flatten)]
        choice: Choice,
        /// Only these releases of the namespace
        #[arg(long = "release", value_name = "NAME", requires = "namespace", value_parser = release)]
        releases: Vec<String>,
        /// Sign the newest record of each release, even where the chart renders something else
        #[arg(long, requires = "releases")]
        as_recorded: bool,
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
    /// Show whether the window is open, how many releases were signed, and which custom resources wait for it
    Status {
        #[command(flatten)]
        choice: Choice,
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
    /// The kubeconfig [default: KUBECONFIG, then ~/.kube/config]
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    pub context: Option<String>,
}

/// Which custom resources are meant.
#[derive(Debug, clap::Args)]
pub struct Choice {
    /// Only releases of this namespace [default: all]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// The file that names the kinds [default: ./watches.yaml if it is there]
    #[arg(long, value_name = "FILE")]
    pub watches_file: Option<PathBuf>,
}

impl Operator {
    async fn connect(&self) -> anyhow::Result<Session> {
        Access { namespace: None, kubeconfig: self.kubeconfig.clone(), context: self.context.clone() }.connect().await
    }
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.what {
        What::Open { length, choice, releases, as_recorded, yes, operator } => {
            let limits = Limits { namespace: choice.namespace.clone(), releases, as_recorded };
            open(length, &choice, limits, yes, &operator).await?
        }
        What::Close { operator } => close(&operator).await?,
        What::Status { choice, output, operator } => show(&output, &choice, &operator).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn open(length: Duration, choice: &Choice, limits: Limits, yes: bool, operator: &Operator) -> anyhow::Result<()> {
    let (session, namespace) = (operator.connect().await?, &operator.operator_namespace);
    let (waiting, is_meant) = (waiting(&session, choice).await?, |told: &&Told| {
        let owner = told.owner_mark();
        let namespace = owner.namespace.as_deref().or(limits.namespace.as_deref()).unwrap_or_default();
        limits.include(namespace, &release_name(&told.status, &owner))
    });
    output::print(&listed(waiting.iter().filter(is_meant)))?;
    let question = format!(
        "The operator in the namespace {namespace} will sign every unsigned release record that names one of its custom resources{}{}. Continue?",
        meant(&limits),
        if limits.as_recorded { ", whatever it holds" } else { " and holds what the chart renders" }
    );
    if !yes && asking::is_agreed(&question)? != Some(true) {
        bail!("nothing was changed; to go on without a question, use --yes");
    }
    let state = State::new(clock::now(), length, limits);
    window::write(&session.calls, namespace, &state).await?;
    output::print(&format!(
        "the window is open until {}{}; see `chartwright trust status`\n",
        state.until,
        meant(&state.limits)
    ))
}

async fn close(operator: &Operator) -> anyhow::Result<()> {
    let (session, namespace) = (operator.connect().await?, &operator.operator_namespace);
    let Some(state) = window::state(&session.calls, namespace).await? else {
        bail!("the window was never opened in the namespace {namespace}");
    };
    let now = clock::now();
    if state.is_open(now) {
        window::write(&session.calls, namespace, &State { until: now, ..state }).await?;
    }
    output::print("the window is closed\n")
}

async fn show(format: &str, choice: &Choice, operator: &Operator) -> anyhow::Result<()> {
    let (session, namespace) = (operator.connect().await?, &operator.operator_namespace);
    let state = window::state(&session.calls, namespace).await?;
    let is_open = state.as_ref().is_some_and(|state| state.is_open(clock::now()));
    let waiting = waiting(&session, choice).await?;
    if format == "json" {
        let waiting: Vec<_> = waiting.iter().map(data).collect();
        let data = json!({"open": is_open, "window": state, "waiting": waiting});
        return output::print(&Format::Json.text(&data)?);
    }
    let text = match state {
        None => "never opened".to_owned(),
        Some(state) if is_open => {
            let State { opened_at, until, signed, limits, .. } = state;
            format!("open since {opened_at}, until {until}{}, releases signed: {signed}", meant(&limits))
        }
        Some(State { closed_at: Some(closed), opened_at, signed, .. }) => {
            format!("closed at {closed}, opened at {opened_at}, releases signed: {signed}")
        }
        Some(state) => format!("closed at {} (the operator has not confirmed it yet)", state.until),
    };
    output::print(&format!("{text}\n{}", listed(waiting.iter())))
}

/// The custom resources that say that nothing vouches for their records.
async fn waiting(session: &Session, choice: &Choice) -> anyhow::Result<Vec<Told>> {
    let namespace = choice.namespace.as_deref();
    let mut waiting = vec![];
    for kind in status::all_kinds(session, choice.watches_file.as_deref(), namespace).await? {
        let which = Which { namespace, ..Which::default() };
        match look::list(session, &kind, &which).await {
            Ok(all) => waiting.extend(all.into_iter().filter(is_waiting)),
            // Whoever administers the operator's namespace need not be allowed to.
            Err(error) => {
                let kind = &kind.resource.kind;
                output::tell(&format!(
                    "note: cannot list the custom resources of the kind {kind}: {}",
                    sentence(&error)
                ));
            }
        }
    }
    Ok(waiting)
}

fn is_waiting(told: &Told) -> bool {
    let is_unproven =
        |condition: &Value| condition["type"] == "Ready" && condition["reason"] == Category::RecordUnproven.as_str();
    told.conditions().any(is_unproven)
}

/// One line for each.
fn listed<'a>(waiting: impl Iterator<Item = &'a Told>) -> String {
    let lines: String = waiting.map(|told| format!("  {}\n", told.shown())).collect();
    match lines.is_empty() {
        true => "no custom resource waits for its records to be signed (reason RecordUnproven)\n".to_owned(),
        false => format!("custom resources that wait for their records to be signed (reason RecordUnproven):\n{lines}"),
    }
}

fn data(told: &Told) -> Value {
    let owner = told.owner_mark();
    json!({"group": owner.group, "kind": owner.kind, "namespace": owner.namespace, "name": owner.name,
        "release": release_name(&told.status, &owner)})
}

/// ` in the namespace shop, releases web and db`
fn meant(limits: &Limits) -> String {
    let namespace = limits.namespace.as_ref().map(|name| format!(" in the namespace {name}")).unwrap_or_default();
    let releases = match limits.releases.as_slice() {
        [] => String::new(),
        names => format!(", and only the releases {}", names.join(", ")),
    };
    namespace + &releases
}

fn length(text: &str) -> Result<Duration, String> {
    let length = durations::parse(text).map_err(|error| error.to_string())?;
    match length.is_zero() || length > LONGEST {
        true => Err(format!("between 1s and {} h", LONGEST.as_secs() / 3600)),
        false => Ok(length),
    }
}
