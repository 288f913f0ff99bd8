//! `chartwright generate crd`: the definition of a kind, from its chart.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use crate::cli::Usage;
use crate::cli::output::{print, tell};
use crate::scaffold::api::{Api, is_name};
use crate::scaffold::crd::{Options, add_version, definition};
use crate::scaffold::values::ChartValues;

/// Print the CustomResourceDefinition of a kind, typed by what its chart says about its values
///
/// With a values.schema.json the spec is checked by it, as far as a CRD can say it. Without one, names, comments and defaults of
/// values.yaml are shown, and nothing is enforced. What `helm install` accepts is accepted. What could not be said is told as a note.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  chartwright generate crd --chart helm-charts/nginx --group demo.example.com --version v1alpha1 --kind Nginx
  chartwright generate crd --chart web-1.2.3.tgz --group example.com --version v1 --kind Web --short-name wb
  chartwright generate crd --chart helm-charts/nginx --group demo.example.com --version v1 --kind Nginx \\
    --add-to config/crd/bases/demo.example.com_nginxes.yaml")]
pub struct Args {
    /// The chart, as a directory or a packed chart
    #[arg(long, value_name = "PATH")]
    pub chart: PathBuf,
    /// The API group, with its domain
    #[arg(long)]
    pub group: String,
    #[arg(long)]
    pub version: String,
    #[arg(long)]
    pub kind: String,
    /// Custom resources without a namespace
    #[arg(long)]
    pub cluster_scoped: bool,
    /// One more name for kubectl; may be given several times
    #[arg(long, value_name = "NAME", conflicts_with = "add_to", value_parser = short_name)]
    pub short_name: Vec<String>,
    /// Enforce the types of the default values where no schema says anything
    #[arg(long)]
    pub strict_types: bool,
    /// Require nothing in the spec, since ConfigMaps and Secrets may hold values too
    #[arg(long)]
    pub values_from: bool,
    /// No scale subresource, although the chart has a number of replicas
    #[arg(long)]
    pub no_scale: bool,
    /// Print this definition with one version more, or with this version made anew
    #[arg(long, value_name = "FILE")]
    pub add_to: Option<PathBuf>,
}

fn short_name(text: &str) -> Result<String, String> {
    match is_name(text) {
        true => Ok(text.to_owned()),
        false => {
            Err("it is made of small letters, digits and `-`, begins with a letter, and has 63 at most".to_owned())
        }
    }
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let wrong = |error: crate::scaffold::api::ApiError| Usage(error.to_string());
    let api = Api::new(&args.group, &args.version, &args.kind, !args.cluster_scoped).map_err(wrong)?;
    let chart = ChartValues::read(&args.chart)?;
    let options = Options {
        strict_types: args.strict_types,
        values_from: args.values_from,
        no_scale: args.no_scale,
        short_names: args.short_name,
    };
    let made = match &args.add_to {
        None => definition(&api, &chart, &options)?,
        Some(file) => {
            let existing = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            add_version(&existing, &api, &chart, &options).with_context(|| file.display().to_string())?
        }
    };
    for note in &made.notes {
        tell(&format!("note: {note}"));
    }
    print(&made.text)?;
    Ok(ExitCode::SUCCESS)
}
