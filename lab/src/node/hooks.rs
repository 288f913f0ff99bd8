//! Hooks as real Jobs: they pass, fail, cannot start, and live through the end of the manager.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::cluster::until;
use super::operator::{Operator, kill};
use super::sample::PATIENCE;
use super::site::{Condition, Site};
use super::table::{Table, seconds};

/// How soon a hook whose pod cannot start has to be named.
const SOON: Duration = Duration::from_secs(10);
/// How soon a corrected spec has to get past a hook whose pod never started.
const CORRECTED: Duration = Duration::from_secs(30);
const CAUSES: [&str; 3] = ["ErrImagePull", "ImagePullBackOff", "cannot pull image"];

pub fn walk(table: &mut Table, operator: &Operator, site: &Site) {
    passing(table, site);
    killed(table, operator, site);
    failing(table, site);
    not_starting(table, site);
}

fn passing(table: &mut Table, site: &Site) {
    table.row("hooks that pass: a Job before and one after the upgrade", |claims| {
        let before = jobs(site)?;
        let text = site.edit_with(json!({"migration": {"enabled": true}}))?;
        let begun = Instant::now();
        until(PATIENCE, || site.serves(&text))?;
        until(PATIENCE, || site.ready())?;
        let took = begun.elapsed();
        let made = jobs(site)?;
        claims.that(made.len() == 2 && made.iter().all(|job| !before.contains(job)), format!("the Jobs are {made:?}"));
        Ok(format!("both ran, Ready after {}", seconds(took)))
    });
}

fn killed(table: &mut Table, operator: &Operator, site: &Site) {
    table.row("SIGKILL of the manager while a hook runs", |claims| {
        let revision = site.revision()?;
        let text = site.edit_with(json!({"migration": {"command": "sleep 8"}}))?;
        let running = || -> Result<(Value, Vec<String>)> {
            let pod = pod(site)?;
            ensure!(pod["status"]["phase"] == "Running", "the hook is {}", pod["status"]["phase"]);
            Ok((pod, jobs(site)?))
        };
        let ((_, jobs_before), _) = until(PATIENCE, running)?;
        kill(&operator.pod()?)?;
        let begun = Instant::now();
        until(Duration::from_secs(180), || site.serves(&text))?;
        until(PATIENCE, || site.ready())?;
        let took = begun.elapsed();
        let jobs_after = jobs(site)?;
        let pre = jobs_before.iter().filter(|job| job.contains("-before/")).all(|job| jobs_after.contains(job));
        claims.that(pre, format!("the hook ran twice: {jobs_before:?}, then {jobs_after:?}"));
        let made = site.revision()? - revision;
        claims.that(made == 1, format!("{made} revisions for one edit"));
        Ok(format!("Ready after {}, no hook twice, one revision", seconds(took)))
    });
}

fn failing(table: &mut Table, site: &Site) {
    table.row("a hook that fails", |claims| {
        let served = site.edit_with(json!({"migration": {"command": "true"}}))?;
        until(PATIENCE, || site.serves(&served))?;
        until(PATIENCE, || site.ready())?;
        let text = site.edit_with(json!({"migration": {"command": "echo the schema is locked; exit 3"}}))?;
        let failed = || -> Result<String> {
            let Condition { reason, message, .. } = site.condition("Ready")?;
            ensure!(reason == "HookFailed", "{reason}: {message}");
            Ok(message)
        };
        let (message, named) = until(PATIENCE, failed)?;
        claims.that(message.contains("exit code 3") || message.contains("code 3"), format!("no exit code: {message}"));
        let serves = site.serves(&served);
        claims.that(serves.is_ok(), format!("the old revision does not serve {served:?} but {text:?}: {serves:?}"));
        let corrected = site.edit_with(json!({"migration": {"command": "true"}}))?;
        let (_, cured) = until(PATIENCE, || site.serves(&corrected))?;
        until(PATIENCE, || site.ready())?;
        Ok(format!("HookFailed after {}, served {} after the correction", seconds(named), seconds(cured)))
    });
}

fn not_starting(table: &mut Table, site: &Site) {
    table.row("a hook that cannot start", |claims| {
        site.forget_events()?;
        site.edit_with(json!({"migration": {"image": "docker.io/library/busybox:0.0.0-missing"}}))?;
        let begun = Instant::now();
        until(PATIENCE, || pod(site).and_then(|pod| waits(&pod)))?;
        let pulled = begun.elapsed();
        let named = || -> Result<String> {
            let Condition { reason, message, .. } = site.condition("Ready")?;
            ensure!(names(&message), "the cause is not named: {reason}: {message}");
            Ok(reason)
        };
        let named = until(SOON, named);
        let warned = || -> Result<()> {
            let warnings = site.warnings()?;
            ensure!(warnings.iter().any(|it| names(it)), "no Warning event names it, there are {warnings:?}");
            Ok(())
        };
        let warned = until(SOON, warned);
        let text = site.edit_with(json!({"migration": {"image": null}}))?;
        // Without the correction, the hook's own time limit ends it.
        let (_, cured) = until(Duration::from_secs(400), || site.serves(&text))?;
        until(PATIENCE, || site.ready())?;
        claims.that(cured <= CORRECTED, format!("a corrected spec waits for it: {}", seconds(cured)));
        if let Err(error) = warned {
            claims.that(false, format!("{error:#}"));
        }
        let (reason, after) = named?;
        Ok(format!(
            "the kubelet says so after {}, {reason} names it {} later; served {} after the correction",
            seconds(pulled),
            seconds(after),
            seconds(cured)
        ))
    });
}

fn names(text: &str) -> bool {
    CAUSES.iter().any(|cause| text.contains(cause))
}

/// The hooks' Jobs by name and uid.
fn jobs(site: &Site) -> Result<Vec<String>> {
    let jobs = site.cluster.list("/apis/batch/v1/namespaces/default/jobs")?;
    let told =
        |job: &Value| Some(format!("{}/{}", job["metadata"]["name"].as_str()?, job["metadata"]["uid"].as_str()?));
    Ok(jobs.iter().filter_map(told).collect())
}

/// The newest pod of the hook before the upgrade.
fn pod(site: &Site) -> Result<Value> {
    let pods = site.cluster.list("/api/v1/namespaces/default/pods?labelSelector=job-name")?;
    let is_first = |pod: &Value| pod["metadata"]["name"].as_str().is_some_and(|name| name.contains("-before-"));
    let pods = pods.into_iter().filter(is_first);
    pods.max_by_key(|pod| pod["metadata"]["creationTimestamp"].as_str().map(str::to_owned)).context("no hook runs")
}

fn waits(pod: &Value) -> Result<()> {
    let reason = &pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"];
    ensure!(reason.as_str().is_some_and(|reason| reason.contains("ImagePull")), "the hook's pod waits: {reason}");
    Ok(())
}
