//! What the custom resource says about itself.
//!
//! Pure: the old status and what happened give the new one. A condition's time changes only with its status, so an
//! unchanged outcome gives an unchanged status, and nothing is written.

use serde_json::{Value, json};

use crate::error::Category;

/// How a reconcile ended.
pub enum Outcome<'a> {
    Deployed { release: &'a str, upgraded: bool },
    Failed { category: Category, message: &'a str, upgrading: bool },
}

/// The status after `outcome`.
pub fn next(old: Option<&Value>, outcome: &Outcome<'_>, generation: i64, now: &str) -> Value {
    let mut status = old.filter(|old| old.is_object()).cloned().unwrap_or_else(|| json!({}));
    let old_conditions = status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut conditions = Conditions { list: old_conditions, now };
    conditions.set("Initialized", true, "", "");
    match outcome {
        Outcome::Deployed { release, upgraded } => {
            let reason = if *upgraded { "UpgradeSuccessful" } else { "InstallSuccessful" };
            conditions.set("Deployed", true, reason, "");
            conditions.set("ReleaseFailed", false, "", "");
            conditions.set("Irreconcilable", false, "", "");
            status["deployedRelease"] = json!({"name": release});
        }
        Outcome::Failed { category, message, upgrading } => {
            let reason = if *upgrading { "UpgradeError" } else { "InstallError" };
            let message = format!("{}: {message}", category.as_str());
            conditions.set("ReleaseFailed", true, reason, &message);
            conditions.set("Irreconcilable", true, "ReconcileError", &message);
        }
    }
    status["conditions"] = Value::Array(conditions.list);
    status["observedGeneration"] = json!(generation);
    status
}

struct Conditions<'a> {
    list: Vec<Value>,
    now: &'a str,
}

impl Conditions<'_> {
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

/// Whether a status says that a release is deployed.
pub fn is_deployed(status: Option<&Value>) -> bool {
    let conditions = status.and_then(|status| status.get("conditions")).and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| condition["type"] == "Deployed" && condition["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_outcome_gives_the_same_status() {
        let outcome = Outcome::Deployed { release: "web", upgraded: false };
        let first = next(None, &outcome, 1, "2026-01-01T00:00:00Z");
        let second = next(Some(&first), &outcome, 1, "2026-01-02T00:00:00Z");
        assert_eq!(first, second);
        assert!(is_deployed(Some(&first)));
    }

    #[test]
    fn a_failed_upgrade_keeps_deployed_and_says_why() {
        let deployed = next(None, &Outcome::Deployed { release: "web", upgraded: false }, 1, "a");
        let failure = Outcome::Failed { category: Category::RenderFailed, message: "no", upgrading: true };
        let failed = next(Some(&deployed), &failure, 2, "b");
        assert!(is_deployed(Some(&failed)));
        let release_failed =
            failed["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "ReleaseFailed").unwrap();
        assert_eq!(release_failed["reason"], "UpgradeError");
        assert_eq!(release_failed["message"], "RenderFailed: no");
        assert_eq!(release_failed["lastTransitionTime"], "b");
        assert_eq!(failed["observedGeneration"], 2);
    }
}
