//! `--watch` and `--wait`: a look again whenever the API server tells that something changed.
//!
//! Nothing is asked in a loop. Watches on metadata say that there is news; then everything is looked at once more, a few times per
//! second at most, and more seldom where a look takes long. Only while a watch fails, which somebody may not be allowed at all, there is
//! a look every few seconds.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::FutureExt;
use futures::stream::{BoxStream, StreamExt, select_all};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::Event;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::picture::Picture;
use super::told::{Ready, Told};
use crate::applyset;
use crate::calls::Calls;
use crate::cli::output::tell;
use crate::discovery::{Kind, Kinds};
use crate::watching;

/// News come in groups: a rollout changes a Deployment, its ReplicaSets and its pods within a moment.
const SETTLED: Duration = Duration::from_millis(300);
/// Between two looks while a watch fails.
const AGAIN: Duration = Duration::from_secs(3);
/// After a look that failed again and again.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// What is to be watched: a kind somewhere, by a selector.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    pub group: String,
    pub kind: String,
    pub namespace: Option<String>,
    pub labels: Option<String>,
    pub name: Option<String>,
}

/// Rings when something changed.
pub struct Bell {
    spots: BTreeSet<Spot>,
    news: BoxStream<'static, (usize, News)>,
    /// The watches that tell nothing now.
    failing: BTreeSet<usize>,
    /// Between two looks while one of them does.
    pause: Duration,
}

/// What a watch has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Change,
    /// A part of the first list.
    Works,
    Fails,
}

impl Bell {
    pub fn new(calls: &Calls, kinds: &Kinds, spots: BTreeSet<Spot>) -> Self {
        let watches = spots.iter().filter_map(|spot| watch(calls, kinds, spot)).enumerate();
        let news: Vec<_> = watches.map(|(number, watch)| watch.map(move |news| (number, news)).boxed()).collect();
        Bell { spots, news: select_all(news).boxed(), failing: BTreeSet::new(), pause: AGAIN }
    }

    /// The same, or another where other things are to be watched.
    pub fn on(self, calls: &Calls, kinds: &Kinds, spots: BTreeSet<Spot>) -> Self {
        if spots == self.spots { self } else { Bell::new(calls, kinds, spots) }
    }

    /// Waits for news, and until they have settled, or for a rest if that is longer. False where the time is over.
    pub async fn ring(&mut self, until: Option<Instant>, rest: Duration) -> bool {
        let begun = Instant::now();
        let until = until.unwrap_or(begun + Duration::from_secs(86_400 * 365));
        loop {
            let again = if self.failing.is_empty() { until } else { begun + rest.max(self.pause) };
            match timeout_at(until.min(again), self.news.next()).await {
                Ok(Some(news)) if self.heed(news) => {
                    sleep_until(until.min(Instant::now() + rest.max(SETTLED))).await;
                    while let Some(Some(news)) = self.news.next().now_or_never() {
                        self.heed(news);
                    }
                    return true;
                }
                Ok(Some(_)) => {}
                // A watch has no end; without any there is nothing to wait for but the time.
                Ok(None) => {
                    sleep_until(until).await;
                    return false;
                }
                Err(_) => return again < until,
            }
        }
    }

    /// Whether it is a reason to ring.
    fn heed(&mut self, (watch, news): (usize, News)) -> bool {
        match news {
            News::Fails => self.failing.insert(watch),
            News::Works | News::Change => self.failing.remove(&watch),
        };
        news == News::Change
    }
}

