//! Our side: the operator with one kind, and one custom resource.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::chart::Input;
use crate::plane::{GROUP, KIND, Plane};
use crate::{HelmVersion, Outcome};

/// How long a phase may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// A failure that is tried again counts once it lasts so long.
const FAILING: Duration = Duration::from_secs(15);

pub struct Chartwright<'a> {
    plane: &'a Plane,
    program: &'a Path,
    version: HelmVersion,
    namespace: &'a str,
    release: &'a str,
    watch: &'a Map<String, Value>,
    /// watches.yaml is in it, and the log.
    dir: TempDir,
    running: Option<Child>,
}

impl<'a> Chartwright<'a> {
    pub fn new(
        plane: &'a Plane,
        program: &'a Path,
        version: HelmVersion,
        [namespace, release]: [&'a str; 2],
        watch: &'a Map<String, Value>,
    ) -> Result<Self> {
        Ok(Chartwright { plane, program, version, namespace, release, watch, dir: tempfile::tempdir()?, running: None })
    }

    pub async fn install(&mut self, input: &Input) -> Result<Outcome> {
        self.start(&input.chart)?;
        let cr: DynamicObject = serde_json::from_value(self.custom_resource(input).await?)?;
        self.api().create(&Default::default(), &cr).await.context("the API server refuses the custom resource")?;
        self.outcome(1).await
    }

    /// Chart and values change at once, as for helm: the operator does not run in between.
    pub async fn upgrade(&mut self, input: &Input) -> Result<Outcome> {
        self.stop()?;
        let spec = self.custom_resource(input).await?["spec"].take();
        let patch: kube::core::params::Patch<()> =
            Patch::Json(serde_json::from_value(json!([{"op": "replace", "path": "/spec", "value": spec}]))?);
        self.api().patch(self.release, &PatchParams::default(), &patch).await.context("the spec is refused")?;
        self.start(&input.chart)?;
        self.outcome(2).await
    }

    pub async fn uninstall(&mut self) -> Result<Outcome> {
        self.api().delete(self.release, &DeleteParams::default()).await?;
        let deadline = Instant::now() + PATIENCE;
        while let Some(cr) = self.api().get_opt(self.release).await? {
            self.check()?;
            if Instant::now() > deadline {
                bail!("the custom resource does not go: {}", conditions(&cr));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.stop()?;
        Ok(Outcome::Done)
    }

    fn api(&self) -> kube::Api<DynamicObject> {
        self.plane.api(&format!("{GROUP}/v1"), KIND, Some(self.namespace))
    }

    /// The values file goes below `spec:` as it is, and kubectl reads it: so a person would do it.
    async fn custom_resource(&self, input: &Input) -> Result<Value> {
        let values = match &input.values {
            Some(file) => {
                std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?
            }
            None => String::new(),
        };
        let file = self.dir.path().join("custom-resource.yaml");
        let (namespace, name) = (self.namespace, self.release);
        let head =
            format!("apiVersion: {GROUP}/v1\nkind: {KIND}\nmetadata: {{namespace: {namespace}, name: {name}}}\n");
        std::fs::write(&file, head + &spec(&values))?;
        self.plane.read_as_kubectl(&file).await
    }

    fn start(&mut self, chart: &Path) -> Result<()> {
        let mut watch = self.watch.clone();
        for (field, value) in [("group", GROUP), ("version", "v1"), ("kind", KIND)] {
            watch.insert(field.into(), value.into());
        }
        // What helm deploys with these values is to be deployed, wherever it is.
        watch.entry("allow").or_insert_with(|| json!(["other-namespaces", "cluster"]));
        watch.insert("chart".into(), chart.display().to_string().into());
        std::fs::write(self.dir.path().join("watches.yaml"), json!([watch]).to_string())?;
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log_file())?;
        // The process is tied to this thread, which lives as long as the proof.
        let process = lab::guard::command(self.program)?
            .args(["run", "--metrics-bind-address=0", "--health-probe-bind-address=0"])
            .env_clear()
            .env("KUBECONFIG", self.plane.kubeconfig())
            .env("CHARTWRIGHT_HELM", self.version.program())
            .env("POD_NAMESPACE", "default")
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start the operator")?;
        self.running = Some(process);
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        let Some(mut process) = self.running.take() else { return Ok(()) };
        let pid = Pid::from_raw(process.id().cast_signed()).context("no process id")?;
        // It may have ended by itself; either way it is gone after the wait.
        let _ = kill_process(pid, Signal::TERM);
        process.wait()?;
        Ok(())
    }

    /// What became of a revision.
    ///
    /// # Errors
    /// It is neither done nor refused for too long, which says nothing. Or it is done, and reports that somebody else changes its objects.
    async fn outcome(&mut self, revision: u64) -> Result<Outcome> {
        let started = Instant::now();
        let mut failing_since: Option<Instant> = None;
        loop {
            self.check()?;
            let cr = self.api().get(self.release).await?;
            let status = cr.data.get("status").cloned().unwrap_or_default();
            let is_current = status["observedGeneration"].as_i64() == cr.metadata.generation;
            let is_there = status["deployedRelease"]["revision"].as_u64() >= Some(revision);
            if is_current && is_there && is(&status, "Deployed") && failure(&status).is_none() {
                // Nobody else writes here, so it would be false.
                if let Some(contested) = find(&status, "Contested") {
                    bail!("Chartwright reports a conflict: {contested}");
                }
                return Ok(Outcome::Done);
            }
            match failure(&status).filter(|_| is_current) {
                Some(failure) => {
                    let since = *failing_since.get_or_insert_with(Instant::now);
                    if is(&status, "Stalled") || since.elapsed() > FAILING {
                        return Ok(Outcome::Refused(failure));
                    }
                }
                None => failing_since = None,
            }
            if started.elapsed() > PATIENCE {
                bail!("Chartwright is not done after {PATIENCE:?}: {}", conditions(&cr));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// # Errors
    /// The operator has ended by itself.
    fn check(&mut self) -> Result<()> {
        match self.running.as_mut().map(Child::try_wait).transpose()?.flatten() {
            Some(status) => bail!("the operator ended by itself ({status}); its last lines:\n{}", self.log_tail()),
            None => Ok(()),
        }
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// The end of its log, for messages.
    pub fn log_tail(&self) -> String {
        let log = std::fs::read_to_string(self.log_file()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }
}

impl Drop for Chartwright<'_> {
    fn drop(&mut self) {
        // An error has been told by then, and the process is killed with this thread at the latest.
        let _ = self.stop();
    }
}

/// A values file as the spec of a custom resource.
fn spec(values: &str) -> String {
    let lines = values.lines().filter(|line| !line.starts_with("---") && *line != "...");
    let indented: String = lines.map(|line| format!("  {line}\n")).collect();
    let is_empty = indented.lines().all(|line| line.trim().is_empty() || line.trim().starts_with('#'));
    match is_empty || indented.trim() == "{}" {
        true => "spec: {}\n".to_owned(),
        false => format!("spec:\n{indented}"),
    }
}

fn is(status: &Value, kind: &str) -> bool {
    find(status, kind).is_some()
}

/// A condition that is true.
fn find<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = status["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind && condition["status"] == "True")
}

fn failure(status: &Value) -> Option<String> {
    let failed = find(status, "ReleaseFailed").or_else(|| find(status, "Irreconcilable"))?;
    let text = |field: &str| failed[field].as_str().unwrap_or_default();
    Some(format!("{}: {}", text("reason"), text("message")))
}

fn conditions(cr: &DynamicObject) -> String {
    cr.data.pointer("/status/conditions").map(ToString::to_string).unwrap_or_else(|| "it has no status".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_values_file_becomes_a_spec() {
        assert_eq!(spec("a: 1\nb:\n- |\n  text\n"), "spec:\n  a: 1\n  b:\n  - |\n    text\n");
        assert_eq!(spec("---\na: 1\n"), "spec:\n  a: 1\n");
        assert_eq!(spec("# nothing\n\n"), "spec: {}\n");
        assert_eq!(spec("{}\n"), "spec: {}\n");
    }

    #[test]
    fn a_failure_is_told_with_its_reason() {
        let status =
            json!({"conditions": [{"type": "ReleaseFailed", "status": "True", "reason": "X", "message": "why"}]});
        assert_eq!(failure(&status).as_deref(), Some("X: why"));
        assert_eq!(failure(&json!({"conditions": [{"type": "ReleaseFailed", "status": "False"}]})), None);
    }
}
