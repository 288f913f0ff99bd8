//! What a turn is for whoever reads logs or traces: whose it is, which way it went, and how long each stage took.
//!
//! The span of a turn has the custom resource in it, so every line that is written during the turn names it, whoever writes it. Its
//! level is that of an error: it must be there wherever any line is. Spans of stages are for traces only; where nobody asks for
//! them they cost a look at a number.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use kube::ResourceExt;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::{Context, Subject};
use crate::course::Course;
use crate::custom_resource::CustomResource;

/// So much of a digest tells two apart.
const SHORT: usize = 12;

/// The same sentence about the same custom resource is told again after this time.
pub const SELDOM: Duration = Duration::from_secs(600);

/// The parts of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Values,
    Render,
    Preflight,
    Apply,
    Prune,
    Hooks,
    Observe,
    Status,
}

impl Stage {
    fn as_str(self) -> &'static str {
        match self {
            Stage::Values => "values",
            Stage::Render => "render",
            Stage::Preflight => "preflight",
            Stage::Apply => "apply",
            Stage::Prune => "prune",
            Stage::Hooks => "hooks",
            Stage::Observe => "observe",
            Stage::Status => "status",
        }
    }

    fn span(self) -> Span {
        tracing::debug_span!(target: "chartwright::stage", "stage", otel.name = self.as_str())
    }
}

/// How long things took in this turn.
pub struct Journal {
    begun: Instant,
    took: Mutex<Took>,
}

#[derive(Clone, Copy, Default)]
struct Took {
    render: Option<Duration>,
    apply: Option<Duration>,
}

impl Default for Journal {
    fn default() -> Self {
        Journal { begun: Instant::now(), took: Mutex::default() }
    }
}

impl Journal {
    fn took(&self) -> MutexGuard<'_, Took> {
        // A poisoned lock still holds times.
        self.took.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn add(&self, stage: Stage, time: Duration) {
        let mut took = self.took();
        let sum = match stage {
            Stage::Render => &mut took.render,
            Stage::Apply => &mut took.apply,
            _ => return,
        };
        *sum = Some(sum.unwrap_or_default() + time);
    }

    pub fn render_ms(&self) -> Option<u64> {
        self.took().render.map(milliseconds)
    }

    pub fn apply_ms(&self) -> Option<u64> {
        self.took().apply.map(milliseconds)
    }

    pub fn total_ms(&self) -> u64 {
        milliseconds(self.begun.elapsed())
    }
}

/// The span of one custom resource's turn.
pub fn span(cr: &CustomResource, context: &Context) -> Span {
    tracing::error_span!(
        target: "chartwright::reconcile",
        "reconcile",
        kind = context.watch.gvk.kind,
        namespace = cr.namespace(),
        name = cr.name_any(),
        generation = cr.metadata.generation,
        revision = Empty,
        digest = Empty,
        course = Empty,
        outcome = Empty,
    )
}

/// How the turn went, for its trace. Lines that come after it would say it too.
pub fn note_outcome(outcome: &str) {
    Span::current().record("outcome", outcome);
}

/// What this turn is about to make, for all that is told of it from now on.
pub fn note_digest(digest: &str) {
    Span::current().record("digest", short(digest));
}

pub fn note_revision(revision: u32) {
    Span::current().record("revision", revision);
}

pub fn note_course(course: &Course) {
    Span::current().record("course", course.as_str());
}

/// A digest as a person compares it.
pub fn short(digest: &str) -> &str {
    digest.get(..SHORT).unwrap_or(digest)
}

pub fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Subject<'_> {
    /// Does a part of the turn, and remembers how long it took.
    pub(super) async fn stage<T>(&self, stage: Stage, work: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let done = work.instrument(stage.span()).await;
        self.journal.add(stage, begun.elapsed());
        done
    }
}
