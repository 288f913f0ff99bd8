//! Events on the custom resource, which `kubectl describe` shows.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Client, Resource};
use serde_json::json;

use crate::custom_resource::CustomResource;
use crate::discovery::Kind;
use crate::error::{is_namespace_terminating, sentence};
use crate::leader::guard::is_refusal;
use crate::printable::escaped;
use crate::reconcile::Context;

const REPORTER: &str = "chartwright";

/// The API server refuses longer notes.
const LONGEST: usize = 1024;

const PATIENCE: Duration = Duration::from_secs(10);

/// The same event within this time after the last is counted up; later it is told anew.
const COUNTED_UP: Duration = Duration::from_secs(360);

/// How many events may be counted up. One more, and the oldest would be told anew.
const REMEMBERED: usize = 1024;

/// Writes events. The same event again is counted up in the one that was written, and only the very same: another note is
/// another event, since it may name another mistake.
pub struct Events {
    client: Client,
    instance: String,
    told: Mutex<Told>,
}

impl Events {
    pub fn new(client: Client) -> Self {
        let instance = std::env::var("HOSTNAME").unwrap_or_else(|_| REPORTER.to_owned());
        Events { client, instance, told: Mutex::default() }
    }

    /// Something that a person should look at. An event that cannot be written is only logged: the condition says the
    /// same, and a reconcile must not fail for it.
    pub async fn warning(&self, cr: &CustomResource, context: &Context, reason: &str, message: &str) {
        self.publish(EventType::Warning, cr, context, reason, message).await;
    }

    /// Something that happened as it should.
    pub async fn normal(&self, cr: &CustomResource, context: &Context, reason: &str, message: &str) {
        self.publish(EventType::Normal, cr, context, reason, message).await;
    }

    /// A changed chart that cannot be used, told on the CRD: it concerns every resource of the kind.
    pub async fn broken_chart(&self, kind: &Kind, message: &str) {
        let reference = ObjectReference {
            api_version: Some("apiextensions.k8s.io/v1".into()),
            kind: Some("CustomResourceDefinition".into()),
            name: Some(format!("{}.{}", kind.resource.plural, kind.resource.group)),
            ..Default::default()
        };
        self.send(EventType::Warning, &reference, "BrokenChart", message).await;
    }

