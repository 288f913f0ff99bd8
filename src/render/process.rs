//! One run of a program: its output, within limits, and nothing left behind.
//!
//! **Contract.** The program runs in a process group of its own. When [`run`] returns, and when its future is dropped before
//! that, every process of the group has been sent SIGKILL: helm, and whatever it started. Nobody is asked politely, since
//! nothing that a render leaves behind is worth saving.
//!
//! What leaves the group on purpose (`setsid`) is out of reach; holding that too would take a container.
//!
//! Nothing of the operator's environment is passed on. This module does not know helm's arguments or what its output means.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, prlimit, setpriority_process};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

use super::memory::Room;
use crate::telemetry::metrics;

/// How much of the complaints is kept. A person reads the first page.
const KEPT_STDERR: u64 = 1024 * 1024;

/// The nice value of one that is patient.
const PATIENT: i32 = 10;

/// What one run may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub time: Duration,
    /// Bytes on standard output.
    pub output: u64,
    /// Bytes that it may write to in memory.
    pub memory: u64,
    /// Nobody waits for it: it gives way to others that want the processor.
    pub is_patient: bool,
}

impl Default for Limits {
    /// No chart that we know takes a tenth of the time.
    fn default() -> Self {
        let Room { each, output, .. } = Room::here(processors());
        Limits { time: Duration::from_secs(60), output, memory: each, is_patient: false }
    }
}

/// What an ended program left.
#[derive(Debug)]
pub struct Ended {
    pub success: bool,
    pub stdout: Vec<u8>,
    /// The start of it; bytes that are no text are replaced.
    pub stderr: String,
}

#[derive(Debug)]
pub enum ProcessError {
    Spawn(io::Error),
    Read(io::Error),
    TimeLimit,
    OutputLimit,
}

/// Runs `program` with `home` as its only directory and waits for its end.
pub async fn run(program: &Path, home: &Path, args: &[OsString], limits: Limits) -> Result<Ended, ProcessError> {
    let _counted = metrics::helm_starts();
    let mut running = Running::start(program, home, args, limits)?;
    tokio::time::timeout(limits.time, running.finish(limits.output)).await.unwrap_or(Err(ProcessError::TimeLimit))
}

/// A child and its group. Fields are dropped in their order: the group is killed while the child's id cannot belong to
/// anybody else, because nobody has waited for it yet.
struct Running {
    group: Group,
    child: Child,
}

impl Running {
    fn start(program: &Path, home: &Path, args: &[OsString], limits: Limits) -> Result<Self, ProcessError> {
        let dir = |name: &str| home.join(name);
        let child = Command::new(program)
            .args(args)
            .env_clear()
            .env("HOME", home)
            .env("HELM_CACHE_HOME", dir("cache"))
            .env("HELM_CONFIG_HOME", dir("config"))
            .env("HELM_DATA_HOME", dir("data"))
            .env("HELM_NO_PLUGINS", "1")
            // A render ends before its garbage matters; collecting it takes a third of its time.
            .env("GOGC", "400")
            // Before it comes near to what it may have, it collects after all.
            .env("GOMEMLIMIT", (limits.memory / 4 * 3).to_string())
            .current_dir(home)
            .process_group(0)
            .kill_on_drop(true)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(ProcessError::Spawn)?;
        let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        confine(id, limits);
        if limits.is_patient {
            // Where that is not allowed, it competes with the others.
            let _ = setpriority_process(id, PATIENT);
        }
        Ok(Running { group: Group(id), child })
    }

    /// Reads to the end of both pipes. A helper that outlives the program would hold them open, so it is killed first.
    async fn finish(&mut self, limit: u64) -> Result<Ended, ProcessError> {
        let Running { group, child } = self;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let end = async {
            let status = child.wait().await.map_err(ProcessError::Read)?;
            // At once: the group's number stays taken only as long as one of its processes is left.
            group.kill();
            Ok(status)
        };
        let (status, stdout, stderr) = tokio::try_join!(end, all_of(stdout, limit), start_of(stderr))?;
        Ok(Ended { success: status.success(), stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() })
    }
}

/// A template can ask for any amount of memory in one word, and where memory is limited the whole operator would be killed for it. A
/// process that fails has values in its memory, so it leaves no image of it. And one that outlives the operator, which kept its time, ends
/// by itself: who hangs in a template uses a processor, or several, if its garbage is collected.
///
/// It is limited when it runs already: before that, nothing of the chart has been read. Where limits cannot be set it runs without.
fn confine(process: Option<Pid>, limits: Limits) {
    let at_most = |limit| Rlimit { current: Some(limit), maximum: Some(limit) };
    let _ = prlimit(process, Resource::Data, at_most(limits.memory));
    let _ = prlimit(process, Resource::Core, at_most(0));
    let seconds = limits.time.as_secs().saturating_add(1).saturating_mul(processors() as u64);
    let _ = prlimit(process, Resource::Cpu, at_most(seconds));
}

pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// A process group that is killed at the latest when this is dropped.
struct Group(Option<Pid>);

impl Group {
    /// Once only: later the number may belong to somebody else.
    fn kill(&mut self) {
        if let Some(leader) = self.0.take() {
            // An error means that the group is empty already.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn all_of(pipe: Option<impl AsyncRead + Unpin>, limit: u64) -> Result<Vec<u8>, ProcessError> {
    let mut bytes = vec![];
    if let Some(pipe) = pipe {
        pipe.take(limit.saturating_add(1)).read_to_end(&mut bytes).await.map_err(ProcessError::Read)?;
    }
    if bytes.len() as u64 > limit { Err(ProcessError::OutputLimit) } else { Ok(bytes) }
}

/// The rest is read and thrown away, so that the program never waits for us.
async fn start_of(pipe: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, ProcessError> {
    let mut bytes = vec![];
    if let Some(mut pipe) = pipe {
        (&mut pipe).take(KEPT_STDERR).read_to_end(&mut bytes).await.map_err(ProcessError::Read)?;
        tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await.map_err(ProcessError::Read)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
