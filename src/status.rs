//! What the custom resource says about itself.
//!
//! Pure: the old status and what happened give the new one. A condition's time changes only with its status, so an
//! unchanged outcome gives an unchanged status, and nothing is written. operator-sdk's conditions are kept (Initialized,
//! Deployed, ReleaseFailed, Irreconcilable); Ready, Reconciling and Stalled follow kstatus' rules. Deployed means applied,
//! Ready means healthy.
//!
//! The manifest is the largest part of a status by far. In memory a mark stands for it; see [`shorten`].

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::error::Category;
use crate::health::{self, Health, Scale, State};
use crate::object::ObjectId;
use crate::release::{HeldBy, Hold};

/// Where the status says which request for a full check was answered last.
pub const HANDLED: &str = "lastHandledRequestedAt";

/// The condition that is there while the spec has fields that the chart does not know, and its reason.
pub const UNKNOWN_FIELDS: &str = "UnknownFields";
pub const UNKNOWN_FIELD: &str = "UnknownField";

/// How a reconcile ended.
#[derive(Debug)]
pub struct Report<'a> {
    pub generation: i64,
    /// What came into the cluster. None leaves what the status says of it as it is.
    pub deployed: Option<Deployed<'a>>,
    pub failure: Option<Failure>,
    /// What is in the cluster. None leaves what the status says of it: nobody knows better.
    pub present: Option<Present<'a>>,
    /// What others keep changing, a sentence each.
    pub contested: Vec<String>,
    /// The fields of the spec that the chart does not know, in a sentence. None leaves what the status says of it.
    pub unknown_fields: Option<Option<String>>,
    /// The request for a full check that is answered by this.
    pub requested: Option<String>,
    /// How often objects were repaired in all, where that is more than the status says.
    pub repairs: Option<u64>,
}

/// What is in the cluster of a release.
#[derive(Debug, Default)]
pub struct Present<'a> {
    /// An earlier revision stays, and a sentence about it.
    pub held: Option<(&'a Hold, String)>,
    /// In the order of application.
    pub objects: &'a [(ObjectId, Health)],
    /// What upgrades dropped and left in the cluster.
    pub kept: &'a [ObjectId],
    /// What was there before the release, and nobody's.
    pub adopted: Vec<String>,
    /// Where the release lives, if it is there.
    pub namespace: Option<&'a str>,
    /// The pods of the release's workload, or that it has none that stands for it. None leaves what the status says of it.
    pub scale: Option<Option<Scale>>,
}

/// A release that was applied completely.
#[derive(Debug)]
pub struct Deployed<'a> {
    pub release: &'a str,
    pub revision: u32,
    /// Of what it was made from: it outlives the record.
    pub digest: &'a str,
    /// Whether there was a revision before it.
    pub is_upgrade: bool,
    pub notes: Cow<'a, str>,
    /// Without the data of Secrets.
    pub manifest: String,
}

/// Why the newest spec is not in the cluster.
#[derive(Clone, Debug)]
pub struct Failure {
    pub category: Category,
    pub message: String,
    pub stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Install,
    Upgrade,
    Uninstall,
}

impl Stage {
    fn reason(self) -> &'static str {
        match self {
            Stage::Install => "InstallError",
            Stage::Upgrade => "UpgradeError",
            Stage::Uninstall => "UninstallError",
        }
    }
}

