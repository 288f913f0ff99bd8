//! Charts are rendered side by side, and not again where nothing changed. The project is the same in any case.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::command_line::said;
use crate::harness::site::Site;
use crate::harness::{chartwright, tool};

/// A helm that counts its renders.
struct CountingHelm {
    program: PathBuf,
    calls: PathBuf,
}

impl CountingHelm {
    fn beside(site: &Site) -> Self {
        let (calls, program) = (site.beside("calls"), site.beside("helm"));
        let helm = tool("helm4");
        let script = format!("#!/bin/sh\necho \"$1\" >> {}\nexec {} \"$@\"\n", calls.display(), helm.display());
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        CountingHelm { program, calls }
    }

    /// Since the last question.
    fn renders(&self) -> usize {
        let told = std::fs::read_to_string(&self.calls).unwrap_or_default();
        // Nobody may have called it.
        let _ = std::fs::remove_file(&self.calls);
        told.lines().filter(|call| *call == "template").count()
    }
}

/// A project with two charts in a directory of its own, and how often they were rendered.
fn project(
    site: &Site,
    name: &str,
    helm: &CountingHelm,
    change: &dyn Fn(&mut Command),
) -> (BTreeMap<PathBuf, Vec<u8>>, usize) {
    let dir = site.beside(name);
    std::fs::create_dir(&dir).unwrap();
    let charts = ["tests/charts/roles", "tests/charts/umbrella"].map(|chart| lab::checkout().join(chart));
    let charts = charts.map(|chart| ["create", "api", "--helm-chart", chart.to_str().unwrap()].map(str::to_owned));
    let init = ["init", "--project-name", "shop", "--domain", "example.com"].map(str::to_owned);
    helm.renders();
    for arguments in [&init[..], &charts[0], &charts[1]] {
        let mut command = chartwright();
        command.args(arguments).current_dir(&dir).env("CHARTWRIGHT_HELM", &helm.program);
        change(&mut command);
        let done = said(command);
        assert_eq!((done.code, done.err.as_str()), (0, ""), "{arguments:?}: {done:?}");
    }
    (tree(&dir), helm.renders())
}

fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut open) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(next) = open.pop() {
        for path in std::fs::read_dir(next).unwrap().flatten().map(|entry| entry.path()) {
            match path.is_dir() {
                true => open.push(path),
                false => drop(found.insert(path.strip_prefix(dir).unwrap().to_owned(), std::fs::read(&path).unwrap())),
            }
        }
    }
    found
}

/// The program, on the first processor that this process may use.
fn on_one_processor(command: &mut Command) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let first: String = allowed.chars().take_while(char::is_ascii_digit).collect();
    let mut bound = Command::new("taskset");
    bound.args(["-c", &first]).arg(command.get_program()).args(command.get_args()).env_clear();
    bound.current_dir(command.get_current_dir().unwrap());
    bound.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    bound.env("PATH", std::env::var_os("PATH").unwrap_or_default()).stdin(std::process::Stdio::null());
    *command = bound;
}

#[test]
fn the_project_is_the_same_whether_renders_are_cached_or_side_by_side() {
    let site = Site::new();
    let helm = CountingHelm::beside(&site);
    let home = site.beside("home");
    let (uncached, all) = project(&site, "uncached", &helm, &|_| ());
    assert!(!home.join(".cache").exists(), "without HOME nothing is cached");
    let cached = |command: &mut Command| {
        command.env("HOME", &home);
    };
    let ways: [(&str, &dyn Fn(&mut Command)); 3] =
        [("filling", &cached), ("from-the-cache", &cached), ("on-one-processor", &on_one_processor)];
    let renders = ways.map(|(name, change)| {
        let (made, renders) = project(&site, name, &helm, change);
        let paths = made.keys().chain(uncached.keys()).filter(|path| made.get(*path) != uncached.get(*path));
        let different: Vec<&PathBuf> = paths.collect();
        assert!(different.is_empty(), "{name}: these differ: {different:?}");
        renders
    });
    // From the cache, each new chart is only tried with its default values.
    let [filling, from_the_cache, on_one_processor] = renders;
    assert!(filling < all && from_the_cache == 2 && on_one_processor == all, "{all} renders, then {renders:?}");
    assert!(!uncached.keys().any(|path| path.to_string_lossy().contains("surveys")), "{:?}", uncached.keys());
}

