//! `chartwright validate`: a watches file and its charts, checked without a cluster.
//!
//! Every entry is looked at, also after one that is wrong. What would stop the operator is an error. What may be right with
//! some spec is a warning: a chart that refuses its default values is no mistake. Nothing is asked of a cluster, so kinds that
//! a chart renders are not checked, and helm believes in the Kubernetes version that it was made for.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::Context;
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use super::{Project, output};
use crate::discovery::Capabilities;
use crate::error::Category;
use crate::generate::make;
use crate::manifest::{self, Rendered};
use crate::reach::trial::SOME_NAMESPACE;
use crate::reach::{Allowance, Says, Trial, scopes};
use crate::render::{Helm, RenderError, Request};
use crate::values::Values;
use crate::watches::{self, Checked, Watch, WatchesError};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub project: Project,
    /// How to print the result
    #[arg(short, long, default_value = "text", value_name = "FORMAT")]
    pub output: Format,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Format {
    Text,
    Json,
}

/// Prints what was found. The exit code is 1 where there is an error.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let here = std::env::current_dir().context("cannot find the working directory")?;
    let helm = Helm::find(args.project.helm.as_deref()).await?;
    let report = match watches::check(&args.project.watches_file, &here, &helm).await {
        Ok(checked) => Report::of(checked, &helm).await,
        // Nothing could be looked at. Scripts get what they asked for all the same.
        Err(error) if matches!(args.output, Format::Text) => return Err(error.into()),
        Err(error) => Report { errors: vec![error.to_string()], ..Report::default() },
    };
    match args.output {
        Format::Text => output::print(&report.text())?,
        Format::Json => output::print(&output::Format::Json.text(&report.json())?)?,
    }
    Ok(if report.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[derive(Debug, Default)]
struct Report {
    /// What is wrong with the file as a whole, so that there are no entries.
    errors: Vec<String>,
    warnings: Vec<String>,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    /// Without one, the entry could not be read.
    watch: Option<Watch>,
    error: Option<String>,
    warning: Option<String>,
    /// What its releases may write.
    reach: Option<String>,
}

/// What a render with the default values showed.
enum Finding {
    Error(String),
    Warning(String),
}

impl Report {
    async fn of(checked: Checked, helm: &Helm) -> Self {
        let watched: Vec<_> = checked.entries.iter().flatten().map(|watch| watch.gvk.clone()).collect();
        let mut entries = vec![];
        for entry in checked.entries {
            entries.push(Entry::of(entry, &watched, helm).await);
        }
        Report { errors: vec![], warnings: checked.warnings, entries }
    }

    fn is_ok(&self) -> bool {
        self.errors.is_empty() && self.entries.iter().all(|entry| entry.error.is_none())
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |word: &str, rest: &str| {
            // Writing to a String never fails.
            let _ = writeln!(text, "{word:<7}  {rest}");
        };
        self.warnings.iter().for_each(|warning| line("warning", warning));
        for entry in &self.entries {
            let label = entry.label();
            match (&entry.error, &label) {
                (Some(error), Some(label)) => line("error", &format!("{label}: {error}")),
                (Some(error), None) => line("error", error),
                (None, label) => line("ok", label.as_deref().unwrap_or_default()),
            }
            if let (None, Some(reach)) = (&entry.error, &entry.reach) {
                line("", reach);
            }
            if let Some(warning) = &entry.warning {
                line("warning", &format!("{}: {warning}", label.unwrap_or_default()));
            }
        }
        text
    }

    fn json(&self) -> Value {
        json!({
            "ok": self.is_ok(),
            "errors": self.errors,
            "warnings": self.warnings,
            "entries": self.entries.iter().map(Entry::json).collect::<Vec<_>>(),
        })
    }
}

impl Entry {
    async fn of(entry: Result<Watch, WatchesError>, watched: &[GroupVersionKind], helm: &Helm) -> Self {
        match entry {
            Err(error) => Entry { watch: None, error: Some(error.to_string()), warning: None, reach: None },
            Ok(watch) => {
                let found = try_out(&watch, helm).await;
                let reach = Some(reach(&watch, watched, &found).to_string());
                let (error, warning) = match found {
                    Ok(_) => (None, None),
                    Err(Finding::Error(error)) => (Some(error), None),
                    Err(Finding::Warning(warning)) => (None, Some(warning)),
                };
                Entry { watch: Some(watch), error, warning, reach }
            }
        }
    }

    /// `apps/v1 Web  chart web 0.1.0`
    fn label(&self) -> Option<String> {
        let Watch { gvk, chart, .. } = self.watch.as_ref()?;
        Some(format!("{} {}  chart {} {}", gvk.api_version(), gvk.kind, chart.name, chart.version))
    }

    fn json(&self) -> Value {
        let watch = self.watch.as_ref().map(|Watch { gvk, chart, .. }| {
            json!({
                "group": gvk.group, "version": gvk.version, "kind": gvk.kind,
                "chart": {"name": chart.name, "version": chart.version, "digest": chart.digest},
            })
        });
        json!({"ok": self.error.is_none(), "watch": watch, "error": self.error, "warning": self.warning, "reach": self.reach})
    }
}

/// Renders with the chart's defaults and the overrides, as an empty spec would.
async fn try_out(watch: &Watch, helm: &Helm) -> Result<Rendered, Finding> {
    let stand_ins = make::stand_ins(&watch.generate);
    let values = Values::with_generated(None, &stand_ins, &watch.overrides)
        .map_err(|error| Finding::Warning(error.to_string()))?;
    let request = Request {
        chart: &watch.chart,
        release: "check",
        namespace: SOME_NAMESPACE,
        values: &values,
        capabilities: &Capabilities::default(),
        is_upgrade: false,
        revision: 1,
        is_patient: false,
    };
    let text = helm.template(&request).await.map_err(|error| finding(&error, watch))?;
    let not_objects = |error| format!("what it renders with its default values cannot be applied: {error}");
    manifest::read(&text).map_err(|error| Finding::Warning(not_objects(error)))
}

/// What the operator will say of it at its start. Without a cluster, only the scopes of Kubernetes' own kinds and of those that the
/// chart brings are known.
fn reach(watch: &Watch, watched: &[GroupVersionKind], found: &Result<Rendered, Finding>) -> Allowance {
    let by = |trial: Trial| trial.allowance(&watch.gvk, watched, scopes::is_namespaced);
    match (watch.allow, found) {
        (Some(reach), _) => Allowance { reach, says: Says::Watch },
        (None, Ok(rendered)) => by(Trial::made(rendered, SOME_NAMESPACE)),
        (None, Err(_)) => by(Trial::Refused("see the warning".to_owned())),
    }
}

fn finding(error: &RenderError, watch: &Watch) -> Finding {
    let others = if watch.values_from.is_empty() { "the spec" } else { "the spec or `valuesFrom`" };
    match error.category() {
        Category::RenderFailed | Category::InvalidValues => {
            let fine = format!("; fine if {others} must set them");
            let fine = if error.may_lack_values() { fine.as_str() } else { "" };
            Finding::Warning(format!("it does not render with its default values: {error}{fine}"))
        }
        _ => Finding::Error(error.to_string()),
    }
}
