//! Asking the cluster: which kinds there are, which custom resources, and what became of a release's objects.
//!
//! Only questions. What a person may not read is said and goes without: a table with a hole helps more than none.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;
use futures::future::join_all;
use futures::stream::{StreamExt, iter};
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use kube::api::{DynamicObject, ListParams};
use kube::core::{ObjectList, Request};
use serde_json::{Value, json};

use super::logs;
use super::picture::{self, Facts, Picture};
use super::told::{Listed, Told};
use super::tree::{self, Below, Seen};
use crate::applyset;
use crate::calls::Calls;
use crate::causes;
use crate::cli::access::{Found, Session, other_owner, release_name};
use crate::cli::output::tell;
use crate::discovery::{Kind, Kinds};
use crate::error::sentence;
use crate::health;
use crate::object::ObjectId;
use crate::redaction::Redactor;
use crate::release::{History, OwnerMark, mask};
use crate::watches;

const PAGE: u32 = 500;
const SOME: u32 = 20;
/// Kinds that are asked about at once.
const AT_ONCE: usize = 8;
/// Objects whose Events are read: each is a call.
const MOST_ASKED: usize = 10;

/// Which custom resources of a kind.
#[derive(Clone, Debug, Default)]
pub struct Which<'a> {
    /// None is all.
    pub namespace: Option<&'a str>,
    pub labels: Option<&'a str>,
    pub name: Option<&'a str>,
    /// Whether there is one of some sort: the first pages tell mostly.
    pub is_only_a_question: bool,
}

/// The custom resources of a kind.
pub async fn list(session: &Session, kind: &Kind, which: &Which<'_>) -> Result<Vec<Told>, kube::Error> {
    list_until(session, kind, which, |_| false).await
}

/// The same, page by page, until there is enough.
async fn list_until(
    session: &Session,
    kind: &Kind,
    which: &Which<'_>,
    is_enough: impl Fn(&Told) -> bool,
) -> Result<Vec<Told>, kube::Error> {
    let resource = &kind.resource;
    let path = DynamicObject::url_path(resource, which.namespace.filter(|_| kind.namespaced));
    let mut params = ListParams::default().limit(if which.is_only_a_question { SOME } else { PAGE });
    if let Some(labels) = which.labels {
        params = params.labels(labels);
    }
    if let Some(name) = which.name {
        params = params.fields(&format!("metadata.name={name}"));
    }
    let mut all = vec![];
    loop {
        let request = Request::new(path.as_str()).list(&params).map_err(kube::Error::BuildRequest)?;
        let client = session.calls.client();
        let page: ObjectList<Listed> = session.calls.within(client.request(request)).await?;
        let now = Timestamp::now();
        let told = |listed: Listed| listed.told(&resource.group, &resource.version, &resource.kind, now);
        all.extend(page.items.into_iter().map(told));
        match page.metadata.continue_.filter(|more| !more.is_empty() && !all.iter().any(&is_enough)) {
            Some(more) => params.continue_token = Some(more),
            None => return Ok(all),
        }
    }
}

/// The kinds of a project that the cluster knows. The others are told.
pub fn of_project(session: &Session, file: &Path) -> anyhow::Result<Vec<Kind>> {
    let mut found = vec![];
    for gvk in watches::kinds(file)? {
        let known = session.kinds().find(|kind| kind.resource.group == gvk.group && kind.resource.kind == gvk.kind);
        match known {
            Some(kind) => found.push(kind.clone()),
            None => tell(&format!("note: the cluster does not know the kind {}.{}", gvk.kind, gvk.group)),
        }
    }
    Ok(found)
}

