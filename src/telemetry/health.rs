//! The answers to the kubelet: does the operator live (`/healthz`), and can it work (`/readyz`)?
//!
//! Alive is as [`judge`] says. Ready means that it sees what its work begins with: the release records, and the custom resources of every
//! kind that the API server knows. A kind whose CRD is missing is not waited for. A standby sees the same, so it can be ready too, or a
//! rolling update would wait for ever.
//!
//! Objects of releases are watched from the first turn that needs their kind on. Those watches are waited for while they catch up, and a
//! standby has none: what it saw would be old when it begins to work, and have to be listed anew.
//!
//! Paths and words are those of controller-runtime: `/readyz?verbose` lists the checks, `/readyz/kinds` asks one.
//!
//! Everybody on the pod network may ask, so an answer says which check failed and how many kinds it concerns. What they are called,
//! and which namespaces the operator may not read, is in the log.

pub mod judge;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use http::StatusCode;

use super::serve::{Answer, Handler, Question, text};
use super::subject::Subjects;
use crate::controller::Operator;
use crate::controller::lives::Presence;
use crate::queue::Pulse;
use crate::watching;

/// What is asked about: an operator that may not be there yet.
#[derive(Clone)]
pub struct Health {
    subjects: Subjects,
    patience: Duration,
    /// What was logged last about being alive and about being ready.
    alive: Arc<Mutex<Vec<Check>>>,
    ready: Arc<Mutex<Vec<Check>>>,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq)]
struct Check {
    name: &'static str,
    /// Why it is not as it should be, for everybody.
    trouble: Option<String>,
    /// What is left out, although it is as it should be, for everybody.
    remark: Option<String>,
    /// Both with names, for the log.
    details: Vec<String>,
}

impl Check {
    fn good(name: &'static str) -> Self {
        Check::failed(name, &[], "")
    }

    /// `why`: what the details have in common, without a name in it. Without details it is as it should be.
    fn failed(name: &'static str, details: &[String], why: &str) -> Self {
        Check { name, trouble: counted(details, why), remark: None, details: details.to_vec() }
    }

    fn leaving_out(mut self, details: &[String], what: &str) -> Self {
        self.details.extend(details.iter().cloned());
        Check { remark: counted(details, what), ..self }
    }
}

fn counted(details: &[String], what: &str) -> Option<String> {
    (!details.is_empty()).then(|| format!("{what}: {}; the log names them", details.len()))
}

impl Health {
    /// # Arguments
    /// `patience`: how long something may be stuck.
    pub fn new(subjects: Subjects, patience: Duration) -> Self {
        Health { subjects, patience, alive: Arc::default(), ready: Arc::default() }
    }

    pub fn handler(self) -> Handler {
        Arc::new(move |question| {
            let health = self.clone();
            async move { health.answer(&question) }.boxed()
        })
    }

    fn answer(&self, question: &Question) -> Answer {
        let path = question.uri().path().trim_end_matches('/');
        let (name, checks, one) = match path.split('/').collect::<Vec<_>>().as_slice() {
            ["", "healthz", one @ ..] => ("healthz", self.alive(), one.to_vec()),
            ["", "readyz", one @ ..] => ("readyz", self.ready(), one.to_vec()),
            _ => return text(StatusCode::NOT_FOUND, "404 page not found\n"),
        };
        let query = question.uri().query().unwrap_or_default();
        match one.as_slice() {
            [] => together(name, &checks, query),
            [name] => checks.iter().find(|check| check.name == *name).map_or_else(unknown, alone),
            _ => unknown(),
        }
    }

    fn operator(&self) -> Option<Operator> {
        self.subjects.borrow().operator.clone()
    }