/// The status after a reconcile.
pub fn next(old: Option<&Value>, report: &Report<'_>, now: &str) -> Value {
    let mut status = old.filter(|old| old.is_object()).cloned().unwrap_or_else(|| json!({}));
    let list = status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut conditions = Conditions { list, now };
    conditions.set("Initialized", true, "", "");
    if let Some(deployed) = &report.deployed {
        let reason = if deployed.is_upgrade { "UpgradeSuccessful" } else { "InstallSuccessful" };
        conditions.set("Deployed", true, reason, &deployed.notes);
        status["deployedRelease"] = json!({
            "name": deployed.release,
            "revision": deployed.revision,
            "digest": deployed.digest,
            "manifest": deployed.manifest,
        });
    }
    set_failure(&mut conditions, report.failure.as_ref());
    set_readiness(&mut conditions, report);
    match report.contested.is_empty() {
        true => conditions.remove("Contested"),
        false => conditions.set("Contested", true, "FieldsTaken", &report.contested.join("; ")),
    }
    match &report.unknown_fields {
        None => {}
        Some(None) => conditions.remove(UNKNOWN_FIELDS),
        Some(Some(sentence)) => conditions.set(UNKNOWN_FIELDS, true, UNKNOWN_FIELD, sentence),
    }
    if let Some(present) = &report.present {
        match &present.held {
            None => conditions.remove("Held"),
            Some((hold, sentence)) => conditions.set("Held", true, held_reason(hold.by), sentence),
        }
        set_present(&mut status, present);
    }
    conditions.end_pause();
    if let Some(requested) = &report.requested {
        status[HANDLED] = json!(requested);
    }
    if let Some(count) = report.repairs {
        status["repairs"] = json!({"count": count, "last": now});
    }
    status["conditions"] = Value::Array(conditions.list);
    status["observedGeneration"] = json!(report.generation);
    status
}

/// The status while nothing is done. What was said before stands, of the generation that it was said of.
pub fn paused(old: Option<&Value>, message: &str, now: &str) -> Value {
    let mut status = old.filter(|old| old.is_object()).cloned().unwrap_or_else(|| json!({}));
    let list = status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut conditions = Conditions { list, now };
    conditions.set("Paused", true, "PauseReconcileAnnotationTrue", message);
    status["conditions"] = Value::Array(conditions.list);
    status
}

/// The status when a pause is over, and all else is yet to be seen.
pub fn resumed(old: Option<&Value>, now: &str) -> Value {
    let mut status = old.filter(|old| old.is_object()).cloned().unwrap_or_else(|| json!({}));
    let list = status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut conditions = Conditions { list, now };
    conditions.end_pause();
    status["conditions"] = Value::Array(conditions.list);
    status
}

fn set_present(status: &mut Value, present: &Present<'_>) {
    status["objects"] = present.objects.iter().map(|(id, health)| object_entry(id, health)).collect();
    let kept = present.kept.iter().map(ToString::to_string).collect();
    for (key, list) in [("kept", kept), ("adopted", present.adopted.clone())] {
        match list.is_empty() {
            true => drop(status.as_object_mut().map(|status| status.remove(key))),
            false => status[key] = json!(list),
        }
    }
    if let Some(scale) = &present.scale {
        set_scale(status, scale.as_ref());
    }
    // As data too: where the record goes, the hold must not go with it.
    if let Some(deployed) = status.get_mut("deployedRelease").and_then(Value::as_object_mut) {
        match &present.held {
            None => drop(deployed.remove("hold")),
            Some((hold, _)) => drop(deployed.insert("hold".into(), json!(hold))),
        }
        if let Some(namespace) = present.namespace {
            deployed.insert("namespace".into(), json!(namespace));
        }
    }
}

/// Where the scale subresource of a custom resource reads it.
fn set_scale(status: &mut Value, scale: Option<&Scale>) {
    match scale {
        Some(scale) => {
            status["replicas"] = json!(scale.replicas);
            status["selector"] = json!(scale.selector);
        }
        None => {
            for key in ["replicas", "selector"] {
                status.as_object_mut().map(|status| status.remove(key));
            }
        }
    }
}

fn held_reason(by: HeldBy) -> &'static str {
    match by {
        HeldBy::Helm => "RolledBackWithHelm",
        HeldBy::Request => "RollbackRequested",
        HeldBy::Failure => "RolledBackAfterFailure",
    }
}

/// Puts a short mark in the place of the manifest. Equal manifests have equal marks.
pub fn shorten(status: &mut Value) {
    if let Some(Value::String(manifest)) = status.pointer_mut("/deployedRelease/manifest") {
        let sum = digest(&SHA256, manifest.as_bytes());
        *manifest = format!("sha256:{}", URL_SAFE_NO_PAD.encode(&sum.as_ref()[..12]));
    }
}

