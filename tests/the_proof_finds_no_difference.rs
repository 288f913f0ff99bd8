//! What `make fidelity` compares: three charts, with both versions of helm, and a chart of which Chartwright gets another one.
//! All charts are compared by `make fidelity-all`.

use std::path::PathBuf;

use fidelity::case::{Case, directory};
use fidelity::plane::Pair;
use fidelity::prove::prove;
use fidelity::report::Report;
use fidelity::{HelmVersion, Options, Phase, table};

use crate::harness::copy_dir;

fn options() -> Options {
    Options::new(PathBuf::from(env!("CARGO_BIN_EXE_chartwright"))).unwrap()
}

/// One pair of control planes for all of it: nobody else may use them while everything on them is compared.
#[tokio::test]
async fn three_charts_are_deployed_as_by_helm_and_a_planted_difference_is_found() {
    let (pair, options) = (Pair::start().await.unwrap(), options());
    for name in ["plain", "password", "database"] {
        for version in HelmVersion::ALL {
            let report = prove(&Case::read(&directory().join(name)).unwrap(), version, &pair, &options).await;
            assert!(report.is_equal(), "{}", table::print(&report));
            assert_eq!(report.phases.len(), 3, "install, upgrade, uninstall");
            assert!(report.phases[0].compared.objects >= 5, "{}", table::print(&report));
        }
    }
    a_planted_difference_is_found(&pair, &options).await;
}

/// A proof that cannot fail proves nothing: one field, one label and one object are not as in the chart that helm gets.
async fn a_planted_difference_is_found(pair: &Pair, options: &Options) {
    let case = Case::read(&directory().join("plain")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    copy_dir(&case.chart, dir.path());
    let file = dir.path().join("templates/all.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let planted = text.replace("port: 81", "port: 82").replace("resources: [nodes]", "resources: [pods]");
    assert_ne!(planted, text);
    let more = "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: planted\n";
    std::fs::write(&file, planted + more).unwrap();
    let case = Case { our_chart: Some(dir.path().to_owned()), ..case };
    let report = prove(&case, HelmVersion::Four, pair, options).await;
    assert!(!report.is_equal(), "{}", table::print(&report));
    assert_eq!(found(&report, Phase::Install), found(&report, Phase::Upgrade));
    assert_eq!(found(&report, Phase::Uninstall), [""; 0], "the planted object goes with the release");
    let wanted = [
        "ClusterRole /rules/0/resources/0",
        "ConfigMap ",
        "Service /spec/ports/1/port",
        "Service /spec/ports/1/targetPort",
    ];
    assert_eq!(found(&report, Phase::Install), wanted, "{}", table::print(&report));
}

/// The differences of a phase by kind and field, without those of records, which hold the same objects again.
fn found(report: &Report, phase: Phase) -> Vec<String> {
    let phase = report.phases.iter().find(|it| it.phase == phase).unwrap();
    let found = phase.compared.differences.iter().filter(|it| !it.object.starts_with("Record "));
    let mut found: Vec<String> =
        found.map(|it| format!("{} {}", it.object.split(' ').next().unwrap(), it.field)).collect();
    found.sort();
    found
}

#[test]
fn every_case_is_in_the_table_of_the_document() {
    let document = std::fs::read_to_string(fidelity::document()).unwrap();
    let row = |case: &Case| format!("| `{}` | {} |\n", case.name, case.about);
    let wanted: String = Case::all(&directory()).unwrap().iter().map(row).collect();
    let head = "\n## Cases\n\n| case | what it shows |\n|---|---|\n";
    assert!(document.ends_with(&format!("{head}{wanted}")), "docs/fidelity.md should end with:\n{head}{wanted}");
}
