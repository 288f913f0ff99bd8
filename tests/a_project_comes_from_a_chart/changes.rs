//! A project grows and shrinks, and keeps what somebody did by hand.

use crate::harness::site::{Site, chart_in};

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
    let said = site.chartwright(&["init"]).good();
    assert!(said.contains("make install run") && !said.contains("create api"), "{said}");
    site.is_as(&before);
    std::fs::remove_file(site.root().join("config/rbac/role.yaml")).unwrap();
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
    let said = site.chartwright(&["create", "api", "--kind", "Third"]).good();
    assert!(said.contains("note: config/rbac/role.yaml was changed") && said.contains("generate rbac"), "{said}");
    assert_eq!(site.read("config/rbac/role.yaml"), role);

    let said = site.chartwright(&["delete", "api", "--kind", "Shop"]).good();
    assert!(said.contains("helm-charts/shop was changed since it was fetched"), "{said}");
    assert!(site.root().join("helm-charts/shop/templates/more.yaml").is_file());
    let refused = site.refused(1, &arguments);
    assert!(refused.contains("helm-charts/shop/") && refused.contains("--force"), "{refused}");
    site.chartwright(&[&arguments[..], &["--force"]].concat()).good();
    assert!(!site.root().join("helm-charts/shop/templates/more.yaml").exists(), "the whole chart was replaced");
    assert!(site.read("helm-charts/shop/templates/config.yaml").contains("ConfigMap"));
}

/// Whether it was named where it is, or is the same as one from elsewhere.
#[test]
fn a_chart_that_was_there_before_its_api_stays_when_that_goes() {
    let site = Site::initialised();
    let (place, elsewhere) = (site.root().join("helm-charts/mine"), site.chart("mine", ""));
    chart_in(&place, "mine", "1.0.0", "");
    let before = site.tree();
    for chart in ["helm-charts/mine", "./helm-charts/../helm-charts/mine/", elsewhere.to_str().unwrap()] {
        site.chartwright(&["create", "api", "--helm-chart", chart, "--group", "apps"]).good();
        let said = site.chartwright(&["delete", "api", "--kind", "Mine", "--group", "apps"]).good();
        assert!(said.contains("note: helm-charts/mine was not made by `create api`, and is left"), "{chart}: {said}");
        site.is_as(&before);
    }
    // Two kinds of one chart that we made: it goes with the last of them.
    std::fs::remove_dir_all(site.root().join("helm-charts")).unwrap();
    let empty = site.tree();
    for (kind, chart) in [("One", elsewhere.to_str().unwrap()), ("Two", "helm-charts/mine")] {
        site.chartwright(&["create", "api", "--helm-chart", chart, "--kind", kind]).good();
    }
    for kind in ["One", "Two"] {
        site.chartwright(&["delete", "api", "--kind", kind]).good();
    }
    site.is_as(&empty);
}

/// Earlier releases wrote down the chart's own place as its source.
#[test]
fn a_chart_that_is_its_own_source_stays() {
    let site = Site::initialised();
    site.chartwright(&["create", "api", "--kind", "Shop"]).good();
    site.file("PROJECT", &site.read("PROJECT").replace("source: starter", "source: helm-charts/shop"));
    site.chartwright(&["delete", "api", "--kind", "Shop"]).good();
    assert!(site.root().join("helm-charts/shop/Chart.yaml").is_file());
}

#[test]
fn a_definition_that_somebody_changed_stays_unless_forced() {
    let site = Site::initialised();
    let path = format!("config/crd/bases/charts.{}_shops.yaml", site.domain());
    let empty = site.tree();
    for force in [true, false] {
        site.chartwright(&["create", "api", "--kind", "Shop", "--strict-types"]).good();
        let changed = site.read(&path).replace("    - chartwright\n", "    - chartwright\n    - all\n");
        assert_ne!(changed, site.read(&path));
        site.file(&path, &changed);
        let arguments = ["delete", "api", "--kind", "Shop", "--force"];
        let said = site.chartwright(&arguments[..if force { 5 } else { 4 }]).good();
        assert_eq!(said.contains(&format!("note: {path} is not what its chart gives")), !force, "{said}");
        if force {
            site.is_as(&empty);
        } else {
            assert_eq!(site.read(&path), changed);
            assert!(!site.root().join("config/crd/kustomization.yaml").exists());
        }
    }
}

