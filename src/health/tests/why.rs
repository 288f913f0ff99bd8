//! What a person is told about pods that are not ready.

use serde_json::{Value, json};

use super::super::{Cause, why};
use super::at;

const NOW: &str = "2026-05-01T12:00:00Z";
const LONG_AGO: &str = "2026-05-01T11:00:00Z";
const JUST_NOW: &str = "2026-05-01T11:59:55Z";

fn ask(pods: &[Value]) -> Option<Cause> {
    why(pods, at(NOW))
}

/// Reason and message of a single pod.
fn told(pod: Value) -> (String, String) {
    ask(&[pod]).map_or_else(Default::default, |cause| (cause.reason, cause.message))
}

fn pod(name: &str, phase: &str, status: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name},
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
        r#"pod web-abc: container "app" cannot pull image "x:y": ImagePullBackOff"#,
    );
    let wrapped = r#"Back-off pulling image "x:y": ErrImagePull: rpc error: code = NotFound desc = x:y: not found"#;
    expect(
        told_of(waiting("ImagePullBackOff", wrapped)),
        "ImagePullBackOff",
        r#"pod web-abc: container "app" cannot pull image "x:y": ImagePullBackOff: x:y: not found"#,
    );
    expect(
        told_of(waiting("InvalidImageName", "invalid reference format")),
        "InvalidImageName",
        r#"pod web-abc: container "app" cannot pull image "x:y": InvalidImageName: invalid reference format"#,
    );
}

#[test]
fn of_a_long_registry_answer_the_end_is_kept() {
    let (_, message) =
        told_of(waiting("ErrImagePull", &format!("{} 401 Unauthorized", "failed to resolve: ".repeat(50))));
    assert!(message.ends_with("401 Unauthorized") && message.len() < 300, "{message}");
}

