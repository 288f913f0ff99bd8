//! The files of a packed chart (`.tgz`).
//!
//! An archive may come from anywhere, so it is trusted less than a directory: every path must stay below the one directory
//! that it holds, links and devices are refused (`helm package` makes none), and it is unpacked only up to the limits of
//! [`super::MOST_FILES`] and [`super::MOST_BYTES`], whatever its headers promise.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use flate2::read::MultiGzDecoder;
use tar::EntryType;

use super::{ChartError, Copy, MOST_BYTES};

/// What the headers of [`super::MOST_FILES`] files may take beside the files.
const HEADER_BYTES: u64 = 64 * 1024 * 1024;

/// Hands every file to `sink`, with its path below the chart's directory.
pub(super) fn unpack(archive: &Path, sink: &mut Copy<'_>) -> Result<(), ChartError> {
    let file = File::open(archive).map_err(|error| ChartError::Read { file: archive.to_owned(), error })?;
    let wrong = |reason: String| ChartError::Archive { archive: archive.to_owned(), reason };
    let mut top: Option<PathBuf> = None;
    let mut has_chart_file = false;
    each_file(file, |path, entry| {
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
        let mut content = vec![];
        entry.take(sink.most.bytes + 1).read_to_end(&mut content).map_err(|error| wrong(error.to_string()))?;
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

pub(super) enum Unpacking<E> {
    Archive(String),
    Stopped(E),
}

/// Calls `each` for every file, with a path of plain names.
pub(super) fn each_file<E>(
    packed: impl Read,
    mut each: impl FnMut(&Path, &mut dyn Read) -> Result<(), E>,
) -> Result<(), Unpacking<E>> {
    let broken = |error: std::io::Error| Unpacking::Archive(error.to_string());
    let mut archive = tar::Archive::new(MultiGzDecoder::new(packed).take(MOST_BYTES + HEADER_BYTES));
    for entry in archive.entries().map_err(broken)? {
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
        each(&plain, &mut entry).map_err(Unpacking::Stopped)?;
    }
    Ok(())
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
