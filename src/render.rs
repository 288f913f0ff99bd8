//! The helm process: a chart and values become text.
//!
//! helm gets nothing of the operator's but its arguments: no credentials, no kubeconfig, no plugins, directories of its
//! own. It is killed when the caller loses interest and when it takes too long.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Command;

use crate::chart::Chart;
use crate::discovery::Capabilities;
use crate::error::Category;
use crate::values::Values;

/// No chart that we know takes a tenth of it.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A helm program that was found and answered.
#[derive(Clone, Debug)]
pub struct Helm {
    program: PathBuf,
    pub version: String,
}

/// Everything that decides what a render prints.
pub struct Request<'a> {
    pub chart: &'a Chart,
    pub release: &'a str,
    pub namespace: &'a str,
    pub values: &'a Values,
    pub capabilities: &'a Capabilities,
    pub is_upgrade: bool,
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
    #[error("helm template did not end within {} s", TIME_LIMIT.as_secs())]
    TimeLimit,
    #[error("{0}")]
    Refused(String),
    #[error("helm printed bytes that are not UTF-8")]
    NotText,
}

impl RenderError {
    pub fn category(&self) -> Category {
        match self {
            RenderError::Refused(_) | RenderError::NotText => Category::RenderFailed,
            _ => Category::HelmFailed,
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
        let home = private_dir()?;
        let args = ["version", "--template", "{{.Version}}"].map(OsString::from);
        let output = run(&program, &home, args.into()).await?;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !output.status.success() || !(said.starts_with("v3.") || said.starts_with("v4.")) {
            let said = if said.is_empty() { String::from_utf8_lossy(&output.stderr).trim().to_owned() } else { said };
            return Err(RenderError::WrongVersion { program, said });
        }
        Ok(Helm { program, version: said })
    }

    /// Renders a chart.
    pub async fn template(&self, request: &Request<'_>) -> Result<String, RenderError> {
        let home = private_dir()?;
        let values = home.path().join("values.json");
        write(&values, &request.values.file_json()).map_err(RenderError::Temporary)?;
        let output = run(&self.program, &home, arguments(request, &values)).await?;
        if !output.status.success() {
            return Err(RenderError::Refused(complaint(&String::from_utf8_lossy(&output.stderr))));
        }
        String::from_utf8(output.stdout).map_err(|_| RenderError::NotText)
    }
}

fn arguments(request: &Request<'_>, values: &Path) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec!["template".into(), request.release.into(), request.chart.dir.clone().into()];
    args.extend(["-n".into(), request.namespace.into(), "-f".into(), values.into()]);
    args.push("--include-crds".into());
    for assignment in request.values.exact_integers() {
        args.extend(["--set".into(), assignment.into()]);
    }
    if request.is_upgrade {
        args.push("--is-upgrade".into());
    }
    args.extend(["--kube-version".into(), request.capabilities.kube_version.clone().into()]);
    for api in &request.capabilities.api_versions {
        args.extend(["--api-versions".into(), api.into()]);
    }
    args
}

async fn run(program: &Path, home: &TempDir, args: Vec<OsString>) -> Result<Output, RenderError> {
    let dir = |name: &str| home.path().join(name);
    let child = Command::new(program)
        .args(args)
        .env_clear()
        .env("HOME", home.path())
        .env("HELM_CACHE_HOME", dir("cache"))
        .env("HELM_CONFIG_HOME", dir("config"))
        .env("HELM_DATA_HOME", dir("data"))
        .env("HELM_NO_PLUGINS", "1")
        .current_dir(home.path())
        .process_group(0)
        .kill_on_drop(true)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| RenderError::Spawn { program: program.to_owned(), error })?;
    match tokio::time::timeout(TIME_LIMIT, child.wait_with_output()).await {
        Ok(output) => output.map_err(|error| RenderError::Spawn { program: program.to_owned(), error }),
        Err(_) => Err(RenderError::TimeLimit),
    }
}

/// What helm complains about, without the noise around it.
fn complaint(stderr: &str) -> String {
    let noise = |line: &&str| {
        let line = line.trim();
        !line.is_empty()
            && !line.starts_with("WARNING:")
            && !line.starts_with("Use --debug flag")
            && !line.starts_with("level=")
    };
    let lines: Vec<&str> = stderr.lines().filter(noise).collect();
    lines.join("\n").trim_start_matches("Error: ").to_owned()
}

fn private_dir() -> Result<TempDir, RenderError> {
    tempfile::Builder::new().prefix("chartwright-").tempdir().map_err(RenderError::Temporary)
}

/// The directory is private, so the file is.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    std::fs::File::create_new(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_complaint_is_what_a_person_needs() {
        let stderr = "WARNING: something\nError: execution error at (a/templates/b.yaml:3:4): no\n\nUse --debug flag to render out invalid YAML\n";
        assert_eq!(complaint(stderr), "execution error at (a/templates/b.yaml:3:4): no");
    }
}
