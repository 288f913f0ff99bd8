//! How long to try again while the API server is away. A person at a terminal does better than waiting, so it is for pods only.

use std::time::{Duration, Instant};

use super::session::ConnectError;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// An edit must not wait long after an outage of any length. Each try costs the API server a connection or two.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// An API server that has just started may refuse what it allows a moment later: it reads Roles and ServiceAccounts meanwhile.
const YOUNG: Duration = Duration::from_secs(30);

pub(super) struct Patience {
    is_pod: bool,
    /// When the API server was last known to be away.
    away: Option<Instant>,
    tries: u32,
    waits_since: Option<Instant>,
}

impl Patience {
    pub(super) fn new(is_pod: bool) -> Self {
        Patience { is_pod, away: None, tries: 0, waits_since: None }
    }

    /// Whether the process outlives an outage.
    pub(super) fn is_pod(&self) -> bool {
        self.is_pod
    }

    /// The API server was away until now, or may have been.
    pub(super) fn note_away(&mut self) {
        self.away = Some(Instant::now());
    }

    /// Waits until it is time for the next try.
    ///
    /// # Errors
    /// The same error, where no other try would help.
    pub(super) async fn wait(&mut self, error: ConnectError) -> Result<(), ConnectError> {
        let now = Instant::now();
        let Some(pause) = self.pause(error.is_away(), now) else { return Err(error) };
        if self.waits_since.is_none() {
            self.waits_since = Some(now);
            tracing::warn!("{error}; trying again until it answers");
        } else {
            tracing::debug!("{error}; trying again");
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// A try was successful.
    pub(super) fn succeeded(&mut self) {
        self.tries = 0;
        if let Some(since) = self.waits_since.take() {
            tracing::info!(waitedMs = since.elapsed().as_millis(), "the API server answers");
        }
    }

    fn pause(&mut self, is_away: bool, now: Instant) -> Option<Duration> {
        if is_away {
            self.away = Some(now);
        }
        let is_young = self.away.is_some_and(|away| now.saturating_duration_since(away) < YOUNG);
        if !self.is_pod || !is_young {
            return None;
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << self.tries.min(10)).min(LONGEST_PAUSE);
        self.tries += 1;
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_tries_again_after_pauses_that_grow_for_as_long_as_it_takes() {
        let (mut patience, mut now) = (Patience::new(true), Instant::now());
        let mut pauses = vec![];
        for _ in 0..5 {
            pauses.push(patience.pause(true, now).unwrap().as_millis());
            now += Duration::from_secs(3600);
        }
        assert_eq!(pauses, [200, 400, 800, 1000, 1000]);
        patience.succeeded();
        assert_eq!(patience.pause(true, now), Some(FIRST_PAUSE));
    }

    #[test]
    fn a_refusal_counts_unless_the_api_server_has_just_started() {
        let (mut patience, now) = (Patience::new(true), Instant::now());
        assert_eq!(patience.pause(false, now), None);
        patience.pause(true, now);
        patience.succeeded();
        assert!(patience.pause(false, now + YOUNG / 2).is_some());
        assert_eq!(patience.pause(false, now + YOUNG), None, "it goes on refusing");
    }

    #[test]
    fn nobody_waits_at_a_terminal() {
        assert_eq!(Patience::new(false).pause(true, Instant::now()), None);
    }
}
