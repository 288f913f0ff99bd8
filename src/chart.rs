//! A chart: the operator's private copy of a directory or a packed chart.
//!
//! helm always renders the copy, so that a render never sees a chart that somebody is just changing, and so that one template
//! can be added that prints the notes. The copy lives as long as some [`Chart`] does.
//!
//! | module | what is in it |
//! |---|---|
//! | [`files`] | the files of a chart directory, symlinks followed |
//! | [`ignore`] | which of them .helmignore leaves out |
//! | [`archive`] | the files of a packed chart |
//! | [`notes`] | the template that prints NOTES.txt, and how to read what it prints |
//! | [`asks`] | whether templates ask the cluster |
//! | [`brings`] | the kinds in crds/ |
//! | [`references`] | what a schema of values refers to |
//! | [`revision`] | the number of a revision, for templates that ask for it |
//! | [`fingerprint`] | a cheap look whether anything changed |
//! | [`recorded`] | whether it is the chart of a release that helm made |
//! | [`reload`] | a chart that is replaced while it is in use |
//!
//! It refuses what cannot be installed: no name or version, a library chart, an archive that reaches out of its directory. And what
//! would make helm reach out: a schema that refers to a file or an address, also in a packed subchart.
//! It does not check templates; helm does that when it renders.

use std::collections::HashSet;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ring::digest::{Context, SHA256};
use serde_json::Value;

use crate::error::Category;
use crate::workplace::{self, PrivateDir};
use crate::yaml::{self, YamlError};

pub mod archive;
pub mod asks;
pub mod brings;
pub mod files;
pub mod fingerprint;
pub mod ignore;
pub mod notes;
pub mod recorded;
pub(crate) mod references;
pub mod reload;
pub mod revision;

pub use asks::Asks;
pub use brings::Brought;
pub use fingerprint::Fingerprint;

/// More files and directories than this is not a chart but a mistake or an attack.
pub const MOST_FILES: usize = 10_000;
/// What helm unpacks at most.
pub const MOST_BYTES: u64 = 100 * 1024 * 1024;
/// A file is read whole, beside the archives that it may be in. helm 3 takes 5 MiB; what is larger fits no release.
pub const MOST_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Steps of a path. Each is a directory that has to be made.
pub const MOST_STEPS: usize = 32;
/// Packed charts in packed charts. Some archives contain themselves.
const MOST_PACKED: usize = 3;

/// What helm checks values against.
const SCHEMA: &str = "values.schema.json";

/// How much of an origin is copied before it is refused.
#[derive(Clone, Copy)]
struct Most {
    files: usize,
    bytes: u64,
}

/// A chart that can be rendered. Clones share the copy on disk.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The private copy, for helm.
    pub dir: PathBuf,
    /// Where it was loaded from.
    pub origin: PathBuf,
    pub name: String,
    pub version: String,
    /// Empty where Chart.yaml has none.
    pub app_version: String,
    pub api_version: String,
    /// The whole of Chart.yaml.
    pub metadata: Value,
    /// SHA-256 of paths and contents, in hex. What we add to the copy is not in it, nor how the chart was packed.
    pub digest: String,
    /// What any file, those of subcharts included, asks the cluster.
    pub asks: Asks,
    /// How the origin looked when the copy was begun.
    pub fingerprint: Fingerprint,
    /// Read when it is first asked for.
    brought: Arc<OnceLock<Vec<Brought>>>,
    _copy: Arc<PrivateDir>,
}

