//! How reconciles end, counted as controller-runtime counts them.

use std::any::Any;
use std::time::Duration;

use crate::error::Retry;
use crate::reconcile::{Next, ReconcileError};
use crate::telemetry::metrics::{self, PANICS, RECONCILE_ERRORS, RECONCILE_SECONDS, RECONCILES, TERMINAL_ERRORS};

/// What a turn came to. A panic is the outer error.
pub type Outcome = Result<Result<Next, ReconcileError>, Box<dyn Any + Send>>;

/// The counters of one kind.
pub struct Meter {
    kind: String,
    controller: String,
}

impl Meter {
    /// All of them are shown from now on, from zero on: so a rate is there when the first error comes.
    pub fn of(kind: &str) -> Self {
        let controller = metrics::controller(kind);
        for result in ["error", "requeue", "requeue_after", "success"] {
            RECONCILES.of([&controller, result]);
        }
        for family in [&RECONCILE_ERRORS, &TERMINAL_ERRORS, &PANICS] {
            family.of([&controller]);
        }
        RECONCILE_SECONDS.of([&controller]);
        Meter { kind: kind.to_owned(), controller }
    }

    pub fn note(&self, outcome: &Outcome, took: Duration) {
        let controller = self.controller.as_str();
        RECONCILE_SECONDS.of([controller]).measure(took);
        RECONCILES.count([controller, result(outcome)]);
        match outcome {
            Ok(Err(error)) if !matches!(error, ReconcileError::Interrupted) => {
                let category = error.category();
                metrics::failed(&self.kind, category.as_str());
                RECONCILE_ERRORS.count([controller]);
                if category.retry() == Retry::Never {
                    TERMINAL_ERRORS.count([controller]);
                }
            }
            Err(_) => {
                PANICS.count([controller]);
                RECONCILE_ERRORS.count([controller]);
            }
            Ok(_) => {}
        }
    }
}

/// In controller-runtime's words.
fn result(outcome: &Outcome) -> &'static str {
    match outcome {
        Ok(Ok(Next::Rest | Next::Wait)) => "success",
        Ok(Ok(Next::Look(_) | Next::Soon(_) | Next::Pause(_))) => "requeue_after",
        Ok(Err(ReconcileError::Interrupted)) => "requeue",
        Ok(Err(_)) | Err(_) => "error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_makes_room_is_no_error() {
        let look = Next::Look(Duration::from_secs(1));
        let cases: [(Outcome, &str); 5] = [
            (Ok(Ok(Next::Rest)), "success"),
            (Ok(Ok(look)), "requeue_after"),
            (Ok(Err(ReconcileError::Interrupted)), "requeue"),
            (Ok(Err(ReconcileError::Unsettled)), "error"),
            (Err(Box::new("panic")), "error"),
        ];
        for (outcome, expected) in cases {
            assert_eq!(result(&outcome), expected);
        }
    }
}
