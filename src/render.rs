//! The helm process: a chart and values become text.
//!
//! helm gets nothing of the operator's but its arguments: no credentials, no kubeconfig, no plugins, directories of its
//! own. It is killed, with whatever it started, when the caller loses interest, when it takes too long and when it prints too
//! much.
//!
//! | module | what is in it |
//! |---|---|
//! | [`lanes`] | how many renders run at once |
//! | [`process`] | one run of a program within limits |
//! | [`complaint`] | what helm says on failure, readable |
//! | [`schema`] | violations of values.schema.json |
//!
//! This module does not read the output: that is for [`crate::manifest`].

use std::ffi::OsString;
use std::fs::{OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::chart::{Chart, actions, revision};
use crate::discovery::Capabilities;
use crate::error::Category;
use crate::manifest::Rendered;
use crate::values::Values;
use crate::watches::Crds;

pub mod complaint;
pub mod lanes;
pub mod process;
pub mod schema;

pub use process::Limits;

use complaint::Complaint;
use process::{Ended, ProcessError};

/// A helm program that was found and answered.
#[derive(Clone, Debug)]
pub struct Helm {
    program: PathBuf,
    pub version: String,
    /// What one render may take.
    pub limits: Limits,
}

/// Everything that decides what a render prints.
pub struct Request<'a> {
    pub chart: &'a Chart,
    pub release: &'a str,
    pub namespace: &'a str,
    pub values: &'a Values,
    /// With an empty version, helm believes in the one that it was made for.
    pub capabilities: &'a Capabilities,
    pub is_upgrade: bool,
    /// As `.Release.Revision` says it. It counts only where it is asked for, see [`asks_revision`].
    pub revision: u32,
    /// Nobody waits for it.
    pub is_patient: bool,
}

impl Request<'_> {
    /// What the cluster offers once the chart's crds/ are there, which a first render has found. None where that changes
    /// nothing that the chart asks for.
    pub fn capabilities_with(&self, rendered: &Rendered, policy: Crds) -> Option<Capabilities> {
        let counts = self.chart.asks_kinds && policy != Crds::Skip;
        counts.then(|| self.capabilities.with_crds(&rendered.crds)).flatten()
    }
}

/// Whether a render may print the number of its revision. Values are asked too: a chart may call `tpl` on them.
pub fn asks_revision(chart: &Chart, values: &Values) -> bool {
    chart.asks_revision || actions::any_in_text(&values.file_json(), revision::is_asked_in)
}

#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    #[error("helm was not found ({0}); install helm 3 or 4, or name the program with --helm")]
    NotFound(String),
    #[error("{program} is not helm 3 or 4: {said}; install helm 3 or 4, or name the program with --helm")]
    WrongVersion { program: PathBuf, said: String },
    #[error("cannot run {program}: {error}")]
    Spawn { program: PathBuf, error: std::io::Error },
    #[error("cannot write a temporary file: {0}")]
    Temporary(std::io::Error),
    #[error("helm did not end within {} s and was stopped; look for an endless loop in the chart's templates", .0.as_secs_f32())]
    TimeLimit(Duration),
    #[error("helm printed more than {} MiB and was stopped; look for an endless loop in the chart's templates", .0 / 1024 / 1024)]
    OutputLimit(u64),
    /// The values break the chart's schema.
    #[error("{0}")]
    Schema(String),
    /// helm cannot read the chart, whatever the values.
    #[error("helm cannot read the chart: {0}")]
    Chart(String),
    /// The chart does not render with these values.
    #[error("{0}")]
    Refused(String),
    #[error("helm printed bytes that are not UTF-8")]
    NotText,
}

impl RenderError {
    pub fn category(&self) -> Category {
        match self {
            RenderError::Schema(_) => Category::InvalidValues,
            RenderError::Chart(_) => Category::InvalidChart,
            RenderError::Refused(_) | RenderError::NotText | RenderError::OutputLimit(_) => Category::RenderFailed,
            RenderError::NotFound(_)
            | RenderError::WrongVersion { .. }
            | RenderError::Spawn { .. }
            | RenderError::Temporary(_)
            | RenderError::TimeLimit(_) => Category::HelmFailed,
        }
    }
}

impl From<Complaint> for RenderError {
    fn from(complaint: Complaint) -> Self {
        match complaint {
            Complaint::Schema(text) => RenderError::Schema(text),
            Complaint::Chart(text) => RenderError::Chart(text),
            Complaint::Template(text) => RenderError::Refused(text),
        }
    }
}

