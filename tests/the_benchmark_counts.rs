//! What `make bench` counts stays within its targets. Times are not looked at here: they depend on the machine.

use std::path::PathBuf;
use std::time::Duration;

use bench::Options;
use bench::report::Report;
use bench::table::{CALLS_PER_CR, CHANGING_PER_CR, calls_per_cr};

use crate::harness::{control_plane, tool};

/// The benchmark's kind and namespaces have names of their own, so the shared control plane will do.
async fn a_short_run() -> Report {
    let options = Options {
        n: 20,
        namespaces: 2,
        operator: PathBuf::from(env!("CARGO_BIN_EXE_chartwright")),
        helm: tool("helm4"),
        floor: false,
        helm_parallelism: 2,
        api_parallelism: 16,
        rest: Duration::from_secs(8),
        edits: 0,
        load: 0,
        heals: 0,
        restart: Duration::from_secs(8),
        progress: false,
    };
    bench::run(&options, control_plane()).await.unwrap()
}

/// One run for all of it: the benchmark's names are fixed.
#[tokio::test]
async fn an_install_makes_few_calls_and_rest_and_restart_make_no_work() {
    let report = a_short_run().await;
    let (calls, changing) = calls_per_cr(&report);
    let by_call = &report.install.cost.api.by_call;
    assert!(changing >= 6.0, "four objects, a record and a status are written at least: {by_call:#?}");
    assert!(calls <= CALLS_PER_CR, "{calls} calls per custom resource: {by_call:#?}");
    // On a busy machine one of the custom resources may get a status in between.
    assert!(changing <= CHANGING_PER_CR + 0.5, "{changing} changing calls per custom resource: {by_call:#?}");
    assert!(report.install.cost.helm.renders >= report.n, "renders are counted: {:?}", report.install.cost.helm);

    let rest = &report.rest;
    assert_eq!((rest.api.writes, rest.api.calls), (0, 0), "at rest: {:#?}", rest.api.by_call);
    assert_eq!(rest.helm.processes, 0, "helm processes at rest");

    let restart = &report.restart.cost;
    assert_eq!(restart.api.writes, 0, "after a restart: {:#?}", restart.api.by_call);
    assert_eq!(restart.helm.renders, 0, "renders after a restart");
    assert!(restart.helm.processes >= 1, "`helm version` is seen, so a render would be");
    assert!(report.restart.edit_served_seconds.is_some(), "an edit right after a start is served");
}
