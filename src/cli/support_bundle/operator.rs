//! The operator's own part of a bundle: its Deployment, its pods and their logs, its Lease, its metrics and its rights.

use std::borrow::Cow;
use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams, LogParams, PostParams};
use serde_json::{Value, json};

use super::bundle::{Bundle, LONGEST, file_name};
use super::masking;
use crate::cli::access::Session;
use crate::cli::status::picture::Picture;
use crate::discovery::Kinds;
use crate::error::sentence;
use crate::health;
use crate::log_tail;

/// Our own manifests have the first, everything that operator-sdk scaffolds the second.
const LABELS: [&str; 2] = ["app.kubernetes.io/name=chartwright", "control-plane=controller-manager"];
/// How many lines of a log are read, unless they exceed the limit of bytes.
const LOG_LINES: i64 = 5000;
/// Where metrics are, unless a flag says otherwise.
const METRICS_PORT: u16 = 8080;
/// What the operator does with custom resources, and with the objects of releases.
const VERBS: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];

/// Which lines of a log may be shown. The operator tells of all custom resources in one log, and only of those that were looked at
/// it is known what must not be shown.
pub struct Lines {
    /// All were looked at.
    pub are_all: bool,
    /// By namespace and name.
    pub examined: BTreeSet<(Option<String>, String)>,
}

impl Lines {
    /// A log, and how many lines are left out. A line that cannot be read may be about anything.
    fn of(&self, log: &str) -> (String, usize) {
        let is_shown = |line: &&str| match serde_json::from_str::<Value>(line) {
            _ if self.are_all => true,
            Ok(Value::Object(line)) => {
                let text = |key: &str| line.get(key).and_then(Value::as_str).map(str::to_owned);
                match (text("namespace"), text("name")) {
                    (None, None) => true,
                    (namespace, name) => self.examined.contains(&(namespace, name.unwrap_or_default())),
                }
            }
            _ => false,
        };
        let shown: Vec<&str> = log.lines().filter(is_shown).collect();
        let left_out = log.lines().count() - shown.len();
        (shown.iter().map(|line| format!("{line}\n")).collect(), left_out)
    }
}

/// Kinds and places that are asked about. Each is a call for every verb.
const MOST_RIGHTS: usize = 100;

pub struct OperatorPart {
    pub namespace: String,
    deployment: Deployment,
}

impl OperatorPart {
    /// The Deployment that a person named, or the only one that looks like it.
    pub async fn find(session: &Session, named: Option<&str>, bundle: &mut Bundle) -> Option<Self> {
        let client = session.calls.client();
        let found = match named {
            Some(named) => {
                let (namespace, name) = named.split_once('/').unwrap_or((&session.namespace, named));
                let api: Api<Deployment> = Api::namespaced(client, namespace);
                session.calls.within(api.get(name)).await.map_err(|error| sentence(&error))
            }
            None => by_labels(session).await,
        };
        match found {
            Ok(deployment) => Some(OperatorPart { namespace: deployment.namespace().unwrap_or_default(), deployment }),
            Err(why) => {
                bundle.lacks("operator", &why);
                None
            }
        }
    }

    pub async fn collect(
        &self,
        session: &Session,
        kinds: &Kinds,
        pictures: &[&Picture],
        lines: Option<&Lines>,
        bundle: &mut Bundle,
    ) {
        let mut taken = vec![];
        let deployment = masking::workload(json!(self.deployment), lines.is_none(), &mut taken);
        bundle.data("operator/deployment.yaml", deployment);
        let pods = self.pods(session, bundle).await;
        for pod in &pods {
            let name = pod.name_any();
            let shown = masking::workload(json!(pod), lines.is_none(), &mut taken);
            bundle.data(format!("operator/pods/{}.yaml", file_name(&name)), shown);
            if let Some(lines) = lines {
                self.logs(session, pod, lines, bundle).await;
            }
            let port = metrics_port(pod);
            let path = format!("/api/v1/namespaces/{}/pods/{port}/proxy/metrics", self.namespace);
            match session.calls.read(&path).await {
                Ok(Some(text)) => bundle.text(format!("operator/metrics/{}.txt", file_name(&name)), &text),
                Ok(None) => bundle.lacks("operator/metrics", &format!("there are none at {port}")),
                Err(error) => bundle.lacks("operator/metrics", &sentence(&error)),
            }
        }
        bundle.hide_taken(taken);
        let leases: Api<Lease> = Api::namespaced(session.calls.client(), &self.namespace);
        let leases = session.calls.within(leases.list(&ListParams::default())).await;
        let leases = leases.map(|list| {
            list.items
                .iter()
                .map(|lease| {
                    let mut shown = json!(lease);
                    masking::tidy(&mut shown, lines.is_none());
                    shown
                })
                .collect()
        });
        bundle.data_or("operator/leases.yaml", leases.map_err(|error| sentence(&error)));
        bundle.data_or("operator/rights.yaml", self.rights(session, kinds, pictures).await);
    }

