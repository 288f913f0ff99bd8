//! The whole story: `init`, `create api`, `make install run` without a hand's edit, and a sample that gets ready at once under exactly the
//! generated rights. `make project-proof` tells it of all charts here, or of anybody's.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use crate::harness::site::Site;
use crate::harness::{control_plane, copy_dir, tool};
use crate::rbac_is_enough::{refused, with_own_group};

/// Every shape of chart that is here, but for one whose kinds are in a group that its release's namespace names: nobody can foretell its rights.
const CHARTS: [&str; 12] = [
    "helm-charts/nginx",
    "tests/charts/agent",
    "tests/charts/awkward",
    "tests/charts/database",
    "tests/charts/gadgets",
    "tests/charts/hooked",
    "tests/charts/lists",
    "tests/charts/platform",
    "tests/charts/referring",
    "tests/charts/roles",
    "tests/charts/umbrella",
    "tests/charts/worker",
];

/// No chart: `create api` makes one.
const STARTER: &str = "starter";

/// Of a chart, what came of it.
struct Told {
    chart: String,
    kind: String,
    rules: usize,
    crd_bytes: usize,
    objects: usize,
    created_in: Duration,
    ready_in: Duration,
}

/// `make run`, with the token of the project's own ServiceAccount.
struct MadeToRun {
    make: Child,
    log: PathBuf,
}

impl MadeToRun {
    fn of(site: &Site, account: &str) -> Self {
        let system = format!("{}-system", site.name);
        let token = site.kubectl(&["create", "token", account, "-n", &system]).good();
        let text = std::fs::read_to_string(control_plane().kubeconfig()).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        config["users"][0]["user"] = json!({"token": token.trim()});
        let (kubeconfig, log) = (site.beside("kubeconfig"), site.beside("log"));
        std::fs::write(&kubeconfig, config.to_string()).unwrap();
        let file = std::fs::File::create(&log).unwrap();
        let program =
            format!("{} guard {}", lab::guard::lab_program().unwrap().display(), env!("CARGO_BIN_EXE_chartwright"));
        let mut make = lab::guard::command("make").unwrap();
        make.args(["run", "ARGS=--metrics-bind-address=0 --health-probe-bind-address=0"]).current_dir(site.root());
        make.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", site.beside("home"));
        make.env("KUBECONFIG", &kubeconfig).env("CHARTWRIGHT", program).env("CHARTWRIGHT_HELM", tool("helm4"));
        make.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file).process_group(0);
        MadeToRun { make: make.spawn().unwrap(), log }
    }
}

impl Drop for MadeToRun {
    fn drop(&mut self) {
        let group = Pid::from_raw(self.make.id().cast_signed()).unwrap();
        // It may have ended by itself.
        let _ = kill_process_group(group, Signal::TERM);
        let _ = self.make.wait();
        if std::thread::panicking() {
            eprintln!("the operator's log:\n{}", std::fs::read_to_string(&self.log).unwrap_or_default());
        }
    }
}

/// From a chart, or from none, to a sample that is ready, and back to nothing.
fn tell(chart: &Path) -> Told {
    let site = Site::new();
    site.chartwright(&["init", "--domain", &site.domain()]).good();
    let begun = Instant::now();
    let from = match chart == Path::new(STARTER) {
        true => ["--kind", "Starter"],
        false => ["--helm-chart", chart.to_str().unwrap()],
    };
    let made = site.chartwright(&[&["create", "api"], &from[..]].concat());
    assert_eq!(made.code, 0, "{}: {made:?}", chart.display());
    let created_in = begun.elapsed();

    for (target, means) in [("install", "the CRDs are there"), ("deploy", "and the rights")] {
        let done = site.make(&[target, "IMG=registry.example.com/shop:1"]);
        assert_eq!(done.code, 0, "{means}: {done:?}");
    }
    let account = format!("{}-controller-manager", site.name);
    let operator = MadeToRun::of(&site, &account);
    let (kind, objects, ready_in) = sample_gets_ready(&site);
    let gone = site.kubectl(&["delete", "-n", &used(&site), "-k", "config/samples", "--timeout=120s"]);
    assert_eq!(gone.code, 0, "{}: {gone:?}", chart.display());
    // With the rights gone, it could only be refused.
    drop(operator);
    let removed = site.make(&["undeploy"]);
    assert_eq!(removed.code, 0, "{}: {removed:?}", chart.display());
    let has_hooks = chart.ends_with("hooked");
    assert_eq!(removed.out.contains("These hook objects stay, as with helm uninstall"), has_hooks, "{removed:?}");

    let refused = refused(&calls_of(&format!("system:serviceaccount:{}-system:{account}", site.name)));
    let role = site.read("config/rbac/role.yaml");
    assert!(refused.is_empty(), "{}: {refused:#?}\n{role}", chart.display());
    let rules = chartwright::yaml::documents(&role).unwrap();
    let rules = rules.iter().filter_map(|role| role["rules"].as_array()).map(Vec::len).sum();
    let crds = std::fs::read_dir(site.root().join("config/crd/bases")).unwrap().flatten();
    let crd_bytes = crds.map(|crd| crd.metadata().unwrap().len() as usize).sum();
    let chart = chart.file_name().unwrap().to_string_lossy().into_owned();
    Told { chart, kind, rules, crd_bytes, objects, created_in, ready_in }
}

