//! Of several operators one works, and the next one begins where it ended. Nobody writes after the next one acquired the Lease:
//! the API server's audit log says so, in which each operator is a user of its own.

mod proof;
mod replicas;
mod tenures;

use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::jiff::Timestamp;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::gate::{Gate, Obstacle};
use crate::harness::proxy::{Line, Proxy};
use crate::harness::trouble::{Trouble, Troubled};
use crate::harness::{Project, chance, config, stays, until, within};
use proof::{Plan, pass};
use replicas::{LEASE, QUICK, Replica, holder};
use tenures::judge;

const LIMIT: Duration = Duration::from_secs(20);

/// Edits many custom resources at once.
async fn edit_all(project: &Project, colour: &str) {
    let names = (0..12).map(|n| format!("web-{n}"));
    join_all(names.map(|name| async move {
        project.apply(&name, json!({"objects": [config(&name, colour), config(&format!("{name}-b"), colour)]})).await;
    }))
    .await;
}

async fn all_deployed(project: &Project, colour: &str) {
    for n in 0..12 {
        project.deployed(&format!("web-{n}")).await;
        let map = project.get("v1", "ConfigMap", &format!("web-{n}-b")).await.expect("the ConfigMap is there");
        assert_eq!(map.data["data"]["colour"], colour);
    }
}

#[tokio::test]
async fn a_rolling_update_hands_over_in_no_time() {
    let project = Project::of_objects().await;
    // With the durations that everybody has: only a release can be so quick.
    let mut first = Replica::start(&project, "first", &["--leader-elect"]);
    first.leads().await;
    let second = Replica::start(&project, "second", &["--leader-elect"]);
    second.stands_by().await;
    edit_all(&project, "blue").await;
    all_deployed(&project, "blue").await;
    edit_all(&project, "red").await;
    let told = Timestamp::now();
    first.operator.terminate();
    second.leads().await;
    assert_eq!(first.operator.exit_code(LIMIT).await, Some(0));
    assert!(first.operator.log().contains("released the Lease"));
    all_deployed(&project, "red").await;
    let judged = judge(&project);
    let (took, went_on) = (judged.took_over(&second.user, told), judged.went_on(&second.user, told));
    println!("after SIGTERM the Lease was taken over in {took:?}, and work went on in {went_on:?}");
    assert!(went_on < Duration::from_secs(2), "handed over after {took:?}, work went on after {went_on:?}");
    judged.assert_clean(2);
    let events = project.events(&format!("chartwright.{}", project.resource.group), "LeaderElection").await;
    assert!(events.iter().any(|(_, note)| note.starts_with("second_")), "{events:?}");
}

#[tokio::test]
async fn a_slow_api_server_does_not_hold_up_a_hand_over() {
    let project = Project::of_objects().await;
    let gate = Troubled::start(project.client.clone(), Trouble::Slow(Duration::from_millis(500))).await;
    let start =
        |name| Replica::of(&project, name, project.launch().args(&["--leader-elect"]).replica(name).behind(&gate));
    let mut first = start("first");
    first.leads().await;
    let second = start("second");
    second.stands_by().await;
    let objects: Vec<_> = (0..10).map(|n| config(&format!("web-{n}"), "blue")).collect();
    project.apply("web", json!({"objects": objects})).await;
    // In the middle of a release that takes longer than a hand-over may.
    until("it writes", async || (judge(&project).writes_of(&first.user) > 2).then_some(())).await;
    let told = Timestamp::now();
    first.operator.terminate();
    second.leads().await;
    assert_eq!(first.operator.exit_code(LIMIT).await, Some(0));
    project.deployed("web").await;
    let judged = judge(&project);
    let took = judged.took_over(&second.user, told);
    println!("with 500 ms per call the Lease was taken over in {took:?}");
    // Where a write is still under way after a second, the Lease is not released but grows old, which takes 15 s.
    assert!(took < Duration::from_secs(30), "handed over after {took:?}");
    judged.assert_clean(2);
}

#[tokio::test]
async fn the_lease_of_a_killed_operator_is_taken_when_it_did_not_change_for_its_duration() {
    let project = Project::of_objects().await;
    let first = Replica::start(&project, "first", QUICK);
    first.leads().await;
    let second = Replica::start(&project, "second", QUICK);
    second.stands_by().await;
    edit_all(&project, "blue").await;
    let killed = Timestamp::now();
    first.operator.signal(Signal::KILL);
    second.leads().await;
    all_deployed(&project, "blue").await;
    let judged = judge(&project);
    let took = judged.took_over(&second.user, killed);
    println!("taken over {took:?} after SIGKILL, with a Lease of {LEASE:?}");
    // It was renewed up to half a second before.
    assert!(took > LEASE - Duration::from_secs(1) && took < LEASE * 4, "taken over after {took:?}");
    judged.assert_clean(2);
}

