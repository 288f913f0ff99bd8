//! The objects of a release, and below each what Kubernetes made of it: ReplicaSets, Jobs, pods. Pure.
//!
//! What is below is found by owner references. An old ReplicaSet without pods is left out, as in `kubectl get deployments`.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::children::ends_by_itself;
use crate::health::{self, Cause, Health, State};
use crate::object::{ObjectId, split_api_version};
use crate::printable::escaped;

/// Owners of owners of owners: a CronJob's Job's pod has two above it.
const DEEPEST: usize = 4;
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const END: &str = "\x1b[0m";

/// What was found of an object.
#[derive(Clone, Debug)]
pub enum Seen {
    Live(Value),
    Gone,
    /// It cannot be read, and why.
    Hidden(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub group: String,
    pub kind: String,
    pub namespace: Option<String>,
    pub name: String,
    pub health: Health,
    /// Of the pods below it.
    pub selector: Option<String>,
    pub below: Vec<Node>,
}

/// What was found below a release's objects.
#[derive(Clone, Debug, Default)]
pub struct Below {
    /// ReplicaSets, Jobs and pods.
    pub owned: Vec<Value>,
    /// Warnings about those that are not ready.
    pub events: Vec<Value>,
}

/// The trees of a release's objects.
pub fn grow(members: &[(ObjectId, Seen)], found: &Below, now: Timestamp) -> Vec<Node> {
    members.iter().map(|(id, seen)| member(id, seen, found, now)).collect()
}

fn member(id: &ObjectId, seen: &Seen, found: &Below, now: Timestamp) -> Node {
    let (health, below) = match seen {
        Seen::Live(live) => (explained(live, &found.events, now), below(live, found, now, DEEPEST)),
        Seen::Gone if ends_by_itself(id) => (Health::new(State::Current, "Ended", "ended and was cleaned up"), vec![]),
        Seen::Gone => (Health::not_found(), vec![]),
        Seen::Hidden(why) => (Health::new(State::Unknown, "CannotBeRead", why), vec![]),
    };
    let selector = match seen {
        Seen::Live(live) => health::selector_of(live),
        _ => None,
    };
    let ObjectId { group, kind, namespace, name, .. } = id.clone();
    Node { group, kind, namespace, name, health, selector, below }
}

fn below(owner: &Value, found: &Below, now: Timestamp, depth: usize) -> Vec<Node> {
    let Some(uid) = owner.pointer("/metadata/uid").filter(|_| depth > 0) else { return vec![] };
    let is_mine = |object: &&Value| {
        let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
        owners.into_iter().any(|owner| &owner["uid"] == uid)
    };
    let mut nodes: Vec<Node> = found
        .owned
        .iter()
        .filter(is_mine)
        .map(|object| {
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
            let api_version = text("/apiVersion").unwrap_or_default();
            Node {
                group: split_api_version(&api_version).0.to_owned(),
                kind: text("/kind").unwrap_or_default(),
                namespace: text("/metadata/namespace"),
                name: text("/metadata/name").unwrap_or_default(),
                health: explained(object, &found.events, now),
                selector: None,
                below: below(object, found, now, depth - 1),
            }
        })
        .filter(|node| node.kind != "ReplicaSet" || !node.below.is_empty() || !node.health.is_ready())
        .collect();
    nodes.sort_by(|a, b| (&a.kind, &a.name).cmp(&(&b.kind, &b.name)));
    nodes
}

/// A pod says itself why it is not ready; whoever is above it need not repeat it.
fn explained(object: &Value, events: &[Value], now: Timestamp) -> Health {
    let health = health::of(object, now);
    if health.is_ready() {
        return health;
    }
    let pods = if object["kind"] == "Pod" { std::slice::from_ref(object) } else { &[] };
    match health::why(object, pods, events, now) {
        Some(cause) => health.because(Cause { pod: String::new(), ..cause }),
        None => health,
    }
}

/// One line of the drawing.
struct Line {
    drawn: String,
    state: State,
    message: String,
}

/// The trees as they are drawn, with what is wrong beside it.
pub fn text(nodes: &[Node], namespace: Option<&str>, colour: bool) -> String {
    let mut lines = vec![];
    draw(nodes, namespace, "", &mut lines);
    let width = lines.iter().map(|line| line.drawn.chars().count()).max().unwrap_or_default();
    let mut text = String::new();
    for Line { drawn, state, message } in lines {
        let (begin, end) = if colour { (paint(state), END) } else { ("", "") };
        text.push_str(
            &format!("{drawn:<width$}   {begin}{:<11}{end} {message}", state.as_str()).trim_end().replace('\n', " "),
        );
        text.push('\n');
    }
    text
}

fn draw(nodes: &[Node], namespace: Option<&str>, indent: &str, lines: &mut Vec<Line>) {
    for (index, node) in nodes.iter().enumerate() {
        let is_last = index + 1 == nodes.len();
        let (branch, rest) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let message = Some(node.health.sentence()).filter(|it| it != "exists").unwrap_or_default();
        lines.push(Line {
            drawn: format!("{indent}{branch}{}", escaped(&node.shown(namespace))),
            state: node.health.state,
            message: escaped(&message).into_owned(),
        });
        draw(&node.below, namespace, &format!("{indent}{rest}"), lines);
    }
}

fn paint(state: State) -> &'static str {
    match state {
        State::Current => GREEN,
        State::InProgress | State::Terminating => YELLOW,
        State::Unknown | State::NotFound | State::Failed => RED,
    }
}