    fn alive(&self) -> Vec<Check> {
        let watches = judge::watches(&watching::all(Instant::now()), Instant::now(), self.patience);
        let queues = judge::queues(&self.pulses(), self.worked(), self.patience);
        let checks = vec![
            Check::good("ping"),
            Check::failed("queues", &queues, "kinds whose queues are stuck"),
            Check::failed("watches", &watches, "watches that do not work"),
        ];
        // The next process finds in the log of this one why it was ended.
        let failed: Vec<Check> = checks.iter().filter(|check| check.trouble.is_some()).cloned().collect();
        let name = |check: &Check| check.name;
        for check in changed(&self.alive, failed, |now, before| now.iter().map(name).eq(before.iter().map(name))) {
            let details = check.details.join("; ");
            tracing::error!(check = check.name, "not alive, so that the kubelet starts the operator anew: {details}");
        }
        checks
    }

    fn pulses(&self) -> Vec<(String, Pulse)> {
        let kinds = self.operator().map(|operator| operator.lives.all()).unwrap_or_default();
        let pulse = |presence: &Presence| match presence {
            Presence::Here(here) => Some(here.queue.pulse()),
            _ => None,
        };
        kinds.iter().filter_map(|kind| Some((kind.gvk.kind.clone(), pulse(&kind.presence)?))).collect()
    }

    /// For how long this operator has been the one that works.
    fn worked(&self) -> Option<Duration> {
        self.operator()?.leading.since().map(|since| since.elapsed())
    }

    fn ready(&self) -> Vec<Check> {
        let checks = self.readiness();
        let told: Vec<Check> = checks.iter().filter(|check| !check.details.is_empty()).cloned().collect();
        for check in changed(&self.ready, told, |now, before| now == before) {
            let (details, failed) = (check.details.join("; "), check.trouble.is_some());
            tracing::info!(check = check.name, failed, "readiness: {details}");
        }
        checks
    }

    fn readiness(&self) -> Vec<Check> {
        let Some(operator) = self.operator() else {
            let trouble = Some("it is not connected to the API server".to_owned());
            return vec![Check { trouble, ..Check::good("started") }];
        };
        let unseen = (!operator.records.is_synced()).then(|| "the release records are not all seen yet".to_owned());
        let lives = operator.lives.all();
        let kinds: Vec<String> = lives.iter().filter_map(|kind| behind(&kind.gvk.kind, &kind.presence)).collect();
        let refused: Vec<String> = lives.iter().filter_map(|kind| refused(&kind.gvk.kind, &kind.presence)).collect();
        let mut objects = operator.children.catching_up();
        objects.sort();
        let objects: Vec<String> =
            objects.iter().map(|kind| format!("the objects of the kind {kind} are not all seen yet")).collect();
        vec![
            Check::failed("kinds", &kinds, "kinds whose custom resources are not all seen yet")
                .leaving_out(&refused, "kinds that may not be watched in all namespaces"),
            Check::failed("objects", &objects, "kinds whose objects are not all seen yet"),
            Check { trouble: unseen, ..Check::good("records") },
            Check::good("started"),
        ]
    }
}

/// What to log: the checks, if they are not the same as those before. Probes come every few seconds.
fn changed(before: &Mutex<Vec<Check>>, now: Vec<Check>, is_same: impl Fn(&[Check], &[Check]) -> bool) -> Vec<Check> {
    let mut before = before.lock().unwrap_or_else(PoisonError::into_inner);
    if is_same(&now, &before) {
        return vec![];
    }
    before.clone_from(&now);
    now
}

fn behind(kind: &str, presence: &Presence) -> Option<String> {
    match presence {
        Presence::Unknown => Some(format!("{kind}: the API server has not said yet whether it knows the kind")),
        Presence::Here(here) if !here.is_synced() => Some(format!("{kind}: its custom resources are not all seen yet")),
        Presence::Here(_) | Presence::Absent => None,
    }
}

fn refused(kind: &str, presence: &Presence) -> Option<String> {
    let Presence::Here(here) = presence else { return None };
    let namespaces = here.resources.refused();
    (!namespaces.is_empty()).then(|| format!("{kind} may not be watched in {}", namespaces.join(", ")))
}

