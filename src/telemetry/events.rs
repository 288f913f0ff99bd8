//! Events on the custom resource, which `kubectl describe` shows.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};

use crate::custom_resource::CustomResource;
use crate::discovery::Kind;
use crate::error::sentence;
use crate::reconcile::Context;

/// The API server refuses longer notes.
const LONGEST: usize = 1024;

const PATIENCE: Duration = Duration::from_secs(10);

/// How long kube's recorder counts the same event up instead of writing another.
const COUNTED_UP: Duration = Duration::from_secs(360);

/// A recorder counts an event up whose reason it has seen, whatever the note: the second mistake would be told with the words
/// of the first. So each note has a recorder of its own.
pub struct Events {
    client: Client,
    reporter: Reporter,
    recorders: Mutex<HashMap<String, (Instant, Recorder)>>,
}

impl Events {
    pub fn new(client: Client) -> Self {
        let reporter = Reporter { controller: "chartwright".into(), instance: std::env::var("HOSTNAME").ok() };
        Events { client, reporter, recorders: Mutex::default() }
    }

    fn recorder(&self, note: &str) -> Recorder {
        let now = Instant::now();
        // A poisoned lock still holds recorders.
        let mut recorders = self.recorders.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        recorders.retain(|_, (used, _)| now.duration_since(*used) < COUNTED_UP);
        let new = || (now, Recorder::new(self.client.clone(), self.reporter.clone()));
        let (used, recorder) = recorders.entry(note.to_owned()).or_insert_with(new);
        *used = now;
        recorder.clone()
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

    async fn publish(&self, type_: EventType, cr: &CustomResource, context: &Context, reason: &str, message: &str) {
        self.send(type_, &cr.object_ref(&context.primary.resource), reason, message).await;
    }

    async fn send(&self, type_: EventType, regarding: &ObjectReference, reason: &str, message: &str) {
        let note = shortened(message);
        let recorder = self.recorder(&note);
        let event =
            Event { type_, reason: reason.into(), note: Some(note), action: "Reconcile".into(), secondary: None };
        match tokio::time::timeout(PATIENCE, recorder.publish(&event, regarding)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(reason, "cannot write an event: {}", sentence(&error)),
            Err(_) => tracing::warn!(reason, "cannot write an event: no answer within {} s", PATIENCE.as_secs()),
        }
    }
}

fn shortened(message: &str) -> String {
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
    fn a_long_note_is_cut_at_a_character() {
        let note = shortened(&"ä".repeat(600));
        assert!(note.len() <= LONGEST && note.ends_with("ä…"));
    }
}
