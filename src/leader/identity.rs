//! Who this process is in the Lease.
//!
//! Outside of a pod, a process has an identity that none had before it. In a pod, the identity is kept in a file of the directory for
//! temporary files, where a volume outlives the container, and the process holds a lock on the file for as long as it runs. The next
//! container of the pod has the same identity, and takes its Lease without waiting until it expires.
//!
//! **Contract.** Two living processes never have the same identity:
//!
//! - The kernel removes the lock when a process ends, however it ends. So the process that gets the lock knows that the one before it is dead.
//! - The file counts only in the pod that it was written in, by the pod's UID. Several pods may share a volume, on nodes that do not
//!   see each other's locks.
//! - It counts only as long as it is the file that was written, by its inode. A copy of it has a lock of its own.
//!
//! A process that does not get the lock, beside another in its pod, has a new identity. So has one that cannot keep a file. Then the Lease of
//! the container before it expires as usual.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use rustix::fs::OFlags;
use rustix::process::geteuid;

/// An identity is no longer than this.
const LONGEST: u64 = 1024;

#[derive(Debug, thiserror::Error)]
#[error("no random numbers are to be had, so this operator cannot be told from others")]
pub struct NoRandomNumber;

/// The pod that this process runs in.
#[derive(Clone, Copy, Debug)]
pub struct Pod<'a> {
    pub name: &'a str,
    pub uid: &'a str,
}

#[derive(Debug)]
pub struct Identity {
    text: Arc<str>,
    is_inherited: bool,
    /// While it is open, no other process has this identity.
    _lock: Option<File>,
}

impl Identity {
    /// One that no process had before.
    pub fn new(host: &str) -> Result<Self, NoRandomNumber> {
        Ok(Identity { text: drawn(host)?.into(), is_inherited: false, _lock: None })
    }

    /// That of the pod's container before this one, if that is dead for sure, and otherwise a new one.
    ///
    /// # Arguments
    /// `lease`: its namespace and its name. Operators in one pod may have several. `dir`: outlives the container.
    pub fn in_pod(pod: Pod<'_>, lease: (&str, &str), dir: &Path) -> Result<Self, NoRandomNumber> {
        let host = format!("{}_{}", pod.name, pod.uid);
        let path = dir.join(file_name(pod.uid, lease));
        let mut file = match locked(&path) {
            Ok(Some(file)) => file,
            Ok(None) => {
                tracing::info!("another process of this pod has the pod's identity for the leader election");
                return Identity::new(&host);
            }
            Err(error) => {
                let path = path.display();
                tracing::warn!(
                    "cannot keep the identity for the leader election in {path}, so the next container of this pod waits until the Lease expires; mount a volume there: {error}"
                );
                return Identity::new(&host);
            }
        };
        if let Some(text) = kept(&mut file, &host) {
            return Ok(Identity { text: text.into(), is_inherited: true, _lock: Some(file) });
        }
        let text = drawn(&host)?;
        if let Err(error) = keep(&mut file, &text) {
            tracing::warn!("cannot write {}: {error}", path.display());
        }
        Ok(Identity { text: text.into(), is_inherited: false, _lock: Some(file) })
    }

    pub fn text(&self) -> Arc<str> {
        self.text.clone()
    }

    /// Whether an earlier process had it.
    pub fn is_inherited(&self) -> bool {
        self.is_inherited
    }
}

fn drawn(host: &str) -> Result<String, NoRandomNumber> {
    let mut random = [0; 4];
    SystemRandom::new().fill(&mut random).map_err(|_| NoRandomNumber)?;
    Ok(format!("{host}_{:08x}", u32::from_be_bytes(random)))
}

/// Of any pod and any Lease, in the characters of a file's name.
fn file_name(uid: &str, (namespace, name): (&str, &str)) -> PathBuf {
    let hash = digest(&SHA256, format!("{uid}/{namespace}/{name}").as_bytes());
    let hex: String = hash.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("chartwright-leader-{hex}").into()
}

