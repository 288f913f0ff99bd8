//! What a run measured. It is printed as JSON as it is here; [`crate::table`] makes it readable.

use serde::Serialize;

use crate::audit::Tally;
use crate::floor::{Baseline, Floor};
use crate::stats::Latency;
use crate::tree::HelmRuns;

/// What a phase cost.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Cost {
    pub seconds: f64,
    /// User and system, with the helm processes that have ended.
    pub operator_cpu_seconds: f64,
    pub api_server_cpu_seconds: f64,
    pub helm: HelmRuns,
    pub api: Tally,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Install {
    /// From the first custom resource until all are deployed and all objects exist.
    pub deployed_seconds: f64,
    pub ready_seconds: f64,
    /// From the first custom resource until the last one was created.
    pub creating_seconds: f64,
    /// From the first custom resource until the operator's last write.
    pub settled_seconds: f64,
    pub peak_operator_kib: u64,
    pub peak_with_children_kib: u64,
    /// Until it settled.
    pub cost: Cost,
}

/// After the install settled.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Memory {
    pub rss_kib: u64,
    pub anonymous_kib: u64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Edit {
    pub alone: Latency,
    /// While other custom resources are being installed.
    pub under_load: Latency,
    /// How many of those were installed meanwhile.
    pub load: usize,
    pub baseline: Baseline,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Heal {
    pub deleted_service: Latency,
    pub edited_service: Latency,
    pub edited_deployment: Latency,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Restart {
    pub end_seconds: f64,
    /// In the first seconds after a start with nothing to do.
    pub cost: Cost,
    /// From another start until an edit that was made right after it is in the cluster.
    pub edit_served_seconds: Option<f64>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Delete {
    pub seconds: f64,
    pub cost: Cost,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    pub n: usize,
    pub namespaces: usize,
    /// Of the machine, which everything shares.
    pub cores: usize,
    pub floor: Option<Floor>,
    pub install: Install,
    pub memory: Memory,
    pub rest: Cost,
    pub edit: Option<Edit>,
    pub heal: Option<Heal>,
    pub restart: Restart,
    pub delete: Delete,
}

/// All runs of one call of the program.
#[derive(Clone, Debug)]
pub struct Reports {
    pub runs: Vec<Report>,
    /// Anonymous memory per custom resource, from the smallest run to the largest.
    pub growth_kib_per_cr: Option<f64>,
}

impl Reports {
    pub fn new(runs: Vec<Report>) -> Self {
        let growth = match (runs.iter().min_by_key(|run| run.n), runs.iter().max_by_key(|run| run.n)) {
            (Some(small), Some(large)) if small.n < large.n => {
                let more = large.memory.anonymous_kib as f64 - small.memory.anonymous_kib as f64;
                Some(crate::stats::round(more / (large.n - small.n) as f64))
            }
            _ => None,
        };
        Reports { runs, growth_kib_per_cr: growth }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_what_each_further_resource_costs() {
        let run = |n, anonymous_kib| Report { n, memory: Memory { rss_kib: 0, anonymous_kib }, ..Report::default() };
        assert_eq!(Reports::new(vec![run(5000, 50_000), run(1000, 10_000)]).growth_kib_per_cr, Some(10.0));
        assert_eq!(Reports::new(vec![run(1000, 10_000)]).growth_kib_per_cr, None);
    }
}
