//! A cheap look at a chart's files: has anything changed since?
//!
//! Nothing is read but what the file system knows of each file: path, size, times, and the number of the file. A ConfigMap
//! that is mounted changes by swapping one link, and its files are then others with other numbers. Times of change (ctime)
//! are in it because a tool that keeps the time of modification cannot keep those.
//!
//! Another fingerprint does not mean another chart: only the digest says that.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::files;

/// How a chart looked at some time.
#[derive(Clone, Debug, PartialEq)]
pub struct Fingerprint(Result<Vec<Mark>, String>);

#[derive(Clone, Debug, PartialEq)]
struct Mark {
    path: PathBuf,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    number: u64,
}

impl Mark {
    fn of(path: PathBuf, metadata: &std::fs::Metadata) -> Self {
        Mark {
            path,
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            number: metadata.ino(),
        }
    }
}

impl Fingerprint {
    /// Looks at a chart directory or a packed chart. What cannot be looked at has a fingerprint as well: its error.
    pub fn of(origin: &Path) -> Self {
        let marks = match std::fs::metadata(origin) {
            Err(error) => Err(error.to_string()),
            Ok(metadata) if metadata.is_dir() => files::list(origin)
                .map(|found| found.into_iter().map(|found| Mark::of(found.path, &found.metadata)).collect())
                .map_err(|error| error.to_string()),
            Ok(metadata) => Ok(vec![Mark::of(PathBuf::new(), &metadata)]),
        };
        Fingerprint(marks)
    }
}