/// Of one that is there they were told when it came.
#[test]
fn only_the_chart_at_hand_is_told_about_and_each_thing_once() {
    let site = Site::initialised();
    let chart = site.chart("wanting", "");
    std::fs::write(chart.join("templates/more.yaml"), "{{ required \"say how\" .Values.how }}\n").unwrap();
    let said = site.chartwright(&["create", "api", "--helm-chart", chart.to_str().unwrap()]).good();
    assert!(said.contains("does not render with its default values"), "{said}");
    assert!(!said.contains("its rights are read"), "{said}");
    let said = site.chartwright(&["create", "api", "--kind", "Shop"]).good();
    assert!(!said.contains("wanting"), "{said}");
    let said = site.chartwright(&["delete", "api", "--kind", "Shop"]).good();
    assert!(!said.contains("wanting"), "{said}");
    let said = site.chartwright(&["create", "api", "--kind", "Wanting", "--version", "v1"]).good();
    assert!(said.contains("note: the chart wanting does not render with its default values"), "{said}");
}

/// It tells on stderr what it did.
#[track_caller]
fn make_role(site: &Site, flags: &[&str]) {
    let said = site.chartwright(&[&["generate", "rbac"], flags].concat());
    assert_eq!(said.code, 0, "{flags:?}: {said:?}");
}

/// What a person chose when they made the role holds for the kinds that come and go after it.
#[test]
fn a_role_stays_of_the_sort_that_it_is() {
    for flags in [&["--namespaced"][..], &["--escalate"], &["--namespaced", "--escalate"]] {
        let site = Site::initialised();
        site.chartwright(&["create", "api", "--kind", "Shop"]).good();
        make_role(&site, flags);
        let before = site.tree();
        let said = site.chartwright(&["create", "api", "--kind", "Third"]).good();
        assert!(!said.contains("role.yaml"), "{flags:?}: {said}");
        let role = site.read("config/rbac/role.yaml");
        assert!(role.contains("- thirds\n"), "{flags:?}: {role}");
        assert_eq!(role.contains("kind: Role\n"), flags.contains(&"--namespaced"), "{flags:?}: {role}");
        make_role(&site, &[flags, &["--check"]].concat());
        site.chartwright(&["delete", "api", "--kind", "Third"]).good();
        site.is_as(&before);
    }
}

/// Its own API can be deleted, and others come and go.
#[test]
fn a_chart_that_is_gone_or_broken_stops_nobody() {
    let site = Site::initialised();
    for kind in ["Shop", "Gone"] {
        site.chartwright(&["create", "api", "--kind", kind]).good();
    }
    std::fs::remove_dir_all(site.root().join("helm-charts/gone")).unwrap();
    site.file("helm-charts/shop/Chart.yaml", "a: b: c\n");
    let said = site.chartwright(&["create", "api", "--kind", "Third"]).good();
    assert!(said.contains("note: config/rbac/role.yaml is left as it is"), "{said}");
    assert!(said.contains("`chartwright generate rbac`"), "{said}");
    site.chartwright(&["delete", "api", "--kind", "Gone"]).good();
    let said = site.chartwright(&["delete", "api", "--kind", "Shop"]).good();
    assert!(said.contains("note: helm-charts/shop cannot be read") && said.contains("remove it by hand"), "{said}");
    assert!(!site.read("PROJECT").contains("name: gone") && !site.read("watches.yaml").contains("Gone"));
    make_role(&site, &[]);
    site.chartwright(&["delete", "api", "--kind", "Third"]).good();
    assert!(!site.read("config/rbac/role.yaml").contains("thirds"));
}

#[test]
fn charts_may_be_anywhere_in_the_project() {
    let site = Site::initialised();
    for (kind, from, place) in [
        ("One", "one", "charts/one"),
        ("Two", "two", "helm-charts/team/two"),
        ("Three", "three", "helm-charts/three-1.0.tgz"),
    ] {
        site.chartwright(&["create", "api", "--kind", kind]).good();
        let (from, to) = (format!("helm-charts/{from}"), site.root().join(place));
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        if place.ends_with(".tgz") {
            let mut tar = std::process::Command::new("tar");
            tar.arg("-czf").arg(&to).args(["-C", "helm-charts", "three"]).current_dir(site.root());
            assert!(tar.status().unwrap().success());
            std::fs::remove_dir_all(site.root().join(&from)).unwrap();
        } else {
            std::fs::rename(site.root().join(&from), to).unwrap();
        }
        let watches = site.read("watches.yaml").replace(&format!("chart: {from}\n"), &format!("chart: ./{place}\n"));
        site.file("watches.yaml", &watches);
        make_role(&site, &[]);
    }
    let before = site.tree();
    let said = site.chartwright(&["create", "api", "--kind", "Shop"]).good();
    assert!(!said.contains("note: config/rbac"), "{said}");
    assert!(site.read("config/rbac/role.yaml").contains("- shops\n"));
    site.chartwright(&["delete", "api", "--kind", "Shop"]).good();
    site.is_as(&before);
    site.chartwright(&["delete", "api", "--kind", "Three"]).good();
}

