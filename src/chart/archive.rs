//! The files of a packed chart (`.tgz`).
//!
//! An archive may come from anywhere, so it is trusted less than a directory: every path must stay below the one directory
//! that it holds, links and devices are refused (`helm package` makes none), and it is unpacked only up to the limits of
//! [`super::MOST_FILES`], [`super::MOST_BYTES`] and [`super::MOST_FILE_BYTES`], whatever its headers promise. What a header takes by
//! itself is limited too: names may be of any length.
//!
//! helm unpacks packed subcharts for itself, with a reader of its own. What we looked at must be what helm gets, so an entry that the
//! two readers may take for different files is refused, and so is an archive that we would not read to its end.

use std::cell::Cell;
use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use flate2::read::MultiGzDecoder;
use tar::{Entry, EntryType, Header};

use super::{ChartError, Copy, MOST_BYTES, MOST_FILE_BYTES, MOST_FILES};

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
    let inner = MultiGzDecoder::new(packed);
    let mut archive =
        tar::Archive::new(Metered { inner, allowance: allowance.clone(), left: MOST_BYTES + HEADER_BYTES });
    let mut entries = archive.entries().map_err(broken)?;
    // Directories count: nobody else counts them.
    for count in 1.. {
        allowance.set(MOST_BEFORE_A_FILE);
        let Some(entry) = entries.next() else { break };
        let mut entry = entry.map_err(broken)?;
        if count > MOST_FILES {
            return Err(Unpacking::Archive(format!("it has more than {MOST_FILES} files and directories")));
        }
        let path = entry.path().map_err(broken)?.into_owned();
        if let Some(doubt) = doubt(&mut entry) {
            return Err(Unpacking::Archive(format!("helm may read `{}` in another way: {doubt}", path.display())));
        }
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

/// Why helm may take an entry for something else than we do, or for several entries. `helm package` writes none of these.
fn doubt<R: Read>(entry: &mut Entry<'_, R>) -> Option<&'static str> {
    let is_file = matches!(entry.header().entry_type(), EntryType::Regular | EntryType::Continuous);
    let path = entry.path_bytes();
    if path.is_empty() || path.contains(&0) {
        return Some("its path is empty or has a NUL");
    }
    if path.contains(&b'\\') {
        return Some("its path has a `\\`");
    }
    // By it, old archives mark directories, which have no content.
    if is_file && path.ends_with(b"/") {
        return Some("its path ends with a `/`");
    }
    if entry.header().entry_type() == EntryType::Directory && entry.size() != 0 {
        return Some("it is a directory with content");
    }
    if !has_plain_header(entry.header()) {
        return Some("its header is neither of POSIX nor of GNU");
    }
    // A global header is of no file, and its content is not needed.
    if entry.header().entry_type() == EntryType::XGlobalHeader {
        return None;
    }
    let Ok(records) = entry.pax_extensions() else { return Some("its PAX header cannot be read") };
    let mut keys = HashSet::new();
    for record in records.into_iter().flatten() {
        let Some((key, value)) = record.ok().and_then(|it| Some((it.key().ok()?, it.value_bytes()))) else {
            return Some("its PAX header cannot be read");
        };
        if !keys.insert(key) {
            return Some("its PAX header says something twice");
        }
        if key.starts_with("GNU.sparse.") {
            return Some("it is a sparse file");
        }
        if key == "size" && !value.iter().all(u8::is_ascii_digit) {
            return Some("its size is not a number");
        }
    }
    None
}

/// Whether all agree where the path is in a header. Of the others, readers disagree whether there is a second part of it, and how
/// long that is.
fn has_plain_header(header: &Header) -> bool {
    /// Where the second part of a path is.
    const PREFIX: usize = 345;
    let is_star = header.as_bytes().ends_with(b"tar\0");
    let has_prefix = header.as_bytes()[PREFIX] != 0;
    header.as_ustar().is_some() && !is_star || header.as_gnu().is_some() && !has_prefix
}

/// How much may be read until somebody says otherwise.
type Allowance = Rc<Cell<u64>>;

struct Metered<R> {
    inner: R,
    allowance: Allowance,
    /// How much may be read in all. Then it is an error and not the end: helm would read on.
    left: u64,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.allowance.get()).unwrap_or(usize::MAX).min(buffer.len());
        if left == 0 && !buffer.is_empty() {
            return Err(std::io::Error::other("a header or what no file needs is too long"));
        }
        let count = self.inner.read(&mut buffer[..left])?;
        self.allowance.set(self.allowance.get() - count as u64);
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| std::io::Error::other("it is too large"))?;
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

#[cfg(test)]
mod tests;
