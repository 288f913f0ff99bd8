//! How the level is changed while the operator runs: by a socket, which `chartwright log-level` speaks to, and by signals.
//!
//! The socket is in the private directory of the process, so only its own user reaches it; who speaks is asked of the kernel all
//! the same. One line is read and one is answered: a level, perhaps with a number of seconds, or nothing at all. It can change how much
//! is told, and nothing else.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rustix::process::geteuid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::{Registry, reload};

use super::level::{self, CHANGE, Level};
use crate::workplace::Workplace;

const SOCKET: &str = "control";
/// What goes back to what the operator was started with.
pub const AS_STARTED: &str = "default";

const LONGEST: u64 = 200;
const PATIENCE: Duration = Duration::from_secs(5);

/// How much is shown, and how to change it. Clones are the same.
#[derive(Clone)]
pub struct Levels(Arc<Shared>);

struct Shared {
    handle: reload::Handle<EnvFilter, Registry>,
    /// What is shown from the start, as directives, and the most of it.
    started_with: (String, Level),
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    /// None is what it was started with.
    level: Option<Level>,
    /// Counts changes, so that one that ends by itself does not undo a later one.
    changes: u64,
}

impl Levels {
    pub(super) fn new(handle: reload::Handle<EnvFilter, Registry>, started_with: (String, Level)) -> Self {
        Levels(Arc::new(Shared { handle, started_with, now: Mutex::default() }))
    }

    /// What is shown now, the most of it where parts of the program differ.
    pub fn level(&self) -> Level {
        self.now().level.unwrap_or(self.0.started_with.1)
    }

    /// Shows so much from now on, or again what it was started with. Returns the number of this change.
    fn set(&self, level: Option<Level>, why: &str) -> Result<u64, String> {
        let directives = level.map_or_else(|| self.0.started_with.0.clone(), level::directives);
        let mut now = self.now();
        self.0.handle.reload(EnvFilter::new(directives)).map_err(|error| error.to_string())?;
        (now.level, now.changes) = (level, now.changes + 1);
        let changes = now.changes;
        drop(now);
        let level = match level {
            Some(level) => level.to_string(),
            None => format!("{}, as at the start", self.0.started_with.1),
        };
        tracing::info!(target: CHANGE, why, "the log level is now {level}");
        Ok(changes)
    }

    /// The same for a while.
    fn set_for(&self, level: Option<Level>, why: &str, limit: Option<Duration>) -> Result<(), String> {
        let change = self.set(level, why)?;
        if let Some(limit) = limit {
            let levels = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(limit).await;
                if levels.now().changes == change {
                    let _ = levels.set(None, "its time is over");
                }
            });
        }
        Ok(())
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        // A poisoned lock still holds the level.
        self.0.now.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Answers one question.
    fn answer(&self, question: &str) -> Result<(), String> {
        let mut words = question.split_whitespace();
        let level = match words.next() {
            None => return Ok(()),
            Some(AS_STARTED) => None,
            Some(level) => Some(level.parse::<Level>()?),
        };
        let limit = words.next().map(str::parse).transpose().map_err(|_| "the time is no number of seconds")?;
        self.set_for(level, "asked by chartwright log-level", limit.map(Duration::from_secs))
    }
}

/// SIGUSR1 asks for more, SIGUSR2 for less.
pub fn heed_signals(levels: Levels) -> std::io::Result<()> {
    let (mut more, mut less) = (signal(SignalKind::user_defined1())?, signal(SignalKind::user_defined2())?);
    tokio::spawn(async move {
        loop {
            let (level, why) = tokio::select! {
                _ = more.recv() => (levels.level().more(), "SIGUSR1"),
                _ = less.recv() => (levels.level().less(), "SIGUSR2"),
            };
            let _ = levels.set(Some(level), why);
        }
    });
    Ok(())
}

/// Listens until the process ends.
pub fn listen(levels: Levels) -> std::io::Result<()> {
    let place = Workplace::own()?;
    let path = socket_in(place.path());
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    tokio::spawn(async move {
        // It stays as long as somebody listens in it.
        let _place = place;
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            };
            tokio::spawn(tokio::time::timeout(PATIENCE, converse(stream, levels.clone())));
        }
    });
    Ok(())
}

async fn converse(mut stream: UnixStream, levels: Levels) -> std::io::Result<()> {
    let speaker = stream.peer_cred()?.uid();
    if speaker != geteuid().as_raw() && speaker != 0 {
        return stream.write_all(b"error: only the user of the operator may ask\n").await;
    }
    let (reader, mut writer) = stream.split();
    let mut question = String::new();
    BufReader::new(reader.take(LONGEST)).read_line(&mut question).await?;
    let answer = match levels.answer(&question) {
        Ok(()) => format!("{}\n", levels.level()),
        Err(problem) => format!("error: {problem}\n"),
    };
    writer.write_all(answer.as_bytes()).await
}

/// Asks an operator by its directory, and returns the level that it shows.
pub async fn ask(place: &Path, question: &str) -> std::io::Result<Result<String, String>> {
    let conversation = async {
        let mut stream = UnixStream::connect(socket_in(place)).await?;
        stream.write_all(format!("{question}\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.take(LONGEST * 2).read_to_string(&mut answer).await?;
        Ok(match answer.trim().strip_prefix("error: ") {
            Some(problem) => Err(problem.to_owned()),
            None => Ok(answer.trim().to_owned()),
        })
    };
    let late = |_| std::io::Error::new(std::io::ErrorKind::TimedOut, "it does not answer");
    tokio::time::timeout(PATIENCE, conversation).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
}

/// Where an operator listens, if one does.
pub fn socket_in(place: &Path) -> PathBuf {
    place.join(SOCKET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_below_info_is_told_and_changed_by_one_step() {
        for (asked, more, less) in [
            (Level::Error, Level::Warn, Level::Panic),
            (Level::Warn, Level::Info, Level::Error),
            (Level::Debug, Level::Trace, Level::Info),
        ] {
            let started_with = super::super::directives(Some(asked), "").0;
            let (_layer, handle) = reload::Layer::new(EnvFilter::new(&started_with.0));
            let levels = Levels::new(handle, started_with);
            assert_eq!((levels.level(), levels.level().more(), levels.level().less()), (asked, more, less));
            levels.set(Some(more), "a test").unwrap();
            assert_eq!(levels.level(), more);
            levels.set(None, "a test").unwrap();
            assert_eq!(levels.level(), asked);
        }
    }
}
