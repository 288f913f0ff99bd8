//! Why a hook failed, for a person who has no time: what its pods say, and the last lines of their logs.
//!
//! What cannot be asked is left out. The hook's own reason is told anyway.

use std::pin::pin;

use futures::AsyncReadExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, LogParams};
use serde_json::Value;

use crate::calls::Calls;
use crate::error::sentence;
use crate::object::ObjectId;

/// So many lines, and so many characters of them, fit a condition.
const LINES: i64 = 10;
const CHARACTERS: usize = 600;
/// How much of a log is read. Whoever writes the log decides how long a line is.
const LOG_BYTES: usize = 16 * 1024;
/// How much of one line is kept.
const LINE_CHARACTERS: usize = 1000;
/// Stands where text was cut. The redactor looks for halves of secret values beside it.
const CUT: char = '…';

/// What a container said in the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    pub pod: String,
    pub container: String,
    /// How it ended, or why it does not begin.
    pub end: String,
    pub lines: Vec<String>,
}

impl Words {
    /// `container migrate of pod web-1 ended with exit code 1 (Error); its last lines: …`
    pub fn sentence(&self) -> String {
        let Words { pod, container, end, lines } = self;
        let mut sentence = format!("container {container} of pod {pod} {end}");
        let text = lines.join("\n");
        if !text.trim().is_empty() {
            let skipped = text.chars().count().saturating_sub(CHARACTERS);
            let tail: String = text.chars().skip(skipped).collect();
            // Whoever hides values in it has to see that the first word may be half of one.
            let cut = if skipped > 0 { String::from(CUT) } else { String::new() };
            sentence.push_str(&format!("; its last lines:\n{cut}{}", tail.trim_end()));
        }
        sentence
    }
}

/// The last words of a Job's newest pod, or of a pod itself.
pub async fn last(id: &ObjectId, object: &Value, calls: &Calls) -> Option<Words> {
    let pods: Api<Pod> = Api::namespaced(calls.hands(), id.namespace.as_deref()?);
    let pod = match id.kind.as_str() {
        "Pod" => object.clone(),
        "Job" => {
            // By its UID: pods of an earlier Job of this name may still be there.
            let uid = object.pointer("/metadata/uid")?.as_str()?;
            let selector = format!("batch.kubernetes.io/controller-uid={uid}");
            newest(calls.pods(id.namespace.as_deref()?, &selector).await?)?
        }
        _ => return None,
    };
    let mut words = of_pod(&pod)?;
    let params =
        LogParams { container: Some(words.container.clone()), tail_lines: Some(LINES), ..LogParams::default() };
    words.lines = match calls.within(log(&pods, &words.pod, params, LOG_BYTES)).await {
        Ok(log) => lines(&log),
        Err(error) => vec![format!("(the log cannot be read: {})", sentence(&error))],
    };
    Some(words)
}

/// The bytes of a log, so many at most. They need not be text, and the limit may cut a character in two.
pub async fn log(pods: &Api<Pod>, pod: &str, params: LogParams, most: usize) -> Result<Vec<u8>, kube::Error> {
    let mut bytes = vec![];
    let params = LogParams { limit_bytes: i64::try_from(most).ok(), ..params };
    // The limit holds here as well: a kubelet may not know the parameter.
    let stream = pods.log_stream(pod, &params).await?;
    pin!(stream.take(most as u64)).read_to_end(&mut bytes).await.map_err(kube::Error::ReadEvents)?;
    Ok(bytes)
}

/// The lines of a log, each so long at most. What was cut ends with a mark.
fn lines(log: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(log);
    let is_cut = log.len() >= LOG_BYTES;
    let count = text.lines().count();
    let shortened = |(number, line): (usize, &str)| {
        let mut shown: String = line.chars().take(LINE_CHARACTERS).collect();
        if shown.len() < line.len() || is_cut && number + 1 == count {
            shown.push(CUT);
        }
        shown
    };
    text.lines().enumerate().map(shortened).collect()
}

/// The pod that speaks for a Job: the newest that failed, or else the newest.
fn newest(mut pods: Vec<Value>) -> Option<Value> {
    let has_failed = |pod: &Value| pod.pointer("/status/phase").and_then(Value::as_str) == Some("Failed");
    let made = |pod: &Value| pod.pointer("/metadata/creationTimestamp").and_then(Value::as_str).map(str::to_owned);
    pods.sort_by_key(|pod| (has_failed(pod), made(pod)));
    pods.pop()
}

