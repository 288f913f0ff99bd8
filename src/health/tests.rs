//! What has to hold for every object: the vectors that were compared with kstatus, and what follows from them.

mod why;

use std::collections::BTreeSet;

use serde_json::{Map, json};

use super::*;

/// Objects judged by kstatus itself. Each names the state it got there and, where ours differs on purpose, ours and
/// why.
const VECTORS: &str = include_str!("../../tests/data/health-vectors.json");

#[derive(Deserialize)]
struct Vectors {
    now: Timestamp,
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    name: String,
    object: Value,
    kstatus: String,
    ours: Option<State>,
    because: Option<String>,
}

fn vectors() -> Vectors {
    serde_json::from_str(VECTORS).expect("the vectors are well-formed")
}

fn at(time: &str) -> Timestamp {
    time.parse().expect("a timestamp")
}

#[test]
fn states_are_those_of_kstatus_or_differ_on_purpose() {
    let Vectors { now, vectors } = vectors();
    assert!(vectors.len() > 150, "only {} vectors", vectors.len());
    for vector in &vectors {
        let expected = vector.ours.map_or(vector.kstatus.as_str(), |ours| ours.as_str());
        let health = of(&vector.object, now);
        assert_eq!(health.state.as_str(), expected, "{}: {health:?}", vector.name);
        assert_eq!(vector.ours.is_some(), vector.because.is_some(), "{} gives its reason", vector.name);
        assert_ne!(vector.ours.map(State::as_str), Some(vector.kstatus.as_str()), "{} is no difference", vector.name);
    }
}

#[test]
fn kinds_that_differ_from_kstatus_are_the_documented_ones() {
    let differing: BTreeSet<_> = vectors()
        .vectors
        .iter()
        .filter(|vector| vector.ours.is_some())
        .filter_map(|vector| vector.name.split_once(':').map(|(kind, _)| kind.to_owned()))
        .collect();
    assert_eq!(Vec::from_iter(differing), ["Deployment", "Job", "Malformed", "No kind", "Pod"]);
}

#[test]
fn every_verdict_has_a_reason_and_a_line_for_a_person() {
    let Vectors { now, vectors } = vectors();
    for Vector { name, object, .. } in vectors {
        let health = of(&object, now);
        assert!(health.reason().chars().all(|c| c.is_ascii_alphanumeric()) && !health.reason().is_empty(), "{name}");
        let sentence = health.sentence_about("Kind shop/name");
        assert!(sentence.contains("Kind shop/name") && !sentence.contains('\n'), "{name}");
        assert!(health.sentence().len() <= Health::SENTENCE_LIMIT, "{name}");
    }
}

/// Answers of everything in this module that looks at one object. `why` is asked about pods only: it takes every object
/// for one, and trimming goes by the kind.
fn answers(object: &Value, now: Timestamp) -> (Health, Option<Cause>, Option<String>) {
    let is_pod = fields::Kind::of(object) == fields::Kind::Pod;
    let cause = why(&Value::Null, std::slice::from_ref(object), &[], now).filter(|_| is_pod);
    (of(object, now), cause, selector_of(object))
}

#[test]
fn a_trimmed_object_is_judged_as_the_whole_one() {
    let Vectors { now, vectors } = vectors();
    for Vector { name, mut object, .. } in vectors {
        let bare = object.clone();
        add_noise(&mut object);
        let whole = object.clone();
        trim(&mut object);
        assert_eq!(answers(&object, now), answers(&whole, now), "{name}");
        assert!(!object.to_string().contains("noise"), "{name}: {object}");
        for identity in ["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace"] {
            assert_eq!(object.pointer(identity), bare.pointer(identity), "{name} keeps {identity}");
        }
    }
}

