//! What the command itself does: checks, notes, rules by hand, errors. It needs no cluster.

use crate::harness::copy_dir;
use crate::harness::rights::generate_rbac_in;

#[test]
fn this_repositorys_role_is_what_is_generated() {
    let checked = generate_rbac_in(&lab::checkout(), "helm4", &["--check"]);
    assert_eq!((checked.code, checked.out.as_str()), (0, ""), "{checked:?}");
}

#[test]
fn a_check_shows_the_difference_and_rules_by_hand_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    copy_dir(&lab::checkout().join("tests/charts/roles"), &dir.path().join("helm-charts/roles"));
    let watch = "- {group: a.example.com, version: v1, kind: Team, chart: helm-charts/roles}\n";
    std::fs::write(dir.path().join("watches.yaml"), watch).unwrap();
    let file = dir.path().join("config/rbac/role.yaml");
    let read = || std::fs::read_to_string(&file).unwrap();

    let missing = generate_rbac_in(dir.path(), "helm4", &["--check"]);
    assert!(missing.code == 1 && missing.out.contains("+  - teams") && !file.exists(), "{missing:?}");
    let written = generate_rbac_in(dir.path(), "helm4", &[]);
    for note in [
        "note: helm-charts/roles/templates/roles.yaml: the chart makes the Role <release>, which grants",
        "it has a wildcard",
        "the chart binds the ClusterRole view, which is not its own",
        "config/crd/bases has no definition of Team; the role assumes `teams`, namespaced",
    ] {
        assert!(written.code == 0 && written.err.contains(note), "{note}: {written:?}");
    }
    let by_hand = "# For the night shift.\n- apiGroups: [\"\"]\n  resources: [nodes]\n  verbs: [list]\n";
    std::fs::write(&file, read() + by_hand).unwrap();
    let checked = generate_rbac_in(dir.path(), "helm4", &["--check"]);
    assert_eq!((checked.code, checked.out.as_str()), (0, ""), "{checked:?}");

    std::fs::write(&file, read().replacen("  - serviceaccounts\n", "  - '*'\n", 1)).unwrap();
    let changed = read();
    let checked = generate_rbac_in(dir.path(), "helm4", &["--check"]);
    assert!(checked.code == 1 && checked.out.contains("-  - '*'\n+  - serviceaccounts\n"), "{checked:?}");
    assert_eq!(read(), changed, "a check writes nothing");
    assert_eq!(generate_rbac_in(dir.path(), "helm4", &[]).code, 0);
    assert!(read().ends_with(by_hand) && !read().contains("  resources:\n  - '*'"), "{}", read());

    let more = generate_rbac_in(dir.path(), "helm4", &["--stdout", "--max-renders=150", "--namespaced"]);
    assert!(more.out.contains("`chartwright generate rbac --namespaced --max-renders=150`"), "{more:?}");
    let escalating = generate_rbac_in(dir.path(), "helm4", &["--stdout", "--escalate"]);
    assert!(
        escalating.out.contains("  - bind\n  - escalate\n") && !escalating.out.contains("leases"),
        "{escalating:?}"
    );
}

#[test]
fn what_cannot_be_read_is_one_line_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let line = generate_rbac_in(dir.path(), "helm4", &[]).complaint(1);
    assert!(line.contains("cannot read ./watches.yaml"), "{line}");
    let watch = "- {group: a.example.com, version: v1, kind: Team, chart: helm-charts/none}\n";
    std::fs::write(dir.path().join("watches.yaml"), watch).unwrap();
    let line = generate_rbac_in(dir.path(), "helm4", &[]).complaint(1);
    assert!(line.contains("helm-charts/none does not exist"), "{line}");
    assert!(!dir.path().join("config").exists());
}

#[test]
fn charts_are_where_run_looks_for_them_and_what_cannot_be_written_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    copy_dir(&lab::checkout().join("tests/charts/roles"), &dir.path().join("helm-charts/roles"));
    std::fs::create_dir_all(dir.path().join("shop/config/rbac")).unwrap();
    let watch = "- {group: a.example.com, version: v1, kind: Team, chart: helm-charts/roles}\n";
    std::fs::write(dir.path().join("shop/watches.yaml"), watch).unwrap();
    let role = dir.path().join("shop/config/rbac/role.yaml");
    let arguments = ["--watches-file=shop/watches.yaml", "--namespaced"];

    let binding = dir.path().join("shop/config/rbac/role_binding.yaml");
    std::fs::create_dir(&binding).unwrap();
    let refused = generate_rbac_in(dir.path(), "helm4", &arguments);
    assert!(refused.code == 1 && refused.err.contains("role_binding.yaml") && !role.exists(), "{refused:?}");
    std::fs::remove_dir(&binding).unwrap();
    let written = generate_rbac_in(dir.path(), "helm4", &arguments);
    assert!(written.code == 0 && role.exists() && binding.exists(), "{written:?}");
}
