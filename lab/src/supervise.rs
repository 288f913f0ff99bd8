//! `lab supervise DIR`: starts the control plane's programs, says so on standard output, and ends them all when
//! standard input closes (not with `--detached`), the owner is gone, a signal asks for it, or one of them dies. SIGUSR1 restarts the
//! API server, and SIGUSR2 kills it until the next SIGUSR1.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

use crate::components::{self, Component, Layout};
use crate::{guard, owner, pki, tools_dir};

/// What the supervisor prints once the control plane can be used.
pub const READY: &str = "ready";

const PATIENCE: Duration = Duration::from_secs(60);

/// The running programs. Dropping it ends them and removes the directory.
struct Programs {
    dir: std::path::PathBuf,
    running: Vec<Running>,
}

struct Running {
    component: Component,
    /// None while it is stopped on purpose.
    process: Option<Child>,
}

pub async fn run(dir: &Path, detached: bool) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let mut programs = Programs { dir: dir.to_owned(), running: vec![] };
    tokio::select! {
        started = start(&mut programs) => started?,
        () = told_to_end(detached) => return Ok(()),
    }
    let mut restart = signal(SignalKind::user_defined1())?;
    let mut stop = signal(SignalKind::user_defined2())?;
    println!("{READY}");
    let mut told = std::pin::pin!(told_to_end(detached));
    loop {
        tokio::select! {
            () = &mut told => return Ok(()),
            died = programs.first_death() => bail!("{died} ended by itself; its log:\n{}", programs.log_tail(died)),
            _ = restart.recv() => programs.restart("kube-apiserver")?,
            _ = stop.recv() => drop(programs.stop("kube-apiserver")?),
        }
    }
}

async fn start(programs: &mut Programs) -> Result<()> {
    let at = Layout::new(&programs.dir)?;
    write_files(&at)?;
    programs.start(components::etcd(&at))?;
    programs.start(components::api_server(&at))?;
    programs.until("the API server to be ready", "kube-apiserver", &["get", "--raw=/readyz"]).await?;
    programs.start(components::controller_manager(&at))?;
    programs.start(components::scheduler(&at))?;
    programs.start(components::kwok(&at))?;
    let base = programs.dir.join("base.yaml").display().to_string();
    programs.until("the node to be created", "kube-apiserver", &["apply", "-f", &base]).await?;
    programs
        .until("the node to be ready", "kwok", &["wait", "--for=condition=Ready", "node/lab", "--timeout=1s"])
        .await?;
    let account = ["-n", "default", "get", "serviceaccount", "default"];
    programs.until("ServiceAccounts to work", "kube-controller-manager", &account).await
}

fn write_files(at: &Layout) -> Result<()> {
    let ca = pki::Ca::new()?;
    let (certificate, key) = ca.server()?;
    let (signing, verifying) = pki::service_account_keys()?;
    let kwok = include_str!("kwok.yaml").replace("LAB_DIR", &at.dir.display().to_string());
    let files = [
        ("ca.crt", ca.pem()),
        ("server.crt", certificate),
        ("server.key", key),
        ("service-account.key", signing),
        ("service-account.pub", verifying),
        ("audit.yaml", include_str!("audit.yaml").to_owned()),
        ("base.yaml", include_str!("base.yaml").to_owned()),
        ("kwok.yaml", kwok),
        // What every pod prints, in the format that a container runtime writes.
        ("pod.log", "2026-01-01T00:00:00.000000000Z stdout F a line printed by a kwok pod\n".to_owned()),
    ];
    for (name, text) in files {
        pki::write_private(&at.dir.join(name), &text)?;
    }
    let users = [
        ("kubeconfig", "admin", Some("system:masters")),
        ("controller-manager.kubeconfig", "system:kube-controller-manager", None),
        ("scheduler.kubeconfig", "system:kube-scheduler", None),
    ];
    for (file, user, group) in users {
        ca.write_kubeconfig(&at.dir.join(file), &at.server(), user, group)?;
    }
    Ok(())
}

/// Resolves when there is a reason to end.
async fn told_to_end(detached: bool) {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = input_closed(), if !detached => {}
        () = owner_gone(), if !detached => {}
    }
}

async fn input_closed() {
    let read = || std::io::stdin().read_to_end(&mut vec![]);
    // An error on the pipe means the same as its end.
    let _ = tokio::task::spawn_blocking(read).await;
}

async fn owner_gone() {
    let Some(owner) = owner::from_env() else { return std::future::pending().await };
    while !owner::is_gone(owner) {
        tokio::time::sleep(owner::LOOK).await;
    }
}

impl Programs {
    fn start(&mut self, component: Component) -> Result<()> {
        let process = Some(self.spawn(&component)?);
        self.running.push(Running { component, process });
        Ok(())
    }

    /// Kills a program, if it runs, and starts it again, as it was.
    fn restart(&mut self, name: &str) -> Result<()> {
        let at = self.stop(name)?;
        self.running[at].process = Some(self.spawn(&self.running[at].component)?);
        Ok(())
    }

    /// Kills a program, if it runs. Returns its place.
    fn stop(&mut self, name: &str) -> Result<usize> {
        let at = self.running.iter().position(|it| it.component.name == name).context("it was never started")?;
        if let Some(mut process) = self.running[at].process.take() {
            process.kill()?;
            process.wait()?;
        }
        Ok(at)
    }

    fn spawn(&self, component: &Component) -> Result<Child> {
        let binary = tools_dir().join(component.name);
        if !binary.exists() {
            bail!("{} is missing from {}: run `make tools`", component.name, tools_dir().display());
        }
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log_file(component.name))?;
        // The supervisor's main thread starts the guarded programs, so that they live as long as it does.
        let child = guard::command(binary)?
            .args(&component.args)
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        Ok(child)
    }

    /// Runs kubectl until it succeeds. `waits_for` is the program whose log explains a failure.
    async fn until(&mut self, what: &str, waits_for: &'static str, kubectl: &[&str]) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let output = Command::new(tools_dir().join("kubectl"))
                .arg("--kubeconfig")
                .arg(self.dir.join("kubeconfig"))
                .args(kubectl)
                .stdin(Stdio::null())
                .output()
                .context("cannot run kubectl: run `make tools`")?;
            if output.status.success() {
                return Ok(());
            }
            if let Some(died) = self.dead() {
                bail!("{died} ended while waiting for {what}; its log:\n{}", self.log_tail(died));
            }
            if Instant::now() > deadline {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                bail!("waited {PATIENCE:?} for {what}: {said}\nlog of {waits_for}:\n{}", self.log_tail(waits_for));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn dead(&mut self) -> Option<&'static str> {
        let mut ended = self.running.iter_mut().filter_map(|it| match it.process.as_mut()?.try_wait() {
            Ok(Some(_)) => Some(it.component.name),
            _ => None,
        });
        ended.next()
    }

    async fn first_death(&mut self) -> &'static str {
        loop {
            if let Some(name) = self.dead() {
                return name;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    fn log_file(&self, name: &str) -> std::path::PathBuf {
        self.dir.join(format!("{name}.log"))
    }

    fn log_tail(&self, name: &str) -> String {
        let text = fs::read(self.log_file(name)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = text.unwrap_or_else(|error| format!("(no log: {error})"));
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        for process in self.running.iter_mut().rev().filter_map(|it| it.process.as_mut()) {
            // It may have ended by itself; either way it is gone after the wait.
            let _ = process.kill();
            let _ = process.wait();
        }
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            eprintln!("cannot remove {}: {error}", self.dir.display());
        }
    }
}
