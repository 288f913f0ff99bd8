//! `chartwright delete api`: an API leaves an operator project.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::cli::output::print;
use crate::cli::scaffolding::{here, remarks, sorted, written};
use crate::render::Helm;
use crate::scaffold::create::project;
use crate::scaffold::delete::{Named, delete};

/// Remove an API from this project
///
/// Its entry in watches.yaml, its CRD, its sample and its roles go, and its chart if no other kind uses it and nobody has changed it. A CRD
/// that somebody has changed is left. Of a kind with several versions, only the named one goes. Nothing is removed from any cluster: `make uninstall` does that, before.
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
    /// Remove the CRD also if somebody has changed it, and write config/rbac/role.yaml anew
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
    // The rights of the other charts are found anew.
    let helm = Helm::find(args.helm.as_deref()).await?;
    let deleted = delete(&mut draft, &named, args.force, &helm).await.map_err(sorted)?;
    let plan = written(&draft, args.force)?;
    let rest = match deleted.others.as_slice() {
        [] => String::new(),
        others => format!("; {} stays", others.join(" and ")),
    };
    print(&format!("{}: removed from this project{rest}\n{}", deleted.api, remarks(&deleted.notes, &plan)))?;
    Ok(ExitCode::SUCCESS)
}
