//! Watches that heal by themselves.
//!
//! kube's watcher takes up a broken watch where it ended, and lists again when its place is too old. To that this module
//! adds: initial lists that come as a stream where the API server has that, pauses that grow with each failure and are short
//! again after a success, a new list where taking up fails again and again, and few words in the log.
//!
//! It does not know what is watched, or what an event means.

mod running;
mod tolerant;

use std::fmt::Debug;
use std::time::{Duration, Instant};

use futures::stream::{BoxStream, Stream, StreamExt, unfold};
use kube::api::{Api, ApiResource};
use kube::core::{DynamicResourceScope, NamespaceResourceScope};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;

use crate::error::sentence;
use crate::namespaces::Scope;

pub use running::{State, Trouble, Watched, all};
pub use tolerant::{Salvage, Tolerant, tolerant_events, tolerant_events_as};

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// The same while nobody answers: a try costs nobody anything, and what was edited meanwhile waits for the one after the outage.
const LONGEST_PAUSE_IN_SILENCE: Duration = Duration::from_secs(3);
/// A watch that was quiet for so long after a failure works.
const CALM: Duration = Duration::from_secs(30);
/// A failure that lasts is told again after this time.
const SAY_AGAIN: Duration = Duration::from_secs(300);
/// An API server that asks to wait does so for seconds, for a kind that is new. Only what lasts longer is told.
const BUSY: Duration = Duration::from_secs(15);
/// After so many answers in a row that a watch cannot be taken up, everything is listed again: the API server may have been
/// set back to a time before our place in its history.
const TAKE_UP: u32 = 3;
/// A server that knows nothing of streamed lists never says where one ends.
const STREAM_PATIENCE: Duration = Duration::from_secs(30);
/// For a page of a list. The API server itself gives up after a minute.
const PAGE_PATIENCE: Duration = Duration::from_secs(70);

/// How many objects a page of a list has. Anybody may make an object as large as etcd takes, and a page is read as a whole.
const PAGE: u32 = 50;
/// The same where the text of each object is held until its turn comes.
const PAGE_OF_TEXTS: u32 = 20;

/// How the first list comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lists {
    /// As the first events of the watch, so that nobody has to put together one large answer.
    Streamed,
    /// By pages. Every API server has these, and they hold all that was written before. A streamed one may come from a cache that is
    /// behind.
    Paged,
}

/// How to watch what selectors match: with bookmarks, so that a watch can be taken up without a list.
pub fn config(labels: Option<&str>, fields: Option<&str>, lists: Lists) -> watcher::Config {
    config_by(PAGE, labels, fields, lists)
}

fn config_by(page: u32, labels: Option<&str>, fields: Option<&str>, lists: Lists) -> watcher::Config {
    let mut config = watcher::Config::default().page_size(page);
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
    events_after(api, labels, fields, Lists::Streamed)
}

/// The same, after a list of this kind.
pub fn events_after<K>(
    api: Api<K>,
    labels: Option<&str>,
    fields: Option<&str>,
    lists: Lists,
) -> impl Stream<Item = Result<Event<K>, watcher::Error>> + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let (labels, fields) = (labels.map(str::to_owned), fields.map(str::to_owned));
    begun(api, labels, fields, lists, (PAGE, PAGE_PATIENCE))
}

fn begun<K>(
    api: Api<K>,
    labels: Option<String>,
    fields: Option<String>,
    lists: Lists,
    (page, page_patience): (u32, Duration),
) -> impl Stream<Item = Result<Event<K>, watcher::Error>> + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let shown = running::enter(api.resource_url());
    let config = move |lists| config_by(page, labels.as_deref(), fields.as_deref(), lists);
    let start = Box::new(move |lists| watcher(api.clone(), config(lists)).boxed()) as Start<_>;
    let (listing, row) = (true, Row::default());
    let watch = Watch { events: start(lists), start, lists, listing, row, page_patience, shown };
    unfold(watch, |mut watch| async move { Some((watch.next().await, watch)) })
}

/// What a watch covers, for a kind that is known only now.
pub fn api_with<K>(client: Client, scope: &Scope, resource: &ApiResource) -> Api<K>
where
    K: Resource<Scope = DynamicResourceScope, DynamicType = ApiResource>,
{
    match scope {
        Some(namespace) => Api::namespaced_with(client, namespace, resource),
        None => Api::all_with(client, resource),
    }
}

/// What a watch covers, for a kind of Kubernetes itself.
pub fn api<K>(client: Client, scope: &Scope) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    match scope {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    }
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

/// Only where a list or a watch does not even begin, and nobody says why, did nobody answer.
fn trouble(error: &watcher::Error) -> Trouble {
    match error {
        _ if matches!(code(error), Some(401 | 403 | 404)) => Trouble::Refused,
        watcher::Error::InitialListFailed(kube::Error::Service(_) | kube::Error::HyperError(_))
        | watcher::Error::WatchStartFailed(kube::Error::Service(_) | kube::Error::HyperError(_)) => Trouble::Unanswered,
        _ => Trouble::Answered,
    }
}

