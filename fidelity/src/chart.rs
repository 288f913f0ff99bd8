//! Copies of charts: unpacked, in another version, packed. The chart that was given is never written to.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;

use crate::case::Case;
use crate::helm::Helm;

/// What a release is made from.
#[derive(Clone, Debug)]
pub struct Input {
    pub chart: PathBuf,
    pub values: Option<PathBuf>,
}

/// The input of each phase for one side.
#[derive(Clone, Debug)]
pub struct Inputs {
    pub install: Input,
    pub upgrade: Input,
}

impl Inputs {
    /// Makes the copies in `dir`.
    ///
    /// # Errors
    /// A chart cannot be read.
    pub async fn make(case: &Case, chart: &Path, dir: &Path, helm: &Helm<'_>) -> Result<Self> {
        let first = copy(chart, &dir.join("chart"))?;
        let second = match (&case.upgrade_chart, &case.upgrade_values) {
            (Some(chart), _) => copy(chart, &dir.join("upgrade"))?,
            (None, Some(_)) => first.clone(),
            (None, None) => {
                let second = copy(chart, &dir.join("upgrade"))?;
                bump(&second.join("Chart.yaml"))?;
                second
            }
        };
        let is_packed = case.packed || chart.is_file();
        let pack = async |chart: PathBuf, name: &str| match is_packed {
            true => helm.package(&chart, &dir.join(name)).await,
            false => Ok(chart),
        };
        Ok(Inputs {
            install: Input { chart: pack(first, "packed").await?, values: case.values.clone() },
            upgrade: Input {
                chart: pack(second, "packed-upgrade").await?,
                values: case.upgrade_values.clone().or_else(|| case.values.clone()),
            },
        })
    }
}

/// Copies a chart, or unpacks it. Gives the directory that Chart.yaml is in.
fn copy(chart: &Path, to: &Path) -> Result<PathBuf> {
    let what = || format!("{} cannot be copied", chart.display());
    let dir = match chart.is_file() {
        true => {
            tar::Archive::new(GzDecoder::new(fs::File::open(chart)?)).unpack(to).with_context(what)?;
            let dirs = fs::read_dir(to)?.flatten().map(|entry| entry.path());
            dirs.into_iter().find(|path| path.join("Chart.yaml").exists()).unwrap_or_else(|| to.to_owned())
        }
        false => {
            copy_dir(chart, to).with_context(what)?;
            to.to_owned()
        }
    };
    ensure!(dir.join("Chart.yaml").exists(), "{} is no chart: it has no Chart.yaml", chart.display());
    Ok(dir)
}

fn copy_dir(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        // Links are followed, as helm does.
        match fs::metadata(entry.path())?.is_dir() {
            true => copy_dir(&entry.path(), &target)?,
            false => fs::copy(entry.path(), target).map(|_| ())?,
        }
    }
    Ok(())
}

/// Raises the version of a chart by a patch level.
fn bump(file: &Path) -> Result<()> {
    let text = fs::read_to_string(file)?;
    let bumped = bumped(&text).with_context(|| format!("{} has no version that could be raised", file.display()))?;
    Ok(fs::write(file, bumped)?)
}

fn bumped(text: &str) -> Option<String> {
    let mut is_done = false;
    let lines = text.lines().map(|line| match line.strip_prefix("version:") {
        Some(version) if !is_done => match next_patch(version) {
            Some(next) => {
                is_done = true;
                format!("version:{next}\n")
            }
            None => format!("{line}\n"),
        },
        _ => format!("{line}\n"),
    });
    let text: String = lines.collect();
    is_done.then_some(text)
}

/// The last number before a pre-release or a build, raised by one.
fn next_patch(version: &str) -> Option<String> {
    let core = version.find(['-', '+', '#']).unwrap_or(version.len());
    let end = version[..core].rfind(|c: char| c.is_ascii_digit())? + 1;
    let start = version[..end].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
    let next = version[start..end].parse::<u64>().ok()? + 1;
    Some(format!("{}{next}{}", &version[..start], &version[end..]))
}

/// Name and version, for people.
pub fn title(chart: &Path) -> String {
    let text = fs::read_to_string(chart.join("Chart.yaml")).unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map(|value| value.trim().trim_matches(['"', '\'']).to_owned()).unwrap_or_default()
    };
    format!("{} {}", field("name:"), field("version:")).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_raised_by_a_patch_level() {
        assert_eq!(next_patch(" 1.2.9").unwrap(), " 1.2.10");
        assert_eq!(next_patch(" \"v1.2.3-rc.1\"").unwrap(), " \"v1.2.4-rc.1\"");
        assert_eq!(next_patch(" 0.1.0 # not 5").unwrap(), " 0.1.1 # not 5");
        assert_eq!(next_patch(" none"), None);
        let text = "name: a\nversion: 1.0.0\ndependencies:\n- version: 2.0.0\n";
        assert_eq!(bumped(text).unwrap(), text.replace("1.0.0", "1.0.1"));
        assert_eq!(bumped("name: a\n"), None);
    }
}
