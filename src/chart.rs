//! A chart on disk.

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// A chart's directory and what its Chart.yaml says.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    pub dir: PathBuf,
    pub name: String,
    pub version: String,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    #[error("{0} does not exist; put the chart there or correct the path")]
    Absent(PathBuf),
    #[error("{0} is not a chart directory: it has no Chart.yaml")]
    NoChartFile(PathBuf),
    #[error("cannot read {file}: {error}")]
    Read { file: PathBuf, error: std::io::Error },
    #[error("{file} is not a chart's metadata: {error}")]
    Syntax { file: PathBuf, error: serde_yaml::Error },
    #[error("{file} has no `{field}`")]
    Missing { file: PathBuf, field: &'static str },
}

impl Chart {
    pub fn load(dir: &Path) -> Result<Self, ChartError> {
        if !dir.exists() {
            return Err(ChartError::Absent(dir.to_owned()));
        }
        let file = dir.join("Chart.yaml");
        if !file.is_file() {
            return Err(ChartError::NoChartFile(dir.to_owned()));
        }
        let text = std::fs::read_to_string(&file).map_err(|error| ChartError::Read { file: file.clone(), error })?;
        let metadata: Metadata =
            serde_yaml::from_str(&text).map_err(|error| ChartError::Syntax { file: file.clone(), error })?;
        for (field, value) in [("name", &metadata.name), ("version", &metadata.version)] {
            if value.is_empty() {
                return Err(ChartError::Missing { file, field });
            }
        }
        Ok(Chart { dir: dir.to_owned(), name: metadata.name, version: metadata.version })
    }
}
