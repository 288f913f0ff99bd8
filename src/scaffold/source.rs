//! Where a chart comes from, and how it gets here with all that it depends on.
//!
//! | module | what is in it |
//! |---|---|
//! | [`dependencies`] | which charts a chart needs, and which of them it has |
//! | [`fetching`] | helm as a person runs it: with their logins, but none of their caches |
//! | [`repositories`] | the chart repositories that a person has told helm about |
//!
//! helm does the fetching. A chart is made ready in a private directory; nothing of it reaches the project before it renders.

use std::path::{Component, Path, PathBuf};

use super::error::ScaffoldError;
use super::layout;
use crate::chart::{Chart, files, notes};
use crate::workplace::{self, PrivateDir};

pub mod dependencies;
pub mod fetching;
pub mod repositories;

use fetching::Fetching;

/// Where a chart comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A chart of ours to start from, under this name.
    Starter(String),
    /// A directory or a packed chart.
    Local(PathBuf),
    /// A packed chart at an address.
    Address(String),
    /// `repository/chart`, of a repository that helm knows by its name.
    Known {
        repository: String,
        chart: String,
    },
    InRepository {
        address: String,
        chart: String,
    },
    /// `oci://…`, perhaps with a tag.
    Oci(String),
}

/// A source, and which version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub source: Source,
    /// None is the newest, or the one that there is.
    pub version: Option<String>,
}

impl Wanted {
    /// What the flags mean. A directory or a file goes before a name of the same letters.
    pub fn read(chart: &str, repository: Option<&str>, version: Option<&str>) -> Result<Self, ScaffoldError> {
        let source = match (chart, repository) {
            (chart, Some(address)) => Source::InRepository { address: address.to_owned(), chart: chart.to_owned() },
            (chart, None) if chart.starts_with("oci://") => Source::Oci(chart.to_owned()),
            (chart, None) if chart.contains("://") => Source::Address(chart.to_owned()),
            (chart, None) if Path::new(chart).exists() => Source::Local(chart.into()),
            (chart, None) => match chart.split_once('/') {
                Some((repository, name)) if is_name(repository) && is_name(name) => {
                    Source::Known { repository: repository.to_owned(), chart: name.to_owned() }
                }
                _ => return Err(ScaffoldError::NoSuchChart(chart.to_owned())),
            },
        };
        Ok(Wanted { source, version: version.map(str::to_owned) })
    }

