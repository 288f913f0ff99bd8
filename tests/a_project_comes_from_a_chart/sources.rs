//! Wherever a chart is, it gets into the project with all that it depends on.

use crate::harness::shelf::Shelf;
use crate::harness::site::{Site, chart_in};

const HELMS: [&str; 2] = ["helm3", "helm4"];

/// The version of a chart that arrived.
fn version(site: &Site, chart: &str) -> String {
    let text = site.read(&format!("helm-charts/{chart}/Chart.yaml"));
    text.lines().find_map(|line| line.strip_prefix("version: ")).unwrap().to_owned()
}

#[track_caller]
fn arrives(site: &Site, chart: &str, wanted: &str, arguments: &[&str]) {
    let said = site.chartwright(&[&["init", "--domain", "example.com", "--kind", "Paint"], arguments].concat());
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    assert_eq!(version(site, chart), wanted);
    assert!(site.chartwright(&["validate"]).good().starts_with("ok"));
}

#[test]
fn a_directory_and_a_packed_chart_arrive() {
    let site = Site::new();
    let chart = site.chart("paint", "");
    arrives(&site, "paint", "1.0.0", &["--helm-chart", chart.to_str().unwrap()]);
    let shelf = Shelf::open();
    shelf.offer(&[&chart]);
    let packed = site.beside("paint-1.0.0.tgz");
    std::fs::write(&packed, shelf.packed("paint-1.0.0.tgz")).unwrap();
    arrives(&Site::new(), "paint", "1.0.0", &["--helm-chart", packed.to_str().unwrap()]);
}

#[test]
fn a_repository_gives_the_newest_version_or_the_one_that_is_named() {
    let shelf = Shelf::open();
    let charts = Site::new();
    let (old, new) = (charts.beside("old/paint"), charts.beside("new/paint"));
    chart_in(&old, "paint", "1.0.0", "");
    chart_in(&new, "paint", "2.0.0", "");
    shelf.offer(&[&old, &new]);
    let repository = shelf.repository();
    for helm in HELMS {
        let from = ["--helm-chart", "paint", "--helm-chart-repo", &repository];
        arrives(&Site::with_helm(helm), "paint", "2.0.0", &from);
        let older = [&from[..], &["--helm-chart-version", "1.0.0"]].concat();
        arrives(&Site::with_helm(helm), "paint", "1.0.0", &older);
        let address = format!("{repository}/paint-1.0.0.tgz");
        arrives(&Site::with_helm(helm), "paint", "1.0.0", &["--helm-chart", &address]);

        let site = Site::with_helm(helm);
        let known = format!(
            "apiVersion: ''\nrepositories:\n- name: mine\n  url: {repository}\n- name: gone\n  url: http://127.0.0.1:9\n"
        );
        let config = site.beside("home/.config/helm");
        std::fs::create_dir_all(&config).unwrap();
        std::fs::write(config.join("repositories.yaml"), known).unwrap();
        arrives(&site, "paint", "2.0.0", &["--helm-chart", "mine/paint"]);
        let unknown = site.refused(1, &["create", "api", "--kind", "Other", "--helm-chart", "other/paint"]);
        assert!(unknown.contains("helm repo add other"), "{unknown}");
    }
}

#[test]
fn a_registry_gives_a_tag_a_version_or_the_newest() {
    let shelf = Shelf::open();
    let charts = Site::new();
    for version in ["1.0.0", "2.0.0"] {
        let dir = charts.beside(version).join("paint");
        chart_in(&dir, "paint", version, "");
        shelf.push(&dir, "charts");
        shelf.push(&dir, "private");
    }
    let chart = format!("oci://{}/charts/paint", shelf.address);
    for helm in HELMS {
        let tagged = format!("{chart}:1.0.0");
        arrives(&Site::with_helm(helm), "paint", "1.0.0", &["--plain-http", "--helm-chart", &tagged]);
        let newest = ["--plain-http", "--helm-chart", &chart];
        arrives(&Site::with_helm(helm), "paint", "2.0.0", &newest);
        let older = [&newest[..], &["--helm-chart-version", "1.0.0"]].concat();
        arrives(&Site::with_helm(helm), "paint", "1.0.0", &older);

        let site = Site::with_helm(helm);
        let private = format!("oci://{}/private/paint:1.0.0", shelf.address);
        let refused = site.refused(1, &["init", "--plain-http", "--helm-chart", &private]);
        assert!(refused.starts_with("error: cannot fetch the chart oci://"), "{refused}");
        let login = site.beside("home/.config/helm/registry");
        std::fs::create_dir_all(&login).unwrap();
        std::fs::write(login.join("config.json"), shelf.login()).unwrap();
        arrives(&site, "paint", "1.0.0", &["--plain-http", "--helm-chart", &private]);
    }
}

/// From a repository, from a registry and from the directory beside it.
#[test]
fn dependencies_are_fetched_and_saved_with_the_chart() {
    let shelf = Shelf::open();
    let charts = Site::new();
    let (listed, pushed) = (charts.chart("listed", ""), charts.chart("pushed", ""));
    charts.chart("beside", "");
    shelf.offer(&[&listed]);
    shelf.push(&pushed, "charts");
    let needs = format!(
        "dependencies:\n- {{name: listed, version: '>=1', repository: '{}'}}\n- {{name: pushed, version: 1.x.x, repository: 'oci://{}/charts'}}\n- {{name: beside, version: 1.0.0, repository: 'file://../beside'}}\n",
        shelf.repository(),
        shelf.address
    );
    let chart = charts.chart("paint", &needs);
    for helm in HELMS {
        let site = Site::with_helm(helm);
        arrives(&site, "paint", "1.0.0", &["--plain-http", "--helm-chart", chart.to_str().unwrap()]);
        for packed in ["listed-1.0.0.tgz", "pushed-1.0.0.tgz", "beside-1.0.0.tgz"] {
            assert!(site.root().join("helm-charts/paint/charts").join(packed).is_file(), "{helm}: {packed}");
        }
        assert!(site.root().join("helm-charts/paint/Chart.lock").is_file());
        assert!(!chart.join("charts").exists() && !chart.join("Chart.lock").exists(), "the original is left alone");

        // With all of it there, nobody is asked: another project takes the chart without a registry.
        let other = Site::with_helm(helm);
        arrives(&other, "paint", "1.0.0", &["--helm-chart", site.root().join("helm-charts/paint").to_str().unwrap()]);
        // And with the lock alone, the same is fetched again.
        let locked = charts.beside(&format!("locked-{helm}/paint"));
        crate::harness::copy_dir(&site.root().join("helm-charts/paint"), &locked);
        std::fs::remove_file(locked.join("charts/listed-1.0.0.tgz")).unwrap();
        crate::harness::copy_dir(&charts.beside("beside"), &charts.beside(&format!("locked-{helm}/beside")));
        arrives(&Site::with_helm(helm), "paint", "1.0.0", &["--plain-http", "--helm-chart", locked.to_str().unwrap()]);
    }
    let gone = charts.chart("gone", "dependencies:\n- {name: db, version: 1.0.0, repository: 'http://127.0.0.1:9'}\n");
    let refused = Site::new().refused(1, &["init", "--helm-chart", gone.to_str().unwrap()]);
    assert!(refused.starts_with("error: cannot fetch the dependencies of gone: "), "{refused}");
}
