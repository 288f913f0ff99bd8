//! Waiting for what should happen, and watching that nothing does.

use std::time::{Duration, Instant};

/// The API server's check of owner references learns of a new kind only at its next look, up to half a minute later. An
/// administrator is not checked; an operator with limited rights has to wait for it.
pub const PATIENCE: Duration = Duration::from_secs(75);

/// Polls until there is an answer; fails with `what` when patience ends.
pub async fn until<T>(what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
    until_within(PATIENCE, what, look).await
}

pub async fn until_within<T>(patience: Duration, what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {patience:?}, but it did not happen: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What `look` sees stays the same for a while.
pub async fn stays<T: PartialEq + std::fmt::Debug>(how_long: Duration, what: &str, mut look: impl AsyncFnMut() -> T) {
    let first = look().await;
    let deadline = Instant::now() + how_long;
    while Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(look().await, first, "{what}");
    }
}

/// Waits until what `look` sees stays the same for a while.
pub async fn until_calm<T: PartialEq>(how_long: Duration, what: &str, mut look: impl AsyncFnMut() -> T) {
    until(what, async || {
        let before = look().await;
        tokio::time::sleep(how_long).await;
        (look().await == before).then_some(())
    })
    .await;
}
