//! What README.md, CONTRIBUTING.md, CHANGELOG.md, SECURITY.md and docs/ promise: commands, links, names, examples.
//!
//! Every command in an `sh` block is checked. `make` lines go through `make -n`; the README's `kubectl`, `helm` and
//! `chartwright` lines are run, in their order. A block that needs more than this checkout has a comment right above it
//! that begins with [`MARK`]; of such a block only the arguments of `make` and of `chartwright` are checked.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use clap::Parser;
use lab::{ControlPlane, checkout, tools_dir};

const MARK: &str = "<!-- not run by the tests: ";

struct Page {
    /// From the root of the checkout.
    path: PathBuf,
    text: String,
}

struct Block<'a> {
    language: &'a str,
    marked: bool,
    lines: Vec<&'a str>,
}

fn read(path: impl AsRef<Path>) -> String {
    let path = checkout().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files of a directory and of those below it, from the root of the checkout, that end with `ending`.
fn files(dir: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in std::fs::read_dir(checkout().join(dir)).unwrap().flatten() {
        let path = format!("{dir}/{}", entry.file_name().to_str().unwrap());
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&path, ending)),
            false if path.ends_with(ending) => found.push(path.into()),
            false => {}
        }
    }
    found
}

fn pages() -> Vec<Page> {
    let mut paths: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"].map(PathBuf::from).to_vec();
    paths.extend(files("docs", ".md"));
    paths.into_iter().map(|path| Page { text: read(&path), path }).collect()
}

impl Page {
    /// The fenced blocks, and the lines outside of them.
    fn split(&self) -> (Vec<Block<'_>>, Vec<&str>) {
        let (mut blocks, mut prose) = (vec![], vec![]);
        let mut lines = self.text.lines();
        while let Some(line) = lines.next() {
            let Some(language) = line.strip_prefix("```") else {
                prose.push(line);
                continue;
            };
            let marked = prose.last().is_some_and(|above| above.starts_with(MARK) && above.ends_with(" -->"));
            blocks.push(Block { language, marked, lines: lines.by_ref().take_while(|line| *line != "```").collect() });
        }
        (blocks, prose)
    }

    /// The command lines of the `sh` blocks, each with whether its block is marked.
    fn commands(&self) -> Vec<(&str, bool)> {
        let shell = self.split().0.into_iter().filter(|block| block.language == "sh");
        shell.flat_map(|block| block.lines.into_iter().map(move |line| (line, block.marked))).collect()
    }

    /// The names in backticks that begin the rows of the tables under a heading.
    fn rows(&self, heading: &str) -> BTreeSet<&str> {
        let section = self.text.lines().skip_while(|line| *line != heading).skip(1);
        let section = section.take_while(|line| !line.starts_with('#'));
        let rows: BTreeSet<&str> =
            section.filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0)).collect();
        assert!(!rows.is_empty(), "{}: nothing under {heading:?}", self.path.display());
        rows
    }

    /// What `#links` to this page can name, as GitHub makes it of headings.
    fn anchors(&self) -> Vec<String> {
        let headings = self.split().1.into_iter().filter(|line| line.starts_with('#'));
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let anchor = |line: &str| line.trim_start_matches('#').trim().to_lowercase().chars().filter(kept).collect();
        headings.map(anchor).map(|text: String| text.replace(' ', "-")).collect()
    }
}

fn page(path: &str) -> Page {
    Page { path: path.into(), text: read(path) }
}

/// The arguments of `make …`, also inside `eval "$(make …)"`.
fn make_arguments(line: &str) -> Option<Vec<&str>> {
    let inner = line.strip_prefix("eval \"$(").and_then(|rest| rest.strip_suffix(")\"")).unwrap_or(line);
    let mut words = inner.split_whitespace();
    (words.next() == Some("make")).then(|| words.collect())
}

/// Whether the walkthrough below runs this line.
fn is_run(line: &str) -> bool {
    let program = line.split_whitespace().next().map(Path::new).and_then(Path::file_name);
    program.is_some_and(|name| name == "kubectl" || name == "helm" || name == "chartwright")
}

#[test]
fn every_command_is_run_or_checked_or_marked() {
    for page in pages() {
        let is_readme = page.path == Path::new("README.md");
        for (line, marked) in page.commands() {
            let checked = marked || make_arguments(line).is_some() || (is_readme && is_run(line));
            assert!(checked, "{}: nothing checks {line:?}; put `{MARK}… -->` above its block", page.path.display());
        }
    }
}

