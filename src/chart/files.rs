//! The files of a chart directory.
//!
//! Symbolic links are followed, also out of the chart, as helm does, but not out of the project: a chart that somebody else made could
//! have the operator's own credentials rendered into a ConfigMap. The project is the nearest directory above the chart that has a
//! watches.yaml, or else the one that the chart is in. A link that leads back to a directory above it is refused, and so is what is
//! neither file nor directory, since reading a pipe never ends.
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
    let project = project_of(root).map_err(|error| ChartError::Read { file: root.to_owned(), error })?;
    let mut walk = Walk { root, project, ignore: Ignore::of(root), above: vec![], found: &mut found };
    walk.directory(root, Path::new(""))?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// What links may lead to.
fn project_of(chart: &Path) -> std::io::Result<PathBuf> {
    const NEAR: usize = 4;
    let chart = chart.canonicalize()?;
    let is_root = |dir: &&Path| dir.parent().is_none();
    let mut above = chart.ancestors().skip(1).take(NEAR).filter(|dir| !is_root(dir));
    let project = above.clone().find(|dir| dir.join("watches.yaml").is_file()).or_else(|| above.next());
    Ok(project.unwrap_or(&chart).to_owned())
}

struct Walk<'a> {
    root: &'a Path,
    project: PathBuf,
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
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name();
            if name.as_bytes().starts_with(b"..") {
                continue;
            }
            let is_link = entry.file_type().map_err(unreadable)?.is_symlink();
            self.entry(dir.join(&name), path.join(&name), is_link)?;
        }
        self.above.pop();
        Ok(())
    }

    fn entry(&mut self, file: PathBuf, path: PathBuf, is_link: bool) -> Result<(), ChartError> {
        let metadata = std::fs::metadata(&file).map_err(|error| ChartError::Read { file: file.clone(), error })?;
        // A name that is no text cannot be named by a rule.
        if path.to_str().is_some_and(|path| self.ignore.matches(path, metadata.is_dir())) {
            return Ok(());
        }
        if is_link {
            self.check_link(&file)?;
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

    fn check_link(&self, file: &Path) -> Result<(), ChartError> {
        let to = file.canonicalize().map_err(|error| ChartError::Read { file: file.to_owned(), error })?;
        match to.starts_with(&self.project) {
            true => Ok(()),
            false => Err(ChartError::LeadsOut { file: file.to_owned(), to }),
        }
    }
}
