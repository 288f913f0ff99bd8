//! `--watch` and `--wait`: a look again whenever the API server tells that something changed.
//!
//! Nothing is asked in a loop. Watches on metadata say that there is news; then everything is looked at once more, a few times per
//! second at most, and more seldom where a look takes long.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::FutureExt;
use futures::stream::{BoxStream, StreamExt, select_all};
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
    news: BoxStream<'static, ()>,
}

impl Bell {
    pub fn new(calls: &Calls, kinds: &Kinds, spots: BTreeSet<Spot>) -> Self {
        let watches: Vec<_> = spots.iter().filter_map(|spot| watch(calls, kinds, spot)).collect();
        Bell { spots, news: select_all(watches).boxed() }
    }

    /// The same, or another where other things are to be watched.
    pub fn on(self, calls: &Calls, kinds: &Kinds, spots: BTreeSet<Spot>) -> Self {
        if spots == self.spots { self } else { Bell::new(calls, kinds, spots) }
    }

    /// Waits for news, and until they have settled, or for a rest if that is longer. False where the time is over.
    pub async fn ring(&mut self, until: Option<Instant>, rest: Duration) -> bool {
        let far = Instant::now() + Duration::from_secs(86_400 * 365);
        match timeout_at(until.unwrap_or(far), self.news.next()).await {
            Ok(Some(())) => {
                let settled = Instant::now() + rest.max(SETTLED);
                sleep_until(until.map_or(settled, |until| settled.min(until))).await;
                while let Some(Some(())) = self.news.next().now_or_never() {}
                true
            }
            // A watch has no end; without any there is nothing to wait for but the time.
            Ok(None) => timeout_at(until.unwrap_or(far), std::future::pending::<bool>()).await.unwrap_or(false),
            Err(_) => false,
        }
    }
}

fn watch(calls: &Calls, kinds: &Kinds, spot: &Spot) -> Option<BoxStream<'static, ()>> {
    let Kind { resource, namespaced, .. } = kinds.any_version(&spot.group, &spot.kind)?;
    let api: Api<PartialObjectMeta<DynamicObject>> = match spot.namespace.as_deref().filter(|_| namespaced) {
        Some(namespace) => Api::namespaced_with(calls.client(), namespace, &resource),
        None => Api::all_with(calls.client(), &resource),
    };
    let fields = spot.name.as_ref().map(|name| format!("metadata.name={name}"));
    let events = watching::events_with(api, spot.labels.as_deref(), fields.as_deref());
    let plural = resource.plural;
    let news = events.filter_map(move |event| {
        let rings = match event {
            // The first list is told of as a whole.
            Ok(Event::Init | Event::InitApply(_)) => false,
            Ok(_) => true,
            Err(error) => {
                let why = watching::words(&error);
                tell(&format!("note: changes of {plural} cannot be watched now, this is tried again: {why}"));
                false
            }
        };
        std::future::ready(rings.then_some(()))
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

/// Whether waiting has come to an end, and how.
pub fn verdict<'a>(mut all: impl Iterator<Item = &'a Told> + Clone) -> Option<bool> {
    if all.clone().any(Told::is_stuck) {
        return Some(false);
    }
    all.all(|told| told.ready() == Ready::Yes).then_some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;

    use crate::cli::status::told::tests::{conditions, told};

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

    #[tokio::test]
    async fn after_news_there_is_a_rest_but_not_beyond_the_time() {
        let news = || stream::repeat(()).take(2).chain(stream::pending()).boxed();
        let mut bell = Bell { spots: BTreeSet::new(), news: news() };
        let (begun, rest) = (Instant::now(), Duration::from_millis(600));
        assert!(bell.ring(None, rest).await);
        assert!(begun.elapsed() >= rest);
        bell.news = news();
        let until = Instant::now() + Duration::from_millis(50);
        assert!(bell.ring(Some(until), Duration::from_secs(3600)).await, "one last look");
        assert!(!bell.ring(Some(until), rest).await);
    }

    #[test]
    fn waiting_ends_when_all_are_ready_or_one_is_stuck() {
        let ready = told(conditions(&[("Ready", "True", "", ""), ("Stalled", "False", "", "")]));
        let waits = told(conditions(&[("Ready", "False", "", ""), ("Stalled", "False", "", "")]));
        let stuck = told(conditions(&[("Ready", "False", "", ""), ("Stalled", "True", "", "")]));
        assert_eq!(verdict([&ready, &ready].into_iter()), Some(true));
        assert_eq!(verdict([&ready, &waits].into_iter()), None);
        assert_eq!(verdict([&ready, &stuck].into_iter()), Some(false));
        let mut newer = stuck.clone();
        newer.metadata.generation = Some(3);
        assert_eq!(verdict([&newer].into_iter()), None, "the new spec may be the remedy");
    }
}