/// The sample as it was made, in a namespace of its own: its kind, its objects, and how long they took.
fn sample_gets_ready(site: &Site) -> (String, usize, Duration) {
    let namespace = used(site);
    site.kubectl(&["create", "namespace", &namespace]).good();
    let begun = Instant::now();
    let applied = site.kubectl(&["apply", "-n", &namespace, "-k", "config/samples"]);
    assert_eq!(applied.code, 0, "{applied:?}");
    let look = || site.kubectl(&["get", "-n", &namespace, "-k", "config/samples", "-o", "json"]).json();
    loop {
        let cr = look();
        let conditions = cr["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True") {
            let objects = cr["status"]["objects"].as_array().map_or(0, Vec::len);
            return (cr["kind"].as_str().unwrap().to_owned(), objects, begun.elapsed());
        }
        assert!(begun.elapsed() < Duration::from_secs(150), "it is not ready: {:#}", cr["status"]);
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The namespace that the sample is in.
fn used(site: &Site) -> String {
    format!("{}-use", site.name)
}

fn calls_of(user: &str) -> Vec<Value> {
    let log = std::fs::read_to_string(control_plane().audit_log()).unwrap();
    let calls = log.lines().filter(|line| line.contains(user)).filter_map(|line| serde_json::from_str(line).ok());
    let calls: Vec<Value> = calls.filter(|call: &Value| call["user"]["username"] == user).collect();
    assert!(calls.len() > 10, "the operator works as {user}: {calls:#?}");
    calls
}

fn copy_of(chart: &str, dir: &Path) -> PathBuf {
    let to = dir.join(Path::new(chart).file_name().unwrap());
    copy_dir(&lab::checkout().join(chart), &to);
    with_own_group(&to, &crate::harness::unique());
    to
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_chart_becomes_a_project_whose_sample_gets_ready_under_the_generated_rights() {
    let dir = tempfile::tempdir().unwrap();
    let charts = ["hooked", "umbrella", "referring"].map(|chart| copy_of(&format!("tests/charts/{chart}"), dir.path()));
    let stories = charts.map(|chart| tokio::task::spawn_blocking(move || tell(&chart)));
    for story in futures::future::join_all(stories).await {
        let told = story.unwrap();
        assert!(told.objects > 0 && told.rules > 3 && told.crd_bytes > 1000, "{}", told.chart);
    }
}

/// Charts are named as seen from the checkout.
fn from_here(chart: PathBuf) -> PathBuf {
    if chart == Path::new(STARTER) { chart } else { lab::checkout().join(chart) }
}

/// One after the other, so that the times mean something.
#[test]
#[ignore = "takes minutes: make project-proof"]
fn every_chart_becomes_a_project() {
    let dir = tempfile::tempdir().unwrap();
    let given = std::env::var("CHART").unwrap_or_default();
    let charts: Vec<PathBuf> = match given.split_whitespace().map(PathBuf::from).collect::<Vec<_>>() {
        none if none.is_empty() => {
            let copies = CHARTS.iter().map(|chart| copy_of(chart, dir.path()));
            [PathBuf::from(STARTER)].into_iter().chain(copies).collect()
        }
        some => some.into_iter().map(from_here).collect(),
    };
    println!(
        "{:<28} {:<28} {:>6} {:>9} {:>8} {:>10} {:>8}",
        "CHART", "KIND", "RULES", "CRD", "OBJECTS", "CREATE API", "READY"
    );
    let mut failed = vec![];
    for chart in charts {
        let told = std::panic::catch_unwind(|| tell(&chart));
        match told {
            Ok(told) => println!(
                "{:<28} {:<28} {:>6} {:>7}kB {:>8} {:>9.1}s {:>7.1}s",
                told.chart,
                told.kind,
                told.rules,
                told.crd_bytes / 1000,
                told.objects,
                told.created_in.as_secs_f64(),
                told.ready_in.as_secs_f64()
            ),
            Err(_) => failed.push(chart),
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