/// What a live object carries besides: all of it has to go.
fn add_noise(object: &mut Value) {
    let noise = json!({"noise": "noise"});
    object["data"] = noise.clone();
    for field in ["labels", "annotations", "managedFields"] {
        object["metadata"][field] = noise.clone();
    }
    for part in ["spec", "status"] {
        if object[part].is_null() {
            object[part] = Value::Object(Map::new());
        }
        if let Some(part) = object[part].as_object_mut() {
            part.insert("template".to_owned(), noise.clone());
        }
    }
    if let Some(conditions) = object["status"].get_mut("conditions").and_then(Value::as_array_mut) {
        let last_seen = conditions.iter_mut().filter_map(Value::as_object_mut);
        last_seen.for_each(|it| drop(it.insert("lastTransitionTime".to_owned(), noise.clone())));
    }
}

/// The tables of `trim` hold nothing that no rule reads: without any one line, some vector gets another answer.
#[test]
fn every_field_that_trim_keeps_is_read() {
    let Vectors { now, vectors } = vectors();
    let answered: Vec<_> = vectors.iter().map(|vector| (&vector.object, answers(&vector.object, now))).collect();
    let is_needed = |path: &str| {
        answered.iter().any(|(object, answer)| {
            let mut trimmed = (*object).clone();
            trim::keep_fields(&mut trimmed, |kept| kept != path);
            answers(&trimmed, now) != *answer
        })
    };
    // Those are for the caller.
    let is_identity = |path: &str| ["namespace", "uid", "resourceVersion"].iter().any(|it| path.ends_with(it));
    let idle: Vec<_> = trim::all_fields().filter(|path| !is_identity(path) && !is_needed(path)).collect();
    assert!(idle.is_empty(), "kept and never read: {idle:?}");
}

/// Puts something unfit in the place of every node, one at a time, and asks everything. Whatever a schemaless custom
/// resource or a proxy's idea of JSON holds, an answer comes, and trimming does not change it.
#[test]
fn no_object_is_too_broken_for_an_answer() {
    let Vectors { now, vectors } = vectors();
    let unfit = [Value::Null, json!(i64::MIN), json!("…"), json!([1, null]), json!({"a": []})];
    for Vector { name, object, .. } in &vectors {
        let mut pointers = Vec::new();
        collect_pointers(object, String::new(), &mut pointers);
        // One each is enough: the same field comes up in many vectors, at another place in the round.
        for (pointer, unfit) in pointers.iter().zip(unfit.iter().cycle()) {
            let mut broken = object.clone();
            *broken.pointer_mut(pointer).expect("the pointer was just collected") = unfit.clone();
            let whole = answers(&broken, now);
            trim(&mut broken);
            assert_eq!(answers(&broken, now), whole, "{name} with {pointer} broken");
        }
    }
}

fn collect_pointers(value: &Value, here: String, all: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, below)| {
            let key = key.replace('~', "~0").replace('/', "~1");
            collect_pointers(below, format!("{here}/{key}"), all);
        }),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, below)| collect_pointers(below, format!("{here}/{index}"), all));
        }
        _ => {}
    }
    all.push(here);
}

#[test]
fn a_pod_without_a_node_is_failed_from_its_fifteenth_second() {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "creationTimestamp": "2026-05-01T12:00:00Z"},
        "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node fits"},
        ]},
    });
    assert_eq!(of(&pod, at("2026-05-01T12:00:14.999Z")).state, State::InProgress);
    assert_eq!(of(&pod, at("2026-05-01T12:00:15Z")).state, State::Failed);
    // A clock that is behind the API server's is no reason to panic or to give up on the pod.
    assert_eq!(of(&pod, at("2026-05-01T11:00:00Z")).state, State::InProgress);
}

