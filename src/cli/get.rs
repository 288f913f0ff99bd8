//! `chartwright get values` and `chartwright get manifest`: what a revision was made with, and what it consists of.

use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};

use super::access::{Access, Session, Verification};
use super::named;
use super::output::{Format, print, yaml};
use crate::manifest;
use crate::printable::is_printable;
use crate::redaction::Redactor;
use crate::release::mask::{self, MASK};
use crate::release::{self, History, Release};

/// Show the values or the manifest of a revision
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, clap::Subcommand)]
pub enum What {
    Values(Values),
    Manifest(Manifest),
}

/// Show the values that a revision was made with
///
/// These are the spec of the custom resource at that time, the overrides of watches.yaml, and what came from ConfigMaps and Secrets.
/// What came from there is masked; the rest is printed as it is, passwords included. The chart's defaults are not among them.
#[derive(Debug, clap::Args)]
#[command(override_usage = "chartwright get values [OPTIONS] KIND NAME|KIND/NAME")]
#[command(after_help = "Examples:
  chartwright get values nginx web
  chartwright get values nginx/web --revision 2 -o json")]
pub struct Values {
    #[command(flatten)]
    pub common: Common,
    /// Print what came from ConfigMaps and Secrets too
    #[arg(long)]
    pub show_secrets: bool,
}

/// Show the objects that a revision consists of
///
/// They are printed as the release record holds them, with the data of Secrets masked, and with values that came from ConfigMaps and
/// Secrets. Labels, annotations and owner references
/// that the operator adds are not among them: `chartwright render` shows those.
#[derive(Debug, clap::Args)]
#[command(override_usage = "chartwright get manifest [OPTIONS] KIND NAME|KIND/NAME")]
#[command(after_help = "Examples:
  chartwright get manifest nginx web
  chartwright get manifest nginx/web --revision 2
  chartwright get manifest nginx/web --show-secrets -o json")]
pub struct Manifest {
    #[command(flatten)]
    pub common: Common,
    /// Print what is masked too
    #[arg(long)]
    pub show_secrets: bool,
}

#[derive(Debug, clap::Args)]
pub struct Common {
    /// The custom resource: `nginx web` or `nginx/web`
    #[arg(value_name = "KIND NAME", required = true, num_args = 1..=2)]
    pub resource: Vec<String>,
    /// Which revision [default: the deployed one, or else the latest]
    #[arg(long, value_name = "N")]
    pub revision: Option<u32>,
    #[command(flatten)]
    pub access: Access,
    #[command(flatten)]
    pub verification: Verification,
    /// Print data for scripts
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<Format>,
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let text = match args.what {
        What::Values(Values { common, show_secrets }) => {
            let (session, history) = common.history().await?;
            let release = pick(&history, common.revision)?;
            session.tell_unproven([release]);
            let values = if show_secrets { release.config.value() } else { masked(release, &history) };
            common.output.map_or_else(|| yaml(&values), |format| format.text(&values))?
        }
        What::Manifest(Manifest { common, show_secrets }) => {
            let (session, history) = common.history().await?;
            let release = pick(&history, common.revision)?;
            session.tell_unproven([release]);
            let text = if show_secrets { release.manifest.read().into_owned() } else { shown(release, &history) };
            match common.output {
                // The record holds YAML already. Where it holds characters that are escaped in the output, it is written
                // anew: an escape means that character only in a quoted string.
                None | Some(Format::Yaml) if is_printable(&text) => text,
                None | Some(Format::Yaml) => documents(&text)?,
                Some(format) => format.text(&list(&text)?)?,
            }
        }
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

impl Common {
    async fn history(&self) -> anyhow::Result<(Session, History)> {
        let named = named::read_only(&self.resource)?;
        let session = self.access.connect_verifying(&self.verification).await?;
        let found = session.find(&named).await?;
        let history = session.revisions(&found).await?;
        Ok((session, history))
    }
}

/// The values of a revision, without what came from ConfigMaps and Secrets.
fn masked(release: &Release, history: &History) -> Value {
    let mut values = release.config.value();
    for pointer in mask::sourced(release, history.iter()) {
        values.pointer_mut(pointer).into_iter().for_each(|value| *value = MASK.into());
    }
    values
}

fn shown(release: &Release, history: &History) -> String {
    let mut redactor = Redactor::default();
    redactor.learn(&release.config.value(), mask::sourced(release, history.iter()));
    release::with_secrets_masked(&release.manifest.read(), &redactor)
}

fn pick(history: &History, revision: Option<u32>) -> anyhow::Result<&Release> {
    match revision {
        Some(wanted) => history.get(wanted).ok_or_else(|| no_such_revision(history, wanted)),
        None => match history.deployed().or_else(|| history.latest()) {
            Some(release) => Ok(release),
            None => bail!("there is no revision"),
        },
    }
}

/// Names those that are there.
pub fn no_such_revision(history: &History, wanted: u32) -> anyhow::Error {
    let known: Vec<String> = history.iter().map(|release| release.revision.to_string()).collect();
    anyhow::anyhow!("there is no revision {wanted}; there are {}", known.join(", "))
}

/// The objects as a stream of documents.
fn documents(manifest: &str) -> anyhow::Result<String> {
    let rendered = manifest::read_record(manifest)?;
    let documents = rendered.objects.iter().map(|object| Ok(format!("---\n{}", yaml(object.value())?)));
    documents.collect()
}

/// All objects as one List, so that there is one document.
fn list(manifest: &str) -> anyhow::Result<Value> {
    let rendered = manifest::read_record(manifest)?;
    let items: Vec<&Value> = rendered.objects.iter().map(|object| object.value()).collect();
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": items}))
}
