//! Whether the API server knows a kind, and whether it is still the same.
//!
//! The watch on CustomResourceDefinitions says when to ask; discovery says what the kind is. Where that watch is not allowed,
//! a missing kind is asked for every two seconds, and one that went is noticed by its own watch.

use std::time::{Duration, Instant};

use kube::core::GroupVersionKind;
use tokio::sync::Notify;

use super::lives::{Lives, Presence};
use crate::definitions::{Definition, Definitions};
use crate::discovery::{Cache, Kind};

/// How often to ask for a missing kind where nothing tells.
const LOOK: Duration = Duration::from_secs(2);
/// A definition is there a moment before its kind is served.
const SOON: Duration = Duration::from_millis(250);
/// How long that moment can be.
const SETTLING: Duration = Duration::from_secs(5);
/// What is asked at once is answered as it was before.
const SETTLE: Duration = Duration::from_secs(1);

/// A missing CRD is waited for; other kinds work meanwhile.
///
/// With `may_trust_cache` false, what was known of the kind is out of date.
pub async fn wait_for(
    gvk: &GroupVersionKind,
    kinds: &Cache,
    definitions: &mut Definitions,
    mut may_trust_cache: bool,
    lives: &Lives,
) -> Kind {
    let mut said = false;
    let mut changed_at = Instant::now();
    loop {
        let seen = definitions.borrow_and_update().clone();
        let known = match may_trust_cache {
            true => kinds.kinds_with(std::slice::from_ref(gvk)).await,
            false => kinds.refresh().await,
        };
        may_trust_cache = false;
        match known.map(|known| known.get(gvk).cloned()) {
            Ok(Some(kind)) => return kind,
            Ok(None) if !std::mem::replace(&mut said, true) => {
                lives.note(gvk, Presence::Absent);
                tracing::warn!(kind = gvk.kind, apiVersion = gvk.api_version(), "waiting for its CRD to be installed");
            }
            Ok(None) => {}
            Err(error) => tracing::warn!("{error}"),
        }
        let settled = changed_at.elapsed() > SETTLING;
        let group = seen.in_group(&gvk.group);
        let pause = match seen.is_complete() {
            false => Some(LOOK),
            true if group.is_empty() || settled => None,
            true => Some(SOON),
        };
        if changes(definitions, pause, &gvk.group, &group).await {
            changed_at = Instant::now();
        }
    }
}

/// Waits for a change in a group, at most for the pause.
async fn changes(
    definitions: &mut Definitions,
    pause: Option<Duration>,
    group: &str,
    before: &[(String, Definition)],
) -> bool {
    let was_complete = definitions.borrow().is_complete();
    let change = async {
        // The sender lives as long as anybody listens.
        let _ = definitions.wait_for(|now| now.is_complete() != was_complete || now.in_group(group) != before).await;
    };
    match pause {
        Some(pause) => tokio::time::timeout(pause, change).await.is_ok(),
        None => {
            change.await;
            true
        }
    }
}

/// Returns when the kind went or became another.
///
/// `missed` is rung by whoever is told that the API server does not know the kind.
pub async fn until_another(
    gvk: &GroupVersionKind,
    kind: &Kind,
    kinds: &Cache,
    definitions: &mut Definitions,
    missed: &Notify,
) {
    let mut before = definitions.borrow_and_update().of(kind).cloned();
    loop {
        tokio::select! {
            Ok(()) = definitions.changed() => {
                let known = definitions.borrow_and_update();
                let now = known.of(kind).cloned();
                match (&before, &now) {
                    _ if !known.is_complete() => continue,
                    (Some(before), Some(now)) if before.uid == now.uid && before.generation == now.generation => continue,
                    (Some(before), Some(now)) if before.uid == now.uid => {}
                    (Some(_), _) => return,
                    // Seen for the first time, or not from a CRD at all.
                    (None, _) => {
                        drop(known);
                        before = now;
                        continue;
                    }
                }
                drop(known);
                before = now;
            }
            () = missed.notified() => {}
        }
        if is_another(gvk, kind, kinds).await {
            return;
        }
    }
}

/// Asks a few times: an answer may be behind.
async fn is_another(gvk: &GroupVersionKind, kind: &Kind, kinds: &Cache) -> bool {
    for pause in [SETTLE, SETTLE * 2, SETTLE * 4] {
        tokio::time::sleep(pause).await;
        match kinds.refresh().await {
            Ok(known) if known.get(gvk).is_none_or(|now| !is_same(now, kind)) => return true,
            Ok(_) => {}
            Err(error) => tracing::warn!("{error}"),
        }
    }
    false
}

fn is_same(a: &Kind, b: &Kind) -> bool {
    a.resource == b.resource && a.namespaced == b.namespaced && a.has_status == b.has_status
}