/// The container that says most: one that ended badly, one that waits, the first.
fn of_pod(pod: &Value) -> Option<Words> {
    let name = pod.pointer("/metadata/name")?.as_str()?;
    let list = |key: &str| pod["status"][key].as_array().cloned().unwrap_or_default();
    let statuses: Vec<Value> = list("initContainerStatuses").into_iter().chain(list("containerStatuses")).collect();
    let words = |status: &Value, end: String| Words {
        pod: name.to_owned(),
        container: status["name"].as_str().unwrap_or_default().to_owned(),
        end,
        lines: vec![],
    };
    let ended_badly = |status: &&Value| ended(status).is_some_and(|(code, _)| code != 0);
    if let Some(status) = statuses.iter().find(ended_badly) {
        let (code, reason) = ended(status)?;
        let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
        return Some(words(status, format!("ended with exit code {code}{reason}")));
    }
    let waits = |status: &Value| status.pointer("/state/waiting/reason").and_then(Value::as_str).map(str::to_owned);
    if let Some((status, reason)) = statuses.iter().find_map(|status| Some((status, waits(status)?))) {
        return Some(words(status, format!("waits: {reason}")));
    }
    let status = statuses.iter().rev().find(|status| !status["state"]["running"].is_null()).or(statuses.last())?;
    let end = match ended(status) {
        Some((code, _)) => format!("ended with exit code {code}"),
        None => "is running".to_owned(),
    };
    Some(words(status, end))
}

fn ended(status: &Value) -> Option<(i64, String)> {
    let of = |state: &str| {
        let terminated = status.pointer(&format!("/{state}/terminated"))?;
        Some((terminated["exitCode"].as_i64()?, terminated["reason"].as_str().unwrap_or_default().to_owned()))
    };
    of("state").or_else(|| of("lastState"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_container_that_ended_badly_speaks() {
        let pod = json!({"metadata": {"name": "web-1"}, "status": {"containerStatuses": [
            {"name": "side", "state": {"terminated": {"exitCode": 0}}},
            {"name": "migrate", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}]}});
        let mut words = of_pod(&pod).unwrap();
        assert_eq!(words.sentence(), "container migrate of pod web-1 ended with exit code 3 (Error)");
        words.lines = vec!["connecting".into(), "no such table".into()];
        assert!(words.sentence().ends_with("; its last lines:\nconnecting\nno such table"));
        words.lines = vec!["x".repeat(5000)];
        assert!(words.sentence().len() < 800);
    }

    #[test]
    fn a_log_is_cut_line_by_line_and_as_a_whole() {
        let short = lines("one\ntwo\n".as_bytes());
        assert_eq!(short, ["one", "two"]);
        let long = format!("{}\nend", "ä".repeat(5000));
        let cut = lines(long.as_bytes());
        assert_eq!(cut, [format!("{}…", "ä".repeat(LINE_CHARACTERS)), "end".to_owned()]);
        let most = [&vec![b'x'; LOG_BYTES - 3], &b"\nhu"[..]].concat();
        assert_eq!(lines(&most).last().unwrap(), "hu…", "the limit cut a word");
        assert_eq!(lines(&[b'a', 0xc3]), ["a\u{fffd}"], "half a character");
    }

    #[test]
    fn one_that_cannot_begin_says_why() {
        let pod = json!({"metadata": {"name": "web-1"}, "status": {"containerStatuses": [
            {"name": "migrate", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}});
        assert_eq!(of_pod(&pod).unwrap().sentence(), "container migrate of pod web-1 waits: ImagePullBackOff");
        assert_eq!(of_pod(&json!({"metadata": {"name": "web-1"}, "status": {}})), None);
    }

    #[test]
    fn the_newest_failed_pod_speaks_for_its_job() {
        let pod = |name: &str, made: &str, phase: &str| json!({"metadata": {"name": name, "creationTimestamp": made}, "status": {"phase": phase}});
        let pods = vec![pod("a", "2", "Failed"), pod("b", "3", "Running"), pod("c", "1", "Failed")];
        assert_eq!(newest(pods).unwrap()["metadata"]["name"], "a");
    }
}
