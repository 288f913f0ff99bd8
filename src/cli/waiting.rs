//! Waiting for what the operator makes of a wish. It tells by the custom resource's status and by the release's records.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use anyhow::bail;
use serde_json::Value;

use super::access::{Found, Session};
use super::output::tell;
use crate::release::History;
use crate::watches::duration;

const PAUSE: Duration = Duration::from_millis(300);

#[derive(Debug, clap::Args)]
pub struct Patience {
    /// How long to wait for the operator, as in 90s or 5m
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = read)]
    pub timeout: Duration,
    /// Do not wait: only say what is wanted
    #[arg(long)]
    pub no_wait: bool,
}

/// Reads a duration as a flag has it.
pub fn read(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

impl Patience {
    /// Looks again and again until there is an answer. On a terminal it says how far the release is.
    pub async fn until<T>(
        &self,
        session: &Session,
        found: &Found,
        look: impl Fn(&Value, &History) -> Option<T>,
    ) -> anyhow::Result<T> {
        let (begun, is_watched) = (Instant::now(), std::io::stderr().is_terminal());
        let mut told = String::new();
        loop {
            // What the API server does not answer now it may answer in a moment.
            let seen = seen(session, found).await;
            if let Some(answer) = seen.as_ref().ok().and_then(|(status, history)| look(status, history)) {
                return Ok(answer);
            }
            if let Ok((status, _)) = &seen
                && is_true(status, "Paused")
            {
                bail!("the {} is paused, so the operator does not answer; the wish stays on it", found.shown());
            }
            if begun.elapsed() >= self.timeout {
                seen?;
                let seconds = self.timeout.as_secs();
                bail!(
                    "the operator did not answer within {seconds} s; does it run? The wish stays on the {}",
                    found.shown()
                );
            }
            if let Ok((_, history)) = &seen
                && is_watched
                && progress(history) != told
            {
                told = progress(history);
                tell(&told);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// What the custom resource and the records say now.
async fn seen(session: &Session, found: &Found) -> anyhow::Result<(Value, History)> {
    let status = found.again(session).await?.cr.status().unwrap_or_default();
    Ok((status, session.history(found).await?))
}

fn progress(history: &History) -> String {
    match history.latest() {
        None => "waiting for the operator".to_owned(),
        Some(latest) => format!("waiting for the operator: revision {} is {}", latest.revision, latest.status.as_str()),
    }
}

/// The message of a failure that was not told before. What ends by itself is none.
pub fn failure(status: &Value, before: &Value) -> Option<String> {
    let told = told_failure(status)?;
    let is_passing = ["Waiting: ", "Unreachable: "].iter().any(|passing| told.starts_with(passing));
    (!is_passing && told_failure(before) != Some(told)).then(|| told.to_owned())
}

fn told_failure(status: &Value) -> Option<&str> {
    condition(status, "ReleaseFailed").filter(|it| it["status"] == "True")?["message"].as_str()
}

pub fn is_true(status: &Value, kind: &str) -> bool {
    condition(status, kind).is_some_and(|it| it["status"] == "True")
}

pub fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn failed(message: &str) -> Value {
        json!({"conditions": [{"type": "ReleaseFailed", "status": "True", "message": message}]})
    }

    #[test]
    fn only_a_failure_that_is_new_and_does_not_pass_is_told() {
        let good = json!({"conditions": [{"type": "ReleaseFailed", "status": "False"}]});
        assert_eq!(failure(&failed("Forbidden: no"), &good).as_deref(), Some("Forbidden: no"));
        assert_eq!(failure(&failed("Forbidden: no"), &failed("RenderFailed: x")).as_deref(), Some("Forbidden: no"));
        assert_eq!(failure(&failed("RenderFailed: x"), &failed("RenderFailed: x")), None, "it was so before");
        assert_eq!(failure(&failed("Unreachable: x"), &good), None);
        assert_eq!(failure(&good, &good), None);
        assert_eq!(failure(&json!({}), &json!({})), None);
    }
}
