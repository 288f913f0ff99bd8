//! What goes wrong with pods: it is named, by its cause, where people look, while the old pods serve on; and it can be corrected.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::cluster::until;
use super::sample::PATIENCE;
use super::site::{Condition, Site};
use super::table::{Claims, Table, seconds};

/// How soon a cause has to be named: the kubelet meets each of these within seconds, most at its first try.
const SOON: Duration = Duration::from_secs(20);

struct Trouble {
    step: &'static str,
    spec: Value,
    /// Takes it back.
    cure: Value,
    /// Any of these names the cause.
    causes: &'static [&'static str],
}

fn troubles() -> Vec<Trouble> {
    let small = |limit: &str| json!({"resources": {"requests": {"memory": limit}, "limits": {"memory": limit}}});
    vec![
        Trouble {
            step: "wrong image tag",
            spec: json!({"image": {"tag": "0.0.0-missing"}}),
            cure: json!({"image": null}),
            causes: &["ErrImagePull", "ImagePullBackOff", "cannot pull image"],
        },
        Trouble {
            step: "unschedulable",
            spec: json!({"resources": {"requests": {"cpu": "1000"}}}),
            cure: json!({"resources": {"requests": {"cpu": "10m"}}}),
            causes: &["Insufficient cpu", "cannot be scheduled", "Unschedulable"],
        },
        Trouble {
            step: "image that runs as root",
            spec: json!({"image": {"repository": "busybox", "tag": "1.36"}}),
            cure: json!({"image": null}),
            causes: &["CreateContainerConfigError", "runAsNonRoot"],
        },
        Trouble {
            step: "crash loop",
            spec: json!({"image": {"repository": "busybox", "tag": "1.36"}, "podSecurityContext": {"runAsUser": 101}}),
            cure: json!({"image": null, "podSecurityContext": null}),
            causes: &["CrashLoopBackOff", "keeps exiting"],
        },
        Trouble {
            step: "failing readiness probe",
            spec: json!({"readinessProbe": {"httpGet": {"path": "/missing"}}}),
            cure: json!({"readinessProbe": {"httpGet": {"path": "/"}}}),
            causes: &["robe failed", "404"],
        },
        Trouble {
            step: "memory limit too small to start",
            spec: small("1Mi"),
            cure: json!({"resources": {"requests": {"memory": "16Mi"}, "limits": {"memory": "64Mi"}}}),
            causes: &["FailedCreatePodSandBox", "OOM-killed", "memory limit too low"],
        },
    ]
}

pub fn walk(table: &mut Table, site: &Site) {
    for trouble in troubles() {
        table.row(trouble.step, |claims| {
            until(PATIENCE, || site.ready())?;
            let served = site.edit()?;
            until(PATIENCE, || site.serves(&served))?;
            site.forget_events()?;
            site.patch(&json!({"spec": trouble.spec}))?;
            let named = look(site, &trouble, &served, claims);
            site.patch(&json!({"spec": trouble.cure}))?;
            let cured = until(PATIENCE, || site.ready());
            Ok(format!("{}, Ready {} after the correction", named?, seconds(cured?.1)))
        });
    }
}

/// How long it took until the cause was named.
fn look(site: &Site, trouble: &Trouble, served: &str, claims: &mut Claims) -> Result<String> {
    let names = |text: &str| trouble.causes.iter().any(|cause| text.contains(cause));
    let named = || {
        let Condition { reason, message, .. } = site.condition("Ready")?;
        ensure!(names(&message) || names(&reason), "the cause is not named: {reason}: {message}");
        Ok((reason, message))
    };
    let ((reason, message), after) = until(SOON, named)?;
    claims.that(reason != "Progressing", "the reason is Progressing, as in a healthy rollout");
    claims.that(is_first(&message, trouble.causes), format!("the message does not begin with the cause: {message}"));
    claims.that(!message.ends_with('…'), format!("the message is cut at its end: {message}"));
    let warned = || {
        let warnings = site.warnings()?;
        ensure!(warnings.iter().any(|it| names(it)), "no Warning event names it, there are {warnings:?}");
        Ok(())
    };
    if let Err(error) = until(Duration::from_secs(5), warned) {
        claims.that(false, format!("{error:#}"));
    }
    let serves = site.serves(served);
    claims.that(serves.is_ok(), format!("the old pods do not serve: {serves:?}"));
    Ok(format!("{reason}, named after {}", seconds(after)))
}

/// Whether the cause comes before any count of replicas.
fn is_first(message: &str, causes: &[&str]) -> bool {
    let cause = causes.iter().filter_map(|cause| message.find(cause)).min();
    cause.is_some_and(|cause| message.find("replica").is_none_or(|count| cause < count))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_count_of_replicas_is_no_cause() {
        let causes = &["ImagePullBackOff", "cannot pull image"];
        let is_first = |message: &str| super::is_first(message, causes);
        assert!(!is_first("1 of 3 replicas updated: pod a: cannot pull image b: ImagePullBackOff"));
        assert!(is_first("pod a cannot pull image b: ImagePullBackOff (1 of 3 replicas updated)"));
        assert!(!is_first("pod a is not ready"));
    }
}
