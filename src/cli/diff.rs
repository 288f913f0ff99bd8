//! `chartwright diff`: what the next reconcile would change.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::output::{Colour, Format, print, print_coloured, tell};
use super::wanted::Wanted;
use crate::object::ObjectId;
use crate::preview::changes::{Change, What};
use crate::preview::unified::{coloured, unified};

/// Show what the next reconcile would change
///
/// Every object is compared with the API server's answer to a dry run, so defaults do not show. With -f, the custom resource
/// comes from a file: this is what `kubectl apply -f` of it would lead to. The data of Secrets is masked, and so are values that
/// came from ConfigMaps and Secrets; one that becomes another is shown as changed. Nothing is written.
///
/// Where the objects come from a release record, the dry runs would be of whatever somebody wrote into it. The command refuses a record
/// that the operator's public key does not verify, unless --allow-unproven is set.
///
/// The exit code is 0 if nothing would change, 1 if something would, and 2 if that cannot be told: the chart does not render,
/// the API server refuses an object, or the operator would do nothing for a reason that is printed.
#[derive(Debug, clap::Args)]
#[command(override_usage = "chartwright diff [OPTIONS] KIND NAME|KIND/NAME\n       chartwright diff [OPTIONS] -f FILE")]
#[command(after_help = "Examples:
  chartwright diff nginx web
  chartwright diff -f web.yaml
  chartwright diff nginx/web -o json | jq -r '.[].change'
  chartwright diff -f web.yaml; [ $? -lt 2 ] && kubectl apply -f web.yaml")]
pub struct Args {
    #[command(flatten)]
    pub wanted: Wanted,
    /// When to colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: Colour,
    /// Print data for scripts: a list of objects with what becomes of them
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<Format>,
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let ready = args.wanted.ready().await?;
    let scene = ready.scene();
    let preview = ready.preview("send dry runs, with your permissions, of the objects in").await?;
    let changes = preview.changes(&scene).await?;
    if let Some(revision) = preview.held() {
        tell(&format!(
            "note: revision {revision} is held, so the spec is not applied; `chartwright rollback --resume` ends that"
        ));
    }
    let hooks = preview.hooks_to_run();
    if !hooks.is_empty() {
        tell(&format!("note: a new revision would be made, and these hooks would run: {}", hooks.join(", ")));
    }
    match args.output {
        Some(format) => print(&format.text(&changes.iter().map(data).collect())?)?,
        None => {
            let text: String = changes.iter().map(unified).collect();
            if args.color.is_on() { print_coloured(&coloured(&text))? } else { print(&text)? }
        }
    }
    Ok(if changes.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn data(change: &Change) -> Value {
    let mut data = json!({
        "object": reference(&change.id),
        "change": change.what.as_str(),
        "before": change.before,
        "after": change.after,
    });
    if let What::Kept(why) = change.what {
        data["reason"] = why.into();
    }
    data
}

fn reference(id: &ObjectId) -> Value {
    let gvk = id.gvk();
    json!({"apiVersion": gvk.api_version(), "kind": id.kind, "namespace": id.namespace, "name": id.name})
}
