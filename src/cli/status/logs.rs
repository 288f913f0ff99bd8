//! What containers that failed have written last, for a person whose own rights allow to read it.

use serde_json::{Value, json};

use super::tree::Node;
use crate::calls::Calls;
use crate::causes;
use crate::discovery::Kinds;
use crate::error::sentence;
use crate::hooks;
use crate::log_tail::{self, Container, LINES};
use crate::release::{HookPhase, Release};

/// Containers whose logs are read.
const MOST: usize = 5;

/// The end of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Tail {
    pub pod: String,
    pub container: String,
    /// Or why it cannot be read.
    pub lines: Result<Vec<String>, String>,
}

impl Tail {
    pub fn text(&self) -> String {
        let Tail { pod, container, lines } = self;
        match lines {
            Ok(lines) => lines.iter().map(|line| format!("  {pod}/{container} | {line}\n")).collect(),
            Err(why) => format!("  {pod}/{container}: cannot read the log: {why}\n"),
        }
    }

    pub fn data(&self) -> Value {
        let (lines, error) = (self.lines.as_ref().ok(), self.lines.as_ref().err());
        json!({"pod": self.pod, "container": self.container, "lines": lines, "error": error})
    }

    #[must_use]
    pub fn with_texts(self, change: impl Fn(&str) -> String) -> Self {
        let lines = self.lines.map(|lines| lines.iter().map(|line| change(line)).collect());
        Tail { lines, ..self }
    }
}

/// The ends of the logs of containers that failed: of a release's objects, and of the hooks of its newest revision.
pub async fn of(calls: &Calls, kinds: &Kinds, objects: &[Node], latest: Option<&Release>) -> Vec<Tail> {
    let mut containers = vec![];
    objects.iter().for_each(|node| of_node(node, &mut containers));
    containers.extend(of_hooks(calls, kinds, latest).await);
    containers.sort();
    containers.dedup();
    let mut tails = vec![];
    for container in containers.into_iter().take(MOST) {
        let read = log_tail::last(&container, LINES, calls).await;
        let lines = read.map_err(|error| sentence(&error));
        tails.push(Tail { pod: container.pod, container: container.name, lines });
    }
    tails
}

fn of_node(node: &Node, containers: &mut Vec<Container>) {
    if let Some(cause) = node.health.cause().filter(|_| node.kind == "Pod") {
        containers.extend(Container::of(cause, node.namespace.as_deref(), &node.name));
    }
    node.below.iter().for_each(|below| of_node(below, containers));
}

async fn of_hooks(calls: &Calls, kinds: &Kinds, latest: Option<&Release>) -> Vec<Container> {
    let mut containers = vec![];
    let Some(latest) = latest else { return containers };
    let marks = latest.own.iter().flat_map(|own| &own.hooks).filter(|mark| mark.phase != HookPhase::Succeeded);
    for hook in marks.filter_map(|mark| latest.hooks.get(mark.hook)) {
        for mut object in hooks::objects_of(hook).into_iter().filter(|object| hooks::is_waited_for(object.kind())) {
            if object.namespace().is_none() {
                object.set_namespace(&latest.namespace);
            }
            let id = object.id();
            let Some(kind) = kinds.any_version(&id.group, &id.kind) else { continue };
            let Ok(Some(live)) = calls.get(&kind, &id).await else { continue };
            let live = serde_json::to_value(live).unwrap_or_default();
            let cause = causes::of_run(&live, calls).await.cause;
            containers.extend(cause.and_then(|cause| Container::of(&cause, id.namespace.as_deref(), &id.name)));
        }
    }
    containers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_names_pod_and_container_in_each_line() {
        let tail = |lines| Tail { pod: "web-1".into(), container: "app".into(), lines };
        let read = tail(Ok(vec!["one".into(), "two".into()]));
        assert_eq!(read.text(), "  web-1/app | one\n  web-1/app | two\n");
        assert_eq!(read.data()["lines"], json!(["one", "two"]));
        let refused = tail(Err("forbidden".into()));
        assert_eq!(refused.text(), "  web-1/app: cannot read the log: forbidden\n");
        assert_eq!(read.with_texts(|_| "***".to_owned()).text(), "  web-1/app | ***\n  web-1/app | ***\n");
    }
}
