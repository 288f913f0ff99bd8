//! `chartwright generate crd`: the definitions of a project from its charts, or that of one kind.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use super::{File, renew};
use crate::cli::Usage;
use crate::cli::output::{print, tell};
use crate::cli::scaffolding::sorted;
use crate::scaffold::api::{Api, is_name};
use crate::scaffold::crd::{Options, add_version, definition};
use crate::scaffold::definitions::{self, Renewed};
use crate::scaffold::draft::Draft;
use crate::scaffold::full_samples;
use crate::scaffold::values::ChartValues;

/// Regenerate the CustomResourceDefinitions of the project from its charts, or print that of one chart
///
/// Without --chart, in the directory of a project: each definition in config/crd/bases is regenerated from the chart that watches.yaml names
/// for its kind. Names, versions, the stored one, and whether types are enforced stay as the file has them. The lists of values in
/// config/samples/full are regenerated too. The difference is shown, and all files are written or none. With --chart, a definition is printed and nothing is written.
///
/// With a values.schema.json the spec is checked by it, as far as a CRD can say it. Without one, names, comments and defaults of
/// values.yaml are shown, and nothing is enforced. What `helm install` accepts is accepted. What could not be said is told as a note.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  chartwright generate crd
  chartwright generate crd --check
  chartwright generate crd --chart helm-charts/nginx --group demo.example.com --version v1alpha1 --kind Nginx
  chartwright generate crd --chart web-1.2.3.tgz --group example.com --version v1 --kind Web --short-name wb
  chartwright generate crd --chart helm-charts/nginx --group demo.example.com --version v1 --kind Nginx \\
    --add-to config/crd/bases/demo.example.com_nginxes.yaml")]
pub struct Args {
    /// Write nothing; show the difference and end with 1 if there is one
    #[arg(long, conflicts_with = "chart")]
    pub check: bool,
    /// Print the definition of this chart, a directory or a packed chart
    #[arg(long, value_name = "PATH", requires_all = ["group", "version", "kind"])]
    pub chart: Option<PathBuf>,
    /// The API group, with its domain
    #[arg(long, requires = "chart")]
    pub group: Option<String>,
    /// The version of the API, such as v1alpha1
    #[arg(long, requires = "chart")]
    pub version: Option<String>,
    /// The kind, in CamelCase
    #[arg(long, requires = "chart")]
    pub kind: Option<String>,
    /// Custom resources without a namespace
    #[arg(long, requires = "chart")]
    pub cluster_scoped: bool,
    /// One more name for kubectl; may be given several times
    #[arg(long, value_name = "NAME", requires = "chart", conflicts_with = "add_to", value_parser = short_name)]
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
    #[arg(long, value_name = "FILE", requires = "chart")]
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
    let options = Options {
        strict_types: args.strict_types,
        values_from: args.values_from,
        no_scale: args.no_scale,
        short_names: args.short_name.clone(),
    };
    match (&args.chart, &args.group, &args.version, &args.kind) {
        (Some(chart), Some(group), Some(version), Some(kind)) => {
            let wrong = |error: crate::scaffold::api::ApiError| Usage(error.to_string());
            let api = Api::new(group, version, kind, !args.cluster_scoped).map_err(wrong)?;
            print_one(&api, &ChartValues::read(chart)?, &options, args.add_to.as_deref())
        }
        _ => renew_all(&options, args.check),
    }
}

fn print_one(api: &Api, chart: &ChartValues, options: &Options, add_to: Option<&Path>) -> anyhow::Result<ExitCode> {
    let made = match add_to {
        None => definition(api, chart, options)?,
        Some(file) => {
            let existing = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            add_version(&existing, api, chart, options).with_context(|| file.display().to_string())?
        }
    };
    for note in &made.notes {
        tell(&format!("note: {note}"));
    }
    print(&made.text)?;
    Ok(ExitCode::SUCCESS)
}

fn renew_all(options: &Options, is_check: bool) -> anyhow::Result<ExitCode> {
    let mut draft = Draft::of(Path::new("."));
    let (all, notes) = definitions::renewed(&draft, options).map_err(sorted)?;
    notes.iter().for_each(|note| tell(&format!("note: {note}")));
    let lists = full_samples::renewed(&draft).map_err(sorted)?;
    let files = all.into_iter().chain(lists).map(|Renewed { path, before, after }| File { name: path, before, after });
    let stale =
        "the CRDs or lists of values in the project are not those of its charts: run `chartwright generate crd`";
    renew(&mut draft, files.collect(), is_check.then_some(stale))
}