#[tokio::test]
async fn an_operator_that_was_stopped_for_long_writes_nothing_when_it_goes_on() {
    let project = Project::of_objects().await;
    let mut first = Replica::start(&project, "first", QUICK);
    first.leads().await;
    let second = Replica::start(&project, "second", QUICK);
    second.stands_by().await;
    edit_all(&project, "blue").await;
    // It is in the middle of it.
    until("it writes", async || (judge(&project).writes_of(&first.user) > 5).then_some(())).await;
    first.operator.signal(Signal::STOP);
    second.leads().await;
    first.operator.signal(Signal::CONT);
    assert_eq!(first.operator.exit_code(LIMIT).await, Some(1));
    let log = first.operator.log();
    assert!(
        log.lines().any(|line| line.contains("\"level\":\"error\"") && line.contains("does not hold the Lease")),
        "{log}"
    );
    // What it could not write is not the custom resources' fault.
    let blames =
        |line: &str| line.contains("attempts") || line.contains("NotLeading") || line.contains("cannot record");
    assert!(!log.lines().any(blames), "{log}");
    edit_all(&project, "red").await;
    all_deployed(&project, "red").await;
    judge(&project).assert_clean(2);
}

#[tokio::test]
async fn what_a_standby_was_not_told_is_not_undone_by_it() {
    let project = Project::of_objects().await;
    let first = Replica::start(&project, "first", QUICK);
    first.leads().await;
    for name in ["web", "leaves"] {
        project.apply(name, json!({"objects": [config(name, "blue")]})).await;
        project.deployed(name).await;
    }
    let gate = Gate::start(project.client.clone()).await;
    let second = Replica::of(&project, "second", project.launch().args(QUICK).replica("second").before(&gate));
    second.stands_by().await;
    gate.watches(&project.resource.plural).await;
    // From outside nobody sees that it has read what the watch told.
    tokio::time::sleep(Duration::from_millis(500)).await;
    gate.place(Obstacle::Fog(project.resource.plural.clone()));
    project.apply("web", json!({"objects": [config("web", "red")]})).await;
    let record = async |name: &str| project.get("v1", "Secret", &format!("sh.helm.release.v1.{name}")).await;
    until("the leader deploys it", async || record("web.v2").await).await;
    project.deployed("web").await;
    project.delete("leaves").await;
    project.gone("leaves").await;
    first.operator.signal(Signal::KILL);
    second.leads().await;
    stays(Duration::from_secs(2), "nothing is deployed again", async || {
        record("web.v3").await.is_none() && project.get("v1", "ConfigMap", "leaves").await.is_none()
    })
    .await;
    let map = project.get("v1", "ConfigMap", "web").await.expect("the ConfigMap is there");
    assert_eq!(map.data["data"]["colour"], "red");
    gate.place(Obstacle::Nothing);
    project.apply("web", json!({"objects": [config("web", "green")]})).await;
    until("it works", async || record("web.v3").await).await;
}

#[tokio::test]
async fn an_operator_that_cannot_renew_its_lease_ends() {
    let project = Project::of_objects().await;
    let proxy = Proxy::start().await;
    let launch = project.launch().args(QUICK).replica("first").through(&proxy);
    let mut first = Replica::of(&project, "first", launch);
    first.leads().await;
    // It has read its key and its ledger.
    project.apply("web", json!({"objects": []})).await;
    project.told("web", "it is looked at", |status| status["conditions"].as_array().map(|_| ())).await;
    proxy.set(Line::Silent);
    assert_eq!(first.operator.exit_code(LIMIT).await, Some(1));
    let log = first.operator.log();
    assert!(
        log.lines().any(|line| line.contains("\"level\":\"error\"") && line.contains("could not be renewed")),
        "{log}"
    );
}

const POD: &str = "33333333-3333-4333-8333-333333333333";
const OTHER_POD: &str = "44444444-4444-4444-8444-444444444444";

#[tokio::test]
async fn a_container_takes_the_lease_of_the_one_before_it_in_its_pod_at_once() {
    let project = Project::of_objects().await;
    // With the durations that everybody has: the Lease would expire after 15 seconds.
    let args = &["--leader-elect"];
    let first = Replica::in_container(&project, "web-0", POD, "first", args);
    first.leads().await;
    edit_all(&project, "blue").await;
    let killed = Timestamp::now();
    first.operator.signal(Signal::KILL);
    let second = Replica::in_container(&project, "web-0", POD, "second", args);
    second.leads().await;
    all_deployed(&project, "blue").await;
    let judged = judge(&project);
    let took = judged.took_over(&second.user, killed);
    println!("the next container took the Lease after {took:?}");
    assert!(took < Duration::from_secs(8), "taken over after {took:?}");
    let log = second.operator.log();
    assert!(!log.contains("standing by") && log.contains("since this pod held it"), "{log}");
    judged.assert_clean(2);
}

