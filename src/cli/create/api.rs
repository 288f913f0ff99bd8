//! `chartwright create api`: a chart becomes an API of an operator project.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::cli::output::print;
use crate::cli::progress::Progress;
use crate::cli::scaffolding::{here, remarks, sorted, written};
use crate::render::Helm;
use crate::scaffold::create::{Created, NewApi, create};
use crate::scaffold::draft::Draft;
use crate::scaffold::error::ScaffoldError;
use crate::scaffold::generated::Options;
use crate::scaffold::plan::Plan;
use crate::scaffold::source::Wanted;
use crate::scaffold::source::fetching::Fetching;

/// Create an API from a chart
///
/// Run it in the directory of a project that `chartwright init` created. The chart is fetched with helm and saved with its dependencies to
/// helm-charts/. From it come an entry in watches.yaml, a CRD, samples and roles. No cluster is needed.
///
/// A chart is a directory, a .tgz, an address, REPOSITORY/CHART of a repository that helm knows, oci://…, or a name with
/// --helm-chart-repo. Without one, a starter chart is made, called like the kind. A kind that is there gets one more version.
///
/// What somebody has changed is not replaced without --force. On an error nothing is written.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  chartwright create api --kind Nginx
  chartwright create api --helm-chart ./charts/shop --group apps --version v1beta1
  chartwright create api --helm-chart web --helm-chart-repo https://charts.example.com --helm-chart-version 1.2.3
  chartwright create api --helm-chart oci://registry.example.com/charts/web:1.2.3
  chartwright create api --kind Nginx --version v1beta1")]
pub struct Args {
    #[command(flatten)]
    pub api: Flags,
    #[command(flatten)]
    pub making: Making,
}

/// What the API is and where its chart comes from. `init` has them too.
#[derive(Debug, Default, clap::Args)]
pub struct Flags {
    /// The API's group, without the domain [default: charts]
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// The API's version [default: v1alpha1]
    #[arg(long, value_name = "VERSION")]
    pub version: Option<String>,
    /// The API's kind [default: the chart's name in CamelCase]
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
    /// The kind's plural, in small letters [default: derived from the kind]
    #[arg(long, value_name = "NAME")]
    pub plural: Option<String>,
    /// The chart: a directory, a .tgz, an address, REPOSITORY/CHART, oci://…, or a name
    #[arg(long, value_name = "CHART")]
    pub helm_chart: Option<String>,
    /// The address of the repository that the chart is in
    #[arg(long, value_name = "URL")]
    pub helm_chart_repo: Option<String>,
    /// The chart's version [default: the newest]
    #[arg(long, value_name = "VERSION")]
    pub helm_chart_version: Option<String>,
    /// The version of the CRD's format, which can only be v1
    #[arg(long, value_name = "VERSION", value_parser = ["v1"])]
    pub crd_version: Option<String>,
    /// Whether custom resources are in namespaces [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub namespaced: Option<bool>,
    /// Have the CRD enforce the types of values.yaml, where the chart has no schema
    #[arg(long)]
    pub strict_types: bool,
}

/// How it is made. `init` has them too.
#[derive(Debug, clap::Args)]
pub struct Making {
    /// Replace files that somebody has changed
    #[arg(long)]
    pub force: bool,
    /// Speak to OCI registries without TLS
    #[arg(long)]
    pub plain_http: bool,
    /// Do not check certificates when charts are fetched
    #[arg(long, alias = "insecure")]
    pub insecure_skip_tls_verify: bool,
    /// The helm program, version 3 or 4 [default: `helm` on PATH]
    #[arg(long, value_name = "PATH", env = "CHARTWRIGHT_HELM")]
    pub helm: Option<PathBuf>,
}

impl Flags {
    /// Whether any of them was given.
    pub fn are_given(&self) -> bool {
        let texts = [&self.group, &self.version, &self.kind, &self.plural, &self.helm_chart, &self.helm_chart_repo];
        texts.into_iter().chain([&self.helm_chart_version, &self.crd_version]).any(Option::is_some)
            || self.namespaced.is_some()
            || self.strict_types
    }

    /// What they mean, before anything is looked at but the chart's path.
    pub fn read(&self, is_forced: bool) -> Result<NewApi, ScaffoldError> {
        let chart = match &self.helm_chart {
            Some(chart) => {
                let (repository, version) = (self.helm_chart_repo.as_deref(), self.helm_chart_version.as_deref());
                Some(Wanted::read(chart, repository, version)?)
            }
            None if self.helm_chart_repo.is_some() => return Err(ScaffoldError::FlagWithoutChart("--helm-chart-repo")),
            None if self.helm_chart_version.is_some() => {
                return Err(ScaffoldError::FlagWithoutChart("--helm-chart-version"));
            }
            None if self.kind.is_none() => return Err(ScaffoldError::NeitherKindNorChart),
            None => None,
        };
        Ok(NewApi {
            group: self.group.clone().unwrap_or_else(|| "charts".to_owned()),
            version: self.version.clone().unwrap_or_else(|| "v1alpha1".to_owned()),
            kind: self.kind.clone(),
            plural: self.plural.clone(),
            is_namespaced: self.namespaced,
            chart,
            options: Options { strict_types: self.strict_types, ..Options::default() },
            is_forced,
        })
    }
}

impl Making {
    pub async fn helm(&self) -> anyhow::Result<Helm> {
        Ok(Helm::find(self.helm.as_deref()).await?)
    }

    /// Puts an API into a draft, with its progress on a terminal.
    pub async fn create(&self, draft: &mut Draft, wanted: &NewApi, helm: &Helm) -> anyhow::Result<Created> {
        let fetching = Fetching { helm, plain_http: self.plain_http, insecure: self.insecure_skip_tls_verify };
        let progress = Progress::new();
        create(draft, wanted, &fetching, &|what| progress.show(what)).await.map_err(sorted)
    }
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let wanted = args.api.read(args.making.force).map_err(sorted)?;
    let mut draft = here()?;
    crate::scaffold::create::project(&draft).map_err(sorted)?;
    let helm = args.making.helm().await?;
    let created = args.making.create(&mut draft, &wanted, &helm).await?;
    let plan = written(&draft, args.making.force)?;
    print(&told(&created, &plan))?;
    Ok(ExitCode::SUCCESS)
}

/// What to do once there is an API.
pub const NEXT: &str = "next:\n  make install run\nthen, in another terminal:\n  kubectl apply -k config/samples\n";

/// What was created, and what to do next.
pub fn told(created: &Created, plan: &Plan) -> String {
    let (chart, version) = &created.chart;
    let mut text = match created.is_new_version {
        true => format!("created API {}, another version of the kind, with chart {chart} {version}\n", created.api),
        false => format!("created API {} from chart {chart} {version}\n", created.api),
    };
    if !created.is_new_version {
        text += &format!("  chart: helm-charts/{chart}\n");
    }
    text += &format!("  CRD: {}\n  sample: {}\n", created.definition, created.sample);
    text += &format!("  all values, for reference: {}\n", created.values);
    text += &remarks(&created.notes, plan);
    text + NEXT
}
