//! What `make fidelity` compares: four charts, with both versions of helm, and charts of which Chartwright gets another one.
//! All charts are compared by `make fidelity-all`.

use std::path::{Path, PathBuf};

use fidelity::case::{Case, directory};
use fidelity::plane::Pair;
use fidelity::prove::prove;
use fidelity::report::Report;
use fidelity::{HelmVersion, Options, Phase, table};
use kube::api::DynamicObject;
use tempfile::TempDir;

use crate::harness::policy::{is_overruled, overruling};
use crate::harness::{copy_dir, until};

fn options() -> Options {
    Options::new(PathBuf::from(env!("CARGO_BIN_EXE_chartwright"))).unwrap()
}

/// One pair of control planes for all of it: nobody else may use them while everything on them is compared.
#[tokio::test]
async fn four_charts_are_deployed_as_by_helm_and_planted_differences_are_found() {
    let (pair, options) = (Pair::start().await.unwrap(), options());
    for name in ["plain", "password", "database", "hooks-install"] {
        for version in HelmVersion::ALL {
            let report = prove(&Case::read(&directory().join(name)).unwrap(), version, &pair, &options).await;
            assert!(report.is_equal(), "{}", table::print(&report));
            assert_eq!(report.phases.len(), 3, "install, upgrade, uninstall");
            assert!(report.phases[0].compared.objects >= 5, "{}", table::print(&report));
        }
    }
    planted_differences_are_found(&pair, &options).await;
    another_order_of_hooks_is_found(&pair, &options).await;
    a_conflict_that_a_release_reports_is_found(&pair, &options).await;
}

/// Replaces a text in a file of a chart.
fn plant(chart: &Path, file: &str, [text, planted]: [&str; 2]) {
    let file = chart.join(file);
    let before = std::fs::read_to_string(&file).unwrap();
    assert!(before.contains(text), "{}: {text}", file.display());
    std::fs::write(&file, before.replace(text, planted)).unwrap();
}

/// A case with a copy of its chart for Chartwright.
fn with_a_copy(case: &str) -> (Case, TempDir) {
    let case = Case::read(&directory().join(case)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    copy_dir(&case.chart, dir.path());
    (Case { our_chart: Some(dir.path().to_owned()), ..case }, dir)
}

/// A proof that cannot fail proves nothing: fields, a label, the notes and an object are not as in the chart that helm gets, and
/// the object stays when the release goes.
async fn planted_differences_are_found(pair: &Pair, options: &Options) {
    let (case, dir) = with_a_copy("plain");
    plant(dir.path(), "templates/all.yaml", ["port: 81", "port: 82"]);
    let rules = "\nrules:\n- apiGroups: [\"\"]\n  resources: [nodes]\n";
    let planted = format!("\n    planted: \"yes\"{}", rules.replace("nodes", "pods"));
    plant(dir.path(), "templates/all.yaml", [rules, &planted]);
    let kept = "  annotations:\n    helm.sh/resource-policy: keep\n";
    let planted = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: planted\n{kept}");
    std::fs::write(dir.path().join("templates/planted.yaml"), planted).unwrap();
    std::fs::write(dir.path().join("templates/NOTES.txt"), "Planted.\n").unwrap();
    let report = prove(&case, HelmVersion::Four, pair, options).await;
    assert!(!report.is_equal(), "{}", table::print(&report));
    assert_eq!(found(&report, Phase::Install), found(&report, Phase::Upgrade));
    assert_eq!(found(&report, Phase::Uninstall), ["ConfigMap "], "the planted object stays");
    let install = &report.phases[0].compared.differences;
    assert!(install.iter().any(|it| it.object.starts_with("Record ") && it.field == "/info/notes"), "{install:?}");
    let wanted = [
        "ClusterRole /metadata/labels/planted",
        "ClusterRole /rules/0/resources/0",
        "ConfigMap ",
        "Service /spec/ports/1/port",
        "Service /spec/ports/1/targetPort",
    ];
    assert_eq!(found(&report, Phase::Install), wanted, "{}", table::print(&report));
}

/// Two hooks change places, and one that leaves no trace does not run. Records would show it too; they are not looked at here.
async fn another_order_of_hooks_is_found(pair: &Pair, options: &Options) {
    let (case, dir) = with_a_copy("hooks-install");
    plant(dir.path(), "templates/pre-b.yaml", ["hook-weight: \"-5\"", "hook-weight: \"-6\""]);
    std::fs::remove_file(dir.path().join("templates/post-gone.yaml")).unwrap();
    let report = prove(&case, HelmVersion::Four, pair, options).await;
    let found = found(&report, Phase::Install);
    let hooks: Vec<&String> = found.iter().filter(|it| it.starts_with("Hooks ")).collect();
    assert_eq!(hooks, ["Hooks /order/0", "Hooks /order/1", "Hooks /order/4"], "{}", table::print(&report));
}

/// A policy on our side overrules the chart, so the release reports a conflict. On the ground of a proof a conflict is an error, whatever
/// the objects look like.
async fn a_conflict_that_a_release_reports_is_found(pair: &Pair, options: &Options) {
    let change = ["/data/colour", "\"grey\""];
    for object in overruling("overrule", ["", "v1", "configmaps"], None, change) {
        let (version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
        let api = pair.ours.api(version, kind, None);
        let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        api.create(&Default::default(), &object).await.unwrap();
    }
    let configs = pair.ours.api("v1", "ConfigMap", Some("default"));
    until("the policy is in force", async || is_overruled(&configs, "proof").await).await;
    let report = prove(&Case::read(&directory().join("plain")).unwrap(), HelmVersion::Four, pair, options).await;
    let error = report.error.as_deref().unwrap_or_default();
    assert!(!report.is_equal() && error.contains("reports a conflict") && error.contains("data.colour"), "{report:?}");
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
