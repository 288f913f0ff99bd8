//! The operator as a process that is started, measured and ended.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::{NamedTempFile, TempDir};

use crate::Options;
use crate::tree::Tree;

/// A second for each call that is under way, and some.
const END: Duration = Duration::from_secs(60);

/// What is needed to start it, once or again.
pub struct Launch<'a> {
    options: &'a Options,
    dir: TempDir,
}

pub struct Operator {
    process: Child,
    log: NamedTempFile,
    pub tree: Tree,
    pub started: Instant,
}

impl<'a> Launch<'a> {
    /// The operator gets the administrator's rights under the name `user`, so that the audit log tells it apart.
    ///
    /// # Errors
    /// The kubeconfig cannot be read or written.
    pub fn new(options: &'a Options, kubeconfig: &Path, user: &str) -> Result<Self> {
        let text = std::fs::read_to_string(kubeconfig).context("the control plane has no kubeconfig")?;
        let mut config: Value = serde_json::from_str(&text).context("the lab writes JSON")?;
        let account = &mut config["users"][0]["user"];
        (account["as"], account["as-groups"]) = (user.into(), json!(["system:masters"]));
        let dir = tempfile::tempdir()?;
        std::fs::write(dir.path().join("kubeconfig"), config.to_string())?;
        Ok(Launch { options, dir })
    }

    /// Call it from a thread that lives as long as the operator should.
    ///
    /// # Errors
    /// The program does not start.
    pub fn start(&self) -> Result<Operator> {
        let log = NamedTempFile::new()?;
        let started = Instant::now();
        let process = lab::guard::command(&self.options.operator)?
            .args(["run", "--metrics-bind-address=0", "--health-probe-bind-address=0"])
            .env_clear()
            .env("KUBECONFIG", self.dir.path().join("kubeconfig"))
            .env("CHARTWRIGHT_HELM", &self.options.helm)
            .env("POD_NAMESPACE", "default")
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stdin(Stdio::null())
            .stdout(log.reopen()?)
            .stderr(log.reopen()?)
            .spawn()
            .context("cannot start the operator")?;
        let tree = Tree::watch(process.id());
        Ok(Operator { process, log, tree, started })
    }
}

impl Operator {
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Asks it to end and says how long that took.
    ///
    /// # Errors
    /// It does not end.
    pub fn end(mut self) -> Result<Duration> {
        let asked = Instant::now();
        let pid = Pid::from_raw(self.pid().cast_signed()).context("no process id")?;
        kill_process(pid, Signal::TERM).context("the operator is gone already")?;
        while self.process.try_wait()?.is_none() {
            if asked.elapsed() > END {
                bail!("the operator did not end within {END:?}");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(asked.elapsed())
    }

    /// The end of its log, for messages.
    pub fn log_tail(&self) -> String {
        let log = std::fs::read_to_string(self.log.path()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
