//! The repository's own operator and its sample: deployed, served, edited, scaled, healed, removed.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::cluster::{kubectl, run, run_in, until};
use super::http::Load;
use super::operator::Operator;
use super::site::Site;
use super::table::{Table, seconds};
use crate::checkout;

const IMAGE: &str = "localhost/chartwright:node-proof";
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Whether there is an operator to go on with.
pub fn deploy(table: &mut Table, operator: &Operator) -> bool {
    let built = table.row("make docker-build-ready, without a daemon, and load", |_| {
        let begun = Instant::now();
        // Not `dist`: the binaries under proof are there.
        let tool = format!("CONTAINER_TOOL={}", container_tool()?);
        run("make", &["-o", "dist", "docker-build-ready", &tool, &format!("IMG={IMAGE}")])?;
        let built = begun.elapsed();
        run("lab/node/load", &[IMAGE])?;
        Ok(format!("built in {}, loaded in {}", seconds(built), seconds(begun.elapsed() - built)))
    });
    built
        && table.row("make deploy", |_| {
            let begun = Instant::now();
            run("make", &["deploy", &format!("IMG={IMAGE}")])?;
            let applied = begun.elapsed();
            let (_, ready) = until(PATIENCE, || operator.ready(1))?;
            Ok(format!("applied in {}, operator ready {} later", seconds(applied), seconds(ready)))
        })
}

pub fn walk(table: &mut Table, site: &Site) {
    table.row("kubectl apply -k config/samples", |_| {
        kubectl(&["apply", "-k", "config/samples"])?;
        let (_, ready) = until(PATIENCE, || site.ready())?;
        until(PATIENCE, || site.serves("Hello from Chartwright"))?;
        Ok(format!("Ready after {}, the Service answers with the page", seconds(ready)))
    });
    edit(table, "edit spec.page, under requests", site);
    table.row("kubectl scale --replicas=3", |_| {
        let kind = format!("{}.{}", site.plural, site.group.split('/').next().unwrap_or_default());
        kubectl(&["scale", &kind, site.name, "--replicas=3"])?;
        let (_, scaled) = until(PATIENCE, || ready_pods(site, 3))?;
        until(PATIENCE, || site.ready())?;
        Ok(format!("three pods are ready after {}", seconds(scaled)))
    });
    heal(table, site);
}

/// An edit that no request may notice.
pub fn edit(table: &mut Table, step: &str, site: &Site) {
    table.row(step, |claims| {
        until(PATIENCE, || site.settled().and_then(|()| site.serves("")))?;
        let load = Load::on(site.address()?);
        let text = site.edit()?;
        let begun = Instant::now();
        let served = until(PATIENCE, || site.serves(&text));
        let ready = until(PATIENCE, || site.ready()).map(|_| begun.elapsed());
        let settled = until(PATIENCE, || site.settled());
        let tally = load.end()?;
        let ((_, served), ready) = (served?, ready?);
        settled?;
        claims.that(tally.failures.is_empty(), format!("{tally}, the first {:?}", tally.failures.first()));
        Ok(format!("first new answer after {}, Ready after {}, {tally}", seconds(served), seconds(ready)))
    });
}

/// The Service comes back by itself.
pub fn heal(table: &mut Table, site: &Site) {
    table.row("kubectl delete service", |_| {
        let before = site.service()?;
        let text = site.edit()?;
        until(PATIENCE, || site.serves(&text))?;
        kubectl(&["delete", "service", site.name, "--wait=false"])?;
        let begun = Instant::now();
        let another = || -> Result<()> {
            ensure!(site.service()?["metadata"]["uid"] != before["metadata"]["uid"], "the Service is the old one");
            Ok(())
        };
        let (_, back) = until(PATIENCE, another)?;
        until(PATIENCE, || site.serves(&text))?;
        Ok(format!("back after {}, answers after {}", seconds(back), seconds(begun.elapsed())))
    });
}

/// `make undeploy` of this repository.
pub fn remove(table: &mut Table, operator: &Operator) {
    table.row("make undeploy", |_| undeploy(&checkout(), operator));
}

/// Removes an operator with all that it made, and says how long that took and what stays.
///
/// # Errors
/// Something stays that `make undeploy` does not name.
pub fn undeploy(dir: &Path, operator: &Operator) -> Result<String> {
    let begun = Instant::now();
    let said = run_in(dir, "make", &["undeploy"])?;
    let took = begun.elapsed();
    let is_said = |object: &&str| object.split_once('/').is_some_and(|(_, name)| said.contains(name));
    let left = left(operator)?;
    let (told, untold): (Vec<&str>, Vec<&str>) = left.iter().map(String::as_str).partition(is_said);
    // What stays is not the next step's.
    for object in left.iter().filter(|object| object.starts_with("job.")) {
        kubectl(&["delete", object])?;
    }
    ensure!(untold.is_empty(), "left behind without a word: {}", untold.join(", "));
    let stays =
        if told.is_empty() { "nothing stays".to_owned() } else { format!("it says what stays: {}", told.join(", ")) };
    Ok(format!("done in {}, {stays}", seconds(took)))
}

/// What of an operator or of its releases is still there.
fn left(operator: &Operator) -> Result<Vec<String>> {
    let kinds = "all,configmaps,secrets,serviceaccounts,networkpolicies,poddisruptionbudgets";
    let of_releases =
        kubectl(&["get", kinds, "-A", "-l", "chartwright.dev/release", "-o", "name", "--ignore-not-found"])?;
    let of_operator = kubectl(&["get", "namespace", &operator.namespace(), "-o", "name", "--ignore-not-found"])?;
    let rights = kubectl(&["get", "crds,clusterroles,clusterrolebindings", "-o", "name"])?;
    let is_ours =
        |line: &&str| line.starts_with("customresourcedefinition") || line.contains(&format!("/{}-", operator.name));
    let left = of_releases.lines().chain(of_operator.lines()).chain(rights.lines().filter(is_ours));
    Ok(left.map(str::to_owned).collect())
}

/// Where `lab/node/inside.sh` says that buildah is.
pub fn container_tool() -> Result<String> {
    Ok(std::env::var("CONTAINER_TOOL")?)
}

fn ready_pods(site: &Site, wanted: u64) -> Result<()> {
    let deployment = site.cluster.get(&format!("/apis/apps/v1/namespaces/default/deployments/{}", site.name))?;
    let ready = &deployment["status"]["readyReplicas"];
    ensure!(*ready == wanted, "{} pods are ready", ready.as_u64().unwrap_or_default());
    Ok(())
}
