//! What can go wrong between a chart and a project. Each is one line that says what to do.

use std::path::PathBuf;

use super::api::ApiError;
use crate::chart::ChartError;
use crate::manifest::ManifestError;
use crate::render::RenderError;

#[derive(Debug, thiserror::Error)]
pub enum ScaffoldError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(
        "{0:?} is no name for a project: it is made of small letters, digits and `-`, {1} at most; name another with --project-name"
    )]
    ProjectName(String, usize),
    #[error("{0:?} is no domain: it is made of small letters, digits, `-` and `.`, as in `example.com`")]
    Domain(String),
    #[error("{0:?} is no plural: it is made of small letters, digits and `-`, as in `nginxes`")]
    Plural(String),
    #[error("name a kind with --kind, which makes a starter chart, or a chart with --helm-chart")]
    NeitherKindNorChart,
    #[error("{0} goes with --helm-chart: name the chart")]
    FlagWithoutChart(&'static str),
    #[error("the chart's name {chart:?} makes no kind: {error}; name one with --kind")]
    KindOfChart { chart: String, error: ApiError },

    #[error("there is no PROJECT file in {0}; make a project with `chartwright init`, or change to its directory")]
    NoProject(PathBuf),
    #[error(
        "there is no watches.yaml with an entry here; change to the project's directory, or name --chart, --group, --version and --kind"
    )]
    NothingWatched,
    #[error("this is no project of operator-sdk's helm plugin: {0}")]
    NotOfOperatorSdk(String),
    #[error("PROJECT is none of a helm project: {0}")]
    ProjectFile(String),
    #[error("{field} of this project is {present:?} already, as PROJECT says, not {wanted:?}")]
    OtherProject { field: &'static str, present: String, wanted: String },
    #[error("the API {0} exists already")]
    Exists(String),
    #[error("the API {missing} is not in this project; it has {present}")]
    Unknown { missing: String, present: String },
    #[error("the kind {kind} is in this project already, in the group {group}; give this one another name with --kind")]
    KindTaken { kind: String, group: String },
    #[error(
        "the plural {plural:?} is that of {kind}, which is in this project already; give this kind another with --plural"
    )]
    PluralTaken { plural: String, kind: String },
    #[error(
        "{place} is the chart of {kind}, and differs from this one of the same name; rename this one in its Chart.yaml, or delete the API {kind} before"
    )]
    ChartTaken { place: PathBuf, kind: String },
    #[error(
        "all versions of {0} are made by the chart that it has; leave --helm-chart out, and name the kind with --kind"
    )]
    ChartOfVersion(String),
    #[error("{kind} is {present} in its other versions, and cannot be {wanted} in this one")]
    Scope { kind: String, present: &'static str, wanted: &'static str },
    #[error("the plural of {kind} is {present:?} in its other versions, and cannot be {wanted:?} in this one")]
    OtherPlural { kind: String, present: String, wanted: String },
    #[error("watches.yaml has no entry for {kind} of {group}, which PROJECT has; put it back, or make the API again")]
    NotWatched { kind: String, group: String },
    #[error("the entry for {0} in watches.yaml cannot be told from the rest; edit it by hand")]
    Entry(String),
    #[error("{file} has no line `# {marker}`, where a line is to be put in; add it at the end {place}")]
    NoMarker { file: PathBuf, marker: &'static str, place: &'static str },
    #[error("{file} cannot be changed: {reason}")]
    Generated { file: PathBuf, reason: String },

    #[error("{}", changed(.0))]
    Changed(Vec<PathBuf>),
    #[error("cannot read {file}: {error}")]
    Read { file: PathBuf, error: std::io::Error },
    #[error("{file} is no text")]
    NotText { file: PathBuf },
    #[error("cannot write {file}: {error}; nothing was changed")]
    Write { file: PathBuf, error: std::io::Error },
    #[error("cannot write {file}: {error}; what was changed before it could not be undone: {left}")]
    Stuck { file: PathBuf, error: std::io::Error, left: String },

    #[error(
        "{0:?} is no chart: there is no such directory or file; name a directory, a .tgz, an address, oci://…, REPOSITORY/CHART, or the chart's repository with --helm-chart-repo"
    )]
    NoSuchChart(String),
    #[error(
        "helm knows no repository {0:?}; add it with `helm repo add {0} URL`, or name its address with --helm-chart-repo"
    )]
    UnknownRepository(String),
    #[error(
        "the chart calls itself {0:?}, and a chart's name is made of letters, digits, `-`, `_` and `.` only; correct its Chart.yaml"
    )]
    ChartName(String),
    #[error("the chart at {place} is {present}, not {wanted}; leave --helm-chart-version out, or name another chart")]
    OtherVersion { place: String, present: String, wanted: String },
    #[error("cannot fetch {what}: {said}")]
    Fetch { what: String, said: String },
    #[error("cannot fetch {what}: helm did not end within {seconds} s")]
    TooSlow { what: String, seconds: u64 },
    #[error("cannot fetch the dependencies of {chart}: {said}")]
    Dependencies { chart: String, said: String },
    #[error("cannot write a temporary file: {0}")]
    Temporary(std::io::Error),
    // Not as text: whoever prints the cause too would say it twice.
    #[error(transparent)]
    Chart(#[from] ChartError),
    #[error("{0}")]
    Helm(RenderError),
    #[error("the chart {chart} does not render: {reason}")]
    Render { chart: String, reason: String },
}

impl ScaffoldError {
    /// Whether the arguments alone are wrong.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            ScaffoldError::Api(_)
                | ScaffoldError::ProjectName(..)
                | ScaffoldError::Domain(_)
                | ScaffoldError::Plural(_)
                | ScaffoldError::NeitherKindNorChart
                | ScaffoldError::FlagWithoutChart(_)
        )
    }

    pub fn not_objects(chart: &str, error: &ManifestError) -> Self {
        ScaffoldError::Render { chart: chart.to_owned(), reason: error.to_string() }
    }
}

fn changed(files: &[PathBuf]) -> String {
    const SHOWN: usize = 3;
    let names: Vec<String> = files.iter().take(SHOWN).map(|file| file.display().to_string()).collect();
    let more = files.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let (exist, them) = if files.len() == 1 { ("exists and differs", "it") } else { ("exist and differ", "them") };
    format!(
        "{}{more} {exist} from what would be written; move {them} away, or replace {them} with --force",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_chart_is_said_once() {
        let error = ChartError::Schema { file: "a.json".into(), reason: "no".into() };
        assert_eq!(format!("{:#}", anyhow::Error::from(ScaffoldError::from(error))), "a.json is not JSON: no");
    }
}
