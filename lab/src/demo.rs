//! The README's first command: the operator at work on a real control plane, from nothing to a healed Service.
//!
//! Every step says in one line what it does and how long it took. A step that does not happen ends the demo with an
//! error. On a terminal the demo stays up for a person to play with; elsewhere it ends by itself.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

use crate::{ControlPlane, checkout, guard, owner, tools_dir};

const PATIENCE: Duration = Duration::from_secs(60);
const SAMPLE: &str = "config/samples/demo_v1alpha1_nginx.yaml";

pub fn run() -> Result<()> {
    owner::exit_with_it();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            result = show() => result,
            () = interrupted() => Ok(()),
        }
    })
}

async fn interrupted() {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return;
    };
    tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
    println!();
}

/// The stage: a control plane and, later, the operator. Everything ends when it is dropped.
struct Stage {
    control_plane: ControlPlane,
    operator: Option<Child>,
}

async fn show() -> Result<()> {
    let control_plane = step("start a control plane (etcd, API server, controllers, kwok)", async {
        tokio::task::spawn_blocking(ControlPlane::start).await?
    });
    let mut stage = Stage { control_plane: control_plane.await?, operator: None };
    step("install the CRD of the kind Nginx", async {
        stage.kubectl(&["apply", "-k", "config/crd"])?;
        stage.kubectl(&["wait", "--for=condition=Established", "crd/nginxes.demo.chartwright.dev"])
    })
    .await?;
    step("run the operator", async { stage.start_operator() }).await?;
    step("apply a sample Nginx and wait until its pods are ready", install(&stage)).await?;
    step("set spec.replicaCount to 3; the Deployment follows", edit_replicas(&stage)).await?;
    step("set spec.page; the ConfigMap follows", edit_page(&stage)).await?;
    step("delete the Service; it comes back", heal(&stage)).await?;
    println!();
    stage.show_result()?;
    println!("\nEverything happened as it should.");
    if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        stage.invite();
        std::future::pending::<()>().await;
    }
    Ok(())
}

async fn install(stage: &Stage) -> Result<()> {
    stage.kubectl(&["apply", "-f", SAMPLE])?;
    let ready = r#"jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
    stage.until("the Nginx to be ready", &["get", "nginx", NAME, "-o", ready], "True").await
}

async fn edit_replicas(stage: &Stage) -> Result<()> {
    stage.kubectl(&["patch", "nginx", NAME, "--type=merge", "-p", r#"{"spec":{"replicaCount":3}}"#])?;
    stage.until("three replicas", &["get", "deployment", NAME, "-o", "jsonpath={.spec.replicas}"], "3").await
}

async fn edit_page(stage: &Stage) -> Result<()> {
    stage.kubectl(&["patch", "nginx", NAME, "--type=merge", "-p", r#"{"spec":{"page":"<h1>A new page</h1>"}}"#])?;
    let page = ["get", "configmap", NAME, "-o", r"jsonpath={.data.index\.html}"];
    stage.until("the new page", &page, "<h1>A new page</h1>").await
}

async fn heal(stage: &Stage) -> Result<()> {
    let uid = ["get", "service", NAME, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}"];
    let before = stage.kubectl(&uid)?;
    stage.kubectl(&["delete", "service", NAME, "--wait=false"])?;
    stage.poll("the Service to come back", &uid, |now| !now.is_empty() && now != before).await
}

const NAME: &str = "hello";

/// Says what is done, does it, says how long it took.
async fn step<T>(what: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    print!("{what:<66}");
    std::io::stdout().flush()?;
    let started = Instant::now();
    let result = work.await;
    match &result {
        Ok(_) => println!("{:>7.2} s", started.elapsed().as_secs_f32()),
        Err(_) => println!(" failed"),
    }
    result
}

impl Stage {
    fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.tool("kubectl", args)
    }

    fn tool(&self, name: &str, args: &[&str]) -> Result<String> {
        let output = Command::new(tools_dir().join(name))
            .args(args)
            .env("KUBECONFIG", self.control_plane.kubeconfig())
            .current_dir(checkout())
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run {name}: run `make tools`"))?;
        if !output.status.success() {
            bail!("{name} {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn log_file(&self) -> PathBuf {
        self.control_plane.dir().join("operator.log")
    }

    fn start_operator(&mut self) -> Result<()> {
        let program = operator_program()?;
        let log = File::create(self.log_file())?;
        let child = guard::command(program)?
            .args(["run", "--metrics-bind-address=0", "--health-probe-bind-address=0", "--helm"])
            .arg(tools_dir().join("helm"))
            .env("KUBECONFIG", self.control_plane.kubeconfig())
            .current_dir(checkout())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        self.operator = Some(child);
        Ok(())
    }

    async fn until(&self, what: &str, kubectl: &[&str], wanted: &str) -> Result<()> {
        self.poll(what, kubectl, |now| now == wanted).await
    }

    async fn poll(&self, what: &str, kubectl: &[&str], enough: impl Fn(&str) -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let now = self.kubectl(kubectl);
            if now.as_deref().is_ok_and(&enough) {
                return Ok(());
            }
            if Instant::now() > deadline {
                let seen = now.unwrap_or_else(|error| error.to_string());
                bail!("waited {PATIENCE:?} for {what}; saw {seen:?}\nthe operator's log:\n{}", tail(&self.log_file()));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn show_result(&self) -> Result<()> {
        println!("{}\n", self.kubectl(&["get", "nginx"])?);
        println!(
            "{}",
            self.kubectl(&[
                "get",
                "deployment,service,configmap,serviceaccount,poddisruptionbudget",
                "-lchartwright.dev/release"
            ])?
        );
        let releases = self.tool("helm", &["list"])?;
        if releases.lines().count() > 1 {
            println!("\n{releases}");
        }
        Ok(())
    }

    fn invite(&self) {
        let dir = self.control_plane.dir().display();
        println!("\nNow it is yours. In another terminal:\n");
        println!("  export KUBECONFIG={dir}/kubeconfig PATH={}:$PATH", tools_dir().display());
        println!("  kubectl get nginx");
        println!("  kubectl edit nginx {NAME}");
        println!("  kubectl scale deployment {NAME} --replicas=9");
        println!("  tail -f {dir}/operator.log");
        println!("\nCtrl-C ends everything.");
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(operator) = &mut self.operator {
            // It may have ended by itself.
            let _ = operator.kill();
            let _ = operator.wait();
        }
    }
}

/// Built beside this program.
fn operator_program() -> Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name("chartwright");
    if !program.is_file() {
        bail!("{} is missing: run `cargo build`", program.display());
    }
    Ok(program)
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}