    async fn pods(&self, session: &Session, bundle: &mut Bundle) -> Vec<Pod> {
        let mut value = json!(self.deployment);
        (value["apiVersion"], value["kind"]) = ("apps/v1".into(), "Deployment".into());
        let Some(selector) = health::selector_of(&value) else { return vec![] };
        let api: Api<Pod> = Api::namespaced(session.calls.client(), &self.namespace);
        match session.calls.within(api.list(&ListParams::default().labels(&selector))).await {
            Ok(list) => list.items,
            Err(error) => {
                bundle.lacks("operator/pods", &sentence(&error));
                vec![]
            }
        }
    }

    async fn logs(&self, session: &Session, pod: &Pod, lines: &Lines, bundle: &mut Bundle) {
        let api: Api<Pod> = Api::namespaced(session.calls.client(), &self.namespace);
        let name = pod.name_any();
        for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
            for previous in [false, true] {
                let tail = async |lines| {
                    let params = LogParams {
                        container: Some(container.name.clone()),
                        previous,
                        tail_lines: Some(lines),
                        ..LogParams::default()
                    };
                    session.calls.within(log_tail::log(&api, &name, params, LONGEST)).await
                };
                let suffix = if previous { "-previous" } else { "" };
                let path = format!("operator/logs/{}-{}{suffix}.log", file_name(&name), file_name(&container.name));
                match newest_lines(tail).await {
                    Ok((log, count)) => {
                        if log.len() >= LONGEST {
                            bundle.lacks(&path, &format!("its last line exceeds {LONGEST} bytes and is left out"));
                        } else if count < LOG_LINES {
                            bundle.lacks(&path, &format!("only the last {count} lines: more exceed {LONGEST} bytes"));
                        }
                        let (shown, left_out) = lines.of(&whole_lines(&log));
                        if left_out > 0 {
                            let why = "about custom resources that were not looked at, or not JSON";
                            bundle.lacks(&path, &format!("{left_out} lines are {why}; leave out -n to have them"));
                        }
                        bundle.text(path, &shown);
                    }
                    // Most containers never ended.
                    Err(_) if previous => {}
                    Err(error) => bundle.lacks(&path, &sentence(&error)),
                }
            }
        }
    }

    /// What the operator's account may do with what it has to do with, as the API server judges it.
    async fn rights(&self, session: &Session, kinds: &Kinds, pictures: &[&Picture]) -> Result<Value, String> {
        let account = self.deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        let account =
            account.and_then(|spec| spec.service_account_name.clone()).unwrap_or_else(|| "default".to_owned());
        let user = format!("system:serviceaccount:{}:{account}", self.namespace);
        let mut asked: BTreeSet<(String, String, Option<String>)> = BTreeSet::new();
        for picture in pictures {
            let place = picture.told.metadata.namespace.clone();
            asked.insert((picture.told.group.clone(), picture.told.kind.clone(), place.clone()));
            asked.insert((String::new(), "Secret".to_owned(), place));
            let objects = picture.objects.iter();
            asked.extend(objects.map(|node| (node.group.clone(), node.kind.clone(), node.namespace.clone())));
        }
        let api: Api<SubjectAccessReview> = Api::all(session.calls.client());
        let mut answers = vec![];
        let left_out = asked.len().saturating_sub(MOST_RIGHTS);
        for (group, kind, namespace) in asked.into_iter().take(MOST_RIGHTS) {
            let Some(known) = kinds.any_version(&group, &kind) else { continue };
            let (mut allowed, mut refused) = (vec![], vec![]);
            for verb in VERBS {
                let review = json!({"spec": {"user": user, "groups": ["system:serviceaccounts", "system:authenticated",
                    format!("system:serviceaccounts:{}", self.namespace)],
                    "resourceAttributes": {"group": group, "resource": known.resource.plural, "verb": verb, "namespace": namespace}}});
                let review = serde_json::from_value(review).map_err(|error| error.to_string())?;
                let answer = session.calls.within(api.create(&PostParams::default(), &review)).await;
                let answer = answer.map_err(|error| sentence(&error))?;
                let list = if answer.status.is_some_and(|status| status.allowed) { &mut allowed } else { &mut refused };
                list.push(verb);
            }
            answers.push(json!({"group": group, "resource": known.resource.plural, "namespace": namespace,
                "allowed": allowed, "refused": refused}));
        }
        Ok(json!({"user": user, "rights": answers, "notAsked": left_out}))
    }
}

/// The end of a log, and how many lines of it were asked for. The limit of bytes cuts off the newest lines, so fewer are asked for until
/// they fit. `tail` reads so many of the last lines, up to the limit.
async fn newest_lines<E>(tail: impl AsyncFn(i64) -> Result<Vec<u8>, E>) -> Result<(Vec<u8>, i64), E> {
    let mut lines = LOG_LINES;
    loop {
        let log = tail(lines).await?;
        if log.len() < LONGEST || lines == 1 {
            return Ok((log, lines));
        }
        lines /= 2;
    }
}

