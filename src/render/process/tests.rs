use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Instant;

use rustix::process::test_kill_process;

use super::*;

/// A directory with a shell script in place of helm.
struct Script {
    dir: tempfile::TempDir,
}

impl Script {
    fn new(body: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        Script { dir }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    async fn run(&self, limits: Limits) -> Result<Ended, ProcessError> {
        loop {
            match run(&self.file("program"), self.dir.path(), &[], limits).await {
                // Another test's child may hold our script open for writing, from before its exec.
                Err(ProcessError::Spawn(error)) if error.kind() == io::ErrorKind::ExecutableFileBusy => {}
                other => return other,
            }
        }
    }

    /// The process id that the script wrote into a file, once it is there.
    async fn pid(&self, name: &str) -> Pid {
        until("the script says its process id", || {
            let text = std::fs::read_to_string(self.file(name)).ok()?;
            text.strip_suffix('\n').and_then(|id| Pid::from_raw(id.parse().ok()?))
        })
        .await
    }
}

async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "it did not happen: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A zombie that nobody waited for yet does nothing any more.
async fn until_gone(pid: Pid) {
    let stat = format!("/proc/{}/stat", pid.as_raw_nonzero());
    let is_zombie = || std::fs::read_to_string(&stat).is_ok_and(|text| text.contains(") Z "));
    until("the process is gone", || (test_kill_process(pid).is_err() || is_zombie()).then_some(())).await;
}

const FAMILY: &str = "trap '' TERM; echo $$ > self; sh -c 'trap \"\" TERM; echo $$ > child; sleep 600 & wait' &
until [ -s child ]; do sleep 0.01; done";

fn short() -> Limits {
    Limits { time: Duration::from_secs(2), ..Limits::default() }
}

#[tokio::test]
async fn output_and_complaints_come_back_whole() {
    let script = Script::new("echo out; echo err >&2; exit 3");
    let ended = script.run(Limits::default()).await.unwrap();
    assert_eq!((ended.success, ended.stdout.as_slice(), ended.stderr.as_str()), (false, &b"out\n"[..], "err\n"));
}

#[tokio::test]
async fn a_program_that_takes_too_long_is_killed_with_its_children() {
    let script = Script::new(&format!("{FAMILY}\nsleep 600"));
    assert!(matches!(script.run(short()).await, Err(ProcessError::TimeLimit)));
    until_gone(script.pid("self").await).await;
    until_gone(script.pid("child").await).await;
}

#[tokio::test]
async fn a_program_that_nobody_watches_any_more_ends_by_itself() {
    // The limit comes when it runs already.
    let script = Script::new("while [ \"$(ulimit -t)\" = unlimited ]; do :; done; ulimit -t; ulimit -c");
    let ended = script.run(short()).await.unwrap();
    let said = String::from_utf8(ended.stdout).unwrap();
    let (seconds, core) = said.trim().split_once('\n').unwrap();
    let processors = std::thread::available_parallelism().unwrap().get();
    assert_eq!((seconds, core), ((3 * processors).to_string().as_str(), "0"));
}

#[tokio::test]
async fn a_program_that_prints_too_much_is_killed_at_the_limit() {
    let script = Script::new("echo $$ > self; while :; do head -c 1000000 /dev/zero; done");
    let limits = Limits { output: 5_000_000, ..Limits::default() };
    assert!(matches!(script.run(limits).await, Err(ProcessError::OutputLimit)));
    until_gone(script.pid("self").await).await;
}

#[tokio::test]
async fn output_of_exactly_the_limit_is_taken() {
    let script = Script::new("head -c 1000 /dev/zero");
    assert_eq!(script.run(Limits { output: 1000, ..Limits::default() }).await.unwrap().stdout.len(), 1000);
    assert!(script.run(Limits { output: 999, ..Limits::default() }).await.is_err());
}

#[tokio::test]
async fn endless_complaints_are_cut_and_do_not_block() {
    let script = Script::new("head -c 3000000 /dev/zero | tr '\\0' x >&2; echo done");
    let ended = script.run(Limits::default()).await.unwrap();
    assert_eq!((ended.stdout.as_slice(), ended.stderr.len() as u64), (&b"done\n"[..], KEPT_STDERR));
}

#[tokio::test]
async fn a_child_that_outlives_the_program_is_killed_and_not_waited_for() {
    let script = Script::new(&format!("{FAMILY}\necho done"));
    let ended = script.run(Limits::default()).await.unwrap();
    assert_eq!(ended.stdout, b"done\n");
    until_gone(script.pid("child").await).await;
}

#[tokio::test]
async fn whoever_stops_waiting_stops_the_program() {
    let script = Script::new(&format!("{FAMILY}\nsleep 600"));
    tokio::select! {
        _ = script.run(Limits::default()) => panic!("it sleeps"),
        _ = script.pid("child") => {}
    }
    until_gone(script.pid("self").await).await;
    until_gone(script.pid("child").await).await;
}

#[tokio::test]
async fn the_programs_environment_is_only_what_is_given() {
    let script = Script::new("env");
    let text = String::from_utf8(script.run(Limits::default()).await.unwrap().stdout).unwrap();
    // The last three are the shell's own.
    let expected = [
        "HOME",
        "HELM_CACHE_HOME",
        "HELM_CONFIG_HOME",
        "HELM_DATA_HOME",
        "HELM_NO_PLUGINS",
        "GOGC",
        "GOMEMLIMIT",
        "PWD",
        "SHLVL",
        "_",
    ];
    let names = text.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name);
    assert_eq!(names.filter(|name| !expected.contains(name)).collect::<Vec<_>>(), [""; 0]);
}

#[tokio::test]
async fn the_program_gets_no_files_of_ours_and_leaves_no_image_of_its_memory() {
    let _ours = std::fs::File::open("/etc/hosts").unwrap();
    // The operator sets the limit after it has started the program.
    let wait = "while [ \"$(ulimit -d)\" = unlimited ]; do :; done";
    let script = Script::new(&format!("{wait}; ls -l /proc/self/fd | sed 's/.* -> //'; ulimit -c; ulimit -d"));
    let limits = Limits { memory: 512 * 1024 * 1024, ..Limits::default() };
    let text = String::from_utf8(script.run(limits).await.unwrap().stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let open: Vec<_> = lines.iter().filter(|line| line.contains(['/', ':'])).collect();
    let is_given = |line: &str| line.starts_with("pipe:") || line == "/dev/null" || line.starts_with("/proc/");
    assert!(open.iter().all(|line| is_given(line)), "{open:?}");
    assert_eq!(lines[lines.len() - 2..], ["0", "524288"]);
}

#[tokio::test]
async fn a_program_that_eats_memory_ends_by_itself() {
    // The limit comes when it runs already, and a child from before would be without.
    let script = Script::new("while [ \"$(ulimit -d)\" = unlimited ]; do :; done; tail /dev/zero");
    let limits = Limits { memory: 64 * 1024 * 1024, time: Duration::from_secs(20), ..Limits::default() };
    let ended = script.run(limits).await.unwrap();
    assert!(!ended.success && ended.stderr.contains("memory"), "{ended:?}");
}