impl Node {
    /// `Deployment web`, with its namespace where that is another.
    fn shown(&self, namespace: Option<&str>) -> String {
        match self.namespace.as_deref().filter(|own| namespace != Some(*own)) {
            Some(other) => format!("{} {other}/{}", self.kind, self.name),
            None => format!("{} {}", self.kind, self.name),
        }
    }

    pub fn data(&self) -> Value {
        json!({
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "health": self.health.state.as_str(),
            "reason": self.health.reason(),
            "message": self.health.sentence(),
            "children": self.below.iter().map(Node::data).collect::<Vec<_>>(),
        })
    }

    /// Every object of a tree with its health, in words: what somebody sees who follows line by line.
    pub fn lines(&self, all: &mut Vec<(String, String)>) {
        let place = self.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let said = format!("{}: {}", self.health.state.as_str(), self.health.sentence());
        all.push((format!("{} {place}{}", self.kind, self.name), said));
        self.below.iter().for_each(|node| node.lines(all));
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:10:00Z".parse().unwrap()
    }

    pub fn id(kind: &str, name: &str) -> ObjectId {
        let group = if kind == "Deployment" {
            "apps"
        } else if kind == "Job" {
            "batch"
        } else {
            ""
        };
        ObjectId {
            group: group.into(),
            version: "v1".into(),
            kind: kind.into(),
            namespace: Some("shop".into()),
            name: name.into(),
        }
    }

    fn owned(kind: &str, name: &str, owner: &str, status: Value) -> Value {
        let api = if kind == "Pod" { "v1" } else { "apps/v1" };
        json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "shop", "uid": name,
            "creationTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [{"uid": owner}]},
            "spec": {"replicas": 1}, "status": status})
    }

    fn scene() -> (Vec<(ObjectId, Seen)>, Below) {
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "uid": "d"},
            "spec": {"replicas": 1}, "status": {"replicas": 1, "updatedReplicas": 1}});
        let waits = json!({"phase": "Pending", "containerStatuses": [{"name": "app", "image": "x:y",
            "state": {"waiting": {"reason": "ImagePullBackOff"}}}]});
        let mut old = owned("ReplicaSet", "web-old", "d", json!({"replicas": 0}));
        old["spec"]["replicas"] = 0.into();
        let list = vec![
            owned("Pod", "web-new-1", "web-new", waits),
            owned("ReplicaSet", "web-new", "d", json!({"replicas": 1})),
            old,
            owned("Pod", "stranger", "elsewhere", json!({"phase": "Running"})),
        ];
        let members = vec![
            (
                id("ConfigMap", "web"),
                Seen::Live(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}})),
            ),
            (id("Deployment", "web"), Seen::Live(deployment)),
            (id("Job", "done"), Seen::Gone),
            (id("Service", "web"), Seen::Gone),
            (id("Secret", "login"), Seen::Hidden("secrets \"login\" is forbidden".into())),
        ];
        (members, Below { owned: list, events: vec![] })
    }

    #[test]
    fn an_event_tells_why_a_pod_is_not_ready() {
        let deployment =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "uid": "d"}});
        let runs = json!({"phase": "Running", "containerStatuses": [{"name": "app", "ready": false, "started": true,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]});
        let event = json!({"type": "Warning", "reason": "Unhealthy", "deprecatedLastTimestamp": "2026-01-01T00:09:00Z",
            "note": "Readiness probe failed: HTTP probe failed with statuscode: 404",
            "regarding": {"uid": "web-1", "fieldPath": "spec.containers{app}"}});
        let below = Below { owned: vec![owned("Pod", "web-1", "d", runs)], events: vec![event] };
        let text = text(&grow(&[(id("Deployment", "web"), Seen::Live(deployment))], &below, now()), None, false);
        let words = "readiness probe failed: HTTP probe failed with statuscode: 404 (container \"app\")";
        assert!(text.contains(words), "{text}");
    }

    #[test]
    fn the_tree_leads_to_the_pod_that_is_to_blame() {
        let (members, list) = scene();
        let text = text(&grow(&members, &list, now()), Some("shop"), false);
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(lines.len(), 7, "{text}");
        assert!(lines[0].starts_with("├─ ConfigMap web") && lines[0].ends_with("Current"), "{text}");
        assert!(lines[1].starts_with("├─ Deployment web ") && lines[1].contains("InProgress"), "{text}");
        assert!(lines[2].starts_with("│  └─ ReplicaSet web-new "), "{text}");
        assert!(
            lines[3].starts_with("│     └─ Pod web-new-1 ") && lines[3].contains("cannot pull image \"x:y\""),
            "{text}"
        );
        assert!(lines[4].contains("ended and was cleaned up"), "{text}");
        assert!(lines[5].contains("NotFound    does not exist"), "{text}");
        assert!(lines[6].starts_with("└─ Secret login") && lines[6].contains("forbidden"), "{text}");
    }

    #[test]
    fn scripts_get_the_same_tree_and_colours_are_only_for_terminals() {
        let (members, list) = scene();
        let nodes = grow(&members, &list, now());
        assert_eq!(nodes[1].data()["children"][0]["children"][0]["reason"], "ImagePullBackOff");
        assert!(!text(&nodes, None, false).contains('\x1b'));
        assert!(text(&nodes, None, true).contains("\x1b[31mNotFound   \x1b[0m"));
    }
}
