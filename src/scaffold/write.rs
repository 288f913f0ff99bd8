//! The steps of a plan are done: all of them or none.
//!
//! **Contract.** Everything new is written beside its place first, under another name. Then what is there is moved aside, and the new
//! moved in. When anything fails, what was done is undone in reverse, directories that were made included, and the error says that
//! nothing was changed. Only what cannot be undone either is left, and named. A crash between two renames can leave the project
//! half done, with all files still there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::ScaffoldError;
use super::plan::{Action, Step};

/// # Errors
/// A file cannot be written. The tree is as it was.
pub fn carry_out(root: &Path, steps: &[Step]) -> Result<(), ScaffoldError> {
    let mut work = Work { root, done: vec![] };
    for prepare in [Work::lay_beside, Work::put_in_place] {
        for step in steps {
            if let Err(error) = prepare(&mut work, step) {
                return Err(work.undone(step, error));
            }
        }
    }
    work.tidy(steps);
    Ok(())
}

/// What was done, so that it can be undone.
enum Done {
    Directory(PathBuf),
    /// A file that is new, wherever it is.
    File(PathBuf),
    /// The first is now called like the second.
    Moved(PathBuf, PathBuf),
    /// What was there is now called like the second, for as long as it may be needed.
    MovedAside(PathBuf, PathBuf),
}

struct Work<'a> {
    root: &'a Path,
    done: Vec<Done>,
}

impl Work<'_> {
    fn lay_beside(&mut self, step: &Step) -> io::Result<()> {
        let (Action::Create(content) | Action::Replace(content)) = &step.action else { return Ok(()) };
        let target = self.root.join(&step.path);
        if let Some(parent) = target.parent() {
            self.make_directory(parent)?;
        }
        let beside = aside(&target, "new");
        self.done.push(Done::File(beside.clone()));
        fs::write(&beside, content)
    }

    fn make_directory(&mut self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        if let Some(parent) = dir.parent() {
            self.make_directory(parent)?;
        }
        fs::create_dir(dir)?;
        self.done.push(Done::Directory(dir.to_owned()));
        Ok(())
    }

    fn put_in_place(&mut self, step: &Step) -> io::Result<()> {
        let target = self.root.join(&step.path);
        if !matches!(step.action, Action::Create(_)) {
            let old = aside(&target, "old");
            fs::rename(&target, &old)?;
            self.done.push(Done::MovedAside(target.clone(), old));
        }
        if !matches!(step.action, Action::Remove) {
            let new = aside(&target, "new");
            fs::rename(&new, &target)?;
            self.done.push(Done::Moved(new, target));
        }
        Ok(())
    }

    /// Undoes everything, the last first.
    fn undone(self, step: &Step, error: io::Error) -> ScaffoldError {
        let mut left = vec![];
        for done in self.done.into_iter().rev() {
            let (place, undone) = match done {
                Done::Directory(dir) => (dir.clone(), fs::remove_dir(dir)),
                Done::File(file) => (file.clone(), fs::remove_file(file)),
                Done::Moved(from, to) | Done::MovedAside(from, to) => (to.clone(), fs::rename(to, from)),
            };
            if undone.is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
                left.push(place.display().to_string());
            }
        }
        let file = step.path.clone();
        match left.is_empty() {
            true => ScaffoldError::Write { file, error },
            false => ScaffoldError::Stuck { file, error, left: left.join(", ") },
        }
    }

    /// What was moved aside goes, and directories that are empty now. Whatever stays does no harm.
    fn tidy(&self, steps: &[Step]) {
        for done in &self.done {
            if let Done::MovedAside(_, to) = done {
                let _ = fs::remove_file(to);
            }
        }
        for step in steps.iter().filter(|step| step.action == Action::Remove) {
            let above = step.path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty());
            for dir in above {
                if fs::remove_dir(self.root.join(dir)).is_err() {
                    break;
                }
            }
        }
    }
}

/// Another name in the same directory, which nobody uses.
fn aside(target: &Path, what: &str) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.chartwright-{}.{what}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(path: &str, action: Action) -> Step {
        Step { path: path.into(), action }
    }

    fn tree(root: &Path) -> Vec<(String, String)> {
        let mut found = vec![];
        let mut open = vec![root.to_owned()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).unwrap().flatten() {
                let path = entry.path();
                let name = path.strip_prefix(root).unwrap().display().to_string();
                match path.is_dir() {
                    true => {
                        found.push((name, "directory".to_owned()));
                        open.push(path);
                    }
                    false => found.push((name, fs::read_to_string(path).unwrap())),
                }
            }
        }
        found.sort();
        found
    }

    fn place() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("old")).unwrap();
        fs::write(dir.path().join("old/gone"), "1").unwrap();
        fs::write(dir.path().join("changed"), "2").unwrap();
        dir
    }

    #[test]
    fn files_come_change_and_go_and_nothing_else_is_left() {
        let dir = place();
        let steps = [
            step("a/b/new", Action::Create(b"3".to_vec())),
            step("changed", Action::Replace(b"4".to_vec())),
            step("old/gone", Action::Remove),
        ];
        carry_out(dir.path(), &steps).unwrap();
        let expected = [("a", "directory"), ("a/b", "directory"), ("a/b/new", "3"), ("changed", "4")];
        assert_eq!(tree(dir.path()), expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
    }

    #[test]
    fn a_file_may_be_called_as_what_is_moved_aside_is() {
        let dir = place();
        carry_out(dir.path(), &[step("values.yaml.old", Action::Create(b"1".to_vec()))]).unwrap();
        carry_out(dir.path(), &[step("changed.new.old", Action::Create(b"2".to_vec()))]).unwrap();
        carry_out(dir.path(), &[step("changed.new.old", Action::Replace(b"3".to_vec()))]).unwrap();
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).ok();
        assert_eq!((read("values.yaml.old").as_deref(), read("changed.new.old").as_deref()), (Some("1"), Some("3")));
    }

    #[test]
    fn a_failure_at_any_step_leaves_the_tree_as_it_was() {
        // A file where a directory has to be, and one that is not there to be moved aside: the first fails early, the second late.
        for last in [step("changed/below", Action::Create(vec![])), step("absent", Action::Replace(vec![]))] {
            let dir = place();
            let before = tree(dir.path());
            let steps = [
                step("a/b/new", Action::Create(b"3".to_vec())),
                step("changed", Action::Replace(b"4".to_vec())),
                step("old/gone", Action::Remove),
                last,
            ];
            let error = carry_out(dir.path(), &steps).unwrap_err();
            assert!(error.to_string().ends_with("nothing was changed"), "{error}");
            assert_eq!(tree(dir.path()), before);
        }
    }
}