/// Without a project: the kinds of which some custom resource in a namespace, or in any, carries the operator's mark. Who may read in
/// one namespace only asks there.
pub async fn marked(session: &Session, namespace: Option<&str>) -> Vec<Kind> {
    // What Kubernetes itself serves is no custom resource; neither is what has no status.
    let may_be = |kind: &&Kind| {
        let group = &kind.resource.group;
        kind.has_status && group.contains('.') && !group.ends_with(".k8s.io")
    };
    let kinds: Vec<Kind> = session.kinds().filter(may_be).cloned().collect();
    let is_ours = |told: &Told| {
        told.metadata.annotations.get(applyset::TOOLING).is_some_and(|tool| tool.starts_with("chartwright"))
    };
    let asked = iter(kinds).map(|kind| async move {
        let which = Which { namespace, labels: Some(applyset::ID), is_only_a_question: true, ..Which::default() };
        let answer = list_until(session, &kind, &which, is_ours).await;
        (kind, answer)
    });
    let answers: Vec<_> = asked.buffered(AT_ONCE).collect().await;
    let refused = answers.iter().filter(|(_, answer)| answer.is_err()).count();
    if refused > 0 {
        tell(&format!("note: {refused} kinds cannot be listed, and are left out"));
    }
    let ours = answers.into_iter().filter(|(_, answer)| answer.as_ref().is_ok_and(|all| all.iter().any(is_ours)));
    ours.map(|(kind, _)| kind).collect()
}

/// All that there is to say about a custom resource, with the last lines of containers that failed where they are asked for. None
/// where it is not there any more.
pub async fn picture(
    session: &Session,
    kinds: &Kinds,
    found: &Found,
    with_logs: bool,
) -> anyhow::Result<Option<Picture>> {
    let (name, namespace) = (found.cr.metadata.name.as_deref(), found.cr.metadata.namespace.as_deref());
    let told = list(session, &found.kind, &Which { name, namespace, ..Which::default() }).await;
    let told = told
        .map_err(|error| anyhow::anyhow!(sentence(&error)))
        .with_context(|| format!("cannot get the {}", found.shown()))?;
    let Some(told) = told.into_iter().next() else { return Ok(None) };
    let mut unknown = vec![];
    // By what it tells now: who follows began to look before there was a release.
    let (owner, release) = (told.owner_mark(), release_name(&told.status, &told.owner_mark()));
    let history = match session.history_of(&owner, &release).await {
        Ok(history) => own_history(history, &owner, &release, &mut unknown),
        Err(error) => {
            unknown.push(format!("the release's records: {error}; objects are those that the status names"));
            History::default()
        }
    };
    unknown.extend(history.latest().and_then(|latest| session.unproven(latest)));
    let latest = history.latest();
    let ids = members(&told, &history, kinds);
    let seen = join_all(ids.iter().map(|id| seen(&session.calls, kinds, id))).await;
    let members: Vec<(ObjectId, Seen)> = ids.into_iter().zip(seen).collect();
    let below = below(&session.calls, kinds, &members, &mut unknown).await;
    let objects = tree::grow(&members, &below, Timestamp::now());
    let logs = match with_logs {
        true => logs::of(&session.calls, kinds, &objects, latest).await,
        false => vec![],
    };
    let mut redactor = Redactor::default();
    mask::learn(&mut redactor, history.iter());
    let picture = Picture {
        told,
        release: latest.map(Facts::of),
        objects,
        hooks: latest.map(picture::hooks).unwrap_or_default(),
        logs,
        unknown,
    };
    Ok(Some(picture.redacted(&redactor)))
}

/// None of it where it is another's.
fn own_history(history: History, owner: &OwnerMark, release: &str, unknown: &mut Vec<String>) -> History {
    let Some(who) = other_owner(&history, owner) else { return history };
    unknown.push(format!("the release {release} belongs to {who}, so nothing of it is shown"));
    History::default()
}

/// The objects of a release, by its record or else by the status.
fn members(told: &Told, history: &History, kinds: &Kinds) -> Vec<ObjectId> {
    let record = history.deployed().or_else(|| history.latest());
    match record.and_then(|release| release.own.as_ref()) {
        Some(own) => own.objects.iter().map(|applied| applied.id.clone()).collect(),
        None => {
            let told = told.status["objects"].as_array().into_iter().flatten();
            told.filter_map(|entry| {
                let text = |key: &str| entry[key].as_str().map(str::to_owned);
                let (group, kind) = (text("group").unwrap_or_default(), text("kind")?);
                let version = kinds.any_version(&group, &kind).map(|known| known.resource.version).unwrap_or_default();
                Some(ObjectId { group, version, kind, namespace: text("namespace"), name: text("name")? })
            })
            .collect()
        }
    }
}

