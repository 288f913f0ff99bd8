//! Edits and repairs of what is deployed go ahead of first installs, and renders that hang delay nobody else.

use std::time::{Duration, Instant};

use futures::future::join_all;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use crate::harness::strange_helm::{own_sleep, sleeping, strange_helm};
use crate::harness::{Project, config, until, until_within};

fn colour(name: &str, colour: &str) -> Value {
    json!({"objects": [config(name, colour)]})
}

/// How many custom resources have a release.
async fn installed(project: &Project) -> usize {
    let all = project.crs().list(&ListParams::default()).await.unwrap();
    all.iter().filter(|cr| cr.data.pointer("/status/deployedRelease").is_some()).count()
}

#[tokio::test]
async fn edits_and_repairs_go_ahead_of_many_waiting_installs() {
    let project = Project::of_objects().await;
    // As many at a time as there are processors.
    let processors = std::thread::available_parallelism().map_or(2, usize::from).max(2);
    let installs = 25 * processors;
    let helm = strange_helm(&project, "case $release in new*) sleep 0.4;; esac");
    let _operator = project.launch().helm(helm).start();
    project.apply("web", colour("web", "blue")).await;
    project.deployed("web").await;
    let names: Vec<_> = (0..installs).map(|n| format!("new-{n}")).collect();
    join_all(names.iter().map(|name| project.apply(name, colour(name, "blue")))).await;
    until("installs are under way", async || (installed(&project).await > 2).then_some(())).await;

    let old = project.get("v1", "ConfigMap", "web").await.unwrap().uid();
    project.configs().delete("web", &DeleteParams::default()).await.unwrap();
    until("it is there again", async || project.get("v1", "ConfigMap", "web").await.filter(|new| new.uid() != old))
        .await;
    let before = installed(&project).await;
    assert!(before < installs / 2, "{before} of {installs} are installed already, so this would show nothing");
    project.apply("web", colour("web", "red")).await;
    project.deployed("web").await;
    let after = installed(&project).await;
    assert!(after - before <= 6 * processors, "the edit waited for {} installs", after - before);
    until("the installs get on", async || (installed(&project).await > after + 3).then_some(())).await;
}

#[tokio::test]
async fn renders_that_hang_delay_no_other_and_their_number_is_bounded() {
    let project = Project::of_objects().await;
    let sleep = own_sleep();
    let helm = strange_helm(&project, &format!("case $release in hangs*) sleep {sleep};; esac"));
    let _operator = project.launch().helm(helm).start();
    let hanging: Vec<_> = (0..10).map(|n| format!("hangs-{n}")).collect();
    join_all(hanging.iter().map(|name| project.apply(name, colour(name, "blue")))).await;
    until("the first hang", async || (sleeping(&sleep) > 1).then_some(())).await;
    let mut most = 0;
    let started = Instant::now();
    let names: Vec<_> = (0..6).map(|n| format!("web-{n}")).collect();
    join_all(names.iter().map(|name| project.apply(name, colour(name, "blue")))).await;
    until_within(Duration::from_secs(45), "the others are installed", async || {
        most = most.max(sleeping(&sleep));
        (installed(&project).await == names.len()).then_some(())
    })
    .await;
    // Each of the ten was looked at once, for two seconds at most, by one of the places for helm.
    eprintln!("after {:?} the others were installed; at most {most} hung at once", started.elapsed());
    let places = std::thread::available_parallelism().unwrap().get().max(2);
    assert!(most <= places + 4, "{most} helm processes hung at once");

    // Those that hang are known by now: nobody meets them any more.
    let started = Instant::now();
    project.apply("web-0", colour("web-0", "red")).await;
    project.apply("late", colour("late", "blue")).await;
    project.deployed("web-0").await;
    project.deployed("late").await;
    assert!(started.elapsed() < Duration::from_secs(25), "an install took {:?}", started.elapsed());
}
