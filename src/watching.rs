//! Watches that heal by themselves.
//!
//! kube's watcher takes up a broken watch where it ended, and lists again when its place is too old. To that this module
//! adds: initial lists that come as a stream where the API server has that, pauses that grow with each failure and are short
//! again after a success, a new list where taking up fails again and again, and few words in the log.
//!
//! It does not know what is watched, or what an event means.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use futures::stream::{BoxStream, Stream, StreamExt, unfold};
use kube::Resource;
use kube::api::Api;
use kube::runtime::watcher::{self, Event, watcher};
use serde::de::DeserializeOwned;

use crate::error::sentence;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// A watch that was quiet for so long after a failure works.
const CALM: Duration = Duration::from_secs(30);
/// A failure that lasts is told again after this time.
const SAY_AGAIN: Duration = Duration::from_secs(300);
/// After so many answers in a row that a watch cannot be taken up, everything is listed again: the API server may have been
/// set back to a time before our place in its history.
const TAKE_UP: u32 = 3;
/// A server that knows nothing of streamed lists never says where one ends.
const LIST_PATIENCE: Duration = Duration::from_secs(30);

/// How the first list comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lists {
    /// As the first events of the watch, so that nobody has to put together one large answer.
    Streamed,
    /// By pages. Every API server has these.
    Paged,
}

/// How to watch what selectors match: with bookmarks, so that a watch can be taken up without a list.
pub fn config(labels: Option<&str>, fields: Option<&str>, lists: Lists) -> watcher::Config {
    let mut config = watcher::Config::default();
    if let Some(labels) = labels {
        config = config.labels(labels);
    }
    if let Some(fields) = fields {
        config = config.fields(fields);
    }
    match lists {
        Lists::Streamed => config.streaming_lists(),
        Lists::Paged => config,
    }
}

/// The events of everything that a selector matches, without end. Errors are given on where a person should read them: the
/// first of a row, one of another kind, and one that lasts. Nothing has to be done about them.
pub fn events<K>(api: Api<K>, selector: Option<&str>) -> impl Stream<Item = Result<Event<K>, watcher::Error>> + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    events_with(api, selector, None)
}

/// The same, with a selector of fields too.
pub fn events_with<K>(
    api: Api<K>,
    labels: Option<&str>,
    fields: Option<&str>,
) -> impl Stream<Item = Result<Event<K>, watcher::Error>> + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let (labels, fields) = (labels.map(str::to_owned), fields.map(str::to_owned));
    let config = move |lists| config(labels.as_deref(), fields.as_deref(), lists);
    let start = Box::new(move |lists| watcher(api.clone(), config(lists)).boxed()) as Start<_>;
    let watch =
        Watch { events: start(Lists::Streamed), start, lists: Lists::Streamed, listing: true, row: Row::default() };
    unfold(watch, |mut watch| async move { Some((watch.next().await, watch)) })
}

/// The API server's own sentence, where there is one.
pub fn words(error: &watcher::Error) -> String {
    match error {
        _ if code(error) == Some(401) => {
            "the credentials are not valid any more; a token in a file is read again by itself, one inside a kubeconfig needs a new start".to_owned()
        }
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => sentence(error),
        watcher::Error::WatchError(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// The code of the API server's answer, if it was one.
pub fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

type Events<K> = BoxStream<'static, Result<Event<K>, watcher::Error>>;
type Start<K> = Box<dyn Fn(Lists) -> Events<K> + Send>;

struct Watch<K: 'static> {
    events: Events<K>,
    start: Start<K>,
    lists: Lists,
    /// No list has been complete since the start.
    listing: bool,
    row: Row,
}

impl<K> Watch<K> {
    async fn next(&mut self) -> Result<Event<K>, watcher::Error> {
        loop {
            tokio::time::sleep(std::mem::take(&mut self.row.pause)).await;
            let streams = self.listing && self.lists == Lists::Streamed;
            let patience = if streams { LIST_PATIENCE } else { Duration::MAX };
            match tokio::time::timeout(patience, self.events.next()).await {
                Ok(Some(Ok(event))) => {
                    self.note(&event);
                    return Ok(event);
                }
                Ok(Some(Err(error))) => {
                    if let Some(error) = self.broke(error, Instant::now()) {
                        return Err(error);
                    }
                }
                Ok(None) => self.restart(self.lists),
                Err(_) => self.restart(Lists::Paged),
            }
        }
    }

    fn note(&mut self, event: &Event<K>) {
        match event {
            // Nobody was asked yet.
            Event::Init => self.listing = true,
            Event::InitDone => (self.listing, self.row) = (false, Row::default()),
            _ => self.row = Row::default(),
        }
    }

    /// What to do about an error, and whether to tell of it.
    fn broke(&mut self, error: watcher::Error, now: Instant) -> Option<watcher::Error> {
        let code = code(&error);
        if self.lists == Lists::Streamed && matches!(code, Some(400 | 422)) {
            // It has no streamed lists.
            self.restart(Lists::Paged);
            return None;
        }
        let worth_telling = self.row.add(code, now);
        if code == Some(410) || (code.is_some() && self.row.failures.is_multiple_of(TAKE_UP)) {
            self.restart(self.lists);
        }
        worth_telling.then_some(error)
    }

    fn restart(&mut self, lists: Lists) {
        (self.events, self.lists, self.listing) = ((self.start)(lists), lists, true);
    }
}

/// Failures in a row.
#[derive(Debug, Default)]
struct Row {
    failures: u32,
    /// Before the next try.
    pause: Duration,
    last: Option<Instant>,
    told: Option<(Instant, Option<u16>)>,
}

impl Row {
    /// Counts a failure, and says whether to tell of it.
    fn add(&mut self, code: Option<u16>, now: Instant) -> bool {
        if self.last.is_some_and(|last| now.duration_since(last) > CALM + LONGEST_PAUSE) {
            *self = Row::default();
        }
        self.pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(10)).min(LONGEST_PAUSE);
        self.failures += 1;
        self.last = Some(now);
        // That a place became too old happens to every watch, and is repaired at once.
        let told = self.told.is_some_and(|(at, told)| told == code && now.duration_since(at) < SAY_AGAIN);
        let tell = code != Some(410) && !told;
        if tell {
            self.told = Some((now, code));
        }
        tell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_begin_anew_after_a_calm_time() {
        let (mut row, mut now) = (Row::default(), Instant::now());
        let mut pauses = vec![];
        for _ in 0..8 {
            row.add(None, now);
            pauses.push(row.pause.as_millis());
            now += row.pause;
        }
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16_000, 20_000, 20_000]);
        row.add(None, now + CALM + LONGEST_PAUSE * 2);
        assert_eq!(row.pause, FIRST_PAUSE);
    }

    #[test]
    fn a_failure_that_lasts_is_told_seldom_and_another_one_at_once() {
        let (mut row, start) = (Row::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert!(row.add(None, start));
        assert!(!row.add(None, after(1)));
        assert!(row.add(Some(404), after(2)));
        assert!(!row.add(Some(410), after(3)));
        for second in 4..300 {
            assert!(!row.add(Some(404), after(second)));
        }
        assert!(row.add(Some(404), after(303)));
    }
}
