//! `.Release.Revision`, which `helm template` always says is 1.
//!
//! All templates of a render, those of subcharts too, share one map `.Release`. helm runs the template with the longest path
//! first (seen with 3 and 4). So one template far below all others sets the number, prints nothing, and everybody after it
//! reads the true one. The number differs from render to render, and a value would be seen by the chart and by its schema. So
//! a render that needs it has a chart directory of its own, made of hard links.
//!
//! Only for charts that ask, which [`super::asks`] finds out.

use std::io;
use std::path::{Path, PathBuf};

/// More steps than any other template's path has.
const DEPTH: usize = 64;
const FILE: &str = "chartwright-revision.yaml";

/// Makes a chart in `target` that is another one with the number in it.
pub fn with_number(chart: &Path, revision: u32, target: &Path) -> io::Result<()> {
    link(chart, target)?;
    let mut dir = target.join("templates");
    dir.extend(std::iter::repeat_n("z", DEPTH));
    std::fs::create_dir_all(&dir)?;
    std::fs::write(dir.join(FILE), format!("{{{{- $_ := set .Release \"Revision\" {revision} -}}}}\n"))
}

/// The same files at another place, without their bytes being copied where the file system can do that.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (source, target): (PathBuf, PathBuf) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            link(&source, &target)?;
        } else if std::fs::hard_link(&source, &target).is_err() {
            std::fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_with_the_number_leaves_the_other_as_it_is() {
        let (chart, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir(chart.path().join("templates")).unwrap();
        std::fs::write(chart.path().join("templates/a.yaml"), "a: b").unwrap();
        let own = home.path().join("chart");
        with_number(chart.path(), 7, &own).unwrap();
        assert_eq!(std::fs::read_to_string(own.join("templates/a.yaml")).unwrap(), "a: b");
        assert!(own.join("templates").join("z/".repeat(DEPTH)).join(FILE).is_file());
        assert_eq!(std::fs::read_dir(chart.path().join("templates")).unwrap().count(), 1);
    }
}
