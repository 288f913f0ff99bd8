//! Surveys of charts on disk, so that a chart that did not change is not rendered again: that takes seconds.
//!
//! **Contract.** The name of an entry is a digest of everything that determines a survey: the chart's files, overrides, specs, the number of
//! renders, and both programs by path, version, size and modification time. So an entry is never stale, only unused. Any error means that
//! the chart is rendered.
//!
//! The directory belongs to the user and is outside of every project. If others can write to it, it is not used: roles are generated from it.

use std::fs::{DirBuilder, Metadata};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ring::digest::{SHA256, digest};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::Asked;
use super::renders::Surveyed;
use crate::render::Helm;

/// A survey of a large chart has 100 kB.
const MOST_ENTRIES: usize = 200;

pub(super) struct Cache {
    dir: PathBuf,
    /// Identifies helm and this program.
    programs: String,
}

/// An entry knows its name, so that one that was renamed or copied does not count.
#[derive(Serialize, Deserialize)]
struct Entry {
    name: String,
    survey: Surveyed,
}

impl Cache {
    /// In `$XDG_CACHE_HOME` or `~/.cache`. None if neither can be used.
    pub fn of_user(helm: &Helm) -> Option<Self> {
        let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
        let own = std::env::current_exe().ok()?;
        let programs = format!(
            "chartwright {} {}\nhelm {} {}",
            env!("CARGO_PKG_VERSION"),
            identity(&own)?,
            helm.version,
            identity(helm.program())?
        );
        Self::at(&caches.join("chartwright/surveys"), programs)
    }

    fn at(dir: &Path, programs: String) -> Option<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir).ok()?;
        let found = std::fs::symlink_metadata(dir).ok()?;
        is_private(&found).then(|| Cache { dir: dir.to_owned(), programs })
    }

    pub fn get(&self, asked: &Asked) -> Option<Surveyed> {
        let name = self.name(asked);
        let path = self.dir.join(&name);
        let entry: Entry = serde_json::from_slice(&std::fs::read(&path).ok()?).ok()?;
        // Entries are removed in the order of their last use. If this fails, the entry is only removed earlier.
        let _ = std::fs::File::options().append(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        (entry.name == name).then_some(entry.survey)
    }

    /// If the entry cannot be written, the next command renders the chart again.
    pub fn put(&self, asked: &Asked, survey: &Surveyed) {
        let name = self.name(asked);
        let path = self.dir.join(&name);
        let entry = Entry { name, survey: survey.clone() };
        let written = || -> std::io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(&self.dir)?;
            file.write_all(&serde_json::to_vec(&entry)?)?;
            file.persist(path)?;
            Ok(())
        };
        if written().is_ok() {
            self.tidy(MOST_ENTRIES);
        }
    }

    fn name(&self, asked: &Asked) -> String {
        let all = format!("{}\n{asked:?}", self.programs);
        let hex: String = digest(&SHA256, all.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{hex}.json")
    }

    /// Removes the least recently used entries.
    fn tidy(&self, most: usize) {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut all: Vec<(SystemTime, PathBuf)> =
            entries.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
        all.sort();
        for (_, path) in all.iter().take(all.len().saturating_sub(most)) {
            // Another command may have removed it already.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn is_private(dir: &Metadata) -> bool {
    dir.is_dir() && dir.uid() == geteuid().as_raw() && dir.mode() & 0o022 == 0
}

/// Tells builds of the same version apart.
fn identity(program: &Path) -> Option<String> {
    let program = program.canonicalize().ok()?;
    let found = std::fs::metadata(&program).ok()?;
    Some(format!("{} {} {}.{}", program.display(), found.len(), found.mtime(), found.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;
    use crate::manifest;
    use crate::reach::trial::Trial;
    use crate::scaffold::rbac::findings::Findings;
    use crate::scaffold::rbac::findings::tests::RENDERED;
    use crate::scaffold::rbac::scan::scan;
    use crate::scaffold::rbac::tree::Tree;
    use crate::values::Overrides;

    const ROLES: &str = "\
---
# Source: app/templates/role.yaml
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r}, rules: [{apiGroups: [a], resources: [b], verbs: [get]}]}
---
# Source: app/templates/binding.yaml
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: r}, roleRef: {kind: ClusterRole, name: view}}
---
# Source: app/templates/plan.yaml
{apiVersion: namespace-of-the-release.example.com/v1, kind: Plan, metadata: {name: a}}
";

    fn survey() -> Surveyed {
        let lookup = r#"{{ lookup "v1" "Secret" .Release.Namespace "" }}{{ toYaml .Values.rules }}"#;
        let mut findings = Findings::default();
        findings.add(&manifest::survey(&format!("{RENDERED}{ROLES}")));
        findings.add_scan(&scan(&Tree::of([("templates/lookup.yaml", lookup)])));
        let by_default = Trial::made(&manifest::read("").unwrap(), "here");
        Surveyed { findings, by_default, is_final: true }
    }

    fn asked(chart: &str) -> Asked {
        Asked { chart: chart.into(), overrides: Overrides::default(), specs: vec![json!({"a": 1})], most_renders: 3 }
    }

    fn cache(dir: &Path) -> Cache {
        Cache::at(dir, "programs".into()).unwrap()
    }

    #[test]
    fn a_survey_comes_back_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, survey) = (cache(dir.path()), survey());
        assert!(cache.get(&asked("a")).is_none());
        cache.put(&asked("a"), &survey);
        assert_eq!(format!("{:?}", cache.get(&asked("a")).unwrap()), format!("{survey:?}"));
        assert!(survey.findings.notes.len() > 1 && !survey.findings.grants.is_empty(), "there is something in it");
    }

    #[test]
    fn whatever_determines_a_survey_changes_the_entry() {
        let dir = tempfile::tempdir().unwrap();
        let one = cache(dir.path());
        one.put(&asked("a"), &survey());
        let others = [asked("b"), Asked { specs: vec![], ..asked("a") }, Asked { most_renders: 4, ..asked("a") }];
        assert!(others.iter().all(|other| one.get(other).is_none()));
        let other = Cache::at(dir.path(), "another helm".into()).unwrap();
        assert!(other.get(&asked("a")).is_none() && one.get(&asked("a")).is_some());
    }

    #[test]
    fn a_truncated_or_renamed_entry_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(dir.path());
        cache.put(&asked("a"), &survey());
        let path = |of: &str| dir.path().join(cache.name(&asked(of)));
        std::fs::copy(path("a"), path("b")).unwrap();
        assert!(cache.get(&asked("b")).is_none());
        let text = std::fs::read_to_string(path("a")).unwrap();
        std::fs::write(path("a"), &text[..text.len() / 2]).unwrap();
        assert!(cache.get(&asked("a")).is_none());
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Cache::at(dir.path(), String::new()).is_none());
    }

    #[test]
    fn the_least_recently_used_entries_are_removed_first() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(dir.path());
        let old = SystemTime::now() - std::time::Duration::from_secs(1000);
        for (chart, age) in [("a", 0), ("b", 10), ("c", 20)] {
            cache.put(&asked(chart), &survey());
            let file = std::fs::File::options().append(true).open(dir.path().join(cache.name(&asked(chart)))).unwrap();
            file.set_modified(old + std::time::Duration::from_secs(age)).unwrap();
        }
        assert!(cache.get(&asked("a")).is_some());
        cache.tidy(2);
        assert!(
            cache.get(&asked("a")).is_some() && cache.get(&asked("b")).is_none() && cache.get(&asked("c")).is_some()
        );
    }
}
