//! `lab node`: a newcomer's walk through a real node, with a kubelet, real containers and real requests.
//!
//! ```text
//! lab/node/proof.sh ──namespaces──▶ lab/node/inside.sh ──mounts, network, images──▶ this
//!                                                        start the programs, walk, print the table
//! ```
//! Each row of the table is a step of the walk: what was seen, and what of it is not as it should be. A row that fails does not end the
//! walk; the next one begins with a resource that is whole again, or fails as well.
//!
//! - [`daemons`]: the programs of the node
//! - [`cluster`]: what the walk asks them, and how it waits
//! - [`mod@http`]: requests
//! - [`cgroup`]: what a container uses
//! - [`operator`]: an operator that runs on the node
//! - [`site`]: a custom resource whose page is served
//! - [`sample`], [`troubles`], [`interruptions`], [`project`], [`hooks`]: the walk
//! - [`table`]: its rows

pub mod cgroup;
pub mod cluster;
pub mod daemons;
pub mod hooks;
pub mod http;
pub mod interruptions;
pub mod operator;
pub mod project;
pub mod sample;
pub mod site;
pub mod table;
pub mod troubles;

use std::time::Instant;

use anyhow::Result;

use daemons::Node;
use operator::Operator;
use site::Site;
use table::{Table, seconds};

/// The node's address, which nothing outside of its namespaces can reach.
pub const ADDRESS: &str = "10.231.0.2";

/// Walks, prints the table, and says whether every row holds.
///
/// # Errors
/// The node itself does not come up.
pub fn run() -> Result<bool> {
    let mut table = Table::default();
    let mut node = Node::start()?;
    let cluster = node.cluster;
    println!("logs: {}", daemons::logs().display());
    table.row("node: kubelet, kube-proxy, containerd", |_| {
        Ok(format!("API server after {}, node Ready after {}", seconds(node.api_started), seconds(node.started)))
    });

    table.row("images of Debian's packages", |_| {
        let begun = Instant::now();
        cluster::run("lab/node/load", &[])?;
        Ok(format!("loaded in {}", seconds(begun.elapsed())))
    });
    let operator = Operator { name: "chartwright", cluster };
    let site = Site { group: "demo.chartwright.dev/v1alpha1", plural: "nginxes", name: "hello", cluster };
    if sample::deploy(&mut table, &operator) {
        sample::walk(&mut table, &site);
        troubles::walk(&mut table, &site);
        interruptions::rest(&mut table, &operator);
        interruptions::kill(&mut table, &operator, &site);
        interruptions::outages(&mut table, &mut node, &operator, &site);
        interruptions::replicas(&mut table, &operator, &site);
        sample::remove(&mut table, &operator);
    }

    let operator = Operator { name: "shop", cluster };
    let group = "charts.example.com/v1alpha1";
    let site = Site { group, plural: "storefronts", name: "storefront-sample", cluster };
    if project::create(&mut table, &operator) {
        project::walk(&mut table, &site);
        hooks::walk(&mut table, &operator, &site);
        project::remove(&mut table, &node, &operator);
        project::installer(&mut table, &operator, &site);
    }
    Ok(table.finish())
}