#[tokio::test]
async fn a_lease_is_left_to_every_holder_that_may_live() {
    let project = Project::of_objects().await;
    let first = Replica::in_container(&project, "web-0", POD, "first", QUICK);
    first.leads().await;
    edit_all(&project, "blue").await;
    let others = [
        // A sidecar with the same volume, or a person's `kubectl exec`.
        Replica::in_container(&project, "web-0", POD, "beside", QUICK),
        // A pod of the same name, and one whose volume is a copy.
        Replica::in_container(&project, "web-0", OTHER_POD, "other", QUICK),
        copy_of(&project, "copy"),
    ];
    for other in &others {
        other.stands_by().await;
    }
    let lead = async || others.iter().filter(|it| it.operator.log().contains("acquired the Lease")).count();
    stays(LEASE * 2, "nobody takes the Lease", lead).await;
    all_deployed(&project, "blue").await;
    let killed = Timestamp::now();
    first.operator.signal(Signal::KILL);
    until("another one works", async || (lead().await > 0).then_some(())).await;
    edit_all(&project, "red").await;
    all_deployed(&project, "red").await;
    let judged = judge(&project);
    judged.assert_clean(2);
    let (next, _) = judged.tenures.last().expect("two tenures");
    let took = judged.took_over(next, killed);
    assert!(took > LEASE - Duration::from_secs(1), "taken over after {took:?}");
}

/// A process elsewhere with a pod's environment and a copy of its volume, as tools for developers make it.
fn copy_of(project: &Project, user: &str) -> Replica {
    let [from, to] = [POD, "copy"].map(|name| project.volume(name));
    for file in std::fs::read_dir(from).expect("the volume").flatten().filter(|it| it.path().is_file()) {
        std::fs::copy(file.path(), to.join(file.file_name())).expect("a copy");
    }
    let launch = project.launch().args(QUICK).replica(user).env("POD_NAME", "web-0").in_container(POD);
    Replica::of(project, user, launch.env("TMPDIR", &to.display().to_string()))
}

#[tokio::test]
async fn an_operator_in_a_pod_that_was_stopped_for_long_writes_nothing_and_stands_by() {
    let project = Project::of_objects().await;
    let mut first = Replica::in_container(&project, "web-0", POD, "first", QUICK);
    first.leads().await;
    let second = Replica::in_container(&project, "web-1", OTHER_POD, "second", QUICK);
    second.stands_by().await;
    edit_all(&project, "blue").await;
    until("it writes", async || (judge(&project).writes_of(&first.user) > 5).then_some(())).await;
    first.operator.signal(Signal::STOP);
    second.leads().await;
    first.operator.signal(Signal::CONT);
    first.stands_by().await;
    edit_all(&project, "red").await;
    all_deployed(&project, "red").await;
    assert!(first.operator.runs());
    judge(&project).assert_clean(2);
    // It is as good as a new one.
    second.operator.terminate();
    until("it works again", async || (first.operator.log().matches("acquired the Lease").count() == 2).then_some(()))
        .await;
    edit_all(&project, "green").await;
    all_deployed(&project, "green").await;
    judge(&project).assert_clean(3);
}

#[tokio::test]
async fn without_rights_on_leases_it_says_which_and_waits_for_them() {
    let project = Project::of_objects().await;
    let start = |name| Replica::of(&project, name, project.launch().args(QUICK).replica(name).limited());
    let allow = async |group: &str, resource: &str, verbs: Value| {
        let rbac = "rbac.authorization.k8s.io/v1";
        let rules = json!([{"apiGroups": [group], "resources": [resource], "verbs": verbs}]);
        let role = json!({"apiVersion": rbac, "kind": "Role", "metadata": {"name": resource}, "rules": rules});
        let subjects = ["first", "second"].map(|name| json!({"kind": "User", "name": project.replica_user(name)}));
        let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": resource});
        let binding = json!({"apiVersion": rbac, "kind": "RoleBinding", "metadata": {"name": resource}, "subjects": subjects,
            "roleRef": role_ref});
        project.create(within(&project.namespace, role)).await;
        project.create(within(&project.namespace, binding)).await;
    };
    // The signing key and the ledger.
    allow("", "secrets", json!(["get", "list", "watch", "create", "patch", "delete"])).await;
    let began = Timestamp::now();
    let mut first = start("first");
    until("it says what is missing", async || first.operator.log().contains("bind a Role").then_some(())).await;
    stays(Duration::from_secs(1), "it runs", async || first.operator.runs()).await;
    let asked = tenures::calls(&project).into_iter().filter(|call| call.is_lease() && call.received >= began).count();
    assert!(asked < 12, "{asked} calls in a second or two");
    // No watch: then it is asked for.
    allow("coordination.k8s.io", "leases", json!(["get", "create", "update"])).await;
    first.leads().await;
    let second = start("second");
    second.stands_by().await;
    first.operator.terminate();
    second.leads().await;
}

#[tokio::test]
async fn without_an_election_there_is_no_lease_and_nothing_hinders() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    edit_all(&project, "blue").await;
    all_deployed(&project, "blue").await;
    assert_eq!(holder(&project).await, None);
}

#[tokio::test]
async fn whoever_is_killed_at_whatever_moment_nothing_is_written_late_and_nothing_is_lost() {
    let figures = pass(&Plan { kills: 4, upgrades: 28, seed: 1 }).await;
    println!("{figures}");
}

#[tokio::test]
#[ignore = "twenty kills take minutes: make leader-proof"]
async fn proof_of_two_replicas_of_which_the_leader_is_killed_twenty_times() {
    let figures = pass(&Plan { kills: 20, upgrades: 200, seed: chance::seed() }).await;
    println!("\n{figures}");
}
