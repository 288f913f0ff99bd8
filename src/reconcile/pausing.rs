//! What keeps a reconcile from beginning: a pause, or a release outside of the namespaces that the operator looks at.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::{Next, ReconcileError, Subject};
use crate::error::Category;
use crate::wishes::{PAUSED, Pause};

/// A clock may be set, so a time that is far off is looked at again.
const LONGEST_SLEEP: Duration = Duration::from_secs(24 * 3600);

impl Subject<'_> {
    /// What to do instead of anything else, where the custom resource is paused. A deletion waits too.
    pub(super) async fn pause(&self) -> Result<Option<Next>, ReconcileError> {
        let pause = self.wishes.pause;
        let was_paused = self.was_paused();
        let Some(left) = pause.left(Timestamp::now()) else {
            if was_paused {
                self.tell("Resumed", "The pause is over; it is worked on again").await;
                // At once: not every turn ends with a status, and each would tell it again.
                self.write_resumed().await?;
            }
            return Ok(None);
        };
        let until = match pause {
            Pause::Until(end) => format!("until {end}"),
            Pause::None | Pause::Open => "until it is taken off".to_owned(),
        };
        let deletion = match self.cr.metadata.deletion_timestamp {
            Some(_) => " Its deletion waits.",
            None => "",
        };
        let message = format!("Nothing is done, by the annotation {PAUSED}, {until}.{deletion}");
        if !was_paused {
            self.tell("Paused", &message).await;
        }
        self.write_paused(&message).await?;
        Ok(Some(match pause {
            Pause::Until(_) => Next::Look(left.min(LONGEST_SLEEP)),
            Pause::None | Pause::Open => Next::Wait,
        }))
    }

    fn was_paused(&self) -> bool {
        let conditions =
            self.cr.status().and_then(|status| status["conditions"].as_array().cloned()).unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == "Paused" && condition["status"] == "True")
    }

    /// Refuses a release that would live nowhere, or that would move.
    pub(super) fn check_namespace(&self) -> Result<(), ReconcileError> {
        match self.misplaced(&self.context.watch) {
            Some(message) => Err(ReconcileError::Refused { category: Category::InvalidNamespace, message }),
            None => Ok(()),
        }
    }

    /// Refuses a release in a namespace whose records nobody watches.
    pub(super) fn check_is_watched(&self) -> Result<(), ReconcileError> {
        let namespaces = &self.context.settings.namespaces;
        if namespaces.has(&self.namespace) {
            return Ok(());
        }
        let message = format!(
            "the release would live in the namespace {}, and this operator looks at {} only: add it to WATCH_NAMESPACE, or set `releaseNamespace` in watches.yaml to one of them",
            self.namespace,
            namespaces.shown(),
        );
        Err(ReconcileError::Refused { category: Category::OutOfReach, message })
    }
}
