//! The files of a chart directory.
//!
//! Symbolic links are followed, also out of the directory, as helm does: whoever owns the directory put them there. A link
//! that leads back to a directory above it is refused, and so is what is neither file nor directory, since reading a pipe
//! never ends.
//!
//! What .helmignore names is left out, as by `helm package`. Names that begin with `..` are passed over: kubelet keeps the generations of a mounted ConfigMap under them, and the links
//! beside them lead to the same files.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::ignore::Ignore;
use super::{ChartError, MOST_FILES};

/// A file of a chart.
#[derive(Debug)]
pub struct Found {
    /// Relative to the chart.
    pub path: PathBuf,
    /// Where it can be read.
    pub file: PathBuf,
    /// Of the file itself, not of a link to it.
    pub metadata: std::fs::Metadata,
}

/// All files, in the order of their paths.
pub fn list(root: &Path) -> Result<Vec<Found>, ChartError> {
    let mut found = vec![];
    let mut walk = Walk { root, ignore: Ignore::of(root), above: vec![], found: &mut found };
    walk.directory(root, Path::new(""))?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

struct Walk<'a> {
    root: &'a Path,
    ignore: Ignore,
    /// The real paths of the directories that we are in.
    above: Vec<PathBuf>,
    found: &'a mut Vec<Found>,
}

impl Walk<'_> {
    fn directory(&mut self, dir: &Path, path: &Path) -> Result<(), ChartError> {
        let unreadable = |error| ChartError::Read { file: dir.to_owned(), error };
        let real = dir.canonicalize().map_err(unreadable)?;
        if self.above.contains(&real) {
            return Err(ChartError::Cycle { file: dir.to_owned() });
        }
        self.above.push(real);
        for entry in std::fs::read_dir(dir).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            if !name.as_bytes().starts_with(b"..") {
                self.entry(dir.join(&name), path.join(&name))?;
            }
        }
        self.above.pop();
        Ok(())
    }

    fn entry(&mut self, file: PathBuf, path: PathBuf) -> Result<(), ChartError> {
        let metadata = std::fs::metadata(&file).map_err(|error| ChartError::Read { file: file.clone(), error })?;
        // A name that is no text cannot be named by a rule.
        if path.to_str().is_some_and(|path| self.ignore.matches(path, metadata.is_dir())) {
            return Ok(());
        }
        if metadata.is_dir() {
            return self.directory(&file, &path);
        }
        if !metadata.is_file() {
            return Err(ChartError::Special { file });
        }
        if self.found.len() == MOST_FILES {
            return Err(ChartError::TooManyFiles(self.root.to_owned()));
        }
        self.found.push(Found { path, file, metadata });
        Ok(())
    }
}
