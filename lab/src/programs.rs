//! Programs that run together, each with a log of its own: the parts of a control plane, or of a node.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::components::Component;
use crate::{guard, tools_dir};

const PATIENCE: Duration = Duration::from_secs(60);

/// The running programs. Dropping it ends them and removes the directory.
pub struct Programs {
    dir: PathBuf,
    logs: PathBuf,
    running: Vec<Running>,
}

struct Running {
    component: Component,
    process: Child,
}

impl Programs {
    /// Programs that work in `dir` and write `logs/NAME.log`.
    pub fn new(dir: &Path, logs: &Path) -> Self {
        Programs { dir: dir.to_owned(), logs: logs.to_owned(), running: vec![] }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn start(&mut self, component: Component) -> Result<()> {
        let process = self.spawn(&component)?;
        self.running.push(Running { component, process });
        Ok(())
    }

    /// Kills a program and starts it again, as it was.
    pub fn restart(&mut self, name: &str) -> Result<()> {
        self.kill(name)?;
        self.start_again(name)
    }

    /// Kills a program that [`Self::start_again`] brings back.
    pub fn kill(&mut self, name: &str) -> Result<()> {
        let at = self.place(name)?;
        self.running[at].process.kill()?;
        self.running[at].process.wait()?;
        Ok(())
    }

    pub fn start_again(&mut self, name: &str) -> Result<()> {
        let at = self.place(name)?;
        self.running[at].process = self.spawn(&self.running[at].component)?;
        Ok(())
    }

    fn place(&self, name: &str) -> Result<usize> {
        self.running.iter().position(|it| it.component.name == name).with_context(|| format!("{name} was not started"))
    }

    fn spawn(&self, component: &Component) -> Result<Child> {
        let binary = component.binary();
        if !binary.exists() {
            bail!("{} is missing: run `make tools`", binary.display());
        }
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log_file(component.name))?;
        // The supervisor's main thread starts the guarded programs, so that they live as long as it does.
        let child = guard::command(binary)?
            .args(&component.args)
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        Ok(child)
    }

    /// Runs kubectl until it succeeds. `waits_for` is the program whose log explains a failure.
    pub async fn until(&mut self, what: &str, waits_for: &'static str, kubectl: &[&str]) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let output = Command::new(tools_dir().join("kubectl"))
                .arg("--kubeconfig")
                .arg(self.dir.join("kubeconfig"))
                .args(kubectl)
                .stdin(Stdio::null())
                .output()
                .context("cannot run kubectl: run `make tools`")?;
            if output.status.success() {
                return Ok(());
            }
            if let Some(died) = self.dead() {
                bail!("{died} ended while waiting for {what}; its log:\n{}", self.log_tail(died));
            }
            if Instant::now() > deadline {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                bail!("waited {PATIENCE:?} for {what}: {said}\nlog of {waits_for}:\n{}", self.log_tail(waits_for));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn dead(&mut self) -> Option<&'static str> {
        let mut ended = self.running.iter_mut().filter_map(|it| match it.process.try_wait() {
            Ok(Some(_)) => Some(it.component.name),
            _ => None,
        });
        ended.next()
    }

    pub async fn first_death(&mut self) -> &'static str {
        loop {
            if let Some(name) = self.dead() {
                return name;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    fn log_file(&self, name: &str) -> PathBuf {
        self.logs.join(format!("{name}.log"))
    }

    pub fn log_tail(&self, name: &str) -> String {
        let text = fs::read(self.log_file(name)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = text.unwrap_or_else(|error| format!("(no log: {error})"));
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        for Running { process, .. } in self.running.iter_mut().rev() {
            // It may have ended by itself; either way it is gone after the wait.
            let _ = process.kill();
            let _ = process.wait();
        }
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            eprintln!("cannot remove {}: {error}", self.dir.display());
        }
    }
}