/// The file, unless another process holds its lock.
fn locked(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let (own, found) = (file.metadata()?, std::fs::symlink_metadata(path)?);
    let is_it =
        own.is_file() && own.uid() == geteuid().as_raw() && (own.dev(), own.ino()) == (found.dev(), found.ino());
    if is_it { Ok(Some(file)) } else { Err(io::Error::other("it is not a file of this process's user")) }
}

/// What is in the file, if it was written there and for this host.
fn kept(file: &mut File, host: &str) -> Option<String> {
    let mut content = String::new();
    Read::take(&mut *file, LONGEST).read_to_string(&mut content).ok()?;
    let (text, inode) = content.trim_end().split_once(' ')?;
    let random = text.strip_prefix(host)?.strip_prefix('_')?;
    let is_sound = random.len() == 8 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_sound && inode == file.metadata().ok()?.ino().to_string()).then(|| text.to_owned())
}

fn keep(file: &mut File, text: &str) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    let inode = file.metadata()?.ino();
    writeln!(file, "{text} {inode}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: (&str, &str) = ("ops", "web");
    const POD: Pod<'_> = Pod { name: "web-0", uid: "u-1" };

    fn text(identity: &Identity) -> &str {
        &identity.text
    }

    #[test]
    fn two_processes_on_a_machine_are_told_apart() {
        let [first, second] = [(); 2].map(|()| Identity::new("laptop").unwrap());
        assert_ne!(text(&first), text(&second));
        assert!(text(&first).starts_with("laptop_"));
    }

    #[test]
    fn the_next_container_of_a_pod_is_who_the_one_before_was() {
        let dir = tempfile::tempdir().unwrap();
        let first = Identity::in_pod(POD, LEASE, dir.path()).unwrap();
        assert!(text(&first).starts_with("web-0_u-1_") && !first.is_inherited());
        let known = first.text();
        drop(first);
        let second = Identity::in_pod(POD, LEASE, dir.path()).unwrap();
        assert!(second.text() == known && second.is_inherited());
    }

    #[test]
    fn nobody_is_who_may_live() {
        let dir = tempfile::tempdir().unwrap();
        let first = Identity::in_pod(POD, LEASE, dir.path()).unwrap();
        let beside = Identity::in_pod(POD, LEASE, dir.path()).unwrap();
        assert!(text(&beside) != text(&first) && !beside.is_inherited());
        // One that ended beside it changes nothing.
        drop(beside);
        let copy = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(dir.path()).unwrap().flatten() {
            std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
        }
        let elsewhere = Identity::in_pod(POD, LEASE, copy.path()).unwrap();
        assert!(text(&elsewhere) != text(&first) && !elsewhere.is_inherited());
        let known = first.text();
        drop(first);
        for (pod, lease) in
            [(Pod { uid: "u-2", ..POD }, LEASE), (Pod { name: "web-1", ..POD }, LEASE), (POD, ("ops", "x"))]
        {
            let other = Identity::in_pod(pod, lease, dir.path()).unwrap();
            assert!(*text(&other) != *known && !other.is_inherited(), "{pod:?} {lease:?}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_no_predecessor() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(file_name(POD.uid, LEASE));
        for content in ["", "web-0_u-1_12345678", "web-0_u-1_1234567x 1", "web-0_u-1_12345678 1", "\u{0}"] {
            std::fs::write(&path, content).unwrap();
            assert!(!Identity::in_pod(POD, LEASE, dir.path()).unwrap().is_inherited(), "{content:?}");
        }
        assert!(Identity::in_pod(POD, LEASE, dir.path()).unwrap().is_inherited(), "it was repaired");
        std::fs::remove_file(&path).unwrap();
        let elsewhere = dir.path().join("elsewhere");
        std::fs::write(&elsewhere, "precious").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(!Identity::in_pod(POD, LEASE, dir.path()).unwrap().is_inherited());
        assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "precious", "no link is followed");
        assert!(!Identity::in_pod(POD, LEASE, &dir.path().join("none")).unwrap().is_inherited());
    }
}