#[test]
fn another_version_is_like_the_first_unless_somebody_says_otherwise() {
    let site = Site::initialised();
    site.chartwright(&["create", "api", "--kind", "Shop", "--namespaced=false", "--plural", "shoppes"]).good();
    let next = ["create", "api", "--kind", "Shop", "--version", "v1"];
    let scope = site.refused(1, &[&next[..], &["--namespaced"]].concat());
    assert!(scope.contains("cluster-scoped in its other versions"), "{scope}");
    let plural = site.refused(1, &[&next[..], &["--plural", "shops"]].concat());
    assert!(plural.contains("the plural of Shop is \"shoppes\""), "{plural}");
    // Others leave the plural out of PROJECT.
    site.file("PROJECT", &site.read("PROJECT").replace("  plural: shoppes\n", ""));
    site.chartwright(&[&next[..], &["--plural", "shoppes"]].concat()).good();
    let definition = site.read(&format!("config/crd/bases/charts.{}_shoppes.yaml", site.domain()));
    assert_eq!(definition.matches("served: true").count(), 2);
    site.chartwright(&["delete", "api", "--kind", "Shop", "--version", "v1"]).good();
    site.chartwright(&["delete", "api", "--kind", "Shop"]).good();
    assert!(!site.read("PROJECT").contains("Shop") && !site.root().join("config/crd").exists());
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

#[test]
fn a_definition_that_is_older_than_its_chart_is_found_and_made_anew() {
    let site = Site::initialised();
    site.chartwright(&["create", "api", "--helm-chart", site.chart("paint", "").to_str().unwrap()]).good();
    let check = || site.chartwright(&["generate", "crd", "--check"]).code;
    assert_eq!(check(), 0, "it was made just now");
    site.file("helm-charts/paint/values.yaml", "# Of the paint.\ncolour: blue\n# How much.\nlitres: 5\n");
    let before = site.tree();
    assert_eq!(check(), 1);
    site.is_as(&before);
    let made = site.chartwright(&["generate", "crd"]);
    assert!(made.code == 0 && made.out.contains("litres"), "{made:?}");
    assert!(site.read(&format!("config/crd/bases/charts.{}_paints.yaml", site.domain())).contains("litres"));
    assert_eq!(check(), 0);
    // The list of values follows the chart, and the sample stays.
    let list = site.read("config/samples/full/charts_v1alpha1_paint.yaml");
    assert!(list.contains("  # How much.\n  litres: 5\n"), "{list}");
    assert!(!site.read("config/samples/charts_v1alpha1_paint.yaml").contains("litres"));
}

#[test]
fn the_sample_is_short_and_all_values_are_in_a_file_that_is_not_applied() {
    let site = Site::initialised();
    site.chartwright(&["create", "api", "--kind", "Shop"]).good();
    let (sample, list) = ("config/samples/charts_v1alpha1_shop.yaml", "config/samples/full/charts_v1alpha1_shop.yaml");
    let spec = |path: &str| chartwright::yaml::parse(&site.read(path)).unwrap()["spec"].clone();
    assert_eq!(spec(sample), serde_json::json!({"replicaCount": 1}));
    let values = chartwright::yaml::parse(&site.read("helm-charts/shop/values.yaml")).unwrap();
    assert_eq!(spec(list), values);
    let applied = site.kubectl(&["kustomize", "config/samples"]).good();
    assert!(applied.matches("kind: Shop").count() == 1 && !applied.contains("image"), "{applied}");
}

#[test]
fn a_readme_of_somebody_else_is_kept() {
    let site = Site::new();
    site.file("README.md", "# Mine\n");
    for flags in [&[][..], &["--force"]] {
        site.chartwright(&[&["init", "--domain", &site.domain()], flags].concat()).good();
        assert_eq!(site.read("README.md"), "# Mine\n");
    }
    std::fs::remove_file(site.root().join("README.md")).unwrap();
    site.chartwright(&["init"]).good();
    let readme = site.read("README.md");
    assert!(readme.starts_with(&format!("# {}\n", site.name)), "{readme}");
    let makefile = site.read("Makefile");
    let targets: Vec<&str> = makefile.lines().filter_map(|line| line.strip_prefix(".PHONY: ")).collect();
    let commands = readme.lines().filter_map(|line| line.strip_prefix("make ")).flat_map(str::split_whitespace);
    let rows = readme.lines().filter(|line| line.starts_with("| `")).map(|line| line.split('|').nth(1).unwrap());
    let rows = rows.flat_map(|row| row.split(',')).map(|cell| cell.trim().trim_matches('`'));
    let named: Vec<&str> = commands.filter(|word| !word.contains('=')).chain(rows).collect();
    assert!(named.len() > 15, "{named:?}");
    assert!(named.iter().all(|target| targets.contains(target)), "{named:?} and {targets:?}");
}