/// The text of a log that was read up to the limit. A last line that the limit cut is left out: nobody recognizes half of a secret.
fn whole_lines(log: &[u8]) -> Cow<'_, str> {
    let is_cut = log.len() >= LONGEST;
    let end = log.iter().rposition(|byte| *byte == b'\n').filter(|_| is_cut);
    String::from_utf8_lossy(match (is_cut, end) {
        (false, _) => log,
        (true, end) => log.get(..end.map_or(0, |end| end + 1)).unwrap_or_default(),
    })
}

/// Where a pod serves its metrics, as the API server's proxy wants to have it: `https:web-1:8443`.
fn metrics_port(pod: &Pod) -> String {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let args: Vec<&String> = containers.flat_map(|container| container.args.iter().flatten()).collect();
    let flag = |name: &str| args.iter().find_map(|arg| arg.trim_start_matches('-').strip_prefix(name));
    let address = flag("metrics-bind-address=").or_else(|| flag("metrics-addr="));
    let port = address.and_then(|address| address.rsplit_once(':')?.1.parse().ok()).unwrap_or(METRICS_PORT);
    let is_secure = flag("metrics-secure").is_some_and(|rest| matches!(rest, "" | "=true"));
    format!("{}{}:{port}", if is_secure { "https:" } else { "" }, pod.name_any())
}

async fn by_labels(session: &Session) -> Result<Deployment, String> {
    let api: Api<Deployment> = Api::all(session.calls.client());
    for labels in LABELS {
        let list = session.calls.within(api.list(&ListParams::default().labels(labels))).await;
        let mut items = list.map_err(|error| sentence(&error))?.items;
        match items.len() {
            0 => {}
            1 => return items.pop().ok_or_else(String::new),
            _ => {
                let names: Vec<String> = items
                    .iter()
                    .map(|it| format!("{}/{}", it.namespace().unwrap_or_default(), it.name_any()))
                    .collect();
                return Err(format!("it may be {}; name it with --deployment", names.join(" or ")));
            }
        }
    }
    Err(format!("no Deployment has the labels {}; name it with --deployment", LABELS.join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_where_the_flags_say() {
        let port = |args: &[&str]| {
            let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "m", "args": args}]}});
            metrics_port(&serde_json::from_value(pod).unwrap())
        };
        assert_eq!(port(&["--leader-elect"]), "a:8080");
        assert_eq!(port(&["--metrics-secure", "--metrics-bind-address=:8443"]), "https:a:8443");
        assert_eq!(port(&["--metrics-secure=false", "--metrics-addr=0.0.0.0:9090"]), "a:9090");
    }

    #[tokio::test]
    async fn the_newest_lines_of_a_log_are_kept() {
        let read = async |log: &[u8]| {
            let tail = async |count: i64| {
                let lines: Vec<&[u8]> = log.split_inclusive(|byte| *byte == b'\n').collect();
                let skipped = lines.len().saturating_sub(usize::try_from(count).unwrap());
                Ok::<_, ()>(lines[skipped..].concat().into_iter().take(LONGEST).collect())
            };
            newest_lines(tail).await.unwrap()
        };
        let short = b"one\ntwo\n";
        assert_eq!(read(short).await, (short.to_vec(), LOG_LINES));
        let long = format!("{}\nnewest\n", "x".repeat(LONGEST / 1000));
        let (log, count) = read(long.repeat(5000).as_bytes()).await;
        assert!(log.ends_with(b"\nnewest\n") && log.len() < LONGEST, "{}", log.len());
        assert!(log.len() > LONGEST / 4 && count == LOG_LINES / 4, "{count} lines");
        let (log, count) = read(&[&vec![b'x'; LONGEST], &b"\n"[..]].concat()).await;
        assert_eq!((whole_lines(&log).as_ref(), count), ("", 1));
    }

    #[test]
    fn a_line_that_the_limit_cut_is_left_out() {
        assert_eq!(whole_lines(b"one\ntw"), "one\ntw", "nothing was cut");
        assert_eq!(whole_lines(b"one\n\xff\n"), "one\n\u{fffd}\n", "a log need not be text");
        let filled = |start: &str| [start.as_bytes(), &vec![b'x'; LONGEST]].concat();
        assert_eq!(whole_lines(&filled("one\nsecr")), "one\n");
        assert_eq!(whole_lines(&filled("")), "");
    }

    #[test]
    fn only_lines_about_what_was_looked_at_are_shown() {
        let log = "\
{\"msg\":\"serving\"}
{\"msg\":\"a\",\"namespace\":\"shop\",\"name\":\"web\"}
{\"msg\":\"b\",\"namespace\":\"bank\",\"name\":\"web\"}
{\"msg\":\"c\",\"name\":\"cluster-wide\"}
panicked at
";
        let mut lines = Lines { are_all: false, examined: BTreeSet::from([(Some("shop".into()), "web".into())]) };
        let (shown, left_out) = lines.of(log);
        assert_eq!((shown.lines().count(), left_out), (2, 3), "{shown}");
        assert!(shown.contains("serving") && shown.contains("shop"), "{shown}");
        lines.are_all = true;
        assert_eq!(lines.of(log), (log.to_owned(), 0));
    }
}
