//! `chartwright init`: a new operator project in the working directory.

use std::process::ExitCode;

use super::create::api::{Flags, Making, NEXT, told};
use super::output::print;
use super::scaffolding::{here, remarks, sorted, written};
use crate::scaffold::create::renew_role;
use crate::scaffold::init::{NewProject, init};
use crate::scaffold::layout;
use crate::scaffold::plan::Plan;

/// Make an operator project here
///
/// Writes the files that operator-sdk's helm projects have to the working directory: PROJECT, Makefile, Dockerfile, watches.yaml and
/// config/. Any flag of `create api` makes an API too. Nothing needs a cluster.
///
/// In a project, files that went are made again, and what somebody has changed is kept unless --force is given. On an error nothing is
/// written.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  chartwright init --domain example.com
  chartwright init --domain example.com --project-name shop --kind Nginx
  chartwright init --helm-chart web --helm-chart-repo https://charts.example.com")]
pub struct Args {
    /// What the groups of all APIs end with [default: my.domain]
    #[arg(long, value_name = "DOMAIN")]
    pub domain: Option<String>,
    /// The project's name, with which the names of its objects begin [default: the directory's name]
    #[arg(long, value_name = "NAME")]
    pub project_name: Option<String>,
    /// The kind of project. For scripts made for operator-sdk: there is only one
    #[arg(long, value_name = "PLUGIN", value_parser = ["helm", "helm.sdk.operatorframework.io", "helm.sdk.operatorframework.io/v1"])]
    pub plugins: Option<String>,
    /// The version of PROJECT. For scripts made for operator-sdk: there is only one
    #[arg(long, value_name = "VERSION", value_parser = ["3"])]
    pub project_version: Option<String>,
    #[command(flatten)]
    pub api: Flags,
    #[command(flatten)]
    pub making: Making,
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let force = args.making.force;
    let wanted = args.api.are_given().then(|| args.api.read(force)).transpose().map_err(sorted)?;
    let mut draft = here()?;
    let project = NewProject { name: args.project_name, domain: args.domain };
    let is_there = init(&mut draft, &project, force).await.map_err(sorted)?;
    let created = match &wanted {
        Some(wanted) => {
            let helm = args.making.helm().await?;
            Some(args.making.create(&mut draft, wanted, &helm).await?)
        }
        None => None,
    };
    let project = crate::scaffold::create::project(&draft).map_err(sorted)?;
    let has_apis = !project.resources()?.is_empty();
    let mut notes = vec![];
    // The one file that cannot be made again without helm.
    if draft.read(layout::ROLE).map_err(sorted)?.is_none() {
        let helm = args.making.helm().await?;
        notes = renew_role(&mut draft, project.name(), None, &helm).await.map_err(sorted)?;
    }
    let plan = written(&draft, force)?;
    let what = match (is_there, plan.steps.len()) {
        (true, 0) => "was there already, nothing is missing".to_owned(),
        (true, files) => format!("was there already; {files} files were written"),
        (false, files) => format!("{files} files"),
    };
    let mut text = format!("project {}, domain {}: {what}\n", project.name(), project.domain());
    text += &match &created {
        Some(created) => remarks(&notes, &Plan::default()) + &told(created, &plan),
        None if has_apis => remarks(&notes, &plan) + NEXT,
        None => remarks(&notes, &plan) + "next:\n  chartwright create api --kind Nginx\n",
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}
