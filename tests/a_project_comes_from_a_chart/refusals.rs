//! Bad input: one clear line, and nothing is changed.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use crate::harness::command_line::said;
use crate::harness::copy_program;
use crate::harness::shelf::Shelf;
use crate::harness::site::Site;

#[test]
fn wrong_arguments_are_told_and_nothing_is_written() {
    let site = Site::initialised();
    let cases: [(&[&str], &str); 9] = [
        (&["--kind", "nginx"], "\"nginx\" is no kind"),
        (&["--kind", "Nginx", "--group", "My_Group"], "is no group"),
        (&["--kind", "Nginx", "--version", "1.0"], "\"1.0\" is no version"),
        (&["--kind", "Nginx", "--plural", "Nginxes"], "\"Nginxes\" is no plural"),
        (&[], "name a kind with --kind"),
        (&["--helm-chart-repo", "https://charts.example.com"], "--helm-chart-repo goes with --helm-chart"),
        (&["--kind", "Nginx", "--helm-chart-version", "1"], "--helm-chart-version goes with --helm-chart"),
        (&["--group", "apps"], "name a kind with --kind"),
        (&["--kind", ""], "\"\" is no kind"),
    ];
    for (arguments, words) in cases {
        let complaint = site.refused(2, &[&["create", "api"], arguments].concat());
        assert!(complaint.contains(words), "{arguments:?}: {complaint}");
    }
    let other = site.chartwright(&["init", "--plugins", "go/v4"]);
    assert!(other.code == 2 && other.err.contains("go/v4") && other.err.contains("helm"), "{other:?}");
    let name = Site::new().refused(2, &["init", "--project-name", "My_Shop"]);
    assert!(name.contains("\"My_Shop\" is no name for a project"), "{name}");
    let domain = Site::new().refused(2, &["init", "--domain", "no domain"]);
    assert!(domain.contains("is no domain"), "{domain}");
}

#[test]
fn what_cannot_be_fetched_is_told_and_nothing_is_written() {
    let shelf = Shelf::open();
    let site = Site::initialised();
    let chart = site.chart("paint", "");
    shelf.offer(&[&chart]);
    shelf.push(&chart, "charts");
    let (repository, registry) = (shelf.repository(), format!("oci://{}/charts", shelf.address));
    let (absent, untagged) = (format!("{registry}/absent:1.0.0"), format!("{registry}/paint:9.9.9"));
    let address = format!("{repository}/absent-1.0.0.tgz");
    let needs = "dependencies:\n- {name: db, version: 1.0.0, repository: 'http://127.0.0.1:9/charts'}\n";
    let needy = site.chart("needy", needs);
    let cases: [(&[&str], &str); 9] = [
        (&["--helm-chart", needy.to_str().unwrap()], "the repository http://127.0.0.1:9/charts cannot be read: dial"),
        (&["--helm-chart", "./absent"], "\"./absent\" is no chart"),
        (&["--helm-chart", "absent"], "--helm-chart-repo"),
        (&["--helm-chart", "absent", "--helm-chart-repo", &repository], "\"absent\" not found"),
        (&["--helm-chart", "paint", "--helm-chart-version", "9.9.9", "--helm-chart-repo", &repository], "9.9.9"),
        (&["--helm-chart", "paint", "--helm-chart-repo", "http://127.0.0.1:9"], "connection refused"),
        (&["--helm-chart", &address], "404"),
        (&["--plain-http", "--helm-chart", &absent], "not found"),
        (&["--plain-http", "--helm-chart", &untagged], "not found"),
    ];
    for (arguments, words) in cases {
        let complaint = site.refused(1, &[&["create", "api"], arguments].concat());
        assert!(complaint.contains(words), "{arguments:?}: {complaint}");
    }
}

