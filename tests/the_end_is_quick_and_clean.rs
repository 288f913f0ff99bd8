//! Asked to end, the operator begins nothing new, ends its renders, lets writes finish for a moment, and is gone.

use std::time::{Duration, Instant};

use futures::future::join_all;
use kube::api::ListParams;
use serde_json::json;

use crate::harness::proxy::{Line, Proxy};
use crate::harness::strange_helm::{own_sleep, sleeping, strange_helm};
use crate::harness::{Operator, Project, config, until};

const LIMIT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn in_the_middle_of_installs_it_ends_and_the_next_one_finishes_them() {
    let project = Project::of_objects().await;
    let sleep = own_sleep();
    let helm = strange_helm(&project, &format!("case $release in hangs*) sleep {sleep};; esac"));
    let mut operator = project.launch().helm(helm).start();
    let names: Vec<_> = (0..12).map(|n| format!("web-{n}")).chain(["hangs".to_owned()]).collect();
    join_all(names.iter().map(|name| project.apply(name, json!({"objects": [config(name, "blue")]})))).await;
    until("one hangs and one is installed", async || {
        let records = project.objects("v1", "Secret", Some(&project.namespace));
        let records = records.list(&ListParams::default().labels("owner=helm,status=deployed")).await.unwrap();
        (sleeping(&sleep) == 1 && !records.items.is_empty()).then_some(())
    })
    .await;
    operator.terminate();
    assert_eq!(operator.exit_code(LIMIT).await, Some(0));
    assert_eq!(sleeping(&sleep), 0, "a helm outlived the operator");
    assert!(operator.log().contains("stopped"));
    drop(operator);
    let _next = project.run();
    for name in &names {
        project.deployed(name).await;
        assert!(project.get("v1", "ConfigMap", name).await.is_some());
        assert!(project.get("v1", "Secret", &format!("sh.helm.release.v1.{name}.v2")).await.is_none());
    }
}

/// A project with an operator that reconciles every second, and an API server that stopped answering.
async fn with_silent_api_server() -> (Project, Proxy, Operator) {
    let project = Project::of_objects().await;
    project.watch_with("reconcilePeriod: 1s\nwatchDependentResources: false");
    let proxy = Proxy::start().await;
    let operator = project.launch().through(&proxy).start();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.deployed("web").await;
    proxy.set(Line::Silent);
    // From outside nobody sees that the next reconcile waits for an answer.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    (project, proxy, operator)
}

#[tokio::test]
async fn it_ends_while_the_api_server_does_not_answer() {
    let (_project, _proxy, mut operator) = with_silent_api_server().await;
    operator.terminate();
    assert_eq!(operator.exit_code(LIMIT).await, Some(0));
}

#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let (_project, _proxy, mut operator) = with_silent_api_server().await;
    operator.terminate();
    until("it stops", async || operator.log().contains("stopping").then_some(())).await;
    let asked = Instant::now();
    operator.terminate();
    assert_eq!(operator.exit_code(LIMIT).await, Some(1));
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
}