#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    #[error("{0} does not exist; put the chart there or correct the path")]
    Absent(PathBuf),
    #[error("{0} is an address, and charts are read from disk only; get it with `helm pull` when the image is made")]
    Address(PathBuf),
    #[error("{file} leads to {to}, outside of the project; copy that into the chart")]
    LeadsOut { file: PathBuf, to: PathBuf },
    #[error("{file} has a path of more than {MOST_STEPS} steps; make it shorter")]
    TooDeep { file: PathBuf },
    #[error(
        "{file} refers to {reference}, which helm would load; put that into the schema's `$defs` and refer to it with `#/$defs/...`"
    )]
    Reference { file: PathBuf, reference: String },
    #[error("{file} is not JSON: {reason}")]
    Schema { file: PathBuf, reason: String },
    #[error("{0} is not a chart directory: it has no Chart.yaml")]
    NoChartFile(PathBuf),
    #[error("cannot read {file}: {error}")]
    Read { file: PathBuf, error: std::io::Error },
    #[error("cannot copy the chart to a temporary directory: {0}")]
    Copy(std::io::Error),
    #[error("{file} cannot be a file: {error}; rename it or remove it from the chart")]
    Path { file: PathBuf, error: std::io::Error },
    #[error("{file} is not a chart's metadata: {error}")]
    Syntax { file: PathBuf, error: YamlError },
    #[error("{file} is not a chart's metadata: it is not a map")]
    NotAMap { file: PathBuf },
    #[error("{file} has no `{field}`")]
    Missing { file: PathBuf, field: &'static str },
    #[error("{0} is a library chart, which others include; name a chart of the type `application`")]
    Library(PathBuf),
    #[error("{file} leads back to a directory that contains it; remove the symbolic link")]
    Cycle { file: PathBuf },
    #[error("{file} is neither a file nor a directory; remove it from the chart")]
    Special { file: PathBuf },
    #[error("{0} has more than {MOST_FILES} files and directories; remove what does not belong to the chart")]
    TooManyFiles(PathBuf),
    #[error("{0} has more than {mib} MiB; remove what does not belong to the chart", mib = MOST_BYTES / 1024 / 1024)]
    TooLarge(PathBuf),
    #[error("{file} has more than {mib} MiB; remove it from the chart", mib = MOST_FILE_BYTES / 1024 / 1024)]
    FileTooLarge { file: PathBuf },
    #[error("{archive} is not a packed chart: {reason}; pack it with `helm package`")]
    Archive { archive: PathBuf, reason: String },
}

impl ChartError {
    pub fn category(&self) -> Category {
        Category::InvalidChart
    }
}

impl Chart {
    /// Copies and reads a chart directory or a packed chart.
    pub fn load(origin: &Path) -> Result<Self, ChartError> {
        let chart = Self::load_part(origin)?;
        if chart.is_library() { Err(ChartError::Library(origin.to_owned())) } else { Ok(chart) }
    }

    /// The same of a chart in another one, which may be a library.
    ///
    /// # Errors
    /// As [`Chart::load`].
    pub fn load_part(origin: &Path) -> Result<Self, ChartError> {
        Self::load_within(origin, Most { files: MOST_FILES, bytes: MOST_BYTES })
    }

    fn load_within(origin: &Path, most: Most) -> Result<Self, ChartError> {
        let fingerprint = Fingerprint::of(origin);
        let copy = workplace::private_dir("chart-").map_err(ChartError::Copy)?;
        let mut sink = Copy::new(copy.path(), origin, most);
        if origin.is_dir() {
            if !origin.join("Chart.yaml").is_file() {
                return Err(ChartError::NoChartFile(origin.to_owned()));
            }
            copy_directory(origin, &mut sink)?;
        } else if origin.is_file() {
            archive::unpack(origin, &mut sink)?;
        } else {
            let is_address = origin.to_string_lossy().contains("://");
            let wrong = if is_address { ChartError::Address } else { ChartError::Absent };
            return Err(wrong(origin.to_owned()));
        }
        let metadata = read_metadata(copy.path(), origin)?;
        let field = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
        let chart = Chart {
            dir: copy.path().to_owned(),
            origin: origin.to_owned(),
            name: field("name"),
            version: field("version"),
            app_version: field("appVersion"),
            api_version: field("apiVersion"),
            digest: digest(copy.path(), sink.paths).map_err(ChartError::Copy)?,
            asks: sink.asks,
            metadata,
            fingerprint,
            brought: Arc::default(),
            _copy: Arc::new(copy),
        };
        notes::add_template(&chart.dir).map_err(ChartError::Copy)?;
        Ok(chart)
    }
}

impl Chart {
    /// It has nothing to deploy, and is there for other charts.
    pub fn is_library(&self) -> bool {
        self.metadata["type"] == "library"
    }

