//! An operator that is killed without a warning leaves nothing that the next one does not bring to its end.
//!
//! A gate kills it at its n-th call, once before the API server sees the call and once after it was done. Another operator
//! starts, and what it reaches is what an undisturbed one reaches: the same objects, none made again, the same records, the
//! same status, and random values as they were recorded.

mod chart;
mod difference;
mod matrix;
mod phase;
mod scene;
mod seen;

use matrix::{Choice, Row, sweep};
use phase::Phase;

/// Of the calls, in `make test`.
const EVERY_FIFTH: usize = 5;

#[tokio::test]
async fn an_install_that_is_killed_ends_as_any_other() {
    let row = sweep(Phase::Install, &Choice::every(EVERY_FIFTH)).await;
    assert!(row.failures.is_empty(), "{}", row.failures.join("\n"));
}

#[tokio::test]
async fn an_upgrade_that_is_killed_ends_as_any_other() {
    let row = sweep(Phase::Upgrade, &Choice::every(EVERY_FIFTH)).await;
    assert!(row.failures.is_empty(), "{}", row.failures.join("\n"));
}

#[tokio::test]
#[ignore = "every call of every phase takes many minutes: make crash-matrix"]
async fn whatever_is_killed_at_any_call_ends_as_any_other() {
    let choice = Choice::from_environment();
    let mut rows = vec![];
    for phase in Phase::all().filter(|phase| choice.has(*phase)) {
        rows.push(sweep(phase, &choice).await);
    }
    println!("\n{}", Row::table(&rows));
    assert!(rows.iter().all(|row| row.failures.is_empty()), "some ended otherwise, see above");
}
