//! `lab up`, `down`, `status`, `env`: a control plane that a person uses from a shell. One per checkout.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::control_plane::{new_dir, wait_until_ready};
use crate::{checkout, guard, owner, tools_dir};

/// What `up` remembers for the others.
struct Running {
    supervisor: Pid,
    dir: PathBuf,
}

pub fn up() -> Result<()> {
    if let Some(running) = running()? {
        println!("already up: {}", running.dir.join("kubeconfig").display());
        return Ok(());
    }
    let started = Instant::now();
    let dir = new_dir()?;
    let mut supervisor = Command::new(guard::lab_program()?)
        .args(["supervise", "--detached"])
        .arg(&dir)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    fs::write(state_file(), format!("{}\n{}\n", supervisor.id(), dir.display())).context("cannot remember the lab")?;
    wait_until_ready(&mut supervisor)?;
    println!("up in {:.1} s", started.elapsed().as_secs_f32());
    println!("use it:  eval \"$(make -s lab-env)\"");
    println!("end it:  make lab-down");
    Ok(())
}

pub fn down() -> Result<()> {
    let Some(running) = running()? else {
        println!("not up");
        return Ok(());
    };
    kill_process(running.supervisor, Signal::TERM).context("cannot end the lab")?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while running.dir.exists() {
        if Instant::now() > deadline {
            bail!("process {} did not end within 10 s", running.supervisor.as_raw_nonzero());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    fs::remove_file(state_file())?;
    println!("down");
    Ok(())
}

/// Prints the state; exit code 1 if there is nothing to use.
pub fn status() -> Result<bool> {
    let Some(running) = running()? else {
        println!("not up; start it with: make lab-up");
        return Ok(false);
    };
    let kubeconfig = running.dir.join("kubeconfig");
    println!("supervisor  {}", running.supervisor.as_raw_nonzero());
    println!("directory   {}", running.dir.display());
    let answer = kubectl(&kubeconfig, &["get", "--raw=/readyz"])?;
    let ready = answer.trim() == "ok";
    println!("API server  {}", if ready { "ready" } else { answer.trim() });
    if ready {
        print!("{}", kubectl(&kubeconfig, &["get", "nodes"])?);
    }
    Ok(ready)
}

/// Prints what a shell needs, for `eval`.
pub fn env() -> Result<()> {
    let Some(running) = running()? else { bail!("the lab is not up; start it with: make lab-up") };
    println!("export KUBECONFIG='{}'", running.dir.join("kubeconfig").display());
    println!("export PATH='{}':\"$PATH\"", tools_dir().display());
    Ok(())
}

fn kubectl(kubeconfig: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new(tools_dir().join("kubectl")).arg("--kubeconfig").arg(kubeconfig).args(args).output();
    let output = output.context("cannot run kubectl: run `make tools`")?;
    let said = if output.status.success() { output.stdout } else { output.stderr };
    Ok(String::from_utf8_lossy(&said).into_owned())
}

fn state_file() -> PathBuf {
    checkout().join("target/lab")
}

/// The control plane that `up` started, if its supervisor still lives.
fn running() -> Result<Option<Running>> {
    let Ok(text) = fs::read_to_string(state_file()) else { return Ok(None) };
    let mut lines = text.lines();
    let pid = lines.next().and_then(|line| line.parse().ok()).and_then(Pid::from_raw);
    let (Some(supervisor), Some(dir)) = (pid, lines.next()) else {
        bail!("{} is damaged; remove it", state_file().display());
    };
    let dir = PathBuf::from(dir);
    // The directory tells a reused process id from ours.
    Ok((!owner::is_gone(supervisor) && dir.exists()).then_some(Running { supervisor, dir }))
}