#[test]
fn a_deployment_over_quota_carries_the_refusal() {
    let refusal = r#"pods "web-1" is forbidden: exceeded quota: team"#;
    let mut deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 2},
        "status": {"conditions": [
            {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": refusal},
        ]},
    });
    let health = of(&deployment, Timestamp::UNIX_EPOCH);
    assert_eq!((health.state, health.reason()), (State::InProgress, "FailedCreate"));
    assert_eq!(health.sentence_about("Deployment shop/web"), format!("{refusal} (Deployment shop/web)"));

    let late =
        json!({"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "late"});
    deployment["status"]["conditions"].as_array_mut().expect("a list").push(late);
    let health = of(&deployment, Timestamp::UNIX_EPOCH);
    assert_eq!((health.state, health.reason()), (State::Failed, "FailedCreate"));
    assert_eq!(health.sentence(), refusal);
}

#[test]
fn a_job_says_what_it_waits_for() {
    let job = |spec: Value, status: Value| {
        let object = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": spec, "status": status});
        of(&object, Timestamp::UNIX_EPOCH).sentence()
    };
    assert_eq!(job(json!({}), json!({"startTime": "2026-05-01T12:00:00Z", "active": 1})), "Job in progress");
    assert_eq!(job(json!({}), json!({})), "Job not started");
    assert_eq!(job(json!({"suspend": true}), json!({})), "Job is suspended");
}

#[test]
fn a_cause_explains_a_verdict_and_leaves_it_as_it_was() {
    let health = Health::in_progress("RemovingReplicas", "1 replica still to be removed");
    let cause = Cause { pod: "web-1".to_owned(), ..Cause::of_object("Unschedulable", "cannot be scheduled") };
    let explained = health.clone().because(cause.clone());
    assert_eq!((explained.state, explained.reason()), (health.state, "Unschedulable"));
    // The count may be about other pods than the cause.
    assert_eq!(explained.sentence(), "cannot be scheduled (pod web-1)");
    assert_eq!(explained.sentence_about("Deployment shop/web"), "cannot be scheduled (pod web-1, Deployment shop/web)");
    assert_eq!(health.sentence_about("Deployment shop/web"), "Deployment shop/web: 1 replica still to be removed");
    assert_eq!((health.is_degraded(), explained.is_degraded()), (false, true));
    let slow = Cause { is_wait: true, ..Cause::of_object("ContainerCreating", "its containers are not created yet") };
    assert!(!health.clone().because(slow).is_degraded(), "it may just take time");
    let exited = Health::failed("JobFailed", "too often").because(Cause::of_object("Error", "exit code 1 (Error)"));
    assert_eq!((exited.reason(), exited.sentence().as_str()), ("JobFailed", "exit code 1 (Error)"));
    assert_eq!(explained.without_quotes().sentence(), "Unschedulable");
}

#[test]
fn text_is_one_bounded_line_and_never_empty() {
    let health = Health::in_progress("", " \n");
    assert_eq!((health.reason(), health.sentence().as_str()), ("InProgress", "InProgress"));
    let health = Health::failed("Bad", &format!("{}at last", "ä\n\t".repeat(1000)));
    let sentence = health.sentence();
    assert!(sentence.len() <= Health::SENTENCE_LIMIT && sentence.starts_with("ä ä"), "{sentence}");
    assert!(sentence.contains('…') && sentence.ends_with("ä at last"), "{sentence}");
    let cause =
        Cause { pod: "p".repeat(253), container: "c".repeat(63), ..Cause::of_object("Bad", &"ä".repeat(1000)) };
    let sentence = health.because(cause).sentence();
    assert!(sentence.len() <= Health::SENTENCE_LIMIT && sentence.ends_with("p)"), "{sentence}");
}

#[test]
fn a_reason_that_cannot_stand_in_a_condition_is_replaced() {
    for reason in ["two words", "1st", "ö", "", "Very-odd", "x\ny"] {
        assert_eq!(Health::failed(reason, "message").reason(), "Failed", "{reason}");
        assert_eq!(Cause::of_object(reason, "message").reason, "Failed", "{reason}");
    }
    assert_eq!(Health::failed("BackoffLimitExceeded", "").reason(), "BackoffLimitExceeded");
}

#[test]
fn worse_states_are_greater_and_written_as_kstatus_writes_them() {
    use State::{Current, Failed, InProgress, NotFound, Terminating, Unknown};
    let states = [Current, InProgress, Terminating, Unknown, NotFound, Failed];
    assert!(states.is_sorted());
    for state in states {
        assert_eq!(json!(state), json!(state.as_str()));
        assert_eq!(serde_json::from_value::<State>(json!(state.as_str())).ok(), Some(state));
    }
}