    /// Whether a word stands in any of its templates. For rare questions: the files are read anew.
    pub fn mentions(&self, word: &str) -> bool {
        let files = files::list(&self.dir).unwrap_or_default();
        let is_template = |path: &Path| path.components().any(|part| part.as_os_str() == "templates");
        let mut templates = files.iter().filter(|found| is_template(&found.path));
        templates.any(|found| std::fs::read_to_string(&found.file).is_ok_and(|text| text.contains(word)))
    }

    /// Whether it may have hooks, as far as can be seen without a render: nobody looks into packed subcharts for it.
    pub fn may_have_hooks(&self) -> bool {
        let is_packed = |path: &Path| path.extension().is_some_and(|extension| extension == "tgz");
        let files = files::list(&self.dir).unwrap_or_default();
        self.mentions("helm.sh/hook") || files.iter().any(|found| is_packed(&found.path))
    }

    /// The kinds that its crds/ define.
    pub fn brings(&self) -> &[Brought] {
        self.brought.get_or_init(|| brings::read(&self.dir))
    }

    /// The content of values.yaml. helm complains about one that cannot be read.
    pub fn defaults(&self) -> Value {
        let text = std::fs::read_to_string(self.dir.join("values.yaml")).unwrap_or_default();
        yaml::parse(&text).ok().filter(Value::is_object).unwrap_or_else(|| Value::Object(Default::default()))
    }
}

fn copy_directory(origin: &Path, sink: &mut Copy<'_>) -> Result<(), ChartError> {
    for found in files::list(origin)? {
        let unreadable = |error| ChartError::Read { file: found.file.clone(), error };
        let mut file = std::fs::File::open(&found.file).map_err(unreadable)?;
        let content = sink.read(&found.path, found.metadata.len(), &mut file, unreadable)?;
        sink.add(&found.path, &content)?;
    }
    Ok(())
}

/// Where files of a chart arrive, within limits.
pub(crate) struct Copy<'a> {
    dir: PathBuf,
    from: &'a Path,
    most: Most,
    paths: Vec<PathBuf>,
    /// Each is made on the disk, and again for renders that need a copy of their own.
    directories: HashSet<PathBuf>,
    bytes: u64,
    /// Files in packed subcharts.
    packed: usize,
    asks: Asks,
}

impl<'a> Copy<'a> {
    fn new(dir: &Path, from: &'a Path, most: Most) -> Self {
        let (paths, directories) = (vec![], HashSet::new());
        Copy { dir: dir.to_owned(), from, most, paths, directories, bytes: 0, packed: 0, asks: Asks::default() }
    }

    /// The content of a file, unless it is too large. What is said about its size is believed only if it says so.
    fn read(
        &self,
        path: &Path,
        said: u64,
        from: &mut dyn Read,
        wrong: impl FnOnce(std::io::Error) -> ChartError,
    ) -> Result<Vec<u8>, ChartError> {
        let mut content = vec![];
        if said <= MOST_FILE_BYTES {
            from.take(MOST_FILE_BYTES + 1).read_to_end(&mut content).map_err(wrong)?;
        }
        match said.max(content.len() as u64) > MOST_FILE_BYTES {
            true => Err(ChartError::FileTooLarge { file: self.from.join(path) }),
            false => Ok(content),
        }
    }

