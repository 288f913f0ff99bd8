//! Helm's side: what a person does with `helm install`, `upgrade` and `uninstall`, with helm's defaults.
//!
//! `upgrade` gets `--reset-values`: without it, an upgrade without values would keep those of the install, and a custom
//! resource has no such memory.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::process::Command;

use crate::chart::Input;
use crate::{HelmVersion, Outcome};

/// How long helm waits for each hook.
const TIMEOUT: &str = "90s";

/// A helm in a release's place.
pub struct Helm<'a> {
    pub version: HelmVersion,
    pub kubeconfig: PathBuf,
    pub namespace: &'a str,
    pub release: &'a str,
    /// Its caches and settings.
    pub home: PathBuf,
}

impl Helm<'_> {
    pub async fn install(&self, input: &Input) -> Result<Outcome> {
        self.act(&["install", self.release], Some(input)).await
    }

    pub async fn upgrade(&self, input: &Input) -> Result<Outcome> {
        self.act(&["upgrade", "--reset-values", self.release], Some(input)).await
    }

    pub async fn uninstall(&self) -> Result<Outcome> {
        self.act(&["uninstall", self.release], None).await
    }

    async fn act(&self, arguments: &[&str], input: Option<&Input>) -> Result<Outcome> {
        let mut command = self.command();
        command.args(arguments).args(["--timeout", TIMEOUT]);
        if let Some(input) = input {
            command.arg(&input.chart);
            command.args(input.values.iter().flat_map(|values| [Path::new("--values"), values]));
        }
        let output = command.output().await.context("helm does not start: run `make tools`")?;
        if output.status.success() {
            return Ok(Outcome::Done);
        }
        let complaint = complaint(&output.stderr);
        if is_late(&complaint) {
            bail!("helm is not done after {TIMEOUT}: {complaint}");
        }
        Ok(Outcome::Refused(complaint))
    }

    /// What the chart renders, hooks included. `apis` are the cluster's versions and kinds.
    ///
    /// # Errors
    /// helm refuses.
    pub async fn template(&self, input: &Input, upgrade: bool, kube_version: &str, apis: &[String]) -> Result<String> {
        let mut command = self.command();
        command.args(["template", self.release, "--kube-version", kube_version]).arg(&input.chart);
        command.args(apis.iter().flat_map(|api| ["--api-versions", api]));
        command.args(input.values.iter().flat_map(|values| [Path::new("--values"), values]));
        command.args(upgrade.then_some("--is-upgrade"));
        let output = command.output().await.context("helm does not start: run `make tools`")?;
        if !output.status.success() {
            bail!("{}", complaint(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Packs a chart.
    ///
    /// # Errors
    /// helm refuses.
    pub async fn package(&self, chart: &Path, to: &Path) -> Result<PathBuf> {
        let output = self.command().arg("package").arg(chart).arg("--destination").arg(to).output().await?;
        if !output.status.success() {
            bail!("helm does not pack {}: {}", chart.display(), complaint(&output.stderr));
        }
        let packed = std::fs::read_dir(to)?.flatten().map(|entry| entry.path()).next();
        packed.with_context(|| format!("helm packed nothing of {}", chart.display()))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.version.program());
        command.env_clear().env("HOME", &self.home).env("KUBECONFIG", &self.kubeconfig);
        command.args(["--namespace", self.namespace]).current_dir(&self.home).stdin(Stdio::null()).kill_on_drop(true);
        command
    }
}

/// What helm says, without its warnings.
fn complaint(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let said = text.find("Error: ").map_or(text.as_ref(), |at| &text[at + "Error: ".len()..]);
    said.trim().to_owned()
}

/// Whether a chart is refused for want of what is in its charts/.
pub fn lacks_dependencies(complaint: &str) -> bool {
    complaint.contains("missing in charts/")
}

/// Whether time ran out, which is no refusal.
fn is_late(complaint: &str) -> bool {
    ["timed out waiting", "context deadline exceeded"].iter().any(|words| complaint.contains(words))
}

/// Whether helm refuses before it does anything. Then all that was there has to be there still.
pub fn has_not_begun(complaint: &str) -> bool {
    ["don't meet the specifications of the schema", "execution error at"].iter().any(|words| complaint.contains(words))
}

/// Whether a hook was the reason. Then all that was done before it is there to compare.
pub fn is_hooks(complaint: &str) -> bool {
    ["pre-", "post-"].iter().any(|begin| complaint.contains(begin)) && complaint.contains("hook")
        || complaint.contains("failed pre-")
        || complaint.contains("failed post-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_has_no_warnings() {
        assert_eq!(complaint(b"W1118 deprecated\nError: INSTALLATION FAILED: no\n"), "INSTALLATION FAILED: no");
        assert_eq!(complaint(b"killed\n"), "killed");
    }

    #[test]
    fn reasons_are_told_apart() {
        assert!(is_hooks("INSTALLATION FAILED: failed pre-install: 1 error occurred"));
        assert!(is_hooks("UPGRADE FAILED: pre-upgrade hooks failed: resource not ready"));
        assert!(!is_hooks("INSTALLATION FAILED: values don't meet the specifications of the schema"));
        assert!(has_not_begun(
            "UPGRADE FAILED: values don't meet the specifications of the schema(s) in the following"
        ));
        assert!(!has_not_begun("UPGRADE FAILED: cannot patch \"web\" with kind Service"));
        assert!(is_late(
            "INSTALLATION FAILED: failed pre-install: 1 error occurred: timed out waiting for the condition"
        ));
        assert!(lacks_dependencies("found in Chart.yaml, but missing in charts/ directory: redis"));
    }
}
