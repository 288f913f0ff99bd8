//! The operator at rest, killed, without an API server, and with a standby.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::cgroup::Usage;
use super::cluster::{kubectl, until};
use super::daemons::Node;
use super::operator::{Operator, container, kill as kill_pod, restarts};
use super::sample::PATIENCE;
use super::site::Site;
use super::table::{Table, seconds};

const REST: Duration = Duration::from_secs(60);
/// How soon after the API server is back an edit has to be applied.
const BACK: Duration = Duration::from_secs(5);
/// How soon after it was killed the manager has to work again: less than its Lease lasts.
const RESTARTED: Duration = Duration::from_secs(10);
/// How long an edit may take at all before it counts as lost.
const LONG: Duration = Duration::from_secs(420);

pub fn rest(table: &mut Table, operator: &Operator) {
    table.row("the operator's pod at rest", |claims| {
        let pod = operator.pod()?;
        let id = container(&pod)?;
        // What the last step began has ended by then.
        sleep(Duration::from_secs(10));
        let before = Usage::of(id)?;
        sleep(REST);
        let after = Usage::of(id)?;
        let (millicores, mebibytes) = (after.millicores_since(&before), |bytes: u64| bytes as f64 / 1048576.0);
        claims.that(millicores < 10.0, "more than 10 thousandths of a core");
        claims.that(mebibytes(after.working_set) < 64.0, "more than the 64 MiB that its pod asks for");
        Ok(format!(
            "{millicores:.2} mcores, working set {:.1} MiB, anonymous {:.1} MiB; {} of CPU in all",
            mebibytes(after.working_set),
            mebibytes(after.anonymous),
            seconds(after.cpu)
        ))
    });
}

pub fn kill(table: &mut Table, operator: &Operator, site: &Site) {
    table.row("SIGKILL of the manager right after an edit, one replica", |claims| {
        let (pod, revision) = (operator.pod()?, site.revision()?);
        let text = site.edit()?;
        kill_pod(&pod)?;
        let begun = Instant::now();
        let (_, applied) = until(LONG, || site.applied(&text))?;
        until(PATIENCE, || site.serves(&text))?;
        let served = begun.elapsed();
        until(PATIENCE, || site.ready())?;
        let made = site.revision()? - revision;
        claims.that(made == 1, format!("{made} revisions for one edit"));
        claims.that(applied <= RESTARTED, "it waited for the Lease of the container that is gone");
        Ok(format!("applied after {}, served after {}, one revision", seconds(applied), seconds(served)))
    });
}

pub fn outages(table: &mut Table, node: &mut Node, operator: &Operator, site: &Site) {
    for length in [12, 25, 180].map(Duration::from_secs) {
        table.row(&format!("API server away for {} s, one replica", length.as_secs()), |claims| {
            until(PATIENCE, || operator.ready(1))?;
            let before = restarts(&operator.pod()?);
            let text = site.edit()?;
            let away = outage(node, length)?;
            let back = Instant::now();
            let (_, applied) = until(LONG, || site.applied(&text))?;
            // That takes the watches of all the others too, which wait longer after a longer outage.
            until(LONG, || site.serves(&text))?;
            let served = back.elapsed();
            let text = site.edit()?;
            let (_, next) = until(LONG, || site.applied(&text))?;
            until(LONG, || site.ready())?;
            let restarts = restarts(&operator.pod()?).saturating_sub(before);
            claims.that(applied <= BACK, format!("an edit from before is applied later than {BACK:?} after the return"));
            claims.that(next <= BACK, format!("an edit from after is applied later than {BACK:?}"));
            Ok(format!(
                "away {}; the edit from before: applied {}, served {} after the return; another one: applied after {}; {restarts} restarts",
                seconds(away),
                seconds(applied),
                seconds(served),
                seconds(next)
            ))
        });
    }
}

/// Kills the API server, starts another one after `length`, and says how long none was ready.
fn outage(node: &mut Node, length: Duration) -> Result<Duration> {
    node.programs.kill("kube-apiserver")?;
    let begun = Instant::now();
    sleep(length);
    node.programs.start_again("kube-apiserver")?;
    let cluster = node.cluster;
    until(LONG, || cluster.ready()).context("the API server does not come back")?;
    Ok(begun.elapsed())
}

pub fn replicas(table: &mut Table, operator: &Operator, site: &Site) {
    table.row("two replicas, leader deleted during an edit", |_| {
        operator.scale(2)?;
        until(PATIENCE, || operator.ready(2))?;
        let (leader, holder) = (operator.leader()?, operator.holder()?);
        let text = site.edit()?;
        let name = leader["metadata"]["name"].as_str().context("a pod without a name")?;
        kubectl(&["-n", &operator.namespace(), "delete", "pod", name, "--wait=false"])?;
        succeeded(operator, site, &holder, &text)
    });
    table.row("two replicas, leader killed during an edit", |_| {
        until(PATIENCE, || operator.ready(2))?;
        let (leader, holder) = (operator.leader()?, operator.holder()?);
        let text = site.edit()?;
        kill_pod(&leader)?;
        succeeded(operator, site, &holder, &text)
    });
    table.row("back to one replica", |_| {
        operator.scale(1)?;
        let (_, took) = until(PATIENCE, || operator.ready(1))?;
        Ok(format!("after {}", seconds(took)))
    });
}

/// How long it takes until somebody else leads and the edit is served.
fn succeeded(operator: &Operator, site: &Site, holder: &str, text: &str) -> Result<String> {
    let begun = Instant::now();
    let another = || {
        let now = operator.holder()?;
        ensure!(now != holder, "{now} still holds the Lease");
        Ok(())
    };
    let (_, led) = until(PATIENCE, another)?;
    until(PATIENCE, || site.serves(text))?;
    let served = begun.elapsed();
    until(PATIENCE, || site.ready())?;
    Ok(format!("new leader after {}, served after {}", seconds(led), seconds(served)))
}