/// The merge patch that turns a shortened status into the next one, if that says something new. What the next one has in
/// short too is not in the patch: it is as it was.
pub fn changes(old: Option<&Value>, next: &Value) -> Option<Value> {
    let Some(old) = old.and_then(Value::as_object) else { return Some(next.clone()) };
    let mut short = next.clone();
    shorten(&mut short);
    let short = short.as_object()?;
    let is_same = |key: &String| [short.get(key), next.get(key)].contains(&old.get(key));
    let new = next.as_object()?.iter().filter(|(key, _)| !is_same(key));
    let new = new.map(|(key, value)| (key.clone(), without_what_went(value.clone(), old.get(key))));
    let gone = old.keys().filter(|key| next.get(*key).is_none()).map(|key| (key.clone(), Value::Null));
    let changes: serde_json::Map<_, _> = new.chain(gone).collect();
    (!changes.is_empty()).then_some(Value::Object(changes))
}

/// In a merge patch, what a map no longer has must be said.
fn without_what_went(mut value: Value, old: Option<&Value>) -> Value {
    if let (Some(map), Some(old)) = (value.as_object_mut(), old.and_then(Value::as_object)) {
        for key in old.keys() {
            map.entry(key.clone()).or_insert(Value::Null);
        }
    }
    value
}

/// The status while the release goes and something is waited for, in operator-sdk's words. Until its objects are removed it is
/// still deployed.
pub fn leaving(old: Option<&Value>, generation: i64, message: &str, is_removed: bool, now: &str) -> Value {
    let mut status = old.filter(|old| old.is_object()).cloned().unwrap_or_else(|| json!({}));
    let list = status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut conditions = Conditions { list, now };
    if is_removed {
        conditions.set("Deployed", false, "UninstallSuccessful", message);
    }
    conditions.set("ReleaseFailed", false, "", "");
    conditions.set("Irreconcilable", false, "", "");
    conditions.end_pause();
    conditions.set("Ready", false, "Uninstalling", message);
    conditions.set("Reconciling", true, "Uninstalling", "");
    conditions.set("Stalled", false, "", "");
    status["conditions"] = Value::Array(conditions.list);
    status["observedGeneration"] = json!(generation);
    status
}

/// The status while a hook runs. What was deployed before it, and its objects, are as they were.
pub fn at_hook(old: Option<&Value>, generation: i64, message: &str, now: &str) -> Value {
    under_way(old, generation, ("RunningHooks", message), now)
}

/// The same while a rollout waits for an object.
pub fn at_object(old: Option<&Value>, generation: i64, message: &str, now: &str) -> Value {
    under_way(old, generation, ("WaitingForObject", message), now)
}

fn under_way(old: Option<&Value>, generation: i64, (reason, message): (&str, &str), now: &str) -> Value {
    let mut status = old.filter(|old| old.is_object()).cloned().unwrap_or_else(|| json!({}));
    let list = status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut conditions = Conditions { list, now };
    conditions.set("Initialized", true, "", "");
    conditions.end_pause();
    set_failure(&mut conditions, None);
    conditions.set("Ready", false, reason, message);
    conditions.set("Reconciling", true, reason, message);
    conditions.set("Stalled", false, "", "");
    status["conditions"] = Value::Array(conditions.list);
    status["observedGeneration"] = json!(generation);
    status
}

fn set_failure(conditions: &mut Conditions<'_>, failure: Option<&Failure>) {
    match failure {
        None => {
            conditions.set("ReleaseFailed", false, "", "");
            conditions.set("Irreconcilable", false, "", "");
        }
        Some(failure) => {
            let message = format!("{}: {}", failure.category.as_str(), failure.message);
            conditions.set("ReleaseFailed", true, failure.stage.reason(), &message);
            conditions.set("Irreconcilable", true, "ReconcileError", &message);
        }
    }
}

