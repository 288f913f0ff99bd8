//! What happened at a gateway: what the fence held back, and what could not be read.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, MutexGuard};

use super::reader::{ReadError, Refused};
use crate::manifest::unseen::{Asked, Unseen};
use crate::object::ObjectKey;

/// A template can ask for any number of objects. Nobody reads about more.
const MOST_TOLD: usize = 10;

/// What a render's gateway has seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// Each once.
    pub refused: BTreeSet<Refused>,
    /// What lists left out since no setting shows it.
    sensitive: BTreeSet<ObjectKey>,
    /// Whether a `lookup` asked for anything, found or not.
    pub was_asked: bool,
    /// The first that could not be read.
    pub failure: Option<Failure>,
    pub secrets: Secrets,
}

/// Secrets that were shown, as JSON. Whoever tells of the render must not quote them.
#[derive(Default)]
pub struct Secrets(pub Vec<String>);

/// How many, and never what.
impl fmt::Debug for Secrets {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Secrets({})", self.0.len())
    }
}

/// What could not be said.
#[derive(Debug)]
pub struct Failure {
    /// `secrets "a" in the namespace b`
    pub what: String,
    /// The chart asked for it. Otherwise helm looked whether a rendered object exists.
    pub is_lookup: bool,
    pub error: ReadError,
}

impl fmt::Display for Failure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { what, error, .. } = self;
        match self.is_lookup {
            true => write!(
                to,
                "the chart's lookup of {what} failed: {error}; nothing was rendered, since an empty answer could make it draw new passwords"
            ),
            false => write!(to, "helm could not see whether {what} exists already: {error}; nothing was rendered"),
        }
    }
}

impl Seen {
    /// All that was asked for and not shown.
    pub fn unseen(&self) -> Unseen {
        let refused = self.refused.iter().map(|refused| refused.asked.clone());
        refused.chain(self.sensitive.iter().cloned().map(Asked::Object)).collect()
    }

    /// A sentence for each refusal.
    pub fn refusals(&self) -> Vec<String> {
        let told = self.refused.iter().take(MOST_TOLD).map(|Refused { what, allowed_by, .. }| match allowed_by {
            Some(setting) => format!(
                "lookup of {what} was answered as if there were nothing: it is not within what this kind's charts may see; `{setting}` in watches.yaml shows it"
            ),
            None => format!(
                "lookup of {what} was answered as if there were nothing: release records, tokens and the operator's own Secrets are never shown"
            ),
        });
        let more = self.refused.len().saturating_sub(MOST_TOLD);
        let more = (more > 0).then(|| format!("{more} more lookups were refused"));
        told.chain(more).collect()
    }
}

/// Where it is written down.
#[derive(Default)]
pub(super) struct Notebook(Mutex<Seen>);

impl Notebook {
    pub(super) fn note_question(&self) {
        self.open().was_asked = true;
    }

    pub(super) fn note_refusal(&self, refused: &Refused) {
        // All of them: what is adopted must have been seen. A render may ask only so often.
        self.open().refused.insert(refused.clone());
    }

    pub(super) fn note_sensitive(&self, keys: BTreeSet<ObjectKey>) {
        self.open().sensitive.extend(keys);
    }

    /// How much a render is shown is limited, so this is too.
    pub(super) fn note_secret(&self, text: &str) {
        self.open().secrets.0.push(text.to_owned());
    }

    pub(super) fn note_failure(&self, failure: Failure) {
        self.open().failure.get_or_insert(failure);
    }

    pub(super) fn take(&self) -> Seen {
        std::mem::take(&mut *self.open())
    }

    fn open(&self) -> MutexGuard<'_, Seen> {
        // A poisoned lock still holds what was seen.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
