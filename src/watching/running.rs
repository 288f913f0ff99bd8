//! The watches of this process, and how each is: for metrics, and for the probe that asks whether one is dead.
//!
//! kube's watcher says nothing when a watch that broke works again and nothing happens. So one that broke and has been asked for
//! a while without breaking again counts as working. One that nobody asks, since its owner waits with it, stays as it was.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::CALM;
use crate::telemetry::metrics;

/// How a watch is.
#[derive(Clone, Debug, PartialEq)]
pub struct Watched {
    /// What it watches, as the API server names it: `apps/deployments`.
    pub resource: String,
    pub state: State,
    /// Since when.
    pub since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    /// Nothing was heard of it yet.
    Starting,
    Working,
    Failing(Trouble),
    /// Its task panicked. Nobody watches any more.
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trouble {
    /// The API server says that it may not, or that there is no such thing.
    Refused,
    /// The API server says something else, or broke off what it had begun.
    Answered,
    /// Nobody answers at all.
    Unanswered,
}

struct Known {
    resource: String,
    /// Since when it has been working, while it has. None before anything was heard.
    works_since: Option<Instant>,
    /// What it meets, and since when.
    trouble: Option<(Trouble, Instant)>,
    /// Since when somebody has been waiting for what comes next.
    asked: Option<Instant>,
    dead: Option<Instant>,
}

#[derive(Default)]
struct Board {
    next: u64,
    known: BTreeMap<u64, Known>,
}

static BOARD: LazyLock<Mutex<Board>> = LazyLock::new(Mutex::default);

fn board() -> MutexGuard<'static, Board> {
    BOARD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All watches, as they are now.
pub fn all(now: Instant) -> Vec<Watched> {
    board().known.values().map(|known| known.at(now)).collect()
}

/// A watch begins. It ends when the entry is dropped.
pub(super) fn enter(url: &str) -> Entry {
    let mut board = board();
    board.next += 1;
    let (number, resource) = (board.next, resource(url));
    metrics::watch_starts(&resource);
    let known = Known { resource, works_since: None, trouble: None, asked: None, dead: None };
    board.known.insert(number, known);
    Entry(number)
}

pub(super) struct Entry(u64);

impl Entry {
    fn with(&self, change: impl FnOnce(&mut Known)) {
        if let Some(known) = board().known.get_mut(&self.0) {
            change(known);
        }
    }

    /// Somebody waits for what comes next.
    pub(super) fn asks(&self, now: Instant) {
        self.with(|known| known.asked = Some(now));
    }

    pub(super) fn works(&self, now: Instant) {
        self.with(|known| {
            if known.trouble.take().is_some() || known.works_since.is_none() {
                known.works_since = Some(now);
            }
        });
    }

    pub(super) fn broke(&self, trouble: Trouble, now: Instant) {
        self.with(|known| {
            let lasting = known.trouble.filter(|(met, _)| *met == trouble && !known.is_calm(now));
            known.trouble = Some((trouble, lasting.map_or(now, |(_, since)| since)));
            known.asked = None;
            metrics::watch_restarted(&known.resource);
        });
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Nothing else ends a watch that somebody still needs.
            self.with(|known| known.dead = Some(Instant::now()));
        } else {
            board().known.remove(&self.0);
        }
    }
}

impl Known {
    fn at(&self, now: Instant) -> Watched {
        let (state, since) = match (self.dead, self.trouble, self.works_since) {
            (Some(dead), ..) => (State::Dead, dead),
            (None, Some(_), _) if self.is_calm(now) => (State::Working, self.asked.unwrap_or(now)),
            (None, Some((trouble, since)), _) => (State::Failing(trouble), since),
            (None, None, Some(since)) => (State::Working, since),
            (None, None, None) => (State::Starting, now),
        };
        Watched { resource: self.resource.clone(), state, since }
    }

    /// Whether it would have broken by now.
    fn is_calm(&self, now: Instant) -> bool {
        self.asked.is_some_and(|asked| now.saturating_duration_since(asked) > CALM)
    }
}

/// `/apis/apps/v1/deployments` is `apps/deployments`, and `/api/v1/secrets` is `secrets`.
pub(super) fn resource(url: &str) -> String {
    let parts: Vec<&str> = url.trim_matches('/').split('/').collect();
    let plural = parts.last().copied().unwrap_or_default();
    match parts.as_slice() {
        ["apis", group, _, ..] => format!("{group}/{plural}"),
        _ => plural.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn state_of(resource: &str, now: Instant) -> Option<State> {
        all(now).into_iter().find(|watched| watched.resource == resource).map(|watched| watched.state)
    }

    #[test]
    fn a_resource_is_named_as_a_person_names_it() {
        assert_eq!(resource("/apis/apps/v1/namespaces/a/deployments"), "apps/deployments");
        assert_eq!(resource("/api/v1/secrets"), "secrets");
    }

    #[test]
    fn a_watch_fails_until_it_is_heard_of_or_has_been_calm() {
        let (entry, now) = (enter("/api/v1/breaking"), Instant::now());
        let after = |seconds| now + Duration::from_secs(seconds);
        let state = |seconds| state_of("breaking", after(seconds));
        entry.asks(now);
        assert_eq!(state(100), Some(State::Starting), "nobody has answered yet");
        entry.broke(Trouble::Unanswered, after(100));
        entry.asks(after(105));
        entry.broke(Trouble::Unanswered, after(120));
        assert_eq!(state(200), Some(State::Failing(Trouble::Unanswered)), "nobody asks");
        entry.asks(after(200));
        assert_eq!((state(230), state(231)), (Some(State::Failing(Trouble::Unanswered)), Some(State::Working)));
        entry.works(after(240));
        let watched = all(after(300)).into_iter().find(|it| it.resource == "breaking").unwrap();
        assert_eq!((watched.state, watched.since), (State::Working, after(240)));
        drop(entry);
        assert_eq!(state(201), None);
    }

    #[test]
    fn a_trouble_lasts_from_its_own_first_time_on() {
        let (entry, now) = (enter("/api/v1/changing"), Instant::now());
        let after = |seconds| now + Duration::from_secs(seconds);
        let since = || all(after(50)).into_iter().find(|it| it.resource == "changing").unwrap().since;
        for (second, trouble) in [(0, Trouble::Answered), (10, Trouble::Unanswered), (20, Trouble::Unanswered)] {
            entry.broke(trouble, after(second));
        }
        assert_eq!(since(), after(10), "what was answered before is no silence");
    }

    #[tokio::test]
    async fn a_watch_whose_task_panicked_is_dead() {
        let task = tokio::spawn(async {
            let entry = enter("/api/v1/panicking");
            tokio::task::yield_now().await;
            entry.works(Instant::now());
            panic!("on purpose");
        });
        assert!(task.await.is_err());
        assert_eq!(state_of("panicking", Instant::now()), Some(State::Dead));
    }
}
