//! The files of a packed chart (`.tgz`).
//!
//! An archive may come from anywhere, so it is trusted less than a directory: every path must stay below the one directory
//! that it holds, links and devices are refused (`helm package` makes none), and it is unpacked only up to the limits of
//! [`super::MOST_FILES`], [`super::MOST_BYTES`] and [`super::MOST_FILE_BYTES`], whatever its headers promise. What a header takes by
//! itself is limited too: names may be of any length.

use std::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use flate2::read::MultiGzDecoder;
use tar::EntryType;

use super::{ChartError, Copy, MOST_BYTES, MOST_FILE_BYTES};

/// What the headers of [`super::MOST_FILES`] files may take beside the files.
const HEADER_BYTES: u64 = 64 * 1024 * 1024;
/// What lies before one file: the end of the last one, and headers. They are read whole.
const MOST_BEFORE_A_FILE: u64 = 1024 * 1024;

/// Hands every file to `sink`, with its path below the chart's directory.
pub(super) fn unpack(archive: &Path, sink: &mut Copy<'_>) -> Result<(), ChartError> {
    let file = File::open(archive).map_err(|error| ChartError::Read { file: archive.to_owned(), error })?;
    let wrong = |reason: String| ChartError::Archive { archive: archive.to_owned(), reason };
    let mut top: Option<PathBuf> = None;
    let mut has_chart_file = false;
    each_file(file, |path, size, entry| {
        let mut parts = path.components();
        let first = parts.next().map(|part| PathBuf::from(part.as_os_str())).unwrap_or_default();
        let below = parts.as_path();
        if below.as_os_str().is_empty() {
            return Err(wrong(format!("`{}` is outside of the chart's directory", path.display())));
        }
        match &top {
            Some(top) if *top != first => {
                return Err(wrong(format!("it holds two directories, `{}` and `{}`", top.display(), first.display())));
            }
            _ => top = Some(first),
        }
        has_chart_file |= below == Path::new("Chart.yaml");
        let content = sink.read(below, size, entry, |error| wrong(error.to_string()))?;
        sink.add(below, &content)
    })
    .map_err(|error| match error {
        Unpacking::Archive(reason) => wrong(reason),
        Unpacking::Stopped(error) => error,
    })?;
    match has_chart_file {
        true => Ok(()),
        false => Err(wrong("it has no Chart.yaml in its directory".into())),
    }
}

pub(crate) enum Unpacking<E> {
    Archive(String),
    Stopped(E),
}

/// Calls `each` for every file, with a path of plain names and the size that its header promises.
pub(crate) fn each_file<E>(
    packed: impl Read,
    mut each: impl FnMut(&Path, u64, &mut dyn Read) -> Result<(), E>,
) -> Result<(), Unpacking<E>> {
    let broken = |error: std::io::Error| Unpacking::Archive(error.to_string());
    let allowance = Allowance::default();
    let unpacked = MultiGzDecoder::new(packed).take(MOST_BYTES + HEADER_BYTES);
    let mut archive = tar::Archive::new(Metered { inner: unpacked, allowance: allowance.clone() });
    let mut entries = archive.entries().map_err(broken)?;
    loop {
        allowance.set(MOST_BEFORE_A_FILE);
        let Some(entry) = entries.next() else { break };
        let mut entry = entry.map_err(broken)?;
        let path = entry.path().map_err(broken)?.into_owned();
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous => {}
            EntryType::Directory | EntryType::XGlobalHeader => continue,
            _ => {
                let reason = format!("`{}` is a link or a device, and only files are taken", path.display());
                return Err(Unpacking::Archive(reason));
            }
        }
        let plain = plain(&path).ok_or_else(|| {
            Unpacking::Archive(format!("the path `{}` leads out of the chart's directory", path.display()))
        })?;
        // One more than is taken, so that it can be told that it is too much.
        allowance.set(MOST_FILE_BYTES + 1);
        each(&plain, entry.size(), &mut entry).map_err(Unpacking::Stopped)?;
    }
    Ok(())
}

/// How much may be read until somebody says otherwise.
type Allowance = Rc<Cell<u64>>;

struct Metered<R> {
    inner: R,
    allowance: Allowance,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.allowance.get()).unwrap_or(usize::MAX).min(buffer.len());
        if left == 0 && !buffer.is_empty() {
            return Err(std::io::Error::other("a header or what no file needs is too long"));
        }
        let count = self.inner.read(&mut buffer[..left])?;
        self.allowance.set(self.allowance.get() - count as u64);
        Ok(count)
    }
}

/// The path without `.`, unless it is absolute or contains `..`.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(plain)
}
