//! What a reconcile does not say: values that came from ConfigMaps and Secrets, what Secrets hold that the chart makes, and overrides,
//! where somebody asked for it.
//!
//! Whatever it reads of such values, from their sources or from the records of earlier revisions, it remembers for as long as it
//! runs, and takes out of every sentence that leaves. Old values matter too: a revision that stays was made with them.

use std::collections::HashSet;
use std::sync::MutexGuard;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{ReconcileError, Standing, Subject};
use crate::aside;
use crate::drift::Hash;
use crate::hooks;
use crate::manifest;
use crate::object::Object;
use crate::redaction::Redactor;
use crate::release::{HookRecord, Release, mask};
use crate::status::{Failure, Stage};
use crate::values::Values;

/// Texts of Secrets times the length of what is looked through for them.
const MOST_COMPARED: usize = 1 << 30;

/// What is known, and from where.
#[derive(Default)]
pub(super) struct Discretion {
    redactor: Redactor,
    /// What Secrets hold that a chart makes or has looked up, and overrides. Only sentences are searched for it: notes and manifests of a release
    /// show what the chart wants to show.
    secrets: Redactor,
    revisions: HashSet<u32>,
    /// Of the values that are wanted.
    digest: Option<String>,
}

impl Discretion {
    fn knows_nothing(&self) -> bool {
        self.redactor.is_empty() && self.secrets.is_empty()
    }
}

/// The texts of an object that says that it is a Secret.
fn secret_texts(object: &Value) -> Vec<String> {
    if object["kind"] == "Secret" { of_secret(object) } else { vec![] }
}

/// As they were before they were encoded, where that is text.
fn of_secret(secret: &Value) -> Vec<String> {
    let texts = |key: &str| secret[key].as_object().into_iter().flat_map(|map| map.values().filter_map(Value::as_str));
    let decoded = |text: &str| STANDARD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let data = texts("data").map(|text| decoded(text).unwrap_or_else(|| text.to_owned()));
    data.chain(texts("stringData").map(str::to_owned)).filter(|text| !text.is_empty()).collect()
}

impl Subject<'_> {
    pub(super) fn learn_values(&self, values: &Values, digest: &str) {
        let mut known = self.known();
        known.redactor.learn(values.json(), values.sourced());
        if self.context.settings.suppress_override_values {
            let overrides = self.context.watch.overrides.iter().map(|(_, value)| value.clone());
            known.secrets.learn(&overrides.collect(), [&String::new()]);
        }
        known.digest = Some(digest.to_owned());
    }

    pub(super) fn learn_records<'b>(&self, releases: impl Iterator<Item = &'b Release> + Clone) {
        let mut known = self.known();
        known.revisions.extend(releases.clone().map(|release| release.revision));
        mask::learn(&mut known.redactor, releases);
    }

    /// What the API server, helm or a hook may quote, of the objects of a revision and its hooks. A text that stands outside of
    /// Secrets too is none that must be hidden: it may be the name of half of the objects.
    pub(super) fn learn_secrets(&self, objects: &[Object], hooks: &[HookRecord]) {
        const OBJECT: usize = 1024;
        let length = objects.len() * OBJECT + hooks.iter().map(|hook| hook.manifest.len()).sum::<usize>();
        aside::here(length, || self.learn_secrets_here(objects, hooks));
    }

    fn learn_secrets_here(&self, objects: &[Object], hooks: &[HookRecord]) {
        let hooks: Vec<Object> = hooks.iter().flat_map(hooks::objects_of).collect();
        let objects: Vec<&Object> = objects.iter().chain(&hooks).collect();
        let mut hidden: Vec<String> = objects.iter().flat_map(|object| secret_texts(object.value())).collect();
        if hidden.is_empty() {
            return;
        }
        let others = objects.iter().filter(|object| object.kind() != "Secret");
        let open: String = others.map(|object| object.value().to_string()).collect();
        // To look for each of very many would take for ever. Then all are hidden, also where that is not necessary.
        if hidden.len().saturating_mul(open.len()) < MOST_COMPARED {
            hidden.retain(|text| !open.contains(text.as_str()));
        }
        self.learn_texts(hidden);
    }

    /// The same, of a revision whose hooks are run or looked at: whatever was rendered is known from its record only. What cannot be
    /// read is in nobody's sentence: nothing of it was made.
    pub(super) fn learn_record(&self, release: &Release) {
        let rendered = manifest::read_record(&release.manifest.read()).unwrap_or_default();
        self.learn_secrets(&rendered.objects, &release.hooks);
    }

    /// What a chart was shown.
    pub(super) fn learn_looked_up(&self, secrets: &[String]) {
        let answers = secrets.iter().filter_map(|text| serde_json::from_str::<Value>(text).ok());
        let texts = answers.flat_map(|answer| match answer["items"].as_array() {
            Some(items) => items.iter().flat_map(of_secret).collect(),
            None => of_secret(&answer),
        });
        self.learn_texts(texts.collect());
    }

    fn learn_texts(&self, texts: Vec<String>) {
        self.known().secrets.learn(&Value::from(texts), [&String::new()]);
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
        let known = self.known();
        let shown = known.redactor.text(text);
        known.secrets.text(&shown).into_owned()
    }

    /// At rest the same sentences come again and again. They are looked through once for as long as the same is known.
    pub(super) fn shown_status(&self, mut status: Value) -> Value {
        let known = self.known();
        if known.knows_nothing() {
            return status;
        }
        let knowledge = [&known.redactor, &known.secrets].map(|redactor| redactor.knowledge().0.to_string());
        let about = |status: &Value| Hash::of([status.to_string().as_str(), &knowledge[0], &knowledge[1]].into_iter());
        let before = about(&status);
        let memory = &self.context.memory;
        if memory.with(&self.owner.uid, |memory| memory.harmless == Some(before)) {
            return status;
        }
        known.redactor.status(&mut status);
        known.secrets.status(&mut status);
        if about(&status) == before {
            memory.with(&self.owner.uid, |memory| memory.harmless = Some(before));
        }
        status
    }

    pub(super) fn shown_manifest(&self, manifest: &str) -> String {
        aside::here(manifest.len(), || mask::without_secret_data(manifest, &self.known().redactor))
    }

    pub(super) fn shown_failure(&self, failure: Failure) -> Failure {
        Failure { message: self.shown(&failure.message), ..failure }
    }

    /// An error that may be logged. What only steers the way of a reconcile says nothing.
    pub(super) fn shown_error(&self, error: ReconcileError) -> ReconcileError {
        use ReconcileError::{AtHook, Interrupted, Moment, TooEarly};
        let is_signal = matches!(error, Interrupted | Moment | TooEarly(_) | AtHook(_)) || error.lacks_room();
        if is_signal || self.known().knows_nothing() {
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