impl Trouble {
    fn longest_pause(self) -> Duration {
        match self {
            Trouble::Unanswered => LONGEST_PAUSE_IN_SILENCE,
            Trouble::Refused | Trouble::Answered => LONGEST_PAUSE,
        }
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
    /// How long a page of a list may take.
    page_patience: Duration,
    /// For whoever asks how all watches are.
    shown: running::Entry,
}

impl<K> Watch<K> {
    async fn next(&mut self) -> Result<Event<K>, watcher::Error> {
        loop {
            tokio::time::sleep(std::mem::take(&mut self.row.pause)).await;
            let patience = self.patience();
            // A page may take longer than a watch that works is quiet.
            if !(self.listing && self.lists == Lists::Paged) {
                self.shown.asks(Instant::now());
            }
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
                Err(_) if self.lists == Lists::Streamed => self.restart(Lists::Paged),
                Err(_) => {
                    self.restart(Lists::Paged);
                    let late = format!("no answer within {} s", patience.as_secs_f32());
                    let error = watcher::Error::InitialListFailed(kube::Error::Service(late.into()));
                    if let Some(error) = self.broke(error, Instant::now()) {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// How long to wait for what comes next. Only where a list is complete may nothing come.
    fn patience(&self) -> Duration {
        match self.lists {
            _ if !self.listing => Duration::MAX,
            Lists::Streamed => STREAM_PATIENCE,
            Lists::Paged => self.page_patience,
        }
    }

    fn note(&mut self, event: &Event<K>) {
        // A list by pages begins before anybody was asked.
        if !matches!(event, Event::Init) || self.lists == Lists::Streamed {
            self.shown.works(Instant::now());
        }
        match event {
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
        let trouble = trouble(&error);
        let worth_telling = self.row.add(code, now, trouble.longest_pause());
        if code == Some(429) && !worth_telling {
            tracing::debug!("the API server asks to wait: {}", words(&error));
        }
        self.shown.broke(trouble, now);
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
    first: Option<Instant>,
    last: Option<Instant>,
    told: Option<(Instant, Option<u16>)>,
}

impl Row {
    /// Counts a failure, and says whether to tell of it.
    fn add(&mut self, code: Option<u16>, now: Instant, longest: Duration) -> bool {
        if self.last.is_some_and(|last| now.duration_since(last) > CALM + LONGEST_PAUSE) {
            *self = Row::default();
        }
        self.pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(10)).min(longest);
        self.failures += 1;
        self.last = Some(now);
        // That a place became too old happens to every watch, and is repaired at once.
        let told = self.told.is_some_and(|(at, told)| told == code && now.duration_since(at) < SAY_AGAIN);
        let is_busy = code == Some(429) && now.duration_since(*self.first.get_or_insert(now)) < BUSY;
        let tell = code != Some(410) && !told && !is_busy;
        if tell {
            self.told = Some((now, code));
        }
        tell
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::client::Body;

    use super::*;

    /// The first error of a watch whose lists by pages meet with this. There are no streamed ones.
    async fn first_error(paged: Option<u16>) -> watcher::Error {
        let service = tower::service_fn(move |request: Request<Body>| async move {
            let code = match request.uri().query().unwrap_or_default().contains("watch=true") {
                true => 400,
                false => match paged {
                    Some(code) => code,
                    None => std::future::pending().await,
                },
            };
            Ok::<_, std::io::Error>(Response::builder().status(code).body(Body::empty()).unwrap())
        });
        let api: Api<ConfigMap> = Api::all(Client::new(service, "default"));
        let events = begun(api, None, None, Lists::Streamed, (PAGE, Duration::from_millis(50)));
        futures::pin_mut!(events);
        loop {
            if let Some(Err(error)) = events.next().await {
                return error;
            }
        }
    }

    #[tokio::test]
    async fn a_page_that_is_never_answered_is_given_up() {
        let error = first_error(None).await;
        assert_eq!((words(&error).as_str(), trouble(&error)), ("no answer within 0.05 s", Trouble::Unanswered));
    }

    #[tokio::test]
    async fn whatever_the_api_server_says_is_an_answer() {
        for (code, said) in
            [(403, Trouble::Refused), (405, Trouble::Answered), (500, Trouble::Answered), (503, Trouble::Answered)]
        {
            assert_eq!(trouble(&first_error(Some(code)).await), said, "{code}");
        }
    }

    #[test]
    fn pauses_grow_and_begin_anew_after_a_calm_time() {
        let (mut row, mut now) = (Row::default(), Instant::now());
        let mut pauses = vec![];
        for _ in 0..8 {
            row.add(None, now, LONGEST_PAUSE);
            pauses.push(row.pause.as_millis());
            now += row.pause;
        }
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16_000, 20_000, 20_000]);
        row.add(None, now + CALM + LONGEST_PAUSE * 2, LONGEST_PAUSE);
        assert_eq!(row.pause, FIRST_PAUSE);
        (0..8).for_each(|_| drop(row.add(None, now, Trouble::Unanswered.longest_pause())));
        assert_eq!(row.pause, LONGEST_PAUSE_IN_SILENCE, "nobody answers");
    }

    #[test]
    fn an_api_server_that_is_busy_for_a_moment_is_not_told() {
        let (mut row, start) = (Row::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        for second in 0..BUSY.as_secs() {
            assert!(!row.add(Some(429), after(second), LONGEST_PAUSE));
        }
        assert!(row.add(Some(429), after(15), LONGEST_PAUSE), "it lasts");
        assert!(!row.add(Some(429), after(16), LONGEST_PAUSE));
    }

    #[test]
    fn a_failure_that_lasts_is_told_seldom_and_another_one_at_once() {
        let (mut row, start) = (Row::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert!(row.add(None, start, LONGEST_PAUSE));
        assert!(!row.add(None, after(1), LONGEST_PAUSE));
        assert!(row.add(Some(404), after(2), LONGEST_PAUSE));
        assert!(!row.add(Some(410), after(3), LONGEST_PAUSE));
        for second in 4..300 {
            assert!(!row.add(Some(404), after(second), LONGEST_PAUSE));
        }
        assert!(row.add(Some(404), after(303), LONGEST_PAUSE));
    }
}
