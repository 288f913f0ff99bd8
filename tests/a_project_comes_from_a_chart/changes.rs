//! A project grows and shrinks, and keeps what somebody did by hand.

use crate::harness::site::Site;

#[test]
fn what_one_command_makes_another_takes_away() {
    let site = Site::initialised();
    let empty = site.tree();
    let chart = site.chart("paint", "");
    site.chartwright(&["create", "api", "--helm-chart", chart.to_str().unwrap(), "--namespaced=false"]).good();
    let one = site.tree();
    site.chartwright(&["create", "api", "--kind", "Shop", "--group", "apps", "--plural", "shoppes"]).good();
    assert!(site.read("watches.yaml").contains("kind: Paint") && site.read("watches.yaml").contains("kind: Shop"));
    let (paint, shop) = (format!("charts.{}_paints", site.domain()), format!("apps.{}_shoppes", site.domain()));
    assert!(site.read(&format!("config/crd/bases/{paint}.yaml")).contains("scope: Cluster"));
    assert!(site.read(&format!("config/crd/bases/{shop}.yaml")).contains("scope: Namespaced"));
    assert_eq!(
        site.kubectl(&["kustomize", "config/default"]).good().matches("kind: CustomResourceDefinition").count(),
        2
    );
    site.chartwright(&["delete", "api", "--group", "apps", "--kind", "Shop"]).good();
    site.is_as(&one);
    site.chartwright(&["delete", "api", "--kind", "Paint"]).good();
    site.is_as(&empty);
}

#[test]
fn another_version_is_served_beside_the_first() {
    let site = Site::initialised();
    site.chartwright(&["create", "api", "--kind", "Shop"]).good();
    let one = site.tree();
    site.chartwright(&["create", "api", "--kind", "Shop", "--version", "v1beta1"]).good();
    let definition = format!("config/crd/bases/charts.{}_shops.yaml", site.domain());
    assert_eq!(site.read(&definition).matches("storage: true").count(), 1);
    assert_eq!(site.read(&definition).matches("served: true").count(), 2);
    assert_eq!(site.read("watches.yaml").matches("kind: Shop").count(), 1, "one watch sees both");
    let samples = site.kubectl(&["kustomize", "config/samples"]).good();
    assert!(samples.contains("name: shop-sample\n") && samples.contains("name: shop-v1beta1-sample\n"), "{samples}");
    // Whichever goes, the other stays and is watched.
    site.chartwright(&["delete", "api", "--kind", "Shop"]).good();
    assert!(site.read("watches.yaml").contains("version: v1beta1") && site.read(&definition).contains("storage: true"));
    site.chartwright(&["create", "api", "--kind", "Shop"]).good();
    site.chartwright(&["delete", "api", "--kind", "Shop", "--version", "v1beta1"]).good();
    let watches = |tree: &std::collections::BTreeMap<_, Vec<u8>>| tree[std::path::Path::new("watches.yaml")].clone();
    assert_eq!(watches(&site.tree()), watches(&one));
}

#[test]
fn init_again_mends_and_keeps_what_was_changed() {
    let site = Site::initialised();
    site.chartwright(&["create", "api", "--kind", "Shop"]).good();
    let before = site.tree();
    site.chartwright(&["init"]).good();
    site.is_as(&before);
    std::fs::remove_file(site.root().join("Dockerfile")).unwrap();
    site.file("Makefile", "all: ; echo mine\n");
    site.chartwright(&["init", "--domain", &site.domain()]).good();
    assert!(site.read("Dockerfile").contains("FROM") && site.read("Makefile").contains("mine"));
    site.chartwright(&["init", "--force"]).good();
    site.is_as(&before);
    let other = site.refused(1, &["init", "--domain", "other.example.com"]);
    assert!(other.contains("the domain of this project"), "{other}");
}

#[test]
fn what_somebody_changed_is_kept_or_refused() {
    let site = Site::initialised();
    site.chartwright(&["create", "api", "--kind", "Shop"]).good();
    site.file("helm-charts/shop/templates/more.yaml", "# mine\n");
    let role = format!("# mine\n{}", site.read("config/rbac/role.yaml"));
    site.file("config/rbac/role.yaml", &role);
    let chart = site.chart("shop", "");
    let arguments = ["create", "api", "--kind", "Other", "--helm-chart", chart.to_str().unwrap()];
    let refused = site.refused(1, &arguments);
    assert!(refused.contains("helm-charts/shop/") && refused.contains("--force"), "{refused}");
    let said = site.chartwright(&["create", "api", "--kind", "Third"]).good();
    assert!(said.contains("note: config/rbac/role.yaml was changed"), "{said}");
    assert_eq!(site.read("config/rbac/role.yaml"), role);

    let said = site.chartwright(&["delete", "api", "--kind", "Shop"]).good();
    assert!(said.contains("helm-charts/shop was changed since it was fetched"), "{said}");
    assert!(site.root().join("helm-charts/shop/templates/more.yaml").is_file());
    site.chartwright(&[&arguments[..], &["--force"]].concat()).good();
    assert!(!site.root().join("helm-charts/shop/templates/more.yaml").exists(), "the whole chart was replaced");
    assert!(site.read("helm-charts/shop/templates/config.yaml").contains("ConfigMap"));
}

#[test]
fn rights_that_somebody_added_below_the_marker_stay() {
    let site = Site::initialised();
    site.chartwright(&["create", "api", "--kind", "Shop"]).good();
    let role = site.read("config/rbac/role.yaml") + "# by hand\n";
    site.file("config/rbac/role.yaml", &role);
    site.chartwright(&["create", "api", "--kind", "Third"]).good();
    let role = site.read("config/rbac/role.yaml");
    assert!(role.ends_with("# by hand\n") && role.contains("- thirds\n"), "{role}");
}
