//! The program as a person or a script calls it.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Project, chartwright, tool};

/// How a command ended, and what it said.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    /// What it printed, if it went well.
    #[track_caller]
    pub fn good(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{self:?}");
        self.out
    }

    /// The same as data.
    #[track_caller]
    pub fn json(self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The one line that it complained with.
    #[track_caller]
    pub fn complaint(self, code: i32) -> String {
        assert_eq!((self.code, self.out.as_str(), self.err.lines().count()), (code, "", 1), "{self:?}");
        assert!(self.err.starts_with("error: "), "{self:?}");
        self.err
    }
}

impl Project {
    /// Calls the program in the project's directory and namespace, with an administrator's rights and helm 4.
    pub fn cli(&self, arguments: &[&str]) -> Said {
        said(self.command_line(arguments))
    }

    /// The same, for whatever else a test wants to set.
    pub fn command_line(&self, arguments: &[&str]) -> Command {
        let mut command = chartwright();
        command.args(arguments).args(["--namespace", &self.namespace]).current_dir(self.dir());
        command.env("KUBECONFIG", self.plane().kubeconfig()).env("CHARTWRIGHT_HELM", tool("helm4"));
        // Where the operator of a test has its namespace, unless the test says otherwise.
        command.env("CHARTWRIGHT_OPERATOR_NAMESPACE", &self.namespace);
        command
    }

    /// The files of a support bundle of the project's namespace.
    pub fn support_bundle(&self) -> BTreeMap<String, String> {
        self.cli(&["support-bundle", "-o", "a.tgz", "--force"]).good();
        unpacked(&std::fs::read(self.dir().join("a.tgz")).expect("an archive"))
    }

    /// `apps.t1-1.test.chartwright.dev/web`: other tests have the same kind in other groups.
    pub fn named(&self, name: &str) -> String {
        format!("{}.{}/{name}", self.resource.plural, self.resource.group)
    }

    /// What `kubectl` prints. It must succeed.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(tool("kubectl"));
        command.args(arguments).args(["--namespace", &self.namespace]).current_dir(self.dir()).stdin(Stdio::null());
        let said = said_by(command.env_clear().env("KUBECONFIG", self.plane().kubeconfig()));
        assert_eq!(said.code, 0, "{arguments:?}: {said:?}");
        said.out
    }
}

/// The files of a support bundle.
pub fn unpacked(archive: &[u8]) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(archive));
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (path.split_once('/').unwrap().1.to_owned(), text)
    });
    entries.collect()
}

pub fn said(mut command: Command) -> Said {
    said_by(&mut command)
}

fn said_by(command: &mut Command) -> Said {
    let output = command.output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Said { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}
