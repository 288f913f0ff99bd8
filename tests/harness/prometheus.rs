//! What Prometheus itself makes of a scrape and of expressions: its own parsers, in a program of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

use serde::Deserialize;
use serde_json::{Value, json};

use super::tool;

/// All that an operator exports.
#[derive(Debug)]
pub struct Scrape(pub BTreeMap<String, Family>);

#[derive(Debug, Deserialize)]
pub struct Family {
    #[serde(rename = "type")]
    pub kind: String,
    pub help: String,
    series: Vec<BTreeMap<String, String>>,
    values: Vec<f64>,
}

impl Scrape {
    pub fn read(text: &str) -> Self {
        Scrape(serde_json::from_value(promcheck("scrape", text)).expect("families"))
    }

    /// The sum over all series with these labels; of histograms, how often something was measured. None where there are none.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let family = self.0.get(name)?;
        let is_meant = |series: &BTreeMap<String, String>| {
            labels.iter().all(|(label, value)| series.get(*label).map(String::as_str) == Some(*value))
        };
        let values = family.series.iter().zip(&family.values).filter(|(series, _)| is_meant(series));
        values.map(|(_, value)| *value).reduce(|one, other| one + other)
    }

    /// The names of a metric's labels, if it is exported.
    pub fn labels(&self, name: &str) -> Option<BTreeSet<&str>> {
        Some(self.0.get(name)?.series.iter().flat_map(|series| series.keys().map(String::as_str)).collect())
    }

    /// The family that a name in an expression belongs to.
    pub fn family_of<'a>(&self, name: &'a str) -> Option<&'a str> {
        let is_histogram = |base: &&str| self.0.get(*base).is_some_and(|family| family.kind == "HISTOGRAM");
        let of = |suffix: &str| name.strip_suffix(suffix).filter(is_histogram);
        let itself = Some(name).filter(|name| self.0.contains_key(*name));
        itself.or_else(|| ["_bucket", "_sum", "_count"].into_iter().find_map(of))
    }
}

/// What an expression asks about.
#[derive(Debug, Deserialize)]
pub struct Use {
    pub expression: String,
    pub selectors: Vec<Selector>,
    pub grouped: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub struct Selector {
    pub metric: String,
    pub labels: Vec<String>,
}

/// Reads expressions. One that cannot be read fails the test.
pub fn expressions(all: &[String]) -> Vec<Use> {
    serde_json::from_value(promcheck("expressions", &json!(all).to_string())).expect("uses")
}

fn promcheck(what: &str, input: &str) -> Value {
    let mut process = Command::new(tool("promcheck"))
        .arg(what)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promcheck runs");
    let mut pipe = process.stdin.take().expect("a pipe");
    let input = input.to_owned();
    // It may print before it has read everything.
    let writing = std::thread::spawn(move || pipe.write_all(input.as_bytes()));
    let output = process.wait_with_output().expect("promcheck ends");
    writing.join().expect("a thread").expect("promcheck reads");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "Prometheus cannot read this: {said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}
