//! The last lines of a container's log, bounded: whoever writes a log decides how long a line is.
//!
//! They go to the operator's log, where the watch asks for it, and to a person whose own rights allow it. They never go into a
//! status or an Event: who may read those need not be allowed to read logs.

use std::pin::pin;

use futures::AsyncReadExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, LogParams};
use serde_json::Value;

use crate::calls::Calls;
use crate::ellipsis::ELLIPSIS;
use crate::health::Cause;

/// So many lines tell most.
pub const LINES: u32 = 10;
/// How much of a log is read.
const LOG_BYTES: usize = 16 * 1024;
/// How much of one line is kept.
const LINE_CHARACTERS: usize = 1000;

/// A container whose log may be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Container {
    pub namespace: String,
    pub pod: String,
    pub name: String,
}

impl Container {
    /// The one that a cause is about, if it has run: who never began has written nothing. `object` is what the cause is the cause
    /// of, which may be the pod.
    pub fn of(cause: &Cause, namespace: Option<&str>, object: &str) -> Option<Self> {
        let has_run = matches!(
            cause.reason.as_str(),
            "CrashLoopBackOff" | "OOMKilled" | "Error" | "LivenessProbeFailed" | "StartupProbeFailed"
        );
        let pod = if cause.pod.is_empty() { object } else { &cause.pod };
        let name = Some(cause.container.clone()).filter(|name| !name.is_empty() && has_run)?;
        Some(Container { namespace: namespace?.to_owned(), pod: pod.to_owned(), name })
    }
}

impl Container {
    /// The containers of a pod, those for its start included.
    pub fn all_of(pod: &Value) -> Vec<Self> {
        let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let (Some(namespace), Some(pod_name)) = (text("/metadata/namespace"), text("/metadata/name")) else {
            return vec![];
        };
        let list = |pointer: &str| pod.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
        let all = list("/spec/initContainers").chain(list("/spec/containers"));
        let named = all.filter_map(|container| container["name"].as_str());
        let container =
            |name: &str| Container { namespace: namespace.clone(), pod: pod_name.clone(), name: name.to_owned() };
        named.map(container).collect()
    }
}

/// The last lines of what a container wrote before it ended the last time, or until now where it has not ended.
///
/// # Errors
/// The API server refuses, or the node cannot be asked.
pub async fn last(container: &Container, lines: u32, calls: &Calls) -> Result<Vec<String>, kube::Error> {
    let pods: Api<Pod> = Api::namespaced(calls.hands(), &container.namespace);
    let read = async |previous: bool| {
        let params = LogParams {
            container: Some(container.name.clone()),
            tail_lines: Some(lines.into()),
            previous,
            ..LogParams::default()
        };
        calls.within(log(&pods, &container.pod, params, LOG_BYTES)).await
    };
    let log = match read(true).await {
        // It was not started again.
        Err(kube::Error::Api(status)) if status.code == 400 => read(false).await?,
        log => log?,
    };
    Ok(self::lines(&log))
}

/// The bytes of a log, so many at most. They need not be text, and the limit may cut a character in two.
///
/// # Errors
/// The API server refuses, or the node cannot be asked.
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
            shown.push(ELLIPSIS);
        }
        shown
    };
    text.lines().enumerate().map(shortened).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn only_a_container_that_has_run_has_a_log() {
        let about = |reason: &str, pod: &str, container: &str| Cause {
            pod: pod.to_owned(),
            container: container.to_owned(),
            ..Cause::of_object(reason, "message")
        };
        let of = |cause: &Cause| Container::of(cause, Some("shop"), "bare").map(|it| (it.pod, it.name));
        let named = |pod: &str| Some((pod.to_owned(), "app".to_owned()));
        assert_eq!(of(&about("CrashLoopBackOff", "web-1", "app")), named("web-1"));
        assert_eq!(of(&about("Error", "", "app")), named("bare"), "the object is the pod");
        assert_eq!(of(&about("ImagePullBackOff", "web-1", "app")), None);
        assert_eq!(of(&about("Error", "web-1", "")), None);
        assert_eq!(Container::of(&about("Error", "web-1", "app"), None, "x"), None);
    }
}
