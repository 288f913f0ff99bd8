//! What happened at a gateway: what the fence held back, and what could not be read.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};

use super::question::Wanted;
use super::reader::{Refused, Shown};

/// A template can ask for any number of objects. Nobody reads about more.
const MOST_TOLD: usize = 10;

/// What a render's gateway has seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// Each once.
    pub refused: BTreeSet<Refused>,
    /// How many more were refused.
    pub more_refused: usize,
    /// Whether something that was looked for is not there, or not shown.
    pub found_nothing: bool,
    /// The first that could not be read.
    pub failure: Option<Failure>,
}

/// The cluster could not tell whether there is something.
#[derive(Debug)]
pub struct Failure {
    /// `secrets "a" in the namespace b`
    pub what: String,
    pub error: kube::Error,
}

impl Seen {
    /// A sentence for each refusal.
    pub fn refusals(&self) -> Vec<String> {
        let told = self.refused.iter().map(|Refused { what, allowed_by }| {
            format!(
                "lookup of {what} was answered as if it were not there: the chart sees only what is of this release; `{allowed_by}` in watches.yaml shows it"
            )
        });
        let more = (self.more_refused > 0).then(|| format!("{} more lookups were refused", self.more_refused));
        told.chain(more).collect()
    }
}

/// Where it is written down.
#[derive(Default)]
pub(super) struct Notebook(Mutex<Seen>);

impl Notebook {
    pub(super) fn note(&self, shown: &Shown) {
        let mut seen = self.open();
        seen.found_nothing |= shown.text.is_none() || shown.refused.is_some();
        let Some(refused) = &shown.refused else { return };
        match seen.refused.len() < MOST_TOLD || seen.refused.contains(refused) {
            true => drop(seen.refused.insert(refused.clone())),
            false => seen.more_refused += 1,
        }
    }

    pub(super) fn fail(&self, wanted: &Wanted, error: kube::Error) {
        let place = wanted.namespace.as_ref().map(|namespace| format!(" in the namespace {namespace}"));
        let name = wanted.name.as_ref().map(|name| format!(" {name:?}"));
        let what = [Some(wanted.plural.clone()), name, place].into_iter().flatten().collect();
        self.open().failure.get_or_insert(Failure { what, error });
    }

    pub(super) fn take(&self) -> Seen {
        std::mem::take(&mut *self.open())
    }

    fn open(&self) -> MutexGuard<'_, Seen> {
        // A poisoned lock still holds what was seen.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
