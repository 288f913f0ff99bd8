//! A project as it shall be, on top of the one on disk.
//!
//! A command reads and writes here. Nothing reaches the disk before [`Draft::commit`], and then all of it or nothing.

use std::path::{Component, Path, PathBuf};

use super::entries;
use super::error::ScaffoldError;
use super::layout::{self, Register};
use super::markers;
use super::plan::{self, Plan, Wish, Wishes};
use super::write;
use crate::chart::files;
use crate::workplace::{self, PrivateDir};

#[derive(Debug)]
pub struct Draft {
    root: PathBuf,
    wishes: Wishes,
}

impl Draft {
    pub fn of(root: &Path) -> Self {
        Draft { root: root.to_owned(), wishes: Wishes::new() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What a file will be, or is. None where there is none.
    pub fn read(&self, path: &str) -> Result<Option<String>, ScaffoldError> {
        let content = match self.wishes.get(Path::new(path)) {
            Some(Wish::Make { content } | Wish::Renew { content, .. } | Wish::Edit { content }) => {
                Some(content.clone())
            }
            Some(Wish::Remove) => None,
            None => self.on_disk(Path::new(path))?,
        };
        let text = content.map(String::from_utf8).transpose();
        text.map_err(|_| ScaffoldError::NotText { file: path.into() })
    }

    fn on_disk(&self, path: &Path) -> Result<Option<Vec<u8>>, ScaffoldError> {
        match std::fs::read(self.root.join(path)) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ScaffoldError::Read { file: path.to_owned(), error }),
        }
    }

    /// A file of ours. One of somebody else in its place is an error.
    pub fn make(&mut self, path: impl Into<PathBuf>, content: impl Into<Vec<u8>>) {
        self.wishes.insert(path.into(), Wish::Make { content: content.into() });
    }

    /// A file that follows from others. `earlier` is what followed before.
    pub fn renew(&mut self, path: &str, earlier: String, content: String) {
        let (content, earlier) = (content.into_bytes(), earlier.into_bytes());
        let wish = match self.wishes.get(Path::new(path)) {
            Some(Wish::Make { .. }) => Wish::Make { content },
            _ => Wish::Renew { content, earlier },
        };
        self.wishes.insert(path.into(), wish);
    }

    /// A file that was made from what it is.
    pub fn edit(&mut self, path: &str, content: String) {
        // What this command makes and then edits is still its own.
        let wish = match self.wishes.get(Path::new(path)) {
            Some(Wish::Make { .. }) => Wish::Make { content: content.into_bytes() },
            _ => Wish::Edit { content: content.into_bytes() },
        };
        self.wishes.insert(path.into(), wish);
    }

    pub fn remove(&mut self, path: impl Into<PathBuf>) {
        self.wishes.insert(path.into(), Wish::Remove);
    }

    /// Puts a file into a register. A register that is not there begins as its template. One without our marker is operator-sdk's, and the
    /// file goes to the end of its list.
    pub fn enter(&mut self, register: &Register, file: &str) -> Result<(), ScaffoldError> {
        let text = self.read(register.file)?.unwrap_or_else(|| register.template.to_owned());
        let missing = ScaffoldError::NoMarker {
            file: register.file.into(),
            marker: register.marker,
            place: "of its list `resources`",
        };
        let entry = entry(file);
        let more = markers::insert(&text, register.marker, &entry);
        let more = more.or_else(|| markers::append(&text, "resources", &entry));
        self.edit(register.file, more.ok_or(missing)?);
        Ok(())
    }

    /// Takes a file out of a register. One that may not be empty goes with its last entry.
    pub fn leave(&mut self, register: &Register, file: &str) -> Result<(), ScaffoldError> {
        let Some(text) = self.read(register.file)? else { return Ok(()) };
        match markers::remove(&text, &entry(file)) {
            rest if rest == register.template && !register.stays => self.remove(register.file),
            rest => self.edit(register.file, rest),
        }
        Ok(())
    }

    /// The project as it shall be, in a directory of its own, as far as rights follow from it: watches, charts, definitions, samples, the role.
    pub fn staged(&self) -> Result<PrivateDir, ScaffoldError> {
        let stage = workplace::private_dir("project-").map_err(ScaffoldError::Temporary)?;
        let put = |path: &Path, content: &[u8]| {
            let target = stage.path().join(path);
            target.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            std::fs::write(target, content)
        };
        for path in self.present()?.iter().filter(|path| !self.wishes.contains_key(*path)) {
            let content = self.on_disk(path)?.unwrap_or_default();
            put(path, &content).map_err(ScaffoldError::Temporary)?;
        }
        for (path, wish) in &self.wishes {
            if let Wish::Make { content } | Wish::Renew { content, .. } | Wish::Edit { content } = wish {
                put(path, content).map_err(ScaffoldError::Temporary)?;
            }
        }
        Ok(stage)
    }

    /// What rights follow from, on disk.
    fn present(&self) -> Result<Vec<PathBuf>, ScaffoldError> {
        let mut paths: Vec<PathBuf> = [layout::PROJECT, layout::WATCHES, layout::ROLE].map(PathBuf::from).to_vec();
        paths.retain(|path| self.root.join(path).is_file());
        for dir in ["config/crd/bases", "config/samples"] {
            let entries = std::fs::read_dir(self.root.join(dir)).into_iter().flatten().flatten();
            paths.extend(
                entries.filter(|entry| entry.path().is_file()).map(|entry| Path::new(dir).join(entry.file_name())),
            );
        }
        for entry in entries::read(&self.read(layout::WATCHES)?.unwrap_or_default()) {
            let Some(place) = inside(Path::new(&entry.chart)) else { continue };
            let chart = self.root.join(&place);
            if chart.join("Chart.yaml").is_file() {
                // Whoever loads a chart that cannot be listed is told why.
                let found = files::list(&chart).unwrap_or_default();
                paths.extend(found.into_iter().map(|found| place.join(found.path)));
            } else if chart.is_file() {
                paths.push(place);
            }
        }
        Ok(paths)
    }

    pub fn plan(&self, is_forced: bool) -> Result<Plan, ScaffoldError> {
        plan::plan(&self.wishes, |path| self.on_disk(path), is_forced)
    }

    /// Writes all of it, unless that would replace what somebody has changed.
    pub fn commit(&self, is_forced: bool) -> Result<Plan, ScaffoldError> {
        let plan = self.plan(is_forced)?;
        if !plan.refused.is_empty() {
            return Err(ScaffoldError::Changed(plan.refused));
        }
        write::carry_out(&self.root, &plan.steps)?;
        Ok(plan)
    }
}

/// A path without `.`, unless it leads out of the directory that it is relative to.
pub fn inside(path: &Path) -> Option<PathBuf> {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    parts.map(|part| matches!(part, Component::Normal(_)).then_some(part)).collect()
}

fn entry(file: &str) -> String {
    format!("- {file}")
}