    /// What lies at a place has the version that it has. helm chooses only in repositories and registries.
    fn check(&self, present: &str) -> Result<(), ScaffoldError> {
        let is_one = matches!(self.source, Source::Local(_) | Source::Address(_));
        let is_other = |wanted: &&String| wanted.trim_start_matches('v') != present.trim_start_matches('v');
        match self.version.as_ref().filter(is_other) {
            Some(wanted) if is_one => Err(ScaffoldError::OtherVersion {
                place: self.shown(),
                present: present.to_owned(),
                wanted: wanted.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Whether it is the chart that the project has at a place.
    pub fn is_at(&self, project: &Path, place: &Path) -> bool {
        matches!(&self.source, Source::Local(path) if is_at(&path.to_string_lossy(), project, place))
    }

    /// For messages and for the PROJECT file.
    pub fn shown(&self) -> String {
        match &self.source {
            Source::Starter(_) => "starter".to_owned(),
            Source::Local(path) => path.display().to_string(),
            Source::Address(address) | Source::Oci(address) => address.clone(),
            Source::Known { repository, chart } => format!("{repository}/{chart}"),
            Source::InRepository { address, chart } => format!("{chart} of {address}"),
        }
    }
}

/// Whether a path, as [`Wanted::shown`] shows it, leads to a place in the project.
pub fn is_at(shown: &str, project: &Path, place: &Path) -> bool {
    let real = |path: &Path| project.join(path).canonicalize().ok();
    real(Path::new(shown)).is_some_and(|path| real(place) == Some(path))
}

fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !text.is_empty() && text.bytes().all(is_letter) && !text.starts_with('.')
}

/// A chart that is here, with its dependencies.
pub struct Ready {
    pub chart: Chart,
    /// Relative to the chart, in order.
    pub files: Vec<(PathBuf, Vec<u8>)>,
}

/// Brings a chart here. `progress` is called before what takes long.
pub async fn obtain(wanted: &Wanted, fetching: &Fetching<'_>, progress: &dyn Fn(&str)) -> Result<Ready, ScaffoldError> {
    let place = workplace::private_dir("fetched-").map_err(ScaffoldError::Temporary)?;
    let origin = match &wanted.source {
        Source::Local(path) => path.clone(),
        Source::Starter(name) => {
            let dir = place.path().join("starter");
            let starter = layout::starter(name).into_iter();
            write_all(&dir, starter.map(|(path, text)| (path.into(), text.into_bytes())))?;
            dir
        }
        _ => {
            progress(&format!("fetching {}", wanted.shown()));
            fetching.pull(wanted, place.path()).await?
        }
    };
    let copy = Copy::of(&origin, &place)?;
    wanted.check(&copy.version)?;
    if let Some(missing) = dependencies::missing(&copy.dir)? {
        progress(&format!("fetching the dependencies of {}", copy.chart));
        fetching.dependencies(&missing, &copy.dir, &copy.chart).await?;
    }
    let chart = Chart::load(&copy.dir)?;
    Ok(Ready { chart, files: read_all(&copy.dir)? })
}

/// A copy of a chart that may be written to.
struct Copy {
    dir: PathBuf,
    chart: String,
    version: String,
}

/// So many directories lie between a copy and the private place that it is in: paths to charts beside it may lead up.
const DEPTH: usize = 12;

impl Copy {
    fn of(origin: &Path, place: &PrivateDir) -> Result<Self, ScaffoldError> {
        let chart = Chart::load(origin)?;
        // It becomes the name of a directory, here and in the project.
        if !is_name(&chart.name) {
            return Err(ScaffoldError::ChartName(chart.name.clone()));
        }
        let root = place.path().join("copy");
        let dir = root.join(["d"; DEPTH].join("/")).join(&chart.name);
        write_all(&dir, files_of(&chart)?.into_iter())?;
        let copy = Copy { dir, chart: chart.name.clone(), version: chart.version.clone() };
        if origin.is_dir() {
            copy.show_neighbours(origin, &root)?;
        }
        Ok(copy)
    }

    /// `file://../common` is beside the original. A link beside the copy leads there.
    fn show_neighbours(&self, origin: &Path, root: &Path) -> Result<(), ScaffoldError> {
        let origin = origin.canonicalize().map_err(|error| ScaffoldError::Read { file: origin.to_owned(), error })?;
        for path in dependencies::neighbours(&self.dir)? {
            let (seen, real) = (plain(&self.dir.join(&path)), plain(&origin.join(&path)));
            if seen.exists() || !seen.starts_with(root) {
                continue;
            }
            if let Some(parent) = seen.parent() {
                std::fs::create_dir_all(parent).map_err(ScaffoldError::Temporary)?;
            }
            std::os::unix::fs::symlink(real, seen).map_err(ScaffoldError::Temporary)?;
        }
        Ok(())
    }
}

/// Without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// The files of a loaded chart, without the one that loading adds.
fn files_of(chart: &Chart) -> Result<Vec<(PathBuf, Vec<u8>)>, ScaffoldError> {
    let mut files = read_all(&chart.dir)?;
    files.retain(|(path, content)| !notes::is_added(path, content));
    Ok(files)
}

fn read_all(dir: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>, ScaffoldError> {
    let read = |found: files::Found| {
        let content = std::fs::read(&found.file).map_err(|error| ScaffoldError::Read { file: found.file, error })?;
        Ok((found.path, content))
    };
    files::list(dir)?.into_iter().map(read).collect()
}

fn write_all(dir: &Path, files: impl Iterator<Item = (PathBuf, Vec<u8>)>) -> Result<(), ScaffoldError> {
    for (path, content) in files {
        let target = dir.join(path);
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent).map_err(ScaffoldError::Temporary)?;
        }
        std::fs::write(target, content).map_err(ScaffoldError::Temporary)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(chart: &str, repository: Option<&str>) -> Source {
        Wanted::read(chart, repository, None).unwrap().source
    }

    #[test]
    fn the_way_a_chart_is_written_says_where_it_is() {
        assert_eq!(read("oci://host/charts/web:1.0.0", None), Source::Oci("oci://host/charts/web:1.0.0".into()));
        assert_eq!(read("https://host/web-1.0.0.tgz", None), Source::Address("https://host/web-1.0.0.tgz".into()));
        let known = Source::Known { repository: "stable".into(), chart: "web".into() };
        assert_eq!(read("stable/web", None), known);
        let named = Source::InRepository { address: "https://host".into(), chart: "web".into() };
        assert_eq!(read("web", Some("https://host")), named);
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path().to_str().unwrap(), None), Source::Local(dir.path().into()));
    }

    #[test]
    fn a_chart_at_a_place_is_not_taken_for_another_version() {
        let checked = |source: Source, version: Option<&str>| {
            Wanted { source, version: version.map(str::to_owned) }.check("1.0.0").map_err(|error| error.to_string())
        };
        for source in [Source::Local("./web".into()), Source::Address("https://host/web.tgz".into())] {
            assert_eq!(checked(source.clone(), None), Ok(()));
            assert_eq!(checked(source.clone(), Some("v1.0.0")), Ok(()));
            let place = Wanted { source: source.clone(), version: None }.shown();
            let error = checked(source, Some("2.0.0")).unwrap_err();
            assert!(error.starts_with(&format!("the chart at {place} is 1.0.0, not 2.0.0")), "{error}");
        }
        assert_eq!(checked(Source::Oci("oci://host/web".into()), Some("^1.0.0")), Ok(()));
    }

    #[test]
    fn what_cannot_be_a_chart_is_refused() {
        for wrong in ["", "web", "./absent", "../a/b", "a/b/c", "/no/such/chart"] {
            assert!(matches!(Wanted::read(wrong, None, None), Err(ScaffoldError::NoSuchChart(_))), "{wrong}");
        }
    }

    #[test]
    fn a_path_is_made_plain_without_looking() {
        assert_eq!(plain(Path::new("/a/b/../c/./d")), Path::new("/a/c/d"));
    }
}