fn watch(calls: &Calls, kinds: &Kinds, spot: &Spot) -> Option<BoxStream<'static, News>> {
    let Kind { resource, namespaced, .. } = kinds.any_version(&spot.group, &spot.kind)?;
    let api: Api<PartialObjectMeta<DynamicObject>> = match spot.namespace.as_deref().filter(|_| namespaced) {
        Some(namespace) => Api::namespaced_with(calls.client(), namespace, &resource),
        None => Api::all_with(calls.client(), &resource),
    };
    let fields = spot.name.as_ref().map(|name| format!("metadata.name={name}"));
    let events = watching::events_with(api, spot.labels.as_deref(), fields.as_deref());
    let plural = resource.plural;
    let news = events.filter_map(move |event| {
        let news = match event {
            // It comes before anybody was asked.
            Ok(Event::Init) => None,
            // The first list is told of as a whole.
            Ok(Event::InitApply(_)) => Some(News::Works),
            Ok(_) => Some(News::Change),
            Err(error) => {
                let why = watching::words(&error);
                tell(&format!("note: changes of {plural} cannot be watched now, this is tried again: {why}"));
                Some(News::Fails)
            }
        };
        std::future::ready(news)
    });
    Some(news.boxed())
}

/// What may change in a table.
pub fn spots_of_kinds(kinds: &[Kind], namespace: Option<&str>, labels: Option<&str>) -> BTreeSet<Spot> {
    let spot = |kind: &Kind| Spot {
        group: kind.resource.group.clone(),
        kind: kind.resource.kind.clone(),
        namespace: namespace.map(str::to_owned),
        labels: labels.map(str::to_owned),
        name: None,
    };
    kinds.iter().map(spot).collect()
}

/// What may change in a picture: the custom resource, its records, its objects by their mark, and what Kubernetes makes of them.
pub fn spots_of(picture: &Picture) -> BTreeSet<Spot> {
    let Told { group, kind, metadata, .. } = &picture.told;
    let spot = |group: &str, kind: &str, namespace: Option<&str>| Spot {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        labels: None,
        name: None,
    };
    let own = metadata.namespace.as_deref();
    let mut spots = BTreeSet::from([Spot { name: Some(metadata.name.clone()), ..spot(group, kind, own) }]);
    if let Some(release) = &picture.release {
        let labels = Some(format!("owner=helm,name={}", release.name));
        spots.insert(Spot { labels, ..spot("", "Secret", Some(&release.namespace)) });
    }
    let part_of = format!("{}={}", applyset::PART_OF, applyset::id_of(&metadata.name, own, kind, group));
    for node in &picture.objects {
        let group = node.group.as_str();
        spots.insert(Spot { labels: Some(part_of.clone()), ..spot(group, &node.kind, node.namespace.as_deref()) });
        if let Some(selector) = &node.selector {
            let below = |group: &str, kind: &str| Spot {
                labels: Some(selector.clone()),
                ..spot(group, kind, node.namespace.as_deref())
            };
            spots.insert(below("", "Pod"));
        }
    }
    spots
}

/// A look, and how long it took. One that fails is told and made again, until the time is over: an API server that restarts comes back.
pub async fn patiently<T>(
    until: Option<Instant>,
    mut pause: Duration,
    mut look: impl AsyncFnMut() -> anyhow::Result<T>,
    tell: impl Fn(String),
) -> (anyhow::Result<T>, Duration) {
    loop {
        let begun = Instant::now();
        match look().await {
            Err(error) if until.is_none_or(|until| Instant::now() + pause < until) => {
                tell(format!("{error:#}; this is tried again"));
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            looked => return (looked, begun.elapsed()),
        }
    }
}

/// Whether waiting has come to an end, and how. Nobody waits longer than `until`.
pub fn verdict<'a>(mut all: impl Iterator<Item = &'a Told> + Clone, until: Timestamp) -> Option<bool> {
    if all.clone().any(|told| told.is_stuck() || is_left_alone(told, until)) {
        return Some(false);
    }
    all.all(|told| told.ready() == Ready::Yes).then_some(true)
}