    /// Something about a custom resource whose namespace is being deleted: no event can be written in there any more.
    pub async fn about_namespace(&self, namespace: &str, reason: &str, message: &str) {
        let reference = ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Namespace".into()),
            name: Some(namespace.to_owned()),
            ..Default::default()
        };
        self.send(EventType::Warning, &reference, reason, message).await;
    }

    /// Who works from now on, as client-go tells it.
    pub async fn about_lease(&self, lease: &ObjectReference, message: &str) {
        self.send(EventType::Normal, lease, "LeaderElection", message).await;
    }

    async fn publish(&self, type_: EventType, cr: &CustomResource, context: &Context, reason: &str, message: &str) {
        self.send(type_, &cr.object_ref(&context.primary.resource), reason, message).await;
    }

    async fn send(&self, type_: EventType, regarding: &ObjectReference, reason: &str, message: &str) {
        let note = shortened(message);
        match tokio::time::timeout(PATIENCE, self.write(type_, regarding, reason, note)).await {
            Ok(Ok(())) => {}
            // Whoever holds the Lease tells the same.
            Ok(Err(error)) if is_refusal(&error) => {
                tracing::debug!(reason, "dropping event: {}", sentence(&error));
            }
            // The custom resource goes with its namespace.
            Ok(Err(error)) if is_namespace_terminating(&error) => {
                tracing::debug!(reason, "dropping event: {}", sentence(&error));
            }
            Ok(Err(error)) => tracing::warn!(reason, "dropping event: {}", sentence(&error)),
            Err(_) => tracing::warn!(reason, "dropping event: no answer within {} s", PATIENCE.as_secs()),
        }
    }

    async fn write(
        &self,
        type_: EventType,
        regarding: &ObjectReference,
        reason: &str,
        note: String,
    ) -> Result<(), kube::Error> {
        // Events about what has no namespace are in this one.
        let namespace = regarding.namespace.as_deref().unwrap_or("default");
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let key = key(type_, regarding, reason, &note);
        let again = self.told().again(key, Instant::now());
        if let Some((name, count)) = again {
            let series = json!({"count": count, "lastObservedTime": MicroTime(Timestamp::now())});
            let patch = Patch::Merge(json!({"series": series}));
            match api.patch(&name, &PatchParams::default(), &patch).await {
                // Its time to live is over, or somebody removed it.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                counted => return counted.map(|_| ()),
            }
        }
        let event = self.event(type_, regarding, reason, note, namespace);
        let created = api.create(&PostParams::default(), &event).await?;
        self.told().note(key, created.metadata.name.unwrap_or_default(), Instant::now());
        Ok(())
    }

    fn event(
        &self,
        type_: EventType,
        regarding: &ObjectReference,
        reason: &str,
        note: String,
        namespace: &str,
    ) -> Event {
        let now = Timestamp::now();
        let about = regarding.name.as_deref().unwrap_or(REPORTER);
        Event {
            action: Some("Reconcile".into()),
            event_time: Some(MicroTime(now)),
            metadata: ObjectMeta {
                // As kubectl and the parts of Kubernetes name them.
                name: Some(format!("{about}.{:x}", now.as_nanosecond())),
                namespace: Some(namespace.to_owned()),
                ..Default::default()
            },
            note: Some(note),
            reason: Some(reason.to_owned()),
            regarding: Some(regarding.clone()),
            reporting_controller: Some(REPORTER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            type_: Some(type_.as_str().to_owned()),
            ..Default::default()
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        // A poisoned lock still holds what was told.
        self.told.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[derive(Clone, Copy, Hash)]
enum EventType {
    Normal,
    Warning,
}

impl EventType {
    fn as_str(self) -> &'static str {
        match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        }
    }
}

/// Stands for everything that makes two events the same. Should two ever share a number, one is counted up as the other.
fn key(type_: EventType, regarding: &ObjectReference, reason: &str, note: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (type_, &regarding.kind, &regarding.namespace, &regarding.name, &regarding.uid).hash(&mut hasher);
    (reason, note).hash(&mut hasher);
    hasher.finish()
}

/// The events of the last minutes.
#[derive(Default)]
struct Told {
    events: HashMap<u64, Counted>,
    /// The oldest first, so that nobody has to look through all.
    order: VecDeque<(Instant, u64)>,
}

struct Counted {
    name: Box<str>,
    count: u32,
    last: Instant,
}

impl Told {
    /// The name of an event that is to be counted up, and how often it happened with this time.
    fn again(&mut self, key: u64, now: Instant) -> Option<(String, u32)> {
        self.forget_old(now);
        let counted = self.events.get_mut(&key)?;
        counted.count = counted.count.saturating_add(1);
        counted.last = now;
        Some((counted.name.to_string(), counted.count))
    }

    fn note(&mut self, key: u64, name: String, now: Instant) {
        if self.events.insert(key, Counted { name: name.into(), count: 1, last: now }).is_none() {
            self.order.push_back((now, key));
        }
        if self.order.len() > REMEMBERED {
            self.drop_oldest();
        }
    }

    fn forget_old(&mut self, now: Instant) {
        let is_old = |at: Instant| now.duration_since(at) > COUNTED_UP;
        while let Some((_, key)) = self.order.front().filter(|(told, _)| is_old(*told)).copied() {
            match self.events.get(&key).map(|counted| counted.last).filter(|last| !is_old(*last)) {
                Some(last) => {
                    self.order.pop_front();
                    self.order.push_back((last, key));
                }
                None => self.drop_oldest(),
            }
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((_, key)) = self.order.pop_front() {
            self.events.remove(&key);
        }
    }
}

/// A note as the API server takes it, which anybody may read in a terminal.
fn shortened(message: &str) -> String {
    let message = &*escaped(message);
    if message.len() <= LONGEST {
        return message.to_owned();
    }
    let mut end = LONGEST - '…'.len_utf8();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &message[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_event_is_counted_up_until_it_is_old_or_pushed_out() {
        let (mut told, start) = (Told::default(), Instant::now());
        assert_eq!(told.again(1, start), None);
        told.note(1, "a".into(), start);
        assert_eq!(told.again(1, start + COUNTED_UP), Some(("a".into(), 2)));
        assert_eq!(told.again(1, start + 2 * COUNTED_UP), Some(("a".into(), 3)));
        assert_eq!(told.again(1, start + 3 * COUNTED_UP + Duration::from_secs(1)), None);
        for key in 0..=REMEMBERED as u64 {
            told.note(key, key.to_string(), start);
        }
        assert_eq!((told.events.len(), told.order.len()), (REMEMBERED, REMEMBERED));
        assert_eq!((told.again(0, start), told.again(1, start)), (None, Some(("1".into(), 2))));
    }

    #[test]
    fn a_long_note_is_cut_at_a_character() {
        let note = shortened(&"ä".repeat(600));
        assert!(note.len() <= LONGEST && note.ends_with("ä…"));
    }

    #[test]
    fn a_note_cannot_speak_to_a_terminal() {
        assert_eq!(shortened("a\u{1b}[2J\u{202e}\nb"), "a\\u{1b}[2J\\u{202e}\nb");
        let note = shortened(&"\u{1b}".repeat(600));
        assert!(note.len() <= LONGEST && !note.contains('\u{1b}'));
    }
}
