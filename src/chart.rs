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
//! | [`revision`] | the number of a revision, for templates that ask for it |
//! | [`fingerprint`] | a cheap look whether anything changed |
//! | [`recorded`] | whether it is the chart of a release that helm made |
//! | [`reload`] | a chart that is replaced while it is in use |
//!
//! It refuses what cannot be installed: no name or version, a library chart, an archive that reaches out of its directory.
//! It does not check templates; helm does that when it renders.

use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ring::digest::{Context, SHA256};
use serde_json::Value;
use tempfile::TempDir;

use crate::error::Category;
use crate::yaml::{self, YamlError};

pub mod archive;
pub mod asks;
pub mod brings;
pub mod files;
pub mod fingerprint;
pub mod ignore;
pub mod notes;
pub mod recorded;
pub mod reload;
pub mod revision;

pub use asks::Asks;
pub use brings::Brought;
pub use fingerprint::Fingerprint;

/// More files than this, or more bytes in all, is not a chart but a mistake or an attack.
pub const MOST_FILES: usize = 10_000;
pub const MOST_BYTES: u64 = 200 * 1024 * 1024;

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
    _copy: Arc<TempDir>,
}

#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    #[error("{0} does not exist; put the chart there or correct the path")]
    Absent(PathBuf),
    #[error("{0} is not a chart directory: it has no Chart.yaml")]
    NoChartFile(PathBuf),
    #[error("cannot read {file}: {error}")]
    Read { file: PathBuf, error: std::io::Error },
    #[error("cannot copy the chart to a temporary directory: {0}")]
    Copy(std::io::Error),
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
    #[error("{0} has more than {MOST_FILES} files; remove what does not belong to the chart")]
    TooManyFiles(PathBuf),
    #[error("{0} has more than {mib} MiB; remove what does not belong to the chart", mib = MOST_BYTES / 1024 / 1024)]
    TooLarge(PathBuf),
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
        Self::load_within(origin, Most { files: MOST_FILES, bytes: MOST_BYTES })
    }

    fn load_within(origin: &Path, most: Most) -> Result<Self, ChartError> {
        let fingerprint = Fingerprint::of(origin);
        let copy = tempfile::Builder::new().prefix("chartwright-chart-").tempdir().map_err(ChartError::Copy)?;
        let mut sink = Copy::new(copy.path(), origin, most);
        if origin.is_dir() {
            if !origin.join("Chart.yaml").is_file() {
                return Err(ChartError::NoChartFile(origin.to_owned()));
            }
            copy_directory(origin, &mut sink)?;
        } else if origin.is_file() {
            archive::unpack(origin, &mut sink)?;
        } else {
            return Err(ChartError::Absent(origin.to_owned()));
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
    /// Whether a word stands in any of its templates. For rare questions: the files are read anew.
    pub fn mentions(&self, word: &str) -> bool {
        let files = files::list(&self.dir).unwrap_or_default();
        let is_template = |path: &Path| path.components().any(|part| part.as_os_str() == "templates");
        let mut templates = files.iter().filter(|found| is_template(&found.path));
        templates.any(|found| std::fs::read_to_string(&found.file).is_ok_and(|text| text.contains(word)))
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
        // Before it is read: it may not fit into memory.
        if found.metadata.len() > sink.most.bytes {
            return Err(ChartError::TooLarge(origin.to_owned()));
        }
        let content = std::fs::read(&found.file).map_err(|error| ChartError::Read { file: found.file, error })?;
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
    bytes: u64,
    asks: Asks,
}

impl<'a> Copy<'a> {
    fn new(dir: &Path, from: &'a Path, most: Most) -> Self {
        Copy { dir: dir.to_owned(), from, most, paths: vec![], bytes: 0, asks: Asks::default() }
    }

    /// `path` is relative and made of plain names; both kinds of origin see to that.
    pub(crate) fn add(&mut self, path: &Path, content: &[u8]) -> Result<(), ChartError> {
        debug_assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
        self.bytes += content.len() as u64;
        if self.bytes > self.most.bytes {
            return Err(ChartError::TooLarge(self.from.to_owned()));
        }
        if self.paths.len() == self.most.files {
            return Err(ChartError::TooManyFiles(self.from.to_owned()));
        }
        let target = self.dir.join(path);
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent).map_err(ChartError::Copy)?;
        }
        std::fs::write(target, content).map_err(ChartError::Copy)?;
        self.asks = self.asks.join(Asks::of_file(path, content));
        self.paths.push(path.to_owned());
        Ok(())
    }
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
    match metadata["type"].as_str() {
        Some("library") => Err(ChartError::Library(origin.to_owned())),
        _ => Ok(metadata),
    }
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