#[test]
fn a_missing_secret() {
    expect(
        told_of(waiting("CreateContainerConfigError", r#"secret "db" not found"#)),
        "CreateContainerConfigError",
        r#"pod web-abc: container "app" cannot start: CreateContainerConfigError: secret "db" not found"#,
    );
}

#[test]
fn a_container_that_keeps_crashing() {
    let mut container = waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container=app");
    container["lastState"] = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
    expect(
        told_of(container.clone()),
        "CrashLoopBackOff",
        r#"pod web-abc: container "app" keeps exiting: CrashLoopBackOff: exit code 137 (OOMKilled)"#,
    );
    container["lastState"] = json!({"terminated": {"exitCode": 1, "reason": "Error", "message": "no\ndatabase"}});
    expect(
        told_of(container),
        "CrashLoopBackOff",
        r#"pod web-abc: container "app" keeps exiting: CrashLoopBackOff: exit code 1 (Error): no database"#,
    );
}

#[test]
fn a_container_between_two_crashes() {
    let ended = json!({"exitCode": 1, "reason": "Error"});
    expect(
        told_of(json!({"name": "app", "state": {"terminated": ended.clone()}})),
        "Error",
        r#"pod web-abc: container "app" ended with exit code 1 (Error)"#,
    );
    let mut container = running(JUST_NOW);
    container["lastState"] = json!({"terminated": ended});
    expect(told_of(container), "Error", r#"pod web-abc: container "app" was restarted after exit code 1 (Error)"#);
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
        r#"pod web-abc: init container "migrate" keeps exiting: CrashLoopBackOff: exit code 3 (Error)"#,
    );
    let status = json!({"containerStatuses": [blocked], "initContainerStatuses": [running(LONG_AGO)]});
    expect(
        told(pod("web-abc", "Pending", status)),
        "InitContainerRunning",
        r#"pod web-abc: init container "app" is still running"#,
    );
    let status = json!({"containerStatuses": [blocked], "initContainerStatuses": [running(JUST_NOW)]});
    assert_eq!(ask(&[pod("web-abc", "Pending", status)]), None, "an init container may take its time");
}

#[test]
fn a_sidecar_is_judged_as_a_container() {
    let mut pod = pod("web-abc", "Running", json!({"initContainerStatuses": [running(LONG_AGO)]}));
    pod["spec"]["initContainers"] = json!([{"name": "app", "restartPolicy": "Always"}]);
    let message = r#"pod web-abc: container "app" runs but does not pass its readiness probe"#;
    expect(told(pod), "ReadinessProbeFailing", message);
}

#[test]
fn a_probe_that_fails_for_a_while() {
    assert_eq!(told_of(running(JUST_NOW)), Default::default(), "start-up takes a moment");
    expect(
        told_of(running(LONG_AGO)),
        "ReadinessProbeFailing",
        r#"pod web-abc: container "app" runs but does not pass its readiness probe"#,
    );
    let mut container = running(LONG_AGO);
    container["started"] = json!(false);
    expect(
        told_of(container),
        "StartupProbeFailing",
        r#"pod web-abc: container "app" runs but does not pass its startup probe"#,
    );
}

#[test]
fn a_readiness_gate() {
    let mut container = running(LONG_AGO);
    container["ready"] = json!(true);
    let gate =
        json!({"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady", "message": "lb is False"});
    let status = json!({"containerStatuses": [container], "conditions": [gate]});
    let message = "pod web-abc: a readiness gate is closed: lb is False";
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
        "pod web-abc: cannot be scheduled: Unschedulable: 0/3 nodes are available: 3 Insufficient cpu.",
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
        "pod db-0: its containers are not created yet, it may wait for volume claim \"data-db-0\" or Secret \"tls\" \
         or its network",
    );
    pod["status"]["conditions"] = json!([{"type": "PodReadyToStartContainers", "status": "True"}]);
    expect(
        told(pod.clone()),
        "ContainerCreating",
        "pod db-0: its containers are not created yet, it may wait for images to be pulled",
    );
    pod["status"]["startTime"] = json!(JUST_NOW);
    assert_eq!(ask(&[pod]), None, "start-up takes a moment");
}

#[test]
fn a_node_that_is_lost() {
    let message = r#"pod web-abc: its node "n1" does not answer: NodeLost"#;
    expect(told(pod("web-abc", "Running", json!({"reason": "NodeLost"}))), "NodeLost", message);
    expect(told(pod("web-abc", "Unknown", json!({}))), "NodeLost", message);
    // The node controller marks pods of a silent node as not ready; their containers still claim to be.
    let mut container = running(LONG_AGO);
    container["ready"] = json!(true);
    let message = r#"pod web-abc: its node "n1" does not answer: NodeNotReady"#;
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
        "pod web-abc: failed: Evicted: The node was low on resource: memory.",
    );
}

#[test]
fn a_pod_of_a_job_that_failed() {
    let ended =
        json!({"name": "migrate", "state": {"terminated": {"exitCode": 2, "reason": "Error", "message": "no table"}}});
    expect(
        told(pod("migrate-1", "Failed", json!({"containerStatuses": [ended]}))),
        "Error",
        r#"pod migrate-1: container "migrate" ended with exit code 2 (Error): no table"#,
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
        "pod db-0: is terminating beyond its grace period; its node \"n1\" may not answer, or a finalizer holds it",
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
    let named = |pods: &[Value]| ask(pods).map(|cause| cause.message).unwrap_or_default();
    assert!(named(&pods).starts_with("pod c: "), "{}", named(&pods));
    // A pod that is evicted is replaced; what its replacement lacks is the news.
    assert!(named(&[evicted, slow]).starts_with("pod b: "));
}

#[test]
fn within_a_pod_the_worst_container_is_named() {
    let slow = running(LONG_AGO);
    let mut broken = waiting("ErrImagePull", "");
    broken["name"] = json!("proxy");
    let (_, message) = told(pod("web-abc", "Running", json!({"containerStatuses": [slow, broken]})));
    assert_eq!(message, r#"pod web-abc: container "proxy" cannot pull image "x:y": ErrImagePull"#);
}
