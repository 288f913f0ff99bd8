//! What a reconcile does not say: values that came from ConfigMaps and Secrets.
//!
//! Whatever it reads of such values, from their sources or from the records of earlier revisions, it remembers for as long as it
//! runs, and takes out of every sentence that leaves. Old values matter too: a revision that stays was made with them.

use std::collections::HashSet;
use std::sync::MutexGuard;

use serde_json::Value;

use super::{ReconcileError, Standing, Subject};
use crate::drift::Hash;
use crate::redaction::Redactor;
use crate::release::{Release, mask};
use crate::status::{Failure, Stage};
use crate::values::Values;

/// What is known, and from where.
#[derive(Default)]
pub(super) struct Discretion {
    redactor: Redactor,
    revisions: HashSet<u32>,
    /// Of the values that are wanted.
    digest: Option<String>,
}

impl Subject<'_> {
    pub(super) fn learn_values(&self, values: &Values, digest: &str) {
        let mut known = self.known();
        known.redactor.learn(values.json(), values.sourced());
        known.digest = Some(digest.to_owned());
    }

    pub(super) fn learn_records<'b>(&self, releases: impl Iterator<Item = &'b Release> + Clone) {
        let mut known = self.known();
        known.revisions.extend(releases.clone().map(|release| release.revision));
        mask::learn(&mut known.redactor, releases);
    }

    /// The revision that stands, if it was made with values that are not known yet.
    pub(super) fn unknown_values(&self, standing: &Standing) -> Option<u32> {
        let own = standing.own.as_ref().filter(|own| !own.sourced.is_empty())?;
        let known = self.known();
        let is_known = known.digest.as_ref() == Some(&own.digest) || known.revisions.contains(&standing.revision);
        (!is_known).then_some(standing.revision)
    }

    /// A sentence that may leave.
    pub(super) fn shown(&self, text: &str) -> String {
        self.known().redactor.text(text).into_owned()
    }

    /// At rest the same sentences come again and again. They are looked through once for as long as the same is known.
    pub(super) fn shown_status(&self, mut status: Value) -> Value {
        let known = self.known();
        if known.redactor.is_empty() {
            return status;
        }
        let knowledge = known.redactor.knowledge().0.to_string();
        let about = |status: &Value| Hash::of([status.to_string().as_str(), &knowledge].into_iter());
        let before = about(&status);
        let memory = &self.context.memory;
        if memory.with(&self.owner.uid, |memory| memory.harmless == Some(before)) {
            return status;
        }
        known.redactor.status(&mut status);
        if about(&status) == before {
            memory.with(&self.owner.uid, |memory| memory.harmless = Some(before));
        }
        status
    }

    pub(super) fn shown_manifest(&self, manifest: &str) -> String {
        mask::without_secret_data(manifest, &self.known().redactor)
    }

    pub(super) fn shown_failure(&self, failure: Failure) -> Failure {
        Failure { message: self.shown(&failure.message), ..failure }
    }

    /// An error that may be logged. What only steers the way of a reconcile says nothing.
    pub(super) fn shown_error(&self, error: ReconcileError) -> ReconcileError {
        use ReconcileError::{AtHook, Interrupted, Moment, TooEarly};
        let is_signal = matches!(error, Interrupted | Moment | TooEarly(_) | AtHook(_));
        if is_signal || self.known().redactor.is_empty() {
            return error;
        }
        let (category, message) = (error.category(), self.shown(&error.to_string()));
        ReconcileError::Again(Failure { category, message, stage: Stage::Upgrade })
    }

    fn known(&self) -> MutexGuard<'_, Discretion> {
        // A poisoned lock still holds what was learned.
        self.discretion.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
