//! A hook that does not get on: why, and whether something newer may take its place. And what its containers wrote.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::core::ObjectMeta;
use serde_json::Value;

use super::course::HookCourse;
use crate::causes::{self, MOST_PODS};
use crate::cluster::clock;
use crate::health::{self, Cause};
use crate::hooks::run::{HookError, Runner};
use crate::hooks::{self, Mark};
use crate::log_tail::Container;
use crate::object::ObjectId;
use crate::reconcile::explaining::Report;

/// Most hooks have begun by then, and many have ended. Nobody asks about them before.
const BEGIN: Duration = Duration::from_secs(2);
/// How soon to look where the watch does not tell, or may not.
const LOOK_UNWATCHED: Duration = Duration::from_secs(1);
/// The watch is on the Job, which says nothing of what its pod waits for.
const LOOK_WATCHED: Duration = Duration::from_secs(30);

/// Why a hook does not get on.
pub(super) struct Stuck {
    pub(super) cause: Cause,
    /// Whether a container of it has ever run, or may have.
    pub(super) has_started: bool,
}

impl HookCourse<'_> {
    /// Looks why a hook that runs does not get on, and reports a new cause.
    pub(super) async fn stuck(&self, id: &ObjectId, object: &Value) -> Option<Stuck> {
        if age(object) < BEGIN {
            return None;
        }
        let subject = self.subject;
        let pods = causes::pods_of(object, &subject.calls).await.ok()?;
        let has_started = is_incomplete(object, &pods) || pods.iter().any(health::has_started);
        let newest: Vec<Value> = causes::newest(pods).into_iter().collect();
        let answer = causes::of_pods(object, &newest, &subject.calls).await;
        let cause = subject.shown_cause(subject.answered_cause(answer)?);
        if !cause.is_wait {
            let message = cause.sentence_about(format!("{} hook {id}", self.event.as_str()));
            let (revision, reason) = (self.release.revision, cause.reason.as_str());
            let report = Report { object: id, revision, reason, cause: Some(&cause), message: &message };
            subject.report_cause(&report, subject.is_ready_message(&cause.sentence())).await;
        }
        Some(Stuck { cause, has_started })
    }

    /// When to look again at a hook that runs: the longer it takes, the less often.
    pub(super) fn look(&self, id: &ObjectId, object: &Value) -> Duration {
        let context = self.subject.context;
        match context.watch.watch_dependents && !context.children.is_blind(&id.key()) {
            true => (age(object) / 2).clamp(BEGIN, LOOK_WATCHED),
            false => LOOK_UNWATCHED,
        }
    }

    /// Ends a hook that never started, for something newer. False where it has changed since it was looked at: it may have started.
    pub(super) async fn cancel(
        &self,
        runner: &Runner<'_>,
        id: &ObjectId,
        object: &Value,
        cause: &Cause,
    ) -> Result<bool, HookError> {
        let looked_at: ObjectMeta = serde_json::from_value(object["metadata"].clone()).unwrap_or_default();
        let kind = runner.kinds.get(&id.gvk()).ok_or_else(|| HookError::UnknownKind { id: Box::new(id.clone()) })?;
        if !runner.cancel(kind, id, &looked_at).await? {
            return Ok(false);
        }
        let message = format!(
            "Deleted the {} hook {id}, whose pod never started, since something newer is wanted: {}",
            self.event.as_str(),
            cause.sentence()
        );
        self.subject.tell("HookCanceled", &message).await;
        Ok(true)
    }

    /// Writes what a hook that failed has written last to the operator's log, if the watch asks for it.
    pub(super) async fn write_log_tail(&self, id: &ObjectId, cause: Option<&Cause>) {
        if let Some(cause) = cause {
            self.subject.write_log_tail("HookLog", id, cause).await;
        }
    }

    /// The same of all containers of a hook, where the chart asks for it too.
    pub(super) async fn write_logs(&self, mark: &Mark) {
        let (subject, hook) = (self.subject, &self.release.hooks[mark.hook]);
        if subject.context.watch.log_tail == 0 {
            return;
        }
        let run = mark.run(self.release.revision, &subject.owner.uid);
        let Ok(kinds) = subject.hook_kinds(hook).await else { return };
        let Ok(objects) = subject.runner(&kinds).objects(hook, &run) else { return };
        for planned in objects.iter().filter(|planned| hooks::is_waited_for(planned.object.kind())) {
            let Ok(Some(live)) = subject.calls.get(&planned.kind, &planned.object.id()).await else { continue };
            let object = serde_json::to_value(live).unwrap_or_default();
            let Ok(pods) = causes::pods_of(&object, &subject.calls).await else { continue };
            for container in causes::newest(pods).iter().flat_map(Container::all_of) {
                subject.write_log_of("HookLog", &container).await;
            }
        }
    }
}

/// How old an object is, on the API server's clock.
fn age(object: &Value) -> Duration {
    let created = hooks::created(object).map_or(i64::MAX, Timestamp::as_second);
    let seconds = clock::now().as_second().saturating_sub(created);
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

/// Whether a Job had pods that were not looked at: they may have run.
fn is_incomplete(job: &Value, pods: &[Value]) -> bool {
    let count = |key: &str| job["status"][key].as_u64().unwrap_or_default();
    let had = count("active") + count("succeeded") + count("failed");
    pods.len() >= MOST_PODS || u64::try_from(pods.len()).is_ok_and(|seen| seen < had)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_whose_pods_are_not_all_there_may_have_run() {
        let job = |status: Value| json!({"kind": "Job", "status": status});
        let pods = vec![json!({})];
        assert!(!is_incomplete(&job(json!({"active": 1})), &pods));
        assert!(!is_incomplete(&job(json!({})), &[]), "none was created");
        assert!(is_incomplete(&job(json!({"active": 1, "failed": 1})), &pods), "the first is gone");
        assert!(is_incomplete(&job(json!({})), &vec![json!({}); MOST_PODS]));
    }
}