/// The arguments of `chartwright …`, however the program is reached.
fn chartwright_arguments(line: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_meant = Path::new(words.first()?).file_name().is_some_and(|name| name == "chartwright");
    is_meant.then_some(words)
}

#[test]
fn every_chartwright_command_is_understood() {
    let mut commands = 0;
    for page in pages() {
        for arguments in page.commands().into_iter().filter_map(|(line, _)| chartwright_arguments(line)) {
            commands += 1;
            let parsed = chartwright::cli::Args::try_parse_from(&arguments).map(|_| ());
            let is_help = |error: &clap::Error| error.kind() == clap::error::ErrorKind::DisplayHelp;
            let is_good = parsed.as_ref().err().is_none_or(is_help);
            assert!(is_good, "{}: {arguments:?}: {parsed:?}", page.path.display());
        }
    }
    assert!(commands > 10, "there are only {commands}");
}

#[test]
fn every_make_command_has_its_target_and_uses_its_variables() {
    for page in pages() {
        for arguments in page.commands().into_iter().filter_map(|(line, _)| make_arguments(line)) {
            let mut make = Command::new("make");
            // Whatever an outer make was told is not for this one.
            make.arg("-n").args(&arguments).current_dir(checkout()).env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
            let output = make.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{}: make {arguments:?}: {output:?}", page.path.display());
            for (name, value) in arguments.iter().filter_map(|argument| argument.split_once('=')) {
                assert!(said.contains(value), "make {arguments:?} makes no use of {name}: {said}");
                let is_test = |path: &PathBuf| path.to_str().unwrap().contains(value) || read(path).contains(value);
                let sources = ["src", "tests", "lab", "fidelity"].map(|dir| files(dir, ".rs")).concat();
                assert!(name != "T" || sources.iter().any(is_test), "no test is called {value}");
            }
        }
    }
}