#[test]
fn a_chart_that_did_not_change_is_not_rendered_again() {
    let site = Site::initialised();
    let helm = CountingHelm::beside(&site);
    let run = |arguments: &[&str]| {
        let mut command = site.command(arguments);
        command.env("CHARTWRIGHT_HELM", &helm.program);
        let done = said(command);
        assert_eq!(done.code, 0, "{arguments:?}: {done:?}");
        helm.renders()
    };
    let (alone, beside) = (run(&["create", "api", "--kind", "Shop"]), run(&["create", "api", "--kind", "Third"]));
    assert!(alone > 5 && beside == alone, "{alone} for one kind, {beside} for one more");
    assert_eq!(run(&["generate", "rbac", "--check"]), 0);
    assert_eq!(run(&["delete", "api", "--kind", "Third"]), 0);

    let values = site.read("helm-charts/shop/values.yaml");
    site.file("helm-charts/shop/values.yaml", &(values + "\nmore: true\n"));
    let changed = run(&["generate", "rbac"]);
    assert!(changed > 5, "a chart that changed is rendered: {changed}");
    assert_eq!(run(&["generate", "rbac"]), 0);
    assert!(run(&["generate", "rbac", "--max-renders=7"]) > 0, "other flags may find something else");
    let sample =
        format!("apiVersion: charts.{}/v1alpha1\nkind: Shop\nmetadata: {{name: a}}\nspec: {{a: 1}}\n", site.domain());
    site.file("config/samples/other.yaml", &sample);
    assert!(run(&["generate", "rbac"]) > 0, "and so may a sample");
}

/// What the command writes to a terminal.
fn on_a_terminal(site: &Site, arguments: &str, environment: &[(&str, &str)]) -> String {
    let mut script = Command::new("script");
    let line = format!("{} {arguments}", env!("CARGO_BIN_EXE_chartwright"));
    script.args(["--quiet", "--return", "--command", &line, "/dev/null"]).current_dir(site.root()).env_clear();
    script.env("CHARTWRIGHT_HELM", tool("helm4")).env("HOME", site.beside("home")).env("TERM", "xterm");
    script.envs(environment.iter().copied()).stdin(std::process::Stdio::null());
    let done = said(script);
    assert_eq!(done.code, 0, "{done:?}");
    done.out
}

#[test]
fn progress_is_one_line_of_a_terminal_and_nothing_elsewhere() {
    let site = Site::initialised();
    let shown = on_a_terminal(&site, "create api --kind Shop", &[]);
    let (progress, rest) = shown.rsplit_once("\r\x1b[K").unwrap();
    let steps: Vec<&str> =
        progress.split("\r\x1b[K").filter(|step| step.starts_with("rendering shop 0.1.0: ")).collect();
    assert!(steps.len() > 5 && !progress.contains('\n'), "{shown:?}");
    let (last, total) = steps.last().unwrap().rsplit_once(" of ").unwrap();
    assert!(last.ends_with(&format!(": {total}")), "{shown:?}");
    assert!(rest.starts_with("created API "), "the line is cleared: {shown:?}");

    for (kind, environment) in [("Second", ("CI", "true")), ("Third", ("TERM", "dumb"))] {
        let quiet = on_a_terminal(&site, &format!("create api --kind {kind}"), &[environment]);
        assert!(quiet.starts_with("created API "), "{environment:?}: {quiet:?}");
    }
    site.chartwright(&["create", "api", "--kind", "Fourth"]).good();
}
