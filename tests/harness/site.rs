//! A directory where a person makes an operator project.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::command_line::{Said, said};
use super::{chartwright, control_plane, tool, unique};

pub struct Site {
    dir: tempfile::TempDir,
    /// The project's name, which differs for every test.
    pub name: String,
    helm: PathBuf,
}

impl Site {
    pub fn new() -> Self {
        Self::with_helm("helm4")
    }

    pub fn with_helm(helm: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let name = format!("shop-{}", unique());
        for part in ["home", &name] {
            std::fs::create_dir(dir.path().join(part)).expect("a directory");
        }
        Site { dir, name, helm: tool(helm) }
    }

    /// A project with the domain that its name makes, so that its kinds are nobody else's.
    pub fn initialised() -> Self {
        let site = Self::new();
        site.chartwright(&["init", "--domain", &site.domain()]).good();
        site
    }

    pub fn domain(&self) -> String {
        format!("{}.test.chartwright.dev", self.name)
    }

    /// The project's own directory.
    pub fn root(&self) -> PathBuf {
        self.dir.path().join(&self.name)
    }

    /// Somewhere beside it.
    pub fn beside(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub fn file(&self, path: &str, text: &str) -> PathBuf {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(&path, text).expect("a file");
        path
    }

    pub fn read(&self, path: &str) -> String {
        let path = self.root().join(path);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Calls the program as a person does there, without a cluster.
    pub fn chartwright(&self, arguments: &[&str]) -> Said {
        said(self.command(arguments))
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = chartwright();
        command.args(arguments).current_dir(self.root());
        command.env("CHARTWRIGHT_HELM", &self.helm).env("HOME", self.beside("home"));
        command
    }

    /// `make` there, with the shared control plane.
    pub fn make(&self, arguments: &[&str]) -> Said {
        let mut make = Command::new("make");
        make.args(arguments).current_dir(self.root()).stdin(Stdio::null());
        make.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", self.beside("home"));
        make.env("KUBECONFIG", control_plane().kubeconfig()).env("KUBECTL", tool("kubectl"));
        make.env("CHARTWRIGHT", env!("CARGO_BIN_EXE_chartwright"));
        said(make)
    }

    pub fn kubectl(&self, arguments: &[&str]) -> Said {
        let mut command = Command::new(tool("kubectl"));
        command.args(arguments).current_dir(self.root()).stdin(Stdio::null()).env_clear();
        command.env("KUBECONFIG", control_plane().kubeconfig()).env("HOME", self.beside("home"));
        said(command)
    }

    /// Everything in the project's directory.
    pub fn tree(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        walk(&self.root(), &self.root(), &mut found);
        found
    }

    /// Everything is as it was.
    #[track_caller]
    pub fn is_as(&self, before: &BTreeMap<PathBuf, Vec<u8>>) {
        let now = self.tree();
        let differs = |path: &&PathBuf| now.get(*path) != before.get(*path);
        let paths: Vec<&PathBuf> = now.keys().chain(before.keys()).filter(differs).collect();
        assert!(paths.is_empty(), "these differ: {paths:?}");
    }

    /// Runs the program, which has to complain in one line and leave everything as it is.
    #[track_caller]
    pub fn refused(&self, code: i32, arguments: &[&str]) -> String {
        let before = self.tree();
        let complaint = self.chartwright(arguments).complaint(code);
        self.is_as(&before);
        complaint
    }

    /// A chart that renders one ConfigMap, beside the project.
    pub fn chart(&self, name: &str, more: &str) -> PathBuf {
        let dir = self.beside(name);
        chart_in(&dir, name, "1.0.0", more);
        dir
    }
}

/// A chart of one ConfigMap. `more` is put into Chart.yaml.
pub fn chart_in(dir: &Path, name: &str, version: &str, more: &str) {
    std::fs::create_dir_all(dir.join("templates")).expect("a directory");
    let metadata = format!("apiVersion: v2\nname: {name}\nversion: {version}\n{more}");
    let template = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{{{ .Release.Name }}}}-{name}\ndata:\n  colour: {{{{ .Values.colour | quote }}}}\n"
    );
    for (path, text) in [
        ("Chart.yaml", metadata.as_str()),
        ("values.yaml", "# Of the paint.\ncolour: blue\n"),
        ("templates/config.yaml", &template),
    ] {
        std::fs::write(dir.join(path), text).expect("a file");
    }
}

fn walk(root: &Path, dir: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        let name = path.strip_prefix(root).expect("a path below").to_owned();
        if path.is_dir() {
            found.insert(name.clone(), b"directory".to_vec());
            walk(root, &path, found);
        } else {
            found.insert(name, std::fs::read(&path).expect("a file"));
        }
    }
}
