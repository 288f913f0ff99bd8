//! What the operator asked of the API server, read from its audit log.
//!
//! The log is read between phases, not while one is measured: both run on the same processors. This module does not judge
//! the counts.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

use anyhow::{Context, Result};
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One call of the operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub at: Timestamp,
    /// The verb of the audit log, or `dry-run` for a write that stores nothing.
    pub verb: String,
    /// With its subresource, as in `webs/status`.
    pub resource: String,
    pub code: u16,
}

impl Call {
    fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }
}

/// How often what was asked. Watches and leases are in no other count.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Tally {
    pub calls: usize,
    pub dry_runs: usize,
    /// Calls that are there to change something, dry runs left out.
    pub writes: usize,
    /// Writes that the API server accepted.
    pub changing: usize,
    pub watches: usize,
    pub leases: usize,
    pub by_verb: BTreeMap<String, usize>,
    /// By verb and resource, as in `patch services`.
    pub by_call: BTreeMap<String, usize>,
}

impl Tally {
    pub fn of<'a>(calls: impl Iterator<Item = &'a Call>) -> Self {
        let mut tally = Tally::default();
        for call in calls {
            tally.count(call);
        }
        tally
    }

    fn count(&mut self, call: &Call) {
        if call.verb == "watch" {
            self.watches += 1;
            return;
        }
        if call.resource == "leases" {
            self.leases += 1;
            return;
        }
        self.calls += 1;
        self.dry_runs += usize::from(call.verb == "dry-run");
        self.writes += usize::from(call.is_write());
        self.changing += usize::from(call.is_write() && (200..300).contains(&call.code));
        *self.by_verb.entry(call.verb.clone()).or_default() += 1;
        *self.by_call.entry(format!("{} {}", call.verb, call.resource)).or_default() += 1;
    }
}

/// The audit log from now on, of one user.
pub struct Audit {
    log: BufReader<File>,
    user: String,
    /// A line of which the end was not written yet.
    begun: String,
    /// A watch has a line when it starts and one when it ends.
    watches: HashSet<String>,
    pub calls: Vec<Call>,
}

impl Audit {
    /// # Errors
    /// The log cannot be read.
    pub fn open(path: &Path, user: &str) -> Result<Self> {
        let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        file.seek(SeekFrom::End(0))?;
        let (begun, watches, calls) = (String::new(), HashSet::new(), vec![]);
        Ok(Audit { log: BufReader::new(file), user: user.to_owned(), begun, watches, calls })
    }

    /// Reads what was written since the last time.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn read(&mut self) -> Result<()> {
        while self.log.read_line(&mut self.begun).context("cannot read the audit log")? > 0 {
            if !self.begun.ends_with('\n') {
                continue;
            }
            if let Some((call, id)) = parse(&self.begun, &self.user)
                && (call.verb != "watch" || self.watches.insert(id))
            {
                self.calls.push(call);
            }
            self.begun.clear();
        }
        Ok(())
    }

    pub fn tally(&self, from: Timestamp, to: Timestamp) -> Tally {
        Tally::of(self.calls.iter().filter(|call| from <= call.at && call.at < to))
    }

    /// Whether the operator follows a resource since then.
    pub fn watches(&self, resource: &str, since: Timestamp) -> bool {
        let is_watch = |call: &Call| call.verb == "watch" && call.resource == resource && call.at >= since;
        self.calls.iter().any(is_watch)
    }

    pub fn last_write(&self) -> Option<Timestamp> {
        let writes = self.calls.iter().filter(|call| call.is_write() && call.resource != "leases");
        writes.map(|call| call.at).max()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(rename = "auditID")]
    audit_id: String,
    verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    impersonated_user: Option<User>,
    request_received_timestamp: Timestamp,
    #[serde(default)]
    object_ref: ObjectRef,
    response_status: Option<ResponseStatus>,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ObjectRef {
    resource: String,
    subresource: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

/// The call of a line and its id, if this user made it.
fn parse(line: &str, user: &str) -> Option<(Call, String)> {
    if !line.contains(user) {
        return None;
    }
    let line: Line = serde_json::from_str(line).ok()?;
    if line.impersonated_user.is_none_or(|it| it.username != user) {
        return None;
    }
    let resource = match (line.object_ref.resource, line.object_ref.subresource.as_str()) {
        // Discovery and the version.
        (resource, _) if resource.is_empty() => line.request_uri.split('?').next().unwrap_or_default().to_owned(),
        (resource, "") => resource,
        (resource, subresource) => format!("{resource}/{subresource}"),
    };
    let verb = if line.request_uri.contains("dryRun=All") { "dry-run".to_owned() } else { line.verb };
    let code = line.response_status.map_or(0, |status| status.code);
    Some((Call { at: line.request_received_timestamp, verb, resource, code }, line.audit_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(user: &str, verb: &str, uri: &str, code: u16) -> String {
        format!(
            r#"{{"auditID":"1","verb":"{verb}","requestURI":"{uri}","impersonatedUser":{{"username":"{user}"}},
            "requestReceivedTimestamp":"2026-01-01T00:00:00.000001Z","objectRef":{{"resource":"services"}},
            "responseStatus":{{"code":{code}}}}}"#
        )
    }

    #[test]
    fn a_dry_run_is_no_write_and_a_refused_write_changes_nothing() {
        let lines = [
            line("me", "patch", "/api/v1/services/a?dryRun=All&force=true", 200),
            line("me", "patch", "/api/v1/services/a?force=true", 200),
            line("me", "patch", "/api/v1/services/a?force=true", 409),
            line("me", "watch", "/api/v1/services?watch=1", 200),
            line("another", "patch", "/api/v1/services/me", 200),
        ];
        let calls: Vec<Call> = lines.iter().filter_map(|line| parse(line, "me")).map(|(call, _)| call).collect();
        let tally = Tally::of(calls.iter());
        assert_eq!((tally.calls, tally.dry_runs, tally.writes, tally.changing, tally.watches), (3, 1, 2, 1, 1));
        assert_eq!(tally.by_call["patch services"], 2);
    }
}
