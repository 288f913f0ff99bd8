//! `lab supervise DIR`: starts the control plane's programs, says so on standard output, and ends them all when
//! standard input closes (not with `--detached`), the owner is gone, a signal asks for it, or one of them dies. SIGUSR1 has it kill
//! the API server and start it again.

use std::fs;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

use crate::components::{self, Layout};
use crate::programs::Programs;
use crate::{owner, pki};

/// What the supervisor prints once the control plane can be used.
pub const READY: &str = "ready";

pub async fn run(dir: &Path, detached: bool) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let mut programs = Programs::new(dir, dir);
    tokio::select! {
        started = start(&mut programs) => started?,
        () = told_to_end(detached) => return Ok(()),
    }
    let mut restart = signal(SignalKind::user_defined1())?;
    println!("{READY}");
    let mut told = std::pin::pin!(told_to_end(detached));
    loop {
        tokio::select! {
            () = &mut told => return Ok(()),
            died = programs.first_death() => bail!("{died} ended by itself; its log:\n{}", programs.log_tail(died)),
            _ = restart.recv() => programs.restart("kube-apiserver")?,
        }
    }
}

async fn start(programs: &mut Programs) -> Result<()> {
    let at = Layout::new(programs.dir())?;
    write_files(&at)?;
    programs.start(components::etcd(&at))?;
    programs.start(components::api_server(&at))?;
    programs.until("the API server to be ready", "kube-apiserver", &["get", "--raw=/readyz"]).await?;
    programs.start(components::controller_manager(&at))?;
    programs.start(components::scheduler(&at))?;
    programs.start(components::kwok(&at))?;
    let base = programs.dir().join("base.yaml").display().to_string();
    programs.until("the node to be created", "kube-apiserver", &["apply", "-f", &base]).await?;
    programs
        .until("the node to be ready", "kwok", &["wait", "--for=condition=Ready", "node/lab", "--timeout=1s"])
        .await?;
    let account = ["-n", "default", "get", "serviceaccount", "default"];
    programs.until("ServiceAccounts to work", "kube-controller-manager", &account).await
}

fn write_files(at: &Layout) -> Result<()> {
    pki::write_files(at)?;
    let kwok = include_str!("kwok.yaml").replace("LAB_DIR", &at.dir.display().to_string());
    let files = [
        ("audit.yaml", include_str!("audit.yaml").to_owned()),
        ("base.yaml", include_str!("base.yaml").to_owned()),
        ("kwok.yaml", kwok),
        // What every pod prints, in the format that a container runtime writes.
        ("pod.log", "2026-01-01T00:00:00.000000000Z stdout F a line printed by a kwok pod\n".to_owned()),
    ];
    for (name, text) in files {
        pki::write_private(&at.dir.join(name), &text)?;
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
