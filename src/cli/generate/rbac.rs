//! `chartwright generate rbac`: the operator's role, from its charts.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use similar::TextDiff;

use crate::cli::Project;
use crate::cli::output::{Colour, print, tell};
use crate::preview::unified::coloured;
use crate::render::Helm;
use crate::scaffold::rbac::{self, Options, Surveys};
use crate::watches;

/// Make config/rbac/role.yaml from the charts: what the operator needs, and no more
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
    let helm = Helm::find(args.project.helm.as_deref()).await?;
    let watches = watches::load(file, project, &helm).await?;
    let options = Options {
        is_namespaced: args.namespaced,
        escalates: args.escalate,
        most_renders: args.max_renders,
        ..Options::default()
    };
    let generated = rbac::generate(project, &watches.entries, &helm, &options, &mut Surveys::default()).await?;
    let notes = watches.warnings.iter().map(|it| ("warning", it)).chain(generated.notes.iter().map(|it| ("note", it)));
    notes.for_each(|(word, text)| tell(&format!("{word}: {text}")));
    if args.stdout {
        let texts: Vec<&str> = generated.files.iter().map(|(_, text)| text.as_str()).collect();
        print(&texts.join("---\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut is_different = false;
    for (path, text) in &generated.files {
        is_different |= settle(&project.join(path), text, args.check)?;
    }
    if args.check && is_different {
        tell(
            "the rights in the project are not those that its charts need: run `chartwright generate rbac` with the same flags",
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows how a file differs, and writes it unless it is only checked. True where it did differ.
fn settle(path: &Path, text: &str, is_check: bool) -> anyhow::Result<bool> {
    let before = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        before => before.with_context(|| format!("cannot read {}", path.display()))?,
    };
    if before == text {
        tell(&format!("{} is as it should be", path.display()));
        return Ok(false);
    }
    let (from, to) = (format!("a/{}", path.display()), format!("b/{}", path.display()));
    let difference = TextDiff::from_lines(before.as_str(), text).unified_diff().header(&from, &to).to_string();
    print(&if Colour::Auto.is_on() { coloured(&difference) } else { difference })?;
    if !is_check {
        write(path, text)?;
        tell(&format!("{} is written", path.display()));
    }
    Ok(true)
}

/// All of it or nothing: the old file stays until the new one is whole.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}", path.display());
    let dir = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir).with_context(failed)?;
    let new = path.with_extension("yaml.new");
    std::fs::write(&new, text).with_context(failed)?;
    std::fs::rename(&new, path).with_context(failed)
}