/// Ends with the test, however that ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The README's names are fixed (the sample, its CRD, the namespace `default`), so it has a control plane of its own.
#[test]
fn the_walkthrough_of_the_readme_works() {
    let control_plane = ControlPlane::start().unwrap();
    let path = format!("{}:{}", tools_dir().display(), std::env::var("PATH").unwrap());
    let run = |line: &str| {
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", line]).current_dir(checkout()).stdin(Stdio::null());
        let output = shell.env("KUBECONFIG", control_plane.kubeconfig()).env("PATH", &path).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run("make install");
    run("kubectl wait crd/nginxes.demo.chartwright.dev --for=condition=Established --timeout=30s");
    // In place of `make run`, which would compile.
    let mut operator = lab::guard::command(env!("CARGO_BIN_EXE_chartwright")).unwrap();
    operator
        .args(["run", "--metrics-bind-address=0", "--health-probe-bind-address=0", "--helm"])
        .arg(tools_dir().join("helm"))
        .current_dir(checkout());
    operator.env("KUBECONFIG", control_plane.kubeconfig()).stdin(Stdio::null());
    let _operator = Running(operator.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let readme = page("README.md");
    let lines: Vec<&str> = readme.commands().iter().filter(|(_, marked)| !marked).map(|(line, _)| *line).collect();
    let lines: Vec<&str> = lines.into_iter().filter(|line| is_run(line)).collect();
    assert!(lines.len() > 5, "{lines:?}");
    lines.into_iter().for_each(run);
}

#[test]
fn links_lead_to_files_and_headings_that_exist() {
    for page in pages() {
        let prose = page.split().1.join("\n");
        for link in prose.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            if link.contains("://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.path.clone(),
                file => page.path.parent().unwrap().join(file),
            };
            let here = page.path.display();
            assert!(checkout().join(&target).exists(), "{here}: {link} leads nowhere");
            let exists = || Page { text: read(&target), path: target.clone() }.anchors().contains(&anchor.to_owned());
            assert!(anchor.is_empty() || exists(), "{here}: {link} names no heading");
        }
    }
}

#[test]
fn every_dependency_is_explained_and_nothing_else() {
    let explained = page("docs/dependencies.md");
    let tables = [
        ("Cargo.toml", "## The operator"),
        ("lab/Cargo.toml", "## The lab"),
        ("bench/Cargo.toml", "## The benchmark"),
        ("fidelity/Cargo.toml", "## The proof"),
    ];
    for (manifest, heading) in tables {
        let text = read(manifest);
        let mut wanted = BTreeSet::new();
        let mut inside = false;
        for line in text.lines() {
            if line.starts_with('[') {
                inside = line == "[dependencies]" || line == "[dev-dependencies]";
            } else if inside && !line.contains("path = ") {
                wanted.extend(line.split(['.', ' ', '=']).next().filter(|name| !name.is_empty() && *name != "#"));
            }
        }
        assert_eq!(explained.rows(heading), wanted, "{heading} of docs/dependencies.md and {manifest} differ");
    }
}

#[test]
fn the_layout_is_what_is_in_the_repository() {
    let design = page("docs/design.md");
    for path in design.rows("### In the repository") {
        assert!(checkout().join(path).exists(), "docs/design.md: there is no {path}");
    }
    for path in design.rows("### Planned") {
        assert!(!checkout().join(path).exists(), "docs/design.md: {path} is not planned any more, it is there");
    }
}

/// Fails unless `make test` runs the test with this path, below tests/ or beside the code.
fn assert_runs(test: &str, row: &str) {
    let (module, name) = test.rsplit_once("::").unwrap_or_else(|| panic!("{test} is not the path of a test: {row}"));
    let file = module.replace("::", "/");
    let (root, top) = match checkout().join(format!("tests/{file}.rs")).exists() {
        true => ("tests", "main"),
        false => ("src", "lib"),
    };
    let source = read(format!("{root}/{file}.rs"));
    let (before, _) = source.split_once(&format!("fn {name}() {{")).unwrap_or_else(|| panic!("no test {test}: {row}"));
    let attributes = before.rsplit("}\n").next().unwrap_or_default();
    let runs = attributes.contains("#[tokio::test") || attributes.contains("#[test]");
    assert!(runs && !attributes.contains("#[ignore"), "{test} is not run by make test");
    let mut module = module;
    while !module.is_empty() {
        let (parent, own) = module.rsplit_once("::").unwrap_or(("", module));
        let above = if parent.is_empty() { top.to_owned() } else { parent.replace("::", "/") };
        assert!(read(format!("{root}/{above}.rs")).contains(&format!("mod {own};")), "{test} is not part of the tests");
        module = parent;
    }
}

#[test]
fn every_promise_of_security_md_has_a_test() {
    let text = read("SECURITY.md");
    let (_, promises) = text.split_once("## Actors").unwrap();
    let (promises, _) = promises.split_once("\n## What is not protected").unwrap();
    assert!(promises.lines().all(|line| !line.starts_with("- ")), "a promise is the row of a table, with its test");
    let is_promise = |line: &&str| line.starts_with("| ") && !line.ends_with("| test |");
    let rows: Vec<&str> = promises.lines().filter(is_promise).collect();
    assert!(rows.len() > 100, "{} promises", rows.len());
    for row in rows {
        let cell = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
        let tests: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty() || cell == "no limit", "a promise without a test: {row}");
        tests.into_iter().for_each(|test| assert_runs(test, row));
    }
}

#[test]
fn the_tour_names_every_module() {
    let tour = read("src/lib.rs");
    let rows = tour.lines().filter_map(|line| line.strip_prefix("//! | [`")?.split_once('`')).map(|(name, _)| name);
    let modules = tour.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    assert_eq!(rows.collect::<BTreeSet<_>>(), modules.collect::<BTreeSet<_>>(), "the table and the modules of lib.rs");
    for path in files("src", ".rs").iter().filter(|path| path.parent() == Some(Path::new("src"))) {
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(matches!(name, "lib" | "main") || tour.contains(&format!("mod {name};")), "{name} is in no tour");
    }
}

#[test]
fn examples_are_copies_of_real_code() {
    let sources: Vec<String> = files("tests", ".rs").iter().map(read).collect();
    for page in pages() {
        for block in page.split().0.into_iter().filter(|block| block.language == "rust") {
            let example = block.lines.join("\n");
            let is_real = sources.iter().any(|source| source.contains(&example));
            assert!(is_real, "{}: this is in no test:\n{example}", page.path.display());
        }
    }
}
