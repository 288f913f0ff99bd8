//! What a person is told about pods that are not ready.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::super::{Cause, has_started, unexplained, why};
use super::at;

const NOW: &str = "2026-05-01T12:00:00Z";
const LONG_AGO: &str = "2026-05-01T11:00:00Z";
const JUST_NOW: &str = "2026-05-01T11:59:55Z";
const A_MOMENT_AGO: &str = "2026-05-01T11:59:45Z";

fn ask(pods: &[Value]) -> Option<Cause> {
    why(&Value::Null, pods, &[], at(NOW))
}

/// Reason and sentence of a single pod.
fn told(pod: Value) -> (String, String) {
    told_with(pod, &[])
}

/// The same with Events about it.
fn told_with(pod: Value, events: &[Value]) -> (String, String) {
    let cause = why(&Value::Null, &[pod], events, at(NOW));
    cause.map_or_else(Default::default, |cause| (cause.reason.clone(), cause.sentence()))
}

/// A Warning about the pod `name`, or about a container of it.
fn event(name: &str, path: &str, reason: &str, note: &str, times: i64) -> Value {
    json!({
        "type": "Warning", "reason": reason, "note": note, "deprecatedCount": times, "deprecatedLastTimestamp": NOW,
        "regarding": {"kind": "Pod", "name": name, "uid": uid(name), "fieldPath": path},
    })
}

fn uid(name: &str) -> String {
    format!("uid-of-{name}")
}

fn unhealthy(note: &str, times: i64) -> Value {
    event("web-abc", "spec.containers{app}", "Unhealthy", note, times)
}

fn pod(name: &str, phase: &str, status: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "uid": uid(name), "creationTimestamp": LONG_AGO},
        "spec": {"nodeName": "n1"},
        "status": {"phase": phase, "startTime": LONG_AGO, "conditions": [{"type": "Ready", "status": "False"}]},
    });
    for (key, value) in status.as_object().into_iter().flatten() {
        pod["status"][key] = value.clone();
    }
    pod
}

fn waiting(reason: &str, message: &str) -> Value {
    json!({"name": "app", "image": "x:y", "ready": false, "state": {"waiting": {"reason": reason, "message": message}}})
}

fn running(since: &str) -> Value {
    json!({"name": "app", "image": "x:y", "ready": false, "started": true, "state": {"running": {"startedAt": since}}})
}

/// What is said of a pod whose one container is in this state.
fn told_of(container: Value) -> (String, String) {
    told(pod("web-abc", "Running", json!({"containerStatuses": [container]})))
}

fn expect(told: (String, String), reason: &str, message: &str) {
    assert_eq!((told.0.as_str(), told.1.as_str()), (reason, message));
}