    /// `path` is relative and made of plain names; both kinds of origin see to that.
    pub(crate) fn add(&mut self, path: &Path, content: &[u8]) -> Result<(), ChartError> {
        debug_assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
        self.weigh(path, content)?;
        let above = path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty());
        self.directories.extend(above.map(Path::to_owned));
        if self.paths.len() + self.directories.len() >= self.most.files {
            return Err(ChartError::TooManyFiles(self.from.to_owned()));
        }
        self.look_into(path, content, 0)?;
        let target = self.dir.join(path);
        let wrong = |error: std::io::Error| match is_about_path(&error) {
            true => ChartError::Path { file: self.from.join(path), error },
            false => ChartError::Copy(error),
        };
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent).map_err(wrong)?;
        }
        std::fs::write(target, content).map_err(wrong)?;
        self.paths.push(path.to_owned());
        Ok(())
    }

    fn weigh(&mut self, path: &Path, content: &[u8]) -> Result<(), ChartError> {
        self.bytes += content.len() as u64;
        if self.bytes > self.most.bytes {
            return Err(ChartError::TooLarge(self.from.to_owned()));
        }
        if path.components().count() > MOST_STEPS {
            return Err(ChartError::TooDeep { file: self.from.join(path) });
        }
        Ok(())
    }

    /// Finds out what a file asks for, and refuses what would lead helm out. Packed subcharts are looked through as they are: helm
    /// unpacks them for itself.
    fn look_into(&mut self, path: &Path, content: &[u8], depth: usize) -> Result<(), ChartError> {
        if is_packed_chart(path) {
            return self.look_into_packed(path, content, depth + 1);
        }
        if path.file_name().is_some_and(|name| name == SCHEMA) {
            let file = self.from.join(path);
            match references::outside(content) {
                Ok(None) => {}
                Ok(Some(reference)) => return Err(ChartError::Reference { file, reference }),
                Err(reason) => return Err(ChartError::Schema { file, reason }),
            }
        }
        self.asks = self.asks.join(Asks::of_file(path, content));
        Ok(())
    }

    fn look_into_packed(&mut self, archive: &Path, packed: &[u8], depth: usize) -> Result<(), ChartError> {
        let wrong = |reason: String| ChartError::Archive { archive: self.from.join(archive), reason };
        if depth > MOST_PACKED {
            return Err(wrong("it is in an archive in an archive in an archive".into()));
        }
        let most = self.most;
        archive::each_file(packed, |path, size, entry| {
            let content = self.read(&archive.join(path), size, entry, |error| wrong_entry(path, &error))?;
            self.weigh(path, &content)?;
            self.packed += 1;
            if self.packed > most.files {
                return Err(ChartError::TooManyFiles(self.from.to_owned()));
            }
            self.look_into(&archive.join(path), &content, depth)
        })
        .map_err(|error| match error {
            archive::Unpacking::Archive(reason) => ChartError::Archive { archive: self.from.join(archive), reason },
            archive::Unpacking::Stopped(error) => error,
        })
    }
}

/// Whether no disk would take it: a file is also a directory, or a name is too long.
fn is_about_path(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::*;
    matches!(error.kind(), AlreadyExists | NotADirectory | IsADirectory | InvalidFilename | InvalidInput)
}

/// A subchart that helm unpacks.
fn is_packed_chart(path: &Path) -> bool {
    let is_archive = path.extension().is_some_and(|extension| extension == "tgz");
    is_archive && path.parent().is_some_and(|parent| parent.ends_with("charts"))
}

fn wrong_entry(path: &Path, error: &std::io::Error) -> ChartError {
    ChartError::Archive { archive: path.to_owned(), reason: error.to_string() }
}

fn read_metadata(dir: &Path, origin: &Path) -> Result<Value, ChartError> {
    let file = origin.join("Chart.yaml");
    let text = std::fs::read_to_string(dir.join("Chart.yaml"))
        .map_err(|error| ChartError::Read { file: file.clone(), error })?;
    let mut metadata = yaml::parse(&text).map_err(|error| ChartError::Syntax { file: file.clone(), error })?;
    if !metadata.is_object() {
        return Err(ChartError::NotAMap { file });
    }
    as_helm_types(&mut metadata);
    for field in ["name", "version"] {
        if metadata[field].as_str().is_none_or(str::is_empty) {
            return Err(ChartError::Missing { file, field });
        }
    }
    Ok(metadata)
}

/// `appVersion: 1.16` is a number to YAML and text to Helm.
fn as_helm_types(metadata: &mut Value) {
    let to_text = |value: &mut Value| {
        if value.is_number() || value.is_boolean() {
            *value = Value::String(value.to_string());
        }
    };
    for field in ["apiVersion", "name", "version", "appVersion", "kubeVersion", "description", "type"] {
        metadata.get_mut(field).map(to_text);
    }
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.values_mut().for_each(to_text);
    }
}

/// Each path and each content is preceded by its length, so that no two charts give the same bytes.
fn digest(dir: &Path, mut paths: Vec<PathBuf>) -> std::io::Result<String> {
    paths.sort();
    paths.dedup();
    let mut context = Context::new(&SHA256);
    for path in paths {
        for part in [path.as_os_str().as_encoded_bytes(), &std::fs::read(dir.join(&path))?] {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
    }
    Ok(context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests;
