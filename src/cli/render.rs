//! `chartwright render`: what the next reconcile would apply, to the letter.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::output::{Format, print, yaml};
use super::wanted::Wanted;

/// Print the objects that the next reconcile would apply
///
/// They come in the order of application, with every label, annotation and owner reference that the operator adds, and with the
/// data of Secrets. Values that the operator generates are masked, unless --show-secrets is set; nothing else is. Where they are not known
/// yet, or the Secret that holds them may not be read, placeholders stand for them. Where nothing changed since the last revision, they are those of its record: random passwords are as they
/// are. Where something changed, the chart is rendered anew. The command refuses a record that the operator's public key does not verify,
/// unless --allow-unproven is set. With -f, the custom resource comes from a file and need not be in the cluster; its UID is then not
/// known, and a word stands for it.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "chartwright render [OPTIONS] KIND NAME|KIND/NAME\n       chartwright render [OPTIONS] -f FILE"
)]
#[command(after_help = "Examples:
  chartwright render nginx web
  chartwright render -f web.yaml
  chartwright render nginx/web -o json | jq '.items[].kind'")]
pub struct Args {
    #[command(flatten)]
    pub wanted: Wanted,
    /// Print generated values too
    #[arg(long)]
    pub show_secrets: bool,
    /// Print data for scripts: JSON is one List
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<Format>,
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let ready = args.wanted.ready().await?;
    let scene = ready.scene();
    let preview = ready.preview("print the objects of").await?;
    let objects = preview.objects(&scene).await?;
    let mut values: Vec<Value> = objects.iter().map(|object| object.value().clone()).collect();
    if !args.show_secrets {
        for value in &mut values {
            preview.generated.object(value);
        }
    }
    print(&match args.output {
        Some(Format::Json) => Format::Json.text(&json!({"apiVersion": "v1", "kind": "List", "items": values}))?,
        None | Some(Format::Yaml) => documents(&values)?,
    })?;
    Ok(ExitCode::SUCCESS)
}

fn documents(values: &[Value]) -> anyhow::Result<String> {
    let mut text = String::new();
    for value in values {
        text.push_str("---\n");
        text.push_str(&yaml(value)?);
    }
    Ok(text)
}
