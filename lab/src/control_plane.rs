//! A control plane that lives as long as the value that stands for it, or the process that holds it.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::{guard, supervise};

pub struct ControlPlane {
    dir: PathBuf,
    supervisor: Child,
    /// Closing it is what ends the supervisor.
    _pipe: ChildStdin,
}

impl ControlPlane {
    /// Starts a control plane and returns when it can be used.
    ///
    /// # Errors
    /// A tool is missing, or a program did not come up; the message carries the end of that program's log.
    pub fn start() -> Result<Self> {
        let dir = new_dir()?;
        let mut supervisor = Command::new(guard::lab_program()?)
            .arg("supervise")
            .arg(&dir)
            // Ctrl-C goes to a whole process group; the supervisor ends after those who use it.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let pipe = supervisor.stdin.take().context("the supervisor has no input")?;
        wait_until_ready(&mut supervisor)?;
        Ok(ControlPlane { dir, supervisor, _pipe: pipe })
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }

    /// One JSON line per answered API call.
    pub fn audit_log(&self) -> PathBuf {
        self.dir.join("audit.log")
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Kills the API server, if it runs, and starts it again. It answers some seconds later.
    pub fn restart_api_server(&self) {
        self.signal(Signal::USR1);
    }

    /// Kills the API server. It stays away until [`ControlPlane::restart_api_server`].
    pub fn stop_api_server(&self) {
        self.signal(Signal::USR2);
    }

    fn signal(&self, signal: Signal) {
        if let Some(supervisor) = Pid::from_raw(self.supervisor.id().cast_signed()) {
            // A supervisor that is gone has taken its programs with it, and their clients notice.
            let _ = kill_process(supervisor, signal);
        }
    }

    /// Ends it and waits until everything is gone. Dropping does the same.
    pub fn stop(self) {}
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        let _ = self.supervisor.wait();
    }
}

/// A private directory. The supervisor removes it.
pub(crate) fn new_dir() -> Result<PathBuf> {
    let dir = tempfile::Builder::new().prefix("chartwright-lab-").tempdir().context("cannot create a directory")?;
    Ok(dir.keep())
}

/// Reads the supervisor's word that all is well, or its reason why not.
pub(crate) fn wait_until_ready(supervisor: &mut Child) -> Result<()> {
    let mut line = String::new();
    let stdout = supervisor.stdout.take().context("the supervisor has no output")?;
    BufReader::new(stdout).read_line(&mut line)?;
    if line.trim() == supervise::READY {
        return Ok(());
    }
    let mut reason = String::new();
    if let Some(mut stderr) = supervisor.stderr.take() {
        stderr.read_to_string(&mut reason)?;
    }
    supervisor.wait()?;
    bail!("the control plane did not start: {}", reason.trim());
}
