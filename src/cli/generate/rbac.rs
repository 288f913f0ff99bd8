//! `chartwright generate rbac`: the operator's role, from its charts.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use super::{File, renew};
use crate::cli::Project;
use crate::cli::output::{print, tell};
use crate::cli::progress::Progress;
use crate::cli::scaffolding::sorted;
use crate::render::Helm;
use crate::scaffold::draft::Draft;
use crate::scaffold::rbac::{self, Options, Surveys};
use crate::watches;

/// Generate config/rbac/role.yaml from the charts: what the operator needs, and no more
///
/// Each chart is rendered with its default values, with every switch thrown, and with other texts where they matter; what its
/// templates name beyond that is added. No cluster is asked. Above each rule stands which files need it. Rules below the line
/// `# +kubebuilder:scaffold:rules` are yours and are kept. What could not be found out is told as a note: read the notes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  chartwright generate rbac
  chartwright generate rbac --check
  chartwright generate rbac --stdout --namespaced")]
pub struct Args {
    #[command(flatten)]
    pub project: Project,
    /// Write nothing; show the difference and end with 1 if there is one
    #[arg(long, conflicts_with = "stdout")]
    pub check: bool,
    /// Print the role and write nothing
    #[arg(long)]
    pub stdout: bool,
    /// Make a Role for an operator with WATCH_NAMESPACE, and a small ClusterRole for what has no namespace
    #[arg(long)]
    pub namespaced: bool,
    /// Let the operator make the charts' own roles by `escalate` and `bind`, in place of every rule that they have
    #[arg(long)]
    pub escalate: bool,
    /// How often each chart is rendered at most
    #[arg(long, value_name = "NUMBER", default_value_t = rbac::MOST_RENDERS, value_parser = at_least_one)]
    pub max_renders: usize,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "it is a number from 1".to_owned())
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let file = &args.project.watches_file;
    let project = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Charts are where `run` looks for them.
    let here = std::env::current_dir().context("cannot find the working directory")?;
    let helm = Helm::find(args.project.helm.as_deref()).await?;
    let watches = watches::load(file, &here, &helm).await?;
    let options = Options {
        is_namespaced: args.namespaced,
        escalates: args.escalate,
        most_renders: args.max_renders,
        ..Options::default()
    };
    let generated = {
        let progress = Progress::new();
        let progress = |what: &str| progress.show(what);
        rbac::generate(project, &watches.entries, &options, &mut Surveys::new(&helm, &progress)).await?
    };
    let notes = watches.warnings.iter().map(|it| ("warning", it)).chain(generated.notes.iter().map(|it| ("note", it)));
    notes.for_each(|(word, text)| tell(&format!("{word}: {text}")));
    if args.stdout {
        let texts: Vec<&str> = generated.files.iter().map(|(_, text)| text.as_str()).collect();
        print(&texts.join("---\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut draft = Draft::of(project);
    let mut files = vec![];
    for (path, text) in &generated.files {
        let name = path.display().to_string();
        let before = draft.read(&name).map_err(sorted)?.unwrap_or_default();
        files.push(File { name, before, after: text.clone() });
    }
    let stale = "the rights in the project are not those that its charts need: run `chartwright generate rbac` with the same flags";
    renew(&mut draft, files, args.check.then_some(stale))
}
