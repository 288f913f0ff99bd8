//! `/readyz` says whether the operator sees all that it works on, `/healthz` whether a restart would help.

use std::time::Duration;

use serde_json::json;

use crate::harness::gate::{Gate, Obstacle};
use crate::harness::proxy::{Line, Proxy};
use crate::harness::strange_helm::{own_sleep, strange_helm};
use crate::harness::{Operator, Project, client, config, stays, until};

const PROBES: &str = "--health-probe-bind-address=127.0.0.1:0";

/// Waits for an answer that says this, and shows the last one if it does not come.
async fn answers(operator: &Operator, path: &str, code: u16, words: &str) {
    until(&format!("{path} is {code} and says {words:?}"), async || {
        let answer = operator.probe(path).await;
        (answer.code == code && answer.body.contains(words)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn it_is_ready_when_everything_was_seen_and_not_before() {
    let project = Project::of_objects().await;
    // Its CRD never comes, and nobody waits for it.
    project.with_kind_to_come("Later");
    let gate = Gate::start(client().await).await;
    gate.place(Obstacle::Wall("apps".to_owned()));
    let operator = project.launch().args(&[PROBES]).before(&gate).start();
    let unseen = "[-]kinds failed: kinds whose custom resources are not all seen yet: 1";
    answers(&operator, "/readyz", 500, unseen).await;
    answers(&operator, "/readyz", 500, "[+]records ok").await;
    answers(&operator, "/readyz/kinds", 500, "not all seen yet: 1").await;
    assert!(operator.log().contains("App: its custom resources are not all seen yet"), "the log names the kind");
    answers(&operator, "/healthz", 200, "ok").await;
    gate.place(Obstacle::Nothing);
    answers(&operator, "/readyz", 200, "ok").await;
    answers(&operator, "/readyz/", 200, "ok").await;
    answers(
        &operator,
        "/readyz?verbose",
        200,
        "[+]kinds ok\n[+]objects ok\n[+]records ok\n[+]started ok\nreadyz check passed",
    )
    .await;
    answers(&operator, "/healthz?verbose", 200, "[+]ping ok\n[+]queues ok\n[+]watches ok\n").await;
}

#[tokio::test]
async fn a_watch_that_is_answered_with_an_error_does_not_end_its_life() {
    let project = Project::of_objects().await;
    let gate = Gate::start(client().await).await;
    gate.place(Obstacle::Pit("apps".to_owned()));
    let operator = project.launch().args(&[PROBES, "--liveness-patience=1s"]).before(&gate).start();
    answers(&operator, "/readyz/records", 200, "ok").await;
    until("the watch breaks", async || operator.log().contains("broke; trying again").then_some(())).await;
    stays(Duration::from_secs(5), "it lives", async || operator.probe("/healthz").await.code).await;
    answers(&operator, "/healthz", 200, "ok").await;
}

#[tokio::test]
async fn a_watch_that_nobody_answers_while_others_work_ends_its_life() {
    let project = Project::of_objects().await;
    let gate = Gate::start(client().await).await;
    gate.place(Obstacle::Hole("apps".to_owned()));
    let operator = project.launch().args(&[PROBES, "--liveness-patience=2s"]).before(&gate).start();
    answers(&operator, "/healthz", 500, "[-]watches failed: watches that do not work: 1").await;
    assert!(operator.log().contains("/apps has had no answer for"), "the log names the watch");
    gate.place(Obstacle::Nothing);
    answers(&operator, "/healthz", 200, "ok").await;
    answers(&operator, "/readyz", 200, "ok").await;
    assert!(operator.log().contains("not alive, so that the kubelet starts the operator anew"));
}

#[tokio::test]
async fn an_api_server_that_is_away_does_not_end_its_life() {
    let project = Project::of_objects().await;
    let proxy = Proxy::start().await;
    let operator = project.launch().args(&[PROBES, "--liveness-patience=1s"]).through(&proxy).start();
    answers(&operator, "/readyz", 200, "ok").await;
    proxy.set(Line::Cut);
    until("the watches break", async || operator.log().contains("broke; trying again").then_some(())).await;
    stays(Duration::from_secs(5), "it lives", async || operator.probe("/healthz").await.code).await;
    answers(&operator, "/healthz", 200, "ok").await;
    proxy.set(Line::Open);
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.deployed("web").await;
    answers(&operator, "/healthz", 200, "ok").await;
}

#[tokio::test]
async fn a_turn_far_beyond_all_limits_ends_its_life() {
    let project = Project::of_objects().await;
    let helm = strange_helm(&project, &format!("sleep {}", own_sleep()));
    let operator = project.launch().helm(helm).args(&[PROBES, "--liveness-patience=500ms"]).start();
    answers(&operator, "/readyz", 200, "ok").await;
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    answers(&operator, "/healthz/queues", 500, "kinds whose queues are stuck: 1").await;
    assert!(operator.log().contains("App: a turn has been running for"), "the log names the kind");
}
