//! helm as a person runs it: with their environment, their logins and their plugins.
//!
//! Its caches and its list of repositories are private and go with the run, so that nothing that a person has is changed or made stale.
//! That is unlike a render, which gets nothing at all.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::dependencies::Missing;
use super::repositories::Repositories;
use super::{Source, Wanted};
use crate::render::{Helm, complaint};
use crate::scaffold::error::ScaffoldError;
use crate::workplace::{self, PrivateDir};

/// A large chart over a slow line.
const PATIENCE: Duration = Duration::from_secs(300);

/// How to fetch.
#[derive(Clone, Copy, Debug)]
pub struct Fetching<'a> {
    pub helm: &'a Helm,
    /// For OCI registries without TLS.
    pub plain_http: bool,
    /// For those whose certificate nobody knows.
    pub insecure: bool,
}

impl Fetching<'_> {
    /// Brings a packed chart into a directory.
    pub async fn pull(&self, wanted: &Wanted, into: &Path) -> Result<PathBuf, ScaffoldError> {
        let home = private_dir()?;
        let (chart, repository) = match &wanted.source {
            Source::InRepository { address, chart } => (chart.clone(), Some(address)),
            Source::Known { repository, .. } => {
                let known = self.known().await.named(repository);
                let known = known.ok_or_else(|| ScaffoldError::UnknownRepository(repository.clone()))?;
                self.refresh(&known, &home, wanted).await?;
                (wanted.shown(), None)
            }
            _ => (wanted.shown(), None),
        };
        let dir = into.join("packed");
        std::fs::create_dir_all(&dir).map_err(ScaffoldError::Temporary)?;
        let mut args: Vec<OsString> = vec!["pull".into(), "--destination".into(), dir.clone().into()];
        if let Some(version) = &wanted.version {
            args.extend(["--version".into(), version.into()]);
        }
        if let Some(repository) = repository {
            args.extend(["--repo".into(), repository.into()]);
        }
        args.extend(self.trust());
        args.extend(["--".into(), chart.into()]);
        self.run(&home, &args, &wanted.shown()).await?.map_err(|said| failed(wanted, said))?;
        let mut packed = std::fs::read_dir(&dir).map_err(ScaffoldError::Temporary)?.flatten().map(|entry| entry.path());
        packed.next().ok_or_else(|| failed(wanted, "helm fetched nothing".to_owned()))
    }

    /// Fills charts/.
    pub async fn dependencies(&self, missing: &Missing, dir: &Path, chart: &str) -> Result<(), ScaffoldError> {
        let home = private_dir()?;
        let needed = self.known().await.of(&missing.dependencies);
        std::fs::write(repositories_file(&home), needed.text()).map_err(ScaffoldError::Temporary)?;
        let verb = if missing.is_locked { "build" } else { "update" };
        let mut args: Vec<OsString> = vec!["dependency".into(), verb.into()];
        args.extend(self.trust());
        args.extend(["--".into(), dir.into()]);
        let said = self.run(&home, &args, &format!("the dependencies of {chart}")).await?;
        said.map_err(|said| ScaffoldError::Dependencies { chart: chart.to_owned(), said })
    }

    fn trust(&self) -> impl Iterator<Item = OsString> {
        let plain = self.plain_http.then(|| "--plain-http".into());
        plain.into_iter().chain(self.insecure.then(|| "--insecure-skip-tls-verify".into()))
    }

    /// What the person has told helm about. helm itself knows where that is.
    async fn known(&self) -> Repositories {
        let mut command = Command::new(self.helm.program());
        command.args(["env", "HELM_REPOSITORY_CONFIG"]).stdin(Stdio::null()).kill_on_drop(true);
        let Ok(output) = command.output().await else { return Repositories::default() };
        let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Repositories::parse(&std::fs::read_to_string(path).unwrap_or_default())
    }

    /// Gets the list of what a repository has.
    async fn refresh(&self, known: &Repositories, home: &PrivateDir, wanted: &Wanted) -> Result<(), ScaffoldError> {
        std::fs::write(repositories_file(home), known.text()).map_err(ScaffoldError::Temporary)?;
        let args = ["repo", "update"].map(OsString::from);
        self.run(home, &args, &wanted.shown()).await?.map_err(|said| failed(wanted, said))
    }

    /// Runs helm. The inner error is what it complained about, on one line.
    async fn run(&self, home: &PrivateDir, args: &[OsString], what: &str) -> Result<Result<(), String>, ScaffoldError> {
        let cache = home.path().join("cache");
        let mut command = Command::new(self.helm.program());
        command.args(args).stdin(Stdio::null()).kill_on_drop(true);
        command.env("HELM_CACHE_HOME", &cache).env("HELM_REPOSITORY_CACHE", cache.join("repository"));
        command.env("HELM_CONTENT_CACHE", cache.join("content")).env("HELM_REPOSITORY_CONFIG", repositories_file(home));
        command.env_remove("HELM_DEBUG");
        let ended = tokio::time::timeout(PATIENCE, command.output()).await;
        let late = || ScaffoldError::TooSlow { what: what.to_owned(), seconds: PATIENCE.as_secs() };
        let spawned = |error| ScaffoldError::Fetch { what: what.to_owned(), said: format!("cannot run helm: {error}") };
        let output = ended.map_err(|_| late())?.map_err(spawned)?;
        if output.status.success() {
            return Ok(Ok(()));
        }
        let reason = unreachable(&String::from_utf8_lossy(&output.stdout));
        Ok(Err(reason.unwrap_or_else(|| complaint::in_one_line(&String::from_utf8_lossy(&output.stderr)))))
    }
}

/// The repository that did not answer, and why. helm tells it in passing, and then complains that a file of its own is not there.
fn unreachable(said: &str) -> Option<String> {
    let mut lines = said.lines().skip_while(|line| !line.contains("Unable to get an update from"));
    let (_, address) = lines.next()?.rsplit_once('(')?;
    let address = address.trim_end().trim_end_matches("):");
    let why = lines.next().map(str::trim).unwrap_or_default();
    // `Get "<address>": why`
    let why = why.split_once("\": ").map_or(why, |(_, why)| why);
    Some(format!("the repository {address} cannot be read: {why}"))
}

fn failed(wanted: &Wanted, said: String) -> ScaffoldError {
    let version = wanted.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    ScaffoldError::Fetch { what: format!("the chart {}{version}", wanted.shown()), said }
}

fn repositories_file(home: &PrivateDir) -> PathBuf {
    home.path().join("repositories.yaml")
}

fn private_dir() -> Result<PrivateDir, ScaffoldError> {
    workplace::private_dir("helm-").map_err(ScaffoldError::Temporary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_that_does_not_answer_is_named_with_the_reason() {
        let said = "Hang tight while we grab the latest from your chart repositories...\n\
                    ...Successfully got an update from the \"a\" chart repository\n\
                    ...Unable to get an update from the \"needed-0\" chart repository (http://charts.example.com/b):\n\
                    \tGet \"http://charts.example.com/b/index.yaml\": dial tcp: connection refused\nUpdate Complete.\n";
        let why = "the repository http://charts.example.com/b cannot be read: dial tcp: connection refused";
        assert_eq!(unreachable(said).as_deref(), Some(why));
        assert_eq!(unreachable("Update Complete."), None);
    }
}