/// Ready, and kstatus' two conditions that are true only when something is not normal.
fn set_readiness(conditions: &mut Conditions<'_>, report: &Report<'_>) {
    if let Some(failure) = &report.failure {
        let reason = failure.category.as_str();
        conditions.set("Ready", false, reason, &failure.message);
        let hopeless = failure.category.needs_a_change();
        conditions.set(
            "Stalled",
            hopeless,
            if hopeless { reason } else { "" },
            if hopeless { &failure.message } else { "" },
        );
        conditions.set("Reconciling", !hopeless, if hopeless { "" } else { "Retrying" }, "");
        return;
    }
    let summary = health::summary(report.present.as_ref().map_or(&[][..], |present| present.objects));
    let reason = match () {
        () if summary.ready => "Ready",
        () if summary.failed => "ObjectsFailed",
        () => "Progressing",
    };
    conditions.set("Ready", summary.ready, reason, &summary.message);
    conditions.set("Stalled", summary.failed, if summary.failed { reason } else { "" }, "");
    let reconciling = !summary.ready && !summary.failed;
    conditions.set("Reconciling", reconciling, if reconciling { reason } else { "" }, "");
}

fn object_entry(id: &ObjectId, health: &Health) -> Value {
    let mut entry = json!({"kind": id.kind, "name": id.name, "health": health.state.as_str()});
    for (key, text) in [("group", id.group.as_str()), ("namespace", id.namespace.as_deref().unwrap_or_default())] {
        if !text.is_empty() {
            entry[key] = text.into();
        }
    }
    if health.state != State::Current {
        entry["message"] = health.message.as_str().into();
    }
    entry
}

struct Conditions<'a> {
    list: Vec<Value>,
    now: &'a str,
}

