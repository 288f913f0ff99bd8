//! Who held the Lease when, and who wrote when, by the audit log.
//!
//! A tenure begins with the first write on the Lease by somebody else than the last. The moment is that at which the API server
//! received that write, which is the earliest that can be meant.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::harness::{Project, control_plane};

/// A call of one of a project's replicas.
#[derive(Clone, Debug)]
pub struct Call {
    pub user: String,
    pub received: Timestamp,
    verb: String,
    resource: String,
    path: String,
    code: u64,
}

impl Call {
    pub fn is_lease(&self) -> bool {
        self.resource == "leases"
    }

    fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    /// One that changed the Lease.
    fn is_claim(&self) -> bool {
        self.is_lease() && self.is_write() && (200..300).contains(&self.code)
    }

    /// Anything but the Lease, dry runs and what was refused included.
    fn is_work(&self) -> bool {
        self.is_write() && !self.is_lease()
    }
}

/// What the replicas of a project asked, in the order in which it was received.
pub fn calls(project: &Project) -> Vec<Call> {
    let log = std::fs::read_to_string(control_plane().audit_log()).expect("an audit log");
    let users = project.replica_user("");
    let mut calls: Vec<_> =
        log.lines().filter(|line| line.contains(&users)).filter_map(|line| call(line, &users)).collect();
    calls.sort_by_key(|call| call.received);
    calls
}

fn call(line: &str, users: &str) -> Option<Call> {
    let line: Value = serde_json::from_str(line).ok()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Some(Call {
        user: text(&line["impersonatedUser"]["username"]).filter(|user| user.starts_with(users))?,
        received: line["requestReceivedTimestamp"].as_str()?.parse().ok()?,
        verb: text(&line["verb"])?,
        resource: text(&line["objectRef"]["resource"]).unwrap_or_default(),
        path: text(&line["requestURI"])?,
        code: line["responseStatus"]["code"].as_u64().unwrap_or_default(),
    })
}

/// What the audit log says about a project's replicas.
#[derive(Debug)]
pub struct Judgement {
    /// Who acquired the Lease, and when.
    pub tenures: Vec<(String, Timestamp)>,
    pub work: Vec<Call>,
    /// Writes of somebody who did not hold the Lease any more, or not yet.
    pub late: Vec<String>,
    pub early: Vec<String>,
}

pub fn judge(project: &Project) -> Judgement {
    judge_calls(&calls(project))
}

fn judge_calls(calls: &[Call]) -> Judgement {
    let mut tenures: Vec<(String, Timestamp)> = vec![];
    for claim in calls.iter().filter(|call| call.is_claim()) {
        if tenures.last().is_none_or(|(user, _)| *user != claim.user) {
            tenures.push((claim.user.clone(), claim.received));
        }
    }
    let work: Vec<Call> = calls.iter().filter(|call| call.is_work()).cloned().collect();
    let told = |call: &Call, moment: Timestamp| {
        let off = call.received.duration_since(moment).as_millis();
        format!("{} {} {} ({off} ms)", call.user, call.verb, call.path)
    };
    let (mut late, mut early) = (vec![], vec![]);
    for call in &work {
        let is_own = |(user, _): &(String, Timestamp)| *user == call.user;
        let now = tenures.partition_point(|(_, began)| *began <= call.received);
        let (until_now, to_come) = tenures.split_at(now);
        if until_now.last().is_some_and(is_own) {
            continue;
        }
        match until_now.iter().rposition(is_own) {
            Some(own) => late.push(told(call, until_now[own + 1].1)),
            // Who never acquires the Lease wrote too early in any case.
            None => early.push(told(call, to_come.iter().find(|it| is_own(it)).map_or(call.received, |it| it.1))),
        }
    }
    Judgement { tenures, work, late, early }
}

impl Judgement {
    /// How long after that moment somebody acquired the Lease.
    pub fn took_over(&self, user: &str, since: Timestamp) -> Duration {
        let is_meant = |(who, at): &&(String, Timestamp)| who == user && *at >= since;
        let acquired = self.tenures.iter().find(is_meant).expect("it acquired the Lease").1;
        acquired.duration_since(since).try_into().unwrap_or_default()
    }

    /// How long after that moment somebody first wrote something about a custom resource.
    pub fn went_on(&self, user: &str, since: Timestamp) -> Duration {
        let is_work = |call: &&Call| call.user == user && !call.resource.contains("events");
        let first = self.work.iter().find(is_work).expect("it went on");
        first.received.duration_since(since).try_into().unwrap_or_default()
    }

    pub fn writes_of(&self, user: &str) -> usize {
        self.work.iter().filter(|call| call.user == user).count()
    }

    /// Everybody wrote only while they held the Lease, and this many held it.
    pub fn assert_clean(&self, tenures: usize) {
        assert_eq!(self.tenures.len(), tenures, "{:?}", self.tenures);
        assert!(self.late.is_empty(), "written after the next one acquired the Lease:\n{}", self.late.join("\n"));
        assert!(self.early.is_empty(), "written before the Lease was acquired:\n{}", self.early.join("\n"));
        for (user, _) in &self.tenures {
            assert!(self.writes_of(user) > 0, "{user} did nothing, so it shows nothing");
        }
    }
}

/// Without this nobody would know whether it can find anything.
#[test]
fn a_late_write_and_an_early_one_are_found() {
    let call = |user: &str, second: i64, resource: &str, code| Call {
        user: user.to_owned(),
        received: Timestamp::from_second(second).unwrap(),
        verb: "update".to_owned(),
        resource: resource.to_owned(),
        path: "/".to_owned(),
        code,
    };
    let mut calls = vec![
        call("a", 1, "leases", 201),
        call("b", 2, "leases", 409),
        call("a", 3, "configmaps", 200),
        call("a", 4, "leases", 200),
        call("b", 6, "leases", 200),
        call("b", 7, "configmaps", 200),
    ];
    let judged = judge_calls(&calls);
    assert_eq!((judged.tenures.len(), judged.late.len(), judged.early.len()), (2, 0, 0));
    let again = [call("a", 11, "leases", 200), call("a", 12, "configmaps", 200)];
    let judged = judge_calls(&[calls.clone(), again.to_vec()].concat());
    assert_eq!((judged.tenures.len(), judged.late.len(), judged.early.len()), (3, 0, 0), "a second tenure is one");
    calls.extend([call("a", 6, "configmaps", 409), call("b", 5, "configmaps", 200), call("c", 9, "configmaps", 200)]);
    let judged = judge_calls(&calls);
    assert_eq!(judged.late, ["a update / (0 ms)"]);
    assert_eq!(judged.early, ["b update / (-1000 ms)", "c update / (0 ms)"]);
}
