//! One Secret of the operator's namespace, followed.

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;
use kube::runtime::watcher::Event;

use crate::watching;

/// The Secret as it is after each change, without end; None whenever it is not there.
pub fn secret(client: Client, namespace: &str, name: &'static str) -> impl Stream<Item = Option<Secret>> + use<> {
    let api: Api<Secret> = Api::namespaced(client, namespace);
    let events = watching::events_with(api, None, Some(&format!("metadata.name={name}")));
    let mut is_listed = false;
    events.filter_map(move |event| {
        std::future::ready(match event {
            Ok(Event::Init) => {
                is_listed = false;
                None
            }
            Ok(Event::InitApply(secret)) => {
                is_listed = true;
                Some(Some(secret))
            }
            Ok(Event::Apply(secret)) => Some(Some(secret)),
            Ok(Event::Delete(_)) => Some(None),
            // It may have been deleted while the watch was broken.
            Ok(Event::InitDone) => (!is_listed).then_some(None),
            Err(error) => {
                tracing::warn!("the watch of the Secret {name} broke; trying again: {}", watching::words(&error));
                None
            }
        })
    })
}
