//! What goes into the archive, and how it is packed. Pure.
//!
//! Every text goes through the redactor here, whatever was masked before: there is one way in. Control characters are written out after
//! that, since secrets may hold some.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::masking::encoded_twice;
use super::suspicion::is_common;
use crate::cli::output::yaml;
use crate::printable::escaped;
use crate::redaction::Redactor;

/// Names the reasons for which something is not there.
pub const MISSING: &str = "missing.txt";
/// The longest text of one file. The end of a log says more than its beginning.
pub const LONGEST: usize = 4 * 1024 * 1024;

#[derive(Default)]
pub struct Bundle {
    files: BTreeMap<String, Content>,
    missing: Vec<String>,
    redactor: Redactor,
    hidden: BTreeSet<String>,
    spared: BTreeSet<String>,
}

/// As it was found.
enum Content {
    Text(String),
    Data(Value),
}

impl Bundle {
    /// These texts must not be in it.
    pub fn hide(&mut self, secrets: impl IntoIterator<Item = String>) {
        self.hidden.extend(secrets);
    }

    /// The names of what it tells about. A Secret that holds one of them is no reason to make everything unreadable.
    pub fn spare(&mut self, names: impl IntoIterator<Item = String>) {
        self.spared.extend(names);
    }

    /// What was masked somewhere, and must not be anywhere else. Words that stand everywhere tell nothing.
    pub fn hide_taken(&mut self, taken: Vec<Value>) {
        for value in taken {
            match value {
                Value::String(text) if is_common(&text) => {}
                Value::String(text) => self.hide([text]),
                other => self.redactor.learn(&other, [&String::new()]),
            }
        }
    }

    /// Learns what must not be shown of releases.
    pub fn redactor(&mut self) -> &mut Redactor {
        &mut self.redactor
    }

    /// Adds a text, of which the end is kept where it is too long.
    pub fn text(&mut self, path: impl Into<String>, text: &str) {
        self.files.insert(path.into(), Content::Text(text.to_owned()));
    }

    /// Adds data.
    pub fn data(&mut self, path: impl Into<String>, value: Value) {
        self.files.insert(path.into(), Content::Data(value));
    }

    /// Something is not there, and why.
    pub fn lacks(&mut self, what: &str, why: &str) {
        self.missing.push(format!("{what}: {}", why.split_whitespace().collect::<Vec<_>>().join(" ")));
    }

    /// Adds data, or the reason why it is not there.
    pub fn data_or(&mut self, path: &str, value: Result<Value, String>) {
        match value {
            Ok(value) => self.data(path, value),
            Err(why) => self.lacks(path, &why),
        }
    }

    pub fn missing(&self) -> usize {
        self.missing.len()
    }

    /// All files as they may be given away. By now everything is known that must not be in them.
    pub fn redacted(mut self) -> BTreeMap<String, String> {
        let hidden = self.hidden.difference(&self.spared);
        let forms: Vec<String> = hidden.flat_map(|secret| encoded_twice(secret)).collect();
        self.redactor.learn(&Value::from(forms), [&String::new()]);
        let mut files = BTreeMap::new();
        for (path, content) in self.files {
            let text = match content {
                // What is cut off goes last: nobody recognizes half of a secret.
                Content::Text(text) => end_of(&self.redactor.text(&text)).to_owned(),
                Content::Data(mut value) => {
                    self.redactor.object(&mut value);
                    let text = yaml(&value).unwrap_or_else(|error| {
                        self.missing.push(format!("{path}: {error:#}"));
                        String::new()
                    });
                    self.redactor.text(&text).into_owned()
                }
            };
            files.insert(path, escaped(&text).into_owned());
        }
        let missing = match self.missing.is_empty() {
            true => "Nothing is missing.\n".to_owned(),
            false => self.missing.iter().map(|line| format!("{line}\n")).collect(),
        };
        files.insert(MISSING.to_owned(), escaped(&self.redactor.text(&missing)).into_owned());
        files
    }
}

fn end_of(text: &str) -> &str {
    let mut start = text.len().saturating_sub(LONGEST);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// The archive: all files in one directory of this name.
pub fn pack(files: &BTreeMap<String, String>, directory: &str, now: Timestamp) -> anyhow::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(GzEncoder::new(vec![], Compression::default()));
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(u64::try_from(now.as_second()).unwrap_or_default());
        let path = format!("{directory}/{path}");
        archive.append_data(&mut header, &path, text.as_bytes()).with_context(|| format!("cannot pack {path}"))?;
    }
    archive.into_inner().and_then(GzEncoder::finish).context("cannot pack the archive")
}

