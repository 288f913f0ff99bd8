//! Where this process keeps what only it may read: charts, values for helm, the socket by which it is spoken to.
//!
//! One directory per process, below the system's directory for temporary files, for this user only. It goes with the last that
//! is in it. A process that is killed leaves it behind, and the next one of any kind removes it when it makes its own.
//!
//! **Contract.** Whoever lives holds a lock on the directory itself; the kernel takes it off when the process ends, however it
//! ends. Only what nobody holds, what has our name, and what belongs to this user is removed. Numbers of processes decide
//! nothing: they are used again. A link is never followed.
//!
//! Both sides check after they have the lock that the name still leads to what they locked. So a directory that was just made
//! cannot be taken for one that was left behind.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use rustix::fs::OFlags;
use rustix::process::geteuid;
use tempfile::TempDir;

const PREFIX: &str = "chartwright-work-";

/// The directory of a process. It is removed with this.
#[derive(Debug)]
pub struct Workplace {
    dir: PathBuf,
    _lock: File,
}

impl Drop for Workplace {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next process.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A directory for one purpose. It is removed with this.
#[derive(Debug)]
pub struct PrivateDir {
    dir: TempDir,
    _place: Arc<Workplace>,
}

impl PrivateDir {
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Workplace {
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// This process's own. It is made when it is first asked for.
    pub fn own() -> io::Result<Arc<Self>> {
        static OWN: Mutex<Weak<Workplace>> = Mutex::new(Weak::new());
        // A poisoned lock still leads to the directory.
        let mut own = OWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(place) = own.upgrade() {
            return Ok(place);
        }
        let place = Arc::new(Workplace::take_in(&std::env::temp_dir())?);
        *own = Arc::downgrade(&place);
        Ok(place)
    }

    /// Makes one, after what others left behind is gone: also a command that somebody interrupted leaves values.
    fn take_in(parent: &Path) -> io::Result<Self> {
        tidy_up(parent);
        Workplace::make_in(parent)
    }

    fn make_in(parent: &Path) -> io::Result<Self> {
        const TRIES: usize = 10;
        let prefix = format!("{PREFIX}{}-", std::process::id());
        for _ in 0..TRIES {
            let mut builder = tempfile::Builder::new();
            builder.prefix(&prefix).permissions(Permissions::from_mode(0o700));
            let dir = builder.tempdir_in(parent)?.keep();
            // Somebody who cleans up may have been quicker; then another name is tried.
            if let Some(lock) = lock(&dir)? {
                return Ok(Workplace { dir, _lock: lock });
            }
        }
        Err(io::Error::other(format!("another process removes what is made in {}", parent.display())))
    }
}

/// A directory for one purpose of this process.
pub fn private_dir(purpose: &str) -> io::Result<PrivateDir> {
    let place = Workplace::own()?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(purpose).permissions(Permissions::from_mode(0o700));
    Ok(PrivateDir { dir: builder.tempdir_in(place.path())?, _place: place })
}

/// Removes what killed processes left behind: values are in it. Whoever cannot remove it can work all the same.
fn tidy_up(parent: &Path) {
    match clean_up_in(parent) {
        Ok(0) => {}
        Ok(directories) => tracing::info!(directories, "cleaned up temporary files of a previous process"),
        Err(error) => tracing::warn!("cannot clean up temporary files of a previous process: {error}"),
    }
}

/// Returns how many directories of this user that were.
fn clean_up_in(parent: &Path) -> io::Result<usize> {
    let (mut removed, mut failure) = (0, None);
    for dir in all_in(parent)? {
        // The lock is held until the directory is gone.
        let Ok(Some(_lock)) = lock(&dir) else { continue };
        match std::fs::remove_dir_all(&dir) {
            Ok(()) => removed += 1,
            Err(error) => failure = Some(error),
        }
    }
    failure.map_or(Ok(removed), Err)
}

/// The directories of processes of this user that live, with the numbers of those.
pub fn living() -> io::Result<Vec<(u32, PathBuf)>> {
    let mut living = vec![];
    for dir in all_in(&std::env::temp_dir())? {
        let is_free = open(&dir).is_ok_and(|file| file.try_lock_shared().is_ok());
        let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse().ok());
        if let Some(process) = process.filter(|_| !is_free) {
            living.push((process, dir));
        }
    }
    Ok(living)
}

/// What has our name and belongs to this user.
fn all_in(parent: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = vec![];
    for entry in std::fs::read_dir(parent)?.flatten() {
        let is_named = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        // Of the entry itself, not of what a link leads to.
        let is_ours = |metadata: std::fs::Metadata| metadata.is_dir() && metadata.uid() == geteuid().as_raw();
        if is_named && entry.metadata().is_ok_and(is_ours) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn open(dir: &Path) -> io::Result<File> {
    let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(dir)
}

/// The lock of a directory, unless somebody has it or the name leads to another by now.
fn lock(dir: &Path) -> io::Result<Option<File>> {
    let file = match open(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let locked = file.metadata()?;
    let is_it = std::fs::symlink_metadata(dir).is_ok_and(|it| (it.dev(), it.ino()) == (locked.dev(), locked.ino()));
    Ok((is_it && locked.uid() == geteuid().as_raw()).then_some(file))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_left_behind_goes_and_what_is_in_use_stays() {
        let parent = tempfile::tempdir().unwrap();
        let used = Workplace::make_in(parent.path()).unwrap();
        let mode = std::fs::metadata(used.path()).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o700);
        let left = Workplace::make_in(parent.path()).unwrap();
        let path = left.path().to_owned();
        std::fs::write(path.join("values.json"), "{}").unwrap();
        // As if its process had been killed: the lock goes, the directory stays.
        let Workplace { _lock, .. } = &left;
        _lock.unlock().unwrap();
        std::mem::forget(left);
        let next = Workplace::take_in(parent.path()).unwrap();
        assert!(!path.exists() && used.path().exists() && next.path().exists());
        let path = used.path().to_owned();
        drop(used);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_not_ours_is_not_touched() {
        let (parent, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(elsewhere.path().join("precious"), "").unwrap();
        symlink(elsewhere.path(), parent.path().join(format!("{PREFIX}1-link"))).unwrap();
        std::fs::write(parent.path().join(format!("{PREFIX}1-file")), "").unwrap();
        std::fs::create_dir(parent.path().join("chartwright-lab-1")).unwrap();
        let inside = parent.path().join(format!("{PREFIX}1-old"));
        std::fs::create_dir(&inside).unwrap();
        symlink(elsewhere.path(), inside.join("link")).unwrap();
        assert_eq!(clean_up_in(parent.path()).unwrap(), 1);
        assert!(elsewhere.path().join("precious").exists());
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 3);
    }
}
