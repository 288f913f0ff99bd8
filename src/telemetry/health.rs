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

pub mod judge;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use http::StatusCode;

use super::serve::{Answer, Handler, Question, text};
use crate::controller::Operator;
use crate::controller::lives::Presence;
use crate::queue::Pulse;
use crate::watching;

/// What is asked about: an operator that may not be there yet.
#[derive(Clone)]
pub struct Health {
    operator: Arc<OnceLock<Operator>>,
    patience: Duration,
    /// What was said last about being alive.
    said: Arc<Mutex<Vec<Check>>>,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq)]
struct Check {
    name: &'static str,
    /// Why it is not as it should be.
    trouble: Option<String>,
    /// What is left out, although it is as it should be.
    remark: Option<String>,
}

impl Check {
    fn new(name: &'static str, troubles: &[String]) -> Self {
        Check { name, trouble: joined(troubles), remark: None }
    }

    fn leaving_out(self, remarks: &[String]) -> Self {
        Check { remark: joined(remarks), ..self }
    }
}

fn joined(sentences: &[String]) -> Option<String> {
    (!sentences.is_empty()).then(|| sentences.join("; "))
}

impl Health {
    /// # Arguments
    /// `patience`: how long something may be stuck.
    pub fn new(operator: Arc<OnceLock<Operator>>, patience: Duration) -> Self {
        Health { operator, patience, said: Arc::default() }
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

    fn alive(&self) -> Vec<Check> {
        let watches = judge::watches(&watching::all(Instant::now()), Instant::now(), self.patience);
        let queues = judge::queues(&self.pulses(), self.worked(), self.patience);
        let checks = vec![Check::new("ping", &[]), Check::new("queues", &queues), Check::new("watches", &watches)];
        self.tell(&checks);
        checks
    }

    /// The next process finds in the log of this one why it was ended.
    fn tell(&self, checks: &[Check]) {
        let failed: Vec<Check> = checks.iter().filter(|check| check.trouble.is_some()).cloned().collect();
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let names = |checks: &[Check]| checks.iter().map(|check| check.name).collect::<Vec<_>>();
        if names(&said) != names(&failed) {
            for check in &failed {
                let trouble = check.trouble.as_deref().unwrap_or_default();
                tracing::error!(
                    check = check.name,
                    "not alive, so that the kubelet starts the operator anew: {trouble}"
                );
            }
            *said = failed;
        }
    }

    fn pulses(&self) -> Vec<(String, Pulse)> {
        let kinds = self.operator.get().map(|operator| operator.lives.all()).unwrap_or_default();
        let pulse = |presence: &Presence| match presence {
            Presence::Here(here) => Some(here.queue.pulse()),
            _ => None,
        };
        kinds.iter().filter_map(|kind| Some((kind.gvk.kind.clone(), pulse(&kind.presence)?))).collect()
    }

    /// For how long this operator has been the one that works.
    fn worked(&self) -> Option<Duration> {
        self.operator.get()?.leading.since().map(|since| since.elapsed())
    }

    fn ready(&self) -> Vec<Check> {
        let Some(operator) = self.operator.get() else {
            return vec![Check::new("started", &["it is not connected to the API server yet".to_owned()])];
        };
        let started = Check::new("started", &[]);
        let unseen = (!operator.records.is_synced()).then(|| "the release records are not all seen yet".to_owned());
        let lives = operator.lives.all();
        let kinds: Vec<String> = lives.iter().filter_map(|kind| behind(&kind.gvk.kind, &kind.presence)).collect();
        let refused: Vec<String> = lives.iter().filter_map(|kind| refused(&kind.gvk.kind, &kind.presence)).collect();
        let mut objects = operator.children.catching_up();
        objects.sort();
        let objects: Vec<String> =
            objects.iter().map(|kind| format!("the objects of the kind {kind} are not all seen yet")).collect();
        vec![
            Check::new("kinds", &kinds).leaving_out(&refused),
            Check::new("objects", &objects),
            Check::new("records", unseen.as_slice()),
            started,
        ]
    }
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

    use super::*;

    async fn asked(checks: &[Check], query: &str) -> (u16, String) {
        let (head, body) = together("readyz", checks, query).into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head.status.as_u16(), String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn checks_are_told_as_controller_runtime_tells_them() {
        let good = [Check::new("ping", &[]), Check::new("watches", &[])];
        let bad = [Check::new("ping", &[]), Check::new("watches", &["one".to_owned(), "two".to_owned()])];
        let verbose = "[+]ping ok\n[+]watches ok\nreadyz check passed\n";
        assert_eq!(asked(&good, "").await, (200, "ok".to_owned()));
        assert_eq!(asked(&good, "verbose").await, (200, verbose.to_owned()));
        assert_eq!(asked(&good, "verbose=1").await, (200, verbose.to_owned()));
        let partly = [Check::new("kinds", &[]).leaving_out(&["App may not be watched in b".to_owned()])];
        let verbose = "[+]kinds ok (App may not be watched in b)\nreadyz check passed\n";
        assert_eq!(asked(&partly, "verbose").await, (200, verbose.to_owned()));
        let failed = "[+]ping ok\n[-]watches failed: one; two\nreadyz check failed\n";
        assert_eq!(asked(&bad, "").await, (500, failed.to_owned()));
        assert_eq!(asked(&bad, "exclude=watches").await, (200, "ok".to_owned()));
    }

    #[test]
    fn before_it_is_connected_it_lives_and_is_not_ready() {
        let health = Health::new(Arc::default(), Duration::from_secs(300));
        let code = |path: &str| health.answer(&http::Request::get(path).body(()).unwrap()).status().as_u16();
        assert_eq!((code("/readyz"), code("/readyz/"), code("/readyz/started")), (500, 500, 500));
        assert_eq!(
            (code("/healthz/ping"), code("/healthz/none"), code("/"), code("/healthz/a/b")),
            (200, 404, 404, 404)
        );
    }
}
