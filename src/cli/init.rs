//! `chartwright init`: a new operator project in the working directory.

use std::process::ExitCode;

use super::create::api::{Flags, Making, NEXT, told};
use super::output::print;
use super::progress::Progress;
use super::scaffolding::{here, remarks, sorted, written};
use crate::scaffold::create::renew_role;
use crate::scaffold::init::{NewProject, init};
use crate::scaffold::layout;
use crate::scaffold::plan::Plan;
use crate::scaffold::rbac::Surveys;

/// Create an operator project here
///
/// Writes the files that operator-sdk's helm projects have to the working directory: PROJECT, Makefile, Dockerfile, watches.yaml and
/// config/, and a README.md if there is none. Any flag of `create api` creates an API too. No cluster is needed.
///
/// In an existing project, missing files are written again, and changed files are kept unless --force is given. On an error nothing is
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

/// What to do in a project without APIs.
const FIRST: &str = "next:
  chartwright create api --helm-chart CHART
or, with a starter chart:
  chartwright create api --kind Nginx
";

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let force = args.making.force;
    let wanted = args.api.are_given().then(|| args.api.read(force)).transpose().map_err(sorted)?;
    let mut draft = here()?;
    let project = NewProject { name: args.project_name, domain: args.domain };
    let is_there = init(&mut draft, &project, force).map_err(sorted)?;
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
        let (helm, progress) = (args.making.helm().await?, Progress::new());
        let progress = |what: &str| progress.show(what);
        let mut surveys = Surveys::new(&helm, &progress);
        notes = renew_role(&mut draft, project.name(), None, &mut surveys).await.map_err(sorted)?;
    }
    let plan = written(&draft, force)?;
    let named = format!("project {} with domain {}", project.name(), project.domain());
    let mut text = match (is_there, plan.steps.len()) {
        (true, 0) => format!("{named} exists already, and no file is missing\n"),
        (true, files) => format!("{named} exists already; wrote {files} files\n"),
        (false, files) => format!("created {named}: {files} files\n"),
    };
    text += &match &created {
        Some(created) => remarks(&notes, &Plan::default()) + &told(created, &plan),
        None if has_apis => remarks(&notes, &plan) + NEXT,
        None => remarks(&notes, &plan) + FIRST,
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}
