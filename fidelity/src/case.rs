//! A case: a chart with its values, and what the upgrade brings.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::Phase;

#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    /// One sentence.
    pub about: String,
    /// A directory or a packed chart.
    pub chart: PathBuf,
    pub values: Option<PathBuf>,
    /// Values of the upgrade, in place of `values`.
    pub upgrade_values: Option<PathBuf>,
    /// The chart of the upgrade. Where neither is given, the same chart comes in another version.
    pub upgrade_chart: Option<PathBuf>,
    /// More fields of the entry in watches.yaml.
    pub watch: Map<String, Value>,
    /// Objects that are there before the install.
    pub setup: Option<PathBuf>,
    /// Both sides get the chart as a .tgz.
    pub packed: bool,
    pub refusal: Refusal,
    /// Another chart for Chartwright. Only a test of the proof itself has a use for it.
    pub our_chart: Option<PathBuf>,
}

/// Which phase both sides are meant to refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nobody said.
    Unknown,
    Never,
    Of(Phase),
}

impl Refusal {
    /// Whether it is as meant that both sides refuse a phase, or do it.
    pub fn expects(self, phase: Phase, both_refuse: bool) -> bool {
        match self {
            Refusal::Unknown => true,
            Refusal::Never => !both_refuse,
            Refusal::Of(refused) => (refused == phase) == both_refuse,
        }
    }
}

/// case.yaml
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    about: String,
    watch: Map<String, Value>,
    packed: bool,
    refused: Option<String>,
}

impl Case {
    /// A chart that nobody wrote a case for.
    pub fn of_chart(chart: &Path) -> Self {
        let name = chart.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Case {
            name,
            about: String::new(),
            chart: chart.to_owned(),
            values: None,
            upgrade_values: None,
            upgrade_chart: None,
            watch: Map::new(),
            setup: None,
            packed: false,
            refusal: Refusal::Unknown,
            our_chart: None,
        }
    }

    /// A directory with `chart/` and, as far as needed, `values.yaml`, `upgrade.yaml`, `upgrade-chart/`, `setup.yaml` and
    /// `case.yaml`.
    ///
    /// # Errors
    /// There is no chart, or case.yaml cannot be read.
    pub fn read(dir: &Path) -> Result<Self> {
        let there = |name: &str| Some(dir.join(name)).filter(|path| path.exists());
        let settings: Settings = match there("case.yaml") {
            Some(path) => serde_yaml::from_str(&std::fs::read_to_string(&path)?)
                .with_context(|| format!("{} cannot be read", path.display()))?,
            None => Settings::default(),
        };
        ensure!(dir.join("chart/Chart.yaml").exists(), "{} has no chart/Chart.yaml", dir.display());
        Ok(Case {
            name: dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            about: settings.about,
            values: there("values.yaml"),
            upgrade_values: there("upgrade.yaml"),
            upgrade_chart: there("upgrade-chart"),
            watch: settings.watch,
            setup: there("setup.yaml"),
            packed: settings.packed,
            refusal: match &settings.refused {
                Some(phase) => Refusal::Of(Phase::parse(phase)?),
                None => Refusal::Never,
            },
            ..Case::of_chart(&dir.join("chart"))
        })
    }

    /// All cases of a directory, in the order of their names.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn all(directory: &Path) -> Result<Vec<Self>> {
        let entries = std::fs::read_dir(directory).with_context(|| format!("no cases in {}", directory.display()))?;
        let mut dirs: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        dirs.sort();
        dirs.iter().map(|dir| Case::read(dir)).collect()
    }
}

/// Where the cases of this repository are.
pub fn directory() -> PathBuf {
    lab::checkout().join("fidelity/cases")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_can_be_read_and_says_what_it_is_about() {
        let cases = Case::all(&directory()).unwrap();
        assert!(cases.len() >= 3);
        for case in cases {
            assert!(case.about.ends_with('.'), "{}: case.yaml needs a sentence under about", case.name);
        }
    }

    #[test]
    fn a_refusal_has_to_be_declared() {
        assert!(!Refusal::Never.expects(Phase::Install, true) && Refusal::Never.expects(Phase::Install, false));
        let upgrade = Refusal::Of(Phase::Upgrade);
        assert!(upgrade.expects(Phase::Install, false) && upgrade.expects(Phase::Upgrade, true));
        assert!(!upgrade.expects(Phase::Upgrade, false), "what should be refused is done");
        assert!(Refusal::Unknown.expects(Phase::Install, true), "of a chart without a case nobody knows");
    }

    #[test]
    fn a_word_that_means_nothing_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("chart")).unwrap();
        assert!(Case::read(dir.path()).is_err(), "there is no chart");
        std::fs::write(dir.path().join("chart/Chart.yaml"), "name: a\n").unwrap();
        std::fs::write(dir.path().join("case.yaml"), "abuot: a typing mistake\n").unwrap();
        assert!(format!("{:#}", Case::read(dir.path()).unwrap_err()).contains("abuot"));
    }
}