async fn seen(calls: &Calls, kinds: &Kinds, id: &ObjectId) -> Seen {
    let Some(kind) = kinds.any_version(&id.group, &id.kind) else {
        return Seen::Hidden("the cluster does not know this kind".to_owned());
    };
    // Nobody needs what is in a Secret to know that it is there.
    let found = match (id.group.as_str(), id.kind.as_str()) {
        ("", "Secret") => calls.metadata(&kind, id).await.map(|metadata| {
            metadata.map(|metadata| json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata}))
        }),
        _ => calls.get(&kind, id).await.map(|live| live.and_then(|live| serde_json::to_value(live).ok())),
    };
    match found {
        Ok(Some(live)) => Seen::Live(live),
        Ok(None) => Seen::Gone,
        Err(error) => Seen::Hidden(sentence(&error)),
    }
}

/// What Kubernetes made of these objects: ReplicaSets, Jobs and pods. And Events about those that are not ready.
async fn below(calls: &Calls, kinds: &Kinds, members: &[(ObjectId, Seen)], unknown: &mut Vec<String>) -> Below {
    let live = |(id, seen): &(ObjectId, Seen)| match seen {
        Seen::Live(live) => Some((id.namespace.clone()?, id.kind.clone(), live.clone())),
        _ => None,
    };
    let mut workloads: Vec<(String, String, Value)> = members.iter().filter_map(live).collect();
    let mut refusals = BTreeSet::new();
    let mut owned = vec![];
    for (namespace, _, cron) in workloads.clone().into_iter().filter(|(_, kind, _)| kind == "CronJob") {
        let jobs = some(calls, kinds, ("batch", "Job"), &namespace, None, &mut refusals).await;
        let is_mine = |job: &Value| job.pointer("/metadata/ownerReferences/0/uid") == cron.pointer("/metadata/uid");
        for job in jobs.into_iter().filter(is_mine) {
            workloads.push((namespace.clone(), "Job".to_owned(), job.clone()));
            owned.push(job);
        }
    }
    let (mut asked, now) = (vec![], Timestamp::now());
    for (namespace, kind, workload) in &workloads {
        if kind == "Pod" {
            asked.extend(
                health::unexplained(workload, std::slice::from_ref(workload), now)
                    .into_iter()
                    .map(|uid| (namespace, uid)),
            );
        }
        let Some(selector) = health::selector_of(workload) else { continue };
        if kind == "Deployment" {
            owned.extend(some(calls, kinds, ("apps", "ReplicaSet"), namespace, Some(&selector), &mut refusals).await);
        }
        let pods = some(calls, kinds, ("", "Pod"), namespace, Some(&selector), &mut refusals).await;
        if !health::of(workload, now).is_ready() {
            asked.extend(health::unexplained(workload, &pods, now).into_iter().map(|uid| (namespace, uid)));
        }
        owned.extend(pods);
    }
    let mut events = vec![];
    for (namespace, uid) in asked.into_iter().take(MOST_ASKED) {
        match causes::events_about(namespace, &[uid], calls).await {
            Ok(found) => events.extend(found),
            Err(error) => drop(refusals.insert(format!("events in {namespace}: {}", sentence(&error)))),
        }
    }
    unknown.extend(refusals);
    Below { owned, events }
}

async fn some(
    calls: &Calls,
    kinds: &Kinds,
    (group, kind): (&str, &str),
    namespace: &str,
    selector: Option<&str>,
    refusals: &mut BTreeSet<String>,
) -> Vec<Value> {
    let Some(known) = kinds.any_version(group, kind) else { return vec![] };
    let mut params = ListParams::default().limit(PAGE);
    if let Some(selector) = selector {
        params = params.labels(selector);
    }
    let api = kube::Api::<DynamicObject>::namespaced_with(calls.client(), namespace, &known.resource);
    match calls.within(api.list(&params)).await {
        Ok(list) => list
            .items
            .into_iter()
            .filter_map(|object| {
                let mut value = serde_json::to_value(object).ok()?;
                // Items of a list come without these.
                value["apiVersion"] = known.resource.api_version.clone().into();
                value["kind"] = known.resource.kind.clone().into();
                Some(value)
            })
            .collect(),
        Err(error) => {
            refusals.insert(format!("{} in {namespace}: {}", known.resource.plural, sentence(&error)));
            vec![]
        }
    }
}