/// Whether a pause keeps it from becoming ready in time.
pub fn is_left_alone(told: &Told, until: Timestamp) -> bool {
    told.ready() != Ready::Yes && told.is_paused_until(until)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;

    use crate::cli::status::told::tests::{conditions, told};
    use crate::wishes::Pause;

    #[tokio::test]
    async fn a_look_that_fails_is_made_again_while_there_is_time() {
        let (mut looks, short) = (0, Duration::from_millis(5));
        let third = async || {
            looks += 1;
            if looks < 3 { Err(anyhow::anyhow!("away")) } else { Ok(looks) }
        };
        assert_eq!(patiently(None, short, third, |_| {}).await.0.unwrap(), 3);
        let begun = Instant::now();
        let never = async || Err::<(), _>(anyhow::anyhow!("away"));
        let told = std::cell::Cell::new(0);
        let until = Some(begun + Duration::from_millis(60));
        assert!(patiently(until, short, never, |_| told.set(told.get() + 1)).await.0.is_err());
        assert!(told.get() > 1 && begun.elapsed() < Duration::from_secs(5));
        assert!(patiently(Some(begun), short, never, |_| panic!("the first must succeed")).await.0.is_err());
    }

    fn news(said: &'static [News]) -> BoxStream<'static, (usize, News)> {
        stream::iter(said).map(|news| (0, *news)).chain(stream::pending()).boxed()
    }

    fn bell(said: &'static [News]) -> Bell {
        let pause = Duration::from_millis(20);
        Bell { spots: BTreeSet::new(), news: news(said), failing: BTreeSet::new(), pause }
    }

    #[tokio::test]
    async fn while_a_watch_fails_it_rings_by_itself() {
        let mut failing = bell(&[News::Works, News::Fails]);
        for _ in 0..2 {
            assert!(failing.ring(None, Duration::ZERO).await);
        }
        assert!(!failing.ring(Some(Instant::now()), Duration::ZERO).await, "the time is over");
        let until = Instant::now() + Duration::from_millis(100);
        assert!(!bell(&[News::Fails, News::Works]).ring(Some(until), Duration::ZERO).await, "it works again");
    }

    #[tokio::test]
    async fn after_news_there_is_a_rest_but_not_beyond_the_time() {
        let mut bell = bell(&[News::Change, News::Change]);
        let (begun, rest) = (Instant::now(), Duration::from_millis(600));
        assert!(bell.ring(None, rest).await);
        assert!(begun.elapsed() >= rest);
        bell.news = news(&[News::Change]);
        let until = Instant::now() + Duration::from_millis(50);
        assert!(bell.ring(Some(until), Duration::from_secs(3600)).await, "one last look");
        assert!(!bell.ring(Some(until), rest).await);
    }

    #[test]
    fn waiting_ends_when_all_are_ready_or_one_is_stuck() {
        let ready = told(conditions(&[("Ready", "True", "", ""), ("Stalled", "False", "", "")]));
        let waits = told(conditions(&[("Ready", "False", "", ""), ("Stalled", "False", "", "")]));
        let stuck = told(conditions(&[("Ready", "False", "", ""), ("Stalled", "True", "", "")]));
        let verdict = |all: &[&Told]| verdict(all.iter().copied(), until());
        assert_eq!(verdict(&[&ready, &ready]), Some(true));
        assert_eq!(verdict(&[&ready, &waits]), None);
        assert_eq!(verdict(&[&ready, &stuck]), Some(false));
        let mut newer = stuck.clone();
        newer.metadata.generation = Some(3);
        assert_eq!(verdict(&[&newer]), None, "the new spec may be the remedy");
    }

    fn until() -> Timestamp {
        "2026-01-01T00:05:00Z".parse().unwrap()
    }

    #[test]
    fn waiting_ends_at_once_where_a_pause_outlasts_it() {
        let mut paused = told(conditions(&[("Ready", "True", "", "")]));
        paused.pause = Pause::Open;
        assert_eq!(verdict([&paused].into_iter(), until()), Some(true), "what is ready is ready");
        paused.metadata.generation = Some(3);
        assert_eq!(verdict([&paused].into_iter(), until()), Some(false));
        paused.pause = Pause::Until("2026-01-01T00:04:00Z".parse().unwrap());
        assert_eq!(verdict([&paused].into_iter(), until()), None, "it ends in time");
    }
}