/// A part of a path inside the archive.
pub fn file_name(text: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    text.chars().map(safe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use crate::printable::is_printable;
    use std::io::Read;

    fn unpacked(archive: &[u8]) -> BTreeMap<String, String> {
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(archive));
        let mut files = BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            assert_eq!(entry.header().mode().unwrap(), 0o600);
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            files.insert(path, text);
        }
        files
    }

    #[test]
    fn a_secret_is_in_no_file_in_whatever_writing() {
        let secret = "s3cr3t pass/word+1";
        let once = STANDARD.encode(secret);
        let twice = STANDARD.encode(&once);
        let mut bundle = Bundle::default();
        bundle.text("logs/a.log", &format!("the url is db://me:{secret}@host\n{once}\n{twice}\nline abcdefgh\n"));
        bundle.data("resource.yaml", json!({"spec": {"url": format!("x{secret}y"), "b": once, "c": [twice, 1]}}));
        bundle.lacks("metrics", &format!("refused {secret}"));
        // Also what is learnt last counts for what came first.
        bundle.hide([secret.to_owned(), "-----BEGIN KEY-----\nabcdefgh\n".to_owned()]);
        let files = unpacked(&pack(&bundle.redacted(), "support", Timestamp::now()).unwrap());
        assert_eq!(files.len(), 3);
        for (path, text) in &files {
            for form in [secret, &once, &twice, "s3cr3t", "abcdefgh"] {
                assert!(!text.contains(form), "{path} has {form}: {text}");
            }
        }
        assert!(files["support/logs/a.log"].contains("the url is db://me:***@host"));
        assert!(files["support/missing.txt"].starts_with("metrics: refused ***"));
    }

    #[test]
    fn what_was_masked_by_its_name_is_in_no_file() {
        let mut bundle = Bundle::default();
        bundle.text("status.txt", "Invalid value: \"hunter2\", port 54321, mode default\n");
        bundle.hide_taken(vec![json!("hunter2"), json!(54321), json!("default")]);
        assert_eq!(bundle.redacted()["status.txt"], "Invalid value: \"***\", port ***, mode default\n");
    }

    #[test]
    fn a_name_stays_readable_though_a_secret_holds_it() {
        let mut bundle = Bundle::default();
        bundle.text("status.txt", "Nginx shop/web\n");
        bundle.hide(["shop".to_owned()]);
        bundle.spare(["shop".to_owned()]);
        assert_eq!(bundle.redacted()["status.txt"], "Nginx shop/web\n");
    }

    #[test]
    fn of_a_long_log_the_end_is_kept() {
        let mut bundle = Bundle::default();
        bundle.text("a.log", &format!("{}end", "ö".repeat(LONGEST)));
        let files = unpacked(&pack(&bundle.redacted(), "s", Timestamp::now()).unwrap());
        assert!(files["s/a.log"].len() <= LONGEST && files["s/a.log"].ends_with("end"));
    }

    #[test]
    fn no_file_speaks_to_a_terminal_and_data_stays_the_same() {
        let evil = "a\u{1b}[2J\u{9b}2J\u{202e}\rb";
        let data = json!({"note": evil, evil: ["plain", evil]});
        let mut bundle = Bundle::default();
        bundle.text("status.txt", &format!("{evil}, hidden \u{1b}value"));
        bundle.data("resource.yaml", data.clone());
        bundle.lacks("a.log", evil);
        bundle.hide(["hidden \u{1b}value".to_owned()]);
        let files = bundle.redacted();
        for (path, text) in &files {
            assert!(is_printable(text), "{path}: {text:?}");
        }
        assert_eq!(files["status.txt"], "a\\u{1b}[2J\\u{9b}2J\\u{202e}\\rb, ***");
        assert!(files[MISSING].starts_with("a.log: a\\u{1b}[2J"), "{}", files[MISSING]);
        assert_eq!(crate::yaml::parse(&files["resource.yaml"]).unwrap(), data);
    }

    #[test]
    fn names_stay_inside_the_archive() {
        assert_eq!(file_name("../etc/a b"), "..-etc-a-b");
    }
}