impl Helm {
    /// Finds helm, by the given path or on PATH, and asks for its version.
    pub async fn find(explicit: Option<&Path>) -> Result<Self, RenderError> {
        let program = match explicit {
            Some(path) => {
                which::which(path).map_err(|error| RenderError::NotFound(format!("{}: {error}", path.display())))
            }
            None => which::which("helm").map_err(|_| RenderError::NotFound("no `helm` on PATH".into())),
        }?;
        let mut helm = Helm { program, version: String::new(), limits: Limits::default() };
        let args = ["version", "--template", "{{.Version}}"].map(OsString::from);
        let ended = helm.run(&private_dir()?, &args).await?;
        let said = String::from_utf8_lossy(&ended.stdout).trim().to_owned();
        if !ended.success || !(said.starts_with("v3.") || said.starts_with("v4.")) {
            let said = if said.is_empty() { ended.stderr.trim() } else { said.as_str() };
            let said = said.lines().next().unwrap_or("it printed nothing").to_owned();
            return Err(RenderError::WrongVersion { program: helm.program, said });
        }
        helm.version = said;
        Ok(helm)
    }

    /// Renders a chart.
    pub async fn template(&self, request: &Request<'_>) -> Result<String, RenderError> {
        let home = private_dir()?;
        let values = home.path().join("values.json");
        write(&values, &request.values.file_json()).map_err(RenderError::Temporary)?;
        let mut chart = request.chart.dir.clone();
        // helm says by itself that the first is 1.
        if request.revision > 1 && asks_revision(request.chart, request.values) {
            let own = home.path().join("chart");
            revision::with_number(&chart, request.revision, &own).map_err(RenderError::Temporary)?;
            chart = own;
        }
        let limits = Limits { is_patient: request.is_patient, ..self.limits };
        let ended = self.run_within(&home, &arguments(request, &chart, &values), limits).await?;
        if !ended.success {
            return Err(complaint::read(&ended.stderr, &request.chart.name).into());
        }
        String::from_utf8(ended.stdout).map_err(|_| RenderError::NotText)
    }

    /// Renders a chart of our own making. On failure, what helm said as it said it: its places are ours to interpret.
    pub(crate) async fn evaluate(&self, chart: &Path, values: &str) -> Result<Result<String, String>, RenderError> {
        let home = private_dir()?;
        let file = home.path().join("values.json");
        write(&file, values).map_err(RenderError::Temporary)?;
        let args = ["template".into(), "own".into(), chart.into(), "-f".into(), file.into()];
        let ended = self.run(&home, &args).await?;
        if !ended.success {
            return Ok(Err(ended.stderr));
        }
        String::from_utf8(ended.stdout).map(Ok).map_err(|_| RenderError::NotText)
    }

    async fn run(&self, home: &TempDir, args: &[OsString]) -> Result<Ended, RenderError> {
        self.run_within(home, args, self.limits).await
    }

    async fn run_within(&self, home: &TempDir, args: &[OsString], limits: Limits) -> Result<Ended, RenderError> {
        process::run(&self.program, home.path(), args, limits).await.map_err(|error| match error {
            ProcessError::Spawn(error) | ProcessError::Read(error) => {
                RenderError::Spawn { program: self.program.clone(), error }
            }
            ProcessError::TimeLimit => RenderError::TimeLimit(self.limits.time),
            ProcessError::OutputLimit => RenderError::OutputLimit(self.limits.output),
        })
    }
}

fn arguments(request: &Request<'_>, chart: &Path, values: &Path) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec!["template".into(), request.release.into(), chart.into()];
    args.extend(["-n".into(), request.namespace.into(), "-f".into(), values.into()]);
    args.push("--include-crds".into());
    for assignment in request.values.exact_integers() {
        args.extend(["--set".into(), assignment.into()]);
    }
    if request.is_upgrade {
        args.push("--is-upgrade".into());
    }
    if !request.capabilities.kube_version.is_empty() {
        args.extend(["--kube-version".into(), request.capabilities.kube_version.clone().into()]);
    }
    for api in &request.capabilities.api_versions {
        args.extend(["--api-versions".into(), api.into()]);
    }
    args
}

fn private_dir() -> Result<TempDir, RenderError> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("chartwright-").permissions(Permissions::from_mode(0o700));
    builder.tempdir().map_err(RenderError::Temporary)
}

/// Values may be secrets, so both the directory and the file are for this user only.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}