#[test]
fn an_image_that_cannot_be_pulled() {
    expect(
        told_of(waiting("ImagePullBackOff", r#"Back-off pulling image "x:y""#)),
        "ImagePullBackOff",
        r#"cannot pull image "x:y" (container "app" of pod web-abc)"#,
    );
    let wrapped = r#"Back-off pulling image "x:y": ErrImagePull: rpc error: code = NotFound desc = x:y: not found"#;
    expect(
        told_of(waiting("ImagePullBackOff", wrapped)),
        "ImagePullBackOff",
        r#"cannot pull image "x:y": x:y: not found (container "app" of pod web-abc)"#,
    );
    // The kubelet goes back and forth between the two, and it is one cause.
    expect(
        told_of(waiting("ErrImagePull", "rpc error: code = NotFound desc = x:y: not found")),
        "ImagePullBackOff",
        r#"cannot pull image "x:y": x:y: not found (container "app" of pod web-abc)"#,
    );
    expect(
        told_of(waiting("InvalidImageName", "invalid reference format")),
        "InvalidImageName",
        r#"cannot pull image "x:y": invalid reference format (container "app" of pod web-abc)"#,
    );
}

#[test]
fn of_a_long_registry_answer_both_ends_are_kept() {
    let answer = format!("failed to pull and unpack image: {} 401 Unauthorized", "failed to resolve: ".repeat(50));
    let cause = ask(&[pod("w", "Pending", json!({"containerStatuses": [waiting("ErrImagePull", &answer)]}))]).unwrap();
    let message = cause.message;
    assert!(message.starts_with("cannot pull image \"x:y\": failed to pull and unpack image"), "{message}");
    assert!(message.ends_with("401 Unauthorized") && message.len() < 400, "{message}");
}

#[test]
fn a_missing_secret() {
    expect(
        told_of(waiting("CreateContainerConfigError", r#"secret "db" not found"#)),
        "CreateContainerConfigError",
        r#"cannot start: secret "db" not found (container "app" of pod web-abc)"#,
    );
}

#[test]
fn a_container_that_keeps_crashing() {
    let mut container = waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container=app");
    container["lastState"] = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
    expect(told_of(container.clone()), "OOMKilled", r#"exit code 137 (OOMKilled) (container "app" of pod web-abc)"#);
    container["lastState"] = json!({"terminated": {"exitCode": 1, "reason": "Error", "message": "no\ndatabase"}});
    expect(
        told_of(container),
        "CrashLoopBackOff",
        r#"exit code 1 (Error): no database (container "app" of pod web-abc)"#,
    );
}

#[test]
fn a_container_between_two_crashes_is_told_in_the_same_words() {
    let ended = json!({"exitCode": 1, "reason": "Error"});
    let sentence = r#"exit code 1 (Error) (container "app" of pod web-abc)"#;
    expect(told_of(json!({"name": "app", "state": {"terminated": ended}})), "Error", sentence);
    let again = json!({"name": "app", "state": {"terminated": ended}, "lastState": {"terminated": ended}});
    expect(told_of(again), "CrashLoopBackOff", sentence);
    let mut container = running(JUST_NOW);
    container["lastState"] = json!({"terminated": ended});
    expect(told_of(container.clone()), "CrashLoopBackOff", sentence);
    container["state"]["running"]["startedAt"] = json!(LONG_AGO);
    assert_eq!(told_of(container).0, "ReadinessProbeFailed", "the crash was an hour ago");
}

#[test]
fn a_command_that_is_missing() {
    let words = r#"failed to create containerd task: exec: "sh": executable file not found in $PATH: unknown"#;
    let ended = json!({"terminated": {"exitCode": 128, "reason": "StartError", "message": words}});
    let sentence = format!(r#"cannot start: {words} (container "app" of pod web-abc)"#);
    for (state, reason) in [("RunContainerError", "failed to start container \"4f\""), ("CrashLoopBackOff", "back-off")]
    {
        let mut container = waiting(state, reason);
        container["lastState"] = ended.clone();
        expect(told_of(container), "StartError", &sentence);
    }
    let container = json!({"name": "app", "state": ended});
    expect(told(pod("web-abc", "Failed", json!({"containerStatuses": [container]}))), "StartError", &sentence);
}

#[test]
fn the_end_of_a_log_is_not_told() {
    let ended = |reason: &str| json!({"exitCode": 1, "reason": reason, "message": "the password is hunter2"});
    let with = |reason: &str, policy: &str| {
        let container = json!({"name": "app", "state": {"terminated": ended(reason)}});
        let mut pod = pod("web-abc", "Failed", json!({"containerStatuses": [container]}));
        pod["spec"]["containers"] = json!([{"name": "app", "terminationMessagePolicy": policy}]);
        told(pod).1
    };
    assert!(with("Error", "File").contains("hunter2"), "the container wrote it to be told");
    assert!(!with("Error", "FallbackToLogsOnError").contains("hunter2"), "it may be a log");
    assert!(with("StartError", "FallbackToLogsOnError").contains("hunter2"), "it never ran, so it has no log");
}

#[test]
fn an_init_container_that_fails_or_takes_long() {
    let blocked = waiting("PodInitializing", "");
    let mut init = waiting("CrashLoopBackOff", "");
    init["name"] = json!("migrate");
    init["lastState"] = json!({"terminated": {"exitCode": 3}});
    let status = json!({"containerStatuses": [blocked], "initContainerStatuses": [init]});
    expect(
        told(pod("web-abc", "Pending", status)),
        "CrashLoopBackOff",
        r#"exit code 3 (Error) (init container "migrate" of pod web-abc)"#,
    );
    let status = json!({"containerStatuses": [blocked], "initContainerStatuses": [running(LONG_AGO)]});
    expect(
        told(pod("web-abc", "Pending", status)),
        "InitContainerRunning",
        r#"is still running (init container "app" of pod web-abc)"#,
    );
    let status = json!({"containerStatuses": [blocked], "initContainerStatuses": [running(JUST_NOW)]});
    assert_eq!(ask(&[pod("web-abc", "Pending", status)]), None, "an init container may take its time");
}

#[test]
fn a_sidecar_is_judged_as_a_container() {
    let mut pod = pod("web-abc", "Running", json!({"initContainerStatuses": [running(LONG_AGO)]}));
    pod["spec"]["initContainers"] = json!([{"name": "app", "restartPolicy": "Always"}]);
    let sentence = r#"has not passed its readiness probe yet (container "app" of pod web-abc)"#;
    expect(told(pod), "ReadinessProbeFailed", sentence);
}

#[test]
fn a_probe_that_fails_for_a_while() {
    assert_eq!(told_of(running(JUST_NOW)), Default::default(), "start-up takes a moment");
    expect(
        told_of(running(LONG_AGO)),
        "ReadinessProbeFailed",
        r#"has not passed its readiness probe yet (container "app" of pod web-abc)"#,
    );
    let mut container = running(LONG_AGO);
    container["started"] = json!(false);
    expect(
        told_of(container),
        "StartupProbeFailed",
        r#"has not passed its startup probe yet (container "app" of pod web-abc)"#,
    );
}

#[test]
fn an_event_tells_why_a_probe_fails() {
    let note = "Readiness probe failed: HTTP probe failed with statuscode: 404";
    let slow = |since: &str| pod("web-abc", "Running", json!({"containerStatuses": [running(since)]}));
    let sentence = r#"readiness probe failed: HTTP probe failed with statuscode: 404 (container "app" of pod web-abc)"#;
    expect(told_with(slow(LONG_AGO), &[unhealthy(note, 1)]), "ReadinessProbeFailed", sentence);
    // As often as the pod itself says, or three times, is no start-up any more.
    expect(told_with(slow(JUST_NOW), &[unhealthy(note, 3)]), "ReadinessProbeFailed", sentence);
    assert_eq!(told_with(slow(JUST_NOW), &[unhealthy(note, 2)]), Default::default());
    let mut patient = slow(JUST_NOW);
    patient["spec"]["containers"] = json!([{"name": "app", "readinessProbe": {"failureThreshold": 5}}]);
    assert_eq!(told_with(patient, &[unhealthy(note, 4)]), Default::default());
    // Others are about another container, another pod of this name, another probe, or a run before this one.
    let other = |pointer: &str, value: Value| {
        let mut event = unhealthy(note, 9);
        *event.pointer_mut(pointer).unwrap() = value;
        told_with(slow(JUST_NOW), &[event])
    };
    assert_eq!(other("/note", json!("Liveness probe failed: x")), Default::default());
    assert_eq!(other("/regarding/uid", json!("another")), Default::default());
    assert_eq!(other("/regarding/fieldPath", json!("spec.containers{side}")), Default::default());
    assert_eq!(other("/deprecatedLastTimestamp", json!(LONG_AGO)), Default::default());
    assert_eq!(other("/type", json!("Normal")), Default::default());
}

#[test]
fn a_liveness_probe_that_fails_is_why_a_container_restarts() {
    let mut container = waiting("CrashLoopBackOff", "");
    container["lastState"] = json!({"terminated": {"exitCode": 137, "reason": "Error", "startedAt": LONG_AGO}});
    let status = json!({"containerStatuses": [container]});
    let event = unhealthy("Liveness probe failed: dial tcp 10.0.0.1:80: connection refused", 3);
    expect(
        told_with(pod("web-abc", "Running", status), &[event.clone()]),
        "LivenessProbeFailed",
        r#"liveness probe failed: dial tcp 10.0.0.1:80: connection refused (container "app" of pod web-abc)"#,
    );
    container["lastState"]["terminated"]["reason"] = json!("OOMKilled");
    let status = json!({"containerStatuses": [container]});
    assert_eq!(told_with(pod("web-abc", "Running", status), &[event]).0, "OOMKilled");
}

#[test]
fn a_readiness_gate() {
    let mut container = running(LONG_AGO);
    container["ready"] = json!(true);
    let gate =
        json!({"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady", "message": "lb is False"});
    let status = json!({"containerStatuses": [container], "conditions": [gate]});
    let message = "a readiness gate is closed: lb is False (pod web-abc)";
    expect(told(pod("web-abc", "Running", status)), "ReadinessGatesNotReady", message);
}

#[test]
fn a_pod_without_a_node() {
    let refused = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient cpu.",
    });
    expect(
        told(pod("web-abc", "Pending", json!({"conditions": [refused]}))),
        "Unschedulable",
        "cannot be scheduled: 0/3 nodes are available: 3 Insufficient cpu. (pod web-abc)",
    );
    let mut free = pod("web-abc", "Pending", json!({}));
    free["spec"] = json!({});
    let failure = event("web-abc", "", "FailedScheduling", "no nodes available to schedule pods", 1);
    expect(
        told_with(free, &[failure]),
        "Unschedulable",
        "cannot be scheduled: no nodes available to schedule pods (pod web-abc)",
    );
}

#[test]
fn a_pod_that_waits_for_a_volume() {
    let mut pod = pod("db-0", "Pending", json!({"containerStatuses": [waiting("ContainerCreating", "")]}));
    pod["spec"]["volumes"] = json!([
        {"persistentVolumeClaim": {"claimName": "data-db-0"}},
        {"configMap": {"name": "extra", "optional": true}},
        {"secret": {"secretName": "tls"}},
    ]);
    expect(
        told(pod.clone()),
        "ContainerCreating",
        "its containers are not created yet, it may wait for volume claim \"data-db-0\" or Secret \"tls\" \
         or its network (pod db-0)",
    );
    pod["status"]["conditions"] = json!([{"type": "PodReadyToStartContainers", "status": "True"}]);
    expect(
        told(pod.clone()),
        "ContainerCreating",
        "its containers are not created yet, it may wait for images to be pulled (pod db-0)",
    );
    pod["status"]["startTime"] = json!(JUST_NOW);
    assert_eq!(ask(&[pod]), None, "start-up takes a moment");
}

#[test]
fn an_event_tells_why_containers_are_not_created() {
    let creating = |since: &str| json!({"containerStatuses": [waiting("ContainerCreating", "")], "startTime": since});
    let mount = r#"MountVolume.SetUp failed for volume "tls" : secret "tls" not found"#;
    let sum = "Unable to attach or mount volumes: unmounted volumes=[tls]: timed out waiting for the condition";
    let events = [event("db-0", "", "FailedMount", mount, 2), event("db-0", "", "FailedMount", sum, 1)];
    let sentence = format!("{mount} (pod db-0)");
    expect(told_with(pod("db-0", "Pending", creating(A_MOMENT_AGO)), &events), "FailedMount", &sentence);
    assert_eq!(told_with(pod("db-0", "Pending", creating(JUST_NOW)), &events), Default::default(), "caches fill");
    let sandbox = "Failed to create pod sandbox: rpc error: code = Unknown desc = container init was OOM-killed";
    let events = [event("db-0", "", "FailedCreatePodSandBox", sandbox, 1)];
    let sentence = format!("{sandbox} (pod db-0)");
    expect(told_with(pod("db-0", "Pending", creating(A_MOMENT_AGO)), &events), "FailedCreatePodSandBox", &sentence);
}

#[test]
fn pods_that_cannot_be_created_are_told_by_events_about_their_workload() {
    let workload = |kind: &str, spec: Value, status: Value| {
        let group = if kind == "Job" { "batch/v1" } else { "apps/v1" };
        json!({"apiVersion": group, "kind": kind, "metadata": {"name": "db", "uid": uid("db")}, "spec": spec, "status": status})
    };
    let refusal = r#"pods "db-0" is forbidden: exceeded quota: team"#;
    let sets = workload("StatefulSet", json!({"replicas": 1}), json!({}));
    let note = format!("create Pod db-0 in StatefulSet db failed error: {refusal}");
    let events = [event("db", "", "FailedCreate", &note, 4)];
    let told = |workload: &Value, pods: &[Value], events: &[Value]| {
        why(workload, pods, events, at(NOW)).map(|cause| (cause.reason.clone(), cause.sentence())).unwrap_or_default()
    };
    expect(told(&sets, &[], &events), "FailedCreate", refusal);
    assert_eq!(unexplained(&sets, &[], at(NOW)), [uid("db")]);
    let ready = pod("db-0", "Running", json!({"conditions": [{"type": "Ready", "status": "True"}]}));
    assert_eq!(told(&sets, std::slice::from_ref(&ready), &events), Default::default(), "the pod was created after all");
    assert_eq!(unexplained(&sets, &[ready], at(NOW)), [""; 0]);
    let note = format!("Error creating: {refusal}");
    let events = [event("db", "", "FailedCreate", &note, 4)];
    for other in [
        workload("DaemonSet", json!({}), json!({"desiredNumberScheduled": 1})),
        workload("Job", json!({}), json!({})),
        workload("ReplicaSet", json!({"replicas": 1}), json!({})),
    ] {
        expect(told(&other, &[], &events), "FailedCreate", refusal);
    }
    let deployment = workload("Deployment", json!({"replicas": 1}), json!({}));
    assert_eq!(unexplained(&deployment, &[], at(NOW)), [""; 0], "it says so itself");
}

#[test]
fn what_may_just_take_time_is_no_trouble() {
    let is_wait = |container: Value, events: &[Value]| {
        let pod = pod("web-abc", "Running", json!({"containerStatuses": [container]}));
        why(&Value::Null, &[pod], events, at(NOW)).map(|cause| cause.is_wait)
    };
    assert_eq!(is_wait(waiting("ContainerCreating", ""), &[]), Some(true), "a large image");
    assert_eq!(is_wait(running(LONG_AGO), &[]), Some(true), "a probe that begins late");
    assert_eq!(is_wait(running(LONG_AGO), &[unhealthy("Readiness probe failed: 404", 1)]), Some(false));
    assert_eq!(is_wait(waiting("ImagePullBackOff", ""), &[]), Some(false));
}

#[test]
fn events_are_asked_for_only_where_they_may_tell_more() {
    let asked = |pods: &[Value]| unexplained(&Value::Null, pods, at(NOW));
    let with = |container: Value| pod("web-abc", "Running", json!({"containerStatuses": [container]}));
    assert_eq!(asked(&[with(running(JUST_NOW))]), [uid("web-abc")], "a probe may fail");
    assert_eq!(asked(&[with(waiting("CrashLoopBackOff", ""))]), [uid("web-abc")], "a liveness probe may be behind it");
    assert_eq!(asked(&[with(waiting("ContainerCreating", ""))]), [uid("web-abc")]);
    let mut young = with(waiting("ContainerCreating", ""));
    young["metadata"]["creationTimestamp"] = json!(JUST_NOW);
    assert_eq!(asked(&[young]), [""; 0], "it is too early to tell");
    assert_eq!(asked(&[with(waiting("ImagePullBackOff", ""))]), [""; 0], "the status says it");
    let ready = pod("web-abc", "Running", json!({"conditions": [{"type": "Ready", "status": "True"}]}));
    assert_eq!(asked(&[ready, pod("done", "Succeeded", json!({}))]), [""; 0]);
    let many: Vec<Value> = (0..9)
        .map(|number| pod(&format!("web-{number}"), "Running", json!({"containerStatuses": [running(LONG_AGO)]})))
        .collect();
    assert_eq!(asked(&many).len(), 3);
}

#[test]
fn a_pod_of_an_earlier_template_is_no_cause_while_the_newest_start() {
    let of = |name: &str, hash: &str, created: &str, container: Value| {
        let mut pod = pod(name, "Running", json!({"containerStatuses": [container]}));
        pod["metadata"]["labels"] = json!({"pod-template-hash": hash});
        pod["metadata"]["creationTimestamp"] = json!(created);
        pod
    };
    let broken = of("a", "1", LONG_AGO, waiting("ImagePullBackOff", ""));
    let starting = of("b", "2", JUST_NOW, running(JUST_NOW));
    assert_eq!(ask(&[broken.clone(), starting.clone()]), None, "the tag was corrected");
    let mut ready = starting;
    ready["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    assert_eq!(ask(&[broken.clone(), ready]).map(|cause| cause.pod), Some("a".to_owned()), "it does not go");
    let crashing = of("b", "2", JUST_NOW, waiting("CrashLoopBackOff", ""));
    assert_eq!(ask(&[broken, crashing]).map(|cause| cause.pod), Some("b".to_owned()), "it is worse, but old");
}

#[test]
fn a_pod_has_started_once_a_container_ran() {
    let with = |phase: &str, container: Value| has_started(&pod("a", phase, json!({"containerStatuses": [container]})));
    for not_yet in [
        waiting("ImagePullBackOff", ""),
        waiting("CreateContainerConfigError", ""),
        waiting("ContainerCreating", ""),
        json!({"name": "app", "started": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 128, "reason": "StartError"}}}),
    ] {
        assert!(!with("Pending", not_yet.clone()), "{not_yet}");
    }
    assert!(!has_started(&pod("a", "Pending", json!({}))), "no node has it");
    assert!(!has_started(&pod("a", "Failed", json!({"reason": "UnexpectedAdmissionError"}))));
    for started in [
        running(JUST_NOW),
        json!({"name": "app", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}),
        json!({"name": "app", "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}),
        json!({"name": "app", "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 128, "reason": "StartError"}}}),
    ] {
        assert!(with("Pending", started.clone()), "{started}");
    }
    assert!(has_started(&pod("a", "Running", json!({}))), "in doubt it has");
    let init =
        json!({"initContainerStatuses": [running(JUST_NOW)], "containerStatuses": [waiting("PodInitializing", "")]});
    assert!(has_started(&pod("a", "Pending", init)), "an init container is one");
}

#[test]
fn a_node_that_is_lost() {
    let message = r#"its node "n1" does not answer (pod web-abc)"#;
    expect(told(pod("web-abc", "Running", json!({"reason": "NodeLost"}))), "NodeLost", message);
    expect(told(pod("web-abc", "Unknown", json!({}))), "NodeLost", message);
    // The node controller marks pods of a silent node as not ready; their containers still claim to be.
    let mut container = running(LONG_AGO);
    container["ready"] = json!(true);
    expect(told_of(container.clone()), "NodeNotReady", message);
    // A sidecar that is still starting keeps a pod from being ready as well.
    let status = json!({"containerStatuses": [container], "initContainerStatuses": [running(JUST_NOW)]});
    let mut pod = pod("web-abc", "Running", status);
    pod["spec"]["initContainers"] = json!([{"name": "app", "restartPolicy": "Always"}]);
    assert_eq!(ask(&[pod]), None);
}

#[test]
fn a_pod_that_was_evicted() {
    let status = json!({"reason": "Evicted", "message": "The node was low on resource: memory."});
    expect(
        told(pod("web-abc", "Failed", status)),
        "Evicted",
        "failed: Evicted: The node was low on resource: memory. (pod web-abc)",
    );
}

#[test]
fn a_pod_of_a_job_that_failed() {
    let ended =
        json!({"name": "migrate", "state": {"terminated": {"exitCode": 2, "reason": "Error", "message": "no table"}}});
    expect(
        told(pod("migrate-1", "Failed", json!({"containerStatuses": [ended]}))),
        "Error",
        r#"exit code 2 (Error): no table (container "migrate" of pod migrate-1)"#,
    );
}

#[test]
fn a_pod_that_does_not_go_away() {
    let mut pod = pod("db-0", "Running", json!({}));
    pod["metadata"]["deletionTimestamp"] = json!(JUST_NOW);
    assert_eq!(ask(std::slice::from_ref(&pod)), None, "it may still go");
    pod["metadata"]["deletionTimestamp"] = json!(LONG_AGO);
    expect(
        told(pod),
        "Terminating",
        "is terminating beyond its grace period; its node \"n1\" may not answer, or a finalizer holds it (pod db-0)",
    );
}

#[test]
fn healthy_and_finished_pods_are_no_cause() {
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    assert_eq!(ask(&[pod("a", "Running", ready), pod("b", "Succeeded", json!({})), json!({}), json!(null)]), None);
    assert_eq!(ask(&[]), None);
}

#[test]
fn the_worst_pod_is_named_and_among_equals_the_first_by_name() {
    let evicted = pod("a", "Failed", json!({"reason": "Evicted"}));
    let slow = pod("b", "Running", json!({"containerStatuses": [running(LONG_AGO)]}));
    let broken = |name| pod(name, "Pending", json!({"containerStatuses": [waiting("ErrImagePull", "")]}));
    let pods = [evicted.clone(), slow.clone(), broken("d"), broken("c")];
    let named = |pods: &[Value]| ask(pods).map(|cause| cause.pod).unwrap_or_default();
    assert_eq!(named(&pods), "c");
    // A pod that is evicted is replaced; what its replacement lacks is the news.
    assert_eq!(named(&[evicted, slow]), "b");
}

#[test]
fn within_a_pod_the_worst_container_is_named() {
    let slow = running(LONG_AGO);
    let mut broken = waiting("ErrImagePull", "");
    broken["name"] = json!("proxy");
    let (_, message) = told(pod("web-abc", "Running", json!({"containerStatuses": [slow, broken]})));
    assert_eq!(message, r#"cannot pull image "x:y" (container "proxy" of pod web-abc)"#);
}

/// What the status of a container may be.
fn any_container() -> impl Strategy<Value = Value> {
    let ended = |reason: &str, code: i64| json!({"exitCode": code, "reason": reason, "startedAt": LONG_AGO});
    let states = vec![
        waiting("ContainerCreating", ""),
        waiting("PodInitializing", ""),
        waiting("ImagePullBackOff", "Back-off pulling image"),
        waiting("CreateContainerConfigError", "no such key"),
        waiting("CrashLoopBackOff", ""),
        running(JUST_NOW),
        running(A_MOMENT_AGO),
        running(LONG_AGO),
        json!({"name": "app", "state": {"terminated": ended("Error", 1)}}),
        json!({"name": "app", "state": {"terminated": ended("Completed", 0)}}),
    ];
    let endings = vec![Value::Null, ended("Error", 1), ended("OOMKilled", 137), ended("StartError", 128)];
    (select(states), select(endings), any::<bool>(), any::<bool>()).prop_map(|(state, last, ready, started)| {
        let mut status = state;
        status["lastState"] = json!({"terminated": last});
        status["ready"] = json!(ready && status["state"]["running"].is_object());
        status["started"] = json!(started);
        status
    })
}

fn any_pod(name: String) -> impl Strategy<Value = Value> {
    let phases = vec!["Pending", "Running", "Failed", "Succeeded", "Unknown", ""];
    let times = vec![LONG_AGO, A_MOMENT_AGO, JUST_NOW];
    let ready = json!({"type": "Ready", "status": "True"});
    let gate = json!({"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady"});
    let refused = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"});
    let conditions = vec![json!([]), json!([ready]), json!([gate]), json!([refused])];
    let containers = proptest::collection::vec(any_container(), 0..3);
    let parts = (select(phases), select(times.clone()), select(times), containers, any_container());
    (parts, select(conditions), select(vec!["1", "2"]), any::<bool>(), any::<bool>()).prop_map(
        move |((phase, created, start, containers, init), conditions, template, has_init, has_node)| {
            let mut pod = pod(&name, phase, json!({"containerStatuses": containers, "conditions": conditions}));
            pod["metadata"]["creationTimestamp"] = json!(created);
            pod["metadata"]["labels"] = json!({"pod-template-hash": template});
            pod["status"]["startTime"] = json!(start.max(created));
            if has_init {
                pod["status"]["initContainerStatuses"] = json!([init]);
            }
            if !has_node {
                pod["spec"] = json!({});
            }
            pod
        },
    )
}

fn any_event() -> impl Strategy<Value = Value> {
    let notes = vec![
        ("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 404"),
        ("Unhealthy", "Liveness probe failed: refused"),
        ("Unhealthy", "Startup probe errored and resulted in unknown state: gone"),
        ("FailedMount", "MountVolume.SetUp failed"),
        ("FailedCreatePodSandBox", "Failed to create pod sandbox"),
        ("FailedScheduling", "0/1 nodes are available"),
        ("FailedCreate", "Error creating: exceeded quota"),
        ("Odd", "\u{1b}\n"),
    ];
    let paths = select(vec!["", "spec.containers{app}", "spec.initContainers{app}", "{", "}{"]);
    (select(notes), paths, select(vec!["pod-0", "pod-1", "db"]), 0..5_i64)
        .prop_map(|((reason, note), path, about, times)| event(about, path, reason, note, times))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn events_that_are_not_asked_for_would_change_nothing(
        pods in (any_pod("pod-0".into()), any_pod("pod-1".into())).prop_map(|(a, b)| [a, b]),
        events in proptest::collection::vec(any_event(), 0..6),
        kind in select(vec!["StatefulSet", "Deployment", "Job"]),
        replicas in 0..4_i64,
    ) {
        let group = if kind == "Job" { "batch/v1" } else { "apps/v1" };
        let workload = json!({"apiVersion": group, "kind": kind, "metadata": {"name": "db", "uid": uid("db")}, "spec": {"replicas": replicas}});
        let cause = why(&workload, &pods, &events, at(NOW));
        let asked = unexplained(&workload, &pods, at(NOW));
        let is_asked = |event: &Value| asked.iter().any(|uid| event["regarding"]["uid"] == uid.as_str());
        let read: Vec<Value> = events.iter().filter(|event| is_asked(event)).cloned().collect();
        prop_assert_eq!(&why(&workload, &pods, &read, at(NOW)), &cause, "{:?}", asked);
        if let Some(cause) = cause {
            let sentence = cause.sentence();
            prop_assert!(!cause.message.is_empty() && cause.message.len() <= 360 && !sentence.contains('\n'), "{}", sentence);
            prop_assert!(cause.reason.bytes().all(|b| b.is_ascii_alphanumeric()), "{}", cause.reason);
        }
    }

    #[test]
    fn a_pod_whose_container_has_run_counts_as_started(pod in any_pod("pod-0".into())) {
        let lists = ["containerStatuses", "initContainerStatuses"];
        let ran = lists.iter().flat_map(|list| pod["status"][list].as_array().into_iter().flatten()).any(|status| {
            let ended = |state: &str| status[state]["terminated"].is_object() && status[state]["terminated"]["reason"] != "StartError";
            status["state"]["running"].is_object() || ended("state") || ended("lastState")
        });
        prop_assert!(!ran || has_started(&pod));
    }
}