#[test]
fn a_chart_that_cannot_be_used_is_told_and_nothing_is_written() {
    let site = Site::initialised();
    let broken = |name: &str, file: &str, text: &str| {
        let chart = site.chart(name, "");
        std::fs::write(chart.join(file), text).unwrap();
        let arguments = ["create", "api", "--helm-chart", chart.to_str().unwrap()];
        site.refused(1, &arguments)
    };
    let unclosed = broken("unclosed", "templates/config.yaml", "{{ if .Values.colour }}\n");
    assert!(unclosed.contains("the chart unclosed does not render") && unclosed.contains("config.yaml"), "{unclosed}");
    let no_yaml = broken("noyaml", "templates/config.yaml", "a: b: c\n");
    assert!(no_yaml.contains("its output is not YAML"), "{no_yaml}");
    let no_object = broken("noobject", "templates/config.yaml", "colour: blue\n");
    assert!(no_object.contains("the chart noobject does not render"), "{no_object}");
    let chart = site.chart("paint", "");
    let arguments = ["create", "api", "--helm-chart-version", "2.0.0", "--helm-chart", chart.to_str().unwrap()];
    let other = site.refused(1, &arguments);
    assert!(other.contains(&format!("the chart at {} is 1.0.0, not 2.0.0", chart.display())), "{other}");
    let unnamed = broken("unnamed", "Chart.yaml", "apiVersion: v2\nversion: 1.0.0\n");
    assert!(unnamed.contains("has no `name`"), "{unnamed}");
    let evil = broken("evil", "Chart.yaml", "apiVersion: v2\nname: ../../evil\nversion: 1.0.0\n");
    assert!(evil.contains("calls itself \"../../evil\""), "{evil}");
    let digits = broken("digits", "Chart.yaml", "apiVersion: v2\nname: 1st\nversion: 1.0.0\n");
    assert!(digits.contains("makes no kind") && digits.contains("--kind"), "{digits}");

    // One that only wants values is taken, and said to.
    let chart = site.chart("wanting", "");
    std::fs::write(chart.join("templates/more.yaml"), "{{ required \"say how\" .Values.how }}\n").unwrap();
    let said = site.chartwright(&["create", "api", "--helm-chart", chart.to_str().unwrap()]).good();
    assert!(
        said.contains("note: the chart wanting does not render with its default values") && said.contains("say how"),
        "{said}"
    );
}

#[test]
fn what_is_there_already_is_told() {
    let site = Site::initialised();
    site.chartwright(&["create", "api", "--kind", "Shop"]).good();
    let again = site.refused(1, &["create", "api", "--kind", "Shop"]);
    assert!(again.contains(&format!("the API charts.{}/v1alpha1 Shop exists already", site.domain())), "{again}");
    let group = site.refused(1, &["create", "api", "--kind", "Shop", "--group", "apps"]);
    assert!(group.contains("is in this project already"), "{group}");
    let chart = site.chart("shop", "");
    let other = site
        .refused(1, &["create", "api", "--kind", "Shop", "--version", "v2", "--helm-chart", chart.to_str().unwrap()]);
    assert!(other.contains("leave --helm-chart out"), "{other}");
    let unknown = site.refused(1, &["delete", "api", "--kind", "Web"]);
    assert!(unknown.contains("is not in this project; it has charts."), "{unknown}");

    let nowhere = Site::new();
    nowhere.file("Makefile", "mine\n");
    let refused = nowhere.refused(1, &["init"]);
    assert!(refused.contains("Makefile exists and differs") && refused.contains("--force"), "{refused}");
    let none = nowhere.refused(1, &["create", "api", "--kind", "Shop"]);
    assert!(none.contains("there is no PROJECT file in ") && none.contains("chartwright init"), "{none}");
    nowhere.file("PROJECT", "version: '3'\nlayout: [go.kubebuilder.io/v4]\n");
    let go = nowhere.refused(1, &["create", "api", "--kind", "Shop"]);
    assert!(go.contains("go.kubebuilder.io/v4"), "{go}");
}

#[test]
fn what_is_another_apis_is_not_replaced_even_by_force() {
    let site = Site::initialised();
    site.chartwright(&["create", "api", "--kind", "Shop", "--plural", "shoppes"]).good();
    let chart = site.chart("shop", "");
    for force in [&[][..], &["--force"]] {
        let arguments = ["create", "api", "--kind", "Other", "--helm-chart", chart.to_str().unwrap()];
        let taken = site.refused(1, &[&arguments[..], force].concat());
        assert!(taken.contains("helm-charts/shop is the chart of Shop"), "{taken}");
        let arguments = ["create", "api", "--kind", "Zed", "--plural", "shoppes"];
        let taken = site.refused(1, &[&arguments[..], force].concat());
        assert!(taken.contains("the plural \"shoppes\" is that of Shop"), "{taken}");
    }
}

#[test]
fn no_helm_and_no_right_to_write_are_told() {
    let site = Site::new();
    let before = site.tree();
    let mut without = site.command(&["init", "--kind", "Shop"]);
    without.env_remove("CHARTWRIGHT_HELM").env("PATH", "/nonexistent");
    let complaint = said(without).complaint(1);
    assert!(complaint.contains("helm was not found"), "{complaint}");
    site.is_as(&before);

    // Whoever is root may write everywhere, so somebody else tries.
    let program = site.beside("chartwright");
    copy_program(env!("CARGO_BIN_EXE_chartwright"), &program);
    let open = |path: std::path::PathBuf, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(site.beside("."), 0o755);
    open(site.root(), 0o555);
    let mut command = std::process::Command::new(&program);
    command.args(["init"]).current_dir(site.root()).env_clear();
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    let complaint = said(command).complaint(1);
    assert!(complaint.contains("Permission denied") && complaint.contains("nothing was changed"), "{complaint}");
    open(site.root(), 0o755);
    site.is_as(&before);
}