/// All checks of a name as one. `exclude=name` leaves one out, `verbose` lists them; a failure is always told.
fn together(name: &str, checks: &[Check], query: &str) -> Answer {
    let is_excluded = |check: &Check| query.split('&').any(|it| it.strip_prefix("exclude=") == Some(check.name));
    let is_verbose = query.split('&').any(|it| it.split('=').next() == Some("verbose"));
    let is_failed = checks.iter().any(|check| check.trouble.is_some() && !is_excluded(check));
    if !is_failed && !is_verbose {
        return text(StatusCode::OK, "ok");
    }
    let lines = checks.iter().map(|check| match &check.trouble {
        _ if is_excluded(check) => format!("[+]{} excluded: ok\n", check.name),
        None => match &check.remark {
            None => format!("[+]{} ok\n", check.name),
            Some(remark) => format!("[+]{} ok ({remark})\n", check.name),
        },
        Some(trouble) => format!("[-]{} failed: {trouble}\n", check.name),
    });
    let end = format!("{name} check {}\n", if is_failed { "failed" } else { "passed" });
    let code = if is_failed { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK };
    text(code, lines.collect::<String>() + &end)
}

fn alone(check: &Check) -> Answer {
    match &check.trouble {
        None => text(StatusCode::OK, "ok"),
        Some(trouble) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {trouble}\n")),
    }
}

fn unknown() -> Answer {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::sync::watch;

    use super::*;
    use crate::telemetry::subject::Subject;

    async fn asked(checks: &[Check], query: &str) -> (u16, String) {
        let (head, body) = together("readyz", checks, query).into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head.status.as_u16(), String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn checks_are_told_as_controller_runtime_tells_them() {
        let good = [Check::good("ping"), Check::good("watches")];
        let details = ["the watch of secrets has ended".to_owned(), "the watch of apps has ended".to_owned()];
        let bad = [Check::good("ping"), Check::failed("watches", &details, "watches that do not work")];
        let verbose = "[+]ping ok\n[+]watches ok\nreadyz check passed\n";
        assert_eq!(asked(&good, "").await, (200, "ok".to_owned()));
        assert_eq!(asked(&good, "verbose").await, (200, verbose.to_owned()));
        assert_eq!(asked(&good, "verbose=1").await, (200, verbose.to_owned()));
        let partly = [Check::good("kinds").leaving_out(&["App may not be watched in b".to_owned()], "kinds left out")];
        let verbose = "[+]kinds ok (kinds left out: 1; the log names them)\nreadyz check passed\n";
        assert_eq!(asked(&partly, "verbose").await, (200, verbose.to_owned()));
        let failed =
            "[+]ping ok\n[-]watches failed: watches that do not work: 2; the log names them\nreadyz check failed\n";
        assert_eq!(asked(&bad, "").await, (500, failed.to_owned()));
        assert_eq!(asked(&bad, "exclude=watches").await, (200, "ok".to_owned()));
    }

    #[test]
    fn what_stays_the_same_is_logged_once() {
        let (before, check) =
            (Mutex::default(), |detail: &str| vec![Check::failed("kinds", &[detail.to_owned()], "kinds")]);
        let is_same = |now: &[Check], before: &[Check]| now == before;
        assert_eq!(changed(&before, check("App"), is_same).len(), 1);
        assert!(changed(&before, check("App"), is_same).is_empty());
        assert_eq!(changed(&before, check("Web"), is_same).len(), 1);
    }

    #[test]
    fn before_it_is_connected_it_lives_and_is_not_ready() {
        let health = Health::new(watch::channel(Subject::default()).1, Duration::from_secs(300));
        let code = |path: &str| health.answer(&http::Request::get(path).body(()).unwrap()).status().as_u16();
        assert_eq!((code("/readyz"), code("/readyz/"), code("/readyz/started")), (500, 500, 500));
        assert_eq!(
            (code("/healthz/ping"), code("/healthz/none"), code("/"), code("/healthz/a/b")),
            (200, 404, 404, 404)
        );
    }
}
