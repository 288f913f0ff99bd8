//! However a run ends, no process and no directory of its control plane stays.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails with the line that did")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A supervised control plane in a directory that its processes name in their arguments.
struct Run {
    supervisor: Child,
    dir: PathBuf,
}

fn start(owner: Option<u32>) -> Run {
    lab::owner::exit_with_it();
    let dir = tempfile::Builder::new().prefix("lab-test-").tempdir().unwrap().keep();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lab"));
    command.arg("supervise").arg(&dir).stdin(Stdio::piped()).stdout(Stdio::piped()).env_remove("LAB_OWNER");
    if let Some(owner) = owner {
        command.env("LAB_OWNER", owner.to_string());
    }
    let mut supervisor = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(supervisor.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), lab::supervise::READY);
    assert!(processes(&dir).len() >= 5, "{:?}", processes(&dir));
    Run { supervisor, dir }
}

/// The programs that work in a directory, by their command lines.
fn processes(dir: &Path) -> Vec<String> {
    let dir = dir.display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let command_lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let command_lines = command_lines.map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "));
    command_lines.filter(|line| line.contains(&dir)).collect()
}

fn assert_all_gone(dir: &Path) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !processes(dir).is_empty() {
        assert!(Instant::now() < deadline, "left behind: {:#?}", processes(dir));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_end_of_whoever_holds_the_pipe_ends_everything() {
    let mut run = start(None);
    drop(run.supervisor.stdin.take());
    run.supervisor.wait().unwrap();
    assert_all_gone(&run.dir);
    assert!(!run.dir.exists());
}

#[test]
fn the_end_of_the_owner_ends_everything() {
    let mut owner = Command::new("sleep").arg("600").spawn().unwrap();
    let mut run = start(Some(owner.id()));
    owner.kill().unwrap();
    owner.wait().unwrap();
    run.supervisor.wait().unwrap();
    assert_all_gone(&run.dir);
    assert!(!run.dir.exists());
}

#[test]
fn a_killed_supervisor_takes_its_programs_along() {
    let mut run = start(None);
    run.supervisor.kill().unwrap();
    run.supervisor.wait().unwrap();
    assert_all_gone(&run.dir);
    std::fs::remove_dir_all(&run.dir).unwrap();
}
