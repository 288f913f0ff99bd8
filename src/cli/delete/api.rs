//! `chartwright delete api`: an API leaves an operator project.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::cli::output::print;
use crate::cli::progress::Progress;
use crate::cli::scaffolding::{here, remarks, sorted, written};
use crate::render::Helm;
use crate::scaffold::create::project;
use crate::scaffold::delete::{Named, delete};
use crate::scaffold::rbac::Surveys;

/// Remove an API from this project
///
/// Deletes its entry in watches.yaml, its CRD, samples and roles, and its chart if no other kind uses it and nobody has changed it. A CRD
/// that somebody has changed stays. Of a kind with several versions, only the named one goes. Nothing is removed from any cluster: `make uninstall` does that, before.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  chartwright delete api --kind Nginx
  chartwright delete api --group apps --version v1beta1 --kind Shop")]
pub struct Args {
    /// The API's group, without the domain
    #[arg(long, value_name = "GROUP", default_value = "charts")]
    pub group: String,
    /// The API's version
    #[arg(long, value_name = "VERSION", default_value = "v1alpha1")]
    pub version: String,
    /// The API's kind
    #[arg(long, value_name = "KIND")]
    pub kind: String,
    /// Remove the CRD also if somebody has changed it, and regenerate config/rbac/role.yaml
    #[arg(long)]
    pub force: bool,
    /// The helm program, version 3 or 4 [default: `helm` on PATH]
    #[arg(long, value_name = "PATH", env = "CHARTWRIGHT_HELM")]
    pub helm: Option<PathBuf>,
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut draft = here()?;
    let named = Named { group: args.group, version: args.version, kind: args.kind };
    project(&draft).map_err(sorted)?;
    // The role is generated from the charts that stay.
    let helm = Helm::find(args.helm.as_deref()).await?;
    let deleted = {
        let progress = Progress::new();
        let progress = |what: &str| progress.show(what);
        delete(&mut draft, &named, args.force, &mut Surveys::new(&helm, &progress)).await.map_err(sorted)?
    };
    let plan = written(&draft, args.force)?;
    let rest = match deleted.others.as_slice() {
        [] => String::new(),
        others => format!("; {} stays", others.join(" and ")),
    };
    print(&format!("deleted API {} from this project{rest}\n{}", deleted.api, remarks(&deleted.notes, &plan)))?;
    Ok(ExitCode::SUCCESS)
}