impl Conditions<'_> {
    /// What was paused once says that it is not any more, so that somebody can wait for it.
    fn end_pause(&mut self) {
        if self.list.iter().any(|condition| condition["type"] == "Paused") {
            self.set("Paused", false, "", "");
        }
    }

    fn remove(&mut self, kind: &str) {
        self.list.retain(|condition| condition["type"] != kind);
    }

    fn set(&mut self, kind: &str, status: bool, reason: &str, message: &str) {
        let status = if status { "True" } else { "False" };
        let mut condition = json!({"type": kind, "status": status, "lastTransitionTime": self.now});
        for (key, text) in [("reason", reason), ("message", message)] {
            if !text.is_empty() {
                condition[key] = text.into();
            }
        }
        match self.list.iter_mut().find(|old| old["type"] == kind) {
            Some(old) => {
                if old["status"] == status && old["lastTransitionTime"].is_string() {
                    condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
                }
                *old = condition;
            }
            None => self.list.push(condition),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployed(revision: u32) -> Option<Deployed<'static>> {
        let is_upgrade = revision > 1;
        Some(Deployed {
            release: "web",
            revision,
            digest: "d",
            is_upgrade,
            notes: "hello".into(),
            manifest: "---".into(),
        })
    }

    fn object(state: State) -> (ObjectId, Health) {
        let id = ObjectId {
            group: "apps".into(),
            version: "v1".into(),
            kind: "Deployment".into(),
            namespace: Some("here".into()),
            name: "web".into(),
        };
        (id, Health::new(state, "Why", "because"))
    }

    fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
        status["conditions"].as_array().unwrap().iter().find(|condition| condition["type"] == kind).unwrap()
    }

    fn report<'a>(
        deployed: Option<Deployed<'a>>,
        failure: Option<Failure>,
        objects: &'a [(ObjectId, Health)],
    ) -> Report<'a> {
        let present = Some(Present { objects, ..Present::default() });
        let unknown_fields = None;
        Report {
            generation: 2,
            deployed,
            failure,
            present,
            contested: vec![],
            unknown_fields,
            requested: None,
            repairs: None,
        }
    }

    #[test]
    fn the_pods_of_the_workload_are_told_while_they_are_known() {
        let of = |scale| {
            let present = Some(Present { scale, ..Present::default() });
            Report { present, ..report(deployed(1), None, &[]) }
        };
        let first = next(None, &of(Some(Some(Scale { replicas: 2, selector: "a=b".into() }))), "a");
        assert_eq!((&first["replicas"], &first["selector"]), (&json!(2), &json!("a=b")));
        let unknown = next(Some(&first), &of(None), "a");
        assert_eq!(changes(Some(&first), &unknown), None);
        let gone = next(Some(&first), &of(Some(None)), "a");
        assert_eq!(changes(Some(&first), &gone), Some(json!({"replicas": null, "selector": null})));
    }

    #[test]
    fn repairs_are_counted_and_nothing_is_written_where_there_were_none() {
        let objects = [object(State::Current)];
        let repaired = Report { repairs: Some(3), ..report(deployed(1), None, &objects) };
        let first = next(None, &repaired, "a");
        assert_eq!(first["repairs"], json!({"count": 3, "last": "a"}));
        let second = next(Some(&first), &report(deployed(1), None, &objects), "b");
        assert_eq!(changes(Some(&first), &second), None);
    }

    #[test]
    fn the_same_outcome_gives_the_same_status() {
        let objects = [object(State::Current)];
        let first = next(None, &report(deployed(1), None, &objects), "2026-01-01T00:00:00Z");
        let second = next(Some(&first), &report(deployed(1), None, &objects), "2026-01-02T00:00:00Z");
        assert_eq!(first, second);
        assert_eq!(condition(&first, "Deployed")["reason"], "InstallSuccessful");
        assert_eq!(condition(&first, "Deployed")["message"], "hello");
        assert_eq!(condition(&first, "Ready")["status"], "True");
        assert_eq!(first["deployedRelease"]["revision"], 1);
    }

    #[test]
    fn a_failed_upgrade_keeps_deployed_and_says_why() {
        let objects = [object(State::Current)];
        let before = next(None, &report(deployed(1), None, &objects), "a");
        let failure = Failure { category: Category::RenderFailed, message: "no".into(), stage: Stage::Upgrade };
        let after = next(Some(&before), &report(deployed(1), Some(failure), &objects), "b");
        assert_eq!(condition(&after, "Deployed")["status"], "True");
        let failed = condition(&after, "ReleaseFailed");
        assert_eq!((&failed["reason"], &failed["message"]), (&json!("UpgradeError"), &json!("RenderFailed: no")));
        assert_eq!(failed["lastTransitionTime"], "b");
        assert_eq!(condition(&after, "Ready")["reason"], "RenderFailed");
        assert_eq!(condition(&after, "Stalled")["status"], "True");
        assert_eq!(condition(&after, "Reconciling")["status"], "False");
    }

    #[test]
    fn a_pause_leaves_what_was_said_and_its_end_is_told() {
        let objects = [object(State::Current)];
        let before = next(None, &report(deployed(1), None, &objects), "a");
        let during = paused(Some(&before), "later", "b");
        assert_eq!(condition(&during, "Paused")["message"], "later");
        assert_eq!(
            (&during["deployedRelease"], &during["observedGeneration"]),
            (&before["deployedRelease"], &json!(2))
        );
        assert_eq!(condition(&during, "Ready"), condition(&before, "Ready"));
        let resumed = resumed(Some(&during), "c");
        assert_eq!(condition(&resumed, "Ready"), condition(&before, "Ready"));
        for after in [&resumed, &next(Some(&during), &report(deployed(1), None, &objects), "c")] {
            assert_eq!(
                condition(after, "Paused"),
                &json!({"type": "Paused", "status": "False", "lastTransitionTime": "c"})
            );
        }
        assert!(!before["conditions"].to_string().contains("Paused"), "who was never paused need not say so");
    }

    #[test]
    fn unknown_fields_are_told_until_the_spec_has_none() {
        let unknown = |fields: Option<Option<&str>>| {
            let unknown_fields = fields.map(|fields| fields.map(str::to_owned));
            Report { unknown_fields, ..report(deployed(1), None, &[]) }
        };
        let first = next(None, &unknown(Some(Some("no"))), "a");
        assert_eq!(condition(&first, UNKNOWN_FIELDS)["message"], "no");
        assert_eq!(condition(&first, "Ready")["status"], "True");
        let unread = next(Some(&first), &unknown(None), "b");
        assert_eq!(condition(&unread, UNKNOWN_FIELDS), condition(&first, UNKNOWN_FIELDS));
        let corrected = next(Some(&unread), &unknown(Some(None)), "c");
        assert!(!corrected.to_string().contains(UNKNOWN_FIELDS));
    }

    #[test]
    fn an_answered_request_stays_answered() {
        let asked = Report { requested: Some("today".into()), ..report(deployed(1), None, &[]) };
        let answered = next(None, &asked, "a");
        assert_eq!(answered[HANDLED], "today");
        assert_eq!(next(Some(&answered), &report(deployed(1), None, &[]), "b")[HANDLED], "today");
    }

    #[test]
    fn what_is_retried_is_not_stalled() {
        let failure = Failure { category: Category::Unreachable, message: "no".into(), stage: Stage::Install };
        let status = next(None, &report(None, Some(failure), &[]), "a");
        assert_eq!(condition(&status, "Stalled")["status"], "False");
        assert_eq!(condition(&status, "Reconciling")["status"], "True");
        assert!(status.get("deployedRelease").is_none());
    }

    #[test]
    fn only_what_changed_is_written_and_the_manifest_is_not_needed_for_it() {
        let (one, other) = ([object(State::InProgress)], [object(State::Current)]);
        let whole = next(None, &report(deployed(1), None, &one), "a");
        assert_eq!(changes(None, &whole).as_ref(), Some(&whole));
        let mut held = whole.clone();
        shorten(&mut held);
        assert_ne!(held["deployedRelease"]["manifest"], whole["deployedRelease"]["manifest"]);
        assert_eq!(changes(Some(&held), &whole), None, "the same manifest");
        assert_eq!(changes(Some(&held), &next(Some(&held), &report(None, None, &one), "b")), None);
        let patch = changes(Some(&held), &next(Some(&held), &report(None, None, &other), "b")).unwrap();
        assert_eq!(patch.as_object().unwrap().keys().collect::<Vec<_>>(), ["conditions", "objects"]);
        let patch = changes(Some(&held), &next(Some(&held), &report(deployed(2), None, &one), "b")).unwrap();
        assert_eq!(patch["deployedRelease"]["manifest"], "---");
    }

    #[test]
    fn what_is_no_longer_said_is_taken_out() {
        let kept = [object(State::Current).0];
        let present = Some(Present { kept: &kept, ..Present::default() });
        let before = next(None, &Report { present, ..report(None, None, &[]) }, "a");
        let after = next(Some(&before), &report(None, None, &[]), "a");
        assert_eq!(changes(Some(&before), &after), Some(json!({"kept": null})));
    }

    #[test]
    fn a_hold_that_is_over_is_taken_out_of_the_data_too() {
        let hold = Hold { to: Some(1), digest: "d".into(), by: HeldBy::Helm, failed: None };
        let present = Some(Present { held: Some((&hold, "stays".into())), ..Present::default() });
        let before = next(None, &Report { present, ..report(deployed(3), None, &[]) }, "a");
        assert_eq!(before["deployedRelease"]["hold"]["to"], 1);
        assert_eq!(condition(&before, "Held")["reason"], "RolledBackWithHelm");
        let after = next(Some(&before), &report(deployed(4), None, &[]), "a");
        let patch = changes(Some(&before), &after).unwrap();
        assert_eq!(patch["deployedRelease"]["hold"], Value::Null);
        assert!(patch["deployedRelease"].as_object().unwrap().contains_key("hold"));
        assert_eq!(changes(Some(&after), &next(Some(&after), &report(None, None, &[]), "a")), None);
    }

    #[test]
    fn not_ready_names_the_object_and_why() {
        for (state, reason) in [(State::InProgress, "Progressing"), (State::Failed, "ObjectsFailed")] {
            let status = next(None, &report(deployed(2), None, &[object(state)]), "a");
            let ready = condition(&status, "Ready");
            assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!(reason)));
            let message = ready["message"].as_str().unwrap();
            assert!(message.contains("Deployment here/web") && message.contains("because"), "{message}");
            assert_eq!(status["objects"][0]["message"], "because");
        }
    }
}
