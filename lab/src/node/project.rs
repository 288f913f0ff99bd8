//! A project made from a chart: its image, its generated rights, its sample, its installer, and its end.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};

use super::cluster::{run, run_in, until};
use super::daemons::Node;
use super::operator::Operator;
use super::sample::{PATIENCE, container_tool, edit, heal, undeploy};
use super::site::Site;
use super::table::{Table, seconds};
use crate::checkout;

const IMAGE: &str = "localhost/shop:node-proof";
const BASE: &str = "localhost/chartwright:node-proof-base";

/// Whether there is an operator to go on with.
pub fn create(table: &mut Table, operator: &Operator) -> bool {
    let created = table.row("chartwright init, create api with a chart shaped as bitnami's", |_| {
        let (dir, chart) = (project()?, checkout().join("lab/node/storefront"));
        std::fs::create_dir_all(&dir)?;
        run_in(&dir, "chartwright", &["init", "--domain", "example.com", "--project-name", operator.name])?;
        let begun = Instant::now();
        run_in(&dir, "chartwright", &["create", "api", "--helm-chart", &chart.display().to_string()])?;
        Ok(format!("create api took {}", seconds(begun.elapsed())))
    });
    let built = created
        && table.row("make docker-build in the project, and load", |_| {
            let (dir, tool) = (project()?, format!("CONTAINER_TOOL={}", container_tool()?));
            run("make", &["-o", "dist", "docker-build-base", &tool, &format!("IMG={BASE}")])?;
            let begun = Instant::now();
            run_in(&dir, "make", &["docker-build", &tool, &format!("IMG={IMAGE}"), &format!("BASE_IMG={BASE}")])?;
            let built = begun.elapsed();
            run("lab/node/load", &[IMAGE])?;
            Ok(format!("built in {}", seconds(built)))
        });
    built
        && table.row("make deploy in the project", |_| {
            let begun = Instant::now();
            run_in(&project()?, "make", &["deploy", &format!("IMG={IMAGE}")])?;
            let applied = begun.elapsed();
            let (_, ready) = until(PATIENCE, || operator.ready(1))?;
            Ok(format!("applied in {}, operator ready {} later", seconds(applied), seconds(ready)))
        })
}

pub fn walk(table: &mut Table, site: &Site) {
    table.row("the project's sample, unchanged", |claims| {
        run_in(&project()?, "kubectl", &["apply", "-k", "config/samples"])?;
        let (_, ready) = until(PATIENCE, || site.ready())?;
        until(PATIENCE, || site.serves("It works"))?;
        if let Ok(contested) = site.condition("Contested") {
            claims.that(contested.status != "True", format!("Contested: {}", contested.message));
        }
        Ok(format!("Ready after {}, the Service answers, nothing is contested", seconds(ready)))
    });
    edit(table, "edit of the project's sample, under requests", site);
    heal(table, site);
    table.row("a password that the chart keeps with lookup", |claims| {
        let password = || site.cluster.get(&format!("/api/v1/namespaces/default/secrets/{}", site.name));
        let before = password()?["data"].take();
        let text = site.edit()?;
        until(PATIENCE, || site.serves(&text))?;
        until(PATIENCE, || site.ready())?;
        claims.that(!before.is_null() && password()?["data"] == before, "it is another one after an edit");
        Ok("the same after an edit".to_owned())
    });
}

pub fn remove(table: &mut Table, node: &Node, operator: &Operator) {
    table.row("make undeploy in the project", |claims| {
        let refused = node.refused(&operator.account())?;
        claims.that(refused.is_empty(), format!("refused under the generated rights: {}", refused.join(", ")));
        Ok(format!("{}; nothing was refused under the generated rights", undeploy(&project()?, operator)?))
    });
}

pub fn installer(table: &mut Table, operator: &Operator, site: &Site) {
    table.row("make build-installer, kubectl apply", |_| {
        let dir = project()?;
        run_in(&dir, "make", &["build-installer", &format!("IMG={IMAGE}")])?;
        run_in(&dir, "kubectl", &["apply", "--server-side", "-f", "dist/install.yaml"])?;
        let (_, ready) = until(PATIENCE, || operator.ready(1))?;
        run_in(&dir, "kubectl", &["apply", "-k", "config/samples"])?;
        let (_, sample) = until(PATIENCE, || site.ready())?;
        Ok(format!("operator ready after {}, its sample after {}", seconds(ready), seconds(sample)))
    });
    table.row("make undeploy of what was installed", |_| undeploy(&project()?, operator));
}

fn project() -> Result<PathBuf> {
    let dir = std::env::var_os("NODE_DIR").context("run lab/node/proof.sh: it sets NODE_DIR")?;
    Ok(PathBuf::from(dir).join("shop"))
}
