//! `chartwright history`: the revisions of a custom resource's release, as `helm history` shows them, and which one is held.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::access::{Access, Session, Verification};
use super::named;
use super::output::{Format, print, table};
use crate::release::{HeldBy, History, Hold, Release};

/// Show the revisions of a custom resource's release
///
/// The custom resource is named as with kubectl: by its kind, or its singular, plural or short name, and its own name. BY says
/// who wrote a revision, chartwright or helm. HELD says which revision was gone back to and is kept although the spec says
/// something else: by request (`chartwright rollback`), by helm (`helm rollback`), or after a failure. Times are in UTC.
///
/// With --operator-namespace, records are verified, and a warning names those that the operator did not sign.
#[derive(Debug, clap::Args)]
#[command(override_usage = "chartwright history [OPTIONS] KIND NAME|KIND/NAME")]
#[command(after_help = "Examples:
  chartwright history nginx web
  chartwright history nginx/web -n shop
  chartwright history nginxes.demo.chartwright.dev/web -o json")]
pub struct Args {
    /// The custom resource: `nginx web` or `nginx/web`
    #[arg(value_name = "KIND NAME", required = true, num_args = 1..=2)]
    pub resource: Vec<String>,
    #[command(flatten)]
    pub access: Access,
    #[command(flatten)]
    pub verification: Verification,
    /// Print data for scripts
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<Format>,
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let named = named::read_only(&args.resource)?;
    let session = args.access.connect_verifying(&args.verification).await?;
    let found = session.find(&named).await?;
    let history = session.revisions(&found).await?;
    session.tell_unproven(history.iter());
    print(&match args.output {
        None => text(&history),
        Some(format) => format.text(&history.iter().map(|release| data(release, &session)).collect())?,
    })?;
    Ok(ExitCode::SUCCESS)
}

fn text(history: &History) -> String {
    let rows: Vec<Vec<String>> = history.iter().map(row).collect();
    table(&["REVISION", "UPDATED", "STATUS", "CHART", "APP VERSION", "BY", "HELD", "DESCRIPTION"], &rows)
}

fn row(release: &Release) -> Vec<String> {
    let held = hold(release).map_or("-".to_owned(), shown);
    vec![
        release.revision.to_string(),
        release.last_deployed.strftime("%a %b %e %H:%M:%S %Y").to_string(),
        release.status.as_str().to_owned(),
        chart(release),
        app_version(release).to_owned(),
        by(release).to_owned(),
        held,
        // helm's errors have several lines.
        release.description.lines().next().unwrap_or_default().to_owned(),
    ]
}

/// helm's names, and ours.
fn data(release: &Release, session: &Session) -> Value {
    json!({
        "revision": release.revision,
        "updated": release.last_deployed.to_string(),
        "status": release.status.as_str(),
        "chart": chart(release),
        "app_version": app_version(release),
        "description": release.description,
        "by": by(release),
        "held": hold(release),
        "proven": session.is_proven(release),
    })
}

fn hold(release: &Release) -> Option<&Hold> {
    release.own.as_ref()?.hold.as_ref()
}

/// `at 2, by request`
fn shown(hold: &Hold) -> String {
    let by = match hold.by {
        HeldBy::Helm => "by helm",
        HeldBy::Request => "by request",
        HeldBy::Failure => "after a failure",
    };
    hold.to.map_or(by.to_owned(), |to| format!("at {to}, {by}"))
}

fn chart(release: &Release) -> String {
    format!("{}-{}", release.chart_name(), release.chart["version"].as_str().unwrap_or_default())
}

fn app_version(release: &Release) -> &str {
    release.chart["appVersion"].as_str().unwrap_or_default()
}

fn by(release: &Release) -> &'static str {
    if release.was_made_by_helm() { "helm" } else { "chartwright" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_is_told_in_a_few_words() {
        let hold = |to, by| shown(&Hold { to, digest: String::new(), by, failed: None });
        assert_eq!(hold(Some(2), HeldBy::Request), "at 2, by request");
        assert_eq!(hold(Some(2), HeldBy::Failure), "at 2, after a failure");
        assert_eq!(hold(None, HeldBy::Helm), "by helm");
    }
}
